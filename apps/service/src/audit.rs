//! The audit log: a line of JSON for each control operation, never for data.
//!
//! It is opened again when it was moved away (logrotate and SIGHUP), and by itself is moved to `FILE.1` before it grows beyond a bound.
//! A line that cannot be written is counted and stops nothing; when lines can be written again, the first one says how many are missing.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::peer::Peer;
use crate::process::{FileId, Process};

/// A file that lines are added to, or nothing.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    path: Option<PathBuf>,
    /// Bytes that the file may have; zero for any number.
    bytes_max: u64,
    /// `None` when it could not be opened again.
    file: Option<File>,
    /// Lines that could not be written, …
    lost: u64,
    /// … of which so many are not told of in the log yet.
    untold: u64,
    /// Whether the last write ended within a line.
    is_torn: bool,
}

impl Audit {
    /// Adds to the file at `path`, which only its owner can read if it is made here; without a path nothing is kept. `bytes_max` is what the
    /// file may grow to, zero for any size.
    pub(crate) fn at(path: Option<&Path>, bytes_max: u64) -> io::Result<Audit> {
        let file = path.map(open).transpose()?;
        Ok(Audit { path: path.map(Path::to_owned), bytes_max, file, ..Audit::default() })
    }

    /// Goes on with the file that is at `path` now, under another bound.
    pub(crate) fn reopen(&mut self, path: Option<&Path>, bytes_max: u64) {
        self.path = path.map(Path::to_owned);
        self.bytes_max = bytes_max;
        self.file = None;
        self.is_torn = false;
        // So that it is there at once, as whoever has moved the old one expects. A failure is told of with the next line.
        self.file = path.and_then(|path| open(path).ok());
    }

    /// Lines that could not be written since the service began.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Writes a line: who, what, and what else is worth keeping.
    pub(crate) fn write(&mut self, client: u64, (peer, process): (&Peer, &Process), what: &str, detail: &Value) {
        if self.path.is_none() {
            return;
        }
        let line = json!({
            "time": now_unix_s(), "client": client, "pid": peer.pid, "uid": peer.uid, "gid": peer.gid,
            "unit": process.unit(), "program": process.program(), "event": what, "detail": detail,
        });
        match self.add(&format!("{line}\n")) {
            Ok(0) => {}
            Ok(missing) => tracing::warn!("the audit log is written again; {missing} lines are missing"),
            Err(error) => {
                // Once: who fills the disk fills it with this, too.
                if self.untold == 0 {
                    tracing::error!("the audit log cannot be written, lines are lost: {error}");
                }
                self.lost += 1;
                self.untold += 1;
            }
        }
    }

    /// Adds a line, after one that says how many are missing before it; returns their number.
    fn add(&mut self, line: &str) -> io::Result<u64> {
        let missing = core::mem::take(&mut self.untold);
        let added = self.add_after(missing, line);
        if added.is_err() {
            self.untold = missing;
        }
        added.map(|()| missing)
    }

