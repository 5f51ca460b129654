//! The one shape that keys in DER have: libraries differ in what else they take. Looks at structure, sizes and parities; what
//! takes arithmetic is left to engines.
//!
//! Private keys are PKCS#8 of version 1 (RFC 5208, 5), whose attributes are not read; public ones SubjectPublicKeyInfo (RFC
//! 5280, 4.1). Lengths and numbers are minimal (X.690, 8.1.3 and 8.3), nothing follows the last element, numbers are not
//! negative.

use crate::error::KeyProblem;
use crate::key::{KeyForm, KeyMaterial};
use crate::suite::{Agreement, Curve, RsaSize, Signature, Suite};

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const NULL: u8 = 0x05;
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// `[0]` and `[1]`, constructed.
const CONTEXT_0: u8 = 0xa0;
const CONTEXT_1: u8 = 0xa1;

/// The object identifier of RSA keys without its header: 1.2.840.113549.1.1.1 (RFC 8017, A.1).
pub const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// That of keys on curves: 1.2.840.10045.2.1 (RFC 5480, 2.1.1).
pub const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

/// Bits of the largest public exponent that libraries take: larger ones make verifying slow at will.
const EXPONENT_BITS_MAX: usize = 33;

/// What a key has to be one of.
#[derive(Clone, Copy)]
enum Algorithm {
    Rsa(RsaSize),
    Curve(Curve),
}

/// Checks the key of a suite that takes DER; any other's is sound.
///
/// # Errors
/// `Parameters` for another algorithm, curve or size of modulus or primes, else `Encoding`.
pub(super) fn check(suite: Suite, key: &KeyMaterial<'_>) -> Result<(), KeyProblem> {
    let algorithm = match suite {
        Suite::Sign(Signature::Rsa(size, ..)) => Algorithm::Rsa(size),
        Suite::PublicEncrypt(encryption) => Algorithm::Rsa(encryption.size()),
        Suite::Sign(Signature::Ecdsa(curve) | Signature::EcdsaDigest(curve)) | Suite::Agree(Agreement::Ecdh(curve)) => {
            Algorithm::Curve(curve)
        }
        _ => return Ok(()),
    };
    let inner = contents(algorithm, key)?;
    match (algorithm, key.form) {
        (Algorithm::Rsa(size), KeyForm::Public) => rsa_public(size, inner),
        (Algorithm::Rsa(size), _) => rsa_private(size, inner),
        (Algorithm::Curve(curve), _) => curve_parts(curve, key.form, inner).map(|_| ()),
    }
}

/// A key on a curve, taken apart: for engines that do without a crate for its curve.
#[derive(Clone, Copy)]
pub struct CurveKey<'a> {
    /// The scalar of a private key, as long as the order. Whether it is below the order is not looked at.
    pub scalar: Option<&'a [u8]>,
    /// The point of a public key, and of a private one that has it, compressed or not. Whether it is on the curve is not looked at.
    pub point: Option<&'a [u8]>,
}

/// Takes a key apart.
///
/// # Errors
/// `Parameters` for another algorithm or curve, else `Encoding`.
pub fn curve_key<'a>(curve: Curve, key: &KeyMaterial<'a>) -> Result<CurveKey<'a>, KeyProblem> {
    curve_parts(curve, key.form, contents(Algorithm::Curve(curve), key)?)
}

/// What lies within PKCS#8 or SubjectPublicKeyInfo.
fn contents<'a>(algorithm: Algorithm, key: &KeyMaterial<'a>) -> Result<&'a [u8], KeyProblem> {
    let mut file = Reader(key.bytes);
    let mut outer = Reader(file.last(SEQUENCE)?);
    if key.form == KeyForm::Public {
        check_algorithm(algorithm, outer.element(SEQUENCE)?)?;
        return whole_octets(outer.last(BIT_STRING)?);
    }
    if !outer.integer()?.is_empty() {
        return Err(KeyProblem::Encoding);
    }
    check_algorithm(algorithm, outer.element(SEQUENCE)?)?;
    let inner = outer.element(OCTET_STRING)?;
    if !outer.0.is_empty() {
        attributes(outer.last(CONTEXT_0)?)?;
    }
    Ok(inner)
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The contents of the next element, which has this tag.
    fn element(&mut self, tag: u8) -> Result<&'a [u8], KeyProblem> {
        self.any().and_then(|(found, contents)| (found == tag).then_some(contents)).ok_or(KeyProblem::Encoding)
    }

    /// The same of an element that nothing follows.
    fn last(&mut self, tag: u8) -> Result<&'a [u8], KeyProblem> {
        let contents = self.element(tag)?;
        if self.0.is_empty() { Ok(contents) } else { Err(KeyProblem::Encoding) }
    }

    fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            // No key has 65,536 bytes.
            0x81 | 0x82 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let len = bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
                let least = if bytes.len() == 1 { 0x80 } else { 0x100 };
                (Some(len).filter(|len| *len >= least)?, rest)
            }
            _ => return None,
        };
        let (contents, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((*tag, contents))
    }

    /// A number without the zero that keeps it from being negative; none of its bytes for zero.
    fn integer(&mut self) -> Result<&'a [u8], KeyProblem> {
        match self.element(INTEGER)? {
            [0] => Ok(&[]),
            [0, rest @ ..] if rest[0] >= 0x80 => Ok(rest),
            number @ [1..0x80, ..] => Ok(number),
            _ => Err(KeyProblem::Encoding),
        }
    }
}

