//! The file below a keystore: a redb database with a head and sealed records.
//!
//! The database copies on write, so replaced bytes stay in free pages for a while. Whatever must be gone, or must not
//! survive beside its successor (destroyed keys, a master key under an old passphrase), is therefore got rid of by
//! writing a new file and renaming it over the old one ([`StoreFile::replace`]).

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{
    Builder, CommitError, Database, DatabaseError, ReadableDatabase, StorageError, TableDefinition, TableError,
    TransactionError,
};

use super::error::KeystoreError;

/// The version of the format that this program writes and reads.
pub const FORMAT_VERSION: u32 = 1;

/// `format` (4 bytes, little-endian) and `header`.
const HEAD: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("head");
/// Sealed records by name and version.
const RECORDS: TableDefinition<'static, (&str, u32), &[u8]> = TableDefinition::new("records");

/// What the database may keep in memory, in bytes.
const CACHE_LEN: usize = 16 << 20;

/// How often a file is opened that is replaced at that moment.
const OPEN_TRIES_MAX: usize = 8;

/// A sealed record with its place.
pub(super) struct SealedRecord {
    pub(super) name: String,
    pub(super) version: u32,
    pub(super) sealed: Vec<u8>,
}

pub(super) struct StoreFile {
    path: PathBuf,
    db: Database,
}

impl StoreFile {
    /// Makes a new file, complete or not at all.
    pub(super) fn create(path: &Path, header: &[u8]) -> Result<StoreFile, KeystoreError> {
        let mut nonce = [0; 8];
        getrandom::fill(&mut nonce).map_err(|_| KeystoreError::Entropy)?;
        let draft = beside(path, &format!(".new-{}", hex::encode(nonce)))?;
        let written = write_file(&draft, header, &[]).and_then(|db| {
            // A link, unlike a rename, never takes the place of a file that is there.
            match fs::hard_link(&draft, path) {
                Ok(()) => Ok(db),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    Err(KeystoreError::Exists { what: path.display().to_string() })
                }
                Err(error) => Err(KeystoreError::io(path, error)),
            }
        });
        let removed = fs::remove_file(&draft);
        let db = written?;
        removed.map_err(|error| KeystoreError::io(&draft, error))?;
        sync_folder(path)?;
        let path = fs::canonicalize(path).map_err(|error| KeystoreError::io(path, error))?;
        Ok(StoreFile { path, db })
    }

    /// Opens a file, checks every page's checksum and the format's version.
    pub(super) fn open(path: &Path) -> Result<StoreFile, KeystoreError> {
        let path = fs::canonicalize(path).map_err(|error| KeystoreError::io(path, error))?;
        for _ in 0..OPEN_TRIES_MAX {
            let io_error = |error| KeystoreError::io(&path, error);
            let file = OpenOptions::new().read(true).write(true).open(&path).map_err(io_error)?;
            let opened = file.metadata().map_err(io_error)?;
            if !opened.is_file() || opened.len() == 0 {
                return Err(KeystoreError::damaged(&path, "the file is empty, or no regular file"));
            }
            let db = guarded(&path, || {
                let mut db = builder().create_file(file).map_err(|error| database_error(&path, error))?;
                db.check_integrity().map_err(|error| database_error(&path, error))?;
                Ok(db)
            })?;
            // Only now the file is locked; it may have been replaced just before.
            let named = fs::metadata(&path).map_err(io_error)?;
            if (named.dev(), named.ino()) == (opened.dev(), opened.ino()) {
                let store = StoreFile { path, db };
                store.check_format()?;
                return Ok(store);
            }
        }
        Err(KeystoreError::Locked { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn header(&self) -> Result<Vec<u8>, KeystoreError> {
        self.head("header")?.ok_or_else(|| KeystoreError::damaged(&self.path, "there is no header"))
    }

    pub(super) fn record(&self, name: &str, version: u32) -> Result<Option<Vec<u8>>, KeystoreError> {
        self.read(|transaction| {
            let table = transaction.open_table(RECORDS)?;
            let value = table.get((name, version))?;
            Ok(value.map(|value| value.value().to_vec()))
        })
    }

    /// The records of one name, or all, by name and version.
    pub(super) fn records(&self, name: Option<&str>) -> Result<Vec<SealedRecord>, KeystoreError> {
        self.read(|transaction| {
            let table = transaction.open_table(RECORDS)?;
            let range = match name {
                Some(name) => table.range((name, 0)..=(name, u32::MAX))?,
                None => table.range::<(&str, u32)>(..)?,
            };
            let mut records = Vec::new();
            for entry in range {
                let (key, value) = entry?;
                let (name, version) = key.value();
                records.push(SealedRecord { name: name.to_owned(), version, sealed: value.value().to_vec() });
            }
            Ok(records)
        })
    }

    /// Writes records, all or none; durable when it returns.
    pub(super) fn put(&self, records: &[SealedRecord]) -> Result<(), KeystoreError> {
        guarded(&self.path, || write_records(&self.db, None, records).map_err(|error| error.at(&self.path)))
    }

    /// Replaces the whole file: afterwards it holds this head and these records, and nothing of what it held before.
    pub(super) fn replace(&mut self, header: &[u8], records: &[SealedRecord]) -> Result<(), KeystoreError> {
        let draft = beside(&self.path, ".new")?;
        // What a crash may have left; nobody else writes there, for this keystore is locked.
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(KeystoreError::io(&draft, error)),
            _ => {}
        }
        let written = write_file(&draft, header, records).and_then(|db| {
            fs::rename(&draft, &self.path).map_err(|error| KeystoreError::io(&self.path, error))?;
            Ok(db)
        });
        match written {
            Ok(db) => {
                self.db = db;
                sync_folder(&self.path)
            }
            Err(error) => {
                let _ = fs::remove_file(&draft);
                Err(error)
            }
        }
    }

    fn check_format(&self) -> Result<(), KeystoreError> {
        let version = self.head("format")?;
        match version.as_deref().map(<[u8; 4]>::try_from) {
            Some(Ok(bytes)) => match u32::from_le_bytes(bytes) {
                FORMAT_VERSION => Ok(()),
                found => Err(KeystoreError::UnsupportedVersion { found, known: FORMAT_VERSION }),
            },
            _ => Err(KeystoreError::damaged(&self.path, "there is no format version")),
        }
    }

    fn head(&self, key: &str) -> Result<Option<Vec<u8>>, KeystoreError> {
        self.read(|transaction| {
            let table = transaction.open_table(HEAD)?;
            let value = table.get(key)?;
            Ok(value.map(|value| value.value().to_vec()))
        })
    }

    fn read<T>(&self, work: impl FnOnce(&redb::ReadTransaction) -> Result<T, DbError>) -> Result<T, KeystoreError> {
        guarded(&self.path, || {
            let read = || work(&self.db.begin_read()?);
            read().map_err(|error: DbError| error.at(&self.path))
        })
    }
}

/// What the database says, before it is known which file it speaks of.
enum DbError {
    Storage(StorageError),
    Table(TableError),
}

impl DbError {
    fn at(self, path: &Path) -> KeystoreError {
        match self {
            DbError::Storage(error) | DbError::Table(TableError::Storage(error)) => storage_error(path, error),
            DbError::Table(error) => {
                KeystoreError::damaged(path, format!("a table is missing or of another type: {error}"))
            }
        }
    }
}

impl From<StorageError> for DbError {
    fn from(error: StorageError) -> DbError {
        DbError::Storage(error)
    }
}

impl From<TableError> for DbError {
    fn from(error: TableError) -> DbError {
        DbError::Table(error)
    }
}

impl From<TransactionError> for DbError {
    fn from(error: TransactionError) -> DbError {
        match error {
            TransactionError::Storage(error) => DbError::Storage(error),
            _ => DbError::Storage(StorageError::PreviousIo),
        }
    }
}

impl From<CommitError> for DbError {
    fn from(error: CommitError) -> DbError {
        match error {
            CommitError::Storage(error) => DbError::Storage(error),
            _ => DbError::Storage(StorageError::PreviousIo),
        }
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_LEN);
    builder
}

/// Runs work on the database. It checks what it reads, but a panic over a damaged page must not end the process.
fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, KeystoreError>) -> Result<T, KeystoreError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(KeystoreError::damaged(path, "the database does not make sense")))
}

