//! What makes keys but for derivation: generation, wrapping, encapsulation. Objects are made of them elsewhere.

use ciphermill::Mill;
use ciphermill_contract::suite::{Agreement, DhGroup, KeyPair};
use ciphermill_contract::{Direction, KeyForm, Suite};
use cryptoki_sys::{
    CKR_ATTRIBUTE_VALUE_INVALID, CKR_BUFFER_TOO_SMALL, CKR_DATA_INVALID, CKR_ENCRYPTED_DATA_INVALID,
    CKR_ENCRYPTED_DATA_LEN_RANGE, CKR_GENERAL_ERROR, CKR_KEY_SIZE_RANGE, CKR_KEY_TYPE_INCONSISTENT,
    CKR_WRAPPED_KEY_INVALID, CKR_WRAPPED_KEY_LEN_RANGE,
};
use zeroize::Zeroizing;

use crate::key::{Key, KeyShape, KeyValue};
use crate::mechanisms::Mechanism;
use crate::operations::derive::SECRET_LEN_MAX;
use crate::operations::{Buffers, Cipher, Step, derive, random, run};
use crate::rv::{Asked, Result, Rv, fail};
use crate::session::Steps;

/// Random bytes for a secret key.
///
/// # Errors
/// `CKR_KEY_SIZE_RANGE` for none and for more than [`SECRET_LEN_MAX`]; those of the mill.
pub(crate) fn generate_secret(mill: &Mill, len: usize) -> Result<Zeroizing<Vec<u8>>> {
    if !(1..=SECRET_LEN_MAX).contains(&len) {
        return fail(CKR_KEY_SIZE_RANGE);
    }
    let mut key = Zeroizing::new(vec![0; len]);
    random(mill, &mut key)?;
    Ok(key)
}

/// Bits of the private values of DH that nobody says the length of: twice the security of any group and more (SP 800-56A, 5.6.1.1.1).
const VALUE_BITS: usize = 512;
/// The fewest that an application may ask for, twice the security of 2,048 bits (RFC 7919, 5.2).
const VALUE_BITS_MIN: usize = 225;

/// Bits of the private value of a pair of DH: as many as are wanted, or as many as the module takes.
///
/// # Errors
/// `CKR_ATTRIBUTE_VALUE_INVALID` for fewer than are safe, and for as many as the prime has.
pub(crate) fn value_bits(group: DhGroup, wanted: Option<usize>) -> Result<usize> {
    match wanted.unwrap_or(VALUE_BITS) {
        bits if (VALUE_BITS_MIN..8 * group.len() - 1).contains(&bits) => Ok(bits),
        _ => fail(CKR_ATTRIBUTE_VALUE_INVALID),
    }
}

/// The private value and the public one of a pair of DH: a number of so many bits, and what the generator becomes with it. 2 generates the
/// subgroup of prime order in each of these groups, so that it is a public value that agreements take.
fn generate_dh(mill: &Mill, group: DhGroup, bits: usize) -> Result<[Zeroizing<Vec<u8>>; 2]> {
    let mut private = generate_secret(mill, bits.div_ceil(8))?;
    let top = private.first_mut().ok_or(Rv(CKR_GENERAL_ERROR))?;
    // Its highest bit is one, so that it has as many bits as it says.
    let highest = 1 << ((bits - 1) % 8);
    *top = *top & (highest - 1) | highest;
    let mut generator = vec![0; group.len()];
    *generator.last_mut().ok_or(Rv(CKR_GENERAL_ERROR))? = 2;
    let key = Key { shape: KeyShape::Dh(group), value: KeyValue::new(mill, KeyForm::Private, &private)? };
    let public = derive::agree(Agreement::Dh(group), &key, &generator)?;
    Ok([private, public])
}

/// A key pair, whose private and public half `keep` is given. The private value of DH has so many bits.
///
/// # Errors
/// `CKR_KEY_TYPE_INCONSISTENT` for what is no pair; those of `keep` and of the mill.
pub(crate) fn generate_pair<T>(
    mill: &Mill,
    shape: KeyShape,
    value_bits: usize,
    keep: impl FnOnce(&[u8], &[u8]) -> Result<T>,
) -> Result<T> {
    let pair = match shape {
        KeyShape::Rsa(size) => KeyPair::Rsa(size),
        KeyShape::Ec(curve) => KeyPair::Ec(curve),
        KeyShape::X25519 => KeyPair::X25519,
        KeyShape::X448 => KeyPair::X448,
        KeyShape::Ed25519 => KeyPair::Ed25519,
        KeyShape::MlKem(kem) => KeyPair::MlKem(kem),
        KeyShape::MlDsa(set) => KeyPair::MlDsa(set),
        KeyShape::Dh(group) => {
            let [private, public] = generate_dh(mill, group, value_bits)?;
            return keep(&private, &public);
        }
        _ => return fail(CKR_KEY_TYPE_INCONSISTENT),
    };
    let pair = mill.generate_pair(pair)?;
    keep(pair.private().bytes, pair.public())
}

