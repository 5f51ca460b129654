//! The operations that are carried up the ladder, with the reference's answers.

use std::ops::Range;

use ciphermill_contract::{Engine, KeyId, Op, Span, Suite};

use super::DIRECTION;
use super::chain::break_chaining;
use super::definitions::{BLOCK, KNOWN};
use super::rungs::Rung;
use crate::LabError;
use crate::contest;
use crate::workload::Parameters;

/// Operations, one behind the other, and what they should become.
pub(crate) struct Work {
    pub(crate) ops: Vec<WorkOp>,
    input: Vec<u8>,
    expected: Vec<u8>,
    /// The number of the known answer's key, behind all others.
    known_key: usize,
}

/// An operation.
#[derive(Clone, Debug)]
pub(crate) struct WorkOp {
    pub(crate) key: usize,
    iv: [u8; BLOCK],
    /// Where the data lie in the input, and the answer in the expected output.
    at: Range<usize>,
}

impl Work {
    /// Operations from these parameters, worked out by `reference`. The known answer's key has the number `known_key`.
    ///
    /// # Errors
    /// As [`Parameters::workload`]; [`LabError::Parameters`] when the suite's IVs are not blocks of 8 bytes.
    pub(crate) fn new(
        parameters: &Parameters,
        suite: Suite,
        known_key: usize,
        reference: &dyn Engine,
    ) -> Result<Work, LabError> {
        let workload = parameters.workload(suite, DIRECTION, reference)?;
        let expected = contest::expected(&workload, reference)?;
        let mut work = Work { ops: Vec::new(), input: Vec::new(), expected: Vec::new(), known_key };
        for (op, done) in workload.ops.iter().zip(&expected.ops) {
            let iv = <[u8; BLOCK]>::try_from(&op.iv[..usize::from(op.iv_len)]);
            let iv = iv.map_err(|_| LabError::Parameters(format!("{suite} has no IV of {BLOCK} bytes")))?;
            let start = work.input.len();
            work.input.extend_from_slice(&workload.arena[op.input.range()]);
            let output = done.output as usize..done.output as usize + done.output_len as usize;
            work.expected.extend_from_slice(&expected.arena[output]);
            work.ops.push(WorkOp { key: op.key.slot as usize, iv, at: start..work.input.len() });
        }
        if work.expected.len() != work.input.len() {
            return Err(LabError::Parameters(format!("{suite} does not keep lengths")));
        }
        Ok(work)
    }

    /// Bytes of data of some operations.
    pub(crate) fn bytes(&self, window: &Range<usize>) -> usize {
        self.place(window).len()
    }

    /// Bytes of the longest operation.
    pub(crate) fn len_max(&self) -> usize {
        self.ops.iter().map(|op| op.at.len()).max().unwrap_or(0)
    }

    /// Where the data of a window lie.
    fn place(&self, window: &Range<usize>) -> Range<usize> {
        match &self.ops[window.clone()] {
            [first, .., last] => first.at.start..last.at.end,
            [one] => one.at.clone(),
            [] => 0..0,
        }
    }

