//! What a runtime has to offer: a device, links to it, and streams over them. The engine knows nothing else of OpenCL and CUDA.

use core::ops::Range;
use std::time::Duration;

use crate::arena::Hold;
pub(crate) use crate::arena::{Direct, PinnedMemory};
use crate::program::Program;
pub(crate) use crate::trouble::{KEYS_LEN_MAX, Result, Trouble};

/// Work items of a group, on every device: the DES kernels lay out local memory for as many.
pub(crate) const GROUP: usize = 64;

/// What is known of a device.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    /// `opencl` or `cuda`.
    pub(crate) runtime: &'static str,
    /// Device, driver and their versions in words.
    pub(crate) words: String,
}

/// One kernel launch over a packed batch.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The program that the kernel is part of.
    pub(crate) program: Program,
    /// The kernel's name within it.
    pub(crate) kernel: &'static str,
    /// Groups of [`GROUP`] work items.
    pub(crate) groups: usize,
    /// Bytes of the staging buffer that are copied in, from its start.
    pub(crate) input_len: usize,
    /// Bytes of it that are copied out.
    pub(crate) output: Range<usize>,
    /// Bytes of the device's memory that the kernel works on, from the same start: what is copied in and out, and what
    /// work items have to themselves behind it. All of it is wiped behind the launch.
    pub(crate) memory_len: usize,
    /// Groups of the kernels that take columns apart before this one and put them together behind it; `None` for batches
    /// that the host has packed.
    pub(crate) column_groups: Option<usize>,
}

impl Launch {
    /// The kernels that are launched one behind the other, each with its groups.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (Program, &'static str, usize)> {
        let around = |kernel| self.column_groups.map(|groups| (Program::Columns, kernel, groups));
        let own = (self.program, self.kernel, self.groups);
        around("spread").into_iter().chain([own]).chain(around("collect"))
    }
}

/// What of a launch goes between arenas and the device by itself.
#[derive(Debug, Default)]
pub(crate) struct DirectCopies {
    /// To the device.
    pub(crate) input: Option<Direct>,
    /// From it.
    pub(crate) output: Option<Direct>,
}

/// The same as an address, which lies in the memory that is held.
#[derive(Clone, Copy)]
pub(crate) struct Moved {
    pub(crate) host: *mut u8,
    pub(crate) len: usize,
    pub(crate) at: usize,
}

impl Direct {
    /// The address, if all bytes lie where they should: in the held memory, and on the device behind what is copied in
    /// and within what the launch works on.
    fn checked(&self, launch: &Launch) -> Option<Moved> {
        let end = self.at.checked_add(self.len)?;
        let fits = (launch.input_len..=launch.memory_len).contains(&self.at) && end <= launch.memory_len;
        let host = self.hold.address(self.host, self.len)?;
        fits.then_some(Moved { host, len: self.len, at: self.at })
    }
}

impl DirectCopies {
    /// The addresses of input and output; `None` when not all bytes lie where they should.
    pub(crate) fn checked(&self, launch: &Launch) -> Option<[Option<Moved>; 2]> {
        let [input, output] = [&self.input, &self.output].map(|copy| copy.as_ref().map(|copy| copy.checked(launch)));
        let lost = |moved: &Option<Option<Moved>>| matches!(moved, Some(None));
        (!lost(&input) && !lost(&output)).then(|| [input.flatten(), output.flatten()])
    }

    /// What keeps the memory of both where it is.
    pub(crate) fn holds(self) -> Vec<Hold> {
        [self.input, self.output].into_iter().flatten().map(|copy| copy.hold).collect()
    }
}

/// A device with its memory for prepared keys. A program is built when a launch first needs it.
pub(crate) trait Device: Send + Sync {
    /// What it is.
    fn description(&self) -> &Description;

    /// Opens a link to the device: one for each queue.
    fn link(&self) -> Result<Box<dyn Link>>;

    /// Zeroed memory of this process that the device copies from and to by itself.
    fn pinned(&self, len: usize) -> Result<Box<dyn PinnedMemory>>;

    /// Writes a prepared key, or several that lie one behind the other; they are there on return.
    fn write_keys(&self, at: usize, bytes: &[u8]) -> Result<()>;

    /// Overwrites prepared keys with zeros; they are gone on return.
    fn wipe_keys(&self, at: usize, len: usize) -> Result<()>;
}

/// What the streams of one queue share: a line for copies to the device and one for copies from it, so that a share goes
/// in while another comes out. Kernels run in a line of their stream's own, because one share seldom fills a device.
pub(crate) trait Link: Send {
    /// Opens a stream.
    fn stream(&self) -> Result<Box<dyn Stream>>;

    /// Times turns of `copies` copies between pinned memory and the device, `len` bytes each, the ways that are asked for at
    /// the same time. Nothing else of the queue's may be under way.
    fn time_copies(&self, ways: Ways, len: usize, copies: usize, turns: usize) -> Result<Vec<Duration>>;
}

/// Which ways copies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ways {
    In,
    Out,
    Both,
}

impl Ways {
    pub(crate) fn has_in(self) -> bool {
        self != Ways::Out
    }

    pub(crate) fn has_out(self) -> bool {
        self != Ways::In
    }
}

/// One slot of a queue: copy in, compute, copy out, wipe, in this order. One launch at a time; several streams overlap.
pub(crate) trait Stream: Send {
    /// The staging buffer with room for `len` bytes. What is in there is zero or of no meaning. Nothing may be under way.
    fn staging(&mut self, len: usize) -> Result<&mut [u8]>;

    /// Sets off a launch and returns at once. What is on the device is wiped behind it.
    fn start(&mut self, launch: &Launch) -> Result<()>;

    /// The same, with bytes that do not go through the staging buffer. They belong to the device until `finish`.
    fn start_direct(&mut self, launch: &Launch, copies: DirectCopies) -> Result<()>;

    /// Sets off a launch whose kernel works on the staging buffer itself, across the link: nothing is copied. The buffer
    /// must have room for all of the launch's memory.
    fn start_mapped(&mut self, launch: &Launch) -> Result<()>;

    /// Waits for the launch and gives the staging buffer with its output.
    fn finish(&mut self) -> Result<&[u8]>;

    /// Wipes the staging buffer, as far as it was used.
    fn wipe(&mut self);
}
