//! One column chunk on its way through a worker, in one of three ways.
//!
//! A chunk whose values all lie in its dictionary keeps its pages when equal values become equal: only the dictionary is
//! processed, and the indices stay. So do its order and the values that no row has. Any other chunk is read and written
//! value by value. The dictionary of a category column under `random` is put before the values, each entry protected
//! by itself, and used when they are restored.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::FileExt;

use arrow_schema::DataType;
use ciphermill_contract::Direction;
use parquet::basic::Compression;
use parquet::column::page::{Page as DecodedPage, PageReader};
use parquet::errors::ParquetError;
use parquet::file::writer::TrackedWrite;

use crate::column::{NULL_ROW, Scratch};
use crate::distinct::Outputs;
use crate::error::{Result, TableError};
use crate::row_id::RowIds;
use crate::spec::Method;
use crate::table::Target;

use super::codec::compress;
use super::footer::{chunk_field, codec_number, meta_field};
use super::guard::{damaged, split};
use super::indices::{CATEGORY_ROWS_MAX, Used, indices_in_order, indices_of, used_by};
use super::levels;
use super::pages::{Page, Pages, Survey, dictionary_header, index_header, index_header_v2, size_i32};
use super::read::{ChunkReader, ChunkSource, Rows, dictionary_values};
use super::taken::Rows as TakenRows;
use super::thrift::{Parsed, Struct, Value};
use super::write::{ChunkWriter, Layout, WriteProblem, Written, push_plain};

/// Bytes that the values of one chunk may have in the output when its input is small: a dictionary can hold a long value
/// once for millions of rows.
pub const EXPANDED_LEN_MAX: u64 = 1 << 30;

/// A chunk that is larger by itself may become this many times as large.
pub(crate) const EXPANSION_MAX: u64 = 8;

/// Rows of a page of indices.
const INDEX_PAGE_ROWS: usize = 64 << 10;

/// A batch that went through: rows and bytes.
pub(crate) type OnBatch<'a> = &'a mut dyn FnMut(usize, usize) -> Result<()>;

/// What all chunks share.
pub(crate) struct Ways<'a> {
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) on_batch: OnBatch<'a>,
    /// Rows of the file before this chunk's.
    pub(crate) rows_before: u64,
    /// The column that values are bound to rows by.
    pub(crate) row_ids: Option<(ChunkSource, Survey)>,
    /// The rows that are taken; all without it.
    pub(crate) rows: Option<TakenRows<'a>>,
    /// Names the place of a problem.
    pub(crate) problem: &'a dyn Fn(ParquetError) -> TableError,
    pub(crate) on_write: &'a dyn Fn(ParquetError) -> TableError,
}

