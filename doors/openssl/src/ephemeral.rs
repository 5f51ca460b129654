//! Key pairs of X25519, which TLS makes for each connection: made ahead, many in one batch of lanes, each given out once.
//!
//! A pair that waits lies in locked memory and is wiped when it is given out. A forked child has none of its parent's.

use std::mem::ManuallyDrop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use ciphermill_contract::suite::KeyPair;
use ciphermill_contract::{Batch, Direction, Op, Suite};
use ciphermill_memory::{SecretBytes, wipe};

use crate::backend::{Backend, Preference, preference};
use crate::dispatch::{KeyManagement, Object};
use crate::ffi::selection;
use crate::inner::provider_context;
use crate::params::{END, tell_octets};
use crate::stack::with_room;
use crate::timing::fastest;

/// Bytes of a private key and of a public one.
const LEN: usize = 32;

/// Pairs that are made at a time: two steps of lanes.
const PAIRS: usize = 16;

/// Pairs that a process has of `default` before any is made ahead: few programs that make so many stop soon.
const LEFT_MAX: u32 = 8;

/// A pair that is made ahead takes at most this share of the time of `default`'s, or none is.
const SHARE_MAX: f64 = 0.8;

/// Whether pairs made ahead pay.
const UNKNOWN: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

/// Pairs that wait.
struct Pool {
    generation: u64,
    /// Pairs, private key first. In a child these pages are missing: not touched there, nor freed.
    bytes: ManuallyDrop<SecretBytes>,
    left: usize,
}

static POOL: Mutex<Option<Pool>> = Mutex::new(None);

/// A pair as an object of `default`: one that waits, or of `by_default`.
pub(crate) fn generate(functions: &KeyManagement, by_default: impl Fn() -> Object) -> Object {
    match is_wanted(functions, &by_default).then(|| with_room(|| take(functions)).flatten()).flatten() {
        Some(object) => object,
        None => by_default(),
    }
}

/// Whether pairs are to be made ahead: always, never, or if that takes less time, as measured once.
fn is_wanted(functions: &KeyManagement, by_default: &impl Fn() -> Object) -> bool {
    static LEFT: AtomicU32 = AtomicU32::new(0);
    // No lock, which a child would wait for that was forked while another thread measured. Two may measure at once.
    static PAYS: AtomicU8 = AtomicU8::new(UNKNOWN);
    match preference() {
        Preference::Mill => return true,
        Preference::Default => return false,
        Preference::Faster => {}
    }
    if LEFT.load(Ordering::Relaxed) < LEFT_MAX {
        LEFT.fetch_add(1, Ordering::Relaxed);
        return false;
    }
    let known = PAYS.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return known == YES;
    }
    let pays = measured(functions, by_default);
    PAYS.store(if pays { YES } else { NO }, Ordering::Relaxed);
    pays
}

/// Whether a pair that is made ahead takes less time than one of `default`.
fn measured(functions: &KeyManagement, by_default: &impl Fn() -> Object) -> bool {
    let fill = || with_room(|| Backend::current().and_then(Pool::filled).map(Pool::close)).flatten().is_some();
    let (Some(ours), Some(theirs)) = (fastest(fill), fastest(|| is_freed(functions, by_default()))) else {
        return false;
    };
    ours / PAIRS as f64 <= SHARE_MAX * theirs
}

/// Frees an object that was made to be timed; whether there was one.
fn is_freed(functions: &KeyManagement, object: Object) -> bool {
    let Some(free) = functions.free.filter(|_| !object.is_null()) else { return false };
    // SAFETY: just made, by these functions.
    unsafe { free(object) };
    true
}

/// Takes a pair that waits. `None` where none can be had now: another thread is at it, or was when this process was forked.
fn take(functions: &KeyManagement) -> Option<Object> {
    let backend = Backend::current()?;
    let mut pool = POOL.try_lock().ok()?;
    let is_ready = |pool: &&mut Pool| pool.generation == backend.generation() && pool.left > 0;
    if pool.as_mut().filter(is_ready).is_none()
        && let Some(before) = pool.replace(Pool::filled(backend)?)
    {
        before.close();
    }
    let pool = pool.as_mut()?;
    pool.left -= 1;
    let pair = &mut pool.bytes[2 * LEN * pool.left..][..2 * LEN];
    let object = object_of(functions, pair);
    wipe(pair);
    object
}

impl Pool {
    fn filled(backend: &Backend) -> Option<Pool> {
        let mut bytes = SecretBytes::zeroed(2 * LEN * PAIRS).ok()?;
        let mut ops: [Op; PAIRS] = std::array::from_fn(|i| {
            let at = (2 * LEN * i) as u32;
            Op { output: at, tag: at + LEN as u32, tag_len: LEN as u16, ..Op::default() }
        });
        let batch = Batch::new(Suite::Generate(KeyPair::X25519), Direction::Encrypt, &mut ops, &mut bytes);
        let report = backend.mill.run(batch).ok()?;
        let ready = |bytes| Pool { generation: backend.generation(), bytes: ManuallyDrop::new(bytes), left: PAIRS };
        (report.failed == 0).then(|| ready(bytes))
    }

    /// Frees the memory, if it is this process's.
    fn close(self) {
        if self.generation == crate::backend::generation() {
            drop(ManuallyDrop::into_inner(self.bytes));
        }
    }
}

/// A pair as an object of `default`.
fn object_of(functions: &KeyManagement, pair: &[u8]) -> Option<Object> {
    let (private, public) = pair.split_at(LEN);
    let params = [tell_octets(c"priv", private), tell_octets(c"pub", public), END];
    // SAFETY: functions of this type; an object of theirs; an array that lives as long as the call.
    unsafe {
        let object = functions.new?(provider_context());
        if object.is_null() {
            return None;
        }
        let parts = selection::PRIVATE_KEY | selection::PUBLIC_KEY;
        if functions.import?(object, parts, params.as_ptr()) == 1 {
            return Some(object);
        }
        functions.free?(object);
    }
    None
}
