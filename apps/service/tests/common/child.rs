//! Processes of their own: this test program again, with one of its tests, which knows that it is such a process by a variable.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Where the service is, for the other process.
const SOCKET: &str = "CIPHERMILL_TEST_SOCKET";

/// Starts the test of that name, which is ignored otherwise.
pub(crate) fn start(test: &str, socket: &Path) -> Child {
    Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(SOCKET, socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("starts")
}

/// Where the service is. Nowhere for a process that nobody has started as such.
pub(crate) fn socket() -> Option<PathBuf> {
    std::env::var_os(SOCKET).map(PathBuf::from)
}
