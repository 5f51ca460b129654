//! AES-CTR.
use ciphermill_contract::{OpStatus, Piece, PreparedKey, Reason, Stream, Suite};

use super::state;
use crate::aes::{AesKey, BLOCK, Counter, counter_block};

/// A message of AES-CTR.
pub(super) struct CtrStream {
    suite: Suite,
    counter: Counter,
}

impl CtrStream {
    pub(super) fn new(suite: Suite) -> CtrStream {
        CtrStream { suite, counter: Counter::new([0; BLOCK]) }
    }
}

impl Stream for CtrStream {
    fn begin(&mut self, key: Option<&PreparedKey>, iv: &[u8]) -> OpStatus {
        if state::<AesKey>(key, self.suite).is_none() {
            return OpStatus::EngineFault;
        }
        self.counter = Counter::new(counter_block(iv));
        OpStatus::Done
    }

    fn absorb(&mut self, _: Option<&PreparedKey>, bytes: &[u8]) -> OpStatus {
        if bytes.is_empty() { OpStatus::Done } else { OpStatus::BadInput(Reason::AadUnexpected) }
    }

    fn transform(&mut self, key: Option<&PreparedKey>, mut piece: Piece<'_>) -> OpStatus {
        let Some(key) = state::<AesKey>(key, self.suite) else { return OpStatus::EngineFault };
        let ((input, output), len) = (piece.pointers(), piece.len());
        // SAFETY: what a piece promises.
        unsafe { key.ctr_on(&mut self.counter, input, output, len) };
        OpStatus::Done
    }

    fn finish(&mut self, _: Option<&PreparedKey>, tag: &mut [u8]) -> OpStatus {
        self.counter = Counter::new([0; BLOCK]);
        if tag.is_empty() { OpStatus::Done } else { OpStatus::BadInput(Reason::TagLength) }
    }

    fn duplicate(&self) -> Option<Box<dyn Stream>> {
        Some(Box::new(CtrStream { suite: self.suite, counter: self.counter.clone() }))
    }
}
