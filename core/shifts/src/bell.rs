//! How one side of two sleeps until the other has something for it, by one word that both can write: it may lie in memory that two
//! processes share.
//!
//! How the sleeper is woken is the caller's: a futex on the word, or a descriptor. Each side can confuse itself by what it writes
//! there, and no other: a word that is wrong costs a sleeper its sleep, or a waker a system call.

use std::sync::atomic::Ordering;

use crate::sync::{AtomicU32, fence};

/// In the word while somebody sleeps, or is about to: what a futex waits on.
pub const ASLEEP: u32 = 1;

const AWAKE: u32 = 0;

/// Says that the caller is about to sleep, and looks once more for what it waits for. Sleep if this is true, until [`must_wake`] was
/// true on the other side; call [`woken`] afterwards.
pub fn may_sleep(word: &AtomicU32, is_there: impl FnOnce() -> bool) -> bool {
    word.store(ASLEEP, Ordering::Relaxed);
    // Pairs with the fence in `must_wake`: either this side sees what the other has made, or the other sees the word.
    fence(Ordering::SeqCst);
    if is_there() {
        word.store(AWAKE, Ordering::Relaxed);
        return false;
    }
    true
}

/// Says that the caller is awake, for whatever reason.
pub fn woken(word: &AtomicU32) {
    word.store(AWAKE, Ordering::Relaxed);
}

/// After the caller has made something for the other side: whether that sleeps and has to be woken. Of several calls one is told so.
pub fn must_wake(word: &AtomicU32) -> bool {
    fence(Ordering::SeqCst);
    word.load(Ordering::Relaxed) == ASLEEP && word.swap(AWAKE, Ordering::Relaxed) == ASLEEP
}

/// What makes each model fail was tried.
#[cfg(all(loom, test))]
mod model {
    use loom::sync::atomic::AtomicUsize;
    use loom::sync::{Arc, Condvar, Mutex};

    use super::*;

    /// A word with the futex on it: the kernel compares under a lock of its own.
    struct Shared {
        word: AtomicU32,
        made: AtomicUsize,
        kernel: Mutex<()>,
        sleepers: Condvar,
        wakes: AtomicUsize,
    }

    impl Shared {
        fn new() -> Shared {
            Shared {
                word: AtomicU32::new(0),
                made: AtomicUsize::new(0),
                kernel: Mutex::new(()),
                sleepers: Condvar::new(),
                wakes: AtomicUsize::new(0),
            }
        }

        fn futex_wait(&self) {
            let mut kernel = self.kernel.lock().expect("no panic");
            while self.word.load(Ordering::Relaxed) == ASLEEP {
                kernel = self.sleepers.wait(kernel).expect("no panic");
            }
        }

        fn futex_wake(&self) {
            let _kernel = self.kernel.lock().expect("no panic");
            self.wakes.fetch_add(1, Ordering::Relaxed);
            self.sleepers.notify_one();
        }

        fn make(&self) {
            self.made.fetch_add(1, Ordering::Relaxed);
            if must_wake(&self.word) {
                self.futex_wake();
            }
        }

        fn wait_for(&self, count: usize) {
            while self.made.load(Ordering::Relaxed) < count {
                if may_sleep(&self.word, || self.made.load(Ordering::Relaxed) >= count) {
                    self.futex_wait();
                }
            }
        }
    }

    fn check(makers: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let shared = Arc::new(Shared::new());
            let made: Vec<_> = (0..makers)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    loom::thread::spawn(move || shared.make())
                })
                .collect();
            shared.wait_for(makers);
            for maker in made {
                maker.join().expect("ends");
            }
            assert!(shared.wakes.load(Ordering::Relaxed) <= makers, "no more wakes than there was to tell");
        });
    }

    /// Without the fence in `may_sleep` or in `must_wake`, or without the second look, the sleeper sleeps for ever.
    #[test]
    fn a_sleeper_is_woken() {
        check(1);
    }

    #[test]
    fn a_sleeper_that_waits_for_two_is_woken_for_the_last() {
        check(2);
    }
}
