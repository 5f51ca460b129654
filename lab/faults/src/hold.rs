//! The child's side: ask the kernel to stop at certain calls, wait for the tracer, become the program under test.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::{Signal, raise};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use crate::calls::CALLS;

/// The first argument of the process that is to call [`hold`].
pub const HOLD: &str = "--hold";

/// Stops this process until a tracer lets it go on, then replaces it by the program that `args` names.
///
/// # Errors
/// What the filter, the signal or the program's start gives; on success it does not return.
pub fn hold(args: impl IntoIterator<Item = OsString>) -> io::Result<Infallible> {
    let mut args = args.into_iter();
    let program = args.next().ok_or_else(|| io::Error::other("no program to run"))?;
    let rules: BTreeMap<i64, _> = CALLS.iter().map(|call| (call.number, Vec::new())).collect();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Trace(0), TargetArch::x86_64);
    let filter: BpfProgram = filter.and_then(TryInto::try_into).map_err(io::Error::other)?;
    seccompiler::apply_filter(&filter).map_err(io::Error::other)?;
    raise(Signal::SIGSTOP)?;
    Err(Command::new(program).args(args).exec())
}