/// Encrypts the bytes of a key. `aad` is for AEADs, and joins that of the mechanism.
///
/// # Errors
/// `CKR_MECHANISM_INVALID` for additional data with mechanisms that take none; those of [`Cipher`].
pub(crate) fn wrap(mechanism: &Mechanism, wrapping: &Key, plain: &[u8]) -> Result<Vec<u8>> {
    let mut cipher = Cipher::init(mechanism, Direction::Encrypt, wrapping.clone())?;
    let mut wrapped = vec![0; Steps::len(&cipher, Step::OneShot, plain.len())];
    let len = cipher.step(Step::OneShot, plain, &mut wrapped).map_err(|rv| match rv {
        // What the mechanism does not take of a key.
        Rv(cryptoki_sys::CKR_DATA_LEN_RANGE) => Rv(CKR_KEY_SIZE_RANGE),
        rv => rv,
    })?;
    wrapped.truncate(len);
    Ok(wrapped)
}

/// Decrypts the bytes of a key.
///
/// # Errors
/// `CKR_WRAPPED_KEY_INVALID`, `CKR_WRAPPED_KEY_LEN_RANGE`; those of [`Cipher`].
pub(crate) fn unwrap(mechanism: &Mechanism, unwrapping: &Key, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let mut cipher = Cipher::init(mechanism, Direction::Decrypt, unwrapping.clone())?;
    let mut plain = Zeroizing::new(vec![0; Steps::len(&cipher, Step::OneShot, wrapped.len())]);
    let len = cipher.step(Step::OneShot, wrapped, &mut plain).map_err(|rv| match rv {
        Rv(CKR_ENCRYPTED_DATA_LEN_RANGE) => Rv(CKR_WRAPPED_KEY_LEN_RANGE),
        Rv(CKR_ENCRYPTED_DATA_INVALID | CKR_DATA_INVALID) => Rv(CKR_WRAPPED_KEY_INVALID),
        rv => rv,
    })?;
    plain.truncate(len);
    Ok(plain)
}

/// Bytes of what [`encapsulate`] makes.
///
/// # Errors
/// `CKR_KEY_TYPE_INCONSISTENT`.
pub(crate) fn encapsulated_len(key: &Key) -> Result<usize> {
    match key.shape {
        KeyShape::MlKem(kem) => Ok(kem.ciphertext_len()),
        _ => fail(CKR_KEY_TYPE_INCONSISTENT),
    }
}

/// A shared secret, and what the owner of the private key makes it of (FIPS 203, 7.2).
///
/// # Errors
/// `CKR_KEY_TYPE_INCONSISTENT`; `CKR_BUFFER_TOO_SMALL`; those of the mill.
pub(crate) fn encapsulate(key: &Key, to: &mut [u8]) -> Result<Zeroizing<Vec<u8>>> {
    let KeyShape::MlKem(kem) = key.shape else { return fail(CKR_KEY_TYPE_INCONSISTENT) };
    let Some(tag) = to.get_mut(..kem.ciphertext_len()) else { return fail(CKR_BUFFER_TOO_SMALL) };
    let mut secret = Zeroizing::new(vec![0; 32]);
    let buffers = Buffers { data: &mut secret, tag, ..Buffers::default() };
    run(key.value.mill(), (Suite::Kem(kem), Direction::Encrypt), key.value.id()?, Asked::Other, buffers)?;
    Ok(secret)
}

/// The shared secret of what was encapsulated (FIPS 203, 7.3).
///
/// # Errors
/// `CKR_KEY_TYPE_INCONSISTENT`; `CKR_WRAPPED_KEY_LEN_RANGE`; those of the mill.
pub(crate) fn decapsulate(key: &Key, encapsulated: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let KeyShape::MlKem(kem) = key.shape else { return fail(CKR_KEY_TYPE_INCONSISTENT) };
    if encapsulated.len() != kem.ciphertext_len() {
        return fail(CKR_WRAPPED_KEY_LEN_RANGE);
    }
    let (mut secret, mut tag) = (Zeroizing::new(vec![0; 32]), encapsulated.to_vec());
    let buffers = Buffers { data: &mut secret, tag: &mut tag, ..Buffers::default() };
    run(key.value.mill(), (Suite::Kem(kem), Direction::Decrypt), key.value.id()?, Asked::Open, buffers)?;
    Ok(secret)
}
