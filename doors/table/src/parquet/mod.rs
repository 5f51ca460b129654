//! Parquet tables: chunks of columns that nobody named are copied as they lie, the others go through their workers, row
//! group by row group.
//!
//! Everything of the footer that this does not make false is kept: the schema, the metadata of chunks, indices, bloom
//! filters, and what this program does not know.
//!
//! Reading order: [`footer`], [`copy`], [`columns`], [`chunk`], [`read`], [`write`], [`filter`], [`foreign`], then what they are made of.

mod arrow_footer;
mod chunk;
mod codec;
mod columns;
mod copy;
mod filter;
mod footer;
pub(crate) mod foreign;
mod forms;
mod guard;
mod indices;
mod layout;
mod levels;
mod pages;
mod place;
mod read;
mod rows;
mod strings;
mod taken;
mod thrift;
mod write;

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use ciphermill_contract::Direction;
use parquet::errors::ParquetError;
use parquet::file::writer::TrackedWrite;
use parquet::schema::types::ColumnDescPtr;
use sha2::Sha256;

use crate::bad::OnBad;
use crate::column::Scratch;
use crate::error::{Result, TableError};
use crate::manifest::FOOTER_KEY;
use crate::output::OutputFile;
use crate::spec::Method;
use crate::table::{Tally, Target, Watch};

pub use chunk::EXPANDED_LEN_MAX;
pub use filter::{NESTED_VALUES_MAX, REJECT_ROWS_MAX};
pub use footer::FOOTER_LEN_MAX;
pub(crate) use foreign::Pairs;
pub use layout::Codec;
pub use pages::{DICTIONARY_VALUES_MAX, PAGE_LEN_MAX};
pub(crate) use rows::{ColumnRows, GroupReader};
pub(crate) use write::Layout;

use chunk::Ways;
use columns::Columns;
use copy::Assembly;
use filter::{group_of, marks_for};
use footer::{Footer, chunk_field, codec_of, element_field, extent_of, file_field, group_field, group_rows};
use pages::{Pages, Survey};
use read::ChunkSource;
use taken::Rows;
use thrift::{Parsed, Struct, Value};

/// Stands among a manifest's rewritten metadata for the order of rows, which is no pair of the footer.
const SORTING: &str = "ciphermill.sorting_columns";

/// A Parquet file whose footer has been read and checked.
pub(crate) struct ParquetInput {
    file: Arc<File>,
    path: PathBuf,
    footer: Footer,
    schema: SchemaRef,
}

