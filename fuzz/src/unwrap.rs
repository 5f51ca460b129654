//! Unwrapping keys: any bytes under any key, and what was wrapped comes back.

use ciphermill_keys::WrapMethod;
use ciphermill_keys::wrap::{unwrap, wrap};

use crate::reader::Reader;

/// # Panics
/// When what was wrapped does not come back, or what was changed afterwards does although the method detects changes.
pub fn run(bytes: &[u8]) {
    let mut from = Reader(bytes);
    let method = from.pick(&WrapMethod::ALL);
    let wrapping_len = from.pick(&[16usize, 24, 32, 0, 8]);
    let flip = usize::from(from.word());
    let wrapping = from.bytes(wrapping_len);
    let rest = from.0;
    let _ = unwrap(wrapping, method, rest);
    if let Ok(mut wrapped) = wrap(wrapping, method, rest) {
        let back = unwrap(wrapping, method, &wrapped).expect("what was wrapped comes back");
        assert_eq!(back.as_slice(), rest);
        if matches!(method, WrapMethod::AesKw | WrapMethod::AesKwp) {
            let at = flip / 8 % wrapped.len();
            wrapped[at] ^= 1 << (flip % 8);
            assert!(unwrap(wrapping, method, &wrapped).is_err(), "a changed bit goes unnoticed");
        }
    }
}
