//! A token: where it is, the sessions with it, and what becomes of both.

use core::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use ciphermill_memory::SecretBytes;
use cryptoki_sys::{
    CK_OBJECT_HANDLE, CK_RV, CK_SLOT_ID, CKF_USER_PIN_FINAL_TRY, CKR_PIN_INCORRECT, CKR_PIN_LOCKED,
    CKR_TOKEN_NOT_PRESENT,
};

use crate::failure::Failure;
use crate::module::{LoadError, Module};
use crate::pool::{Connection, Fate, Pool, Refusal};
use crate::session::Session;

/// Sessions with a token at most.
const SESSIONS_MAX: usize = 256;

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
    /// Sessions at most, from 1 to 256. With one, all calls of the module are made in turn: modules are known that crash when two threads
    /// call, whatever they promise of locking. With more, as many calls run side by side.
    pub sessions: usize,
    /// The program that runs the module in a process of its own; none for a module that is loaded into this one.
    pub host: Option<Host>,
    /// How long a token has for an operation before it is done elsewhere. A process of its own is ended then and started again; a module in
    /// this process cannot be interrupted.
    pub patience: Duration,
}

impl Opening {
    /// A token of a module that is loaded into this process, without a PIN, for keys by reference alone.
    pub fn new(name: &'static str, module: &Path, place: Place) -> Opening {
        Opening {
            name,
            module: module.to_owned(),
            place,
            pin: None,
            copies: false,
            sessions: 1,
            host: None,
            patience: PATIENCE,
        }
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
            TokenError::Call(CKR_PIN_LOCKED) => {
                f.write_str("the PIN is locked, or has one try left, which is not used up here")
            }
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

/// A token with its sessions, each of which is used by one thread at a time.
pub(crate) struct Token {
    opening: Opening,
    module: Arc<Module>,
    pool: Pool,
}

impl Token {
    pub(crate) fn open(opening: Opening) -> Result<Token, TokenError> {
        let module = Module::load(&opening.module)?;
        Ok(Token::of(opening, module))
    }

    pub(crate) fn of(opening: Opening, module: Arc<Module>) -> Token {
        let pool = Pool::new(sessions(&opening));
        Token { opening, module, pool }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.opening.name
    }

    pub(crate) fn takes_copies(&self) -> bool {
        self.opening.copies
    }

    pub(crate) fn patience(&self) -> Duration {
        self.opening.patience
    }

    pub(crate) fn module(&self) -> &Module {
        &self.module
    }

    /// Sessions at most, and calls that run side by side.
    pub(crate) fn sessions(&self) -> usize {
        sessions(&self.opening)
    }

    /// The turn of whoever calls, held around all calls of one operation; none where calls run side by side.
    pub(crate) fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        (self.sessions() == 1).then(|| self.module.turn())
    }

    /// Does something in a session, which is opened if there may be one more. After a failed call the session is given up: what it was in
    /// the middle of, and whether its handles still mean what they meant, is not known.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut lease = Lease { token: self, connection: Some(self.pool.take(|| self.connect())?), fate: Fate::Lost };
        let done = {
            let _turn = self.turn();
            lease.connection.as_ref().map_or(Err(Failure::Wrong), work)
        };
        lease.fate = match &done {
            Err(Failure::Call(code)) => Fate::after(*code),
            _ => Fate::Kept,
        };
        done
    }

    /// Destroys an object of this connection, now or when whoever has the connection gives it back. It goes with its session at the
    /// latest.
    pub(crate) fn destroy(&self, number: u64, object: CK_OBJECT_HANDLE) {
        if let Some(connection) = self.pool.forget(number, object) {
            self.destroy_in(&connection.session, object);
            self.give_back(connection, Fate::Kept);
        }
    }

    fn destroy_in(&self, session: &Session, object: CK_OBJECT_HANDLE) {
        let _turn = self.turn();
        // An object that cannot be destroyed goes with its session.
        let _ = session.destroy(object);
    }

    fn give_back(&self, connection: Connection, fate: Fate) {
        self.close_all(self.pool.put(connection, fate, |session, object| self.destroy_in(session, object)));
    }

    fn close_all(&self, connections: Vec<Connection>) {
        if !connections.is_empty() {
            let numbers: Vec<u64> = connections.iter().map(|connection| connection.number).collect();
            let turn = self.turn();
            drop(connections);
            drop(turn);
            self.pool.closed(&numbers);
        }
    }

    /// Closes the sessions, those in use when they are given back, and opens no other.
    pub(crate) fn close(&self) {
        self.close_all(self.pool.end());
    }

    fn connect(&self) -> Result<Session, Refusal> {
        let _turn = self.turn();
        let opened = self.slot().and_then(|slot| Session::open(&self.module, slot));
        let session = opened.map_err(Refusal::of_session)?;
        if let Some(pin) = &self.opening.pin {
            let flags = self.slot().and_then(|slot| self.module.token_info(slot)).map_or(0, |info| info.flags);
            if flags & CKF_USER_PIN_FINAL_TRY != 0 {
                // The last one is left to a person: programs start often, and each tries once.
                return Err(Refusal::of_login(CKR_PIN_LOCKED));
            }
            session.login(pin).map_err(Refusal::of_login)?;
        }
        Ok(session)
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

/// A connection in use, which goes back when this is dropped, by a panic too.
struct Lease<'a> {
    token: &'a Token,
    connection: Option<Connection>,
    fate: Fate,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.token.give_back(connection, self.fate);
        }
    }
}

fn sessions(opening: &Opening) -> usize {
    opening.sessions.clamp(1, SESSIONS_MAX)
}

impl Drop for Token {
    fn drop(&mut self) {
        self.close();
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

#[cfg(test)]
mod tests;
