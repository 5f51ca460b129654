//! Batches that are run at once.

use std::ffi::c_char;
use std::ptr::null;
use std::time::Duration;

use ciphermill::contract::{Batch, EngineKinds};
use ciphermill::{Report, RunOptions};

use crate::entry::entry;
use crate::failure::{Failure, ciphermill_status};
use crate::foreign::{self, Place, Plain, Versioned};
use crate::handle;
use crate::mill::ciphermill_mill;
use crate::ops::{ciphermill_batch, ops_and_arena};
use crate::suite;

/// What is asked for a run beyond the mill's policy. Set `struct_len` to the size of the structure, and all else to zero for
/// what is usual.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ciphermill_run_options {
    /// sizeof(ciphermill_run_options).
    pub struct_len: usize,
    /// The name of the engine to run on; NULL for the router's choice.
    pub engine: *const c_char,
    /// The time from now in which the batch should be done, in microseconds; zero for any. A batch that has not been begun
    /// by then is not begun at all.
    pub deadline_us: u64,
    /// The kinds of engines that may run it, as in ciphermill_key_policy; zero for all.
    pub engines: u32,
    /// Zero.
    pub reserved: u32,
}

impl Default for ciphermill_run_options {
    fn default() -> Self {
        Self { struct_len: size_of::<Self>(), engine: null(), deadline_us: 0, engines: 0, reserved: 0 }
    }
}

// SAFETY: integers and a pointer, which is checked before it is followed.
unsafe impl Plain for ciphermill_run_options {}
// SAFETY: its first field is its length.
unsafe impl Versioned for ciphermill_run_options {}

/// What became of a batch as a whole.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ciphermill_report {
    /// Operations that ended well.
    pub done: u64,
    /// Operations that did not; their status says why.
    pub failed: u64,
    /// The time that was predicted, in nanoseconds.
    pub predicted_ns: f64,
    /// The engine that it went to, for ciphermill_engine_name.
    pub engine: u64,
}

/// The contract's options.
///
/// # Safety
/// The pointers are a caller's, to be read.
#[inline]
pub(crate) unsafe fn options<'a>(at: *const ciphermill_run_options) -> Result<RunOptions<'a>, Failure> {
    let mut options = RunOptions::default();
    if at.is_null() {
        return Ok(options);
    }
    // SAFETY: by the caller.
    let given = unsafe { foreign::versioned(at, "options") }?;
    if !given.engine.is_null() {
        // SAFETY: by the caller.
        options.engine = Some(unsafe { foreign::text(given.engine, "engine") }?);
    }
    if given.engines != 0 {
        let bits = u8::try_from(given.engines).map_err(|_| Failure::misuse("engines are from 0 to 255"))?;
        options.kinds = EngineKinds::from_bits(bits);
    }
    options.deadline = Some(given.deadline_us).filter(|us| *us != 0).map(Duration::from_micros);
    Ok(options)
}

/// Where a report goes, if anybody wants it.
pub(crate) struct ReportPlace(Option<Place<ciphermill_report>>);

impl ReportPlace {
    pub(crate) fn new(at: *mut ciphermill_report) -> Result<ReportPlace, Failure> {
        if at.is_null() { Ok(ReportPlace(None)) } else { Ok(ReportPlace(Some(foreign::place(at, "report")?))) }
    }

    /// # Safety
    /// The place is a caller's, to be written.
    pub(crate) unsafe fn put(self, report: &Report) {
        let Some(place) = self.0 else { return };
        let said = ciphermill_report {
            done: report.done as u64,
            failed: report.failed as u64,
            predicted_ns: report.route.predicted_ns,
            engine: report.route.engine as u64,
        };
        // SAFETY: by the caller.
        unsafe { place.put(said) }
    }
}

/// Runs a batch on the calling thread, on the engine that is predicted to be the fastest. On return every operation has a
/// status; one that fails never fails its neighbours.
///
/// `report` may be NULL if nobody wants it, `options` for what is usual.
///
/// # Errors
/// CIPHERMILL_MISUSE when an operation breaks a rule (ciphermill_last_error tells which operation and which rule): nothing was
/// written; CIPHERMILL_REFUSED when policy forbids the suite or no engine may run it; CIPHERMILL_ENGINE_FAULT when every engine
/// failed every operation; CIPHERMILL_EXHAUSTED, CIPHERMILL_FORKED.
///
/// # Threads
/// Any. Nobody else touches ops and arena meanwhile.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_run(
    mill: *const ciphermill_mill,
    report: *mut ciphermill_report,
    batch: *const ciphermill_batch,
    options: *const ciphermill_run_options,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mill = unsafe { handle::shared(mill) }?;
        let place = ReportPlace::new(report)?;
        // SAFETY: the caller's to be read.
        let (batch, options) = unsafe { (foreign::read(batch, "batch")?, self::options(options)?) };
        let (suite, direction) = (suite::of_number(batch.suite)?, suite::direction(batch.direction)?);
        // SAFETY: the caller's to be read and written.
        let (ops, arena) = unsafe { ops_and_arena((batch.ops, batch.ops_len), (batch.arena, batch.arena_len)) }?;
        let report = mill.run_with(Batch::new(suite, direction, ops, arena), &options)?;
        // SAFETY: the caller's to be written.
        unsafe { place.put(&report) };
        Ok(())
    })
}
