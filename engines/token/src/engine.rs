//! The engine: what a token claims, and its queues.

use core::fmt;
use std::sync::Arc;

use ciphermill_contract::error::FaultKind;
use ciphermill_contract::suite::{SignPadding, Signature};
use ciphermill_contract::{
    Capability, CheckedBatch, Engine, EngineInfo, EngineKind, EngineQueue, Error, KeyForm, KeyMaterial, OpBuffers,
    OpStatus, PreparedKey, QueueHint, Result, Suite,
};
use ciphermill_pairs::padding::digest_info;
use cryptoki_sys::{CK_RSA_PKCS_PSS_PARAMS, CK_ULONG, CKM_ECDSA, CKM_RSA_PKCS, CKM_RSA_PKCS_PSS};

use crate::capabilities;
use crate::digest;
use crate::key::TokenKey;
use crate::token::{Failure, Opening, Token, TokenError, padded};

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
        let call = |code| TokenError::Call(code);
        let (capabilities, version) = {
            let _turn = token.module().turn();
            let slot = token.slot().map_err(call)?;
            let info = token.module().token_info(slot).map_err(call)?;
            let model = String::from_utf8_lossy(padded(&info.model)).into_owned();
            let firmware = info.firmwareVersion;
            let version = format!("{model} {}.{}", firmware.major, firmware.minor);
            (capabilities::capabilities(token.module(), slot).map_err(call)?, version)
        };
        token.with(|_| Ok(())).map_err(|failure| match failure {
            Failure::Call(code) => TokenError::Call(code),
            Failure::Wrong | Failure::Key(_) => TokenError::Call(cryptoki_sys::CKR_GENERAL_ERROR),
        })?;
        let info =
            EngineInfo { name: token.name(), kind: EngineKind::Token, version, parallelism: 1, kernels: Vec::new() };
        Ok(TokenEngine { token: Arc::new(token), info, capabilities })
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
        let suite = batch.suite();
        let Suite::Sign(signature) = suite else {
            batch.replace_status(|status| status.is_pending(), OpStatus::EngineFault);
            return;
        };
        batch.process(|buffers| {
            let key = buffers.key.and_then(|key| key.state_for::<TokenKey>(suite.into()));
            match key.map(|key| sign(key, signature, buffers)) {
                Some(Ok(())) => OpStatus::Done,
                _ => OpStatus::EngineFault,
            }
        });
    }
}

/// One signature. A token that writes another length than the suite's has not made one.
fn sign(key: &TokenKey, signature: Signature, buffers: &mut OpBuffers<'_>) -> core::result::Result<(), Failure> {
    let len = signature.len();
    let (mechanism, mut parameters, data) = mechanism(signature, buffers.input).ok_or(Failure::Wrong)?;
    let room = buffers.tag.get_mut(..len).ok_or(Failure::Wrong)?;
    let written = key.token().with(|connection| {
        let handle = key.at(connection)?;
        Ok(connection.session.sign((mechanism, parameters.as_mut()), handle, &data, room)?)
    })?;
    if written != len {
        return Err(Failure::Wrong);
    }
    buffers.tag_written = len;
    Ok(())
}

/// The mechanism, its parameters, and what the token is given: a digest, or a `DigestInfo`.
fn mechanism(signature: Signature, input: &[u8]) -> Option<(CK_ULONG, Option<CK_RSA_PKCS_PSS_PARAMS>, Vec<u8>)> {
    match signature {
        Signature::Rsa(_, SignPadding::Pkcs1, digest) => {
            let info = [digest_info(digest)?, &digest::of(digest, input)?].concat();
            Some((CKM_RSA_PKCS, None, info))
        }
        Signature::Rsa(_, SignPadding::Pss, digest) => {
            let names = digest::mechanisms(digest)?;
            let salt = digest.len() as CK_ULONG;
            let parameters = CK_RSA_PKCS_PSS_PARAMS { hashAlg: names.digest, mgf: names.mask, sLen: salt };
            Some((CKM_RSA_PKCS_PSS, Some(parameters), digest::of(digest, input)?))
        }
        Signature::Ecdsa(curve) => Some((CKM_ECDSA, None, digest::of(curve.digest(), input)?)),
        // Of a longer digest the leftmost bits, as many as the order has (FIPS 186-5, 6.4.1); tokens may refuse to cut it.
        Signature::EcdsaDigest(curve) => {
            let len = input.len().min(curve.order_len());
            Some((CKM_ECDSA, None, input.get(..len)?.to_vec()))
        }
        _ => None,
    }
}
