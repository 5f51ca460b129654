//! CMAC (NIST SP 800-38B, RFC 4493) and the CBC-MAC under it.

use zeroize::Zeroizing;

use crate::block::{Permutation, xor};

/// CMAC under one key of a cipher with blocks of `N` bytes, 8 or 16, with its two subkeys.
pub(crate) struct Cmac<const N: usize> {
    cipher: Box<dyn Permutation<N>>,
    whole: Zeroizing<[u8; N]>,
    partial: Zeroizing<[u8; N]>,
}

/// A CBC-MAC being computed. The last block stays open, since CMAC changes it.
pub(crate) struct CbcMac<'a, const N: usize> {
    cipher: &'a dyn Permutation<N>,
    state: Zeroizing<[u8; N]>,
    filled: usize,
}

impl<const N: usize> Cmac<N> {
    /// Derives the subkeys: K1 for messages of whole blocks, K2 for the others (SP 800-38B, 6.1).
    pub(crate) fn new(cipher: Box<dyn Permutation<N>>) -> Cmac<N> {
        let mut zero = Zeroizing::new([0; N]);
        cipher.encrypt(&mut zero);
        let whole = Zeroizing::new(double(&zero));
        let partial = Zeroizing::new(double(&whole));
        Cmac { cipher, whole, partial }
    }

    /// The full tag of the parts, one after the other.
    pub(crate) fn tag(&self, parts: &[&[u8]]) -> Zeroizing<[u8; N]> {
        let mut mac = CbcMac::new(self.cipher.as_ref());
        for part in parts {
            mac.update(part);
        }
        if mac.filled == N {
            xor(mac.state.as_mut_slice(), self.whole.as_slice());
        } else {
            mac.state[mac.filled] ^= 0x80;
            xor(mac.state.as_mut_slice(), self.partial.as_slice());
        }
        self.cipher.encrypt(&mut mac.state);
        mac.state
    }
}

impl<const N: usize> CbcMac<'_, N> {
    /// A MAC of nothing yet.
    pub(crate) fn new(cipher: &dyn Permutation<N>) -> CbcMac<'_, N> {
        CbcMac { cipher, state: Zeroizing::new([0; N]), filled: 0 }
    }

    /// Adds bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.filled == N {
                self.cipher.encrypt(&mut self.state);
                self.filled = 0;
            }
            self.state[self.filled] ^= byte;
            self.filled += 1;
        }
    }

    /// Fills the open block with zeros and closes it.
    pub(crate) fn pad(&mut self) {
        if self.filled > 0 {
            self.cipher.encrypt(&mut self.state);
            self.filled = 0;
        }
    }

    /// Closes the open block and gives the MAC.
    pub(crate) fn finish(mut self) -> Zeroizing<[u8; N]> {
        self.pad();
        self.state
    }
}

/// Multiplies by x in GF(2^64) or GF(2^128), most significant bit first (SP 800-38B, 5.3; RFC 5297, 2.3), without a branch.
pub(crate) fn double<const N: usize>(block: &[u8; N]) -> [u8; N] {
    let polynomial = if N == 8 { 0x1b } else { 0x87 };
    let mut doubled = [0; N];
    for (to, pair) in doubled.iter_mut().zip(block.windows(2)) {
        *to = (pair[0] << 1) | (pair[1] >> 7);
    }
    let carry = block[0] >> 7;
    doubled[N - 1] = (block[N - 1] << 1) ^ (carry * polynomial);
    doubled
}
