//! CSV tables: every column is text, an empty field is null, and what is not protected keeps every byte.
//!
//! A protected field keeps its quotation marks, so that restoring gives back the bytes that there were.

use std::convert::Infallible;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arrow_array::BinaryArray;
use arrow_array::builder::BinaryBuilder;
use ciphermill_contract::Direction;

use crate::bad::OnBad;
use crate::column::{ColumnWorker, NULL_ROW, Scratch};
use crate::compress::{CsvInput, CsvOutput};
use crate::csv_blocks::{Blocks, SharedBlock};
use crate::csv_scan::{BLOCK_LEN, Field, Layout, Records};
use crate::encode::Cells;
use crate::error::{Place, Result, TableError};
use crate::pipeline::{self, Asked, Drain, Emit, Fed, Feed, Plan, Stage, Work};
use crate::row_id::RowIds;
use crate::spec::Method;
use crate::table::{Tally, Target, Watch};
use crate::text;

/// How many blocks may be ahead of the output: two for each thread, and some.
pub(crate) fn blocks_ahead(threads: usize) -> usize {
    2 * threads + 2
}

/// Strands for each thread, where there are more columns.
pub(crate) const STRANDS: usize = 4;

/// A CSV table on its way.
pub(crate) struct Transform<'a, 't, R: Read> {
    pub(crate) blocks: &'a mut Blocks<CsvInput<R>>,
    /// What stands before the first row.
    pub(crate) header: &'a [u8],
    pub(crate) targets: &'t mut [Target],
    pub(crate) output: &'a mut CsvOutput,
    /// Where rows go that a target rejects.
    pub(crate) rejects: Option<&'a mut CsvOutput>,
    pub(crate) watch: &'a Watch<'a>,
}

impl<R: Read + Send> Transform<'_, '_, R> {
    /// Sends all rows through the workers of the targets, from the blocks to the output, the header first.
    ///
    /// # Errors
    /// Everything that can be wrong with a row; `Interrupted`; `Io`.
    pub(crate) fn run(self) -> Result<Tally> {
        let Transform { blocks, header, targets, output, mut rejects, watch } = self;
        output.write(header)?;
        if let Some(rejects) = &mut rejects {
            rejects.write(header)?;
        }
        let kept = Kept::of(targets);
        blocks.want(&kept.0);
        let order = in_order(targets, &kept)?;
        let spare = Spare::default();
        // The reader goes to whoever feeds, and what all need to know of it stays.
        let layout = blocks.layout().clone();
        let path = blocks.path().to_owned();
        let fields = Fields { kept: &kept, order: &order, layout: &layout, spare: &spare, rejects: rejects.is_some() };
        let len = targets.len().div_ceil(STRANDS * watch.threads).max(1);
        let strands = targets.chunks_mut(len).enumerate();
        let strands = strands.map(|(at, targets)| Strand { first: at * len, targets, rows_before: 0 });
        let mut strands: Vec<Strand<'_>> = strands.collect();
        let mut feed =
            Feeding { blocks, strands: strands.len(), columns: order.len(), kept: kept.0.len(), spare: &spare };
        let mut drain = Writing { output, rejects, path: &path, tally: Tally::default(), consumed: 0, spare: &spare };
        let plan = Plan { threads: watch.threads, items_ahead: blocks_ahead(watch.threads), cancel: watch.cancel };
        let mut told = 0;
        pipeline::run(&mut feed, &fields, &mut strands, &mut drain, &plan, &mut |drain| {
            let rows = drain.tally.rows + drain.tally.rejected_rows;
            if rows > told {
                told = rows;
                watch.advance(rows, None, drain.consumed);
            }
        })?;
        Ok(drain.tally)
    }
}

/// Bytes of memory that is used again; longer pieces are given back.
pub(crate) const SPARE_LEN_MAX: usize = 4 * BLOCK_LEN;

/// Memory that is used again.
#[derive(Default)]
struct Spare {
    records: Mutex<Vec<Records>>,
    outs: Mutex<Vec<Vec<u8>>>,
}

/// Something that lies there, or something new.
pub(crate) fn taken<T: Default>(from: &Mutex<Vec<T>>) -> T {
    lock(from).pop().unwrap_or_default()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads blocks.
struct Feeding<'a, R: Read> {
    blocks: &'a mut Blocks<CsvInput<R>>,
    strands: usize,
    columns: usize,
    kept: usize,
    spare: &'a Spare,
}

