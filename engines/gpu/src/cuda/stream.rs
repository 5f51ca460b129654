//! A queue's lines of work on a CUDA device. Copies in and copies out have a CUDA stream each, which a queue's slots share:
//! the link goes one way at a time for each, whoever asks. Kernels have a stream of their slot's own. Events alone say
//! what comes before what.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ciphermill_contract::ArenaBuffer as _;
use cudarc::driver::{result, sys};

use super::context::Shared;
use super::pinned::Pinned;
use crate::arena::Hold;
use crate::device::{DirectCopies, GROUP, Launch, Link, PinnedMemory as _, Result, Stream, Trouble, Ways};

/// The two lines that the slots of a queue share.
struct Lanes {
    shared: Arc<Shared>,
    copy_in: sys::CUstream,
    copy_out: sys::CUstream,
}

// SAFETY: streams may be used from any thread that has made their context current, which every method does first.
unsafe impl Send for Lanes {}
// SAFETY: as above; the driver's calls lock what they share.
unsafe impl Sync for Lanes {}

fn new_stream() -> Result<sys::CUstream> {
    Ok(result::stream::create(result::stream::StreamKind::NonBlocking)?)
}

impl Drop for Lanes {
    fn drop(&mut self) {
        if self.shared.enter().is_err() {
            return;
        }
        for stream in [self.copy_in, self.copy_out] {
            if !stream.is_null() {
                // SAFETY: `open` made it, and no slot is left that uses it.
                let _ = unsafe { result::stream::destroy(stream) };
            }
        }
    }
}

/// A link of one queue.
pub(super) struct CudaLink(Arc<Lanes>);

impl CudaLink {
    pub(super) fn open(shared: &Arc<Shared>) -> Result<CudaLink> {
        shared.enter()?;
        let null = std::ptr::null_mut;
        let mut lanes = Lanes { shared: Arc::clone(shared), copy_in: null(), copy_out: null() };
        lanes.copy_in = new_stream()?;
        lanes.copy_out = new_stream()?;
        Ok(CudaLink(Arc::new(lanes)))
    }
}

impl Link for CudaLink {
    fn stream(&self) -> Result<Box<dyn Stream>> {
        self.0.shared.enter()?;
        let none: sys::CUevent = std::ptr::null_mut();
        let mut slot = CudaStream {
            lanes: Arc::clone(&self.0),
            compute: std::ptr::null_mut(),
            copied_in: none,
            computed: none,
            copied_out: none,
            wiped: none,
            memory: None,
            dirty: 0,
            staging: None,
            used: 0,
            waits: Waits::Nothing,
            holds: Vec::new(),
        };
        let quiet = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        let event = |flags: u32| {
            let mut event = none;
            // SAFETY: `event` is writable, and the context is current.
            unsafe { sys::cuEventCreate(&raw mut event, flags) }.result().map(|()| event)
        };
        slot.compute = new_stream()?;
        slot.copied_in = event(quiet)?;
        slot.wiped = event(quiet)?;
        // Threads wait for these two, and give up the core meanwhile.
        let awaited = quiet | sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32;
        slot.computed = event(awaited)?;
        slot.copied_out = event(awaited)?;
        Ok(Box::new(slot))
    }

    fn time_copies(&self, ways: Ways, len: usize, copies: usize, turns: usize) -> Result<Vec<Duration>> {
        let Lanes { shared, copy_in, copy_out } = &*self.0;
        shared.enter()?;
        let (outgoing, mut incoming) = (Pinned::new(shared, len)?, Pinned::new(shared, len)?);
        let (to, from) = (Memory::new(len)?, Memory::new(len)?);
        let turn = |_| {
            let begun = Instant::now();
            // SAFETY: all memory has `len` bytes and outlives both lines' work, which is waited for below.
            unsafe {
                for _ in 0..copies {
                    if ways.has_in() {
                        result::memcpy_htod_async(to.0, outgoing.bytes(), *copy_in)?;
                    }
                    if ways.has_out() {
                        result::memcpy_dtoh_async(incoming.bytes_mut(), from.0, *copy_out)?;
                    }
                }
                result::stream::synchronize(*copy_in)?;
                result::stream::synchronize(*copy_out)?;
            }
            Ok(begun.elapsed())
        };
        let times = (0..turns).map(turn).collect();
        // After a failure only empty lines say that nothing is copied any more.
        // SAFETY: the streams live as long as this value.
        unsafe {
            result::stream::synchronize(*copy_in)?;
            result::stream::synchronize(*copy_out)?;
        }
        times
    }
}

/// Memory on the device that holds nothing secret.
struct Memory(sys::CUdeviceptr);

impl Memory {
    fn new(len: usize) -> Result<Memory> {
        // SAFETY: whoever measures has made the context current.
        Ok(Memory(unsafe { result::malloc_sync(len)? }))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the driver gave it; freeing waits for what uses it.
        let _ = unsafe { result::free_sync(self.0) };
    }
}

/// What has to end before the staging buffer is the host's again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Nothing,
    /// A launch that was set off whole.
    Event(sys::CUevent),
    /// One that was not: whatever there is of it in the lines.
    Lines,
}

