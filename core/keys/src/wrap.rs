//! Key wrapping: keys on their way in and out under other keys.
//!
//! [`WrapMethod::AesKw`] and [`WrapMethod::AesKwp`] detect a wrong wrapping key or damaged bytes. Triple DES in ECB mode is
//! how operational keys came to the coprocessors of their time (Lindemann and Smith 2001, section 3: the keys of single
//! operations arrive encrypted under a master key inside the device); it detects nothing by itself, so that a check value
//! may follow the key.

use core::fmt;

use aes::{Aes128, Aes192, Aes256};
use aes_kw::{AesKw, AesKwp, InnerInit};
use cipher::consts::U16;
use cipher::{Block, BlockCipherDecrypt, BlockCipherEncrypt, BlockSizeUser, KeyInit};
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::limits::KEY_LEN_MAX;
use ciphermill_contract::suite::{AesSize, BlockCipher, Mode};
use ciphermill_contract::{Error, Refusal, Result, Suite};
use ciphermill_memory::SecretBytes;
use des::{Des, TdesEde2, TdesEde3};
use subtle::ConstantTimeEq;

use crate::memory::no_memory;

/// How a key is wrapped under another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WrapMethod {
    /// AES Key Wrap with Padding (RFC 5649, NIST SP 800-38F KWP): keys of any length under an AES key.
    AesKwp,
    /// AES Key Wrap (RFC 3394, NIST SP 800-38F KW): keys of 16 bytes or more, in steps of 8, under an AES key.
    AesKw,
    /// Triple DES in ECB mode under a key of 16 or 24 bytes; keys of a multiple of 8 bytes. Parity bits are neither
    /// demanded nor changed. Without a check value a wrong wrapping key goes unnoticed.
    TripleDesEcb,
    /// As [`WrapMethod::TripleDesEcb`], followed by the first three bytes of a zero block encrypted under the key
    /// itself: DES for a key of 8 bytes, triple DES for 16 and 24. Other lengths are refused.
    TripleDesEcbChecked,
}

/// Bytes of a triple-DES check value.
const DES_CHECK_LEN: usize = 3;
/// Bytes of a DES block.
const DES_BLOCK_LEN: usize = 8;
/// Bytes that AES key wrapping adds, and the steps it works in: a semiblock (NIST SP 800-38F, section 4.1).
const SEMIBLOCK_LEN: usize = 8;

const _: () = assert!(KEY_LEN_MAX.is_multiple_of(SEMIBLOCK_LEN));

impl WrapMethod {
    /// Every method.
    pub const ALL: [WrapMethod; 4] =
        [WrapMethod::AesKwp, WrapMethod::AesKw, WrapMethod::TripleDesEcb, WrapMethod::TripleDesEcbChecked];
}

impl fmt::Display for WrapMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WrapMethod::AesKwp => "aes-kwp",
            WrapMethod::AesKw => "aes-kw",
            WrapMethod::TripleDesEcb => "3des-ecb",
            WrapMethod::TripleDesEcbChecked => "3des-ecb-checked",
        })
    }
}

/// Wraps the bytes of a key.
///
/// # Errors
///
/// [`Refusal::KeyUnsuitable`] when the wrapping key is none of the method's lengths (named with the method's cipher in ECB
/// mode), or with [`KeyProblem::Length`] when the method does not take keys of this length.
pub fn wrap(wrapping: &[u8], method: WrapMethod, key: &[u8]) -> Result<Vec<u8>> {
    if key.is_empty() || key.len() > KEY_LEN_MAX {
        return Err(Error::key(cipher_of(wrapping, method), KeyProblem::Length));
    }
    match method {
        WrapMethod::AesKw => {
            if !key.len().is_multiple_of(SEMIBLOCK_LEN) || key.len() < 2 * SEMIBLOCK_LEN {
                return Err(Error::key(cipher_of(wrapping, method), KeyProblem::Length));
            }
            aes_wrap(wrapping, method, key, key.len() + SEMIBLOCK_LEN)
        }
        WrapMethod::AesKwp => {
            aes_wrap(wrapping, method, key, key.len().next_multiple_of(SEMIBLOCK_LEN) + SEMIBLOCK_LEN)
        }
        WrapMethod::TripleDesEcb | WrapMethod::TripleDesEcbChecked => {
            if !key.len().is_multiple_of(DES_BLOCK_LEN) {
                return Err(Error::key(TRIPLE_DES, KeyProblem::Length));
            }
            // The copy is encrypted in place, so that no plain bytes stay behind.
            let mut wrapped = Vec::with_capacity(key.len() + DES_CHECK_LEN);
            wrapped.extend_from_slice(key);
            let check = match method {
                WrapMethod::TripleDesEcbChecked => Some(des_check_value(key)),
                _ => None,
            };
            let done = match check {
                Some(None) => Err(Error::key(TRIPLE_DES, KeyProblem::Length)),
                _ => triple_des(wrapping, &mut wrapped, Way::Encrypt),
            };
            if let Err(error) = done {
                zeroize::Zeroize::zeroize(&mut wrapped);
                return Err(error);
            }
            wrapped.extend(check.flatten().into_iter().flatten());
            Ok(wrapped)
        }
    }
}

