//! The service as its owner has it.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use ciphermill::Mill;

use crate::control::Control;
use crate::desk::Desk;
use crate::limits::Options;
use crate::pools;
use crate::remote::Remote;
use crate::socket::Listener;
use crate::vault::Vault;
use crate::worker::{Shop, Worker};

/// A service that runs. Dropped, it takes nobody in any more and ends when its clients have gone.
pub struct Service {
    shops: Vec<Arc<Shop>>,
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
        let pools = if options.pools.is_empty() { pools::of_nodes() } else { options.pools.clone() };
        let shares = pools::shares(options.workers, &pools);
        let all_cores = std::thread::available_parallelism().map_or(1, usize::from);
        let opened = Instant::now();
        let mut shops = Vec::with_capacity(pools.len());
        for (cores, workers) in pools.into_iter().zip(&shares) {
            let count = if cores.is_empty() { all_cores } else { cores.len() };
            let desk = Desk::new(options.window_max, (*workers, count), opened);
            shops.push(Arc::new(Shop::new(mill.clone(), desk, options.spin, cores)?));
        }
        Shop::introduce(&shops);
        let (end, ends) = UnixStream::pair()?;
        let options = Options { workers: shares.iter().sum(), ..options };
        let (control, remote) = Control::new((mill, shops.clone()), options, listener, vault, ends)?;
        let control = Builder::new().name("control".to_owned()).spawn(move || control.run())?;
        let mut service = Service { shops, end: Some(end), remote, control: Some(control), workers: Vec::new() };
        let of_workers = service.shops.iter().zip(shares).flat_map(|(shop, count)| core::iter::repeat_n(shop, count));
        for (index, shop) in of_workers.enumerate() {
            let worker = Worker::new(Arc::clone(shop));
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
        self.shops.iter().for_each(|shop| shop.end());
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
