//! A session with a token, and the calls that are made in it. Whoever calls has the session for himself, and the module's turn where calls are made in turn.

use std::sync::Arc;

use cryptoki_sys::{
    CK_ATTRIBUTE, CK_ATTRIBUTE_TYPE, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_SLOT_ID, CK_ULONG,
    CK_UNAVAILABLE_INFORMATION, CKF_SERIAL_SESSION, CKR_ATTRIBUTE_TYPE_INVALID, CKR_FUNCTION_NOT_SUPPORTED,
    CKR_GENERAL_ERROR, CKR_USER_ALREADY_LOGGED_IN, CKU_USER,
};
use zeroize::Zeroizing;

use crate::mechanism::Mechanism;
use crate::module::{Module, outcome};

/// Bytes of an attribute that is read: a modulus, a point, a name.
const ATTRIBUTE_LEN_MAX: usize = 4096;

/// An attribute of a template: its name, and its value in the machine's byte order.
pub(crate) type Attribute<'a> = (CK_ATTRIBUTE_TYPE, &'a [u8]);

/// What is done with a key in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Sign,
    Verify,
    Encrypt,
    Decrypt,
}

/// A read-only session, closed when it is dropped.
pub(crate) struct Session {
    pub(crate) module: Arc<Module>,
    pub(crate) handle: CK_SESSION_HANDLE,
}

impl Session {
    /// Opens a session (PKCS#11 3.1, 5.6.1). Session objects can be made in it, objects of the token not.
    pub(crate) fn open(module: &Arc<Module>, slot: CK_SLOT_ID) -> Result<Session, CK_RV> {
        Session::open_with(module, slot, CKF_SERIAL_SESSION)
    }

    /// Logs the user in (5.6.8). One login holds for all sessions of a program with a token.
    pub(crate) fn login(&self, pin: &[u8]) -> Result<(), CK_RV> {
        let login = self.module.functions().C_Login.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
        // SAFETY: the PIN is only read, and as long as is said.
        match unsafe { login(self.handle, CKU_USER, pin.as_ptr().cast_mut(), pin.len() as CK_ULONG) } {
            CKR_USER_ALREADY_LOGGED_IN => Ok(()),
            code => outcome(code),
        }
    }

