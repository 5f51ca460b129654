//! The tables of a folder, or those that a pattern names.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use glob::MatchOptions;

use crate::error::{Result, TableError};
use crate::manifest::MANIFEST_SUFFIX;

/// A table of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableFile {
    pub(crate) path: PathBuf,
    /// Its path from the folder on, with `/` between.
    pub(crate) name: String,
    /// Bytes.
    pub(crate) len: u64,
}

/// Patterns mean what they mean to a shell: `*` does not go into folders (`**` does), and hidden names have to be written out.
const AS_IN_A_SHELL: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// Whether an input is a folder of tables, or a pattern like `orders/*.parquet` for several of them. What exists is not taken for a
/// pattern.
pub fn is_folder(input: &Path) -> bool {
    match std::fs::metadata(input) {
        Ok(metadata) => metadata.is_dir(),
        Err(error) if error.kind() == ErrorKind::NotFound => has_wildcard(input),
        Err(_) => false,
    }
}

fn has_wildcard(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains(['*', '?', '[']))
}

/// The folder that an input's names begin in: itself, or of a pattern the part before its first wildcard.
pub(crate) fn base(input: &Path) -> PathBuf {
    if input.is_dir() {
        return input.to_owned();
    }
    let is_literal = |component: &Component<'_>| !has_wildcard(Path::new(component.as_os_str()));
    let base: PathBuf = input.components().take_while(is_literal).collect();
    if base.as_os_str().is_empty() { PathBuf::from(".") } else { base }
}

/// The tables of a folder or pattern, in the order of their names.
///
/// # Errors
/// `NoTables`; `NotAFile` for a link to a folder; `Io`, also for a name that is not UTF-8 and for a pattern that does not parse.
pub(crate) fn list(input: &Path) -> Result<Vec<TableFile>> {
    let base = base(input);
    let mut found = BTreeMap::new();
    if input.is_dir() {
        walk(&base, &base, &mut found)?;
    } else {
        let refused = |problem: String| TableError::io(input, "find tables", std::io::Error::other(problem));
        let pattern = input.to_str().ok_or_else(|| refused("the pattern is not UTF-8".to_owned()))?;
        let paths = glob::glob_with(pattern, AS_IN_A_SHELL).map_err(|error| refused(error.to_string()))?;
        for path in paths {
            let path = path.map_err(|error| {
                let path = error.path().to_owned();
                TableError::io(&path, "read", error.into())
            })?;
            visit(&base, &path, &mut found)?;
        }
    }
    if found.is_empty() {
        return Err(TableError::NoTables { input: input.to_owned() });
    }
    Ok(found.into_values().collect())
}

fn walk(base: &Path, folder: &Path, found: &mut BTreeMap<String, TableFile>) -> Result<()> {
    let on_read = |source| TableError::io(folder, "list the folder", source);
    for entry in std::fs::read_dir(folder).map_err(on_read)? {
        visit(base, &entry.map_err(on_read)?.path(), found)?;
    }
    Ok(())
}

fn visit(base: &Path, path: &Path, found: &mut BTreeMap<String, TableFile>) -> Result<()> {
    let unnamed = || {
        let problem = std::io::Error::other("its name is not UTF-8, and manifests are");
        TableError::io(path, "name the table", problem)
    };
    let from_base = path.strip_prefix(base).unwrap_or(path);
    let parts: Vec<&str> = from_base
        .components()
        .filter(|component| *component != Component::CurDir)
        .map(|component| component.as_os_str().to_str().ok_or_else(unnamed))
        .collect::<Result<_>>()?;
    if parts.iter().any(|part| is_hidden(part)) {
        return Ok(());
    }
    let metadata = std::fs::metadata(path).map_err(|source| TableError::io(path, "read", source))?;
    if metadata.is_dir() {
        if path.is_symlink() {
            return Err(TableError::NotAFile {
                path: path.to_owned(),
                found: "a link to a folder, which is not followed",
            });
        }
        return walk(base, path, found);
    }
    if !metadata.is_file() {
        return Err(TableError::NotAFile { path: path.to_owned(), found: "neither a file nor a folder" });
    }
    let name = parts.join("/");
    found.insert(name.clone(), TableFile { path: path.to_owned(), name, len: metadata.len() });
    Ok(())
}

/// Whether a name is that of no table: as Spark has it, those of `_SUCCESS` and `.part-0.crc`, but not those of partitions by a
/// column whose name begins with `_`; and those of manifests beside single tables.
fn is_hidden(name: &str) -> bool {
    name.starts_with('.') || (name.starts_with('_') && !name.contains('=')) || name.ends_with(MANIFEST_SUFFIX)
}

/// The column of the name's partitions (`region=EU/part-0.parquet`) that is called so, if one is.
pub(crate) fn is_partition(name: &str, column: &str) -> bool {
    let (folders, _) = name.rsplit_once('/').unwrap_or_default();
    folders.split('/').any(|folder| folder.split_once('=').is_some_and(|(key, _)| key == column))
}

