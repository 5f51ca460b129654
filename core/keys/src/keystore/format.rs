//! The keystore file. Format 2 is written; format 1 ([`super::format1`]) is read, and gone with the first change.
//!
//! ```text
//! "ciphermill keys\n"                               16 bytes
//! format                                            4 bytes; all numbers are little-endian
//! header: its length, itself                        4 bytes + …
//! number of records                                 4 bytes
//! each: name's length, name, version,               1 + … + 4
//!       sealed record's length, itself              4 + …
//! HMAC-SHA-256 over all this                        32 bytes
//! ```
//!
//! Records are in the order of names and versions, each once. The MAC's key comes from the master key, so that no record
//! can be added, dropped or put back to an older state by whoever does not know it. That a whole file is an older one
//! cannot be seen from the file.

use std::fs::File;
use std::path::Path;

use super::error::KeystoreError;
use super::file::{FORMAT_VERSION, Records, open_regular, read_at_most};
use super::format1;
use super::header::Header;
use super::record::{FILE_TAG_LEN, Sealer};

/// The longest keystore file in bytes; some 150,000 versions of keys.
pub const FILE_LEN_MAX: usize = 64 << 20;

const MAGIC: &[u8; 16] = b"ciphermill keys\n";

/// A file that was read and makes sense. Whether its records are authentic shows when the master key is known.
pub(super) struct StoredFile {
    pub(super) header: Header,
    records: Records,
    proof: Proof,
}

/// What shows that the records are those that were written.
enum Proof {
    /// All but the MAC, and the MAC.
    Tag(Vec<u8>, [u8; FILE_TAG_LEN]),
    /// Format 1 has nothing of the kind; the file, with a shared lock on it.
    None(File),
}

impl StoredFile {
    /// Reads a keystore. Needs no more than leave to read it.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::Io`], [`KeystoreError::Damaged`], [`KeystoreError::UnsupportedVersion`]; [`KeystoreError::Locked`]
    /// for a file of format 1 that a program has open which knows no other.
    pub(super) fn read(path: &Path) -> Result<StoredFile, KeystoreError> {
        let io_error = |error| KeystoreError::io(path, error);
        let Some((file, metadata)) = open_regular(path).map_err(io_error)? else {
            return Err(KeystoreError::damaged(path, "it is not a regular file"));
        };
        let bytes = read_at_most(&file, &metadata, format1::FILE_LEN_MAX).map_err(io_error)?;
        let Some(bytes) = bytes else { return Err(KeystoreError::damaged(path, "it is too large for a keystore")) };
        if format1::is_format1(&bytes) {
            let (file, header, records) = format1::read(path, file)?;
            return Ok(StoredFile { header, records, proof: Proof::None(file) });
        }
        parse(path, bytes)
    }

    /// The records, if they are those that were written under this master key; for format 1 also the file that has to
    /// stay open until it is replaced.
    pub(super) fn authenticate(self, path: &Path, sealer: &Sealer) -> Result<(Records, Option<File>), KeystoreError> {
        match self.proof {
            Proof::None(file) => Ok((self.records, Some(file))),
            Proof::Tag(body, tag) if sealer.is_file_tag(&body, &tag) => Ok((self.records, None)),
            Proof::Tag(..) => Err(KeystoreError::damaged(path, "its list of records is not authentic")),
        }
    }
}

/// The bytes of a file.
///
/// # Errors
///
/// [`KeystoreError::BadParameter`] for more than [`FILE_LEN_MAX`].
pub(super) fn encode(header: &Header, records: &Records, sealer: &Sealer) -> Result<Vec<u8>, KeystoreError> {
    let too_large = || KeystoreError::BadParameter { what: "keystore", rule: "at most 64 MiB" };
    let number = |len: usize| u32::try_from(len).map(u32::to_le_bytes).map_err(|_| too_large());
    let header = header.to_bytes();
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&number(header.len())?);
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(&number(records.len())?);
    for ((name, version), sealed) in records {
        let name_len = u8::try_from(name.len()).map_err(|_| too_large())?;
        bytes.push(name_len);
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(&number(sealed.len())?);
        bytes.extend_from_slice(sealed);
    }
    let tag = sealer.file_tag(&bytes);
    bytes.extend_from_slice(&tag);
    if bytes.len() > FILE_LEN_MAX { Err(too_large()) } else { Ok(bytes) }
}

fn parse(path: &Path, mut bytes: Vec<u8>) -> Result<StoredFile, KeystoreError> {
    let damaged = |what| KeystoreError::damaged(path, what);
    let mut rest = Reader(&bytes);
    if rest.take(MAGIC.len()) != Some(MAGIC) {
        return Err(damaged("it does not begin as a keystore does"));
    }
    match rest.number() {
        Some(FORMAT_VERSION) => {}
        Some(found) => return Err(KeystoreError::UnsupportedVersion { found, known: FORMAT_VERSION }),
        None => return Err(damaged("it is cut short")),
    }
    if bytes.len() > FILE_LEN_MAX {
        return Err(damaged("it is too large for a keystore"));
    }
    let header = rest.counted().ok_or_else(|| damaged("it is cut short"))?;
    let header = Header::from_bytes(header).ok_or_else(|| damaged("the header does not match its digest"))?;
    let records = rest.records().ok_or_else(|| damaged("its list of records does not make sense"))?;
    let Ok(tag) = <[u8; FILE_TAG_LEN]>::try_from(rest.0) else {
        return Err(damaged("it does not end as a keystore does"));
    };
    bytes.truncate(bytes.len() - FILE_TAG_LEN);
    Ok(StoredFile { header, records, proof: Proof::Tag(bytes, tag) })
}

/// Bytes from outside, taken piece by piece.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    /// A length, then as many bytes.
    fn counted(&mut self) -> Option<&'a [u8]> {
        let len = self.number()? as usize;
        self.take(len)
    }

    fn records(&mut self) -> Option<Records> {
        let count = self.number()?;
        let mut records = Records::new();
        for _ in 0..count {
            let name_len = self.take(1)?[0] as usize;
            let name = core::str::from_utf8(self.take(name_len)?).ok()?;
            let place = (name.to_owned(), self.number()?);
            let sealed = self.counted()?.to_vec();
            if records.last_key_value().is_some_and(|(last, _)| *last >= place) {
                return None;
            }
            records.insert(place, sealed);
        }
        Some(records)
    }
}
