//! How the keystore's master secret comes in: a key file, an environment variable, or a passphrase that is typed.
//! Never on the command line.

use std::io::{IsTerminal, stdin};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ciphermill_keys::keystore::{Keystore, MasterSecret};
use zeroize::Zeroizing;

use crate::args::KeystoreArgs;
use crate::config::Config;

/// The environment variable that a passphrase may come from where nobody can type one.
const PASSPHRASE_VARIABLE: &str = "CIPHERMILL_PASSPHRASE";

/// The keystore file that arguments and configuration name.
pub(crate) fn keystore_path(args: &KeystoreArgs, config: &Config) -> Result<PathBuf> {
    match &args.keystore {
        Some(path) => Ok(path.clone()),
        None => config.keystore_path(),
    }
}

/// Opens the keystore.
pub(crate) fn open(args: &KeystoreArgs, config: &Config) -> Result<Keystore> {
    let path = keystore_path(args, config)?;
    if !path.exists() {
        bail!("there is no keystore at {}; `ciphermill keys generate NAME` makes one", path.display());
    }
    let secret = master_secret(args, false)?;
    Ok(Keystore::open(&path, &secret)?)
}

/// Opens the keystore, or makes it.
pub(crate) fn open_or_create(args: &KeystoreArgs, config: &Config) -> Result<(Keystore, bool)> {
    let path = keystore_path(args, config)?;
    if path.exists() {
        return Ok((open(args, config)?, false));
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let secret = master_secret(args, true)?;
    Ok((Keystore::create(&path, &secret)?, true))
}

fn master_secret(args: &KeystoreArgs, new: bool) -> Result<MasterSecret> {
    if let Some(path) = &args.master_key_file {
        return Ok(MasterSecret::KeyFile(path.clone()));
    }
    if let Some(variable) = &args.master_key_env {
        return Ok(MasterSecret::Environment(variable.clone()));
    }
    Ok(MasterSecret::Passphrase(passphrase(new, "Passphrase of the keystore: ")?))
}

/// A secret that replaces the present one.
pub(crate) fn new_secret(key_file: Option<&Path>) -> Result<MasterSecret> {
    match key_file {
        Some(path) => Ok(MasterSecret::KeyFile(path.to_owned())),
        None => Ok(MasterSecret::Passphrase(typed(true, "New passphrase: ")?)),
    }
}

fn passphrase(new: bool, prompt: &str) -> Result<Zeroizing<String>> {
    match std::env::var(PASSPHRASE_VARIABLE) {
        Ok(passphrase) if passphrase.is_empty() => bail!("{PASSPHRASE_VARIABLE} is empty"),
        Ok(passphrase) => Ok(Zeroizing::new(passphrase)),
        Err(_) => typed(new, prompt),
    }
}

fn typed(new: bool, prompt: &str) -> Result<Zeroizing<String>> {
    if !stdin().is_terminal() {
        bail!("nobody is there to type a passphrase; use --master-key-file, --master-key-env or {PASSPHRASE_VARIABLE}");
    }
    let ask = |prompt: &str| rpassword::prompt_password(prompt).map(Zeroizing::new).context("cannot read a passphrase");
    let first = ask(prompt)?;
    if first.is_empty() {
        bail!("the passphrase is empty");
    }
    if new && *ask("Once more: ")? != *first {
        bail!("the two passphrases differ");
    }
    Ok(first)
}
