//! The public half of a key pair that a token has: read from its attributes, in the contract's form, and as attributes of another object.

use ciphermill_contract::KeyMaterial;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::acceptance::der::curve_key;
use ciphermill_contract::suite::{Curve, RsaSize};
use ciphermill_pairs::der;
use cryptoki_sys::{
    CK_OBJECT_HANDLE, CKA_CLASS, CKA_EC_PARAMS, CKA_EC_POINT, CKA_ID, CKA_KEY_TYPE, CKA_LABEL, CKA_MODULUS,
    CKA_PUBLIC_EXPONENT, CKO_PUBLIC_KEY, CKR_ATTRIBUTE_SENSITIVE, CKR_ATTRIBUTE_TYPE_INVALID,
};
use sha2::{Digest as _, Sha256};

use crate::key::Kind;
use crate::material::{self, element, unsigned};
use crate::session::{Attribute, Session};
use crate::token::Failure;

const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;

/// The first byte of an uncompressed point (SEC 1, 2.3.3).
const UNCOMPRESSED: u8 = 4;

/// Bytes of an identifier that is made of a public key (RFC 7093, 2, method 1).
const IDENTIFIER_LEN: usize = 20;

/// A public half.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Public {
    /// Modulus and exponent, without zeros before them.
    Rsa { size: RsaSize, modulus: Vec<u8>, exponent: Vec<u8> },
    /// The coordinates of the curve's point, one behind the other.
    Ec { curve: Curve, coordinates: Vec<u8> },
}

impl Public {
    /// The public half of a private key that a token has. What the private key does not say (6.1.3, 6.3.4), the public key with its
    /// identifier, or without one with its label, does.
    ///
    /// # Errors
    /// `Key` where no such key is there, several are, or what they say is no public half of this kind; `Call`.
    pub(crate) fn of(session: &Session, kind: Kind, private: CK_OBJECT_HANDLE) -> Result<Public, Failure> {
        let other = Failure::Key(KeyProblem::Parameters);
        match kind {
            Kind::Rsa(size) => {
                let modulus = session.attribute(private, CKA_MODULUS)?;
                let exponent = match said(session, private, CKA_PUBLIC_EXPONENT)? {
                    Some(exponent) => exponent,
                    None => {
                        let public = beside(session, kind, private)?;
                        // One of another pair says nothing.
                        if unsigned(&session.attribute(public, CKA_MODULUS)?) != unsigned(&modulus) {
                            return Err(other);
                        }
                        session.attribute(public, CKA_PUBLIC_EXPONENT)?
                    }
                };
                Public::rsa(size, &modulus, &exponent).ok_or(other)
            }
            Kind::Ec(curve) => {
                let public = beside(session, kind, private)?;
                if session.attribute(public, CKA_EC_PARAMS)? != material::curve_parameters(curve) {
                    return Err(other);
                }
                Public::ec(curve, &session.attribute(public, CKA_EC_POINT)?).ok_or(other)
            }
        }
    }

    /// The public half of a private key in the contract's form, of which `info` is the SubjectPublicKeyInfo.
    pub(crate) fn of_material(kind: Kind, key: &KeyMaterial<'_>, info: &[u8]) -> Result<Public, KeyProblem> {
        match kind {
            Kind::Rsa(size) => {
                let numbers = material::rsa_numbers(key)?;
                let number = |name| {
                    let found = numbers.iter().find(|(kind, _)| *kind == name);
                    found.map(|(_, value)| *value).ok_or(KeyProblem::Encoding)
                };
                Public::rsa(size, number(CKA_MODULUS)?, number(CKA_PUBLIC_EXPONENT)?).ok_or(KeyProblem::Parameters)
            }
            Kind::Ec(curve) => {
                let point = curve_key(curve, &KeyMaterial::public(info))?.point.ok_or(KeyProblem::Encoding)?;
                Public::ec(curve, point).ok_or(KeyProblem::Encoding)
            }
        }
    }

    /// None for a modulus of another size.
    fn rsa(size: RsaSize, modulus: &[u8], exponent: &[u8]) -> Option<Public> {
        let (modulus, exponent) = (unsigned(modulus).to_vec(), unsigned(exponent).to_vec());
        let fits = modulus.len() == size.len() && modulus.first().is_some_and(|first| *first >= 0x80);
        (fits && !exponent.is_empty()).then_some(Public::Rsa { size, modulus, exponent })
    }

    /// Of `CKA_EC_POINT`: an octet string in DER (6.3.3), where some tokens give what is in it alone. None for what is no uncompressed
    /// point of the curve's length.
    fn ec(curve: Curve, attribute: &[u8]) -> Option<Public> {
        let coordinates = |point: &[u8]| {
            let (first, coordinates) = point.split_first()?;
            let is_whole = *first == UNCOMPRESSED && coordinates.len() == 2 * curve.field_len();
            is_whole.then(|| coordinates.to_vec())
        };
        let within = || {
            let mut rest = attribute;
            let point = element(&mut rest, OCTET_STRING).ok().filter(|_| rest.is_empty())?;
            coordinates(point)
        };
        Some(Public::Ec { curve, coordinates: coordinates(attribute).or_else(within)? })
    }

