//! HMAC and CMAC.

use core::any::Any;

use ciphermill_contract::{Direction, OpStatus, Piece, PreparedKey, Reason, Stream, Suite};

use super::{settle, state};
use crate::cmac::{CmacKey, RunningCmac, TripleDesCmacKey};
use crate::ffi::{Wiped, done_if, op_fault};
use crate::hmac::{DIGEST_MAX, HmacKey, RunningHmac};
use crate::{aes, des};

/// A MAC whose message comes in pieces.
pub(super) trait Running: Sized + Clone + Send + 'static {
    /// What a key was prepared as.
    type Key: Any;

    fn start(key: &Self::Key) -> Self;
    fn update(&mut self, key: &Self::Key, bytes: &[u8]) -> bool;
    /// Writes the full MAC to the start of `out`.
    fn finish(self, key: &Self::Key, out: &mut [u8; DIGEST_MAX]) -> bool;
}

/// A message that is authenticated.
pub(super) struct MacStream<R> {
    suite: Suite,
    direction: Direction,
    running: Option<R>,
}

pub(super) type Hmac = RunningHmac;
pub(super) type Cmac = RunningCmac<{ aes::BLOCK }>;
pub(super) type TripleDesCmac = RunningCmac<{ des::BLOCK }>;

impl<R> MacStream<R> {
    pub(super) fn new(suite: Suite, direction: Direction) -> MacStream<R> {
        MacStream { suite, direction, running: None }
    }
}

impl<R: Running> Stream for MacStream<R> {
    fn begin(&mut self, key: Option<&PreparedKey>, _: &[u8]) -> OpStatus {
        self.running = state::<R::Key>(key, self.suite).map(R::start);
        if self.running.is_some() { OpStatus::Done } else { OpStatus::EngineFault }
    }

    fn absorb(&mut self, key: Option<&PreparedKey>, bytes: &[u8]) -> OpStatus {
        let (Some(key), Some(running)) = (state::<R::Key>(key, self.suite), &mut self.running) else {
            return OpStatus::EngineFault;
        };
        done_if(running.update(key, bytes))
    }

    fn transform(&mut self, _: Option<&PreparedKey>, _: Piece<'_>) -> OpStatus {
        OpStatus::BadInput(Reason::InputUnexpected)
    }

    fn finish(&mut self, key: Option<&PreparedKey>, tag: &mut [u8]) -> OpStatus {
        let (Some(key), Some(running)) = (state::<R::Key>(key, self.suite), self.running.take()) else {
            return OpStatus::EngineFault;
        };
        let mut full = Wiped([0; DIGEST_MAX]);
        if running.finish(key, &mut full.0) { settle(&full.0, self.direction, tag) } else { op_fault() }
    }

    fn duplicate(&self) -> Option<Box<dyn Stream>> {
        Some(Box::new(MacStream { running: self.running.clone(), ..*self }))
    }
}

impl Running for RunningHmac {
    type Key = HmacKey;

    fn start(key: &HmacKey) -> RunningHmac {
        key.start()
    }

    fn update(&mut self, _: &HmacKey, bytes: &[u8]) -> bool {
        self.absorb(bytes)
    }

    fn finish(self, key: &HmacKey, out: &mut [u8; DIGEST_MAX]) -> bool {
        key.end(self, out)
    }
}

macro_rules! running_cmac {
    ($key:ident, $block:expr) => {
        impl Running for RunningCmac<{ $block }> {
            type Key = $key;

            fn start(_: &$key) -> Self {
                RunningCmac::default()
            }

            fn update(&mut self, key: &$key, bytes: &[u8]) -> bool {
                key.absorb(self, bytes);
                true
            }

            fn finish(self, key: &$key, out: &mut [u8; DIGEST_MAX]) -> bool {
                out[..$block].copy_from_slice(&key.end(self));
                true
            }
        }
    };
}

running_cmac!(CmacKey, aes::BLOCK);
running_cmac!(TripleDesCmacKey, des::BLOCK);
