//! ECDSA (FIPS 186-4, 6; ANSI X9.62) on any [`Domain`].

use ciphermill_contract::suite::Digest;
use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{Odd, U576};
use sha2::digest::Digest as _;
use sha2::{Sha256, Sha384, Sha512};
use zeroize::Zeroizing;

use super::domain::Domain;
use super::group::{Point, bytes, from_bytes};

/// A number modulo the order.
type Scalar = FixedMontyForm<{ U576::LIMBS }>;

/// Signs a message: `r ‖ s`. `None` when a number is out of its range, which does not happen.
pub(super) fn sign(domain: &Domain, secret: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    let params = params(domain)?;
    let digest = digest(domain, message);
    let mut nonces = Nonces::new(domain, secret, &digest);
    loop {
        let nonce = nonces.next();
        let point = domain.group.multiply(&nonce, &domain.generator)?;
        let r = Scalar::new(&from_bytes(&point.x)?, &params);
        let secret = Zeroizing::new(Scalar::new(&*Zeroizing::new(from_bytes(secret)?), &params));
        let nonce = Zeroizing::new(Scalar::new(&*Zeroizing::new(from_bytes(&nonce)?), &params));
        let inverse = Zeroizing::new(nonce.invert().into_option()?);
        let s = (Scalar::new(&leftmost(domain, &digest)?, &params) + r * *secret) * *inverse;
        let (r, s) = (r.retrieve(), s.retrieve());
        // FIPS 186-4, 6.4, by way of X9.62, 7.3: another nonce if one of them is zero.
        if domain.is_scalar(&r) && domain.is_scalar(&s) {
            let len = domain.curve.order_len();
            return Some([bytes(&r, len).as_slice(), &bytes(&s, len)].concat());
        }
    }
}

/// Whether `r ‖ s` signs a message under a public key.
pub(super) fn is_valid(domain: &Domain, public: &Point, message: &[u8], signature: &[u8]) -> bool {
    point_of(domain, public, message, signature).is_some()
}

/// The nonce's point, if a signature is good.
fn point_of(domain: &Domain, public: &Point, message: &[u8], signature: &[u8]) -> Option<Point> {
    let len = domain.curve.order_len();
    let (r, s) = signature.split_at_checked(len).filter(|(_, s)| s.len() == len)?;
    let (r, s) = (from_bytes(r)?, from_bytes(s)?);
    if !domain.is_scalar(&r) || !domain.is_scalar(&s) {
        return None;
    }
    let params = params(domain)?;
    let inverse = Scalar::new(&s, &params).invert().into_option()?;
    let first = Scalar::new(&leftmost(domain, &digest(domain, message))?, &params) * inverse;
    let second = Scalar::new(&r, &params) * inverse;
    let times = |scalar: Scalar, point| domain.group.multiply(&bytes(&scalar.retrieve(), len), point);
    let of_public = times(second, public)?;
    let sum = if domain.is_scalar(&first.retrieve()) {
        domain.group.add(&times(first, &domain.generator)?, &of_public)?
    } else {
        of_public
    };
    (Scalar::new(&from_bytes(&sum.x)?, &params).retrieve() == r).then_some(sum)
}

fn params(domain: &Domain) -> Option<FixedMontyParams<{ U576::LIMBS }>> {
    Some(FixedMontyParams::new(Odd::new(domain.order).into_option()?))
}

/// The message's digest, by the digest of the curve's strength.
fn digest(domain: &Domain, message: &[u8]) -> Vec<u8> {
    match domain.curve.digest() {
        Digest::Sha384 => Sha384::digest(message).to_vec(),
        Digest::Sha512 => Sha512::digest(message).to_vec(),
        _ => Sha256::digest(message).to_vec(),
    }
}

/// As many of the leftmost bits of a digest as the order has (FIPS 186-4, 6.4), which may be no less than the order.
fn leftmost(domain: &Domain, digest: &[u8]) -> Option<U576> {
    let spare = (8 * digest.len() as u32).saturating_sub(domain.order.bits());
    Some(from_bytes(digest)?.wrapping_shr(spare))
}

/// Nonces by RFC 6979, 3.2.
enum Nonces<'a> {
    Sha256(rfc6979::KGenerator<'a, Sha256, U576>, usize),
    Sha384(rfc6979::KGenerator<'a, Sha384, U576>, usize),
    Sha512(rfc6979::KGenerator<'a, Sha512, U576>, usize),
}

impl<'a> Nonces<'a> {
    fn new(domain: &'a Domain, secret: &[u8], digest: &[u8]) -> Nonces<'a> {
        let (order, len) = (&domain.order, domain.curve.order_len());
        match domain.curve.digest() {
            Digest::Sha384 => Nonces::Sha384(rfc6979::KGenerator::new(secret, digest, &[], order), len),
            Digest::Sha512 => Nonces::Sha512(rfc6979::KGenerator::new(secret, digest, &[], order), len),
            _ => Nonces::Sha256(rfc6979::KGenerator::new(secret, digest, &[], order), len),
        }
    }

    /// The next number from one to the order less one, as long as the order.
    fn next(&mut self) -> Zeroizing<Vec<u8>> {
        let (Nonces::Sha256(_, len) | Nonces::Sha384(_, len) | Nonces::Sha512(_, len)) = self;
        let mut nonce = Zeroizing::new(vec![0; *len]);
        match self {
            Nonces::Sha256(nonces, _) => nonces.fill_next_k(&mut nonce),
            Nonces::Sha384(nonces, _) => nonces.fill_next_k(&mut nonce),
            Nonces::Sha512(nonces, _) => nonces.fill_next_k(&mut nonce),
        }
        nonce
    }
}
