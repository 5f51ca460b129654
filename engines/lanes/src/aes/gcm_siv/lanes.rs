//! A group of messages from their nonces to their tags, a message a lane.

use core::arch::x86_64::*;

use super::keys::Group;
use super::{LANES, LONG_BLOCKS, Message, counter_block, ghash, lengths, single, tag_block};
use crate::aes::ghash::{Factors, Sum};
use crate::aes::isa::{Blocks, Isa};

/// Seals or opens a group of `count` messages. Returns a bit for each: whether its tag is right. The output has been
/// written in any case.
///
/// # Safety
/// See [`Message`].
#[inline(always)]
pub(super) unsafe fn group<I: Isa, const R: usize, const B: usize, const ENCRYPT: bool, const G: usize>(
    isa: I,
    messages: &[Message; LANES],
    count: usize,
    group: &mut Group<I::V, G>,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        group.derive::<I, R, B>(isa, messages);
        // Groups are ordered, so the first message is the longest.
        if messages[0].len.div_ceil(16) < LONG_BLOCKS {
            return if ENCRYPT {
                seal::<I, R, G>(isa, messages, count, group)
            } else {
                open::<I, R, G>(isa, messages, count, group)
            };
        }
        let mut good = 0;
        for (lane, message) in messages[..count].iter().enumerate() {
            good |= u32::from(single::message::<I, R, ENCRYPT, G>(isa, message, lane, group)) << lane;
        }
        good
    }
}

/// # Safety
/// See [`Message`].
#[inline(always)]
unsafe fn seal<I: Isa, const R: usize, const G: usize>(
    isa: I,
    messages: &[Message; LANES],
    count: usize,
    group: &Group<I::V, G>,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        let tags = tags::<I, R, true, G>(isa, messages, group);
        add_stream::<I, R, G>(isa, messages, group, &tags);
        for lane in 0..G * I::LEN {
            if lane < count {
                _mm_storeu_si128(messages[lane % LANES].tag.cast(), tags[lane / I::LEN].extract(lane % I::LEN));
            }
        }
    }
    u32::MAX
}

/// # Safety
/// See [`Message`].
#[inline(always)]
unsafe fn open<I: Isa, const R: usize, const G: usize>(
    isa: I,
    messages: &[Message; LANES],
    count: usize,
    group: &Group<I::V, G>,
) -> u32 {
    let mut given = [isa.zero(); G];
    let mut good = 0;
    // SAFETY: the caller's promise; lanes without a message have the first one's tag.
    unsafe {
        for (g, given) in given.iter_mut().enumerate() {
            let own = |i: usize| messages[(g * I::LEN + i % I::LEN) % LANES].tag.cast::<__m128i>();
            *given = isa.gather([
                _mm_loadu_si128(own(0)),
                _mm_loadu_si128(own(1)),
                _mm_loadu_si128(own(2)),
                _mm_loadu_si128(own(3)),
            ]);
        }
        add_stream::<I, R, G>(isa, messages, group, &given);
        let tags = tags::<I, R, false, G>(isa, messages, group);
        for lane in 0..G * I::LEN {
            if lane < count {
                let difference = tags[lane / I::LEN].xor(given[lane / I::LEN]).extract(lane % I::LEN);
                // Any bits are a `u128`.
                good |= u32::from(core::mem::transmute::<__m128i, u128>(difference) == 0) << lane;
            }
        }
    }
    good
}

/// Every lane's tag. The plaintext is the input when encrypting, else the output.
///
/// # Safety
/// See [`Message`].
#[inline(always)]
unsafe fn tags<I: Isa, const R: usize, const ENCRYPT: bool, const G: usize>(
    isa: I,
    messages: &[Message; LANES],
    group: &Group<I::V, G>,
) -> [I::V; G] {
    let polynomial = ghash::polynomial(isa);
    let mut hash = [isa.zero(); G];
    let mut factors = [Factors { low: isa.zero(), high: isa.zero() }; G];
    for (factors, key) in factors.iter_mut().zip(&group.hash) {
        *factors = Factors::of(*key, polynomial);
    }
    let mut aads = [(core::ptr::null(), 0); LANES];
    let mut data = [(core::ptr::null(), 0); LANES];
    for lane in 0..LANES.min(G * I::LEN) {
        let message = &messages[lane];
        aads[lane] = (message.aad, message.aad_len);
        data[lane] = (if ENCRYPT { message.input } else { message.output.cast_const() }, message.len);
    }
    // SAFETY: the caller's promise.
    unsafe {
        absorb::<I, G>(isa, &factors, &mut hash, &aads);
        absorb::<I, G>(isa, &factors, &mut hash, &data);
    }
    for (g, hash) in hash.iter_mut().enumerate() {
        let own = |i: usize| &messages[(g * I::LEN + i % I::LEN) % LANES];
        let block = isa.gather([lengths(own(0)), lengths(own(1)), lengths(own(2)), lengths(own(3))]);
        *hash = Sum::of(hash.xor(block), factors[g]).reduce(polynomial);
        *hash = tag_block(isa, *hash, isa.gather([own(0).iv, own(1).iv, own(2).iv, own(3).iv]));
    }
    group.encrypt::<R>(&mut hash);
    hash
}

