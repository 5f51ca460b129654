//! What the kernels have in common: ways of writing one, messages, and the choice by style.

use crate::word::{Counted, Counts, Scalar, Word, counted};

/// How a kernel for one message at a time is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// The paper's loop.
    Straight,
    /// Computation oriented: unrolled, indices worked out beforehand, constants in registers.
    Unrolled,
    /// Unrolled, with independent work between a read and the use of what it brings.
    Hiding,
}

/// One message: encrypted in place, or digested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Chooses the key, which is this number modulo the number of keys, and is SEAL's position index.
    pub number: u32,
    /// The bytes.
    pub data: Vec<u8>,
    /// Where MD5 leaves its digest; the ciphers do not touch it.
    pub digest: [u8; 16],
}

impl Message {
    /// A message.
    pub fn new(number: u32, data: Vec<u8>) -> Message {
        Message { number, data, digest: [0; 16] }
    }
}

/// A cipher that is prepared for a key.
pub(crate) trait Family: Sized + Sync {
    /// Messages side by side in the lanes: 4 or 8, whichever was measured faster.
    const LANES: usize;

    /// Encrypts one message.
    fn message<W: Word>(&self, style: Style, number: u32, data: &mut [u8]);

    /// Encrypts `L` messages of one length side by side.
    fn lanes<W: Word, const L: usize>(keys: [&Self; L], numbers: [u32; L], data: [&mut [u8]; L]);

    /// Encrypts all messages `passes` times with a helper thread, where the cipher has that variant.
    fn helped(_keys: &Keyed<Self>, _messages: &mut [Message], _passes: usize) -> bool {
        false
    }
}

/// The algorithm of an experiment, with its keys.
pub(crate) trait Subject: Sync {
    /// All messages, one at a time.
    fn one_by_one(&self, style: Style, messages: &mut [Message]);
    /// All messages, several side by side. They have one length.
    fn in_lanes(&self, messages: &mut [Message]);
    /// All messages `passes` times with the help of a second thread; whether the algorithm has such a variant.
    fn helped(&self, messages: &mut [Message], passes: usize) -> bool;
    /// What a message of `len` bytes takes one at a time.
    fn count(&self, style: Style, len: usize) -> Vec<Work>;
    /// What it takes in lanes.
    fn count_in_lanes(&self, len: usize) -> Vec<Work>;
    /// What the lanes are made of.
    fn lanes_name(&self) -> String;
}

/// Instructions of one kind, and how many that compute (and do not access memory) a core can begin in a cycle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) counts: Counts,
    pub(crate) width: f64,
}

/// Instructions that a core is taken to begin in a cycle: what the wide ones of today begin (Golden Cove, Zen 4).
pub const SCALAR_WIDTH: f64 = 6.0;

/// A cipher with as many keys as there are.
pub(crate) struct Keyed<F> {
    keys: Vec<F>,
}

impl<F: Family> Keyed<F> {
    /// A subject with these keys, of which there is at least one.
    pub(crate) fn new(keys: Vec<F>) -> Keyed<F> {
        Keyed { keys }
    }

    pub(crate) fn key(&self, number: u32) -> &F {
        &self.keys[number as usize % self.keys.len()]
    }

    fn side_by_side<const L: usize>(&self, messages: &mut [Message]) {
        let (groups, rest) = messages.as_chunks_mut::<L>();
        for group in groups {
            let numbers = group.each_ref().map(|message| message.number);
            let keys = numbers.map(|number| self.key(number));
            F::lanes::<u32, L>(keys, numbers, group.each_mut().map(|message| message.data.as_mut_slice()));
        }
        self.one_by_one(Style::Hiding, rest);
    }

    // Functions of their own, so that the compiler gives each style the registers to itself.
    #[inline(never)]
    fn straight(&self, messages: &mut [Message]) {
        self.in_style(Style::Straight, messages);
    }

    #[inline(never)]
    fn unrolled(&self, messages: &mut [Message]) {
        self.in_style(Style::Unrolled, messages);
    }

    #[inline(never)]
    fn hiding(&self, messages: &mut [Message]) {
        self.in_style(Style::Hiding, messages);
    }

    #[inline(always)]
    fn in_style(&self, style: Style, messages: &mut [Message]) {
        for message in messages {
            self.key(message.number).message::<u32>(style, message.number, &mut message.data);
        }
    }

    fn count_side_by_side<const L: usize>(&self, len: usize) -> Counts {
        let mut data = [(); L].map(|()| vec![0; len]);
        let numbers = std::array::from_fn(|number| number as u32);
        let keys = numbers.map(|number| self.key(number));
        let data = data.each_mut().map(Vec::as_mut_slice);
        counted(|| F::lanes::<Counted<Scalar>, L>(keys, numbers, data)).share(L as f64)
    }
}

impl<F: Family> Subject for Keyed<F> {
    fn one_by_one(&self, style: Style, messages: &mut [Message]) {
        match style {
            Style::Straight => self.straight(messages),
            Style::Unrolled => self.unrolled(messages),
            Style::Hiding => self.hiding(messages),
        }
    }

    fn in_lanes(&self, messages: &mut [Message]) {
        match F::LANES {
            8 => self.side_by_side::<8>(messages),
            _ => self.side_by_side::<4>(messages),
        }
    }

    fn helped(&self, messages: &mut [Message], passes: usize) -> bool {
        F::helped(self, messages, passes)
    }

    fn count(&self, style: Style, len: usize) -> Vec<Work> {
        let mut data = vec![0; len];
        let counts = counted(|| self.key(0).message::<Counted<Scalar>>(style, 0, &mut data));
        vec![Work { counts, width: SCALAR_WIDTH }]
    }

    fn count_in_lanes(&self, len: usize) -> Vec<Work> {
        let counts = match F::LANES {
            8 => self.count_side_by_side::<8>(len),
            _ => self.count_side_by_side::<4>(len),
        };
        vec![Work { counts, width: SCALAR_WIDTH }]
    }

    fn lanes_name(&self) -> String {
        F::LANES.to_string()
    }
}

/// Keeps the compiler from unrolling the loop that it stands in. It costs no instruction.
#[inline(always)]
pub(crate) fn keep_rolled() {
    std::hint::black_box(());
}

/// The two halves of a block of 64 bits, highest byte first.
#[inline(always)]
pub(crate) fn load<W: Word>(block: &[u8; 8]) -> [W; 2] {
    let [a, b, c, d, e, f, g, h] = *block;
    [W::load_be(&[a, b, c, d]), W::load_be(&[e, f, g, h])]
}

/// Writes what [`load`] reads.
#[inline(always)]
pub(crate) fn store<W: Word>([left, right]: [W; 2], block: &mut [u8; 8]) {
    if let [first, second] = block.as_chunks_mut::<4>().0 {
        left.store_be(first);
        right.store_be(second);
    }
}

/// The length of the shortest.
#[inline(always)]
pub(crate) fn shortest<T, const L: usize>(slices: &[&mut [T]; L]) -> usize {
    slices.iter().map(|slice| slice.len()).min().unwrap_or(0)
}
