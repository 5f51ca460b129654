//! The manifest of a protected file: what was done with which column under which key, signed.
//!
//! It is JSON, beside the file and, for Parquet, within its footer too. The signature is HMAC-SHA-256, under a key derived
//! from the root key, over the manifest without its signature, a previous manifest and what is pending, written compactly with
//! its fields in the order below. Fields that are not listed here are refused, so that nothing else in a manifest is unsigned;
//! a previous manifest has a signature of its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use ciphermill::Mill;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::error::{Result, TableError};
use crate::job::Format;
use crate::keys::{self, HMAC_SHA256, Purpose, RootKey};
use crate::output::Ready;
use crate::spec::{Method, RowBinding};
use crate::text;

/// The version of this format. Version 1, which is read too, had neither [`Manifest::previous`], [`Manifest::pending`] nor
/// [`Manifest::covers`], and of the optional fields of columns only `options` and `metadata`.
pub const MANIFEST_FORMAT: u64 = 2;

/// The oldest version that is read.
const MANIFEST_FORMAT_MIN: u64 = 1;

/// What is added to a protected file's name.
pub const MANIFEST_SUFFIX: &str = ".ciphermill.json";

/// The key of the manifest in a Parquet file's footer.
pub const FOOTER_KEY: &str = "ciphermill.manifest";

/// Bytes that a manifest may have.
const MANIFEST_LEN_MAX: u64 = 16 << 20;

/// Bytes that a file beside a table may have: two manifests, the previous one indented once more.
const SIDE_FILE_LEN_MAX: u64 = 3 * MANIFEST_LEN_MAX;

/// A manifest.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`MANIFEST_FORMAT`].
    pub ciphermill_manifest: u64,
    /// The version of the program that wrote it.
    pub tool_version: String,
    /// When, in UTC (RFC 3339).
    pub created: String,
    /// The format of the protected file.
    pub format: Format,
    /// The byte between CSV fields, as a character.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<char>,
    /// Of a CSV file without a header, how many columns it has. They are called by their places: `column_1`, `column_2` …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unnamed_columns: Option<u32>,
    /// What the table was before it was converted into `format`; only when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub converted_from: Option<ConvertedFrom>,
    /// The key that everything was derived from.
    pub root_key: ManifestKey,
    /// Data rows.
    pub rows: u64,
    /// Rows that went to the reject file instead.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rejected_rows: u64,
    /// Bytes of the protected file that the hash covers.
    pub bytes: u64,
    /// SHA-256 of the protected file, in hexadecimal.
    pub sha256: String,
    /// What the hash covers.
    #[serde(default, skip_serializing_if = "Covers::is_file")]
    pub covers: Covers,
    /// The protected columns.
    pub columns: Vec<ManifestColumn>,
    /// File metadata of other programs (`pandas`, `ARROW:schema` …) that were rewritten because they speak of protected
    /// columns, with their original values, which restoring puts back.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub file_metadata: BTreeMap<String, String>,
    /// HMAC-SHA-256 over the rest, in hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub signature: String,
    /// While a table is being replaced: the manifest of the table that was there before, so that whichever of both tables
    /// is found has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Box<Manifest>>,
    /// While a table comes where none was: what is still to be put into its place. Tells a manifest whose table never came
    /// from one whose table was moved away. Readers need not care.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
}

/// What a manifest is written ahead of.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    /// The table's absolute path; `-` for standard output.
    pub table: String,
    /// SHA-256 of the reject file, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejects_sha256: Option<String>,
}

/// What the hash in a manifest covers.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Covers {
    /// The whole file.
    #[default]
    File,
    /// The file without the manifest that stands in its footer, since no file can hold its own hash.
    FileWithoutManifest,
}

impl Covers {
    fn is_file(&self) -> bool {
        *self == Covers::File
    }
}

/// What a table was before it was converted.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvertedFrom {
    /// Its format.
    pub format: Format,
    /// The byte between its CSV fields, as a character.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<char>,
    /// If it was a CSV file without a header, how many columns it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unnamed_columns: Option<u32>,
}

