//! KMAC (NIST SP 800-185, 4), composed of cSHAKE as its definition says.

use ciphermill_contract::suite::Kmac;
use ciphermill_contract::{Direction, OpBuffers, OpStatus};
use cshake::CShake;
use digest::{ExtendableOutput, Update};
use zeroize::Zeroizing;

use crate::engine::state;
use crate::tag;

/// The key of KMAC. The customization string comes before it (4.3), so that there is nothing to prepare.
pub(crate) struct KmacKey(Zeroizing<Vec<u8>>);

impl KmacKey {
    /// A key of any length.
    pub(crate) fn new(bytes: &[u8]) -> KmacKey {
        KmacKey(Zeroizing::new(bytes.to_vec()))
    }

    /// Fills `tag`; its length is a part of what is authenticated. `RATE` is that of cSHAKE, in bytes.
    fn fill<const RATE: usize>(&self, customization: &[u8], message: &[u8], tag: &mut [u8]) {
        let mut hasher = CShake::<RATE>::new_with_function_name(b"KMAC", customization);
        // bytepad(encode_string(K), rate): 2.3.2 and 2.3.3.
        let (rate, bits) = (left_encode(RATE as u64), left_encode(8 * self.0.len() as u64));
        let len = rate.len() + bits.len() + self.0.len();
        let zeros = [0; RATE];
        for part in [&rate, &bits, self.0.as_slice(), &zeros[..len.next_multiple_of(RATE) - len]] {
            hasher.update(part);
        }
        hasher.update(message);
        hasher.update(&right_encode(8 * tag.len() as u64));
        hasher.finalize_xof_into(tag);
    }
}

/// A number before which its length stands (2.3.1).
fn left_encode(number: u64) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let zeros = (number.leading_zeros() / 8).min(7) as usize;
    let mut encoded = vec![(bytes.len() - zeros) as u8];
    encoded.extend_from_slice(&bytes[zeros..]);
    encoded
}

/// A number behind which its length stands (2.3.1).
fn right_encode(number: u64) -> Vec<u8> {
    let mut encoded = left_encode(number);
    encoded.rotate_left(1);
    encoded
}

/// Computes or verifies one operation's tag.
pub(crate) fn process(kmac: Kmac, direction: Direction, buffers: &mut OpBuffers<'_>) -> OpStatus {
    let Some(key) = state::<KmacKey>(buffers) else { return OpStatus::EngineFault };
    let mut full = Zeroizing::new(vec![0; buffers.tag.len()]);
    match kmac {
        Kmac::Kmac128 => key.fill::<168>(buffers.aad, buffers.input, &mut full),
        Kmac::Kmac256 => key.fill::<136>(buffers.aad, buffers.input, &mut full),
    }
    tag::settle(direction, &full, buffers.tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SP 800-185, 2.3.1: no leading zeros, but one byte at least.
    #[test]
    fn numbers_are_as_short_as_can_be() {
        assert_eq!(left_encode(0), [1, 0]);
        assert_eq!(left_encode(255), [1, 255]);
        assert_eq!(left_encode(256), [2, 1, 0]);
        assert_eq!(right_encode(0), [0, 1]);
        assert_eq!(right_encode(65_536), [1, 0, 0, 3]);
    }
}
