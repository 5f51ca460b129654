//! MD5 of many messages side by side: the column that the paper could not have.
//!
//! Each register and each word of the message is an array with an element for every message; a step is one loop over the
//! elements, which the compiler turns into vector instructions. The same function is compiled for each instruction set
//! and chosen when the program runs. Sixty-four messages take a step together: enough vectors to fill the time that the
//! step before takes, and enough elements that the compiler keeps loops as loops.
//!
//! What a step must cost at least: with AVX-512 7 or 8 instructions for 16 messages, two a cycle; without its rotations
//! and ternary logic 11 or 12 for 8 (AVX2) or 4. Words come to their columns one by one, two accesses each, which no
//! vector helps with: 32 instructions a block and message, about as much as the steps themselves take on AVX-512.

use crate::family::{Message, SCALAR_WIDTH, Style, Subject, Work};
use crate::md5::{BLOCK_LEN, Md5, SINES, START, TURNS, digest, in_short, padded, place};
use crate::word::{Avx512, Costs, Counted, Counts, PlainVector, Word, counted};

/// Messages side by side.
pub(crate) const LANES: usize = 64;

/// An element for each message, in whole cache lines.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Column([u32; LANES]);

/// What the lanes are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// 16 elements in a vector.
    Avx512,
    /// 8 elements in a vector.
    Avx2,
    /// What every processor of the architecture has: 4 elements in a vector on x86-64 and AArch64.
    Baseline,
}

impl Kernel {
    /// The kernels that this processor can run, fastest first.
    pub fn available() -> Vec<Kernel> {
        [Kernel::Avx512, Kernel::Avx2, Kernel::Baseline].into_iter().filter(|kernel| kernel.runs_here()).collect()
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Avx512 => "avx512",
            Kernel::Avx2 => "avx2",
            Kernel::Baseline => "baseline",
        }
    }

    fn runs_here(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => is_x86_feature_detected!("avx512f"),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(not(target_arch = "x86_64"))]
            Kernel::Avx512 | Kernel::Avx2 => false,
            Kernel::Baseline => true,
        }
    }

    /// Elements of a vector, and vector instructions that a core is taken to begin in a cycle (Golden Cove: 512-bit
    /// vectors on ports 0 and 5, shorter ones on 1 too).
    fn shape(self) -> (usize, f64) {
        match self {
            Kernel::Avx512 => (16, 2.0),
            Kernel::Avx2 => (8, 3.0),
            Kernel::Baseline => (4, 3.0),
        }
    }
}

/// One step of all messages.
#[inline(always)]
fn step<const ROUND: usize, const TURN: u32>(a: &mut Column, [b, c, d]: [&Column; 3], x: &Column, sine: u32) {
    for l in 0..LANES {
        a.0[l] = lane::<u32, ROUND, TURN>(a.0[l], [b.0[l], c.0[l], d.0[l]], x.0[l], sine);
    }
}

/// One step of one message.
#[inline(always)]
fn lane<W: Word, const ROUND: usize, const TURN: u32>(a: W, [b, c, d]: [W; 3], x: W, sine: u32) -> W {
    let sum = a.add(x).add(W::new(sine)).add(in_short(ROUND, b, c, d));
    b.add(sum.rotate_left(TURN))
}

/// A round of all messages.
#[inline(always)]
fn round<const ROUND: usize, const S0: u32, const S1: u32, const S2: u32, const S3: u32>(
    [a, b, c, d]: &mut [Column; 4],
    x: &[Column; 16],
) {
    for j in (16 * ROUND..16 * ROUND + 16).step_by(4) {
        step::<ROUND, S0>(a, [b, c, d], &x[place(j)], SINES[j]);
        step::<ROUND, S1>(d, [a, b, c], &x[place(j + 1)], SINES[j + 1]);
        step::<ROUND, S2>(c, [d, a, b], &x[place(j + 2)], SINES[j + 2]);
        step::<ROUND, S3>(b, [c, d, a], &x[place(j + 3)], SINES[j + 3]);
    }
}

/// One block of all messages.
#[inline(always)]
fn compress(state: &mut [Column; 4], x: &[Column; 16]) {
    let start = *state;
    round::<0, { TURNS[0][0] }, { TURNS[0][1] }, { TURNS[0][2] }, { TURNS[0][3] }>(state, x);
    round::<1, { TURNS[1][0] }, { TURNS[1][1] }, { TURNS[1][2] }, { TURNS[1][3] }>(state, x);
    round::<2, { TURNS[2][0] }, { TURNS[2][1] }, { TURNS[2][2] }, { TURNS[2][3] }>(state, x);
    round::<3, { TURNS[3][0] }, { TURNS[3][1] }, { TURNS[3][2] }, { TURNS[3][3] }>(state, x);
    for (column, start) in state.iter_mut().zip(&start) {
        for l in 0..LANES {
            column.0[l] = column.0[l].wrapping_add(start.0[l]);
        }
    }
}

/// Blocks in a row, one of each message, brought into columns.
#[inline(always)]
fn gather(blocks: &[&[u8; BLOCK_LEN]; LANES], x: &mut [Column; 16]) {
    for (l, block) in blocks.iter().enumerate() {
        for (column, bytes) in x.iter_mut().zip(block.as_chunks::<4>().0) {
            column.0[l] = u32::from_le_bytes(*bytes);
        }
    }
}

