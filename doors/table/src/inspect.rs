//! Looking at a protected table: what its manifest says, and which of it holds. Of a CSV table whose manifest is lost, what
//! can be made anew from key and columns.

use std::io::Seek;
use std::path::PathBuf;

use ciphermill::Mill;

use crate::compress::CsvInput;
use crate::csv_blocks::Blocks;
use crate::csv_scan::Records;
use crate::dialect::Dialect;
use crate::error::{Place, Result, TableError, find_column};
use crate::hash::TableHash;
use crate::job::{Format, Origin, Progress, ProtectJob, UnprotectJob, check_cancel};
use crate::keys::RootKey;
use crate::manifest::{Manifest, ManifestColumn, manifest_path};
use crate::output::{Directory, PROTECTED_MODE, check_output, output_mode, ready_file};
use crate::source::{Protected, Source};
use crate::spec::Method;
use crate::{protect, text, unprotect};

/// What a check has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// It holds.
    Verified,
    /// It does not hold, for this reason.
    Failed(String),
    /// Nobody looked, for this reason.
    NotChecked(&'static str),
}

impl Check {
    /// Why it does not hold.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Check::Failed(problem) => Some(problem),
            Check::Verified | Check::NotChecked(_) => None,
        }
    }

    pub(crate) fn of<T>(result: Result<T>) -> Result<Check> {
        match result {
            Ok(_) => Ok(Check::Verified),
            Err(error @ TableError::Interrupted) => Err(error),
            Err(error) => Ok(Check::Failed(error.to_string())),
        }
    }
}

/// What there is to say of a protected table.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The manifest, without a previous one.
    pub manifest: Manifest,
    /// The file that the manifest was read from.
    pub manifest_path: PathBuf,
    /// Where in there it was found.
    pub origin: Origin,
    /// Whether the manifest names this very file by its hash.
    pub hash: Check,
    /// Whether the manifest was signed under the key.
    pub signature: Check,
    /// Whether each value of `random` and `deterministic` columns is authentic.
    pub values: Check,
}

impl Inspection {
    /// Whether nothing that was checked has failed.
    pub fn is_good(&self) -> bool {
        self.problem().is_none()
    }

    /// What has failed first of what was checked.
    pub fn problem(&self) -> Option<String> {
        let checks = [("hash", &self.hash), ("signature", &self.signature), ("values", &self.values)];
        checks.into_iter().find_map(|(what, check)| Some(format!("{what}: {}", check.problem()?)))
    }
}

/// Looks at the input of a job; its output is not written. With a mill and the key, signature and values are verified too.
///
/// # Errors
/// [`TableError`] when there is no table or no manifest that can be read; `Interrupted`. What does not verify is part of the
/// [`Inspection`].
pub fn inspect(
    protected: Protected,
    job: &UnprotectJob,
    key: Option<(&Mill, &RootKey)>,
    progress: &dyn Progress,
) -> Result<Inspection> {
    let mut protected = protected;
    if protected.is_named.is_none() && protected.source.len().is_some() {
        let source = &protected.source;
        let hash = TableHash::of(&source.file, source.path(), || check_cancel(&job.cancel))?;
        protected = protected.named_by(&hash);
    }
    let Protected { source, manifest, manifest_path, origin, is_named, .. } = protected;
    let hash = match is_named {
        Some(true) => Check::Verified,
        Some(false) => not_named(),
        None => Check::NotChecked("the input can be read only once"),
    };
    let (mut signature, mut values) = (Check::NotChecked("it takes the key"), Check::NotChecked("it takes the key"));
    if let Some((mill, root)) = key {
        signature = Check::of(manifest.verify(&manifest_path, mill, root))?;
        values = Check::NotChecked("the signature does not hold");
        if signature == Check::Verified {
            rewind(&source)?;
            let job = UnprotectJob { allow_changed: true, columns: Vec::new(), ..job.clone() };
            values = Check::of(unprotect::check(&job, &manifest, &source, mill, root, progress))?;
        }
    }
    Ok(Inspection { manifest, manifest_path, origin, hash, signature, values })
}

