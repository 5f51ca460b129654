//! How a keystore file is replaced: whole, by one writer at a time.
//!
//! A writer makes the *draft*, `.NAME.new` beside the keystore, and holds an exclusive lock (`flock`) on it. It writes the
//! draft, syncs it, renames it over the keystore and syncs the folder. So there are two states and no other:
//!
//! - before the rename the old keystore is in effect, and a draft may lie beside it. Nobody reads drafts; the next writer
//!   finds one without a lock, knows that its writer died, and removes it;
//! - after the rename the new keystore is in effect. If the folder cannot be synced then, the change holds all the same,
//!   but a power failure might undo it: [`KeystoreError::NotDurable`].
//!
//! What can fail without a change is tried before the rename: the folder is opened and synced once.
//! Readers need no lock, since whatever file they open is complete.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::error::KeystoreError;

/// How often a waiting writer looks again.
const POLL: Duration = Duration::from_millis(10);
/// When a writer that waits says so.
const NOTICE_AFTER: Duration = Duration::from_millis(500);

/// What a change does while another process changes the same keystore.
#[derive(Clone, Copy, Debug)]
pub struct WaitPolicy {
    /// How long it waits before it gives up with [`KeystoreError::Locked`].
    pub limit: Duration,
    /// Is called once, with the keystore and the limit, when the wait is long enough to be noticed.
    pub notice: Option<fn(&Path, Duration)>,
}

impl Default for WaitPolicy {
    /// Thirty seconds, in silence.
    fn default() -> WaitPolicy {
        WaitPolicy { limit: Duration::from_secs(30), notice: None }
    }
}

/// What a draft becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A file that must not be there yet.
    New,
    /// The successor of a file, with its owner and permission bits.
    Successor,
}

/// The right to replace a keystore, and the file that will.
pub(super) struct Draft {
    file: File,
    path: PathBuf,
    target: PathBuf,
    folder: File,
    is_placed: bool,
    /// A file of format 1, whose lock keeps the programs away that knew no other format.
    pub(super) locked: Option<File>,
}

/// A change that is in effect, and what the folder's sync said.
#[must_use = "whether the change is durable has not been said yet"]
pub(super) struct Published {
    path: PathBuf,
    sync_error: Option<io::Error>,
}

impl Published {
    /// The change is in effect either way.
    pub(super) fn durable(self) -> Result<(), KeystoreError> {
        match self.sync_error {
            None => Ok(()),
            Some(source) => Err(KeystoreError::NotDurable { path: self.path, source }),
        }
    }
}

impl Draft {
    /// Waits for other writers, then takes the right to replace `target`.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::Locked`] when the wait is over; [`KeystoreError::NotChanged`].
    pub(super) fn begin(target: &Path, wait: WaitPolicy) -> Result<Draft, KeystoreError> {
        let path = beside(target)?;
        let not_changed = |source| KeystoreError::not_changed(target, source);
        let folder = File::open(folder_of(target)).map_err(not_changed)?;
        folder.sync_all().map_err(not_changed)?;
        #[cfg(test)]
        let folder = tests::folder_to_sync(folder);
        let started = Instant::now();
        let mut notice = wait.notice;
        loop {
            if let Some(file) = try_draft(&path).map_err(|source| KeystoreError::not_changed(&path, source))? {
                let target = target.to_owned();
                return Ok(Draft { file, path, target, folder, is_placed: false, locked: None });
            }
            let waited = started.elapsed();
            if waited >= wait.limit {
                return Err(KeystoreError::Locked { path: target.to_owned(), waited });
            }
            if waited >= NOTICE_AFTER
                && let Some(notice) = notice.take()
            {
                notice(target, wait.limit);
            }
            thread::sleep(POLL.min(wait.limit.saturating_sub(waited)));
        }
    }

