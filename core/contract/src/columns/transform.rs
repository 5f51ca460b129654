//! Columns that are opened under one suite and key and sealed under another: what is stored is given another key.

use core::ops::Range;

use super::extents::Extents;
use super::form::{AadColumn, ColumnBatch, ColumnData, IvColumn, KeyColumn, TagColumn};
use super::status::ColumnStatus;
use crate::error::{Error, Refusal, Result};
use crate::limits::{COLUMN_OPS_MAX, IV_LEN_MAX};
use crate::status::Reason;
use crate::suite::{Direction, Suite};

/// Where the tags of a half lie in its sealed extents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransformTags {
    /// There are none.
    #[default]
    None,
    /// Directly before the ciphertext.
    Before {
        /// Bytes of each.
        len: usize,
    },
    /// Directly behind it.
    After {
        /// Bytes of each.
        len: usize,
    },
}

impl TransformTags {
    fn len(self) -> usize {
        match self {
            TransformTags::None => 0,
            TransformTags::Before { len } | TransformTags::After { len } => len,
        }
    }
}

/// One half of a transform: the suite that values are opened or sealed under, with the columns that it works on.
#[derive(Clone, Copy)]
pub struct TransformHalf<'a> {
    /// The suite. That of the target may be a MAC: values become tags.
    pub suite: Suite,
    /// The keys.
    pub keys: KeyColumn<'a>,
    /// The IVs. [`IvColumn::Drawn`] is for the target.
    pub ivs: IvColumn<'a>,
    /// The additional data.
    pub aad: AadColumn<'a>,
    /// The tags. Of a MAC, [`TransformTags::After`] with the length of a tag.
    pub tags: TransformTags,
}

impl<'a> TransformHalf<'a> {
    /// A half of this suite, with one key and nothing else yet.
    pub fn new(suite: Suite, key: crate::KeyId) -> TransformHalf<'a> {
        let (ivs, aad, tags) = Default::default();
        TransformHalf { suite, keys: KeyColumn::One(key), ivs, aad, tags }
    }

    /// Bytes that a sealed value has more than its data.
    fn overhead(&self) -> usize {
        let iv = match self.ivs {
            IvColumn::Inline { len } | IvColumn::Drawn { len } => len,
            _ => 0,
        };
        iv + self.tags.len()
    }

    fn key_count(&self) -> Option<usize> {
        match self.keys {
            KeyColumn::Each(keys) => Some(keys.len()),
            _ => None,
        }
    }

    /// The columns of the operations `here`. A counter that goes on is written to `counter`.
    fn part<'s>(&'s self, here: &Range<usize>, counter: &'s mut [u8; IV_LEN_MAX]) -> TransformHalf<'s> {
        let ivs = match self.ivs {
            IvColumn::Each { bytes, len } => IvColumn::Each { bytes: &bytes[here.start * len..here.end * len], len },
            IvColumn::Counter(first) => match counter.get_mut(..first.len()) {
                Some(own) => {
                    own.copy_from_slice(first);
                    if let Some(last) = own.last_chunk_mut::<4>() {
                        // Checked not to wrap, for all operations at once.
                        *last = u32::from_be_bytes(*last).wrapping_add(here.start as u32).to_be_bytes();
                    }
                    IvColumn::Counter(own)
                }
                None => IvColumn::Counter(first),
            },
            shared => shared,
        };
        TransformHalf {
            keys: match self.keys {
                KeyColumn::Each(keys) => KeyColumn::Each(&keys[here.clone()]),
                shared => shared,
            },
            ivs,
            aad: match self.aad {
                AadColumn::Each { bytes, extents } => {
                    let (bytes, extents) = extents.of_part(here, bytes);
                    AadColumn::Each { bytes, extents }
                }
                shared => shared,
            },
            ..*self
        }
    }

    fn tag_column<'t>(&self) -> TagColumn<'t> {
        match self.tags {
            TransformTags::None => TagColumn::None,
            TransformTags::Before { len } => TagColumn::Before { len },
            TransformTags::After { len } => TagColumn::After { len },
        }
    }
}

/// Values that are to be opened under one half and sealed under the other; a mill's `transform` runs it.
///
/// Input and output are buffers of their own. What fails to open is not sealed, and its output stays as it was.
pub struct TransformBatch<'a> {
    /// What values are opened under.
    pub source: TransformHalf<'a>,
    /// What they are sealed under.
    pub target: TransformHalf<'a>,
    /// What is read.
    pub input: &'a [u8],
    /// Where each value lies, sealed.
    pub inputs: Extents<'a>,
    /// What is written.
    pub output: &'a mut [u8],
    /// Where each value goes: as long as it is in clear, with what the target has beside the data; of a MAC its tag.
    pub outputs: Extents<'a>,
    /// One for each value: pending, or left out.
    pub statuses: &'a mut [ColumnStatus],
}

