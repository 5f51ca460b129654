//! A service in a process of its own, started for the ladder alone.

use std::fmt::Display;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ciphermill_engines::names;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;

use super::definitions::{LANES, REFERENCE};
use super::rungs::Place;
use crate::LabError;

/// How long a service may take until it can be connected to.
const START_MAX: Duration = Duration::from_secs(20);

/// How often it is looked for meanwhile, and after its end.
const LOOK: Duration = Duration::from_millis(1);

/// How long a service that has hung up may take to end.
const END_MAX: Duration = Duration::from_millis(500);

/// A service. Dropped, it ends.
pub(crate) struct Service {
    child: Child,
    /// With its socket, its configuration and what it says.
    folder: TempDir,
}

/// What the service of a place is told: which engines it has. One that is alone has nobody to recompute its answers.
fn configuration(place: Place, single: &str) -> String {
    let has = |name: &str| match name {
        LANES => place == Place::Lanes,
        REFERENCE => place != Place::Plain || single == REFERENCE,
        other => other == single,
    };
    let others: Vec<String> = names().filter(|name| !has(name)).map(|name| format!("{name:?}")).collect();
    format!("[policy]\nlegacy = true\ndisabled = [{}]\n[service]\nworkers = 1\n", others.join(", "))
}

impl Service {
    /// Has `program` serve, with the engine for single messages that is named, and waits until it can be connected to.
    ///
    /// # Errors
    /// [`LabError::Service`] when it cannot be started or ends at once.
    pub(crate) fn start(program: &Path, place: Place, single: &str) -> Result<Service, LabError> {
        let failed = |error: std::io::Error| LabError::Service(format!("{} cannot serve: {error}", program.display()));
        let folder = tempfile::tempdir().map_err(failed)?;
        let settings = folder.path().join("ciphermill.toml");
        std::fs::write(&settings, configuration(place, single)).map_err(failed)?;
        let said = File::create(folder.path().join("said")).map_err(failed)?;
        let mut command = Command::new(program);
        command.args(["service", "run", "--socket"]).arg(folder.path().join("socket")).arg("--config").arg(settings);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        let child = on_all_cores(|| command.spawn()).map_err(failed)?;
        let mut service = Service { child, folder };
        let begun = Instant::now();
        while UnixStream::connect(service.socket()).is_err() {
            if service.ended().is_some() || begun.elapsed() > START_MAX {
                return Err(service.failed("it cannot be connected to"));
            }
            std::thread::sleep(LOOK);
        }
        Ok(service)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Its process number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it has ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// What is wrong with it, with its own last words where it has ended.
    pub(crate) fn failed(&mut self, what: impl Display) -> LabError {
        let id = self.id();
        let begun = Instant::now();
        while self.ended().is_none() && begun.elapsed() < END_MAX {
            std::thread::sleep(LOOK);
        }
        let Some(status) = self.ended() else { return LabError::Service(format!("the service, process {id}: {what}")) };
        let said = std::fs::read_to_string(self.folder.path().join("said")).unwrap_or_default();
        let last = said.lines().last().map(|line| format!(": {line}")).unwrap_or_default();
        LabError::Service(format!("the service, process {id}, has ended ({status}){last}"))
    }

    /// Keeps all of its threads, and those that they will begin, to one core.
    ///
    /// Only once it serves: a service that begins with one core takes it that clients have no other either, and has them sleep at once.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn pin(&self, core: usize) -> std::io::Result<()> {
        let mut cores = CpuSet::new();
        cores.set(core);
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.id()))? {
            let number = thread?.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(thread) = number.and_then(Pid::from_raw) {
                sched_setaffinity(Some(thread), &cores)?;
            }
        }
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended before; there is nobody left to tell of either failure.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Does something while this thread may use all cores: what it starts may, too.
fn on_all_cores<T>(work: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
    let own = sched_getaffinity(None)?;
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|core| all.set(core));
    sched_setaffinity(None, &all)?;
    let done = work();
    sched_setaffinity(None, &own)?;
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_has_an_engine_more() {
        let of = |single| Place::ALL.map(|place| configuration(place, single));
        let [plain, checked, lanes] = of("library");
        assert!(plain.contains("disabled = [\"lanes\", \"reference\", \"gpu\", \"service\"]\n"), "{plain}");
        assert_eq!(plain.replace("\"reference\", ", ""), checked);
        assert_eq!(checked.replace("\"lanes\", ", ""), lanes);
        let [plain, checked, lanes] = of("reference");
        assert!(plain.contains("\"library\"") && plain == checked && lanes != checked, "{plain}{lanes}");
    }

    #[test]
    fn a_program_that_does_not_serve_is_named_or_quoted() {
        let start = |program: &str| {
            Service::start(Path::new(program), Place::Plain, "library").map(|_| ()).map_err(|error| error.to_string())
        };
        let missing = start("/nowhere/ciphermill").expect_err("nobody is there");
        assert!(missing.contains("/nowhere/ciphermill") && missing.contains("No such file"), "{missing}");
        let other = start("cp").expect_err("it does something else");
        assert!(other.contains("has ended") && other.contains("cp"), "{other}");
    }
}
