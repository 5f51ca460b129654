//! A run over the tables of a folder: several at a time, each noted in the journal, all of them in the manifest in the end.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, scope};
use std::time::Instant;

use ciphermill::Mill;

use super::files::TableFile;
use super::journal::{Entry, JOURNAL, Journal, Work};
use super::manifest::{FOLDER_MANIFEST, FolderFile, FolderManifest};
use super::open::is_in_effect;
use crate::error::{Result, TableError};
use crate::job::{Files, Position, Progress, Summary};
use crate::keys::RootKey;
use crate::manifest::Manifest;
use crate::output::{Directory, is_part};
use crate::pair::Prepared;
use crate::pipeline;

/// A run over a folder.
pub(crate) struct Run<'a> {
    pub(crate) mill: &'a Mill,
    /// Signs the manifest and the journal.
    pub(crate) signer: &'a RootKey,
    /// Where the tables go.
    pub(crate) output: &'a Path,
    /// Whether that is where they come from.
    pub(crate) in_place: bool,
    pub(crate) work: Work,
    /// Tables that are as they are to be already, and need nothing but their place in the manifest.
    pub(crate) kept: Vec<FolderFile>,
    pub(crate) threads: Option<usize>,
    pub(crate) cancel: &'a AtomicBool,
    pub(crate) progress: &'a (dyn Progress + Sync),
}

/// Makes a table with so many threads; it is complete then and not in its place.
pub(crate) trait Prepare: Fn(&TableFile, usize, &dyn Progress) -> Result<Prepared> + Sync {}

impl<F: Fn(&TableFile, usize, &dyn Progress) -> Result<Prepared> + Sync> Prepare for F {}

/// A table's name, and the manifest that it has if it is protected.
type Placed = (String, Option<Manifest>);

/// What was done with tables.
#[derive(Default)]
struct Done {
    summary: Summary,
    tables: Vec<Placed>,
}

/// What was done with tables until one of them failed.
struct Failed {
    error: TableError,
    done: usize,
}

