//! What can go wrong with a table, each error naming the file and, where there is one, row and column.
//!
//! Errors never show a value: a cell's content is what is being protected.

use std::fmt;
use std::path::{Path, PathBuf};

use ciphermill_contract::{Error as ContractError, OpStatus};

/// Where in a table something is: the file, the data row counted from one (a CSV header is not counted), the column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// The data row, counted from one.
    pub row: u64,
    /// The column's name in the file.
    pub column: String,
}

impl Place {
    /// A cell of a file.
    pub fn new(file: &Path, row: u64, column: &str) -> Place {
        Place { file: file.to_owned(), row, column: column.to_owned() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: row {}, column `{}`", self.file.display(), self.row, self.column)
    }
}

/// Why a table was not protected or restored. Whenever one of these is returned, save [`TableError::InEffect`] and
/// [`TableError::Stopped`], no output has been left behind and nothing has been written over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// A column specification does not parse.
    #[error("column specification `{text}`: {problem}")]
    Spec {
        /// What was given.
        text: String,
        /// The rule it breaks.
        problem: String,
    },
    /// No column was named.
    #[error("no column was named; name at least one as NAME=METHOD")]
    NothingToDo,
    /// The file has no such column.
    #[error("{file}: there is no column `{column}`; the columns are {available}", file = file.display())]
    ColumnUnknown {
        /// The file.
        file: PathBuf,
        /// What was asked for.
        column: String,
        /// The columns there are.
        available: String,
    },
    /// The file has several columns of that name.
    #[error("{file}: several columns are called `{column}`", file = file.display())]
    ColumnAmbiguous {
        /// The file.
        file: PathBuf,
        /// The name.
        column: String,
    },
    /// The job names the column twice, or two of a manifest's columns have become it.
    #[error("column `{column}` is named twice")]
    ColumnTwice {
        /// The name.
        column: String,
    },
    /// A column that is asked for holds tokens.
    #[error("{file}: column `{column}` holds tokens, which cannot be restored", file = file.display())]
    NotReversible {
        /// The manifest.
        file: PathBuf,
        /// The column.
        column: String,
    },
    /// The input of `protect` is a protected table.
    #[error("{file}: is protected already; nothing is protected twice unless forced", file = file.display())]
    AlreadyProtected {
        /// The input.
        file: PathBuf,
    },
    /// None of the protected columns is in the file any more.
    #[error("{file}: none of the protected columns is there any more: {}", columns.join(", "), file = file.display())]
    NoColumnLeft {
        /// The file.
        file: PathBuf,
        /// The names that the columns had.
        columns: Vec<String>,
    },
    /// The job says twice what a column is called now.
    #[error("the column with the logical name `{logical}` is renamed twice")]
    RenamedTwice {
        /// The logical name.
        logical: String,
    },
    /// The column's type does not suit the method.
    #[error("{file}: column `{column}` is of type {data_type}: {rule}", file = file.display())]
    UnsupportedType {
        /// The file.
        file: PathBuf,
        /// The column.
        column: String,
        /// Its Arrow type.
        data_type: String,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// The format can neither be told from the file's name nor was it given.
    #[error("{file}: neither .csv, .tsv nor .parquet; say which format it is (--format)", file = file.display())]
    FormatUnknown {
        /// The file.
        file: PathBuf,
    },
    /// The output's name tells another format than it would have.
    #[error("{file}: {rule}; nothing is converted", file = file.display())]
    NamedOtherwise {
        /// The output.
        file: PathBuf,
        /// What does not agree.
        rule: &'static str,
    },
    /// The job asks for something that tables of its format do not have.
    #[error("{option} {rule}")]
    OtherFormat {
        /// What was asked for.
        option: &'static str,
        /// What has it.
        rule: &'static str,
    },
    /// The table goes to standard output, and the manifest has no place.
    #[error(
        "a table that goes to standard output has no file that its manifest could lie beside; name one (--manifest FILE)"
    )]
    ManifestUnnamed,
    /// A lost manifest can be made anew for CSV files only.
    #[error(
        "{file}: a manifest can be made anew for CSV files only; of a Parquet file, the types before protecting are in its \
         own manifests alone",
        file = file.display()
    )]
    RebuildsCsvOnly {
        /// The file.
        file: PathBuf,
    },
    /// The root key is not the one that the manifest names.
    #[error(
        "the key does not match: {manifest} was made under `{wanted}` version {version}, and the given key's check \
         value differs",
        manifest = manifest.display()
    )]
    WrongKey {
        /// The manifest.
        manifest: PathBuf,
        /// Name of the key that it was made under.
        wanted: String,
        /// That key's version.
        version: u32,
    },
    /// The root key given has another version than the manifest names.
    #[error("{manifest} needs version {wanted} of the key `{name}`, and version {given} was given", manifest = manifest.display())]
    KeyVersion {
        /// The manifest.
        manifest: PathBuf,
        /// The key's name.
        name: String,
        /// The version it was made under.
        wanted: u32,
        /// The version given.
        given: u32,
    },
    /// A value is not authentic: another key, another column, or changed bytes.
    #[error("{0}: the value is not authentic: it was changed, or belongs to another column or key")]
    Authentication(Place),
    /// A value that is bound to its row is not authentic there.
    #[error(
        "{place}: the value is not authentic: it was changed, or belongs to another row, column or key; values of this \
         column are bound to the row's `{row_id}`"
    )]
    AuthenticationOfRow {
        /// Where.
        place: Place,
        /// The column that identifies rows.
        row_id: String,
    },
    /// A row to which values are to be bound has no identifier.
    #[error("{0}: empty, and values are bound to the rows by this column")]
    RowIdNull(Place),
    /// Values cannot be bound to rows as it was asked for.
    #[error("values cannot be bound to rows by the column `{column}`: {rule}")]
    RowBinding {
        /// The column that was to identify rows.
        column: String,
        /// The rule that is broken.
        rule: &'static str,
    },
    /// A small file would become an output past all measure.
    #[error(
        "{place}: the values up to here have more than {limit} bytes, since a dictionary repeats a long one; nothing was kept"
    )]
    Expanded {
        /// Where.
        place: Place,
        /// Bytes that the values of one column of a row group may have.
        limit: u64,
    },
    /// A protected value does not have the form of one.
    #[error("{place}: not a protected value: {rule}")]
    Damaged {
        /// Where.
        place: Place,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// A value has too few characters of the alphabet for FF1.
    #[error(
        "{place}: too short for ff1: {found} characters can be encrypted, and an alphabet of {radix} needs at least \
         {needed} (a domain of 1,000,000, NIST SP 800-38G)"
    )]
    TooShort {
        /// Where.
        place: Place,
        /// Characters that are in the alphabet and not kept.
        found: usize,
        /// How many there must be.
        needed: usize,
        /// Characters in the alphabet.
        radix: usize,
    },
    /// A value is longer than the method takes.
    #[error("{place}: {len} bytes, and at most {limit} are taken")]
    TooLong {
        /// Where.
        place: Place,
        /// The value's length.
        len: u64,
        /// The longest that is taken.
        limit: u64,
    },
    /// A value holds a character that is neither in the alphabet nor named as a separator.
    #[error("{0}: a character is neither in ff1's alphabet nor among the separators that `sep=` names")]
    NotInAlphabet(Place),
    /// A text value is not UTF-8.
    #[error("{0}: not valid UTF-8")]
    NotText(Place),
    /// A restored value does not fit the column's type.
    #[error("{place}: the restored value does not fit the type {data_type}")]
    NotOfType {
        /// Where.
        place: Place,
        /// The type in the manifest.
        data_type: String,
    },
    /// The file ends too early.
    #[error("{file}: cut short: {problem}", file = file.display())]
    Truncated {
        /// The file.
        file: PathBuf,
        /// What is missing, with the row where that is known.
        problem: String,
    },
    /// The file is not the one that the manifest was written for.
    #[error("{file}: changed since it was protected: {problem}", file = file.display())]
    Changed {
        /// The file.
        file: PathBuf,
        /// What differs.
        problem: String,
    },
    /// A CSV record is malformed.
    #[error("{file}: row {row}: {rule}", file = file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// The data row; zero is the header.
        row: u64,
        /// The rule it breaks.
        rule: String,
    },
    /// There is no manifest.
    #[error("{manifest}: there is no manifest; it is written beside the protected file", manifest = manifest.display())]
    ManifestMissing {
        /// Where it was looked for.
        manifest: PathBuf,
    },
    /// The manifest does not parse.
    #[error("{manifest}: damaged manifest: {problem}", manifest = manifest.display())]
    ManifestDamaged {
        /// The manifest.
        manifest: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The manifest's signature does not hold.
    #[error("{manifest}: the manifest was altered: its signature does not hold", manifest = manifest.display())]
    ManifestAltered {
        /// The manifest.
        manifest: PathBuf,
    },
    /// The manifest is of a format that this version does not read.
    #[error("{manifest}: manifest format {found}, and this version reads format {supported}", manifest = manifest.display())]
    ManifestVersion {
        /// The manifest.
        manifest: PathBuf,
        /// Its format.
        found: u64,
        /// The format read here.
        supported: u64,
    },
    /// The output exists and the job does not say that it may be replaced.
    #[error("{path}: exists; nothing is written over unless forced", path = path.display())]
    Exists {
        /// The output.
        path: PathBuf,
    },
    /// Input and output are the same file.
    #[error("{path}: input and output are the same file", path = path.display())]
    SameFile {
        /// The file.
        path: PathBuf,
    },
    /// The output's place is taken by something that is not replaced, forced or not.
    #[error("{path}: is {found}; only files are replaced", path = path.display())]
    NotAFile {
        /// The output.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// The output is complete and in its place, but something that belongs to it failed afterwards.
    #[error("{path}: the new table is in effect, but {but}: {source}", path = path.display())]
    InEffect {
        /// The output.
        path: PathBuf,
        /// What is not as it should be.
        but: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A file for rejected rows was named, and no column rejects any.
    #[error("{path}: no column says on-bad=reject, so that there is nothing for this file", path = path.display())]
    RejectsNothing {
        /// The file.
        path: PathBuf,
    },
    /// The input was written to, or replaced again and again, while it was read.
    #[error("{file}: was changed while it was being read", file = file.display())]
    ChangedMeanwhile {
        /// The file.
        file: PathBuf,
    },
    /// A folder or pattern has no tables.
    #[error(
        "{input}: no tables there; names that begin with `_` or `.` are passed over",
        input = input.display()
    )]
    NoTables {
        /// The folder or pattern.
        input: PathBuf,
    },
    /// The output of a folder's tables holds something already.
    #[error("{path}: is not empty; the tables of a folder go to a new one", path = path.display())]
    FolderTaken {
        /// The output.
        path: PathBuf,
    },
    /// Input and output of a folder lie within each other.
    #[error("{output}: lies in {input}, or the other way round", input = input.display(), output = output.display())]
    FolderWithin {
        /// The input.
        input: PathBuf,
        /// The output.
        output: PathBuf,
    },
    /// Only whole folders are rekeyed in place.
    #[error(
        "{path}: only a folder that has a manifest (_ciphermill.json) is rekeyed in place",
        path = path.display()
    )]
    NotWhole {
        /// The input.
        path: PathBuf,
    },
    /// Another run works on the folder.
    #[error("{path}: another run is at work on this folder", path = path.display())]
    FolderBusy {
        /// Its journal.
        path: PathBuf,
    },
    /// A run for something else has been cut short in the folder.
    #[error("{journal}: there is an unfinished run ({problem}); ask for that again to finish it", journal = journal.display())]
    OtherWork {
        /// The journal.
        journal: PathBuf,
        /// What the run was to do.
        problem: String,
    },
    /// The journal of a folder cannot be read, or was altered.
    #[error("{journal}: damaged journal: line {line}: {problem}", journal = journal.display())]
    JournalDamaged {
        /// The journal.
        journal: PathBuf,
        /// The line, counted from one.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A table of a folder failed. Those that are done stay, and the same job goes on with the others.
    #[error("{}; {done} of {of} tables are done and stay; run the same again for the others", without_promise(error))]
    Stopped {
        /// Tables that are in their places.
        done: usize,
        /// Tables in all.
        of: usize,
        /// What went wrong.
        error: Box<TableError>,
    },
    /// The operating system refused.
    #[error("{path}: cannot {action}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A Parquet file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The reader's or writer's answer.
        source: parquet::errors::ParquetError,
    },
    /// Arrow refused a conversion.
    #[error("{path}: column `{column}`: {source}", path = path.display())]
    Arrow {
        /// The file.
        path: PathBuf,
        /// The column; empty for a whole record batch.
        column: String,
        /// Arrow's answer.
        source: arrow_schema::ArrowError,
    },
    /// The mill refused a batch, or a key.
    #[error("{doing}: {source}")]
    Mill {
        /// What was being done.
        doing: String,
        /// The mill's answer.
        source: ContractError,
    },
    /// The root key cannot be used as one: HMAC-SHA-256 must be allowed for it.
    #[error("the root key cannot be used: {status}")]
    RootKey {
        /// What became of the operation.
        status: OpStatus,
    },
    /// One operation failed for a reason other than authentication.
    #[error("{place}: {status}")]
    Operation {
        /// Where.
        place: Place,
        /// What became of the operation.
        status: OpStatus,
    },
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes")]
    Entropy,
    /// A thread of the job has panicked, which is a bug of this program.
    #[error("a thread of the job has ended by itself, which is a bug; no output was left")]
    Panicked,
    /// The job was cancelled.
    #[error("interrupted; no output was left")]
    Interrupted,
}

