//! RSA (RFC 8017): signatures and encryption. Private operations are blinded with the operating system's random bytes
//! and checked with the public exponent before anything leaves.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Digest, PublicEncryption, RsaSize, SignPadding};
use ciphermill_contract::{Direction, KeyMaterial, OpBuffers, OpStatus, PreparedKey, Reason, Result};
use digest::FixedOutputReset;
use getrandom::SysRng;
use rsa::hazmat::{rsa_decrypt_and_check, rsa_encrypt};
use rsa::pkcs1::RsaPrivateKeyRef;
use rsa::pkcs8::AssociatedOid;
use rsa::traits::{PaddingScheme, PrivateKeyParts, PublicKeyParts, SignatureScheme};
use rsa::{BoxedUint, Error, Oaep, Pkcs1v15Encrypt, Pkcs1v15Sign, Pss, RsaPrivateKey, RsaPublicKey};
use sha1::Sha1;
use sha2::{Sha256, Sha384, Sha512};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq, ConstantTimeLess};
use zeroize::Zeroizing;

use super::der::{self, Algorithm};
use super::{Outcome, Pair, put_output, put_tag, state};

/// Bytes before the separating zero of an encryption block: two of the header, eight of padding (RFC 8017, 7.2.2).
const SEPARATOR_MIN: u32 = 10;

/// A key whose modulus has exactly the bits of `size`.
struct RsaKey {
    size: RsaSize,
    pair: Pair<RsaPrivateKey, RsaPublicKey>,
}

/// Prepares a key with a modulus of `size`.
///
/// # Errors
/// `Encoding` when the numbers do not belong together. The contract has looked at algorithm, shape and size.
pub(super) fn prepare(key: &KeyMaterial<'_>, size: RsaSize) -> Result<PreparedKey, KeyProblem> {
    let damaged = |_| KeyProblem::Encoding;
    let pair: Pair<RsaPrivateKey, RsaPublicKey> = der::pair(key, Algorithm::Rsa)?;
    if let Some(private) = &pair.private {
        // The crate computes the numbers for the Chinese remainder theorem itself, whatever the key says they are.
        let info = der::private(key.bytes, Algorithm::Rsa)?;
        let found = RsaPrivateKeyRef::try_from(info.private_key).map_err(damaged)?;
        let (Some(dp), Some(dq), Some(inverse)) = (private.dp(), private.dq(), private.crt_coefficient()) else {
            return Err(KeyProblem::Encoding);
        };
        let inverse = Zeroizing::new(inverse);
        let belong = is_number(found.exponent1.as_bytes(), dp)
            && is_number(found.exponent2.as_bytes(), dq)
            && is_number(found.coefficient.as_bytes(), &inverse);
        if !belong {
            return Err(KeyProblem::Encoding);
        }
    }
    Ok(PreparedKey::new(RsaKey { size, pair }))
}

/// Whether big-endian bytes are this number, in a time that tells nothing of it but its width.
fn is_number(bytes: &[u8], number: &BoxedUint) -> bool {
    BoxedUint::from_be_slice(bytes, number.bits_precision()).is_ok_and(|found| *Zeroizing::new(found) == *number)
}

/// Signs or verifies.
pub(super) fn sign(
    size: RsaSize,
    padding: SignPadding,
    digest: Digest,
    direction: Direction,
    buffers: &mut OpBuffers<'_>,
) -> Outcome {
    let key = key_of(size, buffers)?;
    match digest {
        Digest::Sha1 => sign_with::<Sha1>(padding, key, direction, buffers),
        Digest::Sha256 => sign_with::<Sha256>(padding, key, direction, buffers),
        Digest::Sha384 => sign_with::<Sha384>(padding, key, direction, buffers),
        Digest::Sha512 => sign_with::<Sha512>(padding, key, direction, buffers),
        _ => Err(OpStatus::EngineFault),
    }
}

