//! AES-CBC (NIST SP 800-38A, 6.2). Encryption is serial within a message and runs many messages side by side, a key a
//! lane; decryption is parallel within a message.

mod decrypt;
mod encrypt;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::lists;
use ciphermill_contract::{Capability, Cost, Direction, Directions, PreparedKey, Suite};

use super::isa::AesKernel;
pub(crate) use super::message::Lane as CbcLane;
use super::message::{Message, Source};
use super::schedule::AesKey;

use crate::work::{Scratch, Work};

pub(super) const CAPABILITIES: &[Capability] = &[
    Capability::new(&lists::AES_CBC, Cost::new(60.0, 7.0, 0.074))
        .lanes(16)
        .few(Cost::new(10.0, 12.0, 0.72))
        .directions(Directions::ENCRYPT),
    Capability::new(&lists::AES_CBC, Cost::new(18.0, 4.0, 0.025)).lanes(16).directions(Directions::DECRYPT),
];

/// What a queue keeps for CBC encryption: lanes with transposed keys, messages that wait. Empty until it is used; no keys stay
/// in it.
#[derive(Default)]
pub(crate) struct CbcScratch {
    groups: Vec<encrypt::Group>,
    waiting: Vec<Message>,
}

/// Runs CBC over a list of messages of any lengths, with keys of one size.
///
/// # Safety
/// `len` bytes may be read at each message's input and written at its output, which is the same place or apart; nothing
/// that one message writes is read or written by another.
pub(crate) unsafe fn messages(
    kernel: AesKernel,
    direction: Direction,
    lanes: &[CbcLane<'_>],
    scratch: &mut CbcScratch,
) {
    // SAFETY: the caller's promise.
    let Some((rounds, mut source)) = (unsafe { Source::list(lanes) }) else { return };
    either(kernel, direction, rounds, &mut source, scratch);
}

pub(super) fn prepare(kernel: AesKernel, key: &[u8], suite: Suite) -> Result<PreparedKey, KeyProblem> {
    Ok(PreparedKey::for_suite(suite, AesKey::new(kernel, key)?))
}

/// Runs a batch.
pub(super) fn run(kernel: AesKernel, work: &mut Work<'_>, scratch: &mut Scratch) {
    let direction = work.direction();
    Source::batch(work, |rounds, source| either(kernel, direction, rounds, source, &mut scratch.cbc));
}

fn either(
    kernel: AesKernel,
    direction: Direction,
    rounds: usize,
    source: &mut Source<'_, '_>,
    scratch: &mut CbcScratch,
) {
    match direction {
        Direction::Encrypt => encrypt::all(kernel, rounds, source, scratch),
        Direction::Decrypt => {
            source.by(|source| decrypt::alike(kernel, rounds, source), |source| decrypt::all(kernel, rounds, source));
        }
    }
}
