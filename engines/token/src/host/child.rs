//! The process: started when it is needed, ended when it does not do as it should.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cryptoki_sys::{CKR_GENERAL_ERROR, CKR_SESSION_CLOSED};
use zeroize::Zeroizing;

use super::wire::{self, Answer, Ask, Claim, Lost};
use crate::pool::is_denial;
use crate::token::{Host, Opening, TokenError};

/// How long a process that could not be started, or did not open its token, is left alone. A batch does not start one for each operation.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// How long a token has to be opened, or to list what it has: libraries of HSMs connect, and PINs are stretched.
pub(super) const OPENING: Duration = Duration::from_secs(10);

/// How long a process has for any answer at most.
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// How long a process that was hung up on has to end by itself.
const FAREWELL: Duration = Duration::from_millis(100);

/// A process with the token open.
pub(super) struct Process {
    child: Child,
    socket: UnixStream,
    /// How long it has for an answer now.
    timeout: Duration,
    /// Keys that were prepared there, by the numbers of [`super::engine::HostedKey`].
    pub(super) keys: HashMap<u64, u32>,
}

/// What a process said when it had opened its token.
pub(super) struct Opened {
    pub(super) version: String,
    pub(super) takes_key_bytes: bool,
    pub(super) claims: Vec<Claim>,
}

/// Why there is no process.
#[derive(Debug)]
pub(super) enum Missing {
    /// It could not be started, in the system's words.
    Start(String),
    /// It did not answer, or not as it should.
    Lost,
    /// It opened no token.
    Refused(TokenError),
}

impl Missing {
    pub(super) fn error(self, host: &Host) -> TokenError {
        match self {
            Missing::Start(words) => TokenError::Module(format!("cannot start {}: {words}", host.program.display())),
            Missing::Lost => TokenError::Module("its process does not answer, or has died".to_owned()),
            Missing::Refused(error) => error,
        }
    }
}

impl Process {
    /// Starts the program and has it open the token.
    fn start(opening: &Opening, host: &Host) -> Result<(Process, Opened), Missing> {
        let words = |error: std::io::Error| Missing::Start(error.to_string());
        let (socket, theirs) = UnixStream::pair().map_err(words)?;
        let mut command = Command::new(&host.program);
        // What a vendor's library prints is for nobody but a log.
        command.args(&host.arguments).stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        let child = command.spawn().map_err(words)?;
        // With the command goes this process's hold on the other end: a process that dies is noticed.
        drop(command);
        let mut process = Process { child, socket, timeout: Duration::ZERO, keys: HashMap::new() };
        let opened = process.open(opening)?;
        process.allow(opening.patience).map_err(|_| Missing::Lost)?;
        Ok((process, opened))
    }

    /// Gives it so long for each answer from now on.
    pub(super) fn allow(&mut self, timeout: Duration) -> Result<(), Lost> {
        let timeout = timeout.clamp(Duration::from_millis(1), TIMEOUT_MAX);
        if timeout != self.timeout {
            let set = self.socket.set_read_timeout(Some(timeout));
            set.and_then(|()| self.socket.set_write_timeout(Some(timeout))).map_err(|_| Lost::Gone)?;
            self.timeout = timeout;
        }
        Ok(())
    }

    fn open(&mut self, opening: &Opening) -> Result<Opened, Missing> {
        self.allow(OPENING.max(opening.patience)).map_err(|_| Missing::Lost)?;
        let bytes = self.ask(&Ask::open(opening)).map_err(|_| Missing::Lost)?;
        match wire::read(&bytes).map_err(|_| Missing::Lost)? {
            Answer::Opened { version, takes_key_bytes, claims } => {
                Ok(Opened { version: version.to_owned(), takes_key_bytes, claims })
            }
            Answer::NotOpened(refused) => Err(Missing::Refused(refused.error())),
            _ => Err(Missing::Lost),
        }
    }

    /// Asks, and waits for the answer's bytes.
    pub(super) fn ask(&mut self, ask: &Ask<'_>) -> Result<Zeroizing<Vec<u8>>, Lost> {
        self.tell(ask)?;
        wire::receive(&mut self.socket)
    }

