//! References in files: programs that read keys from PEM find the name of one there, and get that one.
//!
//! A reference is a private key in PKCS#8 (RFC 5958) of a type of ours whose octets are a name instead, `ciphermill:NAME`. Programs that
//! have the provider not take it for a key that is broken.

use std::ffi::{c_int, c_void};
use std::ptr;

use pkcs8::der::Decode;
use pkcs8::{ObjectIdentifier, PrivateKeyInfoRef};
use zeroize::Zeroizing;

use super::settings::Asking;
use super::{Reference, load};
use crate::dispatch::{Decoder, Object, Passphrase};
use crate::ffi::{Callback, selection};
use crate::guard::guarded;
use crate::key::{Loaded, TYPES};
use crate::material::KeyType;
use crate::stored::{Problem, refuse_export};
use crate::upcalls::core;

/// Bytes of a reference that is looked at; private keys may be longer, and are not ours.
const REFERENCE_LEN_MAX: usize = 1024;

/// Our functions for keys of a type.
pub(crate) fn decoders<const OF: usize>() -> Decoder {
    Decoder {
        newctx: Some(newctx),
        freectx: Some(freectx),
        does_selection: Some(does_selection),
        decode: Some(decode::<OF>),
        export_object: Some(export_object),
    }
}

/// How a type of keys is named in PKCS#8 (RFC 3279, 2.3.1 and 2.3.5; RFC 8410, 3).
fn identifier(key_type: KeyType) -> Option<ObjectIdentifier> {
    Some(ObjectIdentifier::new_unwrap(match key_type {
        KeyType::Rsa => "1.2.840.113549.1.1.1",
        KeyType::RsaPss => "1.2.840.113549.1.1.10",
        KeyType::Ec => "1.2.840.10045.2.1",
        KeyType::X25519 => "1.3.101.110",
        KeyType::X448 => "1.3.101.111",
        KeyType::Ed25519 => "1.3.101.112",
        KeyType::MlKem(_) | KeyType::MlDsa(_) => return None,
    }))
}

/// Nothing is kept: any context but none will do.
unsafe extern "C" fn newctx(_: Object) -> Object {
    ptr::dangling_mut::<u8>().cast()
}

unsafe extern "C" fn freectx(_: Object) {}

unsafe extern "C" fn does_selection(_: Object, parts: c_int) -> c_int {
    c_int::from(parts == 0 || parts & selection::PRIVATE_KEY != 0)
}

unsafe extern "C" fn decode<const OF: usize>(
    _: Object,
    input: Object,
    _: c_int,
    callback: Option<Callback>,
    argument: *mut c_void,
    asks: Option<Passphrase>,
    asks_with: *mut c_void,
) -> c_int {
    guarded(0, || {
        let key_type = TYPES[OF].1;
        // What is not ours is left to others, which is no error.
        // SAFETY: the core's input.
        let Some(read) = (unsafe { read(input) }) else { return 1 };
        let Some(reference) = find(&read, key_type) else { return 1 };
        let asking = Asking { function: asks, argument: asks_with };
        let loaded = reference.and_then(|reference| {
            // SAFETY: whoever asks is callable during this call.
            let (of, object) = unsafe { load(&reference, asking) }?;
            // From here on it is freed.
            let loaded = Loaded::new(of, object);
            if of == OF { Ok(loaded) } else { Err(Problem(format!("{reference}: it is a key of another type"))) }
        });
        match (loaded, callback) {
            // SAFETY: the core's callback.
            (Ok(loaded), Some(callback)) => unsafe { loaded.hand_over(callback, argument) },
            (Err(problem), _) => {
                problem.raise(line!());
                0
            }
            _ => 0,
        }
    })
}

/// All of an input, if it is as short as references are.
///
/// # Safety
/// The input must be one of the core's.
unsafe fn read(input: Object) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; REFERENCE_LEN_MAX + 1]);
    let mut len = 0;
    while len < bytes.len() {
        let (room, mut read) = (&mut bytes[len..], 0);
        // SAFETY: the caller's promise; the slice is writable for its length.
        if unsafe { core().bio_read_ex?(input, room.as_mut_ptr(), room.len(), &mut read) } != 1 || read == 0 {
            break;
        }
        len += read;
    }
    bytes.truncate(len);
    (len <= REFERENCE_LEN_MAX).then_some(bytes)
}

/// The reference that a private key of a type holds instead of one.
fn find(der: &[u8], key_type: KeyType) -> Option<Result<Reference, Problem>> {
    let info = PrivateKeyInfoRef::from_der(der).ok().filter(|info| Some(info.algorithm.oid) == identifier(key_type))?;
    Reference::parse(std::str::from_utf8(info.private_key.as_bytes()).ok()?)
}

pub(super) unsafe extern "C" fn export_object(
    _: Object,
    _: *const c_void,
    _: usize,
    _: Option<Callback>,
    _: *mut c_void,
) -> c_int {
    guarded(0, refuse_export)
}

#[cfg(test)]
mod tests {
    use pkcs8::AlgorithmIdentifierRef;
    use pkcs8::der::Encode;
    use pkcs8::der::asn1::OctetStringRef;

    use super::*;

    #[test]
    fn only_references_are_taken() {
        let of = |key_type, octets: &[u8]| {
            let algorithm = AlgorithmIdentifierRef { oid: identifier(key_type).expect("a name"), parameters: None };
            PrivateKeyInfoRef::new(algorithm, OctetStringRef::new(octets).expect("short")).to_der().expect("DER")
        };
        let der = of(KeyType::Ec, b"ciphermill:web");
        assert!(matches!(find(&der, KeyType::Ec), Some(Ok(reference)) if reference.name == "web"));
        assert!(find(&der, KeyType::Rsa).is_none());
        assert!(find(&of(KeyType::Ec, &[0x30, 0x77, 2, 1, 1]), KeyType::Ec).is_none());
        assert!(matches!(find(&of(KeyType::Ec, b"ciphermill:"), KeyType::Ec), Some(Err(_))));
        assert!(find(&der[..der.len() - 1], KeyType::Ec).is_none());
    }
}
