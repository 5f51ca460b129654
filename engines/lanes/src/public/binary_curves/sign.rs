//! ECDSA (FIPS 186-4, 6), with the nonces of RFC 6979.
//!
//! Nonces have 32 fresh random bytes as additional data (RFC 6979, 3.6): two signatures of one message have nonces of their own, so
//! that a wrong point in one of them betrays nothing of the key. A point that is not on the curve is a fault.

use ciphermill_contract::{Direction, OpStatus, Reason};
use zeroize::{Zeroize, Zeroizing};

use super::super::groups;
use super::super::nonce::{self, HEDGE_LEN, ORDER_LEN_MAX, Seed};
use super::affine::Sums;
use super::curve::{Curve, from_bytes, is_within, to_bytes};
use super::field::Polynomial;
use super::isa::{BinaryKernel, with_vectors};
use super::keys::{Key, Secret};
use super::multiply::{Affine, Factor, GROUPS_MAX, Multiple, Multiply};
use super::order::{Order, Scalar, put, words_of};
use crate::declassify::declassify;
use crate::hash;
use crate::select::Kernels;
use crate::work::{Scratch, Work};

/// A public key that is asked to sign.
const NO_PRIVATE_KEY: OpStatus = OpStatus::Refused(Reason::KeyUnsuitable);

/// A curve with what ECDSA does on it.
#[derive(Clone, Copy)]
struct Ecdsa<F: 'static, const W: usize> {
    curve: &'static Curve<F, W>,
    order: &'static Order,
}

/// Runs a batch.
pub(super) fn run<F: Polynomial<W>, const W: usize>(
    curve: &'static Curve<F, W>,
    kernels: &Kernels,
    work: &mut Work<'_>,
    scratch: &mut Scratch,
) {
    let lanes = usize::from(kernels.binary.lanes());
    let direction = work.direction();
    let ecdsa = Ecdsa { curve, order: Order::of(curve) };
    groups::<Key<W>>(work, lanes * GROUPS_MAX, |work, ops| {
        scratch.occupancy.add(ops.len(), ops.len().next_multiple_of(lanes) - ops.len());
        let messages: Vec<&[u8]> = ops.iter().map(|(index, _)| work.input(*index)).collect();
        let digests = hash::digests(kernels.hash, curve.name.digest(), &messages);
        match direction {
            Direction::Encrypt => ecdsa.sign(kernels, work, ops, &digests),
            Direction::Decrypt => ecdsa.verify(kernels.binary, work, ops, &digests),
        }
    });
}

/// An operation that is signed: its index, its key and its digest.
#[derive(Clone, Copy)]
struct Job<'a, const W: usize> {
    op: usize,
    secret: &'a Secret<W>,
    digest: Scalar,
}

/// A nonce from one to the order less one.
struct Nonce<const W: usize>([u64; W]);

impl<const W: usize> Drop for Nonce<W> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<F: Polynomial<W>, const W: usize> Ecdsa<F, W> {
    fn len(&self) -> usize {
        self.curve.order_bits.div_ceil(8)
    }

    fn sign(&self, kernels: &Kernels, work: &mut Work<'_>, ops: &[(usize, &Key<W>)], digests: &[hash::Tag]) {
        let mut pending = Vec::with_capacity(ops.len());
        for ((op, key), digest) in ops.iter().zip(digests) {
            match &key.secret {
                Some(secret) => {
                    let digest = self.order.digest(self.curve.name.digest(), digest);
                    pending.push(Job { op: *op, secret, digest });
                }
                None => work.fail(*op, NO_PRIVATE_KEY),
            }
        }
        while !pending.is_empty() {
            let Some(nonces) = self.nonces(kernels, &pending) else {
                return pending.iter().for_each(|job| work.fail(job.op, OpStatus::EngineFault));
            };
            let factors: Vec<Factor<'_, W>> =
                nonces.iter().map(|nonce| Factor { scalar: &nonce.0, point: &self.curve.generator }).collect();
            let task = Multiply { curve: self.curve, factors: &factors, checks: false };
            let points = with_vectors(kernels.binary, task);
            let mut inverses: Zeroizing<Vec<Scalar>> =
                Zeroizing::new(nonces.iter().map(|nonce| self.order.scalar(&nonce.0)).collect());
            self.order.invert_all(&mut inverses);
            let mut next = Vec::new();
            for ((job, inverse), point) in pending.iter().zip(inverses.iter()).zip(&points) {
                match point {
                    Multiple::Done([x, _]) if self.finish(work, job, inverse, x) => {}
                    Multiple::Done(_) => next.push(*job),
                    _ => work.fail(job.op, OpStatus::EngineFault),
                }
            }
            pending = next;
        }
    }

