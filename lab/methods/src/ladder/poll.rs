//! Waiting for another process without the system's help.

use std::hint::spin_loop;
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// Looks before the core is offered to others.
const SPINS: u32 = 200;

/// Offers before it is looked whether the other side still lives.
const YIELDS: u32 = 512;

/// Looks until `ready`, then returns `true`; `false` when `alive` says no or `deadline` has passed.
pub(crate) fn until(mut ready: impl FnMut() -> bool, mut alive: impl FnMut() -> bool, deadline: Duration) -> bool {
    let mut since = None;
    loop {
        for _ in 0..SPINS {
            if ready() {
                return true;
            }
            spin_loop();
        }
        for _ in 0..YIELDS {
            if ready() {
                return true;
            }
            yield_now();
        }
        // What a side wrote before it ended counts.
        if !alive() || since.get_or_insert_with(Instant::now).elapsed() >= deadline {
            return ready();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends() {
        let mut looks = 0;
        let ready = || {
            looks += 1;
            looks > 5000
        };
        assert!(until(ready, || true, Duration::from_secs(60)));
        assert!(!until(|| false, || false, Duration::from_secs(60)));
        assert!(!until(|| false, || true, Duration::from_millis(2)));
    }
}
