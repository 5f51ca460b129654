//! Bytes in a token's file: in base64, and attributes as types and lengths before values.

use base64ct::{Base64, Encoding};
use cryptoki_sys::*;
use serde::{Deserialize, Deserializer, Serializer, de};
use zeroize::Zeroizing;

use crate::attributes::Attributes;
use crate::material::SECRETS;

/// Bytes of a type and of a length.
const NUMBER_LEN: usize = 8;

pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&Base64::encode_string(bytes))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    Base64::decode_vec(&text).map_err(|_| de::Error::custom("not base64"))
}

/// Attributes one behind the other: type and length, little-endian, and value.
pub(super) fn encode(attributes: &Attributes) -> Zeroizing<Vec<u8>> {
    let len = attributes.iter().map(|(_, value)| 2 * NUMBER_LEN + value.len()).sum();
    let mut out = Zeroizing::new(Vec::with_capacity(len));
    for (kind, value) in attributes.iter() {
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
        out.extend_from_slice(value);
    }
    out
}

/// What [`encode`] wrote; `None` for anything else.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Attributes> {
    let mut attributes = Attributes::default();
    while !bytes.is_empty() {
        let (kind, rest) = bytes.split_first_chunk::<NUMBER_LEN>()?;
        let (len, rest) = rest.split_first_chunk::<NUMBER_LEN>()?;
        let (value, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
        attributes.set(CK_ATTRIBUTE_TYPE::from_le_bytes(*kind), value);
        bytes = rest;
    }
    Some(attributes)
}

/// Whether there are a key's own bytes among the attributes.
pub(super) fn has_secrets(attributes: &Attributes) -> bool {
    let is_hidden = matches!(attributes.number(CKA_CLASS), Some(CKO_SECRET_KEY | CKO_PRIVATE_KEY));
    is_hidden && SECRETS.iter().any(|kind| attributes.get(*kind).is_some())
}
