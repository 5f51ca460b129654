//! The token's file, beside its keystore: PINs, and what PKCS#11 knows of objects that a keystore does not.
//!
//! Each change is made under a lock, to what lies on the disk then, and replaces the file whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cryptoki_sys::{CKR_DEVICE_ERROR, CKR_DEVICE_MEMORY, CKR_TOKEN_WRITE_PROTECTED};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::seal::Pin;
use super::text;
use crate::rv::{Result, Rv, fail};

/// The form of the file that this module writes and reads.
const FORMAT: u32 = 1;

/// Bytes of a file.
const LEN_MAX: u64 = 64 << 20;

/// What lies in the file.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Content {
    format: u32,
    #[serde(with = "text")]
    pub(super) label: Vec<u8>,
    #[serde(with = "text")]
    pub(super) serial: Vec<u8>,
    pub(super) officer: Option<Pin>,
    pub(super) user: Option<Pin>,
    /// The number of the next object.
    pub(super) next: u64,
    pub(super) objects: Vec<Kept>,
}

/// An object.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    pub(super) number: u64,
    /// The keystore's entry that has its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) entry: Option<String>,
    pub(super) body: Body,
}

/// Attributes, in clear or sealed.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Body {
    /// Seen by everybody: attributes as [`super::encode`] writes them.
    Public(#[serde(with = "text")] Vec<u8>),
    /// Seen by who is logged in.
    Sealed(#[serde(with = "text")] Vec<u8>),
}

impl Content {
    pub(super) fn new(label: Vec<u8>, serial: Vec<u8>) -> Content {
        Content { format: FORMAT, label, serial, officer: None, user: None, next: 1, objects: Vec::new() }
    }
}

/// Where a token's file lies.
pub(super) struct Place {
    path: PathBuf,
}

/// What tells one state of a file from another.
pub(crate) type Mark = (u64, i64, i64, u64);

fn io_error(error: &io::Error) -> Rv {
    Rv(match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => CKR_TOKEN_WRITE_PROTECTED,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => CKR_DEVICE_MEMORY,
        _ => CKR_DEVICE_ERROR,
    })
}

/// The state of a file, zeros where there is none.
pub(super) fn mark(path: &Path) -> Mark {
    fs::metadata(path).map_or((0, 0, 0, 0), |data| (data.ino(), data.mtime(), data.mtime_nsec(), data.size()))
}

impl Place {
    pub(super) fn beside(keystore: &Path) -> Place {
        Place { path: with_ending(keystore, ".pkcs11") }
    }

    pub(super) fn mark(&self) -> Mark {
        mark(&self.path)
    }

    /// What lies there; `None` where nothing does.
    ///
    /// # Errors
    /// `CKR_DEVICE_ERROR` for a file that cannot be read, or is none of ours.
    pub(super) fn read(&self) -> Result<Option<Content>> {
        let bytes = match fs::metadata(&self.path).and_then(|data| {
            if data.len() > LEN_MAX { Err(io::Error::from(ErrorKind::FileTooLarge)) } else { fs::read(&self.path) }
        }) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(_) => return fail(CKR_DEVICE_ERROR),
        };
        let content: Content = serde_json::from_slice(&bytes).map_err(|_| Rv(CKR_DEVICE_ERROR))?;
        if content.format == FORMAT { Ok(Some(content)) } else { fail(CKR_DEVICE_ERROR) }
    }

    /// Changes what lies there; what `change` fails at is not written.
    ///
    /// # Errors
    /// `CKR_TOKEN_WRITE_PROTECTED` without leave; `CKR_DEVICE_MEMORY` on a full disk; `CKR_DEVICE_ERROR`; those of `change`.
    pub(super) fn change<T>(&self, change: impl FnOnce(Option<Content>) -> Result<(Content, T)>) -> Result<T> {
        let _lock = self.lock()?;
        let (content, answer) = change(self.read()?)?;
        self.write(&content).map_err(|error| io_error(&error))?;
        Ok(answer)
    }

    /// Held until it is dropped; other processes wait.
    fn lock(&self) -> Result<File> {
        let path = with_ending(&self.path, ".lock");
        let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
        let file = opened.map_err(|error| io_error(&error))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|error| io_error(&error.into()))?;
        Ok(file)
    }

    fn write(&self, content: &Content) -> io::Result<()> {
        let draft = with_ending(&self.path, ".new");
        let bytes = serde_json::to_vec_pretty(content)?;
        let written = (|| {
            let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&draft)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&draft, &self.path)
        })();
        if written.is_err() {
            // The old file stands; what there is of the new one helps nobody.
            let _ = fs::remove_file(&draft);
            return written;
        }
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }
}

/// A path with more at its end.
pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
