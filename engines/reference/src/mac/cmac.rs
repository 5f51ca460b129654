//! CMAC (NIST SP 800-38B, RFC 4493) and the CBC-MAC under it.

use zeroize::Zeroizing;

use crate::block::{Aes, Permutation, xor};

/// CMAC under one AES key, with its two subkeys.
pub(crate) struct Cmac {
    cipher: Aes,
    whole: Zeroizing<[u8; 16]>,
    partial: Zeroizing<[u8; 16]>,
}

/// A CBC-MAC being computed. The last block stays open, since CMAC changes it.
pub(crate) struct CbcMac<'a> {
    cipher: &'a dyn Permutation<16>,
    state: Zeroizing<[u8; 16]>,
    filled: usize,
}

impl Cmac {
    /// Derives the subkeys: K1 for messages of whole blocks, K2 for the others (SP 800-38B, 6.1).
    pub(crate) fn new(cipher: Aes) -> Cmac {
        let mut zero = Zeroizing::new([0; 16]);
        cipher.encrypt(&mut zero);
        let whole = Zeroizing::new(double(&zero));
        let partial = Zeroizing::new(double(&whole));
        Cmac { cipher, whole, partial }
    }

    /// The full tag of the parts, one after the other.
    pub(crate) fn tag(&self, parts: &[&[u8]]) -> Zeroizing<[u8; 16]> {
        let mut mac = CbcMac::new(self.cipher.as_ref());
        for part in parts {
            mac.update(part);
        }
        if mac.filled == 16 {
            xor(mac.state.as_mut_slice(), self.whole.as_slice());
        } else {
            mac.state[mac.filled] ^= 0x80;
            xor(mac.state.as_mut_slice(), self.partial.as_slice());
        }
        self.cipher.encrypt(&mut mac.state);
        mac.state
    }
}

impl CbcMac<'_> {
    /// A MAC of nothing yet.
    pub(crate) fn new(cipher: &dyn Permutation<16>) -> CbcMac<'_> {
        CbcMac { cipher, state: Zeroizing::new([0; 16]), filled: 0 }
    }

    /// Adds bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.filled == 16 {
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
    pub(crate) fn finish(mut self) -> Zeroizing<[u8; 16]> {
        self.pad();
        self.state
    }
}

/// Multiplies by x in GF(2^128), most significant bit first (SP 800-38B, 5.3; RFC 5297, 2.3), without a branch.
pub(crate) fn double(block: &[u8; 16]) -> [u8; 16] {
    let number = u128::from_be_bytes(*block);
    let carry = number >> 127;
    ((number << 1) ^ (carry * 0x87)).to_be_bytes()
}
