//! From a table in clear to a protected one with its manifest.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_schema::{DataType, Field};
use ciphermill::Mill;
use ciphermill_contract::Direction;

use crate::bad::OnBad;
use crate::column::{BadHandling, ColumnSetup, ColumnWorker, suite_of};
use crate::compress::{Compression, CsvInput, CsvOutput};
use crate::convert::{self, to_csv, to_parquet};
use crate::csv_blocks::Blocks;
use crate::dialect::{Dialect, is_positional, is_tsv};
use crate::embed::{Embedded, FooterManifest};
use crate::error::{Result, TableError, find_column};
use crate::folder::manifest::FolderManifest;
use crate::hash::TableHash;
use crate::job::{Converted, Format, Progress, ProtectJob, Summary, check_cancel, is_standard_stream};
use crate::keys::{self, Purpose, RootKey};
use crate::manifest::{
    ConvertedFrom, Covers, FOOTER_KEY, MANIFEST_FORMAT, Manifest, ManifestColumn, ManifestKey, manifest_path,
};
use crate::numbers::IntegerType;
use crate::output::{OutputFile, PROTECTED_MODE, output_mode};
use crate::pair::{Change, Places, Prepared};
use crate::parquet::{self, Extras, ParquetInput};
use crate::row_id::check_row_id_type;
use crate::source::Source;
use crate::spec::{ColumnSpec, LOGICAL_NAME_MAX, Method, RowBinding};
use crate::table::{Tally, Target, Watch};
use crate::types::{check_type, type_tag_of, value_type};
use crate::{csv_io, pipeline, text};

/// Bytes that all columns together may spend on remembering values that have been seen.
pub(crate) const SEEN_LEN_MAX: usize = 96 << 20;

/// Permission bits of a reject file: it holds what was to be protected, in clear.
const REJECTS_MODE: u32 = 0o600;

/// Protects columns of a table and writes the manifest beside it.
///
/// Output, manifest and reject file appear under their names when all are complete (`pair`).
///
/// # Errors
/// [`TableError`], naming file, row and column. No output is left behind then.
pub fn protect(job: &ProtectJob, mill: &Mill, root: &RootKey, progress: &dyn Progress) -> Result<Summary> {
    let started = Instant::now();
    check_columns(&job.columns)?;
    let manifest_path = job.manifest_path()?;
    let places =
        Places { table: &job.output, manifest: &manifest_path, rejects: job.reject_file.as_deref(), force: job.force };
    let Prepared { mut summary, table, rejects, manifest, mode } = prepare(job, mill, root, Some(&places), progress)?;
    if let (Some(table), Some(manifest)) = (table, manifest) {
        places.change(Change { table, rejects, manifest: &manifest, mode })?;
    }
    summary.manifest = manifest_path;
    summary.total = started.elapsed();
    Ok(summary)
}