impl Ways<'_> {
    /// Sends a chunk through the target's worker to the end of `sink`.
    pub(crate) fn send<W: Write + Send>(
        &mut self,
        source: &ChunkSource,
        survey: &Survey,
        target: &mut Target,
        layout: &Layout,
        sink: &mut TrackedWrite<W>,
    ) -> Result<Written> {
        let same_levels = source.column.max_def_level() == layout.column.max_def_level();
        if survey.is_all_dictionary() && target.worker.takes_dictionary() && layout.dictionary && same_levels {
            let counts = target.worker.counts.clone();
            match self.remap(source, survey, target, layout) {
                Ok(Some((remapped, None))) => return remapped.write(source, layout, sink).map_err(self.on_write),
                Ok(Some((remapped, Some(indices)))) => {
                    let codec = layout.codec.unwrap_or(source.codec);
                    return remapped.write_indices(&indices, codec, layout, sink).map_err(self.on_write);
                }
                Err(TableError::Interrupted) => return Err(TableError::Interrupted),
                // Which row a value of the dictionary belongs to, and whether to any, shows value by value.
                Ok(None) | Err(_) => {
                    target.worker.counts = counts;
                    target.worker.forget();
                }
            }
        }
        let is_random = *target.worker.method() == Method::Random;
        let restores = target.worker.direction() == Direction::Decrypt;
        let is_bound = self.row_ids.is_some();
        let has_categories = is_random && !is_bound && survey.dictionary.is_some() && survey.by_dictionary == 0;
        if restores
            && has_categories
            && same_levels
            && source.rows <= CATEGORY_ROWS_MAX
            && let Some(written) = self.restore_categories(source, survey, target, layout, sink)?
        {
            return Ok(written);
        }
        let protects_categories =
            !restores && is_random && !is_bound && layout.categories && survey.dictionary.is_some();
        let dictionary = if protects_categories { self.dictionary(source, survey, target, layout)? } else { None };
        self.by_value(source, survey, target, layout, sink, dictionary)
    }

    fn by_value<W: Write + Send>(
        &mut self,
        source: &ChunkSource,
        survey: &Survey,
        target: &mut Target,
        layout: &Layout,
        sink: &mut TrackedWrite<W>,
        dictionary: Option<PlainDictionary>,
    ) -> Result<Written> {
        // A dictionary that has them all says that they repeat.
        let is_noise = target.worker.is_noise() && !survey.is_all_dictionary();
        let codec = layout.codec.unwrap_or(if is_noise { Compression::UNCOMPRESSED } else { source.codec });
        let layout = &Layout { dictionary: layout.dictionary && !is_noise, ..layout.clone() };
        let start = sink.bytes_written();
        let (mut dictionary_len, mut dictionary_stored) = (0, 0);
        if let Some(dictionary) = dictionary {
            (dictionary_len, dictionary_stored) = dictionary.write(codec, sink).map_err(self.on_write)?;
        }
        let (problem, on_write) = (self.problem, self.on_write);
        let len_max = EXPANDED_LEN_MAX.max(source.extent.len.saturating_mul(EXPANSION_MAX));
        let mut writer = ChunkWriter::new(sink, layout, layout.properties(codec, source.rows), len_max);
        let mut reader = ChunkReader::new(source, survey).map_err(problem)?;
        let mut ids = self.row_id_reader().map_err(problem)?;
        let step = reader.step().min(ids.step());
        let mut row = 0u64;
        let (taken, rows_before) = (self.rows, self.rows_before);
        while let Some(rows) = reader.next(step).map_err(problem)? {
            let ids = ids.next(step, rows.len()).map_err(problem)?;
            self.each_piece(&rows, row, ids.as_ref(), target, &mut |target, first| {
                let kept = taken.map(|taken| {
                    let start = (first - rows_before - 1) as usize;
                    (0..target.worker.rows().len()).filter(|at| taken.takes(start + at)).collect::<Vec<usize>>()
                });
                let slots = kept.as_ref().map(|kept| kept.iter().map(|at| target.worker.rows()[*at]).collect());
                let slots = slots.map_or(Cow::Borrowed(target.worker.rows()), Cow::<[u32]>::Owned);
                writer.put(&slots, target.worker.outputs()).map_err(|problem| match problem {
                    WriteProblem::Value(at) => {
                        let at = kept.as_ref().map_or(at, |kept| kept[at]);
                        not_of_type(target, layout, first + at as u64)
                    }
                    WriteProblem::TooLong => {
                        TableError::Expanded { place: target.worker.place_of(first), limit: len_max }
                    }
                    WriteProblem::Parquet(error) => on_write(error),
                })
            })?;
            row += rows.len() as u64;
        }
        self.check_rows(row, source)?;
        let mut written = writer.close(layout).map_err(self.on_write)?;
        if dictionary_stored > 0 {
            add_dictionary(&mut written.chunk, start, dictionary_len, dictionary_stored);
        }
        Ok(written)
    }
}

/// Reads the column that values are bound to rows by, in step with them.
pub(crate) struct RowIdReader {
    reader: Option<(ChunkReader, DataType)>,
}

