//! From a protected table and its manifest back to the table in clear.

use std::collections::HashSet;
use std::fs::File;
use std::io::Seek;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_schema::{DataType, Field};
use ciphermill::Mill;
use ciphermill_contract::Direction;

use crate::bad::OnBad;
use crate::column::{BadHandling, ColumnSetup, ColumnWorker, suite_of};
use crate::csv_io;
use crate::csv_scan::Scanner;
use crate::error::{Result, TableError, find_column};
use crate::job::{ColumnSummary, Format, Progress, Summary, UnprotectJob, check_cancel};
use crate::keys::{self, Purpose, RootKey};
use crate::manifest::{Manifest, ManifestColumn, manifest_path, same};
use crate::numbers::IntegerType;
use crate::output::{Directory, HashingReader, OutputFile, RESTORED_MODE, check_output, output_mode, sha256_of};
use crate::parquet_io::{self, ParquetInput};
use crate::protect::{SEEN_LEN_MAX, encoding_of, open_input, summarize};
use crate::row_id::check_row_id_type;
use crate::spec::{Method, RowBinding};
use crate::table::{Tally, Target, Watch};
use crate::types::{check_type, is_text, type_tag_of, value_type};

/// Restores the protected columns of a table.
///
/// Before anything is written, the manifest's signature is verified under the given key. Each value of `random` and
/// `deterministic` columns is authenticated with its column's logical name; rows, counts and the file's hash are compared with the manifest before the output appears.
/// Token columns stay as they are, and the summary says so.
///
/// # Errors
/// [`TableError`], naming file, row and column. No output is left behind then.
pub fn unprotect(job: &UnprotectJob, mill: &Mill, root: &RootKey, progress: &dyn Progress) -> Result<Summary> {
    let started = Instant::now();
    let manifest_path = job.manifest.clone().unwrap_or_else(|| manifest_path(&job.input));
    check_output(&job.input, &job.output, job.force)?;
    check_output(&manifest_path, &job.output, job.force)?;
    check_cancel(&job.cancel)?;
    let manifest = Manifest::read(&manifest_path)?;
    manifest.verify(&manifest_path, mill, root)?;
    let (file, bytes_total) = open_input(&job.input)?;
    let watch = Watch { progress, cancel: &job.cancel, bytes_total };
    let mode = output_mode(&file, &job.input, &job.output, RESTORED_MODE)?;
    let restorer = Restorer { job, manifest: &manifest, manifest_path: &manifest_path, mill, root, bytes_total, mode };
    let done = match manifest.format {
        Format::Csv => restorer.csv(file, &watch),
        Format::Parquet => restorer.parquet(file, &watch),
    };
    let done = done.map_err(|error| restorer.explain(error))?;
    restorer.compare(&done)?;
    check_cancel(&job.cancel)?;
    let ready = done.output.finish()?;
    let mut summary = summarize(&done.tally, &done.plan.targets, ready.len, manifest_path.clone());
    // Ascending places: each summary lands where its column stands in the manifest.
    for (place, token) in done.plan.tokens {
        summary.columns.insert(place.min(summary.columns.len()), token);
    }
    ready.place(&Directory::open(&job.output)?, job.force)?;
    summary.total = started.elapsed();
    Ok(summary)
}

/// What is done with the columns of the file at hand. Numbers are places among the manifest's columns.
#[derive(Default)]
struct Plan<'m> {
    targets: Vec<Target<'m>>,
    places: Vec<usize>,
    tokens: Vec<(usize, ColumnSummary)>,
}

/// A restored table, still to be compared with the manifest.
struct Done<'m> {
    tally: Tally,
    plan: Plan<'m>,
    sha256: String,
    output: OutputFile,
}

struct Restorer<'a, 'm> {
    job: &'a UnprotectJob,
    manifest: &'a Manifest,
    manifest_path: &'a Path,
    mill: &'m Mill,
    root: &'a RootKey,
    bytes_total: u64,
    /// Permission bits of the restored table.
    mode: u32,
}

