//! The design: which batch sizes and lengths are measured.

use ciphermill_contract::{Direction, Suite};

/// A batch to measure: operations, and bytes of plaintext of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) ops: usize,
    pub(crate) len: usize,
}

/// Batches of 1 to 1,024 messages of 16 bytes to 16 KB, in every class of sizes
/// ([`ciphermill_router::size_class`]) but those that would not fit a second-level cache.
const SYMMETRIC: [(usize, usize); 26] = [
    (1, 16),
    (1, 64),
    (1, 256),
    (1, 1024),
    (1, 4096),
    (1, 16_384),
    (8, 16),
    (8, 64),
    (8, 256),
    (8, 1024),
    (8, 4096),
    (8, 16_384),
    (32, 16),
    (64, 64),
    (64, 256),
    (64, 1024),
    (32, 4096),
    (32, 16_384),
    (256, 16),
    (256, 64),
    (256, 256),
    (256, 1024),
    (128, 4096),
    (1024, 16),
    (1024, 64),
    (1024, 256),
];

/// Values of 8 to 64 numerals: what format-preserving encryption is used for. Its time grows with their square.
const FPE: [(usize, usize); 9] =
    [(1, 16), (1, 32), (1, 128), (8, 32), (32, 16), (32, 64), (256, 32), (1024, 16), (1024, 64)];

/// Sizes of batches of public-key operations; their lengths are those of the suite.
const PUBLIC_KEY: [usize; 5] = [1, 2, 4, 8, 16];

/// Sizes of batches of random bytes.
const RANDOM: [usize; 4] = [1, 8, 64, 512];

/// What an operation weighs besides its bytes, in bytes; for the order of shapes only.
const OP_WEIGHT: usize = 64;

impl Shape {
    /// What the batch weighs, to tell how much longer it takes than another.
    pub(crate) fn weight(self) -> f64 {
        (self.ops * (OP_WEIGHT + self.len)) as f64
    }
}

/// The shapes for a suite, light ones first: lengths that the suite takes and that are at most `len_max`.
pub(crate) fn shapes(suite: Suite, len_max: usize) -> Vec<Shape> {
    let symmetric: &[(usize, usize)] = match suite {
        _ if suite.is_public_key() => return of_len_zero(&PUBLIC_KEY),
        Suite::Random => return of_len_zero(&RANDOM),
        Suite::Fpe(_) => &FPE,
        _ => &SYMMETRIC,
    };
    let lengths = suite.input_len(Direction::Encrypt);
    let mut shapes: Vec<Shape> = Vec::new();
    for (ops, len) in symmetric.iter().copied() {
        let shape = Shape { ops, len: lengths.round_up(len) };
        if shape.len <= len_max && !shapes.contains(&shape) {
            shapes.push(shape);
        }
    }
    shapes.sort_by(|a, b| a.weight().total_cmp(&b.weight()));
    shapes
}

fn of_len_zero(sizes: &[usize]) -> Vec<Shape> {
    sizes.iter().map(|ops| Shape { ops: *ops, len: 0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_has_shapes_that_it_takes_and_they_begin_with_one_light_operation() {
        for suite in Suite::all() {
            let shapes = shapes(suite, usize::MAX);
            assert!(shapes.len() >= 4, "{suite}");
            assert_eq!(shapes[0].ops, 1, "{suite}");
            assert!(shapes.is_sorted_by(|a, b| a.weight() <= b.weight()), "{suite}");
            if !suite.is_public_key() {
                let lengths = suite.input_len(Direction::Encrypt);
                assert!(shapes.iter().all(|shape| lengths.contains(shape.len)), "{suite}: {shapes:?}");
            }
        }
    }

    #[test]
    fn an_engine_that_takes_short_messages_only_gets_short_ones() {
        let suite: Suite = "aes-128-cbc".parse().expect("a suite");
        let short = shapes(suite, 64);
        assert!(short.iter().all(|shape| shape.len <= 64) && short.len() > 5);
    }
}
