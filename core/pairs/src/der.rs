//! Key pairs in the contract's forms, as engines write those that they generate: PKCS#8 of version 1 (RFC 5208, 5) and
//! SubjectPublicKeyInfo (RFC 5280, 4.1) for RSA and curves, in the one shape that [`der`] takes. And elements of DER one by one, for those
//! who have keys in other forms, as attributes of PKCS#11.

use ciphermill_contract::suite::acceptance::der;
use ciphermill_contract::suite::{Curve, KeyPair, RsaSize};
use zeroize::Zeroizing;

/// The tag of a number (X.690, 8.3).
pub const INTEGER: u8 = 0x02;
/// That of bits (8.6).
pub const BIT_STRING: u8 = 0x03;
/// That of bytes (8.7).
pub const OCTET_STRING: u8 = 0x04;
/// That of nothing (8.8).
pub const NULL: u8 = 0x05;
/// That of a name (8.19).
pub const OBJECT_IDENTIFIER: u8 = 0x06;
/// That of elements in an order (8.9).
pub const SEQUENCE: u8 = 0x30;
/// `[1]`, constructed.
const CONTEXT_1: u8 = 0xa1;

/// The first byte of an uncompressed point (SEC 1, 2.3.3).
const UNCOMPRESSED: u8 = 4;

/// A key pair; its private half is wiped when dropped.
pub struct Pair {
    /// The private key.
    pub private: Zeroizing<Vec<u8>>,
    /// The public key.
    pub public: Vec<u8>,
}

/// The numbers of an RSA key (RFC 8017, A.1.2), big-endian; zeros may stand before them.
pub struct RsaParts<'a> {
    /// The modulus.
    pub modulus: &'a [u8],
    /// The public exponent.
    pub exponent: &'a [u8],
    /// The private exponent.
    pub private: &'a [u8],
    /// The primes, the exponents modulo each of them less one, and the coefficient: `p`, `q`, `dP`, `dQ`, `qInv`.
    pub halves: [&'a [u8]; 5],
}

fn rsa_algorithm(writer: &mut Writer) {
    writer.element(SEQUENCE, |writer| {
        writer.element(OBJECT_IDENTIFIER, |writer| writer.bytes(der::RSA_ENCRYPTION));
        writer.element(NULL, |_| ());
    });
}

fn ec_algorithm(writer: &mut Writer, curve: Curve) {
    writer.element(SEQUENCE, |writer| {
        writer.element(OBJECT_IDENTIFIER, |writer| writer.bytes(der::EC_PUBLIC_KEY));
        writer.element(OBJECT_IDENTIFIER, |writer| writer.bytes(der::curve_name(curve)));
    });
}

/// The coordinates of a point, one behind the other, as an uncompressed one.
fn point(writer: &mut Writer, coordinates: &[u8]) {
    writer.element(BIT_STRING, |writer| {
        writer.bytes(&[0, UNCOMPRESSED]);
        writer.bytes(coordinates);
    });
}

/// A public key of RSA, of its modulus and exponent, big-endian; zeros may stand before them.
pub fn rsa_public(size: RsaSize, modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    let mut public = Writer::of(KeyPair::Rsa(size));
    public.element(SEQUENCE, |writer| {
        rsa_algorithm(writer);
        writer.element(BIT_STRING, |writer| {
            writer.bytes(&[0]);
            writer.element(SEQUENCE, |writer| {
                writer.integer(modulus);
                writer.integer(exponent);
            });
        });
    });
    public.0.to_vec()
}

/// A public key on a curve, of the coordinates of its point, one behind the other.
pub fn ec_public(curve: Curve, coordinates: &[u8]) -> Vec<u8> {
    let mut public = Writer::of(KeyPair::Ec(curve));
    public.element(SEQUENCE, |writer| {
        ec_algorithm(writer, curve);
        point(writer, coordinates);
    });
    public.0.to_vec()
}

/// A key pair of RSA.
pub fn rsa(size: RsaSize, parts: &RsaParts<'_>) -> Pair {
    let mut private = Writer::of(KeyPair::Rsa(size));
    private.element(SEQUENCE, |writer| {
        writer.integer(&[]);
        rsa_algorithm(writer);
        writer.element(OCTET_STRING, |writer| {
            writer.element(SEQUENCE, |writer| {
                writer.integer(&[]);
                [parts.modulus, parts.exponent, parts.private].into_iter().for_each(|number| writer.integer(number));
                parts.halves.into_iter().for_each(|number| writer.integer(number));
            });
        });
    });
    Pair { private: private.0, public: rsa_public(size, parts.modulus, parts.exponent) }
}