/// A block of rows on its way.
struct Batch {
    block: SharedBlock,
    /// The rows that are rejected.
    skip: Mutex<Vec<bool>>,
    /// What the targets' fields become.
    columns: Vec<OnceLock<Texts>>,
    written: OnceLock<WrittenRows>,
}

/// The rows of a batch as they are written.
#[derive(Default)]
struct WrittenRows {
    out: Vec<u8>,
    rejected: Vec<u8>,
    rejected_rows: usize,
}

/// Bytes that a kept field takes while its batch is worked on, beside those of the text: its place, and the ends of the
/// values that it is and becomes.
const FIELD_COST: usize = 64;

/// How many times a batch's text is in memory: as it is read, as values, as what they become, and as it is written.
const TEXT_COST: usize = 4;

/// About how much memory a block takes that is worked on, of whose rows so many fields are kept.
pub(crate) fn cost_of(block: &SharedBlock, kept: usize) -> usize {
    // A field has a byte at least, that of what ends it.
    TEXT_COST * block.len + FIELD_COST * block.len.min(block.rows_max.saturating_mul(kept))
}

impl<R: Read + Send> Feed for Feeding<'_, R> {
    type Item = Batch;

    fn next(&mut self) -> Result<Option<Fed<Batch>>> {
        let Some(block) = self.blocks.next_shared(taken(&self.spare.records))? else { return Ok(None) };
        let cost = cost_of(&block, self.kept);
        let columns = (0..self.columns).map(|_| OnceLock::new()).collect();
        let item = Batch { block, skip: Mutex::default(), columns, written: OnceLock::new() };
        Ok(Some(Fed { item, strands: 0..self.strands, cost }))
    }
}

/// Some of the targets, and how many rows they have seen.
struct Strand<'t> {
    /// The place of the first among all targets.
    first: usize,
    targets: &'t mut [Target],
    rows_before: u64,
}

impl<'t> Work<Batch, Strand<'t>> for Fields<'_> {
    type Piece = Infallible;

    fn stages(&self) -> &'static [Stage] {
        match self.rejects {
            true => &[Stage::Prepare, Stage::Mark, Stage::Work, Stage::Finish],
            false => &[Stage::Prepare, Stage::Work, Stage::Finish],
        }
    }

    fn prepare(&self, batch: &Batch) -> Result<()> {
        batch.block.scan(self.layout);
        Ok(())
    }

    fn mark(&self, batch: &Batch, strand: &mut Strand<'t>, asked: &Asked<'_>) -> Result<()> {
        let Some(records) = batch.block.records() else { return Ok(()) };
        let mut marks = vec![false; records.rows];
        let rejecting = |target: &&mut Target| target.worker.on_bad() == OnBad::Reject;
        for target in strand.targets.iter_mut().filter(rejecting) {
            asked.check()?;
            self.mark_rejects(records, target, strand.rows_before + 1, &mut marks)?;
        }
        let mut skip = lock(&batch.skip);
        skip.resize(records.rows, false);
        skip.iter_mut().zip(marks).for_each(|(skip, mark)| *skip |= mark);
        Ok(())
    }

    fn work(
        &self,
        batch: &Batch,
        strand: &mut Strand<'t>,
        scratch: &mut Scratch,
        asked: &Asked<'_>,
        _: Emit<'_, Infallible>,
    ) -> Result<()> {
        let Some(records) = batch.block.records() else { return Ok(()) };
        for (target, texts) in strand.targets.iter_mut().zip(&batch.columns[strand.first..]) {
            asked.check()?;
            if self.rejects {
                target.worker.skip(&lock(&batch.skip));
            }
            // Each target has a strand, and a batch comes to it once.
            let _ = texts.set(self.fill(records, target, scratch, strand.rows_before + 1)?);
        }
        strand.rows_before += records.rows as u64;
        Ok(())
    }

    fn finish(&self, batch: &Batch) -> Result<()> {
        let columns: Option<Vec<&Texts>> = batch.columns.iter().map(OnceLock::get).collect();
        let (Some(records), Some(columns)) = (batch.block.records(), columns) else { return Ok(()) };
        let mut written = WrittenRows { out: taken(&self.spare.outs), ..WrittenRows::default() };
        written.out.clear();
        self.write(records, &columns, &lock(&batch.skip), &mut written);
        // Called once.
        let _ = batch.written.set(written);
        Ok(())
    }
}

/// Writes batches with the fields that were filled.
struct Writing<'a> {
    output: &'a mut CsvOutput,
    rejects: Option<&'a mut CsvOutput>,
    path: &'a Path,
    tally: Tally,
    consumed: u64,
    spare: &'a Spare,
}

