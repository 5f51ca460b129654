//! What the metadata of an Arrow field say of a protected column, so that whoever gets the field can restore it.

use std::collections::{BTreeMap, HashMap};

use arrow_schema::{DataType, Field};
use serde::{Deserialize, Serialize};

use crate::bad::OnBad;
use crate::error::{Result, TableError};
use crate::keys::RootKey;
use crate::parquet::foreign::{self, Pairs};
use crate::spec::{ColumnSpec, Method};

/// The key of the mark among a field's metadata.
pub const MARK_KEY: &str = "ciphermill.column";

/// The key, among a table's metadata, of those that were rewritten because they speak of protected columns, as they were.
const ORIGINALS_KEY: &str = "ciphermill.metadata";

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
    /// Metadata about the type, of Arrow's extensions and polars, which restoring puts back.
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
            field.metadata().clone().into_iter().partition(|(key, _)| foreign::describes_type(key));
        let extension = extension.into_iter().filter(|(key, _)| !foreign::tells_values(key)).collect();
        Mark::new(spec, field.data_type(), root, extension).put_into(&mut metadata);
        metadata
    }

    /// The metadata of a field once its column, which `mark` is of, is protected otherwise.
    pub(super) fn rekeyed(
        field: &Field,
        mark: Option<&Mark>,
        spec: &ColumnSpec,
        data_type: &DataType,
        root: &RootKey,
    ) -> HashMap<String, String> {
        let mut metadata: HashMap<_, _> = field.metadata().clone().into();
        let extension = mark.map(|mark| mark.extension.clone()).unwrap_or_default();
        Mark::new(spec, data_type, root, extension).put_into(&mut metadata);
        metadata
    }

    fn new(spec: &ColumnSpec, data_type: &DataType, root: &RootKey, extension: BTreeMap<String, String>) -> Mark {
        Mark {
            logical: spec.logical.clone(),
            method: spec.method.name().to_owned(),
            options: spec.method.options(),
            as_text: spec.as_text,
            data_type: data_type.to_string(),
            key: root.name.clone(),
            key_version: root.version,
            extension,
        }
    }

    fn put_into(&self, metadata: &mut HashMap<String, String>) {
        // Names and numbers always are JSON.
        if let Ok(text) = serde_json::to_string(self) {
            metadata.insert(MARK_KEY.to_owned(), text);
        }
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

/// The metadata of a table whose columns `columns` became byte strings: those of pandas and others that would be false are
/// rewritten, and the originals kept beside them.
///
/// # Errors
/// `Spec` for originals that do not parse.
pub(super) fn protected_metadata(table: &Field, columns: &[String]) -> Result<HashMap<String, String>> {
    let (mut pairs, kept) = pairs_of(table)?;
    // Keys of a map stand once.
    let mut originals = foreign::rewrite(&mut pairs, columns).unwrap_or_default();
    originals.extend(kept);
    if !originals.is_empty()
        && let Ok(text) = serde_json::to_string(&originals)
    {
        pairs.push((ORIGINALS_KEY.to_owned(), Some(text)));
    }
    Ok(of_pairs(pairs))
}

/// The metadata of a table of whose byte strings `protected` only `still` are left.
///
/// # Errors
/// As [`protected_metadata`].
pub(super) fn restored_metadata(
    table: &Field,
    protected: &[String],
    still: &[String],
) -> Result<HashMap<String, String>> {
    let (mut pairs, originals) = pairs_of(table)?;
    let restored: Vec<(String, String)> =
        protected.iter().filter(|name| !still.contains(name)).map(|name| (name.clone(), name.clone())).collect();
    foreign::restore(&mut pairs, &originals, protected, still, &restored);
    if !still.is_empty()
        && !originals.is_empty()
        && let Ok(text) = serde_json::to_string(&originals)
    {
        pairs.push((ORIGINALS_KEY.to_owned(), Some(text)));
    }
    Ok(of_pairs(pairs))
}

fn pairs_of(table: &Field) -> Result<(Pairs, BTreeMap<String, String>)> {
    let mut metadata: BTreeMap<String, String> = table.metadata().clone().into_iter().collect();
    let originals = match metadata.remove(ORIGINALS_KEY) {
        None => BTreeMap::new(),
        Some(text) => serde_json::from_str(&text).map_err(|error| TableError::Spec {
            text: format!("metadata `{ORIGINALS_KEY}` of the table"),
            problem: error.to_string(),
        })?,
    };
    Ok((metadata.into_iter().map(|(key, value)| (key, Some(value))).collect(), originals))
}

fn of_pairs(pairs: Pairs) -> HashMap<String, String> {
    pairs.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}