fn whole_octets(bits: &[u8]) -> Result<&[u8], KeyProblem> {
    match bits {
        [0, octets @ ..] => Ok(octets),
        _ => Err(KeyProblem::Encoding),
    }
}

/// RFC 8017, A.1: NULL; RFC 5480, 2.1.1: a named curve.
fn check_algorithm(algorithm: Algorithm, identifier: &[u8]) -> Result<(), KeyProblem> {
    let mut reader = Reader(identifier);
    let wanted = if let Algorithm::Rsa(_) = algorithm { RSA_ENCRYPTION } else { EC_PUBLIC_KEY };
    if reader.element(OBJECT_IDENTIFIER)? != wanted {
        return Err(KeyProblem::Parameters);
    }
    match algorithm {
        Algorithm::Rsa(_) => match reader.last(NULL)? {
            [] => Ok(()),
            _ => Err(KeyProblem::Encoding),
        },
        Algorithm::Curve(curve) => match reader.any() {
            Some((OBJECT_IDENTIFIER, name)) if reader.0.is_empty() && name == curve_name(curve) => Ok(()),
            Some((OBJECT_IDENTIFIER, _)) if !reader.0.is_empty() => Err(KeyProblem::Encoding),
            _ => Err(KeyProblem::Parameters),
        },
    }
}

/// A curve's object identifier without its header (SEC 2, A.2; RFC 5480, 2.1.1.1; RFC 5639, 4.1).
pub const fn curve_name(curve: Curve) -> &'static [u8] {
    match curve {
        Curve::P224 => &[0x2b, 0x81, 0x04, 0x00, 0x21],
        Curve::P256 => &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
        Curve::P384 => &[0x2b, 0x81, 0x04, 0x00, 0x22],
        Curve::P521 => &[0x2b, 0x81, 0x04, 0x00, 0x23],
        Curve::Sect163k1 => &[0x2b, 0x81, 0x04, 0x00, 0x01],
        Curve::Sect163r2 => &[0x2b, 0x81, 0x04, 0x00, 0x0f],
        Curve::Sect233k1 => &[0x2b, 0x81, 0x04, 0x00, 0x1a],
        Curve::Sect233r1 => &[0x2b, 0x81, 0x04, 0x00, 0x1b],
        Curve::Secp256k1 => &[0x2b, 0x81, 0x04, 0x00, 0x0a],
        Curve::BrainpoolP256r1 => &[0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, 0x07],
        Curve::BrainpoolP384r1 => &[0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, 0x0b],
        Curve::Secp160r1 => &[0x2b, 0x81, 0x04, 0x00, 0x08],
        Curve::Sect163r1 => &[0x2b, 0x81, 0x04, 0x00, 0x02],
        Curve::Sect283k1 => &[0x2b, 0x81, 0x04, 0x00, 0x10],
        Curve::Sect283r1 => &[0x2b, 0x81, 0x04, 0x00, 0x11],
        Curve::Sect409k1 => &[0x2b, 0x81, 0x04, 0x00, 0x24],
        Curve::Sect409r1 => &[0x2b, 0x81, 0x04, 0x00, 0x25],
        Curve::Sect571k1 => &[0x2b, 0x81, 0x04, 0x00, 0x26],
        Curve::Sect571r1 => &[0x2b, 0x81, 0x04, 0x00, 0x27],
    }
}

