//! Signals that ask the program to stop: a flag that long work looks at, so that it can clean up.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The signal that came first; zero while there was none.
static REQUESTED: AtomicI32 = AtomicI32::new(0);

/// What the program exits with because of a signal, as shells have it: 128 and the signal's number. `None` when nobody asked
/// to stop.
pub fn exit_code() -> Option<u8> {
    match REQUESTED.load(Ordering::Relaxed) {
        0 => None,
        signal => Some(code(signal)),
    }
}

fn code(signal: i32) -> u8 {
    128 + u8::try_from(signal).unwrap_or_default()
}

/// The flag that is set, once somebody watches.
static FLAG: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);

/// A flag that is set on Ctrl-C, SIGTERM or SIGHUP; whoever asks again gets the same. A second signal ends the program at once.
///
/// # Errors
/// When the system gives no handler or thread.
pub fn watch() -> anyhow::Result<Arc<AtomicBool>> {
    let mut watched = FLAG.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(flag) = &*watched {
        return Ok(Arc::clone(flag));
    }
    let flag = Arc::new(AtomicBool::new(false));
    let ignored = std::fs::read_to_string("/proc/self/status").ok().and_then(|status| ignored(&status)).unwrap_or(0);
    // `nohup` works by having SIGHUP ignored.
    let hangup = Some(SIGHUP).filter(|signal| ignored & (1 << (signal - 1)) == 0);
    let mut signals = Signals::new([SIGINT, SIGTERM].into_iter().chain(hangup)).context("cannot watch for signals")?;
    let own = Arc::clone(&flag);
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                own.store(true, Ordering::Relaxed);
                let first = REQUESTED.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
                if first.is_err() {
                    std::process::exit(i32::from(code(signal)));
                }
            }
        })
        .context("cannot start the thread that waits for signals")?;
    *watched = Some(Arc::clone(&flag));
    Ok(flag)
}

/// The signals that whoever started this program had ignored, a bit each, from the text of `/proc/self/status` (proc(5),
/// SigIgn).
fn ignored(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000000001\nSigCgt:\t0\n"), Some(1 << (SIGHUP - 1)));
        assert_eq!(ignored("Name:\tx\n"), None);
    }

    #[test]
    fn exit_codes_are_those_of_shells() {
        assert_eq!([code(SIGHUP), code(SIGINT), code(SIGTERM)], [129, 130, 143]);
    }
}