/// The root key, by name.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestKey {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u32,
    /// Shows whether a key is this one.
    pub check_value: String,
}

/// A protected column.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestColumn {
    /// Its name in the file.
    pub name: String,
    /// The name that is authenticated with its values.
    pub logical: String,
    /// The method's name.
    pub method: String,
    /// What became of values that the method could not take; empty when they were errors.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub on_bad: String,
    /// How many there were. Those that were left out are counted among the nulls, tokens among the values.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bad_values: u64,
    /// Whether its values are integers that were protected as their decimal text.
    #[serde(default, skip_serializing_if = "is_false")]
    pub as_text: bool,
    /// What its values are bound to beside the logical name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_to: Option<RowBinding>,
    /// The method's options, as on the command line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub options: String,
    /// The Arrow type whose values were protected.
    pub data_type: String,
    /// Whether the field is nullable.
    pub nullable: bool,
    /// How protected values are stored: `binary`, `base64url` or `text`.
    pub encoding: String,
    /// Shows whether a derived key is this column's.
    pub check_value: String,
    /// Values that are not null.
    pub values: u64,
    /// Nulls.
    pub nulls: u64,
    /// How a Parquet column was stored; restoring stores it in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parquet: Option<ParquetStorage>,
}

/// How the chunks of a Parquet column are stored.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParquetStorage {
    /// The `SchemaElement` of the column as Parquet's Thrift writes it, in hexadecimal.
    pub schema_element: String,
    /// The codec, as in Parquet's `CompressionCodec`.
    pub codec: String,
    /// Whether chunks have a dictionary page.
    pub dictionary: bool,
    /// The encoding of data pages that do not use the dictionary, as in Parquet's `Encoding`.
    pub encoding: String,
    /// Version of the data pages: 1 or 2.
    pub page_version: u8,
    /// Whether chunks have statistics.
    pub statistics: bool,
    /// Whether chunks have a bloom filter.
    pub bloom_filter: bool,
    /// Whether chunks have a column index.
    pub column_index: bool,
    /// Whether chunks have an offset index.
    pub offset_index: bool,
}

impl ManifestColumn {
    /// How it is protected.
    ///
    /// # Errors
    /// `Spec` for a method or options that there are not.
    pub(crate) fn method(&self) -> Result<Method> {
        Method::of_manifest(&self.method, &self.options)
    }
}

impl ManifestKey {
    /// What a manifest says of a key.
    ///
    /// # Errors
    /// What the mill answers.
    pub(crate) fn of(mill: &Mill, root: &RootKey) -> Result<ManifestKey> {
        let check_value = keys::check_value(mill, root, Purpose::RootCheck, &[])?;
        Ok(ManifestKey { name: root.name.clone(), version: root.version, check_value })
    }

    /// Checks that `root` is this key, which the manifest at `path` names.
    ///
    /// # Errors
    /// `KeyVersion`, `WrongKey`.
    pub(crate) fn check(&self, path: &Path, mill: &Mill, root: &RootKey) -> Result<()> {
        let (manifest, wanted) = (path.to_owned(), self.name.clone());
        if self.version != root.version {
            return Err(TableError::KeyVersion { manifest, name: wanted, wanted: self.version, given: root.version });
        }
        match same(&ManifestKey::of(mill, root)?.check_value, &self.check_value) {
            true => Ok(()),
            false => Err(TableError::WrongKey { manifest, wanted, version: self.version }),
        }
    }
}

/// The manifest's place beside a protected file.
pub fn manifest_path(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(MANIFEST_SUFFIX);
    path.into()
}

impl Manifest {
    /// Whether another manifest says the same of a table, whatever of its bytes each names.
    pub(crate) fn is_like(&self, other: &Manifest) -> bool {
        self.without_file() == other.without_file()
    }

