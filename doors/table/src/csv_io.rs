//! CSV tables: every column is text, an empty field is null, and what is not protected keeps every byte.
//!
//! A protected field keeps its quotation marks, so that restoring gives back the bytes that there were.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

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
use crate::pipeline::{self, Asked, Drain, Emit, Fed, Feed, Plan, Work};
use crate::row_id::RowIds;
use crate::spec::Method;
use crate::table::{Tally, Target, Watch};
use crate::text;

/// Batches that may be ahead of the output, beside one for each thread.
const BATCHES_AHEAD: usize = 2;

/// Strands for each thread, where there are more columns.
const STRANDS: usize = 4;

/// Sends all rows through the workers of `targets`, from the scanner to the output, the header first.
///
/// # Errors
/// Everything that can be wrong with a row; `Interrupted`; `Io`.
pub(crate) fn transform<R: Read + Send>(
    scanner: &mut Scanner<CsvInput<R>>,
    header: &[u8],
    delimiter: u8,
    targets: &mut [Target<'_>],
    output: &mut CsvOutput,
    rejects: Option<&mut CsvOutput>,
    watch: &Watch<'_>,
) -> Result<Tally> {
    output.write(header)?;
    let kept = Kept::of(targets);
    scanner.want(&kept.0);
    let order = in_order(targets, &kept)?;
    let fields = Fields { kept: &kept, order: &order, delimiter };
    if let Some(rejects) = rejects {
        rejects.write(header)?;
        return fields.with_rejects(scanner, targets, output, rejects, watch);
    }
    let spare = Mutex::default();
    let len = targets.len().div_ceil(STRANDS * watch.threads).max(1);
    let mut strands: Vec<&mut [Target<'_>]> = targets.chunks_mut(len).collect();
    let mut feed =
        Batches { scanner, strands: strands.len(), kept: kept.0.len(), next_row: 1, ended: false, spare: &spare };
    let mut drain = Writing {
        fields: &fields,
        output,
        columns: Vec::new(),
        out: Vec::new(),
        tally: Tally::default(),
        consumed: 0,
        spare: &spare,
    };
    let plan = Plan { threads: watch.threads, items_ahead: watch.threads + BATCHES_AHEAD, cancel: watch.cancel };
    let mut told = 0;
    pipeline::run(&mut feed, &Filling(&fields), &mut strands, &mut drain, &plan, &mut |drain| {
        if drain.tally.rows > told {
            told = drain.tally.rows;
            watch.advance(drain.tally.rows, None, drain.consumed);
        }
    })?;
    Ok(drain.tally)
}

/// Records that are used again.
type Spare = Mutex<Vec<Records>>;

/// Reads batches of records.
struct Batches<'a, R: Read> {
    scanner: &'a mut Scanner<CsvInput<R>>,
    strands: usize,
    kept: usize,
    next_row: u64,
    ended: bool,
    spare: &'a Spare,
}

/// A batch of rows, the first of which is this one.
struct Batch {
    records: Records,
    first_row: u64,
    /// Bytes of the file that were read so far.
    consumed: u64,
}

/// Bytes that a kept field takes while its batch is worked on, beside those of the text: its place, and the ends of the
/// values that it is and becomes.
const FIELD_COST: usize = 64;

/// How many times a batch's text is in memory: as it is read, as values, as what they become, and as it is written.
const TEXT_COST: usize = 4;

impl<R: Read + Send> Feed for Batches<'_, R> {
    type Item = Batch;

    fn next(&mut self) -> Result<Option<Fed<Batch>>> {
        if self.ended {
            return Ok(None);
        }
        let mut records = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        self.ended = !self.scanner.next_batch(&mut records, BATCH_ROWS_MAX, BATCH_BYTES_MAX)?;
        let first_row = self.next_row;
        self.next_row += records.rows as u64;
        let strands = if self.ended { 0..0 } else { 0..self.strands };
        let cost = TEXT_COST * records.text.len() + FIELD_COST * records.rows * self.kept;
        let item = Batch { records, first_row, consumed: self.scanner.reader().consumed() };
        Ok(Some(Fed { item, strands, cost }))
    }
}

/// Fills the fields of a column anew.
struct Filling<'a>(&'a Fields<'a>);

impl<'t, 'm> Work<Batch, &'t mut [Target<'m>]> for Filling<'_> {
    type Piece = Texts;

    fn work(
        &self,
        batch: &Batch,
        targets: &mut &'t mut [Target<'m>],
        scratch: &mut Scratch,
        asked: &Asked<'_>,
        emit: Emit<'_, Texts>,
    ) -> Result<()> {
        for target in targets.iter_mut() {
            asked.check()?;
            let texts = self.0.fill(&batch.records, target, scratch, batch.first_row)?;
            // A refusal is that of a job which has failed elsewhere.
            emit(texts).map_err(|_| TableError::Interrupted)?;
        }
        Ok(())
    }
}

/// Writes batches with the fields that were filled.
struct Writing<'a> {
    fields: &'a Fields<'a>,
    output: &'a mut CsvOutput,
    columns: Vec<Texts>,
    out: Vec<u8>,
    tally: Tally,
    consumed: u64,
    spare: &'a Spare,
}

