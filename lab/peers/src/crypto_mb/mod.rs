//! Intel's crypto_mb as an engine, the peer `crypto-mb`: public keys with eight requests in each call, on AVX-512 IFMA.
//!
//! The library is no part of this program. Whoever wants to compare with it builds it and names the file in the environment
//! variable [`VARIABLE`]; where that is not set, the peer is left out. It does arithmetic only: the adapter hashes, pads and
//! draws nonces, which the native loop does beforehand, so that the library's own time remains. Both convert keys when they are
//! prepared.
//!
//! Version 1.1 computes X25519 wrongly with public values that lie a few thousand below the prime: Wycheproof has some, nobody meets
//! one by chance, and the peer's answers are left as they are.
//!
//! In three things the peer does less than an engine of ours has to. RSA's private operation is neither blinded nor verified with
//! the public exponent, the numbers of an RSA key are not examined, and nonces of ECDSA are drawn instead of derived.

mod capabilities;
mod eight;
mod keys;
mod library;
mod native;

use std::path::Path;
use std::sync::Arc;

use ciphermill_contract::engine::Kernel;
use ciphermill_contract::error::Refusal;
use ciphermill_contract::{
    Capability, CheckedBatch, Direction, Engine, EngineInfo, EngineKind, EngineQueue, Error, KeyMaterial, Op, OpStatus,
    PreparedKey, QueueHint, Reason, Result, Suite,
};

pub use capabilities::CAPABILITIES;
pub use library::VARIABLE;

use self::eight::{Eight, Function, Scratch, settle};
use self::keys::Key;
use self::library::{Api, LANES};
use crate::Unavailable;
use crate::native::{NativeLoop, Task};
use crate::token::QUEUES_MAX;

/// The peer's name.
pub const NAME: &str = "crypto-mb";

/// A prepared key and the suite that it was prepared for.
struct State {
    suite: Suite,
    key: Arc<Key>,
}

/// The peer.
struct CryptoMb {
    info: EngineInfo,
    api: Arc<Api>,
}

/// Opens the peer that [`VARIABLE`] names.
///
/// # Errors
/// The variable is not set, or what it names is not crypto_mb; the latter is a mistake, see [`Unavailable::is_mistake`].
pub fn open() -> std::result::Result<Arc<dyn Engine>, Unavailable> {
    let unset = || Unavailable::absent(NAME, format!("{VARIABLE} is not set to the path of libcrypto_mb.so"));
    open_at(Path::new(&std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).ok_or_else(unset)?))
}

/// Opens the peer whose library is at `path`, as if [`VARIABLE`] named it.
///
/// # Errors
/// As [`open`].
pub fn open_at(path: &Path) -> std::result::Result<Arc<dyn Engine>, Unavailable> {
    let api = Api::load(path).map_err(|why| Unavailable::mistake(NAME, why))?;
    let info = EngineInfo {
        name: NAME,
        kind: EngineKind::Peer,
        version: api.version.clone(),
        parallelism: QUEUES_MAX,
        kernels: vec![Kernel { family: "", name: "eight a call".to_owned() }],
    };
    Ok(Arc::new(CryptoMb { info, api: Arc::new(api) }))
}

/// The native loop over a task.
pub(crate) fn native(task: &Task<'_>) -> Option<Box<dyn NativeLoop>> {
    let path = std::env::var_os(VARIABLE)?;
    native_at(Path::new(&path), task)
}

/// The native loop over a task with the library at `path`, as if [`VARIABLE`] named it.
pub fn native_at(path: &Path, task: &Task<'_>) -> Option<Box<dyn NativeLoop>> {
    native::open(Arc::new(Api::load(path).ok()?), task)
}

impl Engine for CryptoMb {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        if [Direction::Encrypt, Direction::Decrypt].into_iter().all(|way| Function::of(suite, way).is_none()) {
            return Err(Error::Refused(Refusal::EngineUnavailable(NAME.to_owned())));
        }
        Ok(PreparedKey::new(State { suite, key: Arc::new(Key::parse(key, suite)?) }))
    }

    fn queue(&self, _hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        Ok(Box::new(Queue { api: Arc::clone(&self.api), call: None }))
    }
}

/// A queue: works on the caller's thread.
struct Queue {
    api: Arc<Api>,
    /// Room for one call of the function that ran last.
    call: Option<(Eight, Scratch)>,
}

impl EngineQueue for Queue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let (suite, direction) = (batch.suite(), batch.direction());
        let function = Function::of(suite, direction);
        if self.call.as_ref().map(|(call, _)| call.function()) != function {
            self.call = function.and_then(|function| Some((Eight::new(function)?, Scratch::new(&self.api, function))));
        }
        let (ops, arena, keys) = batch.parts();
        let mut places = [0; LANES];
        for index in 0..ops.len() {
            let op = &ops[index];
            if !op.status.is_pending() {
                continue;
            }
            let state = keys.get(index).copied().flatten().and_then(|key| key.state::<State>());
            let put = match (state, &mut self.call) {
                (Some(state), Some((call, _))) if state.suite == suite => {
                    places[call.filled()] = index;
                    call.put(&state.key, &arena[op.input.range()], &arena[op.tag_span().range()])
                }
                (None, _) => Err(OpStatus::Refused(Reason::KeyUnsuitable)),
                _ => Err(OpStatus::EngineFault),
            };
            if let Err(status) = put {
                settle(suite, &mut ops[index], arena, status, &[]);
            }
            if let Some(call) = self.call.as_mut().filter(|(call, _)| call.is_full()) {
                finish(suite, call, &self.api, &places, (ops, arena));
            }
        }
        if let Some(call) = &mut self.call {
            finish(suite, call, &self.api, &places, (ops, arena));
        }
    }
}

/// Does the requests of a call and settles their operations, which lie at these places of the batch.
fn finish(
    suite: Suite,
    (call, scratch): &mut (Eight, Scratch),
    api: &Api,
    places: &[usize; LANES],
    (ops, arena): (&mut [Op], &mut [u8]),
) {
    if call.filled() == 0 {
        return;
    }
    let statuses = call.draw().then(|| call.call(api, scratch));
    for (lane, place) in places.iter().enumerate().take(call.filled()) {
        let status = statuses.map_or(OpStatus::EngineFault, |statuses| call.status(statuses, lane));
        settle(suite, &mut ops[*place], arena, status, call.output(lane));
    }
    call.clear();
}