fn sign_with<D>(padding: SignPadding, key: &RsaKey, direction: Direction, buffers: &mut OpBuffers<'_>) -> Outcome
where
    D: digest::Digest + FixedOutputReset + AssociatedOid,
{
    let hash = D::digest(buffers.input);
    match padding {
        SignPadding::Pkcs1 => sign_hash(Pkcs1v15Sign::new::<D>(), &hash, key, direction, buffers),
        SignPadding::Pss => sign_hash(Pss::<D>::new(), &hash, key, direction, buffers),
    }
}

fn sign_hash(
    scheme: impl SignatureScheme,
    hash: &[u8],
    key: &RsaKey,
    direction: Direction,
    buffers: &mut OpBuffers<'_>,
) -> Outcome {
    match direction {
        Direction::Encrypt => {
            let signature = scheme.sign(Some(&mut SysRng), key.pair.private()?, hash);
            put_tag(buffers, &signature.map_err(|_| OpStatus::EngineFault)?)
        }
        Direction::Decrypt => scheme.verify(&key.pair.public, hash, buffers.tag).map_err(|_| OpStatus::AuthFailed),
    }
}

/// Encrypts or decrypts.
pub(super) fn encrypt(encryption: PublicEncryption, direction: Direction, buffers: &mut OpBuffers<'_>) -> Outcome {
    let key = key_of(encryption.size(), buffers)?;
    match (encryption, direction) {
        (PublicEncryption::RsaPkcs1(_), Direction::Encrypt) => seal(Pkcs1v15Encrypt, key, buffers),
        (PublicEncryption::RsaPkcs1(_), Direction::Decrypt) => open_pkcs1(key, buffers),
        (PublicEncryption::RsaRaw(_), Direction::Encrypt) => raise_public(key, buffers),
        (PublicEncryption::RsaRaw(_), Direction::Decrypt) => {
            let number = decrypted(key, buffers)?;
            put_output(buffers, &number)
        }
        (PublicEncryption::RsaOaep(_, Digest::Sha1), _) => oaep::<Sha1>(key, direction, buffers),
        (PublicEncryption::RsaOaep(_, Digest::Sha256), _) => oaep::<Sha256>(key, direction, buffers),
        _ => Err(OpStatus::EngineFault),
    }
}

fn oaep<D: digest::Digest + FixedOutputReset>(
    key: &RsaKey,
    direction: Direction,
    buffers: &mut OpBuffers<'_>,
) -> Outcome {
    match direction {
        Direction::Encrypt => seal(Oaep::<D>::new(), key, buffers),
        Direction::Decrypt => {
            let ciphertext = input(buffers)?;
            let message = Oaep::<D>::new().decrypt(Some(&mut SysRng), key.pair.private()?, ciphertext);
            let message = Zeroizing::new(message.map_err(failed)?);
            put_output(buffers, &message)
        }
    }
}

fn seal(scheme: impl PaddingScheme, key: &RsaKey, buffers: &mut OpBuffers<'_>) -> Outcome {
    let ciphertext = scheme.encrypt(&mut SysRng, &key.pair.public, input(buffers)?).map_err(|error| match error {
        Error::MessageTooLong => OpStatus::BadInput(Reason::InputTooLong),
        _ => OpStatus::EngineFault,
    })?;
    put_output(buffers, &ciphertext)
}

/// RSAES-PKCS1-v1_5 decryption (RFC 8017, 7.2.2) in time that depends on the message's length and on success alone.
///
/// Written out because the crate answers bad padding with a made-up message, and the contract with a status. That
/// status is what the attack of Bleichenbacher (1998) asks for, therefore the suite is legacy; callers have to keep it
/// to themselves.
fn open_pkcs1(key: &RsaKey, buffers: &mut OpBuffers<'_>) -> Outcome {
    let block = decrypted(key, buffers)?;
    put_output(buffers, unpad_pkcs1(&block).ok_or(OpStatus::AuthFailed)?)
}

/// RSADP (RFC 8017, 5.1.2) of the input, as long as the modulus.
fn decrypted(key: &RsaKey, buffers: &OpBuffers<'_>) -> Result<Zeroizing<Vec<u8>>, OpStatus> {
    let private = key.pair.private()?;
    let ciphertext = BoxedUint::from_be_slice(input(buffers)?, private.n_bits_precision());
    let ciphertext = ciphertext.map_err(|_| OpStatus::AuthFailed)?;
    let number = Zeroizing::new(rsa_decrypt_and_check(private, Some(&mut SysRng), &ciphertext).map_err(failed)?);
    Ok(Zeroizing::new(number.to_be_bytes().into_vec()))
}

/// RSAEP (RFC 8017, 5.1.1) of the input.
fn raise_public(key: &RsaKey, buffers: &mut OpBuffers<'_>) -> Outcome {
    let public = &key.pair.public;
    let number = BoxedUint::from_be_slice(input(buffers)?, public.n_bits_precision());
    let number = Zeroizing::new(number.map_err(|_| OpStatus::EngineFault)?);
    if *number >= **public.n() {
        return Err(OpStatus::BadInput(Reason::NotBelowModulus));
    }
    let raised = rsa_encrypt(public, &number).map_err(|_| OpStatus::EngineFault)?;
    put_output(buffers, &raised.to_be_bytes())
}

/// The message of an encryption block `00 02 padding 00 message`.
fn unpad_pkcs1(block: &[u8]) -> Option<&[u8]> {
    let (header, rest) = block.split_first_chunk::<2>()?;
    let mut separator = 0u32;
    let mut is_looking = Choice::from(1);
    for (index, byte) in (2u32..).zip(rest) {
        let is_zero = byte.ct_eq(&0);
        separator.conditional_assign(&index, is_looking & is_zero);
        is_looking &= !is_zero;
    }
    let is_valid = header.ct_eq(&[0, 2]) & !is_looking & !separator.ct_lt(&SEPARATOR_MIN);
    if bool::from(is_valid) { block.get(separator as usize + 1..) } else { None }
}

/// Bad ciphertexts fail alike; what is left are faults that no ciphertext causes.
fn failed(error: Error) -> OpStatus {
    match error {
        Error::Rng | Error::Internal => OpStatus::EngineFault,
        _ => OpStatus::AuthFailed,
    }
}

fn key_of<'b>(size: RsaSize, buffers: &OpBuffers<'b>) -> Result<&'b RsaKey, OpStatus> {
    state::<RsaKey>(buffers).and_then(|key| if key.size == size { Ok(key) } else { Err(OpStatus::EngineFault) })
}

