//! MD5 (RFC 1321), as in section 4.3 of the paper.
//!
//! A block is 64 steps, each of which waits for the one before; the message is nearly all of the memory that they touch.
//! Straight, it is the paper's loops with its tables s, z and y. Unrolled, the 64 steps stand in a row, constants and places
//! are immediates, and the functions take one operation less. Hiding, what a step adds without waiting (A, constant, word
//! of the message) is added up ahead, and round 2 is split so that half of it need not wait. In lanes, see
//! [`crate::md5_lanes`], many messages take each step together.

use crate::family::{Message, SCALAR_WIDTH, Style, Subject, Work, keep_rolled};
use crate::md5_lanes::{self, Kernel};
use crate::ring::{Reader, Ring, Writer};
use crate::word::{Counted, Scalar, Word, counted};

/// Bytes of a block.
pub(crate) const BLOCK_LEN: usize = 64;

/// Steps of a block.
pub(crate) const STEPS: usize = 64;

/// The registers before the first block.
pub(crate) const START: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// How far the steps of each round turn, by turns.
pub(crate) const TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The constants of RFC 1321, 3.4: the first 32 bits of |sin(j + 1)|.
pub(crate) const SINES: [u32; STEPS] = sines();

/// The paper's y, s and z, in memory for its loops.
static Y: [u32; STEPS] = SINES;
static S: [u32; STEPS] = by_step(false);
static Z: [u32; STEPS] = by_step(true);

/// Bits after the point of the numbers that the constants are worked out with.
const POINT: u32 = 60;

/// sin(1) and cos(1) by their series, then one step of rotation for each further constant.
const fn sines() -> [u32; STEPS] {
    let one = 1i128 << POINT;
    let (mut sin_1, mut cos_1, mut term, mut k) = (0, 0, one, 0);
    while k < 24 {
        // The terms 1/k! go to cos, sin, -cos, -sin by turns.
        let signed = if k / 2 % 2 == 0 { term } else { -term };
        if k % 2 == 0 {
            cos_1 += signed;
        } else {
            sin_1 += signed;
        }
        k += 1;
        term /= k;
    }
    let (mut sin, mut cos) = (sin_1, cos_1);
    let mut table = [0; STEPS];
    let mut j = 0;
    while j < STEPS {
        let size = if sin < 0 { -sin } else { sin };
        table[j] = (size >> (POINT - 32)) as u32;
        (sin, cos) = ((sin * cos_1 + cos * sin_1) >> POINT, (cos * cos_1 - sin * sin_1) >> POINT);
        j += 1;
    }
    table
}

/// The word of the message that a step takes.
pub(crate) const fn place(step: usize) -> usize {
    match step / 16 {
        0 => step % 16,
        1 => (5 * step + 1) % 16,
        2 => (3 * step + 5) % 16,
        _ => 7 * step % 16,
    }
}

const fn by_step(places: bool) -> [u32; STEPS] {
    let mut table = [0; STEPS];
    let mut step = 0;
    while step < STEPS {
        table[step] = if places { place(step) as u32 } else { TURNS[step / 16][step % 4] };
        step += 1;
    }
    table
}

/// The round's function as the RFC writes it.
#[inline(always)]
fn as_written<W: Word>(round: usize, b: W, c: W, d: W) -> W {
    match round {
        0 => b.and(c).or(b.not().and(d)),
        1 => b.and(d).or(c.and(d.not())),
        2 => b.xor(c).xor(d),
        _ => c.xor(b.or(d.not())),
    }
}

/// The round's function with one operation less.
#[inline(always)]
pub(crate) fn in_short<W: Word>(round: usize, b: W, c: W, d: W) -> W {
    match round {
        0 => b.select(c, d),
        1 => d.select(b, c),
        2 => b.xor3(c, d),
        _ => c.xor_or_not(b, d),
    }
}

/// The paper's loops.
#[inline(always)]
fn straight<W: Word>(state: &mut [W; 4], x: &[u32; 16]) {
    let [mut a, mut b, mut c, mut d] = *state;
    // The number of steps of a round is hidden from the compiler, which would unroll the loops.
    let steps = std::hint::black_box(16);
    for round in 0..4 {
        for j in 16 * round..16 * round + steps {
            W::iteration();
            keep_rolled();
            let word = W::read(x, W::fetch(&Z[j % STEPS]));
            let t = a.add(as_written(round, b, c, d)).add(word).add(W::fetch(&Y[j % STEPS]));
            (a, b, c, d) = (d, b.add(t.rotate_left_by(&S[j % STEPS])), b, c);
        }
    }
    *state = add_all(*state, [a, b, c, d]);
}

#[inline(always)]
fn add_all<W: Word>(left: [W; 4], right: [W; 4]) -> [W; 4] {
    std::array::from_fn(|i| left[i].add(right[i]))
}

/// Four steps from `j` on, so that every register is again in its own place.
#[inline(always)]
fn four_steps<W: Word>(round: usize, j: usize, [a, b, c, d]: &mut [W; 4], x: &[W; 16]) {
    one_step(round, j, a, [*b, *c, *d], x);
    one_step(round, j + 1, d, [*a, *b, *c], x);
    one_step(round, j + 2, c, [*d, *a, *b], x);
    one_step(round, j + 3, b, [*c, *d, *a], x);
}

