//! The ladder for tests that cross the process boundary. Such a test is a program of its own, since the child is the same
//! program started anew; from there it reaches the ladder's inside through this.

use ciphermill_contract::Suite;

use super::Ladder;
use super::definitions::{ENGINES, KEYS, LANES, LEN};
use super::rungs::{Place, RUNGS};
use super::wire::{HEAD_LEN, Head, How, Kind};
use super::work::Work;
use crate::LabError;
use crate::workload::Parameters;

/// A ladder with its child.
pub struct Trial {
    ladder: Ladder,
    works: [Work; 2],
}

/// The numbers of all rungs.
pub fn rungs() -> Vec<&'static str> {
    RUNGS.iter().map(|rung| rung.id).collect()
}

impl Trial {
    /// Raises a ladder for a suite, with `ops` operations to send up.
    ///
    /// # Errors
    /// As [`super::run`].
    pub fn new(suite: &str, ops: usize, seed: u64) -> Result<Trial, LabError> {
        let suite: Suite = suite.parse().map_err(|_| LabError::Parameters(format!("no suite is called {suite}")))?;
        let [len_min, len_max] = LEN;
        let parameters = Parameters { ops, keys: KEYS, len_min, len_max, seed, ..Parameters::default() };
        let single = Some(ENGINES[0]);
        let names = [single, single, Some(LANES)];
        let ladder = Ladder::raise(suite, names, parameters, None)?;
        let works = ladder.works(LEN, ops)?;
        Ok(Trial { ladder, works })
    }

    /// The child's process number.
    pub fn child(&self) -> u32 {
        self.ladder.service.borrow().id()
    }

    /// Sends `ops` operations from the `from`th on up a rung, and compares every output with the reference's.
    ///
    /// # Errors
    /// What went wrong, outputs included; [`LabError::Parameters`] when there is no such rung.
    pub fn climb(&self, rung: &str, from: usize, ops: usize) -> Result<(), LabError> {
        let found = self.ladder.rungs().find(|(_, known)| known.id == rung);
        let (_, rung) = found.ok_or_else(|| LabError::Parameters(format!("there is no rung {rung}")))?;
        let load = self.ladder.load(&self.works, rung);
        self.ladder.service.borrow_mut().batch(rung, load, from..from + ops, true)
    }

    /// Sends many windows through the ring one behind the other, so that its cells are used again.
    ///
    /// # Errors
    /// As [`Trial::climb`].
    pub fn turn(&self, windows: usize, ops: usize) -> Result<(), LabError> {
        let Some((_, rung)) = self.ladder.rungs().find(|(_, rung)| rung.way == super::rungs::Way::Ring) else {
            return Err(LabError::Parameters("there is no ring".to_owned()));
        };
        let load = self.ladder.load(&self.works, rung);
        let windows = super::measure::windows(load.work.ops.len(), ops, windows);
        self.ladder.service.borrow_mut().turn(rung, load, &windows, true)
    }

    /// A rightly formed request for the first operation, as on the fourth rung.
    pub fn request(&self) -> Vec<u8> {
        let how = How::Whole;
        let (work, keys) = (&self.works[0], &self.ladder.keys);
        let len = how.body_len(1, work.bytes(&(0..1)), keys.wrapped[0].len());
        let head = Head { kind: Kind::Run, how: Some(how), mill: Place::Plain as u8, count: 1, len };
        let mut message = head.to_bytes().to_vec();
        message.resize(HEAD_LEN + len, 0);
        super::wire::write_items(how, work.outgoing(keys, 0..1, None), &mut message[HEAD_LEN..]);
        message
    }

    /// Sends bytes as they are and returns the outputs that come back.
    ///
    /// # Errors
    /// [`LabError::Service`]: a refusal with the child's words, or its end.
    pub fn send(&self, message: &[u8]) -> Result<Vec<u8>, LabError> {
        self.ladder.service.borrow_mut().ask_raw(message, Kind::Output).map(|(_, body)| body.to_vec())
    }

    /// Sends bytes and waits for nothing.
    ///
    /// # Errors
    /// [`LabError::Service`].
    pub fn tell(&self, message: &[u8]) -> Result<(), LabError> {
        self.ladder.service.borrow_mut().tell_raw(message)
    }

    /// Starts the ring, so that the child looks at shared memory and not at the socket.
    ///
    /// # Errors
    /// [`LabError::Service`].
    pub fn start_ring(&self) -> Result<(), LabError> {
        let Some((_, rung)) = self.ladder.rungs().find(|(_, rung)| rung.way == super::rungs::Way::Ring) else {
            return Err(LabError::Parameters("there is no ring".to_owned()));
        };
        self.ladder.service.borrow_mut().start_ring(rung, 2, 1024)
    }
}
