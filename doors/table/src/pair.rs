//! A table and the manifest beside it change together, and the file of rejected rows with them.
//!
//! No file system replaces two files at once, so there is an order in which each state on the way has a manifest for the
//! table that is found:
//!
//! | step | manifest's file | reject file | table |
//! |---|---|---|---|
//! | before | old | old | old |
//! | the manifest's file is replaced | new, with the old one in it | old | old |
//! | the reject file is replaced | new, with the old one in it | new | old |
//! | the table is replaced | new, with the old one in it | new | new |
//! | the manifest's file is replaced | new | new | new |
//!
//! Where no table was, the manifest says in place of the old one what it is written ahead of ([`Pending`]). If the program dies
//! before the table comes, the next job finds that, and no table, and replaces what was left; a manifest whose table was
//! moved away says no such thing and is replaced on request only.
//!
//! Everything is written and synced before the first step, and the directory is synced between steps, so that a power
//! failure keeps the order too. Readers take the manifest whose hash is the table's (`source`).

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{Result, TableError};
use crate::hash::TableHash;
use crate::job::{Summary, is_standard_stream};
use crate::manifest::{Manifest, Pending, same};
use crate::output::{Directory, Ready, check_output, name_beside, ready_file};

/// Bytes that a file in the manifest's place may have to be put back when the swap fails.
const REPLACED_LEN_MAX: u64 = 64 << 20;

/// Where the files of a change go.
pub(crate) struct Places<'a> {
    pub(crate) table: &'a Path,
    pub(crate) manifest: &'a Path,
    pub(crate) rejects: Option<&'a Path>,
    /// Whether what is there is replaced.
    pub(crate) force: bool,
}

/// The files of a change, complete and synced.
pub(crate) struct Change<'a> {
    pub(crate) table: Ready,
    pub(crate) rejects: Option<Ready>,
    pub(crate) manifest: &'a Manifest,
    /// Permission bits of the manifest.
    pub(crate) mode: u32,
}

/// A table that is complete and not in its place yet, with what belongs to it.
pub(crate) struct Prepared {
    pub(crate) summary: Summary,
    /// Is missing where nothing is written.
    pub(crate) table: Option<Ready>,
    pub(crate) rejects: Option<Ready>,
    /// Of a table with protected columns.
    pub(crate) manifest: Option<Manifest>,
    /// Permission bits of table and manifest.
    pub(crate) mode: u32,
}

