//! The sessions with a token: how many there may be, who has one, and when all of them are given up.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cryptoki_sys::{
    CK_OBJECT_HANDLE, CK_RV, CKR_ARGUMENTS_BAD, CKR_ATTRIBUTE_READ_ONLY, CKR_ATTRIBUTE_SENSITIVE,
    CKR_ATTRIBUTE_TYPE_INVALID, CKR_ATTRIBUTE_VALUE_INVALID, CKR_BUFFER_TOO_SMALL, CKR_CURVE_NOT_SUPPORTED,
    CKR_DATA_INVALID, CKR_DATA_LEN_RANGE, CKR_DOMAIN_PARAMS_INVALID, CKR_FUNCTION_NOT_SUPPORTED,
    CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_KEY_SIZE_RANGE, CKR_KEY_TYPE_INCONSISTENT, CKR_MECHANISM_INVALID,
    CKR_MECHANISM_PARAM_INVALID, CKR_PIN_EXPIRED, CKR_PIN_INCORRECT, CKR_PIN_INVALID, CKR_PIN_LEN_RANGE,
    CKR_PIN_LOCKED, CKR_SESSION_CLOSED, CKR_TEMPLATE_INCOMPLETE, CKR_TEMPLATE_INCONSISTENT,
    CKR_USER_PIN_NOT_INITIALIZED,
};

use crate::session::Session;

/// How long a token that could not be reached is left alone. A batch of operations does not ask a missing token once for each.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// A session, and its number among the token's: handles of another number say nothing.
pub(crate) struct Connection {
    pub(crate) session: Session,
    pub(crate) number: u64,
}

/// What becomes of a session after its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is used again.
    Kept,
    /// It is closed: what it was in the middle of is not known.
    GivenUp,
    /// All sessions are closed before another one is opened. A token that has been away numbers its sessions and objects anew: a session
    /// from before could be another one's now, and its handles those of other keys.
    Lost,
}

impl Fate {
    /// What a failed call leaves of its session. Codes that speak of the request alone, of arguments, mechanisms, templates and what a
    /// key permits, come from a token that is there (PKCS#11 3.1, 5.1.6); all others may be the first sign of one that was away.
    pub(crate) fn after(code: CK_RV) -> Fate {
        match code {
            CKR_ARGUMENTS_BAD
            | CKR_ATTRIBUTE_READ_ONLY
            | CKR_ATTRIBUTE_SENSITIVE
            | CKR_ATTRIBUTE_TYPE_INVALID
            | CKR_ATTRIBUTE_VALUE_INVALID
            | CKR_BUFFER_TOO_SMALL
            | CKR_CURVE_NOT_SUPPORTED
            | CKR_DATA_INVALID
            | CKR_DATA_LEN_RANGE
            | CKR_DOMAIN_PARAMS_INVALID
            | CKR_FUNCTION_NOT_SUPPORTED
            | CKR_KEY_FUNCTION_NOT_PERMITTED
            | CKR_KEY_SIZE_RANGE
            | CKR_KEY_TYPE_INCONSISTENT
            | CKR_MECHANISM_INVALID
            | CKR_MECHANISM_PARAM_INVALID
            | CKR_TEMPLATE_INCOMPLETE
            | CKR_TEMPLATE_INCONSISTENT => Fate::GivenUp,
            _ => Fate::Lost,
        }
    }
}

#[derive(Default)]
struct State {
    idle: Vec<Connection>,
    /// The numbers of those that somebody has.
    used: Vec<u64>,
    /// Whether one is being opened. One at a time: the first finds out whether the PIN is right.
    is_opening: bool,
    /// Whether none is opened before all are closed.
    is_draining: bool,
    /// Whether none is opened any more, and those that are given back are closed.
    has_ended: bool,
    /// Connections that there have been.
    count: u64,
    /// Objects that nobody needs, in connections that somebody has.
    unneeded: Vec<(u64, CK_OBJECT_HANDLE)>,
    /// The code that the PIN was refused with. Never tried again: tokens count, and lock themselves.
    denied: Option<CK_RV>,
    /// When the token could not be reached last, and the code.
    missed: Option<(Instant, CK_RV)>,
}

impl State {
    fn open(&self) -> usize {
        self.idle.len() + self.used.len()
    }

    /// Why the token is not asked for a session now.
    fn hindrance(&self) -> Option<CK_RV> {
        let missed = self.missed.filter(|(when, _)| when.elapsed() < RETRY_AFTER);
        self.denied.or(missed.map(|(_, code)| code))
    }
}

