//! Blowfish, Khufu, Khafre, RC4 and SEAL 3.0: ciphers that look tables up at secret places, one lookup waiting for the
//! other. A processor takes several loads a cycle but five cycles for each, so that one message leaves it idle most of
//! the time; several messages in turns, each with its own key, fill it. This needs no instruction set.
//!
//! [`blocks`] has the modes of the block ciphers. All of it is variable in time by construction: these suites are
//! legacy, and a mill refuses them unless its policy enables them.

mod blocks;
mod blowfish;
mod merkle;
mod rc4;
mod seal;

use core::any::Any;
use core::cmp::Reverse;
use core::marker::PhantomData;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{BlockCipher, StreamCipher, lists};
use ciphermill_contract::{Capability, Cost, Directions, PreparedKey, Suite};

use crate::processor::{For, prefetch};
use crate::work::{CLASSES_MAX, Item, Scratch, Work};

/// The kernels of these ciphers: there is one, and every processor runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LegacyKernel {
    /// Several messages in turns.
    Interleaved,
}

/// A key's preparation.
pub(crate) type Prepared = Result<PreparedKey, KeyProblem>;

impl LegacyKernel {
    /// The preferred ones first.
    pub(crate) const NAMES: &'static [&'static str] = &["interleaved"];

    /// The kernel of this name, if there is one.
    pub(crate) fn detect(name: &str) -> Option<LegacyKernel> {
        (name == LegacyKernel::Interleaved.name()).then_some(LegacyKernel::Interleaved)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LegacyKernel::Interleaved => "interleaved",
        }
    }
}

/// What the family lists.
pub(crate) fn capabilities(LegacyKernel::Interleaved: LegacyKernel) -> [Capability; 4] {
    let of = |suites, cost, lanes: usize| Capability::new(suites, cost).lanes(lanes as u16).variable_time();
    [
        of(&lists::BLOWFISH, Cost::new(60.0, 20.0, 1.65), blocks::LANES)
            .few(Cost::new(50.0, 10.0, 5.75))
            .directions(Directions::ENCRYPT),
        of(&lists::BLOWFISH, Cost::new(60.0, 10.0, 1.8), blocks::LANES).directions(Directions::DECRYPT),
        of(&lists::KHUFU_KHAFRE, Cost::new(300.0, 24.0, 0.95), blocks::LANES),
        of(&lists::LEGACY_STREAMS, Cost::new(60.0, 15.0, 0.93), rc4::LANES),
    ]
}

/// Whether this module runs `suite`.
pub(crate) fn runs(suite: Suite) -> bool {
    matches!(
        suite,
        Suite::Cipher(BlockCipher::Blowfish | BlockCipher::Khufu | BlockCipher::Khafre, _)
            | Suite::Stream(StreamCipher::Rc4 | StreamCipher::Seal3)
    )
}

/// Prepares a key for one of the suites of [`capabilities`].
pub(crate) fn prepare(key: &[u8], suite: Suite) -> Prepared {
    prepare_many(&[key], suite).pop().unwrap_or(Err(KeyProblem::Parameters))
}

/// Prepares several keys for one of these suites side by side, where that gains time. Lengths are the suite's.
pub(crate) fn prepare_many(keys: &[&[u8]], suite: Suite) -> Vec<Prepared> {
    match suite {
        Suite::Cipher(BlockCipher::Blowfish, _) => blowfish::prepare(keys, suite),
        Suite::Cipher(BlockCipher::Khufu, _) => merkle::prepare_khufu(keys, suite),
        Suite::Cipher(BlockCipher::Khafre, _) => keys.iter().map(|key| merkle::prepare_khafre(key, suite)).collect(),
        Suite::Stream(StreamCipher::Rc4) => rc4::prepare(keys, suite),
        Suite::Stream(StreamCipher::Seal3) => keys.iter().map(|key| seal::prepare(key, suite)).collect(),
        _ => keys.iter().map(|_| Err(KeyProblem::Parameters)).collect(),
    }
}

