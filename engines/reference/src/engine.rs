//! The engine itself: its name, its queue and the way from a suite to the code that runs it.

use std::any::Any;

use ciphermill_contract::engine::Kernel;
use ciphermill_contract::suite::{BlockCipher, Mac, Mode};
use ciphermill_contract::{
    Capability, CheckedBatch, Direction, Engine, EngineInfo, EngineKind, EngineQueue, KeyMaterial, OpBuffers, OpStatus,
    PreparedKey, QueueHint, Result, Stream, Suite,
};

use crate::block::FeedbackStream;
use crate::parts::DigestStream;
use crate::{CAPABILITIES, aead, block, chain, digest, fpe, mac, prepare, public, random, stream};

/// The name under which mills, policies and records know this engine.
pub(crate) const NAME: &str = "reference";

/// The reference engine. It has no state of its own: keys are prepared by value, queues work on the caller's thread.
#[derive(Debug)]
pub struct Reference {
    info: EngineInfo,
}

impl Reference {
    /// An engine that works on as many batches at a time as the machine has processors.
    pub fn new() -> Reference {
        let parallelism = std::thread::available_parallelism().map_or(1, usize::from);
        let info = EngineInfo {
            name: NAME,
            kind: EngineKind::Reference,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            parallelism,
            kernels: vec![Kernel { family: "all", name: "portable".to_owned() }],
        };
        Reference { info }
    }
}

impl Default for Reference {
    fn default() -> Reference {
        Reference::new()
    }
}

impl Engine for Reference {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        prepare::prepare(key, suite)
    }

    fn stream(&self, suite: Suite, direction: Direction) -> Option<Box<dyn Stream>> {
        match (suite, direction) {
            (Suite::Digest(digest), Direction::Encrypt) => Some(Box::new(DigestStream::new(digest))),
            (Suite::Cipher(BlockCipher::Aes(_), mode @ (Mode::Cfb8 | Mode::Cfb128 | Mode::Ofb)), _) => {
                Some(Box::new(FeedbackStream::new(mode, direction)))
            }
            _ => None,
        }
    }

    fn queue(&self, _hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        Ok(Box::new(Queue))
    }
}

/// A queue: one operation after the other on the caller's thread.
#[derive(Debug)]
struct Queue;

impl EngineQueue for Queue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let (suite, direction) = (batch.suite(), batch.direction());
        batch.process(|buffers| process(suite, direction, buffers));
    }
}

/// The prepared state of an operation's key; `None` when the key is missing or was prepared for something else.
pub(crate) fn state<'b, T: Any>(buffers: &OpBuffers<'b>) -> Option<&'b T> {
    buffers.key.and_then(PreparedKey::state)
}

fn process(suite: Suite, direction: Direction, buffers: &mut OpBuffers<'_>) -> OpStatus {
    match suite {
        Suite::Cipher(_, mode) => block::process(mode, direction, buffers),
        Suite::Stream(_) => stream::process(buffers),
        Suite::Aead(_) => aead::process(direction, buffers),
        Suite::Digest(digest) => digest::process(digest, buffers),
        Suite::Mac(Mac::Kmac(kmac)) => mac::kmac::process(kmac, direction, buffers),
        Suite::Mac(_) => mac::process(direction, buffers),
        Suite::Chain(chain) => chain::process(chain, direction, buffers),
        Suite::Wrap(wrap) => block::wrap::process(wrap, direction, buffers),
        Suite::Fpe(ff1) => fpe::process(ff1, direction, buffers),
        Suite::Random => random::process(buffers),
        Suite::Sign(_) | Suite::PublicEncrypt(_) | Suite::Agree(_) | Suite::Kem(_) | Suite::Generate(_) => {
            public::process(suite, direction, buffers)
        }
    }
}
