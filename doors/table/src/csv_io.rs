//! CSV tables: every column is text, an empty field is null, and what is not protected keeps every byte.
//!
//! A protected field keeps its quotation marks, so that restoring gives back the bytes that there were.

use std::io::Read;

use arrow_array::BinaryArray;
use arrow_array::builder::BinaryBuilder;
use ciphermill_contract::Direction;

use crate::bad::OnBad;
use crate::column::{ColumnWorker, NULL_ROW, Scratch};
use crate::compress::{CsvInput, CsvOutput};
use crate::csv_scan::{Field, Records, Scanner};
use crate::encode::Cells;
use crate::error::{Place, Result, TableError};
use crate::job::{BATCH_BYTES_MAX, BATCH_ROWS_MAX};
use crate::row_id::RowIds;
use crate::spec::Method;
use crate::table::{Tally, Target, Watch};
use crate::text;

/// Sends all rows through the workers of `targets`, from the scanner to the output, the header first.
///
/// # Errors
/// Everything that can be wrong with a row; `Interrupted`; `Io`.
pub(crate) fn transform<R: Read>(
    scanner: &mut Scanner<CsvInput<R>>,
    header: &[u8],
    delimiter: u8,
    targets: &mut [Target<'_>],
    output: &mut CsvOutput,
    mut rejects: Option<&mut CsvOutput>,
    watch: &Watch<'_>,
) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut scratch = Scratch::default();
    let mut records = Records::default();
    let mut out = Vec::new();
    let (mut skip, mut rejected) = (Vec::new(), Vec::new());
    output.write(header)?;
    if let Some(rejects) = &mut rejects {
        rejects.write(header)?;
    }
    let kept = Kept::of(targets);
    scanner.want(&kept.0);
    let order = in_order(targets, &kept)?;
    loop {
        watch.check()?;
        let first_row = tally.rows + tally.rejected_rows + 1;
        let more = scanner.next_batch(&mut records, BATCH_ROWS_MAX, BATCH_BYTES_MAX)?;
        if !more {
            output.write(&records.text)?;
            return Ok(tally);
        }
        skip.clear();
        if rejects.is_some() {
            mark_rejects(&records, targets, &kept, first_row, &mut skip)?;
        }
        for target in targets.iter_mut() {
            target.worker.skip(&skip);
            let array = read_column(&records, target, kept.slot(target.index), first_row)?;
            let row_ids = target.row_id.map(|index| read_texts(&records, kept.slot(index)));
            let row_ids = row_ids.as_ref().map(RowIds::of_texts);
            target.worker.process(&mut scratch, &Cells::new(&array), row_ids.as_ref(), first_row)?;
        }
        out.clear();
        rejected.clear();
        let rows = Rows { records: &records, targets, order: &order, delimiter };
        let rejected_rows = rows.write(&skip, &mut out, &mut rejected);
        output.write(&out)?;
        if let Some(rejects) = &mut rejects {
            rejects.write(&rejected)?;
        }
        tally.rejected_rows += rejected_rows as u64;
        tally.add(records.rows - rejected_rows, records.text.len());
        watch.advance(tally.rows + tally.rejected_rows, None, scanner.reader().consumed());
    }
}

/// The columns whose fields are needed, ascending: those of the targets, and those that their values are bound to.
struct Kept(Vec<usize>);

