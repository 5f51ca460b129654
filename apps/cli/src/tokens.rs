//! The configured tokens, opened: with the PIN from where the configuration says it is.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use ciphermill_contract::{Engine, KeyForm};
use ciphermill_keys::keystore::{Keystore, MasterSecret};
use ciphermill_memory::SecretBytes;
use ciphermill_token::{Host, Opening, Place};
use zeroize::Zeroizing;

use crate::args::KeystoreArgs;
use crate::config::Config;
use crate::config::token::{PinSource, TokenPlace, TokenSection};
use crate::secret;

/// The hidden command that runs a module in a process of its own.
const HOST_COMMAND: &str = "token-host";

/// The variable that names the keystore, as `--keystore` does.
const KEYSTORE_VARIABLE: &str = "CIPHERMILL_KEYSTORE";

/// Opens tokens one after the other. Their keystore is opened once, when the first of them has its PIN there.
pub(crate) struct Tokens<'a> {
    config: &'a Config,
    keystore: Option<Keystore>,
}

impl<'a> Tokens<'a> {
    pub(crate) fn new(config: &'a Config) -> Tokens<'a> {
        Tokens { config, keystore: None }
    }

    /// Finds a token and logs in.
    ///
    /// # Errors
    /// The PIN is not there, the module does not load, the token is not there or says no.
    pub(crate) fn open(&mut self, section: &TokenSection) -> Result<Arc<dyn Engine>> {
        Ok(ciphermill_token::open(self.opening(section)?)?)
    }

    /// What a token is opened with.
    ///
    /// # Errors
    /// The PIN is not there.
    pub(crate) fn opening(&mut self, section: &TokenSection) -> Result<Opening> {
        let pin = self.pin(section)?;
        let place = match section.place()? {
            TokenPlace::Slot(slot) => Place::Slot(slot),
            TokenPlace::Label(label) => Place::Label(label.to_owned()),
        };
        let module = self.config.folder().join(&section.module);
        let plain = Opening::new(name(&section.name), &module, place);
        let host = if section.process { Some(host()?) } else { None };
        let patience = section.patience()?.unwrap_or(plain.patience);
        let sessions = section.sessions()?.unwrap_or(plain.sessions);
        Ok(Opening { pin, copies: section.copies, sessions, host, patience, ..plain })
    }

    fn pin(&mut self, section: &TokenSection) -> Result<Option<SecretBytes>> {
        let pin = match section.pin()? {
            PinSource::Nowhere => return Ok(None),
            PinSource::File(file) => from_file(&self.config.folder().join(file))?,
            PinSource::Variable(variable) => from_variable(variable)?,
            PinSource::Key(key) => self.kept(key)?,
        };
        Ok(Some(pin))
    }

    fn kept(&mut self, key: &str) -> Result<SecretBytes> {
        if self.keystore.is_none() {
            self.keystore = Some(keystore(self.config).context("pin_key: the keystore does not open")?);
        }
        let keystore = self.keystore.as_ref().context("pin_key: there is no keystore")?;
        let pin = keystore.with_key(key, None, |_, key| {
            ensure!(key.form == KeyForm::Secret, "it is no secret key, whose bytes could be a PIN");
            pin_of(key.bytes)
        });
        pin.map_err(anyhow::Error::from).flatten().with_context(|| format!("pin_key: `{key}`"))
    }
}

/// An engine's name lives as long as the program: of each name there is one.
pub(crate) fn name(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = names.get(name) {
        return kept;
    }
    let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(kept);
    kept
}

/// The PIN in a file that others than its owner must not be able to read, as with a passphrase of the keystore.
pub(crate) fn from_file(path: &Path) -> Result<SecretBytes> {
    match MasterSecret::passphrase_file(path)? {
        MasterSecret::Passphrase(text) => pin_of(text.as_bytes()),
        MasterSecret::KeyFile(_) | MasterSecret::Environment(_) => unreachable!("a passphrase was read"),
    }
    .with_context(|| format!("pin_file: {}", path.display()))
}

/// The PIN in an environment variable.
pub(crate) fn from_variable(variable: &str) -> Result<SecretBytes> {
    let text = std::env::var_os(variable).with_context(|| format!("pin_env: {variable} is not set"))?;
    let bytes = Zeroizing::new(OsString::into_vec(text));
    pin_of(&bytes).with_context(|| format!("pin_env: {variable}"))
}

/// A PIN's bytes, without a line end behind them.
fn pin_of(bytes: &[u8]) -> Result<SecretBytes> {
    let bytes = bytes.strip_suffix(b"\n").map_or(bytes, |line| line.strip_suffix(b"\r").unwrap_or(line));
    ensure!(!bytes.is_empty(), "the PIN is empty");
    SecretBytes::from_slice(bytes).context("there is no locked memory for the PIN")
}

/// The keystore that PINs are in, opened by what opens it for the service, else as for every command.
fn keystore(config: &Config) -> Result<Keystore> {
    let named = std::env::var_os(KEYSTORE_VARIABLE).map(PathBuf::from);
    let (base, service) = (config.folder(), &config.service);
    let passphrase_file = service.passphrase_file.as_ref().map(|file| base.join(file));
    let master_key_file = service.master_key_file.as_ref().map(|file| base.join(file));
    secret::open(&KeystoreArgs { keystore: named, passphrase_file, master_key_file, master_key_env: None }, config)
}

/// This program, as the process that runs a module: itself, also where its file has been replaced meanwhile by another version's.
fn host() -> Result<Host> {
    let own = PathBuf::from("/proc/self/exe");
    let program =
        if own.exists() { own } else { std::env::current_exe().context("cannot tell where this program lies")? };
    Ok(Host { program, arguments: vec![HOST_COMMAND.to_owned()] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once() {
        let first = name("a token of this test");
        let again = ["a token", "of this test"].join(" ");
        assert!(std::ptr::eq(first, name(&again)));
        assert_ne!(first, name("another token of this test"));
    }

    #[test]
    fn a_line_end_is_no_part_of_a_pin() {
        for (text, pin) in [("1234\n", "1234"), ("1234\r\n", "1234"), (" 12\n34", " 12\n34")] {
            assert_eq!(&pin_of(text.as_bytes()).unwrap()[..], pin.as_bytes());
        }
        assert!(pin_of(b"").is_err() && pin_of(b"\n").is_err());
    }
}
