//! The tracer's side: starts a program, stops at its calls, and misbehaves at one of them.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::calls::{Call, inspect};
use crate::hold::HOLD;

/// After this long a program is taken to hang, and killed.
const HANG: Duration = Duration::from_secs(60);

/// How long [`Action::Delay`] holds a call back.
const DELAY: Duration = Duration::from_millis(20);

/// `rax` of a call that is not to be made.
const NO_CALL: u64 = u64::MAX;

/// What happens at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// This call fails with the error; the next ones work.
    Fail(Errno),
    /// This call and every later one but `unlink` fail with the error: a disk that is full, or gone.
    FailFromHere(Errno),
    /// The process gets SIGKILL; the call is not made.
    Kill,
    /// The process gets SIGTERM; the call is made.
    Terminate,
    /// The call is made a little later.
    Delay,
}

/// An action at call number `at`, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which call.
    pub at: usize,
    /// What happens there.
    pub action: Action,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code.
    Code(i32),
    /// By this signal.
    Signal(Signal),
    /// Not at all: it was killed after a minute.
    Hung,
}

/// What a program did.
#[derive(Debug)]
pub struct Run {
    /// Its calls that concerned the folder or standard output, in order.
    pub calls: Vec<Call>,
    /// How it ended.
    pub ended: Ended,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: String,
}

/// Runs `program` in `folder` (an absolute path without links) with nothing in its environment but `environment`, and
/// injects `fault`. The calling program is started for it as `PROGRAM --hold …`, and has to call [`crate::hold`] then.
///
/// # Errors
/// What starting and tracing give. Where ptrace or seccomp are forbidden, this fails, rather than running without faults.
pub fn run(
    program: &Path,
    args: &[String],
    environment: &[(String, String)],
    folder: &Path,
    fault: Option<Fault>,
) -> io::Result<Run> {
    let (mut output, mut errors) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let child = Command::new(std::env::current_exe()?)
        .arg(HOLD)
        .arg(program)
        .args(args)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(errors.try_clone()?)
        .spawn()?;
    let pid = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    let watch = Watch::new(pid);
    let mut tracer = Tracer { main: pid, folder: folder.to_owned(), fault, calls: Vec::new(), ended: None };
    tracer.attach().and_then(|()| tracer.follow()).inspect_err(|_| {
        // Whatever went wrong, nothing may be left running.
        let _ = kill(pid, Signal::SIGKILL);
    })?;
    let hung = watch.end();
    let ended = tracer.ended.ok_or_else(|| io::Error::other("the program's end was not seen"))?;
    Ok(Run {
        calls: tracer.calls,
        ended: if hung { Ended::Hung } else { ended },
        stdout: content(&mut output)?,
        stderr: String::from_utf8_lossy(&content(&mut errors)?).into_owned(),
    })
}

fn content(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

struct Tracer {
    main: Pid,
    folder: PathBuf,
    fault: Option<Fault>,
    calls: Vec<Call>,
    ended: Option<Ended>,
}

impl Tracer {
    fn attach(&self) -> io::Result<()> {
        match waitpid(self.main, Some(WaitPidFlag::WUNTRACED))? {
            WaitStatus::Stopped(_, Signal::SIGSTOP) => {}
            other => return Err(io::Error::other(format!("the program could not be held: {other:?}"))),
        }
        let options = Options::PTRACE_O_TRACESECCOMP
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEFORK
            | Options::PTRACE_O_TRACEVFORK
            | Options::PTRACE_O_EXITKILL;
        ptrace::seize(self.main, options)?;
        kill(self.main, Signal::SIGCONT)?;
        Ok(())
    }

    /// Until the program and everything that it started have ended.
    fn follow(&mut self) -> io::Result<()> {
        loop {
            // The events of this thread's own children and tracees, those of other threads left to them.
            let status = match waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD)) {
                Ok(status) => status,
                Err(Errno::ECHILD) => return Ok(()),
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            };
            match status {
                WaitStatus::PtraceEvent(pid, _, event) if event == ptrace::Event::PTRACE_EVENT_SECCOMP as i32 => {
                    gone_is_fine(self.at_call(pid))?;
                }
                WaitStatus::PtraceEvent(pid, ..) => gone_is_fine(ptrace::cont(pid, None))?,
                WaitStatus::Stopped(pid, signal) => gone_is_fine(ptrace::cont(pid, signal))?,
                WaitStatus::Exited(pid, code) if pid == self.main => self.ended = Some(Ended::Code(code)),
                WaitStatus::Signaled(pid, signal, _) if pid == self.main => self.ended = Some(Ended::Signal(signal)),
                _ => {}
            }
        }
    }

    fn at_call(&mut self, pid: Pid) -> nix::Result<()> {
        let mut registers = ptrace::getregs(pid)?;
        let Some(call) = inspect(pid, &registers, &self.folder) else { return ptrace::cont(pid, None) };
        let at = self.calls.len();
        let removes = call.name.starts_with("unlink");
        self.calls.push(call);
        let error = match self.fault {
            Some(Fault { at: from, action: Action::FailFromHere(errno) }) if from <= at && !removes => errno,
            Some(fault) if fault.at == at => match fault.action {
                Action::Fail(errno) | Action::FailFromHere(errno) => errno,
                Action::Kill => {
                    // A process that it has started stands at the call, and would stand there for ever.
                    kill(self.main, Signal::SIGKILL)?;
                    return kill(pid, Signal::SIGKILL);
                }
                Action::Terminate => {
                    kill(self.main, Signal::SIGTERM)?;
                    return ptrace::cont(pid, None);
                }
                Action::Delay => {
                    thread::sleep(DELAY);
                    return ptrace::cont(pid, None);
                }
            },
            _ => return ptrace::cont(pid, None),
        };
        // The kernel makes no call of this number, and hands over what stands in `rax`.
        registers.orig_rax = NO_CALL;
        registers.rax = (-i64::from(error as i32)) as u64;
        ptrace::setregs(pid, registers)?;
        ptrace::cont(pid, None)
    }
}

/// A thread may be killed at any moment by another one's end; its end is reported on its own.
fn gone_is_fine(result: nix::Result<()>) -> nix::Result<()> {
    match result {
        Err(Errno::ESRCH) => Ok(()),
        other => other,
    }
}

/// Kills a process that takes too long.
struct Watch {
    done: mpsc::Sender<()>,
    thread: thread::JoinHandle<bool>,
}

impl Watch {
    fn new(pid: Pid) -> Watch {
        let (done, wait) = mpsc::channel();
        let thread = thread::spawn(move || {
            let late = wait.recv_timeout(HANG) == Err(RecvTimeoutError::Timeout);
            late && kill(pid, Signal::SIGKILL).is_ok()
        });
        Watch { done, thread }
    }

    /// Whether the process had to be killed.
    fn end(self) -> bool {
        drop(self.done);
        self.thread.join().unwrap_or(false)
    }
}
