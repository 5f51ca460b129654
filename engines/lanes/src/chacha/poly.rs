//! Poly1305 (RFC 8439, 2.5) one block after the other, in 64-bit words: the form that runs beside vector instructions
//! without taking their ports.
//!
//! The sum is `h0 + h1·2^64 + h2·2^128` with a small `h2`. The clamp leaves the two low bits of `r`'s upper word clear,
//! so `r1·2^128 = (r1/4)·2^130`, which is `5·(r1/4)` modulo `2^130 - 5`: one multiplier `r1 + r1/4` serves both words
//! that wrap around.
//!
//! Floor: four 64 × 64 products and two short ones a block of 16 bytes, and a chain of about 18 cycles from block to
//! block. Several messages side by side hide the chain.

/// Where the clamp (RFC 8439, 2.5) leaves bits, lower and upper word.
pub(super) const CLAMP: [u64; 2] = [0x0fff_fffc_0fff_ffff, 0x0fff_fffc_0fff_fffc];

/// One message's authenticator on its way. Whoever leaves one in memory wipes it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Poly {
    /// The clamped multiplier.
    pub(super) r: [u64; 2],
    /// The sum; its top word is at most 7.
    pub(super) h: [u64; 3],
    /// What is added at the end.
    pub(super) pad: [u64; 2],
}

/// A word of a little-endian number.
///
/// # Safety
/// Eight bytes from `from` may be read.
#[inline(always)]
pub(super) unsafe fn word(from: *const u8) -> u64 {
    // SAFETY: the caller's promise.
    u64::from_le_bytes(unsafe { from.cast::<[u8; 8]>().read() })
}

/// The whole product.
#[inline(always)]
fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

impl Poly {
    /// An authenticator under a one-time key.
    ///
    /// # Safety
    /// 32 bytes from `key` may be read.
    #[inline(always)]
    pub(super) unsafe fn new(key: *const u8) -> Poly {
        // SAFETY: the caller's promise.
        let words: [u64; 4] = core::array::from_fn(|i| unsafe { word(key.add(8 * i)) });
        Poly { r: [words[0] & CLAMP[0], words[1] & CLAMP[1]], h: [0; 3], pad: [words[2], words[3]] }
    }

    /// One block of 16 bytes.
    #[inline(always)]
    pub(super) fn block(&mut self, low: u64, high: u64) {
        let [h0, h1, h2] = self.h;
        let (h0, carry) = h0.overflowing_add(low);
        let (h1, carry) = h1.carrying_add_stable(high, carry);
        self.h = [h0, h1, h2 + 1 + u64::from(carry)];
        self.multiply();
    }

    /// The end of a message that is not whole blocks: less than a block, and a one behind it.
    #[inline(always)]
    pub(super) fn last(&mut self, end: u128) {
        let [h0, h1, h2] = self.h;
        let (h0, carry) = h0.overflowing_add(end as u64);
        let (h1, carry) = h1.carrying_add_stable((end >> 64) as u64, carry);
        self.h = [h0, h1, h2 + u64::from(carry)];
        self.multiply();
    }

    /// Multiplies the sum, whose top word is at most 7, by `r`.
    #[inline(always)]
    pub(super) fn multiply(&mut self) {
        let ([r0, r1], [h0, h1, h2]) = (self.r, self.h);
        let wrapped = r1 + (r1 >> 2);
        let low = product(h0, r0) + product(h1, wrapped);
        let middle = product(h0, r1) + product(h1, r0) + u128::from(h2 * wrapped) + (low >> 64);
        self.h = [low as u64, middle as u64, h2 * r0 + (middle >> 64) as u64];
        self.fold();
    }

    /// Takes what lies above 2^130 back, five times: a quarter of `top & !3`, and four quarters more.
    #[inline(always)]
    pub(super) fn fold(&mut self) {
        let [h0, h1, top] = self.h;
        let back = (top & !3) + (top >> 2);
        let (h0, carry) = h0.overflowing_add(back);
        let (h1, carry) = h1.overflowing_add(u64::from(carry));
        self.h = [h0, h1, (top & 3) + u64::from(carry)];
    }

