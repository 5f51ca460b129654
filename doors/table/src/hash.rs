//! The hash by which a manifest names its file: of the whole file, or of a Parquet file without the manifest in its footer.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::embed::Embedded;
use crate::error::{Result, TableError};
use crate::manifest::{Covers, Manifest, same};

const BUFFER_LEN: usize = 256 << 10;

/// The hashes of a file.
pub(crate) struct TableHash {
    whole: (String, u64),
    without_manifest: Option<(String, u64)>,
}

impl TableHash {
    /// Reads a whole file, and calls `between` now and then.
    ///
    /// # Errors
    /// `Io`, and what `between` gives.
    pub(crate) fn of(file: &File, path: &Path, between: impl Fn() -> Result<()>) -> Result<TableHash> {
        // A footer that does not parse has no manifest that could be cut out.
        let cut = match Embedded::read(file, path) {
            Ok(embedded) => embedded.and_then(|embedded| embedded.at),
            Err(error @ TableError::Io { .. }) => return Err(error),
            Err(_) => None,
        };
        let cut = cut.unwrap_or(u64::MAX..u64::MAX);
        let mut reader = Ranges { file, path, between, at: 0, buffer: vec![0; BUFFER_LEN] };
        let mut whole = Sha256::new();
        reader.each(cut.start, |bytes| whole.update(bytes))?;
        let mut without = whole.clone();
        reader.each(cut.end, |bytes| whole.update(bytes))?;
        reader.each(u64::MAX, |bytes| {
            whole.update(bytes);
            without.update(bytes);
        })?;
        let len = reader.at;
        let without_manifest = (cut.end <= len).then(|| (hex::encode(without.finalize()), len - (cut.end - cut.start)));
        Ok(TableHash { whole: (hex::encode(whole.finalize()), len), without_manifest })
    }

    /// SHA-256 of the whole file, in hexadecimal.
    pub(crate) fn whole(&self) -> &str {
        &self.whole.0
    }

    /// The manifest with the hash and length of the whole file.
    pub(crate) fn put_into(&self, manifest: Manifest) -> Manifest {
        Manifest { covers: Covers::File, sha256: self.whole.0.clone(), bytes: self.whole.1, ..manifest }
    }

    /// Whether a manifest names this file.
    pub(crate) fn is_in(&self, manifest: &Manifest) -> bool {
        let found = match manifest.covers {
            Covers::File => Some(&self.whole),
            Covers::FileWithoutManifest => self.without_manifest.as_ref(),
        };
        found.is_some_and(|(sha256, len)| *len == manifest.bytes && same(sha256, &manifest.sha256))
    }
}

/// Reads a file on, up to one place after the other.
struct Ranges<'a, F> {
    file: &'a File,
    path: &'a Path,
    between: F,
    at: u64,
    buffer: Vec<u8>,
}

impl<F: Fn() -> Result<()>> Ranges<'_, F> {
    fn each(&mut self, end: u64, mut take: impl FnMut(&[u8])) -> Result<()> {
        while self.at < end {
            (self.between)()?;
            let len = usize::try_from(end - self.at).unwrap_or(usize::MAX).min(self.buffer.len());
            match self.file.read_at(&mut self.buffer[..len], self.at) {
                Ok(0) => break,
                Ok(len) => {
                    take(&self.buffer[..len]);
                    self.at += len as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(TableError::io(self.path, "read", error)),
            }
        }
        Ok(())
    }
}

/// Hashes what is read through it.
pub(crate) struct HashingReader<R> {
    reader: R,
    hash: Sha256,
    len: u64,
}

impl<R: Read> HashingReader<R> {
    pub(crate) fn new(reader: R) -> HashingReader<R> {
        HashingReader { reader, hash: Sha256::new(), len: 0 }
    }

    /// The hash of all that was read.
    pub(crate) fn finish(self) -> TableHash {
        TableHash { whole: (hex::encode(self.hash.finalize()), self.len), without_manifest: None }
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.reader.read(buffer)?;
        self.hash.update(&buffer[..len]);
        self.len += len as u64;
        Ok(len)
    }
}
