//! A service that runs within the test's process.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ciphermill::{Mill, SelfTest};
use ciphermill_service::{Listener, Options, Service};
use tempfile::TempDir;

/// A service with a socket in a folder of its own; ended when this is dropped.
pub(crate) struct Running {
    socket: PathBuf,
    pub(crate) mill: Mill,
    pub(crate) service: Option<Service>,
    _folder: TempDir,
}

impl Running {
    /// A service with the library and the reference as engines.
    pub(crate) fn start(change: impl FnOnce(&mut Options)) -> Running {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let mill = Mill::builder()
            .engine(Arc::new(ciphermill_library::Library::new().expect("opens everywhere")))
            .engine(Arc::new(ciphermill_reference::Reference::new()))
            .legacy(true)
            .self_test(SelfTest::Never)
            .open()
            .expect("a mill");
        let mut options = Options { workers: 2, ..Options::default() };
        change(&mut options);
        let listener = Listener::at(&socket, 0o600).expect("a socket");
        let service = Service::start(mill.clone(), listener, options).expect("starts");
        Running { socket, mill, service: Some(service), _folder: folder }
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
