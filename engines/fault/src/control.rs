//! What the engine, its queues and its handles share.

use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::script::{AfterStall, Fault, Script};

/// Steers a fault engine while it runs, from any thread.
///
/// When the engine and its last handle are gone, nobody is left to end a stall: those that last end, and later ones do
/// not begin.
#[derive(Clone, Debug)]
pub struct FaultHandle {
    owner: Arc<Owner>,
}

impl FaultHandle {
    pub(crate) fn new(owner: Arc<Owner>) -> FaultHandle {
        FaultHandle { owner }
    }

    /// Lets every run that stalls now go on. Later stalls block anew.
    pub fn release(&self) {
        self.owner.change(|state| state.releases += 1);
    }

    /// Kills the engine, as [`Fault::Death`] does. Runs that stall or are delayed fail at once.
    pub fn kill(&self) {
        self.owner.change(State::die);
    }

    /// Brings the engine back to life. The script goes on where it was.
    pub fn revive(&self) {
        self.owner.change(|state| state.dead = false);
    }

    /// Gives the engine another script for calls that are not batches, see [`crate::FaultEngine::with_call_script`]. It
    /// counts calls from now on.
    pub fn set_call_script(&self, script: Script) {
        self.owner.change(|state| {
            state.call_script = script;
            state.calls = 0;
        });
    }

    /// Gives the engine another script, which counts batches from now on. Neither ends a stall nor revives.
    pub fn set_script(&self, script: Script) {
        self.owner.change(|state| {
            state.script = script;
            state.position = 0;
        });
    }

    /// Batches that the engine has begun while alive, known-answer tests included.
    pub fn batches(&self) -> u64 {
        self.owner.control.lock().batches
    }

    /// Batches and calls that have met a fault of their script. A batch that found no operation to spoil is not counted.
    pub fn injected(&self) -> u64 {
        self.owner.control.lock().injected
    }

    /// Batches that found the engine dead.
    pub fn refused(&self) -> u64 {
        self.owner.control.lock().refused
    }

    /// Runs that are blocked by a stall now.
    pub fn stalled(&self) -> usize {
        self.owner.control.lock().stalled
    }

    /// Whether the engine is dead.
    pub fn is_dead(&self) -> bool {
        self.owner.control.lock().dead
    }

    /// Waits until at least `count` runs are blocked, for `limit` at most; returns whether they are.
    pub fn wait_until_stalled(&self, count: usize, limit: Duration) -> bool {
        let control = &self.owner.control;
        let waited = control.changed.wait_timeout_while(control.lock(), limit, |state| state.stalled < count);
        waited.unwrap_or_else(PoisonError::into_inner).0.stalled >= count
    }
}

/// Held by the engine and its handles, not by its queues: when it is dropped, stalls have lost whoever could end them.
#[derive(Debug)]
pub(crate) struct Owner {
    control: Arc<Control>,
}

impl Owner {
    pub(crate) fn new(script: Script) -> Owner {
        let state = State {
            script,
            position: 0,
            call_script: Script::healthy(),
            calls: 0,
            batches: 0,
            injected: 0,
            refused: 0,
            stalled: 0,
            releases: 0,
            deaths: 0,
            dead: false,
            abandoned: false,
        };
        Owner { control: Arc::new(Control { state: Mutex::new(state), changed: Condvar::new() }) }
    }

    pub(crate) fn control(&self) -> &Arc<Control> {
        &self.control
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.control.lock());
        self.control.changed.notify_all();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.change(|state| state.abandoned = true);
    }
}

#[derive(Debug)]
pub(crate) struct Control {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    script: Script,
    /// The number that the next batch has in the script.
    position: u64,
    /// What happens to keys that are prepared and queues that are opened.
    call_script: Script,
    /// The number that the next such call has in its script.
    calls: u64,
    batches: u64,
    injected: u64,
    refused: u64,
    stalled: usize,
    /// How often stalls have been released, so that a run sees what happened between two of its looks.
    releases: u64,
    /// How often the engine has died, for the same reason: it may have been revived meanwhile.
    deaths: u64,
    dead: bool,
    abandoned: bool,
}

impl State {
    fn turn(&self, script: &Script, position: u64) -> Turn {
        let (stall_max, after_stall) = script.stall();
        let (releases, deaths) = (self.releases, self.deaths);
        Turn { fault: script.fault(position), stall_max, after_stall, releases, deaths }
    }

    fn die(&mut self) {
        self.dead = true;
        self.deaths += 1;
    }
}

/// What a batch has to expect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) fault: Fault,
    stall_max: Duration,
    after_stall: AfterStall,
    releases: u64,
    deaths: u64,
}

impl Control {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the script's next step; `None` when the engine is dead.
    pub(crate) fn begin(&self) -> Option<Turn> {
        let mut state = self.lock();
        if state.dead {
            state.refused += 1;
            return None;
        }
        let turn = state.turn(&state.script, state.position);
        state.position += 1;
        state.batches += 1;
        if turn.fault == Fault::Death {
            state.die();
            self.changed.notify_all();
        }
        Some(turn)
    }

    /// The same for a call that is not a batch.
    pub(crate) fn begin_call(&self) -> Option<Turn> {
        let mut state = self.lock();
        if state.dead {
            return None;
        }
        let turn = state.turn(&state.call_script, state.calls);
        state.calls += 1;
        if turn.fault == Fault::Death {
            state.die();
            self.changed.notify_all();
        }
        Some(turn)
    }

    pub(crate) fn count_injected(&self) {
        self.lock().injected += 1;
    }

    /// Waits; returns false when the engine died meanwhile.
    pub(crate) fn delay(&self, turn: &Turn, delay: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), delay, |state| state.deaths == turn.deaths);
        waited.unwrap_or_else(PoisonError::into_inner).0.deaths == turn.deaths
    }

    /// Blocks until the stall ends; returns whether the batch may then run.
    pub(crate) fn stall(&self, turn: &Turn) -> bool {
        let mut state = self.lock();
        state.stalled += 1;
        self.changed.notify_all();
        let blocks =
            |state: &mut State| state.releases == turn.releases && state.deaths == turn.deaths && !state.abandoned;
        let waited = self.changed.wait_timeout_while(state, turn.stall_max, blocks);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.stalled -= 1;
        state.deaths == turn.deaths && turn.after_stall == AfterStall::Complete
    }
}
