//! A context of our own on the device, and what lies in it: programs, prepared keys.

use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::{result, sys};
use cudarc::nvrtc::sys as nvrtc_sys;

use super::compile::compile;
use crate::cache;
use crate::device::{Description, KEYS_LEN_MAX, Result, Trouble};
use crate::lazy::Lazy;
use crate::program::Program;

/// A context of our own on the device, and what lies in it. Dropped after the last stream.
pub(super) struct Shared {
    pub(super) description: Description,
    pub(super) context: sys::CUcontext,
    /// What kernels are compiled for, and by what.
    architecture: String,
    compiler: String,
    programs: Lazy<Loaded>,
    /// The prepared keys.
    pub(super) keys: sys::CUdeviceptr,
    /// Pinned memory that keys go through, of [`KEY_STAGING_LEN`] bytes, and whoever writes or wipes keys. From other memory
    /// the driver copies by way of a buffer of its own, which nobody wipes. Null until it is there.
    pub(super) writing: Mutex<*mut u8>,
}

/// Bytes of keys that are copied at a time.
pub(super) const KEY_STAGING_LEN: usize = 64 << 10;

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
    pub(super) fn open(device: sys::CUdevice) -> Result<Shared> {
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
    pub(super) fn kernel(&self, program: Program, name: &'static str) -> Result<sys::CUfunction> {
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
    pub(super) fn settle(&self) -> Result<()> {
        // SAFETY: the null stream is always there; the context is current.
        unsafe { result::stream::synchronize(result::stream::null())? };
        Ok(())
    }

    /// Makes the context current on this thread.
    pub(super) fn enter(&self) -> Result<()> {
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