impl RowIdReader {
    fn new(source: Option<&(ChunkSource, Survey)>) -> Parsed<RowIdReader> {
        let open = |(source, survey): &(ChunkSource, Survey)| -> Parsed<(ChunkReader, DataType)> {
            Ok((ChunkReader::new(source, survey)?, source.data_type.clone()))
        };
        Ok(RowIdReader { reader: source.map(open).transpose()? })
    }

    pub(crate) fn step(&self) -> usize {
        self.reader.as_ref().map_or(usize::MAX, |(reader, _)| reader.step())
    }

    /// The identifiers of the next `count` rows.
    pub(crate) fn next(&mut self, step: usize, count: usize) -> Parsed<Option<IdRows>> {
        let Some((reader, data_type)) = &mut self.reader else { return Ok(None) };
        match reader.next(step)? {
            Some(rows) if rows.len() == count => Ok(Some(IdRows { rows, data_type: data_type.clone() })),
            _ => Err(damaged("the column that identifies rows has fewer of them")),
        }
    }
}

/// Rows of the column that values are bound to rows by.
pub(crate) struct IdRows {
    rows: Rows,
    data_type: DataType,
}

impl IdRows {
    /// The identifiers of so many rows from `start`.
    pub(crate) fn stretch(&self, start: usize, count: usize) -> Option<RowIds<'_>> {
        RowIds::new(self.rows.stretch(start, count), &self.data_type)
    }
}

/// A value that does not fit the restored type.
fn not_of_type(target: &Target, layout: &Layout, row: u64) -> TableError {
    TableError::NotOfType { place: target.worker.place_of(row), data_type: layout.data_type.to_string() }
}

/// A dictionary page before compression.
pub(crate) struct PlainDictionary {
    page: Vec<u8>,
    values: usize,
}

/// The dictionary page of a chunk, as it is.
pub(crate) fn dictionary_of(source: &ChunkSource, values: usize) -> Parsed<PlainDictionary> {
    match source.pages()?.get_next_page()? {
        Some(DecodedPage::DictionaryPage { buf, .. }) => Ok(PlainDictionary { page: buf.to_vec(), values }),
        _ => Err(damaged("the dictionary does not stand first")),
    }
}

impl PlainDictionary {
    /// Values in it.
    pub(crate) fn values(&self) -> usize {
        self.values
    }

    /// Writes a chunk of this dictionary and these indices, without statistics.
    pub(crate) fn write_indices<W: Write>(
        self,
        indices: &[u32],
        codec: Compression,
        layout: &Layout,
        sink: &mut TrackedWrite<W>,
    ) -> Parsed<Written> {
        Remapped { dictionary: self, statistics: None }.write_indices(indices, codec, layout, sink)
    }

    /// Writes the page; gives its lengths with the header, uncompressed and stored.
    fn write<W: Write>(&self, codec: Compression, sink: &mut W) -> Parsed<(usize, usize)> {
        let body = compress(codec, &self.page)?;
        let header = dictionary_header(self.values, self.page.len(), body.len()).to_bytes();
        sink.write_all(&header)?;
        sink.write_all(&body)?;
        Ok((header.len() + self.page.len(), header.len() + body.len()))
    }
}

/// Notes a dictionary page that stands at `start`, before everything that the chunk's metadata speak of.
fn add_dictionary(chunk: &mut Struct, start: usize, uncompressed: usize, stored: usize) {
    let Some(meta) = chunk.record_mut(chunk_field::META) else { return };
    let sum = |meta: &Struct, field, more: usize| meta.int(field).unwrap_or(0) + more as i64;
    let sizes = [(meta_field::UNCOMPRESSED_SIZE, uncompressed), (meta_field::COMPRESSED_SIZE, stored)];
    for (field, more) in sizes {
        meta.set_i64(field, sum(meta, field, more));
    }
    meta.set_i64(meta_field::DICTIONARY_PAGE, start as i64);
    // The statistics of encodings do not know of the page.
    meta.remove(ENCODING_STATISTICS);
}

const ENCODING_STATISTICS: i16 = 13;
const ENCODINGS: i16 = 2;

