//! ECDSA (FIPS 186-5, 6.4), with the nonces of RFC 6979.
//!
//! The floor with P-256, for eight operations: a signature is 43 additions of the generator's multiples, 34,000 multiply-adds,
//! and verifying one is key agreement and a second such sum, 240,000. Inversions are shared by a few groups. A nonce is some
//! 24 compressions of SHA-256.
//!
//! Nonces have 32 fresh random bytes as additional data (3.6): two signatures of one message have nonces of their own, so that
//! a wrong point in one of them betrays nothing of the key. A point that is not on the curve is a fault. A wrong one that is
//! on it makes a signature that does not verify, which is not found out here.

use core::marker::PhantomData;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Signature;
use ciphermill_contract::{Direction, KeyMaterial, OpStatus, PreparedKey, Reason, Suite};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::super::isa::PublicKernel;
use super::agree::point;
use super::curve::{Curve, Pair};
use super::generator;
use super::isa::with_vectors;
use super::modulus::{LEN_MAX, Modulus, from_bytes, is_within, to_bytes};
use super::nonce::{HEDGE_LEN, Seed, digest_number, draw};
use super::numbers::GROUPS_MAX;
use super::signature::{Nonce, Sign, Signed};
use super::verify::{Claim, Verdict, Verify};
use crate::declassify::declassify;
use crate::hash;
use crate::select::Kernels;
use crate::work::{Scratch, Work};

/// A public key that is asked to sign.
const NO_PRIVATE_KEY: OpStatus = OpStatus::Refused(Reason::KeyUnsuitable);

/// A key pair or its public half.
struct Key<V, const L: usize> {
    private: Option<Private<L>>,
    public: [[u64; L]; 2],
    verifier: V,
}

/// A scalar, as limbs and as bytes.
struct Private<const L: usize> {
    limbs: Limbs<L>,
    bytes: Zeroizing<Vec<u8>>,
}

#[derive(Zeroize, ZeroizeOnDrop)]
struct Limbs<const L: usize>([u64; L]);

/// Prepares a key.
///
/// # Errors
/// As [`Curve::pair`].
pub(super) fn prepare<C: Curve<L>, const L: usize>(
    key: &KeyMaterial<'_>,
    suite: Suite,
) -> Result<PreparedKey, KeyProblem> {
    let Pair { secret, point: bytes, verifier } = C::pair(key)?;
    let public = point::<C, L>(&bytes).ok_or(KeyProblem::Encoding)?;
    let private = secret.map(|bytes| Private { limbs: Limbs(from_bytes(&bytes)), bytes });
    Ok(PreparedKey::for_suite(suite, Key::<C::Verifier, L> { private, public, verifier }))
}

/// Runs a batch.
pub(super) fn run<C: Curve<L>, const L: usize>(kernels: &Kernels, work: &mut Work<'_>, scratch: &mut Scratch) {
    let lanes = usize::from(kernels.public.lanes());
    let direction = work.direction();
    let are_given = matches!(work.suite(), Suite::Sign(Signature::EcdsaDigest(_)));
    super::super::groups::<Key<C::Verifier, L>>(work, lanes * GROUPS_MAX, |work, ops| {
        super::super::count_lanes(kernels.public, &mut scratch.occupancy, ops.len());
        let inputs: Vec<&[u8]> = ops.iter().map(|(index, _)| work.input(*index)).collect();
        let digests = if are_given {
            inputs.iter().map(|input| Digest::given(input)).collect()
        } else {
            made::<C, L>(kernels, &inputs)
        };
        let digests: Vec<&[u8]> = digests.iter().map(Digest::bytes).collect();
        match direction {
            Direction::Encrypt => sign::<C, L>(kernels, work, scratch, ops, &digests),
            Direction::Decrypt => verify::<C, L>(kernels.public, work, scratch, ops, &digests),
        }
    });
}

/// What is signed or verified: the digest of a message, or the input itself.
struct Digest {
    bytes: hash::Tag,
    len: usize,
}

