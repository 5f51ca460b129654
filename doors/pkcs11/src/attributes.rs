//! Attributes of objects, as values of ours.

pub(crate) mod rules;
mod template;

use std::collections::BTreeMap;
use std::fmt;

use cryptoki_sys::{CK_ATTRIBUTE_TYPE, CK_ULONG, CKR_ATTRIBUTE_VALUE_INVALID};
use zeroize::Zeroizing;

pub(crate) use template::Template;

use crate::rv::{Result, fail};

/// Attributes by type, in the bytes that applications see: a `CK_BBOOL` is one byte, a `CK_ULONG` eight in this machine's order. Each
/// type is there once. Values are wiped when they go, since some are keys.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Attributes(BTreeMap<CK_ATTRIBUTE_TYPE, Zeroizing<Vec<u8>>>);

impl Attributes {
    /// The value of an attribute.
    pub(crate) fn get(&self, kind: CK_ATTRIBUTE_TYPE) -> Option<&[u8]> {
        self.0.get(&kind).map(|value| value.as_slice())
    }

    /// The value of an attribute that is a `CK_BBOOL`; `None` also where it is none.
    pub(crate) fn flag(&self, kind: CK_ATTRIBUTE_TYPE) -> Option<bool> {
        match self.get(kind)? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    /// Whether an attribute is there and true.
    pub(crate) fn is_set(&self, kind: CK_ATTRIBUTE_TYPE) -> bool {
        self.flag(kind) == Some(true)
    }

    /// The value of an attribute that is a `CK_ULONG`; `None` also where it is none.
    pub(crate) fn number(&self, kind: CK_ATTRIBUTE_TYPE) -> Option<CK_ULONG> {
        Some(CK_ULONG::from_ne_bytes(self.get(kind)?.try_into().ok()?))
    }

    pub(crate) fn set(&mut self, kind: CK_ATTRIBUTE_TYPE, value: &[u8]) {
        self.0.insert(kind, Zeroizing::new(value.to_vec()));
    }

    pub(crate) fn set_flag(&mut self, kind: CK_ATTRIBUTE_TYPE, value: bool) {
        self.set(kind, &[u8::from(value)]);
    }

    pub(crate) fn set_number(&mut self, kind: CK_ATTRIBUTE_TYPE, value: CK_ULONG) {
        self.set(kind, &value.to_ne_bytes());
    }

    pub(crate) fn remove(&mut self, kind: CK_ATTRIBUTE_TYPE) {
        self.0.remove(&kind);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (CK_ATTRIBUTE_TYPE, &[u8])> {
        self.0.iter().map(|(kind, value)| (*kind, value.as_slice()))
    }

    /// The `CK_ULONG` of an attribute that must be one if it is there.
    ///
    /// # Errors
    /// `CKR_ATTRIBUTE_VALUE_INVALID` for a value of another length.
    pub(crate) fn checked_number(&self, kind: CK_ATTRIBUTE_TYPE) -> Result<Option<CK_ULONG>> {
        match (self.get(kind), self.number(kind)) {
            (Some(_), None) => fail(CKR_ATTRIBUTE_VALUE_INVALID),
            (_, number) => Ok(number),
        }
    }
}

impl fmt::Debug for Attributes {
    /// Types and lengths: values may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(kind, value)| (kind, value.len()))).finish()
    }
}
