//! Khufu and Khafre (Merkle, CRYPTO '90), blocks independent of each other (ECB), as in section 4.1 of the paper.
//!
//! A round reads one word at a place that the round before has just worked out: there is nothing within a block to hide
//! the read behind but a rotation. Straight, it is the paper's loop. Unrolled, the eight rounds of an S-box stand in a row
//! with their rotations as immediates. Hiding, two blocks take turns; in lanes, so many messages do.
//!
//! The S-boxes and the order of key words are those of the reference program in US patent 5,003,597, Appendix A.

use std::sync::{Arc, LazyLock};

use ciphermill_tables::merkle::{self, SBox};

use crate::family::{Family, Style, keep_rolled, load, shortest, store};
use crate::word::Word;

/// Rounds that share an S-box.
pub(crate) const OCTET: usize = 8;

/// Rounds at most.
pub(crate) const ROUNDS_MAX: usize = 64;

const STATE_LEN: usize = 64;

/// How far the left half turns right in each round of an octet.
const ROTATIONS: [u32; OCTET] = [16, 16, 8, 8, 16, 16, 24, 24];

/// The same, counted to the left as the paper has it; in memory, for its loop.
static TURNS_LEFT: [u32; OCTET] = [16, 16, 24, 24, 16, 16, 8, 8];

/// The S-box from which all others are made.
fn initial() -> &'static SBox {
    &merkle::standard_sboxes()[0]
}

/// Khafre's S-boxes: the initial one, then those of Khufu under a key of zeros.
static STANDARD: LazyLock<Vec<SBox>> = LazyLock::new(|| {
    let (_, made) = KeyStream::new(&[0; STATE_LEN]).tables(ROUNDS_MAX / OCTET - 1);
    std::iter::once(*initial()).chain(made).collect()
});

/// Exchanges the bytes of two rows in one column; column 0 holds the highest byte.
fn swap_in_column(sbox: &mut SBox, column: u32, row: usize, other: usize) {
    let difference = (sbox[row] ^ sbox[other]) & (0xff00_0000 >> (8 * column));
    sbox[row] ^= difference;
    sbox[other] ^= difference;
}

/// Bytes that depend on a key: a state of 64, encrypted again whenever it is used up.
struct KeyStream {
    state: [u8; STATE_LEN],
    at: usize,
}

impl KeyStream {
    fn new(key: &[u8; STATE_LEN]) -> KeyStream {
        let mut stream = KeyStream { state: *key, at: 0 };
        for _ in 0..3 {
            stream.stir();
        }
        stream
    }

    /// Sixteen rounds under the initial S-box, chained from the state's own last block.
    fn stir(&mut self) {
        let blocks = self.state.as_chunks_mut::<8>().0;
        let mut chain = blocks[blocks.len() - 1];
        for block in blocks {
            for (byte, more) in chain.iter_mut().zip(&*block) {
                *byte ^= more;
            }
            let halves = octets([initial(); 2], load::<u32>(&chain));
            store(halves, &mut chain);
            *block = chain;
        }
    }

    /// The four auxiliary keys, then `count` S-boxes.
    fn tables(mut self, count: usize) -> ([[u32; 2]; 2], Vec<SBox>) {
        let blocks = self.state.as_chunks::<8>().0;
        let auxiliary = [load(&blocks[0]), load(&blocks[1])];
        self.at = 16;
        let mut sboxes = vec![*initial(); count];
        for sbox in &mut sboxes {
            self.shuffle(sbox);
        }
        (auxiliary, sboxes)
    }

    /// Shuffles each column by choices among the rows that are not yet passed.
    fn shuffle(&mut self, sbox: &mut SBox) {
        for column in 0..4 {
            let mut mask = 0xff;
            for row in 0..255 {
                let other = loop {
                    let other = row + (usize::from(self.state[self.at]) & mask);
                    self.at = (self.at + 1) % STATE_LEN;
                    if self.at == 0 {
                        self.stir();
                        // The patent's program narrows its mask here alone, and data depend on that.
                        while 255 - row <= mask >> 1 {
                            mask >>= 1;
                        }
                    }
                    if other <= 255 {
                        break other;
                    }
                };
                swap_in_column(sbox, column, row, other);
            }
        }
    }
}

/// Khufu, or Khafre, under a key.
#[derive(Clone)]
pub(crate) struct Merkle<const KHAFRE: bool> {
    sboxes: Arc<[SBox]>,
    /// What is added to the block: before the first octet and after each (Khafre) or after the last (Khufu).
    whitening: Vec<[u32; 2]>,
}

/// Khufu: the key makes the S-boxes.
pub(crate) type Khufu = Merkle<false>;

/// Khafre: fixed S-boxes, the key is added after every eighth round.
pub(crate) type Khafre = Merkle<true>;

impl Khufu {
    /// Khufu under a key of at most 64 bytes; `rounds` is a multiple of eight.
    pub(crate) fn new(key: &[u8], rounds: usize) -> Khufu {
        let mut padded = [0; STATE_LEN];
        padded[..key.len()].copy_from_slice(key);
        let (auxiliary, sboxes) = KeyStream::new(&padded).tables(rounds / OCTET);
        Merkle { sboxes: sboxes.into(), whitening: auxiliary.to_vec() }
    }
}

