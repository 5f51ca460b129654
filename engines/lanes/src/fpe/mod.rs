//! FF1 (NIST SP 800-38G, algorithms 7 to 11): format-preserving encryption of many values side by side.
//!
//! Values of one length whose tweaks fill as many blocks are worked on together, a lane each; their keys and tweaks may
//! differ. Both halves of a value stay binary numbers through all ten rounds: numerals are converted once on the way in
//! and once on the way out. Halves of at most 2^61 are lanes of 64-bit numbers ([`rounds`]); longer ones are limbs, and
//! only AES runs in lanes ([`wide`]).
//!
//! Everything that precedes the round's number in the PRF's input is the same in all rounds, so its chaining value is
//! worked out once a value, or once for all values of one key, length and tweak ([`prefix`]).
//!
//! Floor: where the round's number fits one block with the end of the tweak, a round is one AES block, so that a value
//! under AES-256 is 140 block rounds: 35 instructions on vectors of four blocks. The arithmetic between them adds about
//! as many instructions again, most of them to other ports.

mod keys;
mod limbs;
mod number;
mod numerals;
mod prefix;
mod rounds;
mod shape;
mod wide;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Ff1, lists};
use ciphermill_contract::{Capability, Cost, PreparedKey, Suite};
use zeroize::Zeroize;

use crate::aes::isa::AesKernel;
use crate::aes::schedule::Schedule;

use crate::work::{CLASSES_MAX, Item, Scratch, Work};
use prefix::Prefix;
use shape::Shape;

/// The key of FF1: both directions encipher with AES.
pub(crate) struct FpeKey {
    schedule: Schedule,
}

const CAPABILITIES: &[Capability] = &[Capability::new(&lists::FF1, Cost::new(500.0, 20.0, 0.5)).lanes(32)];

/// What this family lists.
pub(crate) fn capabilities(_kernel: AesKernel) -> Vec<Capability> {
    CAPABILITIES.to_vec()
}

/// Prepares a key.
///
/// # Errors
/// `Parameters` for a radix that FF1 does not take, `Length` for a key that is none of AES's.
pub(crate) fn prepare(kernel: AesKernel, key: &[u8], ff1: Ff1) -> Result<PreparedKey, KeyProblem> {
    if !ff1.radix_is_valid() {
        return Err(KeyProblem::Parameters);
    }
    Ok(PreparedKey::for_suite(Suite::Fpe(ff1), FpeKey { schedule: Schedule::new(kernel, key)? }))
}

/// Values of one length and with tweaks of as many whole blocks, at most as many as there are lanes.
struct Group<'g, 'w> {
    work: &'g mut Work<'w>,
    items: &'g [Item],
    shape: &'g Shape,
    /// Blocks of the PRF's input between the first and the one where the round's number begins.
    prefix_blocks: usize,
    prefix: &'g mut Prefix,
}

impl Item {
    #[inline(always)]
    fn fpe_key(&self) -> &FpeKey {
        // SAFETY: this family collects its items with this type, and the batch outlives them.
        unsafe { self.key::<FpeKey>() }
    }
}

/// Runs a batch.
pub(crate) fn run(kernel: AesKernel, ff1: Ff1, work: &mut Work<'_>, scratch: &mut Scratch) {
    if !ff1.radix_is_valid() {
        return;
    }
    let mut memory = Memory { words: core::mem::take(&mut scratch.bytes), used: 0 };
    let mut prefix = Prefix::default();
    let mut known: Option<Shape> = None;
    let mut next = 0;
    while work.collect::<FpeKey>(&mut next, &mut scratch.items) {
        by_len(scratch);
        for values in scratch.ordered.chunk_by_mut(|a, b| a.len == b.len) {
            let len = values[0].len as usize / 2;
            let shape = match &known {
                Some(shape) if shape.len == len => shape,
                _ => {
                    prefix.forget();
                    known.insert(Shape::new(ff1.radix, len))
                }
            };
            run_len(kernel, shape, work, values, &mut prefix, &mut memory);
        }
    }
    prefix.forget();
    memory.wipe();
    scratch.bytes = memory.words;
}

/// Runs values of one length.
fn run_len(
    kernel: AesKernel,
    shape: &Shape,
    work: &mut Work<'_>,
    values: &mut [Item],
    prefix: &mut Prefix,
    memory: &mut Memory,
) {
    let blocks_of = |work: &Work<'_>, item: &Item| shape.prefix_blocks(work.aad_len(item.op as usize));
    let first = blocks_of(work, &values[0]);
    let alike = values.iter().all(|item| blocks_of(work, item) == first);
    if !alike {
        values.sort_unstable_by_key(|item| (blocks_of(work, item), item.op));
    }
    let lanes = if shape.narrow.is_some() { rounds::lanes(kernel) } else { wide::lanes(kernel) };
    let mut rest = &*values;
    while let Some(item) = rest.first() {
        let prefix_blocks = blocks_of(work, item);
        let most = rest.len().min(lanes);
        let count = if alike {
            most
        } else {
            rest[..most].iter().take_while(|item| blocks_of(work, item) == prefix_blocks).count()
        };
        let (items, behind) = rest.split_at(count);
        rest = behind;
        let mut group = Group { work: &mut *work, items, shape, prefix_blocks, prefix: &mut *prefix };
        if shape.narrow.is_some() {
            rounds::run(kernel, &mut group, memory);
        } else {
            wide::run(kernel, &mut group, memory);
        }
    }
}

/// Orders a window's values by length.
fn by_len(scratch: &mut Scratch) {
    let first = scratch.items[0].len;
    if scratch.items.iter().all(|item| item.len == first) {
        return core::mem::swap(&mut scratch.items, &mut scratch.ordered);
    }
    // Lengths that are a multiple of the classes apart share one; few batches have such.
    let class = |item: &Item| item.len as usize / 2 % CLASSES_MAX;
    scratch.order_by(class);
    if scratch.ordered.is_sorted_by(|a, b| a.len == b.len || class(a) > class(b)) {
        return;
    }
    scratch.ordered.sort_unstable_by_key(|item| (item.len, item.op));
}

/// A queue's working memory, which is wiped at the end of each run as far as it was used.
#[derive(Default)]
struct Memory {
    words: Vec<u64>,
    used: usize,
}

impl Memory {
    /// As many words, from a cache line's start on. What they hold is anything.
    fn room(&mut self, words: usize) -> &mut [u64] {
        /// Words of a cache line.
        const LINE: usize = 8;
        if self.words.len() < words + LINE {
            // Growing may move them.
            self.wipe();
            self.words.resize(words + LINE, 0);
        }
        let skip = self.words.as_ptr().align_offset(8 * LINE).min(LINE);
        self.used = self.used.max(skip + words);
        &mut self.words[skip..][..words]
    }

    fn wipe(&mut self) {
        self.words[..self.used].zeroize();
        self.used = 0;
    }
}
