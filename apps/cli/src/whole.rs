//! Files that appear whole: written beside their place and renamed into it.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::NamedTempFile;

/// A temporary file in the folder of `path`, with the permissions that a new file has.
///
/// # Errors
/// The folder's.
pub fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".ciphermill-").permissions(Permissions::from_mode(0o666));
    builder.tempfile_in(folder_of(path))
}

/// The folder that a file lies in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes a file, and replaces one that is there.
///
/// # Errors
/// Those of the system; the place is unchanged then.
pub fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let mut file = beside(path).with_context(cannot)?;
    file.write_all(content).and_then(|()| file.as_file().sync_all()).with_context(cannot)?;
    file.persist(path).map(drop).map_err(|failed| failed.error).with_context(cannot)
}

/// The same, where a file that is there keeps its owner and permissions; where it is a link, the file that it leads to is replaced.
///
/// # Errors
/// Those of the system; the place is unchanged then.
pub fn replace(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let there = match fs::canonicalize(path).and_then(|place| Ok((fs::metadata(&place)?, place))) {
        Ok(there) => Some(there),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(cannot),
    };
    let place = there.as_ref().map_or_else(|| path.to_owned(), |(_, place)| PathBuf::clone(place));
    let mut file = beside(&place).with_context(cannot)?;
    if let Some((old, _)) = &there {
        let new = file.as_file().metadata().with_context(cannot)?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            fchown(file.as_file(), Some(old.uid()), Some(old.gid())).with_context(cannot)?;
        }
        file.as_file().set_permissions(old.permissions()).with_context(cannot)?;
    }
    file.write_all(content).and_then(|()| file.as_file().sync_all()).with_context(cannot)?;
    file.persist(&place).map(drop).map_err(|failed| failed.error).with_context(cannot)
}
