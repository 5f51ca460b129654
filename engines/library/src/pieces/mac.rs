//! HMAC and CMAC.

use core::any::Any;

use ciphermill_contract::{Direction, OpStatus, Piece, PreparedKey, Reason, Stream, Suite};

use super::{settle, state};
use crate::cmac::{CbcMac, CmacKey, RunningCmac};
use crate::ffi::{Wiped, done_if, op_fault};
use crate::hmac::{DIGEST_MAX, HmacKey, RunningHmac};

/// A key under which messages come in pieces.
pub(super) trait MacKey: Any {
    /// A message as far as it has come.
    type Running: Clone + Send + 'static;

    fn start(&self) -> Self::Running;
    fn update(&self, running: &mut Self::Running, bytes: &[u8]) -> bool;
    /// Writes the full MAC to the start of `out`.
    fn finish(&self, running: Self::Running, out: &mut [u8; DIGEST_MAX]) -> bool;
}

/// A message that is authenticated.
pub(super) struct MacStream<K: MacKey> {
    suite: Suite,
    direction: Direction,
    running: Option<K::Running>,
}

impl<K: MacKey> MacStream<K> {
    pub(super) fn new(suite: Suite, direction: Direction) -> MacStream<K> {
        MacStream { suite, direction, running: None }
    }
}

impl<K: MacKey> Stream for MacStream<K> {
    fn begin(&mut self, key: Option<&PreparedKey>, _: &[u8]) -> OpStatus {
        self.running = state::<K>(key, self.suite).map(K::start);
        if self.running.is_some() { OpStatus::Done } else { OpStatus::EngineFault }
    }

    fn absorb(&mut self, key: Option<&PreparedKey>, bytes: &[u8]) -> OpStatus {
        let (Some(key), Some(running)) = (state::<K>(key, self.suite), &mut self.running) else {
            return OpStatus::EngineFault;
        };
        done_if(key.update(running, bytes))
    }

    fn transform(&mut self, _: Option<&PreparedKey>, _: Piece<'_>) -> OpStatus {
        OpStatus::BadInput(Reason::InputUnexpected)
    }

    fn finish(&mut self, key: Option<&PreparedKey>, tag: &mut [u8]) -> OpStatus {
        let (Some(key), Some(running)) = (state::<K>(key, self.suite), self.running.take()) else {
            return OpStatus::EngineFault;
        };
        let mut full = Wiped([0; DIGEST_MAX]);
        if key.finish(running, &mut full.0) { settle(&full.0, self.direction, tag) } else { op_fault() }
    }

    fn duplicate(&self) -> Option<Box<dyn Stream>> {
        Some(Box::new(MacStream { running: self.running.clone(), ..*self }))
    }
}

impl MacKey for HmacKey {
    type Running = RunningHmac;

    fn start(&self) -> RunningHmac {
        self.start()
    }

    fn update(&self, running: &mut RunningHmac, bytes: &[u8]) -> bool {
        running.absorb(bytes)
    }

    fn finish(&self, running: RunningHmac, out: &mut [u8; DIGEST_MAX]) -> bool {
        self.end(running, out)
    }
}

impl<C: CbcMac<N>, const N: usize> MacKey for CmacKey<C, N> {
    type Running = RunningCmac<N>;

    fn start(&self) -> RunningCmac<N> {
        RunningCmac::default()
    }

    fn update(&self, running: &mut RunningCmac<N>, bytes: &[u8]) -> bool {
        self.absorb(running, bytes);
        true
    }

    fn finish(&self, running: RunningCmac<N>, out: &mut [u8; DIGEST_MAX]) -> bool {
        out[..N].copy_from_slice(&self.end(running));
        true
    }
}
