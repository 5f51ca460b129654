//! AES-ECB (NIST SP 800-38A, 6.1). Blocks are independent: a vector holds blocks of one message, and long messages
//! keep eight vectors in flight.
//!
//! Floor: one AES instruction a round and vector; 10 to 14 rounds.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::lists;
use ciphermill_contract::{Capability, Cost, Direction, PreparedKey, Suite};

use super::isa::{AesKernel, Blocks, Isa, aes_kernels};
use super::schedule::AesKey;
use crate::engine::Prepared;
use crate::work::{Scratch, Work};

pub(super) const CAPABILITIES: &[Capability] =
    &[Capability::new(&lists::AES_ECB, Cost::new(60.0, 10.0, 0.06)).lanes(16)];

/// Vectors in flight for long messages.
const FLIGHT: usize = 8;

pub(super) fn prepare(kernel: AesKernel, key: &[u8], suite: Suite) -> Result<PreparedKey, KeyProblem> {
    Ok(Prepared::key(suite, AesKey::new(kernel, key)?))
}

aes_kernels! {
    /// Runs a batch.
    pub(super) fn run(work: &mut Work<'_>, scratch: &mut Scratch) = run_on
}

#[inline(always)]
fn run_on<I: Isa>(isa: I, work: &mut Work<'_>, scratch: &mut Scratch) {
    let encrypt = work.direction() == Direction::Encrypt;
    let mut next = 0;
    while work.collect::<AesKey>(&mut next, &mut scratch.items) {
        for item in &scratch.items {
            // SAFETY: collected with this type; the batch is still borrowed.
            let key = unsafe { item.key::<AesKey>() };
            // SAFETY: the batch's check: `len` bytes lie at both places, and they are one place or apart.
            unsafe { message(isa, key, encrypt, item.input, item.output, item.len as usize) };
            work.done(item.op as usize);
        }
    }
}

/// One message of whole blocks.
///
/// # Safety
/// `len` bytes may be read from `input` and written to `output`, which is the same place or apart.
#[inline(always)]
unsafe fn message<I: Isa>(isa: I, key: &AesKey, encrypt: bool, input: *const u8, output: *mut u8, len: usize) {
    let step = 16 * I::LEN;
    let mut at = 0;
    while at + FLIGHT * step <= len {
        // SAFETY: within `len`, as the loop's condition says; vectors are read before they are written.
        unsafe {
            let mut blocks: [I::V; FLIGHT] = core::array::from_fn(|i| isa.load(input.add(at + i * step)));
            transform(isa, key, encrypt, &mut blocks);
            for (i, block) in blocks.iter().enumerate() {
                block.store(output.add(at + i * step));
            }
        }
        at += FLIGHT * step;
    }
    while at < len {
        let here = step.min(len - at);
        // SAFETY: within `len`.
        unsafe {
            let mut blocks = [isa.load_partial(input.add(at), here)];
            transform(isa, key, encrypt, &mut blocks);
            blocks[0].store_partial(output.add(at), here);
        }
        at += here;
    }
}

#[inline(always)]
fn transform<I: Isa, const N: usize>(isa: I, key: &AesKey, encrypt: bool, blocks: &mut [I::V; N]) {
    if encrypt {
        key.encrypt.encrypt(isa, blocks);
    } else {
        key.decrypt.decrypt(isa, blocks);
    }
}
