//! The check of batches of one operation, for whoever has many of them.

use super::{Batch, CheckedBatch, Rules, check_suite};
use crate::error::{Error, Result};
use crate::limits::ARENA_LEN_MAX;
use crate::op::Op;
use crate::suite::{Direction, Suite};

/// What [`Batch::check`] asks of batches of one operation: the rules of a suite and direction are worked out once.
#[derive(Clone, Debug)]
pub struct LoneCheck {
    rules: Rules,
}

impl LoneCheck {
    /// The check of one suite and direction.
    ///
    /// # Errors
    /// `Refused` when the suite has no such direction or FF1's radix is out of range.
    pub fn new(suite: Suite, direction: Direction) -> Result<LoneCheck> {
        check_suite(suite, direction)?;
        Ok(LoneCheck { rules: Rules::of(suite, direction, 0) })
    }

    /// Checks a batch of one operation. Writes nothing.
    ///
    /// # Errors
    /// As [`Batch::check`].
    #[inline]
    pub fn check<'a>(&mut self, op: &'a mut Op, arena: &'a mut [u8]) -> Result<CheckedBatch<'a>> {
        let rules = &mut self.rules;
        rules.arena_len = arena.len() as u64;
        // What two operations may not do to each other is all that there is beside this.
        if arena.len() > ARENA_LEN_MAX || !rules.holds(op, rules.output(op)) {
            return Err(diagnose(rules, op, arena));
        }
        let input_bytes = u64::from(op.input.len);
        let (suite, direction, ops) = (rules.suite, rules.direction, core::slice::from_mut(op));
        Ok(CheckedBatch { suite, direction, ops, arena, keys: &[], input_bytes })
    }
}

#[cold]
fn diagnose(rules: &Rules, op: &mut Op, arena: &mut [u8]) -> Error {
    let batch = Batch::new(rules.suite, rules.direction, core::slice::from_mut(op), arena);
    match batch.check() {
        Err(error) => error,
        Ok(_) => unreachable!("both ask the same rules"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyId;
    use crate::op::{Aad, Span};
    use crate::status::OpStatus;

    /// Numbers from a seed (xorshift, Marsaglia 2003).
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u32) -> u32 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 32) as u32 % end
        }

        /// Mostly the first.
        fn seldom<T>(&mut self, usual: T, other: T) -> T {
            if self.below(8) == 0 { other } else { usual }
        }

        fn op(&mut self, suite: Suite, direction: Direction) -> Op {
            let key = KeyId { slot: 1, generation: 1 };
            let (some, none) = if suite.needs_key() { (key, KeyId::NONE) } else { (KeyId::NONE, key) };
            let len = self.below(3) * 8 + self.seldom(0, 1);
            let at = self.below(40);
            let tag_len = suite.tag_len(direction).max as u32;
            let mut op = Op::in_place(self.seldom(some, none), Span::new(at, len));
            let iv_len = self.seldom(suite.default_iv_len(), 11);
            op = op.with_iv(&[0; 128][..self.seldom(iv_len, suite.iv_len().max)]);
            op = op.with_tag(self.below(60), self.seldom(tag_len, self.0 as u32 % 20) as u16);
            op.output = if suite.transforms() { self.seldom(at, self.0 as u32 % 60) } else { self.below(60) };
            let rest_len = self.seldom(op.iv_rest_len(), 1);
            op.aad = Aad::new(self.below(60), rest_len as u16 + self.seldom(suite.aad_len().min as u16, 5));
            op.status = self.seldom(OpStatus::Pending, OpStatus::Done);
            op.reserved = u8::from(self.below(50) == 0);
            op
        }
    }

    #[test]
    fn it_says_what_the_check_of_batches_says() {
        let mut random = Random(1);
        // Miri takes a minute for what a processor does in milliseconds.
        let rounds = if cfg!(miri) { 20 } else { 2000 };
        let (mut right, mut wrong) = (0, std::collections::HashSet::new());
        for suite in Suite::all().filter(|suite| suite.tag_len(Direction::Encrypt).max <= 64) {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                let Ok(mut lone) = LoneCheck::new(suite, direction) else {
                    assert!(!suite.has_direction(direction));
                    continue;
                };
                for _ in 0..rounds {
                    let op = random.op(suite, direction);
                    let mut arena = vec![0; 40 + random.below(40) as usize];
                    let (mut own, mut ops) = (op, [op]);
                    let expected = Batch::new(suite, direction, &mut ops, &mut arena).check().map(|batch| {
                        (batch.suite(), batch.direction(), batch.len(), batch.input_bytes(), batch.arena().len())
                    });
                    let said = lone.check(&mut own, &mut arena).map(|batch| {
                        (batch.suite(), batch.direction(), batch.len(), batch.input_bytes(), batch.arena().len())
                    });
                    assert_eq!(said, expected, "{suite} {direction} {op:?}");
                    assert_eq!(own, op);
                    match said {
                        Ok(_) => right += 1,
                        Err(Error::Misuse(misuse)) => drop(wrong.insert(misuse.reason)),
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
        assert!(right > rounds / 2 && wrong.len() > 10, "{right} {wrong:?}");
    }

    #[test]
    fn what_a_suite_cannot_is_refused() {
        let sha256: Suite = "sha256".parse().expect("a suite");
        let refused = LoneCheck::new(sha256, Direction::Decrypt).map(|_| ());
        assert_eq!(refused, Batch::new(sha256, Direction::Decrypt, &mut [], &mut []).check().map(|_| ()));
        assert!(refused.is_err());
    }
}