/// A chunk with another dictionary and the same indices.
struct Remapped {
    dictionary: PlainDictionary,
    statistics: Option<Struct>,
}

impl Ways<'_> {
    /// Runs the worker over the rows of `rows`, a bounded piece at a time.
    fn each_piece(
        &mut self,
        rows: &Rows,
        row: u64,
        ids: Option<&IdRows>,
        target: &mut Target,
        take: &mut dyn FnMut(&mut Target, u64) -> Result<()>,
    ) -> Result<()> {
        let mut start = 0;
        while start < rows.len() {
            let cells = rows.cells(start);
            let first = self.rows_before + row + start as u64 + 1;
            let ids = ids.and_then(|ids| ids.stretch(start, cells.len()));
            if let Some(taken) = self.rows {
                target.worker.skip(&taken.left_out(row as usize + start, cells.len()));
            }
            target.worker.process(self.scratch, &cells, ids.as_ref(), first)?;
            take(target, first)?;
            (self.on_batch)(cells.len(), cells.byte_len())?;
            start += cells.len();
        }
        Ok(())
    }

    pub(crate) fn row_id_reader(&self) -> Parsed<RowIdReader> {
        RowIdReader::new(self.row_ids.as_ref())
    }

    pub(crate) fn check_rows(&self, rows: u64, source: &ChunkSource) -> Result<()> {
        if rows == source.rows {
            return Ok(());
        }
        let problem = format!("{rows} rows, and its footer speaks of {}", source.rows);
        Err((self.problem)(ParquetError::General(problem)))
    }

    /// The dictionary with each value processed by itself; nothing where a page cannot hold it.
    fn dictionary(
        &mut self,
        source: &ChunkSource,
        survey: &Survey,
        target: &mut Target,
        layout: &Layout,
    ) -> Result<Option<PlainDictionary>> {
        let count = survey.dictionary.unwrap_or(0);
        let Some(values) = self.read_dictionary(source, count)? else { return Ok(None) };
        let mut dictionary = Some(PlainDictionary { page: Vec::new(), values: count });
        let mut start = 0;
        while start < values.len() {
            let cells = values.cells(start);
            target.worker.process_dictionary(self.scratch, &cells, self.rows_before + 1)?;
            let (slots, outputs) = (target.worker.rows(), target.worker.outputs());
            for slot in slots {
                let fits =
                    |plain: &mut PlainDictionary| push_plain(layout, outputs.at(*slot as usize), &mut plain.page);
                if !dictionary.as_mut().is_some_and(fits) {
                    dictionary = None;
                }
            }
            (self.on_batch)(cells.len(), cells.byte_len())?;
            start += cells.len();
        }
        Ok(dictionary)
    }

    fn read_dictionary(&self, source: &ChunkSource, count: usize) -> Result<Option<Rows>> {
        let mut pages = source.pages().map_err(self.problem)?;
        let Some(DecodedPage::DictionaryPage { buf, .. }) = pages.get_next_page().map_err(self.problem)? else {
            return Ok(None);
        };
        dictionary_values(&buf, count, &source.column, source.form()).map(Some).map_err(self.problem)
    }

    fn remap(
        &mut self,
        source: &ChunkSource,
        survey: &Survey,
        target: &mut Target,
        layout: &Layout,
    ) -> Result<Option<(Remapped, Option<Vec<u32>>)>> {
        if self.rows.is_some() && source.rows > CATEGORY_ROWS_MAX {
            return Ok(None);
        }
        let Some(dictionary) = self.dictionary(source, survey, target, layout)? else { return Ok(None) };
        let mut used = indices_of(source, dictionary.values).map_err(self.problem)?;
        self.check_rows(used.rows, source)?;
        let mut indices = None;
        if let Some(taken) = self.rows {
            let all = indices_in_order(source, dictionary.values).map_err(self.problem)?;
            let all = all.into_iter().enumerate();
            let kept: Vec<u32> = all.filter(|(row, _)| taken.takes(*row)).map(|(_, index)| index).collect();
            used = used_by(&kept, dictionary.values);
            indices = Some(kept);
        }
        let values = dictionary_values(&dictionary.page, dictionary.values, &layout.column, layout.form());
        let values = values.map_err(self.on_write)?;
        let statistics = if layout.statistics { self.statistics(&values, &used, layout)? } else { None };
        let mut start = 0;
        while start < values.len() {
            let cells = values.cells(start);
            let uses = (0..cells.len()).map(|row| (cells.value(row), used.values[start + row]));
            target.worker.count_uses(0, uses);
            start += cells.len();
        }
        target.worker.count_uses(used.nulls, std::iter::empty());
        Ok(Some((Remapped { dictionary, statistics }, indices)))
    }

    /// Statistics of the values that rows have: those of a chunk that has each of them once.
    fn statistics(&self, values: &Rows, used: &Used, layout: &Layout) -> Result<Option<Struct>> {
        let bare = Layout {
            dictionary: false,
            bloom_filter: false,
            column_index: false,
            offset_index: false,
            ..layout.clone()
        };
        let mut sink = TrackedWrite::new(std::io::sink());
        let properties = bare.properties(Compression::UNCOMPRESSED, 0);
        let mut writer = ChunkWriter::new(&mut sink, &bare, properties, u64::MAX);
        let mut start = 0;
        while start < values.len() {
            let cells = values.cells(start);
            let mut outputs = Outputs::default();
            let mut slots = Vec::new();
            for row in (0..cells.len()).filter(|row| used.values[start + row] > 0) {
                slots.push(outputs.len() as u32);
                outputs.push(cells.value(row));
            }
            if writer.put(&slots, &outputs).is_err() {
                return Ok(None);
            }
            start += cells.len();
        }
        let written = writer.close(&bare).map_err(self.on_write)?;
        let meta = written.chunk.record(chunk_field::META);
        let statistics = meta.and_then(|meta| meta.record(meta_field::STATISTICS)).cloned();
        const NULL_COUNT: i16 = 3;
        Ok(statistics.map(|mut statistics| {
            statistics.set_i64(NULL_COUNT, used.nulls as i64);
            statistics
        }))
    }
}

