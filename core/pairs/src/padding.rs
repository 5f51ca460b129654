//! RSA's paddings (RFC 8017): EMSA-PKCS1-v1_5 and EMSA-PSS, EME-PKCS1-v1_5 and EME-OAEP, made and undone for several operations
//! at a time, so that an engine may hash their messages side by side. The crate that other engines have them from does not
//! offer them without its own exponentiation.

use ciphermill_contract::suite::{Digest, PublicEncryption, SignPadding};
use ciphermill_contract::{OpStatus, Reason};
use sha1::Sha1;
use sha2::{Sha256, Sha384, Sha512};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq, ConstantTimeLess};
use zeroize::Zeroizing;

/// A block as long as the modulus, big-endian; wiped when dropped.
pub type Block = Zeroizing<Vec<u8>>;

/// A digest: its own length of first bytes.
pub type Hash = [u8; 64];

/// Something that hashes several messages.
pub trait Hasher {
    /// The digests of messages, in their order.
    fn hash(&self, digest: Digest, messages: &[&[u8]]) -> Vec<Hash>;
}

/// One message after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneByOne;

impl Hasher for OneByOne {
    fn hash(&self, digest: Digest, messages: &[&[u8]]) -> Vec<Hash> {
        fn of<D: sha2::Digest>(message: &[u8]) -> Hash {
            let mut hash = [0; 64];
            hash[..<D as sha2::Digest>::output_size()].copy_from_slice(&D::digest(message));
            hash
        }
        let of = match digest {
            Digest::Sha1 => of::<Sha1>,
            Digest::Sha256 => of::<Sha256>,
            Digest::Sha384 => of::<Sha384>,
            _ => of::<Sha512>,
        };
        messages.iter().map(|message| of(message)).collect()
    }
}

/// Bytes before the separating zero of an encryption block: two of the header, eight of padding (RFC 8017, 7.2.2).
const SEPARATOR_MIN: u32 = 10;

/// The most bytes that are hashed for a byte of a mask: a seed and a counter.
const COUNTER_LEN: usize = 4;

/// What stands before the hash of NIST's digests in a `DigestInfo`: their object identifiers, 2.16.840.1.101.3.4.2 and a number, and their
/// lengths in bytes differ in a byte each.
const fn nist(number: u8, hash_len: u8) -> [u8; 19] {
    let mut info =
        [0x30, 0, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0, 0x05, 0, 0x04, 0];
    info[1] = 17 + hash_len;
    info[14] = number;
    info[18] = hash_len;
    info
}

/// Everything before the hash in a `DigestInfo` (RFC 8017, 9.2, note 1; the identifiers of SHA-3 are in NIST's register): the algorithm with
/// its parameters, and the head of the octet string. `None` for digests that have no identifier.
#[must_use]
pub fn digest_info(digest: Digest) -> Option<&'static [u8]> {
    Some(match digest {
        Digest::Md5 => {
            &[0x30, 0x20, 0x30, 0x0c, 0x06, 0x08, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 5, 0x05, 0, 0x04, 16]
        }
        Digest::Sha1 => &[0x30, 0x21, 0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0, 0x04, 20],
        Digest::Sha256 => const { &nist(1, 32) },
        Digest::Sha384 => const { &nist(2, 48) },
        Digest::Sha512 => const { &nist(3, 64) },
        Digest::Sha224 => const { &nist(4, 28) },
        Digest::Sha512_224 => const { &nist(5, 28) },
        Digest::Sha512_256 => const { &nist(6, 32) },
        Digest::Sha3_224 => const { &nist(7, 28) },
        Digest::Sha3_256 => const { &nist(8, 32) },
        Digest::Sha3_384 => const { &nist(9, 48) },
        Digest::Sha3_512 => const { &nist(10, 64) },
        Digest::Blake3 | Digest::Shake128 | Digest::Shake256 => return None,
    })
}

