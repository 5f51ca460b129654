//! Overwriting that the compiler may not leave out.

/// Overwrites `bytes` with zeros, even when nothing reads them afterwards.
///
/// Runs at the speed of `memset`; `explicit_bzero(3)` is the C library's promise that the stores stay.
pub fn wipe(bytes: &mut [u8]) {
    // SAFETY: the pointer and the length come from one exclusive slice, so the whole range is writable.
    unsafe { libc::explicit_bzero(bytes.as_mut_ptr().cast(), bytes.len()) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #[test]
    fn every_byte_is_zero_afterwards_and_no_neighbour_is() {
        let mut bytes = [0xa5_u8; 67];
        super::wipe(&mut bytes[1..66]);
        assert_eq!(bytes[0], 0xa5);
        assert_eq!(bytes[66], 0xa5);
        assert_eq!(bytes[1..66], [0; 65]);
        super::wipe(&mut []);
    }
}