impl Remapped {
    /// Writes the dictionary and copies the pages of indices.
    fn write<W: Write>(&self, source: &ChunkSource, layout: &Layout, sink: &mut TrackedWrite<W>) -> Parsed<Written> {
        let codec = layout.codec.unwrap_or(source.codec);
        let start = sink.bytes_written();
        let (mut uncompressed, _) = self.dictionary.write(codec, sink)?;
        let mut data_page = None;
        let mut decoded = source.pages()?;
        let mut pages = Pages::new(&source.file, source.extent);
        while let Some(mut page) = pages.next()? {
            if page.dictionary_head().is_some() {
                decoded.get_next_page()?;
                continue;
            }
            let Some((_, version)) = page.data_head() else { continue };
            let mut body = vec![0; usize::try_from(page.body.len).map_err(|_| damaged("a page is too long"))?];
            source.file.read_exact_at(&mut body, page.body.start)?;
            let plain = decoded.get_next_page()?.ok_or_else(|| damaged("a page is missing"))?;
            if codec_number(codec) != codec_number(source.codec) {
                body = recompress(&plain, codec, &mut page)?;
            }
            const STATISTICS: [(i16, i16); 2] = [(5, 5), (8, 8)];
            let (field, statistics) = STATISTICS[usize::from(version == 2)];
            if let Some(head) = page.header.record_mut(field) {
                head.remove(statistics);
            }
            data_page.get_or_insert(sink.bytes_written());
            let header = page.header.to_bytes();
            sink.write_all(&header)?;
            sink.write_all(&body)?;
            uncompressed += header.len() + plain.buffer().len();
        }
        let end = sink.bytes_written();
        Ok(self.written(
            Placed { start, data_page: data_page.unwrap_or(end), end, uncompressed },
            codec,
            source.rows,
            layout,
        ))
    }