impl Digest {
    /// The contract lets no longer ones in.
    fn given(input: &[u8]) -> Digest {
        let mut bytes = [0; hash::DIGEST_MAX];
        bytes[..input.len()].copy_from_slice(input);
        Digest { bytes, len: input.len() }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn made<C: Curve<L>, const L: usize>(kernels: &Kernels, messages: &[&[u8]]) -> Vec<Digest> {
    let digests = hash::digests(kernels.hash, C::DIGEST, messages);
    digests.into_iter().map(|bytes| Digest { bytes, len: C::DIGEST.len() }).collect()
}

/// An operation that is signed: its index, its key and its digest.
#[derive(Clone, Copy)]
struct Job<'a, const L: usize> {
    op: usize,
    private: &'a Private<L>,
    digest: &'a [u8],
    /// The digest as a number.
    number: [u64; L],
}

impl<'a, const L: usize> Job<'a, L> {
    fn seed(&self, hedge: &'a [u8; HEDGE_LEN]) -> Seed<'a> {
        Seed { secret: &self.private.bytes, digest: self.digest, hedge }
    }

    fn nonce(&self, scalar: &[u64; L]) -> Nonce<'a, L> {
        Nonce { scalar: *scalar, secret: &self.private.limbs.0, digest: self.number }
    }
}

fn sign<C: Curve<L>, const L: usize>(
    kernels: &Kernels,
    work: &mut Work<'_>,
    scratch: &mut Scratch,
    ops: &[(usize, &Key<C::Verifier, L>)],
    digests: &[&[u8]],
) {
    let mut pending = Vec::with_capacity(ops.len());
    for ((op, key), &digest) in ops.iter().zip(digests) {
        match &key.private {
            Some(private) => {
                pending.push(Job { op: *op, private, digest, number: digest_number::<C, L>(digest) });
            }
            None => work.fail(*op, NO_PRIVATE_KEY),
        }
    }
    let table = generator::table::<C, L>(kernels.public);
    while !pending.is_empty() {
        let Some(scalars) = scalars::<C, L>(kernels, &pending) else {
            return pending.iter().for_each(|job| work.fail(job.op, OpStatus::EngineFault));
        };
        let nonces: Vec<Nonce<'_, L>> =
            pending.iter().zip(scalars.iter()).map(|(job, scalar)| job.nonce(scalar)).collect();
        let task = Sign { room: &mut scratch.room, nonces: &nonces, table, curve: PhantomData::<C> };
        let mut next = Vec::new();
        for (job, signed) in pending.iter().zip(with_vectors(kernels.public, task)) {
            match signed {
                Signed::Done(numbers) => finish::<C, L>(work, job.op, &numbers),
                // FIPS 186-5, 6.4.1, step 11.
                Signed::Again => next.push(*job),
                Signed::Fault => work.fail(job.op, OpStatus::EngineFault),
            }
        }
        pending = next;
    }
}

/// A nonce for each job; `None` without random bytes. Numbers that are no nonces are drawn again with other random bytes: hardly any
/// but of secp160r1, whose order is little above a power of two, every other.
fn scalars<C: Curve<L>, const L: usize>(kernels: &Kernels, jobs: &[Job<'_, L>]) -> Option<Zeroizing<Vec<[u64; L]>>> {
    let draw_for = |jobs: &[Job<'_, L>]| {
        let mut hedges = Zeroizing::new(vec![[0; HEDGE_LEN]; jobs.len()]);
        getrandom::fill(hedges.as_flattened_mut()).ok()?;
        let seeds: Vec<Seed<'_>> = jobs.iter().zip(hedges.iter()).map(|(job, hedge)| job.seed(hedge)).collect();
        Some(draw::<C, L>(kernels.hash, &seeds))
    };
    let mut scalars = draw_for(jobs)?;
    loop {
        let is_missing = |index: &usize| !declassify(is_within(&scalars[*index], &C::Order::LIMBS));
        let missing: Vec<usize> = (0..jobs.len()).filter(is_missing).collect();
        if missing.is_empty() {
            return Some(scalars);
        }
        let again: Vec<Job<'_, L>> = missing.iter().map(|index| jobs[*index]).collect();
        for (index, scalar) in missing.into_iter().zip(draw_for(&again)?.iter()) {
            scalars[index] = *scalar;
        }
    }
}

/// Writes `r ‖ s`.
fn finish<C: Curve<L>, const L: usize>(work: &mut Work<'_>, op: usize, numbers: &[[u64; L]; 2]) {
    let mut tag = [0; 2 * LEN_MAX];
    let (r, s) = tag[..2 * C::LEN].split_at_mut(C::LEN);
    to_bytes(&numbers[0], r);
    to_bytes(&numbers[1], s);
    work.finish(op, &[], &tag[..2 * C::LEN]);
}

fn verify<C: Curve<L>, const L: usize>(
    kernel: PublicKernel,
    work: &mut Work<'_>,
    scratch: &mut Scratch,
    ops: &[(usize, &Key<C::Verifier, L>)],
    digests: &[&[u8]],
) {
    let mut claims = Vec::with_capacity(ops.len());
    let mut claimed = Vec::with_capacity(ops.len());
    for ((op, key), &digest) in ops.iter().zip(digests) {
        match signature::<C, L>(work.tag_bytes(*op)) {
            Some(signature) => {
                claims.push(Claim { signature, digest: digest_number::<C, L>(digest), point: &key.public });
                claimed.push((*op, &key.verifier, digest));
            }
            None => work.fail(*op, OpStatus::AuthFailed),
        }
    }
    if claims.is_empty() {
        return;
    }
    let table = generator::table::<C, L>(kernel);
    let task = Verify { room: &mut scratch.room, claims: &claims, table, curve: PhantomData::<C> };
    for ((op, verifier, digest), verdict) in claimed.into_iter().zip(with_vectors(kernel, task)) {
        let is_good = match verdict {
            Verdict::Good => true,
            Verdict::Bad => false,
            Verdict::Alone => C::verify(verifier, digest, work.tag_bytes(op)),
        };
        if is_good { work.finish(op, &[], &[]) } else { work.fail(op, OpStatus::AuthFailed) }
    }
}

/// The numbers of a signature, from one to the order less one (FIPS 186-5, 6.4.2, step 1).
fn signature<C: Curve<L>, const L: usize>(bytes: &[u8]) -> Option<[[u64; L]; 2]> {
    if bytes.len() != 2 * C::LEN {
        return None;
    }
    let (r, s) = bytes.split_at(C::LEN);
    let signature = [from_bytes(r), from_bytes(s)];
    signature.iter().all(|limbs| is_within(limbs, &C::Order::LIMBS)).then_some(signature)
}
