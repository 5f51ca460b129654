//! OpenSSL's public keys as an engine, the peer `openssl-public`.
//!
//! A key is parsed when it is prepared, and each queue keeps a context for it in each direction, in which algorithm, padding
//! and digest are set: an operation sets its input only. Of the ways that the library offers the fastest is taken, as measured
//! with OpenSSL 3.0: `EVP_PKEY` contexts for RSA, X25519, X448 and Ed25519; `ECDSA_do_sign` and `EC_POINT_mul` for the curves, which
//! spare an encoding of the signature and a key object for the peer's point; `DH_compute_key` for DH. Digests are the plain
//! functions, since `EVP_Digest` and `SHA256` look the algorithm up each time.
//!
//! In two things the peer does less than an engine has to, so that nothing slows it down that OpenSSL leaves to the caller.
//! Whether the numbers of an RSA key belong together is not examined. A public value of DH is examined for its range, not for
//! the subgroup of NIST SP 800-56A, 5.6.2.3.1: OpenSSL does that with a second exponentiation that takes longer than the first.
//! Figures of DH favour OpenSSL by that much.

mod capabilities;
mod dh;
mod ec;
mod edwards;
mod rsa;

use std::sync::Arc;

use ciphermill_contract::engine::Kernel;
use ciphermill_contract::error::{FaultKind, KeyProblem, Refusal};
use ciphermill_contract::suite::{Agreement, PublicEncryption, Signature};
use ciphermill_contract::{
    Capability, CheckedBatch, Direction, Engine, EngineInfo, EngineKind, EngineQueue, Error, KeyForm, KeyMaterial,
    OpBuffers, OpStatus, PreparedKey, QueueHint, Reason, Result, Suite, capability,
};
use openssl::error::ErrorStack;
use openssl::pkey::{Id, PKey, Private, Public};

pub use capabilities::CAPABILITIES;
pub(crate) use ec::{EcPair, with_digest};
pub(crate) use rsa::digest as sha256;

use super::library::Library;
use crate::token::{Cells, QUEUES_MAX, Token};

/// The peer's name.
pub const NAME: &str = "openssl-public";

/// What no agreement is made with.
pub(crate) const BAD_PUBLIC_VALUE: OpStatus = OpStatus::BadInput(Reason::BadPublicValue);

/// A parsed key of one suite.
trait Key: Send + Sync {
    /// A context that does one direction's operations under this key.
    fn context(&self, direction: Direction) -> std::result::Result<Box<dyn Context>, ErrorStack>;
}

/// A context of OpenSSL's in which all is set but the input.
trait Context: Send {
    /// Does one operation.
    fn run(&mut self, op: &mut OpBuffers<'_>) -> OpStatus;
}

/// What a key became: the key, and each queue's contexts.
struct State {
    suite: Suite,
    key: Box<dyn Key>,
    cells: Cells<Box<dyn Context>>,
}

/// A private key, where there is one, and the public key that belongs to it.
pub(crate) struct Pair {
    pub(crate) private: Option<PKey<Private>>,
    pub(crate) public: PKey<Public>,
}

impl Pair {
    /// Parses PKCS#8 or SubjectPublicKeyInfo DER, whose shape the contract has looked at.
    pub(crate) fn of_der(key: &KeyMaterial<'_>) -> std::result::Result<Pair, ErrorStack> {
        if key.form == KeyForm::Public {
            return Ok(Pair { private: None, public: PKey::public_key_from_der(key.bytes)? });
        }
        let private = PKey::private_key_from_pkcs8(key.bytes)?;
        let public = PKey::public_key_from_der(&private.public_key_to_der()?)?;
        Ok(Pair { private: Some(private), public })
    }
}

/// Stands where an operation needs a private key and there is none.
struct NoPrivateKey;

impl Context for NoPrivateKey {
    fn run(&mut self, _op: &mut OpBuffers<'_>) -> OpStatus {
        OpStatus::Refused(Reason::KeyUnsuitable)
    }
}

/// The peer.
struct OpensslPublic {
    info: EngineInfo,
}

/// Opens the peer; every OpenSSL that this crate is built with has its suites.
pub fn open() -> Arc<dyn Engine> {
    openssl::init();
    let info = EngineInfo {
        name: NAME,
        kind: EngineKind::Peer,
        version: Library::version(),
        parallelism: QUEUES_MAX,
        kernels: vec![Kernel { family: "", name: "libcrypto".to_owned() }],
    };
    Arc::new(OpensslPublic { info })
}

impl Engine for OpensslPublic {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        let claimed = |direction| capability::find(CAPABILITIES, suite, direction).is_some();
        if ![Direction::Encrypt, Direction::Decrypt].into_iter().any(claimed) {
            return Err(Error::Refused(Refusal::EngineUnavailable(NAME.to_owned())));
        }
        suite.check_key(key)?;
        let key = match suite {
            Suite::Sign(Signature::Rsa(size, padding, _)) => rsa::signature(key, suite, size, padding)?,
            Suite::PublicEncrypt(PublicEncryption::RsaOaep(..)) => rsa::encryption(key, suite)?,
            Suite::Sign(Signature::Ecdsa(curve)) => ec::signature(key, suite, curve)?,
            Suite::Agree(Agreement::Ecdh(curve)) => ec::agreement(key, suite, curve)?,
            Suite::Agree(Agreement::Dh(group)) => dh::agreement(key, suite, group)?,
            Suite::Agree(Agreement::X25519) => edwards::agreement(key, suite, Id::X25519)?,
            Suite::Agree(Agreement::X448) => edwards::agreement(key, suite, Id::X448)?,
            Suite::Sign(Signature::Ed25519) => edwards::signature(key, suite)?,
            _ => return Err(Error::key(suite, KeyProblem::Form)),
        };
        Ok(PreparedKey::new(State { suite, key, cells: Cells::new() }))
    }

    fn queue(&self, _hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        Ok(Box::new(Queue(Token::take()?)))
    }
}

/// What is said of a key that OpenSSL does not parse.
pub(crate) fn unreadable(suite: Suite) -> impl Fn(ErrorStack) -> Error {
    move |_| Error::key(suite, KeyProblem::Encoding)
}

/// What is said when OpenSSL fails at something that cannot be the key's fault.
pub(crate) fn fault(_: ErrorStack) -> Error {
    Error::fault(NAME, FaultKind::Call(0))
}

/// A queue: works on the caller's thread.
struct Queue(Token);

impl EngineQueue for Queue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let (suite, direction) = (batch.suite(), batch.direction());
        batch.process(|op| {
            let status = one(&mut self.0, op, suite, direction).unwrap_or(OpStatus::EngineFault);
            if !status.is_done() {
                // What OpenSSL noted about this failure must not be taken for the next one's.
                drop(ErrorStack::get());
            }
            status
        });
    }
}

fn one(token: &mut Token, op: &mut OpBuffers<'_>, suite: Suite, direction: Direction) -> Option<OpStatus> {
    let state = op.key?.state::<State>().filter(|state| state.suite == suite)?;
    let context = state.cells.reach(token, direction, || state.key.context(direction).ok())?;
    Some(context.run(op))
}
