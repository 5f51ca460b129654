//! What tests do with keys, each in one line: made, derived, encrypted with, signed with.

use std::ptr::null_mut;

use cryptoki_sys::*;

use super::{Module, Template, len, pin};
use crate::call;

/// A mechanism with its parameter, which lives as long.
pub(crate) struct Given {
    kind: CK_MECHANISM_TYPE,
    /// In numbers, so that it lies as a structure has to.
    parameter: Vec<u64>,
    len: usize,
}

impl Given {
    /// A mechanism without a parameter.
    pub(crate) fn none(kind: CK_MECHANISM_TYPE) -> Given {
        Given { kind, parameter: Vec::new(), len: 0 }
    }

    /// A mechanism whose parameter is bytes.
    pub(crate) fn bytes(kind: CK_MECHANISM_TYPE, bytes: &[u8]) -> Given {
        let number = |chunk: &[u8]| {
            let mut number = [0; 8];
            number[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(number)
        };
        Given { kind, parameter: bytes.chunks(8).map(number).collect(), len: bytes.len() }
    }

    /// A mechanism whose parameter is a structure. What it points to has to live as long.
    pub(crate) fn of<T: Copy>(kind: CK_MECHANISM_TYPE, parameter: T) -> Given {
        let mut place = vec![0_u64; size_of::<T>().div_ceil(8)];
        assert!(align_of::<T>() <= align_of::<u64>());
        // SAFETY: as long as the structure and aligned as it has to be.
        unsafe { place.as_mut_ptr().cast::<T>().write(parameter) };
        Given { kind, parameter: place, len: size_of::<T>() }
    }

    pub(crate) fn kind(&self) -> CK_MECHANISM_TYPE {
        self.kind
    }

    /// As the module takes it.
    pub(crate) fn raw(&mut self) -> CK_MECHANISM {
        let at = if self.len == 0 { null_mut() } else { self.parameter.as_mut_ptr().cast() };
        CK_MECHANISM { mechanism: self.kind, pParameter: at, ulParameterLen: self.len as CK_ULONG }
    }

    /// The parameter's structure, as the module left it.
    pub(crate) fn parameter<T: Copy>(&self) -> T {
        assert_eq!(self.len, size_of::<T>());
        // SAFETY: made of such a structure, by the length.
        unsafe { *self.parameter.as_ptr().cast() }
    }
}

/// A session, and what tests do in it.
#[derive(Clone, Copy)]
pub(crate) struct Client<'m> {
    pub(crate) module: &'m Module,
    pub(crate) session: CK_SESSION_HANDLE,
}

