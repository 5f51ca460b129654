//! The CUDA runtime: the driver's interface, and NVRTC, which compiles the kernels for the device that is there. Both
//! libraries are opened at run time; whether they are there is asked first, because the bindings panic when they are not.

use std::ffi::{CStr, CString, c_void};
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{DriverError, result, sys};
use cudarc::nvrtc::result as nvrtc;
use cudarc::nvrtc::sys as nvrtc_sys;

use crate::cache;
use crate::device::{Description, Device, GROUP, KEYS_LEN_MAX, Launch, Result, Stream, Trouble};
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

/// Compiles a program to machine code for an architecture such as `sm_90`. Gives the code and the compiler's log.
fn compile(program: Program, architecture: &str) -> Result<(Vec<u8>, String)> {
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
    /// Whoever writes keys.
    writing: Mutex<()>,
}

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
            writing: Mutex::default(),
        };
        // What is there when something fails goes with the value.
        shared.enter()?;
        // SAFETY: the context is current.
        shared.keys = unsafe { result::malloc_sync(KEYS_LEN_MAX)? };
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

    /// Makes the context current on this thread.
    fn enter(&self) -> Result<()> {
        // SAFETY: the context lives as long as this value.
        unsafe { result::ctx::set_current(self.context)? };
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.enter().is_err() {
            // A lost context takes everything in it along.
            return;
        }
        // SAFETY: no stream is left, so nothing uses what is freed here; each was made by the call that its end belongs
        // to. Failures leave memory to the context's end, which comes right behind.
        unsafe {
            if self.keys != 0 {
                let _ = result::memset_d8_sync(self.keys, 0, KEYS_LEN_MAX);
                let _ = result::free_sync(self.keys);
            }
            for loaded in self.programs.drain() {
                let _ = result::module::unload(loaded.module);
            }
            let _ = sys::cuCtxDestroy_v2(self.context).result();
        }
    }
}

impl Device for Cuda {
    fn description(&self) -> &Description {
        &self.shared.description
    }

    fn stream(&self) -> Result<Box<dyn Stream>> {
        self.shared.enter()?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking)?;
        let mut opened = CudaStream {
            shared: Arc::clone(&self.shared),
            stream,
            end: std::ptr::null_mut(),
            memory: None,
            staging: None,
            used: 0,
            under_way: false,
        };
        opened.end = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
        Ok(Box::new(opened))
    }

    fn write_keys(&self, at: usize, bytes: &[u8]) -> Result<()> {
        check(at, bytes.len())?;
        let _writing = self.shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.enter()?;
        // SAFETY: the range was checked; the copy is over on return.
        unsafe { result::memcpy_htod_sync(self.shared.keys + at as u64, bytes)? };
        Ok(())
    }

    fn wipe_keys(&self, at: usize, len: usize) -> Result<()> {
        check(at, len)?;
        let _writing = self.shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.enter()?;
        // SAFETY: the range was checked, and no launch reads it any more. Setting memory may return before it is set.
        unsafe { result::memset_d8_sync(self.shared.keys + at as u64, 0, len)? };
        Ok(result::ctx::synchronize()?)
    }
}

/// Whether a range lies within the keys' memory.
fn check(at: usize, len: usize) -> Result<()> {
    if at.saturating_add(len) <= KEYS_LEN_MAX { Ok(()) } else { Err(Trouble::KeysFull) }
}

/// A stream with a buffer on the device and a pinned one here.
struct CudaStream {
    shared: Arc<Shared>,
    stream: sys::CUstream,
    end: sys::CUevent,
    memory: Option<(sys::CUdeviceptr, usize)>,
    staging: Option<(*mut u8, usize)>,
    /// Bytes of the staging buffer that are not zero.
    used: usize,
    /// Whether the staging buffer belongs to the device.
    under_way: bool,
}

// SAFETY: the buffers belong to this value alone, and the driver's objects may be used from any thread.
unsafe impl Send for CudaStream {}

impl CudaStream {
    fn wait(&mut self) -> Result<()> {
        self.shared.enter()?;
        if self.under_way {
            // SAFETY: the stream is this value's own. On failure the staging buffer stays the device's.
            unsafe { result::stream::synchronize(self.stream)? };
            self.under_way = false;
        }
        Ok(())
    }

    /// The staging buffer; only while nothing is under way.
    fn bytes(&mut self) -> &mut [u8] {
        match self.staging {
            // SAFETY: the driver gave as many bytes, which `staging` zeroed and nobody else has.
            Some((start, len)) => unsafe { std::slice::from_raw_parts_mut(start, len) },
            None => &mut [],
        }
    }

