//! The values of an array, which go to the mill where they lie in it, with results that come where they stay.

use std::ops::Range;
use std::time::Instant;

use arrow_array::{Array, ArrayRef, OffsetSizeTrait, make_array};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use ciphermill_contract::Direction;
use ciphermill_contract::columns::{AadColumn, ColumnData, ColumnStatus, Extents, IvColumn, TagColumn};

use ciphermill_memory::prefer_huge_pages;

use super::scratch::Scratch;
use super::stage::{BAD_NUMERAL, frame, overhead};
use super::{ColumnWorker, VALUE_LEN_MAX};
use crate::bad::OnBad;
use crate::error::{Result, TableError};
use crate::spec::{Ff1Options, Method};
use crate::types::{is_wide, width_of};

/// Texts of `ff1` that go to the mill at a time: with their numerals they stay in the cache.
pub(crate) const TEXTS_PER_RUN: usize = 4096;

/// Room for results. Arrow's own buffers, aligned to more than the allocator aligns anyway, would be written with zeros: pages
/// of the system are zero already, and are there only once they are written.
fn room(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    prefer_huge_pages(&mut bytes);
    bytes
}

/// The rule that a value breaks which cannot hold nonce and tag.
const TOO_SHORT: &str = "shorter than what a protected value has beside the data";

/// Where values lie in a buffer.
enum Lie {
    Narrow(OffsetBuffer<i32>),
    Wide(OffsetBuffer<i64>),
    /// All of this width, one behind the other.
    Fixed(usize),
}

impl Lie {
    fn extents(&self) -> Extents<'_> {
        match self {
            Lie::Narrow(offsets) => Extents::Offsets(offsets),
            Lie::Wide(offsets) => Extents::LargeOffsets(offsets),
            Lie::Fixed(width) => Extents::Strided { len: *width, stride: *width },
        }
    }

    /// The rows' values within this part of the buffer.
    fn range(&self, rows: Range<usize>) -> Range<usize> {
        match rows.is_empty() {
            true => 0..0,
            false => self.extents().at(rows.start).0..self.extents().at(rows.end - 1).1,
        }
    }

    /// The same values in a buffer that begins so many bytes later.
    fn moved(self, by: usize) -> Lie {
        match self {
            Lie::Narrow(offsets) if by > 0 => Lie::Narrow(moved(&offsets, by as i32)),
            Lie::Wide(offsets) if by > 0 => Lie::Wide(moved(&offsets, by as i64)),
            lie => lie,
        }
    }

    fn len_at(&self, row: usize) -> usize {
        let (start, end) = self.extents().at(row);
        end - start
    }

    /// Offsets with these lengths; `None` where they do not fit.
    fn of_lens(is_wide: bool, count: usize, lens: impl Iterator<Item = usize>) -> Option<Lie> {
        let mut end = 0i64;
        let ends = lens.map(|len| {
            end = end.saturating_add(len as i64);
            end
        });
        if is_wide {
            let offsets: Vec<i64> = core::iter::once(0).chain(ends).collect();
            return Some(Lie::Wide(OffsetBuffer::new(offsets.into())));
        }
        let mut offsets = Vec::with_capacity(count + 1);
        offsets.push(0i32);
        // What wraps is found by the last end, since lengths are not negative.
        offsets.extend(ends.map(|end| end as i32));
        i32::try_from(end).ok()?;
        Some(Lie::Narrow(OffsetBuffer::new(offsets.into())))
    }

    /// Bytes of `count` values together, from the buffer's start.
    fn byte_len(&self, count: usize) -> usize {
        match self {
            Lie::Narrow(offsets) => offsets[count] as usize,
            Lie::Wide(offsets) => offsets[count] as usize,
            Lie::Fixed(width) => width * count,
        }
    }

    /// The buffers of an array of `data_type`, which may have offsets where all values have one width.
    fn buffers(self, data_type: &DataType, count: usize, bytes: Buffer) -> Option<Vec<Buffer>> {
        let has_offsets =
            matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary);
        Some(match self {
            Lie::Narrow(offsets) => vec![offsets.into_inner().into_inner(), bytes],
            Lie::Wide(offsets) => vec![offsets.into_inner().into_inner(), bytes],
            Lie::Fixed(width) if has_offsets => {
                let lens = core::iter::repeat_n(width, count);
                Lie::of_lens(is_wide(data_type), count, lens)?.buffers(data_type, count, bytes)?
            }
            Lie::Fixed(_) => vec![bytes],
        })
    }
}

