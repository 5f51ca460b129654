//! The output file as it grows: chunks copied or written, then what speaks of them.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use parquet::errors::ParquetError;
use parquet::file::writer::TrackedWrite;
use parquet::schema::types::ColumnDescPtr;
use sha2::Sha256;

use crate::error::TableError;
use crate::job::check_cancel;
use crate::output::OutputFile;

use super::footer::{chunk_field, extent_of, file_field, group_field, meta_field, pointed};
use super::pages::Extent;
use super::thrift::{Struct, Value};
use super::write::{Written, forget_indices};
use super::{ParquetInput, in_column};

pub(crate) const MAGIC: &[u8; 4] = b"PAR1";
const COPY_BUFFER_LEN: usize = 1 << 20;

/// Bytes of an offset index, which is held in memory.
const INDEX_LEN_MAX: u64 = 32 << 20;

/// Why a chunk could not be copied.
pub(crate) enum CopyProblem {
    Read(ParquetError),
    Write(ParquetError),
    Table(TableError),
}

impl CopyProblem {
    /// The same with the place of what was read.
    pub(crate) fn of_column(self, group: usize, column: &ColumnDescPtr) -> CopyProblem {
        match self {
            CopyProblem::Read(source) => CopyProblem::Read(in_column(group, &column.path().string(), &source)),
            other => other,
        }
    }

    pub(crate) fn named(self, input: &ParquetInput, output: &Path) -> TableError {
        match self {
            CopyProblem::Read(source) => TableError::parquet(&input.path, source),
            CopyProblem::Write(source) => TableError::parquet(output, source),
            CopyProblem::Table(error) => error,
        }
    }
}

pub(crate) type Copied<T> = Result<T, CopyProblem>;

pub(crate) fn on_read(error: impl Into<ParquetError>) -> CopyProblem {
    CopyProblem::Read(error.into())
}

pub(crate) fn on_write(error: impl Into<ParquetError>) -> CopyProblem {
    CopyProblem::Write(error.into())
}

/// Where a chunk's indices come from when the file ends.
enum Indices {
    /// From the input; pages have moved by this much.
    Copied { chunk: Struct, shift: i64 },
    /// From what was written; pages have moved by this much since.
    Made { written: Written, shift: i64 },
}

/// An output file that is being written.
pub(crate) struct Assembly {
    sink: TrackedWrite<OutputFile>,
    path: PathBuf,
    groups: Vec<(Struct, Vec<Struct>)>,
    indices: Vec<Vec<Indices>>,
}