/// An error of one table in words that are true when others are done.
fn without_promise(error: &TableError) -> String {
    match error {
        TableError::Interrupted => "interrupted".to_owned(),
        error => error.to_string(),
    }
}

/// The place of an error about one value, borrowed as the error is.
macro_rules! place_of {
    ($error:expr) => {
        match $error {
            TableError::Authentication(place)
            | TableError::RowIdNull(place)
            | TableError::NotInAlphabet(place)
            | TableError::NotText(place)
            | TableError::AuthenticationOfRow { place, .. }
            | TableError::Expanded { place, .. }
            | TableError::Damaged { place, .. }
            | TableError::TooShort { place, .. }
            | TableError::TooLong { place, .. }
            | TableError::NotOfType { place, .. }
            | TableError::Operation { place, .. } => Some(place),
            _ => None,
        }
    };
}

impl TableError {
    /// An input or output error of the operating system.
    pub(crate) fn io(path: &Path, action: &'static str, source: std::io::Error) -> TableError {
        TableError::Io { path: path.to_owned(), action, source }
    }

    /// A Parquet error.
    pub(crate) fn parquet(path: &Path, source: parquet::errors::ParquetError) -> TableError {
        TableError::Parquet { path: path.to_owned(), source }
    }

    /// The mill's refusal of something.
    pub(crate) fn mill(doing: impl Into<String>, source: ContractError) -> TableError {
        TableError::Mill { doing: doing.into(), source }
    }

