//! What is done of a folder, kept while a run works on it, so that a run that is cut short can be gone on with.
//!
//! The journal is a file of lines, of which only new ones are written: the first says what the work is, and of each table one
//! comes before it is put into its place, with the manifest that it will have, and one after. A line is JSON, behind the
//! HMAC-SHA-256 of its number and text under a key of this journal, so that nobody can make a table pass for another. A last line
//! that was cut short counts as not written.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ciphermill::Mill;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Result, TableError};
use crate::keys::{self, DerivedKey, HMAC_SHA256, Purpose, RootKey};
use crate::manifest::{Manifest, ManifestKey, same};
use crate::output::Directory;

/// The file's name in the folder.
pub(crate) const JOURNAL: &str = "_ciphermill.journal";

/// The version of this format.
const JOURNAL_FORMAT: u64 = 1;

/// Bytes that a journal may have.
const LEN_MAX: u64 = 512 << 20;

/// Attempts to lock a journal that others end meanwhile.
const OPEN_TRIES: usize = 16;

/// What a run is to do. A journal is gone on with by the same work only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Work {
    /// `protect`, `unprotect` or `rekey`.
    pub(crate) command: String,
    /// The absolute path of the folder or pattern.
    pub(crate) input: String,
    /// The key that tables are protected under, or restored.
    pub(crate) root_key: ManifestKey,
    /// Columns, methods and options.
    pub(crate) settings: Vec<String>,
}

/// What is known of a table that a run has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The manifest that it has when it is in its place; a table in clear has none.
    pub(crate) manifest: Option<Manifest>,
    /// Whether it is in its place for certain.
    pub(crate) is_done: bool,
}

/// What a journal says.
pub(crate) struct Record {
    head: Head,
    pub(crate) entries: BTreeMap<String, Entry>,
    /// The authentication code and the text of each line.
    lines: Vec<(String, String)>,
    /// Bytes of complete lines.
    len: u64,
}

/// A journal that a run writes. Nobody else can as long as this value lives.
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    mill: Mill,
    key: DerivedKey,
    lines: u64,
    is_gone_on_with: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Head(Head),
    /// A table is complete and about to be put into its place.
    Ready {
        path: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        manifest: Option<Manifest>,
    },
    /// It is there.
    Done {
        path: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    ciphermill_journal: u64,
    /// Random, so that each journal has a key of its own.
    id: String,
    work: Work,
}

impl Record {
    /// What the journal of a folder says; `None` where none is. Whether it is authentic is for [`Record::verify`].
    ///
    /// # Errors
    /// `JournalDamaged`, `Io`.
    pub(crate) fn read(folder: &Path) -> Result<Option<Record>> {
        let path = folder.join(JOURNAL);
        match File::open(&path) {
            Ok(mut file) => Record::of(&mut file, &path),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(TableError::io(&path, "read", error)),
        }
    }

    /// `None` for a journal that died before its first line.
    fn of(file: &mut File, path: &Path) -> Result<Option<Record>> {
        let damaged =
            |line: usize, problem: String| TableError::JournalDamaged { journal: path.to_owned(), line, problem };
        let mut text = Vec::new();
        let read = file.take(LEN_MAX + 1).read_to_end(&mut text);
        read.map_err(|source| TableError::io(path, "read", source))?;
        if text.len() as u64 > LEN_MAX {
            return Err(damaged(0, format!("more than {LEN_MAX} bytes")));
        }
        let mut found: Option<Record> = None;
        let mut len = 0;
        // What follows the last line end was cut short.
        let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
        for (number, line) in text[..complete].split_inclusive(|byte| *byte == b'\n').enumerate() {
            len += line.len() as u64;
            let problem = |problem: String| damaged(number + 1, problem);
            let line = std::str::from_utf8(line).map_err(|error| problem(error.to_string()))?.trim_end_matches('\n');
            let (code, text) = line.split_once(' ').ok_or_else(|| problem("no code before the text".to_owned()))?;
            let parsed = serde_json::from_str(text).map_err(|error| problem(error.to_string()))?;
            match (&mut found, parsed) {
                (None, Line::Head(head)) if head.ciphermill_journal == JOURNAL_FORMAT => {
                    found = Some(Record { head, entries: BTreeMap::new(), lines: Vec::new(), len: 0 });
                }
                (None, _) => {
                    return Err(problem("it does not say what the work is, or is of another version".to_owned()));
                }
                (Some(record), Line::Ready { path, manifest }) => {
                    record.entries.insert(path, Entry { manifest, is_done: false });
                }
                (Some(record), Line::Done { path }) => match record.entries.get_mut(&path) {
                    Some(entry) => entry.is_done = true,
                    None => return Err(problem(format!("`{path}` was never ready"))),
                },
                (Some(_), Line::Head(_)) => return Err(problem("the work is named twice".to_owned())),
            }
            if let Some(record) = &mut found {
                record.lines.push((code.to_owned(), text.to_owned()));
                record.len = len;
            }
        }
        Ok(found)
    }

    /// What the run was to do.
    pub(crate) fn work(&self) -> &Work {
        &self.head.work
    }

    /// Checks that every line was written under `root`.
    ///
    /// # Errors
    /// `KeyVersion`, `WrongKey`, `JournalDamaged`.
    pub(crate) fn verify(&self, path: &Path, mill: &Mill, root: &RootKey) -> Result<()> {
        self.head.work.root_key.check(path, mill, root)?;
        let key = key_of(&self.head, mill, root)?;
        for (number, (code, text)) in self.lines.iter().enumerate() {
            if !same(&code_of(mill, &key, number as u64, text)?, code) {
                let problem = "it was altered: its code does not hold".to_owned();
                return Err(TableError::JournalDamaged { journal: path.to_owned(), line: number + 1, problem });
            }
        }
        Ok(())
    }
}

