//! Public halves of a token's keys in the contract's form ([`ciphermill_contract::KeyForm::Public`]), of the attributes that tokens give them
//! out in.

use ciphermill_contract::suite::{Curve, RsaSize};
use ciphermill_pairs::der;

use crate::material;

const OCTET_STRING: u8 = 0x04;

/// An RSA key with this modulus and exponent, big-endian; none for a modulus of another size.
pub(crate) fn rsa(size: RsaSize, modulus: &[u8], exponent: &[u8]) -> Option<Vec<u8>> {
    let modulus = material::unsigned(modulus);
    let fits = modulus.len() == size.len() && modulus.first().is_some_and(|first| *first >= 0x80);
    fits.then(|| der::rsa_public(size, modulus, exponent))
}

/// A key on a curve with the point that `CKA_EC_POINT` says; none when that is no uncompressed point of the curve's length.
pub(crate) fn curve(curve: Curve, attribute: &[u8]) -> Option<Vec<u8>> {
    let len = 1 + 2 * curve.field_len();
    let point = point(attribute, |octets| octets.first() == Some(&4) && octets.len() == len)?;
    point.get(1..).map(|coordinates| der::ec_public(curve, coordinates))
}

/// The point within `CKA_EC_POINT`: an octet string in DER (PKCS#11 3.1, 6.3.3). Tokens are known that give the point itself; lengths
/// tell which of the two it is.
fn point(attribute: &[u8], is_point: impl Fn(&[u8]) -> bool) -> Option<&[u8]> {
    if is_point(attribute) {
        return Some(attribute);
    }
    let mut rest = attribute;
    let point = material::element(&mut rest, OCTET_STRING).ok()?;
    (rest.is_empty() && is_point(point)).then_some(point)
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
            let len = bare.len() as u8;
            let head: &[u8] = if len < 0x80 { &[OCTET_STRING, len] } else { &[OCTET_STRING, 0x81, len] };
            let mut wrapped = [head, &bare].concat();
            assert_eq!(curve(name, &wrapped), Some(key));
            wrapped.push(0);
            assert_eq!(curve(name, &wrapped), None);
            assert_eq!(curve(name, &bare[1..]), None);
        }
    }
}