fn not_named() -> Check {
    Check::Failed("the file is not the one that the manifest was written for".to_owned())
}

fn rewind(source: &Source) -> Result<()> {
    match source.len() {
        Some(_) => (&source.file).rewind().map_err(|error| TableError::io(source.path(), "read", error)),
        None => Ok(()),
    }
}

/// Makes a manifest anew for the protected CSV table that is the job's *input*, and puts it beside that. Columns are given as
/// they were for protecting.
///
/// Each value of `random` and `deterministic` columns is authenticated on the way, and tokens and texts of `ff1` have to have
/// their form. What cannot be known: whether rows were added, removed, swapped or emptied, whether columns of `ff1` and `token`
/// and those that nobody named are what they were, and whether the key and options given for `ff1` and `token` are those they
/// were protected with.
///
/// # Errors
/// [`TableError`]; `RebuildsCsvOnly` for Parquet, whose types before protecting are in its own manifests alone. Nothing is
/// written then.
pub fn rebuild(job: &ProtectJob, mill: &Mill, root: &RootKey, progress: &dyn Progress) -> Result<Manifest> {
    if job.format.or_else(|| Format::of_path(&job.input)) != Some(Format::Csv) {
        return Err(TableError::RebuildsCsvOnly { file: job.input.clone() });
    }
    let path = manifest_path(&job.input);
    check_output(&job.input, &path, job.force)?;
    let source = Source::open(&job.input, true)?;
    let mode = output_mode(&source.file, &job.input, &path, PROTECTED_MODE)?;
    let mut manifest = protect::draft(job, &source, mill, root)?;
    rewind(&source)?;
    let restore = UnprotectJob { cancel: job.cancel.clone(), ..UnprotectJob::new(&job.input, "") };
    let checked = unprotect::check(&restore, &manifest, &source, mill, root, progress)?;
    for (place, values, nulls) in checked.columns {
        (manifest.columns[place].values, manifest.columns[place].nulls) = (values, nulls);
    }
    rewind(&source)?;
    count_tokens(job, &source, &mut manifest)?;
    manifest.rows = checked.rows;
    if let Some(hash) = checked.hash {
        manifest = hash.put_into(manifest);
    }
    source.check_unchanged()?;
    check_cancel(&job.cancel)?;
    let manifest = manifest.signed(mill, root)?;
    let directory = Directory::open(&path)?;
    ready_file(&path, &manifest.to_text(&path)?, mode)?.place(&directory, job.force)?;
    Ok(manifest)
}

/// Counts the values and nulls of token columns, whose values have to look like tokens.
fn count_tokens(job: &ProtectJob, source: &Source, manifest: &mut Manifest) -> Result<()> {
    let text = CsvInput::open(&source.file, &job.input)?;
    let (mut blocks, names, _) = Blocks::open(text, &job.input, Dialect::of_job(job))?;
    let mut tokens: Vec<(usize, usize, &mut ManifestColumn)> = Vec::new();
    for (spec, column) in job.columns.iter().zip(&mut manifest.columns) {
        if let Method::Token { len } = spec.method {
            tokens.push((find_column(&job.input, &names, &spec.name)?, usize::from(len), column));
        }
    }
    let (mut records, mut scratch, mut decoded) = (Records::default(), Vec::new(), Vec::new());
    let mut rows = 0;
    while !tokens.is_empty() && blocks.next_records(&mut records, rows)? {
        check_cancel(&job.cancel)?;
        for (index, len, column) in &mut tokens {
            for row in 0..records.rows {
                let content = records.content(records.field(row, *index), &mut scratch);
                decoded.clear();
                if content.is_empty() {
                    column.nulls += 1;
                } else if text::decode(content, &mut decoded) && decoded.len() == *len {
                    column.values += 1;
                } else {
                    let place = Place::new(&job.input, rows + 1 + row as u64, &column.name);
                    return Err(TableError::Damaged { place, rule: "not a token of the length given" });
                }
            }
        }
        rows += records.rows as u64;
    }
    Ok(())
}
