//! The CUDA runtime: the driver's interface, and NVRTC, which compiles the kernels for the device that is there. Both
//! libraries are opened at run time; whether they are there is asked first, because the bindings panic when they are not.

mod compile;
mod context;
mod pinned;
mod stream;

use std::panic::catch_unwind;
use std::sync::{Arc, PoisonError};

use cudarc::driver::{result, sys};
use cudarc::nvrtc::sys as nvrtc_sys;

use self::context::{KEY_STAGING_LEN, Shared};
use self::pinned::Pinned;
use self::stream::CudaLink;
use crate::device::{Description, Device, KEYS_LEN_MAX, Link, PinnedMemory, Result, Trouble};
use crate::probe;

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

/// A device through CUDA.
struct Cuda {
    shared: Arc<Shared>,
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
