//! From a protected table and its manifest back to the table in clear.

mod names;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, ScopedJoinHandle, scope};
use std::time::Instant;

use arrow_schema::{DataType, Field};
use ciphermill::Mill;
use ciphermill_contract::Direction;

use crate::bad::OnBad;
use crate::column::{BadHandling, ColumnSetup, ColumnWorker, suite_of};
use crate::compress::{CsvInput, CsvOutput};
use crate::convert::{self, to_csv, to_parquet};
use crate::csv_blocks::Blocks;
use crate::csv_io;
use crate::dialect::Dialect;
use crate::embed::{FooterManifest, ends_as_parquet};
use crate::error::{Result, TableError, find_column};
use crate::hash::{HashingReader, TableHash};
use crate::job::{ColumnSummary, Converted, Format, Progress, Summary, UnprotectJob, check_cancel, is_standard_stream};
use crate::keys::{self, Purpose, RootKey};
use crate::manifest::{FOOTER_KEY, Manifest, ManifestColumn, same};
use crate::numbers::IntegerType;
use crate::output::{Directory, OutputFile, PROTECTED_MODE, RESTORED_MODE, check_output, output_mode};
use crate::pair::{Change, Places, Prepared};
use crate::parquet::{self, Extras, ParquetInput};
use crate::pipeline;
use crate::protect::{SEEN_LEN_MAX, check_name, encoding_of, summarize, text_fields};
use crate::rekey::{Rekey, layout};
use crate::source::{Protected, Source};
use crate::spec::Method;
use crate::table::{Tally, Target, Watch};
use crate::types::{check_type, is_text, type_tag_of, value_type};

/// Restores the protected columns of a table.
///
/// Before anything is written, the manifest's signature is verified under the given key. Each value of `random` and
/// `deterministic` columns is authenticated with what it is bound to; the file's hash is compared with the manifest before the
/// output appears, unless the job allows a changed file.
/// Token columns stay as they are, and the summary says so.
///
/// # Errors
/// [`TableError`], naming file, row and column. No output is left behind then.
pub fn unprotect(job: &UnprotectJob, mill: &Mill, root: &RootKey, progress: &dyn Progress) -> Result<Summary> {
    restore(Protected::open(job)?, job, mill, root, progress)
}

/// Restores the protected columns of a table that is open already: [`unprotect`] for callers that have to look up the key
/// first.
///
/// # Errors
/// As for [`unprotect`].
pub fn restore(
    protected: Protected,
    job: &UnprotectJob,
    mill: &Mill,
    root: &RootKey,
    progress: &dyn Progress,
) -> Result<Summary> {
    restore_or_rekey(protected, job, mill, root, None, progress)
}

/// Protects a table that is protected already under another root key, another version of it, or other methods.
///
/// Each value is opened and sealed within the mill (`Mill::transform`): none lies in clear outside of its locked memory. The
/// new table has a manifest like any other; which types its columns have in clear, and how they were stored, stays as it was. The
/// job's columns, formats and conversions are not for this: all columns are rekeyed, and the format stays.
///
/// # Errors
/// As for [`crate::unprotect`]; `Spec` for tokens, which do not come back to be made anew, for a method that does not take the
/// column's type, for another method of a column whose values are bound to their rows, and between `ff1` and other methods.
pub fn rekey(
    protected: Protected,
    job: &UnprotectJob,
    mill: &Mill,
    root: &RootKey,
    to: &Rekey,
    progress: &dyn Progress,
) -> Result<Summary> {
    to.check(job, protected.manifest())?;
    restore_or_rekey(protected, job, mill, root, Some(to), progress)
}

/// Restores a table, or protects it anew without ever having it in clear.
///
/// # Errors
/// As for [`unprotect`] and [`crate::rekey`].
fn restore_or_rekey(
    protected: Protected,
    job: &UnprotectJob,
    mill: &Mill,
    root: &RootKey,
    rekey: Option<&Rekey>,
    progress: &dyn Progress,
) -> Result<Summary> {
    let started = Instant::now();
    check_output(&job.input, &job.output, job.force)?;
    check_output(&protected.manifest_path, &job.output, job.force)?;
    let path_beside = crate::manifest::manifest_path(&job.output);
    let places = Places { table: &job.output, manifest: &path_beside, rejects: None, force: job.force };
    if !job.columns.is_empty() || rekey.is_some() {
        check_can_have_manifest(&job.output)?;
        places.check(&[&job.input, &protected.manifest_path])?;
    }
    let Prepared { mut summary, table, manifest, mode, .. } = prepare(protected, job, mill, root, rekey, progress)?;
    match (table, manifest) {
        (Some(table), Some(manifest)) => {
            places.change(Change { table, rejects: None, manifest: &manifest, mode })?;
            summary.manifest = path_beside;
        }
        (Some(table), None) => table.place(&Directory::open(&job.output)?, job.force)?,
        (None, _) => {}
    }
    summary.total = started.elapsed();
    Ok(summary)
}

