//! A token: where it is, the session with it, and what becomes of both.

use core::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ciphermill_contract::error::{FaultKind, KeyProblem};
use ciphermill_contract::{Error, Suite};
use ciphermill_memory::SecretBytes;
use cryptoki_sys::{
    CK_RV, CK_SLOT_ID, CKR_PIN_EXPIRED, CKR_PIN_INCORRECT, CKR_PIN_INVALID, CKR_PIN_LEN_RANGE, CKR_PIN_LOCKED,
    CKR_TOKEN_NOT_PRESENT, CKR_USER_PIN_NOT_INITIALIZED,
};

use crate::module::{LoadError, Module};
use crate::session::Session;

/// How long a token that could not be reached is left alone. A batch of operations does not ask a missing token once for each.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// How long a token has for a call, unless it is said.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Where a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the slot with this number. Modules may number their slots anew when they are loaded.
    Slot(u64),
    /// Wherever its label is this one; a module with two of that label has none.
    Label(String),
}

/// What a token is opened with.
pub struct Opening {
    /// The engine's name, unique within a mill.
    pub name: &'static str,
    /// The vendor's PKCS#11 module.
    pub module: PathBuf,
    /// Which of its tokens.
    pub place: Place,
    /// The user's PIN; none for tokens that ask for none.
    pub pin: Option<SecretBytes>,
    /// Whether keys of the mill may be copied to the token as session objects. Without it the token serves references alone, and passes no
    /// known-answer test, whose keys are copied.
    pub copies: bool,
    /// The program that runs the module in a process of its own; none for a module that is loaded into this one.
    pub host: Option<Host>,
    /// How long a token has for a call in a process of its own, before that process is ended and started again. A module in this process
    /// cannot be interrupted.
    pub patience: Duration,
}

impl Opening {
    /// A token of a module that is loaded into this process, without a PIN, for keys by reference alone.
    pub fn new(name: &'static str, module: &Path, place: Place) -> Opening {
        Opening { name, module: module.to_owned(), place, pin: None, copies: false, host: None, patience: PATIENCE }
    }
}

/// A program that serves a token to another process over its standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The program.
    pub program: PathBuf,
    /// What it is started with.
    pub arguments: Vec<String>,
}

/// Why a token could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// The module does not load, in the loader's words.
    Module(String),
    /// A call of PKCS#11 ended with this code (PKCS#11 3.1, 5.1.6).
    Call(u64),
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenError::Module(words) => write!(f, "the PKCS#11 module does not load: {words}"),
            TokenError::Call(CKR_TOKEN_NOT_PRESENT) => f.write_str("there is no such token, or more than one"),
            TokenError::Call(CKR_PIN_INCORRECT) => f.write_str("the PIN is wrong; it is not tried again"),
            TokenError::Call(code) => write!(f, "a PKCS#11 call ended with code {code:#x}"),
        }
    }
}

impl std::error::Error for TokenError {}

impl From<LoadError> for TokenError {
    fn from(error: LoadError) -> TokenError {
        match error {
            LoadError::Library(words) => TokenError::Module(words),
            LoadError::Call(code) => TokenError::Call(code),
        }
    }
}

/// Why something was not done in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A call ended with this code.
    Call(CK_RV),
    /// The token works, and its answer is no signature of that key.
    Wrong,
    /// The key does not suit, or is not there.
    Key(KeyProblem),
}

impl From<CK_RV> for Failure {
    fn from(code: CK_RV) -> Failure {
        Failure::Call(code)
    }
}

impl Failure {
    /// The failure in the contract's words.
    pub(crate) fn error(self, name: &'static str, suite: Suite) -> Error {
        match self {
            Failure::Call(CKR_TOKEN_NOT_PRESENT) => Error::fault(name, FaultKind::Unavailable),
            Failure::Call(code) => Error::fault(name, FaultKind::Call(code as i64)),
            Failure::Wrong => Error::fault(name, FaultKind::WrongResult),
            Failure::Key(problem) => Error::key(suite, problem),
        }
    }
}

/// A session, and its number among the token's: handles of another number say nothing.
pub(crate) struct Connection {
    pub(crate) session: Session,
    pub(crate) number: u64,
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    /// Connections that there have been.
    count: u64,
    /// The code that the PIN was refused with. Never tried again: tokens count, and lock themselves.
    denied: Option<CK_RV>,
    /// When the token could not be reached last, and the code.
    missed: Option<(Instant, CK_RV)>,
}

