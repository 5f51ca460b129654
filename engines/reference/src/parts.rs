//! Digests of messages that come in parts.

use ciphermill_contract::suite::Digest;
use ciphermill_contract::{OpStatus, Piece, PreparedKey, Reason, Stream};

use crate::digest::Hasher;

/// A message that is digested.
pub(crate) struct DigestStream {
    digest: Digest,
    hasher: Hasher,
}

impl DigestStream {
    pub(crate) fn new(digest: Digest) -> DigestStream {
        DigestStream { digest, hasher: Hasher::new(digest) }
    }
}

impl Stream for DigestStream {
    fn begin(&mut self, _: Option<&PreparedKey>, _: &[u8]) -> OpStatus {
        self.hasher = Hasher::new(self.digest);
        OpStatus::Done
    }

    fn absorb(&mut self, _: Option<&PreparedKey>, bytes: &[u8]) -> OpStatus {
        self.hasher.update(bytes);
        OpStatus::Done
    }

    fn transform(&mut self, _: Option<&PreparedKey>, _: Piece<'_>) -> OpStatus {
        OpStatus::BadInput(Reason::InputUnexpected)
    }

    fn finish(&mut self, _: Option<&PreparedKey>, tag: &mut [u8]) -> OpStatus {
        let hasher = std::mem::replace(&mut self.hasher, Hasher::new(self.digest));
        if !self.digest.is_xof() && tag.len() != self.digest.len() {
            return OpStatus::BadInput(Reason::TagLength);
        }
        hasher.write(tag)
    }

    fn duplicate(&self) -> Option<Box<dyn Stream>> {
        Some(Box::new(DigestStream { digest: self.digest, hasher: self.hasher.clone() }))
    }
}