#[inline(always)]
fn block(state: &mut [Column; 4], blocks: &[&[u8; BLOCK_LEN]; LANES]) {
    let mut x = [Column([0; LANES]); 16];
    gather(blocks, &mut x);
    compress(state, &x);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn block_avx512(state: &mut [Column; 4], blocks: &[&[u8; BLOCK_LEN]; LANES]) {
    block(state, blocks);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn block_avx2(state: &mut [Column; 4], blocks: &[&[u8; BLOCK_LEN]; LANES]) {
    block(state, blocks);
}

/// One block of all messages, by the kernel, or by the baseline where the processor cannot run it.
#[allow(unsafe_code)]
fn block_by(kernel: Kernel, state: &mut [Column; 4], blocks: &[&[u8; BLOCK_LEN]; LANES]) {
    match kernel {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `runs_here` has just looked for the one feature that the function enables.
        Kernel::Avx512 if kernel.runs_here() => unsafe { block_avx512(state, blocks) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `runs_here` has just looked for the one feature that the function enables.
        Kernel::Avx2 if kernel.runs_here() => unsafe { block_avx2(state, blocks) },
        _ => block(state, blocks),
    }
}

/// Digests messages of one length; those that do not fill the lanes go one by one.
pub(crate) fn run(kernel: Kernel, messages: &mut [Message]) {
    let (groups, rest) = messages.as_chunks_mut::<LANES>();
    for group in groups {
        side_by_side(kernel, group);
    }
    Md5::new(kernel).one_by_one(Style::Hiding, rest);
}

fn side_by_side(kernel: Kernel, group: &mut [Message; LANES]) {
    let mut state = START.map(|word| Column([word; LANES]));
    let whole = group.iter().map(|message| message.data.len() / BLOCK_LEN).min().unwrap_or(0);
    for at in 0..whole {
        let blocks = group.each_ref().map(|message| &message.data.as_chunks::<BLOCK_LEN>().0[at]);
        block_by(kernel, &mut state, &blocks);
    }
    let last = group.each_ref().map(|message| padded(&message.data[BLOCK_LEN * whole..], message.data.len()));
    for at in 0..last[0].1 {
        block_by(kernel, &mut state, &last.each_ref().map(|(blocks, _)| &blocks[at]));
    }
    for (l, message) in group.iter_mut().enumerate() {
        message.digest = digest(state.each_ref().map(|column| column.0[l]));
    }
}

/// What a message of so many blocks takes: its share of the vector instructions, and its words' way to their columns.
pub(crate) fn count(kernel: Kernel, blocks: usize) -> Vec<Work> {
    let (elements, width) = kernel.shape();
    let steps = match kernel {
        Kernel::Avx512 => counted(count_block::<Avx512>),
        Kernel::Avx2 | Kernel::Baseline => counted(count_block::<PlainVector>),
    };
    let blocks = blocks as f64;
    let words = 16.0 * blocks;
    let moves = Counts { instructions: 2.0 * words, reads: words, writes: words };
    vec![Work { counts: steps.share(elements as f64 / blocks), width }, Work { counts: moves, width: SCALAR_WIDTH }]
}

/// The vector instructions of a block: each step with its reads of four registers and a word, and its write.
fn count_block<C: Costs>() {
    let mut column = 0;
    for (j, sine) in SINES.into_iter().enumerate() {
        let read = || Counted::<C>::fetch(&0);
        let (a, rest, x) = (read(), [read(), read(), read()], read());
        let a = match j / 16 {
            0 => lane::<_, 0, 7>(a, rest, x, sine),
            1 => lane::<_, 1, 5>(a, rest, x, sine),
            2 => lane::<_, 2, 4>(a, rest, x, sine),
            _ => lane::<_, 3, 6>(a, rest, x, sine),
        };
        Counted::put(&mut column, a);
    }
    for _ in START {
        let sum = Counted::<C>::fetch(&0).add(Counted::fetch(&0));
        Counted::put(&mut column, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_digests_as_one_message_does() {
        for kernel in Kernel::available() {
            for len in [0, 1, 55, 56, 64, 120, 1000] {
                let make = |number: u32| {
                    let data = (0..len).map(|at| (at as u32 * 31 + number * 17) as u8).collect();
                    Message::new(number, data)
                };
                // More than the lanes hold, so that some go one by one.
                let mut messages: Vec<Message> = (0..LANES as u32 + 3).map(make).collect();
                let mut want = messages.clone();
                run(kernel, &mut messages);
                Md5::new(kernel).one_by_one(Style::Straight, &mut want);
                assert_eq!(messages, want, "{} {len} bytes", kernel.name());
                assert_ne!(messages[0].digest, [0; 16]);
            }
        }
    }

    #[test]
    fn vectors_share_their_instructions() {
        let [wide, narrow] = [Kernel::Avx512, Kernel::Baseline].map(|kernel| count(kernel, 1)[0].counts);
        assert!(wide.instructions * 4.0 < narrow.instructions);
        assert_eq!(count(Kernel::Avx2, 3)[1].counts.accesses(), 3.0 * 32.0);
    }
}