impl<'m> Restorer<'_, 'm> {
    fn csv(&self, file: File, watch: &Watch<'_>) -> Result<Done<'m>> {
        let delimiter = self.manifest.delimiter.and_then(|delimiter| u8::try_from(delimiter).ok());
        let delimiter = delimiter.ok_or_else(|| self.damaged("a CSV file needs a delimiter of one byte".to_owned()))?;
        let (mut scanner, names, header) = Scanner::open(HashingReader::new(file), &self.job.input, delimiter)?;
        let fields: Vec<Arc<Field>> =
            names.iter().map(|name| Arc::new(Field::new(name, DataType::Utf8, true))).collect();
        let mut plan = self.plan(&fields)?;
        let mut output = OutputFile::create(&self.job.output, self.mode)?;
        let tally = csv_io::transform(&mut scanner, &header, delimiter, &mut plan.targets, &mut output, None, watch)?;
        let sha256 = scanner.into_reader().sha256();
        Ok(Done { tally, plan, sha256, output })
    }

    fn parquet(&self, mut file: File, watch: &Watch<'_>) -> Result<Done<'m>> {
        let path = &self.job.input;
        let on_read = |source| TableError::io(path, "read", source);
        let input = ParquetInput::open(file.try_clone().map_err(on_read)?, path)?;
        let mut plan = self.plan(input.schema().fields())?;
        let output = OutputFile::create(&self.job.output, self.mode)?;
        let (tally, output) =
            parquet_io::transform(&input, path, &mut plan.targets, output, watch, &mut |_| Ok(Vec::new()))?;
        let sha256 = if self.job.allow_changed {
            String::new()
        } else {
            file.rewind().map_err(on_read)?;
            sha256_of(&mut file, || watch.check(), path)?
        };
        Ok(Done { tally, plan, sha256, output })
    }

    fn plan(&self, fields: &[Arc<Field>]) -> Result<Plan<'m>> {
        let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
        let file: Arc<Path> = self.job.input.as_path().into();
        let renamed = self.renamed()?;
        let mut plan = Plan::default();
        let mut taken = HashSet::new();
        if let Some(name) = renamed.iter().find(|name| !taken.insert(**name)) {
            return Err(TableError::ColumnTwice { column: (*name).to_owned() });
        }
        for ((place, column), name) in self.manifest.columns.iter().enumerate().zip(renamed) {
            let index = find_column(&file, &names, name)?;
            let method = Method::of_manifest(&column.method, &column.options)
                .map_err(|error| self.damaged(format!("column `{}`: {error}", column.name)))?;
            if method.is_reversible() {
                plan.places.push(place);
                let row_id = self.plan_row_id(column, fields, &names)?;
                plan.targets.push(self.plan_column(column, method, index, &fields[index], row_id, &file)?);
            } else {
                plan.tokens.push((place, token_summary(column, &method, name)));
            }
        }
        Ok(plan)
    }

    /// The names that the manifest's columns have in the file at hand.
    fn renamed(&self) -> Result<Vec<&str>> {
        let columns = &self.manifest.columns;
        let mut names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let mut renamed = HashSet::new();
        for (name, logical) in &self.job.renamed {
            if self.identifies_rows(logical) {
                continue;
            }
            if !renamed.insert(logical) {
                return Err(TableError::RenamedTwice { logical: logical.clone() });
            }
            let mut found = (0..columns.len()).filter(|index| columns[*index].logical == *logical);
            match (found.next(), found.next()) {
                (Some(index), None) => names[index] = name,
                (Some(_), Some(_)) => {
                    return Err(TableError::ColumnAmbiguous {
                        file: self.manifest_path.to_owned(),
                        column: logical.clone(),
                    });
                }
                (None, _) => {
                    let logicals: Vec<String> = columns.iter().map(|column| format!("`{}`", column.logical)).collect();
                    return Err(TableError::ColumnUnknown {
                        file: self.manifest_path.to_owned(),
                        column: logical.clone(),
                        available: logicals.join(", "),
                    });
                }
            }
        }
        Ok(names)
    }

    /// The place of the column that identifies the rows that a column's values are bound to.
    fn plan_row_id(&self, column: &ManifestColumn, fields: &[Arc<Field>], names: &[String]) -> Result<Option<usize>> {
        let Some(binding) = &column.bound_to else { return Ok(None) };
        let name = self.row_id_name(binding);
        let index = find_column(&self.job.input, names, name)?;
        check_row_id_type(fields[index].data_type())
            .map_err(|rule| TableError::RowBinding { column: name.to_owned(), rule })?;
        Ok(Some(index))
    }

    /// The name that a column which identifies rows has in the file at hand.
    fn row_id_name<'b>(&'b self, binding: &'b RowBinding) -> &'b str {
        let renamed =
            self.job.renamed.iter().find(|(_, logical)| self.identifies_rows(logical) && *logical == binding.column);
        renamed.map_or(&binding.column, |(name, _)| name)
    }

    /// Whether a column of that name identifies rows; a protected column's logical name goes first.
    fn identifies_rows(&self, name: &str) -> bool {
        let columns = &self.manifest.columns;
        columns.iter().all(|column| column.logical != name)
            && columns.iter().any(|column| column.bound_to.as_ref().is_some_and(|binding| binding.column == name))
    }

    fn plan_column(
        &self,
        column: &ManifestColumn,
        method: Method,
        index: usize,
        field: &Field,
        row_id: Option<usize>,
        file: &Arc<Path>,
    ) -> Result<Target<'m>> {
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
        let mut metadata = field.metadata().clone();
        metadata.extend(column.metadata.iter().map(|(key, value)| (key.clone(), value.clone())));
        let worker = ColumnWorker::new(ColumnSetup {
            mill: self.mill,
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
        });
        let field = Field::new(field.name(), data_type, column.nullable).with_metadata(metadata);
        Ok(Target { index, row_id, field: Arc::new(field), logical: column.logical.clone(), worker })
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
    fn compare(&self, done: &Done<'_>) -> Result<()> {
        if self.job.allow_changed {
            return Ok(());
        }
        let changed = |problem: String| TableError::Changed { file: self.job.input.clone(), problem };
        if self.bytes_total < self.manifest.bytes {
            return Err(self.truncated(&format!("it ends after row {}", done.tally.rows)));
        }
        if done.tally.rows != self.manifest.rows {
            return Err(changed(format!("{} rows, and the manifest says {}", done.tally.rows, self.manifest.rows)));
        }
        for (target, place) in done.plan.targets.iter().zip(&done.plan.places) {
            let (found, wanted) = (target.worker.counts.nulls, self.manifest.columns[*place].nulls);
            if found != wanted {
                let column = target.worker.column();
                return Err(changed(format!(
                    "column `{column}` has {found} empty values, and the manifest says {wanted}"
                )));
            }
        }
        if !same(&done.sha256, &self.manifest.sha256) {
            return Err(changed("its SHA-256 is not the one in the manifest".to_owned()));
        }
        Ok(())
    }

    /// What a truncated file looks like is told from what the manifest says of its length.
    fn explain(&self, error: TableError) -> TableError {
        if self.job.allow_changed || self.bytes_total >= self.manifest.bytes {
            return error;
        }
        match &error {
            TableError::Parquet { .. } | TableError::Arrow { .. } => self.truncated(&error.to_string()),
            other if other.may_come_from_truncation() => self.truncated(&error.to_string()),
            _ => error,
        }
    }

    fn truncated(&self, problem: &str) -> TableError {
        let (found, wanted, rows) = (self.bytes_total, self.manifest.bytes, self.manifest.rows);
        let problem = format!("{found} of {wanted} bytes are left of {rows} rows; {problem}");
        TableError::Truncated { file: self.job.input.clone(), problem }
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
