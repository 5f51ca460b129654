//! A queue's lines of work on an OpenCL device, as in `cuda/stream.rs`: in-order queues for copies in and for copies out,
//! which a queue's slots share, and one for kernels of each slot. Events alone say what comes before what.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ciphermill_contract::ArenaBuffer as _;
use opencl3::command_queue::CommandQueue;
use opencl3::event::Event;
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE, ClMem};
use opencl3::types::{CL_NON_BLOCKING, cl_mem};

use super::context::{Shared, queue};
use super::pinned::Pinned;
use crate::arena::Hold;
use crate::device::{DirectCopies, GROUP, Launch, Link, Moved, Result, Stream, Trouble, Ways};
use crate::program::Program;

/// The two lines that the slots of a queue share.
struct Lanes {
    copy_in: CommandQueue,
    copy_out: CommandQueue,
    shared: Arc<Shared>,
}

/// A link of one queue.
pub(super) struct ClLink(Arc<Lanes>);

impl ClLink {
    pub(super) fn open(shared: &Arc<Shared>) -> Result<ClLink> {
        let (copy_in, copy_out) = (queue(&shared.context)?, queue(&shared.context)?);
        Ok(ClLink(Arc::new(Lanes { copy_in, copy_out, shared: Arc::clone(shared) })))
    }
}

impl Link for ClLink {
    fn stream(&self) -> Result<Box<dyn Stream>> {
        Ok(Box::new(ClStream {
            compute: queue(&self.0.shared.context)?,
            memory: None,
            dirty: 0,
            kernels: HashMap::new(),
            staging: None,
            used: 0,
            waits: Waits::Nothing,
            wiped: None,
            holds: Vec::new(),
            lanes: Arc::clone(&self.0),
        }))
    }

    fn time_copies(&self, ways: Ways, len: usize, copies: usize, turns: usize) -> Result<Vec<Duration>> {
        let Lanes { copy_in, copy_out, shared } = &*self.0;
        let (outgoing, mut incoming) = (Pinned::new(shared, len)?, Pinned::new(shared, len)?);
        // SAFETY: no host pointer is given; the buffers' memory is the runtime's own.
        let buffer = || unsafe { Buffer::<u8>::create(&shared.context, CL_MEM_READ_WRITE, len, ptr::null_mut()) };
        let (mut to, from) = (buffer()?, buffer()?);
        let mut turn = |_| -> Result<Duration> {
            let begun = Instant::now();
            for _ in 0..copies {
                // SAFETY: all memory has `len` bytes and outlives both lines' work, which is waited for below.
                unsafe {
                    if ways.has_in() {
                        copy_in.enqueue_write_buffer(&mut to, CL_NON_BLOCKING, 0, outgoing.bytes(), &[])?;
                    }
                    if ways.has_out() {
                        copy_out.enqueue_read_buffer(&from, CL_NON_BLOCKING, 0, incoming.bytes_mut(), &[])?;
                    }
                }
            }
            copy_in.flush()?;
            copy_out.flush()?;
            copy_in.finish()?;
            copy_out.finish()?;
            Ok(begun.elapsed())
        };
        let times = (0..turns).map(&mut turn).collect();
        // After a failure only empty lines say that nothing is copied any more.
        copy_in.finish()?;
        copy_out.finish()?;
        times
    }
}

/// What has to end before the staging buffer is the host's again.
enum Waits {
    Nothing,
    /// A launch that was set off whole.
    Event(Event),
    /// The same in the staging buffer itself: it is the host's when it is mapped again.
    Mapped(Event),
    /// One that was not, or that failed: whatever there is of it in the lines.
    Lines,
}

/// A slot: a buffer on the device, a pinned one here, and a line for kernels.
struct ClStream {
    compute: CommandQueue,
    memory: Option<(Buffer<u8>, usize)>,
    /// Bytes of the device's buffer that may hold data and that nothing in the lines wipes.
    dirty: usize,
    kernels: HashMap<(Program, &'static str), Kernel>,
    staging: Option<Pinned>,
    /// Bytes of the staging buffer that are not zero.
    used: usize,
    waits: Waits,
    /// The end of the last launch's wiping.
    wiped: Option<Event>,
    /// The arenas that a launch copies from and to.
    holds: Vec<Hold>,
    lanes: Arc<Lanes>,
}

// SAFETY: OpenCL calls may come from any thread (OpenCL 1.2, A.2), except that one kernel object may not be used by two at
// a time; the kernels here are this stream's own, and every method takes it exclusively.
unsafe impl Send for ClStream {}

impl ClStream {
    /// Waits until the staging buffer is the host's.
    fn wait(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.waits, Waits::Nothing) {
            Waits::Nothing => return Ok(()),
            Waits::Event(event) => {
                if let Err(error) = event.wait() {
                    // The launch has failed, but the runtime may still write: only empty lines say that it does not.
                    self.waits = Waits::Lines;
                    return Err(error.into());
                }
            }
            Waits::Mapped(event) => {
                if let Err(error) = event.wait() {
                    self.waits = Waits::Lines;
                    self.staging.iter_mut().for_each(Pinned::lose);
                    return Err(error.into());
                }
            }
            Waits::Lines => {
                self.waits = Waits::Lines;
                self.drain()?;
                self.waits = Waits::Nothing;
            }
        }
        self.holds.clear();
        Ok(())
    }

