//! The encodings of RSA signatures (RFC 8017, 9), around the primitive that the mill runs: so any digest goes with any salt.

use ciphermill::Mill;
use ciphermill_contract::suite::{Digest, PublicEncryption, RsaSize};
use ciphermill_contract::{Direction, Suite};
use ciphermill_pairs::padding;
use cryptoki_sys::{
    CKR_DATA_LEN_RANGE, CKR_ENCRYPTED_DATA_INVALID, CKR_KEY_SIZE_RANGE, CKR_MECHANISM_PARAM_INVALID,
    CKR_SIGNATURE_INVALID,
};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use zeroize::Zeroizing;

use crate::key::KeyValue;
use crate::mechanisms::{Oaep, Pss};
use crate::operations::digest::Hasher;
use crate::operations::{Buffers, random, run};
use crate::rv::{Asked, Result, Rv, fail};

/// `DigestInfo` (RFC 8017, 9.2).
///
/// # Errors
/// `CKR_MECHANISM_PARAM_INVALID` for digests without an identifier.
pub(super) fn digest_info(digest: Digest, hash: &[u8]) -> Result<Vec<u8>> {
    let before = padding::digest_info(digest).ok_or(Rv(CKR_MECHANISM_PARAM_INVALID))?;
    Ok([before, hash].concat())
}

/// EMSA-PKCS1-v1_5 around what is signed (RFC 8017, 9.2, steps 3 to 5).
///
/// # Errors
/// `CKR_DATA_LEN_RANGE` for what leaves no room for eight bytes of padding.
pub(super) fn pkcs1(size: RsaSize, info: &[u8]) -> Result<Vec<u8>> {
    let Some(filling) = size.len().checked_sub(info.len() + 3).filter(|filling| *filling >= 8) else {
        return fail(CKR_DATA_LEN_RANGE);
    };
    let mut block = vec![0, 1];
    block.resize(2 + filling, 0xff);
    block.push(0);
    block.extend_from_slice(info);
    Ok(block)
}

/// MGF1 (RFC 8017, B.2.1), combined with `data`.
fn mask(mill: &Mill, digest: Digest, seed: &[u8], data: &mut [u8]) -> Result<()> {
    for (counter, stretch) in data.chunks_mut(digest.len()).enumerate() {
        let mut hasher = Hasher::of(mill, digest)?;
        hasher.update(seed)?;
        hasher.update(&(counter as u32).to_be_bytes())?;
        stretch.iter_mut().zip(hasher.finish()?).for_each(|(byte, mask)| *byte ^= mask);
    }
    Ok(())
}

/// The digest of eight zeros, a hash and a salt (RFC 8017, 9.1.1, steps 5 and 6).
fn salted(mill: &Mill, digest: Digest, hash: &[u8], salt: &[u8]) -> Result<Vec<u8>> {
    let mut hasher = Hasher::of(mill, digest)?;
    hasher.update(&[0; 8])?;
    hasher.update(hash)?;
    hasher.update(salt)?;
    hasher.finish()
}

/// Whether a salt leaves room for the rest (RFC 8017, 9.1.1, step 3). Sizes are multiples of eight bits, so that the block has one bit less.
fn room(size: RsaSize, pss: Pss) -> Result<usize> {
    let wanted = pss.digest.len() + pss.salt_len + 2;
    if wanted > size.len() { fail(CKR_KEY_SIZE_RANGE) } else { Ok(size.len() - pss.digest.len() - 1) }
}

/// EMSA-PSS of a hash (RFC 8017, 9.1.1), with a fresh salt.
///
/// # Errors
/// `CKR_KEY_SIZE_RANGE` where the salt has no room; `CKR_DATA_LEN_RANGE` for a hash of another length; those of the mill.
pub(super) fn pss(mill: &Mill, size: RsaSize, pss: Pss, hash: &[u8]) -> Result<Vec<u8>> {
    let masked_len = room(size, pss)?;
    if hash.len() != pss.digest.len() {
        return fail(CKR_DATA_LEN_RANGE);
    }
    let mut salt = vec![0; pss.salt_len];
    random(mill, &mut salt)?;
    let seed = salted(mill, pss.digest, hash, &salt)?;
    let mut block = vec![0; masked_len - pss.salt_len - 1];
    block.push(1);
    block.extend_from_slice(&salt);
    mask(mill, pss.mgf, &seed, &mut block)?;
    block[0] &= 0x7f;
    block.extend_from_slice(&seed);
    block.push(0xbc);
    Ok(block)
}

/// EMSA-PSS verification (RFC 8017, 9.1.2) of an encoded block.
///
/// # Errors
/// `CKR_SIGNATURE_INVALID`; `CKR_KEY_SIZE_RANGE`, `CKR_DATA_LEN_RANGE` and others as in [`pss`].
pub(super) fn verify_pss(mill: &Mill, size: RsaSize, pss: Pss, hash: &[u8], block: &[u8]) -> Result<()> {
    let masked_len = room(size, pss)?;
    if hash.len() != pss.digest.len() {
        return fail(CKR_DATA_LEN_RANGE);
    }
    if block.len() != size.len() || block[0] & 0x80 != 0 || block.last() != Some(&0xbc) {
        return fail(CKR_SIGNATURE_INVALID);
    }
    let (masked, seed) = block[..block.len() - 1].split_at(masked_len);
    let mut data = masked.to_vec();
    mask(mill, pss.mgf, seed, &mut data)?;
    data[0] &= 0x7f;
    let (filling, salt) = data.split_at(masked_len - pss.salt_len);
    let expected = salted(mill, pss.digest, hash, salt)?;
    let filled = filling.split_last().is_some_and(|(one, zeros)| *one == 1 && zeros.iter().all(|zero| *zero == 0));
    if filled && bool::from(expected.ct_eq(seed)) { Ok(()) } else { fail(CKR_SIGNATURE_INVALID) }
}

