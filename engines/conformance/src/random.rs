//! Random numbers that come out the same for the same seed.

/// SplitMix64 (Steele, Lea and Flood 2014): quick, and good enough to vary tests.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// A generator for one purpose: a seed and a name that sets it apart from others with the same seed.
    pub(crate) fn new(seed: u64, name: &str) -> Rng {
        let mut rng = Rng(seed);
        for byte in name.bytes() {
            rng.0 = rng.0.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte);
        }
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// A number below `bound`, which is at least one.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// A number from `min` to `max`, both included.
    pub(crate) fn between(&mut self, min: usize, max: usize) -> usize {
        min + self.below(max - min + 1)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
}
