//! What can go wrong with a keystore file.

use core::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a keystore operation was not carried out, or how far. After every error the keystore is what it was, in memory and
/// on disk, except after [`KeystoreError::NotDurable`]: the change is in effect then. No variant carries key bytes, passphrases or what was decrypted.
#[derive(Debug)]
#[non_exhaustive]
pub enum KeystoreError {
    /// A file could not be read.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A change could not be written. Nothing has changed.
    NotChanged {
        /// The keystore, or the draft beside it.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A change is in effect, but the folder could not be synced: a power failure might undo it.
    NotDurable {
        /// The keystore.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has changed the keystore's secret or master key since it was opened. Nothing has changed by this
    /// one; open the keystore again.
    Changed {
        /// The keystore.
        path: PathBuf,
    },
    /// The passphrase, key file or variable is not the one that this keystore was closed with.
    WrongSecret,
    /// The keystore is opened by another kind of secret.
    WrongSecretKind {
        /// What opens it: `a passphrase`, or `a key of 32 bytes` (from a file or a variable).
        needs: &'static str,
    },
    /// The file is no keystore, or was cut short or altered.
    Damaged {
        /// The keystore.
        path: PathBuf,
        /// Where: the file, its header, or a record by name and version.
        what: String,
    },
    /// There is no such key, or no such version of it, or none that is current.
    NotFound {
        /// The key's name.
        name: String,
        /// The version asked for; none when the current one was.
        version: Option<u32>,
    },
    /// There is such a file or key already.
    Exists {
        /// The path, or the key's name.
        what: String,
    },
    /// A key file that others than its owner may read or write.
    InsecureKeyFile {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A key file or variable that holds no key of 32 bytes in a known form.
    BadSecret {
        /// The file or variable.
        source: String,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// Another process is changing the keystore.
    Locked {
        /// The keystore.
        path: PathBuf,
        /// How long was waited for it.
        waited: Duration,
    },
    /// The keystore was written by another version of this program.
    UnsupportedVersion {
        /// The format's version in the file.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// A key's name or description, or a parameter, breaks a rule.
    BadParameter {
        /// Which.
        what: &'static str,
        /// The rule.
        rule: &'static str,
    },
    /// The version is retired and the key's policy allows nothing but encryption, or the operation needs an active one.
    Retired {
        /// The key's name.
        name: String,
        /// The version.
        version: u32,
    },
    /// The version's bytes were destroyed.
    Destroyed {
        /// The key's name.
        name: String,
        /// The version.
        version: u32,
    },
    /// Keys of this kind are not made of random bytes alone; they have to be imported.
    CannotGenerate {
        /// The key's name.
        name: String,
    },
    /// A backup holds another key than the keystore under the same name and version.
    Conflict {
        /// The key's name.
        name: String,
        /// The version.
        version: u32,
    },
    /// The system's clock is before 1970, so that it cannot be written down when something was made.
    Clock,
    /// The system gave no random bytes.
    Entropy,
    /// The key table, or the memory for keys, refused.
    Table(ciphermill_contract::Error),
}

impl KeystoreError {
    pub(super) fn io(path: &Path, source: io::Error) -> KeystoreError {
        KeystoreError::Io { path: path.to_owned(), source }
    }

    pub(super) fn not_changed(path: &Path, source: io::Error) -> KeystoreError {
        KeystoreError::NotChanged { path: path.to_owned(), source }
    }

    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> KeystoreError {
        KeystoreError::Damaged { path: path.to_owned(), what: what.into() }
    }

    pub(super) fn not_found(name: &str, version: Option<u32>) -> KeystoreError {
        KeystoreError::NotFound { name: name.to_owned(), version }
    }
}

impl From<ciphermill_contract::Error> for KeystoreError {
    fn from(error: ciphermill_contract::Error) -> KeystoreError {
        KeystoreError::Table(error)
    }
}

impl fmt::Display for KeystoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeystoreError::Io { path, source } => write!(f, "{}: {source}", path.display()),
            KeystoreError::NotChanged { path, source } => {
                write!(f, "{}: nothing was changed: {source}", path.display())
            }
            KeystoreError::NotDurable { path, source } => write!(
                f,
                "{}: the change is in effect, but a power failure might undo it, since its folder was not synced: {source}",
                path.display()
            ),
            KeystoreError::Changed { path } => write!(
                f,
                "{}: nothing was changed: another process has changed what opens the keystore; try again",
                path.display()
            ),
            KeystoreError::WrongSecret => f.write_str("the passphrase or master key does not open this keystore"),
            KeystoreError::WrongSecretKind { needs } => write!(f, "this keystore is opened by {needs}"),
            KeystoreError::Damaged { path, what } => {
                write!(f, "{}: not a keystore, or damaged: {what}", path.display())
            }
            KeystoreError::NotFound { name, version: Some(version) } => {
                write!(f, "there is no version {version} of a key `{name}`")
            }
            KeystoreError::NotFound { name, version: None } => {
                write!(f, "there is no key `{name}` with an active version")
            }
            KeystoreError::Exists { what } => write!(f, "{what} exists already"),
            KeystoreError::InsecureKeyFile { path, mode } => write!(
                f,
                "{}: others than its owner may use this file (mode {mode:04o}); `chmod 600` it",
                path.display()
            ),
            KeystoreError::BadSecret { source, rule } => write!(f, "{source}: {rule}"),
            KeystoreError::Locked { path, waited } => write!(
                f,
                "{}: nothing was changed: another process has been changing the keystore for {} s",
                path.display(),
                waited.as_secs()
            ),
            KeystoreError::UnsupportedVersion { found, known } => {
                write!(f, "the keystore has format {found}; this program knows formats 1 to {known}")
            }
            KeystoreError::BadParameter { what, rule } => write!(f, "{what}: {rule}"),
            KeystoreError::Retired { name, version } => {
                write!(f, "version {version} of key `{name}` is retired: it serves decryption only")
            }
            KeystoreError::Destroyed { name, version } => {
                write!(f, "version {version} of key `{name}` has been destroyed")
            }
            KeystoreError::CannotGenerate { name } => {
                write!(f, "key `{name}` is of a kind that is not made here; give its next version from a file")
            }
            KeystoreError::Conflict { name, version } => {
                write!(
                    f,
                    "nothing was changed: version {version} of key `{name}` is another key here than in the backup"
                )
            }
            KeystoreError::Clock => f.write_str("the system's clock is before 1970; set it first"),
            KeystoreError::Entropy => f.write_str("the operating system gave no random bytes"),
            KeystoreError::Table(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for KeystoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            KeystoreError::Io { source, .. }
            | KeystoreError::NotChanged { source, .. }
            | KeystoreError::NotDurable { source, .. } => Some(source),
            KeystoreError::Table(error) => Some(error),
            _ => None,
        }
    }
}
