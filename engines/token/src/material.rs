//! A key's parts as attributes of a session object (PKCS#11 3.1, 6.1.3 and 6.3.4).

use ciphermill_contract::KeyMaterial;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Curve;
pub(crate) use ciphermill_contract::suite::acceptance::der::curve_key;
use ciphermill_contract::suite::acceptance::der::curve_name;
use ciphermill_pairs::der::{Elements, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, trimmed};
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
    let read = || -> Option<Vec<Attribute<'a>>> {
        let mut info = Elements::of(Elements::of(key.bytes).tagged(SEQUENCE)?);
        info.tagged(INTEGER)?;
        info.tagged(SEQUENCE)?;
        let mut numbers = Elements::of(Elements::of(info.tagged(OCTET_STRING)?).tagged(SEQUENCE)?);
        numbers.tagged(INTEGER)?;
        RSA_NUMBERS.into_iter().map(|kind| Some((kind, trimmed(numbers.tagged(INTEGER)?)))).collect()
    };
    read().ok_or(KeyProblem::Encoding)
}

/// A curve's name as `CKA_EC_PARAMS` has it: an object identifier in DER.
pub(crate) fn curve_parameters(curve: Curve) -> Vec<u8> {
    let name = curve_name(curve);
    let mut parameters = vec![OBJECT_IDENTIFIER, name.len() as u8];
    parameters.extend_from_slice(name);
    parameters
}
