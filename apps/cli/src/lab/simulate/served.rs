//! A service on some of this machine's cores.

use std::path::{Path, PathBuf};

use anyhow::Context;
use ciphermill::{Costs, Mill};
use ciphermill_service::{Listener, Options, Service};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A mill with this machine's engines and these costs.
pub(super) fn mill(costs: &Costs) -> anyhow::Result<Mill> {
    Ok(Mill::builder().engines(ciphermill_engines::all()).costs(costs.clone()).open()?)
}

/// A service of this process, which ends when this is dropped.
pub(super) struct Served {
    socket: PathBuf,
    // Before the folder: the socket is in there.
    _service: Service,
    _folder: tempfile::TempDir,
}

impl Served {
    /// With so many workers.
    pub(super) fn start(costs: &Costs, workers: u32) -> anyhow::Result<Served> {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("socket");
        let mill = mill(costs)?;
        let listener = Listener::at(&socket, 0o600).context("cannot listen")?;
        let options = Options { workers: workers as usize, ..Options::default() };
        let service = Service::start(mill, listener, options)?;
        Ok(Served { socket, _service: service, _folder: folder })
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }
}

/// Works on so many cores alone; threads that are begun meanwhile stay there, too.
pub(super) fn pinned<T>(cores: u32, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let before = sched_getaffinity(None)?;
    let mut few = CpuSet::new();
    let may = (0..CpuSet::MAX_CPU).filter(|core| before.is_set(*core));
    may.take(cores as usize).for_each(|core| few.set(core));
    sched_setaffinity(None, &few)?;
    let done = work();
    sched_setaffinity(None, &before)?;
    done
}

/// Has this thread stay on the core of this number among those that it may use.
pub(super) fn stay_on(number: usize) -> anyhow::Result<()> {
    let before = sched_getaffinity(None)?;
    let core = (0..CpuSet::MAX_CPU).filter(|core| before.is_set(*core)).nth(number).context("no such core")?;
    let mut one = CpuSet::new();
    one.set(core);
    Ok(sched_setaffinity(None, &one)?)
}