impl Drain<Batch, Infallible> for Writing<'_> {
    fn begin(&mut self, batch: &Batch) -> Result<()> {
        batch.block.check(self.path, self.tally.rows + self.tally.rejected_rows)
    }

    fn take(&mut self, piece: Infallible) -> io::Result<()> {
        match piece {}
    }

    fn refused(&self, error: io::Error) -> TableError {
        TableError::io(self.output.path(), "write", error)
    }

    fn end(&mut self, batch: Arc<Batch>) -> Result<()> {
        // No stage has failed.
        let (Some(records), Some(written)) = (batch.block.records(), batch.written.get()) else { return Ok(()) };
        self.output.write(&written.out)?;
        if let Some(rejects) = &mut self.rejects {
            rejects.write(&written.rejected)?;
        }
        if records.rows > 0 {
            self.tally.rejected_rows += written.rejected_rows as u64;
            self.tally.add(records.rows - written.rejected_rows, records.text.len());
        }
        self.consumed = batch.block.consumed;
        if let Some(Batch { block, written, .. }) = Arc::into_inner(batch) {
            // What held a long record is not kept.
            let is_usual = |len: usize| len <= SPARE_LEN_MAX;
            let records = block.into_records().filter(|records| is_usual(records.text.capacity()));
            lock(&self.spare.records).extend(records);
            let out = written.into_inner().map(|written| written.out).filter(|out| is_usual(out.capacity()));
            lock(&self.spare.outs).extend(out);
        }
        Ok(())
    }
}

/// The columns whose fields are needed, ascending: those of the targets, and those that their values are bound to.
struct Kept(Vec<usize>);

impl Kept {
    fn of(targets: &[Target]) -> Kept {
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
fn in_order(targets: &[Target], kept: &Kept) -> Result<Vec<(usize, usize)>> {
    let mut order: Vec<(usize, usize)> =
        targets.iter().enumerate().map(|(at, target)| (at, kept.slot(target.index))).collect();
    order.sort_unstable_by_key(|(_, slot)| *slot);
    match order.windows(2).find(|pair| pair[0].1 == pair[1].1) {
        Some(pair) => Err(TableError::ColumnTwice { column: targets[pair[1].0].worker.column().to_owned() }),
        None => Ok(order),
    }
}

/// Whether a target's fields hold encoded bytes instead of text.
fn is_encoded(worker: &ColumnWorker) -> bool {
    !matches!(worker.method(), Method::Ff1(_))
}

/// One column of a batch as an Arrow array: the texts, or when restoring the bytes that they stand for.
pub(crate) fn read_column(records: &Records, target: &Target, slot: usize, first_row: u64) -> Result<BinaryArray> {
    let decodes = target.worker.takes_protected() && is_encoded(&target.worker);
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
    layout: &'a Layout,
    spare: &'a Spare,
    /// Whether rows may be rejected.
    rejects: bool,
}

impl Fields<'_> {
    /// Sends one column of a batch through its worker.
    fn fill(&self, records: &Records, target: &mut Target, scratch: &mut Scratch, first_row: u64) -> Result<Texts> {
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
                    write_text(value, records.field(row, slot), self.layout.dialect.delimiter, &mut texts.bytes);
                }
            }
            texts.ends.push(texts.bytes.len());
        }
        Ok(texts)
    }

    /// Marks the rows that have a value which the target's method cannot take.
    fn mark_rejects(&self, records: &Records, target: &mut Target, first_row: u64, marks: &mut [bool]) -> Result<()> {
        let array = read_column(records, target, self.kept.slot(target.index), first_row)?;
        let row_ids = target.row_id.map(|index| read_texts(records, self.kept.slot(index)));
        let row_ids = row_ids.as_ref().map(RowIds::of_texts);
        target.worker.mark_rejects(&Cells::new(&array), row_ids.as_ref(), first_row, marks);
        Ok(())
    }

    /// Writes a batch's raw text with the targets' fields replaced, and the rows that `skip` marks apart, as they are.
    fn write(&self, records: &Records, columns: &[&Texts], skip: &[bool], written: &mut WrittenRows) {
        let WrittenRows { out, rejected, rejected_rows } = written;
        let text = &records.text;
        let mut copied = 0;
        let mut starts = vec![0; columns.len()];
        for row in 0..records.rows {
            let is_rejected = skip.get(row) == Some(&true);
            if is_rejected {
                let (start, end) = (records.row_start(row), records.row_start(row + 1));
                out.extend_from_slice(&text[copied..start]);
                rejected.extend_from_slice(&text[start..end]);
                copied = end;
                *rejected_rows += 1;
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
