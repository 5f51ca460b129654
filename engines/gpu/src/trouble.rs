//! Why a device did not do what it was asked.

use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{Error, Exhausted};

/// The engine's name.
pub(crate) const NAME: &str = "gpu";

/// Bytes of prepared keys that a device holds.
pub(crate) const KEYS_LEN_MAX: usize = 64 << 20;

/// Why a device did not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A call failed with the runtime's own code: the device is lost, out of memory, or does not take the kernels.
    Call(i64),
    /// There is no such runtime or device here.
    Absent,
    /// The keys' memory is full.
    KeysFull,
}

pub(crate) type Result<T> = core::result::Result<T, Trouble>;

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Error {
        match trouble {
            Trouble::Call(code) => Error::fault(NAME, FaultKind::Call(code)),
            Trouble::Absent => Error::fault(NAME, FaultKind::Unavailable),
            Trouble::KeysFull => Error::Exhausted(Exhausted {
                limit: "KEYS_LEN_MAX",
                value: KEYS_LEN_MAX as u64,
                asked: KEYS_LEN_MAX as u64 + 1,
            }),
        }
    }
}