/// Protects columns of a table, which is complete then and not in its place; of a dry run there is only the summary. Without
/// `places` it is the caller's to see that the output's place is free.
///
/// # Errors
/// As for [`protect`].
pub(crate) fn prepare(
    job: &ProtectJob,
    mill: &Mill,
    root: &RootKey,
    places: Option<&Places<'_>>,
    progress: &dyn Progress,
) -> Result<Prepared> {
    let format = job
        .format
        .or_else(|| Format::of_path(&job.input))
        .ok_or_else(|| TableError::FormatUnknown { file: job.input.clone() })?;
    let to = Format::of_path(&job.output).unwrap_or(format);
    let planner = Planner { job, format, to, mode: 0, mill, root };
    check_name(&job.output, to, Some(planner.dialect().delimiter))?;
    check_rejects(job, format, to)?;
    places.map_or(Ok(()), |places| places.check(&[&job.input]))?;
    check_options(job, format, to)?;
    check_cancel(&job.cancel)?;
    let source = Source::open(&job.input, format == Format::Parquet)?;
    if !job.force {
        check_unprotected(job, &source)?;
    }
    let watch = Watch {
        progress,
        cancel: &job.cancel,
        bytes_total: source.len().unwrap_or(0),
        threads: pipeline::threads(job.threads),
    };
    let mode = output_mode(&source.file, &job.input, &job.output, PROTECTED_MODE)?;
    let planner = Planner { mode, ..planner };
    let done = match (format, to) {
        (Format::Csv, Format::Csv) => planner.csv(&source, &watch)?,
        (Format::Parquet, Format::Parquet) => planner.parquet(&source, &watch)?,
        (Format::Csv, Format::Parquet) => planner.csv_to_parquet(&source, &watch)?,
        (Format::Parquet, Format::Csv) => planner.parquet_to_csv(&source, &watch)?,
    };
    source.check_unchanged()?;
    check_cancel(&job.cancel)?;
    let Done { tally, targets, manifest, output, rejects, converted } = done;
    let output_len = if job.dry_run { 0 } else { output.len() };
    let summary = Summary { converted, ..summarize(&tally, &targets, output_len) };
    if job.dry_run {
        return Ok(Prepared { summary, table: None, rejects: None, manifest: None, mode });
    }
    let table = output.finish()?;
    let manifest = manifest.of_file(&table)?.signed(mill, root)?;
    let rejects = rejects.map(OutputFile::finish).transpose()?;
    Ok(Prepared { summary, table: Some(table), rejects, manifest: Some(manifest), mode })
}

/// Refuses an input that a manifest beside it or in its footer speaks of.
fn check_unprotected(job: &ProtectJob, source: &Source) -> Result<()> {
    let refused = || Err(TableError::AlreadyProtected { file: job.input.clone() });
    if Embedded::is_in(&source.file, &job.input)? {
        return refused();
    }
    if is_standard_stream(&job.input) {
        return Ok(());
    }
    let mut manifest = match Manifest::read(&manifest_path(&job.input)) {
        Ok(manifest) => Some(manifest),
        // Whether it names the input cannot be known.
        Err(error @ TableError::Io { .. }) => return Err(error),
        Err(_) => None,
    };
    let previous = manifest.as_mut().and_then(|manifest| manifest.previous.take()).map(|previous| *previous);
    let of_folder = FolderManifest::naming(&job.input)?.map(|(manifest, _)| manifest);
    let all = [manifest, previous, of_folder].into_iter().flatten();
    let may_be: Vec<Manifest> = all.filter(|manifest| Some(manifest.bytes) == source.len()).collect();
    if may_be.is_empty() {
        return Ok(());
    }
    let hash = TableHash::of(&source.file, &job.input, || check_cancel(&job.cancel))?;
    if may_be.iter().any(|manifest| hash.is_in(manifest)) { refused() } else { Ok(()) }
}

/// The manifest that protecting a CSV file would begin with: everything but counts, hash, length and signature.
///
/// # Errors
/// As for [`protect`].
pub(crate) fn draft(job: &ProtectJob, source: &Source, mill: &Mill, root: &RootKey) -> Result<Manifest> {
    check_columns(&job.columns)?;
    let planner = Planner { job, format: Format::Csv, to: Format::Csv, mode: 0, mill, root };
    let text = CsvInput::open(&source.file, &job.input)?;
    let (_, names, _) = Blocks::open(text, &job.input, Dialect::of_job(job))?;
    planner.check_names(&names)?;
    let (targets, columns) = planner.plan(&text_fields(&names))?;
    planner.csv_manifest(names.len(), &Tally::default(), &targets, &columns)
}

/// Every column of a CSV file is text.
pub(crate) fn text_fields(names: &[String]) -> Vec<Arc<Field>> {
    names.iter().map(|name| Arc::new(Field::new(name, DataType::Utf8, true))).collect()
}

/// A protected table that is complete, and how it came about.
struct Done {
    tally: Tally,
    targets: Vec<Target>,
    /// All of it but the file's hash and length.
    manifest: Manifest,
    output: OutputFile,
    /// The reject file.
    rejects: Option<OutputFile>,
    converted: Option<Converted>,
}

