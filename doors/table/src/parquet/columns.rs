//! The columns that are protected or restored as strands of a pipeline: each writes its chunks for itself, and the output
//! takes them in their order, copying what lies between them.

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parquet::errors::ParquetError;
use parquet::file::writer::TrackedWrite;

use crate::column::Scratch;
use crate::error::{Result, TableError};
use crate::job::{BATCH_BYTES_MAX, check_cancel};
use crate::pipeline::{self, Asked, Drain, Emit, Fed, Feed, PIECES_AHEAD, Plan, Work};
use crate::table::{Tally, Target, Watch};

use super::chunk::Ways;
use super::copy::{Assembly, MAGIC};
use super::footer::{group_field, group_rows};
use super::pages::Survey;
use super::read::ChunkSource;
use super::thrift::Struct;
use super::write::{Layout, Written};
use super::{ParquetInput, in_column};

/// Bytes of a chunk that are handed over at a time.
const BLOCK_LEN: usize = 1 << 20;

/// Bytes that working on a chunk takes beside its pages: a batch as it is read, as operations, and as it is written.
const WORK_LEN: usize = 2 * BATCH_BYTES_MAX;

/// Chunks that may be ahead of the output, for each thread.
const CHUNKS_AHEAD: usize = 2;

/// A chunk that goes through a worker.
struct Chunk {
    group: usize,
    leaf: usize,
    /// Rows of the file before those of the chunk.
    rows_before: u64,
    source: ChunkSource,
    survey: Survey,
    row_ids: Option<(ChunkSource, Survey)>,
}

/// A column that is protected or restored.
struct Column<'t> {
    leaf: usize,
    target: &'t mut Target,
    layout: &'t Layout,
}

/// Where a column's chunks are found.
struct Place {
    leaf: usize,
    field: usize,
    row_id: Option<usize>,
    name: String,
    dictionary: bool,
}

/// What a column makes of a chunk.
enum Piece {
    Bytes(Vec<u8>),
    /// The chunk as a footer speaks of it, its first page being at `MAGIC.len()`.
    End(Box<Written>, Tally),
}

/// Sends the columns of some row groups through their workers, and copies all others.
pub(super) struct Columns<'r, 'w> {
    pub(super) input: &'r ParquetInput,
    pub(super) targets: &'r mut [Target],
    pub(super) layouts: &'r [Layout],
    pub(super) watch: &'r Watch<'w>,
    pub(super) threads: usize,
}

impl Columns<'_, '_> {
    /// Sends row groups through, the first of which has so many rows before it.
    pub(super) fn run(
        self,
        groups: Range<usize>,
        rows_before: u64,
        assembly: &mut Assembly,
        tally: &mut Tally,
    ) -> Result<()> {
        let Columns { input, targets, layouts, watch, threads } = self;
        let mut columns: Vec<Column<'_>> = Vec::new();
        for (target, layout) in targets.iter_mut().zip(layouts) {
            let missing = || input.error(ParquetError::General("a column is not flat".to_owned()));
            let leaf = input.footer.fields.get(target.index).and_then(|field| field.leaf).ok_or_else(missing)?;
            columns.push(Column { leaf, target, layout });
        }
        columns.sort_by_key(|column| column.leaf);
        let places = columns.iter().map(|Column { leaf, target, layout }| Place {
            leaf: *leaf,
            field: target.index,
            row_id: target.row_id,
            name: target.worker.column().to_owned(),
            dictionary: layout.dictionary,
        });
        let places: Vec<Place> = places.collect();
        let all: Vec<&Struct> = input.footer.groups().skip(groups.start).take(groups.len()).collect();
        let mut feed = Chunks { input, places: &places, groups: &all, first: groups.start, at: 0, rows_before };
        let path = assembly.path().to_owned();
        let mut output = Output {
            input,
            groups: &all,
            first: groups.start,
            at: (0, 0),
            start: 0,
            assembly,
            tally,
            cancel: watch.cancel,
        };
        let work = Sending { input, output: &path };
        let plan = Plan { threads, items_ahead: CHUNKS_AHEAD * threads, cancel: watch.cancel };
        let total = Some(input.footer.rows());
        let mut told = rows_before;
        pipeline::run(&mut feed, &work, &mut columns, &mut output, &plan, &mut |output| {
            if output.tally.rows != told {
                told = output.tally.rows;
                watch.advance(told, total, 0);
            }
        })?;
        output.copy_up_to(groups.len(), 0)?;
        watch.advance(tally.rows, total, 0);
        Ok(())
    }
}

/// Finds the chunks of all columns, row group by row group.
struct Chunks<'a> {
    input: &'a ParquetInput,
    places: &'a [Place],
    groups: &'a [&'a Struct],
    /// The number of the first of the row groups.
    first: usize,
    /// Chunks that were found.
    at: usize,
    rows_before: u64,
}

impl Feed for Chunks<'_> {
    type Item = Chunk;

    fn next(&mut self) -> Result<Option<Fed<Chunk>>> {
        let (group, strand) = (self.at.checked_div(self.places.len()), self.at.checked_rem(self.places.len()));
        let (Some(group), Some(strand)) = (group, strand) else { return Ok(None) };
        let Some(found) = self.groups.get(group) else { return Ok(None) };
        let place = &self.places[strand];
        let problem = |source| self.input.error(in_column(self.first + group, &place.name, &source));
        let (source, survey) = self.input.surveyed(found, place.field).map_err(problem)?;
        let row_ids = place.row_id.map(|field| self.input.surveyed(found, field)).transpose().map_err(problem)?;
        let pages = |survey: &Survey| 2 * (survey.page_len_max + survey.dictionary_len);
        let ids = row_ids.as_ref().map_or(0, |(_, survey)| pages(survey));
        // Indices stay in memory until the dictionary is complete.
        let indices = if place.dictionary { usize::try_from(source.rows * 5 / 2).unwrap_or(usize::MAX) } else { 0 };
        let cost = (WORK_LEN + PIECES_AHEAD * BLOCK_LEN + pages(&survey) + ids).saturating_add(indices);
        let rows_before = self.rows_before;
        if strand + 1 == self.places.len() {
            self.rows_before += group_rows(found);
        }
        self.at += 1;
        let chunk = Chunk { group: self.first + group, leaf: place.leaf, rows_before, source, survey, row_ids };
        Ok(Some(Fed { item: chunk, strands: strand..strand + 1, cost }))
    }
}

