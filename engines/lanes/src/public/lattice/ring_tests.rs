//! Transforms against products by the school's method, roundings against their definitions, drawing against plain code.

use super::isa::{Isa, Words16, Words32, lattice_kernels};
use super::tables::{DSA_Q, KEM_Q, coefficient_at};
use super::tests::kernels;
use super::{dsa_ring, kem_ring, sample};

/// Numbers without a pattern (a linear congruential generator, Knuth 1997, 3.3.4).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The product of two polynomials modulo `X^256 + 1` and `q`.
fn school(a: &[i64; 256], b: &[i64; 256], q: i64) -> [i64; 256] {
    let mut product = [0; 256];
    for (i, a) in a.iter().enumerate() {
        for (j, b) in b.iter().enumerate() {
            let sign = if i + j < 256 { 1 } else { -1 };
            product[(i + j) % 256] = (product[(i + j) % 256] + sign * a * b).rem_euclid(q);
        }
    }
    product
}

#[test]
fn every_coefficient_has_one_place() {
    for (words, exchanges) in [(32, 4), (16, 3), (16, 4), (8, 3)] {
        let mut places: Vec<usize> = (0..256).map(|place| coefficient_at(place, words, exchanges)).collect();
        places.sort_unstable();
        assert!(places.into_iter().eq(0..256));
    }
}

lattice_kernels! {
    fn kem_product(a: &kem_ring::Poly, b: &kem_ring::Poly, product: &mut kem_ring::Poly) = kem_ring::product_for_test
}

lattice_kernels! {
    fn dsa_product(a: &dsa_ring::Poly, b: &dsa_ring::Poly, product: &mut dsa_ring::Poly) = dsa_product_with
}

#[inline(always)]
fn dsa_product_with<I: Isa>(isa: I, a: &dsa_ring::Poly, b: &dsa_ring::Poly, product: &mut dsa_ring::Poly) {
    let (mut left, mut right) = (*a, *b);
    left.set_all(isa, &dsa_ring::forward(isa, a));
    right.set_all(isa, &dsa_ring::forward(isa, b));
    let mut v = dsa_ring::row(isa, 1, |_| &left, |_| &right);
    dsa_ring::back(isa, &mut v);
    for at in 0..dsa_ring::vectors::<I>() {
        product.set(isa, at, dsa_ring::positive(isa, v[at]));
    }
}

#[test]
fn transforms_multiply() {
    let mut random = Random(1);
    for round in 0..20 {
        // The largest coefficients in the first rounds, all alike.
        let mut number = |q: i64| if round < 2 { q - 1 } else { random.below(q as u64) as i64 };
        let kem: [[i64; 256]; 2] = core::array::from_fn(|_| core::array::from_fn(|_| number(KEM_Q.into())));
        let dsa: [[i64; 256]; 2] = core::array::from_fn(|_| core::array::from_fn(|_| number(DSA_Q.into())));
        for kernels in kernels() {
            let [a, b] = kem.map(|poly| kem_ring::Poly(poly.map(|number| number as i16)));
            let mut product = kem_ring::Poly::default();
            kem_product(kernels.lattice, &a, &b, &mut product);
            assert_eq!(product.0.map(i64::from), school(&kem[0], &kem[1], KEM_Q.into()), "{}", kernels.lattice.name());
            let [a, b] = dsa.map(|poly| dsa_ring::Poly(poly.map(|number| number as i32)));
            let mut product = dsa_ring::Poly::default();
            dsa_product(kernels.lattice, &a, &b, &mut product);
            assert_eq!(product.0.map(i64::from), school(&dsa[0], &dsa[1], DSA_Q.into()), "{}", kernels.lattice.name());
        }
    }
}

lattice_kernels! {
    fn kem_rounded(bits: usize, poly: &kem_ring::Poly, bytes: &mut [u8], back: &mut kem_ring::Poly)
        = kem_ring::rounded_for_test
}

