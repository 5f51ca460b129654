//! A protected table that is open, and the manifest that was written for it.
//!
//! While a table is being replaced, the file beside it holds the manifests of both (`pair`). A reader opens the table first
//! and the manifest's file after it, and begins anew when the table's name has come to mean another file meanwhile: then
//! what it has read holds the manifest of the table that it has opened.

use std::fs::{File, Metadata};
use std::io::{self, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ciphermill::Mill;

use crate::embed::Embedded;
use crate::error::{Result, TableError};
use crate::folder::manifest::FolderManifest;
use crate::hash::TableHash;
use crate::job::{Format, Origin, UnprotectJob, check_cancel, is_standard_stream};
use crate::keys::RootKey;
use crate::manifest::{Manifest, manifest_path};

/// Attempts to open a table that is being replaced.
const OPEN_TRIES: usize = 16;

/// A table that is read.
pub(crate) struct Source {
    pub(crate) file: File,
    path: PathBuf,
    metadata: Metadata,
}

impl Source {
    /// Opens a table. Standard input is kept in a temporary file first if it cannot be read in any order and has to be.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn open(path: &Path, has_to_seek: bool) -> Result<Source> {
        let file = match is_standard_stream(path) {
            true => standard_input(has_to_seek),
            false => File::open(path),
        };
        let file = file.map_err(|source| TableError::io(path, "open", source))?;
        let metadata = file.metadata().map_err(|source| TableError::io(path, "read", source))?;
        Ok(Source { file, path: path.to_owned(), metadata })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes, which are known of files and not of pipes.
    pub(crate) fn len(&self) -> Option<u64> {
        self.metadata.is_file().then_some(self.metadata.len())
    }

    /// Whether the path still leads to this file.
    fn is_in_place(&self) -> bool {
        if is_standard_stream(&self.path) {
            return true;
        }
        let identity = |metadata: &Metadata| (metadata.dev(), metadata.ino());
        std::fs::metadata(&self.path).is_ok_and(|now| identity(&now) == identity(&self.metadata))
    }

    /// Checks that nobody wrote to the file since it was opened.
    ///
    /// # Errors
    /// `ChangedMeanwhile`; `Io`.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        let now = self.file.metadata().map_err(|source| TableError::io(&self.path, "read", source))?;
        let state = |metadata: &Metadata| (metadata.len(), metadata.mtime(), metadata.mtime_nsec());
        if self.metadata.is_file() && state(&now) != state(&self.metadata) {
            return Err(TableError::ChangedMeanwhile { file: self.path.clone() });
        }
        Ok(())
    }
}

/// Standard input as a file. The temporary file (`TMPDIR`, else `/tmp`) has no name, and its owner alone may read it.
fn standard_input(has_to_seek: bool) -> io::Result<File> {
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    if !has_to_seek || input.metadata()?.is_file() {
        return Ok(input);
    }
    let mut kept = tempfile::tempfile()?;
    io::copy(&mut input, &mut kept)?;
    kept.rewind()?;
    Ok(kept)
}

/// A protected table that is open, with the manifest that was written for it.
pub struct Protected {
    pub(crate) source: Source,
    pub(crate) manifest: Manifest,
    /// The file that the manifest was read from.
    pub(crate) manifest_path: PathBuf,
    pub(crate) origin: Origin,
    /// Whether the manifest names this very file; `None` when that has not been looked at, and is on the way.
    pub(crate) is_named: Option<bool>,
    /// While that is open: the manifest in the footer, which says the same of the table.
    pub(crate) footer: Option<Manifest>,
}

impl Protected {
    /// Opens the input of a job and finds its manifest. Nothing in it can be relied on yet; its key's name and version are
    /// what a caller needs to bring the key.
    ///
    /// # Errors
    /// `ManifestMissing`, `ManifestDamaged`, `ManifestVersion`, `Interrupted`, `ChangedMeanwhile`, `Io`.
    pub fn open(job: &UnprotectJob) -> Result<Protected> {
        let path = job.manifest.clone().unwrap_or_else(|| manifest_path(&job.input));
        for _ in 0..OPEN_TRIES {
            let source = Source::open(&job.input, true)?;
            let found = Manifest::read(&path);
            if source.is_in_place() {
                return Search { job, source, path }.choose(found);
            }
        }
        Err(TableError::ChangedMeanwhile { file: job.input.clone() })
    }

    /// Opens the input of a job, whose manifest is known: it was found in the file `path`.
    ///
    /// # Errors
    /// As for [`Protected::open`].
    pub(crate) fn with(job: &UnprotectJob, manifest: Manifest, path: &Path) -> Result<Protected> {
        let source = Source::open(&job.input, true)?;
        Search { job, source, path: path.to_owned() }.choose(Ok(manifest))
    }