    /// Says what is not answered.
    pub(super) fn tell(&mut self, ask: &Ask<'_>) -> Result<(), Lost> {
        wire::send(&self.socket, ask, ask.len_max())
    }

    /// Hangs up and lets the process end by itself.
    fn end(mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let begun = Instant::now();
        while begun.elapsed() < FAREWELL && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Process {
    /// Whatever it is doing: a module may hang, and ignore all signals but this one.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Default)]
struct State {
    process: Option<Process>,
    /// When none could be had last.
    missed: Option<Instant>,
}

/// A place for one process, which is used by one thread at a time.
#[derive(Default)]
pub(super) struct Seat {
    state: Mutex<State>,
    /// Keys that nobody uses any more, told with the next request.
    forgotten: Mutex<Vec<u64>>,
}

/// What all seats of a token share: why no process is started any more. A PIN that was refused is not tried again.
#[derive(Default)]
pub(super) struct Denied(Mutex<Option<TokenError>>);

impl Denied {
    fn get(&self) -> Option<TokenError> {
        lock(&self.0).clone()
    }

    /// Has no process started any more.
    pub(super) fn close(&self) {
        *lock(&self.0) = Some(TokenError::Call(CKR_SESSION_CLOSED));
    }

    fn note(&self, error: &TokenError) {
        if matches!(error, TokenError::Call(code) if is_denial(*code)) {
            *lock(&self.0) = Some(error.clone());
        }
    }
}

impl Seat {
    /// Has a process in this seat for the first time.
    pub(super) fn open(&self, opening: &Opening, host: &Host, denied: &Denied) -> Result<Opened, TokenError> {
        let mut state = lock(&self.state);
        state.fill(opening, host, denied).map_err(|missing| missing.error(host))
    }

    /// Whether a thread is at it now.
    pub(super) fn is_free(&self) -> bool {
        self.state.try_lock().is_ok()
    }

    /// Does something with the process, which is started if there is none. After what goes wrong between the two it is ended.
    pub(super) fn with<T>(
        &self,
        (opening, host, denied): (&Opening, &Host, &Denied),
        work: impl FnOnce(&mut Process) -> Result<T, Lost>,
    ) -> Result<T, Missing> {
        let mut state = lock(&self.state);
        if state.process.is_none() {
            state.fill(opening, host, denied)?;
        }
        let Some(mut process) = state.process.take() else { return Err(Missing::Lost) };
        let done = self.say_farewells(&mut process).and_then(|()| work(&mut process));
        if done.is_ok() {
            state.process = Some(process);
        }
        done.map_err(|_| Missing::Lost)
    }

    /// Ends the process, when who uses it has done so.
    pub(super) fn close(&self) {
        if let Some(process) = lock(&self.state).process.take() {
            process.end();
        }
    }

    /// Notes a key that nobody uses any more.
    pub(super) fn forget(&self, key: u64) {
        lock(&self.forgotten).push(key);
    }

    fn say_farewells(&self, process: &mut Process) -> Result<(), Lost> {
        let forgotten = std::mem::take(&mut *lock(&self.forgotten));
        for key in forgotten.iter().filter_map(|key| process.keys.remove(key)).collect::<Vec<_>>() {
            process.tell(&Ask::Forget { key })?;
        }
        Ok(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.close();
    }
}

impl State {
    fn fill(&mut self, opening: &Opening, host: &Host, denied: &Denied) -> Result<Opened, Missing> {
        if let Some(error) = denied.get() {
            return Err(Missing::Refused(error));
        }
        if self.missed.is_some_and(|when| when.elapsed() < RETRY_AFTER) {
            return Err(Missing::Lost);
        }
        match Process::start(opening, host) {
            Ok((process, opened)) => {
                (self.process, self.missed) = (Some(process), None);
                Ok(opened)
            }
            Err(missing) => {
                self.missed = Some(Instant::now());
                if let Missing::Refused(error) = &missing {
                    denied.note(error);
                }
                Err(missing)
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The code that an engine's fault tells of a missing process.
pub(super) fn code(missing: &Missing) -> i64 {
    match missing {
        Missing::Refused(TokenError::Call(code)) => *code as i64,
        _ => CKR_GENERAL_ERROR as i64,
    }
}
