//! The socket that clients connect to, and that only one service has it.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::peer::Peer;

/// A socket on which clients are waited for. Dropped, it is removed.
pub struct Listener {
    pub(crate) socket: UnixListener,
    place: Option<PlaceOfSocket>,
}

struct PlaceOfSocket {
    path: PathBuf,
    #[expect(dead_code, reason = "held for its lock")]
    lock: File,
}

/// Why there is no socket.
#[derive(Debug)]
pub enum ListenError {
    /// Another service has it.
    Runs {
        /// Its process, as far as it is known.
        pid: Option<u32>,
    },
    /// There is something else in its place.
    NoSocket,
    /// The system says no.
    Io(io::Error),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenError::Runs { pid: Some(pid) } => write!(f, "a service runs there already, as process {pid}"),
            ListenError::Runs { pid: None } => f.write_str("a service runs there already"),
            ListenError::NoSocket => f.write_str("there is something that is no socket"),
            ListenError::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for ListenError {}

impl From<io::Error> for ListenError {
    fn from(error: io::Error) -> ListenError {
        ListenError::Io(error)
    }
}

impl Listener {
    /// A socket that was made by whoever started the service, as systemd does.
    pub fn inherited(socket: UnixListener) -> Listener {
        Listener { socket, place: None }
    }

    /// Makes the socket at `path`, and the folder that it is in if that is missing. `mode` is who may connect as the file system sees it; the
    /// service itself asks for more ([`crate::Access`]). A socket that a dead service has left is replaced.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn at(path: &Path, mode: u32) -> Result<Listener, ListenError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            // Whoever may connect has to get there.
            let open = mode & 0o077 != 0;
            DirBuilder::new().recursive(true).mode(if open { 0o755 } else { 0o700 }).create(folder)?;
        }
        // Who has the lock has the socket: connecting would not tell a dead service from a busy one.
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        // A link that somebody has put there would have another file written to.
        let mut lock = options.custom_flags(libc::O_NOFOLLOW).open(lock_path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                lock.read_to_string(&mut text)?;
                return Err(ListenError::Runs { pid: text.trim().parse().ok() });
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        lock.set_len(0)?;
        lock.rewind()?;
        writeln!(lock, "{}", std::process::id())?;
        match std::fs::symlink_metadata(path) {
            Ok(metadata) if metadata.file_type().is_socket() => std::fs::remove_file(path)?,
            Ok(_) => return Err(ListenError::NoSocket),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let socket = UnixListener::bind(path)?;
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
        Ok(Listener { socket, place: Some(PlaceOfSocket { path: path.to_owned(), lock }) })
    }
}

/// `SO_PASSRIGHTS` of Linux 6.16 and later (`include/uapi/asm-generic/socket.h`), which the bindings do not name yet.
const SO_PASSRIGHTS: libc::c_int = 83;

impl Listener {
    /// Has the kernel refuse descriptors that clients pass along with messages. The service takes none, but would be the one that closes
    /// them, and closing some takes as long as their senders like: a TCP connection that lingers.
    pub(crate) fn refuse_descriptors(&self) {
        let no: libc::c_int = 0;
        let len = size_of_val(&no) as libc::socklen_t;
        // SAFETY: the option's value is an integer, which lives beyond the call; its length is given.
        #[allow(unsafe_code, reason = "no binding has this option")]
        let result = unsafe {
            libc::setsockopt(self.socket.as_raw_fd(), libc::SOL_SOCKET, SO_PASSRIGHTS, (&raw const no).cast(), len)
        };
        if result != 0 {
            let error = io::Error::last_os_error();
            tracing::warn!("clients may pass descriptors, and keep the service busy with closing them: {error}");
        }
    }
}

/// The process at the other side of a connection, as the kernel has noted it down. Its number is zero if this process cannot see it: it
/// lives in another namespace, and shares the socket's folder alone.
///
/// # Errors
/// What the system says.
pub(crate) fn peer_of(socket: &UnixStream) -> io::Result<Peer> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of_val(&credentials) as libc::socklen_t;
    let (name, value) = (libc::SO_PEERCRED, (&raw mut credentials).cast());
    // SAFETY: the value is a `ucred`, which may be any numbers, of the length that is given; both live beyond the call.
    #[allow(unsafe_code, reason = "rustix takes the process's number for one that is never zero")]
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, value, &raw mut len) };
    if result != 0 || len as usize != size_of_val(&credentials) {
        return Err(io::Error::last_os_error());
    }
    Ok(Peer { pid: credentials.pid, uid: credentials.uid, gid: credentials.gid })
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(place) = &self.place {
            // The lock file stays: removing it would let two services lock two files of one name.
            let _ = std::fs::remove_file(&place.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_place_of_the_lock_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (socket, victim) = (folder.path().join("socket"), folder.path().join("victim"));
        std::fs::write(&victim, "precious").expect("written");
        std::os::unix::fs::symlink(&victim, folder.path().join("socket.lock")).expect("a link");
        assert!(matches!(Listener::at(&socket, 0o600), Err(ListenError::Io(_))));
        assert_eq!(std::fs::read(&victim).expect("there"), b"precious");
    }

    #[test]
    fn a_folder_lets_those_in_who_may_connect() {
        let folder = tempfile::tempdir().expect("a folder");
        for (mode, wanted) in [(0o600, 0o700), (0o666, 0o755)] {
            let place = folder.path().join(format!("{mode:o}"));
            let _listener = Listener::at(&place.join("socket"), mode).expect("a socket");
            let found = std::fs::metadata(&place).expect("a folder").permissions().mode() & 0o777;
            // What the process's mask takes away is its user's wish.
            assert!(found & !wanted == 0 && found & 0o700 == 0o700, "{mode:o}: {found:o}");
        }
    }

    #[test]
    fn the_other_side_is_this_process() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        assert_eq!(peer_of(&one).expect("known"), Peer { pid: std::process::id() as i32, uid, gid });
    }
}