struct Planner<'a> {
    job: &'a ProtectJob,
    /// The input's format.
    format: Format,
    /// The output's.
    to: Format,
    /// Permission bits of the protected table and its manifest.
    mode: u32,
    mill: &'a Mill,
    root: &'a RootKey,
}

impl Planner<'_> {
    fn csv(&self, source: &Source, watch: &Watch<'_>) -> Result<Done> {
        let text = CsvInput::open(&source.file, &self.job.input)?;
        let (mut blocks, names, header) = Blocks::open(text, &self.job.input, Dialect::of_job(self.job))?;
        self.check_names(&names)?;
        let (mut targets, columns) = self.plan(&text_fields(&names))?;
        let mut output = CsvOutput::new(self.output()?)?;
        let mut rejects = self.rejects()?.map(CsvOutput::new).transpose()?;
        let transform = csv_io::Transform {
            blocks: &mut blocks,
            header: &header,
            targets: &mut targets,
            output: &mut output,
            rejects: rejects.as_mut(),
            watch,
        };
        let tally = transform.run()?;
        let manifest = self.csv_manifest(names.len(), &tally, &targets, &columns)?;
        let (output, rejects) = (output.finish()?, rejects.map(CsvOutput::finish).transpose()?);
        Ok(Done { tally, targets, manifest, output, rejects, converted: None })
    }

    fn csv_to_parquet(&self, source: &Source, watch: &Watch<'_>) -> Result<Done> {
        let text = CsvInput::open(&source.file, &self.job.input)?;
        let (mut blocks, names, _) = Blocks::open(text, &self.job.input, self.dialect())?;
        self.check_names(&names)?;
        to_parquet::check_names(&self.job.input, &names)?;
        let (mut targets, mut columns) = self.plan(&text_fields(&names))?;
        columns.iter_mut().for_each(|column| column.parquet = Some(to_parquet::storage(&column.name)));
        let from = ConvertedFrom {
            format: Format::Csv,
            delimiter: Some(char::from(self.dialect().delimiter)),
            unnamed_columns: self.unnamed(names.len()),
        };
        let manifest_of = |tally: &Tally, targets: &[Target]| {
            let manifest = self.manifest(tally, targets, &columns)?;
            Ok(Manifest { converted_from: Some(from.clone()), ..manifest })
        };
        let mut footer = FooterManifest::default();
        let mut pairs = |before: &parquet::BeforeFooter<'_>| {
            Ok(vec![footer.pair(manifest_of(before.tally, before.targets)?, before)?])
        };
        let (input, codec) = (self.job.input.as_path(), self.job.codec);
        let conversion = to_parquet::Conversion { input, names: &names, targets: &mut targets, codec, watch };
        let (tally, mut output) = conversion.run(&mut blocks, self.output()?, &mut pairs)?;
        let manifest = match self.job.dry_run {
            true => manifest_of(&tally, &targets)?,
            false => footer.fill_in(&mut output, self.mill, self.root)?,
        };
        Ok(Done { tally, targets, manifest, output, rejects: None, converted: Some(convert::from_csv()) })
    }

    fn parquet_to_csv(&self, source: &Source, watch: &Watch<'_>) -> Result<Done> {
        let path = &self.job.input;
        let file = source.file.try_clone().map_err(|source| TableError::io(path, "read", source))?;
        let input = ParquetInput::open(file, path)?;
        let names: Vec<String> = input.schema().fields().iter().map(|field| field.name().clone()).collect();
        let (mut targets, columns) = self.plan(&text_fields(&names))?;
        let mut output = CsvOutput::new(self.output()?)?;
        let conversion = to_csv::Conversion {
            input: &input,
            targets: &mut targets,
            target_types: &[],
            tokens: &[],
            dialect: self.dialect(),
            watch,
        };
        let tally = conversion.run(&mut output)?;
        let from = ConvertedFrom { format: Format::Parquet, delimiter: None, unnamed_columns: None };
        let manifest = self.csv_manifest(names.len(), &tally, &targets, &columns)?;
        let manifest = Manifest { converted_from: Some(from), ..manifest };
        let converted = Some(convert::from_parquet(&input));
        Ok(Done { tally, targets, manifest, output: output.finish()?, rejects: None, converted })
    }

    /// How the CSV file is written that is read, or else the one that is made.
    fn dialect(&self) -> Dialect {
        match self.format {
            Format::Csv => Dialect::of_job(self.job),
            Format::Parquet => Dialect::converted(&self.job.output, self.job.delimiter, None),
        }
    }

    /// Guesses what was meant where a column is not there: a file of another delimiter has one column, and what is taken
    /// for names may be the first row, whose values are not shown.
    fn check_names(&self, names: &[String]) -> Result<()> {
        let known: HashSet<&str> = names.iter().map(String::as_str).collect();
        let unknown = |spec: &&ColumnSpec| !known.contains(spec.name.as_str());
        let Some(unknown) = self.job.columns.iter().find(unknown) else { return Ok(()) };
        let of_header = |row, rule| Err(TableError::Malformed { file: self.job.input.clone(), row, rule });
        let is_delimiter = |character: &char| matches!(character, ';' | '\t' | '|' | ',');
        match names {
            [_] if self.job.no_header => {
                of_header(1, "one field; is there another delimiter (--delimiter)?".to_owned())
            }
            [name] if let Some(found) = name.chars().find(is_delimiter) => {
                of_header(0, format!("one column, whose name holds {found:?}; is that the delimiter (--delimiter)?"))
            }
            _ if !self.job.no_header && is_positional(&unknown.name) => {
                of_header(0, format!("there is no column `{}`; has the table no header (--no-header)?", unknown.name))
            }
            _ => Ok(()),
        }
    }

    /// Where the protected table is written; a dry run's goes nowhere.
    fn output(&self) -> Result<OutputFile> {
        match self.job.dry_run {
            true => OutputFile::discard(&self.job.output),
            false => OutputFile::create(&self.job.output, self.mode),
        }
    }

    /// Where rejected rows are written.
    fn rejects(&self) -> Result<Option<OutputFile>> {
        let path = self.job.reject_file.as_ref().filter(|_| !self.job.dry_run);
        path.map(|path| OutputFile::create(path, REJECTS_MODE)).transpose()
    }

    fn parquet(&self, source: &Source, watch: &Watch<'_>) -> Result<Done> {
        let path = &self.job.input;
        let file = source.file.try_clone().map_err(|source| TableError::io(path, "read", source))?;
        let input = ParquetInput::open(file, path)?;
        let (mut targets, mut columns) = self.plan(input.schema().fields())?;
        let mut layouts = Vec::new();
        for (target, column) in targets.iter().zip(&mut columns) {
            let (layout, storage) = input.protected_layout(target.index, target.worker.method(), self.job.codec)?;
            column.parquet = Some(storage);
            layouts.push(layout);
        }
        let binary = targets.iter().filter(|target| parquet::is_binary(target.worker.method()));
        let binary: Vec<String> = binary.map(|target| target.worker.column().to_owned()).collect();
        let (pairs, file_metadata) = input.rewrite_metadata(&binary)?;
        let output = self.output()?;
        let mut footer = FooterManifest::default();
        let mut footer_pairs = |before: &parquet::BeforeFooter<'_>| {
            let mut manifest = self.manifest(before.tally, before.targets, &columns)?;
            manifest.file_metadata = file_metadata.clone();
            let replaced = input.key_value(FOOTER_KEY).map(|value| (FOOTER_KEY.to_owned(), value.to_owned()));
            manifest.file_metadata.extend(replaced);
            Ok(vec![footer.pair(manifest, before)?])
        };
        let extras = Extras::protected(pairs, &mut footer_pairs);
        let outputs = (output, self.rejects()?);
        let (tally, mut output, rejects) = parquet::transform(&input, &mut targets, &layouts, outputs, watch, extras)?;
        let manifest = match self.job.dry_run {
            true => self.manifest(&tally, &targets, &columns)?,
            false => footer.fill_in(&mut output, self.mill, self.root)?,
        };
        Ok(Done { tally, targets, manifest, output, rejects, converted: None })
    }

    fn plan(&self, fields: &[Arc<Field>]) -> Result<(Vec<Target>, Vec<ManifestColumn>)> {
        let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
        let file: Arc<Path> = self.job.input.as_path().into();
        let mut targets = Vec::new();
        let mut columns = Vec::new();
        let row_id = self.plan_row_id(fields, &names)?;
        for spec in &self.job.columns {
            let index = find_column(&file, &names, &spec.name)?;
            let row_id = row_id.filter(|_| spec.bind && spec.method.is_authenticated());
            let (target, column) = self.plan_column(spec, index, &fields[index], row_id, &file)?;
            targets.push(target);
            columns.push(column);
        }
        Ok((targets, columns))
    }

    fn plan_column(
        &self,
        spec: &ColumnSpec,
        index: usize,
        field: &Field,
        row_id: Option<usize>,
        file: &Arc<Path>,
    ) -> Result<(Target, ManifestColumn)> {
        let bound_to = self.job.bind_row.as_ref().filter(|_| row_id.is_some());
        let data_type = field.data_type();
        let unsupported = |rule| TableError::UnsupportedType {
            file: file.to_path_buf(),
            column: spec.name.clone(),
            data_type: data_type.to_string(),
            rule,
        };
        check_type(&spec.method, data_type).map_err(unsupported)?;
        let type_tag = type_tag_of(data_type, spec.as_text).map_err(unsupported)?;
        if self.to == Format::Csv {
            check_csv_alphabet(spec, self.dialect().delimiter)?;
        }
        if spec.on_bad == OnBad::Null && !field.is_nullable() {
            return Err(unsupported("its values may not be null, so that on-bad=null cannot leave one out"));
        }
        let associated_data = keys::associated_data(&spec.method, type_tag, &spec.logical, bound_to);
        let context = keys::column_context(&spec.method, &associated_data);
        let suite = suite_of(&spec.method);
        let worker = ColumnWorker::new(ColumnSetup {
            mill: self.mill.clone(),
            key: keys::derive(self.mill, self.root, Purpose::Column, &context, suite)?,
            file: Arc::clone(file),
            column: spec.name.clone(),
            method: spec.method.clone(),
            direction: Direction::Encrypt,
            associated_data,
            integer: IntegerType::of(value_type(data_type)).filter(|_| spec.as_text),
            row_id: bound_to.map(|binding| binding.column.clone()),
            seen_len_max: SEEN_LEN_MAX / self.job.columns.len(),
            bad: self.bad_handling(spec, &context)?,
        });
        let column = ManifestColumn {
            name: spec.name.clone(),
            logical: spec.logical.clone(),
            method: spec.method.name().to_owned(),
            on_bad: if spec.on_bad == OnBad::Error { String::new() } else { spec.on_bad.name().to_owned() },
            bad_values: 0,
            as_text: spec.as_text,
            bound_to: bound_to.cloned(),
            options: spec.method.options(),
            data_type: data_type.to_string(),
            nullable: field.is_nullable(),
            encoding: encoding_of(&spec.method, self.to).to_owned(),
            check_value: keys::check_value(self.mill, self.root, Purpose::ColumnCheck, &context)?,
            values: 0,
            nulls: 0,
            parquet: None,
        };
        Ok((Target { index, row_id, logical: spec.logical.clone(), worker }, column))
    }

    fn bad_handling(&self, spec: &ColumnSpec, context: &[u8]) -> Result<BadHandling> {
        let key = || keys::derive(self.mill, self.root, Purpose::BadValue, context, keys::HMAC_SHA256);
        let token_key = if spec.on_bad == OnBad::Token { Some(key()?) } else { None };
        Ok(BadHandling { token_key, dry_run: self.job.dry_run, ..BadHandling::new(spec.on_bad) })
    }

    /// The place of the column that identifies rows.
    fn plan_row_id(&self, fields: &[Arc<Field>], names: &[String]) -> Result<Option<usize>> {
        let Some(RowBinding { column, table }) = &self.job.bind_row else { return Ok(None) };
        let refused = |rule| TableError::RowBinding { column: column.clone(), rule };
        if table.len() > LOGICAL_NAME_MAX {
            return Err(refused("the table's name is too long"));
        }
        if self.job.columns.iter().any(|spec| spec.name == *column) {
            return Err(refused("it is protected itself, and rows are identified by a column that stays as it is"));
        }
        if !self.job.columns.iter().any(|spec| spec.bind && spec.method.is_authenticated()) {
            return Err(refused("no column is protected by random or deterministic without bind=no"));
        }
        let index = find_column(&self.job.input, names, column)?;
        check_row_id_type(fields[index].data_type()).map_err(refused)?;
        Ok(Some(index))
    }

    /// Of a CSV file without a header, how many columns it has.
    fn unnamed(&self, columns: usize) -> Option<u32> {
        // Files have far fewer columns than 2^32.
        self.job.no_header.then(|| u32::try_from(columns).unwrap_or(u32::MAX))
    }

    /// The manifest of a CSV file with so many columns, without what `manifest` leaves out.
    fn csv_manifest(
        &self,
        count: usize,
        tally: &Tally,
        targets: &[Target],
        columns: &[ManifestColumn],
    ) -> Result<Manifest> {
        Ok(Manifest {
            delimiter: Some(char::from(self.dialect().delimiter)),
            unnamed_columns: self.unnamed(count),
            ..self.manifest(tally, targets, columns)?
        })
    }

    /// The manifest, without the file's hash and length and without its signature.
    fn manifest(&self, tally: &Tally, targets: &[Target], columns: &[ManifestColumn]) -> Result<Manifest> {
        let columns = columns.iter().zip(targets).map(|(column, target)| ManifestColumn {
            values: target.worker.counts.values,
            nulls: target.worker.counts.nulls,
            bad_values: target.worker.bad().iter().map(|values| values.count).sum(),
            ..column.clone()
        });
        Ok(Manifest {
            ciphermill_manifest: MANIFEST_FORMAT,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            created: text::now(),
            format: self.to,
            delimiter: None,
            unnamed_columns: None,
            converted_from: None,
            root_key: ManifestKey::of(self.mill, self.root)?,
            rows: tally.rows,
            rejected_rows: tally.rejected_rows,
            bytes: 0,
            sha256: String::new(),
            covers: Covers::File,
            columns: columns.collect(),
            file_metadata: BTreeMap::new(),
            signature: String::new(),
            previous: None,
            pending: None,
        })
    }
}

