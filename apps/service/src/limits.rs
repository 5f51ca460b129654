//! What clients may have, and who may be one.

use std::path::PathBuf;
use std::time::Duration;

use ciphermill_channel::DATA_LEN_MAX;
use serde::Serialize;

use crate::account::UserRules;
use crate::peer::Peer;
use crate::process::Process;

/// What a service is opened with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that run requests, in all pools together; each has one at least.
    pub workers: usize,
    /// The cores of each pool of workers. Where there is none, one for each node of memory.
    pub pools: Vec<Vec<usize>>,
    /// How long a worker that has nothing to do looks for requests before it sleeps. Waking it takes some 50 µs.
    pub spin: Duration,
    /// How long operations whose lanes go in step may wait for those of other clients.
    pub window_max: Duration,
    /// What clients may have.
    pub limits: Limits,
    /// Who may connect.
    pub access: Access,
    /// Shares and rates of users.
    pub rules: UserRules,
    /// The file that control operations are written to, a line of JSON each.
    pub audit: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            pools: Vec::new(),
            spin: Duration::from_micros(50),
            window_max: Duration::from_micros(300),
            limits: Limits::default(),
            access: Access::default(),
            rules: UserRules::default(),
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
    /// Bytes of the audit log, which is moved to `FILE.1` before it has more; zero for any number.
    pub audit_bytes: u64,
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
            audit_bytes: 64 << 20,
        }
    }
}

/// Who is let in besides the service's own user and root, who always are.
///
/// `users` and `groups` say who: one of both must name the process's. `units` and `executables` say from where: each of them that names
/// anything must name the process's, so that it takes from what the others give. Where nobody is named, who is in the right place is let
/// in, whoever it is. Where nothing is named nobody is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Access {
    /// Users by number.
    pub users: Vec<u32>,
    /// Groups by number, of which a process has one as its own.
    pub groups: Vec<u32>,
    /// Everybody.
    pub all: bool,
    /// Units of systemd (`nginx.service`, `session-3.scope`); a slice stands for all that is in it.
    pub units: Vec<String>,
    /// Programs. A process that runs the very file is meant: a copy of it is another one, and so is the one that it was replaced by. The
    /// kernel says so of processes of the service's own user only, unless the service has `CAP_SYS_PTRACE`.
    pub executables: Vec<PathBuf>,
}

impl Access {
    /// Whether a process is let in.
    pub(crate) fn allows(&self, peer: &Peer, process: &Process) -> bool {
        let names_no_place = self.units.is_empty() && self.executables.is_empty();
        let names_nobody = self.users.is_empty() && self.groups.is_empty();
        let is_named = self.all || self.users.contains(&peer.uid) || self.groups.contains(&peer.gid);
        let is_who = is_named || (names_nobody && !names_no_place);
        let is_there = (self.units.is_empty() || process.is_in(&self.units))
            && (self.executables.is_empty() || process.runs(&self.executables));
        peer.manages() || (is_who && is_there)
    }
}
