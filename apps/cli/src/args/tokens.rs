//! What can be said to `tokens`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::KeystoreArgs;

#[derive(Debug, Subcommand)]
#[command(after_help = "\
A PIN is never on the command line: it is in a file that its owner alone may read, in an environment variable, or a secret key of the \
keystore.")]
pub(crate) enum TokensCommand {
    /// Show the configured tokens and whether they open, or what a module has.
    #[command(after_help = "\
With --module the slots of any PKCS#11 module are shown, without a login; with --keys the keys of one of its tokens, after a login \
where a PIN is given. Public and private keys are told apart by their class; nothing secret is read.

Examples:
  ciphermill tokens list
  ciphermill tokens list --keys --json
  ciphermill tokens list --module /usr/lib/softhsm/libsofthsm2.so
  ciphermill tokens list --module hsm.so --label web --pin-file web.pin --keys")]
    List(TokensListArgs),
    /// Write a section for a token into the configuration file, once the token has opened.
    #[command(after_help = "\
The section is put behind what the file has. Nothing is written if the token does not open.

Examples:
  ciphermill tokens add hsm --module /usr/lib/softhsm/libsofthsm2.so --label web --pin-file web.pin
  ciphermill tokens add hsm --module hsm.so --slot 0 --pin-env HSM_PIN --copies")]
    Add(TokensAddArgs),
    /// Sign with every private key of a token, verify without it, and run known answers where keys may be copied.
    #[command(after_help = "\
Each RSA and ECDSA key signs a message, which the library engine verifies with the public half that the token has. The times are \
those of one signature each.

Examples:
  ciphermill tokens test
  ciphermill tokens test hsm --json")]
    Test(TokensTestArgs),
    /// Bring a private key to another token, never in clear, or from the keystore.
    #[command(after_help = "\
From a token to a token the key is wrapped by the one and unwrapped by the other, under an AES key that travels by RSA-OAEP. The key \
must be extractable there. From the keystore a key goes whose policy lets it be exported (`keys generate --exportable`). The copy has \
the same label and identifier and never leaves the target again. Both are tried before the command succeeds; a copy that signs \
otherwise is destroyed.

Examples:
  ciphermill tokens clone web --from hsm-1 --to hsm-2
  ciphermill tokens clone id:0a01 --from hsm-1 --to hsm-2
  ciphermill tokens clone --from-keystore signer --to hsm-2")]
    Clone(TokensCloneArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TokensListArgs {
    /// Show the slots of this module instead of the configured tokens.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub module: Option<PathBuf>,
    /// List the keys too: of all configured tokens, or of the module's token that --slot or --label names.
    #[arg(long)]
    pub keys: bool,
    #[command(flatten)]
    pub place: PlaceArgs,
    /// The module's token is opened with the PIN in this file.
    #[arg(long, value_name = "FILE", requires = "module", value_hint = ValueHint::FilePath)]
    pub pin_file: Option<PathBuf>,
    /// The module's token is opened with the PIN in this environment variable.
    #[arg(long, value_name = "VAR", requires = "module", conflicts_with = "pin_file")]
    pub pin_env: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Which of a module's tokens.
#[derive(Clone, Debug, Args)]
pub(crate) struct PlaceArgs {
    /// The slot that the token is in; modules may number slots anew when they are loaded.
    #[arg(long, value_name = "NUMBER", requires = "module", conflicts_with = "label")]
    pub slot: Option<u64>,
    /// The token's label.
    #[arg(long, value_name = "LABEL", requires = "module")]
    pub label: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TokensAddArgs {
    /// What the engine is called: a-z, 0-9, `-` and `_`.
    pub name: String,
    /// The vendor's PKCS#11 module.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub module: PathBuf,
    #[command(flatten)]
    pub place: PlaceArgs,
    /// The PIN is in this file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["pin_env", "pin_key"])]
    pub pin_file: Option<PathBuf>,
    /// The PIN is in this environment variable.
    #[arg(long, value_name = "VAR", conflicts_with = "pin_key")]
    pub pin_env: Option<String>,
    /// The PIN is this secret key of the keystore.
    #[arg(long, value_name = "NAME")]
    pub pin_key: Option<String>,
    /// Keys may be copied to the token for a session.
    #[arg(long)]
    pub copies: bool,
    /// The module is loaded into the programs that use it, instead of a process of its own.
    #[arg(long)]
    pub in_process: bool,
    /// Milliseconds that the token has for a call in a process of its own.
    #[arg(long, value_name = "MS")]
    pub patience_ms: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct TokensTestArgs {
    /// The tokens [default: all that are configured].
    #[arg(value_name = "TOKEN")]
    pub names: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TokensCloneArgs {
    /// The private key: its label, or `id:` and its identifier in hexadecimal digits.
    #[arg(required_unless_present = "from_keystore", requires = "from")]
    pub key: Option<String>,
    /// The token that has it.
    #[arg(long, value_name = "TOKEN", requires = "key")]
    pub from: Option<String>,
    /// The key of the keystore, instead of one of a token.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["key", "from"])]
    pub from_keystore: Option<String>,
    /// The token that gets it.
    #[arg(long, value_name = "TOKEN")]
    pub to: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub keystore: KeystoreArgs,
}
