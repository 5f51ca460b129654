//! Where the repository lies, and which files belong to it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// Hidden folders that hold files of the project; every other hidden folder is skipped when git is absent.
const HIDDEN_FOLDERS: [&str; 2] = [".ci", ".cargo"];

/// The root of the repository: the folder above this crate.
///
/// Cargo tells the place at run time; the compile-time value serves a binary that is started by hand.
pub(crate) fn root() -> PathBuf {
    let manifest_dir =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest_dir.parent().map_or_else(|| manifest_dir.clone(), Path::to_path_buf)
}

/// The files of the project, relative to the root, with `/` between the parts, sorted.
///
/// These are the files that git tracks and the new ones that it does not ignore. Without git (a release archive, or a
/// checkout that belongs to another user) the folders are walked, leaving out `target` and hidden ones.
pub(crate) fn project_files(root: &Path) -> Result<Vec<String>> {
    let listed = match git_files(root) {
        Some(listed) => listed,
        None => {
            let mut found = BTreeSet::new();
            walk(root, "", &mut found)?;
            found
        }
    };
    Ok(listed.into_iter().filter(|path| root.join(path).is_file()).collect())
}

fn git_files(root: &Path) -> Option<BTreeSet<String>> {
    let output =
        Command::new("git").args(["ls-files", "-z", "-co", "--exclude-standard"]).current_dir(root).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8(output.stdout).ok()?;
    let listed: BTreeSet<String> = text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    // A repository that lies inside an unrelated one, where it is ignored, lists nothing.
    listed.contains("Cargo.toml").then_some(listed)
}

fn walk(root: &Path, folder: &str, found: &mut BTreeSet<String>) -> Result<()> {
    let place = root.join(folder);
    let entries = std::fs::read_dir(&place).with_context(|| place.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_file() {
            found.insert(path);
        } else if kind.is_dir() {
            let hidden = name.starts_with('.') && !HIDDEN_FOLDERS.contains(&name.as_str());
            if !hidden && name != "target" {
                walk(root, &path, found)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().join("Cargo.toml").is_file());
        assert!(root().join("xtask/src/files.rs").is_file());
    }

    #[test]
    fn both_ways_of_listing_find_this_file_and_no_build_output() {
        let root = root();
        let mut walked = BTreeSet::new();
        walk(&root, "", &mut walked).unwrap();
        for listed in [project_files(&root).unwrap(), walked.into_iter().collect::<Vec<_>>()] {
            assert!(listed.iter().any(|path| path == "xtask/src/files.rs"));
            assert!(listed.iter().any(|path| path == ".cargo/config.toml"));
            assert!(!listed.iter().any(|path| path.starts_with("target/")));
            assert!(!listed.iter().any(|path| path.starts_with(".git/")));
        }
    }
}