/// Sessions, each used by one thread at a time. Whoever closes one, or destroys an object, does so outside of the pool's lock.
pub(crate) struct Pool {
    state: Mutex<State>,
    changed: Condvar,
    /// Sessions at most.
    size: usize,
}

impl Pool {
    pub(crate) fn new(size: usize) -> Pool {
        Pool { state: Mutex::default(), changed: Condvar::new(), size }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection: an idle one, a new one by `open` where there may be one more, or the next that somebody gives back.
    pub(crate) fn take(&self, open: impl Fn() -> Result<Session, Refusal>) -> Result<Connection, CK_RV> {
        let mut state = self.state();
        loop {
            if state.has_ended {
                return Err(CKR_SESSION_CLOSED);
            }
            if let Some(connection) = state.idle.pop() {
                state.used.push(connection.number);
                return Ok(connection);
            }
            let may_open = state.open() < self.size && !state.is_opening && !state.is_draining;
            match state.hindrance() {
                None if may_open => {
                    state.is_opening = true;
                    drop(state);
                    let opened = open();
                    state = self.state();
                    state.is_opening = false;
                    self.changed.notify_all();
                    match opened {
                        Ok(session) => {
                            state.missed = None;
                            state.count += 1;
                            let number = state.count;
                            state.used.push(number);
                            return Ok(Connection { session, number });
                        }
                        Err(Refusal { code, is_final: true }) => state.denied = Some(code),
                        Err(Refusal { code, is_final: false }) => state.missed = Some((Instant::now(), code)),
                    }
                    continue;
                }
                // Tokens have fewer sessions than one would like: those that are open go on.
                Some(code) if may_open && state.open() == 0 => return Err(code),
                _ => {}
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives a connection back. Returns what the caller closes before it calls [`Pool::closed`]. `destroy` is called with objects of a
    /// kept connection that nobody needs any more.
    pub(crate) fn put(&self, connection: Connection, fate: Fate, destroy: impl Fn(&Session, u64)) -> Vec<Connection> {
        let mut state = self.state();
        while fate == Fate::Kept && !state.is_draining && !state.has_ended {
            let Some(at) = state.unneeded.iter().position(|(number, _)| *number == connection.number) else {
                state.used.retain(|number| *number != connection.number);
                state.idle.push(connection);
                self.changed.notify_all();
                return Vec::new();
            };
            let (_, object) = state.unneeded.swap_remove(at);
            drop(state);
            destroy(&connection.session, object);
            state = self.state();
        }
        state.unneeded.retain(|(number, _)| *number != connection.number);
        let mut closed = vec![connection];
        if fate == Fate::Lost {
            state.is_draining = true;
            let idle = core::mem::take(&mut state.idle);
            state.used.extend(idle.iter().map(|connection| connection.number));
            closed.extend(idle);
        }
        closed
    }

    /// Connections of these numbers have been closed.
    pub(crate) fn closed(&self, numbers: &[u64]) {
        let mut state = self.state();
        state.used.retain(|number| !numbers.contains(number));
        if state.open() == 0 {
            state.is_draining = false;
        }
        self.changed.notify_all();
    }

    /// Nobody needs an object of this connection any more. Returns the connection when it is idle: the caller destroys the object and
    /// gives the connection back. Somebody else who has it does so then; one that is closed has no objects.
    pub(crate) fn forget(&self, number: u64, object: CK_OBJECT_HANDLE) -> Option<Connection> {
        let mut state = self.state();
        if let Some(at) = state.idle.iter().position(|connection| connection.number == number) {
            state.used.push(number);
            return Some(state.idle.swap_remove(at));
        }
        if state.used.contains(&number) {
            state.unneeded.push((number, object));
        }
        None
    }

    /// Opens no connection any more. Returns the idle ones, which the caller closes before it calls [`Pool::closed`]; others are closed when
    /// they are given back.
    pub(crate) fn end(&self) -> Vec<Connection> {
        let mut state = self.state();
        state.has_ended = true;
        self.changed.notify_all();
        let idle = core::mem::take(&mut state.idle);
        state.used.extend(idle.iter().map(|connection| connection.number));
        idle
    }
}

/// Why there is no session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    code: CK_RV,
    is_final: bool,
}

impl Refusal {
    /// The token could not be reached, or has no session left.
    pub(crate) fn of_session(code: CK_RV) -> Refusal {
        Refusal { code, is_final: false }
    }

    /// The login ended so.
    pub(crate) fn of_login(code: CK_RV) -> Refusal {
        let is_final = is_denial(code);
        Refusal { code, is_final }
    }
}

/// Whether a login ended so that trying the same PIN again changes nothing, or for the worse.
pub(crate) fn is_denial(code: CK_RV) -> bool {
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
