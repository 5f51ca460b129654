//! The four kinds of errors. There is no catch-all.

use core::fmt;

use crate::status::Reason;
use crate::suite::{Direction, Suite};

/// The result of everything that can be refused.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// Why a request as a whole was not carried out. Single operations report through [`crate::OpStatus`] instead.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The caller's bug: a batch that breaks the contract. Nothing was written.
    Misuse(Misuse),
    /// A policy or access rule says no.
    Refused(Refusal),
    /// A limit has been reached.
    Exhausted(Exhausted),
    /// An engine failed.
    EngineFault(Fault),
}

/// The first operation of a batch that breaks the contract, and the rule it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misuse {
    /// Index of the operation within its batch.
    pub op: u32,
    /// The rule.
    pub reason: Reason,
}

/// Which rule says no.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The suite is a legacy suite and the policy does not enable those (`legacy = true`).
    LegacyDisabled(Suite),
    /// The suite has no such direction (a digest cannot be decrypted).
    NoSuchDirection(Suite, Direction),
    /// The suite does not run as columns: its output has another length than its input.
    NoColumns(Suite),
    /// No engine of this mill runs the suite in this direction under the policy, the pins and the batch's size.
    NoEngine(Suite, Direction),
    /// Engines would run the suite in this direction if the mill's rules did not disable it on them (`disabled = ["rc4"]`).
    Disabled(Suite, Direction),
    /// The engine asked for by name is not part of this mill or cannot run the suite.
    EngineUnavailable(String),
    /// The kernel asked for by name does not exist or this processor cannot run it.
    KernelUnavailable(String),
    /// The key's bytes do not suit the suite.
    KeyUnsuitable {
        /// The suite that the key was meant for.
        suite: Suite,
        /// The rule it breaks.
        problem: KeyProblem,
    },
    /// The name does not lead to a key.
    KeyUnknown,
    /// The key's policy says no.
    KeyPolicy(Reason),
    /// A wrapped key did not unwrap: wrong wrapping key or damaged bytes.
    UnwrapFailed,
    /// The batch was cancelled before it was begun.
    Cancelled,
    /// A suite's known-answer test failed on this engine, so the engine may not run it.
    SelfTestFailed(Suite),
    /// Every engine that could run the suite is in quarantine for earlier faults.
    InQuarantine(Suite),
    /// Decryption in parts would give out text that nobody has verified, and the caller did not say that it may.
    Unverified(Suite),
}

/// What is wrong with a key's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyProblem {
    /// A length that the suite does not take.
    Length,
    /// The form (secret, private, public) does not suit the suite or direction.
    Form,
    /// The encoding (DER, point, modulus) does not parse.
    Encoding,
    /// The parameters (curve, modulus size) are not those of the suite.
    Parameters,
    /// Equal halves of an XTS key, a point of small order or another value that the suite forbids; which ones, says
    /// [`crate::suite::acceptance`].
    Weak,
}

/// A limit that has been reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exhausted {
    /// The limit's name, as in [`crate::limits`].
    pub limit: &'static str,
    /// Its value.
    pub value: u64,
    /// What was asked for.
    pub asked: u64,
}

/// An engine's failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The engine's name.
    pub engine: &'static str,
    /// What happened.
    pub kind: FaultKind,
}

/// What happened to an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// The engine could not be opened on this machine.
    Unavailable,
    /// A call into the library or device behind the engine failed with this code.
    Call(i64),
    /// The engine returned operations that it had not ended.
    Unfinished,
    /// The engine's answer was wrong.
    WrongResult,
    /// The engine did not answer in time.
    Stalled,
    /// The engine panicked.
    Panicked,
    /// The operating system gave no random bytes.
    Entropy,
}

impl Error {
    /// A misuse of the operation at `op`.
    pub fn misuse(op: usize, reason: Reason) -> Error {
        Error::Misuse(Misuse { op: u32::try_from(op).unwrap_or(u32::MAX), reason })
    }

    /// A key that does not suit `suite`.
    pub fn key(suite: Suite, problem: KeyProblem) -> Error {
        Error::Refused(Refusal::KeyUnsuitable { suite, problem })
    }

    /// A reached limit.
    pub fn exhausted(limit: &'static str, value: usize, asked: usize) -> Error {
        Error::Exhausted(Exhausted { limit, value: value as u64, asked: asked as u64 })
    }

    /// A failed engine.
    pub fn fault(engine: &'static str, kind: FaultKind) -> Error {
        Error::EngineFault(Fault { engine, kind })
    }
}

impl From<Misuse> for Error {
    fn from(misuse: Misuse) -> Error {
        Error::Misuse(misuse)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Misuse(misuse) => write!(f, "{misuse}"),
            Error::Refused(refusal) => write!(f, "refused: {refusal}"),
            Error::Exhausted(limit) => {
                write!(f, "{} is {}, asked for {}", limit.limit, limit.value, limit.asked)
            }
            Error::EngineFault(fault) => write!(f, "engine {}: {}", fault.engine, fault.kind),
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {}: {}", self.op, self.reason)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::LegacyDisabled(suite) => {
                write!(f, "{suite} is a legacy suite; the policy must say `legacy = true`")
            }
            Refusal::NoSuchDirection(suite, direction) => write!(f, "{suite} has no direction `{direction}`"),
            Refusal::NoColumns(suite) => {
                write!(f, "{suite} does not run as columns; its outputs have other lengths than its inputs")
            }
            Refusal::NoEngine(suite, direction) => {
                write!(f, "no engine of this mill may run {suite} {direction}")
            }
            Refusal::Disabled(suite, direction) => {
                write!(f, "{suite} {direction} is disabled on every engine of this mill that could run it")
            }
            Refusal::EngineUnavailable(name) => write!(f, "engine `{name}` is not available for this"),
            Refusal::KernelUnavailable(name) => write!(f, "kernel `{name}` is not available on this machine"),
            Refusal::KeyUnsuitable { suite, problem } => write!(f, "the key does not suit {suite}: {problem}"),
            Refusal::KeyUnknown => f.write_str(Reason::KeyUnknown.text()),
            Refusal::KeyPolicy(reason) => write!(f, "{reason}"),
            Refusal::Cancelled => f.write_str("the batch was cancelled before it was begun"),
            Refusal::UnwrapFailed => {
                f.write_str("the wrapped key does not unwrap: wrong wrapping key or damaged bytes")
            }
            Refusal::InQuarantine(suite) => write!(f, "every engine that could run {suite} is in quarantine"),
            Refusal::Unverified(suite) => {
                write!(f, "decrypting {suite} in parts gives out text that is not verified, which was not asked for")
            }
            Refusal::SelfTestFailed(suite) => write!(f, "the known-answer test of {suite} failed"),
        }
    }
}

impl fmt::Display for KeyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeyProblem::Length => "wrong length",
            KeyProblem::Form => "wrong form (secret, private or public)",
            KeyProblem::Encoding => "the encoding does not parse",
            KeyProblem::Parameters => "the parameters are not those of the suite",
            KeyProblem::Weak => "weak key",
        })
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::Unavailable => f.write_str("not available on this machine"),
            FaultKind::Call(code) => write!(f, "a call failed with code {code}"),
            FaultKind::Unfinished => f.write_str("returned operations that it had not ended"),
            FaultKind::WrongResult => f.write_str("gave a wrong result"),
            FaultKind::Stalled => f.write_str("did not answer in time"),
            FaultKind::Panicked => f.write_str("panicked"),
            FaultKind::Entropy => f.write_str("the operating system gave no random bytes"),
        }
    }
}
