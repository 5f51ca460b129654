//! AES keys as `kernels/aes/aes.cl` reads them: the expanded key (FIPS 197, 5.2), bit-sliced, in the places of a work
//! item's first message.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::AesSize;
use zeroize::Zeroizing;

use crate::form::{Form, words};

/// Rounds of the longest key.
const ROUNDS_MAX: usize = 14;

/// Rounds of a key size (FIPS 197, figure 4).
pub(crate) const fn rounds(size: AesSize) -> usize {
    10 + 2 * (size as usize)
}

/// Expands a key of 16, 24 or 32 bytes and bit-slices it.
///
/// # Errors
/// `Length` for any other.
pub(crate) fn prepare(key: &[u8]) -> Result<Form, KeyProblem> {
    let rounds = rounds_of(key)?;
    let expanded = expand(key, rounds);
    let sliced = slice(&expanded[..], rounds);
    Ok(words(&sliced[..8 * (rounds + 1)]))
}

/// The same with GHASH's key behind it: the encryption of zeros (NIST SP 800-38D, 7.1), divided by x as
/// `kernels/aes/field.h` wants it, as four numbers, the first of which holds the first bytes.
///
/// # Errors
/// As [`prepare`].
pub(crate) fn prepare_gcm(key: &[u8]) -> Result<Form, KeyProblem> {
    let rounds = rounds_of(key)?;
    let expanded = expand(key, rounds);
    let mut sliced = slice(&expanded[..], rounds);
    let hash_key = Zeroizing::new(u128::from_be_bytes(encrypt_zeros(&expanded[..], rounds)));
    let divided = Zeroizing::new(divided_by_x(*hash_key));
    for at in 0..4 {
        sliced[8 * (rounds + 1) + at] = (*divided >> (96 - 32 * at)) as u32;
    }
    Ok(words(&sliced[..8 * (rounds + 1) + 4]))
}

/// A number of GHASH's field, its highest bit the coefficient of x^0 (NIST SP 800-38D, 6.3), divided by x; in constant
/// time. What leaves at the top comes back as the inverse of x: x^127 + x^6 + x + 1.
fn divided_by_x(number: u128) -> u128 {
    const INVERSE: u128 = 0xc2 << 120 | 1;
    (number << 1) ^ (INVERSE & 0u128.wrapping_sub(number >> 127))
}

/// Both keys of XTS, the data's first (IEEE 1619, 5.1).
///
/// # Errors
/// As [`prepare`].
pub(crate) fn prepare_xts(key: &[u8]) -> Result<Form, KeyProblem> {
    let (data, tweak) = key.split_at(key.len() / 2);
    let rounds = rounds_of(data)?;
    let mut form = Form::new(Vec::with_capacity(2 * 32 * (rounds + 1)));
    for half in [data, tweak] {
        form.extend_from_slice(&prepare(half)?);
    }
    Ok(form)
}

fn rounds_of(key: &[u8]) -> Result<usize, KeyProblem> {
    AesSize::ALL.into_iter().find(|size| size.key_len() == key.len()).map(rounds).ok_or(KeyProblem::Length)
}

/// Round keys in the places of a work item's first message; room for four more words behind them.
fn slice(expanded: &[u8], rounds: usize) -> Zeroizing<[u32; 8 * (ROUNDS_MAX + 1) + 4]> {
    let mut sliced = Zeroizing::new([0u32; 8 * (ROUNDS_MAX + 1) + 4]);
    for (round, bytes) in expanded.chunks_exact(16).take(rounds + 1).enumerate() {
        for (at, byte) in bytes.iter().enumerate() {
            let (row, column) = (at % 4, at / 4);
            for bit in 0..8 {
                sliced[8 * round + bit] |= u32::from(byte >> bit & 1) << (8 * row + 2 * column);
            }
        }
    }
    sliced
}

/// Encrypts a block of zeros (FIPS 197, 5.1), slowly and in constant time: once in a key's life.
fn encrypt_zeros(expanded: &[u8], rounds: usize) -> [u8; 16] {
    let mut state = [0u8; 16];
    for round in 0..=rounds {
        if round > 0 {
            // SubBytes and ShiftRows: row r comes from r columns further on.
            state = std::array::from_fn(|at| sub_byte(state[(at + 4 * (at % 4)) % 16]));
        }
        if round > 0 && round < rounds {
            state = std::array::from_fn(|at| {
                let column = at / 4 * 4;
                let row = |down: usize| state[column + (at + down) % 4];
                double(row(0)) ^ double(row(1)) ^ row(1) ^ row(2) ^ row(3)
            });
        }
        state.iter_mut().zip(&expanded[16 * round..]).for_each(|(byte, key)| *byte ^= key);
    }
    state
}

fn expand(key: &[u8], rounds: usize) -> Zeroizing<[u8; 16 * (ROUNDS_MAX + 1)]> {
    let mut expanded = Zeroizing::new([0u8; 16 * (ROUNDS_MAX + 1)]);
    expanded[..key.len()].copy_from_slice(key);
    let mut constant = 1u8;
    for at in (key.len()..16 * (rounds + 1)).step_by(4) {
        let mut word = [0u8; 4];
        word.copy_from_slice(&expanded[at - 4..at]);
        if at % key.len() == 0 {
            word.rotate_left(1);
            word = word.map(sub_byte);
            word[0] ^= constant;
            constant = double(constant);
        } else if key.len() == 32 && at % 32 == 16 {
            word = word.map(sub_byte);
        }
        for (byte, of_word) in word.iter().enumerate() {
            expanded[at + byte] = expanded[at + byte - key.len()] ^ of_word;
        }
    }
    expanded
}

/// Doubling in the field of AES (FIPS 197, 4.2.1).
const fn double(a: u8) -> u8 {
    (a << 1) ^ ((a >> 7) * 0x1b)
}

/// A product in the field, by adding and doubling; neither branches nor looks anything up.
fn times(a: u8, b: u8) -> u8 {
    (0..8).rev().fold(0, |sum, bit| double(sum) ^ (a * (b >> bit & 1)))
}

/// The S-box from its definition (FIPS 197, 5.1.1), in constant time: the inverse is the 254th power.
fn sub_byte(byte: u8) -> u8 {
    let square = |a: u8| times(a, a);
    // 254 in binary: seven ones and a zero.
    let mut power = byte;
    for _ in 0..6 {
        power = times(square(power), byte);
    }
    let inverse = square(power);
    [1, 2, 3, 4].into_iter().fold(inverse, |sum, by| sum ^ inverse.rotate_left(by)) ^ 0x63
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expanded_key_is_the_standards() {
        // FIPS 197, A.1: the key, and the last word of its expansion.
        let key = [0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c];
        assert_eq!(expand(&key, 10)[172..176], [0xb6, 0x63, 0x0c, 0xa6]);
        // FIPS 197, 5.1.1.
        assert_eq!([0x00, 0x53, 0xff].map(sub_byte), [0x63, 0xed, 0x16]);
    }

    #[test]
    fn a_block_of_zeros_is_encrypted() {
        // The hash key of the GCM specification's test case 2: AES-128 under a key of zeros.
        let expected = [0x66, 0xe9, 0x4b, 0xd4, 0xef, 0x8a, 0x2c, 0x3b, 0x88, 0x4c, 0xfa, 0x59, 0xca, 0x34, 0x2b, 0x2e];
        assert_eq!(encrypt_zeros(&expand(&[0; 16], 10)[..], 10), expected);
    }

    #[test]
    fn other_lengths_are_refused() {
        assert_eq!(prepare(&[0; 17]).err(), Some(KeyProblem::Length));
    }
}
