//! Public halves of a token's keys in the contract's form ([`ciphermill_contract::KeyForm::Public`]), of the attributes that tokens give them
//! out in.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Curve, RsaSize};
use ciphermill_pairs::der::{self, BIT_STRING, Elements, INTEGER, OCTET_STRING, SEQUENCE, trimmed};
use cryptoki_sys::{CKA_MODULUS, CKA_PUBLIC_EXPONENT};
use sha2::{Digest as _, Sha256};

use crate::session::Attribute;

/// Bytes of an identifier that is made of a public key (RFC 7093, 2, method 1).
const IDENTIFIER_LEN: usize = 20;

/// An RSA key with this modulus and exponent, big-endian; none for a modulus of another size.
pub(crate) fn rsa(size: RsaSize, modulus: &[u8], exponent: &[u8]) -> Option<Vec<u8>> {
    let modulus = trimmed(modulus);
    let fits = modulus.len() == size.len() && modulus.first().is_some_and(|first| *first >= 0x80);
    fits.then(|| der::rsa_public(size, modulus, exponent))
}

/// An identifier that follows from a key in `SubjectPublicKeyInfo` alone (RFC 7093, 2, method 1): of what its bit string has in it.
pub(crate) fn identifier(key: &[u8]) -> Vec<u8> {
    let mut digest = Sha256::digest(bit_string(key).unwrap_or(key)).to_vec();
    digest.truncate(IDENTIFIER_LEN);
    digest
}

fn bit_string(key: &[u8]) -> Result<&[u8], KeyProblem> {
    let read = || {
        let mut info = Elements::of(Elements::of(key).tagged(SEQUENCE)?);
        info.tagged(SEQUENCE)?;
        info.tagged(BIT_STRING)?.get(1..)
    };
    read().ok_or(KeyProblem::Encoding)
}

/// The modulus and the exponent of an RSA key, which borrow from its `SubjectPublicKeyInfo`. The contract has looked at shape and sizes.
pub(crate) fn rsa_numbers(key: &[u8]) -> Result<[Attribute<'_>; 2], KeyProblem> {
    let mut numbers = Elements::of(Elements::of(bit_string(key)?).tagged(SEQUENCE).ok_or(KeyProblem::Encoding)?);
    let mut number = || numbers.tagged(INTEGER).map(trimmed).ok_or(KeyProblem::Encoding);
    Ok([(CKA_MODULUS, number()?), (CKA_PUBLIC_EXPONENT, number()?)])
}

/// A key on a curve with the point that `CKA_EC_POINT` says; none when that is no point of the curve's length, or a compressed one.
pub(crate) fn curve(curve: Curve, attribute: &[u8]) -> Option<Vec<u8>> {
    let len = 1 + 2 * curve.field_len();
    let point = point(attribute, |octets| octets.first() == Some(&4) && octets.len() == len)?;
    point.get(1..).map(|coordinates| der::ec_public(curve, coordinates))
}

/// The 32 bytes of a public key of Ed25519 that `CKA_EC_POINT` says; none when it says something else.
pub(crate) fn edwards(attribute: &[u8]) -> Option<Vec<u8>> {
    point(attribute, |octets| octets.len() == 32).map(<[u8]>::to_vec)
}

/// A point as `CKA_EC_POINT` has it: an octet string in DER (PKCS#11 3.1, 6.3.3).
pub(crate) fn point_attribute(point: &[u8]) -> Vec<u8> {
    der::element(OCTET_STRING, point).to_vec()
}

/// The point within `CKA_EC_POINT`: an octet string in DER (PKCS#11 3.1, 6.3.3). Tokens are known that give the point itself; lengths
/// tell which of the two it is.
fn point(attribute: &[u8], is_point: impl Fn(&[u8]) -> bool) -> Option<&[u8]> {
    if is_point(attribute) {
        return Some(attribute);
    }
    der::only(attribute, OCTET_STRING).filter(|point| is_point(point))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ciphermill_contract::suite::{Digest, SignPadding, Signature};
    use ciphermill_contract::{KeyMaterial, Suite};

    #[test]
    fn rsa_keys_have_the_shape_that_the_contract_checks() {
        let suite = Suite::Sign(Signature::Rsa(RsaSize::Rsa2048, SignPadding::Pkcs1, Digest::Sha256));
        let mut modulus = vec![0xc5; 257];
        modulus[0] = 0;
        for exponent in [&[3][..], &[1, 0, 1], &[0, 1, 0, 1]] {
            let key = rsa(RsaSize::Rsa2048, &modulus, exponent).expect("of that size");
            assert_eq!(suite.check_key(&KeyMaterial::public(&key)), Ok(()));
        }
        modulus[1] = 0x45;
        assert_eq!(rsa(RsaSize::Rsa2048, &modulus, &[3]), None, "2,047 bits");
        assert_eq!(rsa(RsaSize::Rsa3072, &[0xc5; 256], &[3]), None);
    }

    #[test]
    fn points_come_in_der_and_bare() {
        for name in [Curve::P256, Curve::P384, Curve::P521] {
            let suite = Suite::Sign(Signature::Ecdsa(name));
            let mut bare = vec![7; 1 + 2 * name.field_len()];
            bare[0] = 4;
            let key = curve(name, &bare).expect("a point");
            assert_eq!(suite.check_key(&KeyMaterial::public(&key)), Ok(()));
            let mut wrapped = point_attribute(&bare);
            assert_eq!(curve(name, &wrapped), Some(key));
            wrapped.push(0);
            assert_eq!(curve(name, &wrapped), None);
            assert_eq!(curve(name, &bare[1..]), None);
        }
    }
}