/// The same for the digests that a [`Hasher`] has.
fn info(digest: Digest) -> Result<&'static [u8], OpStatus> {
    let has = matches!(digest, Digest::Sha1 | Digest::Sha256 | Digest::Sha384 | Digest::Sha512);
    digest_info(digest).filter(|_| has).ok_or(OpStatus::EngineFault)
}

/// Random bytes of the system's.
fn random(len: usize) -> Result<Block, OpStatus> {
    let mut bytes = Zeroizing::new(vec![0; len]);
    getrandom::fill(&mut bytes).map_err(|_| OpStatus::EngineFault)?;
    Ok(bytes)
}

/// The blocks of `len` bytes that are signed for messages.
///
/// # Errors
/// `EngineFault` when the system has no random bytes, for digests that RSA does not pad with, and for blocks that are too short.
pub fn for_signatures(
    hasher: &impl Hasher,
    (padding, digest): (SignPadding, Digest),
    messages: &[&[u8]],
    len: usize,
) -> Result<Vec<Block>, OpStatus> {
    let hashes = hasher.hash(digest, messages);
    match padding {
        SignPadding::Pkcs1 => hashes.iter().map(|hash| emsa_pkcs1(digest, hash, len)).collect(),
        SignPadding::Pss => {
            let salts = random(digest.len() * messages.len())?;
            let salts: Vec<&[u8]> = salts.chunks_exact(digest.len()).collect();
            emsa_pss(hasher, digest, &hashes, &salts, len)
        }
    }
}

/// Whether blocks, what signatures give with the public exponent, are those of messages.
///
/// # Errors
/// `EngineFault` for digests that RSA does not pad with, and for blocks that are too short.
pub fn are_signatures(
    hasher: &impl Hasher,
    (padding, digest): (SignPadding, Digest),
    messages: &[&[u8]],
    blocks: &[Block],
) -> Result<Vec<bool>, OpStatus> {
    let hashes = hasher.hash(digest, messages);
    match padding {
        SignPadding::Pkcs1 => {
            let is_it = |(hash, block): (&Hash, &Block)| Ok(*emsa_pkcs1(digest, hash, block.len())? == **block);
            hashes.iter().zip(blocks).map(is_it).collect()
        }
        SignPadding::Pss => emsa_pss_verify(hasher, digest, &hashes, blocks),
    }
}

/// EMSA-PKCS1-v1_5 (RFC 8017, 9.2): `00 01 ff … ff 00 info hash`, with eight bytes of `ff` at least.
fn emsa_pkcs1(digest: Digest, hash: &Hash, len: usize) -> Result<Block, OpStatus> {
    let (info, hash) = (info(digest)?, &hash[..digest.len()]);
    let separator = len.checked_sub(1 + info.len() + hash.len()).filter(|separator| *separator >= 10);
    let separator = separator.ok_or(OpStatus::EngineFault)?;
    let mut block = Zeroizing::new(vec![0xff; len]);
    block[..2].copy_from_slice(&[0, 1]);
    block[separator] = 0;
    block[separator + 1..][..info.len()].copy_from_slice(info);
    block[separator + 1 + info.len()..].copy_from_slice(hash);
    Ok(block)
}

/// Where the salt of an EMSA-PSS block lies.
fn salt_at(digest: Digest, len: usize) -> Result<usize, OpStatus> {
    len.checked_sub(2 * digest.len() + 1).filter(|at| *at >= 2).ok_or(OpStatus::EngineFault)
}