/// Unwraps a key.
///
/// # Errors
///
/// [`Refusal::KeyUnsuitable`] when the wrapping key is none of the method's lengths; [`Refusal::UnwrapFailed`] for
/// everything that is wrong with the wrapped bytes, without telling what; [`Error::Exhausted`] without memory.
pub fn unwrap(wrapping: &[u8], method: WrapMethod, wrapped: &[u8]) -> Result<SecretBytes> {
    // The longest form is that of AES: a semiblock more than the key, which is padded to none more than `KEY_LEN_MAX`.
    if wrapped.is_empty() || wrapped.len() > KEY_LEN_MAX + SEMIBLOCK_LEN {
        return Err(failed());
    }
    match method {
        WrapMethod::AesKw | WrapMethod::AesKwp => aes_unwrap(wrapping, method, wrapped),
        WrapMethod::TripleDesEcb | WrapMethod::TripleDesEcbChecked => {
            let is_checked = method == WrapMethod::TripleDesEcbChecked;
            let key_len = wrapped.len().checked_sub(if is_checked { DES_CHECK_LEN } else { 0 });
            let key_len = key_len.filter(|len| len.is_multiple_of(DES_BLOCK_LEN)).ok_or_else(failed)?;
            let (body, check) = wrapped.split_at(key_len);
            let mut key = SecretBytes::from_slice(body).map_err(|_| no_memory(key_len))?;
            triple_des(wrapping, &mut key, Way::Decrypt)?;
            if is_checked {
                let expected = des_check_value(&key).ok_or_else(failed)?;
                if !bool::from(expected.as_slice().ct_eq(check)) {
                    return Err(failed());
                }
            }
            Ok(key)
        }
    }
}

/// The check value of a DES or triple-DES key: the first three bytes of a zero block under it. None for other lengths.
pub fn des_check_value(key: &[u8]) -> Option<[u8; 3]> {
    let mut block = [0; DES_BLOCK_LEN];
    match key.len() {
        8 => ecb(&Des::new_from_slice(key).ok()?, &mut block, Way::Encrypt),
        16 => ecb(&TdesEde2::new_from_slice(key).ok()?, &mut block, Way::Encrypt),
        24 => ecb(&TdesEde3::new_from_slice(key).ok()?, &mut block, Way::Encrypt),
        _ => return None,
    }
    Some([block[0], block[1], block[2]])
}

const TRIPLE_DES: Suite = Suite::Cipher(BlockCipher::TripleDes, Mode::Ecb);

#[derive(Clone, Copy)]
enum Way {
    Encrypt,
    Decrypt,
}

fn failed() -> Error {
    Error::Refused(Refusal::UnwrapFailed)
}

/// The method's cipher, by which errors name the wrapping key.
fn cipher_of(wrapping: &[u8], method: WrapMethod) -> Suite {
    match (method, wrapping.len()) {
        (WrapMethod::TripleDesEcb | WrapMethod::TripleDesEcbChecked, _) => TRIPLE_DES,
        (_, 16) => Suite::Cipher(BlockCipher::Aes(AesSize::Aes128), Mode::Ecb),
        (_, 24) => Suite::Cipher(BlockCipher::Aes(AesSize::Aes192), Mode::Ecb),
        _ => Suite::Cipher(BlockCipher::Aes(AesSize::Aes256), Mode::Ecb),
    }
}

fn aes_wrap(wrapping: &[u8], method: WrapMethod, key: &[u8], wrapped_len: usize) -> Result<Vec<u8>> {
    let mut wrapped = vec![0; wrapped_len];
    let done = match wrapping.len() {
        16 => aes_wrap_under::<Aes128>(wrapping, method, key, &mut wrapped),
        24 => aes_wrap_under::<Aes192>(wrapping, method, key, &mut wrapped),
        32 => aes_wrap_under::<Aes256>(wrapping, method, key, &mut wrapped),
        _ => None,
    };
    match done {
        Some(()) => Ok(wrapped),
        None => Err(Error::key(cipher_of(wrapping, method), KeyProblem::Length)),
    }
}