fn moved<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, by: O) -> OffsetBuffer<O> {
    OffsetBuffer::new(offsets.iter().map(|offset| *offset - by).collect())
}

/// The values of an array and where they lie; `None` for those that do not lie one behind the other.
fn values_of(array: &ArrayRef) -> Option<(Buffer, Lie)> {
    let data = array.to_data();
    let (buffers, from) = (data.buffers(), data.offset());
    let offsets = buffers.first()?;
    Some(match array.data_type() {
        DataType::Utf8 | DataType::Binary => {
            let offsets = OffsetBuffer::new(arrow_buffer::ScalarBuffer::new(offsets.clone(), from, array.len() + 1));
            (buffers.get(1)?.clone(), Lie::Narrow(offsets))
        }
        DataType::LargeUtf8 | DataType::LargeBinary => {
            let offsets = OffsetBuffer::new(arrow_buffer::ScalarBuffer::new(offsets.clone(), from, array.len() + 1));
            (buffers.get(1)?.clone(), Lie::Wide(offsets))
        }
        other => {
            let width = width_of(other)?;
            (offsets.slice_with_length(from * width, array.len() * width), Lie::Fixed(width))
        }
    })
}

impl ColumnWorker {
    /// What the values of an array become, the first of which is row `first_row`; `None` where they do not lie as the mill
    /// wants them, or one is longer than it may be. `statuses` is room for one an operation.
    pub(crate) fn process_array(
        &mut self,
        array: &ArrayRef,
        output: &DataType,
        first_row: u64,
        statuses: &mut Vec<ColumnStatus>,
    ) -> Result<Option<ArrayRef>> {
        if self.integer.is_some() || matches!(self.method, Method::Ff1(_)) {
            return Ok(None);
        }
        let has_lie = is_offsets(output) || width_of(output).is_some();
        let Some((values, lie)) = values_of(array).filter(|_| has_lie) else { return Ok(None) };
        let (nulls, count) = (array.nulls(), array.len());
        let longest = (0..count).map(|row| lie.len_at(row)).max().unwrap_or(0);
        if longest > VALUE_LEN_MAX {
            return Ok(None);
        }
        self.first_row = first_row;
        let is_null = |row: usize| nulls.is_some_and(|nulls| nulls.is_null(row));
        let results = match self.direction {
            Direction::Encrypt if self.opening.is_some() => self.moved_lie(&lie, count, is_null, output)?,
            Direction::Encrypt => self.sealed_lie(&lie, count, is_null, output)?,
            Direction::Decrypt => self.clear_lie(&lie, count, is_null, output)?,
        };
        statuses.clear();
        statuses.resize(count, ColumnStatus::PENDING);
        for row in (0..count).filter(|row| is_null(*row)) {
            statuses[row] = ColumnStatus::LEFT_OUT;
        }
        let mut bytes = room(results.byte_len(count));
        self.run_lying((&values, &lie), (&mut bytes, &results), statuses)?;
        self.check_statuses(statuses, |row| row)?;
        let buffers = results.buffers(output, count, bytes.into()).ok_or_else(|| self.too_much())?;
        self.array(output, count, nulls, buffers).map(Some)
    }