impl Drain<Batch, Texts> for Writing<'_> {
    fn begin(&mut self, _: &Batch) -> Result<()> {
        self.columns.clear();
        Ok(())
    }

    fn take(&mut self, texts: Texts) -> io::Result<()> {
        self.columns.push(texts);
        Ok(())
    }

    fn refused(&self, error: io::Error) -> TableError {
        TableError::io(self.output.path(), "write", error)
    }

    fn end(&mut self, batch: Arc<Batch>) -> Result<()> {
        let records = &batch.records;
        if records.rows == 0 {
            return self.output.write(&records.text);
        }
        self.out.clear();
        self.fields.write(records, &self.columns, &[], &mut self.out, &mut Vec::new());
        self.output.write(&self.out)?;
        self.tally.add(records.rows, records.text.len());
        self.consumed = batch.consumed;
        if let Ok(batch) = Arc::try_unwrap(batch) {
            self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(batch.records);
        }
        Ok(())
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

/// What stands in a column's fields now, row by row.
#[derive(Default)]
struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    /// The text of a row; the rows before it have been asked for, and `start` is where theirs end.
    fn next(&self, row: usize, start: &mut usize) -> &[u8] {
        let end = self.ends.get(row).copied().unwrap_or(*start);
        let text = &self.bytes[*start..end];
        *start = end;
        text
    }
}

/// Which fields of a row are changed, and how they are written.
struct Fields<'a> {
    kept: &'a Kept,
    /// The targets in the order of their fields, each with its column's place among those that are kept.
    order: &'a [(usize, usize)],
    delimiter: u8,
}

impl Fields<'_> {
    /// Sends one column of a batch through its worker.
    fn fill(&self, records: &Records, target: &mut Target<'_>, scratch: &mut Scratch, first_row: u64) -> Result<Texts> {
        let slot = self.kept.slot(target.index);
        let array = read_column(records, target, slot, first_row)?;
        let row_ids = target.row_id.map(|index| read_texts(records, self.kept.slot(index)));
        let row_ids = row_ids.as_ref().map(RowIds::of_texts);
        target.worker.process(scratch, &Cells::new(&array), row_ids.as_ref(), first_row)?;
        let worker = &target.worker;
        let encodes = worker.direction() == Direction::Encrypt && is_encoded(worker);
        let mut texts = Texts { bytes: Vec::new(), ends: Vec::with_capacity(records.rows) };
        for (row, value) in worker.rows().iter().enumerate() {
            // Null before, or null now: either way nothing of the field's own text is left.
            if *value != NULL_ROW {
                let value = worker.outputs().at(*value as usize);
                if encodes {
                    text::encode(value, &mut texts.bytes);
                } else {
                    write_text(value, records.field(row, slot), self.delimiter, &mut texts.bytes);
                }
            }
            texts.ends.push(texts.bytes.len());
        }
        Ok(texts)
    }

    /// Sends all rows through, but those that the targets reject to `rejects`, a batch after the other.
    fn with_rejects<R: Read>(
        &self,
        scanner: &mut Scanner<CsvInput<R>>,
        targets: &mut [Target<'_>],
        output: &mut CsvOutput,
        rejects: &mut CsvOutput,
        watch: &Watch<'_>,
    ) -> Result<Tally> {
        let (mut tally, mut scratch, mut records) = (Tally::default(), Scratch::default(), Records::default());
        let (mut out, mut skip, mut rejected) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            watch.check()?;
            let first_row = tally.rows + tally.rejected_rows + 1;
            if !scanner.next_batch(&mut records, BATCH_ROWS_MAX, BATCH_BYTES_MAX)? {
                output.write(&records.text)?;
                return Ok(tally);
            }
            skip.clear();
            mark_rejects(&records, targets, self.kept, first_row, &mut skip)?;
            let mut columns = Vec::with_capacity(targets.len());
            for target in targets.iter_mut() {
                target.worker.skip(&skip);
                columns.push(self.fill(&records, target, &mut scratch, first_row)?);
            }
            out.clear();
            rejected.clear();
            let rejected_rows = self.write(&records, &columns, &skip, &mut out, &mut rejected);
            output.write(&out)?;
            rejects.write(&rejected)?;
            tally.rejected_rows += rejected_rows as u64;
            tally.add(records.rows - rejected_rows, records.text.len());
            watch.advance(tally.rows + tally.rejected_rows, None, scanner.reader().consumed());
        }
    }

    /// Appends the batch's raw text to `out` with the targets' fields replaced, and the rows that `skip` marks to
    /// `rejected` as they are. Returns how many these are.
    fn write(
        &self,
        records: &Records,
        columns: &[Texts],
        skip: &[bool],
        out: &mut Vec<u8>,
        rejected: &mut Vec<u8>,
    ) -> usize {
        let text = &records.text;
        let (mut copied, mut count) = (0, 0);
        let mut starts = vec![0; columns.len()];
        for row in 0..records.rows {
            let is_rejected = skip.get(row) == Some(&true);
            if is_rejected {
                let (start, end) = (records.row_start(row), records.row_start(row + 1));
                out.extend_from_slice(&text[copied..start]);
                rejected.extend_from_slice(&text[start..end]);
                copied = end;
                count += 1;
            }
            for (target, slot) in self.order {
                let value = columns[*target].next(row, &mut starts[*target]);
                if !is_rejected {
                    let field = records.field(row, *slot).span();
                    out.extend_from_slice(&text[copied..field.start]);
                    copied = field.end;
                    out.extend_from_slice(value);
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