/// Compression and its inverse of every coefficient (FIPS 203, 4.7).
#[test]
fn every_coefficient_is_compressed_as_defined() {
    for kernels in kernels() {
        for bits in [4, 5, 10, 11] {
            for first in (0..i32::from(KEM_Q)).step_by(256) {
                let number = |at: usize| (first + at as i32).min(i32::from(KEM_Q) - 1);
                let poly = kem_ring::Poly(core::array::from_fn(|at| number(at) as i16));
                let (mut bytes, mut back) = (vec![0; 32 * bits], kem_ring::Poly::default());
                kem_rounded(kernels.lattice, bits, &poly, &mut bytes, &mut back);
                for at in 0..256 {
                    // Half of the modulus is no whole number: no ties.
                    let compressed = ((number(at) << (bits + 1)) + 3329) / (2 * 3329) % (1 << bits);
                    let bit = at * bits;
                    let mut four = [0; 4];
                    let there = bytes.len().min(bit / 8 + 4) - bit / 8;
                    four[..there].copy_from_slice(&bytes[bit / 8..bit / 8 + there]);
                    let got = u32::from_le_bytes(four) >> (bit % 8) & ((1 << bits) - 1);
                    assert_eq!(got as i32, compressed, "{} to {bits}", number(at));
                    let lifted = (compressed * 3329 * 2 + (1 << bits)) >> (bits + 1);
                    assert_eq!(i32::from(back.0[at]), lifted, "{compressed} of {bits}");
                }
            }
        }
    }
}

lattice_kernels! {
    fn kem_reduced(poly: &mut kem_ring::Poly) = kem_ring::reduced_for_test
}

#[test]
fn every_word_is_reduced() {
    for kernels in kernels() {
        for first in (i32::from(i16::MIN)..=i32::from(i16::MAX)).step_by(256) {
            let mut poly = kem_ring::Poly(core::array::from_fn(|at| (first + at as i32) as i16));
            kem_reduced(kernels.lattice, &mut poly);
            for (at, got) in poly.0.iter().enumerate() {
                assert_eq!(i32::from(*got), (first + at as i32).rem_euclid(KEM_Q.into()));
            }
        }
    }
}

#[inline(always)]
fn dsa_split_with<I: Isa>(isa: I, gamma2: dsa_ring::Gamma2, polys: &mut [dsa_ring::Poly; 4]) {
    let [number, low, up, same] = polys;
    for at in 0..dsa_ring::vectors::<I>() {
        let a = number.get(isa, at);
        let (high, rest) = dsa_ring::split(isa, gamma2, a);
        up.set(isa, at, dsa_ring::use_hint(isa, gamma2, a, isa.splat32(1)));
        same.set(isa, at, dsa_ring::use_hint(isa, gamma2, a, isa.splat32(0)));
        number.set(isa, at, high);
        low.set(isa, at, rest);
    }
}

lattice_kernels! {
    fn dsa_split(gamma2: dsa_ring::Gamma2, polys: &mut [dsa_ring::Poly; 4]) = dsa_split_with
}

/// High and low parts and hints (FIPS 204, algorithms 36 and 40) of every number with the first kernel, of one in 61 with others.
#[test]
fn numbers_are_split_as_defined() {
    for (kernels, step) in kernels().into_iter().zip([1, 61, 61]) {
        for gamma2 in [dsa_ring::Gamma2::Narrow, dsa_ring::Gamma2::Wide] {
            let (width, parts) = (2 * gamma2.value(), (DSA_Q - 1) / (2 * gamma2.value()));
            for first in (0..DSA_Q).step_by(256 * step) {
                let number = |at: usize| (first + (at * step) as i32).min(DSA_Q - 1);
                let mut polys = [dsa_ring::Poly::default(); 4];
                polys[0].0 = core::array::from_fn(number);
                dsa_split(kernels.lattice, gamma2, &mut polys);
                for at in 0..256 {
                    let number = number(at);
                    let mut low = number % width;
                    if low > gamma2.value() {
                        low -= width;
                    }
                    let mut high = (number - low) / width;
                    if number - low == DSA_Q - 1 {
                        (high, low) = (0, low - 1);
                    }
                    let hinted = (high + if low > 0 { 1 } else { -1 }).rem_euclid(parts);
                    let got = [0, 1, 2, 3].map(|poly: usize| polys[poly].0[at]);
                    assert_eq!(got, [high, low, hinted, high], "{number}");
                }
            }
        }
    }
}

#[inline(always)]
fn drawn_with<I: Isa>(isa: I, bytes: &[u8], kem: (&mut Words16, &mut usize), dsa: (&mut Words32, &mut usize)) {
    *kem.1 = isa.below_kem(bytes, kem.0, *kem.1);
    *dsa.1 = isa.below_dsa(bytes, dsa.0, *dsa.1);
}

lattice_kernels! {
    fn drawn(bytes: &[u8], kem: (&mut Words16, &mut usize), dsa: (&mut Words32, &mut usize)) = drawn_with
}

