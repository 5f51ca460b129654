//! Polynomials that are drawn from streams (FIPS 203, 4.2.2; FIPS 204, 7.3).

use super::isa::{Words16, Words32};
use super::tables::{DSA_Q, KEM_Q};

/// See [`super::isa::Isa::below_kem`].
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

/// See [`super::isa::Isa::below_dsa`].
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

/// See [`super::isa::Isa::within_eta`].
#[inline(always)]
pub(super) fn within_eta(bytes: &[u8], eta: i32, to: &mut Words32, mut count: usize) -> usize {
    for byte in bytes {
        for half in [byte & 15, byte >> 4].map(i32::from) {
            let (is_taken, coefficient) = if eta == 2 {
                // Modulo five: a fifth is 205 / 1024 as far as fifteen.
                (half < 15, 2 - (half - (half * 205 >> 10) * 5))
            } else {
                (half < 9, 4 - half)
            };
            to[count] = coefficient;
            count = (count + usize::from(is_taken)).min(256);
        }
    }
    count
}
