//! Keys of the keystore: applications name them, and never have their private halves.
//!
//! Such a key is an object of `default` with the public half, and the private one beside it. Once that half is worked out, by an object
//! that is wiped at once, it is in no object of OpenSSL, so that
//! nobody can export it and `default` can do nothing private with it: what the mill does not do with it fails.

mod decoder;
mod settings;
mod store;

use std::ffi::CStr;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use ciphermill_contract::{KeyForm, KeyMaterial, Suite};
use ciphermill_keys::keystore::{KeyRecord, KeyState};
use ciphermill_memory::{Align, GuardedBuf};

pub(crate) use decoder::decoders;
use settings::Asking;
pub(crate) use settings::configure;
pub(crate) use store::{NAME, store};

use crate::dispatch::Object;
use crate::ffi::{self, Param, PrivateKey, selection};
use crate::inner::{Inner, provider_context};
use crate::key::{self, Key};
use crate::material::{KeyType, Usable};
use crate::params::Params;
use crate::stored::{Problem, Stored};

/// The types of keys that the keystore may have, by their places in [`key::TYPES`]: all but ML-KEM and ML-DSA, for which
/// OpenSSL works no public half out from what the keystore has.
pub(crate) const TYPES: [usize; 6] = [0, 1, 2, 3, 4, 5];

/// What names of keys begin with in URIs and references.
const SCHEME: &str = "ciphermill:";

/// Which key is meant: `ciphermill:NAME`, or `ciphermill:NAME?version=N`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reference {
    name: String,
    version: Option<u32>,
}

impl Reference {
    /// Reads a reference; `None` for what is none of ours.
    fn parse(text: &str) -> Option<Result<Reference, Problem>> {
        let rest = text.strip_prefix(SCHEME)?;
        let (name, version) = match rest.rsplit_once('?') {
            Some((name, query)) => (name, query.strip_prefix("version=").map(str::parse::<u32>)),
            None => return Some(named(rest, None)),
        };
        Some(match version {
            Some(Ok(version)) if version > 0 => named(name, Some(version)),
            _ => Err(Problem(format!("{text}: a key is named as {SCHEME}NAME or {SCHEME}NAME?version=N"))),
        })
    }
}

fn named(name: &str, version: Option<u32>) -> Result<Reference, Problem> {
    if name.is_empty() {
        return Err(Problem(format!("{SCHEME} has to be followed by the name of a key")));
    }
    Ok(Reference { name: name.to_owned(), version })
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.name)?;
        self.version.map_or(Ok(()), |version| write!(f, "?version={version}"))
    }
}

/// A key of the keystore as an object of ours, and its type.
///
/// # Safety
/// Whoever asks must be callable.
unsafe fn load(reference: &Reference, asking: Asking) -> Result<(usize, Object), Problem> {
    // SAFETY: the caller's promise.
    let keystore = unsafe { settings::open(asking) }?;
    let Reference { name, version } = reference;
    let made = keystore.with_key(name, *version, |record, material| stored(record, &material))?;
    let (of, inner, stored) = made.map_err(|Problem(text)| Problem(format!("{reference}: {text}")))?;
    Ok((of, Key::of_keystore(of, inner, Arc::new(stored))))
}

fn stored(record: &KeyRecord, material: &KeyMaterial<'_>) -> Result<(usize, Object, Stored), Problem> {
    if record.state != KeyState::Active {
        return Err(Problem(format!("version {} is not in use any more", record.version)));
    }
    if material.form != KeyForm::Private {
        return Err(Problem("it is no private key".to_owned()));
    }
    let locked = || {
        let mut bytes = GuardedBuf::from_slice(material.bytes, Align::End)?;
        // Refused beyond RLIMIT_MEMLOCK, as other keys' memory is; it stays out of dumps all the same.
        let _ = bytes.lock();
        Ok::<_, ciphermill_memory::MemoryError>(bytes)
    };
    let bytes = locked().map_err(|error| Problem(error.to_string()))?;
    let public = Public::of(record, material).ok_or_else(|| {
        Problem("OpenSSL does not read it: RSA, curves, Ed25519, X25519 and X448 can be used".to_owned())
    })?;
    let (of, inner, usable) =
        public.into_object().ok_or_else(|| Problem("the mill does not do this size or curve".to_owned()))?;
    let policy = record.policy.clone();
    let needed = usable.suites();
    if !needed.iter().any(|suite| policy.suites.contains(*suite)) {
        // SAFETY: just made, and nobody else has it.
        unsafe { key::free_inner(of, inner) };
        let needed: Vec<_> = needed.iter().map(Suite::to_string).collect();
        return Err(Problem(format!("it may not be used for {}, which OpenSSL's programs need", needed.join(" or "))));
    }
    Ok((of, inner, Stored { bytes, policy, usable }))
}

