//! DES keys as `kernels/des/des.cl` reads them: for each pass the halves C and D of the key register, 28 bits each
//! (FIPS 46-3, permuted choice 1). The rounds' keys are wiring in the kernel.

use ciphermill_contract::error::KeyProblem;
use zeroize::Zeroizing;

use crate::form::{Form, words};

/// The key register's upper half C (FIPS 46-3, permuted choice 1).
#[rustfmt::skip]
const PC1_C: [u8; 28] = [
    57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18,
    10, 2, 59, 51, 43, 35, 27, 19, 11, 3, 60, 52, 44, 36,
];

/// The register's lower half D.
#[rustfmt::skip]
const PC1_D: [u8; 28] = [
    63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22,
    14, 6, 61, 53, 45, 37, 29, 21, 13, 5, 28, 20, 12, 4,
];

/// Takes apart a key of 8 bytes for DES, or of 16 or 24 for triple DES; with two keys the third is the first (NIST SP
/// 800-67, 3.2). Parity is not looked at.
///
/// # Errors
/// `Length` for any other.
pub(crate) fn prepare(key: &[u8]) -> Result<Form, KeyProblem> {
    let (parts, rest) = key.as_chunks::<8>();
    let order: &[usize] = match (parts.len(), rest) {
        (1, []) => &[0],
        (2, []) => &[0, 1, 0],
        (3, []) => &[0, 1, 2],
        _ => return Err(KeyProblem::Length),
    };
    let mut halves = Zeroizing::new([0u32; 6]);
    for (pass, part) in order.iter().enumerate() {
        let number = Zeroizing::new(u64::from_be_bytes(parts[*part]));
        for (half, choice) in [PC1_C, PC1_D].into_iter().enumerate() {
            for (to, from) in choice.into_iter().enumerate() {
                halves[2 * pass + half] |= ((*number >> (64 - from)) as u32 & 1) << to;
            }
        }
    }
    Ok(words(&halves[..2 * order.len()]))
}