/// Runs a batch; operations of suites that are not listed stay pending.
pub(crate) fn run(LegacyKernel::Interleaved: LegacyKernel, work: &mut Work<'_>, scratch: &mut Scratch) {
    match work.suite() {
        Suite::Cipher(BlockCipher::Blowfish, mode) => blocks::run::<blowfish::Key>(mode, work, scratch),
        Suite::Cipher(BlockCipher::Khufu, mode) => blocks::run::<merkle::KhufuKey>(mode, work, scratch),
        Suite::Cipher(BlockCipher::Khafre, mode) => blocks::run::<merkle::KhafreKey>(mode, work, scratch),
        Suite::Stream(StreamCipher::Rc4) => rc4::run(work, scratch),
        Suite::Stream(StreamCipher::Seal3) => seal::run(work, scratch),
        _ => {}
    }
}

/// The messages of a batch that have any bytes, one after the other. An operation counts as done when it is taken,
/// since nothing can fail any more.
struct Feed<'w, 'a, T> {
    work: &'w mut Work<'a>,
    scratch: &'w mut Scratch,
    order: fn(&mut Scratch),
    /// The first operation that has not been collected.
    next: usize,
    /// The first of the collected ones that has not been taken.
    at: usize,
    state: PhantomData<fn() -> T>,
}

impl<'w, 'a, T: Any> Feed<'w, 'a, T> {
    fn new(work: &'w mut Work<'a>, scratch: &'w mut Scratch, order: fn(&mut Scratch)) -> Feed<'w, 'a, T> {
        scratch.ordered.clear();
        Feed { work, scratch, order, next: 0, at: 0, state: PhantomData }
    }

    #[inline(always)]
    fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.scratch.ordered.get(self.at).copied() {
                self.at += 1;
                self.fetch_ahead();
                self.work.done(item.op as usize);
                if item.len > 0 {
                    return Some(item);
                }
            } else if !self.refill() {
                return None;
            }
        }
    }

    /// Fetches what is wanted when a message to come is taken: messages of a key lie anywhere.
    #[inline(always)]
    fn fetch_ahead(&self) {
        if let Some(item) = self.scratch.ordered.get(self.at + AHEAD) {
            self.work.prefetch(item.op as usize);
            let last = item.len.saturating_sub(1) as usize;
            for place in [item.input, item.output.cast_const()] {
                prefetch(place, For::Reading);
                prefetch(place.wrapping_add(last), For::Reading);
            }
        }
    }

    #[cold]
    fn refill(&mut self) -> bool {
        self.at = 0;
        self.scratch.ordered.clear();
        if !self.work.collect::<T>(&mut self.next, &mut self.scratch.items) {
            return false;
        }
        (self.order)(self.scratch);
        true
    }
}

/// Messages between one that is taken and one that is fetched.
const AHEAD: usize = 8;

/// Messages that are ordered by length rather than by key: their tables would have to be fetched anyhow.
const LONG: u32 = 1024;

/// So few operations are ordered by length alone, so that they end together.
const FEW: usize = 32;

/// Orders operations so that those of a key come together, because the first-level cache holds the tables of a dozen
/// keys at most; long messages come first, the longest at the front, so that none of them is left alone at the end.
fn by_key<T: Any>(scratch: &mut Scratch) {
    if scratch.items.len() <= FEW {
        return by_length(scratch);
    }
    let class = |item: &Item| {
        if item.len > LONG {
            return CLASSES_MAX - 1;
        }
        // SAFETY: collected with this type; the batch is still borrowed.
        let place = core::ptr::from_ref(unsafe { item.key::<T>() }) as usize as u64;
        // Fibonacci hashing (Knuth, volume 3, 6.4): the upper bits of a product with the golden ratio.
        ((place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize).min(CLASSES_MAX - 2)
    };
    scratch.order_by(class);
    let long = scratch.ordered.iter().take_while(|item| item.len > LONG).count();
    scratch.ordered[..long].sort_unstable_by_key(|item| Reverse(item.len));
}

/// Orders operations by length, the longest first.
fn by_length(scratch: &mut Scratch) {
    let Scratch { items, ordered, .. } = scratch;
    core::mem::swap(items, ordered);
    if !ordered.iter().all(|item| item.len == ordered[0].len) {
        ordered.sort_unstable_by_key(|item| Reverse(item.len));
    }
}
