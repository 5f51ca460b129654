//! Panics of engines, of callers' code and of doors end here: threads, batches and operations of others outlive them, and no other language
//! sees them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`; `None` when it panicked. The caller leaves nothing half done that it goes on to use.
#[inline(always)]
pub fn caught<R>(work: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => Some(done),
        Err(payload) => {
            let_go(payload);
            None
        }
    }
}

/// Drops what was thrown, which may panic again; what that throws is not dropped any more.
#[cold]
pub fn let_go(payload: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in the drop as well");
        }
    }

    #[test]
    fn panics_end_here_whatever_was_thrown() {
        assert_eq!(caught(|| 7), Some(7));
        assert_eq!(caught(|| panic!("with {}", "words")), None::<()>);
        assert_eq!(caught(|| std::panic::panic_any(7_u8)), None::<()>);
        assert_eq!(caught(|| std::panic::panic_any(Bomb)), None::<()>);
    }
}
