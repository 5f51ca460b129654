//! The audit log: a line of JSON for each control operation, never for data.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::client::Peer;

/// A file that lines are added to, or nothing.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    file: Option<File>,
}

impl Audit {
    /// Adds to the file at `path`, which only its owner can read if it is made here; without a path nothing is kept.
    pub(crate) fn at(path: Option<&Path>) -> io::Result<Audit> {
        let open = |path| OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        Ok(Audit { file: path.map(open).transpose()? })
    }

    /// Writes a line: who, what, and what else is worth keeping.
    pub(crate) fn write(&mut self, client: u64, peer: &Peer, what: &str, detail: &Value) {
        let Some(file) = &mut self.file else { return };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let line = json!({
            "time": time, "client": client, "pid": peer.pid, "uid": peer.uid, "gid": peer.gid, "event": what, "detail": detail,
        });
        // One write a line, so that lines of several writers stay whole.
        if let Err(error) = file.write_all(format!("{line}\n").as_bytes()) {
            tracing::error!(client, "the audit log cannot be written: {error}");
        }
    }
}