fn aes_wrap_under<C>(wrapping: &[u8], method: WrapMethod, key: &[u8], out: &mut [u8]) -> Option<()>
where
    C: KeyInit + BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    let cipher = C::new_from_slice(wrapping).ok()?;
    match method {
        WrapMethod::AesKw => AesKw::<C>::inner_init(cipher).wrap_key(key, out).ok()?,
        _ => AesKwp::<C>::inner_init(cipher).wrap_key(key, out).ok()?,
    };
    Some(())
}

fn aes_unwrap(wrapping: &[u8], method: WrapMethod, wrapped: &[u8]) -> Result<SecretBytes> {
    if !matches!(wrapping.len(), 16 | 24 | 32) {
        return Err(Error::key(cipher_of(wrapping, method), KeyProblem::Length));
    }
    // KW wraps two semiblocks or more, so three come out; KWP has one or more (RFC 3394 section 2, RFC 5649 section 4.1).
    let semiblocks_min = if method == WrapMethod::AesKw { 3 } else { 2 };
    if !wrapped.len().is_multiple_of(SEMIBLOCK_LEN) || wrapped.len() < semiblocks_min * SEMIBLOCK_LEN {
        return Err(failed());
    }
    let room = wrapped.len() - SEMIBLOCK_LEN;
    let mut key = SecretBytes::zeroed(room).map_err(|_| no_memory(room))?;
    let key_len = match wrapping.len() {
        16 => aes_unwrap_under::<Aes128>(wrapping, method, wrapped, &mut key),
        24 => aes_unwrap_under::<Aes192>(wrapping, method, wrapped, &mut key),
        _ => aes_unwrap_under::<Aes256>(wrapping, method, wrapped, &mut key),
    };
    match key_len {
        Some(len) if len == room => Ok(key),
        Some(len) => SecretBytes::from_slice(&key[..len]).map_err(|_| no_memory(len)),
        None => Err(failed()),
    }
}

/// The length of the key, which lies at the beginning of `out`.
fn aes_unwrap_under<C>(wrapping: &[u8], method: WrapMethod, wrapped: &[u8], out: &mut [u8]) -> Option<usize>
where
    C: KeyInit + BlockCipherDecrypt + BlockSizeUser<BlockSize = U16>,
{
    let cipher = C::new_from_slice(wrapping).ok()?;
    let key = match method {
        WrapMethod::AesKw => AesKw::<C>::inner_init(cipher).unwrap_key(wrapped, out).ok()?,
        _ => AesKwp::<C>::inner_init(cipher).unwrap_key(wrapped, out).ok()?,
    };
    Some(key.len())
}

fn triple_des(wrapping: &[u8], data: &mut [u8], way: Way) -> Result<()> {
    let unsuitable = || Error::key(TRIPLE_DES, KeyProblem::Length);
    match wrapping.len() {
        16 => ecb(&TdesEde2::new_from_slice(wrapping).map_err(|_| unsuitable())?, data, way),
        24 => ecb(&TdesEde3::new_from_slice(wrapping).map_err(|_| unsuitable())?, data, way),
        _ => return Err(unsuitable()),
    }
    Ok(())
}

