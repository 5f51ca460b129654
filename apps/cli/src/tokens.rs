//! The configured tokens, opened: with the PIN from where the configuration says it is.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use ciphermill_contract::KeyForm;
use ciphermill_keys::keystore::{Keystore, MasterSecret};
use ciphermill_memory::SecretBytes;
use ciphermill_token::{Host, OpenToken, Opening, PinSource, TokenSection, pin_from_variable, pin_of};

use crate::args::KeystoreArgs;
use crate::config::Config;
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
    pub(crate) fn open(&mut self, section: &TokenSection) -> Result<OpenToken> {
        Ok(ciphermill_token::open(self.opening(section)?)?)
    }

    /// What a token is opened with.
    ///
    /// # Errors
    /// The PIN is not there.
    pub(crate) fn opening(&mut self, section: &TokenSection) -> Result<Opening> {
        let pin = self.pin(section)?;
        section.opening(self.config.folder(), pin, host)
    }

    fn pin(&mut self, section: &TokenSection) -> Result<Option<SecretBytes>> {
        let pin = match section.pin()? {
            PinSource::Nowhere => return Ok(None),
            PinSource::File(file) => from_file(&self.config.folder().join(file))?,
            PinSource::Variable(variable) => pin_from_variable(variable)?,
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
            Ok(pin_of(key.bytes)?)
        });
        pin.map_err(anyhow::Error::from).flatten().with_context(|| format!("pin_key: `{key}`"))
    }
}

/// The PIN in a file that others than its owner must not be able to read, as with a passphrase of the keystore.
pub(crate) fn from_file(path: &Path) -> Result<SecretBytes> {
    match MasterSecret::passphrase_file(path)? {
        MasterSecret::Passphrase(text) => pin_of(text.as_bytes()).map_err(anyhow::Error::from),
        MasterSecret::KeyFile(_) | MasterSecret::Environment(_) => unreachable!("a passphrase was read"),
    }
    .with_context(|| format!("pin_file: {}", path.display()))
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
