//! The mill behind the provider: opened when it is first needed, once a process.
//!
//! A forked child opens one of its own. The pages of its parent's keys are not given to it, so that it must not touch that
//! mill any more, nor drop it.

use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock};

use ciphermill::Mill;
use ciphermill_contract::Engine;

use crate::stack::with_room;

/// Which process this is, counted along the line of its parents.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// The mill of the process that opened it last.
static OPENED: AtomicPtr<Opened> = AtomicPtr::new(ptr::null_mut());

/// What [`filtered`] said when the provider was loaded.
static FILTERED: OnceLock<u8> = OnceLock::new();

/// A mill, and the process it belongs to.
pub(crate) struct Backend {
    generation: u64,
    pub(crate) mill: Mill,
}

/// A process, and its mill if one could be opened.
struct Opened {
    generation: u64,
    backend: Option<Backend>,
}

unsafe extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Which process this is: another number after each fork.
pub(crate) fn generation() -> u64 {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handler adds to a number, which every state of a forked child allows. The library is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    GENERATION.load(Ordering::Relaxed)
}

impl Backend {
    /// The mill of this process; `None` where none can be opened.
    pub(crate) fn current() -> Option<&'static Backend> {
        let generation = generation();
        let seen = OPENED.load(Ordering::Acquire);
        // SAFETY: what was published is never freed. It is not a secret, so that a child may read it.
        if let Some(opened) = unsafe { seen.as_ref() }
            && opened.generation == generation
        {
            return opened.backend.as_ref();
        }
        let backend = with_room(open)?.map(|mill| Backend { generation, mill });
        let opened = Box::into_raw(Box::new(Opened { generation, backend }));
        match OPENED.compare_exchange(seen, opened, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just made, and never freed from now on.
            Ok(_) => unsafe { &*opened }.backend.as_ref(),
            Err(_) => {
                // SAFETY: nobody has seen it.
                drop(unsafe { Box::from_raw(opened) });
                Backend::current()
            }
        }
    }

    /// The mill of this process if it has one already.
    pub(crate) fn opened() -> Option<&'static Backend> {
        // SAFETY: as in `current`.
        let opened = unsafe { OPENED.load(Ordering::Acquire).as_ref() };
        opened.filter(|opened| opened.generation == generation())?.backend.as_ref()
    }

    /// The generation that the mill belongs to.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }
}

/// Who does what both can do, as `CIPHERMILL_OPENSSL_PREFERS` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preference {
    /// Whoever is faster.
    Faster,
    /// The mill, whatever it takes: `mill`.
    Mill,
    /// `default`, unless operations of several connections share a batch: `default`.
    Default,
}

pub(crate) fn preference() -> Preference {
    static PREFERENCE: OnceLock<Preference> = OnceLock::new();
    *PREFERENCE.get_or_init(|| match environment(c"CIPHERMILL_OPENSSL_PREFERS").as_deref() {
        Some("mill") => Preference::Mill,
        Some("default") => Preference::Default,
        _ => Preference::Faster,
    })
}

/// How far system calls of this thread are filtered (`Seccomp` in proc(5)), zero if not. `None` where it may not even be asked.
fn filtered() -> Option<u8> {
    match std::fs::read_to_string("/proc/thread-self/status") {
        Ok(status) => {
            let line = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
            Some(line.and_then(|number| number.trim().parse().ok()).unwrap_or(0))
        }
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => None,
        // Without proc(5), as in a changed root.
        Err(_) => Some(0),
    }
}

/// Whether this process has confined itself since the provider was loaded, as OpenSSH's server does before it believes a client. What
/// opening a mill asks of the system may end such a process.
fn is_confined() -> bool {
    filtered().is_none_or(|now| FILTERED.get().is_some_and(|before| now > *before))
}

/// Notes how the process is when the provider is loaded: containers filter from the beginning, and do not mind.
pub(crate) fn loaded() {
    generation();
    preference();
    FILTERED.get_or_init(|| filtered().unwrap_or(u8::MAX));
}

/// Opens a mill without threads of its own: applications that load providers fork, confine themselves and count their threads.
fn open() -> Option<Mill> {
    if is_confined() {
        return None;
    }
    let names = environment(c"CIPHERMILL_OPENSSL_ENGINES").unwrap_or_else(|| "lanes,library".to_owned());
    let engines = names.split(',').filter_map(|name| engine(name.trim()));
    // Paddings are made here, so that engines see the primitive, which by itself is legacy.
    Mill::builder().engines(engines).workers(0).legacy(true).open().ok()
}

/// The engine of a name, if this machine has it.
fn engine(name: &str) -> Option<Arc<dyn Engine>> {
    #[cfg(feature = "faults")]
    if let Some(faulty) = crate::faults::engine(name) {
        return Some(faulty);
    }
    ciphermill_engines::open(name)?.ok()
}

unsafe extern "C" {
    /// As `getenv`, but that it finds nothing where a program has another user's rights (`secure_getenv(3)`, glibc and musl).
    fn secure_getenv(name: *const c_char) -> *const c_char;
}

/// A variable of the environment, which programs with another user's rights do not listen to.
pub(crate) fn environment(name: &CStr) -> Option<String> {
    // SAFETY: a string; what is returned is copied before anybody may change it.
    unsafe {
        let value = secure_getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_string_lossy().into_owned())
    }
}
