//! Output that appears whole or not at all: written without a name, hashed on the way, synced, linked into its place.
//!
//! Until then nobody else can open it, and the kernel removes it when the program dies. File systems without nameless
//! files (`O_TMPFILE`) get a part file beside the place, which only its owner may read.

use std::fs::{File, Permissions};
use std::io::{self, Seek, Write};
use std::num::NonZero;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::embed::find_once;
use crate::error::{Result, TableError};
use crate::job::is_standard_stream;

/// Permission bits that a protected table and its manifest can have. Columns that nobody named are in clear there.
pub(crate) const PROTECTED_MODE: u32 = 0o666;

/// Permission bits that a restored table can have: it holds what was worth protecting.
pub(crate) const RESTORED_MODE: u32 = 0o600;

/// Bytes that are brought to the disk together.
const WRITEBACK_LEN: u64 = 32 << 20;

/// Attempts to find a name that nothing has.
const NAME_TRIES: usize = 8;

/// A file that is being written and takes the place `path` at the end. Dropped before, it leaves nothing.
pub(crate) struct OutputFile {
    path: PathBuf,
    part: Part,
    mode: u32,
    /// Of what was written so far, where somebody will ask.
    hash: Option<Sha256>,
    len: u64,
    /// Bytes that are on their way to the disk.
    begun: u64,
}

/// An output that is complete and synced, but not yet in its place.
pub(crate) struct Ready {
    path: PathBuf,
    part: Part,
    mode: u32,
    /// SHA-256 of all bytes, in hexadecimal, if it was taken.
    pub(crate) sha256: Option<String>,
    /// Bytes written.
    pub(crate) len: u64,
}

/// A file that nobody else may read.
enum Part {
    /// Has no name yet.
    Nameless(File),
    /// Lies beside its place.
    Named(NamedTempFile),
}

impl Part {
    fn create(path: &Path) -> io::Result<Part> {
        if is_standard_stream(path) {
            return Ok(Part::Nameless(tempfile::tempfile()?));
        }
        match nameless_in(directory_of(path))? {
            Some(file) => Ok(Part::Nameless(file)),
            None => Part::create_named(path),
        }
    }

    /// Begins `.ciphermill-part-RANDOM` in the directory of `path`, for its owner alone.
    fn create_named(path: &Path) -> io::Result<Part> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PART_PREFIX).rand_bytes(8).permissions(Permissions::from_mode(0o600));
        Ok(Part::Named(builder.tempfile_in(directory_of(path))?))
    }

    fn file(&self) -> &File {
        match self {
            Part::Nameless(file) => file,
            Part::Named(named) => named.as_file(),
        }
    }

    /// Puts the file where nothing is.
    fn put(self, path: &Path) -> io::Result<()> {
        match self {
            Part::Nameless(file) => link(&file, path),
            Part::Named(named) => named.persist_noclobber(path).map(drop).map_err(|failed| failed.error),
        }
    }

    /// Puts the file where something may be. A link cannot replace, so a nameless file gets a name for an instant.
    fn replace(self, path: &Path) -> io::Result<()> {
        match self {
            Part::Nameless(file) => {
                let beside = link_beside(&file, path)?;
                std::fs::rename(&beside, path).inspect_err(|_| {
                    // The error that matters is that of the renaming.
                    let _ = std::fs::remove_file(&beside);
                })
            }
            Part::Named(named) => named.persist(path).map(drop).map_err(|failed| failed.error),
        }
    }
}

const PART_PREFIX: &str = ".ciphermill-part-";

/// Whether a name is that of a file which is being written, or was by a run that is dead.
pub(crate) fn is_part(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PART_PREFIX.as_bytes())
}

/// A file without a name, or `None` where the file system or the system has no such files, or no way to name them.
fn nameless_in(directory: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = match rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let own = file.metadata()?;
    let can_be_named =
        std::fs::metadata(own_path(&file)).is_ok_and(|named| (named.dev(), named.ino()) == (own.dev(), own.ino()));
    Ok(can_be_named.then_some(file))
}

