//! What can be said to `keys`, and where a command finds its keystore.

use std::path::PathBuf;

use ciphermill_contract::Suite;
use clap::{Args, Subcommand, ValueEnum, ValueHint};

/// Where the keystore is and what opens it: a passphrase that is typed or in CIPHERMILL_PASSPHRASE, unless one of these
/// says otherwise.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct KeystoreArgs {
    /// The keystore file [default: from ciphermill.toml, else in the user's data folder].
    #[arg(long, value_name = "FILE", env = "CIPHERMILL_KEYSTORE", value_hint = ValueHint::FilePath)]
    pub keystore: Option<PathBuf>,

    /// Open the keystore with the passphrase in this file, instead of one that is typed or in the environment variable
    /// CIPHERMILL_PASSPHRASE.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["master_key_file", "master_key_env"])]
    pub passphrase_file: Option<PathBuf>,

    /// Open the keystore with the 32-byte key in this file instead of a passphrase.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "master_key_env")]
    pub master_key_file: Option<PathBuf>,

    /// Open the keystore with the key in this environment variable instead of a passphrase.
    #[arg(long, value_name = "VAR")]
    pub master_key_env: Option<String>,
}

/// What opens a backup.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct BackupArgs {
    /// The backup's passphrase is in this file [default: what opens the keystore opens the backup].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "backup_master_key_file")]
    pub backup_passphrase_file: Option<PathBuf>,

    /// The backup's 32-byte key is in this file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub backup_master_key_file: Option<PathBuf>,
}

/// What a public key looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PublicForm {
    /// SubjectPublicKeyInfo in PEM.
    Pem,
    /// SubjectPublicKeyInfo in DER.
    Der,
    /// A line for `authorized_keys`: RSA, ECDSA and Ed25519.
    Ssh,
    /// A JSON Web Key: RSA, curves, Ed25519, X25519 and X448.
    Jwk,
}

#[derive(Debug, Subcommand)]
#[command(after_help = "\
A new passphrase has at least 15 characters, five of them different. It is typed, or comes from \
the environment variable CIPHERMILL_PASSPHRASE or with --passphrase-file FILE. Files with secrets \
must be readable by their owner only.

Listing, protecting and unprotecting only read the keystore, also from a read-only folder, any \
number at a time. Commands that change it wait for each other, up to 30 seconds. A failed change \
leaves the keystore as it was; one that says `the change is in effect` has been made.")]
pub(crate) enum KeysCommand {
    /// Make a new random key or key pair, and the keystore if there is none.
    #[command(after_help = "\
Examples:
  ciphermill keys generate customer-data
  ciphermill keys generate tokens --suite hmac-sha256 --description 'customer tokens'
  ciphermill keys generate host --suite ecdsa-p256
  ciphermill keys generate nightly --passphrase-file /run/secrets/passphrase")]
    Generate {
        /// The key's name.
        name: String,
        /// Make a key for this suite [default: a 32-byte key that `protect` derives column keys from].
        #[arg(long, value_name = "SUITE")]
        suite: Option<Suite>,
        /// The key may be copied to a token for good (`tokens clone`), or be exported wrapped under another key.
        #[arg(long, requires = "suite")]
        exportable: bool,
        /// What the key is for.
        #[arg(long, default_value = "")]
        description: String,
        #[command(flatten)]
        keystore: KeystoreArgs,
    },
    /// List keys and their versions. Never shows a key.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        keystore: KeystoreArgs,
    },
    /// Make a new version of a key; older versions still decrypt.
    #[command(after_help = "\
Keys and key pairs are made anew, or come from a file, as with `keys import`.