/// Sends chunks through their workers.
struct Sending<'a> {
    input: &'a ParquetInput,
    output: &'a Path,
}

impl<'t> Work<Chunk, Column<'t>> for Sending<'_> {
    type Piece = Piece;

    fn work(
        &self,
        chunk: &Chunk,
        column: &mut Column<'t>,
        scratch: &mut Scratch,
        asked: &Asked<'_>,
        emit: Emit<'_, Piece>,
    ) -> Result<()> {
        let Column { target, layout, .. } = column;
        let name = target.worker.column().to_owned();
        let on_write = |source| TableError::parquet(self.output, source);
        let mut tally = Tally::default();
        let mut sink = TrackedWrite::new(Blocks::new(emit));
        let mut ways = Ways {
            scratch,
            rows_before: chunk.rows_before,
            row_ids: chunk.row_ids.clone(),
            rows: None,
            on_batch: &mut |rows, bytes| {
                tally.add_batch(rows, bytes);
                asked.check()
            },
            problem: &|source| self.input.error(in_column(chunk.group, &name, &source)),
            on_write: &on_write,
        };
        // Places in a chunk are counted from the start of a file that has no other; zero would mean that there is none.
        sink.write_all(MAGIC).map_err(|error| on_write(error.into()))?;
        let written = ways.send(&chunk.source, &chunk.survey, target, layout, &mut sink)?;
        let blocks = sink.into_inner().map_err(on_write)?;
        blocks.end(Piece::End(Box::new(written), tally)).map_err(|error| on_write(error.into()))
    }
}

/// What is written to it, in blocks and without the first bytes of a file.
struct Blocks<'e> {
    block: Vec<u8>,
    left_out: usize,
    emit: Emit<'e, Piece>,
}

impl<'e> Blocks<'e> {
    fn new(emit: Emit<'e, Piece>) -> Blocks<'e> {
        Blocks { block: Vec::new(), left_out: MAGIC.len(), emit }
    }

    fn end(mut self, end: Piece) -> io::Result<()> {
        (self.emit)(Piece::Bytes(std::mem::take(&mut self.block)))?;
        (self.emit)(end)
    }
}

impl Write for Blocks<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left_out > 0 {
            let len = bytes.len().min(self.left_out);
            self.left_out -= len;
            return Ok(len);
        }
        if self.block.len() >= BLOCK_LEN {
            (self.emit)(Piece::Bytes(std::mem::take(&mut self.block)))?;
        }
        if self.block.capacity() == 0 {
            self.block.reserve_exact(BLOCK_LEN);
        }
        let len = bytes.len().min(BLOCK_LEN - self.block.len());
        self.block.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The output, and how far it has come.
struct Output<'a> {
    input: &'a ParquetInput,
    groups: &'a [&'a Struct],
    /// The number of the first of the row groups.
    first: usize,
    /// The row group and the chunk in it that comes next.
    at: (usize, usize),
    /// Where the chunk begins that is being written.
    start: usize,
    assembly: &'a mut Assembly,
    tally: &'a mut Tally,
    cancel: &'a AtomicBool,
}

impl Output<'_> {
    /// Copies chunks as they are up to one of a row group.
    fn copy_up_to(&mut self, group: usize, leaf: usize) -> Result<()> {
        while let Some(found) = self.groups.get(self.at.0).filter(|_| self.at.0 <= group) {
            if self.at.1 == 0 {
                self.assembly.begin_group(found);
            }
            let end = if self.at.0 == group { leaf } else { usize::MAX };
            for chunk in found.records(group_field::COLUMNS).take(end).skip(self.at.1) {
                check_cancel(self.cancel)?;
                let copied = self.assembly.copy_chunk(&self.input.file, chunk, self.cancel);
                copied.map_err(|problem| problem.named(self.input, self.assembly.path()))?;
            }
            if self.at.0 == group {
                self.at.1 = leaf;
                return Ok(());
            }
            self.tally.rows += group_rows(found);
            self.at = (self.at.0 + 1, 0);
        }
        Ok(())
    }
}

impl Drain<Chunk, Piece> for Output<'_> {
    fn begin(&mut self, chunk: &Chunk) -> Result<()> {
        self.copy_up_to(chunk.group - self.first, chunk.leaf)?;
        self.start = self.assembly.sink().bytes_written();
        Ok(())
    }

    fn take(&mut self, piece: Piece) -> io::Result<()> {
        match piece {
            Piece::Bytes(bytes) => self.assembly.sink().write_all(&bytes),
            Piece::End(written, tally) => {
                self.assembly.add_moved(*written, self.start as i64 - MAGIC.len() as i64);
                self.tally.add_batches(&tally);
                Ok(())
            }
        }
    }

    fn refused(&self, error: io::Error) -> TableError {
        TableError::parquet(self.assembly.path(), error.into())
    }

    fn end(&mut self, _: Arc<Chunk>) -> Result<()> {
        self.at.1 += 1;
        Ok(())
    }
}
