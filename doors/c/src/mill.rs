//! The mill: opened, closed, asked for its engines.

use std::ffi::c_char;
use std::ptr::null;
use std::time::Duration;

use ciphermill::contract::error::Refusal;
use ciphermill::contract::{Engine, Error};
use ciphermill::{Mill, SelfTest};
use std::sync::Arc;

use crate::entry::entry;
use crate::failure::{Failure, ciphermill_status};
use crate::foreign::{self, Plain, Versioned};
use crate::handle::{self, Handle, opaque};

/// Engines, key table and router. Any number of threads may use one mill at the same time.
pub struct ciphermill_mill(Handle<Mill>);

opaque!(ciphermill_mill, Mill, "mill");

/// The workers of a mill, or its window: none.
pub const CIPHERMILL_NONE: i32 = -1;

/// What a mill is opened with. Set `struct_len` to the size of the structure, and all else to zero for what is usual.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ciphermill_options {
    /// sizeof(ciphermill_options).
    pub struct_len: usize,
    /// Names of engines with commas between them, as in "lanes,library"; NULL for all that this machine can run.
    pub engines: *const c_char,
    /// Threads that work on what is handed over: zero for one a core, CIPHERMILL_NONE for none.
    pub workers: i32,
    /// How long single operations of public keys wait for others at most, in microseconds: zero for what is usual (200),
    /// CIPHERMILL_NONE for not at all.
    pub window_max_us: i32,
    /// One to enable legacy suites (broken, undersized, variable-time), else zero.
    pub legacy: u32,
    /// One to have every suite of every engine pass its known-answer test now, zero for before its first batch.
    pub self_test: u32,
}

impl Default for ciphermill_options {
    fn default() -> Self {
        let struct_len = size_of::<Self>();
        Self { struct_len, engines: null(), workers: 0, window_max_us: 0, legacy: 0, self_test: 0 }
    }
}

// SAFETY: integers and a pointer, which is checked before it is followed.
unsafe impl Plain for ciphermill_options {}
// SAFETY: its first field is its length.
unsafe impl Versioned for ciphermill_options {}

/// The engines with these names.
fn named(names: &str) -> Result<Vec<Arc<dyn Engine>>, Failure> {
    let unknown = |name: &str| Failure::from(Error::Refused(Refusal::EngineUnavailable(name.to_owned())));
    let names = names.split(',').map(str::trim);
    names.map(|name| Ok(ciphermill_engines::open(name).ok_or_else(|| unknown(name))??)).collect()
}

fn open(options: &ciphermill_options) -> Result<Mill, Failure> {
    let engines = match options.engines.is_null() {
        true => ciphermill_engines::all(),
        // SAFETY: a text of the caller's.
        false => named(unsafe { foreign::text(options.engines, "engines") }?)?,
    };
    let flag = |value: u32, what: &str| match value {
        0 | 1 => Ok(value == 1),
        _ => Err(Failure::misuse(format!("{what} is neither 0 nor 1"))),
    };
    let self_test = if flag(options.self_test, "self_test")? { SelfTest::AtOpen } else { SelfTest::OnFirstUse };
    let mut builder = Mill::builder().engines(engines).legacy(flag(options.legacy, "legacy")?).self_test(self_test);
    builder = match options.workers {
        0 => builder,
        CIPHERMILL_NONE => builder.workers(0),
        workers => builder.workers(
            usize::try_from(workers)
                .ok()
                .filter(|workers| *workers <= WORKERS_MAX)
                .ok_or_else(|| Failure::misuse(format!("workers is from -1 to {WORKERS_MAX}")))?,
        ),
    };
    builder = match options.window_max_us {
        0 => builder,
        CIPHERMILL_NONE => builder.window_max(Duration::ZERO),
        window => builder.window_max(Duration::from_micros(
            u64::try_from(window).map_err(|_| Failure::misuse("window_max_us is -1 or more"))?,
        )),
    };
    Ok(builder.open()?)
}

/// Threads that may be asked for.
const WORKERS_MAX: usize = 1024;

/// Opens a mill, to be closed by ciphermill_mill_close. Looking for engines takes milliseconds, with a GPU up to seconds.
///
/// `options` may be NULL for what is usual.
///
/// # Errors
/// CIPHERMILL_REFUSED for an engine that is not there; CIPHERMILL_ENGINE_FAULT for one that cannot be opened;
/// CIPHERMILL_MISUSE for options that are out of range.
///
/// # Threads
/// Any. A process that forks gets no deadlock: a child opens a mill of its own.
///
/// # Safety
/// Pointers are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_mill_open(
    mill: *mut *mut ciphermill_mill,
    options: *const ciphermill_options,
) -> ciphermill_status {
    entry(|| {
        let place = foreign::place(mill, "mill")?;
        // SAFETY: the caller's to be read.
        let options = unsafe { foreign::versioned(options, "options") }?;
        let opened = open(&options)?;
        // SAFETY: the caller's to be written.
        unsafe { place.put(handle::open(opened)) };
        Ok(())
    })
}

/// Closes a mill; NULL is none. Its keys are wiped and its threads end when the sessions and bound contexts that were opened on
/// it are closed as well.
///
/// # Errors
/// CIPHERMILL_MISUSE for what is not open (any more); CIPHERMILL_FORKED in a child of the process that opened it, which
/// leaves it as it is.
///
/// # Threads
/// No other thread may be using the mill, or use it later.
///
/// # Safety
/// As said there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_mill_close(mill: *mut ciphermill_mill) -> ciphermill_status {
    // SAFETY: nobody uses it any more, by the caller.
    entry(|| unsafe { handle::close(mill) })
}

/// Tells how many engines a mill has.
///
/// # Errors
/// CIPHERMILL_MISUSE, CIPHERMILL_FORKED.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_engine_count(mill: *const ciphermill_mill, count: *mut usize) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mill = unsafe { handle::shared(mill) }?;
        let place = foreign::place(count, "count")?;
        // SAFETY: the caller's to be written.
        unsafe { place.put(mill.engines().len()) };
        Ok(())
    })
}

/// Writes the name of the engine at `index`, NUL at the end, to `name`. `name_len` is the room there in bytes; on return the
/// bytes that the name needs, NUL included.
///
/// # Errors
/// CIPHERMILL_MISUSE for an index that is no engine's; CIPHERMILL_TOO_SHORT; CIPHERMILL_FORKED.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_engine_name(
    mill: *const ciphermill_mill,
    name: *mut c_char,
    name_len: *mut usize,
    index: usize,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mill = unsafe { handle::shared(mill) }?;
        let engines = mill.engines();
        let engine = engines.get(index);
        let engine =
            engine.ok_or_else(|| Failure::misuse(format!("the mill has {} engines, not {index}", engines.len())))?;
        // SAFETY: checked there; the caller's to be written.
        unsafe { foreign::put_text(name, name_len, engine.info.name) }
    })
}