    /// What a public key object says besides names and uses (6.1.2 and 6.3.3).
    pub(crate) fn with_attributes<T>(&self, work: impl FnOnce(&[Attribute<'_>]) -> T) -> T {
        match self {
            Public::Rsa { modulus, exponent, .. } => work(&[(CKA_MODULUS, modulus), (CKA_PUBLIC_EXPONENT, exponent)]),
            Public::Ec { curve, coordinates } => {
                // At most 133 bytes: a length of one byte, or of two.
                let len = coordinates.len() as u8 + 1;
                let head: &[u8] = if len < 0x80 { &[OCTET_STRING, len] } else { &[OCTET_STRING, 0x81, len] };
                let point = [head, &[UNCOMPRESSED], coordinates].concat();
                work(&[(CKA_EC_PARAMS, &material::curve_parameters(*curve)), (CKA_EC_POINT, &point)])
            }
        }
    }

    /// The contract's form ([`ciphermill_contract::KeyForm::Public`]).
    pub(crate) fn info(&self) -> Vec<u8> {
        match self {
            Public::Rsa { size, modulus, exponent } => der::rsa_public(*size, modulus, exponent),
            Public::Ec { curve, coordinates } => der::ec_public(*curve, coordinates),
        }
    }

    /// An identifier that follows from the key alone (RFC 7093, 2, method 1): of what the bit string has in it.
    pub(crate) fn identifier(&self) -> Vec<u8> {
        let info = self.info();
        let within = || {
            let mut outer = &info[..];
            let mut inner = element(&mut outer, SEQUENCE).ok()?;
            element(&mut inner, SEQUENCE).ok()?;
            element(&mut inner, BIT_STRING).ok()?.get(1..)
        };
        let mut digest = Sha256::digest(within().unwrap_or(&info)).to_vec();
        digest.truncate(IDENTIFIER_LEN);
        digest
    }
}

/// An attribute, if the object says it and there is something in it.
fn said(session: &Session, object: CK_OBJECT_HANDLE, name: u64) -> Result<Option<Vec<u8>>, Failure> {
    match session.attribute(object, name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(CKR_ATTRIBUTE_TYPE_INVALID | CKR_ATTRIBUTE_SENSITIVE) => Ok(None),
        Err(code) => Err(code.into()),
    }
}

/// The one public key beside a private one.
fn beside(session: &Session, kind: Kind, private: CK_OBJECT_HANDLE) -> Result<CK_OBJECT_HANDLE, Failure> {
    let (class, key_type) = (CKO_PUBLIC_KEY.to_ne_bytes(), kind.key_type());
    let missing = Failure::Key(KeyProblem::Encoding);
    let name = match said(session, private, CKA_ID)? {
        Some(id) => (CKA_ID, id),
        None => (CKA_LABEL, said(session, private, CKA_LABEL)?.ok_or(missing)?),
    };
    let found = session.find(&[(CKA_CLASS, &class), (CKA_KEY_TYPE, &key_type), (name.0, &name.1)])?;
    let [public] = found[..] else { return Err(missing) };
    Ok(public)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ciphermill_contract::Suite;
    use ciphermill_contract::suite::{Digest, SignPadding, Signature};

    #[test]
    fn rsa_keys_have_the_shape_that_the_contract_checks() {
        let suite = Suite::Sign(Signature::Rsa(RsaSize::Rsa2048, SignPadding::Pkcs1, Digest::Sha256));
        let mut modulus = vec![0xc5; 257];
        modulus[0] = 0;
        for exponent in [&[3][..], &[1, 0, 1], &[0, 1, 0, 1]] {
            let key = Public::rsa(RsaSize::Rsa2048, &modulus, exponent).expect("of that size").info();
            assert_eq!(suite.check_key(&KeyMaterial::public(&key)), Ok(()));
        }
        assert_eq!(Public::rsa(RsaSize::Rsa2048, &modulus, &[0]), None);
        modulus[1] = 0x45;
        assert_eq!(Public::rsa(RsaSize::Rsa2048, &modulus, &[3]), None, "2,047 bits");
        assert_eq!(Public::rsa(RsaSize::Rsa3072, &[0xc5; 256], &[3]), None);
    }

    #[test]
    fn points_come_in_der_and_bare() {
        for curve in [Curve::P256, Curve::P384, Curve::P521] {
            let suite = Suite::Sign(Signature::Ecdsa(curve));
            let mut bare = vec![7; 1 + 2 * curve.field_len()];
            bare[0] = UNCOMPRESSED;
            let public = Public::ec(curve, &bare).expect("a point");
            let info = public.info();
            assert_eq!(suite.check_key(&KeyMaterial::public(&info)), Ok(()));
            assert_eq!(public.identifier().len(), IDENTIFIER_LEN);
            let mut wrapped = public.with_attributes(|attributes| attributes[1].1.to_vec());
            assert_eq!(Public::ec(curve, &wrapped), Some(public));
            wrapped.push(0);
            assert_eq!(Public::ec(curve, &wrapped), None);
            assert_eq!(Public::ec(curve, &bare[1..]), None);
        }
    }
}