/// A slot: a buffer on the device, a pinned one here, and a line for kernels.
struct CudaStream {
    lanes: Arc<Lanes>,
    compute: sys::CUstream,
    copied_in: sys::CUevent,
    computed: sys::CUevent,
    copied_out: sys::CUevent,
    wiped: sys::CUevent,
    memory: Option<(sys::CUdeviceptr, usize)>,
    /// Bytes of the device's buffer that may hold data and that nothing in the lines wipes.
    dirty: usize,
    staging: Option<Pinned>,
    /// Bytes of the staging buffer that are not zero.
    used: usize,
    waits: Waits,
    /// The arenas that a launch copies from and to.
    holds: Vec<Hold>,
}

// SAFETY: the buffers belong to this value alone, and the driver's objects may be used from any thread.
unsafe impl Send for CudaStream {}

impl CudaStream {
    /// Waits until the staging buffer is the host's.
    fn wait(&mut self) -> Result<()> {
        self.lanes.shared.enter()?;
        match self.waits {
            Waits::Nothing => return Ok(()),
            // SAFETY: the event is this value's own and was recorded. The last event of a launch comes behind all that
            // touches the staging buffer. On failure the buffer stays the device's.
            Waits::Event(event) => unsafe { result::event::synchronize(event)? },
            Waits::Lines => self.drain()?,
        }
        self.waits = Waits::Nothing;
        self.holds.clear();
        Ok(())
    }

    /// Waits until the lines are empty.
    fn drain(&self) -> Result<()> {
        for stream in [self.lanes.copy_in, self.compute, self.lanes.copy_out] {
            // SAFETY: the streams live as long as this value.
            unsafe { result::stream::synchronize(stream)? };
        }
        // What was copied out is wiped behind it.
        // SAFETY: as above.
        unsafe { result::stream::synchronize(self.compute)? };
        Ok(())
    }

    /// Frees the device's buffer, wiped; nothing may be under way but its wiping.
    fn free_memory(&mut self) -> Result<()> {
        let Some((start, _)) = self.memory.take() else { return Ok(()) };
        // SAFETY: the driver gave the memory, `dirty` bytes of it at least, and nothing uses it once the line is empty.
        unsafe {
            let dirty = std::mem::take(&mut self.dirty);
            if dirty > 0 {
                result::memset_d8_async(start, 0, dirty, self.compute)?;
            }
            result::stream::synchronize(self.compute)?;
            result::free_sync(start)?;
        }
        Ok(())
    }

    /// Sees to it that there are `len` bytes on the device; nothing may be under way.
    fn reserve(&mut self, len: usize) -> Result<sys::CUdeviceptr> {
        if let Some((start, room)) = self.memory
            && room >= len
        {
            return Ok(start);
        }
        self.free_memory()?;
        let room = len.next_power_of_two();
        // SAFETY: the context is current.
        let start = unsafe { result::malloc_sync(room)? };
        self.memory = Some((start, room));
        Ok(start)
    }

    /// A launch's kernels with their groups, built.
    fn functions(&self, launch: &Launch) -> Result<Vec<(sys::CUfunction, u32)>> {
        let function = |(program, kernel, groups)| {
            let groups = u32::try_from(groups).map_err(|_| Trouble::Absent)?;
            Ok((self.lanes.shared.kernel(program, kernel)?, groups))
        };
        launch.steps().map(function).collect()
    }

    fn launch(&mut self, functions: &[(sys::CUfunction, u32)], mut buffer: sys::CUdeviceptr) -> Result<()> {
        let mut keys = self.lanes.shared.keys;
        for (function, groups) in functions {
            let mut arguments: [*mut c_void; 2] = [(&raw mut buffer).cast(), (&raw mut keys).cast()];
            let (grid, group) = ((*groups, 1, 1), (GROUP as u32, 1, 1));
            // SAFETY: both arguments are addresses on the device, as every kernel has them, and are read before the call
            // returns; the function's module lives as long as the device.
            unsafe { result::launch_kernel(*function, grid, group, 0, self.compute, &mut arguments)? };
        }
        Ok(())
    }

