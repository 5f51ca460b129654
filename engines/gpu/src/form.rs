//! Keys as the kernels read them.

use zeroize::Zeroizing;

/// A key as the kernels read it: words in memory order.
pub(crate) type Form = Zeroizing<Vec<u8>>;

/// Words as they lie in the device's memory.
pub(crate) fn words(words: &[u32]) -> Form {
    // Room for all of them at once, so that no copy is left behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(4 * words.len()));
    for word in words {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes
}
