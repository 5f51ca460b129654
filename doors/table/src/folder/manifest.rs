//! The manifest of a folder: which tables there are, each with its own manifest, signed.
//!
//! It is JSON. The signature is HMAC-SHA-256, under a key derived from the root key, over the SHA-256 of the manifest without its
//! signature, written compactly with its fields in the order below. So no file can be added, removed or take another's place
//! unnoticed.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ciphermill::Mill;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::files::is_name;
use crate::error::{Result, TableError};
use crate::keys::{self, HMAC_SHA256, Purpose, RootKey};
use crate::manifest::{Manifest, ManifestKey, same};
use crate::output::{Directory, PROTECTED_MODE, ready_file, umask};
use crate::text;

/// The version of this format.
pub const FOLDER_FORMAT: u64 = 1;

/// The file's name in the folder.
pub const FOLDER_MANIFEST: &str = "_ciphermill.json";

/// Bytes that a folder's manifest may have.
const LEN_MAX: u64 = 256 << 20;

/// The manifest of a folder of protected tables.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderManifest {
    /// [`FOLDER_FORMAT`].
    pub ciphermill_folder: u64,
    /// The version of the program that wrote it.
    pub tool_version: String,
    /// When, in UTC (RFC 3339).
    pub created: String,
    /// The key that everything in the folder was derived from.
    pub root_key: ManifestKey,
    /// The tables, in the order of their paths.
    pub files: Vec<FolderFile>,
    /// HMAC-SHA-256 over the SHA-256 of the rest, in hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub signature: String,
}

/// A table of a folder.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderFile {
    /// Its path from the folder on, with `/` between.
    pub path: String,
    /// Its manifest.
    pub manifest: Manifest,
}

impl FolderManifest {
    /// The signed manifest of these tables, which have been protected under `root`.
    ///
    /// # Errors
    /// What the mill answers.
    pub(crate) fn of(files: Vec<FolderFile>, mill: &Mill, root: &RootKey) -> Result<FolderManifest> {
        let unsigned = FolderManifest {
            ciphermill_folder: FOLDER_FORMAT,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            created: text::now(),
            root_key: ManifestKey::of(mill, root)?,
            files,
            signature: String::new(),
        };
        Ok(FolderManifest { signature: unsigned.signature_under(mill, root)?, ..unsigned })
    }

    /// Puts the signed manifest of these tables into their folder, in place of one that is there, and gives its place.
    ///
    /// # Errors
    /// What the mill answers; `Io`; `ManifestDamaged` when it would be too long.
    pub(crate) fn put(dir: &Path, files: Vec<FolderFile>, mill: &Mill, root: &RootKey) -> Result<PathBuf> {
        let path = dir.join(FOLDER_MANIFEST);
        let mut files = files;
        files.sort_by(|one, other| one.path.cmp(&other.path));
        // Whoever may not read one of the tables may not read their manifest.
        let places = files.iter().map(|file| dir.join(&file.path)).chain([path.clone()]);
        let modes = places.filter_map(|place| Some(std::fs::metadata(place).ok()?.mode()));
        let mode = modes.fold(PROTECTED_MODE, |all, mode| all & mode);
        let text = FolderManifest::of(files, mill, root)?.to_text(&path)?;
        ready_file(&path, &text, mode & !umask())?.place(&Directory::open(&path)?, true)?;
        Ok(path)
    }

    /// Reads a folder's manifest. Its signature is not looked at yet.
    ///
    /// # Errors
    /// `ManifestMissing`, `ManifestDamaged`, `ManifestVersion`, `Io`.
    pub fn read(path: &Path) -> Result<FolderManifest> {
        let file = File::open(path).map_err(|source| match source.kind() {
            ErrorKind::NotFound => TableError::ManifestMissing { manifest: path.to_owned() },
            _ => TableError::io(path, "read", source),
        })?;
        let mut text = Vec::new();
        file.take(LEN_MAX + 1).read_to_end(&mut text).map_err(|source| TableError::io(path, "read", source))?;
        FolderManifest::parse(&text, path)
    }

