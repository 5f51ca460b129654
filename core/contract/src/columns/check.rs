//! The check of a columnar batch: constant work for what all operations share, and one pass over offsets and statuses.

use super::checked::{CheckedColumns, ColumnBuffers, DataBuffers, PreparedColumn, TagBuffer};
use super::extents::Extents;
use super::form::{AadColumn, ColumnBatch, ColumnData, IvColumn, KeyColumn, TagColumn};
use super::layout::{ColumnLayout, TagSide};
use super::status::ColumnStatus;
use crate::batch::{Band, check_suite};
use crate::error::{Error, Refusal, Result};
use crate::limits::COLUMN_OPS_MAX;
use crate::status::Reason;
use crate::suite::{Direction, Suite};

impl<'a> ColumnBatch<'a> {
    /// Checks the batch. Writes nothing.
    ///
    /// # Errors
    /// `Misuse` with an offending operation's index and the rule it breaks: of keys and then of extents the first, index 0 for
    /// what concerns all operations;
    /// `Refused` when the suite does not take columns, has no such direction, or FF1's radix is out of range; `Exhausted` for
    /// more than [`COLUMN_OPS_MAX`] operations.
    pub fn check(self) -> Result<CheckedColumns<'a>> {
        if self.draws_ivs() {
            return Err(of_all(Reason::IvDrawn));
        }
        self.check_all()
    }

    /// As [`ColumnBatch::check`]; then has IVs that are to be drawn filled with random bytes by `fill`.
    ///
    /// # Errors
    /// As [`ColumnBatch::check`], and those of `fill`.
    pub fn check_and_draw(self, mut fill: impl FnMut(&mut [u8]) -> Result<()>) -> Result<CheckedColumns<'a>> {
        let draws = self.draws_ivs();
        let mut columns = self.check_all()?;
        if draws {
            columns.draw_ivs(&mut fill)?;
        }
        Ok(columns)
    }

    fn draws_ivs(&self) -> bool {
        matches!(self.ivs, IvColumn::Drawn { .. }) && self.direction == Direction::Encrypt
    }

    fn check_all(self) -> Result<CheckedColumns<'a>> {
        let (suite, direction, count) = (self.suite, self.direction, self.statuses.len());
        if !suite.takes_columns() {
            return Err(Error::Refused(Refusal::NoColumns(suite)));
        }
        check_suite(suite, direction)?;
        if count > COLUMN_OPS_MAX {
            return Err(Error::exhausted("COLUMN_OPS_MAX", COLUMN_OPS_MAX, count));
        }
        check_keys(suite, &self.keys, count)?;
        let iv_inline = check_ivs(suite, &self.ivs, count)?;
        let (tag, tag_len, tag_inline) = check_tags(suite, direction, &self.tags, count)?;
        let before = iv_inline + if tag == TagSide::Before { tag_inline } else { 0 };
        let sealed = Frame { before, more: iv_inline + tag_inline };
        let (buffers, layout) = self.data.lay_out(suite, direction, sealed)?;
        let layout = ColumnLayout { ivs: self.ivs, aad: self.aad, tag, tag_len, direction, ..layout };
        let shape = Shape { suite, direction, buffers: &buffers, layout: &layout };
        let (pending, input_bytes) = shape.check_extents(self.statuses)?;
        let tags = match self.tags {
            TagColumn::Written { bytes, .. } if tag == TagSide::Column => TagBuffer::Written(bytes),
            TagColumn::Expected { bytes, .. } if tag == TagSide::Column => TagBuffer::Expected(bytes),
            _ => TagBuffer::None,
        };
        Ok(CheckedColumns {
            suite,
            direction,
            buffers: ColumnBuffers { data: buffers, tags },
            statuses: self.statuses,
            keys: self.keys,
            prepared: PreparedColumn::None,
            layout,
            pending,
            input_bytes,
        })
    }
}

