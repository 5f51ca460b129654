//! The operations that are carried up the ladder, with the reference's answers.

use std::ops::Range;

use ciphermill_contract::{Engine, Suite};
use ciphermill_keys::wrap;

use super::DIRECTION;
use super::definitions::{KNOWN, KnownAnswer};
use super::service::WRAPPING;
use super::wire::{BLOCK, How, Item, KeyName, Outgoing, read_items};
use crate::LabError;
use crate::contest;
use crate::workload::Parameters;

/// Operations, one behind the other, and what they should become.
pub(crate) struct Work {
    pub(crate) ops: Vec<WorkOp>,
    input: Vec<u8>,
    expected: Vec<u8>,
}

/// An operation.
#[derive(Clone, Debug)]
pub(crate) struct WorkOp {
    key: usize,
    iv: [u8; BLOCK],
    /// Where the data lie in the input, and the answer in the expected output.
    at: Range<usize>,
}

/// The keys that all operations are under.
pub(crate) struct Keys {
    /// The key that wraps the others.
    pub(crate) wrapping: [u8; 32],
    /// The keys, wrapped; the last is that of the known answer.
    pub(crate) wrapped: Vec<Vec<u8>>,
}

impl Work {
    /// Operations from these parameters, worked out by `reference`.
    ///
    /// # Errors
    /// As [`Parameters::workload`]; [`LabError::Parameters`] when the suite's IVs are not blocks of 8 bytes.
    pub(crate) fn new(parameters: &Parameters, suite: Suite, reference: &dyn Engine) -> Result<Work, LabError> {
        let workload = parameters.workload(suite, DIRECTION, reference)?;
        let expected = contest::expected(&workload, reference)?;
        let mut work = Work { ops: Vec::new(), input: Vec::new(), expected: Vec::new() };
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
        self.ops[window.clone()].iter().map(|op| op.at.len()).sum()
    }

    /// The operations of a window as they are sent, with that of the known answer behind them if it is wanted.
    pub(crate) fn outgoing<'a>(
        &'a self,
        keys: &'a Keys,
        window: Range<usize>,
        known: Option<&'a KnownAnswer>,
    ) -> impl Iterator<Item = Outgoing<'a>> + Clone {
        let own = self.ops[window].iter().map(|op| Outgoing {
            key: op.key,
            wrapped: &keys.wrapped[op.key],
            iv: &op.iv,
            data: &self.input[op.at.clone()],
        });
        let last = keys.wrapped.len() - 1;
        own.chain(known.map(move |known| Outgoing {
            key: last,
            wrapped: &keys.wrapped[last],
            iv: &known.iv,
            data: &known.ciphertext,
        }))
    }

    /// The first operation of a window whose output differs from the reference's. `body` is what came back from the child,
    /// for `sent` operations.
    pub(crate) fn first_wrong(&self, how: How, body: &[u8], window: &Range<usize>, sent: usize) -> Option<usize> {
        let ops = &self.ops[window.clone()];
        let mut place = 0;
        let mut wrong = None;
        let mut compare = |index: usize, output: Option<&[u8]>| {
            if wrong.is_none() && output != Some(&self.expected[ops[index].at.clone()]) {
                wrong = Some(window.start + index);
            }
        };
        if !how.is_in_place() {
            for (index, op) in ops.iter().enumerate() {
                compare(index, body.get(place..place + op.at.len()));
                place += op.at.len();
            }
            return wrong.or((place != body.len()).then_some(window.end));
        }
        let read = read_items(how, sent, 0, body, |item: Item| {
            if place < ops.len() {
                let is_key = item.key == KeyName::Index(ops[place].key);
                compare(place, body.get(item.data).filter(|_| is_key));
            }
            place += 1;
            Ok(())
        });
        wrong.or((read.is_err() || place < ops.len()).then_some(window.end))
    }
}

impl Keys {
    /// The keys that [`Parameters`] give for a suite, and that of the known answer, wrapped. The suite's keys are `des_keys`
    /// of DES each.
    ///
    /// # Errors
    /// As [`Parameters::workload`]; [`LabError::Engine`] when a key cannot be wrapped.
    pub(crate) fn new(
        parameters: &Parameters,
        suite: Suite,
        des_keys: usize,
        reference: &dyn Engine,
    ) -> Result<Keys, LabError> {
        let refused = |source| LabError::Engine { engine: "key table".to_owned(), source };
        // The keys are made first, and so are the same for any number of operations.
        let workload = parameters.workload(suite, DIRECTION, reference)?;
        let mut wrapping = [0; 32];
        crate::random::Random::new(!parameters.seed).fill(&mut wrapping);
        let wrap = |key: &[u8]| wrap::wrap(&wrapping, WRAPPING, key).map_err(refused);
        let mut wrapped = workload.keys().iter().map(|key| wrap(key)).collect::<Result<Vec<_>, _>>()?;
        wrapped.push(wrap(&KNOWN.key.repeat(des_keys))?);
        Ok(Keys { wrapping, wrapped })
    }
}
