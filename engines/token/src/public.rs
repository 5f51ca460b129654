//! The public half of a key pair that a token has: as attributes, and as SubjectPublicKeyInfo.

use ciphermill_contract::KeyMaterial;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Curve;
use ciphermill_contract::suite::acceptance::der::curve_key;
use cryptoki_sys::{
    CK_OBJECT_HANDLE, CKA_CLASS, CKA_EC_PARAMS, CKA_EC_POINT, CKA_ID, CKA_KEY_TYPE, CKA_LABEL, CKA_MODULUS,
    CKA_PUBLIC_EXPONENT, CKO_PUBLIC_KEY,
};
use sha2::{Digest as _, Sha256};

use crate::key::Kind;
use crate::material::{self, element, unsigned};
use crate::session::{Attribute, Session};

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;

/// rsaEncryption with its NULL (RFC 8017, appendix A.1), and id-ecPublicKey (RFC 5480, 2.1.1), as elements.
const RSA_ENCRYPTION: &[u8] = &[0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 0x05, 0];
const EC_PUBLIC_KEY: &[u8] = &[0x06, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];

/// Bytes of an identifier that is made of a public key (RFC 7093, 2, method 1).
const IDENTIFIER_LEN: usize = 20;

/// A public half.
pub(crate) enum Public {
    /// Modulus and exponent, without zeros before them.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    /// The curve's point, uncompressed or not (SEC 1, 2.3.3).
    Ec { curve: Curve, point: Vec<u8> },
}

impl Public {
    /// The public half of a private key that a token has. What the private key does not say, the public key with its identifier, or
    /// without one with its label, does; none where no such key is there, or several are.
    pub(crate) fn of(session: &Session, kind: Kind, private: CK_OBJECT_HANDLE) -> Option<Public> {
        let (class, key_type) = (CKO_PUBLIC_KEY.to_ne_bytes(), kind.key_type());
        let read = |object, name| session.attribute(object, name).ok().filter(|value| !value.is_empty());
        let name = match read(private, CKA_ID) {
            Some(id) => (CKA_ID, id),
            None => (CKA_LABEL, read(private, CKA_LABEL)?),
        };
        let beside = || {
            let found = session.find(&[(CKA_CLASS, &class), (CKA_KEY_TYPE, &key_type), (name.0, &name.1)]).ok()?;
            if let [public] = found[..] { Some(public) } else { None }
        };
        match kind {
            Kind::Rsa(_) => {
                let modulus = read(private, CKA_MODULUS)?;
                let exponent = match read(private, CKA_PUBLIC_EXPONENT) {
                    Some(exponent) => exponent,
                    None => {
                        let public = beside()?;
                        // One of another pair says nothing.
                        let is_same = unsigned(&read(public, CKA_MODULUS)?) == unsigned(&modulus);
                        read(public, CKA_PUBLIC_EXPONENT).filter(|_| is_same)?
                    }
                };
                Some(Public::rsa(&modulus, &exponent))
            }
            Kind::Ec(curve) => {
                let public = beside()?;
                if read(public, CKA_EC_PARAMS)? != material::curve_parameters(curve) {
                    return None;
                }
                let value = read(public, CKA_EC_POINT)?;
                // An octet string in DER (6.3.3); some tokens give what is in it alone.
                let mut rest = &value[..];
                let point = match element(&mut rest, OCTET_STRING) {
                    Ok(point) if rest.is_empty() => point.to_vec(),
                    _ => value,
                };
                Some(Public::Ec { curve, point })
            }
        }
    }

    /// The public half of a private key in the contract's form, of which `info` is the SubjectPublicKeyInfo.
    pub(crate) fn of_material(kind: Kind, key: &KeyMaterial<'_>, info: &[u8]) -> Result<Public, KeyProblem> {
        match kind {
            Kind::Rsa(_) => {
                let numbers = material::rsa_numbers(key)?;
                let number = |name| {
                    let found = numbers.iter().find(|(kind, _)| *kind == name);
                    found.map(|(_, value)| *value).ok_or(KeyProblem::Encoding)
                };
                Ok(Public::rsa(number(CKA_MODULUS)?, number(CKA_PUBLIC_EXPONENT)?))
            }
            Kind::Ec(curve) => {
                let point = curve_key(curve, &KeyMaterial::public(info))?.point.ok_or(KeyProblem::Encoding)?;
                Ok(Public::Ec { curve, point: point.to_vec() })
            }
        }
    }