    /// The same without hash, length and signature, and without what it says of replacing a table.
    fn without_file(&self) -> Manifest {
        Manifest {
            bytes: 0,
            sha256: String::new(),
            covers: Covers::File,
            signature: String::new(),
            previous: None,
            pending: None,
            ..self.clone()
        }
    }

    /// Reads the manifests of a file beside a table. Their signatures are not looked at yet, so nothing in them can be
    /// relied on; what a caller needs is the key's name and version.
    ///
    /// # Errors
    /// `ManifestMissing`, `ManifestDamaged`, `ManifestVersion`, `Io`.
    pub fn read(path: &Path) -> Result<Manifest> {
        let damaged = |problem: String| TableError::ManifestDamaged { manifest: path.to_owned(), problem };
        let file = File::open(path).map_err(|source| match source.kind() {
            ErrorKind::NotFound => TableError::ManifestMissing { manifest: path.to_owned() },
            _ => TableError::io(path, "read", source),
        })?;
        let mut text = Vec::new();
        file.take(SIDE_FILE_LEN_MAX + 1)
            .read_to_end(&mut text)
            .map_err(|source| TableError::io(path, "read", source))?;
        if text.len() as u64 > SIDE_FILE_LEN_MAX {
            return Err(damaged(format!("more than {SIDE_FILE_LEN_MAX} bytes")));
        }
        Manifest::parse(&text, path)
    }

    /// Parses the manifests of a file beside a table, or one of a footer.
    ///
    /// # Errors
    /// `ManifestDamaged` and `ManifestVersion`, naming `path`.
    pub(crate) fn parse(text: &[u8], path: &Path) -> Result<Manifest> {
        let damaged = |problem: String| TableError::ManifestDamaged { manifest: path.to_owned(), problem };
        let version: Version = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        if !(MANIFEST_FORMAT_MIN..=MANIFEST_FORMAT).contains(&version.ciphermill_manifest) {
            return Err(TableError::ManifestVersion {
                manifest: path.to_owned(),
                found: version.ciphermill_manifest,
                supported: MANIFEST_FORMAT,
            });
        }
        let manifest: Manifest = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        if manifest.previous.as_ref().is_some_and(|previous| previous.previous.is_some()) {
            return Err(damaged("a previous manifest has no previous one".to_owned()));
        }
        Ok(manifest)
    }

    /// Checks that `root` is the key that the manifest was made under, and then the signature.
    ///
    /// # Errors
    /// `KeyVersion`, `WrongKey`, `ManifestAltered`.
    pub fn verify(&self, path: &Path, mill: &Mill, root: &RootKey) -> Result<()> {
        self.root_key.check(path, mill, root)?;
        match same(&self.signature_under(mill, root)?, &self.signature) {
            true => Ok(()),
            false => Err(TableError::ManifestAltered { manifest: path.to_owned() }),
        }
    }

    /// The same for another file of `rows` rows, written now by this program; hash, length and signature are still missing.
    pub(crate) fn begun_anew(&self, rows: u64) -> Manifest {
        Manifest {
            ciphermill_manifest: MANIFEST_FORMAT,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            created: text::now(),
            rows,
            ..self.without_file()
        }
    }

    /// The same with the hash and length of a file.
    ///
    /// # Errors
    /// `Io` where its hash was not taken.
    pub(crate) fn of_file(self, file: &Ready) -> Result<Manifest> {
        let missing = || TableError::io(file.path(), "name", std::io::Error::other("its hash was not taken"));
        let sha256 = file.sha256.clone().ok_or_else(missing)?;
        Ok(Manifest { covers: Covers::File, bytes: file.len, sha256, ..self })
    }

    /// The manifest with its signature.
    ///
    /// # Errors
    /// What the mill answers.
    pub(crate) fn signed(self, mill: &Mill, root: &RootKey) -> Result<Manifest> {
        Ok(Manifest { signature: self.signature_under(mill, root)?, ..self })
    }

