//! What a function of PKCS#11 returns.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{Error, OpStatus, Reason, Refusal};
use cryptoki_sys::{
    CK_RV, CKR_ACTION_PROHIBITED, CKR_DATA_INVALID, CKR_DATA_LEN_RANGE, CKR_DEVICE_ERROR, CKR_DEVICE_MEMORY,
    CKR_ENCRYPTED_DATA_INVALID, CKR_FUNCTION_FAILED, CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_KEY_HANDLE_INVALID,
    CKR_KEY_SIZE_RANGE, CKR_KEY_TYPE_INCONSISTENT, CKR_MECHANISM_INVALID, CKR_SIGNATURE_INVALID,
};

/// A return value other than `CKR_OK` (PKCS#11 3.2, 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rv(pub(crate) CK_RV);

/// The outcome of a step of ours.
pub(crate) type Result<T, E = Rv> = core::result::Result<T, E>;

/// Ends a function with a return value.
pub(crate) const fn fail<T>(rv: CK_RV) -> Result<T> {
    Err(Rv(rv))
}

impl From<Error> for Rv {
    /// The mill's errors that the application's own arguments do not explain. Whoever knows more of the arguments looks first.
    fn from(error: Error) -> Rv {
        Rv(match error {
            Error::Misuse(_) => CKR_DATA_INVALID,
            Error::Refused(refusal) => match refusal {
                Refusal::KeyUnsuitable { problem: KeyProblem::Length, .. } => CKR_KEY_SIZE_RANGE,
                Refusal::KeyUnsuitable { .. } => CKR_KEY_TYPE_INCONSISTENT,
                Refusal::KeyUnknown => CKR_KEY_HANDLE_INVALID,
                Refusal::KeyPolicy(_) => CKR_KEY_FUNCTION_NOT_PERMITTED,
                Refusal::Disabled(..) => CKR_ACTION_PROHIBITED,
                Refusal::NoEngine(..) | Refusal::NoSuchDirection(..) | Refusal::LegacyDisabled(_) => {
                    CKR_MECHANISM_INVALID
                }
                _ => CKR_FUNCTION_FAILED,
            },
            Error::Exhausted(_) => CKR_DEVICE_MEMORY,
            Error::EngineFault(_) => CKR_DEVICE_ERROR,
            _ => CKR_FUNCTION_FAILED,
        })
    }
}

/// What an operation failed at, for an application that asked to open (decrypt, unwrap), to verify, or to do anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Open,
    Verify,
    Other,
}

/// Turns the status of an operation into a return value.
///
/// # Errors
/// Any status but [`OpStatus::Done`].
pub(crate) fn of_status(status: OpStatus, asked: Asked) -> Result<()> {
    fail(match (status, asked) {
        (OpStatus::Done, _) => return Ok(()),
        (OpStatus::AuthFailed, Asked::Open) => CKR_ENCRYPTED_DATA_INVALID,
        (OpStatus::AuthFailed, _) => CKR_SIGNATURE_INVALID,
        (OpStatus::BadInput(Reason::InputTooLong | Reason::InputTooShort), _) => CKR_DATA_LEN_RANGE,
        (OpStatus::BadInput(_), _) => CKR_DATA_INVALID,
        (OpStatus::Refused(Reason::KeyUnknown), _) => CKR_KEY_HANDLE_INVALID,
        (OpStatus::Refused(_), _) => CKR_KEY_FUNCTION_NOT_PERMITTED,
        _ => CKR_DEVICE_ERROR,
    })
}