impl Places<'_> {
    /// Refuses places that are taken (save by what a change left that was cut short), that are an input or each other.
    ///
    /// # Errors
    /// Those of `check_output`; `SameFile`; `NotAFile` for a manifest that would go to standard output.
    pub(crate) fn check(&self, inputs: &[&Path]) -> Result<()> {
        if is_standard_stream(self.manifest) {
            let found = "standard output, which no manifest goes to";
            return Err(TableError::NotAFile { path: self.manifest.to_owned(), found });
        }
        let all = [Some(self.table), Some(self.manifest), self.rejects];
        let all: Vec<&Path> = all.into_iter().flatten().collect();
        for (index, path) in all.iter().enumerate() {
            if all[..index].iter().any(|other| absolute(other) == absolute(path)) {
                return Err(TableError::SameFile { path: path.to_path_buf() });
            }
        }
        let left = self.left();
        for input in inputs {
            check_output(input, self.table, self.force)?;
            check_output(input, self.manifest, self.force || left.is_some())?;
            if let Some(path) = self.rejects {
                check_output(input, path, self.force || is_left(path, left.as_ref())?)?;
            }
        }
        Ok(())
    }

    /// What a first change of these places was to bring that died before its table came.
    fn left(&self) -> Option<Pending> {
        let is_gone = |error: std::io::Error| error.kind() == ErrorKind::NotFound;
        if !is_standard_stream(self.table) && !std::fs::symlink_metadata(self.table).is_err_and(is_gone) {
            return None;
        }
        // Anything else, a pipe for one, is not opened.
        std::fs::symlink_metadata(self.manifest).ok().filter(|metadata| metadata.is_file())?;
        let pending = Manifest::read(self.manifest).ok()?.pending?;
        (pending.table == self.pending_name()).then_some(pending)
    }

    /// The table's name in [`Pending`]. What went to standard output before a death counts as nothing: whoever took it was
    /// never told that it is complete.
    fn pending_name(&self) -> String {
        let path = if is_standard_stream(self.table) { self.table.to_owned() } else { absolute(self.table) };
        path.to_string_lossy().into_owned()
    }

    /// Puts all files into their places.
    ///
    /// # Errors
    /// `Exists` when something has come there meanwhile and may not be replaced; `Io`; what reading the old table gives. All
    /// files are as they were then. `InEffect` when the new ones are in their places and only their lasting is in doubt.
    pub(crate) fn change(&self, change: Change<'_>) -> Result<()> {
        let Change { table, rejects, manifest, mode } = change;
        let directory = Directory::open(self.manifest)?;
        directory.lock();
        let left = self.left();
        let replaced = if self.force { read_replaced(self.manifest)? } else { None };
        let previous = match &replaced {
            Some(text) => manifest_of(self.table, text, self.manifest)?.map(Box::new),
            None => None,
        };
        let pending = previous.is_none().then(|| Pending {
            table: self.pending_name(),
            rejects_sha256: rejects.as_ref().and_then(|rejects| rejects.sha256.clone()),
        });
        let last = ready_file(self.manifest, &manifest.to_text(self.manifest)?, mode)?;
        let ahead = Manifest { previous, pending, ..manifest.clone() };
        ready_file(self.manifest, &ahead.to_text(self.manifest)?, mode)?.put(self.force || left.is_some())?;
        let placed = self.table_and_rejects(table, rejects, left.as_ref(), &directory);
        if placed.is_err() && !is_in_effect(&placed) {
            // The error that matters is the one above; a manifest that holds both serves the old table too.
            let _ = self.undo(replaced.as_deref(), mode, &directory);
            return placed;
        }
        // The pair lasts already, whichever of both files a power failure leaves.
        placed.and(last.place(&directory, true).map_err(|error| TableError::InEffect {
            path: self.manifest.to_owned(),
            but: "its manifest still says that replacing is under way",
            source: std::io::Error::other(error),
        }))
    }

    /// Puts reject file and table into their places once the new manifest's file lasts.
    fn table_and_rejects(
        &self,
        table: Ready,
        rejects: Option<Ready>,
        left: Option<&Pending>,
        manifests: &Directory,
    ) -> Result<()> {
        manifests.sync().map_err(|source| TableError::io(self.manifest, "sync the directory", source))?;
        let tables = if is_standard_stream(self.table) { None } else { Some(Directory::open(self.table)?) };
        let rejects = rejects.map(|rejects| Rejects::put(rejects, self.force, left)).transpose()?;
        let placed = table.place(tables.as_ref().unwrap_or(manifests), self.force);
        let Some(rejects) = rejects else { return placed };
        if placed.is_ok() || is_in_effect(&placed) {
            placed.and(rejects.settle())
        } else {
            // The error that matters is the one above.
            let _ = rejects.undo();
            placed
        }
    }

    fn undo(&self, replaced: Option<&[u8]>, mode: u32, directory: &Directory) -> Result<()> {
        let on_io = |source| TableError::io(self.manifest, "put back", source);
        match replaced {
            Some(content) => ready_file(self.manifest, content, mode)?.put(true)?,
            None => std::fs::remove_file(self.manifest).map_err(on_io)?,
        }
        directory.sync().map_err(on_io)
    }
}

/// A reject file that is in its place, while its table is not yet.
struct Rejects {
    path: PathBuf,
    /// The one that was there before, under another name.
    before: Option<PathBuf>,
}

