//! Arenas of workloads: bytes that begin at a cache line.

use std::ops::{Deref, DerefMut};

use ciphermill_memory::{Arena, Wipe};

/// Bytes that begin at a cache line, as those of applications that care do. What [`Vec`] gives begins 16 bytes behind one or
/// more, where every other access of a whole vector touches two lines, and elsewhere in each run of a program.
pub struct Bytes(Arena);

impl Bytes {
    /// Zeros.
    #[expect(clippy::expect_used, reason = "as for any vector: without memory there is nothing to measure")]
    pub(crate) fn zeroed(len: usize) -> Bytes {
        Bytes(Arena::heap(len).expect("no memory for a workload").with_wipe(Wipe::No))
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        let mut own = Bytes::zeroed(bytes.len());
        own.copy_from_slice(bytes);
        own
    }
}

impl Clone for Bytes {
    fn clone(&self) -> Bytes {
        Bytes::from(&**self)
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_begin_at_a_line_too() {
        let bytes = Bytes::from(&[1u8, 2, 3][..]);
        let copy = bytes.clone();
        assert_eq!(copy[..], [1, 2, 3]);
        assert!(copy.as_ptr().addr().is_multiple_of(64) && bytes.as_ptr().addr().is_multiple_of(64));
        assert!(Bytes::zeroed(0).is_empty());
    }
}
