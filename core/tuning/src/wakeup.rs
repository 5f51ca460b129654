//! What waking a sleeping thread costs.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Times that a thread is woken.
const ROUNDS: usize = 61;

/// Long enough for the thread to have gone to sleep, and its core with it: workers sleep for longer than a moment.
const NAP: Duration = Duration::from_millis(2);

/// The median time in nanoseconds from unparking a sleeping thread to its running.
pub fn wakeup_ns() -> f64 {
    let (woke, wakings) = mpsc::channel::<Instant>();
    let sleeper = thread::spawn(move || {
        for _ in 0..ROUNDS {
            thread::park();
            if woke.send(Instant::now()).is_err() {
                return;
            }
        }
    });
    let mut times: Vec<f64> = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        thread::sleep(NAP);
        let start = Instant::now();
        sleeper.thread().unpark();
        // A thread that parked for no reason (it may) sends a moment before `start`, which counts as nothing.
        let Ok(woke) = wakings.recv() else { break };
        times.push(woke.saturating_duration_since(start).as_nanos() as f64);
    }
    // Its only way to end badly is a panic of the channel's, and then there are fewer times.
    let _ = sleeper.join();
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn waking_takes_a_time_that_is_one() {
        let ns = super::wakeup_ns();
        assert!(ns > 100.0 && ns < 1e9, "{ns}");
    }
}
