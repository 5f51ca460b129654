//! The CUDA runtime: the driver's interface, and NVRTC, which compiles the kernels for the device that is there. Both
//! libraries are opened at run time; whether they are there is asked first, because the bindings panic when they are not.

mod stream;

use std::ffi::{CStr, CString};
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, PoisonError};

use ciphermill_contract::ArenaBuffer;
use cudarc::driver::{DriverError, result, sys};
use cudarc::nvrtc::result as nvrtc;
use cudarc::nvrtc::sys as nvrtc_sys;

use self::stream::CudaLink;
use crate::cache;
use crate::device::{Description, Device, KEYS_LEN_MAX, Link, PinnedMemory, Result, Trouble};
use crate::lazy::Lazy;
use crate::probe;
use crate::program::Program;

impl From<DriverError> for Trouble {
    fn from(error: DriverError) -> Trouble {
        Trouble::Call(error.0 as i64)
    }
}

impl From<nvrtc::NvrtcError> for Trouble {
    fn from(error: nvrtc::NvrtcError) -> Trouble {
        // NVRTC's codes begin at one like the driver's; these stand apart.
        Trouble::Call(10_000 + error.0 as i64)
    }
}

/// Opens the first device.
pub(crate) fn open() -> Result<Arc<dyn Device>> {
    if !probe::has_cuda(&probe::root()) {
        return Err(Trouble::Absent);
    }
    // SAFETY: both only try to open a library by its usual names.
    if !unsafe { sys::is_culib_present() && nvrtc_sys::is_culib_present() } {
        return Err(Trouble::Absent);
    }
    // A library that lacks a function of its version makes the bindings panic.
    catch_unwind(|| {
        result::init()?;
        if result::device::get_count()? < 1 {
            return Err(Trouble::Absent);
        }
        let shared = Shared::open(result::device::get(0)?)?;
        Ok(Arc::new(Cuda { shared: Arc::new(shared) }) as Arc<dyn Device>)
    })
    .unwrap_or(Err(Trouble::Absent))
}

/// Compiles a program without a device.
pub(crate) fn compile_alone(program: Program, architecture: &str) -> Result<(Vec<u8>, String)> {
    // SAFETY: this only tries to open the library by its usual names.
    if !unsafe { nvrtc_sys::is_culib_present() } {
        return Err(Trouble::Absent);
    }
    compile(program, architecture)
}

/// Bytes of stack that the compiler gets: it recurses along the kernels' expressions, and the longest of them overflow the
/// stack that a thread has by default.
const COMPILER_STACK_LEN: usize = 256 << 20;

/// Compiles a program to machine code for an architecture such as `sm_90`. Gives the code and the compiler's log.
fn compile(program: Program, architecture: &str) -> Result<(Vec<u8>, String)> {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(COMPILER_STACK_LEN);
        let compiler = builder.spawn_scoped(scope, || compile_here(program, architecture));
        compiler.ok().and_then(|compiler| compiler.join().ok()).unwrap_or(Err(Trouble::Absent))
    })
}

fn compile_here(program: Program, architecture: &str) -> Result<(Vec<u8>, String)> {
    let source = CString::new(program.source()).map_err(|_| Trouble::Absent)?;
    let name = CString::new(program.name()).map_err(|_| Trouble::Absent)?;
    let handle = nvrtc::create_program(&source, Some(&name))?;
    let options = [
        format!("--gpu-architecture={architecture}"),
        "--std=c++17".to_owned(),
        "--ptxas-options=-v".to_owned(),
        "--diag-suppress=177".to_owned(),
    ];
    // SAFETY: the handle is the one just created; it is destroyed below and used by nobody else.
    let outcome = unsafe { nvrtc::compile_program(handle, &options) };
    // SAFETY: as above.
    let log = unsafe { nvrtc::get_program_log(handle) }.unwrap_or_default();
    let log: Vec<u8> = log.into_iter().map(|byte| byte as u8).collect();
    let log = CStr::from_bytes_until_nul(&log).map(|log| log.to_string_lossy().into_owned()).unwrap_or_default();
    let code = outcome.and_then(|()| {
        let mut len = 0usize;
        // SAFETY: the handle is valid and `len` is writable.
        unsafe { nvrtc_sys::nvrtcGetCUBINSize(handle, &raw mut len) }.result()?;
        let mut code = vec![0u8; len];
        // SAFETY: the buffer has the length that was just asked for.
        unsafe { nvrtc_sys::nvrtcGetCUBIN(handle, code.as_mut_ptr().cast()) }.result()?;
        Ok(code)
    });
    // SAFETY: the handle is not used any more.
    let destroyed = unsafe { nvrtc::destroy_program(handle) };
    if code.is_err() {
        tracing::error!(program = program.name(), "gpu: the kernels do not build: {log}");
    }
    let code = code?;
    destroyed?;
    Ok((code, log))
}

