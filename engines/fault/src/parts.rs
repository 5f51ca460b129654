//! Messages in parts, for tests of whoever runs them: this engine keeps what it was given and runs whole operations, each by script,
//! on an engine that need not know of parts. For suites whose text is encrypted byte by byte (CTR, GCM), MACs and digests.

use std::sync::{Arc, Mutex, PoisonError};

use ciphermill_contract::suite::{Aead, Mac, Mode};
use ciphermill_contract::{
    Aad, Batch, CheckedBatch, Direction, EngineQueue, KeyId, Op, OpStatus, Piece, PreparedKey, Span, Stream, Suite,
};

/// A queue that copies of a message share.
pub(crate) type Shared = Arc<Mutex<Box<dyn EngineQueue>>>;

/// A message as far as it has come.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) suite: Suite,
    pub(crate) direction: Direction,
    pub(crate) queue: Shared,
    pub(crate) iv: Vec<u8>,
    pub(crate) aad: Vec<u8>,
    /// The input, for ciphers as it came.
    pub(crate) input: Vec<u8>,
}

/// Whether messages of a suite can be had in parts this way.
pub(crate) fn has_parts(suite: Suite) -> bool {
    match suite {
        // KMAC's customization string would come before the message.
        Suite::Mac(mac) => !matches!(mac, Mac::Kmac(_)),
        Suite::Cipher(_, Mode::Ctr) | Suite::Aead(Aead::AesGcm(_)) | Suite::Digest(_) => true,
        _ => false,
    }
}

impl Parts {
    /// Runs all there is of the message so far as one operation; its output and tag.
    fn run(&self, key: Option<&PreparedKey>, direction: Direction, tag: &[u8]) -> (OpStatus, Vec<u8>, Vec<u8>) {
        let (input, aad) = (&self.input, &self.aad);
        let mut arena = [&input[..], aad, tag].concat();
        let id = if self.suite.needs_key() { KeyId { slot: 0, generation: 1 } } else { KeyId::NONE };
        let aad_place = Aad::new(input.len() as u32, aad.len() as u16);
        let tag_place = (input.len() + aad.len()) as u32;
        let op = Op { aad: aad_place, ..Op::in_place(id, Span::new(0, input.len() as u32)) };
        let mut ops = [op.with_iv(&self.iv).with_tag(tag_place, tag.len() as u16)];
        if !self.suite.transforms() {
            ops[0].output = arena.len() as u32;
        }
        let Ok(mut batch) = Batch::new(self.suite, direction, &mut ops, &mut arena).check() else {
            return (OpStatus::EngineFault, Vec::new(), Vec::new());
        };
        let keys = [key];
        if self.suite.needs_key() {
            match batch.attach_keys(&keys) {
                Ok(mut batch) => self.run_on_queue(&mut batch),
                Err(_) => return (OpStatus::EngineFault, Vec::new(), Vec::new()),
            }
        } else {
            self.run_on_queue(&mut batch);
        }
        let status = ops[0].status;
        (status, arena[..input.len()].to_vec(), arena[tag_place as usize..][..tag.len()].to_vec())
    }

    fn run_on_queue(&self, batch: &mut CheckedBatch<'_>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.run(batch);
    }
}

impl Stream for Parts {
    fn begin(&mut self, _: Option<&PreparedKey>, iv: &[u8]) -> OpStatus {
        self.iv = iv.to_vec();
        self.aad.clear();
        self.input.clear();
        OpStatus::Done
    }

    fn absorb(&mut self, _: Option<&PreparedKey>, bytes: &[u8]) -> OpStatus {
        let to = if self.suite.transforms() { &mut self.aad } else { &mut self.input };
        to.extend_from_slice(bytes);
        OpStatus::Done
    }

    fn transform(&mut self, key: Option<&PreparedKey>, mut piece: Piece<'_>) -> OpStatus {
        let before = self.input.len();
        self.input.extend_from_slice(piece.input());
        // Both ways are the same for the text.
        let tag = vec![0; self.suite.default_tag_len()];
        let (status, output, _) = self.run(key, Direction::Encrypt, &tag);
        if status.is_done() {
            piece.output().copy_from_slice(&output[before..]);
        }
        status
    }

    fn finish(&mut self, key: Option<&PreparedKey>, tag: &mut [u8]) -> OpStatus {
        let (status, _, own) = self.run(key, self.direction, tag);
        if status.is_done() {
            tag.copy_from_slice(&own);
        }
        status
    }

    fn duplicate(&self) -> Option<Box<dyn Stream>> {
        Some(Box::new(self.clone()))
    }
}
