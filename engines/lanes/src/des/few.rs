//! DES on few blocks at a time: the S-boxes are byte permutations within registers (AVX-512 VBMI), the wiring is bit
//! matrices (GFNI). A lone block has no company to be bit-sliced with; this way it takes about sixteen times the latency of
//! one round, and nothing is looked up in memory by a secret.
//!
//! Half a block lies in a vector as what expansion E makes of it: 64-bit part `d` holds the six bits that S-box `d` takes,
//! as the standard's number, in each of its eight bytes. Every step that wires bits is the same three instructions:
//! VPERMB brings to byte `7 - b` of part `d` the byte that holds bit `b` of its number; an AND leaves that bit;
//! GF2P8AFFINEQB takes the part as a matrix, multiplies it by all ones, and so gathers the parities of its bytes, which are
//! the bits, into a number again. In a round, the S-boxes' results stand between VPERMB and AND: two S-boxes of four bits
//! share a table of 64 bytes, and each byte's mask takes it from the right table and picks the right bit.
//!
//! Floor: 6 VPERMB a round and block on one port; a round's latency is about 16 cycles, so three blocks side by side reach
//! the floor, about 100 cycles a block and pass.

use core::arch::x86_64::*;
use std::sync::LazyLock;

use crate::x86::Avx512Vbmi;

use super::tables::{EXPANSION, KEY_PLACE, PERMUTED, ROTATIONS, ROUND_KEY};
use super::{DesLane, Job, sboxes};

/// Messages side by side.
const STREAMS: usize = 4;

/// Lanes up to which messages go on here when their group has become that small.
pub(super) const LANES_MAX: usize = 20;

/// Cycles of one block's pass: alone, and among [`STREAMS`].
const PASS_CYCLES: [usize; 2] = [300, 120];
/// Cycles of a group's step without the cipher's passes.
const STEP_CYCLES: usize = 900;
/// Cycles of a pass in a group, of one step or of transposing a key for it.
const GROUP_PASS_CYCLES: [usize; 2] = [2500, 700];

/// Whether messages, the longest first, are done sooner here than in a group.
pub(super) fn is_faster(job: Job<'_>, lanes: &[DesLane<'_>]) -> bool {
    let most = lanes[0].len / 8;
    let there = job.passes * (GROUP_PASS_CYCLES[1] + most * GROUP_PASS_CYCLES[0]) + (most + 2) * STEP_CYCLES;
    let pass = job.passes * PASS_CYCLES[usize::from(lanes.len() >= STREAMS)];
    let mut here = 0;
    // Most groups are too large at a glance.
    lanes.len() * pass < there
        && lanes.iter().all(|lane| {
            here += lane.len / 8 * pass;
            here < there
        })
}

/// Where each byte of a vector comes from, and which bit of it is meant.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Wiring {
    from: [u8; 64],
    bit: [u8; 64],
}

/// Two S-boxes, the first in the lower half of each byte.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Boxes([u8; 64]);

/// All S-boxes, worked out once from their networks.
static BOXES: LazyLock<[Boxes; 4]> = LazyLock::new(|| {
    use sboxes::binary as network;
    let networks =
        [network::s1, network::s2, network::s3, network::s4, network::s5, network::s6, network::s7, network::s8];
    // Lane x of the inputs holds the bits of x.
    let input = |place: u32| (0..64u64).fold(0, |word, x| word | (x >> place & 1) << x);
    let results = networks.map(|network: fn(u64, u64, u64, u64, u64, u64) -> [u64; 4]| {
        network(input(5), input(4), input(3), input(2), input(1), input(0))
    });
    let value = |index: usize, x: usize| results[index].iter().fold(0, |value, word| 2 * value + (word >> x & 1) as u8);
    core::array::from_fn(|pair| Boxes(core::array::from_fn(|x| value(2 * pair, x) | value(2 * pair + 1, x) << 4)))
});

/// Wires the S-boxes' results through P and E; `from` names the part whose number the S-box looks up.
const ROUND: Wiring = round();

/// Which bytes take their bit from S-boxes `2·n` and `2·n + 1`.
const PAIRS: [u64; 4] = pairs();

/// The halves after the initial permutation, from a block's bytes.
const INITIAL: [Wiring; 2] = [initial(0), initial(32)];

/// A block's bytes, part `d` holding byte `d`, from the halves: even bytes of a vector hold the one that comes first.
const FINAL: Wiring = last();

