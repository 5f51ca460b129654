//! How the keystore's master secret comes in: a key file, an environment variable, a passphrase that is typed or in a
//! file. Never on the command line.

use std::io::{ErrorKind, IsTerminal, stdin};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ciphermill_keys::keystore::{Keystore, KeystoreError, MasterSecret, WaitPolicy};
use zeroize::Zeroizing;

use crate::args::{BackupArgs, KeystoreArgs};
use crate::config::Config;
use crate::output;

/// The environment variable that a passphrase may come from where nobody can type one.
const PASSPHRASE_VARIABLE: &str = "CIPHERMILL_PASSPHRASE";

/// A keystore, and what opened it.
pub(crate) struct Opened {
    pub keystore: Keystore,
    pub secret: MasterSecret,
    /// Whether it was made just now.
    pub is_new: bool,
}

/// The keystore file that arguments and configuration name.
pub(crate) fn keystore_path(args: &KeystoreArgs, config: &Config) -> Result<PathBuf> {
    match &args.keystore {
        Some(path) => Ok(path.clone()),
        None => config.keystore_path(),
    }
}

/// Opens the keystore. Nothing is written before it is changed.
pub(crate) fn open(args: &KeystoreArgs, config: &Config) -> Result<Keystore> {
    Ok(open_with_secret(args, config)?.keystore)
}

/// Opens the keystore, and says what opened it.
pub(crate) fn open_with_secret(args: &KeystoreArgs, config: &Config) -> Result<Opened> {
    let path = keystore_path(args, config)?;
    if !exists(&path)? {
        bail!("there is no keystore at {}; `ciphermill keys generate NAME` makes one", path.display());
    }
    let secret = master_secret(args, false)?;
    Ok(Opened { keystore: open_at(&path, &secret)?, secret, is_new: false })
}

/// Opens the keystore, or makes it.
pub(crate) fn open_or_create(args: &KeystoreArgs, config: &Config) -> Result<Opened> {
    open_or_create_under(args, config, ask(args, config, true)?)
}

/// What opens the keystore, or will when it is made; `confirm` has a passphrase for a new one typed twice.
pub(crate) fn ask(args: &KeystoreArgs, config: &Config, confirm: bool) -> Result<MasterSecret> {
    let is_new = !exists(&keystore_path(args, config)?)?;
    master_secret(args, confirm && is_new)
}

/// Opens the keystore with a secret, or makes it under that secret.
pub(crate) fn open_or_create_under(args: &KeystoreArgs, config: &Config, secret: MasterSecret) -> Result<Opened> {
    let path = keystore_path(args, config)?;
    if exists(&path)? {
        return Ok(Opened { keystore: open_at(&path, &secret)?, secret, is_new: false });
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.with_context(|| format!("cannot make {}", folder.display()))?;
    }
    match Keystore::create(&path, &secret) {
        Ok(mut keystore) => {
            keystore.set_wait(wait());
            Ok(Opened { keystore, secret, is_new: true })
        }
        // It was made; what is put into it says the same again if that is not durable either.
        Err(error @ KeystoreError::NotDurable { .. }) => {
            output::tell(format_args!("ciphermill: {error}"));
            Ok(Opened { keystore: open_at(&path, &secret)?, secret, is_new: true })
        }
        // Another process was faster.
        Err(KeystoreError::Exists { .. }) => Ok(Opened { keystore: open_at(&path, &secret)?, secret, is_new: false }),
        Err(error) => Err(error.into()),
    }
}

/// Opens a keystore by its name, and lets changes tell the user when they wait.
pub(crate) fn open_at(path: &Path, secret: &MasterSecret) -> Result<Keystore> {
    let mut keystore = Keystore::open(path, secret)?;
    keystore.set_wait(wait());
    Ok(keystore)
}

/// The secret of a backup, if it has one of its own.
pub(crate) fn of_backup(args: &BackupArgs) -> Result<Option<MasterSecret>> {
    match (&args.backup_passphrase_file, &args.backup_master_key_file) {
        (Some(path), _) => Ok(Some(MasterSecret::passphrase_file(path)?)),
        (None, Some(path)) => Ok(Some(MasterSecret::KeyFile(path.clone()))),
        (None, None) => Ok(None),
    }
}

/// A secret that replaces the present one.
pub(crate) fn new_secret(passphrase_file: Option<&Path>, key_file: Option<&Path>) -> Result<MasterSecret> {
    match (passphrase_file, key_file) {
        (Some(path), _) => Ok(MasterSecret::passphrase_file(path)?),
        (None, Some(path)) => Ok(MasterSecret::KeyFile(path.to_owned())),
        (None, None) => typed(true, "New passphrase: ", "--new-passphrase-file or --new-master-key-file"),
    }
}

fn wait() -> WaitPolicy {
    WaitPolicy { notice: Some(tell_of_waiting), ..WaitPolicy::default() }
}

fn tell_of_waiting(path: &Path, limit: Duration) {
    output::tell(format_args!(
        "ciphermill: waiting for another process that changes {}; gives up after {} s",
        path.display(),
        limit.as_secs()
    ));
}

/// Whether there is something of that name. That it cannot be known is an error, so that no second keystore is made.
fn exists(path: &Path) -> Result<bool> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot look for {}", path.display())),
    }
}

fn master_secret(args: &KeystoreArgs, new: bool) -> Result<MasterSecret> {
    if let Some(path) = &args.master_key_file {
        return Ok(MasterSecret::KeyFile(path.clone()));
    }
    if let Some(variable) = &args.master_key_env {
        return Ok(MasterSecret::Environment(variable.clone()));
    }
    if let Some(path) = &args.passphrase_file {
        return Ok(MasterSecret::passphrase_file(path)?);
    }
    match std::env::var(PASSPHRASE_VARIABLE) {
        Ok(passphrase) if passphrase.is_empty() => bail!("{PASSPHRASE_VARIABLE} is empty"),
        Ok(passphrase) => Ok(MasterSecret::passphrase(passphrase)),
        Err(std::env::VarError::NotUnicode(_)) => bail!("{PASSPHRASE_VARIABLE} is not text in UTF-8"),
        Err(std::env::VarError::NotPresent) => {
            let others = format!("--passphrase-file, --master-key-file, --master-key-env or {PASSPHRASE_VARIABLE}");
            typed(new, "Passphrase of the keystore: ", &others)
        }
    }
}

fn typed(new: bool, prompt: &str, others: &str) -> Result<MasterSecret> {
    if !stdin().is_terminal() {
        bail!("nobody is there to type a passphrase; use {others}");
    }
    let ask = |prompt: &str| rpassword::prompt_password(prompt).map(Zeroizing::new).context("cannot read a passphrase");
    let first = ask(prompt)?;
    if first.is_empty() {
        bail!("the passphrase is empty");
    }
    let secret = MasterSecret::Passphrase(first.clone());
    if new {
        // Before it is typed again.
        secret.check_new()?;
        if *ask("Once more: ")? != *first {
            bail!("the two passphrases differ");
        }
    }
    Ok(secret)
}
