//! What several of these tests share.
#![allow(dead_code, reason = "each test uses a part of it")]

/// Numbers that look random and are the same in every run (xorshift, Marsaglia 2003).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// 64 bits, never zero.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((self.next() >> 16) % bound as u64) as usize
    }

    /// A number that is `most` at most.
    pub(crate) fn up_to(&mut self, most: usize) -> usize {
        self.below(most + 1)
    }

    /// Bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 32) as u8).collect()
    }
}
