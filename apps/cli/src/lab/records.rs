//! Files of the lab: written whole or not at all, with errors that name them; records read, and kept by machine and date.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ciphermill_report::{Machine, Record};
use tempfile::NamedTempFile;

use ciphermill_cli::whole::{beside, folder_of};

use crate::output;

/// Records of one machine and day at most.
const SAME_DAY_MAX: usize = 1000;

/// Whether a path stands for standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Finds out that `path` can be written before minutes are spent on what goes in there. Leaves everything as it is.
pub(crate) fn probe(path: &Path) -> Result<()> {
    if is_stdout(path) {
        return Ok(());
    }
    match place(path)? {
        Place::Whole(target) => beside(&target).map(drop).map_err(|error| refused(path, &target, &error)),
        Place::Stream => OpenOptions::new().write(true).open(path).map(drop).with_context(|| cannot(path)),
    }
}

/// Writes `text` to standard output or a file. A file is written beside and renamed, so that nobody ever reads half of it and
/// one that was there stays when the disk is full.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    if is_stdout(path) {
        return output::say(text.trim_end_matches('\n'));
    }
    match place(path)? {
        Place::Whole(target) => {
            let mut file = beside(&target).map_err(|error| refused(path, &target, &error))?;
            fill(&mut file, text).with_context(|| cannot(path))?;
            file.persist(&target).map(drop).map_err(|failed| failed.error).with_context(|| cannot(path))
        }
        Place::Stream => {
            let mut stream = OpenOptions::new().write(true).open(path).with_context(|| cannot(path))?;
            stream.write_all(text.as_bytes()).and_then(|()| stream.flush()).with_context(|| cannot(path))
        }
    }
}

/// Keeps a record below `folder`, by machine and date, and says where. Never replaces another.
pub(crate) fn save(folder: &Path, record: &Record, text: &str) -> Result<PathBuf> {
    let own = machine_folder(folder, &record.machine)?;
    let date = record.made.get(..10).unwrap_or("undated");
    let cannot = || format!("cannot keep the record in {}", own.display());
    let mut file = beside(&own.join("record")).with_context(cannot)?;
    fill(&mut file, text).with_context(cannot)?;
    for number in 1..=SAME_DAY_MAX {
        let name = if number == 1 { format!("{date}.json") } else { format!("{date}-{number}.json") };
        match file.persist_noclobber(own.join(&name)) {
            Ok(_) => return Ok(own.join(name)),
            Err(failed) if failed.error.kind() == ErrorKind::AlreadyExists => file = failed.file,
            Err(failed) => return Err(failed.error).with_context(cannot),
        }
    }
    bail!("{} has {SAME_DAY_MAX} records of {date}", own.display())
}

/// The folder of a machine's records, made where it is not there.
pub(crate) fn machine_folder(folder: &Path, machine: &Machine) -> Result<PathBuf> {
    let own = folder.join(slug(machine));
    fs::create_dir_all(&own).with_context(|| format!("cannot make the folder {}", own.display()))?;
    Ok(own)
}

/// Reads a record.
pub(crate) fn read(path: &Path) -> Result<Record> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Record::read(&text).with_context(|| format!("{} is no record", path.display()))
}

/// How a path is written.
enum Place {
    /// A file, here or to be: written beside and renamed.
    Whole(PathBuf),
    /// A device or pipe: written to directly, since renaming would replace it.
    Stream,
}

fn place(path: &Path) -> Result<Place> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => bail!("cannot write {}: it is a folder", path.display()),
        // What a link leads to is replaced, not the link.
        Ok(found) if found.is_file() => Ok(Place::Whole(fs::canonicalize(path).with_context(|| cannot(path))?)),
        Ok(_) => Ok(Place::Stream),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Place::Whole(path.to_owned())),
        Err(error) => Err(error).with_context(|| cannot(path)),
    }
}

fn fill(file: &mut NamedTempFile, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()
}

fn cannot(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// The error of a folder that takes no new file, without the name of a temporary one.
fn refused(path: &Path, target: &Path, error: &io::Error) -> anyhow::Error {
    let folder = folder_of(target).display();
    let why = match error.kind() {
        ErrorKind::NotFound => format!("there is no folder {folder}"),
        ErrorKind::PermissionDenied => format!("no permission to make a file in {folder}"),
        ErrorKind::NotADirectory => format!("{folder} is no folder"),
        kind => format!("no file can be made in {folder}: {kind}"),
    };
    anyhow::anyhow!("{}: {why}", cannot(path))
}

/// A machine as the name of a folder: `intel-r-xeon-r-processor-2-cores`.
fn slug(machine: &Machine) -> String {
    let words = format!("{} {} cores", machine.cpu, machine.cores).to_lowercase();
    let parts: Vec<&str> = words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty()).collect();
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn machines_give_names_of_folders() {
        let machine =
            Machine { cpu: "Intel(R) Xeon(R) @ 2.0GHz /..".to_owned(), cores: 2, ..ciphermill_lab::rules::machine() };
        assert_eq!(slug(&machine), "intel-r-xeon-r-2-0ghz-2-cores");
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_link() {
        let place = tempfile::tempdir().expect("a folder");
        let (file, link) = (place.path().join("a.json"), place.path().join("b.json"));
        write(&file, "one\n").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        probe(&link).expect("can be written");
        write(&link, "two\n").expect("written");
        assert_eq!(fs::read_to_string(&file).expect("reads"), "two\n");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o600, 0o600);
        assert_eq!(fs::read_dir(place.path()).expect("a folder").count(), 2, "nothing is left behind");
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let place = tempfile::tempdir().expect("a folder");
        let file = place.path().join("a");
        fs::write(&file, "").expect("written");
        let said = |path: &Path| format!("{:#}", probe(path).expect_err("refused"));
        assert!(said(place.path()).ends_with("it is a folder"));
        assert!(said(&place.path().join("no/b")).contains("no/b: there is no folder"));
        assert!(said(&file.join("b")).contains("a/b"));
        let full = Path::new("/dev/full");
        if full.exists() {
            probe(full).expect("can be opened");
            let error = format!("{:#}", write(full, "text").expect_err("full"));
            assert!(error.contains("/dev/full") && error.contains("space"), "{error}");
            assert!(full.exists());
        }
    }
}