/// Round keys from a key's bytes.
const KEYS: [Wiring; 16] = keys();

/// A bit's place after the initial permutation (FIPS 46-3) to its number in the block (see [`super::tables`]).
const fn initial_slice(place: usize) -> usize {
    let (row, column) = (place / 8, place % 8);
    let bit = if row < 4 { 2 * row + 1 } else { 2 * (row - 4) };
    8 * (7 - column) + 7 - bit
}

/// Part `d`'s number has six bits; input `i` of the S-box is bit `5 - i`, which byte `7 - (5 - i)` stands for.
const fn byte_of_input(part: usize, input: usize) -> usize {
    8 * part + 2 + input
}

const fn round() -> Wiring {
    let mut wiring = Wiring { from: [0; 64], bit: [0; 64] };
    let mut at = 0;
    while at < 48 {
        let (part, input) = (at / 6, at % 6);
        let (source, output) = source_of(EXPANSION[part][input]);
        wiring.from[byte_of_input(part, input)] = 8 * source as u8;
        wiring.bit[byte_of_input(part, input)] = 1 << (3 - output + 4 * (source % 2));
        at += 1;
    }
    wiring
}

const fn pairs() -> [u64; 4] {
    let mut masks = [0; 4];
    let mut at = 0;
    while at < 48 {
        let (part, input) = (at / 6, at % 6);
        let (source, _) = source_of(EXPANSION[part][input]);
        masks[source / 2] |= 1 << byte_of_input(part, input);
        at += 1;
    }
    masks
}

/// The S-box and its output that P takes to a place.
const fn source_of(place: usize) -> (usize, usize) {
    let mut at = 0;
    while PERMUTED[at / 4][at % 4] != place {
        at += 1;
    }
    (at / 4, at % 4)
}

const fn initial(half: usize) -> Wiring {
    let mut wiring = Wiring { from: [0; 64], bit: [0; 64] };
    let mut at = 0;
    while at < 48 {
        let (part, input) = (at / 6, at % 6);
        let slice = initial_slice(half + EXPANSION[part][input]);
        wiring.from[byte_of_input(part, input)] = (slice / 8) as u8;
        wiring.bit[byte_of_input(part, input)] = 1 << (slice % 8);
        at += 1;
    }
    wiring
}

const fn last() -> Wiring {
    let mut wiring = Wiring { from: [0; 64], bit: [0; 64] };
    let mut place = 0;
    while place < 64 {
        let slice = initial_slice(place);
        // S-box `d` takes bits 4·d to 4·d + 3 of its half as inputs 1 to 4.
        let (part, input) = (place % 32 / 4, place % 4 + 1);
        let to = 8 * (slice / 8) + 7 - slice % 8;
        wiring.from[to] = (8 * part + place / 32) as u8;
        wiring.bit[to] = 1 << (5 - input);
        place += 1;
    }
    wiring
}

const fn keys() -> [Wiring; 16] {
    let mut all = [Wiring { from: [0; 64], bit: [0; 64] }; 16];
    let mut at = 0;
    while at < 16 * 48 {
        let (round, part, input) = (at / 48, at % 48 / 6, at % 6);
        let slice = key_slice(ROUND_KEY[6 * part + input] + ROTATIONS[round] as usize);
        all[round].from[byte_of_input(part, input)] = (slice / 8) as u8;
        all[round].bit[byte_of_input(part, input)] = 1 << (slice % 8);
        at += 1;
    }
    all
}

/// The key's bit at a place of the doubled register.
const fn key_slice(place: usize) -> usize {
    let place = place / 56 * 56 + place % 56 % 28;
    let mut slice = 0;
    loop {
        if let Some(at) = KEY_PLACE[slice]
            && at as usize == place
        {
            return slice;
        }
        slice += 1;
    }
}

/// What rounds need in registers.
#[derive(Clone, Copy)]
struct Registers {
    boxes: [__m512i; 4],
    from: __m512i,
    bit: __m512i,
    ones: __m512i,
    /// [`PAIRS`], hidden from the compiler, which would make instructions of their own of masks that it knows.
    pairs: [__mmask64; 4],
}

/// The halves of a block.
#[derive(Clone, Copy)]
struct Halves {
    left: __m512i,
    right: __m512i,
}