    fn written(&self, placed: Placed, codec: Compression, rows: u64, layout: &Layout) -> Written {
        use super::footer::element_field;
        let mut meta = Struct::default();
        meta.set_i32(meta_field::TYPE, layout.element.int(element_field::TYPE).unwrap_or(0) as i32);
        meta.set(ENCODINGS, Value::list_of_i32(&[PLAIN, RLE, RLE_DICTIONARY]));
        meta.set(meta_field::PATH, Value::list_of_text(layout.element.binary(element_field::NAME).unwrap_or_default()));
        meta.set_i32(meta_field::CODEC, codec_number(codec));
        meta.set_i64(meta_field::NUM_VALUES, rows as i64);
        meta.set_i64(meta_field::UNCOMPRESSED_SIZE, placed.uncompressed as i64);
        meta.set_i64(meta_field::COMPRESSED_SIZE, (placed.end - placed.start) as i64);
        meta.set_i64(meta_field::DATA_PAGE, placed.data_page as i64);
        meta.set_i64(meta_field::DICTIONARY_PAGE, placed.start as i64);
        if let Some(statistics) = &self.statistics {
            meta.set(meta_field::STATISTICS, Value::Struct(statistics.clone()));
        }
        let mut chunk = Struct::default();
        chunk.set_i64(chunk_field::FILE_OFFSET, placed.start as i64);
        chunk.set(chunk_field::META, Value::Struct(meta));
        Written { chunk, column_index: None, offset_index: None, bloom_filter: None }
    }
}

/// Where the pages of a chunk are in the output, and how long they are uncompressed.
struct Placed {
    start: usize,
    data_page: usize,
    end: usize,
    uncompressed: usize,
}

const PLAIN: i32 = 0;
const RLE: i32 = 3;
const RLE_DICTIONARY: i32 = 8;

/// The body of a data page under another codec; the header is made to fit.
fn recompress(plain: &DecodedPage, codec: Compression, page: &mut Page) -> Parsed<Vec<u8>> {
    const CRC: i16 = 4;
    const IS_COMPRESSED: i16 = 7;
    let buffer = plain.buffer().as_ref();
    let body = match plain {
        DecodedPage::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
            let (levels, values) = split(buffer, 0, *def_levels_byte_len as usize + *rep_levels_byte_len as usize)?;
            if let Some(head) = page.header.record_mut(8) {
                head.set(IS_COMPRESSED, Value::Bool(true));
            }
            [levels, &compress(codec, values)?].concat()
        }
        _ => compress(codec, buffer)?,
    };
    page.header.set_i32(2, size_i32(buffer.len()));
    page.header.set_i32(3, size_i32(body.len()));
    page.header.remove(CRC);
    Ok(body)
}

