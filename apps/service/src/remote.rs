//! How the service's owner changes it while it runs.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use rustix::fd::OwnedFd;

use crate::limits::Options;
use crate::vault::Vault;

/// What can be changed while the service runs.
pub struct Reload {
    /// Who may connect, what clients may have, and where control operations are written to. Threads, times and the socket stay as they are.
    pub options: Options,
    /// The keystore, and whose its keys are. Keys that clients have taken stay theirs.
    pub vault: Option<Vault>,
}

/// What the thread of the sockets is told.
pub(crate) enum Change {
    All(Box<Reload>),
    Audit,
}

/// How the service's owner reaches the thread of its sockets.
#[derive(Clone)]
pub struct Remote {
    pub(crate) changes: Sender<Change>,
    pub(crate) bell: Arc<OwnedFd>,
}

impl Remote {
    /// Puts something else into force, and has what the mill runs looked at again. Clients that are connected stay.
    pub fn reload(&self, reload: Reload) {
        self.send(Change::All(Box::new(reload)));
    }

    /// Has the audit log opened again: whoever asks has moved the file away.
    pub fn reopen_audit(&self) {
        self.send(Change::Audit);
    }

    fn send(&self, change: Change) {
        // Fails only when the thread has ended, which needs nothing any more.
        if self.changes.send(change).is_ok() {
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }
}