impl Client<'_> {
    /// Makes an object.
    pub(crate) fn create(self, template: &mut Template) -> Result<CK_OBJECT_HANDLE, CK_RV> {
        let (at, count) = template.parts();
        let mut object = 0;
        match call!(self.module, C_CreateObject, self.session, at, count, &mut object) {
            CKR_OK => Ok(object),
            rv => Err(rv),
        }
    }

    /// A secret key of these bytes, which may do everything and be read.
    pub(crate) fn secret(self, kind: CK_KEY_TYPE, value: &[u8]) -> CK_OBJECT_HANDLE {
        self.create(Template::secret(kind).bytes(CKA_VALUE, value)).expect("a key")
    }

    pub(crate) fn destroy(self, object: CK_OBJECT_HANDLE) {
        assert_eq!(call!(self.module, C_DestroyObject, self.session, object), CKR_OK);
    }

    /// The value of an attribute.
    pub(crate) fn value(self, object: CK_OBJECT_HANDLE, kind: CK_ATTRIBUTE_TYPE) -> Result<Vec<u8>, CK_RV> {
        self.module.value(self.session, object, kind)
    }

    /// Generates a secret key.
    pub(crate) fn generate(self, given: &mut Given, template: &mut Template) -> Result<CK_OBJECT_HANDLE, CK_RV> {
        let (mut mechanism, (at, count), mut key) = (given.raw(), template.parts(), 0);
        match call!(self.module, C_GenerateKey, self.session, &mut mechanism, at, count, &mut key) {
            CKR_OK => Ok(key),
            rv => Err(rv),
        }
    }

    /// Derives a key.
    pub(crate) fn derive(
        self,
        given: &mut Given,
        base: CK_OBJECT_HANDLE,
        template: &mut Template,
    ) -> Result<CK_OBJECT_HANDLE, CK_RV> {
        let (mut mechanism, (at, count), mut key) = (given.raw(), template.parts(), 0);
        match call!(self.module, C_DeriveKey, self.session, &mut mechanism, base, at, count, &mut key) {
            CKR_OK => Ok(key),
            rv => Err(rv),
        }
    }

    /// Derives a secret of so many bytes, or as many as there are, that is to be read.
    pub(crate) fn derived(
        self,
        given: &mut Given,
        base: CK_OBJECT_HANDLE,
        len: Option<usize>,
    ) -> Result<Vec<u8>, CK_RV> {
        let mut template = Template::secret(CKK_GENERIC_SECRET);
        if let Some(len) = len {
            template.number(CKA_VALUE_LEN, len as CK_ULONG);
        }
        let key = self.derive(given, base, &mut template)?;
        self.value(key, CKA_VALUE)
    }

    /// Encrypts a key by another.
    pub(crate) fn wrap(
        self,
        given: &mut Given,
        wrapping: CK_OBJECT_HANDLE,
        key: CK_OBJECT_HANDLE,
    ) -> Result<Vec<u8>, CK_RV> {
        let (mut mechanism, mut wrapped, mut room) = (given.raw(), vec![0; 4096], 4096);
        let to = wrapped.as_mut_ptr();
        match call!(self.module, C_WrapKey, self.session, &mut mechanism, wrapping, key, to, &mut room) {
            CKR_OK => {
                wrapped.truncate(room as usize);
                Ok(wrapped)
            }
            rv => Err(rv),
        }
    }

    /// Decrypts a key by another.
    pub(crate) fn unwrap(
        self,
        given: &mut Given,
        unwrapping: CK_OBJECT_HANDLE,
        wrapped: &[u8],
        template: &mut Template,
    ) -> Result<CK_OBJECT_HANDLE, CK_RV> {
        let (mut mechanism, (at, count), mut key) = (given.raw(), template.parts(), 0);
        let (from, from_len) = (pin(wrapped), len(wrapped));
        let session = self.session;
        match call!(self.module, C_UnwrapKey, session, &mut mechanism, unwrapping, from, from_len, at, count, &mut key)
        {
            CKR_OK => Ok(key),
            rv => Err(rv),
        }
    }

    fn cipher_init(self, given: &mut Given, key: CK_OBJECT_HANDLE, encrypts: bool) -> CK_RV {
        let mut mechanism = given.raw();
        match encrypts {
            true => call!(self.module, C_EncryptInit, self.session, &mut mechanism, key),
            false => call!(self.module, C_DecryptInit, self.session, &mut mechanism, key),
        }
    }

    /// Encrypts or decrypts in one call.
    pub(crate) fn cipher_once(
        self,
        given: &mut Given,
        key: CK_OBJECT_HANDLE,
        input: &[u8],
        encrypts: bool,
    ) -> Result<Vec<u8>, CK_RV> {
        match self.cipher_init(given, key, encrypts) {
            CKR_OK => {}
            rv => return Err(rv),
        }
        let (from, from_len) = (pin(input), len(input));
        let (mut out, mut room) = (vec![0; input.len() + 1024], len(input) + 1024);
        let rv = match encrypts {
            true => call!(self.module, C_Encrypt, self.session, from, from_len, out.as_mut_ptr(), &mut room),
            false => call!(self.module, C_Decrypt, self.session, from, from_len, out.as_mut_ptr(), &mut room),
        };
        out.truncate(room as usize);
        if rv == CKR_OK { Ok(out) } else { Err(rv) }
    }

    /// Encrypts or decrypts in parts of so many bytes; the end is first asked for with too little room, which must change nothing.
    fn cipher_in_parts(
        self,
        given: &mut Given,
        key: CK_OBJECT_HANDLE,
        input: &[u8],
        encrypts: bool,
        step: usize,
    ) -> Result<Vec<u8>, CK_RV> {
        let (module, session) = (self.module, self.session);
        match self.cipher_init(given, key, encrypts) {
            CKR_OK => {}
            rv => return Err(rv),
        }
        let mut parts = Vec::new();
        let room_len = input.len() + 256;
        for part in input.chunks(step) {
            let (mut out, mut room) = (vec![0; room_len], room_len as CK_ULONG);
            let rv = match encrypts {
                true => call!(module, C_EncryptUpdate, session, pin(part), len(part), out.as_mut_ptr(), &mut room),
                false => call!(module, C_DecryptUpdate, session, pin(part), len(part), out.as_mut_ptr(), &mut room),
            };
            if rv != CKR_OK {
                return Err(rv);
            }
            parts.extend_from_slice(&out[..room as usize]);
        }
        let (mut out, mut room) = (vec![0; room_len], 0);
        let end = |at: *mut u8, room: &mut CK_ULONG| match encrypts {
            true => call!(module, C_EncryptFinal, session, at, room),
            false => call!(module, C_DecryptFinal, session, at, room),
        };
        let mut ended = end(out.as_mut_ptr(), &mut room);
        if ended == CKR_BUFFER_TOO_SMALL {
            room = room_len as CK_ULONG;
            ended = end(out.as_mut_ptr(), &mut room);
        }
        if ended != CKR_OK {
            return Err(ended);
        }
        parts.extend_from_slice(&out[..room as usize]);
        Ok(parts)
    }

    /// Encrypts or decrypts, in one call and in parts, which must agree.
    pub(crate) fn cipher(
        self,
        given: &mut Given,
        key: CK_OBJECT_HANDLE,
        input: &[u8],
        encrypts: bool,
    ) -> Result<Vec<u8>, CK_RV> {
        let whole = self.cipher_once(given, key, input, encrypts);
        for step in [1, 7, 16, 50] {
            assert_eq!(self.cipher_in_parts(given, key, input, encrypts, step), whole, "parts of {step}");
        }
        whole
    }

    /// A signature or MAC, in one call.
    pub(crate) fn sign(self, given: &mut Given, key: CK_OBJECT_HANDLE, data: &[u8]) -> Result<Vec<u8>, CK_RV> {
        let (module, session, mut mechanism) = (self.module, self.session, given.raw());
        match call!(module, C_SignInit, session, &mut mechanism, key) {
            CKR_OK => {}
            rv => return Err(rv),
        }
        let mut room = 0;
        assert_eq!(call!(module, C_Sign, session, pin(data), len(data), null_mut(), &mut room), CKR_OK);
        let mut signature = vec![0; room as usize];
        match call!(module, C_Sign, session, pin(data), len(data), signature.as_mut_ptr(), &mut room) {
            CKR_OK => {
                signature.truncate(room as usize);
                Ok(signature)
            }
            rv => Err(rv),
        }
    }

    /// The same, of a message that comes in parts.
    pub(crate) fn sign_in_parts(self, given: &mut Given, key: CK_OBJECT_HANDLE, data: &[u8]) -> Vec<u8> {
        let (module, session, mut mechanism) = (self.module, self.session, given.raw());
        assert_eq!(call!(module, C_SignInit, session, &mut mechanism, key), CKR_OK);
        for part in data.chunks(5) {
            assert_eq!(call!(module, C_SignUpdate, session, pin(part), len(part)), CKR_OK);
        }
        let (mut signature, mut room) = (vec![0; 8192], 8192);
        assert_eq!(call!(module, C_SignFinal, session, signature.as_mut_ptr(), &mut room), CKR_OK);
        signature.truncate(room as usize);
        signature
    }

    /// Verifies a signature or MAC by both of the standard's ways, which must agree.
    pub(crate) fn verify(self, given: &mut Given, key: CK_OBJECT_HANDLE, data: &[u8], signature: &[u8]) -> CK_RV {
        let (module, session, mut mechanism) = (self.module, self.session, given.raw());
        let (at, at_len) = (pin(signature), len(signature));
        match call!(module, C_VerifyInit, session, &mut mechanism, key) {
            CKR_OK => {}
            rv => return rv,
        }
        let whole = call!(module, C_Verify, session, pin(data), len(data), at, at_len);
        let begun = call!(module, C_VerifySignatureInit, session, &mut mechanism, key, at, at_len);
        assert_eq!(begun, CKR_OK);
        assert_eq!(call!(module, C_VerifySignature, session, pin(data), len(data)), whole);
        whole
    }
}

/// The parameter of GCM with a tag of so many bytes.
pub(crate) fn gcm(iv: &[u8], aad: &[u8], tag_len: usize) -> CK_GCM_PARAMS {
    CK_GCM_PARAMS {
        pIv: pin(iv),
        ulIvLen: len(iv),
        ulIvBits: 8 * len(iv),
        pAAD: pin(aad),
        ulAADLen: len(aad),
        ulTagBits: 8 * tag_len as CK_ULONG,
    }
}

/// The parameter of an agreement on a curve, whose secret is the key itself.
pub(crate) fn ecdh(public: &[u8]) -> CK_ECDH1_DERIVE_PARAMS {
    CK_ECDH1_DERIVE_PARAMS {
        kdf: CKD_NULL,
        ulSharedDataLen: 0,
        pSharedData: null_mut(),
        ulPublicDataLen: len(public),
        pPublicData: pin(public),
    }
}

/// Bytes of their digits.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
