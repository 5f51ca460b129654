//! What `install` of a door writes: files that a mark tells from others', which name a library of ours.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use ciphermill_cli::whole;

use crate::output::{after_change, say, tell};

/// The files of one command, by its name.
pub(super) struct Installed(pub(super) &'static str);

impl Installed {
    /// The first line of what `install` writes, by which it knows its own files.
    pub(super) fn mark(&self) -> String {
        format!("# Written by `ciphermill {0} install`; `ciphermill {0} uninstall` removes it.", self.0)
    }

    /// Fails for a file that is there, and that `install` has not written.
    pub(super) fn may_replace(&self, file: &Path) -> anyhow::Result<()> {
        self.is_ours(
            file,
            &format!("is there, and `ciphermill {} install` has not written it; --force replaces it", self.0),
        )
    }

    /// Removes a file, and says what is left to do for whoever uses it.
    pub(super) fn remove(&self, file: &Path, left: &str) -> anyhow::Result<()> {
        self.is_ours(file, &format!("was not written by `ciphermill {} install`, and stays", self.0))?;
        fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))?;
        after_change(say(format!("{}: removed; {left}", file.display())))
    }

    fn is_ours(&self, path: &Path, rule: &str) -> anyhow::Result<()> {
        match fs::read(path) {
            Ok(bytes) if bytes.starts_with(self.mark().as_bytes()) => Ok(()),
            Ok(_) => bail!("{}: {rule}", path.display()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }
}

/// A library that programs load.
pub(super) struct Library {
    /// What it is to those who load it.
    pub(super) noun: &'static str,
    /// The command that builds it.
    pub(super) made_by: &'static str,
    /// Where builds and packages put it, seen from this program.
    pub(super) places: &'static [&'static str],
}

impl Library {
    /// The library that was named, or one that lies where builds and packages put it. Never one of the folder that the command happens to
    /// run in, since other users' programs are going to load it.
    pub(super) fn find(&self, named: Option<&Path>) -> anyhow::Result<PathBuf> {
        if let Some(path) = named {
            let found =
                fs::canonicalize(path).with_context(|| format!("cannot read the {} {}", self.noun, path.display()))?;
            ensure!(found.is_file(), "{}: is not a file, and the {} is a library", found.display(), self.noun);
            return Ok(found);
        }
        let program = env::current_exe().and_then(fs::canonicalize).context("cannot tell where this program lies")?;
        let folder = whole::folder_of(&program);
        let places: Vec<PathBuf> = self.places.iter().map(|place| folder.join(place)).collect();
        if let Some(found) = places.iter().find(|path| path.is_file()) {
            return Ok(fs::canonicalize(found)?);
        }
        let looked: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
        bail!(
            "there is no {} (`{}` builds one; --module names it); looked at {}",
            self.noun,
            self.made_by,
            looked.join(", ")
        )
    }
}

pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

/// Says which file or folder keeps other users' programs from a library.
pub(super) fn warn_unreachable(library: &Path) {
    for path in library.ancestors() {
        let needed = if path == library { 0o004 } else { 0o001 };
        if fs::metadata(path).is_ok_and(|data| data.permissions().mode() & needed == 0) {
            tell(format_args!(
                "ciphermill: {}: other users cannot get at it, so that their programs will not load {}",
                path.display(),
                library.display()
            ));
        }
    }
}
