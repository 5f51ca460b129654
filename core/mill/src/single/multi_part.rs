//! Messages that come in parts.

use std::fmt;
use std::sync::Arc;

use ciphermill_contract::{Direction, Error, KeyId, OpStatus, Piece, Reason, Result, Suite};

use crate::run::multi_part::Parts;
use crate::submit::Dispatcher;

/// Messages of one suite, direction and key that come in parts, one after the other: [`Mill::multi_part`](crate::Mill::multi_part)
/// opens it. Parts may have any length, none included.
///
/// What there is of a message between its parts lies here, and is wiped when the message ends or this is dropped: for some suites
/// (AES-GCM on the library engine) that is the key's schedule too. The key table is asked for the key at each part, so that a key that
/// was destroyed is refused in the middle of a message; its policy is asked when a message begins.
///
/// A message stays on its engine. When that fails, the message is lost, since its first parts are gone, and the next one may go
/// elsewhere.
///
/// ```no_run
/// # use ciphermill::contract::*;
/// # fn digest(mill: &ciphermill::Mill) -> Result<()> {
/// let sha256: Suite = "sha256".parse().expect("a known suite");
/// let mut message = mill.multi_part(sha256, Direction::Encrypt, KeyId::NONE)?;
/// message.begin(b"")?;
/// message.absorb(b"many ")?;
/// message.absorb(b"parts")?;
/// let mut digest = [0; 32];
/// assert_eq!(message.finish(&mut digest)?, OpStatus::Done);
/// # Ok(())
/// # }
/// ```
pub struct MultiPart {
    dispatcher: Arc<Dispatcher>,
    parts: Parts,
    phase: Phase,
}

/// How far the message has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is none.
    Idle,
    /// It has no text so far.
    Begun,
    Text,
}

impl MultiPart {
    pub(crate) fn new(dispatcher: Arc<Dispatcher>, what: (Suite, Direction), key: KeyId) -> Result<MultiPart> {
        let parts = Parts::open(&dispatcher.runner, what, key)?;
        Ok(MultiPart { dispatcher, parts, phase: Phase::Idle })
    }

    /// What is done to every message.
    pub fn suite(&self) -> Suite {
        self.parts.what().0
    }

    /// Which way.
    pub fn direction(&self) -> Direction {
        self.parts.what().1
    }

    /// The key, [`KeyId::NONE`] for suites without one.
    pub fn key(&self) -> KeyId {
        self.parts.key()
    }

    /// Begins a message; what there was of another is forgotten. `iv` has a length that the suite takes, none for digests and most
    /// MACs.
    ///
    /// # Errors
    /// `Misuse` for a wrong length; `Refused` for a key that is gone, has expired or whose budget is spent, and when no engine may run
    /// the suite any more; `EngineFault`.
    pub fn begin(&mut self, iv: &[u8]) -> Result<()> {
        self.phase = Phase::Idle;
        if !self.suite().iv_len().contains(iv.len()) {
            return Err(Error::misuse(0, Reason::IvLength));
        }
        self.parts.begin(&self.dispatcher.runner, iv)?;
        self.phase = Phase::Begun;
        Ok(())
    }

    /// Takes more of what is authenticated or digested but not encrypted: the message of a MAC or digest, additional data of an AEAD.
    ///
    /// # Errors
    /// `Misuse` for a suite that takes none, before a message was begun, and behind an AEAD's text; `Refused` for a key that is gone;
    /// `EngineFault`. After any error the message is lost.
    pub fn absorb(&mut self, bytes: &[u8]) -> Result<()> {
        let suite = self.suite();
        if suite.transforms() && suite.aad_len().max == 0 {
            return Err(Error::misuse(0, Reason::AadUnexpected));
        }
        self.in_phase(&[Phase::Begun])?;
        let counted = if suite.transforms() { 0 } else { bytes.len() };
        let done = self.parts.go_on(&self.dispatcher.runner, counted, |stream, key| stream.absorb(key, bytes));
        self.or_lost(done)
    }

    /// Encrypts or decrypts the next part to another place of the same length.
    ///
    /// # Errors
    /// `Misuse` for a suite without output, an output of another length, before a message was begun, and for a message that grows too
    /// long; `Refused` for a key that is gone; `EngineFault`. After any error the message is lost.
    pub fn transform(&mut self, input: &[u8], output: &mut [u8]) -> Result<()> {
        let piece = Piece::apart(input, output).ok_or(Error::misuse(0, Reason::OutputLength))?;
        self.transform_piece(piece)
    }

    /// Encrypts or decrypts the next part where it lies.
    ///
    /// # Errors
    /// As [`MultiPart::transform`].
    pub fn transform_in_place(&mut self, data: &mut [u8]) -> Result<()> {
        self.transform_piece(Piece::in_place(data))
    }

    /// Encrypts or decrypts the next part, whose buffers may be the same.
    ///
    /// # Errors
    /// As [`MultiPart::transform`].
    pub fn transform_piece(&mut self, piece: Piece<'_>) -> Result<()> {
        if !self.suite().transforms() {
            return Err(Error::misuse(0, Reason::InputUnexpected));
        }
        self.in_phase(&[Phase::Begun, Phase::Text])?;
        self.phase = Phase::Text;
        let done = self.parts.go_on(&self.dispatcher.runner, piece.len(), |stream, key| stream.transform(key, piece));
        self.or_lost(done)
    }

    /// Ends the message: writes its tag or digest, or when decrypting compares the tag. `tag` is empty for suites without one.
    /// `Done`, or `AuthFailed` where the tag is another.
    ///
    /// # Errors
    /// `Misuse` for a length that the suite does not take and before a message was begun; `Refused` for a key that is gone;
    /// `EngineFault`.
    pub fn finish(&mut self, tag: &mut [u8]) -> Result<OpStatus> {
        if !self.suite().tag_len(self.direction()).contains(tag.len()) {
            return Err(Error::misuse(0, Reason::TagLength));
        }
        self.in_phase(&[Phase::Begun, Phase::Text])?;
        self.phase = Phase::Idle;
        self.parts.finish(&self.dispatcher.runner, tag)
    }

    /// The message as far as it has come, once more: both go on by themselves.
    ///
    /// # Errors
    /// `EngineFault` when the engine gives no copy.
    pub fn duplicate(&self) -> Result<MultiPart> {
        let parts = self.parts.duplicate(&self.dispatcher.runner)?;
        Ok(MultiPart { dispatcher: Arc::clone(&self.dispatcher), parts, phase: self.phase })
    }

    fn in_phase(&self, phases: &[Phase]) -> Result<()> {
        if phases.contains(&self.phase) { Ok(()) } else { Err(Error::misuse(0, Reason::PartOutOfOrder)) }
    }

    fn or_lost(&mut self, done: Result<()>) -> Result<()> {
        if done.is_err() {
            self.phase = Phase::Idle;
        }
        done
    }
}

impl Drop for MultiPart {
    fn drop(&mut self) {
        self.parts.write_up(&self.dispatcher.runner);
    }
}

impl fmt::Debug for MultiPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("MultiPart");
        out.field("suite", &self.suite()).field("direction", &self.direction()).field("key", &self.key());
        out.finish_non_exhaustive()
    }
}
