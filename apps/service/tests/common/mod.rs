//! A service that runs within the test's process.
#![allow(dead_code, reason = "not every test uses all of it")]

pub(crate) mod campaign;
pub(crate) mod child;
pub(crate) mod honest;
pub(crate) mod raw;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ciphermill::{Mill, SelfTest};
use ciphermill_service::{Listener, Options, Service, Vault};
use tempfile::TempDir;

/// A service with a socket in a folder of its own; ended when this is dropped.
pub(crate) struct Running {
    socket: PathBuf,
    pub(crate) mill: Mill,
    options: Options,
    pub(crate) service: Option<Service>,
    _folder: Option<TempDir>,
}

impl Running {
    /// A service with the library and the reference as engines.
    pub(crate) fn start(change: impl FnOnce(&mut Options)) -> Running {
        Running::start_with(change, None)
    }

    /// The same, with a keystore.
    pub(crate) fn start_with(change: impl FnOnce(&mut Options), vault: Option<Vault>) -> Running {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        Running::at(socket, Some(folder), change, vault)
    }

    /// A service at this path.
    pub(crate) fn start_at(socket: PathBuf, folder: Option<TempDir>, change: impl FnOnce(&mut Options)) -> Running {
        Running::at(socket, folder, change, None)
    }

    fn at(
        socket: PathBuf,
        folder: Option<TempDir>,
        change: impl FnOnce(&mut Options),
        vault: Option<Vault>,
    ) -> Running {
        let mut options = Options { workers: 2, ..Options::default() };
        change(&mut options);
        let mut running = Running { socket, mill: mill(), options, service: None, _folder: folder };
        running.restart(vault);
        running
    }

    /// Ends the service; its socket goes.
    pub(crate) fn stop(&mut self) {
        self.service = None;
    }

    /// Starts a service again in the place of the one before, with another mill.
    pub(crate) fn restart(&mut self, vault: Option<Vault>) {
        self.stop();
        self.mill = mill();
        let listener = Listener::at(&self.socket, 0o600).expect("a socket");
        let service = Service::start_with(self.mill.clone(), listener, self.options.clone(), vault);
        self.service = Some(service.expect("starts"));
    }

    /// Waits until something holds, for ten seconds.
    pub(crate) fn wait_until(&self, what: &str, holds: impl Fn(&Mill) -> bool) {
        let begun = std::time::Instant::now();
        while !holds(&self.mill) {
            assert!(begun.elapsed().as_secs() < 10, "not within ten seconds: {what}");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }
}

fn mill() -> Mill {
    Mill::builder()
        .engine(Arc::new(ciphermill_library::Library::new().expect("opens everywhere")))
        .engine(Arc::new(ciphermill_reference::Reference::new()))
        .legacy(true)
        .self_test(SelfTest::Never)
        .open()
        .expect("a mill")
}
