//! AES in CFB and OFB of messages that come in parts.

use ciphermill_contract::suite::Mode;
use ciphermill_contract::{Direction, OpStatus, Piece, PreparedKey, Reason, Stream};

use super::BlockKey;
use super::modes::Feedback;

/// A message in CFB or OFB.
pub(crate) struct FeedbackStream {
    mode: Mode,
    direction: Direction,
    feedback: Option<Feedback<16>>,
}

impl FeedbackStream {
    pub(crate) fn new(mode: Mode, direction: Direction) -> FeedbackStream {
        FeedbackStream { mode, direction, feedback: None }
    }
}

impl Stream for FeedbackStream {
    fn begin(&mut self, _: Option<&PreparedKey>, iv: &[u8]) -> OpStatus {
        let Ok(iv) = iv.try_into() else { return OpStatus::BadInput(Reason::IvLength) };
        self.feedback = Some(Feedback::new(self.mode, self.direction, iv));
        OpStatus::Done
    }

    fn absorb(&mut self, _: Option<&PreparedKey>, bytes: &[u8]) -> OpStatus {
        if bytes.is_empty() { OpStatus::Done } else { OpStatus::BadInput(Reason::AadUnexpected) }
    }

    fn transform(&mut self, key: Option<&PreparedKey>, mut piece: Piece<'_>) -> OpStatus {
        let cipher = key.and_then(PreparedKey::state::<BlockKey>).and_then(BlockKey::aes);
        let (Some(cipher), Some(feedback)) = (cipher, &mut self.feedback) else { return OpStatus::EngineFault };
        feedback.run(cipher, piece.copied());
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