    /// Writes the draft and puts it in its place.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::NotChanged`], and [`KeystoreError::Exists`] for [`Place::New`]: nothing has happened then.
    pub(super) fn publish(mut self, content: &[u8], place: Place) -> Result<Published, KeystoreError> {
        self.write(content, place).map_err(|source| KeystoreError::not_changed(&self.target, source))?;
        let renamed = match place {
            Place::New => rename_new(&self.path, &self.target),
            Place::Successor => fs::rename(&self.path, &self.target),
        };
        let mut sync_error = None;
        if let Err(error) = renamed {
            // Over a network a rename may take effect and still be reported as failed: the name decides.
            if !is_named(&self.target, &self.file).unwrap_or(false) {
                return Err(match error.kind() {
                    ErrorKind::AlreadyExists => KeystoreError::Exists { what: self.target.display().to_string() },
                    _ => KeystoreError::not_changed(&self.target, error),
                });
            }
            sync_error = Some(error);
        }
        self.is_placed = true;
        sync_error = self.folder.sync_all().err().or(sync_error);
        Ok(Published { path: self.target.clone(), sync_error })
    }

    fn write(&mut self, content: &[u8], place: Place) -> io::Result<()> {
        if place == Place::Successor {
            // A file that may not be written is not replaced either.
            let old = OpenOptions::new().write(true).open(&self.target)?.metadata()?;
            let own = self.file.metadata()?;
            if (old.uid(), old.gid()) != (own.uid(), own.gid()) {
                fchown(&self.file, Some(old.uid()), Some(old.gid()))?;
            }
            self.file.set_permissions(old.permissions())?;
        }
        self.file.write_all(content)?;
        self.file.sync_all()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_placed {
            // If this fails, the next writer removes it: nobody holds its lock then.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes and locks a draft. None when another writer has one, or when one that a crash left was just removed.
fn try_draft(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    match options.clone().create_new(true).open(path) {
        // Between making and locking, another may have taken it for a left-over and removed it.
        Ok(file) => return Ok((try_lock(&file)? && is_named(path, &file)?).then_some(file)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    match options.open(path) {
        Ok(file) => {
            if try_lock(&file)? && is_named(path, &file)? {
                fs::remove_file(path)?;
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(None)
}

fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether `path` names this open file.
fn is_named(path: &Path, file: &File) -> io::Result<bool> {
    let opened = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (opened.dev(), opened.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Renames without replacing a file that is there.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system has this rename. Other writers are locked out, so looking first serves as well.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => look_and_rename(from, to),
        other => Ok(other?),
    }
}

fn look_and_rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::symlink_metadata(to) {
        Ok(_) => Err(ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == ErrorKind::NotFound => fs::rename(from, to),
        Err(error) => Err(error),
    }
}

/// The draft of a keystore, in the same folder, so that it can be renamed over it.
fn beside(target: &Path) -> Result<PathBuf, KeystoreError> {
    let Some(name) = target.file_name() else {
        return Err(KeystoreError::BadParameter { what: "keystore path", rule: "it ends in a file name" });
    };
    let mut draft = OsString::from(".");
    draft.push(name);
    draft.push(".new");
    Ok(target.with_file_name(draft))
}

/// The folder that a file lies in.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    thread_local! {
        /// Whether folders of drafts that this thread makes cannot be synced once the draft is in its place.
        pub(crate) static FOLDER_SYNC_FAILS: Cell<bool> = const { Cell::new(false) };
    }

    /// The folder, or a file that cannot be synced (`fsync` gives EINVAL for devices).
    pub(super) fn folder_to_sync(folder: File) -> File {
        if FOLDER_SYNC_FAILS.get() { File::open("/dev/null").unwrap() } else { folder }
    }

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("k");
        (folder, target)
    }

    fn brief() -> WaitPolicy {
        WaitPolicy { limit: Duration::from_millis(40), notice: None }
    }

    #[test]
    fn a_draft_becomes_the_file_or_vanishes() {
        let (folder, target) = place();
        Draft::begin(&target, brief()).unwrap().publish(b"one", Place::New).unwrap().durable().unwrap();
        let taken = Draft::begin(&target, brief()).unwrap().publish(b"two", Place::New);
        assert!(matches!(taken.err(), Some(KeystoreError::Exists { .. })));
        assert_eq!(fs::read(&target).unwrap(), b"one");
        drop(Draft::begin(&target, brief()).unwrap());
        fs::set_permissions(&target, PermissionsExt::from_mode(0o640)).unwrap();
        Draft::begin(&target, brief()).unwrap().publish(b"three", Place::Successor).unwrap().durable().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"three");
        assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, 0o640);
        // The owner stays as well; only root can give files away.
        if chown(&target, Some(1), Some(1)).is_ok() {
            Draft::begin(&target, brief()).unwrap().publish(b"four", Place::Successor).unwrap().durable().unwrap();
            let metadata = fs::metadata(&target).unwrap();
            assert_eq!((metadata.uid(), metadata.gid()), (1, 1));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn one_writer_at_a_time() {
        let (_folder, target) = place();
        let first = Draft::begin(&target, brief()).unwrap();
        let unnoticed = WaitPolicy { notice: Some(|_, _| panic!("too short a wait to be noticed")), ..brief() };
        let second = Draft::begin(&target, unnoticed);
        assert!(matches!(second.err(), Some(KeystoreError::Locked { waited, .. }) if waited >= brief().limit));
        drop(first);
        assert!(Draft::begin(&target, brief()).is_ok());
    }

    #[test]
    fn a_file_system_without_the_rename_replaces_nothing_either() {
        let (folder, target) = place();
        let other = folder.path().join("other");
        fs::write(&other, b"new").unwrap();
        look_and_rename(&other, &target).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        fs::write(&other, b"newer").unwrap();
        assert_eq!(look_and_rename(&other, &target).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }

    /// At once, and not after waiting for a writer that does not exist. Root may write everywhere.
    #[test]
    fn a_folder_that_may_not_be_written_is_told() {
        let (folder, target) = place();
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o555)).unwrap();
        if File::create(folder.path().join("by root")).is_err() {
            assert!(matches!(Draft::begin(&target, brief()).err(), Some(KeystoreError::NotChanged { .. })));
        }
    }

    #[test]
    fn what_a_crash_left_is_removed() {
        let (_folder, target) = place();
        fs::write(&target, b"old").unwrap();
        let draft = beside(&target).unwrap();
        fs::write(&draft, b"half a ke").unwrap();
        Draft::begin(&target, brief()).unwrap().publish(b"new", Place::Successor).unwrap().durable().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        // A draft that is another name of the keystore itself is taken away, not written to.
        fs::hard_link(&target, &draft).unwrap();
        drop(Draft::begin(&target, brief()).unwrap());
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert!(!draft.exists());
        // What is no file is left alone.
        fs::create_dir(&draft).unwrap();
        assert!(matches!(Draft::begin(&target, brief()).err(), Some(KeystoreError::NotChanged { .. })));
        fs::remove_dir(&draft).unwrap();
        std::os::unix::fs::symlink(&target, &draft).unwrap();
        assert!(matches!(Draft::begin(&target, brief()).err(), Some(KeystoreError::NotChanged { .. })));
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn a_folder_that_cannot_be_synced_is_known_before_the_change_or_said_after_it() {
        let (folder, target) = place();
        fs::write(&target, b"old").unwrap();
        FOLDER_SYNC_FAILS.set(true);
        let published = Draft::begin(&target, brief()).unwrap().publish(b"new", Place::Successor).unwrap();
        FOLDER_SYNC_FAILS.set(false);
        assert!(matches!(published.durable(), Err(KeystoreError::NotDurable { .. })));
        assert_eq!(fs::read(&target).unwrap(), b"new");
        fs::remove_dir_all(folder.path()).unwrap();
        assert!(matches!(Draft::begin(&target, brief()).err(), Some(KeystoreError::NotChanged { .. })));
    }
}
