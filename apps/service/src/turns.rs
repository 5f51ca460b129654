//! Turns on a core: a worker asks the scheduler for short ones, so that it is soon on again after it was woken.
//!
//! Linux picks the thread whose virtual deadline is first, and a deadline is as far away as a turn is long (EEVDF; sched(7), since Linux
//! 6.12 for `SCHED_OTHER`). Whoever asks for shorter turns gets no more of the core, but sooner.

use std::io;
use std::time::Duration;

/// The shortest that the kernel allows.
const TURN: Duration = Duration::from_micros(100);

/// Asks for short turns for the calling thread. Kernels before Linux 6.12 take no notice.
///
/// # Errors
/// What the kernel says: a filter of system calls may forbid it.
#[allow(unsafe_code, reason = "no binding has these calls")]
pub(crate) fn shorten() -> io::Result<()> {
    let size = size_of::<libc::sched_attr>() as u32;
    let mut attr = libc::sched_attr {
        size,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: sched_getattr(2) writes at most `size` bytes to `attr`, of this thread (0).
    if unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Who runs as a batch job or in real time was told to by somebody.
    if attr.sched_policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    attr.sched_runtime = TURN.as_nanos() as u64;
    // SAFETY: sched_setattr(2) reads `size` bytes of `attr`, for this thread.
    if unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_priority() {
        std::thread::spawn(|| {
            // Lower is allowed to everybody.
            rustix::process::nice(3).expect("lower");
            let before = rustix::process::getpriority_process(None).expect("a priority");
            if let Err(error) = shorten() {
                println!("NOTE: half of this was not run: {error}");
            }
            assert_eq!(rustix::process::getpriority_process(None).expect("a priority"), before);
        })
        .join()
        .expect("as it was");
    }
}
