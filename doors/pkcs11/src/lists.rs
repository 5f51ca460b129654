//! The tables of functions that applications ask for, and the interfaces that name them.

use std::ffi::{CStr, c_void};
use std::ptr;

use cryptoki_sys::{
    CK_FLAGS, CK_FUNCTION_LIST, CK_FUNCTION_LIST_3_0, CK_FUNCTION_LIST_3_2, CK_INTERFACE, CK_VERSION,
    CKF_INTERFACE_FORK_SAFE,
};

use crate::functions::*;
use crate::vendor;

/// The standard's interface.
const PKCS11: &CStr = c"PKCS 11";

/// Fills a table of functions; every function of 2.40 is in each.
macro_rules! table {
    ($kind:ident, $major:literal, $minor:literal, $($added:ident),* $(,)?) => {
        $kind {
            version: CK_VERSION { major: $major, minor: $minor },
            $($added: Some($added),)*
            C_Initialize: Some(C_Initialize),
            C_Finalize: Some(C_Finalize),
            C_GetInfo: Some(C_GetInfo),
            C_GetFunctionList: Some(C_GetFunctionList),
            C_GetSlotList: Some(C_GetSlotList),
            C_GetSlotInfo: Some(C_GetSlotInfo),
            C_GetTokenInfo: Some(C_GetTokenInfo),
            C_GetMechanismList: Some(C_GetMechanismList),
            C_GetMechanismInfo: Some(C_GetMechanismInfo),
            C_InitToken: Some(C_InitToken),
            C_InitPIN: Some(C_InitPIN),
            C_SetPIN: Some(C_SetPIN),
            C_OpenSession: Some(C_OpenSession),
            C_CloseSession: Some(C_CloseSession),
            C_CloseAllSessions: Some(C_CloseAllSessions),
            C_GetSessionInfo: Some(C_GetSessionInfo),
            C_GetOperationState: Some(C_GetOperationState),
            C_SetOperationState: Some(C_SetOperationState),
            C_Login: Some(C_Login),
            C_Logout: Some(C_Logout),
            C_CreateObject: Some(C_CreateObject),
            C_CopyObject: Some(C_CopyObject),
            C_DestroyObject: Some(C_DestroyObject),
            C_GetObjectSize: Some(C_GetObjectSize),
            C_GetAttributeValue: Some(C_GetAttributeValue),
            C_SetAttributeValue: Some(C_SetAttributeValue),
            C_FindObjectsInit: Some(C_FindObjectsInit),
            C_FindObjects: Some(C_FindObjects),
            C_FindObjectsFinal: Some(C_FindObjectsFinal),
            C_EncryptInit: Some(C_EncryptInit),
            C_Encrypt: Some(C_Encrypt),
            C_EncryptUpdate: Some(C_EncryptUpdate),
            C_EncryptFinal: Some(C_EncryptFinal),
            C_DecryptInit: Some(C_DecryptInit),
            C_Decrypt: Some(C_Decrypt),
            C_DecryptUpdate: Some(C_DecryptUpdate),
            C_DecryptFinal: Some(C_DecryptFinal),
            C_DigestInit: Some(C_DigestInit),
            C_Digest: Some(C_Digest),
            C_DigestUpdate: Some(C_DigestUpdate),
            C_DigestKey: Some(C_DigestKey),
            C_DigestFinal: Some(C_DigestFinal),
            C_SignInit: Some(C_SignInit),
            C_Sign: Some(C_Sign),
            C_SignUpdate: Some(C_SignUpdate),
            C_SignFinal: Some(C_SignFinal),
            C_SignRecoverInit: Some(C_SignRecoverInit),
            C_SignRecover: Some(C_SignRecover),
            C_VerifyInit: Some(C_VerifyInit),
            C_Verify: Some(C_Verify),
            C_VerifyUpdate: Some(C_VerifyUpdate),
            C_VerifyFinal: Some(C_VerifyFinal),
            C_VerifyRecoverInit: Some(C_VerifyRecoverInit),
            C_VerifyRecover: Some(C_VerifyRecover),
            C_DigestEncryptUpdate: Some(C_DigestEncryptUpdate),
            C_DecryptDigestUpdate: Some(C_DecryptDigestUpdate),
            C_SignEncryptUpdate: Some(C_SignEncryptUpdate),
            C_DecryptVerifyUpdate: Some(C_DecryptVerifyUpdate),
            C_GenerateKey: Some(C_GenerateKey),
            C_GenerateKeyPair: Some(C_GenerateKeyPair),
            C_WrapKey: Some(C_WrapKey),
            C_UnwrapKey: Some(C_UnwrapKey),
            C_DeriveKey: Some(C_DeriveKey),
            C_SeedRandom: Some(C_SeedRandom),
            C_GenerateRandom: Some(C_GenerateRandom),
            C_GetFunctionStatus: Some(C_GetFunctionStatus),
            C_CancelFunction: Some(C_CancelFunction),
            C_WaitForSlotEvent: Some(C_WaitForSlotEvent),
        }
    };
}