/// Restores a table, or protects it anew; it is complete then and not in its place. That this is free is the caller's to see.
///
/// # Errors
/// As for [`unprotect`] and [`crate::rekey`].
pub(crate) fn prepare(
    protected: Protected,
    job: &UnprotectJob,
    mill: &Mill,
    root: &RootKey,
    rekey: Option<&Rekey>,
    progress: &dyn Progress,
) -> Result<Prepared> {
    let to = match rekey {
        Some(_) => protected.manifest.format,
        None => job.format.or_else(|| Format::of_path(&job.output)).unwrap_or(protected.manifest.format),
    };
    check_formats(job, &protected.manifest, to)?;
    check_cancel(&job.cancel)?;
    let protected = protected.verified(job, mill, root)?;
    let watch = Watch {
        progress,
        cancel: &job.cancel,
        bytes_total: protected.source.len().unwrap_or(protected.manifest.bytes),
        threads: pipeline::threads(job.threads),
    };
    let most = if rekey.is_some() { PROTECTED_MODE } else { RESTORED_MODE };
    let mode = output_mode(&protected.source.file, &job.input, &job.output, most)?;
    let restorer = Restorer { rekey, ..Restorer::of(&protected, job, mill, root, mode) };
    let mut done = restorer.run(to, &watch).map_err(|error| restorer.explain(error))?;
    let origin = protected.origin;
    let protected = match done.hash.take() {
        Some(hash) => protected.named_by(&hash),
        None => protected,
    };
    if protected.origin != origin {
        protected.manifest.verify(&protected.manifest_path, mill, root)?;
    }
    Restorer::of(&protected, job, mill, root, mode).compare(&done)?;
    protected.source.check_unchanged()?;
    check_cancel(&job.cancel)?;
    let table = done.output.finish()?;
    let mut summary = summarize(&done.tally, &done.plan.targets, table.len);
    summary.manifest = protected.manifest_path;
    summary.manifest_origin = protected.origin;
    summary.converted = done.converted;
    summary.still_protected = done.plan.kept.into_iter().map(|(_, name)| name).collect();
    summary.missing = done.plan.missing;
    // Ascending places: each summary lands where its column stands in the manifest.
    for (place, token) in done.plan.tokens {
        summary.columns.insert(place.min(summary.columns.len()), token);
    }
    let signer = rekey.map_or(root, |rekey| &rekey.root);
    let remaining = done.remaining.map(|remaining| remaining.of_file(&table)?.signed(mill, signer)).transpose()?;
    Ok(Prepared { summary, table: Some(table), rejects: None, manifest: remaining, mode })
}

/// Checks the output's name, and that nothing stays protected of a table that is converted.
fn check_formats(job: &UnprotectJob, manifest: &Manifest, to: Format) -> Result<()> {
    let own = manifest.delimiter.and_then(|delimiter| u8::try_from(delimiter).ok());
    let made = Dialect::converted(&job.output, None, manifest.converted_from.as_ref()).delimiter;
    check_name(&job.output, to, if manifest.format == Format::Csv { own } else { Some(made) })?;
    if to != manifest.format && !job.columns.is_empty() {
        let rule = "are restored in the table's own format: columns that stay protected are not converted";
        return Err(TableError::OtherFormat { option: "some of the columns", rule });
    }
    Ok(())
}

/// A table whose manifest is written beside it has to be a file.
fn check_can_have_manifest(output: &Path) -> Result<()> {
    match is_standard_stream(output) {
        true => Err(TableError::ManifestUnnamed),
        false => Ok(()),
    }
}