    fn signature_under(&self, mill: &Mill, root: &RootKey) -> Result<String> {
        let unsigned = Manifest { signature: String::new(), previous: None, pending: None, ..self.clone() };
        let text = unsigned.to_json(false)?;
        let key = keys::derive(mill, root, Purpose::Manifest, &[], HMAC_SHA256)?;
        Ok(hex::encode(&keys::hmac(mill, key.id(), &text)?[..]))
    }

    /// The text of the file beside a table, which will be `path`.
    ///
    /// # Errors
    /// `ManifestDamaged` when it is longer than what is read.
    pub(crate) fn to_text(&self, path: &Path) -> Result<Vec<u8>> {
        let mut text = self.to_json(true)?;
        text.push(b'\n');
        let limit = if self.previous.is_some() { SIDE_FILE_LEN_MAX } else { MANIFEST_LEN_MAX };
        if text.len() as u64 > limit {
            let problem = format!("it would have {} bytes, and at most {limit} are read", text.len());
            return Err(TableError::ManifestDamaged { manifest: path.to_owned(), problem });
        }
        Ok(text)
    }

    /// The text of a value in a footer.
    ///
    /// # Errors
    /// One of memory or of this program.
    pub(crate) fn to_footer(&self) -> Result<String> {
        let text = self.to_json(false)?;
        // JSON is UTF-8.
        String::from_utf8(text)
            .map_err(|error| TableError::ManifestDamaged { manifest: PathBuf::new(), problem: error.to_string() })
    }

    fn to_json(&self, pretty: bool) -> Result<Vec<u8>> {
        let written = if pretty { serde_json::to_vec_pretty(self) } else { serde_json::to_vec(self) };
        // Names and numbers always have a form in JSON; an error would be one of memory or of this program.
        written.map_err(|error| TableError::ManifestDamaged { manifest: PathBuf::new(), problem: error.to_string() })
    }
}

