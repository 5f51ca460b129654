//! Nonces of the prime curves ([`super::super::nonce`]), as limbs.

use zeroize::Zeroizing;

use super::super::nonce;
pub(super) use super::super::nonce::{HEDGE_LEN, Seed};
use super::curve::Curve;
use super::modulus::{LEN_MAX, Modulus, from_bytes, reduced, to_bytes};
use crate::hash::HashKernel;

/// The number that ECDSA takes of a digest (FIPS 186-5, 6.4.1, step 2): below twice the order.
pub(super) fn digest_number<C: Curve<L>, const L: usize>(digest: &[u8]) -> [u64; L] {
    from_bytes(&nonce::leftmost(digest, C::BITS)[..C::LEN])
}

/// The first number that each seed gives, to be thrown away unless it is from one to the order less one. The seeds have digests as
/// they are.
pub(super) fn draw<C: Curve<L>, const L: usize>(hash: HashKernel, seeds: &[Seed<'_>]) -> Zeroizing<Vec<[u64; L]>> {
    let mut digests = vec![[0; LEN_MAX]; seeds.len()];
    for (seed, digest) in seeds.iter().zip(&mut digests) {
        to_bytes(&reduced(&digest_number::<C, L>(seed.digest), &C::Order::LIMBS), &mut digest[..C::LEN]);
    }
    let seeds: Vec<Seed<'_>> =
        seeds.iter().zip(&digests).map(|(seed, digest)| Seed { digest: &digest[..C::LEN], ..*seed }).collect();
    let drawn = nonce::draw(hash, C::DIGEST, C::BITS, &seeds);
    Zeroizing::new(drawn.iter().map(|bytes| from_bytes(&bytes[..C::LEN])).collect())
}