/// What reading a whole protected table has shown.
pub(crate) struct Checked {
    pub(crate) rows: u64,
    /// The hash of a CSV file.
    pub(crate) hash: Option<TableHash>,
    /// Values and nulls of the columns that could be restored, with their places in the manifest.
    pub(crate) columns: Vec<(usize, u64, u64)>,
}

/// Restores all values and keeps none of them: each of `random` and `deterministic` columns is authenticated then.
///
/// # Errors
/// As for [`unprotect`], save those of outputs.
pub(crate) fn check(
    job: &UnprotectJob,
    manifest: &Manifest,
    source: &Source,
    mill: &Mill,
    root: &RootKey,
    progress: &dyn Progress,
) -> Result<Checked> {
    let watch = Watch {
        progress,
        cancel: &job.cancel,
        bytes_total: source.len().unwrap_or(manifest.bytes),
        threads: pipeline::threads(job.threads),
    };
    let manifest_path = source.path();
    let restorer =
        Restorer { job, manifest, manifest_path, mill, root, source, is_named: None, mode: None, rekey: None };
    let done = match manifest.format {
        Format::Csv => restorer.csv(&watch)?,
        Format::Parquet => restorer.parquet(&watch)?,
    };
    source.check_unchanged()?;
    let counts = done.plan.targets.iter().map(|target| &target.worker.counts);
    let columns = done.plan.places.iter().zip(counts).map(|(place, counts)| (*place, counts.values, counts.nulls));
    Ok(Checked { rows: done.tally.rows, hash: done.hash, columns: columns.collect() })
}

/// What is done with the columns of the file at hand. Numbers are places among the manifest's columns.
#[derive(Default)]
struct Plan {
    targets: Vec<Target>,
    places: Vec<usize>,
    tokens: Vec<(usize, ColumnSummary)>,
    /// Columns that stay protected, with the names that they have now.
    kept: Vec<(usize, String)>,
    /// Columns that are not there any more, by the names that they had.
    missing: Vec<String>,
}

/// A restored table, still to be compared with the manifest.
struct Done {
    tally: Tally,
    plan: Plan,
    /// The file's hash, where it was taken on the way.
    hash: Option<TableHash>,
    /// The manifest of the columns that stay protected, without the file's hash and length.
    remaining: Option<Manifest>,
    output: OutputFile,
    converted: Option<Converted>,
}

struct Restorer<'a> {
    job: &'a UnprotectJob,
    manifest: &'a Manifest,
    manifest_path: &'a Path,
    mill: &'a Mill,
    root: &'a RootKey,
    source: &'a Source,
    /// Whether the manifest names this very file; `None` when that is not known yet.
    is_named: Option<bool>,
    /// Permission bits of the restored table; without them nothing is written.
    mode: Option<u32>,
    /// What the table is to be protected under, if it is not restored.
    rekey: Option<&'a Rekey>,
}

/// Ends what runs beside something that fails or panics.
struct EndAtDrop<'a>(&'a AtomicBool);

impl Drop for EndAtDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<'a> Restorer<'a> {
    fn of(protected: &'a Protected, job: &'a UnprotectJob, mill: &'a Mill, root: &'a RootKey, mode: u32) -> Self {
        Restorer {
            job,
            manifest: &protected.manifest,
            manifest_path: &protected.manifest_path,
            mill,
            root,
            source: &protected.source,
            is_named: protected.is_named,
            mode: Some(mode),
            rekey: None,
        }
    }

    /// Restores the table in a format, and has the hash of a file that is read in pieces taken beside that.
    fn run(&self, to: Format, watch: &Watch<'_>) -> Result<Done> {
        let restored = || match (self.manifest.format, to) {
            (Format::Csv, Format::Csv) => self.csv(watch),
            (Format::Parquet, Format::Parquet) => self.parquet(watch),
            (Format::Csv, Format::Parquet) => self.csv_to_parquet(watch),
            (Format::Parquet, Format::Csv) => self.parquet_to_csv(watch),
        };
        if self.manifest.format == Format::Csv || self.is_named.is_some() || self.job.allow_changed {
            return restored();
        }
        let has_ended = AtomicBool::new(false);
        let hashed = || {
            let checked = || check_cancel(watch.cancel).and_then(|()| check_cancel(&has_ended));
            TableHash::of(&self.source.file, self.source.path(), checked)
        };
        if watch.threads == 1 {
            let done = restored()?;
            return Ok(Done { hash: Some(hashed()?), ..done });
        }
        scope(|scope| {
            let hashing = Builder::new().name("table-hash".to_owned()).spawn_scoped(scope, hashed);
            let _end = EndAtDrop(&has_ended);
            let done = restored()?;
            let hash = match hashing.map(ScopedJoinHandle::join) {
                Ok(hash) => hash.map_err(|_| TableError::Panicked)??,
                // The system gives no thread.
                Err(_) => hashed()?,
            };
            Ok(Done { hash: Some(hash), ..done })
        })
    }

