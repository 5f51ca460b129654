//! Format 1, which is only read: a redb database with a head and sealed records.
//!
//! The file is read whole, and the database opened in memory. So nothing is written, a database that was not closed
//! is repaired in memory alone, and a keystore in a folder that cannot be written opens as well.

use std::fs::{File, TryLockError};
use std::io::Seek;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use redb::backends::InMemoryBackend;
use redb::{Builder, ReadOnlyTable, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

use super::error::KeystoreError;
use super::file::{FORMAT_VERSION, Records, read_at_most};
use super::header::Header;

/// The longest file in bytes. Free pages made it longer than what it held.
pub(super) const FILE_LEN_MAX: usize = 256 << 20;

/// `format` (4 bytes, little-endian) and `header`.
const HEAD: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("head");
/// Sealed records by name and version.
const RECORDS: TableDefinition<'static, (&str, u32), &[u8]> = TableDefinition::new("records");

/// What the database may keep in memory beside the file, in bytes.
const CACHE_LEN: usize = 16 << 20;

pub(super) fn is_format1(bytes: &[u8]) -> bool {
    bytes.starts_with(b"redb")
}

/// Reads a file, under a shared lock that lasts as long as the file is open.
pub(super) fn read(path: &Path, file: File) -> Result<(File, Header, Records), KeystoreError> {
    let io_error = |error| KeystoreError::io(path, error);
    match file.try_lock_shared() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(KeystoreError::Locked { path: path.to_owned(), waited: core::time::Duration::ZERO });
        }
        Err(TryLockError::Error(error)) => return Err(io_error(error)),
    }
    // Again, now that nobody writes it.
    (&file).rewind().map_err(io_error)?;
    let metadata = file.metadata().map_err(io_error)?;
    let Some(bytes) = read_at_most(&file, &metadata, FILE_LEN_MAX).map_err(io_error)? else {
        return Err(KeystoreError::damaged(path, "it is too large for a keystore"));
    };
    // The database checks what it reads, but a panic over a damaged page must not end the process.
    let read = catch_unwind(AssertUnwindSafe(|| read_database(path, &bytes)));
    let (header, records) =
        read.unwrap_or_else(|_| Err(KeystoreError::damaged(path, "the database does not make sense")))?;
    Ok((file, header, records))
}

fn read_database(path: &Path, bytes: &[u8]) -> Result<(Header, Records), KeystoreError> {
    let damaged = |what: &str| KeystoreError::damaged(path, what);
    let (version, header, records) = load(bytes).map_err(|error| KeystoreError::damaged(path, error.to_string()))?;
    match version.as_deref().map(<[u8; 4]>::try_from) {
        Some(Ok(version)) => match u32::from_le_bytes(version) {
            1 => {}
            found => return Err(KeystoreError::UnsupportedVersion { found, known: FORMAT_VERSION }),
        },
        _ => return Err(damaged("there is no format version")),
    }
    let header = header.ok_or_else(|| damaged("there is no header"))?;
    let header = Header::from_bytes(&header).ok_or_else(|| damaged("the header does not match its digest"))?;
    Ok((header, records))
}

type Loaded = (Option<Vec<u8>>, Option<Vec<u8>>, Records);

fn load(bytes: &[u8]) -> Result<Loaded, redb::Error> {
    let backend = InMemoryBackend::new();
    backend.set_len(bytes.len() as u64)?;
    backend.write(0, bytes)?;
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_LEN);
    let mut db = builder.create_with_backend(backend)?;
    db.check_integrity()?;
    let transaction = db.begin_read()?;
    let head: ReadOnlyTable<&str, &[u8]> = transaction.open_table(HEAD)?;
    let head =
        |key: &str| -> Result<Option<Vec<u8>>, redb::Error> { Ok(head.get(key)?.map(|value| value.value().to_vec())) };
    let mut records = Records::new();
    for entry in transaction.open_table(RECORDS)?.iter()? {
        let (place, value) = entry?;
        let (name, version) = place.value();
        records.insert((name.to_owned(), version), value.value().to_vec());
    }
    Ok((head("format")?, head("header")?, records))
}
