//! NVRTC, which compiles the kernels.

use std::ffi::{CStr, CString};

use cudarc::driver::DriverError;
use cudarc::nvrtc::result as nvrtc;
use cudarc::nvrtc::sys as nvrtc_sys;

use crate::device::{Result, Trouble};
use crate::program::{Compiled, Program};

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

impl Program {
    /// Compiles the program by NVRTC to machine code for an architecture such as `sm_90`, without a device. For the record
    /// of what the compiler makes of the kernels; the engine itself compiles for the device that it finds.
    ///
    /// # Errors
    /// `EngineFault`: `Unavailable` where NVRTC is not to be found, `Call` when it does not take the source.
    pub fn compiled_for(self, architecture: &str) -> ciphermill_contract::Result<Compiled> {
        // SAFETY: this only tries to open the library by its usual names.
        if !unsafe { nvrtc_sys::is_culib_present() } {
            return Err(Trouble::Absent.into());
        }
        let (code, log) = compile(self, architecture)?;
        Ok(Compiled { code, log })
    }
}

/// Bytes of stack that the compiler gets: it recurses along the kernels' expressions, and the longest of them overflow the
/// stack that a thread has by default.
const COMPILER_STACK_LEN: usize = 256 << 20;

/// Compiles a program to machine code for an architecture such as `sm_90`. Gives the code and the compiler's log.
pub(super) fn compile(program: Program, architecture: &str) -> Result<(Vec<u8>, String)> {
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