    /// Where in a table it is, for errors about one value.
    pub fn place(&self) -> Option<&Place> {
        if let TableError::Stopped { error, .. } = self {
            return error.place();
        }
        place_of!(self)
    }

    /// The same error in another row.
    pub(crate) fn in_row(mut self, row: u64) -> TableError {
        if let Some(place) = place_of!(&mut self) {
            place.row = row;
        }
        self
    }

    /// Whether a file that was cut short would explain this error.
    pub(crate) fn may_come_from_truncation(&self) -> bool {
        matches!(
            self,
            TableError::Malformed { .. }
                | TableError::Authentication(_)
                | TableError::AuthenticationOfRow { .. }
                | TableError::RowIdNull(_)
                | TableError::Damaged { .. }
                | TableError::TooShort { .. }
                | TableError::NotText(_)
        )
    }
}

/// The result of everything here.
pub type Result<T, E = TableError> = std::result::Result<T, E>;

/// Names in an error are cut after so many characters …
const SHOWN_NAME_LEN: usize = 80;

/// … and after so many names the others are counted.
const SHOWN_NAMES: usize = 40;

fn listed(names: &[String]) -> String {
    let cut = |name: &String| match name.char_indices().nth(SHOWN_NAME_LEN) {
        Some((at, _)) => format!("`{}…`", &name[..at]),
        None => format!("`{name}`"),
    };
    let shown: Vec<String> = names.iter().take(SHOWN_NAMES).map(cut).collect();
    let more = names.len() - shown.len();
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    shown.join(", ") + &rest
}

/// Finds the one column called `name` among `names`.
///
/// # Errors
/// `ColumnUnknown` with the names there are, `ColumnAmbiguous` when there are several of that name.
pub(crate) fn find_column(file: &Path, names: &[String], name: &str) -> Result<usize> {
    let mut found = names.iter().enumerate().filter(|(_, candidate)| *candidate == name);
    match (found.next(), found.next()) {
        (Some((index, _)), None) => Ok(index),
        (Some(_), Some(_)) => Err(TableError::ColumnAmbiguous { file: file.to_owned(), column: name.to_owned() }),
        _ => {
            Err(TableError::ColumnUnknown { file: file.to_owned(), column: name.to_owned(), available: listed(names) })
        }
    }
}
