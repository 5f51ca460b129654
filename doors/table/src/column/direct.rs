//! The values of an array, which go to the mill where they lie in it, with results that come where they stay.

use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{Buffer, MutableBuffer, NullBuffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use ciphermill_contract::Direction;
use ciphermill_contract::columns::{AadColumn, ColumnData, ColumnStatus, Extents, IvColumn, TagColumn};

use super::stage::frame;
use super::{ColumnWorker, VALUE_LEN_MAX};
use crate::error::{Result, TableError};
use crate::spec::Method;
use crate::types::{is_wide, width_of};

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
            Direction::Encrypt => self.sealed_lie(&lie, count, is_null, output)?,
            Direction::Decrypt => self.clear_lie(&lie, count, is_null, output)?,
        };
        statuses.clear();
        statuses.resize(count, ColumnStatus::PENDING);
        for row in (0..count).filter(|row| is_null(*row)) {
            statuses[row] = ColumnStatus::LEFT_OUT;
        }
        let mut bytes = MutableBuffer::from_len_zeroed(results.byte_len(count));
        self.run_lying((&values, &lie), (&mut bytes, &results), statuses)?;
        self.check_statuses(statuses, |row| row)?;
        let buffers = results.buffers(output, count, bytes.into()).ok_or_else(|| self.too_much())?;
        self.array(output, count, nulls, buffers).map(Some)
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
                true => TableError::Damaged { place, rule: "shorter than what a protected value has beside the data" },
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
        data.build().map(make_array).map_err(|source| self.arrow(source))
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