    /// What is sent up a rung for a window: operations whose keys are named by their numbers, and the stretches of data that lie one behind
    /// the other from where the operations count.
    pub(crate) fn batch<'a>(
        &'a self,
        rung: &Rung,
        window: &Range<usize>,
    ) -> (impl Iterator<Item = Op> + use<'a>, [&'a [u8]; 2]) {
        let place = self.place(window);
        let start = place.start;
        let span = move |at: &Range<usize>| Span::new((at.start - start) as u32, at.len() as u32);
        let each = if rung.is_one_op { &[] } else { &self.ops[window.clone()] };
        let each = each.iter().map(move |op| Op::in_place(named(op.key), span(&op.at)).with_iv(&op.iv));
        let one = rung.is_one_op.then(|| Op::in_place(named(0), span(&place)).with_iv(&[0; BLOCK]));
        let behind = Span::new(place.len() as u32, KNOWN.ciphertext.len() as u32);
        let known = rung.known_answer.then(|| Op::in_place(named(self.known_key), behind).with_iv(&KNOWN.iv));
        let data = if rung.known_answer { &KNOWN.ciphertext[..] } else { &[] };
        (each.chain(one).chain(known), [&self.input[place], data])
    }

    /// Looks at what came back for a window. With `verify`, all of it is compared with the reference's.
    ///
    /// # Errors
    /// [`LabError::Service`].
    pub(crate) fn check(
        &self,
        rung: &Rung,
        window: &Range<usize>,
        output: &mut [u8],
        verify: bool,
    ) -> Result<(), LabError> {
        let (output, known) = output.split_at_mut(self.bytes(window).min(output.len()));
        if rung.known_answer && known != KNOWN.plaintext {
            return Err(LabError::Service(format!("rung {}: the known answer came back wrong", rung.id)));
        }
        if rung.is_one_op {
            let parts = self.ops[window.clone()].iter().map(|op| (op.iv, op.at.len()));
            break_chaining(&self.input[self.place(window)], output, parts);
        }
        let wrong = if verify { self.first_wrong(window, output) } else { None };
        wrong.map_or(Ok(()), |op| {
            let (id, name) = (rung.id, rung.name);
            let said = "differently from the reference engine; not timed";
            Err(LabError::Service(format!("rung {id} ({name}) computes operation {op} {said}")))
        })
    }

    /// The first operation of a window whose output differs from the reference's.
    fn first_wrong(&self, window: &Range<usize>, output: &[u8]) -> Option<usize> {
        let start = self.place(window).start;
        let is_wrong =
            |op: &WorkOp| output.get(op.at.start - start..op.at.end - start) != self.expected.get(op.at.clone());
        self.ops[window.clone()].iter().position(is_wrong).map(|index| window.start + index)
    }
}

/// A key's name in operations: its number. It is never "none", whose generation is zero.
fn named(key: usize) -> KeyId {
    KeyId { slot: key as u32, generation: 1 }
}

#[cfg(test)]
mod tests {
    use super::super::rungs::RUNGS;
    use super::*;

    fn work() -> Work {
        let reference = crate::engines::open("reference").expect("always there");
        let parameters = Parameters { ops: 40, keys: 5, len_min: 8, len_max: 80, seed: 3, ..Parameters::default() };
        Work::new(&parameters, crate::engines::suite("des-cbc"), 5, reference.as_ref()).expect("a workload")
    }

    #[test]
    fn what_came_back_wrong_is_named() {
        let work = work();
        let (plain, checked) = (&RUNGS[0], RUNGS.iter().find(|rung| rung.known_answer).expect("there is one"));
        let window = 7..20;
        let mut right = work.expected[work.place(&window)].to_vec();
        work.check(plain, &window, &mut right, true).expect("it is right");
        let known_at = right.len();
        right.extend_from_slice(&KNOWN.plaintext);
        work.check(checked, &window, &mut right, true).expect("it is right");
        for (at, said) in [(0, "operation 7"), (known_at - 1, "operation 19"), (known_at, "known answer")] {
            let mut wrong = right.clone();
            wrong[at] ^= 1;
            let error = work.check(checked, &window, &mut wrong, true).expect_err("must be seen").to_string();
            assert!(error.contains(said), "{error}");
        }
        assert!(work.check(plain, &window, &mut right[..known_at - 1], true).is_err(), "the end is missing");
    }

    #[test]
    fn operations_lie_one_behind_the_other_from_the_start() {
        let work = work();
        for rung in &RUNGS {
            let (ops, [own, known]) = work.batch(rung, &(7..20));
            let ops: Vec<Op> = ops.collect();
            let expected = if rung.is_one_op { 1 } else { 13 } + usize::from(rung.known_answer);
            assert_eq!(ops.len(), expected, "{}", rung.id);
            let end = ops.iter().fold(0, |at, op| {
                assert_eq!(op.input.offset, at);
                at + op.input.len
            });
            assert_eq!(end as usize, own.len() + known.len());
        }
    }
}