impl Journal {
    /// Begins the journal of a folder, or goes on with the one that is there if it is for the same work; then it says what is
    /// done.
    ///
    /// # Errors
    /// `FolderBusy` when another run has it; `OtherWork`; `JournalDamaged`; `Io`.
    pub(crate) fn open(
        folder: &Path,
        work: &Work,
        mill: &Mill,
        root: &RootKey,
    ) -> Result<(Journal, BTreeMap<String, Entry>)> {
        let path = folder.join(JOURNAL);
        let mut file = locked(&path)?;
        let record = Record::of(&mut file, &path)?;
        let on_write = |source| TableError::io(&path, "write", source);
        if let Some(record) = record {
            if record.work() != work {
                let problem = record.work().to_string();
                return Err(TableError::OtherWork { journal: path, problem });
            }
            record.verify(&path, mill, root)?;
            let key = key_of(&record.head, mill, root)?;
            file.set_len(record.len).and_then(|()| file.seek(SeekFrom::End(0))).map_err(on_write)?;
            let lines = record.lines.len() as u64;
            let journal = Journal { file, path, mill: mill.clone(), key, lines, is_gone_on_with: true };
            return Ok((journal, record.entries));
        }
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|_| TableError::Entropy)?;
        let head = Head { ciphermill_journal: JOURNAL_FORMAT, id: hex::encode(id), work: work.clone() };
        let key = key_of(&head, mill, root)?;
        file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).map_err(on_write)?;
        let mut journal = Journal { file, path, mill: mill.clone(), key, lines: 0, is_gone_on_with: false };
        journal.append(&Line::Head(head))?;
        journal.sync()?;
        let directory = Directory::open(&journal.path)?;
        directory.sync().map_err(|source| TableError::io(folder, "sync the directory", source))?;
        Ok((journal, BTreeMap::new()))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether another run has begun it.
    pub(crate) fn is_gone_on_with(&self) -> bool {
        self.is_gone_on_with
    }

    /// Whether a table is, or may be, in its place because of it.
    pub(crate) fn names_tables(&self) -> bool {
        self.lines > 1
    }

    /// Notes that a table is about to be put into its place, so that this lasts.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn ready(&mut self, name: &str, manifest: Option<&Manifest>) -> Result<()> {
        self.append(&Line::Ready { path: name.to_owned(), manifest: manifest.cloned() })?;
        self.sync()
    }

    /// Notes that it is there. If that gets lost, the table itself tells.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn done(&mut self, name: &str) -> Result<()> {
        self.append(&Line::Done { path: name.to_owned() })
    }

    /// Ends the work: the journal is not needed any more.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn end(self) -> Result<()> {
        let directory = Directory::open(&self.path)?;
        std::fs::remove_file(&self.path).map_err(|source| TableError::io(&self.path, "remove the journal", source))?;
        let but = "whether the run's end outlasts a power failure is unknown, since its directory cannot be synced";
        directory.sync().map_err(|source| TableError::InEffect { path: self.path, but, source })
    }

    fn append(&mut self, line: &Line) -> Result<()> {
        let on_write = |source| TableError::io(&self.path, "write", source);
        let text = serde_json::to_string(line).map_err(|error| on_write(error.into()))?;
        let code = code_of(&self.mill, &self.key, self.lines, &text)?;
        let line = format!("{code} {text}\n");
        let before = self.file.stream_position().map_err(on_write)?;
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            // Half a line would spoil those that follow. The error that matters is that of writing.
            let _ = self.file.set_len(before).and_then(|()| self.file.seek(SeekFrom::Start(before)));
            return Err(on_write(error));
        }
        self.lines += 1;
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|source| TableError::io(&self.path, "sync", source))
    }
}

impl Work {
    pub(crate) fn new(command: &str, input: &Path, root_key: ManifestKey, settings: Vec<String>) -> Work {
        let input = std::path::absolute(input).unwrap_or_else(|_| input.to_owned());
        Work { command: command.to_owned(), input: input.to_string_lossy().into_owned(), root_key, settings }
    }
}

impl std::fmt::Display for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Work { command, input, root_key, settings } = self;
        write!(f, "{command} of {input} under key `{}` version {}", root_key.name, root_key.version)?;
        settings.iter().try_for_each(|setting| write!(f, ", {setting}"))
    }
}

/// Opens a journal, or makes it, for this run alone.
fn locked(path: &Path) -> Result<File> {
    let on_open = |source| TableError::io(path, "open", source);
    for _ in 0..OPEN_TRIES {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        let file = file.map_err(on_open)?;
        // File systems without such locks go without.
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(TableError::FolderBusy { path: path.to_owned() });
        }
        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let own = file.metadata().map(identity).map_err(on_open)?;
        // Another run may have ended and removed it meanwhile.
        if std::fs::metadata(path).map(identity).is_ok_and(|now| now == own) {
            return Ok(file);
        }
    }
    Err(TableError::FolderBusy { path: path.to_owned() })
}

fn key_of(head: &Head, mill: &Mill, root: &RootKey) -> Result<DerivedKey> {
    keys::derive(mill, root, Purpose::Journal, head.id.as_bytes(), HMAC_SHA256)
}

fn code_of(mill: &Mill, key: &DerivedKey, number: u64, text: &str) -> Result<String> {
    let digest = Sha256::new().chain_update(number.to_le_bytes()).chain_update(text).finalize();
    Ok(hex::encode(&keys::hmac(mill, key.id(), &digest)?[..]))
}
