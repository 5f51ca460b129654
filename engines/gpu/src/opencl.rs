//! The OpenCL runtime. The loader's library is opened at run time; a machine without one has no platforms.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU, Device as ClDevice};
use opencl3::error_codes::ClError;
use opencl3::event::Event;
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE, ClMem};
use opencl3::platform::get_platforms;
use opencl3::program::Program as ClProgram;
use opencl3::types::{CL_BLOCKING, CL_NON_BLOCKING, cl_mem};
use zeroize::Zeroize;

use crate::device::{Description, Device, GROUP, KEYS_LEN_MAX, Launch, Result, Stream, Trouble};
use crate::lazy::Lazy;
use crate::probe;
use crate::program::Program;

/// What kind of device is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A GPU or another accelerator.
    Hardware,
    /// The processor.
    Software,
}

impl From<ClError> for Trouble {
    fn from(error: ClError) -> Trouble {
        Trouble::Call(i64::from(error.0))
    }
}

/// Opens the first device of the wanted kind that can compile kernels.
pub(crate) fn open(wanted: Wanted) -> Result<Arc<dyn Device>> {
    if wanted == Wanted::Hardware && !probe::has_opencl(&probe::root()) {
        return Err(Trouble::Absent);
    }
    // No loader and no platform look alike from here, and mean the same.
    let platforms = get_platforms().map_err(|_| Trouble::Absent)?;
    for platform in platforms {
        for id in platform.get_devices(CL_DEVICE_TYPE_ALL).unwrap_or_default() {
            let device = ClDevice::new(id);
            let software = device.dev_type()? & CL_DEVICE_TYPE_CPU != 0;
            // Kernels read and write memory as little-endian words.
            let usable = device.available()? && device.compiler_available()? && device.endian_little()?;
            if usable && software == (wanted == Wanted::Software) {
                return Ok(Arc::new(OpenCl { shared: Arc::new(Shared::new(&device)?) }));
            }
        }
    }
    Err(Trouble::Absent)
}

/// A device through OpenCL.
struct OpenCl {
    shared: Arc<Shared>,
}

/// What all streams of a device share. Dropped after the last of them.
struct Shared {
    description: Description,
    programs: Lazy<Built>,
    /// The prepared keys, and the queue that writes them.
    keys: Mutex<(Buffer<u8>, CommandQueue)>,
    /// The same buffer as kernels are told of it.
    keys_handle: KeysHandle,
    context: Context,
}

/// The name of the keys' buffer. It is a number that the runtime gave out, and stays valid as long as the buffer beside it.
#[derive(Clone, Copy)]
struct KeysHandle(cl_mem);

// SAFETY: OpenCL objects may be named from any thread (OpenCL 1.2, A.2); setting a kernel argument only reads the name.
unsafe impl Send for KeysHandle {}
// SAFETY: as above.
unsafe impl Sync for KeysHandle {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is kept here is added to in single steps.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn new(device: &ClDevice) -> Result<Shared> {
        let words = format!("{}, {}", device.name()?.trim(), device.driver_version()?.trim());
        let context = Context::from_device(device)?;
        let queue = queue(&context)?;
        // SAFETY: no host pointer is given; the buffer's memory is the runtime's own.
        let buffer = unsafe { Buffer::<u8>::create(&context, CL_MEM_READ_WRITE, KEYS_LEN_MAX, ptr::null_mut())? };
        let keys_handle = KeysHandle(buffer.get());
        Ok(Shared {
            description: Description { runtime: "opencl", words },
            programs: Lazy::new(),
            keys: Mutex::new((buffer, queue)),
            keys_handle,
            context,
        })
    }

    /// A kernel of a program, which is built if nobody has used it before.
    fn kernel(&self, program: Program, name: &str) -> Result<Kernel> {
        let built = self.programs.get_or_build(program, || build(&self.context, program))?;
        Ok(Kernel::create(&built.0, name)?)
    }
}