/// Whole blocks in place; callers have checked the length.
fn ecb<C: BlockCipherEncrypt + BlockCipherDecrypt + BlockSizeUser>(cipher: &C, data: &mut [u8], way: Way) {
    debug_assert!(data.len().is_multiple_of(C::block_size()));
    let (blocks, _) = Block::<C>::slice_as_chunks_mut(data);
    match way {
        Way::Encrypt => cipher.encrypt_blocks(blocks),
        Way::Decrypt => cipher.decrypt_blocks(blocks),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        hex::decode(text.replace(' ', "")).unwrap()
    }

    /// RFC 3394, section 4: wrapping key, key, wrapped key.
    const RFC_3394: [[&str; 3]; 6] = [
        [
            "000102030405060708090A0B0C0D0E0F",
            "00112233445566778899AABBCCDDEEFF",
            "1FA68B0A8112B447 AEF34BD8FB5A7B82 9D3E862371D2CFE5",
        ],
        [
            "000102030405060708090A0B0C0D0E0F1011121314151617",
            "00112233445566778899AABBCCDDEEFF",
            "96778B25AE6CA435 F92B5B97C050AED2 468AB8A17AD84E5D",
        ],
        [
            "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
            "00112233445566778899AABBCCDDEEFF",
            "64E8C3F9CE0F5BA2 63E9777905818A2A 93C8191E7D6E8AE7",
        ],
        [
            "000102030405060708090A0B0C0D0E0F1011121314151617",
            "00112233445566778899AABBCCDDEEFF0001020304050607",
            "031D33264E15D332 68F24EC260743EDC E1C6C7DDEE725A93 6BA814915C6762D2",
        ],
        [
            "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
            "00112233445566778899AABBCCDDEEFF0001020304050607",
            "A8F9BC1612C68B3F F6E6F4FBE30E71E4 769C8B80A32CB895 8CD5D17D6B254DA1",
        ],
        [
            "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
            "00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F",
            "28C9F404C4B810F4 CBCCB35CFB87F826 3F5786E2D80ED326 CBC7F0E71A99F43B FB988B9B7A02DD21",
        ],
    ];

    /// RFC 5649, section 6.
    const RFC_5649: [[&str; 3]; 2] = [
        [
            "5840df6e29b02af1 ab493b705bf16ea1 ae8338f4dcc176a8",
            "c37b7e6492584340 bed1220780894115 5068f738",
            "138bdeaa9b8fa7fc 61f97742e72248ee 5ae6ae5360d1ae6a 5f54f373fa543b6a",
        ],
        ["5840df6e29b02af1 ab493b705bf16ea1 ae8338f4dcc176a8", "466f7250617369", "afbeb0f07dfbf541 9200f2ccb50bb24f"],
    ];

    #[test]
    fn rfc_vectors() {
        let cases = RFC_3394.iter().map(|case| (WrapMethod::AesKw, case));
        for (method, case) in cases.chain(RFC_5649.iter().map(|case| (WrapMethod::AesKwp, case))) {
            let [wrapping, key, wrapped] = case.map(bytes);
            assert_eq!(wrap(&wrapping, method, &key).unwrap(), wrapped);
            assert_eq!(&unwrap(&wrapping, method, &wrapped).unwrap()[..], key);
        }
    }

    #[test]
    fn every_damage_is_refused_alike() {
        let wrapping = [0x42; 32];
        for method in [WrapMethod::AesKw, WrapMethod::AesKwp, WrapMethod::TripleDesEcbChecked] {
            let wrapping = if method == WrapMethod::TripleDesEcbChecked { &wrapping[..24] } else { &wrapping[..] };
            let wrapped = wrap(wrapping, method, b"0123456789abcdefghijklmn").unwrap();
            for at in 0..wrapped.len() {
                let mut damaged = wrapped.clone();
                damaged[at] ^= 1;
                assert_eq!(unwrap(wrapping, method, &damaged).unwrap_err(), failed(), "{method} at {at}");
            }
            for len in 0..wrapped.len() {
                assert_eq!(unwrap(wrapping, method, &wrapped[..len]).unwrap_err(), failed(), "{method} of {len} bytes");
            }
            assert_eq!(unwrap(&[0x24; 32][..wrapping.len()], method, &wrapped).unwrap_err(), failed());
            assert_eq!(unwrap(wrapping, method, &vec![0; KEY_LEN_MAX + 24]).unwrap_err(), failed());
        }
    }

    #[test]
    fn kwp_takes_every_length() {
        for len in 1..=80 {
            let key: Vec<u8> = (0..len).collect();
            for wrapping in [&[1u8; 16][..], &[2; 24], &[3; 32]] {
                let wrapped = wrap(wrapping, WrapMethod::AesKwp, &key).unwrap();
                assert_eq!(wrapped.len(), key.len().next_multiple_of(8) + 8);
                assert_eq!(&unwrap(wrapping, WrapMethod::AesKwp, &wrapped).unwrap()[..], key);
            }
        }
    }

    /// NIST SP 800-20, table A.1, in ECB with three equal keys gives single DES: the key 8001010101010101 encrypts the
    /// zero block to 95A8D72813DAA94D (table A.2).
    #[test]
    fn triple_des_with_equal_keys_is_des() {
        let single = bytes("8001010101010101");
        let wrapped = wrap(&single.repeat(3), WrapMethod::TripleDesEcb, &[0; 8]).unwrap();
        assert_eq!(wrapped, bytes("95A8D72813DAA94D"));
        assert_eq!(des_check_value(&single), Some([0x95, 0xA8, 0xD7]));
        assert_eq!(des_check_value(&single.repeat(2)), Some([0x95, 0xA8, 0xD7]));
        assert_eq!(des_check_value(&single.repeat(3)), Some([0x95, 0xA8, 0xD7]));
        assert_eq!(des_check_value(&[0; 32]), None);
    }

    #[test]
    fn triple_des_takes_keys_of_any_parity() {
        for wrapping in [&[0x11u8; 16][..], &[0xFE; 24]] {
            for key in [&[0x00u8; 8][..], &[0x01; 16], &[0xA5; 24], &[0xFF; 8], &[0x33; 32]] {
                let wrapped = wrap(wrapping, WrapMethod::TripleDesEcb, key).unwrap();
                assert_eq!(wrapped.len(), key.len());
                assert_eq!(&unwrap(wrapping, WrapMethod::TripleDesEcb, &wrapped).unwrap()[..], key);
            }
        }
    }

    #[test]
    fn check_values_follow_the_key() {
        let (wrapping, key) = ([0x5Cu8; 24], [0x37u8; 16]);
        let wrapped = wrap(&wrapping, WrapMethod::TripleDesEcbChecked, &key).unwrap();
        assert_eq!(wrapped.len(), 19);
        assert_eq!(wrapped[16..], des_check_value(&key).unwrap());
        assert_eq!(&unwrap(&wrapping, WrapMethod::TripleDesEcbChecked, &wrapped).unwrap()[..], key);
        let longer = wrap(&wrapping, WrapMethod::TripleDesEcbChecked, &[1; 32]);
        assert_eq!(longer, Err(Error::key(TRIPLE_DES, KeyProblem::Length)));
    }

    #[test]
    fn the_longest_key_comes_back_and_a_longer_one_does_not() {
        let wrapping = [0x42; 24];
        for method in [WrapMethod::AesKw, WrapMethod::AesKwp, WrapMethod::TripleDesEcb] {
            let wrapped = wrap(&wrapping, method, &[7; KEY_LEN_MAX]).unwrap();
            assert_eq!(unwrap(&wrapping, method, &wrapped).unwrap()[..], [7; KEY_LEN_MAX], "{method}");
        }
        for method in [WrapMethod::AesKw, WrapMethod::AesKwp] {
            let longer = [7; KEY_LEN_MAX + SEMIBLOCK_LEN];
            let wrapped = aes_wrap(&wrapping, method, &longer, longer.len() + SEMIBLOCK_LEN).unwrap();
            assert_eq!(unwrap(&wrapping, method, &wrapped).unwrap_err(), failed(), "{method}");
        }
    }

    /// A semiblock alone is no ciphertext: it would be compared with the constant that everybody knows (RFC 3394, section
    /// 2.2.3; RFC 5649, section 3, with a length of zero), and be a key of no bytes. Two are none of KW's.
    #[test]
    fn less_than_the_shortest_form_is_refused_whatever_it_says() {
        let known = [(WrapMethod::AesKw, "A6A6A6A6A6A6A6A6"), (WrapMethod::AesKwp, "A65959A600000000")];
        for (method, constant) in known {
            assert_eq!(unwrap(&[9; 16], method, &bytes(constant)).unwrap_err(), failed(), "{method}");
        }
        let short = aes_wrap(&[9; 16], WrapMethod::AesKw, &[1; 8], 16).unwrap();
        assert_eq!(unwrap(&[9; 16], WrapMethod::AesKw, &short).unwrap_err(), failed());
        assert_eq!(unwrap(&[9; 16], WrapMethod::TripleDesEcbChecked, &[0; 3]).unwrap_err(), failed());
    }

    #[test]
    fn unsuitable_lengths_are_told() {
        for method in WrapMethod::ALL {
            for len in [0, 1, 8, 15, 17, 31, 33, 64] {
                let wrapping = vec![9; len];
                let expected = Error::key(cipher_of(&wrapping, method), KeyProblem::Length);
                assert_eq!(wrap(&wrapping, method, &[1; 16]).unwrap_err(), expected, "{method} under {len}");
                let wrapped = vec![1; if method == WrapMethod::TripleDesEcbChecked { 19 } else { 24 }];
                assert_eq!(unwrap(&wrapping, method, &wrapped).unwrap_err(), expected, "{method} under {len}");
            }
            assert!(wrap(&[9; 16], method, &[]).is_err());
            assert!(wrap(&[9; 16], method, &vec![0; KEY_LEN_MAX + 8]).is_err());
        }
        for (len, cipher) in [(16, "aes-128-ecb"), (24, "aes-192-ecb"), (32, "aes-256-ecb")] {
            let expected = Error::key(cipher.parse().unwrap(), KeyProblem::Length);
            assert_eq!(wrap(&vec![9; len], WrapMethod::AesKw, &[1; 8]).unwrap_err(), expected);
        }
        assert!(wrap(&[9; 16], WrapMethod::AesKw, &[1; 8]).is_err());
        assert!(wrap(&[9; 16], WrapMethod::AesKw, &[1; 20]).is_err());
        assert!(wrap(&[9; 16], WrapMethod::TripleDesEcb, &[1; 20]).is_err());
    }
}
