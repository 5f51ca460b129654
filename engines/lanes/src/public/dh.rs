//! Finite-field Diffie-Hellman (NIST SP 800-56A, 5.7.1.1) in the groups of RFC 7919 and of IKE (RFC 2409, RFC 3526).
//!
//! *The floor.* An exponent of `b` bits takes `b` squarings and `b / 4 + 16` products of `n` limbs, some `3.1 n² b` multiply-adds (see
//! [`montgomery`](super::montgomery)) for eight operations: with the 225 bits that ffdhe2048 asks for, 1.2 M, which is 57,000 operations
//! a second and core at two of them a cycle and 4.2 GHz.
//!
//! That a public value lies in the subgroup is found by its Legendre symbol, on the host: the order is half of the prime, so that
//! the subgroup's members are the squares. Raising to the order, as NIST SP 800-56A, 5.6.2.3.1 says it, gives the same symbol (Euler)
//! and takes as long in lanes as eight times the exponent of 256 bits.

use std::sync::OnceLock;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Agreement, DhGroup};
use ciphermill_contract::{Capability, Cost, Directions, KeyMaterial, OpStatus, PreparedKey, Reason, Suite};
use ciphermill_pairs::dh::prime;
use ciphermill_pairs::padding::Block;
use zeroize::Zeroizing;

use super::isa::{PublicKernel, Vectors, public_kernels};
use super::legendre::is_square;
use super::long::{OddModuli, OddModulus};
use super::powers::{Digits, Powers, power};
use super::room::Room;
use super::{count_lanes, groups};
use crate::select::Kernels;
use crate::work::{Scratch, Work};

/// A private exponent, in words of 64 bits; wiped when dropped.
struct DhKey {
    group: DhGroup,
    exponent: Zeroizing<Vec<u64>>,
    /// Bits of the exponent's encoding, whose length is no secret.
    bits: u32,
}

/// A key and a public value, big-endian.
struct Job<'k> {
    key: &'k DhKey,
    peer: &'k [u8],
}

const BAD_PUBLIC_VALUE: OpStatus = OpStatus::BadInput(Reason::BadPublicValue);

/// Each group, with microseconds of an operation in full lanes on Zen 5, of which most are for the exponent.
const GROUPS: [(Suite, f64); GROUP_COUNT] = [
    (Suite::Agree(Agreement::Dh(DhGroup::Ffdhe2048)), 33.0),
    (Suite::Agree(Agreement::Dh(DhGroup::Ffdhe3072)), 78.0),
    (Suite::Agree(Agreement::Dh(DhGroup::Ffdhe4096)), 150.0),
    (Suite::Agree(Agreement::Dh(DhGroup::Modp1024)), 9.0),
    (Suite::Agree(Agreement::Dh(DhGroup::Modp1536)), 19.0),
    (Suite::Agree(Agreement::Dh(DhGroup::Modp2048)), 38.0),
    (Suite::Agree(Agreement::Dh(DhGroup::Modp3072)), 98.0),
    (Suite::Agree(Agreement::Dh(DhGroup::Modp4096)), 180.0),
    (Suite::Agree(Agreement::Dh(DhGroup::Modp6144)), 440.0),
    (Suite::Agree(Agreement::Dh(DhGroup::Modp8192)), 860.0),
];

/// Groups that there are.
const GROUP_COUNT: usize = 10;

/// What the family runs.
pub(super) fn capabilities(kernel: PublicKernel) -> impl Iterator<Item = Capability> {
    GROUPS.iter().map(move |(suite, us)| {
        let cost = Cost::new(500.0, 1000.0 * us * kernel.slower(), 0.0);
        Capability::new(core::slice::from_ref(suite), cost)
            .directions(Directions::ENCRYPT)
            .lanes(kernel.lanes())
            .in_step()
    })
}

/// Limbs of a group's prime: ten a block, and eight bits at least above it, as factors of [`power`] below `2^4` primes ask for.
const fn limbs_of(group: DhGroup) -> usize {
    match group {
        DhGroup::Modp1024 => 20,
        DhGroup::Modp1536 => 30,
        DhGroup::Ffdhe2048 | DhGroup::Modp2048 => 40,
        DhGroup::Ffdhe3072 | DhGroup::Modp3072 => 60,
        DhGroup::Ffdhe4096 | DhGroup::Modp4096 => 80,
        DhGroup::Modp6144 => 120,
        DhGroup::Modp8192 => 160,
    }
}

/// Arithmetic modulo a group's prime.
fn field(group: DhGroup) -> Option<&'static OddModulus> {
    static MODULI: [OnceLock<Option<OddModulus>>; GROUP_COUNT] = [const { OnceLock::new() }; GROUP_COUNT];
    let of = || OddModulus::new(&prime(group).iter().rev().copied().collect::<Vec<u8>>(), limbs_of(group));
    MODULI[group as usize].get_or_init(of).as_ref()
}

