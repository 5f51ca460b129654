//! The GPU engine: a look-aside accelerator. It sits across a bus, far away and fast, and is worth it only in batches.
//!
//! One kernel source (`kernels/`) runs through two runtimes, OpenCL and CUDA, both loaded when the engine is opened:
//! nothing is needed to build it, and a machine without a device gets an error instead of an engine. A batch is packed
//! into a staging buffer (`pack`), copied in, worked on and copied out, several pieces of it in flight at a time
//! (`pipeline`). Prepared keys are resident on the device and wiped there when they are dropped (`keys`).
//!
//! Public-key suites are shared between the host and the device (`public`).
//!
//! Software devices, such as PoCL on the processor, run the same kernels for tests. They are opened by name only.
#![allow(unsafe_code, reason = "calls into OpenCL and CUDA")]

mod aes;
mod arena;
mod cache;
mod capabilities;
mod columns;
mod cuda;
mod des;
mod device;
mod engine;
mod form;
mod hash;
mod keys;
mod lazy;
mod legacy;
mod link;
mod opencl;
mod pack;
mod pipeline;
mod prepare;
mod probe;
mod program;
mod public;
mod queue;
mod select;
mod trouble;

pub use capabilities::CAPABILITIES;
pub use engine::Gpu;
pub use link::LinkRate;
pub use program::{Compiled, PROGRAMS, Program};