impl Run<'_> {
    /// Looks at all tables and writes nothing.
    ///
    /// # Errors
    /// That of the table that fails.
    pub(crate) fn dry(&self, files: Vec<TableFile>, prepare: &impl Prepare) -> Result<Summary> {
        let started = Instant::now();
        let count = files.len();
        let looked_at = |file: &TableFile, threads: usize, progress: &dyn Progress| {
            prepare(file, threads, progress).map(|prepared| (prepared.summary, None))
        };
        let done = self.each(files, &looked_at).map_err(|failed| failed.error)?;
        let files = Some(Files { done: count, before: 0 });
        Ok(Summary { files, total: started.elapsed(), ..done.summary })
    }

    /// Puts all tables into their places that are not there yet, and then the manifest.
    ///
    /// # Errors
    /// `FolderTaken`, `FolderBusy`, `OtherWork`, `JournalDamaged`; `Stopped` around the error of a table when others are done; `Io`.
    pub(crate) fn run(&self, files: Vec<TableFile>, prepare: &impl Prepare) -> Result<Summary> {
        let started = Instant::now();
        let is_new = self.make_place()?;
        let (journal, entries) = Journal::open(self.output, &self.work, self.mill, self.signer)?;
        let (todo, before) = self.settle(files, entries, &journal)?;
        let (count, all) = (before.len(), before.len() + todo.len());
        let names: Vec<String> = todo.iter().map(|file| file.name.clone()).collect();
        let journal = Mutex::new(journal);
        let place = |file: &TableFile, threads: usize, progress: &dyn Progress| {
            let prepared = prepare(file, threads, progress)?;
            self.place(file, prepared, &journal)
        };
        let made = names.iter().try_for_each(|name| self.make_folders(name));
        let done = made.map_err(|error| Failed { error, done: 0 }).and_then(|()| self.each(todo, &place));
        let journal = journal.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Done { summary, mut tables } = match done {
            Ok(done) => done,
            Err(Failed { error, done }) => {
                if !journal.names_tables() {
                    self.clear(journal, &names, is_new);
                }
                return Err(match done + count {
                    0 => error,
                    done => TableError::Stopped { done, of: all, error: Box::new(error) },
                });
            }
        };
        tables.extend(before);
        let manifest = self.finish(tables, journal)?;
        let files = Some(Files { done: all - count, before: count });
        Ok(Summary { files, manifest, total: started.elapsed(), ..summary })
    }

    /// Makes the output's folder unless it is there; tells whether it was made.
    fn make_place(&self) -> Result<bool> {
        let on_io = |source| TableError::io(self.output, "make the folder", source);
        if self.in_place {
            return Ok(false);
        }
        match std::fs::symlink_metadata(self.output) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                std::fs::create_dir_all(self.output).map_err(on_io)?;
                let directory = Directory::open(self.output)?;
                directory.sync().map_err(on_io)?;
                return Ok(true);
            }
            Err(error) => return Err(on_io(error)),
            Ok(_) => {}
        }
        let mut entries = std::fs::read_dir(self.output).map_err(on_io)?;
        if entries.next().is_some() && !self.output.join(JOURNAL).exists() {
            return Err(TableError::FolderTaken { path: self.output.to_owned() });
        }
        Ok(false)
    }

    /// Tells the tables that are in their places from those that are still to be made.
    fn settle(
        &self,
        files: Vec<TableFile>,
        mut entries: BTreeMap<String, Entry>,
        journal: &Journal,
    ) -> Result<(Vec<TableFile>, Vec<Placed>)> {
        if journal.is_gone_on_with() {
            let names = files.iter().map(|file| &file.name).chain(entries.keys());
            let folders: BTreeSet<PathBuf> = names.flat_map(|name| self.folders(name)).collect();
            folders.iter().try_for_each(|folder| remove_parts(folder))?;
            remove_parts(self.output)?;
        }
        let mut done: Vec<Placed> = Vec::new();
        for FolderFile { path, manifest } in &self.kept {
            entries.remove(path);
            done.push((path.clone(), Some(manifest.clone())));
        }
        let mut todo = Vec::new();
        for file in files {
            let path = self.output.join(&file.name);
            if let Some(entry) = entries.remove(&file.name)
                && is_in_effect(&path, &entry, self.cancel)?
            {
                check_len(&path, entry.manifest.as_ref())?;
                done.push((file.name, entry.manifest));
                continue;
            }
            if !self.in_place && std::fs::symlink_metadata(&path).is_ok() {
                return Err(TableError::Exists { path });
            }
            todo.push(file);
        }
        if let Some((name, _)) = entries.first_key_value() {
            let problem =
                format!("it was there when the run began that {} is of, and is not any more", journal.path().display());
            return Err(TableError::Changed { file: name.into(), problem });
        }
        Ok((todo, done))
    }

    /// The folders above a table, from the output on.
    fn folders(&self, name: &str) -> Vec<PathBuf> {
        let places = name.match_indices('/').map(|(place, _)| place);
        places.map(|place| self.output.join(&name[..place])).collect()
    }

    /// Makes the folders above a table, so that they last.
    fn make_folders(&self, name: &str) -> Result<()> {
        for folder in self.folders(name) {
            let on_io = |source| TableError::io(&folder, "make the folder", source);
            match std::fs::create_dir(&folder) {
                Ok(()) => Directory::open(&folder)?.sync().map_err(on_io)?,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(on_io(error)),
            }
        }
        Ok(())
    }

    /// Puts a table into its place.
    fn place(
        &self,
        file: &TableFile,
        prepared: Prepared,
        journal: &Mutex<Journal>,
    ) -> Result<(Summary, Option<Manifest>)> {
        let Prepared { summary, table, manifest, .. } = prepared;
        let path = self.output.join(&file.name);
        if let Some(table) = table {
            locked(journal).ready(&file.name, manifest.as_ref())?;
            if self.in_place {
                remove_checksum(&path)?;
            }
            table.place(&Directory::open(&path)?, self.in_place)?;
            locked(journal).done(&file.name)?;
        }
        Ok((summary, manifest))
    }

    /// Writes the folder's manifest, if tables have any, and ends the journal. Gives the place of the manifest.
    fn finish(&self, tables: Vec<Placed>, journal: Journal) -> Result<PathBuf> {
        let with_manifest = |(path, manifest): Placed| Some(FolderFile { path, manifest: manifest? });
        let files: Vec<FolderFile> = tables.into_iter().filter_map(with_manifest).collect();
        // Only a run that was cut short, or the one before, can have written what is there.
        let path = match files.is_empty() {
            true => self.output.join(FOLDER_MANIFEST),
            false => FolderManifest::put(self.output, files, self.mill, self.signer)?,
        };
        journal.end()?;
        Ok(path)
    }

    /// Removes what was made for tables of which none has come.
    fn clear(&self, journal: Journal, names: &[String], is_new: bool) {
        // The error that matters is the one that kept the tables from coming; folders that are not empty stay.
        let _ = journal.end();
        if self.in_place {
            return;
        }
        let folders: BTreeSet<PathBuf> = names.iter().flat_map(|name| self.folders(name)).collect();
        for folder in folders.iter().rev() {
            let _ = std::fs::remove_dir(folder);
        }
        if is_new {
            let _ = std::fs::remove_dir(self.output);
        }
    }

    /// Does one thing with each table, large ones first, with as many threads as the job has. When one fails no other is begun.
    fn each<T>(&self, files: Vec<TableFile>, one: &T) -> Result<Done, Failed>
    where
        T: Fn(&TableFile, usize, &dyn Progress) -> Result<(Summary, Option<Manifest>)> + Sync,
    {
        let threads = pipeline::threads(self.threads);
        let workers = threads.min(files.len()).max(1);
        let mut files = files;
        files.sort_by_key(|file| std::cmp::Reverse(file.len));
        let line = Line {
            bytes_total: files.iter().map(|file| file.len).sum(),
            files: Mutex::new(files.into()),
            has_failed: AtomicBool::new(false),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            progress: self.progress,
            threads_each: threads / workers,
        };
        let results = scope(|scope| {
            let spawn = |number| {
                let name = format!("table-file-{number}");
                // A thread that the system does not give is not needed: this one works, too.
                Builder::new().name(name).spawn_scoped(scope, || line.work(one)).ok()
            };
            let others: Vec<_> = (1..workers).map_while(spawn).collect();
            let mut results = vec![line.work(one)];
            results.extend(
                others
                    .into_iter()
                    .map(|other| other.join().unwrap_or_else(|_| (Done::default(), Some(TableError::Panicked)))),
            );
            results
        });
        let (mut all, mut failed) = (Done::default(), None);
        for (done, error) in results {
            all.summary.add(done.summary);
            all.tables.extend(done.tables);
            failed = failed.or(error);
        }
        match failed {
            None => Ok(all),
            Some(error) => Err(Failed { error, done: all.tables.len() }),
        }
    }
}