/// A device through CUDA.
struct Cuda {
    shared: Arc<Shared>,
}

/// A context of our own on the device, and what lies in it. Dropped after the last stream.
struct Shared {
    description: Description,
    context: sys::CUcontext,
    /// What kernels are compiled for, and by what.
    architecture: String,
    compiler: String,
    programs: Lazy<Loaded>,
    /// The prepared keys.
    keys: sys::CUdeviceptr,
    /// Pinned memory that keys go through, of [`KEY_STAGING_LEN`] bytes, and whoever writes or wipes keys. From other memory
    /// the driver copies by way of a buffer of its own, which nobody wipes. Null until it is there.
    writing: Mutex<*mut u8>,
}

/// Bytes of keys that are copied at a time.
const KEY_STAGING_LEN: usize = 64 << 10;

/// A program on the device.
struct Loaded {
    module: sys::CUmodule,
    kernels: Vec<(&'static str, sys::CUfunction)>,
}

// SAFETY: contexts, modules and functions may be used from any thread that has made the context current, which every
// method does first; device pointers are numbers.
unsafe impl Send for Shared {}
// SAFETY: as above; the driver's calls lock what they share.
unsafe impl Sync for Shared {}

impl Shared {
    fn open(device: sys::CUdevice) -> Result<Shared> {
        use sys::CUdevice_attribute::{
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        };
        // SAFETY: the device is one that the driver named.
        let attribute = |name| unsafe { result::device::get_attribute(device, name) };
        let major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let architecture = format!("sm_{major}{minor}");
        let words = format!("{}, {architecture}", result::device::get_name(device)?.trim());
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both are writable.
        unsafe { nvrtc_sys::nvrtcVersion(&raw mut major, &raw mut minor) }.result()?;
        let mut context = std::ptr::null_mut();
        // SAFETY: `context` is writable, and the device is one that the driver named. Waiting threads give up the core.
        unsafe {
            sys::cuCtxCreate_v2(&raw mut context, sys::CUctx_flags::CU_CTX_SCHED_BLOCKING_SYNC as u32, device)
                .result()?;
        }
        let mut shared = Shared {
            description: Description { runtime: "cuda", words },
            context,
            architecture,
            compiler: format!("NVRTC {major}.{minor}"),
            programs: Lazy::new(),
            keys: 0,
            writing: Mutex::new(std::ptr::null_mut()),
        };
        // What is there when something fails goes with the value.
        shared.enter()?;
        // SAFETY: the context is current.
        unsafe {
            shared.keys = result::malloc_sync(KEYS_LEN_MAX)?;
            let staging = result::malloc_host(KEY_STAGING_LEN, 0)?.cast();
            shared.writing = Mutex::new(staging);
        }
        Ok(shared)
    }

    /// A kernel of a program, which is compiled and loaded if nobody has used it before. Machine code that is kept from an
    /// earlier run is not compiled.
    fn kernel(&self, program: Program, name: &'static str) -> Result<sys::CUfunction> {
        let loaded = self.programs.get_or_build(program, || {
            let source = program.source();
            let parts = [self.architecture.as_str(), self.compiler.as_str(), source.as_str()];
            let make = || compile(program, &self.architecture).map(|(code, _)| code);
            self.load(program, &cache::kept(cache::folder().as_deref(), &parts, make)?)
        })?;
        loaded.kernels.iter().find(|(own, _)| *own == name).map(|(_, kernel)| *kernel).ok_or(Trouble::Absent)
    }

    /// Loads a program's machine code.
    fn load(&self, program: Program, code: &[u8]) -> Result<Loaded> {
        self.enter()?;
        // SAFETY: the code is a whole image of NVRTC's; the driver copies it.
        let module = unsafe { result::module::load_data(code.as_ptr().cast())? };
        let kernel = |name: &&'static str| {
            let c_name = CString::new(*name).map_err(|_| Trouble::Absent)?;
            // SAFETY: the module was just loaded, and lives as long as this value unless a kernel is missing in it.
            Ok((*name, unsafe { result::module::get_function(module, c_name)? }))
        };
        let kernels: Result<Vec<_>> = program.kernels().iter().map(kernel).collect();
        if kernels.is_err() {
            // SAFETY: nothing that was taken from the module is kept.
            let _ = unsafe { result::module::unload(module) };
        }
        Ok(Loaded { module, kernels: kernels? })
    }

