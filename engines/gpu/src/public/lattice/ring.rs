//! ML-DSA's ring as far as keys need it when they are prepared: the number-theoretic transform, and the form in which the
//! device multiplies. In constant time: remainders are by constants, which compilers turn into products.

/// The modulus.
pub(super) const Q: u32 = 8_380_417;

/// Coefficients of a polynomial.
pub(super) const N: usize = 256;

/// A polynomial, its coefficients below the modulus.
pub(super) type Poly = [u32; N];

/// The root of unity of order 512 (FIPS 204, table 1).
const ROOT: u32 = 1753;

/// What the kernel's product divides by, 2^32, and what its way back from the transform wants, 1 / 256.
const DEVICE_FACTOR: u32 = multiply(((1u64 << 32) % Q as u64) as u32, power(256, Q - 2));

/// Powers of the root whose exponents are bits in reversed order (FIPS 204, 7.5).
const ZETAS: Poly = {
    let (mut zetas, mut number) = ([0; N], 0u32);
    while number < N as u32 {
        zetas[number as usize] = power(ROOT, number.reverse_bits() >> 24);
        number += 1;
    }
    zetas
};

const fn multiply(a: u32, b: u32) -> u32 {
    (a as u64 * b as u64 % Q as u64) as u32
}

const fn power(base: u32, exponent: u32) -> u32 {
    let (mut result, mut bit) = (1, 32);
    while bit > 0 {
        bit -= 1;
        result = multiply(result, result);
        if exponent >> bit & 1 == 1 {
            result = multiply(result, base);
        }
    }
    result
}

/// The transform, in place (FIPS 204, algorithm 41).
pub(super) fn transform(poly: &mut Poly) {
    for layer in 0..8 {
        let len = N >> (layer + 1);
        for (block, pair) in poly.chunks_exact_mut(2 * len).enumerate() {
            let zeta = ZETAS[(1 << layer) + block];
            let (low, high) = pair.split_at_mut(len);
            for (low, high) in low.iter_mut().zip(high) {
                let turned = multiply(zeta, *high);
                *high = (*low + Q - turned) % Q;
                *low = (*low + turned) % Q;
            }
        }
    }
}

/// A coefficient as the kernels multiply with it.
pub(super) fn for_device(coefficient: u32) -> u32 {
    multiply(coefficient, DEVICE_FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transforms_turn_products_into_products() {
        assert_eq!((ZETAS[1], ZETAS[2], power(ROOT, 512), power(ROOT, 256)), (4_808_194, 3_765_607, 1, Q - 1));
        assert_eq!(multiply(DEVICE_FACTOR, 256), ((1u64 << 32) % u64::from(Q)) as u32);
        let a: Poly = core::array::from_fn(|at| (at * at * 7919 + 13) as u32 % Q);
        let b: Poly = core::array::from_fn(|at| (at * 104_729 + 1) as u32 % Q);
        // X^256 is -1.
        let mut product = [0u32; N];
        for (i, a) in a.iter().enumerate() {
            for (j, b) in b.iter().enumerate() {
                let term = multiply(*a, *b);
                let (at, term) = if i + j < N { (i + j, term) } else { (i + j - N, Q - term) };
                product[at] = (product[at] + term) % Q;
            }
        }
        let transformed = |mut poly: Poly| {
            transform(&mut poly);
            poly
        };
        let (a, b) = (transformed(a), transformed(b));
        assert_eq!(transformed(product), core::array::from_fn(|at| multiply(a[at], b[at])));
    }
}