    /// With a manifest whose signature holds. Where the one beside the table is damaged, and the one in the footer says the same
    /// but of the hash, it is that one, if it names the file.
    ///
    /// # Errors
    /// `ManifestAltered`, and others of a manifest that does not hold; `Interrupted`, `Io`.
    pub(crate) fn verified(self, job: &UnprotectJob, mill: &Mill, root: &RootKey) -> Result<Protected> {
        let verify = |protected: &Protected| protected.manifest.verify(&protected.manifest_path, mill, root);
        let Err(problem) = verify(&self) else { return Ok(self) };
        let Some(footer) = &self.footer else { return Err(problem) };
        let hash = TableHash::of(&self.source.file, self.source.path(), || check_cancel(&job.cancel))?;
        if !hash.is_in(footer) {
            return Err(problem);
        }
        let named = self.of_footer();
        verify(&named)?;
        Ok(named)
    }

    /// With the manifest that names a file of this hash.
    pub(crate) fn named_by(self, hash: &TableHash) -> Protected {
        if hash.is_in(&self.manifest) {
            return Protected { is_named: Some(true), ..self };
        }
        match &self.footer {
            Some(footer) if hash.is_in(footer) => self.of_footer(),
            _ => Protected { is_named: Some(false), ..self },
        }
    }

    /// With the manifest in the footer, which names the file.
    fn of_footer(mut self) -> Protected {
        if let Some(manifest) = self.footer.take() {
            let manifest_path = self.source.path().to_owned();
            self = Protected { manifest, manifest_path, origin: Origin::Footer, is_named: Some(true), ..self };
        }
        self
    }

    /// The manifest, without a previous one.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }
}

struct Search<'a> {
    job: &'a UnprotectJob,
    source: Source,
    path: PathBuf,
}

impl Search<'_> {
    /// Of the manifests there are, the one that names the table; otherwise the current one.
    fn choose(self, found: Result<Manifest>) -> Result<Protected> {
        let lost = |error: &TableError| {
            let is_lost = matches!(error, TableError::ManifestMissing { .. } | TableError::ManifestDamaged { .. });
            is_lost && self.job.manifest.is_none()
        };
        let mut current = match found {
            Ok(manifest) => manifest,
            Err(error) if lost(&error) => match (self.of_folder()?, self.embedded()?) {
                (Some((manifest, path)), _) => return Search { path, ..self }.choose(Ok(manifest)),
                (None, Some(manifest)) => return self.only_embedded(manifest),
                (None, None) => return Err(error),
            },
            Err(error) => return Err(error),
        };
        let previous = current.previous.take();
        let hashed_on_the_way = current.format == Format::Csv || self.job.allow_changed;
        if self.source.len().is_none() || (previous.is_none() && hashed_on_the_way) {
            return Ok(self.chosen(current, Origin::Beside, None));
        }
        // Whichever of two names the file that say the same of it, restoring can begin before that is known.
        if previous.is_none() && self.job.manifest.is_none() {
            let footer = self.embedded()?.filter(|footer| footer.is_like(&current));
            if footer.is_some() {
                return Ok(Protected { footer, ..self.chosen(current, Origin::Beside, None) });
            }
        }
        let hash = self.hash()?;
        if hash.is_in(&current) {
            return Ok(self.chosen(current, Origin::Beside, Some(true)));
        }
        if let Some(previous) = previous.filter(|previous| hash.is_in(previous)) {
            return Ok(self.chosen(*previous, Origin::Previous, Some(true)));
        }
        match self.embedded()? {
            Some(embedded) if self.job.manifest.is_none() && hash.is_in(&embedded) => {
                Ok(self.chosen(embedded, Origin::Footer, Some(true)))
            }
            _ => Ok(self.chosen(current, Origin::Beside, Some(false))),
        }
    }

    /// The manifest in that of the folder that the table lies in, and where it was read from.
    fn of_folder(&self) -> Result<Option<(Manifest, PathBuf)>> {
        if is_standard_stream(self.source.path()) {
            return Ok(None);
        }
        FolderManifest::naming(self.source.path())
    }

    fn only_embedded(self, manifest: Manifest) -> Result<Protected> {
        let is_named = if self.job.allow_changed { None } else { Some(self.hash()?.is_in(&manifest)) };
        Ok(self.chosen(manifest, Origin::Footer, is_named))
    }

    /// The manifest in the footer; `None` where the file is no Parquet file or its footer has none that can be read.
    fn embedded(&self) -> Result<Option<Manifest>> {
        let path = self.source.path();
        match Embedded::read(&self.source.file, path) {
            Ok(Some(embedded)) => Ok(Manifest::parse(embedded.text.as_bytes(), path).ok()),
            Err(error @ TableError::Io { .. }) => Err(error),
            Ok(None) | Err(_) => Ok(None),
        }
    }

    fn hash(&self) -> Result<TableHash> {
        TableHash::of(&self.source.file, self.source.path(), || check_cancel(&self.job.cancel))
    }

    fn chosen(self, manifest: Manifest, origin: Origin, is_named: Option<bool>) -> Protected {
        let manifest_path = if origin == Origin::Footer { self.source.path().to_owned() } else { self.path };
        Protected { source: self.source, manifest, manifest_path, origin, is_named, footer: None }
    }
}
