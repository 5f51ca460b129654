//! The ladder for tests of whoever has the program that serves: they reach the ladder's inside through this.

use std::path::Path;

use ciphermill_contract::Suite;

use super::definitions::{ENGINES, KEYS, LEN};
use super::rungs::RUNGS;
use super::work::Work;
use super::{Ladder, Start};
use crate::LabError;
use crate::workload::Parameters;

/// A ladder with its services.
pub struct Trial {
    ladder: Ladder,
    works: [Work; 2],
}

/// The numbers of all rungs.
pub fn rungs() -> Vec<&'static str> {
    RUNGS.iter().map(|rung| rung.id).collect()
}

impl Trial {
    /// Raises a ladder for a suite through services that `program` runs, with `ops` operations to send up.
    ///
    /// # Errors
    /// As [`super::run`].
    pub fn new(program: &Path, suite: &str, ops: usize, seed: u64) -> Result<Trial, LabError> {
        let suite: Suite = suite.parse().map_err(|_| LabError::Parameters(format!("no suite is called {suite}")))?;
        let [len_min, len_max] = LEN;
        let parameters = Parameters { ops, keys: KEYS, len_min, len_max, seed, ..Parameters::default() };
        let start = Start { program, single: ENGINES[0], has_lanes: true, core: None };
        let ladder = Ladder::raise(suite, &start, parameters)?;
        let works = ladder.works(LEN, ops)?;
        Ok(Trial { ladder, works })
    }

    /// The process numbers of the services.
    pub fn services(&self) -> Vec<u32> {
        self.ladder.clients.iter().map(|client| client.borrow().service.id()).collect()
    }

    /// Sends windows of `ops` operations up a rung, `windows` of them from the `from`th operation on, and compares every output with the
    /// reference's.
    ///
    /// # Errors
    /// What went wrong, outputs included; [`LabError::Parameters`] when there is no such rung.
    pub fn climb(&self, rung: &str, from: usize, ops: usize, windows: usize) -> Result<(), LabError> {
        let found = self.ladder.rungs().find(|(_, known)| known.id == rung);
        let (_, rung) = found.ok_or_else(|| LabError::Parameters(format!("there is no rung {rung}")))?;
        let load = self.ladder.load(&self.works, rung);
        let all = load.work.ops.len() - from;
        let windows = super::measure::windows(all, ops, windows);
        let windows: Vec<_> = windows.into_iter().map(|window| window.start + from..window.end + from).collect();
        load.client.borrow_mut().climb(rung, load.work, &windows, true)
    }
}