    /// Blocks of 16 bytes that lie one behind the other.
    ///
    /// # Safety
    /// `16 · count` bytes from `from` may be read.
    #[inline(always)]
    pub(super) unsafe fn blocks(&mut self, from: *const u8, count: usize) {
        let mut at = from;
        for _ in 0..count {
            // SAFETY: within `16 · count` bytes.
            unsafe {
                self.block(word(at), word(at.add(8)));
                at = at.add(16);
            }
        }
    }

    /// Any number of bytes, the last block filled with zeros (RFC 8439, 2.8).
    ///
    /// # Safety
    /// `len` bytes from `from` may be read.
    #[inline(always)]
    pub(super) unsafe fn padded(&mut self, from: *const u8, len: usize) {
        let rest = len % 16;
        // SAFETY: the caller's promise.
        unsafe { self.blocks(from, len / 16) };
        if rest != 0 {
            let mut block = [0u8; 16];
            // SAFETY: `rest` bytes lie behind the whole blocks.
            unsafe {
                crate::work::copy_short(from.add(len - rest), block.as_mut_ptr(), rest);
                self.blocks(block.as_ptr(), 1);
            }
        }
    }

    /// The tag: the sum reduced fully, plus the key's second half, modulo 2^128.
    #[inline(always)]
    pub(super) fn tag(&self) -> [u64; 2] {
        let [h0, h1, h2] = self.h;
        // The sum is below 2 · (2^130 - 5): subtract the modulus once, by adding 5 and dropping 2^130, if that does not
        // borrow.
        let (g0, carry) = h0.overflowing_add(5);
        let (g1, carry) = h1.overflowing_add(u64::from(carry));
        let above = (h2 + u64::from(carry)) >> 2;
        let choose = (above != 0) as u64;
        let mask = choose.wrapping_neg();
        let h0 = h0 ^ (mask & (h0 ^ g0));
        let h1 = h1 ^ (mask & (h1 ^ g1));
        let (t0, carry) = h0.overflowing_add(self.pad[0]);
        [t0, h1.wrapping_add(self.pad[1]).wrapping_add(u64::from(carry))]
    }
}

/// Addition with a carry, in the form that compilers turn into one instruction.
trait CarryingAdd: Sized {
    fn carrying_add_stable(self, other: Self, carry: bool) -> (Self, bool);
}

impl CarryingAdd for u64 {
    #[inline(always)]
    fn carrying_add_stable(self, other: u64, carry: bool) -> (u64, bool) {
        let (sum, first) = self.overflowing_add(other);
        let (sum, second) = sum.overflowing_add(u64::from(carry));
        (sum, first | second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8439, 2.5.2; and the sums around the modulus of appendix A.3, vectors 7 to 11.
    #[test]
    fn tags_are_those_of_the_standard() {
        let bytes = |text: &str| hex::decode(text).expect("hexadecimal");
        let r1 = "01000000000000000000000000000000";
        let r2 = "02000000000000000000000000000000";
        let zero = "00000000000000000000000000000000";
        let ones = "ffffffffffffffffffffffffffffffff";
        let cases = [
            (r2.to_owned() + zero, ones.to_owned(), "03000000000000000000000000000000"),
            (r2.to_owned() + ones, "02000000000000000000000000000000".to_owned(), "03000000000000000000000000000000"),
            (
                r1.to_owned() + zero,
                ones.to_owned() + "f0ffffffffffffffffffffffffffffff" + "11000000000000000000000000000000",
                "05000000000000000000000000000000",
            ),
            (
                r1.to_owned() + zero,
                ones.to_owned() + "fbfefefefefefefefefefefefefefefe" + "01010101010101010101010101010101",
                zero,
            ),
            (r2.to_owned() + zero, "fdffffffffffffffffffffffffffffff".to_owned(), "faffffffffffffffffffffffffffffff"),
        ];
        for (key, message, tag) in cases {
            let (key, message) = (bytes(&key), bytes(&message));
            // SAFETY: the key has 32 bytes, the message whole blocks.
            let poly = unsafe {
                let mut poly = Poly::new(key.as_ptr());
                poly.blocks(message.as_ptr(), message.len() / 16);
                poly
            };
            let got: Vec<u8> = poly.tag().into_iter().flat_map(u64::to_le_bytes).collect();
            assert_eq!(hex::encode(got), tag);
        }
    }
}
