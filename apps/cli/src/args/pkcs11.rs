//! What can be said to `pkcs11`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Where p11-kit looks for what an administrator has added: one file a module.
const FILE: &str = "/etc/pkcs11/modules/ciphermill.module";

#[derive(Debug, Subcommand)]
pub(crate) enum Pkcs11Command {
    /// Write the file by which p11-kit, and programs that go by it, find the module.
    #[command(after_help = "\
GnuTLS, Firefox's NSS by p11-kit-proxy, OpenSSH and others load every module that has such a file. Programs that want the \
module's own path get it from --print, or from `ciphermill pkcs11 check`.

The module's tokens are the keystores of ~/.config/ciphermill/pkcs11.toml or /etc/ciphermill/pkcs11.toml, or those that \
CIPHERMILL_PKCS11_KEYSTORES names; without any there is one, below ~/.local/share/ciphermill.

Examples:
  ciphermill pkcs11 install --print
  ciphermill pkcs11 install
  p11-kit list-modules")]
    Install(ModuleArgs),
    /// Remove the file that `install` wrote.
    #[command(after_help = "\
Tokens and their keys stay. Programs that have the module loaded keep it until they end.

Examples:
  ciphermill pkcs11 uninstall")]
    Uninstall {
        #[command(flatten)]
        place: ModulePlaceArgs,
    },
    /// Load the module as programs do, show its tokens, and try it with a token that is thrown away.
    #[command(after_help = "\
Tokens of yours are looked at and not changed. What the other token signs and encrypts is compared with published values, or \
verified without the module.

Examples:
  ciphermill pkcs11 check
  ciphermill pkcs11 check --module target/pkcs11/libciphermill-pkcs11.so")]
    Check(ModuleCheckArgs),
    /// Try the module in a process of its own, with the token that the environment names; `check` does that.
    #[command(hide = true)]
    Trial {
        /// The module.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        module: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ModulePlaceArgs {
    /// The module file of p11-kit, whose name ends in .module.
    #[arg(long, value_name = "FILE", default_value = FILE, value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ModuleArgs {
    #[command(flatten)]
    pub place: ModulePlaceArgs,
    /// The module [default: libciphermill-pkcs11.so beside this program, in ../lib or in ../pkcs11].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub module: Option<PathBuf>,
    /// Print the file, and write nothing.
    #[arg(long)]
    pub print: bool,
    /// Replace a file that `install` has not written.
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ModuleCheckArgs {
    #[command(flatten)]
    pub place: ModulePlaceArgs,
    /// Check this module, whatever the file says.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub module: Option<PathBuf>,
}
