//! Attributes as an application gives them.

use cryptoki_sys::{CK_ATTRIBUTE_TYPE, CKR_TEMPLATE_INCONSISTENT};
use zeroize::Zeroizing;

use crate::rv::{Result, fail};

/// Attributes of one template, in the application's order.
#[derive(Default)]
pub(crate) struct Template(Vec<(CK_ATTRIBUTE_TYPE, Zeroizing<Vec<u8>>)>);

impl Template {
    /// # Errors
    /// `CKR_TEMPLATE_INCONSISTENT` for an attribute that is there twice with two values.
    pub(crate) fn new(values: Vec<(CK_ATTRIBUTE_TYPE, Zeroizing<Vec<u8>>)>) -> Result<Template> {
        let mut sorted: Vec<_> = values.iter().map(|(kind, value)| (*kind, value.as_slice())).collect();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0].0 == pair[1].0 && pair[0].1 != pair[1].1) {
            return fail(CKR_TEMPLATE_INCONSISTENT);
        }
        Ok(Template(values))
    }

    pub(crate) fn get(&self, kind: CK_ATTRIBUTE_TYPE) -> Option<&[u8]> {
        self.iter().find(|(found, _)| *found == kind).map(|(_, value)| value)
    }

    /// The template without some attributes.
    pub(crate) fn without(&self, kinds: &[CK_ATTRIBUTE_TYPE]) -> Template {
        Template(self.0.iter().filter(|(kind, _)| !kinds.contains(kind)).cloned().collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (CK_ATTRIBUTE_TYPE, &[u8])> {
        self.0.iter().map(|(kind, value)| (*kind, value.as_slice()))
    }
}
