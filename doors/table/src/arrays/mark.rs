//! What the metadata of an Arrow field say of a protected column, so that whoever gets the field can restore it.

use std::collections::{BTreeMap, HashMap};

use arrow_schema::{DataType, Field};
use serde::{Deserialize, Serialize};

use crate::bad::OnBad;
use crate::error::{Result, TableError};
use crate::keys::RootKey;
use crate::spec::{ColumnSpec, Method};

/// The key of the mark among a field's metadata.
pub const MARK_KEY: &str = "ciphermill.column";

/// How the metadata of extension types begin; protected values are none of these.
const EXTENSION: &str = "ARROW:extension:";

/// A protected column. It is not authenticated by itself: a changed one makes values that are not authentic, save those of
/// `ff1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mark {
    pub(super) logical: String,
    pub(super) method: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) options: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) as_text: bool,
    /// The Arrow type whose values were protected.
    pub(super) data_type: String,
    pub(super) key: String,
    pub(super) key_version: u32,
    /// Metadata of an extension type, which restoring puts back.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) extension: BTreeMap<String, String>,
}

impl Mark {
    /// The mark of a field; `None` where there is none.
    ///
    /// # Errors
    /// `Spec` for one that does not parse.
    pub(super) fn of(field: &Field) -> Result<Option<Mark>> {
        let Some(text) = field.metadata().get(MARK_KEY) else { return Ok(None) };
        let spec = |error: serde_json::Error| TableError::Spec {
            text: format!("metadata `{MARK_KEY}` of the field `{}`", field.name()),
            problem: error.to_string(),
        };
        serde_json::from_str(text).map(Some).map_err(spec)
    }

    /// The metadata of a field once its column is protected.
    pub(super) fn metadata(field: &Field, spec: &ColumnSpec, root: &RootKey) -> HashMap<String, String> {
        let (extension, mut metadata): (HashMap<_, _>, HashMap<_, _>) =
            field.metadata().clone().into_iter().partition(|(key, _)| key.starts_with(EXTENSION));
        let mark = Mark {
            logical: spec.logical.clone(),
            method: spec.method.name().to_owned(),
            options: spec.method.options(),
            as_text: spec.as_text,
            data_type: field.data_type().to_string(),
            key: root.name.clone(),
            key_version: root.version,
            extension: extension.into_iter().collect(),
        };
        // Names and numbers always are JSON.
        if let Ok(text) = serde_json::to_string(&mark) {
            metadata.insert(MARK_KEY.to_owned(), text);
        }
        metadata
    }

    /// The metadata of a field once its column is restored.
    pub(super) fn restored(field: &Field, mark: Option<&Mark>) -> HashMap<String, String> {
        let mut metadata = field.metadata().clone();
        metadata.remove(MARK_KEY);
        metadata.extend(mark.into_iter().flat_map(|mark| mark.extension.clone()));
        metadata.into()
    }

    /// How the column `name` was protected.
    ///
    /// # Errors
    /// `Spec` for a method or options that there are not.
    pub(super) fn spec(&self, name: &str) -> Result<ColumnSpec> {
        Ok(ColumnSpec {
            name: name.to_owned(),
            logical: self.logical.clone(),
            method: Method::of_manifest(&self.method, &self.options)?,
            bind: false,
            as_text: self.as_text,
            on_bad: OnBad::Error,
        })
    }

    /// The type in clear.
    ///
    /// # Errors
    /// `Spec` for what is no type.
    pub(super) fn data_type(&self) -> Result<DataType> {
        let problem = |_| TableError::Spec {
            text: format!("metadata `{MARK_KEY}`"),
            problem: format!("`{}` is not an Arrow type", self.data_type),
        };
        self.data_type.parse().map_err(problem)
    }
}
