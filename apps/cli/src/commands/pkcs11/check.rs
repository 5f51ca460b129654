//! `ciphermill pkcs11 check`: what the module is, which tokens it has, and whether it computes what it should.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use ciphermill_cli::whole;
use cryptoki::context::Pkcs11;
use cryptoki::slot::Slot;

use super::{named_by, open};
use crate::output::{printable, say, table};

/// Checks the module that was named, or else the one that a file names.
pub(super) fn run(file: &Path, named: Option<&Path>) -> anyhow::Result<ExitCode> {
    let module = match named {
        Some(path) => path.to_owned(),
        None => named_by(file)?,
    };
    let module =
        std::fs::canonicalize(&module).with_context(|| format!("cannot read the module {}", module.display()))?;
    list(&module).with_context(|| module.display().to_string())?;
    try_out(&module)
}

/// Shows the module and the tokens that it has for this user.
fn list(module: &Path) -> anyhow::Result<()> {
    let opened = open(module)?;
    let info = opened.get_library_info()?;
    let slots = opened.get_all_slots()?;
    let mut rows = table(&["slot", "token", "mechanisms", "state"], 4);
    for slot in &slots {
        rows.add_row(row(&opened, *slot)?);
    }
    say(format!(
        "{}: {} {}, PKCS#11 {}; its tokens are\n{rows}",
        module.display(),
        printable(info.library_description().trim_end()),
        info.library_version(),
        info.cryptoki_version()
    ))?;
    opened.finalize().context("cannot be finalised")
}

/// A slot's line.
fn row(opened: &Pkcs11, slot: Slot) -> anyhow::Result<[String; 4]> {
    let token = opened.get_token_info(slot)?;
    let state = match (token.token_initialized(), token.user_pin_initialized()) {
        (false, _) => "not initialised: C_InitToken makes it",
        (true, false) => "without a PIN of its user",
        (true, true) if token.user_pin_locked() => "locked",
        (true, true) => "in use",
    };
    let mechanisms = opened.get_mechanism_list(slot)?.len().to_string();
    Ok([slot.id().to_string(), printable(token.label().trim_end()), mechanisms, state.to_owned()])
}

/// Has another process try the module with a token of its own: tokens are named by the environment, which is not to be changed here, and
/// what might end that process is to be said by this one.
fn try_out(module: &Path) -> anyhow::Result<ExitCode> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let configuration = folder.path().join("pkcs11.toml");
    let token = folder.path().join("token.keystore");
    let token = token.to_str().context("the temporary folder has a name that is no text")?;
    let text = toml::to_string(&toml::Table::from_iter([("keystores".to_owned(), vec![token.to_owned()].into())]))?;
    whole::write(&configuration, text.as_bytes())?;
    let program = env::current_exe().context("cannot tell where this program lies")?;
    let status = Command::new(program)
        .args(["pkcs11", "trial", "--module"])
        .arg(module)
        .env("CIPHERMILL_PKCS11_CONF", &configuration)
        .env_remove("CIPHERMILL_PKCS11_KEYSTORES")
        .status()
        .context("cannot start this program once more")?;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(ExitCode::SUCCESS),
        // It has said what is wrong.
        (Some(_), _) => Ok(ExitCode::FAILURE),
        (None, signal) => {
            bail!("{}: a process that used it was ended by signal {}", module.display(), signal.unwrap_or(0))
        }
    }
}