    fn parse(text: &[u8], path: &Path) -> Result<FolderManifest> {
        let damaged = |problem: String| TableError::ManifestDamaged { manifest: path.to_owned(), problem };
        if text.len() as u64 > LEN_MAX {
            return Err(damaged(format!("more than {LEN_MAX} bytes")));
        }
        let version: Version = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        if version.ciphermill_folder != FOLDER_FORMAT {
            let (found, supported) = (version.ciphermill_folder, FOLDER_FORMAT);
            return Err(TableError::ManifestVersion { manifest: path.to_owned(), found, supported });
        }
        let manifest: FolderManifest = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        for FolderFile { path, manifest: of_file } in &manifest.files {
            if !is_name(path) {
                return Err(damaged(format!("`{path}` is no path within the folder")));
            }
            if of_file.root_key != manifest.root_key || of_file.previous.is_some() || of_file.pending.is_some() {
                return Err(damaged(format!("the manifest of `{path}` is not one of this folder")));
            }
        }
        if !manifest.files.is_sorted_by(|one, next| one.path < next.path) {
            return Err(damaged("its files are not in the order of their paths".to_owned()));
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

    /// The manifest of the folder at or above a place, with its path, and the path from there to the place. One further up that
    /// cannot be read counts as none: it may be of something else.
    ///
    /// # Errors
    /// As for [`FolderManifest::read`] of the place's own; `Io`.
    pub(crate) fn above(place: &Path) -> Result<Option<(FolderManifest, PathBuf, String)>> {
        let Ok(place) = std::path::absolute(place) else { return Ok(None) };
        let Some(dir) = place.ancestors().find(|dir| dir.join(FOLDER_MANIFEST).is_file()) else { return Ok(None) };
        let Some(between) = place.strip_prefix(dir).ok().and_then(Path::to_str) else { return Ok(None) };
        let path = dir.join(FOLDER_MANIFEST);
        match FolderManifest::read(&path) {
            Ok(manifest) => Ok(Some((manifest, path, between.to_owned()))),
            Err(error) if between.is_empty() || matches!(error, TableError::Io { .. }) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// The manifest of a table in that of the folder above it, with the path of that.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn naming(table: &Path) -> Result<Option<(Manifest, PathBuf)>> {
        let above = FolderManifest::above(table)?;
        Ok(above.and_then(|(folder, path, name)| Some((folder.file(&name)?.clone(), path))))
    }

    /// The manifest of a table.
    pub fn file(&self, name: &str) -> Option<&Manifest> {
        let place = self.files.binary_search_by(|file| file.path.as_str().cmp(name)).ok()?;
        Some(&self.files[place].manifest)
    }

    fn signature_under(&self, mill: &Mill, root: &RootKey) -> Result<String> {
        let unsigned = FolderManifest { signature: String::new(), ..self.clone() };
        let key = keys::derive(mill, root, Purpose::Folder, &[], HMAC_SHA256)?;
        let digest = Sha256::digest(unsigned.to_json(Path::new(FOLDER_MANIFEST))?);
        Ok(hex::encode(&keys::hmac(mill, key.id(), &digest)?[..]))
    }

    /// The text of the file, which will be `path`.
    ///
    /// # Errors
    /// `ManifestDamaged` when it is longer than what is read.
    pub(crate) fn to_text(&self, path: &Path) -> Result<Vec<u8>> {
        let mut text = self.to_json(path)?;
        text.push(b'\n');
        if text.len() as u64 > LEN_MAX {
            let problem = format!("it would have {} bytes, and at most {LEN_MAX} are read", text.len());
            return Err(TableError::ManifestDamaged { manifest: path.to_owned(), problem });
        }
        Ok(text)
    }

    fn to_json(&self, path: &Path) -> Result<Vec<u8>> {
        // Names and numbers always have a form in JSON; an error would be one of memory or of this program.
        serde_json::to_vec(self)
            .map_err(|error| TableError::ManifestDamaged { manifest: path.to_owned(), problem: error.to_string() })
    }
}

/// The one field that every version of the format has.
#[derive(Deserialize)]
struct Version {
    ciphermill_folder: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `docs/folder.schema.json` is made of the types above: `MANIFEST_SCHEMA=update` writes it.
    #[test]
    fn the_published_schema_is_that_of_what_is_written() {
        let schema = serde_json::to_value(schemars::schema_for!(FolderManifest)).unwrap();
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/folder.schema.json");
        if std::env::var_os("MANIFEST_SCHEMA").is_some_and(|wish| wish == "update") {
            std::fs::write(path, &text).unwrap();
        }
        assert!(std::fs::read_to_string(path).unwrap() == text, "run this test with MANIFEST_SCHEMA=update");
    }
}
