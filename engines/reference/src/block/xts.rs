//! XTS (IEEE 1619-2018, NIST SP 800-38E): one tweaked permutation a block, ciphertext stealing for the rest.

use ciphermill_contract::Direction;
use zeroize::Zeroizing;

use crate::block::{Aes, xor};

/// The two keys of XTS.
pub(crate) struct XtsKey {
    /// Enciphers the data.
    pub(crate) data: Aes,
    /// Enciphers the data unit's number.
    pub(crate) tweak: Aes,
}

impl XtsKey {
    /// Runs one data unit in place. `None` for an IV of another length than 16 and for less than a block.
    pub(crate) fn run(&self, direction: Direction, iv: &[u8], data: &mut [u8]) -> Option<()> {
        let mut tweak = Zeroizing::new(<[u8; 16]>::try_from(iv).ok()?);
        self.tweak.encrypt(&mut tweak);
        let (blocks, rest) = data.as_chunks_mut::<16>();
        let (last, blocks) = blocks.split_last_mut()?;
        for block in blocks {
            self.tweaked(direction, &tweak, block);
            double(&mut tweak);
        }
        if rest.is_empty() {
            self.tweaked(direction, &tweak, last);
            return Some(());
        }
        // IEEE 1619, 5.3.2 and 5.4.2: the last whole block lends its end to the rest. When decrypting, the two last
        // tweaks change places.
        let mut next = tweak.clone();
        double(&mut next);
        let (first, second) = match direction {
            Direction::Encrypt => (&tweak, &next),
            Direction::Decrypt => (&next, &tweak),
        };
        self.tweaked(direction, first, last);
        let (stolen, _) = last.split_at_mut(rest.len());
        stolen.swap_with_slice(rest);
        self.tweaked(direction, second, last);
        Some(())
    }

    fn tweaked(&self, direction: Direction, tweak: &[u8; 16], block: &mut [u8; 16]) {
        xor(block, tweak);
        match direction {
            Direction::Encrypt => self.data.encrypt(block),
            Direction::Decrypt => self.data.decrypt(block),
        }
        xor(block, tweak);
    }
}

/// Multiplies by the primitive element (IEEE 1619, 5.2): a shift of the little-endian number, reduced without a branch.
fn double(tweak: &mut [u8; 16]) {
    let number = u128::from_le_bytes(*tweak);
    let carry = number >> 127;
    *tweak = ((number << 1) ^ (carry * 0x87)).to_le_bytes();
}