/// Hashes each lane's bytes, filled up to whole blocks with zeros.
///
/// # Safety
/// They may be read.
#[inline(always)]
unsafe fn absorb<I: Isa, const G: usize>(
    isa: I,
    factors: &[Factors<I::V>; G],
    hash: &mut [I::V; G],
    places: &[(*const u8, usize); LANES],
) {
    let lanes = &places[..G * I::LEN];
    let blocks = |place: &(*const u8, usize)| place.1.div_ceil(16);
    let most = lanes.iter().map(blocks).max().unwrap_or(0);
    let even = lanes.iter().all(|place| blocks(place) == most);
    let polynomial = ghash::polynomial(isa);
    let mut tile = 0;
    while tile < most {
        let mut columns = [[isa.zero(); 4]; G];
        for (g, columns) in columns.iter_mut().enumerate() {
            for (i, row) in columns.iter_mut().enumerate().take(I::LEN) {
                let (from, len) = lanes[g * I::LEN + i];
                // SAFETY: the caller's promise; `part` keeps within `len`.
                *row = unsafe { isa.load_partial(from.wrapping_add(16 * tile), part::<I>(tile, len)) };
            }
            *columns = isa.transpose(*columns);
        }
        for i in 0..I::LEN {
            if tile + i >= most {
                break;
            }
            for g in 0..G {
                let next = Sum::of(hash[g].xor(columns[g][i]), factors[g]).reduce(polynomial);
                hash[g] = if even { next } else { choose(isa, hash[g], next, tile + i, &lanes[g * I::LEN..]) };
            }
        }
        tile += I::LEN;
    }
}

/// `next` in lanes that have a block `index`, `hash` in the others.
#[inline(always)]
fn choose<I: Isa>(isa: I, hash: I::V, next: I::V, index: usize, lanes: &[(*const u8, usize)]) -> I::V {
    let has = |i: usize| {
        let active = index < lanes[i % I::LEN].1.div_ceil(16);
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_set1_epi32(-i32::from(active)) }
    };
    let mask = isa.gather([has(0), has(1), has(2), has(3)]);
    next.and(mask).or(hash.and_not(mask))
}

/// Bytes of a message within a tile that begins with block `tile`.
#[inline(always)]
fn part<I: Isa>(tile: usize, len: usize) -> usize {
    len.saturating_sub(16 * tile).min(16 * I::LEN)
}

/// Adds each lane's key stream to its input (RFC 8452, 4: a little-endian counter in the first four bytes).
///
/// # Safety
/// See [`Message`].
#[inline(always)]
unsafe fn add_stream<I: Isa, const R: usize, const G: usize>(
    isa: I,
    messages: &[Message; LANES],
    group: &Group<I::V, G>,
    tags: &[I::V; G],
) {
    let most = messages[..G * I::LEN].iter().map(|message| message.len.div_ceil(16)).max().unwrap_or(0);
    let mut tile = 0;
    while tile < most {
        let mut stream = [[isa.zero(); 4]; G];
        for i in 0..I::LEN {
            if tile + i >= most {
                break;
            }
            let mut blocks = *tags;
            for block in &mut blocks {
                *block = counter_block(isa, *block).add32(isa.pair((tile + i) as u64, 0));
            }
            group.encrypt::<R>(&mut blocks);
            for (stream, block) in stream.iter_mut().zip(blocks) {
                stream[i] = block;
            }
        }
        // All loads come before all stores: a load that follows a masked store close by waits for it.
        for (g, rows) in stream.iter_mut().enumerate() {
            *rows = isa.transpose(*rows);
            for (i, row) in rows.iter_mut().enumerate().take(I::LEN) {
                let message = &messages[(g * I::LEN + i) % LANES];
                let here = part::<I>(tile, message.len);
                // SAFETY: the caller's promise; `part` keeps within `len`.
                *row = row.xor(unsafe { isa.load_partial(message.input.wrapping_add(16 * tile), here) });
            }
        }
        for (g, rows) in stream.iter().enumerate() {
            for (i, row) in rows.iter().enumerate().take(I::LEN) {
                let message = &messages[(g * I::LEN + i) % LANES];
                let here = part::<I>(tile, message.len);
                // SAFETY: the caller's promise; `part` keeps within `len`.
                unsafe { row.store_partial(message.output.wrapping_add(16 * tile), here) };
            }
        }
        tile += I::LEN;
    }
}