/// The name by which this process can link a file that has none (`open(2)`, `O_TMPFILE`).
fn own_path(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn link(file: &File, path: &Path) -> io::Result<()> {
    Ok(rustix::fs::linkat(CWD, own_path(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// A name for a part file in the directory of `path`, which nothing has in all likelihood.
///
/// # Errors
/// When the system gives no random bytes.
pub(crate) fn name_beside(path: &Path) -> io::Result<PathBuf> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    Ok(directory_of(path).join(format!("{PART_PREFIX}{}", hex::encode(random))))
}

fn link_beside(file: &File, path: &Path) -> io::Result<PathBuf> {
    let mut tries = 0;
    loop {
        let beside = name_beside(path)?;
        tries += 1;
        match link(file, &beside) {
            Ok(()) => return Ok(beside),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < NAME_TRIES => {}
            Err(error) => return Err(error),
        }
    }
}

impl OutputFile {
    /// Begins a file that will have the permission bits `mode`.
    ///
    /// # Errors
    /// `Io` when the directory does not take it.
    pub(crate) fn create(path: &Path, mode: u32) -> Result<OutputFile> {
        let part = Part::create(path).map_err(|source| TableError::io(path, "write beside it", source))?;
        Ok(OutputFile { path: path.to_owned(), part, mode, hash: Some(Sha256::new()), len: 0, begun: 0 })
    }

    /// The same without a hash, for a file that no manifest names: it took a tenth of the time of restoring a table.
    ///
    /// # Errors
    /// As for [`OutputFile::create`].
    pub(crate) fn create_unnamed(path: &Path, mode: u32) -> Result<OutputFile> {
        Ok(OutputFile { hash: None, ..OutputFile::create(path, mode)? })
    }

    /// Takes what would be written to `path`, and keeps nothing of it.
    ///
    /// # Errors
    /// `Io` when the system has no `/dev/null`.
    pub(crate) fn discard(path: &Path) -> Result<OutputFile> {
        let null = File::options().write(true).open("/dev/null");
        let null = null.map_err(|source| TableError::io(Path::new("/dev/null"), "open", source))?;
        Ok(OutputFile { path: path.to_owned(), part: Part::Nameless(null), mode: 0, hash: None, len: 0, begun: 0 })
    }

    /// Where the file will be.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes written so far.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The hash of what was written so far, which is not at its end, and its length in bytes; nothing where none is taken.
    pub(crate) fn so_far(&self) -> Option<(Sha256, u64)> {
        Some((self.hash.clone()?, self.len))
    }

    /// Writes `make(hash, len)` over `placeholder`, which has the same length and was written once since `before`
    /// ([`OutputFile::so_far`]). Hash and length are those of the file without the placeholder.
    ///
    /// # Errors
    /// `Io`, also when the placeholder is not there exactly once; what `make` gives.
    pub(crate) fn fill_in(
        &mut self,
        before: (Sha256, u64),
        placeholder: &[u8],
        make: impl FnOnce(String, u64) -> Result<Vec<u8>>,
    ) -> Result<()> {
        let (hash, start) = before;
        let io_error = |source| TableError::io(&self.path, "write the manifest into the footer", source);
        let mut tail = vec![0; usize::try_from(self.len - start).map_err(io::Error::other).map_err(io_error)?];
        self.part.file().read_exact_at(&mut tail, start).map_err(io_error)?;
        let found = find_once(&tail, placeholder);
        let unplaced = || io_error(io::Error::other("there is no place for it"));
        let at = found.ok_or_else(unplaced)?;
        let rest = at + placeholder.len();
        let without = hash.clone().chain_update(&tail[..at]).chain_update(&tail[rest..]);
        let content = make(hex::encode(without.finalize()), self.len - placeholder.len() as u64)?;
        if content.len() != placeholder.len() {
            return Err(unplaced());
        }
        self.part.file().write_all_at(&content, start + at as u64).map_err(io_error)?;
        tail[at..rest].copy_from_slice(&content);
        self.hash = Some(hash.chain_update(&tail));
        Ok(())
    }

    /// Has the system begin to bring to the disk what has been written, so that the end need not wait for all of it.
    fn begin_writeback(&mut self) {
        if self.len - self.begun >= WRITEBACK_LEN {
            // Linux begins to write pages that are not needed any more, and those that are being written stay in its cache.
            // Pipes and devices refuse, and lose nothing by that.
            let len = NonZero::new(self.len - self.begun);
            let _ = rustix::fs::fadvise(self.part.file(), self.begun, len, rustix::fs::Advice::DontNeed);
            self.begun = self.len;
        }
    }

    /// Ends writing and waits until the bytes are on the disk.
    ///
    /// # Errors
    /// `Io` when they do not get there.
    pub(crate) fn finish(self) -> Result<Ready> {
        self.part.file().sync_all().map_err(|source| TableError::io(&self.path, "sync", source))?;
        let sha256 = self.hash.map(|hash| hex::encode(hash.finalize()));
        Ok(Ready { path: self.path, part: self.part, mode: self.mode, sha256, len: self.len })
    }
}

/// A small file that is complete and synced, but not yet in its place.
///
/// # Errors
/// `Io`.
pub(crate) fn ready_file(path: &Path, content: &[u8], mode: u32) -> Result<Ready> {
    let mut output = OutputFile::create(path, mode)?;
    output.write_all(content).map_err(|source| TableError::io(path, "write", source))?;
    output.finish()
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.part.file().write(bytes)?;
        if let Some(hash) = &mut self.hash {
            hash.update(&bytes[..written]);
        }
        self.len += written as u64;
        self.begin_writeback();
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.part.file().flush()
    }
}

impl Ready {
    /// Where the file will be.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the file into its place in `directory` and makes that last.
    ///
    /// # Errors
    /// `Exists` when something has come there meanwhile and may not be replaced; `Io`; `InEffect` when the file is in its
    /// place and only its lasting is in doubt.
    pub(crate) fn place(self, directory: &Directory, force: bool) -> Result<()> {
        let path = self.path.clone();
        self.put(force)?;
        let but = "whether it outlasts a power failure is unknown, since its directory cannot be synced";
        directory.sync().map_err(|source| TableError::InEffect { path, but, source })
    }

    /// Puts the file into its place.
    ///
    /// # Errors
    /// `Exists` when something has come there meanwhile and may not be replaced; `Io`. The place is unchanged then.
    pub(crate) fn put(self, force: bool) -> Result<()> {
        let Ready { path, part, mode, .. } = self;
        if is_standard_stream(&path) {
            return pass_on(part.file()).map_err(|source| TableError::io(&path, "write to standard output", source));
        }
        let widened = part.file().set_permissions(Permissions::from_mode(mode)).and_then(|()| part.file().sync_all());
        widened.map_err(|source| TableError::io(&path, "set the permissions of the output", source))?;
        let placed = if force { part.replace(&path) } else { part.put(&path) };
        placed.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => TableError::Exists { path: path.clone() },
            _ => TableError::io(&path, "put the output into its place", error),
        })
    }
}

/// Writes a complete file to standard output.
fn pass_on(mut file: &File) -> io::Result<()> {
    file.rewind()?;
    let mut output = io::stdout().lock();
    io::copy(&mut file, &mut output)?;
    output.flush()
}

/// The directory of an output, opened and synced once before anything is changed in it, so that what would keep a change
/// from lasting is found before the change.
pub(crate) struct Directory {
    file: File,
    syncs: bool,
}

impl Directory {
    /// Opens the directory that `output` lies in.
    ///
    /// # Errors
    /// `Io` when it cannot be opened or synced.
    pub(crate) fn open(output: &Path) -> Result<Directory> {
        let path = directory_of(output);
        let file = File::open(path).map_err(|source| TableError::io(path, "open the directory", source))?;
        match rustix::fs::fsync(&file) {
            Ok(()) => Ok(Directory { file, syncs: true }),
            // Some network file systems make directories last by themselves and refuse to be asked.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Directory { file, syncs: false }),
            Err(error) => Err(TableError::io(path, "sync the directory", error.into())),
        }
    }

    /// Waits until no other job is putting a table into this directory; ends with this value. File systems without such
    /// locks go without.
    pub(crate) fn lock(&self) {
        let _ = rustix::fs::flock(&self.file, FlockOperation::LockExclusive);
    }

    /// Makes what was linked and renamed last through a power failure.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if self.syncs { self.file.sync_all() } else { Ok(()) }
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Permission bits of an output: those of `most` that the source has, that an output which is replaced has, and that the
/// process's umask leaves.
///
/// # Errors
/// `Io` when the source's cannot be read.
pub(crate) fn output_mode(source: &File, source_path: &Path, output: &Path, most: u32) -> Result<u32> {
    let metadata = source.metadata().map_err(|error| TableError::io(source_path, "read", error))?;
    let replaced = std::fs::symlink_metadata(output).map_or(most, |metadata| metadata.mode());
    Ok(most & metadata.mode() & replaced & !umask())
}

/// The process's umask as Linux shows it (`proc_pid_status(5)`): asking for it otherwise would mean to set it. Where it is
/// not shown, nobody but the owner gets anything.
pub(crate) fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    field.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(0o077)
}

/// Refuses an output that exists (unless forced), that is the input, or that is anything but a file. Standard output is
/// taken.
///
/// # Errors
/// `SameFile`, also through links, whether forced or not; `Exists`; `NotAFile`; `Io`.
pub(crate) fn check_output(input: &Path, output: &Path, force: bool) -> Result<()> {
    if is_standard_stream(output) {
        return Ok(());
    }
    let same = match (std::fs::metadata(input), std::fs::metadata(output)) {
        (Ok(input), Ok(output)) => (input.dev(), input.ino()) == (output.dev(), output.ino()),
        _ => input == output,
    };
    if same {
        return Err(TableError::SameFile { path: output.to_owned() });
    }
    check_place(output, force)
}

/// Refuses a place where something is, unless that is a file and replacing was asked for.
///
/// # Errors
/// `Exists`, `NotAFile`, `Io`.
fn check_place(path: &Path, force: bool) -> Result<()> {
    let kind = match std::fs::symlink_metadata(path) {
        Ok(_) if !force => return Err(TableError::Exists { path: path.to_owned() }),
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(TableError::io(path, "write there", error)),
    };
    let found = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => "a directory",
        _ if kind.is_symlink() => "a symbolic link; name the file that it leads to",
        _ => "a device, pipe or socket",
    };
    Err(TableError::NotAFile { path: path.to_owned(), found })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Both kinds of part files, in a directory of their own.
    fn both_kinds(test: impl Fn(&Path, &dyn Fn(&[u8]) -> OutputFile)) {
        for named in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("out");
            test(directory.path(), &|bytes| {
                let mut output = OutputFile::create(&path, 0o640).unwrap();
                if named {
                    output.part = Part::create_named(&path).unwrap();
                }
                output.write_all(bytes).unwrap();
                output
            });
        }
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn an_output_appears_whole_or_not_at_all() {
        both_kinds(|directory, begin| {
            let output = begin(b"abc");
            let seen = names(directory);
            assert_eq!(seen.is_empty(), matches!(output.part, Part::Nameless(_)));
            assert!(seen.iter().all(|name| mode(&directory.join(name)) == 0o600), "{seen:?}");
            drop(output);
            assert!(names(directory).is_empty());

            let ready = begin(b"abc").finish().unwrap();
            // FIPS 180-4's example of one block.
            let wanted = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
            assert_eq!(ready.sha256.as_deref(), Some(wanted));
            assert_eq!(ready.len, 3);
            ready.place(&Directory::open(&directory.join("out")).unwrap(), false).unwrap();
            assert_eq!(names(directory), ["out"]);
            assert_eq!(std::fs::read(directory.join("out")).unwrap(), b"abc");
            assert_eq!(mode(&directory.join("out")), 0o640);
        });
    }

    #[test]
    fn what_came_meanwhile_is_not_replaced_unless_forced() {
        both_kinds(|directory, begin| {
            let path = directory.join("out");
            let late = begin(b"new").finish().unwrap();
            std::fs::write(&path, b"old").unwrap();
            assert!(matches!(late.put(false), Err(TableError::Exists { .. })));
            assert_eq!(std::fs::read(&path).unwrap(), b"old");
            assert_eq!(names(directory), ["out"]);
            begin(b"new").finish().unwrap().put(true).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"new");
            assert_eq!(names(directory), ["out"]);

            std::fs::remove_file(&path).unwrap();
            let late = begin(b"new").finish().unwrap();
            std::fs::create_dir(&path).unwrap();
            assert!(matches!(late.put(true), Err(TableError::Io { .. })));
            assert_eq!(names(directory), ["out"], "no name is left behind");
        });
    }

    /// The file system that tests run on has nameless files; without this test nothing would notice if they were not used.
    #[test]
    fn nameless_files_are_used_where_there_are_any() {
        let directory = tempfile::tempdir().unwrap();
        let flags = OFlags::TMPFILE | OFlags::RDWR;
        let has_them = rustix::fs::open(directory.path(), flags, Mode::RUSR | Mode::WUSR).is_ok();
        let output = OutputFile::create(&directory.path().join("out"), 0o600).unwrap();
        assert_eq!(matches!(output.part, Part::Nameless(_)), has_them);
    }

    #[test]
    fn permissions_are_the_narrowest_of_all() {
        let directory = tempfile::tempdir().unwrap();
        let (source, output) = (directory.path().join("in"), directory.path().join("out"));
        let opened = File::create(&source).unwrap();
        let bits = |most: u32| output_mode(&opened, &source, &output, most).unwrap();
        for (of_source, protected, restored) in [(0o644, 0o644, 0o600), (0o400, 0o400, 0o400), (0o4755, 0o644, 0o600)] {
            std::fs::set_permissions(&source, Permissions::from_mode(of_source)).unwrap();
            assert_eq!((bits(PROTECTED_MODE), bits(RESTORED_MODE)), (protected & !umask(), restored & !umask()));
        }
        std::fs::set_permissions(&source, Permissions::from_mode(0o644)).unwrap();
        std::fs::write(&output, "").unwrap();
        std::fs::set_permissions(&output, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(bits(PROTECTED_MODE), 0o600, "what is replaced stays as narrow as it was");
    }

    #[test]
    fn only_files_are_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        let input = place("in");
        std::fs::write(&input, "x").unwrap();
        std::fs::create_dir(place("directory")).unwrap();
        std::os::unix::fs::symlink("nowhere", place("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(place("socket")).unwrap();
        let others = [place("directory"), place("link"), place("socket"), PathBuf::from("/dev/null")];
        for output in &others {
            assert!(matches!(check_output(&input, output, true), Err(TableError::NotAFile { .. })), "{output:?}");
            assert!(matches!(check_output(&input, output, false), Err(TableError::Exists { .. })), "{output:?}");
        }
        let long = place(&"n".repeat(300));
        assert!(matches!(check_output(&input, &long, false), Err(TableError::Io { .. })), "a name too long");
    }

    #[test]
    fn the_input_is_never_the_output() {
        let directory = tempfile::tempdir().unwrap();
        let input = directory.path().join("in");
        std::fs::write(&input, b"x").unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&input, &link).unwrap();
        let hard_link = directory.path().join("hard link");
        std::fs::hard_link(&input, &hard_link).unwrap();
        for output in [&input, &link, &hard_link] {
            assert!(matches!(check_output(&input, output, true), Err(TableError::SameFile { .. })));
        }
        assert!(check_output(&input, &directory.path().join("out"), false).is_ok());
    }
}