    /// A nonce for each job; `None` without random bytes. Numbers that are no nonces, which are half of all where the order is little
    /// above a power of two, are drawn again with other random bytes. Which ones says nothing of those that are.
    fn nonces(&self, kernels: &Kernels, jobs: &[Job<'_, W>]) -> Option<Vec<Nonce<W>>> {
        let mut nonces = self.draw(kernels, jobs)?;
        loop {
            let is_missing = |nonce: &Nonce<W>| !declassify(is_within(&nonce.0, &self.curve.order));
            let missing: Vec<usize> = (0..jobs.len()).filter(|index| is_missing(&nonces[*index])).collect();
            if missing.is_empty() {
                return Some(nonces);
            }
            let again: Vec<Job<'_, W>> = missing.iter().map(|index| jobs[*index]).collect();
            for (index, nonce) in missing.into_iter().zip(self.draw(kernels, &again)?) {
                nonces[index] = nonce;
            }
        }
    }

    /// A number for each job; `None` without random bytes.
    fn draw(&self, kernels: &Kernels, jobs: &[Job<'_, W>]) -> Option<Vec<Nonce<W>>> {
        let len = self.len();
        let mut hedges = Zeroizing::new(vec![[0; HEDGE_LEN]; jobs.len()]);
        getrandom::fill(hedges.as_flattened_mut()).ok()?;
        let mut secrets = Zeroizing::new(vec![[0; ORDER_LEN_MAX]; jobs.len()]);
        let mut digests = vec![[0; ORDER_LEN_MAX]; jobs.len()];
        for ((job, secret), digest) in jobs.iter().zip(secrets.iter_mut()).zip(&mut digests) {
            to_bytes(&job.secret.0, &mut secret[..len]);
            put(&job.digest, &mut digest[..len]);
        }
        let seeds: Vec<Seed<'_>> = (secrets.iter().zip(&digests).zip(hedges.iter()))
            .map(|((secret, digest), hedge)| Seed { secret: &secret[..len], digest: &digest[..len], hedge })
            .collect();
        let drawn = nonce::draw(kernels.hash, self.curve.name.digest(), self.curve.order_bits, &seeds);
        Some(drawn.iter().map(|bytes| Nonce(from_bytes(&bytes[..len]))).collect())
    }

    /// Writes `r ‖ s`; false where one of them is zero, which takes another nonce (X9.62, 7.3).
    fn finish(&self, work: &mut Work<'_>, job: &Job<'_, W>, inverse: &Scalar, x: &[u64; W]) -> bool {
        let r = self.order.scalar(x);
        let secret = Zeroizing::new(self.order.scalar(&job.secret.0));
        let s = (job.digest + r * *secret) * *inverse;
        if [r, s].iter().any(|number| declassify(words_of::<W>(number)) == [0; W]) {
            return false;
        }
        let len = self.len();
        let mut tag = [0; 2 * ORDER_LEN_MAX];
        put(&r, &mut tag[..len]);
        put(&s, &mut tag[len..2 * len]);
        work.finish(job.op, &[], &tag[..2 * len]);
        true
    }

    /// All of it is public.
    fn verify(&self, kernel: BinaryKernel, work: &mut Work<'_>, ops: &[(usize, &Key<W>)], digests: &[hash::Tag]) {
        let mut claims = Vec::with_capacity(ops.len());
        let mut inverses = Vec::with_capacity(ops.len());
        for ((op, key), digest) in ops.iter().zip(digests) {
            match self.signature(work.tag_bytes(*op)) {
                Some([r, s]) => {
                    claims.push((*op, &key.public, r, self.order.digest(self.curve.name.digest(), digest)));
                    inverses.push(self.order.scalar(&s));
                }
                None => work.fail(*op, OpStatus::AuthFailed),
            }
        }
        if claims.is_empty() {
            return;
        }
        self.order.invert_all(&mut inverses);
        // Those of the generator, then those of the public keys.
        let scalars: Vec<[[u64; W]; 2]> = (claims.iter().zip(&inverses))
            .map(|((_, _, r, digest), inverse)| {
                [*digest * inverse, self.order.scalar(r) * inverse].map(|scalar| words_of(&scalar))
            })
            .collect();
        let one = core::array::from_fn(|index| u64::from(index == 0));
        let is_zero = |scalar: &[u64; W]| *scalar == [0; W];
        let of_generator = scalars.iter().map(|[first, _]| Factor {
            // A digest of zero has no multiple of the generator.
            scalar: if is_zero(first) { &one } else { first },
            point: &self.curve.generator,
        });
        let of_public =
            scalars.iter().zip(&claims).map(|([_, second], claim)| Factor { scalar: second, point: claim.1 });
        let factors: Vec<Factor<'_, W>> = of_generator.chain(of_public).collect();
        let task = Multiply { curve: self.curve, factors: &factors, checks: false };
        let multiples = with_vectors(kernel, task);
        let (left, right) = multiples.split_at(claims.len());
        let point = |multiple: &Multiple<W>| match multiple {
            Multiple::Done(point) => Some(*point),
            _ => None,
        };
        let pairs: Vec<Option<[Affine<W>; 2]>> =
            left.iter().zip(right).map(|(left, right)| Some([point(left)?, point(right)?])).collect();
        // Of a fault, the generator twice: it has a sum.
        let summed: Vec<[Affine<W>; 2]> = pairs.iter().map(|pair| pair.unwrap_or([self.curve.generator; 2])).collect();
        let sums = with_vectors(kernel, Sums { curve: self.curve, pairs: &summed });
        for (index, (op, _, r, _)) in claims.iter().enumerate() {
            let Some([_, public]) = pairs[index] else {
                work.fail(*op, OpStatus::EngineFault);
                continue;
            };
            let x = if is_zero(&scalars[index][0]) { Some(public[0]) } else { sums[index] };
            let is_good = x.is_some_and(|x| words_of(&self.order.scalar(&x)) == *r);
            if is_good { work.finish(*op, &[], &[]) } else { work.fail(*op, OpStatus::AuthFailed) }
        }
    }

    /// The numbers of a signature, from one to the order less one (FIPS 186-4, 6.4).
    fn signature(&self, bytes: &[u8]) -> Option<[[u64; W]; 2]> {
        let (r, s) = bytes.split_at_checked(self.len()).filter(|(_, s)| s.len() == self.len())?;
        let signature = [from_bytes(r), from_bytes(s)];
        signature.iter().all(|words| is_within(words, &self.curve.order)).then_some(signature)
    }
}