impl<'a> TransformBatch<'a> {
    /// Checks the lengths of columns, extents and values. Writes nothing. What a half by itself may not be is found out
    /// when it is run.
    ///
    /// # Errors
    /// `Misuse` with the first offending value's index and the rule; `Refused` for suites that do not run as columns, or a source
    /// that cannot be opened; `Exhausted` for more than [`COLUMN_OPS_MAX`] values.
    pub fn check(&self) -> Result<()> {
        let count = self.statuses.len();
        for suite in [self.source.suite, self.target.suite] {
            if !suite.takes_columns() {
                return Err(Error::Refused(Refusal::NoColumns(suite)));
            }
        }
        if !self.source.suite.transforms() || !self.source.suite.has_direction(Direction::Decrypt) {
            return Err(Error::Refused(Refusal::NoSuchDirection(self.source.suite, Direction::Decrypt)));
        }
        if count > COLUMN_OPS_MAX {
            return Err(Error::exhausted("COLUMN_OPS_MAX", COLUMN_OPS_MAX, count));
        }
        let misuse = |index: usize, reason| Err(Error::misuse(index, reason));
        if !self.target.suite.transforms() && !matches!(self.outputs, Extents::Strided { len, stride } if len == stride)
        {
            return misuse(0, Reason::ColumnBuffers);
        }
        let ivs_match = |half: &TransformHalf<'_>| match half.ivs {
            IvColumn::Each { bytes, len } => len.checked_mul(count) == Some(bytes.len()),
            IvColumn::Counter(first) => first.last_chunk::<4>().is_none_or(|last| {
                u64::from(u32::from_be_bytes(*last)) + (count as u64).saturating_sub(1) <= u64::from(u32::MAX)
            }),
            _ => true,
        };
        for half in [&self.source, &self.target] {
            let aad_matches = match half.aad {
                AadColumn::Each { extents, .. } => extents.are(count),
                _ => true,
            };
            if half.key_count().is_some_and(|keys| keys != count) || !ivs_match(half) || !aad_matches {
                return misuse(0, Reason::ColumnLength);
            }
        }
        if !self.inputs.are(count) || !self.outputs.are(count) {
            return misuse(0, Reason::ColumnLength);
        }
        self.check_values()
    }

    fn check_values(&self) -> Result<()> {
        let (mut read, mut written) = (0, 0);
        for (index, status) in self.statuses.iter().enumerate() {
            let misuse = |reason| Err(Error::misuse(index, reason));
            if !status.is_pending() && *status != ColumnStatus::LEFT_OUT {
                return misuse(Reason::NotPending);
            }
            let ((start, end), (out, out_end)) = (self.inputs.at(index), self.outputs.at(index));
            if start < read || end < start || out < written || out_end < out {
                return misuse(Reason::ExtentsDescend);
            }
            if end > self.input.len() {
                return misuse(Reason::InputPastEnd);
            }
            if out_end > self.output.len() {
                return misuse(Reason::OutputPastEnd);
            }
            (read, written) = (end, out_end);
            if !status.is_pending() {
                continue;
            }
            let Some(clear) = (end - start).checked_sub(self.source.overhead()) else {
                return misuse(Reason::InputTooShort);
            };
            let wanted =
                if self.target.suite.transforms() { clear + self.target.overhead() } else { self.target.tags.len() };
            if out_end - out != wanted {
                return misuse(Reason::OutputLength);
            }
        }
        Ok(())
    }

    /// Bytes in clear of the value at `index`, which is pending and was checked.
    pub fn clear_len(&self, index: usize) -> usize {
        let (start, end) = self.inputs.at(index);
        (end - start).saturating_sub(self.source.overhead())
    }

    /// The values `here` as columns to be opened into `clear`, where `offsets` say.
    pub fn opening<'s>(
        &'s self,
        here: &Range<usize>,
        clear: &'s mut [u8],
        offsets: &'s [i64],
        statuses: &'s mut [ColumnStatus],
        counter: &'s mut [u8; IV_LEN_MAX],
    ) -> ColumnBatch<'s> {
        let half = self.source.part(here, counter);
        let (input, inputs) = self.inputs.of_part(here, self.input);
        let outputs = Extents::LargeOffsets(offsets);
        let data = ColumnData::Separate { input, inputs, output: clear, outputs };
        let batch = ColumnBatch::new(half.suite, Direction::Decrypt, data, statuses).with_keys(half.keys);
        batch.with_ivs(half.ivs).with_aad(half.aad).with_tags(half.tag_column())
    }

    /// The values `here`, which lie in `clear`, as columns to be sealed into the output.
    pub fn sealing<'s>(
        &'s mut self,
        here: &Range<usize>,
        clear: &'s [u8],
        offsets: &'s [i64],
        statuses: &'s mut [ColumnStatus],
        counter: &'s mut [u8; IV_LEN_MAX],
    ) -> ColumnBatch<'s> {
        let half = self.target.part(here, counter);
        let inputs = Extents::LargeOffsets(offsets);
        let (output, outputs) = match self.outputs {
            Extents::Strided { stride, .. } => (&mut self.output[(here.start * stride)..], self.outputs),
            _ => (&mut *self.output, self.outputs.of_part(here, &[]).1),
        };
        let (data, tags) = match half.suite.transforms() {
            true => (ColumnData::Separate { input: clear, inputs, output, outputs }, half.tag_column()),
            false => {
                let len = half.tags.len();
                let bytes = &mut output[..here.len() * len];
                (ColumnData::Input { input: clear, inputs }, TagColumn::Written { bytes, len })
            }
        };
        let batch = ColumnBatch::new(half.suite, Direction::Encrypt, data, statuses).with_keys(half.keys);
        batch.with_ivs(half.ivs).with_aad(half.aad).with_tags(tags)
    }
}

impl<'a> Extents<'a> {
    /// The extents of the operations `here`, and the buffer that they count in: with a stride, from the first of them on.
    fn of_part<'b>(self, here: &Range<usize>, buffer: &'b [u8]) -> (&'b [u8], Extents<'a>) {
        match self {
            Extents::Offsets(offsets) => (buffer, Extents::Offsets(&offsets[here.start..=here.end])),
            Extents::LargeOffsets(offsets) => (buffer, Extents::LargeOffsets(&offsets[here.start..=here.end])),
            Extents::Strided { stride, .. } => (buffer.get(here.start * stride..).unwrap_or_default(), self),
            Extents::Spans(spans) => (buffer, Extents::Spans(&spans[here.clone()])),
        }
    }
}
