//! Limbs of the numbers that the kernels work on.

/// Limbs of a prime on the device; must agree with `LIMBS` of the programs.
pub(super) const fn limbs(prime_words: usize) -> usize {
    match prime_words {
        8 => 19,
        16 => 37,
        24 => 55,
        _ => 74,
    }
}

/// Bits of such a limb; must agree with `LIMB_BITS`.
pub(super) const LIMB_BITS: usize = 28;