impl CheckedColumns<'_> {
    /// Puts random IVs where those of pending operations lie.
    fn draw_ivs(&mut self, fill: &mut impl FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        let (layout, len) = (self.layout, self.layout.iv_len());
        let (DataBuffers::Separate(_, output) | DataBuffers::InPlace(output)) = &mut self.buffers.data else {
            return Ok(());
        };
        let pending =
            self.statuses.iter().enumerate().filter(|(_, status)| status.is_pending()).map(|(index, _)| index);
        let total = self.pending * len;
        match layout.span_starts() {
            Some(starts) => put_drawn(output, pending.map(starts), len, total, fill),
            None => put_drawn(output, pending.map(|index| layout.output_extent(index).start), len, total, fill),
        }
    }
}

/// Puts random values of `len` bytes, `total` in all, where they begin.
#[inline(always)]
fn put_drawn(
    output: &mut [u8],
    starts: impl Iterator<Item = usize>,
    len: usize,
    total: usize,
    fill: &mut impl FnMut(&mut [u8]) -> Result<()>,
) -> Result<()> {
    let mut drawn = [0; 4096];
    let (mut waiting, mut left): (usize, &[u8]) = (total, &[]);
    for start in starts {
        if left.is_empty() {
            let here = waiting.min(drawn.len() / len.max(1) * len);
            fill(&mut drawn[..here])?;
            left = &drawn[..here];
            waiting -= here;
        }
        let (iv, rest) = left.split_at(len);
        match iv.as_array::<16>() {
            // Mostly; of a length that is known, a copy is no call.
            Some(iv) => output[start..][..16].copy_from_slice(iv),
            None => output[start..][..len].copy_from_slice(iv),
        }
        left = rest;
    }
    Ok(())
}

/// What lies within an extent beside the data.
#[derive(Clone, Copy, Default)]
struct Frame {
    /// Bytes before the data.
    before: usize,
    /// Bytes before and behind it.
    more: usize,
}

fn of_all(reason: Reason) -> Error {
    Error::misuse(0, reason)
}

fn check_keys(suite: Suite, keys: &KeyColumn<'_>, count: usize) -> Result<()> {
    match keys {
        KeyColumn::None if suite.needs_key() => Err(of_all(Reason::KeyMissing)),
        KeyColumn::None => Ok(()),
        _ if !suite.needs_key() => Err(of_all(Reason::KeyUnexpected)),
        KeyColumn::One(key) if key.is_none() => Err(of_all(Reason::KeyMissing)),
        KeyColumn::One(_) => Ok(()),
        KeyColumn::Each(keys) if keys.len() != count => Err(of_all(Reason::ColumnLength)),
        KeyColumn::Each(keys) => match keys.iter().position(|key| key.is_none()) {
            Some(index) => Err(Error::misuse(index, Reason::KeyMissing)),
            None => Ok(()),
        },
    }
}

/// Bytes of IV in each sealed extent.
fn check_ivs(suite: Suite, ivs: &IvColumn<'_>, count: usize) -> Result<usize> {
    let (len, inline) = match ivs {
        IvColumn::None => (0, 0),
        IvColumn::Each { len, .. } => (*len, 0),
        IvColumn::Counter(first) => (first.len(), 0),
        IvColumn::Inline { len } | IvColumn::Drawn { len } => (*len, *len),
    };
    if !suite.iv_len().contains(len) || inline != 0 && !suite.transforms() {
        return Err(of_all(Reason::IvLength));
    }
    match ivs {
        IvColumn::Each { bytes, len } if len.checked_mul(count) != Some(bytes.len()) => {
            Err(of_all(Reason::ColumnLength))
        }
        IvColumn::Counter(first) => {
            let Some(counter) = first.last_chunk::<4>() else { return Err(of_all(Reason::IvLength)) };
            let last = u64::from(u32::from_be_bytes(*counter)) + (count as u64).saturating_sub(1);
            if last > u64::from(u32::MAX) { Err(of_all(Reason::CounterWraps)) } else { Ok(0) }
        }
        _ => Ok(inline),
    }
}