#[test]
fn drawing_takes_what_plain_code_takes() {
    let mut random = Random(2);
    for round in 0..60 {
        let len = [3, 24, 27, 48, 51, 168, 504, 840][round % 8];
        let bytes: Vec<u8> = match round {
            0..8 => vec![0xff; len],
            8..16 => vec![0; len],
            _ => (0..len).map(|_| random.below(256) as u8).collect(),
        };
        for kernels in kernels() {
            let (mut kem, mut kem_plain) = ([0; 288], [0; 288]);
            let (mut dsa, mut dsa_plain) = ([0; 272], [0; 272]);
            let (mut kem_count, mut dsa_count) = (round, round);
            drawn(kernels.lattice, &bytes, (&mut kem, &mut kem_count), (&mut dsa, &mut dsa_count));
            assert_eq!(kem_count, sample::below_kem(&bytes, &mut kem_plain, round));
            assert_eq!(dsa_count, sample::below_dsa(&bytes, &mut dsa_plain, round));
            assert_eq!(kem[round..kem_count], kem_plain[round..kem_count]);
            assert_eq!(dsa[round..dsa_count], dsa_plain[round..dsa_count]);
        }
    }
}

#[inline(always)]
fn small_with<I: Isa>(isa: I, bytes: &[u8], eta: i32, to: &mut Words32, count: &mut usize) {
    *count = isa.within_eta(bytes, eta, to, *count);
}

lattice_kernels! {
    fn small(bytes: &[u8], eta: i32, to: &mut Words32, count: &mut usize) = small_with
}

#[test]
fn small_coefficients_are_those_of_plain_code() {
    let mut random = Random(3);
    for round in 0..80 {
        let len = [1, 16, 31, 32, 33, 136, 272][round % 7];
        let bytes: Vec<u8> = (0..len).map(|_| if round < 7 { 0x88 } else { random.below(256) as u8 }).collect();
        for kernels in kernels() {
            for eta in [2, 4] {
                let (mut words, mut plain) = ([0; 272], [0; 272]);
                let (mut count, start) = (round * 3, round * 3);
                small(kernels.lattice, &bytes, eta, &mut words, &mut count);
                assert_eq!(count, sample::within_eta(&bytes, eta, &mut plain, start));
                assert_eq!(words[start..count], plain[start..count]);
            }
        }
    }
}

#[inline(always)]
fn fields_with<I: Isa>(isa: I, bits: usize, bytes: &[u8], words: &mut Vec<i32>, again: &mut Vec<u8>) {
    let len = I::BYTES / 4;
    for own in bytes.chunks(len * bits / 8) {
        // As they lie among others, and at the end of all.
        let rest = &bytes[own.as_ptr() as usize - bytes.as_ptr() as usize..];
        let mut vector = [0i32; 16];
        // SAFETY: a vector is no longer.
        unsafe { isa.store(isa.fields(bits, rest), vector.as_mut_ptr().cast()) };
        words.extend(&vector[..len]);
        let mut written = vec![0; own.len()];
        isa.put_fields(bits, isa.fields(bits, rest), &mut written);
        again.extend(written);
    }
}

lattice_kernels! {
    fn fields(bits: usize, bytes: &[u8], words: &mut Vec<i32>, again: &mut Vec<u8>) = fields_with
}

#[test]
fn fields_are_read_bit_by_bit_and_written_again() {
    let mut random = Random(4);
    for bits in [8, 10, 18, 20, 22, 24] {
        let bytes: Vec<u8> = (0..32 * bits).map(|_| random.below(256) as u8).collect();
        let bit = |at: usize| i32::from(bytes[at / 8] >> (at % 8) & 1);
        let expected: Vec<i32> = (0..256).map(|word| (0..bits).map(|n| bit(word * bits + n) << n).sum()).collect();
        for kernels in kernels() {
            let (mut words, mut again) = (Vec::new(), Vec::new());
            fields(kernels.lattice, bits, &bytes, &mut words, &mut again);
            assert!(words == expected && again == bytes, "{bits} by {}", kernels.lattice.name());
        }
    }
}

/// Small coefficients are two less a number modulo five, or four less it (FIPS 204, algorithm 15).
#[test]
fn halves_of_bytes_become_small_coefficients() {
    for half in 0..16u8 {
        for (eta, limit, expected) in [(2, 15, 2 - i32::from(half % 5)), (4, 9, 4 - i32::from(half))] {
            let mut words = [0; 272];
            let count = sample::within_eta(&[half | 0xf0], eta, &mut words, 0);
            assert_eq!(count, usize::from(half < limit));
            assert!(count == 0 || words[0] == expected);
        }
    }
}