    fn rsa(modulus: &[u8], exponent: &[u8]) -> Public {
        Public::Rsa { modulus: unsigned(modulus).to_vec(), exponent: unsigned(exponent).to_vec() }
    }

    /// What a public key object says besides names and uses (6.1.2 and 6.3.3).
    pub(crate) fn with_attributes<T>(&self, work: impl FnOnce(&[Attribute<'_>]) -> T) -> T {
        match self {
            Public::Rsa { modulus, exponent } => work(&[(CKA_MODULUS, modulus), (CKA_PUBLIC_EXPONENT, exponent)]),
            Public::Ec { curve, point } => {
                let (parameters, point) = (material::curve_parameters(*curve), der(OCTET_STRING, &[point]));
                work(&[(CKA_EC_PARAMS, &parameters), (CKA_EC_POINT, &point)])
            }
        }
    }

    /// SubjectPublicKeyInfo in DER (RFC 5280, 4.1.2.7).
    pub(crate) fn info(&self) -> Vec<u8> {
        let algorithm = match self {
            Public::Rsa { .. } => der(SEQUENCE, &[RSA_ENCRYPTION]),
            Public::Ec { curve, .. } => der(SEQUENCE, &[EC_PUBLIC_KEY, &material::curve_parameters(*curve)]),
        };
        der(SEQUENCE, &[&algorithm, &der(BIT_STRING, &[&[0], &self.key()])])
    }

    /// An identifier that follows from the key alone (RFC 7093, 2, method 1).
    pub(crate) fn identifier(&self) -> Vec<u8> {
        let mut digest = Sha256::digest(self.key()).to_vec();
        digest.truncate(IDENTIFIER_LEN);
        digest
    }

    /// What the bit string of SubjectPublicKeyInfo has in it.
    fn key(&self) -> Vec<u8> {
        match self {
            Public::Rsa { modulus, exponent } => der(SEQUENCE, &[&integer(modulus), &integer(exponent)]),
            Public::Ec { point, .. } => point.clone(),
        }
    }
}

/// An element in DER (X.690, 8.1) of these contents, one after the other.
fn der(tag: u8, contents: &[&[u8]]) -> Vec<u8> {
    let contents = contents.concat();
    let mut element = vec![tag];
    let len = contents.len().to_be_bytes();
    match contents.len() {
        short @ 0..=0x7f => element.push(short as u8),
        _ => {
            let len = unsigned(&len);
            element.push(0x80 | len.len() as u8);
            element.extend_from_slice(len);
        }
    }
    element.extend_from_slice(&contents);
    element
}

/// An integer that is not negative.
fn integer(number: &[u8]) -> Vec<u8> {
    let has_sign = number.first().is_none_or(|byte| byte & 0x80 != 0);
    let sign: &[u8] = if has_sign { &[0] } else { &[] };
    der(INTEGER, &[sign, number])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_short_and_long_lengths() {
        assert_eq!(der(4, &[&[1], &[2, 3]]), [4, 3, 1, 2, 3]);
        assert_eq!(der(4, &[&[7; 128]])[..3], [4, 0x81, 128]);
        assert_eq!(der(4, &[&[7; 256]])[..4], [4, 0x82, 1, 0]);
        assert_eq!(integer(&[0x80]), [2, 2, 0, 0x80]);
        assert_eq!(integer(&[0x7f]), [2, 1, 0x7f]);
        assert_eq!(integer(&[]), [2, 1, 0]);
    }

    #[test]
    fn a_point_is_found_again_in_its_info() {
        let mut point = vec![4];
        point.extend_from_slice(&[9; 64]);
        let public = Public::Ec { curve: Curve::P256, point: point.clone() };
        let info = public.info();
        assert_eq!(curve_key(Curve::P256, &KeyMaterial::public(&info)).unwrap().point, Some(&point[..]));
        assert_eq!(public.identifier().len(), 20);
    }
}
