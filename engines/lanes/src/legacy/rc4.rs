//! RC4: a permutation of the bytes, of which two change places for each byte of key stream. Every message starts from
//! its key's permutation, which is copied; [`LANES`] messages go on in turns, a byte each.
//!
//! # Floor
//! A byte takes three loads, each of which needs the one before, and two stores to places that later loads may want: no
//! load of the next byte may be sure of its value before the places of these stores are known, so that a message alone
//! takes more than six cycles a byte. Side by side, the two stores are the limit: a cycle each where they go to
//! different cache lines, as three quarters of them do, hence not below 1.5 to 2 cycles a byte; the eleven instructions
//! a byte are 1.8 at six a cycle. More than three messages' indices and key streams do not fit the registers.

use core::array;

use ciphermill_contract::{PreparedKey, Suite};
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::{Feed, Prepared, by_length};
use crate::work::{Item, Scratch, Work};

/// Messages side by side.
pub(super) const LANES: usize = 3;

/// Bytes that are made before they are added to the data.
const GROUP: usize = 8;

/// Keys that are set up side by side.
const SET_UP_LANES: usize = 4;

/// A permutation of the bytes. The entry of index `i` lies at `i - 1`: the first that a message takes is that of index
/// 1, so that groups of entries taken in turn lie within their places.
type Permutation = [u8; 256];

/// A prepared key: the permutation after the key schedule. It is made where it stays.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Key(Box<Permutation>);

/// A message on its way.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Lane {
    permutation: Permutation,
    input: *const u8,
    output: *mut u8,
    /// Bytes.
    left: usize,
    /// Groups that are through.
    groups: usize,
    /// The place of the index that depends on the key.
    j: u8,
}

/// Prepares keys of up to 256 bytes, several side by side.
pub(super) fn prepare(keys: &[&[u8]], suite: Suite) -> Vec<Prepared> {
    let mut permutations: Vec<Box<Permutation>> = keys.iter().map(|_| Box::new([0; 256])).collect();
    let ((some, rest), (some_keys, rest_keys)) = (permutations.as_chunks_mut::<SET_UP_LANES>(), keys.as_chunks());
    for (some, keys) in some.iter_mut().zip(some_keys) {
        set_up(some, keys);
    }
    for (one, key) in rest.iter_mut().zip(rest_keys) {
        set_up(array::from_mut(one), array::from_ref(key));
    }
    permutations.into_iter().map(|permutation| Ok(PreparedKey::for_suite(suite, Key(permutation)))).collect()
}

/// The key schedule: 256 exchanges that the key drives.
fn set_up<const N: usize>(permutations: &mut [Box<Permutation>; N], keys: &[&[u8]; N]) {
    for permutation in &mut *permutations {
        for (place, value) in permutation.iter_mut().zip(0..=u8::MAX) {
            *place = value;
        }
    }
    let (mut j, mut at) = ([0u8; N], [0; N]);
    for i in 0..256 {
        for n in 0..N {
            let permutation = &mut *permutations[n];
            j[n] = j[n].wrapping_add(permutation[i]).wrapping_add(keys[n][at[n]]);
            permutation.swap(i, usize::from(j[n]));
            at[n] = if at[n] + 1 == keys[n].len() { 0 } else { at[n] + 1 };
        }
    }
    for permutation in permutations {
        permutation.rotate_left(1);
    }
    j.zeroize();
}

impl Lane {
    const NONE: Lane = Lane {
        permutation: [0; 256],
        input: core::ptr::null(),
        output: core::ptr::null_mut(),
        left: 0,
        groups: 0,
        j: 0,
    };

    #[inline(always)]
    fn start(&mut self, item: &Item) {
        // SAFETY: collected with this type; the batch is still borrowed.
        self.permutation = *unsafe { item.key::<Key>() }.0;
        (self.input, self.output, self.left) = (item.input, item.output, item.len as usize);
        // Index 0 lies at place 255.
        (self.groups, self.j) = (0, 255);
    }
}

