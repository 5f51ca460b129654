//! Calls that make, wrap and list objects: what an administrator does with a token, and an engine never. Whoever calls has the module's
//! turn.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cryptoki_sys::{
    CK_ATTRIBUTE_TYPE, CK_FLAGS, CK_MECHANISM, CK_MECHANISM_TYPE, CK_OBJECT_HANDLE, CK_RSA_PKCS_OAEP_PARAMS, CK_RV,
    CK_SLOT_ID, CK_ULONG, CKF_RW_SESSION, CKF_SERIAL_SESSION, CKG_MGF1_SHA1, CKG_MGF1_SHA256, CKM_RSA_PKCS_OAEP,
    CKM_SHA_1, CKM_SHA256, CKR_BUFFER_TOO_SMALL, CKR_FUNCTION_NOT_SUPPORTED, CKZ_DATA_SPECIFIED,
};

use crate::module::{Module, outcome};
use crate::session::{Attribute, Session, attributes};

/// Objects of a token that are listed.
const OBJECTS_MAX: usize = 65_536;

/// Handles that are asked for at once.
const FOUND_AT_ONCE: usize = 64;

/// Bytes that a wrapped key may have: an RSA key of 16,384 bits, and what is around it.
const WRAPPED_LEN_MAX: usize = 32_768;

/// How a key is wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapping {
    /// A mechanism without parameters.
    Plain(CK_MECHANISM_TYPE),
    /// RSA-OAEP (RFC 8017, 7.1) with SHA-256, …
    OaepSha256,
    /// … or with SHA-1, which serves there: OAEP does not rest on a digest without collisions.
    OaepSha1,
}

impl Session {
    /// Opens a session in which objects of the token can be made (PKCS#11 3.1, 5.6.1).
    pub(crate) fn open_to_write(module: &Arc<Module>, slot: CK_SLOT_ID) -> Result<Session, CK_RV> {
        Session::open_with(module, slot, CKF_SERIAL_SESSION | CKF_RW_SESSION)
    }

    /// Opens a session with these flags.
    pub(crate) fn open_with(module: &Arc<Module>, slot: CK_SLOT_ID, flags: CK_FLAGS) -> Result<Session, CK_RV> {
        let open = module.functions().C_OpenSession.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
        let mut handle = 0;
        // SAFETY: no callback is named, and the last argument is a place for the handle.
        outcome(unsafe { open(slot, flags, ptr::null_mut(), None, &raw mut handle) })?;
        Ok(Session { module: Arc::clone(module), handle })
    }