impl Khafre {
    /// Khafre under a key of whole 8-byte parts, whose number divides `rounds / 8 + 1`.
    pub(crate) fn new(key: &[u8], rounds: usize) -> Khafre {
        let octets = rounds / OCTET;
        let parts = key.as_chunks::<8>().0.iter().cycle();
        let turned = |(turn, part): (u32, &[u8; 8])| load::<u32>(part).map(|word| word.rotate_right(turn));
        Merkle { sboxes: STANDARD[..octets].into(), whitening: (0..).zip(parts).map(turned).take(octets + 1).collect() }
    }
}

impl<const KHAFRE: bool> Merkle<KHAFRE> {
    /// What is added after octet `done`, if anything is.
    #[inline(always)]
    fn after(&self, done: usize) -> Option<&[u32; 2]> {
        match (KHAFRE, done + 1 == self.sboxes.len()) {
            (true, _) => self.whitening.get(done + 1),
            (false, true) => self.whitening.get(1),
            (false, false) => None,
        }
    }

    /// The paper's loop.
    #[inline(always)]
    fn straight<W: Word>(&self, mut halves: [W; 2]) -> [W; 2] {
        halves = add_key(halves, &self.whitening[0]);
        // The rotations are hidden from the compiler, which would unroll the loop.
        let turns = std::hint::black_box(&TURNS_LEFT[..]);
        for (done, sbox) in self.sboxes.iter().enumerate() {
            for turn in turns {
                W::iteration();
                keep_rolled();
                let [left, right] = halves;
                halves = [right.xor(W::read(sbox, left.byte(0))), left.rotate_left_by(turn)];
            }
            if let Some(words) = self.after(done) {
                halves = add_key(halves, words);
            }
        }
        halves
    }
}

#[inline(always)]
fn add_key<W: Word>([left, right]: [W; 2], words: &[u32; 2]) -> [W; 2] {
    [left.xor(W::fetch(&words[0])), right.xor(W::fetch(&words[1]))]
}

/// One block through octets without key words.
fn octets<const N: usize>(sboxes: [&SBox; N], [left, right]: [u32; 2]) -> [u32; 2] {
    let (mut near, mut far) = ([left], [right]);
    for sbox in sboxes {
        octet([sbox], &mut near, &mut far);
    }
    [near[0], far[0]]
}

/// One round of `N` blocks; the halves change names instead of places.
#[inline(always)]
fn round<W: Word, const N: usize>(sboxes: [&SBox; N], at: usize, near: &mut [W; N], far: &mut [W; N]) {
    for n in 0..N {
        far[n] = far[n].xor(W::read(sboxes[n], near[n].byte(0)));
        near[n] = near[n].rotate_right(ROTATIONS[at]);
    }
}

/// The eight rounds of an S-box, for `N` blocks.
#[inline(always)]
fn octet<W: Word, const N: usize>(sboxes: [&SBox; N], near: &mut [W; N], far: &mut [W; N]) {
    round(sboxes, 0, near, far);
    round(sboxes, 1, far, near);
    round(sboxes, 2, near, far);
    round(sboxes, 3, far, near);
    round(sboxes, 4, near, far);
    round(sboxes, 5, far, near);
    round(sboxes, 6, near, far);
    round(sboxes, 7, far, near);
}

/// `N` blocks side by side.
#[inline(always)]
fn unrolled<W: Word, const N: usize, const KHAFRE: bool>(keys: [&Merkle<KHAFRE>; N], blocks: [&mut [u8; 8]; N]) {
    let (mut near, mut far) = ([W::new(0); N], [W::new(0); N]);
    for n in 0..N {
        [near[n], far[n]] = add_key(load(blocks[n]), &keys[n].whitening[0]);
    }
    for done in 0..keys[0].sboxes.len() {
        W::iteration();
        octet(keys.map(|key| &key.sboxes[done]), &mut near, &mut far);
        for n in 0..N {
            if let Some(words) = keys[n].after(done) {
                [near[n], far[n]] = add_key([near[n], far[n]], words);
            }
        }
    }
    for (n, block) in blocks.into_iter().enumerate() {
        store([near[n], far[n]], block);
    }
}

impl<const KHAFRE: bool> Family for Merkle<KHAFRE> {
    const LANES: usize = 8;

    #[inline(always)]
    fn message<W: Word>(&self, style: Style, _number: u32, data: &mut [u8]) {
        let blocks = data.as_chunks_mut::<8>().0;
        match style {
            Style::Straight => {
                for block in blocks {
                    W::iteration();
                    let out = self.straight::<W>(load(block));
                    store(out, block);
                }
            }
            Style::Unrolled => {
                for block in blocks {
                    W::iteration();
                    unrolled::<W, 1, KHAFRE>([self], [block]);
                }
            }
            Style::Hiding => {
                let (two, one) = blocks.as_chunks_mut::<2>();
                for [first, second] in two {
                    W::iteration();
                    unrolled::<W, 2, KHAFRE>([self; 2], [first, second]);
                }
                for block in one {
                    unrolled::<W, 1, KHAFRE>([self], [block]);
                }
            }
        }
    }

    #[inline(always)]
    fn lanes<W: Word, const L: usize>(keys: [&Self; L], _numbers: [u32; L], data: [&mut [u8]; L]) {
        let mut blocks = data.map(|data| data.as_chunks_mut::<8>().0);
        for at in 0..shortest(&blocks) {
            W::iteration();
            unrolled::<W, L, KHAFRE>(keys, blocks.each_mut().map(|blocks| &mut blocks[at]));
        }
    }
}
