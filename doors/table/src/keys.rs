//! From one root key to a key for each column, through the mill.
//!
//! The root key stays in the key table. It is used with HMAC-SHA-256 only, as the pseudorandom key of HKDF-Expand
//! (RFC 5869, section 2.3): `T(i) = HMAC(root, T(i-1) ‖ info ‖ i)`. What comes out goes straight into the table under a
//! policy for its one suite, and is destroyed when the job ends.

use ciphermill::Mill;
use ciphermill_contract::suite::{Digest, Mac};
use ciphermill_contract::{Batch, Direction, KeyId, KeyMaterial, Op, Span, Suite};
use ciphermill_keys::KeyPolicy;
use zeroize::Zeroizing;

use crate::error::{Result, TableError};
use crate::spec::{Method, RowBinding};

/// The format of values, associated data and key derivation. A change makes old values unreadable, so it is part of both.
pub const FORMAT: u8 = 1;

/// The suite of the root key and of tokens.
pub(crate) const HMAC_SHA256: Suite = Suite::Mac(Mac::Hmac(Digest::Sha256));

const LABEL: &[u8] = b"ciphermill table";
pub(crate) const DIGEST_LEN: usize = 32;
const CHECK_LEN: usize = 8;

/// The key that all column keys are derived from: a key of the mill's table that HMAC-SHA-256 is allowed for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootKey {
    /// Its name in the mill's key table.
    pub id: KeyId,
    /// Its name for people and in the manifest, for example the one in the keystore.
    pub name: String,
    /// Its version, which is part of every derived key.
    pub version: u32,
}

/// What a derived key is for.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Purpose {
    /// Protects the values of a column.
    Column = 1,
    /// Signs manifests.
    Manifest = 2,
    /// Not a key: shows that a column's key is the same again.
    ColumnCheck = 3,
    /// Not a key: shows that the root key is the same again.
    RootCheck = 4,
    /// Makes tokens of the values that a column's method cannot take.
    BadValue = 5,
    /// Signs manifests of folders.
    Folder = 6,
    /// Authenticates the lines of a folder's journal.
    Journal = 7,
}

/// A derived key in the table; destroyed when dropped.
pub(crate) struct DerivedKey {
    mill: Mill,
    id: KeyId,
}

impl DerivedKey {
    pub(crate) fn id(&self) -> KeyId {
        self.id
    }
}

impl Drop for DerivedKey {
    fn drop(&mut self) {
        // Only this handle knows the name, so the key cannot be gone already.
        let _ = self.mill.keys().destroy(self.id);
    }
}

/// Follows the logical name where values are bound to rows, so that such values have keys of their own.
const ROW_BOUND: u8 = 1;

/// The associated data of a column's values: format, method, type tag, logical name with its length; for values that are
/// bound to rows [`ROW_BOUND`] and the table's name with its length, behind which each row's identifier follows.
///
/// `random` and `deterministic` authenticate it with each value, `ff1` takes it as (the start of) the tweak; all column
/// keys are derived from it, which is how it is bound to tokens.
pub(crate) fn associated_data(
    method: &Method,
    type_tag: [u8; 2],
    logical: &str,
    bound_to: Option<&RowBinding>,
) -> Vec<u8> {
    let mut data = vec![FORMAT, method_byte(method), type_tag[0], type_tag[1]];
    push_name(&mut data, logical);
    if let Some(binding) = bound_to {
        data.push(ROW_BOUND);
        push_name(&mut data, &binding.table);
    }
    data
}

const fn method_byte(method: &Method) -> u8 {
    match method {
        Method::Random => 1,
        Method::Deterministic => 2,
        Method::Token { .. } => 3,
        Method::Ff1(_) => 4,
    }
}

/// The same associated data for another method.
pub(crate) fn of_method(associated_data: &[u8], method: &Method) -> Vec<u8> {
    let mut data = associated_data.to_vec();
    if let Some(place) = data.get_mut(1) {
        *place = method_byte(method);
    }
    data
}

/// Names are shorter than 2^16 bytes (`LOGICAL_NAME_MAX`).
fn push_name(data: &mut Vec<u8>, name: &str) {
    data.extend_from_slice(&(name.len() as u16).to_le_bytes());
    data.extend_from_slice(name.as_bytes());
}

/// What a column's key is derived from: its associated data, and for `ff1` the alphabet, so that alphabets of one size
/// do not share a permutation.
pub(crate) fn column_context(method: &Method, associated_data: &[u8]) -> Vec<u8> {
    let mut context = associated_data.to_vec();
    if let Method::Ff1(options) = method {
        context.extend_from_slice(options.alphabet.to_string().as_bytes());
    }
    context
}

/// Derives `len` bytes from the root key.
fn expand(mill: &Mill, root: &RootKey, purpose: Purpose, context: &[u8], len: usize) -> Result<Zeroizing<Vec<u8>>> {
    let mut info = LABEL.to_vec();
    info.extend_from_slice(&[0, FORMAT, purpose as u8]);
    info.extend_from_slice(&root.version.to_le_bytes());
    info.extend_from_slice(context);
    let mut derived = Zeroizing::new(Vec::with_capacity(len + DIGEST_LEN));
    let mut round = 1u8;
    while derived.len() < len {
        let previous = derived.len().saturating_sub(DIGEST_LEN);
        let mut message = Zeroizing::new(derived[previous..].to_vec());
        message.extend_from_slice(&info);
        message.push(round);
        derived.extend_from_slice(&hmac(mill, root.id, &message)?[..]);
        round += 1;
    }
    derived.truncate(len);
    Ok(derived)
}