    fn csv(&self, watch: &Watch<'_>) -> Result<Done> {
        let dialect = Dialect::of_manifest(self.manifest, self.manifest_path)?;
        let text = CsvInput::open(HashingReader::new(&self.source.file), &self.job.input)?;
        let (mut blocks, names, header) = Blocks::open(text, &self.job.input, dialect)?;
        let mut plan = self.plan(&text_fields(&names))?;
        let mut output = CsvOutput::new(self.output(&plan)?)?;
        let transform = csv_io::Transform {
            blocks: &mut blocks,
            header: &header,
            targets: &mut plan.targets,
            output: &mut output,
            rejects: None,
            watch,
        };
        let tally = transform.run()?;
        let hash = Some(blocks.into_reader().into_inner().finish());
        let output = output.finish()?;
        let remaining = self.remaining(&plan.kept, &plan.places, &plan.targets, &tally)?;
        Ok(Done { tally, plan, hash, remaining, output, converted: None })
    }

    fn csv_to_parquet(&self, watch: &Watch<'_>) -> Result<Done> {
        let dialect = Dialect::of_manifest(self.manifest, self.manifest_path)?;
        let input = self.job.input.as_path();
        let text = CsvInput::open(HashingReader::new(&self.source.file), input)?;
        let (mut blocks, names, _) = Blocks::open(text, input, dialect)?;
        to_parquet::check_names(input, &names)?;
        let mut plan = self.plan(&text_fields(&names))?;
        let output = self.output(&plan)?;
        let conversion =
            to_parquet::Conversion { input, names: &names, targets: &mut plan.targets, codec: None, watch };
        let (tally, output) = conversion.run(&mut blocks, output, &mut |_| Ok(Vec::new()))?;
        let hash = Some(blocks.into_reader().into_inner().finish());
        Ok(Done { tally, plan, hash, remaining: None, output, converted: Some(convert::from_csv()) })
    }

    fn parquet_to_csv(&self, watch: &Watch<'_>) -> Result<Done> {
        let path = &self.job.input;
        let file = self.source.file.try_clone().map_err(|source| TableError::io(path, "read", source))?;
        let input = ParquetInput::open(file, path)?;
        let mut plan = self.plan(input.schema().fields())?;
        let mut types = Vec::new();
        for place in &plan.places {
            let column = &self.manifest.columns[*place];
            let data_type = column.data_type.parse();
            types.push(data_type.map_err(|_| self.damaged(format!("`{}` is not an Arrow type", column.data_type)))?);
        }
        let tokens: Vec<String> = plan.tokens.iter().map(|(_, summary)| summary.name.clone()).collect();
        let mut output = CsvOutput::new(self.output(&plan)?)?;
        let conversion = to_csv::Conversion {
            input: &input,
            targets: &mut plan.targets,
            target_types: &types,
            tokens: &tokens,
            dialect: Dialect::converted(&self.job.output, None, self.manifest.converted_from.as_ref()),
            watch,
        };
        let tally = conversion.run(&mut output)?;
        let mut converted = convert::from_parquet(&input);
        // What was protected had another type than the byte strings of the file.
        for (target, data_type) in plan.targets.iter().zip(&types) {
            converted.types_lost.retain(|(name, _)| name != target.worker.column());
            if !is_text(value_type(data_type)) {
                converted.types_lost.push((target.worker.column().to_owned(), data_type.to_string()));
            }
        }
        let converted = Some(converted);
        Ok(Done { tally, plan, hash: None, remaining: None, output: output.finish()?, converted })
    }

