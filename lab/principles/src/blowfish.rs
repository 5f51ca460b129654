//! Blowfish (Schneier 1993), blocks independent of each other (ECB), as in section 4.1 of the paper.
//!
//! A round is four table reads at places that depend on each other's sum: the reads of one round are independent, the
//! rounds are not. Straight, it is the paper's loop. Unrolled, the sixteen rounds stand in a row, P lies in locals and the
//! swap is gone. Hiding, two blocks take turns, and a round's P is added while its reads are under way. In lanes, so many
//! messages do.

use ciphermill_tables::blowfish::set_up;

use crate::family::{Family, Style, keep_rolled, load, shortest, store};
use crate::word::Word;

const ROUNDS: usize = 16;
const P_LEN: usize = ROUNDS + 2;

type SBoxes = [[u32; 256]; 4];

/// The tables that a key gives.
#[derive(Clone)]
pub(crate) struct Blowfish {
    p: [u32; P_LEN],
    s: SBoxes,
}

impl Blowfish {
    pub(crate) fn new(key: &[u8]) -> Blowfish {
        let tables = &set_up(&[key])[0];
        Blowfish { p: tables.keys, s: tables.sboxes }
    }

    /// The paper's loop.
    #[inline(always)]
    fn straight<W: Word>(&self, [mut left, mut right]: [W; 2]) -> [W; 2] {
        // The number of rounds is hidden from the compiler, which would unroll the loop.
        for p in &self.p[..std::hint::black_box(ROUNDS)] {
            W::iteration();
            keep_rolled();
            left = left.xor(W::fetch(p));
            let [a, b, c, d] = &self.s;
            let sum = W::read(a, left.byte(3)).add(W::read(b, left.byte(2)));
            right = right.xor(sum.xor(W::read(c, left.byte(1))).add(W::read(d, left.byte(0))));
            (left, right) = (right, left);
        }
        [right.xor(W::fetch(&self.p[ROUNDS + 1])), left.xor(W::fetch(&self.p[ROUNDS]))]
    }

    fn registers<W: Word>(&self) -> [W; P_LEN] {
        self.p.each_ref().map(W::fetch)
    }
}

/// One round of `N` blocks, the swap left out: `far` becomes the half that chooses next.
#[inline(always)]
fn round<W: Word, const N: usize>(s: [&SBoxes; N], p: [&[W; P_LEN]; N], at: usize, near: [W; N], far: &mut [W; N]) {
    let mut read = [[W::new(0); N]; 4];
    for n in 0..N {
        read[0][n] = W::read(&s[n][0], near[n].byte(3));
        read[1][n] = W::read(&s[n][1], near[n].byte(2));
        read[2][n] = W::read(&s[n][2], near[n].byte(1));
        read[3][n] = W::read(&s[n][3], near[n].byte(0));
        far[n] = far[n].xor(p[n][at]);
    }
    for n in 0..N {
        let f = read[0][n].add(read[1][n]).xor(read[2][n]).add(read[3][n]);
        far[n] = far[n].xor(f);
    }
}

#[inline(always)]
fn four_rounds<W: Word, const N: usize>(
    s: [&SBoxes; N],
    p: [&[W; P_LEN]; N],
    at: usize,
    near: &mut [W; N],
    far: &mut [W; N],
) {
    round(s, p, at, *near, far);
    round(s, p, at + 1, *far, near);
    round(s, p, at + 2, *near, far);
    round(s, p, at + 3, *far, near);
}

/// `N` blocks side by side, all rounds in a row.
#[inline(always)]
fn unrolled<W: Word, const N: usize>(s: [&SBoxes; N], p: [&[W; P_LEN]; N], blocks: [&mut [u8; 8]; N]) {
    let (mut near, mut far) = ([W::new(0); N], [W::new(0); N]);
    for n in 0..N {
        let [left, right]: [W; 2] = load(blocks[n]);
        (near[n], far[n]) = (left.xor(p[n][0]), right);
    }
    four_rounds(s, p, 1, &mut near, &mut far);
    four_rounds(s, p, 5, &mut near, &mut far);
    four_rounds(s, p, 9, &mut near, &mut far);
    four_rounds(s, p, 13, &mut near, &mut far);
    for (n, block) in blocks.into_iter().enumerate() {
        store([far[n].xor(p[n][ROUNDS + 1]), near[n]], block);
    }
}

impl Family for Blowfish {
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
                let p = self.registers();
                for block in blocks {
                    W::iteration();
                    unrolled::<W, 1>([&self.s], [&p], [block]);
                }
            }
            Style::Hiding => {
                let p = self.registers();
                let (two, one) = blocks.as_chunks_mut::<2>();
                for [first, second] in two {
                    W::iteration();
                    unrolled::<W, 2>([&self.s; 2], [&p; 2], [first, second]);
                }
                for block in one {
                    unrolled::<W, 1>([&self.s], [&p], [block]);
                }
            }
        }
    }

    #[inline(always)]
    fn lanes<W: Word, const L: usize>(keys: [&Blowfish; L], _numbers: [u32; L], data: [&mut [u8]; L]) {
        let p = keys.map(Blowfish::registers);
        let (s, p) = (keys.map(|key| &key.s), p.each_ref());
        let mut blocks = data.map(|data| data.as_chunks_mut::<8>().0);
        for at in 0..shortest(&blocks) {
            W::iteration();
            unrolled::<W, L>(s, p, blocks.each_mut().map(|blocks| &mut blocks[at]));
        }
    }
}