#[inline(always)]
fn registers(_isa: Avx512Vbmi) -> Registers {
    let boxes = &*BOXES;
    // SAFETY: the token is the proof of AVX-512; arrays have 64 bytes.
    unsafe {
        let table = |index: usize| _mm512_load_si512(boxes[index].0.as_ptr().cast());
        Registers {
            boxes: [table(0), table(1), table(2), table(3)],
            from: _mm512_load_si512(ROUND.from.as_ptr().cast()),
            bit: _mm512_load_si512(ROUND.bit.as_ptr().cast()),
            ones: _mm512_set1_epi8(-1),
            pairs: core::hint::black_box(PAIRS),
        }
    }
}

/// Wires a vector's bytes into numbers.
#[inline(always)]
fn wire(_isa: Avx512Vbmi, bytes: __m512i, wiring: &'static Wiring) -> __m512i {
    // SAFETY: the token is the proof of AVX-512, VBMI and GFNI; arrays have 64 bytes.
    unsafe {
        let from = _mm512_load_si512(wiring.from.as_ptr().cast());
        let bit = _mm512_load_si512(wiring.bit.as_ptr().cast());
        let matrix = _mm512_and_si512(_mm512_permutexvar_epi8(from, bytes), bit);
        _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi8(-1), matrix)
    }
}

/// `f(right, key)` (FIPS 46-3) of what is already `right ^ key`.
#[inline(always)]
fn feistel(_isa: Avx512Vbmi, registers: &Registers, keyed: __m512i) -> __m512i {
    // SAFETY: the token is the proof of AVX-512, VBMI and GFNI.
    unsafe {
        let index = _mm512_permutexvar_epi8(registers.from, keyed);
        let a = _mm512_maskz_permutexvar_epi8(registers.pairs[0], index, registers.boxes[0]);
        let b = _mm512_maskz_permutexvar_epi8(registers.pairs[1], index, registers.boxes[1]);
        let c = _mm512_maskz_permutexvar_epi8(registers.pairs[2], index, registers.boxes[2]);
        let d = _mm512_maskz_permutexvar_epi8(registers.pairs[3], index, registers.boxes[3]);
        let any = _mm512_ternarylogic_epi64::<0xfe>(a, b, c);
        // (any | d) & bit
        let matrix = _mm512_ternarylogic_epi64::<0xa8>(any, d, registers.bit);
        _mm512_gf2p8affine_epi64_epi8::<0>(registers.ones, matrix)
    }
}

/// The passes of [`super::rounds::cipher`] on `N` blocks, each under its own key.
#[inline(always)]
fn cipher<const N: usize>(isa: Avx512Vbmi, job: Job<'_>, words: &[[__m512i; 3]; N], blocks: &mut [Halves; N]) {
    let registers = registers(isa);
    for pass in 0..job.passes {
        let index = if job.encrypt { pass } else { job.passes - 1 - pass };
        let forward = job.encrypt != (pass == 1);
        for round in 0..16 {
            let wiring = &KEYS[if forward { round } else { 15 - round }];
            for lane in 0..N {
                let key = wire(isa, words[lane][index], wiring);
                let Halves { left, right } = blocks[lane];
                // SAFETY: the token is the proof of AVX-512.
                unsafe {
                    let f = feistel(isa, &registers, _mm512_xor_si512(right, key));
                    blocks[lane] = Halves { left: right, right: _mm512_xor_si512(left, f) };
                }
            }
        }
        for block in blocks.iter_mut() {
            *block = Halves { left: block.right, right: block.left };
        }
    }
}

#[inline(always)]
fn xor(_isa: Avx512Vbmi, a: Halves, b: Halves) -> Halves {
    // SAFETY: the token is the proof of AVX-512.
    unsafe { Halves { left: _mm512_xor_si512(a.left, b.left), right: _mm512_xor_si512(a.right, b.right) } }
}

/// A block after the initial permutation.
#[inline(always)]
fn enter(isa: Avx512Vbmi, block: [u8; 8]) -> Halves {
    // SAFETY: the token is the proof of AVX-512.
    let bytes = unsafe { _mm512_castsi128_si512(_mm_cvtsi64_si128(i64::from_le_bytes(block))) };
    Halves { left: wire(isa, bytes, &INITIAL[0]), right: wire(isa, bytes, &INITIAL[1]) }
}