impl Ways<'_> {
    /// Restores a category column: the dictionary as it was, and each row by its index. Nothing is written where the
    /// dictionary does not fit.
    fn restore_categories<W: Write + Send>(
        &mut self,
        source: &ChunkSource,
        survey: &Survey,
        target: &mut Target,
        layout: &Layout,
        sink: &mut TrackedWrite<W>,
    ) -> Result<Option<Written>> {
        let Some(mut dictionary) = self.dictionary(source, survey, target, layout)? else { return Ok(None) };
        let counts = target.worker.counts.clone();
        let values = dictionary_values(&dictionary.page, dictionary.values, &layout.column, layout.form());
        let values = values.map_err(self.on_write)?;
        let mut places: HashMap<Vec<u8>, u32> = HashMap::new();
        let mut start = 0;
        while start < values.len() {
            let cells = values.cells(start);
            for row in 0..cells.len() {
                places.entry(cells.value(row).to_vec()).or_insert((start + row) as u32);
            }
            start += cells.len();
        }
        let mut indices: Vec<u32> = Vec::new();
        let mut fits = true;
        let mut reader = ChunkReader::new(source, survey).map_err(self.problem)?;
        let mut row = 0u64;
        let step = reader.step();
        while let Some(rows) = reader.next(step).map_err(self.problem)? {
            self.each_piece(&rows, row, None, target, &mut |target, first| {
                for (at, slot) in target.worker.rows().iter().enumerate() {
                    if *slot == NULL_ROW && layout.column.max_def_level() == 0 {
                        return Err(not_of_type(target, layout, first + at as u64));
                    }
                    let index = if *slot == NULL_ROW {
                        NULL_ROW
                    } else {
                        let value = target.worker.outputs().at(*slot as usize);
                        match places.get(value) {
                            Some(index) => *index,
                            // A value that somebody has put in since.
                            None => {
                                fits &= push_plain(layout, value, &mut dictionary.page);
                                let index = dictionary.values as u32;
                                dictionary.values += 1;
                                places.insert(value.to_vec(), index);
                                index
                            }
                        }
                    };
                    indices.push(index);
                }
                Ok(())
            })?;
            row += rows.len() as u64;
        }
        self.check_rows(row, source)?;
        if !fits {
            target.worker.counts = counts;
            return Ok(None);
        }
        let codec = layout.codec.unwrap_or(source.codec);
        let statistics = match layout.statistics {
            true => self.statistics(&values, &used_by(&indices, dictionary.values), layout)?,
            false => None,
        };
        let remapped = Remapped { dictionary, statistics };
        remapped.write_indices(&indices, codec, layout, sink).map(Some).map_err(self.on_write)
    }
}

impl Remapped {
    /// Writes the dictionary and pages of these indices.
    fn write_indices<W: Write>(
        &self,
        indices: &[u32],
        codec: Compression,
        layout: &Layout,
        sink: &mut TrackedWrite<W>,
    ) -> Parsed<Written> {
        let start = sink.bytes_written();
        let (mut uncompressed, _) = self.dictionary.write(codec, sink)?;
        let data_page = sink.bytes_written();
        let width = levels::width_of(self.dictionary.values);
        for rows in indices.chunks(INDEX_PAGE_ROWS) {
            let mut definition = Vec::new();
            if layout.column.max_def_level() > 0 {
                let present: Vec<u32> = rows.iter().map(|index| u32::from(*index != NULL_ROW)).collect();
                levels::encode(&present, 1, &mut definition);
            }
            let present: Vec<u32> = rows.iter().copied().filter(|index| *index != NULL_ROW).collect();
            let mut values = vec![width];
            levels::encode(&present, width, &mut values);
            let nulls = rows.len() - present.len();
            let (header, body, plain_len) = index_page(rows.len(), nulls, &definition, &values, codec, layout)?;
            let header = header.to_bytes();
            uncompressed += header.len() + plain_len;
            sink.write_all(&header)?;
            sink.write_all(&body)?;
        }
        let end = sink.bytes_written();
        Ok(self.written(Placed { start, data_page, end, uncompressed }, codec, indices.len() as u64, layout))
    }
}

/// A data page of indices: its header, its body, and the body's length before compression.
fn index_page(
    rows: usize,
    nulls: usize,
    definition: &[u8],
    values: &[u8],
    codec: Compression,
    layout: &Layout,
) -> Parsed<(Struct, Vec<u8>, usize)> {
    if layout.version == 2 {
        let body = [definition, &compress(codec, values)?].concat();
        let plain_len = definition.len() + values.len();
        return Ok((index_header_v2(rows, nulls, definition.len(), plain_len, body.len()), body, plain_len));
    }
    let mut plain = Vec::new();
    if layout.column.max_def_level() > 0 {
        plain.extend_from_slice(&size_i32(definition.len()).to_le_bytes());
        plain.extend_from_slice(definition);
    }
    plain.extend_from_slice(values);
    let body = compress(codec, &plain)?;
    Ok((index_header(rows, plain.len(), body.len()), body, plain.len()))
}
