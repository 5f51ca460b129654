//! Engines that misbehave, for tests: what applications get while an engine of the mill fails under them.
//!
//! Where `CIPHERMILL_OPENSSL_ENGINES` names `fault:WHAT:EVERY:ENGINE`, that engine is there, and one batch of so many meets a fault,
//! known-answer tests included. `refuse` is met by keys that are prepared and queues that are opened instead. With `:KIND` behind it the
//! engine poses as one of that kind: those that can fail, like `gpu`, run on threads of their own, and are not waited for without end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ciphermill_contract::Engine;
use ciphermill_fault::{Fault, FaultEngine, FaultHandle, Script};

/// How long a slow engine takes longer.
const DELAY: Duration = Duration::from_millis(1);

/// How long an engine hangs before it fails after all; longer than tests take.
const STALL_MAX: Duration = Duration::from_secs(300);

/// What steers the engines, kept so that those that hang go on hanging.
static HANDLES: Mutex<Vec<FaultHandle>> = Mutex::new(Vec::new());

/// The engine of such a name; `None` for any other.
pub(crate) fn engine(name: &str) -> Option<Arc<dyn Engine>> {
    let mut words = name.strip_prefix("fault:")?.split(':');
    let (what, every, wrapped) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    let wrapped = ciphermill_engines::open(wrapped)?.ok()?;
    let (name, mut kind) = (wrapped.info().name, wrapped.info().kind);
    if let Some(word) = words.next() {
        kind = word.parse().ok()?;
    }
    let script = script(what, every)?;
    let engine = match what {
        "refuse" => FaultEngine::new(name, wrapped, Script::healthy()).with_call_script(script),
        _ => FaultEngine::new(name, wrapped, script),
    };
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner).push(engine.handle());
    Some(Arc::new(engine.with_kind(kind)))
}

/// The last of `every` batches, over and over, meets the fault of this name.
fn script(what: &str, every: usize) -> Option<Script> {
    let fault = match what {
        "refuse" | "errors" => Fault::Errors,
        "error" => Fault::ErrorAt(1),
        "unfinished" => Fault::Unfinished,
        "panic" => Fault::Panic,
        "death" => Fault::Death,
        "slow" => Fault::Delay(DELAY),
        "hang" => Fault::Stall,
        "wrong" => Fault::WrongBit { op: 1, bit: 77 },
        _ => return None,
    };
    let mut faults = vec![Fault::None; every.max(1)];
    faults[every.max(1) - 1] = fault;
    Some(Script::cycle(faults).stall_max(STALL_MAX))
}

/// Batches and calls of this process that have met their fault.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ciphermill_openssl_faults() -> u64 {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner).iter().map(FaultHandle::injected).sum()
}