    /// All objects with these attributes, until there are [`OBJECTS_MAX`].
    pub(crate) fn find_all(&self, template: &[Attribute<'_>]) -> Result<Vec<CK_OBJECT_HANDLE>, CK_RV> {
        self.find_up_to::<FOUND_AT_ONCE>(template, OBJECTS_MAX)
    }

    /// An attribute that says yes or no; none where the token does not say.
    pub(crate) fn says(&self, object: CK_OBJECT_HANDLE, kind: CK_ATTRIBUTE_TYPE) -> Option<bool> {
        match self.attribute(object, kind).ok()?[..] {
            [byte] => Some(byte != 0),
            _ => None,
        }
    }

    /// An attribute that is a number.
    pub(crate) fn number(&self, object: CK_OBJECT_HANDLE, kind: CK_ATTRIBUTE_TYPE) -> Option<CK_ULONG> {
        self.attribute(object, kind).ok()?.as_slice().try_into().ok().map(CK_ULONG::from_ne_bytes)
    }

    /// Makes a secret key (5.18.1).
    pub(crate) fn generate(
        &self,
        mechanism: CK_MECHANISM_TYPE,
        template: &[Attribute<'_>],
    ) -> Result<CK_OBJECT_HANDLE, CK_RV> {
        let generate = self.module.functions().C_GenerateKey.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
        let mut mechanism = plain(mechanism);
        let mut attributes = attributes(template);
        let mut key = 0;
        // SAFETY: mechanism, attributes and their values live through the call; the last argument is a place for the handle.
        let code = unsafe {
            let len = attributes.len() as CK_ULONG;
            generate(self.handle, &raw mut mechanism, attributes.as_mut_ptr(), len, &raw mut key)
        };
        outcome(code).map(|()| key)
    }

    /// Makes a key pair (5.18.2); the handles of the public and of the private key.
    pub(crate) fn generate_pair(
        &self,
        mechanism: CK_MECHANISM_TYPE,
        public: &[Attribute<'_>],
        private: &[Attribute<'_>],
    ) -> Result<(CK_OBJECT_HANDLE, CK_OBJECT_HANDLE), CK_RV> {
        let generate = self.module.functions().C_GenerateKeyPair.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
        let mut mechanism = plain(mechanism);
        let (mut public, mut private) = (attributes(public), attributes(private));
        let (mut first, mut second) = (0, 0);
        // SAFETY: mechanism, attributes and their values live through the call; the last two arguments are places for handles.
        let code = unsafe {
            generate(
                self.handle,
                &raw mut mechanism,
                public.as_mut_ptr(),
                public.len() as CK_ULONG,
                private.as_mut_ptr(),
                private.len() as CK_ULONG,
                &raw mut first,
                &raw mut second,
            )
        };
        outcome(code).map(|()| (first, second))
    }

    /// Wraps a key by another (5.18.3).
    pub(crate) fn wrap(
        &self,
        wrapping: Wrapping,
        by: CK_OBJECT_HANDLE,
        key: CK_OBJECT_HANDLE,
    ) -> Result<Vec<u8>, CK_RV> {
        let wrap = self.module.functions().C_WrapKey.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
        let mut wrapped = vec![0; WRAPPED_LEN_MAX];
        let mut len = wrapped.len() as CK_ULONG;
        with_mechanism(wrapping, |mechanism| {
            // SAFETY: the mechanism and its parameters live through the call, and `wrapped` has room for `len`.
            outcome(unsafe { wrap(self.handle, mechanism, by, key, wrapped.as_mut_ptr(), &raw mut len) })
        })?;
        let len = usize::try_from(len).ok().filter(|len| *len <= wrapped.len()).ok_or(CKR_BUFFER_TOO_SMALL)?;
        wrapped.truncate(len);
        Ok(wrapped)
    }

    /// Makes a key of a wrapped one (5.18.4).
    pub(crate) fn unwrap(
        &self,
        wrapping: Wrapping,
        by: CK_OBJECT_HANDLE,
        wrapped: &[u8],
        template: &[Attribute<'_>],
    ) -> Result<CK_OBJECT_HANDLE, CK_RV> {
        let unwrap = self.module.functions().C_UnwrapKey.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
        let mut attributes = attributes(template);
        let mut key = 0;
        with_mechanism(wrapping, |mechanism| {
            // SAFETY: mechanism, bytes, attributes and their values live through the call and are only read; the last argument is a place
            // for the handle.
            outcome(unsafe {
                unwrap(
                    self.handle,
                    mechanism,
                    by,
                    wrapped.as_ptr().cast_mut(),
                    wrapped.len() as CK_ULONG,
                    attributes.as_mut_ptr(),
                    attributes.len() as CK_ULONG,
                    &raw mut key,
                )
            })
        })?;
        Ok(key)
    }
}

fn plain(mechanism: CK_MECHANISM_TYPE) -> CK_MECHANISM {
    CK_MECHANISM { mechanism, pParameter: ptr::null_mut(), ulParameterLen: 0 }
}

/// Lends a mechanism together with its parameters.
fn with_mechanism<T>(wrapping: Wrapping, work: impl FnOnce(*mut CK_MECHANISM) -> T) -> T {
    let oaep = |digest, mask| CK_RSA_PKCS_OAEP_PARAMS {
        hashAlg: digest,
        mgf: mask,
        source: CKZ_DATA_SPECIFIED,
        pSourceData: ptr::null_mut(),
        ulSourceDataLen: 0,
    };
    let mut parameters = match wrapping {
        Wrapping::Plain(mechanism) => {
            let mut mechanism = plain(mechanism);
            return work(&raw mut mechanism);
        }
        Wrapping::OaepSha256 => oaep(CKM_SHA256, CKG_MGF1_SHA256),
        Wrapping::OaepSha1 => oaep(CKM_SHA_1, CKG_MGF1_SHA1),
    };
    let mut mechanism = CK_MECHANISM {
        mechanism: CKM_RSA_PKCS_OAEP,
        pParameter: (&raw mut parameters).cast::<c_void>(),
        ulParameterLen: size_of::<CK_RSA_PKCS_OAEP_PARAMS>() as CK_ULONG,
    };
    work(&raw mut mechanism)
}