/// The functions that 3.0 added, and then others.
macro_rules! table_from_3_0 {
    ($kind:ident, $major:literal, $minor:literal, $($added:ident),* $(,)?) => {
        table!(
            $kind, $major, $minor,
            C_GetInterfaceList,
            C_GetInterface,
            C_LoginUser,
            C_SessionCancel,
            C_MessageEncryptInit,
            C_EncryptMessage,
            C_EncryptMessageBegin,
            C_EncryptMessageNext,
            C_MessageEncryptFinal,
            C_MessageDecryptInit,
            C_DecryptMessage,
            C_DecryptMessageBegin,
            C_DecryptMessageNext,
            C_MessageDecryptFinal,
            C_MessageSignInit,
            C_SignMessage,
            C_SignMessageBegin,
            C_SignMessageNext,
            C_MessageSignFinal,
            C_MessageVerifyInit,
            C_VerifyMessage,
            C_VerifyMessageBegin,
            C_VerifyMessageNext,
            C_MessageVerifyFinal,
            $($added,)*
        )
    };
}

static LIST_2_40: CK_FUNCTION_LIST = table!(CK_FUNCTION_LIST, 2, 40,);

static LIST_3_0: CK_FUNCTION_LIST_3_0 = table_from_3_0!(CK_FUNCTION_LIST_3_0, 3, 0,);

static LIST_3_2: CK_FUNCTION_LIST_3_2 = table_from_3_0!(
    CK_FUNCTION_LIST_3_2,
    3,
    2,
    C_EncapsulateKey,
    C_DecapsulateKey,
    C_VerifySignatureInit,
    C_VerifySignature,
    C_VerifySignatureUpdate,
    C_VerifySignatureFinal,
    C_GetSessionValidationFlags,
    C_AsyncComplete,
    C_AsyncGetID,
    C_AsyncJoin,
    C_WrapKeyAuthenticated,
    C_UnwrapKeyAuthenticated,
);

/// The functions of 2.40.
pub(crate) fn of_2_40() -> *const CK_FUNCTION_LIST {
    &raw const LIST_2_40
}

/// An interface. What it points to is never written.
#[repr(transparent)]
pub(crate) struct Interface(CK_INTERFACE);

// SAFETY: pointers to what is never written nor freed.
unsafe impl Sync for Interface {}

impl Interface {
    const fn new(name: &'static CStr, list: *const c_void) -> Interface {
        // A child of a process finds the library uninitialised and may initialise it: that is what the flag says.
        let flags = CKF_INTERFACE_FORK_SAFE;
        Interface(CK_INTERFACE {
            pInterfaceName: name.as_ptr().cast_mut().cast(),
            pFunctionList: list.cast_mut(),
            flags,
        })
    }

    /// As applications see it.
    pub(crate) fn described(&self) -> CK_INTERFACE {
        self.0
    }

    pub(crate) fn as_ptr(&self) -> *mut CK_INTERFACE {
        ptr::from_ref(self).cast_mut().cast()
    }

    /// Whether an application that wants this name (the standard's, if it says none), version and these flags gets this one.
    pub(crate) fn is(&self, name: Option<&CStr>, version: Option<CK_VERSION>, flags: CK_FLAGS) -> bool {
        // SAFETY: both are made above: a string, and a table that begins with a version.
        let (own_name, own_version) =
            unsafe { (CStr::from_ptr(self.0.pInterfaceName.cast()), self.0.pFunctionList.cast::<CK_VERSION>().read()) };
        name.unwrap_or(PKCS11) == own_name
            && version.is_none_or(|wanted| (wanted.major, wanted.minor) == (own_version.major, own_version.minor))
            && self.0.flags & flags == flags
    }
}

static INTERFACES: [Interface; 4] = [
    Interface::new(PKCS11, (&raw const LIST_3_2).cast()),
    Interface::new(PKCS11, (&raw const LIST_3_0).cast()),
    Interface::new(PKCS11, (&raw const LIST_2_40).cast()),
    Interface::new(vendor::NAME, (&raw const vendor::LIST).cast()),
];

/// All interfaces, the newest of the standard's first.
pub(crate) fn interfaces() -> &'static [Interface] {
    &INTERFACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_found_by_name_version_and_flags() {
        let find = |name, version: Option<(u8, u8)>, flags| {
            let version = version.map(|(major, minor)| CK_VERSION { major, minor });
            interfaces().iter().position(|interface| interface.is(name, version, flags))
        };
        assert_eq!(find(None, None, 0), Some(0));
        assert_eq!(find(Some(PKCS11), Some((3, 0)), CKF_INTERFACE_FORK_SAFE), Some(1));
        assert_eq!(find(Some(PKCS11), Some((2, 40)), 0), Some(2));
        assert_eq!(find(Some(PKCS11), Some((3, 1)), 0), None);
        assert_eq!(find(Some(vendor::NAME), None, 0), Some(3));
        assert_eq!(find(Some(c"PKCS 1"), None, 0), None);
        assert_eq!(find(None, None, 2), None);
    }
}