/// A key pair on a curve: its scalar, as long as the order, and the coordinates of its point, one behind the other.
pub fn ec(curve: Curve, scalar: &[u8], coordinates: &[u8]) -> Pair {
    let mut private = Writer::of(KeyPair::Ec(curve));
    private.element(SEQUENCE, |writer| {
        writer.integer(&[]);
        ec_algorithm(writer, curve);
        writer.element(OCTET_STRING, |writer| {
            writer.element(SEQUENCE, |writer| {
                writer.integer(&[1]);
                writer.element(OCTET_STRING, |writer| writer.bytes(scalar));
                writer.element(CONTEXT_1, |writer| point(writer, coordinates));
            });
        });
    });
    Pair { private: private.0, public: ec_public(curve, coordinates) }
}

/// Elements of DER, one after the other, by tag and contents: of no more than 65,535 bytes, with lengths in one to three bytes (X.690, 8.1),
/// which need not be minimal. It ends where no whole element follows; what is left is [`Elements::rest`].
#[derive(Clone, Debug)]
pub struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// Those in `bytes`.
    #[must_use]
    pub fn of(bytes: &'a [u8]) -> Elements<'a> {
        Elements(bytes)
    }

    /// The contents of the next element, if it has this tag.
    pub fn tagged(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, contents)| contents)
    }

    /// Bytes behind the elements that were taken.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81 | 0x82 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (contents, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, contents))
    }
}

/// The contents of the one element that bytes are; `None` for another tag, and where bytes are left.
#[must_use]
pub fn only(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    let mut elements = Elements::of(bytes);
    let contents = elements.tagged(tag)?;
    elements.rest().is_empty().then_some(contents)
}

/// An element of contents below 65,536 bytes, wiped when dropped.
#[must_use]
pub fn element(tag: u8, contents: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut writer = Writer(Zeroizing::new(Vec::with_capacity(contents.len() + 4)));
    writer.element(tag, |writer| writer.bytes(contents));
    writer.0
}