/// A set of attributes (RFC 5208, 5), each a name and a set of values; not sorted by everyone.
fn attributes(contents: &[u8]) -> Result<(), KeyProblem> {
    let mut reader = Reader(contents);
    while !reader.0.is_empty() {
        let mut attribute = Reader(reader.element(SEQUENCE)?);
        attribute.element(OBJECT_IDENTIFIER)?;
        let mut values = Reader(attribute.last(SET)?);
        while !values.0.is_empty() {
            values.any().ok_or(KeyProblem::Encoding)?;
        }
    }
    Ok(())
}

fn bits(number: &[u8]) -> usize {
    number.first().map_or(0, |first| 8 * number.len() - first.leading_zeros() as usize)
}

fn is_odd(number: &[u8]) -> bool {
    number.last().is_some_and(|last| last & 1 == 1)
}

/// Modulus and public exponent (RFC 8017, 3.1).
fn rsa_numbers(size: RsaSize, modulus: &[u8], exponent: &[u8]) -> Result<(), KeyProblem> {
    if bits(modulus) != size.bits() {
        return Err(KeyProblem::Parameters);
    }
    let exponent_suits = (2..=EXPONENT_BITS_MAX).contains(&bits(exponent)) && is_odd(exponent);
    if is_odd(modulus) && exponent_suits { Ok(()) } else { Err(KeyProblem::Encoding) }
}

fn rsa_public(size: RsaSize, key: &[u8]) -> Result<(), KeyProblem> {
    let mut numbers = Reader(Reader(key).last(SEQUENCE)?);
    let (modulus, exponent) = (numbers.integer()?, numbers.integer()?);
    rsa_numbers(size, modulus, exponent)?;
    if numbers.0.is_empty() { Ok(()) } else { Err(KeyProblem::Encoding) }
}

/// RFC 8017, A.1.2, with two primes.
fn rsa_private(size: RsaSize, key: &[u8]) -> Result<(), KeyProblem> {
    let mut numbers = Reader(Reader(key).last(SEQUENCE)?);
    if !numbers.integer()?.is_empty() {
        return Err(KeyProblem::Encoding);
    }
    let (modulus, exponent, private) = (numbers.integer()?, numbers.integer()?, numbers.integer()?);
    rsa_numbers(size, modulus, exponent)?;
    for _ in 0..2 {
        // FIPS 186-5, A.1.1.
        if bits(numbers.integer()?) != size.bits() / 2 {
            return Err(KeyProblem::Parameters);
        }
    }
    for _ in 0..3 {
        numbers.integer()?;
    }
    // RFC 8017, 3.2: below the modulus. How the two compare tells less of it than its length.
    let is_below = private.len() < modulus.len() || (private.len() == modulus.len() && private < modulus);
    if numbers.0.is_empty() && is_below { Ok(()) } else { Err(KeyProblem::Encoding) }
}

fn curve_parts(curve: Curve, form: KeyForm, inner: &[u8]) -> Result<CurveKey<'_>, KeyProblem> {
    match form {
        KeyForm::Public => Ok(CurveKey { scalar: None, point: Some(point(curve, inner)?) }),
        _ => curve_private(curve, inner),
    }
}

/// RFC 5915, 3: a scalar as long as the order, then, if given, the same curve and a point.
fn curve_private(curve: Curve, key: &[u8]) -> Result<CurveKey<'_>, KeyProblem> {
    let mut parts = Reader(Reader(key).last(SEQUENCE)?);
    let is_version_one = parts.integer()? == [1];
    let scalar = parts.element(OCTET_STRING)?;
    if !is_version_one || scalar.len() != curve.order_len() {
        return Err(KeyProblem::Encoding);
    }
    if parts.0.first() == Some(&CONTEXT_0) {
        let mut parameters = Reader(parts.element(CONTEXT_0)?);
        if parameters.last(OBJECT_IDENTIFIER)? != curve_name(curve) {
            return Err(KeyProblem::Parameters);
        }
    }
    if parts.0.is_empty() {
        return Ok(CurveKey { scalar: Some(scalar), point: None });
    }
    let mut public = Reader(parts.last(CONTEXT_1)?);
    let point = point(curve, whole_octets(public.last(BIT_STRING)?)?)?;
    Ok(CurveKey { scalar: Some(scalar), point: Some(point) })
}

