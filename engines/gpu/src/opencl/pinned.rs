//! Pinned memory.

use std::ptr;
use std::sync::Arc;

use ciphermill_contract::ArenaBuffer;
use opencl3::command_queue::CommandQueue;
use opencl3::event::Event;
use opencl3::memory::{Buffer, CL_MAP_READ, CL_MAP_WRITE, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE, ClMem};
use opencl3::types::{CL_BLOCKING, cl_bool, cl_mem};

use super::context::Shared;
use crate::device::{PinnedMemory, Result};

/// Memory of this process that the device reaches: a buffer of the runtime's, seen by the host while it is mapped.
pub(super) struct Pinned {
    pub(super) buffer: Buffer<u8>,
    /// Null while a kernel works in the buffer.
    pub(super) start: *mut u8,
    pub(super) len: usize,
    shared: Arc<Shared>,
}

// SAFETY: the memory belongs to this value alone; OpenCL calls may come from any thread (OpenCL 1.2, A.2).
unsafe impl Send for Pinned {}

impl Pinned {
    /// Zeroed memory of `len` bytes, mapped.
    pub(super) fn new(shared: &Arc<Shared>, len: usize) -> Result<Pinned> {
        let flags = CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR;
        // SAFETY: no host pointer is given; the buffer's memory is the runtime's own.
        let buffer = unsafe { Buffer::<u8>::create(&shared.context, flags, len, ptr::null_mut())? };
        let mut pinned = Pinned { buffer, start: ptr::null_mut(), len, shared: Arc::clone(shared) };
        pinned.map(&shared.errands, CL_BLOCKING)?;
        // SAFETY: as many bytes were mapped to be written.
        unsafe { pinned.start.write_bytes(0, len) };
        Ok(pinned)
    }

    /// Maps the buffer in a queue. Its bytes may be touched once the event has passed.
    pub(super) fn map(&mut self, queue: &CommandQueue, blocking: cl_bool) -> Result<Event> {
        let mut start: cl_mem = ptr::null_mut();
        let (flags, len) = (CL_MAP_READ | CL_MAP_WRITE, self.len);
        // SAFETY: the range is the buffer's, and `start` is writable.
        let event = unsafe { queue.enqueue_map_buffer(&self.buffer, blocking, flags, 0, len, &mut start, &[])? };
        self.start = start.cast();
        Ok(event)
    }

    /// Forgets where the buffer was mapped: nobody can tell whether it is.
    pub(super) fn lose(&mut self) {
        self.start = ptr::null_mut();
    }

    /// Gives the buffer to the device until it is mapped anew.
    pub(super) fn unmap(&mut self, queue: &CommandQueue) -> Result<()> {
        let start = std::mem::replace(&mut self.start, ptr::null_mut());
        // SAFETY: the buffer is mapped there; nobody has its bytes any more.
        unsafe { queue.enqueue_unmap_mem_object(self.buffer.get(), start.cast(), &[])? };
        Ok(())
    }
}

impl ArenaBuffer for Pinned {
    fn bytes(&self) -> &[u8] {
        if self.start.is_null() {
            return &[];
        }
        // SAFETY: as many bytes are mapped there, which `new` zeroed; while the device writes to them their owner does not
        // ask for them.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        if self.start.is_null() {
            return &mut [];
        }
        // SAFETY: as above, and nobody else has them.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl PinnedMemory for Pinned {
    fn abandon(self: Box<Self>, used: usize) {
        if !self.start.is_null() {
            for at in 0..used.min(self.len) {
                // SAFETY: as many bytes are mapped there for good, and no reference to them is left.
                unsafe { self.start.add(at).write_volatile(0) };
            }
        }
        // The runtime frees buffers that work is left on when it pleases; this one it keeps.
        std::mem::forget(self);
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let queue = &self.shared.errands;
        let outcome = if self.start.is_null() {
            // A launch in the buffer failed; what it left cannot be seen from here.
            // SAFETY: the pattern is copied by the call, and the range is the buffer's.
            unsafe { queue.enqueue_fill_buffer(&mut self.buffer, &[0u8], 0, self.len, &[]) }.map(|_| ())
        } else {
            // SAFETY: the buffer is mapped there; its owners have seen to it that nothing is under way.
            unsafe { queue.enqueue_unmap_mem_object(self.buffer.get(), self.start.cast(), &[]) }.map(|_| ())
        };
        if outcome.is_err() || queue.finish().is_err() {
            tracing::error!("gpu: pinned memory could not be given back");
        }
    }
}