    /// Waits until the lines are empty.
    fn drain(&self) -> Result<()> {
        for queue in [&self.lanes.copy_in, &self.compute, &self.lanes.copy_out, &self.compute] {
            queue.finish()?;
        }
        Ok(())
    }

    /// Frees the device's buffer, wiped; nothing may be under way but its wiping.
    fn free_memory(&mut self) -> Result<()> {
        self.wiped = None;
        let Some((mut buffer, _)) = self.memory.take() else { return Ok(()) };
        let dirty = std::mem::take(&mut self.dirty);
        if dirty > 0 {
            // SAFETY: the pattern is copied by the call, and the range is the buffer's.
            unsafe { self.compute.enqueue_fill_buffer(&mut buffer, &[0u8], 0, dirty, &[])? };
        }
        Ok(self.compute.finish()?)
    }

    /// Sees to it that there are `len` bytes on the device; nothing may be under way.
    fn reserve(&mut self, len: usize) -> Result<()> {
        if self.memory.as_ref().is_none_or(|(_, room)| *room < len) {
            self.free_memory()?;
            let room = len.next_power_of_two();
            // SAFETY: no host pointer is given; the buffer's memory is the runtime's own.
            let buffer =
                unsafe { Buffer::<u8>::create(&self.lanes.shared.context, CL_MEM_READ_WRITE, room, ptr::null_mut())? };
            self.memory = Some((buffer, room));
        }
        Ok(())
    }

    /// Sees to it that a launch's kernels are there.
    fn build(&mut self, launch: &Launch) -> Result<()> {
        for (program, kernel, _) in launch.steps() {
            if let Entry::Vacant(place) = self.kernels.entry((program, kernel)) {
                place.insert(self.lanes.shared.kernel(program, kernel)?);
            }
        }
        Ok(())
    }

    /// Puts a launch's kernels in this slot's line, behind an event if one is given. The event of the last one comes back.
    fn launch(&self, launch: &Launch, buffer: cl_mem, behind: Option<&Event>) -> Result<Event> {
        let behind: Vec<_> = behind.map(Event::get).into_iter().collect();
        let mut last = Err(Trouble::Absent);
        for (program, kernel, groups) in launch.steps() {
            let Some(kernel) = self.kernels.get(&(program, kernel)) else { return Err(Trouble::Absent) };
            let (items, group) = ([groups * GROUP], [GROUP]);
            // SAFETY: both arguments are buffers, as every kernel has them, and live until the line is empty; both lengths
            // are of one dimension. The line works in order.
            last = Ok(unsafe {
                kernel.set_arg(0, &buffer)?;
                kernel.set_arg(1, &self.lanes.shared.keys_handle.0)?;
                let (offsets, items, group) = (ptr::null(), items.as_ptr(), group.as_ptr());
                self.compute.enqueue_nd_range_kernel(kernel.get(), 1, offsets, items, group, &behind)?
            });
        }
        last
    }

    /// Everything of a launch, in the three lines. From its first copy on it is the device's until `wait`.
    fn enqueue(&mut self, launch: &Launch, copies: DirectCopies) -> Result<()> {
        self.wait()?;
        self.build(launch)?;
        let [moved_in, moved_out] = copies.checked(launch).ok_or_else(invalid)?;
        let output = launch.output.clone();
        let len = launch.memory_len.max(launch.input_len).max(output.end);
        if launch.input_len.max(output.end) > self.used || output.start > output.end {
            return Err(invalid());
        }
        self.reserve(len)?;
        let lanes = Arc::clone(&self.lanes);
        let Some(staging) = self.staging.as_ref().map(|staging| staging.start) else { return Err(Trouble::Absent) };
        let wiped = self.wiped.take();
        self.holds = copies.holds();
        self.waits = Waits::Lines;
        self.dirty = len;
        let Some((buffer, _)) = &mut self.memory else { return Err(Trouble::Absent) };
        let handle = buffer.get();
        // SAFETY: copies lie within both buffers, or within the arenas that `holds` keeps, as was checked. Neither is freed, and
        // the staging buffer is not touched, until `wait` has seen the last copy end; whoever started the launch has
        // the arena exclusively until then.
        let copied_in = unsafe {
            let behind: Vec<_> = wiped.iter().map(Event::get).collect();
            let input = std::slice::from_raw_parts(staging, launch.input_len);
            let mut last = lanes.copy_in.enqueue_write_buffer(buffer, CL_NON_BLOCKING, 0, input, &behind)?;
            if let Some(moved) = moved_in {
                let input = std::slice::from_raw_parts(moved.host, moved.len);
                last = lanes.copy_in.enqueue_write_buffer(buffer, CL_NON_BLOCKING, moved.at, input, &[])?;
            }
            last
        };
        // Nothing may wait for what has not been handed to the device.
        lanes.copy_in.flush()?;
        let computed = self.launch(launch, handle, Some(&copied_in))?;
        self.compute.flush()?;
        let copied_out = self.copy_out(&lanes.copy_out, staging, output, moved_out, &computed)?;
        lanes.copy_out.flush()?;
        if let Some((buffer, _)) = &mut self.memory {
            // Wiping keeps out of the way of other slots' copies.
            // SAFETY: the pattern is copied by the call; the range is the buffer's, and nothing else is done to it.
            let wiped = unsafe { self.compute.enqueue_fill_buffer(buffer, &[0u8], 0, len, &[copied_out.get()])? };
            self.wiped = Some(wiped);
        }
        self.compute.flush()?;
        self.dirty = 0;
        self.waits = Waits::Event(copied_out);
        Ok(())
    }