impl ParquetInput {
    /// Reads the footer.
    ///
    /// # Errors
    /// `Parquet` when it does not parse, does not fit the file or is past a limit.
    pub(crate) fn open(file: File, path: &Path) -> Result<ParquetInput> {
        let footer = Footer::read(&file).map_err(|source| TableError::parquet(path, source))?;
        let elements: Vec<&Struct> = footer.elements().collect();
        const OPTIONAL: i64 = 1;
        let fields = footer.fields.iter().map(|field| {
            let nullable = elements[field.element].int(element_field::REPETITION) == Some(OPTIONAL);
            Field::new(&field.name, field.data_type.clone(), nullable)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(ParquetInput { file: Arc::new(file), path: path.to_owned(), footer, schema })
    }

    /// Columns and the types as which they are read.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The footer's value of a key.
    pub(crate) fn key_value(&self, key: &str) -> Option<&str> {
        let mut pairs = self.footer.meta.records(file_field::KEY_VALUES);
        std::str::from_utf8(pairs.find(|pair| pair.binary(1) == Some(key.as_bytes()))?.binary(2)?).ok()
    }

    /// The footer's metadata when these columns become byte strings, and the originals of what has to change for that.
    ///
    /// # Errors
    /// `Parquet` when metadata are not text, or could not be restored.
    pub(crate) fn rewrite_metadata(&self, columns: &[String]) -> Result<(Pairs, BTreeMap<String, String>)> {
        let mut pairs = self.footer.pairs().map_err(|source| self.error(source))?;
        let twice = |key| self.error(ParquetError::General(format!("the key `{key}` stands twice in its metadata")));
        let mut originals = foreign::rewrite(&mut pairs, columns).map_err(twice)?;
        if let Some(sorting) = self.sorting() {
            originals.insert(SORTING.to_owned(), hex::encode(sorting.to_bytes()));
        }
        Ok((pairs, originals))
    }

    /// The footer's metadata of a restored file. `protected` are the columns that the manifest speaks of as byte strings,
    /// by the names that they have now; `still` those of them that stay so, and `restored` the others, by their names now
    /// and then.
    pub(crate) fn restore_metadata(
        &self,
        originals: &BTreeMap<String, String>,
        protected: &[String],
        still: &[String],
        restored: &[(String, String)],
    ) -> Result<Restored> {
        let mut pairs = self.footer.pairs().map_err(|source| self.error(source))?;
        let mut originals = originals.clone();
        originals.remove(FOOTER_KEY);
        let sorting = originals.remove(SORTING).and_then(|sorting| hex::decode(sorting).ok());
        let sorting = sorting.and_then(|sorting| Some(Struct::parse(&sorting).ok()?.0));
        foreign::restore(&mut pairs, &originals, protected, still, restored);
        Ok(Restored { pairs, sorting: sorting.filter(|_| still.is_empty()) })
    }

    /// The order of rows, when all row groups name the same.
    fn sorting(&self) -> Option<Struct> {
        let order = |group: &Struct| group.get(group_field::SORTING).cloned();
        let mut groups = self.footer.groups();
        let first = groups.next().and_then(order)?;
        let mut kept = Struct::default();
        kept.set(1, first.clone());
        groups.all(|group| order(group).as_ref() == Some(&first)).then_some(kept)
    }

    /// The chunk of a flat column.
    fn source(&self, group: &Struct, field: usize) -> Parsed<ChunkSource> {
        let missing = || ParquetError::General("a column is not flat".to_owned());
        let root = self.footer.fields.get(field).ok_or_else(missing)?;
        let leaf = root.leaf.ok_or_else(missing)?;
        let element = self.footer.elements().nth(root.element).ok_or_else(missing)?;
        let chunk = group.records(group_field::COLUMNS).nth(leaf).ok_or_else(missing)?;
        let meta = chunk.record(chunk_field::META).ok_or_else(missing)?;
        Ok(ChunkSource {
            file: Arc::clone(&self.file),
            extent: extent_of(meta).ok_or_else(missing)?,
            codec: codec_of(meta)?,
            column: footer::column_of(element)?,
            data_type: root.data_type.clone(),
            rows: group_rows(group),
        })
    }
}

impl ParquetInput {
    /// The chunk of a flat column, and what the headers of its pages say.
    fn surveyed(&self, group: &Struct, field: usize) -> Parsed<(ChunkSource, Survey)> {
        let source = self.source(group, field)?;
        let survey = Pages::new(&source.file, source.extent).survey()?;
        if survey.levels != source.rows {
            let problem = format!("{} rows, and its footer speaks of {}", survey.levels, source.rows);
            return Err(ParquetError::General(problem));
        }
        Ok((source, survey))
    }
}

/// The metadata of a restored file.
pub(crate) struct Restored {
    pub(crate) pairs: Pairs,
    sorting: Option<Struct>,
}

/// What the output gets beside its columns.
pub(crate) struct Extras<'a> {
    /// The footer's key-value pairs.
    pub(crate) pairs: Pairs,
    sorting: Option<Struct>,
    /// Gives more pairs when all rows have been written.
    pub(crate) footer_pairs: FooterPairs<'a>,
}

impl<'a> Extras<'a> {
    pub(crate) fn protected(pairs: Pairs, footer_pairs: FooterPairs<'a>) -> Extras<'a> {
        Extras { pairs, sorting: None, footer_pairs }
    }

    pub(crate) fn restored(restored: Restored, footer_pairs: FooterPairs<'a>) -> Extras<'a> {
        Extras { pairs: restored.pairs, sorting: restored.sorting, footer_pairs }
    }
}

/// A file to which all rows have been written, but no footer yet.
pub(crate) struct BeforeFooter<'a> {
    /// The hash and length of what was written so far, where they are taken.
    pub(crate) written: Option<(Sha256, u64)>,
    pub(crate) tally: &'a Tally,
    pub(crate) targets: &'a [Target],
}

/// Gives key-value pairs for the footer just before it is written: a value sets or replaces the key's, `None` removes the
/// key.
pub(crate) type FooterPairs<'a> = &'a mut dyn FnMut(&BeforeFooter<'_>) -> Result<Vec<(String, Option<String>)>>;

/// Sends the columns of `targets` through their workers, each as its layout says, and copies all others. With `rejects`,
/// rows that an `on-bad=reject` column's method cannot take go there as they are; their row groups are written anew.
///
/// # Errors
/// Everything that can be wrong with a value; `Interrupted`; `Expanded`; `Parquet`; `Io`.
pub(crate) fn transform(
    input: &ParquetInput,
    targets: &mut [Target],
    layouts: &[Layout],
    (output, rejects): (OutputFile, Option<OutputFile>),
    watch: &Watch<'_>,
    extras: Extras<'_>,
) -> Result<(Tally, OutputFile, Option<OutputFile>)> {
    let output_path = output.path().to_owned();
    let on_write = |source: ParquetError| TableError::parquet(&output_path, source);
    let mut assembly = Assembly::begin(TrackedWrite::new(output)).map_err(on_write)?;
    let mut rejects = rejects.map(|file| Rejects::begin(input, file)).transpose()?;
    let mut run = Run { input, targets, layouts, watch, scratch: Scratch::default(), tally: Tally::default() };
    match &mut rejects {
        None => run.groups(0..input.footer.groups().len(), watch.threads, &mut assembly)?,
        Some(rejects) => {
            for (index, group) in input.footer.groups().enumerate() {
                match run.marks(index, group, &on_write)? {
                    None => run.groups(index..index + 1, watch.threads, &mut assembly)?,
                    Some(marks) => {
                        run.taken(index, group, &marks, rejects, &mut assembly, &on_write)?;
                        rejects.take(input, index, group, &marks, watch)?;
                    }
                }
            }
        }
    }
    let (mut tally, mut meta) = (run.tally, input.footer.meta.clone());
    tally.rows = input.footer.rows() - tally.rejected_rows;
    meta.set_i64(file_field::NUM_ROWS, i64::try_from(tally.rows).unwrap_or(i64::MAX));
    let mut pairs = extras.pairs;
    let written = assembly.so_far().map_err(on_write)?;
    for (key, value) in (extras.footer_pairs)(&BeforeFooter { written, tally: &tally, targets })? {
        pairs.retain(|(found, _)| *found != key);
        pairs.extend(value.map(|value| (key, Some(value))));
    }
    set_pairs(&mut meta, pairs);
    replace_elements(&mut meta, &input.footer, targets, layouts);
    let changed = targets.iter().filter(|target| is_protected(target));
    let changed: Vec<usize> = changed.filter_map(|target| input.footer.fields[target.index].leaf).collect();
    assembly.forget_sorting(&changed);
    assembly.set_sorting(extras.sorting.as_ref().and_then(|sorting| sorting.get(1).cloned()));
    let output = assembly.finish(input, meta, watch.cancel).map_err(|problem| problem.named(input, &output_path))?;
    let rejects = rejects.map(|rejects| rejects.finish(input, tally.rejected_rows, watch)).transpose()?;
    Ok((tally, output, rejects))
}

/// The file of rows that are left out, stored as they were.
struct Rejects {
    assembly: Assembly,
    path: PathBuf,
    columns: Vec<ColumnDescPtr>,
}

impl Rejects {
    fn begin(input: &ParquetInput, file: OutputFile) -> Result<Rejects> {
        let path = file.path().to_owned();
        let columns = input.footer.columns().map_err(|source| input.error(source))?;
        let assembly = Assembly::begin(TrackedWrite::new(file)).map_err(|source| TableError::parquet(&path, source))?;
        Ok(Rejects { assembly, path, columns })
    }

    /// Takes the marked rows of a row group.
    fn take(
        &mut self,
        input: &ParquetInput,
        index: usize,
        group: &Struct,
        marks: &[bool],
        watch: &Watch<'_>,
    ) -> Result<()> {
        let rows = Rows::marked(marks);
        self.assembly.begin_group(&group_of(group, rows));
        for (leaf, column) in self.columns.iter().enumerate() {
            let check = || watch.check();
            let copied = input.copy_rows(group, leaf, column, rows, self.assembly.sink(), &check);
            let written = copied.map_err(|problem| problem.of_column(index, column).named(input, &self.path))?;
            self.assembly.add_written(written);
        }
        Ok(())
    }

    fn finish(self, input: &ParquetInput, rows: u64, watch: &Watch<'_>) -> Result<OutputFile> {
        let mut meta = input.footer.meta.clone();
        meta.set_i64(file_field::NUM_ROWS, i64::try_from(rows).unwrap_or(i64::MAX));
        self.assembly.finish(input, meta, watch.cancel).map_err(|problem| problem.named(input, &self.path))
    }
}

struct Run<'r, 'w> {
    input: &'r ParquetInput,
    targets: &'r mut [Target],
    layouts: &'r [Layout],
    watch: &'r Watch<'w>,
    scratch: Scratch,
    tally: Tally,
}

impl Run<'_, '_> {
    /// Writes row groups with all of their rows.
    fn groups(&mut self, groups: Range<usize>, threads: usize, assembly: &mut Assembly) -> Result<()> {
        let Run { input, targets, layouts, watch, tally, .. } = self;
        let rows_before = tally.rows;
        Columns { input, targets, layouts, watch, threads }.run(groups, rows_before, assembly, tally)
    }

    /// The rows of a row group that are to be left out; nothing where there are none.
    fn marks(
        &mut self,
        index: usize,
        group: &Struct,
        on_write: &dyn Fn(ParquetError) -> TableError,
    ) -> Result<Option<Vec<bool>>> {
        let Run { input, targets, watch, scratch, tally, .. } = self;
        let mut marks: Option<Vec<bool>> = None;
        for target in targets.iter_mut().filter(|target| target.worker.on_bad() == OnBad::Reject) {
            let name = target.worker.column().to_owned();
            let problem = |source| input.error(in_column(index, &name, &source));
            let marks = match &mut marks {
                Some(marks) => marks,
                None => marks.insert(marks_for(group).map_err(problem)?),
            };
            let (source, survey) = input.surveyed(group, target.index).map_err(problem)?;
            let row_ids = target.row_id.map(|field| input.surveyed(group, field)).transpose().map_err(problem)?;
            let mut ways = Ways {
                scratch,
                rows_before: tally.rows,
                row_ids,
                rows: None,
                on_batch: &mut |_, _| watch.check(),
                problem: &problem,
                on_write,
            };
            ways.mark(&source, &survey, target, marks)?;
        }
        Ok(marks.filter(|marks| marks.contains(&true)))
    }

    /// Writes a row group without its marked rows; one of which none are left is left out itself.
    fn taken(
        &mut self,
        index: usize,
        group: &Struct,
        marks: &[bool],
        rejects: &Rejects,
        assembly: &mut Assembly,
        on_write: &dyn Fn(ParquetError) -> TableError,
    ) -> Result<()> {
        let (input, watch, rows) = (self.input, self.watch, Rows::unmarked(marks));
        let place_of = |target: &Target| input.footer.fields.get(target.index).and_then(|field| field.leaf);
        if rows.count() > 0 {
            assembly.begin_group(&group_of(group, rows));
            for (leaf, column) in rejects.columns.iter().enumerate() {
                match self.targets.iter().position(|target| place_of(target) == Some(leaf)) {
                    None => {
                        let check = || watch.check();
                        let copied = input.copy_rows(group, leaf, column, rows, assembly.sink(), &check);
                        let path = assembly.path().to_owned();
                        let copied = copied.map_err(|problem| problem.of_column(index, column).named(input, &path))?;
                        assembly.add_written(copied);
                    }
                    Some(at) => {
                        let name = self.targets[at].worker.column().to_owned();
                        let problem = |source| input.error(in_column(index, &name, &source));
                        self.send(group, at, Some(rows), assembly, &problem, on_write)?;
                    }
                }
            }
        }
        self.tally.rejected_rows += Rows::marked(marks).count();
        self.tally.rows += group_rows(group);
        self.watch.advance(self.tally.rows, Some(input.footer.rows()), 0);
        Ok(())
    }

    fn send(
        &mut self,
        group: &Struct,
        at: usize,
        rows: Option<Rows<'_>>,
        assembly: &mut Assembly,
        problem: &dyn Fn(ParquetError) -> TableError,
        on_write: &dyn Fn(ParquetError) -> TableError,
    ) -> Result<()> {
        let Run { input, targets, layouts, watch, scratch, tally } = self;
        let (target, layout) = (&mut targets[at], &layouts[at]);
        let (source, survey) = input.surveyed(group, target.index).map_err(problem)?;
        let row_ids = target.row_id.map(|field| input.surveyed(group, field)).transpose().map_err(problem)?;
        let mut ways = Ways {
            scratch,
            rows_before: tally.rows,
            row_ids,
            rows,
            on_batch: &mut |rows, bytes| {
                tally.add_batch(rows, bytes);
                watch.check()
            },
            problem,
            on_write,
        };
        let written = ways.send(&source, &survey, target, layout, assembly.sink())?;
        assembly.add_written(written);
        Ok(())
    }
}

fn in_column(group: usize, column: &str, source: &ParquetError) -> ParquetError {
    ParquetError::General(format!("row group {group}, column `{column}`: {source}"))
}

/// The schema with the elements of the columns that have changed, the row order as far as it still holds.
fn replace_elements(meta: &mut Struct, footer: &Footer, targets: &[Target], layouts: &[Layout]) {
    let mut elements: Vec<Struct> = footer.elements().cloned().collect();
    let mut orders: Vec<Struct> = meta.records(file_field::COLUMN_ORDERS).cloned().collect();
    for (target, layout) in targets.iter().zip(layouts) {
        let field = &footer.fields[target.index];
        elements[field.element] = layout.element.clone();
        // Values of another type have the order of that type.
        if let Some(order) = field.leaf.and_then(|leaf| orders.get_mut(leaf)) {
            *order = Struct::default();
            order.set(1, Value::Struct(Struct::default()));
        }
    }
    meta.set_records(file_field::SCHEMA, elements);
    if !orders.is_empty() {
        meta.set_records(file_field::COLUMN_ORDERS, orders);
    }
}

fn set_pairs(meta: &mut Struct, pairs: Pairs) {
    if pairs.is_empty() {
        return meta.remove(file_field::KEY_VALUES);
    }
    let records = pairs.into_iter().map(|(key, value)| {
        let mut pair = Struct::default();
        pair.set(1, Value::Binary(key.into_bytes()));
        if let Some(value) = value {
            pair.set(2, Value::Binary(value.into_bytes()));
        }
        pair
    });
    meta.set_records(file_field::KEY_VALUES, records.collect());
}

/// Whether the values of a column are put into another order or type.
fn is_protected(target: &Target) -> bool {
    target.worker.direction() == Direction::Encrypt
}

/// The footer's metadata that Spark reads, as they are when all columns are in clear.
///
/// # Errors
/// `Parquet` for metadata that do not parse.
pub(crate) fn spark_in_clear(input: &ParquetInput) -> Result<Option<(String, String)>> {
    let pairs = input.footer.pairs().map_err(|source| input.error(source))?;
    Ok(foreign::spark_in_clear(&pairs))
}

/// The schema element of a column of optional texts, as Thrift writes it.
pub(crate) fn text_element(name: &str) -> Vec<u8> {
    use footer::element_field;
    const BYTE_ARRAY: i32 = 6;
    const OPTIONAL: i32 = 1;
    const CONVERTED_TYPE: (i16, i32) = (6, 0);
    const LOGICAL_TYPE: (i16, i16) = (10, 1);
    let mut element = Struct::default();
    element.set_i32(element_field::TYPE, BYTE_ARRAY);
    element.set_i32(element_field::REPETITION, OPTIONAL);
    element.set(element_field::NAME, Value::Binary(name.as_bytes().to_vec()));
    element.set_i32(CONVERTED_TYPE.0, CONVERTED_TYPE.1);
    let mut text = Struct::default();
    text.set(LOGICAL_TYPE.1, Value::Struct(Struct::default()));
    element.set(LOGICAL_TYPE.0, Value::Struct(text));
    element.to_bytes()
}

/// Whether protected values of the method are byte strings.
pub(crate) fn is_binary(method: &Method) -> bool {
    !matches!(method, Method::Ff1(_))
}