/// Where tags lie, bytes of each, and how many of these lie in each sealed extent.
fn check_tags(
    suite: Suite,
    direction: Direction,
    tags: &TagColumn<'_>,
    count: usize,
) -> Result<(TagSide, usize, usize)> {
    let (side, len) = match tags {
        TagColumn::None => (TagSide::None, 0),
        TagColumn::Before { len } => (TagSide::Before, *len),
        TagColumn::After { len } => (TagSide::After, *len),
        TagColumn::Written { len, .. } | TagColumn::Expected { len, .. } => (TagSide::Column, *len),
    };
    let inline = matches!(side, TagSide::Before | TagSide::After);
    if !suite.tag_len(direction).contains(len) || inline && !suite.transforms() {
        return Err(of_all(Reason::TagLength));
    }
    let column = match tags {
        TagColumn::Written { bytes, .. } if direction == Direction::Encrypt => bytes.len(),
        TagColumn::Expected { bytes, .. } if direction == Direction::Decrypt => bytes.len(),
        // Tags that are to be written need a column that can be, and what is compared must not be changed.
        TagColumn::Written { .. } | TagColumn::Expected { .. } => return Err(of_all(Reason::TagDirection)),
        _ => return Ok((if len == 0 { TagSide::None } else { side }, len, len)),
    };
    if len.checked_mul(count) != Some(column) {
        return Err(of_all(Reason::ColumnLength));
    }
    // A column of nothing is none.
    Ok((if len == 0 { TagSide::None } else { side }, len, 0))
}

impl<'a> ColumnData<'a> {
    /// The buffers, and where data lie in them.
    fn lay_out(self, suite: Suite, direction: Direction, sealed: Frame) -> Result<(DataBuffers<'a>, ColumnLayout<'a>)> {
        let clear = Frame::default();
        let (read, written) = if direction == Direction::Encrypt { (clear, sealed) } else { (sealed, clear) };
        let layout = |inputs: Extents<'a>, read: Frame, outputs: Extents<'a>, written: Frame| ColumnLayout {
            inputs,
            outputs,
            input_base: 0,
            output_base: 0,
            first: 0,
            input_head: read.before,
            input_more: read.more,
            output_head: written.before,
            ivs: IvColumn::None,
            aad: AadColumn::None,
            tag: TagSide::None,
            tag_len: 0,
            direction,
        };
        match self {
            ColumnData::Separate { input, inputs, output, outputs } if suite.transforms() => {
                Ok((DataBuffers::Separate(input, output), layout(inputs, read, outputs, written)))
            }
            ColumnData::InPlace { data, extents } if suite.transforms() => {
                Ok((DataBuffers::InPlace(data), layout(extents, sealed, extents, sealed)))
            }
            ColumnData::Input { input, inputs } if !suite.transforms() => {
                Ok((DataBuffers::Input(input), layout(inputs, clear, Extents::Strided { len: 0, stride: 0 }, clear)))
            }
            _ => Err(of_all(Reason::ColumnBuffers)),
        }
    }
}

/// Columns whose extents are still to be checked.
struct Shape<'s> {
    suite: Suite,
    direction: Direction,
    buffers: &'s DataBuffers<'s>,
    layout: &'s ColumnLayout<'s>,
}

/// The extents of one buffer.
struct Side<'s> {
    extents: &'s Extents<'s>,
    buffer_len: usize,
    /// What lies beside the data in each.
    more: usize,
}

