//! Where services of a machine have their sockets.

use std::env;
use std::path::PathBuf;

/// The environment variable that names a service's socket. Programs that have it set use the service beside their own engines.
pub const SOCKET_VARIABLE: &str = "CIPHERMILL_SERVICE";

/// The socket of the machine's service.
const SYSTEM: &str = "/run/ciphermill/socket";

/// The socket that the environment variable names, if it names one.
pub fn named_socket() -> Option<PathBuf> {
    env::var_os(SOCKET_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The socket of the user's own service: in the folder that the session has for such things. `None` without one.
pub fn own_socket() -> Option<PathBuf> {
    let folder = env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty())?;
    Some(PathBuf::from(folder).join("ciphermill/socket"))
}

/// The socket that a client connects to when nobody names another: the one that the environment names, else the user's own if it is
/// there, else the machine's.
pub fn default_socket() -> PathBuf {
    named_socket().or_else(|| own_socket().filter(|path| path.exists())).unwrap_or_else(|| PathBuf::from(SYSTEM))
}

/// The socket that a service makes when nobody names another: the user's own, else, for root, the machine's. `None` for others.
pub fn socket_to_make() -> Option<PathBuf> {
    own_socket().or_else(|| rustix::process::geteuid().is_root().then(|| PathBuf::from(SYSTEM)))
}