    /// The copies out of a launch, behind its kernel.
    fn copy_out(
        &mut self,
        line: &CommandQueue,
        staging: *mut u8,
        output: core::ops::Range<usize>,
        moved: Option<Moved>,
        computed: &Event,
    ) -> Result<Event> {
        let Some((buffer, _)) = &self.memory else { return Err(Trouble::Absent) };
        let mut last = None;
        // SAFETY: as in `enqueue`, which has checked the ranges.
        unsafe {
            if let Some(moved) = moved {
                let out = std::slice::from_raw_parts_mut(moved.host, moved.len);
                last = Some(line.enqueue_read_buffer(buffer, CL_NON_BLOCKING, moved.at, out, &[computed.get()])?);
            }
            if !output.is_empty() {
                let out = std::slice::from_raw_parts_mut(staging.add(output.start), output.len());
                last = Some(line.enqueue_read_buffer(buffer, CL_NON_BLOCKING, output.start, out, &[computed.get()])?);
            }
        }
        // The line works in order: the last copy's end is that of all.
        last.ok_or_else(invalid)
    }
}

fn invalid() -> Trouble {
    Trouble::Call(i64::from(opencl3::error_codes::CL_INVALID_VALUE))
}

impl Stream for ClStream {
    fn staging(&mut self, len: usize) -> Result<&mut [u8]> {
        self.wait()?;
        if self.staging.as_ref().is_none_or(|staging| staging.len < len) {
            self.wipe();
            self.staging = None;
            self.staging = Some(Pinned::new(&self.lanes.shared, len.next_power_of_two())?);
        }
        self.used = self.used.max(len);
        let staging = self.staging.as_mut().ok_or(Trouble::Absent)?;
        staging.bytes_mut().get_mut(..len).ok_or(Trouble::Absent)
    }

    fn start(&mut self, launch: &Launch) -> Result<()> {
        self.enqueue(launch, DirectCopies::default())
    }

    fn start_direct(&mut self, launch: &Launch, copies: DirectCopies) -> Result<()> {
        self.enqueue(launch, copies)
    }

    /// The host gives the buffer up, the kernel works in it, and the host maps it anew: all in this slot's line.
    fn start_mapped(&mut self, launch: &Launch) -> Result<()> {
        self.wait()?;
        self.build(launch)?;
        if launch.memory_len.max(launch.input_len).max(launch.output.end) > self.used {
            return Err(invalid());
        }
        let Some(mut staging) = self.staging.take() else { return Err(Trouble::Absent) };
        self.waits = Waits::Lines;
        let mut work = || -> Result<Event> {
            staging.unmap(&self.compute)?;
            self.launch(launch, staging.buffer.get(), None)?;
            let mapped = staging.map(&self.compute, CL_NON_BLOCKING)?;
            self.compute.flush()?;
            Ok(mapped)
        };
        let outcome = work();
        if outcome.is_err() {
            staging.lose();
        }
        self.staging = Some(staging);
        self.waits = Waits::Mapped(outcome?);
        Ok(())
    }

    fn finish(&mut self) -> Result<&[u8]> {
        self.wait()?;
        Ok(self.staging.as_ref().map_or(&[], |staging| staging.bytes()))
    }

    fn wipe(&mut self) {
        if self.wait().is_ok()
            && let Some(bytes) = self.staging.as_mut().and_then(|staging| staging.bytes_mut().get_mut(..self.used))
        {
            ciphermill_memory::wipe(bytes);
            self.used = 0;
        }
    }
}

impl Drop for ClStream {
    fn drop(&mut self) {
        // A launch that failed leaves the lines to be waited for.
        if self.wait().is_ok() || self.wait().is_ok() {
            self.wipe();
            if self.free_memory().is_err() {
                tracing::error!("gpu: a stream's memory could not be wiped");
            }
        } else {
            // The runtime may still write there: what is never freed cannot be written to by mistake.
            std::mem::forget(self.staging.take());
            self.holds.drain(..).for_each(Hold::forever);
        }
    }
}