/// The hashes of EMSA-PSS (RFC 8017, 9.1.1, 5 and 6).
fn salted(hasher: &impl Hasher, digest: Digest, hashes: &[Hash], salts: &[&[u8]]) -> Vec<Hash> {
    let messages: Vec<Vec<u8>> =
        hashes.iter().zip(salts).map(|(hash, salt)| [&[0; 8], &hash[..digest.len()], salt].concat()).collect();
    hasher.hash(digest, &messages.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// EMSA-PSS (RFC 8017, 9.1.1) with salts of the hash's length, for moduli whose bits are whole bytes.
fn emsa_pss(
    hasher: &impl Hasher,
    digest: Digest,
    hashes: &[Hash],
    salts: &[&[u8]],
    len: usize,
) -> Result<Vec<Block>, OpStatus> {
    let (hash_len, salt_at) = (digest.len(), salt_at(digest, len)?);
    let hashes = salted(hasher, digest, hashes, salts);
    let mut blocks = vec![Zeroizing::new(vec![0; len]); hashes.len()];
    for ((block, hash), salt) in blocks.iter_mut().zip(&hashes).zip(salts) {
        block[salt_at - 1] = 1;
        block[salt_at..salt_at + hash_len].copy_from_slice(salt);
        block[salt_at + hash_len..][..hash_len].copy_from_slice(&hash[..hash_len]);
        block[len - 1] = 0xbc;
    }
    let seeds: Vec<&[u8]> = hashes.iter().map(|hash| &hash[..hash_len]).collect();
    mask(hasher, digest, &mut blocks, 0..salt_at + hash_len, &seeds);
    // One bit less than the modulus.
    blocks.iter_mut().for_each(|block| block[0] &= 0x7f);
    Ok(blocks)
}

/// EMSA-PSS-VERIFY (RFC 8017, 9.1.2) with salts of the hash's length. Signatures are public: comparisons may end early.
fn emsa_pss_verify(
    hasher: &impl Hasher,
    digest: Digest,
    hashes: &[Hash],
    blocks: &[Block],
) -> Result<Vec<bool>, OpStatus> {
    let Some(len) = blocks.first().map(|block| block.len()) else { return Ok(Vec::new()) };
    let (hash_len, salt_at) = (digest.len(), salt_at(digest, len)?);
    let mut opened = blocks.to_vec();
    let seeds: Vec<&[u8]> = blocks.iter().map(|block| &block[salt_at + hash_len..len - 1]).collect();
    mask(hasher, digest, &mut opened, 0..salt_at + hash_len, &seeds);
    let salts: Vec<&[u8]> = opened.iter().map(|block| &block[salt_at..salt_at + hash_len]).collect();
    let expected = salted(hasher, digest, hashes, &salts);
    let is_one = |index: usize| {
        let (block, opened) = (&blocks[index], &opened[index]);
        block[len - 1] == 0xbc
            && block[0] >> 7 == 0
            && opened[0] & 0x7f == 0
            && opened[1..salt_at - 1].iter().all(|byte| *byte == 0)
            && opened[salt_at - 1] == 1
            && expected[index][..hash_len] == *seeds[index]
    };
    Ok((0..blocks.len()).map(is_one).collect())
}

/// Adds MGF1 of a seed of each block (RFC 8017, B.2.1) to a stretch of it.
fn mask(hasher: &impl Hasher, digest: Digest, blocks: &mut [Block], place: core::ops::Range<usize>, seeds: &[&[u8]]) {
    let counters = 0..place.len().div_ceil(digest.len()) as u32;
    let one = |seed: &&[u8]| {
        let mut all = Zeroizing::new(Vec::with_capacity(counters.len() * (seed.len() + COUNTER_LEN)));
        counters.clone().for_each(|counter| all.extend_from_slice(&[seed, &counter.to_be_bytes()[..]].concat()));
        all
    };
    let inputs: Vec<Block> = seeds.iter().map(one).collect();
    let messages: Vec<&[u8]> =
        inputs.iter().zip(seeds).flat_map(|(input, seed)| input.chunks_exact(seed.len() + COUNTER_LEN)).collect();
    let masks = Zeroizing::new(hasher.hash(digest, &messages));
    for (block, masks) in blocks.iter_mut().zip(masks.chunks_exact(counters.len().max(1))) {
        for (part, mask) in block[place.clone()].chunks_mut(digest.len()).zip(masks) {
            part.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
        }
    }
}

/// The blocks of `len` bytes that messages are encrypted as.
///
/// # Errors
/// `EngineFault` when the system has no random bytes. A message that is too long has an error of its own.
pub fn for_encryption(
    hasher: &impl Hasher,
    encryption: PublicEncryption,
    messages: &[&[u8]],
    len: usize,
) -> Result<Vec<Result<Block, OpStatus>>, OpStatus> {
    match encryption {
        PublicEncryption::RsaRaw(_) => {
            Ok(messages.iter().map(|message| Ok(Zeroizing::new(message.to_vec()))).collect())
        }
        PublicEncryption::RsaPkcs1(_) => Ok(messages.iter().map(|message| eme_pkcs1(message, len)).collect()),
        PublicEncryption::RsaOaep(_, digest) => eme_oaep(hasher, digest, messages, len),
    }
}

const TOO_LONG: OpStatus = OpStatus::BadInput(Reason::InputTooLong);

/// EME-PKCS1-v1_5 (RFC 8017, 7.2.1): `00 02 padding 00 message`, eight bytes of padding at least, none of them zero.
fn eme_pkcs1(message: &[u8], len: usize) -> Result<Block, OpStatus> {
    let separator = len.checked_sub(message.len() + 1).filter(|at| *at >= SEPARATOR_MIN as usize).ok_or(TOO_LONG)?;
    let mut block = random(len)?;
    block[..2].copy_from_slice(&[0, 2]);
    for at in 2..separator {
        while block[at] == 0 {
            block[at] = random(1)?[0];
        }
    }
    block[separator] = 0;
    block[separator + 1..].copy_from_slice(message);
    Ok(block)
}

/// EME-OAEP (RFC 8017, 7.1.1) with an empty label: `00 seed label-hash 00 … 00 01 message`, seed and all behind it masked.
fn eme_oaep(
    hasher: &impl Hasher,
    digest: Digest,
    messages: &[&[u8]],
    len: usize,
) -> Result<Vec<Result<Block, OpStatus>>, OpStatus> {
    let hash_len = digest.len();
    let room = len.checked_sub(2 * hash_len + 2).ok_or(OpStatus::EngineFault)?;
    let seeds = random(hash_len * messages.len())?;
    let label = hasher.hash(digest, &[&[]]).first().copied().ok_or(OpStatus::EngineFault)?;
    let one = |(message, seed): (&&[u8], &[u8])| {
        let mut block = Zeroizing::new(vec![0; len]);
        // Too long a message gives a block of zeros, which goes no further.
        if message.len() <= room {
            block[1..1 + hash_len].copy_from_slice(seed);
            block[1 + hash_len..][..hash_len].copy_from_slice(&label[..hash_len]);
            block[len - message.len() - 1] = 1;
            block[len - message.len()..].copy_from_slice(message);
        }
        block
    };
    let mut blocks: Vec<Block> = messages.iter().zip(seeds.chunks_exact(hash_len)).map(one).collect();
    mask(hasher, digest, &mut blocks, 1 + hash_len..len, &seeds.chunks_exact(hash_len).collect::<Vec<_>>());
    mask_seeds(hasher, digest, &mut blocks);
    let outcome = |(block, message): (Block, &&[u8])| if message.len() <= room { Ok(block) } else { Err(TOO_LONG) };
    Ok(blocks.into_iter().zip(messages).map(outcome).collect())
}

/// Masks OAEP's seeds with what stands behind them, or undoes that.
fn mask_seeds(hasher: &impl Hasher, digest: Digest, blocks: &mut [Block]) {
    let data: Vec<Block> = blocks.iter().map(|block| Zeroizing::new(block[1 + digest.len()..].to_vec())).collect();
    let data: Vec<&[u8]> = data.iter().map(|data| data.as_slice()).collect();
    mask(hasher, digest, blocks, 1..1 + digest.len(), &data);
}

/// The messages of encryption blocks, in time that depends on their lengths and on success alone.
///
/// That success of PKCS#1's shows is what the attack of Bleichenbacher (1998) asks for: that suite is legacy, and callers have
/// to keep the status to themselves.
pub fn open(hasher: &impl Hasher, encryption: PublicEncryption, blocks: Vec<Block>) -> Vec<Option<Block>> {
    match encryption {
        PublicEncryption::RsaRaw(_) => blocks.into_iter().map(Some).collect(),
        PublicEncryption::RsaPkcs1(_) => blocks.iter().map(|block| open_pkcs1(block)).collect(),
        PublicEncryption::RsaOaep(_, digest) => open_oaep(hasher, digest, blocks),
    }
}

/// The message of an encryption block `00 02 padding 00 message` (RFC 8017, 7.2.2).
fn open_pkcs1(block: &[u8]) -> Option<Block> {
    let (header, rest) = block.split_first_chunk::<2>()?;
    let mut separator = 0u32;
    let mut is_looking = Choice::from(1);
    for (index, byte) in (2u32..).zip(rest) {
        let is_zero = byte.ct_eq(&0);
        separator.conditional_assign(&index, is_looking & is_zero);
        is_looking &= !is_zero;
    }
    let is_valid = header.ct_eq(&[0, 2]) & !is_looking & !separator.ct_lt(&SEPARATOR_MIN);
    if bool::from(is_valid) { block.get(separator as usize + 1..).map(kept) } else { None }
}

fn kept(message: &[u8]) -> Block {
    Zeroizing::new(message.to_vec())
}

/// EME-OAEP's way back (RFC 8017, 7.1.2, 3).
fn open_oaep(hasher: &impl Hasher, digest: Digest, mut blocks: Vec<Block>) -> Vec<Option<Block>> {
    let hash_len = digest.len();
    if blocks.first().is_none_or(|block| block.len() < 2 * hash_len + 2) {
        return vec![None; blocks.len()];
    }
    let len = blocks.first().map_or(0, |block| block.len());
    mask_seeds(hasher, digest, &mut blocks);
    let seeds: Vec<Block> = blocks.iter().map(|block| kept(&block[1..1 + hash_len])).collect();
    let seeds: Vec<&[u8]> = seeds.iter().map(|seed| seed.as_slice()).collect();
    mask(hasher, digest, &mut blocks, 1 + hash_len..len, &seeds);
    let label = hasher.hash(digest, &[&[]]);
    let one = |block: &Block| label.first().and_then(|label| message_of(&label[..hash_len], block));
    blocks.iter().map(one).collect()
}

/// The message of an unmasked block of OAEP.
fn message_of(label: &[u8], block: &[u8]) -> Option<Block> {
    let (head, data) = block.split_at(1 + label.len());
    let (found, rest) = data.split_at(label.len());
    let mut is_valid = head[0].ct_eq(&0) & found.ct_eq(label);
    let mut separator = 0u32;
    let mut is_looking = Choice::from(1);
    for (index, byte) in (0u32..).zip(rest) {
        let is_one = byte.ct_eq(&1);
        separator.conditional_assign(&index, is_looking & is_one);
        is_looking &= !is_one;
        is_valid &= !is_looking | byte.ct_eq(&0);
    }
    is_valid &= !is_looking;
    if bool::from(is_valid) { rest.get(separator as usize + 1..).map(kept) } else { None }
}

#[cfg(test)]
mod tests {
    use ciphermill_contract::suite::RsaSize;

    use super::*;

    const MESSAGES: [&[u8]; 3] = [b"", b"one", &[7; 300]];
    #[test]
    fn what_stands_before_a_hash_is_der_of_its_length() {
        use crate::der::{Elements, NULL, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, only};
        let mut names = Vec::new();
        for digest in Digest::ALL {
            let Some(info) = digest_info(digest) else { continue };
            let whole = [info, &vec![7; digest.len()]].concat();
            let mut parts = Elements::of(only(&whole, SEQUENCE).expect("one sequence"));
            let mut algorithm = Elements::of(parts.tagged(SEQUENCE).expect("an algorithm"));
            names.push(algorithm.tagged(OBJECT_IDENTIFIER).expect("a name").to_vec());
            assert_eq!((algorithm.tagged(NULL), algorithm.rest()), (Some(&[][..]), &[][..]), "{digest:?}");
            assert_eq!(parts.tagged(OCTET_STRING).map(<[u8]>::len), Some(digest.len()), "{digest:?}");
            assert!(parts.rest().is_empty(), "{digest:?}");
        }
        let len = names.len();
        names.sort();
        names.dedup();
        assert_eq!((len, names.len()), (12, 12));
    }

    const DIGESTS: [Digest; 4] = [Digest::Sha1, Digest::Sha256, Digest::Sha384, Digest::Sha512];

    #[test]
    fn blocks_are_those_of_their_messages_and_of_no_others() {
        for padding in [SignPadding::Pkcs1, SignPadding::Pss] {
            for digest in DIGESTS {
                let scheme = (padding, digest);
                let blocks = for_signatures(&OneByOne, scheme, &MESSAGES, 256).expect("long enough");
                assert!(are_signatures(&OneByOne, scheme, &MESSAGES, &blocks).expect("as long") == [true; 3]);
                let mut turned = MESSAGES;
                turned.reverse();
                let verdicts = are_signatures(&OneByOne, scheme, &turned, &blocks).expect("as long");
                assert_eq!(verdicts, [false, true, false]);
                for at in [0, 1, 100, 190, 223, 254, 255] {
                    let mut damaged = blocks.clone();
                    damaged.iter_mut().for_each(|block| block[at] ^= 0x80);
                    let verdicts = are_signatures(&OneByOne, scheme, &MESSAGES, &damaged).expect("as long");
                    assert_eq!(verdicts, [false; 3], "{padding:?} {digest:?}, byte {at}");
                }
            }
        }
    }

    #[test]
    fn messages_of_pkcs1_stand_behind_eight_bytes_of_padding_or_more() {
        let block = |separator: usize, len: usize| {
            let mut block = vec![0x55; len];
            (block[0], block[1], block[separator]) = (0, 2, 0);
            block
        };
        let opened = |block: &[u8]| open_pkcs1(block).map(|message| message.to_vec());
        assert_eq!(opened(&block(10, 16)), Some(vec![0x55; 5]));
        assert_eq!(opened(&block(15, 16)), Some(vec![]));
        assert_eq!(opened(&block(9, 16)), None);
        let mut later = block(11, 20);
        later[15] = 0;
        assert_eq!(opened(&later), Some(vec![0x55, 0x55, 0x55, 0, 0x55, 0x55, 0x55, 0x55]));
        for (at, byte) in [(0, 1), (1, 1), (10, 1)] {
            let mut wrong = block(10, 16);
            wrong[at] = byte;
            assert_eq!(opened(&wrong), None);
        }
        assert_eq!(opened(&[]), None);
    }

    #[test]
    fn encrypted_blocks_open_and_damaged_ones_do_not() {
        let oaep = |digest| PublicEncryption::RsaOaep(RsaSize::Rsa2048, digest);
        for encryption in [PublicEncryption::RsaPkcs1(RsaSize::Rsa2048), oaep(Digest::Sha1), oaep(Digest::Sha256)] {
            let blocks = for_encryption(&OneByOne, encryption, &MESSAGES, 256).expect("random bytes");
            assert_eq!(blocks[2].as_ref().err(), Some(&TOO_LONG));
            let blocks: Vec<Block> = blocks.into_iter().flatten().collect();
            let opened = open(&OneByOne, encryption, blocks.clone());
            assert_eq!(opened.iter().flatten().map(|message| message.as_slice()).collect::<Vec<_>>(), MESSAGES[..2]);
            let mut damaged = blocks;
            damaged.iter_mut().for_each(|block| block[0] ^= 1);
            assert_eq!(open(&OneByOne, encryption, damaged), [None, None]);
        }
    }
}