    /// Waits for what was put into the null stream, that is for keys: setting memory returns at once (CUDA driver API, "API
    /// synchronization behavior"). The launches' streams neither wait for the null stream nor are waited for.
    fn settle(&self) -> Result<()> {
        // SAFETY: the null stream is always there; the context is current.
        unsafe { result::stream::synchronize(result::stream::null())? };
        Ok(())
    }

    /// Makes the context current on this thread.
    fn enter(&self) -> Result<()> {
        // SAFETY: the context lives as long as this value.
        unsafe { result::ctx::set_current(self.context)? };
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: no stream is left, so nothing uses what is freed here; each was made by the call that its end belongs
        // to. Failures leave memory to the context's end, which comes right behind. Of a context that is lost nothing is
        // left but to end it: it would hold its memory, on the device and pinned here, until the process ends.
        unsafe {
            if self.enter().is_ok() {
                if self.keys != 0 {
                    let _ = result::memset_d8_sync(self.keys, 0, KEYS_LEN_MAX);
                }
                // Whoever could not wait for the wiping of his memory has left it to here.
                let _ = result::ctx::synchronize();
                if self.keys != 0 {
                    let _ = result::free_sync(self.keys);
                }
                let staging = *self.writing.get_mut().unwrap_or_else(PoisonError::into_inner);
                if !staging.is_null() {
                    let _ = result::free_host(staging.cast());
                }
                for loaded in self.programs.drain() {
                    let _ = result::module::unload(loaded.module);
                }
            }
            let _ = sys::cuCtxDestroy_v2(self.context).result();
        }
    }
}

impl Device for Cuda {
    fn description(&self) -> &Description {
        &self.shared.description
    }

    fn link(&self) -> Result<Box<dyn Link>> {
        Ok(Box::new(CudaLink::open(&self.shared)?))
    }

    fn pinned(&self, len: usize) -> Result<Box<dyn PinnedMemory>> {
        Ok(Box::new(Pinned::new(&self.shared, len)?))
    }

    fn write_keys(&self, at: usize, bytes: &[u8]) -> Result<()> {
        check(at, bytes.len())?;
        let writing = self.shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.enter()?;
        // SAFETY: `open` made the buffer of as many bytes, and whoever holds the lock has it alone.
        let staging = unsafe { std::slice::from_raw_parts_mut(*writing, KEY_STAGING_LEN) };
        let mut to = self.shared.keys + at as u64;
        for part in bytes.chunks(KEY_STAGING_LEN) {
            let staging = &mut staging[..part.len()];
            staging.copy_from_slice(part);
            // SAFETY: the range was checked; copies from pinned memory are over on return.
            let copied = unsafe { result::memcpy_htod_sync(to, staging) };
            ciphermill_memory::wipe(staging);
            copied?;
            to += part.len() as u64;
        }
        Ok(())
    }

    fn wipe_keys(&self, at: usize, len: usize) -> Result<()> {
        check(at, len)?;
        let _writing = self.shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.enter()?;
        // SAFETY: the range was checked, and no launch reads it any more.
        unsafe { result::memset_d8_sync(self.shared.keys + at as u64, 0, len)? };
        self.shared.settle()
    }
}

/// Whether a range lies within the keys' memory.
fn check(at: usize, len: usize) -> Result<()> {
    if at.saturating_add(len) <= KEYS_LEN_MAX { Ok(()) } else { Err(Trouble::KeysFull) }
}

/// Memory of this process that the device reaches: copies to and from it need nobody's help, and kernels can work in it.
struct Pinned {
    shared: Arc<Shared>,
    start: *mut u8,
    /// Where kernels find it.
    device: sys::CUdeviceptr,
    len: usize,
    /// Whether the context frees it when it ends, because the device may write to it until then.
    abandoned: bool,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for Pinned {}

impl Pinned {
    /// Zeroed memory of `len` bytes.
    fn new(shared: &Arc<Shared>, len: usize) -> Result<Pinned> {
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