/// A block's bytes after the final permutation.
#[inline(always)]
fn leave(isa: Avx512Vbmi, block: Halves) -> [u8; 8] {
    // SAFETY: the token is the proof of AVX-512.
    unsafe {
        let both = _mm512_mask_blend_epi8(0xaaaa_aaaa_aaaa_aaaa, block.left, block.right);
        _mm_cvtsi128_si64(_mm512_cvtepi64_epi8(wire(isa, both, &FINAL))).to_le_bytes()
    }
}

crate::x86::with_avx512_vbmi! {
    /// Runs messages, none empty, the longest first, few at a time.
    ///
    /// # Safety
    /// As in [`super::group::group`].
    pub(super) unsafe fn few(isa: Avx512Vbmi, job: Job<'_>, lanes: &[DesLane<'_>]) {
        let (groups, rest) = lanes.as_chunks::<STREAMS>();
        // SAFETY: the caller's promise.
        unsafe {
            for group in groups {
                side_by_side(isa, job, group);
            }
            match rest {
                [] => {}
                [a] => side_by_side(isa, job, &[*a]),
                [a, b] => side_by_side(isa, job, &[*a, *b]),
                [a, b, c, ..] => side_by_side(isa, job, &[*a, *b, *c]),
            }
        }
    }
}

/// Goes on with messages of which a group has done `done` blocks each.
///
/// # Safety
/// As in [`few`]; what was done has been written.
pub(super) unsafe fn go_on(isa: Avx512Vbmi, job: Job<'_>, lanes: &[DesLane<'_>], done: usize) {
    let left = lanes.partition_point(|lane| lane.len / 8 > done);
    for lanes in lanes[..left].chunks(STREAMS) {
        let mut rest = [lanes[0]; STREAMS];
        for (rest, lane) in rest.iter_mut().zip(lanes) {
            // SAFETY: the message has more blocks than have been done and written.
            *rest = unsafe {
                DesLane {
                    iv: if done == 0 { lane.iv } else { lane.output.add(8 * done - 8).cast::<[u8; 8]>().read() },
                    input: lane.input.add(8 * done),
                    output: lane.output.add(8 * done),
                    len: lane.len - 8 * done,
                    ..*lane
                }
            };
        }
        // SAFETY: the caller's promise.
        unsafe { few(isa, job, &rest[..lanes.len()]) };
    }
}

/// Runs `N` messages; those that have ended repeat their last block without writing it.
///
/// # Safety
/// As in [`few`].
#[inline(always)]
unsafe fn side_by_side<const N: usize>(isa: Avx512Vbmi, job: Job<'_>, lanes: &[DesLane<'_>; N]) {
    // SAFETY: the token is the proof of AVX-512.
    let zero = unsafe { _mm512_setzero_si512() };
    let mut words = [[zero; 3]; N];
    let mut chain = [Halves { left: zero, right: zero }; N];
    for (lane, message) in lanes.iter().enumerate() {
        for pass in 0..job.passes {
            // SAFETY: the token is the proof of AVX-512.
            words[lane][pass] = unsafe { _mm512_castsi128_si512(_mm_cvtsi64_si128(message.key[pass] as i64)) };
        }
        if job.cbc {
            chain[lane] = enter(isa, message.iv);
        }
    }
    for at in 0..lanes[0].len / 8 {
        let mut blocks = [Halves { left: zero, right: zero }; N];
        for (block, message) in blocks.iter_mut().zip(lanes) {
            let at = at.min(message.len / 8 - 1);
            // SAFETY: the message has this block.
            *block = enter(isa, unsafe { message.input.add(8 * at).cast::<[u8; 8]>().read() });
        }
        let entered = blocks;
        if job.cbc && job.encrypt {
            for lane in 0..N {
                blocks[lane] = xor(isa, blocks[lane], chain[lane]);
            }
        }
        cipher(isa, job, &words, &mut blocks);
        if job.cbc && !job.encrypt {
            for lane in 0..N {
                blocks[lane] = xor(isa, blocks[lane], chain[lane]);
            }
        }
        chain = if job.encrypt { blocks } else { entered };
        for (block, message) in blocks.iter().zip(lanes) {
            if 8 * at < message.len {
                // SAFETY: the message has this block.
                unsafe { message.output.add(8 * at).cast::<[u8; 8]>().write(leave(isa, *block)) };
            }
        }
    }
}