/// A program that has been built; from then on only kernels are taken from it.
struct Built(ClProgram);

// SAFETY: OpenCL calls may come from any thread (OpenCL 1.2, A.2); programs are counted by the runtime.
unsafe impl Send for Built {}
// SAFETY: as above; taking kernels from a program at the same time is among what any thread may do.
unsafe impl Sync for Built {}

fn build(context: &Context, program: Program) -> Result<Built> {
    let mut built = ClProgram::create_from_source(context, &program.source())?;
    if let Err(error) = built.build(context.devices(), "") {
        let log = built.get_build_log(context.default_device()).unwrap_or_default();
        tracing::error!(program = program.name(), "gpu: the kernels do not build: {log}");
        return Err(Trouble::from(error));
    }
    Ok(Built(built))
}

/// A queue that works in order.
fn queue(context: &Context) -> Result<CommandQueue> {
    #[allow(deprecated)] // The newer call is missing on devices of OpenCL 1.2.
    // SAFETY: the device is the context's own.
    let queue = unsafe { CommandQueue::create(context, context.default_device(), 0)? };
    Ok(queue)
}

impl Device for OpenCl {
    fn description(&self) -> &Description {
        &self.shared.description
    }

    fn stream(&self) -> Result<Box<dyn Stream>> {
        Ok(Box::new(ClStream {
            queue: queue(&self.shared.context)?,
            shared: Arc::clone(&self.shared),
            memory: None,
            kernels: HashMap::new(),
            staging: Vec::new(),
            used: 0,
            under_way: None,
        }))
    }

    fn write_keys(&self, at: usize, bytes: &[u8]) -> Result<()> {
        let mut keys = lock(&self.shared.keys);
        let (buffer, queue) = &mut *keys;
        // SAFETY: the copy is over on return, so `bytes` outlives it; the runtime checks the range.
        unsafe { queue.enqueue_write_buffer(buffer, CL_BLOCKING, at, bytes, &[])? };
        Ok(())
    }

    fn wipe_keys(&self, at: usize, len: usize) -> Result<()> {
        let mut keys = lock(&self.shared.keys);
        let (buffer, queue) = &mut *keys;
        // SAFETY: the pattern is copied by the call; the runtime checks the range, which no launch reads any more.
        unsafe { queue.enqueue_fill_buffer(buffer, &[0u8], at, len, &[])? };
        Ok(queue.finish()?)
    }
}

/// A stream: an in-order queue with a buffer on the device and one here.
struct ClStream {
    queue: CommandQueue,
    memory: Option<(Buffer<u8>, usize)>,
    kernels: HashMap<(Program, &'static str), Kernel>,
    staging: Vec<u8>,
    /// Bytes of the staging buffer that are not zero.
    used: usize,
    /// The copy out of what was set off; while it is here the staging buffer belongs to the runtime.
    under_way: Option<Event>,
    shared: Arc<Shared>,
}

// SAFETY: OpenCL calls may come from any thread (OpenCL 1.2, A.2), except that one kernel object may not be used by two at
// a time; the kernels here are this stream's own, and every method takes it exclusively.
unsafe impl Send for ClStream {}

impl ClStream {
    /// Sees to it that there are `len` bytes on the device; nothing may be under way.
    fn reserve(&mut self, len: usize) -> Result<()> {
        if self.memory.as_ref().is_none_or(|(_, room)| *room < len) {
            // The old one goes first, so that both need not fit.
            self.memory = None;
            let context = &self.shared.context;
            // SAFETY: no host pointer is given; the buffer's memory is the runtime's own.
            let buffer = unsafe { Buffer::<u8>::create(context, CL_MEM_READ_WRITE, len, ptr::null_mut())? };
            self.memory = Some((buffer, len));
        }
        Ok(())
    }

