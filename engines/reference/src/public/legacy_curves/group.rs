//! What the curves have in common: points as bytes, numbers, and what a group does.

use crypto_bigint::U576;
use zeroize::Zeroizing;

/// A point other than that at infinity: its coordinates, big-endian, as long as a field element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) x: Zeroizing<Vec<u8>>,
    pub(super) y: Zeroizing<Vec<u8>>,
}

/// A curve's group of prime order.
pub(super) trait Group: Send + Sync {
    /// Whether a point is on the curve and a multiple of the generator. Its coordinates may be anything.
    fn contains(&self, point: &Point) -> bool;
    /// The point of the curve with this `x`, by the bit that stands for its `y` (SEC 1, 2.3.4).
    fn decompress(&self, x: &[u8], bit: bool) -> Option<Point>;
    /// A multiple of a point of the group, by a scalar from one to the order less one, big-endian and as long as the order; `None` for
    /// anything else.
    fn multiply(&self, scalar: &[u8], point: &Point) -> Option<Point>;
    /// A sum; `None` for the point at infinity. For public points.
    fn add(&self, left: &Point, right: &Point) -> Option<Point>;
}

/// A number in hexadecimal.
pub(super) fn number(hex: &str) -> U576 {
    U576::from_words(ciphermill_pairs::curves::words(hex))
}

/// A big-endian number of at most 72 bytes.
pub(super) fn from_bytes(bytes: &[u8]) -> Option<U576> {
    let mut padded = Zeroizing::new([0; 72]);
    let at = padded.len().checked_sub(bytes.len())?;
    padded[at..].copy_from_slice(bytes);
    Some(U576::from_be_slice(&*padded))
}

/// The last `len` bytes of a number, big-endian.
pub(super) fn bytes(number: &U576, len: usize) -> Zeroizing<Vec<u8>> {
    let all = Zeroizing::new(number.to_be_bytes());
    let all: &[u8] = all.as_ref();
    Zeroizing::new(all[all.len() - len..].to_vec())
}