    /// Frees both buffers, wiped; nothing may be under way.
    fn free(&mut self) -> Result<()> {
        let used = self.used;
        ciphermill_memory::wipe(&mut self.bytes()[..used]);
        self.used = 0;
        if let Some((start, _)) = self.staging.take() {
            // SAFETY: the driver gave it, and nothing is under way.
            unsafe { result::free_host(start.cast())? };
        }
        if let Some((start, _)) = self.memory.take() {
            // SAFETY: as above; every launch has wiped it behind itself.
            unsafe { result::free_sync(start)? };
        }
        Ok(())
    }

    /// Everything of a launch, one behind the other in the stream.
    fn enqueue(&mut self, launch: &Launch, function: sys::CUfunction) -> Result<()> {
        let (Some((mut memory, room)), Some((staging, len))) = (self.memory, self.staging) else {
            return Err(Trouble::Absent);
        };
        let output = launch.output.clone();
        if launch.input_len.max(output.end) > room.min(len) || output.start > output.end {
            return Err(Trouble::Call(sys::CUresult::CUDA_ERROR_INVALID_VALUE as i64));
        }
        let groups = u32::try_from(launch.groups).map_err(|_| Trouble::Absent)?;
        let mut keys = self.shared.keys;
        let mut arguments: [*mut c_void; 2] = [(&raw mut memory).cast(), (&raw mut keys).cast()];
        self.under_way = true;
        // SAFETY: both arguments are device pointers, as every kernel has them, and are read before the call returns.
        // The copies lie within both buffers, as was just checked. The staging buffer is neither freed nor touched until
        // `wait` has seen the stream end: every method begins with it, and so does `drop`.
        unsafe {
            let input = std::slice::from_raw_parts(staging, launch.input_len);
            result::memcpy_htod_async(memory, input, self.stream)?;
            let grid = (groups, 1, 1);
            result::launch_kernel(function, grid, (GROUP as u32, 1, 1), 0, self.stream, &mut arguments)?;
            let out = std::slice::from_raw_parts_mut(staging.add(output.start), output.len());
            result::memcpy_dtoh_async(out, memory + output.start as u64, self.stream)?;
            result::event::record(self.end, self.stream)?;
            let len = launch.memory_len.max(launch.input_len).max(output.end);
            result::memset_d8_async(memory, 0, len, self.stream)?;
        }
        Ok(())
    }
}

impl Stream for CudaStream {
    fn staging(&mut self, len: usize) -> Result<&mut [u8]> {
        self.wait()?;
        if self.staging.is_none_or(|(_, room)| room < len) {
            self.free()?;
            let room = len.next_power_of_two();
            // SAFETY: the context is current; the memory is zeroed before anybody reads it.
            unsafe {
                let start = result::malloc_host(room, 0)?.cast::<u8>();
                start.write_bytes(0, room);
                self.staging = Some((start, room));
                self.memory = Some((result::malloc_sync(room)?, room));
            }
        }
        self.used = self.used.max(len);
        Ok(&mut self.bytes()[..len])
    }

    fn start(&mut self, launch: &Launch) -> Result<()> {
        self.wait()?;
        if self.memory.is_none_or(|(_, room)| room < launch.memory_len) {
            if let Some((start, _)) = self.memory.take() {
                // SAFETY: the driver gave it, nothing is under way, and every launch has wiped it behind itself.
                unsafe { result::free_sync(start)? };
            }
            // SAFETY: the context is current.
            self.memory = Some((unsafe { result::malloc_sync(launch.memory_len)? }, launch.memory_len));
        }
        let function = self.shared.kernel(launch.program, launch.kernel)?;
        self.enqueue(launch, function)
    }

    fn is_done(&mut self) -> bool {
        if !self.under_way || self.shared.enter().is_err() {
            return true;
        }
        // SAFETY: the event is this value's own and was recorded.
        let status = unsafe { result::event::query(self.end) };
        !matches!(status, Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)))
    }

    fn finish(&mut self) -> Result<&[u8]> {
        self.wait()?;
        Ok(self.bytes())
    }

    fn wipe(&mut self) {
        if self.wait().is_ok() {
            let used = self.used;
            ciphermill_memory::wipe(&mut self.bytes()[..used]);
            self.used = 0;
        }
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        // When the stream cannot be waited for, the device may still write: the buffers are left to the context.
        if self.wait().is_ok() && self.free().is_err() {
            tracing::error!("gpu: a stream's memory could not be freed");
        }
        // SAFETY: both were made by `stream` and are not used any more; the event may be missing.
        unsafe {
            if !self.end.is_null() {
                let _ = result::event::destroy(self.end);
            }
            let _ = result::stream::destroy(self.stream);
        }
    }
}