    fn add_after(&mut self, missing: u64, line: &str) -> io::Result<()> {
        let mut text = String::new();
        if missing > 0 {
            let told = json!({ "time": now_unix_s(), "event": "lines lost", "detail": { "lines": missing } });
            text = format!("{told}\n");
        }
        text.push_str(line);
        self.make_room(text.len() as u64 + 1)?;
        if self.is_torn {
            text.insert(0, '\n');
        }
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::NotFound.into()) };
        // One write for whole lines, so that those of several writers stay whole; more than one only on a disk that becomes full.
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => rest = &rest[len..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_torn |= rest.len() < text.len();
                    return Err(error);
                }
            }
        }
        self.is_torn = false;
        Ok(())
    }

    /// Moves the file away if it would grow beyond its bound, and opens one where there is none.
    fn make_room(&mut self, len: u64) -> io::Result<()> {
        let path = self.path.as_deref().ok_or(io::ErrorKind::NotFound)?;
        let metadata = self.file.as_ref().map(File::metadata).transpose()?;
        if let Some(own) =
            metadata.filter(|own| self.bytes_max > 0 && own.len() > 0 && own.len() + len > self.bytes_max)
        {
            // Somebody else may have moved it away, and the one in its place is not the one that is full.
            if FileId::of(path) == Some(FileId::from(&own)) {
                let mut old = path.as_os_str().to_owned();
                old.push(".1");
                std::fs::rename(path, old)?;
            }
            self.file = None;
            self.is_torn = false;
        }
        if self.file.is_none() {
            self.file = Some(open(path)?);
        }
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

fn now_unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Peer = Peer { pid: 1, uid: 2, gid: 3 };

    fn write(audit: &mut Audit, what: &str) {
        audit.write(7, (&PEER, &Process::default()), what, &Value::Null);
    }

    /// What happened, a word a line.
    fn events(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).expect("a file");
        let event = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in `{line}`"));
            line["event"].as_str().expect("an event").to_owned()
        };
        text.lines().map(event).collect()
    }

    #[test]
    fn it_does_not_grow_beyond_its_bound_and_one_file_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, old) = (folder.path().join("log"), folder.path().join("log.1"));
        let mut audit = Audit::at(Some(&path), 1000).expect("a file");
        for round in 0..100 {
            write(&mut audit, &format!("round {round}"));
            assert!(std::fs::metadata(&path).expect("there").len() <= 1000);
        }
        let both = [events(&old), events(&path)].concat();
        let wanted: Vec<String> = (100 - both.len()..100).map(|round| format!("round {round}")).collect();
        assert!(both == wanted && events(&old).len() >= 2, "{both:?}");
        assert_eq!((audit.lost(), std::fs::read_dir(folder.path()).expect("a folder").count()), (0, 2));
        // What a service before this one has left counts, too.
        let before = events(&path).len();
        let mut audit = Audit::at(Some(&path), 1).expect("a file");
        write(&mut audit, "another service");
        assert_eq!((events(&old).len(), events(&path)), (before, vec!["another service".to_owned()]));
    }

    #[test]
    fn without_a_bound_it_is_for_others_to_move_it_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, moved) = (folder.path().join("log"), folder.path().join("moved"));
        let mut audit = Audit::at(Some(&path), 0).expect("a file");
        (0..100).for_each(|_| write(&mut audit, "before"));
        std::fs::rename(&path, &moved).expect("moved");
        write(&mut audit, "between");
        audit.reopen(Some(&path), 0);
        write(&mut audit, "after");
        assert_eq!((events(&moved).len(), events(&path)), (101, vec!["after".to_owned()]));
    }

    /// What another program has put in the place of the full file is not thrown away.
    #[test]
    fn a_file_that_is_not_the_full_one_is_not_moved() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, old) = (folder.path().join("log"), folder.path().join("log.1"));
        let mut audit = Audit::at(Some(&path), 300).expect("a file");
        (0..2).for_each(|_| write(&mut audit, "before"));
        std::fs::rename(&path, folder.path().join("moved")).expect("moved");
        std::fs::write(&path, "{\"event\": \"another\"}\n").expect("written");
        write(&mut audit, "after");
        assert_eq!((events(&path), old.exists()), (vec!["another".to_owned(), "after".to_owned()], false));
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_told_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut audit = Audit::at(Some(Path::new("/dev/full")), 1000).expect("a device");
        (0..5).for_each(|_| write(&mut audit, "lost"));
        assert_eq!(audit.lost(), 5);
        audit.reopen(Some(&path), 1000);
        write(&mut audit, "first");
        write(&mut audit, "second");
        assert_eq!(events(&path), ["lines lost", "first", "second"]);
        let told: Value =
            serde_json::from_str(std::fs::read_to_string(&path).expect("a file").lines().next().expect("a line"))
                .expect("JSON");
        assert_eq!((told["detail"]["lines"].as_u64(), audit.lost()), (Some(5), 5));
        // Neither is there a file where no folder is.
        audit.reopen(Some(&folder.path().join("nowhere/log")), 1000);
        write(&mut audit, "lost");
        assert_eq!(audit.lost(), 6);
    }

    #[test]
    fn a_line_that_was_cut_short_spoils_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut audit = Audit::at(Some(&path), 0).expect("a file");
        audit.file.as_mut().expect("a file").write_all(b"{\"time\": 12").expect("written");
        audit.is_torn = true;
        write(&mut audit, "whole");
        let text = std::fs::read_to_string(&path).expect("a file");
        let last: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
        assert_eq!((text.lines().count(), last["event"].as_str()), (2, Some("whole")));
    }
}