/// Whether a name stays within its folder and is written in one way only.
pub(crate) fn is_name(name: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
    name.split('/').all(is_part)
}

/// Refuses an output that lies in the input's folder, or the other way round.
///
/// # Errors
/// `FolderWithin`, `Io`.
pub(crate) fn check_apart(input: &Path, output: &Path) -> Result<()> {
    let (inner, outer) = (resolved(&base(input))?, resolved(output)?);
    if inner.starts_with(&outer) || outer.starts_with(&inner) {
        return Err(TableError::FolderWithin { input: input.to_owned(), output: output.to_owned() });
    }
    Ok(())
}

/// A path without links as far as it exists.
fn resolved(path: &Path) -> Result<PathBuf> {
    let on_io = |source| TableError::io(path, "find", source);
    let absolute = std::path::absolute(path).map_err(on_io)?;
    for existing in absolute.ancestors() {
        match existing.canonicalize() {
            Ok(real) => return Ok(real.join(absolute.strip_prefix(existing).unwrap_or(Path::new("")))),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(on_io(error)),
        }
    }
    Ok(absolute)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &[TableFile]) -> Vec<&str> {
        files.iter().map(|file| file.name.as_str()).collect()
    }

    fn tree() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let names = [
            "b.csv",
            "a.csv",
            "_SUCCESS",
            ".a.csv.crc",
            "a.csv.ciphermill.json",
            "_ciphermill.json",
            "_temporary/0/x.csv",
            "region=EU/p.csv",
            "region=EU/year=2026/q.csv",
            "_id=7/r.csv",
        ];
        for name in names {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        directory
    }

    #[test]
    fn hidden_names_are_passed_over_and_partitions_are_not() {
        let directory = tree();
        let found = list(directory.path()).unwrap();
        assert_eq!(names(&found), ["_id=7/r.csv", "a.csv", "b.csv", "region=EU/p.csv", "region=EU/year=2026/q.csv"]);
        assert_eq!(found[1].len, 5);
        assert!(is_folder(directory.path()) && !is_folder(&directory.path().join("a.csv")));
    }

    #[test]
    fn patterns_are_those_of_a_shell() {
        let directory = tree();
        let listed = |pattern: &str| {
            let input = directory.path().join(pattern);
            assert!(is_folder(&input), "{pattern}");
            list(&input).map(|files| names(&files).join(" "))
        };
        assert_eq!(listed("*.csv").unwrap(), "a.csv b.csv");
        assert_eq!(listed("**/*.csv").unwrap(), "_id=7/r.csv a.csv b.csv region=EU/p.csv region=EU/year=2026/q.csv");
        assert_eq!(listed("region=*").unwrap(), "region=EU/p.csv region=EU/year=2026/q.csv", "folders, too");
        assert_eq!(listed("region=EU/*/q.csv").unwrap(), "year=2026/q.csv", "from the first wildcard on");
        assert_eq!(listed("[ab].csv").unwrap(), "a.csv b.csv");
        assert!(matches!(listed("*.parquet"), Err(TableError::NoTables { .. })));
        assert!(matches!(listed("*[.csv"), Err(TableError::Io { .. })), "a pattern that does not parse");
        std::fs::write(directory.path().join("[ab].csv"), "").unwrap();
        assert!(!is_folder(&directory.path().join("[ab].csv")), "what exists is no pattern");
    }

    #[test]
    fn links_to_folders_are_refused_and_those_to_files_followed() {
        let directory = tree();
        let link = directory.path().join("link.csv");
        std::os::unix::fs::symlink("a.csv", &link).unwrap();
        assert!(names(&list(directory.path()).unwrap()).contains(&"link.csv"));
        std::os::unix::fs::symlink(".", directory.path().join("round")).unwrap();
        let error = list(directory.path()).unwrap_err();
        assert!(matches!(&error, TableError::NotAFile { path, .. } if path.ends_with("round")), "{error}");
    }

    #[test]
    fn outputs_lie_apart() {
        let directory = tree();
        let at = |name: &str| directory.path().join(name);
        for (input, output) in
            [("region=EU", "region=EU/out"), ("region=EU/*.csv", "."), ("region=EU", "_id=7/../region=EU")]
        {
            let error = check_apart(&at(input), &at(output)).unwrap_err();
            assert!(matches!(error, TableError::FolderWithin { .. }), "{input} {output}: {error}");
        }
        check_apart(&at("region=EU"), &at("region=EU2/new/er")).unwrap();
    }

    #[test]
    fn names_stay_in_their_folder() {
        assert!(is_name("a") && is_name("region=EU/p.csv"));
        for name in ["", "/a", "a/", "a//b", "../a", "a/../b", "./a", "a\0"] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(is_partition("region=EU/p.csv", "region") && !is_partition("a/region=EU", "region"));
    }
}