impl Kept {
    fn of(targets: &[Target<'_>]) -> Kept {
        let needed = targets.iter().flat_map(|target| [Some(target.index), target.row_id]);
        let mut columns: Vec<usize> = needed.flatten().collect();
        columns.sort_unstable();
        columns.dedup();
        Kept(columns)
    }

    /// The place of a column's field among those that are kept of a row.
    fn slot(&self, column: usize) -> usize {
        self.0.partition_point(|before| *before < column)
    }
}

/// The targets in the order in which their fields lie in a row, each with its column's place among those that are kept.
///
/// # Errors
/// `ColumnTwice`: of two targets at one column, the second would write over what the first has written.
fn in_order(targets: &[Target<'_>], kept: &Kept) -> Result<Vec<(usize, usize)>> {
    let mut order: Vec<(usize, usize)> =
        targets.iter().enumerate().map(|(at, target)| (at, kept.slot(target.index))).collect();
    order.sort_unstable_by_key(|(_, slot)| *slot);
    match order.windows(2).find(|pair| pair[0].1 == pair[1].1) {
        Some(pair) => Err(TableError::ColumnTwice { column: targets[pair[1].0].worker.column().to_owned() }),
        None => Ok(order),
    }
}

/// Whether a target's fields hold encoded bytes instead of text.
fn is_encoded(worker: &ColumnWorker<'_>) -> bool {
    !matches!(worker.method(), Method::Ff1(_))
}

/// One column of a batch as an Arrow array: the texts, or when restoring the bytes that they stand for.
pub(crate) fn read_column(records: &Records, target: &Target<'_>, slot: usize, first_row: u64) -> Result<BinaryArray> {
    let decodes = target.worker.direction() == Direction::Decrypt && is_encoded(&target.worker);
    let mut builder = BinaryBuilder::with_capacity(records.rows, records.rows * 16);
    let (mut scratch, mut decoded) = (Vec::new(), Vec::new());
    for row in 0..records.rows {
        let content = records.content(records.field(row, slot), &mut scratch);
        if content.is_empty() {
            builder.append_null();
        } else if decodes {
            decoded.clear();
            if !text::decode(content, &mut decoded) {
                let place: Place = target.worker.place_of(first_row + row as u64);
                return Err(TableError::Damaged { place, rule: "not base64url without padding (RFC 4648, section 5)" });
            }
            builder.append_value(&decoded);
        } else {
            builder.append_value(content);
        }
    }
    Ok(builder.finish())
}

/// The texts of a column that is not changed.
pub(crate) fn read_texts(records: &Records, slot: usize) -> BinaryArray {
    let mut builder = BinaryBuilder::with_capacity(records.rows, records.rows * 16);
    let mut scratch = Vec::new();
    for row in 0..records.rows {
        let content = records.content(records.field(row, slot), &mut scratch);
        builder.append_option((!content.is_empty()).then_some(content));
    }
    builder.finish()
}

/// Marks the rows of the batch that have a value which an `on-bad=reject` column's method cannot take.
fn mark_rejects(
    records: &Records,
    targets: &mut [Target<'_>],
    kept: &Kept,
    first_row: u64,
    skip: &mut Vec<bool>,
) -> Result<()> {
    skip.resize(records.rows, false);
    for target in targets.iter_mut().filter(|target| target.worker.on_bad() == OnBad::Reject) {
        let array = read_column(records, target, kept.slot(target.index), first_row)?;
        let row_ids = target.row_id.map(|index| read_texts(records, kept.slot(index)));
        let row_ids = row_ids.as_ref().map(RowIds::of_texts);
        target.worker.mark_rejects(&Cells::new(&array), row_ids.as_ref(), first_row, skip);
    }
    Ok(())
}

/// A batch whose values have gone through their workers.
struct Rows<'a, 'm> {
    records: &'a Records,
    targets: &'a [Target<'m>],
    order: &'a [(usize, usize)],
    delimiter: u8,
}

impl Rows<'_, '_> {
    /// Appends the batch's raw text to `out` with the targets' fields replaced, and the rows that `skip` marks to
    /// `rejected` as they are. Returns how many these are.
    fn write(&self, skip: &[bool], out: &mut Vec<u8>, rejected: &mut Vec<u8>) -> usize {
        let text = &self.records.text;
        let (mut copied, mut count) = (0, 0);
        for row in 0..self.records.rows {
            if skip.get(row) == Some(&true) {
                let (start, end) = (self.records.row_start(row), self.records.row_start(row + 1));
                out.extend_from_slice(&text[copied..start]);
                rejected.extend_from_slice(&text[start..end]);
                copied = end;
                count += 1;
                continue;
            }
            for (target, slot) in self.order {
                let target = &self.targets[*target];
                let field = self.records.field(row, *slot);
                out.extend_from_slice(&text[copied..field.span().start]);
                copied = field.span().end;
                let slot = target.worker.rows().get(row).copied().unwrap_or(NULL_ROW);
                // Null before, or null now: either way nothing of the field's own text is left.
                if slot == NULL_ROW {
                    continue;
                }
                let value = target.worker.outputs().at(slot as usize);
                if target.worker.direction() == Direction::Encrypt && is_encoded(&target.worker) {
                    text::encode(value, out);
                } else {
                    write_text(value, field, self.delimiter, out);
                }
            }
        }
        out.extend_from_slice(&text[copied..]);
        count
    }
}

/// Appends a text in the place of a field, whose own quotation marks stay.
fn write_text(value: &[u8], field: &Field, delimiter: u8, out: &mut Vec<u8>) {
    let special = |byte: &u8| *byte == delimiter || matches!(byte, b'\n' | b'\r');
    let needs_marks = !field.quoted && (value.first() == Some(&b'"') || value.iter().any(special));
    if !field.quoted && !needs_marks {
        out.extend_from_slice(value);
        return;
    }
    if needs_marks {
        out.push(b'"');
    }
    for byte in value {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    if needs_marks {
        out.push(b'"');
    }
}
