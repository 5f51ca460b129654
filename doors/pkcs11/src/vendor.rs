//! Functions of our own, as the interface `Vendor Ciphermill`: what the Solaris cryptographic framework offered beside PKCS#11 to save
//! applications the search for a slot and the templates of a key (`SUNW_C_GetMechSession`, `SUNW_C_KeyToObject`).

use std::ffi::CStr;

use cryptoki_sys::*;

use crate::access::keep;
use crate::attributes::rules::{self, Origin};
use crate::attributes::{Attributes, Template};
use crate::entry::functions;
use crate::library::Library;
use crate::memory::{bytes, place};
use crate::rv::{Result, Rv, fail};
use crate::session::Session;
use crate::{material, mechanisms};

/// The interface's name, as `C_GetInterface` takes it.
pub(crate) const NAME: &CStr = c"Vendor Ciphermill";

/// The functions of the interface.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CiphermillFunctions {
    /// Of this table: 1.0.
    pub version: CK_VERSION,
    /// [`CM_GetMechSession`].
    pub get_mech_session: unsafe extern "C" fn(CK_MECHANISM_TYPE, *mut CK_SESSION_HANDLE) -> CK_RV,
    /// [`CM_KeyToObject`].
    pub key_to_object: unsafe extern "C" fn(
        CK_SESSION_HANDLE,
        CK_MECHANISM_TYPE,
        *mut CK_BYTE,
        CK_ULONG,
        *mut CK_OBJECT_HANDLE,
    ) -> CK_RV,
}

pub(crate) static LIST: CiphermillFunctions = CiphermillFunctions {
    version: CK_VERSION { major: 1, minor: 0 },
    get_mech_session: CM_GetMechSession,
    key_to_object: CM_KeyToObject,
};

/// The library, initialised if it was not.
fn initialized() -> Result<&'static Library> {
    match Library::initialize(true) {
        Ok(()) | Err(Rv(CKR_CRYPTOKI_ALREADY_INITIALIZED)) => Library::current(),
        Err(rv) => Err(rv),
    }
}

functions! {
    /// Opens a session for a mechanism, with whatever slot has it, and initialises the library if that has not been done. The session may
    /// only read, and needs no login: keys are objects of the session.
    ///
    /// Errors: `CKR_MECHANISM_INVALID` where no slot has it, those of `C_Initialize` and `C_OpenSession`.
    fn CM_GetMechSession(mechanism: CK_MECHANISM_TYPE, session: *mut CK_SESSION_HANDLE) {
        let out = place(session)?;
        if mechanisms::info(mechanism).is_none() {
            return fail(CKR_MECHANISM_INVALID);
        }
        let library = initialized()?;
        // All slots have the same mechanisms; objects of the session need nothing of the token, which may not even be there.
        *out = library.add_session(Session::new(0, false))?;
        Ok(())
    }

    /// Makes an object of the session out of the raw bytes of a secret key, for a mechanism, which says what kind of key that is. It may be
    /// used for all that the mechanism does.
    ///
    /// Errors: `CKR_MECHANISM_INVALID` for mechanisms that take no secret key; `CKR_KEY_SIZE_RANGE`, and others of `C_CreateObject`.
    fn CM_KeyToObject(
        session: CK_SESSION_HANDLE,
        mechanism: CK_MECHANISM_TYPE,
        key: *mut CK_BYTE,
        key_len: CK_ULONG,
        object: *mut CK_OBJECT_HANDLE,
    ) {
        let library = Library::current()?;
        let out = place(object)?;
        let value = bytes(key, key_len)?;
        let kind = mechanisms::secret_key_type(mechanism).ok_or(Rv(CKR_MECHANISM_INVALID))?;
        let mut attributes = Attributes::default();
        attributes.set_number(CKA_CLASS, CKO_SECRET_KEY);
        attributes.set_number(CKA_KEY_TYPE, kind);
        attributes.set(CKA_VALUE, value);
        attributes.set_flag(CKA_PRIVATE, false);
        for may in [CKA_ENCRYPT, CKA_DECRYPT, CKA_SIGN, CKA_VERIFY, CKA_WRAP, CKA_UNWRAP, CKA_DERIVE] {
            attributes.set_flag(may, true);
        }
        let complete = rules::complete(&Template::default(), Origin::Create, &attributes)?;
        let (attributes, key) = material::key_of(&library.mill, complete)?;
        library.with_session(session, |held| {
            *out = keep(library, held, session, attributes, key)?;
            Ok(())
        })
    }
}