    /// What texts of `ff1` become, the first of which is row `first_row`, written into a copy of them; `None` where they do not
    /// keep their lengths or are not to be errors.
    pub(crate) fn process_texts(
        &mut self,
        scratch: &mut Scratch,
        array: &ArrayRef,
        output: &DataType,
        first_row: u64,
    ) -> Result<Option<ArrayRef>> {
        self.first_row = first_row;
        let Method::Ff1(options) = &self.method else { return Ok(None) };
        if self.opening.is_some() {
            return Ok(None);
        }
        let keeps_lengths = options.alphabet.is_ascii() && is_offsets(output) && array.data_type() == output;
        if self.bad.action != OnBad::Error || !keeps_lengths {
            return Ok(None);
        }
        let Some((values, lie)) = values_of(array) else { return Ok(None) };
        let (nulls, count) = (array.nulls(), array.len());
        let all = lie.range(0..count);
        let lie = lie.moved(all.start);
        let mut bytes = room(all.len());
        bytes.copy_from_slice(&values[all]);
        for first in (0..count).step_by(TEXTS_PER_RUN) {
            let rows = first..count.min(first + TEXTS_PER_RUN);
            self.run_texts(scratch, options, &mut bytes, &lie, nulls, rows)?;
        }
        let buffers = lie.buffers(output, count, bytes.into()).ok_or_else(|| self.too_much())?;
        self.array(output, count, nulls, buffers).map(Some)
    }

