//! What all streams of a device share: the context, programs, prepared keys.

use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::Device as ClDevice;
use opencl3::error_codes::ClError;
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE, ClMem};
use opencl3::program::Program as ClProgram;
use opencl3::types::cl_mem;

use crate::device::{Description, KEYS_LEN_MAX, Result, Trouble};
use crate::lazy::Lazy;
use crate::program::Program;

impl From<ClError> for Trouble {
    fn from(error: ClError) -> Trouble {
        Trouble::Call(i64::from(error.0))
    }
}

/// What all streams of a device share. Dropped after the last of them.
pub(super) struct Shared {
    pub(super) description: Description,
    programs: Lazy<Built>,
    /// The prepared keys, and the queue that writes them.
    pub(super) keys: Mutex<(Buffer<u8>, CommandQueue)>,
    /// The same buffer as kernels are told of it.
    pub(super) keys_handle: KeysHandle,
    /// A queue for what belongs to no stream.
    pub(super) errands: CommandQueue,
    pub(super) context: Context,
}

/// The name of the keys' buffer. It is a number that the runtime gave out, and stays valid as long as the buffer beside it.
#[derive(Clone, Copy)]
pub(super) struct KeysHandle(pub(super) cl_mem);

// SAFETY: OpenCL objects may be named from any thread (OpenCL 1.2, A.2); setting a kernel argument only reads the name.
unsafe impl Send for KeysHandle {}
// SAFETY: as above.
unsafe impl Sync for KeysHandle {}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is kept here is added to in single steps.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(device: &ClDevice) -> Result<Shared> {
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
    pub(super) fn kernel(&self, program: Program, name: &str) -> Result<Kernel> {
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
pub(super) fn queue(context: &Context) -> Result<CommandQueue> {
    #[allow(deprecated)] // The newer call is missing on devices of OpenCL 1.2.
    // SAFETY: the device is the context's own.
    let queue = unsafe { CommandQueue::create(context, context.default_device(), 0)? };
    Ok(queue)
}