/// Runs a batch.
pub(super) fn run(work: &mut Work<'_>, scratch: &mut Scratch) {
    let mut feed = Feed::<Key>::new(work, scratch, by_length);
    let mut lanes = [Lane::NONE; LANES];
    let (mut used, mut dry) = (0, false);
    let (mut busy, mut idle) = (0, 0);
    loop {
        for lane in lanes.iter_mut().filter(|lane| lane.left == 0) {
            match feed.next() {
                Some(item) => lane.start(&item),
                None => {
                    dry = true;
                    break;
                }
            }
        }
        let count = if dry { compact(&mut lanes) } else { LANES };
        used = used.max(count);
        let shortest = lanes[..count].iter().map(|lane| lane.left).min();
        let Some(groups) = shortest.map(|left| left.div_ceil(GROUP)) else { break };
        busy += count * groups;
        idle += (LANES - count) * groups;
        // SAFETY: the batch's check: `left` bytes lie at both places of each lane, which are one place or apart.
        unsafe { advance_all(&mut lanes[..count], groups) };
    }
    feed.scratch.occupancy.add(busy, idle);
    for lane in &mut lanes[..used] {
        lane.permutation.zeroize();
    }
}

/// Moves the lanes that have bytes left to the front and returns how many there are.
fn compact(lanes: &mut [Lane; LANES]) -> usize {
    let mut kept = 0;
    for n in 0..LANES {
        if lanes[n].left > 0 {
            if n != kept {
                lanes.swap(n, kept);
            }
            kept += 1;
        }
    }
    kept
}

/// So many groups of each lane, as many lanes in turns as can be.
///
/// # Safety
/// Each lane has bytes left in every group, and its places are valid for them.
unsafe fn advance_all(lanes: &mut [Lane], groups: usize) {
    let (all, lanes) = lanes.as_chunks_mut::<LANES>();
    let (twos, lanes) = lanes.as_chunks_mut::<2>();
    // SAFETY: the caller's promise.
    unsafe {
        all.iter_mut().for_each(|lanes| advance(lanes, groups));
        twos.iter_mut().for_each(|lanes| advance(lanes, groups));
        lanes.iter_mut().for_each(|lane| advance(array::from_mut(lane), groups));
    }
}

/// So many groups of each lane.
///
/// # Safety
/// As in [`advance_all`].
#[inline(never)]
unsafe fn advance<const N: usize>(lanes: &mut [Lane; N], groups: usize) {
    let mut j = lanes.each_ref().map(|lane| lane.j);
    let mut pads = [0u64; N];
    for _ in 0..groups {
        pads = [0; N];
        for byte in 0..GROUP {
            for n in 0..N {
                let permutation = &mut lanes[n].permutation;
                let i = GROUP * (lanes[n].groups % (256 / GROUP)) + byte;
                let x = permutation[i];
                j[n] = j[n].wrapping_add(x);
                let y = permutation[usize::from(j[n])];
                permutation[usize::from(j[n])] = x;
                permutation[i] = y;
                // The place of index x + y.
                let pad = permutation[usize::from(x.wrapping_add(y).wrapping_sub(1))];
                pads[n] |= u64::from(pad) << (8 * byte);
            }
        }
        for n in 0..N {
            // SAFETY: the caller's promise.
            unsafe { lanes[n].add(pads[n]) };
        }
    }
    for n in 0..N {
        lanes[n].j = j[n];
    }
    pads.zeroize();
}

impl Lane {
    /// Adds a group of key stream to the data, as far as they reach.
    ///
    /// # Safety
    /// The lane's places are valid for the bytes that are left.
    #[inline(always)]
    unsafe fn add(&mut self, pad: u64) {
        self.groups += 1;
        // SAFETY: the caller's promise; a group is left.
        unsafe {
            if self.left >= GROUP {
                let data = u64::from_le_bytes(self.input.cast::<[u8; GROUP]>().read());
                self.output.cast::<[u8; GROUP]>().write((data ^ pad).to_le_bytes());
                self.input = self.input.add(GROUP);
                self.output = self.output.add(GROUP);
                self.left -= GROUP;
                return;
            }
        }
        for (at, pad) in pad.to_le_bytes().into_iter().enumerate().take(self.left) {
            // SAFETY: the caller's promise; this byte is left.
            unsafe { self.output.add(at).write(self.input.add(at).read() ^ pad) };
        }
        self.left = 0;
    }
}
