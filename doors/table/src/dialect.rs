//! How the records of a CSV file are written: what separates fields, and whether the first record is a header.

use std::path::Path;

use crate::compress::Compression;
use crate::error::{Result, TableError};
use crate::job::ProtectJob;
use crate::manifest::{ConvertedFrom, Manifest};

/// Columns that a table may have.
pub const COLUMNS_MAX: usize = 65_536;

/// How the records of a CSV file are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// The byte between fields.
    pub(crate) delimiter: u8,
    pub(crate) header: Header,
}

/// Where the names of columns come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// The first record has them.
    Present,
    /// The first record is the first row, and columns are named by [`positional_name`]. `columns` is how many a file
    /// without any rows has, where that is known.
    Absent { columns: Option<usize> },
}

/// The name of a column without one, at this place counted from zero: `column_1`, `column_2` …
pub(crate) fn positional_name(place: usize) -> String {
    format!("column_{}", place + 1)
}

/// Whether a name could be one of [`positional_name`].
pub(crate) fn is_positional(name: &str) -> bool {
    name.strip_prefix("column_").is_some_and(|number| number.parse::<usize>().is_ok())
}

impl Dialect {
    /// A file of this delimiter with a header.
    #[cfg(test)]
    pub(crate) fn with_header(delimiter: u8) -> Dialect {
        Dialect { delimiter, header: Header::Present }
    }

    /// That of a job's input.
    pub(crate) fn of_job(job: &ProtectJob) -> Dialect {
        let header = if job.no_header { Header::Absent { columns: None } } else { Header::Present };
        Dialect { delimiter: delimiter_of(&job.input, job.delimiter), header }
    }

    /// That of the CSV file which a manifest, to be found at `path`, was written for.
    ///
    /// # Errors
    /// `ManifestDamaged` when the manifest does not say it.
    pub(crate) fn of_manifest(manifest: &Manifest, path: &Path) -> Result<Dialect> {
        let damaged =
            |problem: &str| TableError::ManifestDamaged { manifest: path.to_owned(), problem: problem.to_owned() };
        let delimiter = manifest.delimiter.and_then(|delimiter| u8::try_from(delimiter).ok());
        let delimiter = delimiter.ok_or_else(|| damaged("a CSV file needs a delimiter of one byte"))?;
        let header = match manifest.unnamed_columns.map(usize::try_from) {
            None => Header::Present,
            Some(Ok(columns)) if (1..=COLUMNS_MAX).contains(&columns) => Header::Absent { columns: Some(columns) },
            Some(_) => return Err(damaged("the number of columns without names is out of range")),
        };
        Ok(Dialect { delimiter, header })
    }

    /// That of the CSV file `output` which a Parquet table becomes, as the CSV file was that it came from, if it did.
    pub(crate) fn converted(output: &Path, given: Option<u8>, from: Option<&ConvertedFrom>) -> Dialect {
        let delimiter = from.and_then(|from| from.delimiter).and_then(|delimiter| u8::try_from(delimiter).ok());
        let delimiter = delimiter.filter(|_| !is_tsv(output)).or(given);
        let is_unnamed = from.is_some_and(|from| from.unnamed_columns.is_some());
        let header = if is_unnamed { Header::Absent { columns: None } } else { Header::Present };
        Dialect { delimiter: delimiter_of(output, delimiter), header }
    }

    pub(crate) fn has_header(self) -> bool {
        self.header == Header::Present
    }
}

/// The byte between fields: as given, or what the file's name suggests.
pub(crate) fn delimiter_of(path: &Path, given: Option<u8>) -> u8 {
    given.unwrap_or(if is_tsv(path) { b'\t' } else { b',' })
}

/// Whether a file's name says that its fields are separated by tabulators.
pub(crate) fn is_tsv(path: &Path) -> bool {
    let plain = if Compression::of_path(path).is_some() { path.with_extension("") } else { path.to_owned() };
    plain.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("tsv"))
}
