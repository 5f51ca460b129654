//! The OpenCL runtime. The loader's library is opened at run time; a machine without one has no platforms.

mod stream;

use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ciphermill_contract::ArenaBuffer;
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU, Device as ClDevice};
use opencl3::error_codes::ClError;
use opencl3::event::Event;
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, CL_MAP_READ, CL_MAP_WRITE, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE, ClMem};
use opencl3::platform::get_platforms;
use opencl3::program::Program as ClProgram;
use opencl3::types::{CL_BLOCKING, cl_bool, cl_mem};

use self::stream::ClLink;
use crate::device::{Description, Device, KEYS_LEN_MAX, Link, PinnedMemory, Result, Trouble};
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
    /// A queue for what belongs to no stream.
    errands: CommandQueue,
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
        let (errands, queue) = (queue(&context)?, queue(&context)?);
        // SAFETY: no host pointer is given; the buffer's memory is the runtime's own.
        let buffer = unsafe { Buffer::<u8>::create(&context, CL_MEM_READ_WRITE, KEYS_LEN_MAX, ptr::null_mut())? };
        let keys_handle = KeysHandle(buffer.get());
        Ok(Shared {
            description: Description { runtime: "opencl", words },
            programs: Lazy::new(),
            keys: Mutex::new((buffer, queue)),
            keys_handle,
            errands,
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

    fn link(&self) -> Result<Box<dyn Link>> {
        Ok(Box::new(ClLink::open(&self.shared)?))
    }

    fn pinned(&self, len: usize) -> Result<Box<dyn PinnedMemory>> {
        Ok(Box::new(Pinned::new(&self.shared, len)?))
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

/// Memory of this process that the device reaches: a buffer of the runtime's, seen by the host while it is mapped.
struct Pinned {
    buffer: Buffer<u8>,
    /// Null while a kernel works in the buffer.
    start: *mut u8,
    len: usize,
    shared: Arc<Shared>,
}

// SAFETY: the memory belongs to this value alone; OpenCL calls may come from any thread (OpenCL 1.2, A.2).
unsafe impl Send for Pinned {}

impl Pinned {
    /// Zeroed memory of `len` bytes, mapped.
    fn new(shared: &Arc<Shared>, len: usize) -> Result<Pinned> {
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
    fn map(&mut self, queue: &CommandQueue, blocking: cl_bool) -> Result<Event> {
        let mut start: cl_mem = ptr::null_mut();
        let (flags, len) = (CL_MAP_READ | CL_MAP_WRITE, self.len);
        // SAFETY: the range is the buffer's, and `start` is writable.
        let event = unsafe { queue.enqueue_map_buffer(&self.buffer, blocking, flags, 0, len, &mut start, &[])? };
        self.start = start.cast();
        Ok(event)
    }

    /// Forgets where the buffer was mapped: nobody can tell whether it is.
    fn lose(&mut self) {
        self.start = ptr::null_mut();
    }

    /// Gives the buffer to the device until it is mapped anew.
    fn unmap(&mut self, queue: &CommandQueue) -> Result<()> {
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
