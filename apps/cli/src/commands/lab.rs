//! `ciphermill lab`: starts the lab, a program of its own, since it needs libraries that nothing else does.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, ensure};
use ciphermill_cli::program;

/// The program.
pub(crate) const NAME: &str = "ciphermill-lab";

/// Becomes the lab, with these arguments.
pub(crate) fn run(args: &[OsString], verbose: u8) -> anyhow::Result<ExitCode> {
    let verbosity = (0..verbose).map(|_| OsString::from("-v"));
    let program = program::beside(NAME);
    let error = Command::new(&program).args(args).args(verbosity).exec();
    Err(error).with_context(|| {
        format!(
            "cannot start {}; the lab is a program of its own, which `make lab` or `cargo build --release` builds beside \
             this one",
            program.display()
        )
    })
}

/// Has the lab write its manual pages into `folder`, if it is there.
pub(crate) fn write_pages(folder: &Path) -> anyhow::Result<()> {
    match Command::new(program::beside(NAME)).args(["man", "--out"]).arg(folder).status() {
        Ok(status) => {
            ensure!(status.success(), "the lab could not write its manual pages ({status})");
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).context("cannot start the lab"),
    }
}

/// Whether the lab is there.
pub(crate) fn is_there() -> bool {
    let found =
        Command::new(program::beside(NAME)).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}