    /// The objects with these attributes, two at most: who looks for one wants to know of a second.
    pub(crate) fn find(&self, template: &[Attribute<'_>]) -> Result<Vec<CK_OBJECT_HANDLE>, CK_RV> {
        self.find_up_to::<2>(template, 2)
    }

    /// The first objects with these attributes, until there are so many; `AT_ONCE` are asked for in a call (5.7.7 to 5.7.9).
    pub(crate) fn find_up_to<const AT_ONCE: usize>(
        &self,
        template: &[Attribute<'_>],
        enough: usize,
    ) -> Result<Vec<CK_OBJECT_HANDLE>, CK_RV> {
        let functions = self.module.functions();
        let begin = functions.C_FindObjectsInit.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
        let find = functions.C_FindObjects.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
        let end = functions.C_FindObjectsFinal.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
        let mut attributes = attributes(template);
        // SAFETY: attributes and their values live through the call and are only read.
        outcome(unsafe { begin(self.handle, attributes.as_mut_ptr(), attributes.len() as CK_ULONG) })?;
        let mut found = [0; AT_ONCE];
        let mut all = Vec::new();
        // A module may give fewer than there is room for; none ends the search.
        let searched = loop {
            let mut count = 0;
            // SAFETY: `found` has room for as many as are asked for.
            let code = unsafe { find(self.handle, found.as_mut_ptr(), AT_ONCE as CK_ULONG, &raw mut count) };
            let count = usize::try_from(count).unwrap_or(0).min(found.len());
            all.extend(found.iter().take(count));
            if code != 0 || count == 0 || all.len() >= enough {
                break outcome(code);
            }
        };
        // SAFETY: the search that was begun in this session ends.
        let ended = outcome(unsafe { end(self.handle) });
        searched.and(ended).map(|()| all)
    }

    /// An attribute (5.7.5); the secret of an agreement is one, therefore it is wiped.
    pub(crate) fn attribute(
        &self,
        object: CK_OBJECT_HANDLE,
        kind: CK_ATTRIBUTE_TYPE,
    ) -> Result<Zeroizing<Vec<u8>>, CK_RV> {
        self.attribute_up_to(object, kind, ATTRIBUTE_LEN_MAX)
    }

    /// An attribute of at most so many bytes.
    pub(crate) fn attribute_up_to(
        &self,
        object: CK_OBJECT_HANDLE,
        kind: CK_ATTRIBUTE_TYPE,
        len_max: usize,
    ) -> Result<Zeroizing<Vec<u8>>, CK_RV> {
        let ask = self.module.functions().C_GetAttributeValue.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
        let mut value = Zeroizing::new(vec![0_u8; len_max]);
        let len = value.len() as CK_ULONG;
        let mut attribute = CK_ATTRIBUTE { type_: kind, pValue: value.as_mut_ptr().cast(), ulValueLen: len };
        // SAFETY: the attribute says where there is room, and for how much.
        outcome(unsafe { ask(self.handle, object, &raw mut attribute, 1) })?;
        if attribute.ulValueLen == CK_UNAVAILABLE_INFORMATION || attribute.ulValueLen > len {
            return Err(CKR_ATTRIBUTE_TYPE_INVALID);
        }
        value.truncate(usize::try_from(attribute.ulValueLen).unwrap_or(0));
        Ok(value)
    }

    /// Makes a session object (5.7.1).
    pub(crate) fn create(&self, template: &[Attribute<'_>]) -> Result<CK_OBJECT_HANDLE, CK_RV> {
        let create = self.module.functions().C_CreateObject.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
        let mut attributes = attributes(template);
        let mut object = 0;
        // SAFETY: attributes and their values live through the call and are only read; the last argument is a place for the handle.
        let code =
            unsafe { create(self.handle, attributes.as_mut_ptr(), attributes.len() as CK_ULONG, &raw mut object) };
        outcome(code).map(|()| object)
    }

    /// Destroys an object (5.7.3).
    pub(crate) fn destroy(&self, object: CK_OBJECT_HANDLE) -> Result<(), CK_RV> {
        let destroy = self.module.functions().C_DestroyObject.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
        // SAFETY: handles are numbers.
        outcome(unsafe { destroy(self.handle, object) })
    }

    /// Begins what is finished by [`Session::finish`], or for [`Call::Verify`] by [`Session::verify`] (5.8.1, 5.10.1, 5.13.1, 5.15.1).
    pub(crate) fn begin(&self, call: Call, mechanism: &Mechanism<'_>, key: CK_OBJECT_HANDLE) -> Result<(), CK_RV> {
        let functions = self.module.functions();
        let begin = match call {
            Call::Sign => functions.C_SignInit,
            Call::Verify => functions.C_VerifyInit,
            Call::Encrypt => functions.C_EncryptInit,
            Call::Decrypt => functions.C_DecryptInit,
        };
        let begin = begin.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
        // SAFETY: the mechanism and its parameters live through the call.
        outcome(mechanism.with(|mechanism| unsafe { begin(self.handle, mechanism, key) }))
    }

    /// Finishes in one call what was begun (5.8.2, 5.10.2, 5.13.2), into `output`; returns how many bytes the token says it wrote, at most
    /// its length.
    pub(crate) fn finish(&self, call: Call, input: &[u8], output: &mut [u8]) -> Result<usize, CK_RV> {
        let functions = self.module.functions();
        let finish = match call {
            Call::Sign => functions.C_Sign,
            Call::Encrypt => functions.C_Encrypt,
            Call::Decrypt => functions.C_Decrypt,
            Call::Verify => None,
        };
        let finish = finish.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
        let mut len = output.len() as CK_ULONG;
        // SAFETY: the input is only read, and `output` has room for `len`.
        outcome(unsafe {
            finish(self.handle, input.as_ptr().cast_mut(), input.len() as CK_ULONG, output.as_mut_ptr(), &raw mut len)
        })?;
        usize::try_from(len).ok().filter(|len| *len <= output.len()).ok_or(CKR_GENERAL_ERROR)
    }

    /// Verifies what was begun (5.15.2).
    pub(crate) fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CK_RV> {
        let verify = self.module.functions().C_Verify.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
        let (data_len, signature_len) = (data.len() as CK_ULONG, signature.len() as CK_ULONG);
        // SAFETY: data and signature are only read, and as long as is said.
        outcome(unsafe {
            verify(self.handle, data.as_ptr().cast_mut(), data_len, signature.as_ptr().cast_mut(), signature_len)
        })
    }

    /// Derives a session object (5.18.5).
    pub(crate) fn derive(
        &self,
        mechanism: &Mechanism<'_>,
        key: CK_OBJECT_HANDLE,
        template: &[Attribute<'_>],
    ) -> Result<CK_OBJECT_HANDLE, CK_RV> {
        let derive = self.module.functions().C_DeriveKey.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
        let mut attributes = attributes(template);
        let (place, count) = (attributes.as_mut_ptr(), attributes.len() as CK_ULONG);
        let mut object = 0;
        // SAFETY: mechanism, attributes and their values live through the call and are only read; the last argument is a place for the
        // handle.
        let code =
            mechanism.with(|mechanism| unsafe { derive(self.handle, mechanism, key, place, count, &raw mut object) });
        outcome(code).map(|()| object)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(close) = self.module.functions().C_CloseSession {
            // A session that is gone already is as good as closed.
            // SAFETY: handles are numbers.
            let _ = unsafe { close(self.handle) };
        }
    }
}

/// A template as modules want it. They only read its values.
pub(crate) fn attributes(template: &[Attribute<'_>]) -> Vec<CK_ATTRIBUTE> {
    let attribute = |(kind, value): &Attribute<'_>| CK_ATTRIBUTE {
        type_: *kind,
        pValue: value.as_ptr().cast_mut().cast(),
        ulValueLen: value.len() as CK_ULONG,
    };
    template.iter().map(attribute).collect()
}