impl Assembly {
    pub(crate) fn begin(mut sink: TrackedWrite<OutputFile>) -> Result<Assembly, ParquetError> {
        let path = sink.inner().path().to_owned();
        sink.write_all(MAGIC)?;
        Ok(Assembly { sink, path, groups: Vec::new(), indices: Vec::new() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn sink(&mut self) -> &mut TrackedWrite<OutputFile> {
        &mut self.sink
    }

    /// The hash of what was written so far, and its length, where they are taken.
    pub(crate) fn so_far(&mut self) -> Result<Option<(Sha256, u64)>, ParquetError> {
        self.sink.flush()?;
        Ok(self.sink.inner().so_far())
    }

    /// Begins a row group like this one.
    pub(crate) fn begin_group(&mut self, group: &Struct) {
        let mut group = group.clone();
        group.set_records(group_field::COLUMNS, Vec::new());
        self.groups.push((group, Vec::new()));
        self.indices.push(Vec::new());
    }

    /// Copies a chunk's pages as they are.
    pub(crate) fn copy_chunk(&mut self, file: &File, chunk: &Struct, cancel: &AtomicBool) -> Copied<()> {
        let missing = || on_read(ParquetError::General("a chunk has no place".to_owned()));
        let extent = chunk.record(chunk_field::META).and_then(extent_of).ok_or_else(missing)?;
        let shift = self.sink.bytes_written() as i64 - extent.start.cast_signed();
        self.copy(file, extent, cancel)?;
        let mut moved = chunk.clone();
        if let Some(offset) = moved.int(chunk_field::FILE_OFFSET) {
            // Once the place of a copy of the metadata behind the chunk, which is not copied.
            let is_within = (extent.start..extent.start + extent.len).contains(&offset.cast_unsigned());
            moved.set_i64(chunk_field::FILE_OFFSET, if is_within { offset + shift } else { 0 });
        }
        forget_indices(&mut moved);
        move_pages(&mut moved, shift);
        self.add(moved, Indices::Copied { chunk: chunk.clone(), shift });
        Ok(())
    }

    /// Adds a chunk that was written to [`Assembly::sink`].
    pub(crate) fn add_written(&mut self, written: Written) {
        self.add_moved(written, 0);
    }

    /// Adds a chunk that was written elsewhere, so much before the place that it has here.
    pub(crate) fn add_moved(&mut self, mut written: Written, shift: i64) {
        let mut chunk = std::mem::take(&mut written.chunk);
        if let Some(offset) = chunk.int(chunk_field::FILE_OFFSET).filter(|offset| *offset > 0) {
            chunk.set_i64(chunk_field::FILE_OFFSET, offset.saturating_add(shift));
        }
        move_pages(&mut chunk, shift);
        self.add(chunk, Indices::Made { written, shift });
    }

    fn add(&mut self, chunk: Struct, indices: Indices) {
        // `begin_group` comes before the chunks of a group.
        if let (Some((_, chunks)), Some(all)) = (self.groups.last_mut(), self.indices.last_mut()) {
            chunks.push(chunk);
            all.push(indices);
        }
    }

    fn copy(&mut self, file: &File, extent: Extent, cancel: &AtomicBool) -> Copied<()> {
        let mut buffer = vec![0; COPY_BUFFER_LEN.min(usize::try_from(extent.len).unwrap_or(COPY_BUFFER_LEN))];
        let (mut at, end) = (extent.start, extent.start + extent.len);
        while at < end {
            check_cancel(cancel).map_err(CopyProblem::Table)?;
            let len = buffer.len().min(usize::try_from(end - at).unwrap_or(COPY_BUFFER_LEN));
            file.read_exact_at(&mut buffer[..len], at).map_err(on_read)?;
            self.sink.write_all(&buffer[..len]).map_err(on_write)?;
            at += len as u64;
        }
        Ok(())
    }

    /// Gives all row groups this order of rows.
    pub(crate) fn set_sorting(&mut self, sorting: Option<Value>) {
        if let Some(sorting) = sorting {
            self.groups.iter_mut().for_each(|(group, _)| group.set(group_field::SORTING, sorting.clone()));
        }
    }

    /// Takes columns out of the order of rows, and those after them, which order within them.
    pub(crate) fn forget_sorting(&mut self, leaves: &[usize]) {
        for (group, _) in &mut self.groups {
            let kept: Vec<Struct> = group
                .records(group_field::SORTING)
                .take_while(|column| {
                    let leaf = column.int(1).and_then(|leaf| usize::try_from(leaf).ok());
                    leaf.is_some_and(|leaf| !leaves.contains(&leaf))
                })
                .cloned()
                .collect();
            match kept.is_empty() {
                true => group.remove(group_field::SORTING),
                false => group.set_records(group_field::SORTING, kept),
            }
        }
    }

    /// Writes bloom filters, indices and the footer, in which everything else is that of `meta`.
    pub(crate) fn finish(mut self, input: &ParquetInput, mut meta: Struct, cancel: &AtomicBool) -> Copied<OutputFile> {
        let indices = std::mem::take(&mut self.indices);
        for kind in [Kind::Bloom, Kind::Column, Kind::Offset] {
            for (group, chunks) in indices.iter().enumerate() {
                for (leaf, from) in chunks.iter().enumerate() {
                    let start = self.sink.bytes_written();
                    if self.write_index(input, kind, from, cancel)? {
                        let len = self.sink.bytes_written() - start;
                        kind.point(&mut self.groups[group].1[leaf], start, len);
                    }
                }
            }
        }
        let groups = std::mem::take(&mut self.groups).into_iter().map(|(group, chunks)| ended(group, chunks));
        meta.set_records(file_field::ROW_GROUPS, groups.collect());
        let footer = meta.to_bytes();
        let len = u32::try_from(footer.len())
            .map_err(|_| on_write(ParquetError::General("a footer past 4 GB".to_owned())))?;
        for part in [&footer[..], &len.to_le_bytes(), MAGIC] {
            self.sink.write_all(part).map_err(on_write)?;
        }
        self.sink.into_inner().map_err(on_write)
    }

    /// Writes one index; `false` where the chunk has none.
    fn write_index(&mut self, input: &ParquetInput, kind: Kind, from: &Indices, cancel: &AtomicBool) -> Copied<bool> {
        let (chunk, shift) = match from {
            Indices::Made { written, shift } => {
                let (bytes, shift) = match kind {
                    Kind::Bloom => (&written.bloom_filter, 0),
                    Kind::Column => (&written.column_index, 0),
                    Kind::Offset => (&written.offset_index, *shift),
                };
                match bytes {
                    Some(bytes) if shift != 0 => self.write_moved(bytes, shift).map_err(on_write)?,
                    Some(bytes) => self.sink.write_all(bytes).map_err(on_write)?,
                    None => {}
                }
                return Ok(bytes.is_some());
            }
            Indices::Copied { chunk, shift } => (chunk, *shift),
        };
        let Some(extent) = kind.extent(input, chunk)? else { return Ok(false) };
        if kind != Kind::Offset {
            self.copy(&input.file, extent, cancel)?;
            return Ok(true);
        }
        if extent.len > INDEX_LEN_MAX {
            let problem = format!("an index has {} bytes, and at most {INDEX_LEN_MAX} are read", extent.len);
            return Err(on_read(ParquetError::General(problem)));
        }
        let mut bytes = vec![0; extent.len as usize];
        input.file.read_exact_at(&mut bytes, extent.start).map_err(on_read)?;
        let (index, _) = Struct::parse(&bytes).map_err(on_read)?;
        self.sink.write_all(&moved_index(index, shift)).map_err(on_write)?;
        Ok(true)
    }

    /// Writes an offset index of pages that have moved since.
    fn write_moved(&mut self, index: &[u8], shift: i64) -> Result<(), ParquetError> {
        let (index, _) = Struct::parse(index)?;
        Ok(self.sink.write_all(&moved_index(index, shift))?)
    }
}

/// Moves the places of a chunk's pages.
fn move_pages(chunk: &mut Struct, shift: i64) {
    let Some(meta) = chunk.record_mut(chunk_field::META) else { return };
    for field in [meta_field::DATA_PAGE, meta_field::INDEX_PAGE, meta_field::DICTIONARY_PAGE] {
        if let Some(offset) = meta.int(field).filter(|offset| *offset > 0) {
            meta.set_i64(field, offset.saturating_add(shift));
        }
    }
}

/// An offset index with the places that its pages have now.
fn moved_index(mut index: Struct, shift: i64) -> Vec<u8> {
    let moved = index.records(1).map(|page| {
        let mut page = page.clone();
        page.set_i64(1, page.int(1).unwrap_or(0).saturating_add(shift));
        page
    });
    let moved = moved.collect();
    index.set_records(1, moved);
    index.to_bytes()
}

/// What stands behind all row groups and belongs to a chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bloom,
    Column,
    Offset,
}

impl Kind {
    fn extent(self, input: &ParquetInput, chunk: &Struct) -> Copied<Option<Extent>> {
        Ok(match self {
            Kind::Column => pointed(chunk, chunk_field::COLUMN_INDEX),
            Kind::Offset => pointed(chunk, chunk_field::OFFSET_INDEX),
            Kind::Bloom => match chunk.record(chunk_field::META) {
                None => None,
                Some(meta) => match pointed(meta, meta_field::BLOOM_FILTER) {
                    Some(extent) => Some(extent),
                    None => bloom_extent(input, meta).map_err(on_read)?,
                },
            },
        })
    }

    fn point(self, chunk: &mut Struct, start: usize, len: usize) {
        let (record, (offset_field, len_field)) = match self {
            Kind::Column => (Some(chunk), chunk_field::COLUMN_INDEX),
            Kind::Offset => (Some(chunk), chunk_field::OFFSET_INDEX),
            Kind::Bloom => (chunk.record_mut(chunk_field::META), meta_field::BLOOM_FILTER),
        };
        if let Some(record) = record {
            record.set_i64(offset_field, start as i64);
            record.set_i32(len_field, i32::try_from(len).unwrap_or(i32::MAX));
        }
    }
}

/// The place of a bloom filter whose length only its own header tells, as older writers leave it.
fn bloom_extent(input: &ParquetInput, meta: &Struct) -> Result<Option<Extent>, ParquetError> {
    const HEADER_LEN_MAX: u64 = 64;
    let Some(offset) = meta.int(meta_field::BLOOM_FILTER.0) else { return Ok(None) };
    let outside = || ParquetError::General("a bloom filter lies outside of the file's data".to_owned());
    let start = u64::try_from(offset).map_err(|_| outside())?;
    let left = input.footer.start.checked_sub(start).ok_or_else(outside)?;
    let mut bytes = vec![0; HEADER_LEN_MAX.min(left) as usize];
    input.file.read_exact_at(&mut bytes, start)?;
    let (header, len) = Struct::parse(&bytes)?;
    let body = header.int(1).and_then(|len| u64::try_from(len).ok()).ok_or_else(outside)?;
    let extent = Extent { start, len: len as u64 + body };
    if extent.len > left { Err(outside()) } else { Ok(Some(extent)) }
}

/// A row group with its chunks and the sizes that follow from them.
fn ended(mut group: Struct, chunks: Vec<Struct>) -> Struct {
    let total = |field| chunks.iter().filter_map(|chunk| chunk.record(chunk_field::META)?.int(field)).sum();
    let (uncompressed, compressed) = (total(meta_field::UNCOMPRESSED_SIZE), total(meta_field::COMPRESSED_SIZE));
    group.set_i64(group_field::BYTE_SIZE, uncompressed);
    if group.int(group_field::COMPRESSED_SIZE).is_some() {
        group.set_i64(group_field::COMPRESSED_SIZE, compressed);
    }
    if group.int(group_field::FILE_OFFSET).is_some() {
        let first = chunks.first().and_then(|chunk| extent_of(chunk.record(chunk_field::META)?));
        group.set_i64(group_field::FILE_OFFSET, first.map_or(0, |extent| extent.start.cast_signed()));
    }
    group.set_records(group_field::COLUMNS, chunks);
    group
}