/// A new file with mode 0600; it must not be there yet.
fn write_file(path: &Path, header: &[u8], records: &[SealedRecord]) -> Result<Database, KeystoreError> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
    let file = file.map_err(|error| KeystoreError::io(path, error))?;
    guarded(path, || {
        let db = builder().create_file(file).map_err(|error| database_error(path, error))?;
        write_records(&db, Some(header), records).map_err(|error| error.at(path))?;
        Ok(db)
    })
}

fn write_records(db: &Database, header: Option<&[u8]>, records: &[SealedRecord]) -> Result<(), DbError> {
    let transaction = db.begin_write()?;
    if let Some(header) = header {
        let mut table = transaction.open_table(HEAD)?;
        table.insert("format", FORMAT_VERSION.to_le_bytes().as_slice())?;
        table.insert("header", header)?;
    }
    {
        let mut table = transaction.open_table(RECORDS)?;
        for record in records {
            table.insert((record.name.as_str(), record.version), record.sealed.as_slice())?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// The file's neighbour `.NAME` + `suffix`, in the same folder, so that it can be renamed over it.
fn beside(path: &Path, suffix: &str) -> Result<PathBuf, KeystoreError> {
    let Some(name) = path.file_name() else {
        return Err(KeystoreError::BadParameter { what: "keystore path", rule: "it ends in a file name" });
    };
    let mut draft = OsString::from(".");
    draft.push(name);
    draft.push(suffix);
    Ok(path.with_file_name(draft))
}

/// Makes a new name in a folder durable.
fn sync_folder(path: &Path) -> Result<(), KeystoreError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| KeystoreError::io(path, error))
}

fn database_error(path: &Path, error: DatabaseError) -> KeystoreError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => KeystoreError::Locked { path: path.to_owned() },
        DatabaseError::Storage(error) => storage_error(path, error),
        other => KeystoreError::damaged(path, other.to_string()),
    }
}

fn storage_error(path: &Path, error: StorageError) -> KeystoreError {
    match error {
        // Pages beyond the end of a file that was cut short.
        StorageError::Io(error)
            if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData) =>
        {
            KeystoreError::damaged(path, error.to_string())
        }
        StorageError::Io(error) => KeystoreError::io(path, error),
        StorageError::Corrupted(what) => KeystoreError::damaged(path, what),
        other => KeystoreError::io(path, io::Error::other(other.to_string())),
    }
}