impl Rejects {
    /// Puts the file into its place.
    ///
    /// # Errors
    /// `Exists`; `Io`. The place is unchanged then.
    fn put(new: Ready, force: bool, left: Option<&Pending>) -> Result<Rejects> {
        let path = new.path().to_owned();
        let on_io = |source| TableError::io(&path, "put the rejected rows into their place", source);
        if is_standard_stream(&path) {
            new.put(force)?;
            return Ok(Rejects { path, before: None });
        }
        let directory = Directory::open(&path)?;
        let replaces_left = is_left(&path, left)?;
        let before = if force && !replaces_left { keep(&path).map_err(on_io)? } else { None };
        let rejects = Rejects { path: path.clone(), before };
        // The errors that matter are those before undoing.
        new.put(force || replaces_left).inspect_err(|_| {
            let _ = rejects.put_back();
        })?;
        directory.sync().map_err(on_io).inspect_err(|_| {
            let _ = rejects.undo();
        })?;
        Ok(rejects)
    }

    /// Removes the file, or puts back the one that was there.
    fn undo(&self) -> std::io::Result<()> {
        match &self.before {
            Some(_) => self.put_back(),
            None if is_standard_stream(&self.path) => Ok(()),
            None => std::fs::remove_file(&self.path),
        }
    }

    /// Puts back the file that was there, if any.
    fn put_back(&self) -> std::io::Result<()> {
        let Some(before) = &self.before else { return Ok(()) };
        let identity = |path| std::fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).ok();
        // Of two names of one file, renaming would leave both (`rename(2)`).
        match identity(before) == identity(&self.path) {
            true => std::fs::remove_file(before),
            false => std::fs::rename(before, &self.path),
        }
    }

    /// Removes what was there.
    fn settle(&self) -> Result<()> {
        let Some(before) = &self.before else { return Ok(()) };
        std::fs::remove_file(before).map_err(|source| TableError::InEffect {
            path: self.path.clone(),
            but: "the rejected rows of the table before are still in a file beside it",
            source,
        })
    }
}

/// Gives what is at `path` a second name; where the file system has no such names, another name.
fn keep(path: &Path) -> std::io::Result<Option<PathBuf>> {
    if std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(None);
    }
    let beside = name_beside(path)?;
    std::fs::hard_link(path, &beside).or_else(|_| std::fs::rename(path, &beside))?;
    Ok(Some(beside))
}

/// Whether the file at `path` is the reject file of a change that was cut short.
fn is_left(path: &Path, left: Option<&Pending>) -> Result<bool> {
    let Some(sha256) = left.and_then(|left| left.rejects_sha256.as_deref()) else { return Ok(false) };
    if !std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return Ok(false);
    }
    let file = File::open(path).map_err(|source| TableError::io(path, "read what is to be replaced", source))?;
    Ok(same(TableHash::of(&file, path, || Ok(()))?.whole(), sha256))
}

fn is_in_effect(result: &Result<()>) -> bool {
    matches!(result, Err(TableError::InEffect { .. }))
}

/// A path that means the same from any directory.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// What is in the manifest's place now, byte for byte.
fn read_replaced(path: &Path) -> Result<Option<Vec<u8>>> {
    let on_read = |source| TableError::io(path, "read what is to be replaced", source);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(on_read(error)),
    };
    let mut content = Vec::new();
    file.take(REPLACED_LEN_MAX + 1).read_to_end(&mut content).map_err(on_read)?;
    if content.len() as u64 > REPLACED_LEN_MAX {
        let problem = format!("more than {REPLACED_LEN_MAX} bytes; it is not replaced");
        return Err(TableError::ManifestDamaged { manifest: path.to_owned(), problem });
    }
    Ok(Some(content))
}

/// The manifest of the table that is going to be replaced, without a previous one. `None` when there is no such table, or
/// what lies beside it is no manifest: then there is no old pair to keep.
fn manifest_of(table: &Path, text: &[u8], path: &Path) -> Result<Option<Manifest>> {
    let file = match File::open(table) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(TableError::io(table, "read what is to be replaced", error)),
    };
    let mut current = match Manifest::parse(text, path) {
        Ok(current) => Manifest { pending: None, ..current },
        Err(TableError::ManifestDamaged { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    // A swap that was cut short has left two manifests, and the table tells which of them is its own.
    match current.previous.take() {
        Some(previous) if TableHash::of(&file, table, || Ok(()))?.is_in(&previous) => Ok(Some(*previous)),
        _ => Ok(Some(current)),
    }
}
