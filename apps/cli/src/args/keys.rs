//! What can be said to `keys`, and where a command finds its keystore.

use std::path::PathBuf;

use ciphermill_contract::Suite;
use clap::{Args, Subcommand, ValueHint};

/// Where the keystore is and what opens it.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct KeystoreArgs {
    /// The keystore file [default: from ciphermill.toml, else in the user's data folder].
    #[arg(long, value_name = "FILE", env = "CIPHERMILL_KEYSTORE", value_hint = ValueHint::FilePath)]
    pub keystore: Option<PathBuf>,

    /// Open the keystore with the 32-byte key in this file instead of a passphrase.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "master_key_env")]
    pub master_key_file: Option<PathBuf>,

    /// Open the keystore with the key in this environment variable instead of a passphrase.
    #[arg(long, value_name = "VAR")]
    pub master_key_env: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a new random key, and the keystore if there is none.
    #[command(after_help = "\
Examples:
  ciphermill keys generate customer-data
  ciphermill keys generate tokens --suite hmac-sha256 --description 'customer tokens'")]
    Generate {
        /// The key's name.
        name: String,
        /// Make a key for this suite [default: a 32-byte key that `protect` derives column keys from].
        #[arg(long, value_name = "SUITE")]
        suite: Option<Suite>,
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
    Rotate {
        /// The key's name.
        name: String,
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
    /// Bring in a key from a file: raw bytes, or hex with --hex. The file is not changed.
    #[command(after_help = "\
A key never stands on a command line.

Examples:
  ciphermill keys import legacy --file legacy.key
  head -c 64 hex.txt | ciphermill keys import legacy --file - --hex")]
    Import {
        /// The key's name.
        name: String,
        /// The file, `-` for standard input.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// The file holds hexadecimal digits.
        #[arg(long)]
        hex: bool,
        /// Allow only this suite.
        #[arg(long, value_name = "SUITE")]
        suite: Option<Suite>,
        /// What the key is for.
        #[arg(long, default_value = "")]
        description: String,
        #[command(flatten)]
        keystore: KeystoreArgs,
    },
    /// Change what opens the keystore. Keys stay as they are.
    Passwd {
        /// The new master key is in this file instead of a passphrase.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        new_master_key_file: Option<PathBuf>,
        #[command(flatten)]
        keystore: KeystoreArgs,
    },
}
