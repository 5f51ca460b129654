//! Output that appears whole or not at all: written beside its place, hashed on the way, synced, renamed.

use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::error::{Result, TableError};

const HASH_BUFFER_LEN: usize = 256 << 10;

/// A file that is being written beside `path` and takes that place at the end. Dropped before, it leaves nothing.
pub(crate) struct OutputFile {
    path: PathBuf,
    file: NamedTempFile,
    hash: Sha256,
    len: u64,
}

/// An output that is complete and synced, but not yet in its place.
pub(crate) struct Ready {
    path: PathBuf,
    file: NamedTempFile,
    /// SHA-256 of all bytes, in hexadecimal.
    pub(crate) sha256: String,
    /// Bytes written.
    pub(crate) len: u64,
}

impl OutputFile {
    /// Begins `PATH.part-RANDOM` in the same directory.
    ///
    /// # Errors
    /// `Io` when the directory does not take it.
    pub(crate) fn create(path: &Path) -> Result<OutputFile> {
        let mut prefix = path.file_name().unwrap_or_default().to_os_string();
        prefix.push(".part-");
        let file = tempfile::Builder::new()
            .prefix(&prefix)
            .rand_bytes(8)
            // What any program would ask for; the process's umask takes away from it.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory(path))
            .map_err(|source| TableError::io(path, "write beside it", source))?;
        Ok(OutputFile { path: path.to_owned(), file, hash: Sha256::new(), len: 0 })
    }

    /// Where the file will be.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// SHA-256 of what was written so far, in hexadecimal, and its length in bytes.
    pub(crate) fn so_far(&self) -> (String, u64) {
        (hex::encode(self.hash.clone().finalize()), self.len)
    }

    /// Ends writing and waits until the bytes are on the disk.
    ///
    /// # Errors
    /// `Io` when they do not get there.
    pub(crate) fn finish(self) -> Result<Ready> {
        self.file.as_file().sync_all().map_err(|source| TableError::io(&self.path, "sync", source))?;
        Ok(Ready { path: self.path, file: self.file, sha256: hex::encode(self.hash.finalize()), len: self.len })
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.as_file_mut().write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.len += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_file_mut().flush()
    }
}

impl Ready {
    /// Puts the file into its place.
    ///
    /// # Errors
    /// `Exists` when something has come there meanwhile and may not be replaced; `Io`.
    pub(crate) fn place(self, force: bool) -> Result<PathBuf> {
        let placed = if force { self.file.persist(&self.path) } else { self.file.persist_noclobber(&self.path) };
        placed.map_err(|failed| match failed.error.kind() {
            io::ErrorKind::AlreadyExists => TableError::Exists { path: self.path.clone() },
            _ => TableError::io(&self.path, "put the output into its place", failed.error),
        })?;
        sync_directory(&self.path)?;
        Ok(self.path)
    }
}

/// Makes a rename last through a power failure.
fn sync_directory(path: &Path) -> Result<()> {
    let directory = directory(path);
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|source| TableError::io(directory, "sync the directory", source))
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Refuses an output that exists (unless forced) or is the input.
///
/// # Errors
/// `SameFile`, also through links, whether forced or not; `Exists`.
pub(crate) fn check_output(input: &Path, output: &Path, force: bool) -> Result<()> {
    let same = match (std::fs::metadata(input), std::fs::metadata(output)) {
        (Ok(input), Ok(output)) => (input.dev(), input.ino()) == (output.dev(), output.ino()),
        _ => input == output,
    };
    if same {
        return Err(TableError::SameFile { path: output.to_owned() });
    }
    check_vacant(output, force)
}

/// Refuses a place where something is, unless forced.
///
/// # Errors
/// `Exists`.
pub(crate) fn check_vacant(path: &Path, force: bool) -> Result<()> {
    if !force && std::fs::symlink_metadata(path).is_ok() {
        return Err(TableError::Exists { path: path.to_owned() });
    }
    Ok(())
}

/// SHA-256 of what is left of a stream, in hexadecimal.
///
/// # Errors
/// What the stream's reading gives.
pub(crate) fn sha256_of(
    reader: &mut impl Read,
    mut between: impl FnMut() -> Result<()>,
    path: &Path,
) -> Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; HASH_BUFFER_LEN];
    loop {
        between()?;
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(hex::encode(hash.finalize())),
            Ok(len) => hash.update(&buffer[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(TableError::io(path, "read", error)),
        }
    }
}

/// Hashes what is read through it.
pub(crate) struct HashingReader<R> {
    reader: R,
    hash: Sha256,
}

impl<R: Read> HashingReader<R> {
    pub(crate) fn new(reader: R) -> HashingReader<R> {
        HashingReader { reader, hash: Sha256::new() }
    }

    /// SHA-256 of all that was read, in hexadecimal.
    pub(crate) fn sha256(self) -> String {
        hex::encode(self.hash.finalize())
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.reader.read(buffer)?;
        self.hash.update(&buffer[..len]);
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_output_appears_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let mut output = OutputFile::create(&path).unwrap();
        output.write_all(b"abc").unwrap();
        assert!(names(directory.path())[0].starts_with("out.part-"));
        drop(output);
        assert!(names(directory.path()).is_empty());

        let mut output = OutputFile::create(&path).unwrap();
        output.write_all(b"abc").unwrap();
        let ready = output.finish().unwrap();
        // FIPS 180-4's example of one block.
        assert_eq!(ready.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(ready.len, 3);
        ready.place(false).unwrap();
        assert_eq!(names(directory.path()), ["out"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"abc");
    }

    #[test]
    fn what_came_meanwhile_is_not_replaced_unless_forced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let ready = |bytes: &[u8]| {
            let mut output = OutputFile::create(&path).unwrap();
            output.write_all(bytes).unwrap();
            output.finish().unwrap()
        };
        let late = ready(b"new");
        std::fs::write(&path, b"old").unwrap();
        assert!(matches!(late.place(false), Err(TableError::Exists { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(names(directory.path()), ["out"]);
        ready(b"new").place(true).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn the_input_is_never_the_output() {
        let directory = tempfile::tempdir().unwrap();
        let input = directory.path().join("in");
        std::fs::write(&input, b"x").unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&input, &link).unwrap();
        for output in [&input, &link] {
            assert!(matches!(check_output(&input, output, true), Err(TableError::SameFile { .. })));
        }
        assert!(check_output(&input, &directory.path().join("out"), false).is_ok());
    }
}
