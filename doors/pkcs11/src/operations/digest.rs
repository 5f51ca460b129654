//! Digests.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ciphermill::{Mill, MultiPart};
use ciphermill_contract::suite::Digest;
use ciphermill_contract::{Direction, KeyId, Suite};
use cryptoki_sys::{CKR_BUFFER_TOO_SMALL, CKR_MECHANISM_INVALID, CKR_SAVED_STATE_INVALID, CKR_STATE_UNSAVEABLE};

use crate::mechanisms::{Mechanism, What};
use crate::operations::{Step, random};
use crate::rv::{Asked, Result, Rv, fail, of_status};
use crate::session::Steps;

/// States of digests that applications may go back to.
const SAVED_MAX: usize = 1024;

/// Bytes of a saved state: the number under which it lies here.
pub(crate) const STATE_LEN: usize = 16;

/// Digests that were saved, by number, the oldest first. They stay with the library that they were made in, since a digest's state is its
/// engine's; where there is no room the oldest makes some.
#[derive(Default)]
pub(crate) struct Saved(Mutex<VecDeque<([u8; STATE_LEN], Hasher)>>);

impl Saved {
    fn lock(&self) -> MutexGuard<'_, VecDeque<([u8; STATE_LEN], Hasher)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a message as far as it has come, and says under what number.
    ///
    /// # Errors
    /// `CKR_STATE_UNSAVEABLE` where an engine gives no copy; those of the mill.
    pub(crate) fn save(&self, hasher: &Hasher) -> Result<[u8; STATE_LEN]> {
        let copy = hasher.copied()?;
        let mut number = [0; STATE_LEN];
        random(&hasher.mill, &mut number)?;
        let mut saved = self.lock();
        if saved.len() >= SAVED_MAX {
            saved.pop_front();
        }
        saved.push_back((number, copy));
        Ok(number)
    }

    /// Goes on with a message that was saved; it may be gone on with again.
    ///
    /// # Errors
    /// `CKR_SAVED_STATE_INVALID`.
    pub(crate) fn restore(&self, state: &[u8]) -> Result<Hasher> {
        let saved = self.lock();
        let found = saved.iter().rev().find(|(number, _)| number == state);
        found.ok_or(Rv(CKR_SAVED_STATE_INVALID))?.1.copied()
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }
}

/// A digest under way.
pub(crate) struct Hasher {
    mill: Mill,
    digest: Digest,
    message: MultiPart,
}

impl Hasher {
    /// # Errors
    /// `CKR_MECHANISM_INVALID` for mechanisms that are no digests; those of the mill.
    pub(crate) fn init(mill: &Mill, mechanism: &Mechanism) -> Result<Hasher> {
        match mechanism.what {
            What::Digest(digest) => Hasher::of(mill, digest),
            _ => fail(CKR_MECHANISM_INVALID),
        }
    }

    /// # Errors
    /// Those of the mill.
    pub(super) fn of(mill: &Mill, digest: Digest) -> Result<Hasher> {
        let mut message = mill.multi_part(Suite::Digest(digest), Direction::Encrypt, KeyId::NONE)?;
        message.begin(&[])?;
        Ok(Hasher { mill: mill.clone(), digest, message })
    }

    /// Takes more of the message.
    ///
    /// # Errors
    /// Those of the mill.
    pub(crate) fn update(&mut self, part: &[u8]) -> Result<()> {
        Ok(self.message.absorb(part)?)
    }

    /// Ends the message.
    ///
    /// # Errors
    /// Those of the mill.
    pub(super) fn finish(&mut self) -> Result<Vec<u8>> {
        let mut digest = vec![0; self.digest.len()];
        of_status(self.message.finish(&mut digest)?, Asked::Other)?;
        Ok(digest)
    }

    fn copied(&self) -> Result<Hasher> {
        let message = self.message.duplicate().map_err(|_| Rv(CKR_STATE_UNSAVEABLE))?;
        Ok(Hasher { mill: self.mill.clone(), digest: self.digest, message })
    }
}

impl Steps for Hasher {
    fn len(&self, step: Step, _input_len: usize) -> usize {
        if step == Step::Update { 0 } else { self.digest.len() }
    }

    fn step(&mut self, step: Step, input: &[u8], output: &mut [u8]) -> Result<usize> {
        if step == Step::Update {
            self.update(input)?;
            return Ok(0);
        }
        let len = self.digest.len();
        let Some(output) = output.get_mut(..len) else { return fail(CKR_BUFFER_TOO_SMALL) };
        if step == Step::OneShot {
            self.update(input)?;
        }
        of_status(self.message.finish(output)?, Asked::Other)?;
        Ok(len)
    }
}
