//! The device that the tests run on: the processor, through PoCL.

use std::io::Write as _;
use std::sync::OnceLock;

use ciphermill_contract::Error;
use ciphermill_contract::error::{Fault, FaultKind};
use ciphermill_gpu::Gpu;

/// Past the test harness, which would keep it to itself.
pub(crate) fn say(what: &str) {
    // A log that cannot be written to is no reason to fail.
    let _ = writeln!(std::io::stderr(), "gpu: {what}");
}

/// The engine on PoCL, opened once a process. Where there is no PoCL the tests say so, and fail in CI, which has to have it.
pub(crate) fn pocl() -> Option<&'static Gpu> {
    static GPU: OnceLock<Option<Gpu>> = OnceLock::new();
    let gpu = GPU.get_or_init(|| match Gpu::open("pocl") {
        Ok(gpu) => Some(gpu),
        Err(Error::EngineFault(Fault { kind: FaultKind::Unavailable, .. })) => None,
        Err(error) => panic!("PoCL is there and does not open: {error}"),
    });
    if gpu.is_none() {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "CI has to have PoCL (pocl-opencl-icd, ocl-icd-libopencl1)"
        );
        say("NOT RUN: there is no PoCL here, so no kernel was tested (install pocl-opencl-icd and ocl-icd-libopencl1)");
    }
    gpu.as_ref()
}
