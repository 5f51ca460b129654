//! From a folder of tables in clear to one of protected tables.

use ciphermill::Mill;

use super::files::{TableFile, base, check_apart, is_partition, list};
use super::journal::{JOURNAL, Record, Work};
use super::manifest::FOLDER_MANIFEST;
use super::run::Run;
use crate::error::{Result, TableError};
use crate::job::{Format, Progress, ProtectJob, Summary, is_standard_stream};
use crate::keys::RootKey;
use crate::manifest::ManifestKey;
use crate::protect::{check_columns, prepare};

/// Protects columns of all tables of a folder, or of those that a pattern names, and writes them to a new folder under the same
/// names, each in its own format. The folder gets one manifest, `_ciphermill.json`.
///
/// When a table fails, those that are done stay; the same job goes on with the others.
///
/// # Errors
/// [`TableError`], naming file, row and column; `Stopped` around it when tables are done.
pub fn protect_folder(
    job: &ProtectJob,
    mill: &Mill,
    root: &RootKey,
    progress: &(dyn Progress + Sync),
) -> Result<Summary> {
    check_columns(&job.columns)?;
    check_single(&[
        (job.manifest.is_some(), "a manifest's name"),
        (job.reject_file.is_some(), "a reject file"),
        (job.force, "replacing what is there (--force)"),
        (is_standard_stream(&job.output), "standard output"),
    ])?;
    let files = list(&job.input)?;
    if base(&job.input).join(FOLDER_MANIFEST).exists() {
        return Err(TableError::AlreadyProtected { file: job.input.clone() });
    }
    if let Some(record) = Record::read(&base(&job.input))? {
        let problem = record.work().to_string();
        return Err(TableError::OtherWork { journal: base(&job.input).join(JOURNAL), problem });
    }
    if let Some(file) = files.iter().find(|file| job.format.is_none() && Format::of_path(&file.path).is_none()) {
        return Err(TableError::FormatUnknown { file: file.path.clone() });
    }
    check_apart(&job.input, &job.output)?;
    let run = Run {
        mill,
        signer: root,
        output: &job.output,
        in_place: false,
        work: Work::new("protect", &job.input, ManifestKey::of(mill, root)?, settings(job)),
        kept: Vec::new(),
        threads: job.threads,
        cancel: &job.cancel,
        progress,
    };
    let prepare_file = |file: &TableFile, threads: usize, progress: &dyn Progress| {
        let of_file = ProtectJob {
            input: file.path.clone(),
            output: job.output.join(&file.name),
            threads: Some(threads),
            ..job.clone()
        };
        prepare(&of_file, mill, root, None, progress).map_err(|error| explain(error, file))
    };
    if job.dry_run { run.dry(files, &prepare_file) } else { run.run(files, &prepare_file) }
}

/// Refuses options that only single tables have.
///
/// # Errors
/// `OtherFormat`.
pub(super) fn check_single(options: &[(bool, &'static str)]) -> Result<()> {
    match options.iter().find(|(is_given, _)| *is_given) {
        Some((_, option)) => Err(TableError::OtherFormat { option, rule: "is for single tables, not for folders" }),
        None => Ok(()),
    }
}

/// What the tables depend on, in words.
fn settings(job: &ProtectJob) -> Vec<String> {
    let mut settings: Vec<String> = job.columns.iter().map(|column| format!("column {column}")).collect();
    settings
        .extend(job.bind_row.as_ref().map(|binding| format!("rows by {}, table {}", binding.column, binding.table)));
    settings.extend(job.format.map(|format| format!("format {}", format.name())));
    settings.extend(job.delimiter.map(|delimiter| format!("delimiter {:?}", char::from(delimiter))));
    settings.extend(job.no_header.then(|| "no header".to_owned()));
    settings.extend(job.codec.map(|codec| format!("codec {codec:?}")));
    settings
}

/// Tells those who ask for a partition's column why it is not there.
fn explain(error: TableError, file: &TableFile) -> TableError {
    match error {
        TableError::ColumnUnknown { column, .. } if is_partition(&file.name, &column) => TableError::UnsupportedType {
            file: file.path.clone(),
            column,
            data_type: "partition".to_owned(),
            rule: "its values are the names of folders, which stay as they are",
        },
        error => error,
    }
}