/// HMAC-SHA-256 of one message under a key of the table.
pub(crate) fn hmac(mill: &Mill, key: KeyId, message: &[u8]) -> Result<Zeroizing<[u8; DIGEST_LEN]>> {
    let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut arena = Zeroizing::new(message.to_vec());
    arena.resize(message.len() + DIGEST_LEN, 0);
    let mut ops = [Op::in_place(key, Span::new(0, len)).with_tag(len, DIGEST_LEN as u16)];
    mill.run(Batch::new(HMAC_SHA256, Direction::Encrypt, &mut ops, &mut arena))
        .map_err(|source| TableError::mill("deriving keys from the root key", source))?;
    if !ops[0].status.is_done() {
        return Err(TableError::RootKey { status: ops[0].status });
    }
    let mut digest = Zeroizing::new([0; DIGEST_LEN]);
    digest.copy_from_slice(&arena[message.len()..]);
    Ok(digest)
}

/// Derives a key and puts it into the mill's table for `suite` alone, on the kinds of engines that may hold the root.
pub(crate) fn derive(
    mill: &Mill,
    root: &RootKey,
    purpose: Purpose,
    context: &[u8],
    suite: Suite,
) -> Result<DerivedKey> {
    let len = if suite == HMAC_SHA256 { DIGEST_LEN } else { suite.key_len().max };
    let bytes = expand(mill, root, purpose, context, len)?;
    let refused = |source| TableError::mill("importing a derived key", source);
    let engines = mill.keys().policy(root.id).map_err(|source| TableError::mill("the root key", source))?.engines;
    let policy = KeyPolicy::only(suite).engines(engines);
    let id = mill.keys().import(KeyMaterial::secret(&bytes), policy).map_err(refused)?;
    Ok(DerivedKey { mill: mill.clone(), id })
}

/// A value that shows, without revealing anything else, whether a key is the same again: eight bytes in hexadecimal.
pub(crate) fn check_value(mill: &Mill, root: &RootKey, purpose: Purpose, context: &[u8]) -> Result<String> {
    Ok(hex::encode(&expand(mill, root, purpose, context, CHECK_LEN)?[..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{mill, root_key};
    use hmac::{Hmac, KeyInit, Mac as _};

    /// HKDF-Expand as RFC 5869 writes it, over another HMAC.
    fn hkdf_expand(key: &[u8], info: &[u8], len: usize) -> Vec<u8> {
        let (mut all, mut last) = (Vec::new(), Vec::new());
        for round in 1u8.. {
            if all.len() >= len {
                break;
            }
            let mut mac = Hmac::<sha2::Sha256>::new_from_slice(key).unwrap();
            mac.update(&last);
            mac.update(info);
            mac.update(&[round]);
            last = mac.finalize().into_bytes().to_vec();
            all.extend_from_slice(&last);
        }
        all.truncate(len);
        all
    }

    #[test]
    fn expansion_is_that_of_rfc_5869() {
        let mill = mill();
        let root = root_key(&mill, &[7; 32]);
        let mut info = b"ciphermill table".to_vec();
        info.extend_from_slice(&[0, 1, 1, 1, 0, 0, 0]);
        info.extend_from_slice(b"context");
        for len in [8, 32, 33, 64, 96] {
            let derived = expand(&mill, &root, Purpose::Column, b"context", len).unwrap();
            assert_eq!(derived[..], hkdf_expand(&[7; 32], &info, len), "{len}");
        }
    }

    #[test]
    fn derived_keys_leave_the_table() {
        let mill = mill();
        let root = root_key(&mill, &[7; 32]);
        let before = mill.keys().len();
        let suite: Suite = "aes-256-siv".parse().unwrap();
        let key = derive(&mill, &root, Purpose::Column, b"context", suite).unwrap();
        assert_eq!(mill.keys().len(), before + 1);
        assert!(!mill.keys().policy(key.id()).unwrap().suites.contains(HMAC_SHA256));
        drop(key);
        assert_eq!(mill.keys().len(), before);
    }

    #[test]
    fn associated_data_tell_columns_apart() {
        let of = |method: &Method, tag, logical| associated_data(method, tag, logical, None);
        let base = of(&Method::Random, [1, 0], "name");
        assert_eq!(base, b"\x01\x01\x01\x00\x04\x00name");
        assert_ne!(base, of(&Method::Deterministic, [1, 0], "name"));
        assert_ne!(base, of(&Method::Random, [2, 0], "name"));
        assert_ne!(base, of(&Method::Random, [1, 0], "names"));
        let bound = |table: &str| {
            let binding = RowBinding { column: "id".to_owned(), table: table.to_owned() };
            associated_data(&Method::Random, [1, 0], "name", Some(&binding))
        };
        assert_eq!(bound(""), b"\x01\x01\x01\x00\x04\x00name\x01\x00\x00");
        assert_eq!(bound("eu"), b"\x01\x01\x01\x00\x04\x00name\x01\x02\x00eu");
    }
}