    /// Everything of a launch, in the three lines. From its first copy on it is the device's until `wait`.
    fn enqueue(&mut self, launch: &Launch, copies: DirectCopies) -> Result<()> {
        self.wait()?;
        let functions = self.functions(launch)?;
        let [moved_in, moved_out] = copies.checked(launch).ok_or_else(invalid)?;
        let Some(staging) = self.staging.as_ref().map(|staging| staging.start) else { return Err(Trouble::Absent) };
        let output = launch.output.clone();
        let len = launch.memory_len.max(launch.input_len).max(output.end);
        if launch.input_len.max(output.end) > self.used || output.start > output.end {
            return Err(invalid());
        }
        let memory = self.reserve(len)?;
        self.holds = copies.holds();
        self.waits = Waits::Lines;
        self.dirty = len;
        let (copy_in, compute, copy_out) = (self.lanes.copy_in, self.compute, self.lanes.copy_out);
        // SAFETY: streams and events are this value's or live as long. Copies lie within both buffers, or within the
        // arenas that `holds` keeps, as was checked. Neither is freed, and the staging buffer is not touched, until `wait` has
        // seen the last copy end; whoever started the launch has the arena exclusively until then.
        unsafe {
            // The device's buffer may still be wiped of the launch before; an event that was never recorded is over.
            wait_for(copy_in, self.wiped)?;
            let input = std::slice::from_raw_parts(staging, launch.input_len);
            result::memcpy_htod_async(memory, input, copy_in)?;
            if let Some(moved) = moved_in {
                let input = std::slice::from_raw_parts(moved.host, moved.len);
                result::memcpy_htod_async(memory + moved.at as u64, input, copy_in)?;
            }
            result::event::record(self.copied_in, copy_in)?;
            wait_for(compute, self.copied_in)?;
        }
        self.launch(&functions, memory)?;
        // SAFETY: as above.
        unsafe {
            result::event::record(self.computed, compute)?;
            wait_for(copy_out, self.computed)?;
            if !output.is_empty() {
                let out = std::slice::from_raw_parts_mut(staging.add(output.start), output.len());
                result::memcpy_dtoh_async(out, memory + output.start as u64, copy_out)?;
            }
            if let Some(moved) = moved_out {
                let out = std::slice::from_raw_parts_mut(moved.host, moved.len);
                result::memcpy_dtoh_async(out, memory + moved.at as u64, copy_out)?;
            }
            result::event::record(self.copied_out, copy_out)?;
            // Wiping keeps out of the way of other slots' copies.
            wait_for(compute, self.copied_out)?;
            result::memset_d8_async(memory, 0, len, compute)?;
            result::event::record(self.wiped, compute)?;
        }
        self.dirty = 0;
        self.waits = Waits::Event(self.copied_out);
        Ok(())
    }
}

/// Has a stream wait for an event.
///
/// # Safety
/// Both must be valid.
unsafe fn wait_for(stream: sys::CUstream, event: sys::CUevent) -> Result<()> {
    let plain = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
    // SAFETY: by the caller's promise.
    unsafe { result::stream::wait_event(stream, event, plain)? };
    Ok(())
}

fn invalid() -> Trouble {
    Trouble::Call(sys::CUresult::CUDA_ERROR_INVALID_VALUE as i64)
}

impl Stream for CudaStream {
    fn staging(&mut self, len: usize) -> Result<&mut [u8]> {
        self.wait()?;
        if self.staging.as_ref().is_none_or(|staging| staging.len < len) {
            self.wipe();
            self.staging = None;
            self.staging = Some(Pinned::new(&self.lanes.shared, len.next_power_of_two())?);
        }
        self.used = self.used.max(len);
        let staging = self.staging.as_mut().ok_or(Trouble::Absent)?;
        Ok(&mut staging.bytes_mut()[..len])
    }

    fn start(&mut self, launch: &Launch) -> Result<()> {
        self.enqueue(launch, DirectCopies::default())
    }

    fn start_direct(&mut self, launch: &Launch, copies: DirectCopies) -> Result<()> {
        self.enqueue(launch, copies)
    }

    fn start_mapped(&mut self, launch: &Launch) -> Result<()> {
        self.wait()?;
        let functions = self.functions(launch)?;
        let Some(buffer) = self.staging.as_ref().map(|staging| staging.device) else { return Err(Trouble::Absent) };
        if launch.memory_len.max(launch.input_len).max(launch.output.end) > self.used {
            return Err(invalid());
        }
        self.waits = Waits::Lines;
        self.launch(&functions, buffer)?;
        // SAFETY: event and stream are this value's own.
        unsafe { result::event::record(self.computed, self.compute)? };
        self.waits = Waits::Event(self.computed);
        Ok(())
    }

    fn finish(&mut self) -> Result<&[u8]> {
        self.wait()?;
        Ok(self.staging.as_ref().map_or(&[], |staging| staging.bytes()))
    }

    fn wipe(&mut self) {
        if self.wait().is_ok()
            && let Some(staging) = &mut self.staging
        {
            ciphermill_memory::wipe(&mut staging.bytes_mut()[..self.used]);
            self.used = 0;
        }
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        if self.waits != Waits::Nothing {
            self.waits = Waits::Lines;
        }
        if self.wait().is_ok() {
            self.wipe();
            if self.free_memory().is_err() {
                tracing::error!("gpu: a stream's memory could not be freed");
            }
        } else {
            // The device may still write: what it writes to is not freed before the context, as its own memory is.
            let used = self.used;
            self.staging.take().into_iter().for_each(|staging| Box::new(staging).abandon(used));
            self.holds.drain(..).for_each(Hold::forever);
        }
        // SAFETY: all of them were made by `stream` and are not used any more; those that are null were not made.
        unsafe {
            for event in [self.copied_in, self.computed, self.copied_out, self.wiped] {
                if !event.is_null() {
                    let _ = result::event::destroy(event);
                }
            }
            if !self.compute.is_null() {
                let _ = result::stream::destroy(self.compute);
            }
        }
    }
}