    /// Encrypts or decrypts these rows in place. What lies beneath nulls becomes zeros.
    fn run_texts(
        &self,
        scratch: &mut Scratch,
        options: &Ff1Options,
        bytes: &mut [u8],
        lie: &Lie,
        nulls: Option<&NullBuffer>,
        rows: Range<usize>,
    ) -> Result<()> {
        scratch.clear();
        scratch.statuses.clear();
        for row in rows.clone() {
            let text = &mut bytes[lie.range(row..row + 1)];
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                text.fill(0);
                scratch.statuses.push(ColumnStatus::LEFT_OUT);
                scratch.inputs.end();
                scratch.templates.end();
                scratch.associated.end();
                continue;
            }
            scratch.statuses.push(ColumnStatus::PENDING);
            if options.push_plain(text, &mut scratch.inputs.bytes) {
                scratch.associated.bytes.extend_from_slice(&self.associated_data);
                scratch.inputs.end();
                scratch.templates.end();
                scratch.associated.end();
            } else {
                self.stage_ff1(scratch, options, text, row)?;
            }
        }
        let Scratch { inputs, associated, own_tweaks, statuses, .. } = scratch;
        let aad = match own_tweaks {
            true => AadColumn::Each { bytes: &associated.bytes, extents: associated.extents() },
            false => AadColumn::One(&self.associated_data),
        };
        let data = ColumnData::InPlace { data: &mut inputs.bytes, extents: Extents::LargeOffsets(&inputs.offsets) };
        self.hand_over(data, IvColumn::None, TagColumn::None, aad, statuses)?;
        self.check_statuses(statuses, |at| rows.start + at)?;
        for (at, row) in rows.enumerate().filter(|(_, row)| !nulls.is_some_and(|nulls| nulls.is_null(*row))) {
            let text = &mut bytes[lie.range(row..row + 1)];
            let (template, numerals) = (scratch.templates.at(at), scratch.inputs.at(at));
            let is_good = match template {
                [] => options.write_plain(numerals, text),
                template => {
                    scratch.text.clear();
                    let is_good =
                        options.join(template, numerals, &mut scratch.text) && scratch.text.len() == text.len();
                    if is_good {
                        text.copy_from_slice(&scratch.text);
                    }
                    is_good
                }
            };
            if !is_good {
                return Err(self.damaged(row, BAD_NUMERAL));
            }
        }
        Ok(())
    }

    fn sealed_lie(&self, lie: &Lie, count: usize, is_null: impl Fn(usize) -> bool, output: &DataType) -> Result<Lie> {
        let more = self.overhead();
        match (&self.method, lie) {
            (Method::Token { len }, _) => Ok(Lie::Fixed(usize::from(*len))),
            (_, Lie::Fixed(width)) => Ok(Lie::Fixed(width + more)),
            _ => {
                let lens = (0..count).map(|row| if is_null(row) { 0 } else { lie.len_at(row) + more });
                Lie::of_lens(is_wide(output), count, lens).ok_or_else(|| self.too_much())
            }
        }
    }

    /// Where values go that are sealed now and will be sealed otherwise.
    fn moved_lie(&self, lie: &Lie, count: usize, is_null: impl Fn(usize) -> bool, output: &DataType) -> Result<Lie> {
        let before = self.opening.as_ref().map_or(0, |opening| overhead(&opening.method));
        let too_short = |row: &usize| !is_null(*row) && lie.len_at(*row) < before;
        if let Some(row) = (0..count).find(too_short) {
            return Err(TableError::Damaged { place: self.place(row), rule: TOO_SHORT });
        }
        match &self.method {
            Method::Token { len } => Ok(Lie::Fixed(usize::from(*len))),
            _ => {
                let more = self.overhead();
                let lens = (0..count).map(|row| if is_null(row) { 0 } else { lie.len_at(row) - before + more });
                Lie::of_lens(is_wide(output), count, lens).ok_or_else(|| self.too_much())
            }
        }
    }

    fn clear_lie(&self, lie: &Lie, count: usize, is_null: impl Fn(usize) -> bool, output: &DataType) -> Result<Lie> {
        let more = self.overhead();
        let width = width_of(output);
        let misfit = |row: &usize| {
            let clear = lie.len_at(*row).checked_sub(more);
            !is_null(*row) && (clear.is_none() || width.is_some() && clear != width)
        };
        if let Some(row) = (0..count).find(misfit) {
            let place = self.place(row);
            return Err(match lie.len_at(row) < more {
                true => TableError::Damaged { place, rule: TOO_SHORT },
                false => TableError::NotOfType { place, data_type: output.to_string() },
            });
        }
        match width {
            Some(width) => Ok(Lie::Fixed(width)),
            None => {
                let lens = (0..count).map(|row| if is_null(row) { 0 } else { lie.len_at(row) - more });
                Lie::of_lens(is_wide(output), count, lens).ok_or_else(|| self.too_much())
            }
        }
    }

    fn run_lying(
        &mut self,
        (input, lie): (&[u8], &Lie),
        (output, results): (&mut [u8], &Lie),
        statuses: &mut [ColumnStatus],
    ) -> Result<()> {
        let (inputs, outputs) = (lie.extents(), results.extents());
        if let Some(opening) = &self.opening {
            let started = Instant::now();
            let done = self.hand_over_sealed(opening, None, (input, inputs), (output, outputs), statuses);
            self.counts.in_mill += started.elapsed();
            return done.map(drop);
        }
        let (data, ivs, tags) = match &self.method {
            Method::Token { len } => {
                let tags = TagColumn::Written { bytes: output, len: usize::from(*len) };
                (ColumnData::Input { input, inputs }, IvColumn::None, tags)
            }
            _ => {
                let (ivs, tags) = frame(&self.method);
                (ColumnData::Separate { input, inputs, output, outputs }, ivs, tags)
            }
        };
        self.hand_over(data, ivs, tags, AadColumn::One(&self.associated_data), statuses)?;
        Ok(())
    }

    fn array(
        &self,
        output: &DataType,
        count: usize,
        nulls: Option<&NullBuffer>,
        buffers: Vec<Buffer>,
    ) -> Result<ArrayRef> {
        let data = ArrayData::builder(output.clone()).len(count).nulls(nulls.cloned()).buffers(buffers);
        // Checks texts as well: whoever has the key may have protected other bytes as texts.
        data.align_buffers(true).build().map(make_array).map_err(|source| self.arrow(source))
    }

    fn arrow(&self, source: arrow_schema::ArrowError) -> TableError {
        TableError::Arrow { path: self.file.to_path_buf(), column: self.column.clone(), source }
    }

    fn too_much(&self) -> TableError {
        let rule = "an array with 32-bit offsets would have more than 2 GiB; use a large type or smaller arrays";
        self.arrow(arrow_schema::ArrowError::InvalidArgumentError(rule.to_owned()))
    }
}

fn is_offsets(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary)
}
