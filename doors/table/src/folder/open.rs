//! A folder of protected tables that is open, with the manifest of each.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ciphermill::Mill;

use super::files::{TableFile, base, list};
use super::journal::{Entry, JOURNAL, Record};
use super::manifest::FolderManifest;
use crate::error::{Result, TableError};
use crate::hash::TableHash;
use crate::job::{UnprotectJob, check_cancel};
use crate::keys::RootKey;
use crate::manifest::{Manifest, ManifestKey};
use crate::source::Protected;
use std::sync::atomic::AtomicBool;

/// A folder of protected tables, or those that a pattern names.
///
/// Their manifests are those of the folder's manifest, which may lie in a folder above. Where none is, each table has its own, beside
/// it or in its footer. While the folder is rekeyed in place, the journal has the manifests of the new tables.
pub struct Folder {
    /// The tables, each with its manifest.
    pub(crate) tables: Vec<(TableFile, Manifest)>,
    /// The folder's manifest, and the file it was read from.
    pub(crate) manifest: Option<(FolderManifest, PathBuf)>,
    /// What a run has done that rekeys in place and has not ended.
    pub(crate) record: Option<(Record, PathBuf)>,
}

impl Folder {
    /// Finds the tables of a job's input and their manifests. Nothing in them can be relied on yet; their keys' names and versions
    /// are what a caller needs to bring the keys.
    ///
    /// # Errors
    /// `NoTables`; `Changed` for tables that the folder's manifest does not name, and for those it names that are not there, unless
    /// the job allows it; `OtherWork` for a folder whose first run has not ended; those of [`Protected::open`].
    pub fn open(job: &UnprotectJob) -> Result<Folder> {
        let files = list(&job.input)?;
        let base = base(&job.input);
        let names_some = |manifest: &FolderManifest, between: &str| {
            let name = |file: &TableFile| format!("{between}/{}", file.name);
            between.is_empty() || files.iter().any(|file| manifest.file(&name(file)).is_some())
        };
        // One further up may be of other tables.
        let above = FolderManifest::above(&base)?.filter(|(manifest, _, between)| names_some(manifest, between));
        let Some((manifest, path, between)) = above else {
            if let Some(record) = Record::read(&base)? {
                let problem = record.work().to_string();
                return Err(TableError::OtherWork { journal: base.join(JOURNAL), problem });
            }
            let own = |file: TableFile| {
                let job = UnprotectJob { input: file.path.clone(), manifest: None, ..job.clone() };
                Ok((file, Protected::open(&job)?.manifest))
            };
            let tables = files.into_iter().map(own).collect::<Result<_>>()?;
            return Ok(Folder { tables, manifest: None, record: None });
        };
        let dir = path.parent().unwrap_or(&base);
        let prefix = if between.is_empty() { between } else { format!("{between}/") };
        let record = Record::read(dir)?;
        let changed = |name: &str, problem: &str| {
            Err(TableError::Changed { file: base.join(name), problem: format!("{problem} {}", path.display()) })
        };
        let mut tables = Vec::new();
        for file in files {
            let name = format!("{prefix}{}", file.name);
            let entry = record.as_ref().and_then(|record| record.entries.get(&name));
            let found = match entry {
                Some(entry) if is_in_effect(&file.path, entry, &job.cancel)? => entry.manifest.as_ref(),
                _ => manifest.file(&name),
            };
            match found {
                Some(found) => tables.push((file, found.clone())),
                None if job.allow_changed => {
                    let job = UnprotectJob { input: file.path.clone(), manifest: None, ..job.clone() };
                    let found = Protected::open(&job)?.manifest;
                    tables.push((file, found));
                }
                None => return changed(&file.name, "it is not in"),
            }
        }
        if !job.allow_changed && prefix.is_empty() && job.input.is_dir() {
            let is_there = |name: &str| tables.binary_search_by(|(file, _)| file.name.as_str().cmp(name)).is_ok();
            if let Some(missing) = manifest.files.iter().find(|file| !is_there(&file.path)) {
                return changed(&missing.path, "it is missing, and in");
            }
        }
        let journal = dir.join(JOURNAL);
        let record = record.map(|record| (record, journal));
        Ok(Folder { tables, manifest: Some((manifest, path)), record })
    }

    /// The keys that the tables are protected under, each once.
    pub fn keys(&self) -> Vec<ManifestKey> {
        let mut keys: Vec<ManifestKey> = Vec::new();
        let of_folder = self.manifest.iter().map(|(manifest, _)| &manifest.root_key);
        let of_record = self.record.iter().map(|(record, _)| &record.work().root_key);
        for key in of_folder.chain(of_record).chain(self.tables.iter().map(|(_, manifest)| &manifest.root_key)) {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        keys
    }

    /// The tables' rows as their manifests say.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|(_, manifest)| manifest.rows).sum()
    }

    /// Opens one of the tables, the input of a job, with its manifest.
    ///
    /// # Errors
    /// As for [`Protected::open`].
    pub(crate) fn protected(&self, file: &TableFile, job: &UnprotectJob) -> Result<Protected> {
        let place = self.tables.binary_search_by(|(other, _)| other.name.cmp(&file.name));
        match (&self.manifest, place) {
            (Some((_, path)), Ok(place)) => Protected::with(job, self.tables[place].1.clone(), path),
            _ => Protected::open(job),
        }
    }

    /// Where the folder's manifest is; of tables without one, where they begin.
    pub(crate) fn manifest_path(&self, job: &UnprotectJob) -> PathBuf {
        self.manifest.as_ref().map_or_else(|| job.input.clone(), |(_, path)| path.clone())
    }

    /// Checks the signatures of the folder's manifest and journal. Those of the tables' manifests are checked with the tables.
    ///
    /// # Errors
    /// `ManifestAltered`, `JournalDamaged`, `WrongKey`, `KeyVersion`.
    pub(crate) fn verify(&self, mill: &Mill, roots: &[RootKey]) -> Result<()> {
        if let Some((manifest, path)) = &self.manifest {
            manifest.verify(path, mill, find_root(roots, &manifest.root_key, path)?)?;
        }
        if let Some((record, path)) = &self.record {
            record.verify(path, mill, find_root(roots, &record.work().root_key, path)?)?;
        }
        Ok(())
    }
}

/// The root key that a manifest names, among those given.
///
/// # Errors
/// `WrongKey`.
pub(crate) fn find_root<'a>(roots: &'a [RootKey], key: &ManifestKey, path: &Path) -> Result<&'a RootKey> {
    roots.iter().find(|root| (root.name.as_str(), root.version) == (key.name.as_str(), key.version)).ok_or_else(|| {
        TableError::WrongKey { manifest: path.to_owned(), wanted: key.name.clone(), version: key.version }
    })
}

/// Whether the table that a journal's entry speaks of is in its place.
///
/// # Errors
/// `Io`, `Interrupted`.
pub(crate) fn is_in_effect(path: &Path, entry: &Entry, cancel: &AtomicBool) -> Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(TableError::io(path, "read", error)),
    };
    match &entry.manifest {
        // A table in clear appears whole, and in its place was nothing.
        None => Ok(true),
        Some(_) if entry.is_done => Ok(true),
        Some(manifest) => Ok(TableHash::of(&file, path, || check_cancel(cancel))?.is_in(manifest)),
    }
}