/// The public half of a key, as `default` writes it.
struct Public {
    key_type: KeyType,
    params: *mut Param,
}

impl Public {
    /// Has OpenSSL work it out, in an object that is wiped at once.
    fn of(record: &KeyRecord, material: &KeyMaterial<'_>) -> Option<Public> {
        let context = Inner::shared()?.library_context();
        let bytes = material.bytes;
        let is_for = |usable: Usable| usable.suites().iter().any(|suite| record.policy.suites.contains(*suite));
        let raw = [
            (c"ED25519", KeyType::Ed25519, Usable::Ed25519, 32),
            (c"X25519", KeyType::X25519, Usable::X25519, 32),
            (c"X448", KeyType::X448, Usable::X448, 56),
        ];
        let raw = raw.into_iter().find(|(_, _, usable, len)| bytes.len() == *len && is_for(*usable));
        // SAFETY: functions of libcrypto with slices that are read, and strings; each result is checked and freed.
        unsafe {
            let (key_type, key) = match raw {
                Some((name, key_type, ..)) => {
                    let made = ffi::EVP_PKEY_new_raw_private_key_ex(
                        context,
                        name.as_ptr(),
                        ptr::null(),
                        bytes.as_ptr(),
                        bytes.len(),
                    );
                    (key_type, made)
                }
                None => {
                    let (mut start, len) = (bytes.as_ptr(), bytes.len().try_into().ok()?);
                    let key = ffi::d2i_AutoPrivateKey_ex(ptr::null_mut(), &mut start, len, context, ptr::null());
                    let is_a = |name: &CStr| !key.is_null() && ffi::EVP_PKEY_is_a(key, name.as_ptr()) == 1;
                    (if is_a(c"EC") { KeyType::Ec } else { KeyType::Rsa }, key)
                }
            };
            let key = ptr::NonNull::<PrivateKey>::new(key)?;
            let mut params = ptr::null_mut();
            let parts = selection::PUBLIC_KEY | selection::ALL_PARAMETERS;
            let told = ffi::EVP_PKEY_todata(key.as_ptr(), parts, &mut params);
            ffi::EVP_PKEY_free(key.as_ptr());
            (told == 1).then_some(Public { key_type, params })
        }
    }

    /// An object of `default`. `None` for what the mill does not do.
    fn into_object(self) -> Option<(usize, Object, Usable)> {
        let of = key::TYPES.iter().position(|(_, key_type)| *key_type == self.key_type)?;
        // SAFETY: what `EVP_PKEY_todata` has made, until this value is dropped.
        let params = unsafe { Params::new(self.params) };
        let usable = Usable::of(self.key_type, &params)?;
        let functions = key::functions(of);
        let (new, import) = (functions.new?, functions.import?);
        // SAFETY: functions of `default` with its own context and object.
        unsafe {
            let inner = new(provider_context());
            if inner.is_null() {
                return None;
            }
            if import(inner, selection::PUBLIC_KEY | selection::ALL_PARAMETERS, self.params) != 1 {
                key::free_inner(of, inner);
                return None;
            }
            Some((of, inner, usable))
        }
    }
}

impl Drop for Public {
    fn drop(&mut self) {
        // SAFETY: what `EVP_PKEY_todata` has made, and nobody else has.
        unsafe { ffi::OSSL_PARAM_free(self.params) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_and_written() {
        for (text, name, version) in [("ciphermill:web", "web", None), ("ciphermill:a?b?version=12", "a?b", Some(12))] {
            let reference = Reference::parse(text).expect("ours").expect("sound");
            assert_eq!(reference, Reference { name: name.to_owned(), version });
            assert_eq!(reference.to_string(), text);
        }
        assert!(Reference::parse("file:web").is_none());
        for text in ["ciphermill:", "ciphermill:web?version=0", "ciphermill:web?size=1", "ciphermill:?version=1"] {
            assert!(Reference::parse(text).expect("ours").is_err(), "{text}");
        }
    }
}
