//! Pinned memory.

use std::sync::Arc;

use ciphermill_contract::ArenaBuffer;
use cudarc::driver::{result, sys};

use super::context::Shared;
use crate::device::{PinnedMemory, Result};

/// Memory of this process that the device reaches: copies to and from it need nobody's help, and kernels can work in it.
pub(super) struct Pinned {
    shared: Arc<Shared>,
    pub(super) start: *mut u8,
    /// Where kernels find it.
    pub(super) device: sys::CUdeviceptr,
    pub(super) len: usize,
    /// Whether the context frees it when it ends, because the device may write to it until then.
    pub(super) abandoned: bool,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for Pinned {}

impl Pinned {
    /// Zeroed memory of `len` bytes.
    pub(super) fn new(shared: &Arc<Shared>, len: usize) -> Result<Pinned> {
        shared.enter()?;
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP | sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: the context is current; the memory is zeroed before anybody reads it.
        let start = unsafe {
            let start = result::malloc_host(len, flags)?.cast::<u8>();
            start.write_bytes(0, len);
            start
        };
        let mut pinned = Pinned { shared: Arc::clone(shared), start, device: 0, len, abandoned: false };
        // SAFETY: the memory was just given out for devices to map, and `device` is writable.
        unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut pinned.device, start.cast(), 0) }.result()?;
        Ok(pinned)
    }
}

impl PinnedMemory for Pinned {
    fn abandon(mut self: Box<Self>, used: usize) {
        for at in 0..used.min(self.len) {
            // SAFETY: the memory is there as long as the context, and no reference to it is left.
            unsafe { self.start.add(at).write_volatile(0) };
        }
        self.abandoned = true;
    }
}

impl ArenaBuffer for Pinned {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the driver gave as many bytes, which `new` zeroed; while the device writes to them their owner does not ask
        // for them.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has them.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.abandoned {
            return;
        }
        // SAFETY: the driver gave it, and its owners have seen to it that nothing is under way.
        if self.shared.enter().is_err() || unsafe { result::free_host(self.start.cast()) }.is_err() {
            tracing::error!("gpu: pinned memory could not be freed");
        }
    }
}
