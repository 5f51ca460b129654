//! OpenSSL as an engine: symmetric suites in two forms that differ in what is kept between operations, and public keys.

mod capabilities;
mod contexts;
mod library;
mod plan;
pub mod public;

pub use capabilities::CAPABILITIES;

use std::sync::Arc;

use ciphermill_contract::engine::Kernel;
use ciphermill_contract::error::{FaultKind, KeyProblem};
use ciphermill_contract::limits::SUITE_ORDINALS_MAX;
use ciphermill_contract::suite::BlockCipher;
use ciphermill_contract::{
    Capability, CheckedBatch, Direction, Engine, EngineInfo, EngineKind, EngineQueue, Error, KeyMaterial, OpStatus,
    PreparedKey, QueueHint, Result, Suite,
};
use zeroize::Zeroizing;

use self::library::Library;
use self::plan::{Contexts, Key, Plan};
use crate::Unavailable;
use crate::ops::{self, RawOp};
use crate::token::{Cells, QUEUES_MAX, Token};

/// What is kept between operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keying {
    /// Nothing of the key: every operation sets it (peer `openssl`). Digests take one call each, as `EVP_Digest`.
    PerOperation,
    /// A context for each key: an operation sets the IV (peer `openssl-context`).
    Kept,
}

impl Keying {
    /// The peer's name.
    pub const fn name(self) -> &'static str {
        match self {
            Keying::PerOperation => "openssl",
            Keying::Kept => "openssl-context",
        }
    }
}

/// Opens one of the two peers.
///
/// # Errors
/// A provider or an algorithm is missing.
pub fn open(keying: Keying) -> std::result::Result<Arc<dyn Engine>, Unavailable> {
    let engine = OpenSsl::new(keying).map_err(|why| Unavailable::absent(keying.name(), why))?;
    Ok(Arc::new(engine))
}

struct OpenSsl {
    info: EngineInfo,
    keying: Keying,
    shared: Arc<Shared>,
}

/// What engine and queues share: the algorithms, by the suite's ordinal.
struct Shared {
    library: &'static Library,
    plans: Vec<Option<Plan>>,
}

/// A key's bytes, and for [`Keying::Kept`] its contexts.
struct State {
    /// [`Suite::ordinal`] of what it was prepared for.
    ordinal: usize,
    bytes: Zeroizing<Vec<u8>>,
    cells: Option<Cells<Contexts>>,
}

impl OpenSsl {
    fn new(keying: Keying) -> std::result::Result<OpenSsl, String> {
        let library = Library::open()?;
        let mut plans: Vec<Option<Plan>> = (0..SUITE_ORDINALS_MAX).map(|_| None).collect();
        for &suite in CAPABILITIES.iter().flat_map(|capability| capability.suites) {
            plans[suite.ordinal()] = Some(Plan::new(library, suite, keying)?);
        }
        let info = EngineInfo {
            name: keying.name(),
            kind: EngineKind::Peer,
            version: Library::version(),
            parallelism: QUEUES_MAX,
            kernels: vec![Kernel { family: "all", name: "evp".to_owned() }],
        };
        Ok(OpenSsl { info, keying, shared: Arc::new(Shared { library, plans }) })
    }
}

impl Engine for OpenSsl {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        let plan = self.shared.plans[suite.ordinal()].as_ref();
        let Some(plan) = plan.filter(|_| suite.needs_key()) else {
            return Err(Error::key(suite, KeyProblem::Parameters));
        };
        let bytes = key_bytes(key, suite)?;
        // A first try, so that a key that OpenSSL refuses is refused here and not in a batch.
        if plan.contexts_with(Direction::Encrypt, &bytes).is_none() {
            contexts::forget_errors(self.shared.library);
            return Err(Error::fault(self.info.name, FaultKind::Call(0)));
        }
        let cells = (self.keying == Keying::Kept).then(Cells::new);
        Ok(PreparedKey::new(State { ordinal: suite.ordinal(), bytes, cells }))
    }

    fn queue(&self, _hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        let contexts = (0..2 * SUITE_ORDINALS_MAX).map(|_| None).collect();
        Ok(Box::new(Queue { shared: Arc::clone(&self.shared), token: Token::take()?, contexts }))
    }
}

/// Checks a key's form and length and gives it the length that OpenSSL wants.
fn key_bytes(key: &KeyMaterial<'_>, suite: Suite) -> Result<Zeroizing<Vec<u8>>> {
    suite.check_key(key)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(key.bytes.len() + 8));
    bytes.extend_from_slice(key.bytes);
    // Two-key triple DES (NIST SP 800-67): the first key is also the third.
    if matches!(suite, Suite::Cipher(BlockCipher::TripleDes, _)) && key.bytes.len() == 16 {
        bytes.extend_from_slice(&key.bytes[..8]);
    }
    Ok(bytes)
}

/// A queue: works on the caller's thread.
struct Queue {
    shared: Arc<Shared>,
    token: Token,
    /// Contexts without a key of their own, by suite and direction; made when first needed.
    contexts: Vec<Option<Box<Contexts>>>,
}

impl EngineQueue for Queue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let (ordinal, direction) = (batch.suite().ordinal(), batch.direction());
        let Queue { shared, token, contexts } = self;
        let place = &mut contexts[2 * ordinal + direction as usize];
        let Some(plan) = &shared.plans[ordinal] else {
            batch.replace_status(|status| status.is_pending(), OpStatus::EngineFault);
            return;
        };
        if place.is_none() {
            *place = plan.contexts(direction).map(Box::new);
        }
        let Some(own) = place.as_deref_mut() else {
            batch.replace_status(|status| status.is_pending(), OpStatus::EngineFault);
            return;
        };
        ops::for_each(batch, |op| {
            let status = one(plan, token, own, op, ordinal, direction).unwrap_or(OpStatus::EngineFault);
            if !status.is_done() {
                contexts::forget_errors(shared.library);
            }
            status
        });
    }
}

#[inline]
fn one(
    plan: &Plan,
    token: &mut Token,
    own: &mut Contexts,
    op: &mut RawOp<'_>,
    ordinal: usize,
    direction: Direction,
) -> Option<OpStatus> {
    let Some(key) = op.key else {
        return if plan.needs_key() { None } else { plan.work(own, Key { bytes: &[], kept: false }, op, direction) };
    };
    let state = key.state::<State>().filter(|state| state.ordinal == ordinal)?;
    match &state.cells {
        Some(cells) => {
            let contexts = cells.reach(token, direction, || plan.contexts_with(direction, &state.bytes))?;
            plan.work(contexts, Key { bytes: &state.bytes, kept: true }, op, direction)
        }
        None => plan.work(own, Key { bytes: &state.bytes, kept: false }, op, direction),
    }
}