/// Refuses a job without columns, and one that names a column twice.
///
/// # Errors
/// `NothingToDo`, `ColumnTwice`.
pub(crate) fn check_columns(columns: &[ColumnSpec]) -> Result<()> {
    if columns.is_empty() {
        return Err(TableError::NothingToDo);
    }
    let mut named = HashSet::new();
    match columns.iter().find(|spec| !named.insert(spec.name.as_str())) {
        Some(spec) => Err(TableError::ColumnTwice { column: spec.name.clone() }),
        None => Ok(()),
    }
}

/// Refuses options that are for another format.
fn check_options(job: &ProtectJob, format: Format, to: Format) -> Result<()> {
    let refused = |option, rule| Err(TableError::OtherFormat { option, rule });
    match (format, to) {
        (_, Format::Csv) if job.codec.is_some() => {
            refused("a codec", "is for Parquet files; CSV is compressed by the output's name (.csv.gz, .csv.zst)")
        }
        (Format::Parquet, _) if job.no_header => refused("no header", "is for CSV files; Parquet columns have names"),
        (Format::Parquet, Format::Parquet) if job.delimiter.is_some() => {
            refused("a delimiter (--delimiter)", "is for CSV files")
        }
        _ => Ok(()),
    }
}

/// Refuses rejects without a file for them, a file without rejects, and one whose name tells another format.
fn check_rejects(job: &ProtectJob, format: Format, to: Format) -> Result<()> {
    let rejecting = job.columns.iter().find(|spec| spec.on_bad == OnBad::Reject);
    let refused = |spec: &ColumnSpec, problem: &str| {
        Err(TableError::Spec { text: spec.to_string(), problem: problem.to_owned() })
    };
    match (rejecting, &job.reject_file) {
        (None, None) => Ok(()),
        (None, Some(path)) => Err(TableError::RejectsNothing { path: path.clone() }),
        (Some(spec), None) if !job.dry_run => refused(spec, "on-bad=reject needs a file for the rows"),
        (Some(spec), _) if format != to => refused(spec, "on-bad=reject is for tables that keep their format"),
        (Some(_), Some(path)) => check_name(path, format, Some(Dialect::of_job(job).delimiter)),
        (Some(_), None) => Ok(()),
    }
}

