//! The device that the tests run on: the processor, through PoCL, unless `GPU_TEST_DEVICE` names another (`cuda`,
//! `opencl`).

use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use ciphermill_contract::Error;
use ciphermill_contract::error::{Fault, FaultKind};
use ciphermill_gpu::Gpu;

/// Past the test harness, which would keep it to itself.
pub(crate) fn say(what: &str) {
    // A log that cannot be written to is no reason to fail.
    let _ = writeln!(std::io::stderr(), "gpu: {what}");
}

/// The name of that device.
pub(crate) fn device_name() -> String {
    std::env::var("GPU_TEST_DEVICE").unwrap_or_else(|_| "pocl".to_owned())
}

/// The engine on that device, opened once a process. Where there is none the tests say so, and fail in CI, which has to
/// have PoCL.
pub(crate) fn device() -> Option<&'static Arc<Gpu>> {
    static GPU: OnceLock<Option<Arc<Gpu>>> = OnceLock::new();
    let gpu = GPU.get_or_init(|| {
        let name = device_name();
        match Gpu::open(&name) {
            Ok(gpu) => Some(Arc::new(gpu)),
            Err(Error::EngineFault(Fault { kind: FaultKind::Unavailable, .. })) => {
                let missing = format!("there is no {name} here (PoCL: install pocl-opencl-icd and ocl-icd-libopencl1)");
                assert!(std::env::var("CI").as_deref() != Ok("true"), "{missing}");
                say(&format!("NOT RUN: no kernel was tested, {missing}"));
                None
            }
            Err(error) => panic!("{name} is there and does not open: {error}"),
        }
    });
    gpu.as_ref()
}
