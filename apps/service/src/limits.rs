//! What clients may have, and who may be one.

use std::path::PathBuf;
use std::time::Duration;

use ciphermill_channel::DATA_LEN_MAX;
use serde::Serialize;

use crate::client::Peer;

/// What a service is opened with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that run requests.
    pub workers: usize,
    /// How long a worker that has nothing to do looks for requests before it sleeps. Waking it takes some 50 µs.
    pub spin: Duration,
    /// How long operations whose lanes go in step may wait for those of other clients.
    pub window_max: Duration,
    /// What clients may have.
    pub limits: Limits,
    /// Who may connect.
    pub access: Access,
    /// The file that control operations are written to, a line of JSON each.
    pub audit: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            spin: Duration::from_micros(50),
            window_max: Duration::from_micros(300),
            limits: Limits::default(),
            access: Access::default(),
            audit: None,
        }
    }
}

/// What clients may have. What is beyond is answered with an error that names the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections in all.
    pub clients: usize,
    /// Connections of one user.
    pub clients_of_user: usize,
    /// Channels of a connection.
    pub channels: usize,
    /// Bytes for operations and data that a channel may have.
    pub channel_bytes: usize,
    /// Bytes for operations and data in all channels of a connection.
    pub client_bytes: usize,
    /// Keys of a connection.
    pub keys: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            clients: 4096,
            clients_of_user: 1024,
            channels: 64,
            channel_bytes: DATA_LEN_MAX,
            client_bytes: 256 << 20,
            keys: 65_536,
        }
    }
}

/// Who is let in besides the service's own user and root, who always are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Access {
    /// Users by number.
    pub users: Vec<u32>,
    /// Groups by number, of which a process has one as its own.
    pub groups: Vec<u32>,
    /// Everybody.
    pub all: bool,
}

impl Access {
    /// Whether a process of this user and group is let in.
    pub(crate) fn allows(&self, peer: &Peer) -> bool {
        peer.manages() || self.all || self.users.contains(&peer.uid) || self.groups.contains(&peer.gid)
    }
}
