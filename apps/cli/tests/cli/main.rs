//! The command line as a user meets it: every command, wrong arguments, wrong keys, damaged files, Ctrl-C.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod disabled;
mod folders;
mod general;
mod inspect;
mod keystore;
mod lab;
mod ladder;
mod memory;
mod openssl;
mod pkcs11;
mod placement;
mod service;
mod streams;
mod tables;
mod token_commands;
mod token_tool;
mod tokens;
mod top;

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of its own for a test, with a home in it, removed at the end.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

/// What a command did.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { folder: tempfile::tempdir().expect("a folder") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("written");
        path
    }

    /// Names of the files in the folder, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).expect("a folder");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The program, in this folder and with nothing of the user's own settings.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ciphermill"));
        command.args(args);
        self.prepared(command)
    }

    /// The program, run by a shell once `first` is done.
    pub(crate) fn command_after<A: AsRef<OsStr>>(&self, first: &str, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{first}; exec \"$0\" \"$@\"")).arg(env!("CARGO_BIN_EXE_ciphermill")).args(args);
        self.prepared(command)
    }

    pub(crate) fn prepared(&self, mut command: Command) -> Command {
        command.current_dir(self.folder.path()).env("HOME", self.folder.path());
        for name in [
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "CIPHERMILL_CONFIG",
            "CIPHERMILL_KEYSTORE",
            "CIPHERMILL_METRICS_SOCKET",
            "CIPHERMILL_SERVICE",
            "RUST_LOG",
        ] {
            command.env_remove(name);
        }
        command.env("CIPHERMILL_PASSPHRASE", "correct horse battery staple");
        command
    }

    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Ran {
        Ran::from(self.command(args).output().expect("runs"))
    }

    /// Runs a command that has to succeed, and returns what it printed.
    pub(crate) fn ok<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        ran.out
    }

    /// Runs a command that reads `input` and has to succeed, and returns what it printed.
    pub(crate) fn ok_with<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>, input: &str) -> String {
        let file = self.write("standard-input", input);
        let ran = Ran::from(self.command(args).stdin(File::open(file).expect("a file")).output().expect("runs"));
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        ran.out
    }

    /// Runs a command that has to fail with `code` and to say each of `words`.
    pub(crate) fn fails<A: AsRef<OsStr>>(&self, code: i32, words: &[&str], args: impl IntoIterator<Item = A>) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(code), "{}{}", ran.out, ran.err);
        for word in words {
            assert!(ran.err.contains(word), "`{word}` is missing in: {}", ran.err);
        }
        ran
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        Path::exists(&self.path(name))
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        Ran {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

pub(crate) fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}
