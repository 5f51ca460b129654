//! The engine itself: its name, its queues and the way from a suite to the code that runs it.

use core::ffi::CStr;

use aws_lc_sys as sys;
use ciphermill_contract::engine::Kernel;
use ciphermill_contract::suite::Aead;
use ciphermill_contract::{
    Capability, CheckedBatch, Direction, Engine, EngineInfo, EngineKind, EngineQueue, KeyMaterial, OpStatus,
    PreparedKey, QueueHint, Result, Stream, Suite,
};

use crate::capabilities::NAME;
use crate::ffi::take_error;
use crate::scratch::Scratch;
use crate::{CAPABILITIES, aead, cbc_hmac, chain, cipher, digest, mac, pieces, prepare, public, random, stream, wrap};

/// The library engine: AWS-LC. Prepared keys may be used by any number of its queues at the same time; queues work on
/// the caller's thread.
#[derive(Debug)]
pub struct Library {
    info: EngineInfo,
}

impl Library {
    /// Opens the library.
    ///
    /// # Errors
    /// `EngineFault` when AWS-LC gives no context.
    pub fn new() -> Result<Library> {
        sys::init();
        Scratch::new()?;
        let version = CStr::from_bytes_with_nul(sys::AWSLC_VERSION_NUMBER_STRING).unwrap_or_default();
        let info = EngineInfo {
            name: NAME,
            kind: EngineKind::Library,
            version: format!("AWS-LC {}", version.to_string_lossy()),
            parallelism: std::thread::available_parallelism().map_or(1, usize::from),
            // The empty family matches every suite.
            kernels: vec![Kernel { family: "", name: "aws-lc".to_owned() }],
        };
        Ok(Library { info })
    }
}

impl Engine for Library {
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
        pieces::stream(suite, direction)
    }

    fn queue(&self, _hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        Ok(Box::new(Queue { scratch: Scratch::new()? }))
    }
}

/// A queue: one operation after the other on the caller's thread.
struct Queue {
    scratch: Scratch,
}

impl EngineQueue for Queue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        match batch.suite() {
            Suite::Cipher(cipher, mode) => cipher::run(batch, cipher, mode, &mut self.scratch.cipher),
            Suite::Stream(stream) => stream::run(batch, stream),
            Suite::Aead(Aead::AesCbcHmac(_)) => cbc_hmac::run(batch),
            Suite::Aead(aead) => aead::run(batch, aead),
            Suite::Digest(digest) => digest::run(batch, digest, &self.scratch.digest),
            Suite::Mac(mac) => mac::run(batch, mac),
            Suite::Chain(chain) => chain::run(batch, chain),
            Suite::Wrap(wrap) => wrap::run(batch, wrap),
            Suite::Sign(_) | Suite::PublicEncrypt(_) | Suite::Agree(_) | Suite::Kem(_) | Suite::Generate(_) => {
                public::run(batch)
            }
            Suite::Random => random::run(batch),
            Suite::Fpe(_) => {}
        }
        // Suites that this engine does not claim end here.
        batch.replace_status(OpStatus::is_pending, OpStatus::EngineFault);
        self.scratch.clear();
        take_error();
    }
}
