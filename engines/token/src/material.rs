//! A key's parts as attributes of a session object (PKCS#11 3.1, 6.1.3 and 6.3.4).

use ciphermill_contract::KeyMaterial;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Curve;
pub(crate) use ciphermill_contract::suite::acceptance::der::curve_key;
use ciphermill_contract::suite::acceptance::der::curve_name;
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
    let mut outer = key.bytes;
    let mut info = element(&mut outer, 0x30)?;
    element(&mut info, 0x02)?;
    element(&mut info, 0x30)?;
    let mut wrapped = element(&mut info, 0x04)?;
    let mut numbers = element(&mut wrapped, 0x30)?;
    element(&mut numbers, 0x02)?;
    RSA_NUMBERS.into_iter().map(|kind| Ok((kind, unsigned(element(&mut numbers, 0x02)?)))).collect()
}

/// A curve's name as `CKA_EC_PARAMS` has it: an object identifier in DER.
pub(crate) fn curve_parameters(curve: Curve) -> Vec<u8> {
    let name = curve_name(curve);
    let mut parameters = vec![0x06, name.len() as u8];
    parameters.extend_from_slice(name);
    parameters
}

/// Without the zeros before a number.
pub(crate) fn unsigned(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

/// The contents of the next element, which has this tag, of no more than 65,535 bytes (X.690, 8.1).
pub(crate) fn element<'a>(from: &mut &'a [u8], tag: u8) -> Result<&'a [u8], KeyProblem> {
    let read = |from: &'a [u8]| {
        let (found, rest) = from.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            0x81 | 0x82 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 3))?;
                (bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (contents, rest) = rest.split_at_checked(len)?;
        (*found == tag).then_some((contents, rest))
    };
    let (contents, rest) = read(from).ok_or(KeyProblem::Encoding)?;
    *from = rest;
    Ok(contents)
}
