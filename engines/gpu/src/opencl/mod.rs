//! The OpenCL runtime. The loader's library is opened at run time; a machine without one has no platforms.

mod context;
mod pinned;
mod stream;

use std::sync::Arc;

use opencl3::device::{CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU, Device as ClDevice};
use opencl3::platform::get_platforms;
use opencl3::types::CL_BLOCKING;

use self::context::{Shared, lock};
use self::pinned::Pinned;
use self::stream::ClLink;
use crate::device::{Description, Device, Link, PinnedMemory, Result, Trouble};
use crate::probe;

/// What kind of device is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A GPU or another accelerator.
    Hardware,
    /// The processor.
    Software,
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