/// The one field that every version of the format has.
#[derive(Deserialize)]
struct Version {
    ciphermill_manifest: u64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn is_false(value: &bool) -> bool {
    !value
}

pub(crate) fn same(left: &str, right: &str) -> bool {
    left.as_bytes().ct_eq(right.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::{mill, root_key};

    fn manifest(mill: &Mill, root: &RootKey) -> Manifest {
        let manifest = Manifest {
            ciphermill_manifest: MANIFEST_FORMAT,
            tool_version: "0.1.0".to_owned(),
            created: "2026-01-01T00:00:00Z".to_owned(),
            format: Format::Csv,
            delimiter: Some(','),
            unnamed_columns: None,
            converted_from: None,
            root_key: ManifestKey::of(mill, root).unwrap(),
            rows: 3,
            rejected_rows: 0,
            bytes: 99,
            sha256: "00".repeat(32),
            covers: Covers::File,
            columns: vec![ManifestColumn {
                name: "n".to_owned(),
                logical: "l".to_owned(),
                method: "random".to_owned(),
                on_bad: String::new(),
                bad_values: 0,
                as_text: false,
                bound_to: None,
                options: String::new(),
                data_type: "Utf8".to_owned(),
                nullable: true,
                encoding: "base64url".to_owned(),
                check_value: "0011223344556677".to_owned(),
                values: 2,
                nulls: 1,
                parquet: None,
            }],
            file_metadata: BTreeMap::new(),
            signature: String::new(),
            previous: None,
            pending: None,
        };
        manifest.signed(mill, root).unwrap()
    }

    #[test]
    fn what_is_written_is_read_and_verified() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m");
        let mill = mill();
        let root = root_key(&mill, &[1; 32]);
        let manifest = manifest(&mill, &root);
        std::fs::write(&path, manifest.to_text(&path).unwrap()).unwrap();
        let read = Manifest::read(&path).unwrap();
        assert_eq!(read, manifest);
        read.verify(&path, &mill, &root).unwrap();
    }

    /// The fields that a schema knows and those that it wants.
    fn fields_of(schema: &serde_json::Value) -> (BTreeSet<String>, BTreeSet<String>) {
        assert_eq!(schema["additionalProperties"], false);
        let known = schema["properties"].as_object().unwrap().keys().cloned().collect();
        let wanted = schema["required"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
        (known, wanted.collect())
    }

    /// `docs/manifest.schema.json` is made of the types above: `MANIFEST_SCHEMA=update` writes it.
    #[test]
    fn the_published_schema_is_that_of_what_is_written() {
        let schema = serde_json::to_value(schemars::schema_for!(Manifest)).unwrap();
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/manifest.schema.json");
        if std::env::var_os("MANIFEST_SCHEMA").is_some_and(|wish| wish == "update") {
            std::fs::write(path, &text).unwrap();
        }
        assert!(std::fs::read_to_string(path).unwrap() == text, "run this test with MANIFEST_SCHEMA=update");

        let mill = mill();
        let written = serde_json::to_value(manifest(&mill, &root_key(&mill, &[1; 32]))).unwrap();
        let definitions = &schema["$defs"];
        for (value, schema) in [
            (&written, &schema),
            (&written["root_key"], &definitions["ManifestKey"]),
            (&written["columns"][0], &definitions["ManifestColumn"]),
        ] {
            let (known, wanted) = fields_of(schema);
            let found: BTreeSet<String> = value.as_object().unwrap().keys().cloned().collect();
            assert!(found.is_subset(&known) && wanted.is_subset(&found), "{found:?}");
        }
    }

    #[test]
    fn every_change_is_noticed() {
        let mill = mill();
        let root = root_key(&mill, &[1; 32]);
        let path = Path::new("m");
        let good = manifest(&mill, &root);
        let changes: [fn(&mut Manifest); 10] = [
            |manifest| manifest.rows += 1,
            |manifest| manifest.bytes += 1,
            |manifest| manifest.delimiter = None,
            |manifest| manifest.unnamed_columns = Some(1),
            |manifest| manifest.created.push('x'),
            |manifest| manifest.root_key.name.push('x'),
            |manifest| manifest.columns[0].logical.push('x'),
            |manifest| manifest.columns[0].nullable = false,
            |manifest| manifest.columns.clear(),
            |manifest| {
                manifest.signature.replace_range(0..1, if manifest.signature.starts_with('0') { "1" } else { "0" })
            },
        ];
        for change in changes {
            let mut changed = good.clone();
            change(&mut changed);
            let error = changed.verify(path, &mill, &root).unwrap_err();
            assert!(matches!(error, TableError::ManifestAltered { .. }), "{error}");
        }
    }

    #[test]
    fn another_key_is_told_from_a_changed_manifest() {
        let mill = mill();
        let root = root_key(&mill, &[1; 32]);
        let manifest = manifest(&mill, &root);
        let other = root_key(&mill, &[2; 32]);
        assert!(matches!(manifest.verify(Path::new("m"), &mill, &other), Err(TableError::WrongKey { .. })));
        let newer = RootKey { version: 2, ..root };
        assert!(matches!(
            manifest.verify(Path::new("m"), &mill, &newer),
            Err(TableError::KeyVersion { wanted: 1, given: 2, .. })
        ));
    }

    #[test]
    fn unreadable_manifests_say_why() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m");
        assert!(matches!(Manifest::read(&path), Err(TableError::ManifestMissing { .. })));
        for (text, version) in [("", false), ("{", false), ("{}", false), ("{\"ciphermill_manifest\":3}", true)] {
            std::fs::write(&path, text).unwrap();
            match Manifest::read(&path) {
                Err(TableError::ManifestVersion { found: 3, .. }) => assert!(version),
                Err(TableError::ManifestDamaged { .. }) => assert!(!version),
                other => panic!("{text}: {other:?}"),
            }
        }
        let mill = mill();
        let manifest = manifest(&mill, &root_key(&mill, &[1; 32]));
        let mut value = serde_json::to_value(&manifest).unwrap();
        value["extra"] = 1.into();
        std::fs::write(&path, value.to_string()).unwrap();
        assert!(matches!(Manifest::read(&path), Err(TableError::ManifestDamaged { .. })));
    }
}