/// Prepares a private exponent.
///
/// # Errors
/// `Parameters` when it is not below the order `(p - 1) / 2`. The contract has refused zero.
pub(super) fn prepare(key: &KeyMaterial<'_>, suite: Suite, group: DhGroup) -> Result<PreparedKey, KeyProblem> {
    let prime = prime(group);
    let mut order = Vec::with_capacity(prime.len());
    prime.iter().fold(0, |carry, byte| {
        order.push(byte >> 1 | carry << 7);
        byte & 1
    });
    if key.bytes.len() > order.len() {
        return Err(KeyProblem::Length);
    }
    // Compared from the lowest byte on, so that the time tells nothing of the exponent: the last difference counts.
    let (mut is_below, skipped) = (false, order.len() - key.bytes.len());
    for (own, bound) in key.bytes.iter().zip(&order[skipped..]).rev() {
        let (own, bound) = (core::hint::black_box(*own), *bound);
        is_below = (own < bound) | ((own == bound) & is_below);
    }
    if skipped == 0 && !is_below {
        return Err(KeyProblem::Parameters);
    }
    let word = |chunk: &[u8]| chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let exponent = Zeroizing::new(key.bytes.rchunks(8).map(word).collect());
    let bits = 8 * key.bytes.len() as u32;
    Ok(PreparedKey::for_suite(suite, DhKey { group, exponent, bits }))
}

/// Runs a batch.
pub(super) fn run(kernels: &Kernels, work: &mut Work<'_>, scratch: &mut Scratch) {
    let kernel = kernels.public;
    groups::<DhKey>(work, kernel.lanes().into(), |work, group| {
        let (mut good, mut jobs) = (Vec::new(), Vec::new());
        for (index, key) in group.iter().copied() {
            let peer = work.input(index);
            if is_public_value(key.group, peer) {
                good.push(index);
                jobs.push(Job { key, peer });
            }
        }
        count_lanes(kernel, &mut scratch.occupancy, jobs.len());
        let mut secrets = good.into_iter().zip(agree(kernel, &mut scratch.room, &jobs)).peekable();
        for (index, _) in group {
            match secrets.next_if(|(good, _)| good == index) {
                Some((_, secret)) => work.finish(*index, &secret, &[]),
                None => work.fail(*index, BAD_PUBLIC_VALUE),
            }
        }
    });
}

/// Whether a public value is from 2 to `p - 2` and a square (NIST SP 800-56A, 5.6.2.3.1). Public: the time may tell.
fn is_public_value(group: DhGroup, value: &[u8]) -> bool {
    let prime = prime(group);
    let is_small = value.split_last().is_none_or(|(last, rest)| *last < 2 && rest.iter().all(|byte| *byte == 0));
    // The prime is odd: one less differs in its last byte.
    let is_large = value
        .split_last()
        .zip(prime.split_last())
        .is_none_or(|((last, rest), (prime_last, prime_rest))| (rest, *last) >= (prime_rest, prime_last - 1));
    value.len() == prime.len() && !is_small && !is_large && is_square(value, prime)
}

public_kernels! {
    /// Raises public values to their exponents: as many jobs as there are lanes at most, of one group.
    fn agree(room: &mut Room, jobs: &[Job<'_>]) -> Vec<Block> = raise
}

#[inline(always)]
fn raise<I: Vectors>(isa: I, room: &mut Room, jobs: &[Job<'_>]) -> Vec<Block> {
    let Some((first, field)) = jobs.first().and_then(|first| Some((first, field(first.key.group)?))) else {
        return Vec::new();
    };
    let limbs = field.limbs.len();
    let job = |lane: usize| jobs.get(lane).unwrap_or(first);
    let bits = jobs.iter().map(|job| job.key.bits).max().unwrap_or_default();
    let mut open =
        room.open::<I>((OddModuli::<I>::NUMBERS + Powers::<I>::NUMBERS + 1) * limbs + Digits::<I>::count(bits));
    let fields = OddModuli::load(isa, &mut open, limbs, |_| field);
    let digits = Digits::open(&mut open, bits);
    let powers = Powers::open(&mut open, limbs);
    let numbers = open.number(limbs);
    for lane in 0..I::LANES {
        numbers.set_be(lane, job(lane).peer);
        digits.set(lane, &job(lane).key.exponent);
    }
    fields.enter(isa, numbers, numbers);
    power(isa, numbers, numbers, digits, powers, &fields);
    fields.leave(isa, numbers, numbers);
    jobs.iter().enumerate().map(|(lane, job)| numbers.be(lane, job.peer.len())).collect()
}
