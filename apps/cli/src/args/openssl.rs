//! What can be said to `openssl`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::KeystoreArgs;

/// Where the configuration goes that programs are pointed at.
const FILE: &str = "/etc/ssl/ciphermill.cnf";

#[derive(Debug, Subcommand)]
pub(crate) enum OpensslCommand {
    /// Write a configuration for OpenSSL that loads the provider beside what the machine's own says.
    #[command(after_help = "\
The machine's openssl.cnf is included, never changed: what it says of TLS, engines and other providers stays in force. \
OpenSSL's own program loads the new file before it is put into its place.

Programs read the file where the environment variable OPENSSL_CONF names it.

Examples:
  ciphermill openssl install --print
  ciphermill openssl install
  OPENSSL_CONF=/etc/ssl/ciphermill.cnf haproxy -f haproxy.cfg")]
    Install(InstallArgs),
    /// Remove the configuration that `install` wrote.
    #[command(after_help = "\
Programs that have the provider loaded keep it until they end.

Examples:
  ciphermill openssl uninstall")]
    Uninstall {
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Print a stand-in for a private key of the keystore, in PEM, for programs that read keys from files.
    #[command(after_help = "\
The file holds the key's name and no secret. Programs that load the provider find the keystore by `keystore` in its section of the \
configuration, which `install --keystore` writes, or by the environment variable CIPHERMILL_KEYSTORE. Keys of servers are for \
rsa-2048-raw (or another size), ecdsa-p256-digest (or another curve) or ed25519.

Examples:
  ciphermill keys import web --file server.key --suite rsa-2048-raw
  ciphermill openssl reference web > server-reference.key")]
    Reference {
        /// The key's name.
        name: String,
        /// Stay with this version [default: the current one, when the program starts].
        #[arg(long)]
        version: Option<u32>,
        #[command(flatten)]
        keystore: KeystoreArgs,
    },
    /// Load the provider as programs do, shake hands, and show which operations it does.
    #[command(after_help = "\
Keys are made for this and thrown away. Each operation is done by OpenSSL's own program, and by the provider's counts it is \
seen who did it.

Examples:
  ciphermill openssl check
  ciphermill openssl check --file target/openssl/openssl.cnf")]
    Check {
        #[command(flatten)]
        place: PlaceArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// The configuration for OpenSSL.
    #[arg(long, value_name = "FILE", default_value = FILE, value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    pub place: PlaceArgs,
    /// The provider [default: ciphermill.so beside this program, in ../lib or in ../openssl].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub module: Option<PathBuf>,
    /// The configuration to build upon [default: the machine's openssl.cnf, as `openssl version -d` tells].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub extends: Option<PathBuf>,
    /// Have programs load keys from this keystore, by `ciphermill:NAME` or a file of `ciphermill openssl reference`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub keystore: Option<PathBuf>,
    /// The keystore opens with the passphrase in this file [default: programs ask, or CIPHERMILL_PASSPHRASE says].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "keystore")]
    #[arg(conflicts_with = "master_key_file")]
    pub passphrase_file: Option<PathBuf>,
    /// The keystore opens with the 32-byte key in this file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "keystore")]
    pub master_key_file: Option<PathBuf>,
    /// Print the configuration, and write nothing.
    #[arg(long)]
    pub print: bool,
    /// Replace a file that `install` has not written.
    #[arg(long)]
    pub force: bool,
}
