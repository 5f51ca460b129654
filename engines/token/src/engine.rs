//! The engine: what a token claims, and its queues.

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{
    Capability, CheckedBatch, Direction, Engine, EngineInfo, EngineKind, EngineQueue, Error, KeyForm, KeyMaterial,
    OpStatus, PreparedKey, QueueHint, Refusal, Result, Suite, capability,
};

use crate::capabilities;
use crate::failure::Failure;
use crate::inventory::{self, Inventory};
use crate::key::TokenKey;
use crate::operation;
use crate::token::{Opening, Token, TokenError, padded};

/// A token. It can fail and may hang: a mill runs it by threads of their own.
pub struct TokenEngine {
    token: Arc<Token>,
    info: EngineInfo,
    capabilities: Vec<Capability>,
}

impl TokenEngine {
    /// Loads the module, finds the token and logs in.
    ///
    /// # Errors
    /// [`TokenError`] when the module does not load, the token is not there, or says no.
    pub fn open(opening: Opening) -> core::result::Result<TokenEngine, TokenError> {
        let token = Token::open(opening)?;
        let (capabilities, version) = token
            .with(|connection| {
                let slot = token.slot()?;
                let info = token.module().token_info(slot)?;
                let model = String::from_utf8_lossy(padded(&info.model)).into_owned();
                let firmware = info.firmwareVersion;
                let version = format!("{model} {}.{}", firmware.major, firmware.minor);
                Ok((capabilities::capabilities(token.module(), slot, &connection.session)?, version))
            })
            .map_err(of_failure)?;
        let (name, parallelism) = (token.name(), token.sessions());
        let info = EngineInfo { name, kind: EngineKind::Token, version, parallelism, kernels: Vec::new() };
        Ok(TokenEngine { token: Arc::new(token), info, capabilities })
    }
}

impl TokenEngine {
    /// What the token has.
    ///
    /// # Errors
    /// [`TokenError`] when the token is not there, says no, or a call fails.
    pub fn inventory(&self) -> core::result::Result<Inventory, TokenError> {
        self.token.with(|connection| Ok(inventory::list(&connection.session)?)).map_err(of_failure)
    }

    /// Closes the token's sessions; operations fail from now on.
    pub fn close(&self) {
        self.token.close();
    }

    /// What a secret key by reference is known again by.
    pub(crate) fn fingerprint<'k>(&self, key: &'k PreparedKey, suite: Suite) -> Option<&'k [u8]> {
        key.state_for::<TokenKey>(suite.into())?.fingerprint()
    }
}

fn of_failure(failure: Failure) -> TokenError {
    match failure {
        Failure::Call(code) => TokenError::Call(code),
        Failure::Wrong | Failure::Key(_) => TokenError::Call(cryptoki_sys::CKR_GENERAL_ERROR),
    }
}

impl Engine for TokenEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        let is_claimed = [Direction::Encrypt, Direction::Decrypt]
            .iter()
            .any(|direction| capability::find(&self.capabilities, suite, *direction).is_some());
        if !is_claimed {
            return Err(Error::Refused(Refusal::EngineUnavailable(self.info.name.to_owned())));
        }
        if key.form != KeyForm::Reference {
            suite.check_key(key)?;
        }
        let made = match TokenKey::new(&self.token, key, suite) {
            // A session that was lost is found out by being used: once more in a new one.
            Err(Failure::Call(_)) => TokenKey::new(&self.token, key, suite),
            made => made,
        };
        made.map(|key| PreparedKey::for_suite(suite, key)).map_err(|failure| failure.error(self.info.name, suite))
    }

    fn public_half<'k>(&self, key: &'k PreparedKey, suite: Suite) -> Option<&'k [u8]> {
        key.state_for::<TokenKey>(suite.into())?.public_half()
    }

    fn takes_key_bytes(&self) -> bool {
        self.token.takes_copies()
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.token.patience())
    }

    fn queue(&self, _hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        if self.capabilities.is_empty() {
            return Err(Error::fault(self.info.name, FaultKind::Unavailable));
        }
        Ok(Box::new(TokenQueue))
    }
}

impl fmt::Debug for TokenEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenEngine").field("token", &self.token).finish_non_exhaustive()
    }
}

/// All that an operation needs is with its key.
struct TokenQueue;

impl EngineQueue for TokenQueue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let (suite, direction) = (batch.suite(), batch.direction());
        batch.process(|buffers| {
            let key = buffers.key.and_then(|key| key.state_for::<TokenKey>(suite.into()));
            key.map_or(OpStatus::EngineFault, |key| operation::run(key, suite, direction, buffers))
        });
    }
}
