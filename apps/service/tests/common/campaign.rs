//! An attack from its beginning to its end: somebody honest is served all the time, and nothing is left behind.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ciphermill_contract::Suite;
use ciphermill_service::Options;

use super::Running;
use super::honest::Honest;
use super::raw::Raw;

/// What is counted is the process's: one campaign at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Memory maps that may come by the way: stacks and heaps of threads.
const MAPS_SLACK: usize = 32;

pub(crate) struct Campaign {
    pub(crate) running: Running,
    honest: Option<Honest>,
    before: Census,
    _turn: MutexGuard<'static, ()>,
}

/// What a process holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Census {
    /// What each leads to.
    pub(crate) descriptors: Vec<String>,
    pub(crate) channels: usize,
    pub(crate) maps: usize,
    pub(crate) threads: usize,
}

impl Census {
    pub(crate) fn take() -> Census {
        let entries = |folder: &str| std::fs::read_dir(folder).expect("readable").flatten();
        let target = |entry: std::fs::DirEntry| Some(std::fs::read_link(entry.path()).ok()?.display().to_string());
        let maps = std::fs::read_to_string("/proc/self/maps").expect("readable");
        Census {
            descriptors: entries("/proc/self/fd").filter_map(target).collect(),
            channels: maps.lines().filter(|line| line.contains("memfd:ciphermill-channel")).count(),
            maps: maps.lines().count(),
            threads: entries("/proc/self/task").count(),
        }
    }

    /// What is held once nothing changes any more: who was asked last may not have hung up yet.
    fn settled() -> Census {
        let mut before = Census::take();
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let now = Census::take();
            if now == before {
                return now;
            }
            before = now;
        }
    }

    pub(crate) fn has_no_more_than(&self, before: &Census) -> bool {
        self.descriptors.len() <= before.descriptors.len()
            && self.channels <= before.channels
            && self.maps <= before.maps + MAPS_SLACK
    }
}

/// One campaign at a time within a test program.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until something holds, for ten seconds.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed().as_secs() < 10, "not within ten seconds: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Campaign {
    pub(crate) fn begin(change: impl FnOnce(&mut Options)) -> Campaign {
        let mut campaign = Campaign::alone(change);
        campaign.honest = Some(Honest::start(campaign.socket()));
        campaign
    }

    /// Without an honest client: one that is turned away would have to complain.
    pub(crate) fn alone(change: impl FnOnce(&mut Options)) -> Campaign {
        let turn = turn();
        let running = Running::start(change);
        // What is made once is there before it is counted.
        let first = Honest::start(running.socket());
        std::thread::sleep(Duration::from_millis(50));
        first.end();
        wait_for("nobody is left of the warming up", || {
            everybody_has_gone(running.socket()) && running.mill.keys().is_empty()
        });
        let before = Census::settled();
        Campaign { running, honest: None, before, _turn: turn }
    }

    pub(crate) fn socket(&self) -> &Path {
        self.running.socket()
    }

    /// Suites of the service that have no key.
    pub(crate) fn suites_without_keys(&self) -> Vec<Suite> {
        Suite::all().filter(|suite| !suite.needs_key() && *suite != Suite::Random).collect()
    }

    /// Ends the honest client before the end.
    pub(crate) fn end_honest(&mut self) {
        if let Some(honest) = self.honest.take() {
            let (rounds, (longest, what)) = honest.end();
            println!("NOTE: the honest client had {rounds} answers; what took longest was {what}: {longest:?}");
        }
    }

    /// No engine of the service has done anything that it is to blame for.
    pub(crate) fn no_engine_was_blamed(&self) {
        for engine in &self.running.mill.metrics().engines {
            assert_eq!(engine.quarantines, 0, "{engine:?}");
        }
    }

    /// Nothing is left of any client.
    pub(crate) fn end(mut self) {
        self.end_honest();
        wait_for("everybody has gone", || everybody_has_gone(self.running.socket()));
        wait_for("no key is left", || self.running.mill.keys().is_empty());
        let begun = Instant::now();
        loop {
            let now = Census::take();
            if now.has_no_more_than(&self.before) {
                break;
            }
            assert!(begun.elapsed().as_secs() < 10, "leaked: {now:?}, before it was {:?}", self.before);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Whether the service knows of nobody but who asks, of no channel and no request.
fn everybody_has_gone(socket: &Path) -> bool {
    // Too many may be there still.
    let Some(mut raw) = Raw::admitted(socket) else { return false };
    let status = raw.status();
    let count = |name: &str| status[name].as_u64().expect("a number");
    (count("clients"), count("channels"), count("waiting")) == (1, 0, 0)
}