#[inline(always)]
fn one_step<W: Word>(round: usize, j: usize, a: &mut W, [b, c, d]: [W; 3], x: &[W; 16]) {
    let sum = a.add(x[place(j)]).add(W::new(SINES[j])).add(in_short(round, b, c, d));
    *a = b.add(sum.rotate_left(TURNS[round][j % 4]));
}

#[inline(always)]
fn sixteen_steps<W: Word>(round: usize, state: &mut [W; 4], x: &[W; 16]) {
    four_steps(round, 16 * round, state, x);
    four_steps(round, 16 * round + 4, state, x);
    four_steps(round, 16 * round + 8, state, x);
    four_steps(round, 16 * round + 12, state, x);
}

/// All steps in a row.
#[inline(always)]
fn unrolled<W: Word>(state: &mut [W; 4], x: &[W; 16]) {
    let start = *state;
    sixteen_steps(0, state, x);
    sixteen_steps(1, state, x);
    sixteen_steps(2, state, x);
    sixteen_steps(3, state, x);
    *state = add_all(start, *state);
}

/// As [`one_step`]; `sum` is what was added up ahead, and becomes what the next step, whose A is `d`, begins with.
#[inline(always)]
fn step_ahead<W: Word>(round: usize, j: usize, sum: &mut W, a: &mut W, [b, c, d]: [W; 3], x: &[W; 16]) {
    let next = j + 1;
    let ahead = if next < STEPS { d.add(x[place(next)]).add(W::new(SINES[next])) } else { d };
    let all = match round {
        // Either bit comes from b or from c, so that the halves can be added; only the second waits for b.
        1 => sum.add(c.and(d.not())).add(b.and(d)),
        2 => sum.add(c.xor(d).xor(b)),
        _ => sum.add(in_short(round, b, c, d)),
    };
    *a = b.add(all.rotate_left(TURNS[round][j % 4]));
    *sum = ahead;
}

#[inline(always)]
fn four_ahead<W: Word>(round: usize, j: usize, sum: &mut W, [a, b, c, d]: &mut [W; 4], x: &[W; 16]) {
    step_ahead(round, j, sum, a, [*b, *c, *d], x);
    step_ahead(round, j + 1, sum, d, [*a, *b, *c], x);
    step_ahead(round, j + 2, sum, c, [*d, *a, *b], x);
    step_ahead(round, j + 3, sum, b, [*c, *d, *a], x);
}

#[inline(always)]
fn sixteen_ahead<W: Word>(round: usize, sum: &mut W, state: &mut [W; 4], x: &[W; 16]) {
    four_ahead(round, 16 * round, sum, state, x);
    four_ahead(round, 16 * round + 4, sum, state, x);
    four_ahead(round, 16 * round + 8, sum, state, x);
    four_ahead(round, 16 * round + 12, sum, state, x);
}

/// All steps in a row, each beginning before the one before has ended.
#[inline(always)]
fn hiding<W: Word>(state: &mut [W; 4], x: &[W; 16]) {
    let start = *state;
    let mut sum = start[0].add(x[0]).add(W::new(SINES[0]));
    sixteen_ahead(0, &mut sum, state, x);
    sixteen_ahead(1, &mut sum, state, x);
    sixteen_ahead(2, &mut sum, state, x);
    sixteen_ahead(3, &mut sum, state, x);
    *state = add_all(start, *state);
}

#[inline(always)]
fn words<W: Word>(block: &[u8; BLOCK_LEN]) -> [W; 16] {
    let words = block.as_chunks::<4>().0;
    std::array::from_fn(|i| W::load_le(&words[i]))
}

/// One block of a message.
#[inline(always)]
fn compress<W: Word>(style: Style, state: &mut [W; 4], block: &[u8; BLOCK_LEN]) {
    match style {
        Style::Straight => {
            // As in the paper, raw data are read into an array first, and taken from there by place.
            let mut x = [0; 16];
            for (place, bytes) in x.iter_mut().zip(block.as_chunks::<4>().0) {
                W::iteration();
                W::put(place, W::load_le(bytes));
            }
            straight(state, &x);
        }
        Style::Unrolled => unrolled(state, &words(block)),
        Style::Hiding => hiding(state, &words(block)),
    }
}

/// The end of a message of `len` bytes: what is left after whole blocks, a one bit, zeros, and the length in bits.
pub(crate) fn padded(rest: &[u8], len: usize) -> ([[u8; BLOCK_LEN]; 2], usize) {
    let mut blocks = [[0; BLOCK_LEN]; 2];
    let count = if rest.len() < BLOCK_LEN - 8 { 1 } else { 2 };
    let bytes = blocks.as_flattened_mut();
    bytes[..rest.len()].copy_from_slice(rest);
    bytes[rest.len()] = 0x80;
    bytes[BLOCK_LEN * count - 8..BLOCK_LEN * count].copy_from_slice(&(8 * len as u64).to_le_bytes());
    (blocks, count)
}

