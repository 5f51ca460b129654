//! Private keys that are in no object of OpenSSL.

use std::ffi::{CString, c_int};
use std::ptr;

use ciphermill::KeyPolicy;
use ciphermill_contract::{KeyId, KeyMaterial};
use ciphermill_keys::keystore::KeystoreError;
use ciphermill_memory::GuardedBuf;

use crate::backend::Backend;
use crate::ffi;
use crate::material::Usable;

/// A private key of the keystore. Unlike what the mill makes of it, it is there in forked children too: a server may have given up its
/// rights to the keystore before it opens a mill.
pub(crate) struct Stored {
    pub(crate) bytes: GuardedBuf,
    pub(crate) policy: KeyPolicy,
    pub(crate) usable: Usable,
}

impl Stored {
    /// Takes it into the mill's table under the policy that it has in the keystore.
    pub(crate) fn import(&self, backend: &Backend) -> Option<KeyId> {
        backend.mill.keys().import(KeyMaterial::private(&self.bytes), self.policy.clone()).ok()
    }
}

/// Private halves of the keystore go to nobody.
pub(crate) fn refuse_export() -> c_int {
    Problem("private keys of the keystore stay there, and no other provider can use them".to_owned()).raise(line!());
    0
}

/// Why a key cannot be had, for whoever reads OpenSSL's errors. Says nothing of keys but their names.
#[derive(Debug)]
pub(crate) struct Problem(pub(crate) String);

impl From<KeystoreError> for Problem {
    fn from(error: KeystoreError) -> Problem {
        Problem(error.to_string())
    }
}

impl Problem {
    /// Puts it into OpenSSL's queue of errors.
    pub(crate) fn raise(&self, line: u32) {
        let text = CString::new(self.0.replace('\0', " ")).unwrap_or_default();
        let line = c_int::try_from(line).unwrap_or_default();
        // SAFETY: strings that are copied, and a format for one of them.
        unsafe {
            ffi::ERR_new();
            ffi::ERR_set_debug(c"ciphermill".as_ptr(), line, ptr::null());
            ffi::ERR_set_error(ffi::ERR_LIB_PROV, ffi::ERR_R_OPERATION_FAIL, c"%s".as_ptr(), text.as_ptr());
        }
    }
}
