//! A table and the manifest beside it change together.
//!
//! No file system replaces two files at once, so there is an order in which each state on the way has a manifest for the
//! table that is found:
//!
//! | step | manifest's file | table |
//! |---|---|---|
//! | before | old | old |
//! | the manifest's file is replaced | new, with the old one in it | old |
//! | the table is replaced | new, with the old one in it | new |
//! | the manifest's file is replaced | new | new |
//!
//! Everything is written and synced before the first step, and the directory is synced between steps, so that a power
//! failure keeps the order too. Readers take the manifest whose hash is the table's (`source`).

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::error::{Result, TableError};
use crate::hash::TableHash;
use crate::manifest::Manifest;
use crate::output::{Directory, Ready, ready_file};

/// Bytes that a file in the manifest's place may have to be put back when the swap fails.
const REPLACED_LEN_MAX: u64 = 64 << 20;

/// Puts a table into its place and its manifest beside it.
///
/// # Errors
/// `Exists` when something has come there meanwhile and may not be replaced; `Io`; what reading the old table gives. Both are
/// as they were then. `InEffect` when the new pair is in its place and only its lasting is in doubt.
pub(crate) fn place(table: Ready, manifest: &Manifest, path: &Path, mode: u32, force: bool) -> Result<()> {
    let directory = Directory::open(path)?;
    directory.lock();
    let place = Place { path, mode, force, directory: &directory };
    let replaced = if force { read_replaced(path)? } else { None };
    let last = ready_file(path, &manifest.to_text(path)?, mode)?;
    let old = match &replaced {
        Some(text) => manifest_of(table.path(), text, path)?,
        None => None,
    };
    let Some(old) = old else {
        last.put(force)?;
        return place.table(table, replaced.as_deref());
    };
    let both = Manifest { previous: Some(Box::new(old)), ..manifest.clone() };
    ready_file(path, &both.to_text(path)?, mode)?.put(true)?;
    place.table(table, replaced.as_deref())?;
    // The pair lasts already, whichever of both files a power failure leaves.
    last.put(true).map_err(|error| TableError::InEffect {
        path: path.to_owned(),
        but: "beside it the manifest of the table before is kept too",
        source: std::io::Error::other(error),
    })
}

/// The manifest's place.
struct Place<'a> {
    path: &'a Path,
    mode: u32,
    force: bool,
    directory: &'a Directory,
}

impl Place<'_> {
    /// Puts the table into its place once the new manifest's file lasts. If that fails, what that file replaced comes back.
    fn table(&self, table: Ready, replaced: Option<&[u8]>) -> Result<()> {
        let on_sync = |source| TableError::io(self.path, "sync the directory", source);
        self.directory.sync().map_err(on_sync).and_then(|()| table.place(self.directory, self.force)).inspect_err(
            |error| {
                if !matches!(error, TableError::InEffect { .. }) {
                    // The error that matters is the one above; a manifest that holds both serves the old table too.
                    let _ = self.undo(replaced);
                }
            },
        )
    }

    fn undo(&self, replaced: Option<&[u8]>) -> Result<()> {
        match replaced {
            Some(content) => ready_file(self.path, content, self.mode)?.put(true)?,
            None => {
                std::fs::remove_file(self.path).map_err(|source| TableError::io(self.path, "remove", source))?;
            }
        }
        self.directory.sync().map_err(|source| TableError::io(self.path, "sync the directory", source))
    }
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
        Ok(current) => current,
        Err(TableError::ManifestDamaged { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    // A swap that was cut short has left two manifests, and the table tells which of them is its own.
    match current.previous.take() {
        Some(previous) if TableHash::of(&file, table, || Ok(()))?.is_in(&previous) => Ok(Some(*previous)),
        _ => Ok(Some(current)),
    }
}
