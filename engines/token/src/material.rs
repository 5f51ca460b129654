//! A key's parts as attributes of a session object (PKCS#11 3.1, 6.1.3 and 6.3.4).

use ciphermill_contract::KeyMaterial;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Curve;
use ciphermill_contract::suite::acceptance::der::{curve_key, curve_name};
use ciphermill_pairs::der::{Elements, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, element, only, trimmed};
use cryptoki_sys::{
    CK_ATTRIBUTE_TYPE, CKA_COEFFICIENT, CKA_EXPONENT_1, CKA_EXPONENT_2, CKA_MODULUS, CKA_PRIME_1, CKA_PRIME_2,
    CKA_PRIVATE_EXPONENT, CKA_PUBLIC_EXPONENT,
};

use crate::session::Attribute;

/// The numbers of an RSA key in the order of RFC 8017, A.1.2, behind the version.
const RSA_NUMBERS: [CK_ATTRIBUTE_TYPE; 8] = [
    CKA_MODULUS,
    CKA_PUBLIC_EXPONENT,
    CKA_PRIVATE_EXPONENT,
    CKA_PRIME_1,
    CKA_PRIME_2,
    CKA_EXPONENT_1,
    CKA_EXPONENT_2,
    CKA_COEFFICIENT,
];

/// The numbers of a private RSA key, which borrow from its PKCS#8 form. The contract has looked at shape and sizes.
pub(crate) fn rsa_numbers<'a>(key: &KeyMaterial<'a>) -> Result<Vec<Attribute<'a>>, KeyProblem> {
    numbers(key.bytes).ok_or(KeyProblem::Encoding)
}

fn numbers(info: &[u8]) -> Option<Vec<Attribute<'_>>> {
    let mut info = Elements::of(only(info, SEQUENCE)?);
    let wrapped = info.nth(2).filter(|(tag, _)| *tag == OCTET_STRING)?.1;
    let mut numbers = Elements::of(only(wrapped, SEQUENCE)?);
    numbers.tagged(INTEGER)?;
    RSA_NUMBERS.into_iter().map(|kind| Some((kind, trimmed(numbers.tagged(INTEGER)?)))).collect()
}

/// The scalar of a private key on a curve.
pub(crate) fn scalar<'a>(curve: Curve, key: &KeyMaterial<'a>) -> Result<&'a [u8], KeyProblem> {
    curve_key(curve, key)?.scalar.ok_or(KeyProblem::Encoding)
}

/// A curve's name as `CKA_EC_PARAMS` has it: an object identifier in DER.
pub(crate) fn curve_parameters(curve: Curve) -> Vec<u8> {
    element(OBJECT_IDENTIFIER, curve_name(curve)).to_vec()
}
