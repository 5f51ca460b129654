//! Runs a program and makes one of its system calls fail, or ends it there: fault injection on write paths.
//!
//! ```text
//! run() ── starts ──► own program, hold(): seccomp filter, SIGSTOP, exec ──► the program under test
//!   └── ptrace: stops at each call of CALLS ──► counts it, fails it, kills there, or lets it pass
//! ```
//!
//! Every system call is seen, whichever library makes it. A call counts when it concerns a path or descriptor below the
//! current folder of the program, or its standard output. `hold` needs a program that calls it first thing when started with
//! [`HOLD`]; the tracing thread gets the events of its own runs alone, so that several threads can run programs.
//!
//! Linux on x86-64 only: system call numbers and registers are the architecture's own.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod calls;
mod hold;
mod inject;

pub use calls::Call;
pub use hold::{HOLD, hold};
pub use inject::{Action, Ended, Fault, Run, run};
