//! RSA's paddings (RFC 8017): EMSA-PKCS1-v1_5 and EMSA-PSS, and what undoes EME-PKCS1-v1_5 and EME-OAEP. The crate that
//! other engines have them from does not offer them without its own exponentiation.

use ciphermill_contract::OpStatus;
use ciphermill_contract::suite::{Digest, SignPadding};
use sha1::Sha1;
use sha2::{Sha256, Sha384, Sha512};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq, ConstantTimeLess};
use zeroize::Zeroizing;

/// Bytes before the separating zero of an encryption block: two of the header, eight of padding (RFC 8017, 7.2.2).
const SEPARATOR_MIN: u32 = 10;

/// Everything before the hash in a `DigestInfo` (RFC 8017, 9.2, note 1).
const SHA1_INFO: [u8; 15] = [0x30, 0x21, 0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0x00, 0x04, 0x14];

/// The same for a hash of SHA-2, whose object identifiers end with `last`.
const fn sha2_info(last: u8, hash_len: u8) -> [u8; 19] {
    let mut info =
        [0x30, 0, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0, 0x05, 0, 0x04, 0];
    info[1] = 17 + hash_len;
    info[14] = last;
    info[18] = hash_len;
    info
}

/// The block of `len` bytes that is signed for a message.
///
/// # Errors
/// `EngineFault` when the system has no random bytes, or for digests that RSA does not pad with here.
pub(super) fn for_signature(
    padding: SignPadding,
    digest: Digest,
    message: &[u8],
    len: usize,
) -> Result<Vec<u8>, OpStatus> {
    let block = match (padding, digest) {
        (SignPadding::Pkcs1, Digest::Sha1) => emsa_pkcs1::<Sha1>(&SHA1_INFO, message, len),
        (SignPadding::Pkcs1, Digest::Sha256) => emsa_pkcs1::<Sha256>(&sha2_info(1, 32), message, len),
        (SignPadding::Pkcs1, Digest::Sha384) => emsa_pkcs1::<Sha384>(&sha2_info(2, 48), message, len),
        (SignPadding::Pkcs1, Digest::Sha512) => emsa_pkcs1::<Sha512>(&sha2_info(3, 64), message, len),
        (SignPadding::Pss, Digest::Sha1) => emsa_pss::<Sha1>(message, len),
        (SignPadding::Pss, Digest::Sha256) => emsa_pss::<Sha256>(message, len),
        (SignPadding::Pss, Digest::Sha384) => emsa_pss::<Sha384>(message, len),
        (SignPadding::Pss, Digest::Sha512) => emsa_pss::<Sha512>(message, len),
        _ => None,
    };
    block.ok_or(OpStatus::EngineFault)
}

/// EMSA-PKCS1-v1_5 (RFC 8017, 9.2): `00 01 ff … ff 00 info hash`, with eight bytes of `ff` at least.
fn emsa_pkcs1<D: sha2::Digest>(info: &[u8], message: &[u8], len: usize) -> Option<Vec<u8>> {
    let hash = D::digest(message);
    let separator = len.checked_sub(1 + info.len() + hash.len()).filter(|separator| *separator >= 10)?;
    let mut block = vec![0xff; len];
    block[..2].copy_from_slice(&[0, 1]);
    block[separator] = 0;
    block[separator + 1..][..info.len()].copy_from_slice(info);
    block[separator + 1 + info.len()..].copy_from_slice(&hash);
    Some(block)
}

/// EMSA-PSS (RFC 8017, 9.1.1) with a salt of the hash's length, for moduli whose bits are whole bytes.
fn emsa_pss<D: sha2::Digest>(message: &[u8], len: usize) -> Option<Vec<u8>> {
    let hash_len = <D as sha2::Digest>::output_size();
    let salt_at = len.checked_sub(2 * hash_len + 1).filter(|salt_at| *salt_at >= 1)?;
    let mut block = vec![0; len];
    getrandom::fill(&mut block[salt_at..salt_at + hash_len]).ok()?;
    let salt = &block[salt_at..salt_at + hash_len];
    let hash = D::new().chain_update([0; 8]).chain_update(D::digest(message)).chain_update(salt).finalize();
    block[salt_at - 1] = 1;
    let (masked, rest) = block.split_at_mut(salt_at + hash_len);
    mask::<D>(masked, &hash);
    // One bit less than the modulus.
    masked[0] &= 0x7f;
    rest[..hash_len].copy_from_slice(&hash);
    rest[hash_len] = 0xbc;
    Some(block)
}

/// Adds MGF1 of a seed (RFC 8017, B.2.1).
fn mask<D: sha2::Digest>(data: &mut [u8], seed: &[u8]) {
    for (counter, part) in (0u32..).zip(data.chunks_mut(<D as sha2::Digest>::output_size())) {
        let bytes = D::new().chain_update(seed).chain_update(counter.to_be_bytes()).finalize();
        part.iter_mut().zip(bytes).for_each(|(byte, own)| *byte ^= own);
    }
}

/// The message of an encryption block `00 02 padding 00 message` (RFC 8017, 7.2.2), in time that depends on the message's
/// length and on success alone.
///
/// That success shows is what the attack of Bleichenbacher (1998) asks for: the suite is legacy, and callers have to keep the
/// status to themselves.
pub(super) fn open_pkcs1(block: &[u8]) -> Option<Vec<u8>> {
    let (header, rest) = block.split_first_chunk::<2>()?;
    let mut separator = 0u32;
    let mut is_looking = Choice::from(1);
    for (index, byte) in (2u32..).zip(rest) {
        let is_zero = byte.ct_eq(&0);
        separator.conditional_assign(&index, is_looking & is_zero);
        is_looking &= !is_zero;
    }
    let is_valid = header.ct_eq(&[0, 2]) & !is_looking & !separator.ct_lt(&SEPARATOR_MIN);
    if bool::from(is_valid) { block.get(separator as usize + 1..).map(<[u8]>::to_vec) } else { None }
}

/// The message of an OAEP block with an empty label, in time that depends on the message's length and on success alone.
pub(super) fn open_oaep(digest: Digest, block: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    match digest {
        Digest::Sha1 => eme_oaep::<Sha1>(block),
        Digest::Sha256 => eme_oaep::<Sha256>(block),
        _ => None,
    }
}

/// EME-OAEP (RFC 8017, 7.1.2, 3): `00 seed label-hash 00 … 00 01 message`, seed and all behind it masked.
fn eme_oaep<D: sha2::Digest>(block: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let hash_len = <D as sha2::Digest>::output_size();
    if block.len() < 2 * hash_len + 2 {
        return None;
    }
    let mut block = Zeroizing::new(block.to_vec());
    let (head, data) = block.split_at_mut(1 + hash_len);
    mask::<D>(&mut head[1..], data);
    mask::<D>(data, &head[1..]);
    let (label, rest) = data.split_at(hash_len);
    let mut is_valid = head[0].ct_eq(&0) & label.ct_eq(&D::digest([]));
    let mut separator = 0u32;
    let mut is_looking = Choice::from(1);
    for (index, byte) in (0u32..).zip(rest) {
        let is_one = byte.ct_eq(&1);
        separator.conditional_assign(&index, is_looking & is_one);
        is_looking &= !is_one;
        is_valid &= !is_looking | byte.ct_eq(&0);
    }
    is_valid &= !is_looking;
    if bool::from(is_valid) {
        rest.get(separator as usize + 1..).map(|message| Zeroizing::new(message.to_vec()))
    } else {
        None
    }
}
