//! The manifest in a Parquet file's footer, so that a table that has lost the file beside it has lost nothing.
//!
//! No file can hold its own hash, so this manifest's covers the file without the manifest. Its value in the footer is written
//! as a placeholder of the same length, and filled in when all other bytes are known.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ciphermill::Mill;
use sha2::Sha256;

use crate::error::{Result, TableError};
use crate::keys::{DIGEST_LEN, RootKey};
use crate::manifest::{Covers, FOOTER_KEY, Manifest};
use crate::output::OutputFile;
use crate::parquet::{BeforeFooter, ParquetInput};

/// What a Parquet file begins and ends with (Parquet format, file format).
const PARQUET_MAGIC: &[u8; 4] = b"PAR1";

/// The length of the footer's length and of the magic after it.
const PARQUET_TRAILER_LEN: u64 = 8;

/// The manifest in a Parquet file's footer.
pub(crate) struct Embedded {
    /// The manifest as JSON.
    pub(crate) text: String,
    /// Where it lies in the file. `None` when that cannot be told.
    pub(crate) at: Option<Range<u64>>,
}

impl Embedded {
    /// Reads the footer of a file that ends as Parquet does; `None` where there is no manifest in it.
    ///
    /// # Errors
    /// `Io`; `Parquet` when the footer does not parse.
    pub(crate) fn read(file: &File, path: &Path) -> Result<Option<Embedded>> {
        let on_read = |source| TableError::io(path, "read", source);
        if !ends_as_parquet(file).map_err(on_read)? {
            return Ok(None);
        }
        let input = ParquetInput::open(file.try_clone().map_err(on_read)?, path)?;
        let Some(text) = input.key_value(FOOTER_KEY) else { return Ok(None) };
        let len = file.metadata().map_err(on_read)?.len();
        let mut trailer = [0; 4];
        file.read_exact_at(&mut trailer, len.saturating_sub(PARQUET_TRAILER_LEN)).map_err(on_read)?;
        let footer_len = u64::from(u32::from_le_bytes(trailer));
        let Some(start) = len.checked_sub(PARQUET_TRAILER_LEN + footer_len) else { return Ok(None) };
        // The reader above has parsed this many bytes, so that they are there and fit the memory.
        let mut footer = vec![0; u32::from_le_bytes(trailer) as usize];
        file.read_exact_at(&mut footer, start).map_err(on_read)?;
        let at = find_once(&footer, text.as_bytes()).map(|at| start + at as u64);
        Ok(Some(Embedded { at: at.map(|at| at..at + text.len() as u64), text: text.to_owned() }))
    }

    /// Whether the footer has a manifest. One that does not parse has none; who reads the table will say what is wrong.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn is_in(file: &File, path: &Path) -> Result<bool> {
        match Embedded::read(file, path) {
            Ok(embedded) => Ok(embedded.is_some()),
            Err(error @ TableError::Io { .. }) => Err(error),
            Err(_) => Ok(false),
        }
    }
}

/// Whether a file ends with Parquet's magic; one that was cut short does not.
///
/// # Errors
/// What reading gives.
pub(crate) fn ends_as_parquet(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() < PARQUET_TRAILER_LEN + PARQUET_MAGIC.len() as u64 {
        return Ok(false);
    }
    let mut end = [0; 4];
    file.read_exact_at(&mut end, metadata.len() - 4)?;
    Ok(end == *PARQUET_MAGIC)
}

/// Writes a manifest into the footer of a file.
#[derive(Default)]
pub(crate) struct FooterManifest {
    room: Option<Room>,
}

struct Room {
    manifest: Manifest,
    placeholder: String,
    before: Option<(Sha256, u64)>,
}

impl FooterManifest {
    /// The footer's key-value pair for `manifest`, with room for whatever hash, length and signature it will have.
    ///
    /// # Errors
    /// One of memory or of this program.
    pub(crate) fn pair(&mut self, manifest: Manifest, before: &BeforeFooter<'_>) -> Result<(String, Option<String>)> {
        let digest = "0".repeat(2 * DIGEST_LEN);
        let longest = Manifest {
            bytes: u64::MAX,
            sha256: digest.clone(),
            signature: digest,
            covers: Covers::FileWithoutManifest,
            ..manifest.clone()
        };
        let placeholder = longest.to_footer()?;
        let pair = (FOOTER_KEY.to_owned(), Some(placeholder.clone()));
        self.room = Some(Room { manifest, placeholder, before: before.written.clone() });
        Ok(pair)
    }

    /// Fills in the manifest, signed, once everything else is written. Gives the manifest without hash and signature.
    ///
    /// # Errors
    /// `Io`; what the mill answers.
    pub(crate) fn fill_in(self, output: &mut OutputFile, mill: &Mill, root: &RootKey) -> Result<Manifest> {
        let Some(Room { manifest, placeholder, before: Some(before) }) = self.room else {
            let problem = io::Error::other("no footer was written");
            return Err(TableError::io(output.path(), "write the manifest into the footer", problem));
        };
        output.fill_in(before, placeholder.as_bytes(), |sha256, bytes| {
            let covers = Covers::FileWithoutManifest;
            let embedded = Manifest { sha256, bytes, covers, ..manifest.clone() }.signed(mill, root)?;
            let mut text = embedded.to_footer()?.into_bytes();
            // Spaces after a JSON text have no meaning (RFC 8259, section 2).
            text.resize(text.len().max(placeholder.len()), b' ');
            Ok(text)
        })?;
        Ok(manifest)
    }
}

/// Where `wanted` lies in `bytes`, if it is there exactly once.
pub(crate) fn find_once(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = wanted.first()?;
    let mut starts = (0..(bytes.len() + 1).saturating_sub(wanted.len()))
        .filter(|at| bytes[*at] == *first && bytes[*at..].starts_with(wanted));
    match (starts.next(), starts.next()) {
        (Some(at), None) => Some(at),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_twice_is_not_found() {
        for (bytes, wanted, at) in [
            ("abc", "b", Some(1)),
            ("abcb", "b", None),
            ("aab", "ab", Some(1)),
            ("ab", "abc", None),
            ("abc", "abc", Some(0)),
            ("", "", None),
            ("aaa", "aa", None),
        ] {
            assert_eq!(find_once(bytes.as_bytes(), wanted.as_bytes()), at, "{bytes} {wanted}");
        }
    }
}