fn input<'a>(buffers: &'a OpBuffers<'_>) -> Result<&'a [u8], OpStatus> {
    buffers.data.get(..buffers.input_len).ok_or(OpStatus::EngineFault)
}

#[cfg(test)]
mod tests {
    use super::unpad_pkcs1;

    fn block(separator: usize, len: usize) -> Vec<u8> {
        let mut block = vec![0x55; len];
        block[0] = 0;
        block[1] = 2;
        block[separator] = 0;
        block
    }

    #[test]
    fn blocks_with_eight_bytes_of_padding_or_more_hold_a_message() {
        assert_eq!(unpad_pkcs1(&block(10, 16)), Some([0x55; 5].as_slice()));
        assert_eq!(unpad_pkcs1(&block(15, 16)), Some([].as_slice()));
        assert_eq!(unpad_pkcs1(&block(9, 16)), None);
        assert_eq!(unpad_pkcs1(&block(2, 16)), None);
    }

    #[test]
    fn later_zeros_belong_to_the_message() {
        let mut block = block(11, 20);
        block[15] = 0;
        assert_eq!(unpad_pkcs1(&block), Some([0x55, 0x55, 0x55, 0, 0x55, 0x55, 0x55, 0x55].as_slice()));
    }

    #[test]
    fn other_headers_and_missing_separators_fail() {
        let mut wrong = block(10, 16);
        wrong[1] = 1;
        assert_eq!(unpad_pkcs1(&wrong), None);
        wrong = block(10, 16);
        wrong[0] = 1;
        assert_eq!(unpad_pkcs1(&wrong), None);
        wrong = block(10, 16);
        wrong[10] = 1;
        assert_eq!(unpad_pkcs1(&wrong), None);
        assert_eq!(unpad_pkcs1(&[]), None);
    }
}
