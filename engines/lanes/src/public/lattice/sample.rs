//! Polynomials that are drawn from streams (FIPS 203, 4.2.2; FIPS 204, 7.3).

use super::tables::{DSA_Q, KEM_Q};

/// Where sampled coefficients of 16 bits go: a polynomial, and what the last vector may write over.
pub(crate) type Words16 = [i16; 256 + 32];
/// The same of 32 bits.
pub(crate) type Words32 = [i32; 256 + 16];

/// See [`super::vectors::Isa::below_kem`].
#[inline(always)]
pub(super) fn below_kem(bytes: &[u8], to: &mut Words16, mut count: usize) -> usize {
    for three in bytes.as_chunks::<3>().0 {
        let [a, b, c] = three.map(i16::from);
        for number in [a | (b & 15) << 8, b >> 4 | c << 4] {
            if number < KEM_Q && count < 256 {
                to[count] = number;
                count += 1;
            }
        }
    }
    count
}

/// See [`super::vectors::Isa::below_dsa`].
#[inline(always)]
pub(super) fn below_dsa(bytes: &[u8], to: &mut Words32, mut count: usize) -> usize {
    for three in bytes.as_chunks::<3>().0 {
        let [a, b, c] = three.map(i32::from);
        let number = a | b << 8 | (c & 0x7f) << 16;
        if number < DSA_Q && count < 256 {
            to[count] = number;
            count += 1;
        }
    }
    count
}

/// See [`super::vectors::Isa::within_eta`].
#[inline(always)]
pub(super) fn within_eta(bytes: &[u8], eta: i32, to: &mut Words32, mut count: usize) -> usize {
    for byte in bytes {
        for half in [byte & 15, byte >> 4].map(i32::from) {
            let (is_taken, coefficient) = if eta == 2 {
                // Modulo five: a fifth is 205 / 1024 as far as fifteen.
                (half < 15, 2 - (half - ((half * 205) >> 10) * 5))
            } else {
                (half < 9, 4 - half)
            };
            to[count] = coefficient;
            count = (count + usize::from(is_taken)).min(256);
        }
    }
    count
}
