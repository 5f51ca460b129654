//! From a folder of protected tables to one in clear, or to one that is protected otherwise.

use std::path::Path;

use ciphermill::Mill;

use super::files::{TableFile, check_apart};
use super::journal::Work;
use super::manifest::FolderFile;
use super::open::{Folder, find_root};
use super::protect::check_single;
use super::run::Run;
use crate::error::{Result, TableError};
use crate::job::{Files, Progress, Summary, UnprotectJob, is_standard_stream};
use crate::keys::RootKey;
use crate::manifest::{Manifest, ManifestKey};
use crate::rekey::Rekey;
use crate::unprotect::prepare;

/// Restores the tables of a folder to a new folder, under the same names and in their own formats.
///
/// When a table fails, those that are done stay; the same job goes on with the others. `roots` are the keys that
/// [`Folder::keys`] tells.
///
/// # Errors
/// [`TableError`], naming file, row and column; `Stopped` around it when tables are done.
pub fn restore_folder(
    folder: Folder,
    job: &UnprotectJob,
    mill: &Mill,
    roots: &[RootKey],
    progress: &(dyn Progress + Sync),
) -> Result<Summary> {
    check_options(job)?;
    check_single(&[(job.format.is_some(), "another format")])?;
    check_apart(&job.input, &job.output)?;
    folder.verify(mill, roots)?;
    let signer = signer(&folder, job, roots)?;
    let mut settings: Vec<String> = job.columns.iter().map(|column| format!("column {column}")).collect();
    settings.extend(job.renamed.iter().map(|(now, logical)| format!("{logical} is {now}")));
    settings.extend(job.allow_changed.then(|| "changed files are allowed".to_owned()));
    let run = Run {
        mill,
        signer,
        output: &job.output,
        in_place: false,
        work: Work::new("unprotect", &job.input, ManifestKey::of(mill, signer)?, settings),
        kept: Vec::new(),
        threads: job.threads,
        cancel: &job.cancel,
        progress,
    };
    let each = Each { folder: &folder, job, mill, roots, rekey: None };
    let files = folder.tables.iter().map(|(file, _)| file.clone()).collect();
    run.run(files, &|file: &TableFile, threads: usize, progress: &dyn Progress| each.prepare(file, threads, progress))
}

/// Protects the tables of a folder under another key, version or method: into a new folder, or in place if input and output of the
/// job are the same. In place, a table is the old one or the new one at any time, and whoever opens the folder finds the manifest
/// for either; tables that are as asked for already are left alone.
///
/// # Errors
/// As for [`restore_folder`] and [`crate::rekey()`].
pub fn rekey_folder(
    folder: Folder,
    job: &UnprotectJob,
    mill: &Mill,
    roots: &[RootKey],
    to: &Rekey,
    progress: &(dyn Progress + Sync),
) -> Result<Summary> {
    let in_place = job.input == job.output;
    check_options(job)?;
    for (file, manifest) in &folder.tables {
        to.check(&UnprotectJob { input: file.path.clone(), ..job.clone() }, manifest)?;
    }
    match (in_place, &folder.manifest) {
        (false, _) => check_apart(&job.input, &job.output)?,
        (true, Some((_, path))) if path.parent() == std::path::absolute(&job.input).ok().as_deref() => {}
        (true, _) => return Err(TableError::NotWhole { path: job.input.clone() }),
    }
    if in_place && let Some((file, _)) = folder.tables.iter().find(|(file, _)| file.path.is_symlink()) {
        // What it leads to would stay under the old key.
        return Err(TableError::NotAFile { path: file.path.clone(), found: "a symbolic link" });
    }
    folder.verify(mill, roots)?;
    let is_kept = |manifest: &Manifest| in_place && to.is_done(manifest);
    let (kept, todo): (Vec<_>, Vec<_>) = folder.tables.iter().partition(|(_, manifest)| is_kept(manifest));
    let kept: Vec<FolderFile> = kept
        .into_iter()
        .map(|(file, manifest)| FolderFile { path: file.name.clone(), manifest: manifest.clone() })
        .collect();
    if todo.is_empty() && folder.record.is_none() {
        let files = Some(Files { done: 0, before: kept.len() });
        return Ok(Summary { files, manifest: folder.manifest_path(job), ..Summary::default() });
    }
    let mut settings: Vec<String> = to.columns.iter().map(|column| format!("column {column}")).collect();
    settings.extend(job.allow_changed.then(|| "changed files are allowed".to_owned()));
    let run = Run {
        mill,
        signer: &to.root,
        output: &job.output,
        in_place,
        work: Work::new("rekey", &job.input, ManifestKey::of(mill, &to.root)?, settings),
        kept,
        threads: job.threads,
        cancel: &job.cancel,
        progress,
    };
    let each = Each { folder: &folder, job, mill, roots, rekey: Some(to) };
    let files = todo.into_iter().map(|(file, _)| file.clone()).collect();
    run.run(files, &|file: &TableFile, threads: usize, progress: &dyn Progress| each.prepare(file, threads, progress))
}

/// What is done with each table.
struct Each<'a> {
    folder: &'a Folder,
    job: &'a UnprotectJob,
    mill: &'a Mill,
    roots: &'a [RootKey],
    rekey: Option<&'a Rekey>,
}

impl Each<'_> {
    fn prepare(&self, file: &TableFile, threads: usize, progress: &dyn Progress) -> Result<crate::pair::Prepared> {
        let job = UnprotectJob {
            input: file.path.clone(),
            output: self.job.output.join(&file.name),
            threads: Some(threads),
            ..self.job.clone()
        };
        let protected = self.folder.protected(file, &job)?;
        let root = find_root(self.roots, &protected.manifest.root_key, &protected.manifest_path)?;
        prepare(protected, &job, self.mill, root, self.rekey, progress)
    }
}

fn check_options(job: &UnprotectJob) -> Result<()> {
    check_single(&[
        (job.manifest.is_some(), "a manifest's name"),
        (job.force, "replacing what is there (--force)"),
        (is_standard_stream(&job.output), "standard output"),
    ])
}

/// The key that journal and manifest are signed with: that of all tables.
fn signer<'a>(folder: &Folder, job: &UnprotectJob, roots: &'a [RootKey]) -> Result<&'a RootKey> {
    let path = folder.manifest_path(job);
    let keys: Vec<&ManifestKey> = folder.tables.iter().map(|(_, manifest)| &manifest.root_key).collect();
    match keys.first() {
        Some(key) if job.columns.is_empty() || keys.iter().all(|other| other == key) => find_root(roots, key, &path),
        _ => Err(mixed(&path)),
    }
}

fn mixed(path: &Path) -> TableError {
    let problem =
        "its tables are under several keys, and those of a folder that stay protected are under one".to_owned();
    TableError::Changed { file: path.to_owned(), problem }
}