/// Tables in line for threads.
struct Line<'a> {
    files: Mutex<VecDeque<TableFile>>,
    has_failed: AtomicBool,
    rows: AtomicU64,
    bytes: AtomicU64,
    bytes_total: u64,
    progress: &'a (dyn Progress + Sync),
    threads_each: usize,
}

impl Line<'_> {
    /// Does one thing with table after table, until there is none left or one has failed.
    fn work<T>(&self, one: &T) -> (Done, Option<TableError>)
    where
        T: Fn(&TableFile, usize, &dyn Progress) -> Result<(Summary, Option<Manifest>)>,
    {
        let mut done = Done::default();
        while !self.has_failed.load(Ordering::Relaxed) {
            let Some(file) = locked(&self.files).pop_front() else { break };
            let (rows, bytes) = (Cell::new(0), Cell::new(0));
            let advance = |position: &Position| {
                let rows_more = position.rows.saturating_sub(rows.replace(position.rows));
                let bytes_more = position.bytes.saturating_sub(bytes.replace(position.bytes));
                self.progress.advance(&Position {
                    rows: self.rows.fetch_add(rows_more, Ordering::Relaxed) + rows_more,
                    rows_total: None,
                    bytes: self.bytes.fetch_add(bytes_more, Ordering::Relaxed) + bytes_more,
                    bytes_total: Some(self.bytes_total),
                });
            };
            match one(&file, self.threads_each, &advance) {
                Ok((summary, manifest)) => {
                    done.summary.add(summary);
                    done.tables.push((file.name, manifest));
                }
                Err(error) => {
                    self.has_failed.store(true, Ordering::Relaxed);
                    return (done, Some(error));
                }
            }
        }
        (done, None)
    }
}

/// What is behind a lock that a thread may have panicked with: the panic itself is what gets reported.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes what a run that was killed has left in a folder.
fn remove_parts(folder: &Path) -> Result<()> {
    let on_io = |source| TableError::io(folder, "remove what was left there", source);
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(on_io)?,
    };
    for entry in entries {
        let entry = entry.map_err(on_io)?;
        if is_part(&entry.file_name()) {
            std::fs::remove_file(entry.path()).map_err(on_io)?;
        }
    }
    Ok(())
}

/// Removes the checksum that Hadoop keeps beside a table: it would be that of the table before, and a missing one is none too little.
fn remove_checksum(table: &Path) -> Result<()> {
    let Some(name) = table.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    let path = table.with_file_name(format!(".{name}.crc"));
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(TableError::io(&path, "remove", error)),
        _ => Ok(()),
    }
}

/// Checks that a table that is done has the length that it was made with.
fn check_len(path: &Path, manifest: Option<&Manifest>) -> Result<()> {
    let Some(manifest) = manifest else { return Ok(()) };
    let found = std::fs::metadata(path).map_err(|source| TableError::io(path, "read", source))?.len();
    if found != manifest.bytes {
        let problem = format!("{found} bytes, and the journal says {}", manifest.bytes);
        return Err(TableError::Changed { file: path.to_owned(), problem });
    }
    Ok(())
}