/// A token with one session, which is used by one thread at a time.
pub(crate) struct Token {
    opening: Opening,
    module: Arc<Module>,
    state: Mutex<State>,
}

impl Token {
    pub(crate) fn open(opening: Opening) -> Result<Token, TokenError> {
        let module = Module::load(&opening.module)?;
        Ok(Token { opening, module, state: Mutex::default() })
    }

    pub(crate) fn name(&self) -> &'static str {
        self.opening.name
    }

    pub(crate) fn takes_copies(&self) -> bool {
        self.opening.copies
    }

    pub(crate) fn module(&self) -> &Module {
        &self.module
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something in the session, which is opened if there is none. After a failed call the session is given up: what it was in the
    /// middle of, and whether its handles still mean what they meant, is not known.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut state = self.state();
        let _turn = self.module.turn();
        let connection = match state.connection.take() {
            Some(connection) => connection,
            None => self.connect(&mut state)?,
        };
        let done = work(&connection);
        if !matches!(done, Err(Failure::Call(_))) {
            state.connection = Some(connection);
        }
        done
    }

    /// Does something in the session with this number, if that is still the one.
    pub(crate) fn within(&self, number: u64, work: impl FnOnce(&Session)) {
        let state = self.state();
        let _turn = self.module.turn();
        if let Some(connection) = state.connection.as_ref().filter(|connection| connection.number == number) {
            work(&connection.session);
        }
    }

    fn connect(&self, state: &mut State) -> Result<Connection, CK_RV> {
        if let Some(code) = state.denied {
            return Err(code);
        }
        if let Some((_, code)) = state.missed.filter(|(when, _)| when.elapsed() < RETRY_AFTER) {
            return Err(code);
        }
        let opened = self.slot().and_then(|slot| Session::open(&self.module, slot));
        let session = opened.inspect_err(|code| state.missed = Some((Instant::now(), *code)))?;
        if let Some(pin) = &self.opening.pin {
            session.login(pin).inspect_err(|code| {
                if is_denial(*code) {
                    state.denied = Some(*code);
                } else {
                    state.missed = Some((Instant::now(), *code));
                }
            })?;
        }
        state.missed = None;
        state.count += 1;
        Ok(Connection { session, number: state.count })
    }

    /// The slot that the token is in now. The module's turn is had.
    pub(crate) fn slot(&self) -> Result<CK_SLOT_ID, CK_RV> {
        Token::slot_of(&self.module, &self.opening.place)
    }

    /// The slot of a module that a token is in now. The module's turn is had.
    pub(crate) fn slot_of(module: &Module, place: &Place) -> Result<CK_SLOT_ID, CK_RV> {
        let slots = module.slots()?;
        let is_here = |slot: &CK_SLOT_ID| match place {
            Place::Slot(number) => *slot == *number as CK_SLOT_ID,
            Place::Label(label) => module.token_info(*slot).is_ok_and(|info| padded(&info.label) == label.as_bytes()),
        };
        let mut here = slots.into_iter().filter(is_here);
        match (here.next(), here.next()) {
            (Some(slot), None) => Ok(slot),
            _ => Err(CKR_TOKEN_NOT_PRESENT),
        }
    }
}

/// A field of fixed length without the blanks that fill it (PKCS#11 3.1, 3.3).
pub(crate) fn padded(field: &[u8]) -> &[u8] {
    let len = field.iter().rposition(|byte| *byte != b' ' && *byte != 0).map_or(0, |last| last + 1);
    field.get(..len).unwrap_or_default()
}

/// Whether a login ended so that trying the same PIN again changes nothing, or for the worse.
fn is_denial(code: CK_RV) -> bool {
    matches!(
        code,
        CKR_PIN_INCORRECT
            | CKR_PIN_INVALID
            | CKR_PIN_LEN_RANGE
            | CKR_PIN_EXPIRED
            | CKR_PIN_LOCKED
            | CKR_USER_PIN_NOT_INITIALIZED
    )
}

impl Drop for Token {
    fn drop(&mut self) {
        let connection = self.state.get_mut().unwrap_or_else(PoisonError::into_inner).connection.take();
        let _turn = self.module.turn();
        drop(connection);
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("name", &self.opening.name)
            .field("place", &self.opening.place)
            .finish_non_exhaustive()
    }
}