/// SEC 1, 2.3.3, compressed or not; no hybrid, and not the point at infinity.
fn point(curve: Curve, octets: &[u8]) -> Result<&[u8], KeyProblem> {
    let len = match octets.first() {
        Some(2 | 3) => 1 + curve.field_len(),
        Some(4) => 1 + 2 * curve.field_len(),
        _ => return Err(KeyProblem::Encoding),
    };
    if octets.len() == len { Ok(octets) } else { Err(KeyProblem::Encoding) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P256: Suite = Suite::Sign(Signature::Ecdsa(Curve::P256));

    fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let body = parts.concat();
        assert!(body.len() < 0x80);
        [&[tag, body.len() as u8][..], &body].concat()
    }

    fn algorithm() -> Vec<u8> {
        let curve = element(OBJECT_IDENTIFIER, &[&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]]);
        element(SEQUENCE, &[&element(OBJECT_IDENTIFIER, &[EC_PUBLIC_KEY]), &curve])
    }

    fn public(octets: &[u8]) -> Vec<u8> {
        element(SEQUENCE, &[&algorithm(), &element(BIT_STRING, &[&[0], octets])])
    }

    fn private(scalar: &[u8], rest: &[u8]) -> Vec<u8> {
        let key = element(SEQUENCE, &[&[INTEGER, 1, 1], &element(OCTET_STRING, &[scalar])]);
        element(SEQUENCE, &[&[INTEGER, 1, 0], &algorithm(), &element(OCTET_STRING, &[&key]), rest])
    }

    fn verdict(form: KeyForm, bytes: &[u8]) -> Result<(), KeyProblem> {
        check(P256, &KeyMaterial { form, bytes })
    }

    #[test]
    fn points_have_two_shapes() {
        let shape = |first: u8, len: usize| verdict(KeyForm::Public, &public(&[&[first][..], &vec![7; len]].concat()));
        assert_eq!([shape(4, 64), shape(2, 32), shape(3, 32)], [Ok(()); 3]);
        for (first, len) in [(4, 63), (4, 65), (2, 31), (2, 64), (6, 64), (7, 64), (0, 0), (5, 64)] {
            assert_eq!(shape(first, len), Err(KeyProblem::Encoding), "{first} and {len} bytes");
        }
    }

    #[test]
    fn scalars_are_as_long_as_the_order_and_attributes_may_follow() {
        assert_eq!(verdict(KeyForm::Private, &private(&[1; 32], &[])), Ok(()));
        assert_eq!(verdict(KeyForm::Private, &private(&[1; 32], &[CONTEXT_0, 0])), Ok(()));
        assert_eq!(verdict(KeyForm::Private, &private(&[1; 31], &[])), Err(KeyProblem::Encoding));
        assert_eq!(verdict(KeyForm::Private, &private(&[1; 33], &[])), Err(KeyProblem::Encoding));
        assert_eq!(verdict(KeyForm::Private, &private(&[1; 32], &[CONTEXT_0, 1, 0])), Err(KeyProblem::Encoding));
        assert_eq!(verdict(KeyForm::Private, &private(&[1; 32], &[CONTEXT_1, 0])), Err(KeyProblem::Encoding));
    }

    #[test]
    fn numbers_and_lengths_are_minimal() {
        let integer = |bytes: &[u8]| Reader(bytes).integer().map(<[u8]>::to_vec);
        assert_eq!(integer(&[INTEGER, 1, 0]), Ok(vec![]));
        assert_eq!(integer(&[INTEGER, 2, 0, 0x80]), Ok(vec![0x80]));
        for bad in [&[INTEGER, 0][..], &[INTEGER, 1, 0x80], &[INTEGER, 2, 0, 0x7f], &[INTEGER, 2, 0, 0], &[INTEGER]] {
            assert_eq!(integer(bad), Err(KeyProblem::Encoding), "{bad:?}");
        }
        let long = |header: &[u8], len: usize| Reader(&[header, &vec![0; len]].concat()).element(OCTET_STRING).is_ok();
        assert!(long(&[OCTET_STRING, 0x7f], 127) && long(&[OCTET_STRING, 0x81, 0x80], 128));
        assert!(long(&[OCTET_STRING, 0x82, 1, 0], 256));
        assert!(!long(&[OCTET_STRING, 0x81, 0x7f], 127) && !long(&[OCTET_STRING, 0x82, 0, 0xff], 255));
        assert!(!long(&[OCTET_STRING, 0x80], 4) && !long(&[OCTET_STRING, 0x83, 0, 1, 0], 256));
        assert!(!long(&[OCTET_STRING, 0x7f], 126));
    }

    #[test]
    fn every_prefix_is_refused() {
        let key = private(&[1; 32], &[]);
        for len in 0..key.len() {
            assert_eq!(verdict(KeyForm::Private, &key[..len]), Err(KeyProblem::Encoding), "{len} bytes");
        }
    }
}
