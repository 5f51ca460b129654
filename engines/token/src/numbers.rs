//! Arithmetic on the numbers of an RSA key that no token is asked for: whether they belong together. Tokens take keys whose numbers do not,
//! and a signature by one that has a fault in its numbers for the Chinese remainder theorem gives the primes away.

use ciphermill_contract::KeyMaterial;
use ciphermill_contract::error::KeyProblem;
use rsa::pkcs8::DecodePrivateKey;
use rsa::traits::PrivateKeyParts;
use rsa::{BoxedUint, RsaPrivateKey};
use zeroize::Zeroizing;

use crate::material;

/// Whether a private key's numbers belong together (RFC 8017, 3.2), those for the Chinese remainder theorem among them. The contract has
/// looked at shape and sizes.
pub(crate) fn belong_together(key: &KeyMaterial<'_>) -> Result<(), KeyProblem> {
    let private = RsaPrivateKey::from_pkcs8_der(key.bytes).map_err(|_| KeyProblem::Encoding)?;
    let numbers = material::rsa_numbers(key)?;
    let [.., (_, first), (_, second), (_, coefficient)] = numbers[..] else { return Err(KeyProblem::Encoding) };
    // They are computed when the key is read, whatever it says that they are.
    let (Some(dp), Some(dq), Some(inverse)) = (private.dp(), private.dq(), private.crt_coefficient()) else {
        return Err(KeyProblem::Encoding);
    };
    let inverse = Zeroizing::new(inverse);
    let belong = is_number(first, dp) && is_number(second, dq) && is_number(coefficient, &inverse);
    if belong { Ok(()) } else { Err(KeyProblem::Encoding) }
}

/// Whether big-endian bytes are this number.
fn is_number(bytes: &[u8], number: &BoxedUint) -> bool {
    BoxedUint::from_be_slice(bytes, number.bits_precision()).is_ok_and(|found| *Zeroizing::new(found) == *number)
}