/// Blocks of a message, padding included.
pub(crate) fn block_count(len: usize) -> usize {
    (len + 8) / BLOCK_LEN + 1
}

/// The digest's bytes.
#[inline(always)]
pub(crate) fn digest(state: [u32; 4]) -> [u8; 16] {
    let mut digest = [0; 16];
    for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_le_bytes();
    }
    digest
}

#[inline(always)]
fn message<W: Word>(style: Style, data: &[u8]) -> [W; 4] {
    let mut state = START.map(W::new);
    let (blocks, rest) = data.as_chunks::<BLOCK_LEN>();
    let (last, count) = padded(rest, data.len());
    for block in blocks.iter().chain(&last[..count]) {
        W::iteration();
        compress(style, &mut state, block);
    }
    state
}

// Functions of their own, so that the compiler gives each style the registers to itself.
#[inline(never)]
fn digest_straight(data: &[u8]) -> [u8; 16] {
    digest(message(Style::Straight, data))
}

#[inline(never)]
fn digest_unrolled(data: &[u8]) -> [u8; 16] {
    digest(message(Style::Unrolled, data))
}

#[inline(never)]
fn digest_hiding(data: &[u8]) -> [u8; 16] {
    digest(message(Style::Hiding, data))
}

/// MD5, which has no key, with the lanes of a kernel.
pub(crate) struct Md5 {
    kernel: Kernel,
}

impl Md5 {
    pub(crate) fn new(kernel: Kernel) -> Md5 {
        Md5 { kernel }
    }
}

impl Subject for Md5 {
    fn one_by_one(&self, style: Style, messages: &mut [Message]) {
        let digest_of: fn(&[u8]) -> [u8; 16] = match style {
            Style::Straight => digest_straight,
            Style::Unrolled => digest_unrolled,
            Style::Hiding => digest_hiding,
        };
        for Message { data, digest, .. } in messages {
            *digest = digest_of(data);
        }
    }

    fn in_lanes(&self, messages: &mut [Message]) {
        md5_lanes::run(self.kernel, messages);
    }

    fn helped(&self, messages: &mut [Message], passes: usize) -> bool {
        helped(messages, passes);
        true
    }

    fn count(&self, style: Style, len: usize) -> Vec<Work> {
        let data = vec![0; len];
        let counts = counted(|| {
            message::<Counted<Scalar>>(style, &data);
        });
        vec![Work { counts, width: SCALAR_WIDTH }]
    }

    fn count_in_lanes(&self, len: usize) -> Vec<Work> {
        md5_lanes::count(self.kernel, block_count(len))
    }

    fn lanes_name(&self) -> String {
        format!("{} ({})", md5_lanes::LANES, self.kernel.name())
    }
}

/// The paper's helper thread: the other thread reads the raw data and hands over words; this one does the steps.
fn helped(messages: &mut [Message], passes: usize) {
    let mut ring = Ring::new();
    let (mut writer, mut reader) = ring.ends();
    let mut jobs: Vec<(&[u8], &mut [u8; 16])> =
        messages.iter_mut().map(|message| (message.data.as_slice(), &mut message.digest)).collect();
    let data: Vec<&[u8]> = jobs.iter().map(|(data, _)| *data).collect();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..passes {
                data.iter().for_each(|data| hand_over(data, &mut writer));
            }
        });
        for _ in 0..passes {
            for (data, place) in &mut jobs {
                let mut state = START;
                for _ in 0..block_count(data.len()) {
                    unrolled(&mut state, &take_over(&mut reader));
                }
                **place = digest(state);
            }
        }
    });
}

/// Reads a message's blocks and writes them to the ring, two words in a slot.
fn hand_over(data: &[u8], writer: &mut Writer<'_>) {
    let (blocks, rest) = data.as_chunks::<BLOCK_LEN>();
    let (last, count) = padded(rest, data.len());
    for block in blocks.iter().chain(&last[..count]) {
        for two in block.as_chunks::<8>().0 {
            writer.push(u64::from_le_bytes(*two));
        }
    }
    writer.publish();
}

fn take_over(reader: &mut Reader<'_>) -> [u32; 16] {
    let mut x = [0; 16];
    for [low, high] in x.as_chunks_mut::<2>().0 {
        let both = reader.pop();
        (*low, *high) = (both as u32, (both >> 32) as u32);
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_sines() {
        for (j, constant) in SINES.into_iter().enumerate() {
            // RFC 1321, 3.4.
            let want = ((j + 1) as f64).sin().abs() * 2f64.powi(32);
            assert_eq!(constant, want as u32, "step {j}");
        }
        assert_eq!((SINES[0], SINES[63]), (0xd76a_a478, 0xeb86_d391));
    }

    #[test]
    fn padding_takes_another_block_when_the_length_does_not_fit() {
        for (len, count) in [(0, 1), (55, 1), (56, 2), (63, 2), (64, 2), (119, 2), (120, 3)] {
            assert_eq!(block_count(len), count, "{len} bytes");
            assert_eq!(padded(&vec![1; len % BLOCK_LEN], len).1 + len / BLOCK_LEN, count, "{len} bytes");
        }
    }
}
