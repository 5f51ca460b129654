//! The service as its owner has it.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use ciphermill::Mill;

use crate::control::Control;
use crate::desk::Desk;
use crate::limits::Options;
use crate::remote::Remote;
use crate::socket::Listener;
use crate::vault::Vault;
use crate::worker::{Shop, Worker};

/// A service that runs. Dropped, it takes nobody in any more and ends when its clients have gone.
pub struct Service {
    shop: Arc<Shop>,
    end: Option<UnixStream>,
    remote: Remote,
    control: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
}

impl Service {
    /// Serves the clients of `listener` with what `mill` runs.
    ///
    /// # Errors
    /// What the system says to descriptors, threads and the audit log.
    pub fn start(mill: Mill, listener: Listener, options: Options) -> io::Result<Service> {
        Service::start_with(mill, listener, options, None)
    }

    /// The same, with a keystore whose keys clients may use by name.
    ///
    /// # Errors
    /// As [`Service::start`].
    pub fn start_with(mill: Mill, listener: Listener, options: Options, vault: Option<Vault>) -> io::Result<Service> {
        let count = options.workers.max(1);
        let desk = Desk::new(options.window_max, count);
        let shop = Arc::new(Shop::new(mill, desk, options.spin)?);
        let (end, ends) = UnixStream::pair()?;
        let (control, remote) = Control::new(Arc::clone(&shop), options, listener, vault, ends)?;
        let control = Builder::new().name("control".to_owned()).spawn(move || control.run())?;
        let mut service = Service { shop, end: Some(end), remote, control: Some(control), workers: Vec::new() };
        for index in 0..count {
            let worker = Worker::new(Arc::clone(&service.shop));
            service.workers.push(Builder::new().name(format!("worker-{index}")).spawn(move || worker.run())?);
        }
        Ok(service)
    }

    /// What changes the service while somebody else waits for its end.
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// A socket that makes the service end when something is written to it: for whoever hears of signals.
    ///
    /// # Errors
    /// What the system says to another descriptor.
    pub fn end(&self) -> io::Result<UnixStream> {
        match &self.end {
            Some(end) => end.try_clone(),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Takes nobody in from now on, has clients hear of it, and waits until the last has gone.
    pub fn drain(mut self) {
        self.end.take();
        self.wait();
    }

    /// Waits until the service has ended, by what a client has asked for.
    pub fn wait(&mut self) {
        if let Some(control) = self.control.take() {
            // A panic there ends the service as well.
            let _ = control.join();
        }
        self.shop.end();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end.take();
        self.wait();
    }
}
