//! Files that appear whole: written beside their place and renamed into it.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

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