    fn parquet(&self, watch: &Watch<'_>) -> Result<Done> {
        let path = &self.job.input;
        let file = self.source.file.try_clone().map_err(|source| TableError::io(path, "read", source))?;
        let input = ParquetInput::open(file, path)?;
        let mut plan = self.plan(input.schema().fields())?;
        let mut layouts = Vec::new();
        for (target, place) in plan.targets.iter().zip(&plan.places) {
            if self.rekey.is_some() {
                layouts.push(layout(&input, target.index, target.worker.method())?);
                continue;
            }
            let column = &self.manifest.columns[*place];
            let storage = column.parquet.as_ref();
            let storage =
                storage.ok_or_else(|| self.damaged(format!("column `{}` has no Parquet type", column.name)))?;
            layouts.push(input.restored_layout(target.index, storage)?);
        }
        let output = self.output(&plan)?;
        let (kept, mut footer) = (std::mem::take(&mut plan.kept), FooterManifest::default());
        let mut footer_pairs = |before: &parquet::BeforeFooter<'_>| {
            let remaining = self.remaining(&kept, &plan.places, before.targets, before.tally)?;
            let Some(remaining) = remaining else { return Ok(self.footer_pairs()) };
            Ok(vec![footer.pair(remaining, before)?])
        };
        let extras = match self.rekey {
            Some(rekey) => Extras::protected(rekey.metadata(&input, self.manifest)?, &mut footer_pairs),
            None => Extras::restored(self.restored_metadata(&input, &plan.targets, &plan.places)?, &mut footer_pairs),
        };
        let (tally, mut output, _) =
            parquet::transform(&input, &mut plan.targets, &layouts, (output, None), watch, extras)?;
        plan.kept = kept;
        let signer = self.rekey.map_or(self.root, |rekey| &rekey.root);
        let stays = self.rekey.is_some() || !plan.kept.is_empty();
        let remaining = if stays { Some(footer.fill_in(&mut output, self.mill, signer)?) } else { None };
        Ok(Done { tally, plan, hash: None, remaining, output, converted: None })
    }

    /// The manifest has done its work; one that was there before protecting comes back.
    fn footer_pairs(&self) -> Vec<(String, Option<String>)> {
        vec![(FOOTER_KEY.to_owned(), self.manifest.file_metadata.get(FOOTER_KEY).cloned())]
    }

    /// The restored table. Where columns stay protected, a manifest will name it.
    fn output(&self, plan: &Plan) -> Result<OutputFile> {
        let is_named = self.rekey.is_some() || !plan.kept.is_empty();
        match self.mode {
            Some(mode) if is_named => OutputFile::create(&self.job.output, mode),
            Some(mode) => OutputFile::create_unnamed(&self.job.output, mode),
            None => OutputFile::discard(&self.job.output),
        }
    }

    /// The manifest of the columns that stay protected, or are again.
    fn remaining(
        &self,
        kept: &[(usize, String)],
        places: &[usize],
        targets: &[Target],
        tally: &Tally,
    ) -> Result<Option<Manifest>> {
        if let Some(rekey) = self.rekey {
            let column = |(place, target): (&usize, &Target)| {
                rekey.manifest_column(self.mill, &self.manifest.columns[*place], &target.worker, self.manifest.format)
            };
            let columns = places.iter().zip(targets).map(column).collect::<Result<Vec<_>>>()?;
            return rekey.manifest(self.mill, self.manifest, tally.rows, columns).map(Some);
        }
        let columns: Vec<ManifestColumn> = kept
            .iter()
            .map(|(place, name)| ManifestColumn { name: name.clone(), ..self.manifest.columns[*place].clone() })
            .collect();
        Ok((!columns.is_empty()).then(|| Manifest { columns, ..self.manifest.begun_anew(tally.rows) }))
    }

    /// Checks that the columns that are asked for can be restored.
    fn check_columns(&self) -> Result<()> {
        let names: Vec<String> = self.manifest.columns.iter().map(|column| column.name.clone()).collect();
        let mut named = HashSet::new();
        for name in &self.job.columns {
            let place = find_column(self.manifest_path, &names, name)?;
            if !named.insert(place) {
                return Err(TableError::ColumnTwice { column: name.clone() });
            }
            if self.method(&self.manifest.columns[place])?.is_reversible() {
                continue;
            }
            return Err(TableError::NotReversible { file: self.manifest_path.to_owned(), column: name.clone() });
        }
        Ok(())
    }

    fn method(&self, column: &ManifestColumn) -> Result<Method> {
        Method::of_manifest(&column.method, &column.options)
            .map_err(|error| self.damaged(format!("column `{}`: {error}", column.name)))
    }

    fn plan(&self, fields: &[Arc<Field>]) -> Result<Plan> {
        self.check_columns()?;
        let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
        let file: Arc<Path> = self.job.input.as_path().into();
        let renamed = self.renamed()?;
        let mut plan = Plan::default();
        let mut taken = HashSet::new();
        if let Some(name) = renamed.iter().find(|name| !taken.insert(**name)) {
            return Err(TableError::ColumnTwice { column: (*name).to_owned() });
        }
        for ((place, column), name) in self.manifest.columns.iter().enumerate().zip(renamed) {
            let is_wanted = self.job.columns.is_empty() || self.job.columns.contains(&column.name);
            let index = match find_column(&file, &names, name) {
                Ok(index) => index,
                Err(TableError::ColumnUnknown { .. })
                    if self.job.allow_changed && !self.job.columns.contains(&column.name) =>
                {
                    plan.missing.push(name.to_owned());
                    continue;
                }
                Err(error) => return Err(error),
            };
            let method = self.method(column)?;
            if !is_wanted {
                plan.kept.push((place, name.to_owned()));
            } else if method.is_reversible() || self.rekey.is_some() {
                plan.places.push(place);
                let row_id = self.plan_row_id(column, fields, &names)?;
                plan.targets.push(self.plan_column(column, method, index, &fields[index], row_id, &file)?);
            } else {
                plan.tokens.push((place, token_summary(column, &method, name)));
            }
        }
        if plan.missing.len() == self.manifest.columns.len() {
            return Err(TableError::NoColumnLeft { file: self.job.input.clone(), columns: plan.missing });
        }
        Ok(plan)
    }

    /// The footer's metadata as they were before, as far as columns are restored.
    fn restored_metadata(
        &self,
        input: &ParquetInput,
        targets: &[Target],
        places: &[usize],
    ) -> Result<parquet::Restored> {
        let mut restored = Vec::new();
        for (target, place) in targets.iter().zip(places) {
            if parquet::is_binary(target.worker.method()) {
                restored.push((target.worker.column().to_owned(), self.manifest.columns[*place].name.clone()));
            }
        }
        let then: Vec<&String> = restored.iter().map(|(_, then)| then).collect();
        let binary = self
            .manifest
            .columns
            .iter()
            .filter(|column| column.encoding == encoding_of(&Method::Random, Format::Parquet));
        let protected: Vec<String> = binary.map(|column| column.name.clone()).collect();
        let still: Vec<String> = protected.iter().filter(|name| !then.contains(name)).cloned().collect();
        input.restore_metadata(&self.manifest.file_metadata, &protected, &still, &restored)
    }

    fn plan_column(
        &self,
        column: &ManifestColumn,
        method: Method,
        index: usize,
        field: &Field,
        row_id: Option<usize>,
        file: &Arc<Path>,
    ) -> Result<Target> {
        let damaged = |problem: String| self.damaged(format!("column `{}`: {problem}", column.name));
        let data_type: DataType =
            column.data_type.parse().map_err(|_| damaged(format!("`{}` is not an Arrow type", column.data_type)))?;
        check_type(&method, &data_type).map_err(|rule| damaged(rule.to_owned()))?;
        let type_tag = type_tag_of(&data_type, column.as_text).map_err(|rule| damaged(rule.to_owned()))?;
        if column.encoding != encoding_of(&method, self.manifest.format) {
            return Err(damaged(format!("`{}` is not this method's encoding", column.encoding)));
        }
        self.check_stored_type(&method, field, file)?;
        let associated_data = keys::associated_data(&method, type_tag, &column.logical, column.bound_to.as_ref());
        let context = keys::column_context(&method, &associated_data);
        if !same(&keys::check_value(self.mill, self.root, Purpose::ColumnCheck, &context)?, &column.check_value) {
            return Err(damaged("its key check value is another one".to_owned()));
        }
        let on_bad = match column.on_bad.as_str() {
            "" => OnBad::Error,
            name => OnBad::parse(name).map_err(damaged)?,
        };
        let setup = ColumnSetup {
            mill: self.mill.clone(),
            key: keys::derive(self.mill, self.root, Purpose::Column, &context, suite_of(&method))?,
            file: Arc::clone(file),
            column: field.name().clone(),
            method,
            direction: Direction::Decrypt,
            associated_data,
            integer: IntegerType::of(value_type(&data_type)).filter(|_| column.as_text),
            row_id: column.bound_to.as_ref().map(|binding| self.row_id_name(binding).to_owned()),
            seen_len_max: SEEN_LEN_MAX / self.manifest.columns.len().max(1),
            bad: BadHandling::new(on_bad),
        };
        let worker = match self.rekey {
            Some(rekey) => rekey.worker(self.mill, column, setup)?,
            None => ColumnWorker::new(setup),
        };
        Ok(Target { index, row_id, logical: column.logical.clone(), worker })
    }

    /// Protected values are byte strings, in CSV files and for `ff1` texts; another type was put there by somebody.
    fn check_stored_type(&self, method: &Method, field: &Field, file: &Path) -> Result<()> {
        let stored = value_type(field.data_type());
        let wants_text = self.manifest.format == Format::Csv || matches!(method, Method::Ff1(_));
        let is_binary = matches!(stored, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
        if if wants_text { is_text(stored) } else { is_binary } {
            return Ok(());
        }
        Err(TableError::UnsupportedType {
            file: file.to_owned(),
            column: field.name().clone(),
            data_type: field.data_type().to_string(),
            rule: if wants_text { "its protected values are texts" } else { "its protected values are byte strings" },
        })
    }

    fn damaged(&self, problem: String) -> TableError {
        TableError::ManifestDamaged { manifest: self.manifest_path.to_owned(), problem }
    }

    /// Compares the file that was read with the one that the manifest was written for.
    fn compare(&self, done: &Done) -> Result<()> {
        if self.job.allow_changed {
            return Ok(());
        }
        if self.is_named == Some(true) {
            return Ok(());
        }
        if done.tally.rows != self.manifest.rows {
            return Err(self.changed(format!("{} rows, and the manifest says {}", done.tally.rows, self.manifest.rows)));
        }
        for (target, place) in done.plan.targets.iter().zip(&done.plan.places) {
            let (found, wanted) = (target.worker.counts.nulls, self.manifest.columns[*place].nulls);
            if found != wanted {
                let column = target.worker.column();
                return Err(
                    self.changed(format!("column `{column}` has {found} empty values, and the manifest says {wanted}"))
                );
            }
        }
        Err(self.changed("its SHA-256 is not the one in the manifest".to_owned()))
    }

    /// Adds to an error that the file is not as long as it was, where that may be the reason. A Parquet file without its
    /// end was cut short for certain; one that is complete was written anew.
    fn explain(&self, error: TableError) -> TableError {
        let Some(found) = self.source.len().filter(|len| *len < self.manifest.bytes) else { return error };
        let may_be_the_reason =
            matches!(error, TableError::Parquet { .. } | TableError::Arrow { .. }) || error.may_come_from_truncation();
        if self.job.allow_changed || self.is_named == Some(true) || !may_be_the_reason {
            return error;
        }
        let (wanted, rows) = (self.manifest.bytes, self.manifest.rows);
        let problem = format!("{found} bytes, and the manifest says {wanted} for {rows} rows; {error}");
        match self.manifest.format {
            Format::Parquet if matches!(ends_as_parquet(&self.source.file), Ok(false)) => {
                TableError::Truncated { file: self.job.input.clone(), problem }
            }
            _ => self.changed(problem),
        }
    }

    fn changed(&self, problem: String) -> TableError {
        TableError::Changed { file: self.job.input.clone(), problem }
    }
}

fn token_summary(column: &ManifestColumn, method: &Method, name: &str) -> ColumnSummary {
    ColumnSummary {
        name: name.to_owned(),
        logical: column.logical.clone(),
        method: method.name(),
        suite: suite_of(method),
        values: column.values,
        nulls: column.nulls,
        processed: 0,
        bytes: 0,
        in_mill: std::time::Duration::ZERO,
        engines: Vec::new(),
        left_as_tokens: true,
        values_left_as_tokens: 0,
        bad: Vec::new(),
        on_bad: OnBad::Error,
        bound_to_row: None,
        in_clear: None,
    }
}