/// A number, big-endian, without the zeros before it.
#[must_use]
pub fn trimmed(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

/// DER as it grows, wiped when dropped.
struct Writer(Zeroizing<Vec<u8>>);

impl Writer {
    /// With room for the longest key of a kind and for the headers that [`Writer::element`] moves, so that growing leaves no bytes
    /// behind.
    fn of(pair: KeyPair) -> Writer {
        Writer(Zeroizing::new(Vec::with_capacity(pair.private_len_max() + 8)))
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// An element: its tag, its length in as few bytes as it takes (X.690, 8.1.3) and what `contents` writes, below 65,536 bytes.
    fn element(&mut self, tag: u8, contents: impl FnOnce(&mut Writer)) {
        self.bytes(&[tag, 0]);
        let begins = self.0.len();
        contents(self);
        let len = self.0.len() - begins;
        let [high, low] = (len as u16).to_be_bytes();
        debug_assert_eq!(usize::from(u16::from_be_bytes([high, low])), len);
        let long: &[u8] = match len {
            0..0x80 => &[],
            0x80..0x100 => &[low],
            _ => &[high, low],
        };
        self.0[begins - 1] = if long.is_empty() { low } else { 0x80 | long.len() as u8 };
        self.0.splice(begins..begins, long.iter().copied());
    }

    /// A number that is not negative, with no more bytes than it takes (X.690, 8.3).
    fn integer(&mut self, number: &[u8]) {
        let number = trimmed(number);
        self.element(INTEGER, |writer| {
            if number.first().is_none_or(|first| *first >= 0x80) {
                writer.bytes(&[0]);
            }
            writer.bytes(number);
        });
    }
}

#[cfg(test)]
mod tests {
    use ::rsa::pkcs1::RsaPrivateKeyRef;
    use ::rsa::pkcs8::PrivateKeyInfoRef;
    use ::rsa::pkcs8::der::Decode;
    use ciphermill_contract::{KeyMaterial, Suite};
    use ciphermill_vectors::keys::{TestPair, pairs};

    use super::*;
    use crate::rsa::{RsaNumbers, pair_of_primes};

    /// The suites that take pairs of a kind.
    fn takers(pair: KeyPair) -> impl Iterator<Item = Suite> {
        Suite::all().filter(move |suite| suite.key_pair() == Some(pair))
    }

    fn accepted(pair: KeyPair, keys: &Pair) {
        assert!(keys.private.len() <= pair.private_len_max() && keys.public.len() == pair.public_len(), "{pair:?}");
        let mut takers_len = 0;
        for suite in takers(pair) {
            assert_eq!(suite.check_key(&KeyMaterial::private(&keys.private)), Ok(()), "{suite}");
            if !matches!(suite, Suite::Agree(_)) {
                assert_eq!(suite.check_key(&KeyMaterial::public(&keys.public)), Ok(()), "{suite}");
            }
            takers_len += 1;
        }
        assert!(takers_len > 0, "{pair:?}");
    }

    #[test]
    fn rsa_pairs_are_those_that_other_programs_write() {
        for (size, name) in RsaSize::ALL.into_iter().zip(["rsa-1024", "rsa-2048", "rsa-3072", "rsa-4096"]) {
            for TestPair { private, public, .. } in pairs(name) {
                let info = PrivateKeyInfoRef::from_der(private).expect("a good key");
                let key = RsaPrivateKeyRef::try_from(info.private_key).expect("a good key");
                let halves = [key.prime1, key.prime2, key.exponent1, key.exponent2, key.coefficient];
                let parts = RsaParts {
                    modulus: key.modulus.as_bytes(),
                    exponent: key.public_exponent.as_bytes(),
                    private: key.private_exponent.as_bytes(),
                    halves: halves.map(|number| number.as_bytes()),
                };
                let written = rsa(size, &parts);
                accepted(KeyPair::Rsa(size), &written);
                assert_eq!((&*written.private, &written.public), (private, public), "{name}");
                // The same primes make the same key, but for the private exponent, of which there are several.
                let numbers = RsaNumbers::parse(&KeyMaterial::private(private), size.len()).expect("a good key");
                let numbers = numbers.private.expect("a private key");
                let made = pair_of_primes(size, &numbers.q, &numbers.p).expect("good primes");
                accepted(KeyPair::Rsa(size), &made);
                let from_primes = 5 * (size.len() / 2);
                assert_eq!(&made.public, public, "{name}");
                assert!(made.private.ends_with(&private[private.len() - from_primes..]), "{name}");
            }
        }
    }

    #[test]
    fn pairs_on_curves_are_those_that_other_programs_write() {
        for (curve, name) in [(Curve::P256, "p256"), (Curve::P384, "p384"), (Curve::P521, "p521")] {
            for TestPair { private, public, .. } in pairs(name) {
                let coordinates = &public[public.len() - 2 * curve.field_len()..];
                let at = private.windows(2).position(|pair| pair == [OCTET_STRING, curve.order_len() as u8]);
                let scalar = &private[at.expect("a scalar") + 2..][..curve.order_len()];
                let written = ec(curve, scalar, coordinates);
                accepted(KeyPair::Ec(curve), &written);
                assert_eq!((&*written.private, &written.public), (private, public), "{name}");
                assert_eq!(written.private.len(), KeyPair::Ec(curve).private_len_max(), "{name}");
            }
        }
    }

    #[test]
    fn every_curve_has_a_pair_of_the_length_that_the_contract_says() {
        for curve in Curve::ALL {
            let pair = ec(curve, &vec![7; curve.order_len()], &vec![9; 2 * curve.field_len()]);
            accepted(KeyPair::Ec(curve), &pair);
            assert_eq!(pair.private.len(), KeyPair::Ec(curve).private_len_max(), "{curve}");
        }
    }

    #[test]
    fn elements_are_read_as_they_are_written() {
        for len in [0, 1, 127, 128, 255, 256, 65_535] {
            let contents = vec![7; len];
            let written = element(OCTET_STRING, &contents);
            assert_eq!(only(&written, OCTET_STRING), Some(&contents[..]), "{len}");
            assert_eq!(only(&written, INTEGER), None, "{len}");
            for cut in [1, 2, written.len() - 1] {
                assert_eq!(only(&written[..written.len() - cut.min(written.len())], OCTET_STRING), None, "{len}");
            }
            let two = [&written[..], &[NULL, 0]].concat();
            assert_eq!(only(&two, OCTET_STRING), None, "{len}");
            let mut elements = Elements::of(&two);
            assert_eq!(elements.next(), Some((OCTET_STRING, &contents[..])), "{len}");
            assert_eq!((elements.rest(), elements.tagged(NULL)), (&[NULL, 0][..], Some(&[][..])), "{len}");
        }
        assert_eq!(only(&[OCTET_STRING, 0x83, 0, 0, 1, 7], OCTET_STRING), None);
        assert_eq!(only(&[OCTET_STRING, 0x80, 7, 0, 0], OCTET_STRING), None);
        assert_eq!([trimmed(&[0, 0, 1, 0]), trimmed(&[0]), trimmed(&[])], [&[1, 0][..], &[], &[]]);
    }

    #[test]
    fn numbers_are_minimal_and_never_negative() {
        let integer = |number: &[u8]| {
            let mut writer = Writer(Zeroizing::new(Vec::new()));
            writer.integer(number);
            writer.0.to_vec()
        };
        assert_eq!(integer(&[]), [INTEGER, 1, 0]);
        assert_eq!(integer(&[0, 0]), [INTEGER, 1, 0]);
        assert_eq!(integer(&[0, 0x7f, 1]), [INTEGER, 2, 0x7f, 1]);
        assert_eq!(integer(&[0x80]), [INTEGER, 2, 0, 0x80]);
        assert_eq!(integer(&[1; 127])[..3], [INTEGER, 127, 1]);
        assert_eq!(integer(&[1; 128])[..4], [INTEGER, 0x81, 128, 1]);
        assert_eq!(integer(&[1; 256])[..5], [INTEGER, 0x82, 1, 0, 1]);
    }
}