Examples:
  ciphermill keys rotate customer-data
  ciphermill keys rotate signer --file signer-2027.pem")]
    Rotate {
        /// The key's name.
        name: String,
        /// Take the new version from this file instead of making it, `-` for standard input.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: Option<PathBuf>,
        /// The file holds hexadecimal digits.
        #[arg(long, requires = "file")]
        hex: bool,
        #[command(flatten)]
        keystore: KeystoreArgs,
    },
    /// Destroy a version of a key. What it protected is lost.
    Destroy {
        /// The key's name.
        name: String,
        /// The version.
        #[arg(long)]
        version: u32,
        /// Needed, since there is no way back.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        keystore: KeystoreArgs,
    },
    /// Bring in a key from a file. The file is not changed.
    #[command(after_help = "\
A key never stands on a command line. A secret key is raw bytes, or hexadecimal digits with --hex; \
one that column keys are derived from has at least 16 bytes, better 32. A private key is PKCS#8 and \
a public key SubjectPublicKeyInfo, in PEM or DER; the private keys of Ed25519, X25519, ML-KEM and \
ML-DSA may also be raw seeds. Key pairs need --suite.

Examples:
  ciphermill keys import legacy --file legacy.key
  head -c 64 hex.txt | ciphermill keys import legacy --file - --hex
  ciphermill keys import signer --file signer.pem --suite ecdsa-p256")]
    Import {
        /// The key's name.
        name: String,
        /// The file, `-` for standard input.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// The file holds hexadecimal digits.
        #[arg(long)]
        hex: bool,
        /// Allow only this suite [default: deriving column keys].
        #[arg(long, value_name = "SUITE")]
        suite: Option<Suite>,
        /// The key may be copied to a token for good (`tokens clone`), or be exported wrapped under another key.
        #[arg(long, requires = "suite")]
        exportable: bool,
        /// What the key is for.
        #[arg(long, default_value = "")]
        description: String,
        #[command(flatten)]
        keystore: KeystoreArgs,
    },
    /// Print the public key of a key pair.
    #[command(after_help = "\
Examples:
  ciphermill keys public signer
  ciphermill keys public host --format ssh >> authorized_keys
  ciphermill keys public tokens --format jwk")]
    Public {
        /// The key's name.
        name: String,
        /// The version [default: the current one].
        #[arg(long)]
        version: Option<u32>,
        /// What the key pair is for, where its policy allows several kinds.
        #[arg(long, value_name = "SUITE")]
        suite: Option<Suite>,
        /// What it looks like.
        #[arg(long, value_enum, default_value_t = PublicForm::Pem, value_name = "FORM")]
        format: PublicForm,
        #[command(flatten)]
        keystore: KeystoreArgs,
    },
    /// Write all keys into a new file, which is a keystore of its own.
    #[command(after_help = "\
The backup has a master key of its own. It is opened by what opens the keystore, unless another \
secret is named; it can be listed and used with --keystore FILE. A file that exists is not replaced.

Examples:
  ciphermill keys backup /media/safe/keys-2027-01
  ciphermill keys backup keys-2027-01 --backup-passphrase-file backup.passphrase")]
    Backup {
        /// The file to write.
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        #[command(flatten)]
        backup: BackupArgs,
        #[command(flatten)]
        keystore: KeystoreArgs,
    },
    /// Take over from a backup what the keystore lacks; makes the keystore if there is none.
    #[command(after_help = "\
What the keystore has stays as it is: a version that was destroyed since stays destroyed, a newer \
one stays current. Nothing is taken over when the backup holds another key under the same name and \
version.

Example:
  ciphermill keys restore /media/safe/keys-2027-01")]
    Restore {
        /// The backup.
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        #[command(flatten)]
        backup: BackupArgs,
        #[command(flatten)]
        keystore: KeystoreArgs,
    },
    /// Change what opens the keystore. Keys stay as they are.
    Passwd {
        /// The new passphrase is in this file instead of typed.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "new_master_key_file")]
        new_passphrase_file: Option<PathBuf>,
        /// The new master key is in this file instead of a passphrase.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        new_master_key_file: Option<PathBuf>,
        #[command(flatten)]
        keystore: KeystoreArgs,
    },
}