/// What `ff1` writes must not need quotation marks that were not there before.
fn check_csv_alphabet(spec: &ColumnSpec, delimiter: u8) -> Result<()> {
    let Method::Ff1(options) = &spec.method else { return Ok(()) };
    match [char::from(delimiter), '"', '\r', '\n'].into_iter().find(|special| options.alphabet.contains(*special)) {
        None => Ok(()),
        Some(special) => Err(TableError::Spec {
            text: spec.to_string(),
            problem: format!("the alphabet of a CSV column cannot hold {special:?}"),
        }),
    }
}

/// How protected values are stored.
pub(crate) fn encoding_of(method: &Method, format: Format) -> &'static str {
    match (method, format) {
        (Method::Ff1(_), _) => "text",
        (_, Format::Csv) => text::BASE64URL,
        (_, Format::Parquet) => "binary",
    }
}

/// Refuses an output whose name tells another format than it is written in: nothing is converted.
///
/// # Errors
/// `NamedOtherwise`.
pub(crate) fn check_name(output: &Path, format: Format, delimiter: Option<u8>) -> Result<()> {
    let named = |rule| Err(TableError::NamedOtherwise { file: output.to_owned(), rule });
    match (format, Format::of_path(output)) {
        (Format::Csv, Some(Format::Parquet)) => named("the table is CSV, and its name would say Parquet"),
        (Format::Parquet, Some(Format::Csv)) => named("the table is Parquet, and its name would say CSV"),
        (Format::Parquet, _) if Compression::of_path(output).is_some() => {
            named("Parquet files are compressed inside, and are not compressed again")
        }
        (Format::Csv, _) if is_tsv(output) && delimiter != Some(b'\t') => {
            named("its fields are not separated by tabulators, and its name would say so")
        }
        _ => Ok(()),
    }
}

/// Adds up what the columns have done.
pub(crate) fn summarize(tally: &Tally, targets: &[Target], output_bytes: u64) -> Summary {
    let mut summary = Summary {
        rows: tally.rows,
        rejected_rows: tally.rejected_rows,
        batches: tally.batches,
        batch_rows_max: tally.batch_rows_max,
        batch_bytes_max: tally.batch_bytes_max,
        output_bytes,
        ..Summary::default()
    };
    for column in targets.iter().map(Target::summary) {
        summary.values += column.values;
        summary.nulls += column.nulls;
        summary.processed += column.processed;
        summary.bytes += column.bytes;
        summary.in_mill += column.in_mill;
        summary.columns.push(column);
    }
    summary
}
