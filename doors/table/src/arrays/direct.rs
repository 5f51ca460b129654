//! Values that go to the mill where they lie in an array, with results that come where they stay.

use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{Buffer, MutableBuffer, NullBuffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use ciphermill::Mill;
use ciphermill_contract::columns::{AadColumn, ColumnData, ColumnStatus, Extents, IvColumn, TagColumn};
use ciphermill_contract::{ColumnBatch, Direction, OpStatus};

use super::parts::{is_wide, width_of};
use crate::column::{NONCE_LEN, TAG_LEN, VALUE_LEN_MAX, suite_of};
use crate::error::{Place, Result, TableError};
use crate::keys::DerivedKey;
use crate::spec::Method;

/// What a column is protected or restored by.
pub(super) struct Direct {
    pub(super) mill: Mill,
    pub(super) key: DerivedKey,
    /// Where the first row of the array at hand is.
    pub(super) place: Place,
    pub(super) method: Method,
    pub(super) direction: Direction,
    pub(super) associated_data: Vec<u8>,
    pub(super) as_text: bool,
    pub(super) statuses: Vec<ColumnStatus>,
}

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

impl Direct {
    /// What the values become; `None` where they do not lie as the mill wants them, or one is longer than it may be.
    pub(super) fn run(&mut self, array: &ArrayRef, output: &DataType) -> Result<Option<ArrayRef>> {
        if self.as_text || matches!(self.method, Method::Ff1(_)) {
            return Ok(None);
        }
        let has_lie = is_offsets(output) || width_of(output).is_some();
        let Some((values, lie)) = values_of(array).filter(|_| has_lie) else { return Ok(None) };
        let (nulls, count) = (array.nulls(), array.len());
        let longest = (0..count).map(|row| lie.len_at(row)).max().unwrap_or(0);
        if longest > VALUE_LEN_MAX {
            return Ok(None);
        }
        let is_null = |row: usize| nulls.is_some_and(|nulls| nulls.is_null(row));
        let results = match self.direction {
            Direction::Encrypt => self.sealed_lie(&lie, count, is_null, output)?,
            Direction::Decrypt => self.clear_lie(&lie, count, is_null, output)?,
        };
        let mut bytes = MutableBuffer::from_len_zeroed(results.byte_len(count));
        self.statuses.clear();
        self.statuses.resize(count, ColumnStatus::PENDING);
        for row in (0..count).filter(|row| is_null(*row)) {
            self.statuses[row] = ColumnStatus::LEFT_OUT;
        }
        self.run_columns((&values, &lie), (&mut bytes, &results))?;
        self.check_statuses()?;
        let buffers = results.buffers(output, count, bytes.into()).ok_or_else(|| self.too_much())?;
        self.array(output, count, nulls, buffers).map(Some)
    }

    /// What a protected value has more than the value in clear.
    fn overhead(&self) -> usize {
        match self.method {
            Method::Random => NONCE_LEN + TAG_LEN,
            Method::Deterministic => TAG_LEN,
            Method::Token { .. } | Method::Ff1(_) => 0,
        }
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
            let place = self.place_of(row);
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

    fn run_columns(&mut self, (input, lie): (&[u8], &Lie), (output, results): (&mut [u8], &Lie)) -> Result<()> {
        let suite = suite_of(&self.method);
        let (inputs, outputs) = (lie.extents(), results.extents());
        let (data, ivs, tags) = match &self.method {
            Method::Token { len } => {
                let tags = TagColumn::Written { bytes: output, len: usize::from(*len) };
                (ColumnData::Input { input, inputs }, IvColumn::None, tags)
            }
            method => {
                let data = ColumnData::Separate { input, inputs, output, outputs };
                match method {
                    Method::Random => (data, IvColumn::Drawn { len: NONCE_LEN }, TagColumn::After { len: TAG_LEN }),
                    _ => (data, IvColumn::None, TagColumn::Before { len: TAG_LEN }),
                }
            }
        };
        let batch = ColumnBatch::new(suite, self.direction, data, &mut self.statuses).with_key(self.key.id());
        let batch = batch.with_ivs(ivs).with_tags(tags);
        let batch = match &self.method {
            Method::Token { .. } => batch,
            _ => batch.with_aad(AadColumn::One(&self.associated_data)),
        };
        let refused = |source| TableError::mill(format!("column `{}` ({suite})", self.place.column), source);
        self.mill.run_columns(batch).map_err(refused).map(|_| ())
    }

    /// # Errors
    /// What became of the first value that did not end well.
    fn check_statuses(&self) -> Result<()> {
        let is_bad = |status: &ColumnStatus| !status.is_done() && *status != ColumnStatus::LEFT_OUT;
        let Some(bad) = self.statuses.iter().position(is_bad) else { return Ok(()) };
        Err(match self.statuses[bad].status() {
            Some(OpStatus::AuthFailed) => TableError::Authentication(self.place_of(bad)),
            status => TableError::Operation { place: self.place_of(bad), status: status.unwrap_or_default() },
        })
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
        TableError::Arrow { path: self.place.file.clone(), column: self.place.column.clone(), source }
    }

    fn too_much(&self) -> TableError {
        let rule = "an array with 32-bit offsets would have more than 2 GiB; use a large type or smaller arrays";
        self.arrow(arrow_schema::ArrowError::InvalidArgumentError(rule.to_owned()))
    }

    fn place_of(&self, row: usize) -> Place {
        Place { row: self.place.row + row as u64, ..self.place.clone() }
    }
}

fn is_offsets(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary)
}
