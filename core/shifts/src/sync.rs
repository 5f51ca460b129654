//! The standard library's primitives, or loom's when interleavings are being explored.

#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock,
    atomic::{AtomicBool, AtomicU32, AtomicUsize, fence},
};
#[cfg(not(all(loom, test)))]
pub(crate) use std::thread::{self, Thread};

#[cfg(all(loom, test))]
pub(crate) use loom::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicUsize, fence},
};
#[cfg(all(loom, test))]
pub(crate) use thread::Thread;

/// Loom's own `unpark` wakes a thread from whatever it waits for, and forgets the token of one that waits for a lock.
#[cfg(all(loom, test))]
pub(crate) mod thread {
    use loom::sync::Condvar;

    use super::{Arc, Mutex};

    loom::thread_local! {
        static CURRENT: Thread = Thread(Arc::new((Mutex::new(false), Condvar::new())));
    }

    #[derive(Clone)]
    pub(crate) struct Thread(Arc<(Mutex<bool>, Condvar)>);

    impl Thread {
        pub(crate) fn unpark(&self) {
            *crate::lock(&self.0.0) = true;
            self.0.1.notify_one();
        }
    }

    pub(crate) fn current() -> Thread {
        CURRENT.with(Thread::clone)
    }

    pub(crate) fn park() {
        let thread = current();
        let mut token = crate::lock(&thread.0.0);
        while !*token {
            token = thread.0.1.wait(token).expect("no panic");
        }
        *token = false;
    }
}

/// Loom has no `OnceLock`: one with the orderings that the standard library's is documented to have.
#[cfg(all(loom, test))]
pub(crate) struct OnceLock<T> {
    is_set: AtomicBool,
    value: Mutex<Option<Arc<T>>>,
}

#[cfg(all(loom, test))]
impl<T> OnceLock<T> {
    pub(crate) fn new() -> OnceLock<T> {
        OnceLock { is_set: AtomicBool::new(false), value: Mutex::new(None) }
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        *crate::lock(&self.value) = Some(Arc::new(value));
        self.is_set.store(true, std::sync::atomic::Ordering::Release);
        Ok(())
    }

    pub(crate) fn get(&self) -> Option<Arc<T>> {
        if !self.is_set.load(std::sync::atomic::Ordering::Acquire) {
            return None;
        }
        crate::lock(&self.value).clone()
    }
}