/// The private primitive over an encoded block (RFC 8017, 5.2.1), with those of other threads.
///
/// # Errors
/// Those of the mill.
pub(super) fn sign(key: &KeyValue, size: RsaSize, block: &mut [u8]) -> Result<()> {
    let what = (Suite::PublicEncrypt(PublicEncryption::RsaRaw(size)), Direction::Decrypt);
    let buffers = Buffers { input_len: block.len(), data: block, ..Buffers::default() };
    run(key.mill(), what, key.id()?, Asked::Other, buffers).map(drop)
}

/// The public primitive over a signature (RFC 8017, 5.2.2).
///
/// # Errors
/// `CKR_SIGNATURE_INVALID` for a number that is not below the modulus; those of the mill.
pub(super) fn open(key: &KeyValue, size: RsaSize, signature: &[u8]) -> Result<Vec<u8>> {
    let what = (Suite::PublicEncrypt(PublicEncryption::RsaRaw(size)), Direction::Encrypt);
    let mut block = signature.to_vec();
    let buffers = Buffers { input_len: block.len(), data: &mut block, ..Buffers::default() };
    match run(key.mill(), what, key.id()?, Asked::Verify, buffers) {
        Ok(_) => Ok(block),
        Err(Rv(cryptoki_sys::CKR_DATA_INVALID)) => fail(CKR_SIGNATURE_INVALID),
        Err(rv) => Err(rv),
    }
}

/// The digest of a label.
fn label_hash(mill: &Mill, oaep: &Oaep) -> Result<Vec<u8>> {
    let mut hasher = Hasher::of(mill, oaep.digest)?;
    hasher.update(&oaep.label)?;
    hasher.finish()
}

/// RSAES-OAEP (RFC 8017, 7.1.1).
///
/// # Errors
/// `CKR_DATA_LEN_RANGE` for a message that has no room; those of the mill.
pub(super) fn encrypt_oaep(key: &KeyValue, size: RsaSize, oaep: &Oaep, message: &[u8]) -> Result<Vec<u8>> {
    let hash = label_hash(key.mill(), oaep)?;
    let Some(zeros) = size.len().checked_sub(message.len() + 2 * hash.len() + 2) else {
        return fail(CKR_DATA_LEN_RANGE);
    };
    let mut seed = Zeroizing::new(vec![0; hash.len()]);
    random(key.mill(), &mut seed)?;
    let mut data = Zeroizing::new(hash);
    let filled = data.len() + zeros;
    data.resize(filled, 0);
    data.push(1);
    data.extend_from_slice(message);
    mask(key.mill(), oaep.mgf, &seed, &mut data)?;
    mask(key.mill(), oaep.mgf, &data, &mut seed)?;
    let mut block = Zeroizing::new(vec![0]);
    block.extend_from_slice(&seed);
    block.extend_from_slice(&data);
    open(key, size, &block)
}

/// The same backwards (RFC 8017, 7.1.2). What is wrong with a ciphertext is looked at as a whole, so that time does not tell.
///
/// # Errors
/// `CKR_ENCRYPTED_DATA_INVALID`; those of the mill.
pub(super) fn decrypt_oaep(key: &KeyValue, size: RsaSize, oaep: &Oaep, encrypted: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let hash = label_hash(key.mill(), oaep)?;
    if size.len() < 2 * hash.len() + 2 {
        return fail(CKR_KEY_SIZE_RANGE);
    }
    let mut block = Zeroizing::new(encrypted.to_vec());
    sign(key, size, &mut block).map_err(|rv| match rv {
        // A number that is not below the modulus.
        Rv(CKR_SIGNATURE_INVALID | cryptoki_sys::CKR_DATA_INVALID) => Rv(CKR_ENCRYPTED_DATA_INVALID),
        rv => rv,
    })?;
    let (first, rest) = block.split_at_mut(1);
    let (seed, data) = rest.split_at_mut(hash.len());
    mask(key.mill(), oaep.mgf, data, seed)?;
    mask(key.mill(), oaep.mgf, seed, data)?;
    let (found, message) = data.split_at(hash.len());
    let mut good = first[0].ct_eq(&0) & found.ct_eq(&hash);
    // The place behind the first one that is not zero, which is to be 1.
    let (mut at, mut before) = (0_u32, Choice::from(1));
    for (place, byte) in (1_u32..).zip(message) {
        let ends = before & !byte.ct_eq(&0);
        good &= !ends | byte.ct_eq(&1);
        at = u32::conditional_select(&at, &place, ends);
        before &= !ends;
    }
    if bool::from(good & !before) {
        Ok(Zeroizing::new(message[at as usize..].to_vec()))
    } else {
        fail(CKR_ENCRYPTED_DATA_INVALID)
    }
}