    /// Waits until nothing is under way.
    fn wait(&mut self) -> Result<()> {
        match self.under_way.take() {
            Some(event) => {
                let outcome = event.wait();
                if outcome.is_err() {
                    // The event has failed, but the runtime may still write: only an empty queue says that it does not.
                    self.queue.finish()?;
                }
                Ok(outcome?)
            }
            None => Ok(()),
        }
    }
}

impl Stream for ClStream {
    fn staging(&mut self, len: usize) -> Result<&mut [u8]> {
        self.wait()?;
        if self.staging.len() < len {
            // A longer buffer is a new one; the old one must not be left behind with what was in it.
            self.staging.zeroize();
            self.staging = vec![0; len.next_power_of_two()];
        }
        self.reserve(self.staging.len())?;
        self.used = self.used.max(len);
        Ok(&mut self.staging[..len])
    }

    fn start(&mut self, launch: &Launch) -> Result<()> {
        self.wait()?;
        self.reserve(launch.memory_len)?;
        let kernel = match self.kernels.entry((launch.program, launch.kernel)) {
            Entry::Occupied(kernel) => kernel.into_mut(),
            Entry::Vacant(place) => place.insert(self.shared.kernel(launch.program, launch.kernel)?),
        };
        let Some((buffer, room)) = &mut self.memory else { return Err(Trouble::Absent) };
        if launch.input_len.max(launch.output.end) > self.staging.len().min(*room) {
            return Err(Trouble::Call(i64::from(opencl3::error_codes::CL_INVALID_VALUE)));
        }
        let items = [launch.groups * GROUP];
        let group = [GROUP];
        let output = launch.output.clone();
        // SAFETY: both arguments are buffers, as every kernel has them. The copies lie within the staging buffer and the
        // device's, as was just checked. The staging buffer is neither moved, freed nor touched until `wait` has seen the
        // last copy end: every method begins with it, and so does `drop`.
        let event = unsafe {
            kernel.set_arg(0, &buffer.get())?;
            kernel.set_arg(1, &self.shared.keys_handle.0)?;
            let copied =
                self.queue.enqueue_write_buffer(buffer, CL_NON_BLOCKING, 0, &self.staging[..launch.input_len], &[])?;
            self.under_way = Some(copied);
            let offsets = ptr::null();
            let ran =
                self.queue.enqueue_nd_range_kernel(kernel.get(), 1, offsets, items.as_ptr(), group.as_ptr(), &[])?;
            self.under_way = Some(ran);
            let staging = &mut self.staging[output.clone()];
            self.queue.enqueue_read_buffer(buffer, CL_NON_BLOCKING, output.start, staging, &[])?
        };
        self.under_way = Some(event);
        let len = launch.memory_len.max(launch.output.end).max(launch.input_len);
        // SAFETY: the pattern is copied by the call; the range is the buffer's, behind the copy out in the same queue.
        unsafe { self.queue.enqueue_fill_buffer(buffer, &[0u8], 0, len, &[])? };
        Ok(self.queue.flush()?)
    }

    fn is_done(&mut self) -> bool {
        let status = self.under_way.as_ref().map(Event::command_execution_status);
        // Zero is complete, below it are failures; a status that cannot be had will not come either.
        status.is_none_or(|status| status.map_or(true, |status| status.0 <= 0))
    }

    fn finish(&mut self) -> Result<&[u8]> {
        self.wait()?;
        Ok(&self.staging)
    }

    fn wipe(&mut self) {
        if self.wait().is_ok() {
            ciphermill_memory::wipe(&mut self.staging[..self.used]);
            self.used = 0;
        }
    }
}

impl Drop for ClStream {
    fn drop(&mut self) {
        self.under_way = None;
        if self.queue.finish().is_ok() {
            ciphermill_memory::wipe(&mut self.staging[..self.used]);
        } else {
            // The runtime may still write there: what is never freed cannot be written to by mistake.
            std::mem::forget(std::mem::take(&mut self.staging));
        }
    }
}
