//! The mill behind the provider: opened when it is first needed, once a process.
//!
//! A forked child opens one of its own. The pages of its parent's keys are not given to it, so that it must not touch that
//! mill any more, nor drop it.

use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::{env, ptr};

use ciphermill::Mill;

/// Which process this is, counted along the line of its parents.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// The mill of the process that opened it last.
static BACKEND: AtomicPtr<Backend> = AtomicPtr::new(ptr::null_mut());

/// A mill, and the process it belongs to.
pub(crate) struct Backend {
    generation: u64,
    pub(crate) mill: Mill,
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
        let seen = BACKEND.load(Ordering::Acquire);
        // SAFETY: what was published is never freed. It is not a secret, so that a child may read it.
        if let Some(backend) = unsafe { seen.as_ref() }
            && backend.generation == generation
        {
            return Some(backend);
        }
        let opened = Box::into_raw(Box::new(Backend { generation, mill: open()? }));
        match BACKEND.compare_exchange(seen, opened, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just made, and never freed from now on.
            Ok(_) => Some(unsafe { &*opened }),
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
        unsafe { BACKEND.load(Ordering::Acquire).as_ref() }.filter(|backend| backend.generation == generation())
    }

    /// The generation that the mill belongs to.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }
}

/// Opens a mill without threads of its own: applications that load providers fork, confine themselves and count their threads.
fn open() -> Option<Mill> {
    let names = env::var("CIPHERMILL_OPENSSL_ENGINES").unwrap_or_else(|_| "lanes,library".to_owned());
    let engines = names.split(',').filter_map(|name| ciphermill_engines::open(name.trim())?.ok());
    // Paddings are made here, so that engines see the primitive, which by itself is legacy.
    Mill::builder().engines(engines).workers(0).legacy(true).open().ok()
}
