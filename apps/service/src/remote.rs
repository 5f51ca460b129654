//! How the service's owner changes it while it runs.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use rustix::fd::OwnedFd;

use crate::limits::Access;
use crate::vault::Vault;

/// What can be changed while the service runs.
pub struct Reload {
    /// Who may connect from now on.
    pub access: Access,
    /// The keystore, and whose its keys are. Keys that clients have taken stay theirs.
    pub vault: Option<Vault>,
}

/// How the service's owner reaches the thread of its sockets.
#[derive(Clone)]
pub struct Remote {
    pub(crate) reloads: Sender<Reload>,
    pub(crate) bell: Arc<OwnedFd>,
}

impl Remote {
    /// Puts something else into force, and has what the mill runs looked at again. Clients that are connected stay.
    pub fn reload(&self, reload: Reload) {
        // Fails only when the thread has ended, which needs nothing any more.
        if self.reloads.send(reload).is_ok() {
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }
}
