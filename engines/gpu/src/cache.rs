//! Machine code that a compiler made of the kernels, kept between runs: compiling takes seconds, and a program that opens
//! the engine for a small job should not wait for it twice.
//!
//! A file is named by a digest of everything that the code follows from, and begins with a digest of the code, so that
//! a damaged one is made again. It holds no keys and no data. Whoever may write to the folder decides what runs on
//! the device, as with the drivers' own caches; it is the user's own, and made with access for nobody else.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::device::Result;

/// Bytes of the digest that a file begins with.
const DIGEST_LEN: usize = 32;

/// The folder, unless the environment has none to offer.
pub(crate) fn folder() -> Option<PathBuf> {
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = path("XDG_CACHE_HOME").or_else(|| path("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("ciphermill").join("kernels"))
}

/// The code that follows from `parts`: what is kept in the folder, else what `make` makes, which is then kept. A folder that
/// cannot be written to is no reason to fail.
pub(crate) fn kept(folder: Option<&Path>, parts: &[&str], make: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
    let Some(folder) = folder else { return make() };
    let mut name = Sha256::new();
    for part in parts {
        // Lengths keep parts apart.
        name.update((part.len() as u64).to_le_bytes());
        name.update(part.as_bytes());
    }
    let name: String = name.finalize().as_slice().iter().map(|byte| format!("{byte:02x}")).collect();
    let path = folder.join(name);
    if let Some(code) = read(&path) {
        return Ok(code);
    }
    let code = make()?;
    if let Err(error) = write(folder, &path, &code) {
        tracing::debug!(path = %path.display(), "gpu: compiled kernels were not kept: {error}");
    }
    Ok(code)
}

/// The code of a file that is whole.
fn read(path: &Path) -> Option<Vec<u8>> {
    let bytes = fs::read(path).ok()?;
    let (digest, code) = bytes.split_at_checked(DIGEST_LEN)?;
    (Sha256::digest(code).as_slice() == digest).then(|| code.to_vec())
}

/// Writes a file in one step, so that nobody reads half of it.
fn write(folder: &Path, path: &Path, code: &[u8]) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Two processes may do this at the same time.
    let draft = path.with_extension(std::process::id().to_string());
    let written = fs::write(&draft, [Sha256::digest(code).as_slice(), code].concat());
    let outcome = written.and_then(|()| fs::rename(&draft, path));
    if outcome.is_err() {
        // A full disk has no room for halves; there may be none to remove.
        let _ = fs::remove_file(&draft);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Trouble;

    #[test]
    fn code_is_made_once_and_again_when_it_is_damaged() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("kernels");
        let made = |code: &[u8]| Ok(code.to_vec());
        let not_made = || -> Result<Vec<u8>> { panic!("it is kept") };
        assert_eq!(kept(Some(&folder), &["a", "bc"], || made(b"one")), Ok(b"one".to_vec()));
        assert_eq!(kept(Some(&folder), &["a", "bc"], not_made), Ok(b"one".to_vec()));
        assert_eq!(kept(Some(&folder), &["ab", "c"], || made(b"two")), Ok(b"two".to_vec()), "other parts, other code");
        let files: Vec<PathBuf> =
            fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("an entry").path()).collect();
        assert_eq!(files.len(), 2, "no drafts are left");
        for file in files {
            let mut bytes = fs::read(&file).expect("a file");
            *bytes.last_mut().expect("not empty") ^= 1;
            fs::write(&file, bytes).expect("writable");
        }
        assert_eq!(kept(Some(&folder), &["a", "bc"], || made(b"new")), Ok(b"new".to_vec()));
        // Something stands where a file should go: the code is used all the same, and no draft stays behind.
        let names = || fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("an entry").path());
        let file = names().find(|path| read(path).is_some_and(|code| code == b"new")).expect("it was kept");
        fs::remove_file(&file).expect("removed");
        fs::create_dir(&file).expect("made");
        assert_eq!(kept(Some(&folder), &["a", "bc"], || made(b"new")), Ok(b"new".to_vec()));
        assert_eq!(names().count(), 2, "no drafts are left");
        assert_eq!(kept(Some(&folder), &["x"], || Err(Trouble::Absent)), Err(Trouble::Absent));
        assert_eq!(kept(None, &["a", "bc"], || made(b"unkept")), Ok(b"unkept".to_vec()));
    }
}
