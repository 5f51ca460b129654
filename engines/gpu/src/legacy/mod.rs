//! Keys of the legacy stream ciphers.

use zeroize::Zeroizing;

use crate::prepare::Form;

/// RC4's permutation after the key schedule, as `kernels/legacy/rc4.cl` reads it. The key has one byte or more.
pub(crate) fn prepare_rc4(key: &[u8]) -> Form {
    let mut permutation: Form = Zeroizing::new((0..=255).collect());
    let mut j = 0u8;
    for i in 0..256 {
        j = j.wrapping_add(permutation[i]).wrapping_add(key[i % key.len()]);
        permutation.swap(i, usize::from(j));
    }
    permutation
}