impl Shape<'_> {
    fn input(&self) -> Side<'_> {
        let buffer_len = match self.buffers {
            DataBuffers::Separate(input, _) | DataBuffers::Input(input) => input.len(),
            DataBuffers::InPlace(data) => data.len(),
        };
        Side { extents: &self.layout.inputs, buffer_len, more: self.layout.input_more }
    }

    /// The output, where that is a buffer of its own.
    fn output(&self, sealed: usize) -> Option<Side<'_>> {
        let DataBuffers::Separate(_, output) = self.buffers else { return None };
        let more = if self.direction == Direction::Encrypt { sealed } else { 0 };
        Some(Side { extents: &self.layout.outputs, buffer_len: output.len(), more })
    }

    /// Bytes beside the data in a sealed extent.
    fn sealed_more(&self) -> usize {
        let tag = if matches!(self.layout.tag, TagSide::Before | TagSide::After) { self.layout.tag_len } else { 0 };
        let iv = matches!(self.layout.ivs, IvColumn::Inline { .. } | IvColumn::Drawn { .. });
        tag + if iv { self.layout.iv_len() } else { 0 }
    }

    /// How many operations are pending, and their bytes of input.
    fn check_extents(&self, statuses: &[ColumnStatus]) -> Result<(usize, u64)> {
        let count = statuses.len();
        let (input, output) = (self.input(), self.output(self.sealed_more()));
        let aad = match self.layout.aad {
            AadColumn::Each { bytes, extents } => Some((extents, bytes.len())),
            _ => None,
        };
        let sides = [Some(input.extents), output.as_ref().map(|side| side.extents), aad.as_ref().map(|aad| &aad.0)];
        if sides.into_iter().flatten().any(|extents| !extents.are(count)) {
            return Err(of_all(Reason::ColumnLength));
        }
        let aad_band = Band::new(self.suite.aad_len());
        let shared = self.layout.shared_aad();
        if shared.is_some_and(|aad| !u32::try_from(aad.len()).is_ok_and(|len| aad_band.holds(len))) {
            return Err(of_all(Reason::AadUnexpected));
        }
        let band = Band::new(self.suite.input_len(self.direction));
        // Tags and IVs are short.
        let more = input.more as u32;
        let extents_hold = || match &output {
            None => input.extents.all_hold(count, input.buffer_len, more, band),
            Some(output) => {
                let of_output = (output.buffer_len, output.more as u32);
                input.extents.all_agree(count, (input.buffer_len, more, band), output.extents, of_output)
            }
        };
        let holds = statuses.iter().fold(true, |all, status| all & status.is_pending())
            && extents_hold()
            && aad.is_none_or(|(extents, len)| extents.all_hold(count, len, 0, aad_band));
        if holds {
            return Ok((count, input.extents.total(count) - (input.more * count) as u64));
        }
        self.check_each(statuses, &input, output.as_ref(), (band, aad_band))
    }

    /// The long way: finds the operation that breaks a rule, or that some are left out.
    #[cold]
    fn check_each(
        &self,
        statuses: &[ColumnStatus],
        input: &Side<'_>,
        output: Option<&Side<'_>>,
        (band, aad_band): (Band, Band),
    ) -> Result<(usize, u64)> {
        let count = statuses.len();
        let (mut pending, mut bytes) = (0, 0);
        for (index, status) in statuses.iter().enumerate() {
            let broken = |reason| Err(Error::misuse(index, reason));
            let aad = match self.layout.aad {
                AadColumn::Each { bytes, extents } => Some((extents, bytes.len())),
                _ => None,
            };
            let places = [
                Some((*input.extents, input.buffer_len, Reason::InputPastEnd)),
                output.map(|side| (*side.extents, side.buffer_len, Reason::OutputPastEnd)),
                aad.map(|(extents, len)| (extents, len, Reason::AadPastEnd)),
            ];
            let broken_place = |(extents, buffer_len, past): (Extents<'_>, usize, Reason)| {
                extents.diagnose(index, count, buffer_len, past)
            };
            if let Some(reason) = places.into_iter().flatten().find_map(broken_place) {
                return broken(reason);
            }
            if *status == ColumnStatus::LEFT_OUT {
                continue;
            }
            if !status.is_pending() {
                return broken(Reason::NotPending);
            }
            let len = input.extents.len_at(index);
            let Some(data_len) = len.checked_sub(input.more) else { return broken(Reason::InputTooShort) };
            let Ok(data_len) = u32::try_from(data_len) else { return broken(Reason::InputTooLong) };
            if !band.holds(data_len) {
                return broken(band.diagnose(data_len));
            }
            if output.is_some_and(|side| side.extents.len_at(index) != data_len as usize + side.more) {
                return broken(Reason::OutputLength);
            }
            if let Some((extents, _)) = aad
                && !u32::try_from(extents.len_at(index)).is_ok_and(|len| aad_band.holds(len))
            {
                return broken(Reason::AadUnexpected);
            }
            pending += 1;
            bytes += u64::from(data_len);
        }
        Ok((pending, bytes))
    }
}
