//! AES in CFB and OFB.

use ciphermill_contract::suite::Mode;
use ciphermill_contract::{Direction, OpStatus, Piece, PreparedKey, Reason, Stream, Suite};

use super::state;
use crate::aes::{AesKey, Feedback};

/// A message of AES in CFB or OFB.
pub(super) struct FeedbackStream {
    suite: Suite,
    mode: Mode,
    direction: Direction,
    feedback: Option<Feedback>,
}

impl FeedbackStream {
    pub(super) fn new(suite: Suite, mode: Mode, direction: Direction) -> FeedbackStream {
        FeedbackStream { suite, mode, direction, feedback: None }
    }
}

impl Stream for FeedbackStream {
    fn begin(&mut self, key: Option<&PreparedKey>, iv: &[u8]) -> OpStatus {
        if state::<AesKey>(key, self.suite).is_none() {
            return OpStatus::EngineFault;
        }
        let Ok(iv) = iv.try_into() else { return OpStatus::BadInput(Reason::IvLength) };
        self.feedback = Some(Feedback::new(self.mode, self.direction == Direction::Encrypt, iv));
        OpStatus::Done
    }

    fn absorb(&mut self, _: Option<&PreparedKey>, bytes: &[u8]) -> OpStatus {
        if bytes.is_empty() { OpStatus::Done } else { OpStatus::BadInput(Reason::AadUnexpected) }
    }

    fn transform(&mut self, key: Option<&PreparedKey>, mut piece: Piece<'_>) -> OpStatus {
        let (Some(key), Some(feedback)) = (state::<AesKey>(key, self.suite), &mut self.feedback) else {
            return OpStatus::EngineFault;
        };
        let ((input, output), len) = (piece.pointers(), piece.len());
        // SAFETY: what a piece promises.
        unsafe { key.feedback_on(feedback, input, output, len) };
        OpStatus::Done
    }

    fn finish(&mut self, _: Option<&PreparedKey>, tag: &mut [u8]) -> OpStatus {
        self.feedback = None;
        if tag.is_empty() { OpStatus::Done } else { OpStatus::BadInput(Reason::TagLength) }
    }

    fn duplicate(&self) -> Option<Box<dyn Stream>> {
        Some(Box::new(FeedbackStream { feedback: self.feedback.clone(), ..*self }))
    }
}
