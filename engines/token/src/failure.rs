//! Why something was not done on a token.

use ciphermill_contract::error::{FaultKind, KeyProblem};
use ciphermill_contract::{Error, Suite};
use cryptoki_sys::{CK_RV, CKR_TOKEN_NOT_PRESENT};

/// Why something was not done in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A call ended with this code.
    Call(CK_RV),
    /// The token works, and its answer is none of that key's.
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
