//! What a thread keeps from one batch to the next: its queues on the engines, the last route, its counts.

use std::ptr;
use std::sync::Arc;

use ciphermill_contract::{Cost, EngineQueue, QueueHint, Result};
use ciphermill_router::{Request, Route, RouteReason, Sample};

use crate::cell::CostCell;
use crate::engines::{EngineSet, EngineSlot};
use crate::metrics::Recorder;
use crate::panics::caught;
use crate::policy::TrustPolicy;
use crate::state::State;

/// One queue on each engine, opened when first needed, and the engines as they were when this thread last looked.
#[derive(Default)]
pub(crate) struct Context {
    set: Option<Arc<EngineSet>>,
    epoch: u64,
    own: Own,
    tick: u32,
}

/// The part of a context that a run changes.
#[derive(Default)]
pub(super) struct Own {
    /// Open queues, each with its engine's number.
    queues: Vec<(u16, Box<dyn EngineQueue>)>,
    /// What was decided for the last short batch or lone operation.
    pub(super) remembered: Option<Remembered>,
    /// What this thread counts of the engines.
    pub(super) recorder: Recorder,
}

/// A route and what it takes to learn from it.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    pub(super) route: Route,
    /// The engine's own figures.
    pub(super) cost: Cost,
    /// Where its correction stands.
    pub(super) cell: CostCell,
}

impl Choice {
    pub(super) fn sample(&self) -> Sample {
        if self.route.reason == RouteReason::Probe { Sample::Probe } else { Sample::Routed }
    }
}

/// What was decided for a short batch or a lone operation.
pub(super) struct Remembered {
    pub(super) request: Request,
    pub(super) choice: Choice,
    pub(super) tick: u32,
}

impl Context {
    /// The engines as they are now, what a run on them changes, and the number of this batch. Queues on engines that have
    /// left are closed here.
    #[inline]
    pub(super) fn begin(&mut self, state: &State) -> (&EngineSet, &mut Own, u32) {
        self.tick = self.tick.wrapping_add(1);
        let epoch = state.epoch();
        if self.epoch != epoch || self.set.is_none() {
            self.follow(state, epoch);
        }
        let set = self.set.get_or_insert_with(|| state.engines());
        (set, &mut self.own, self.tick)
    }

    /// What a run changes and its number, for a share of a batch: it goes by the engines that the batch began with, `set`, though
    /// others may have joined, left or been disabled since.
    pub(super) fn begin_share(&mut self, state: &State, set: &EngineSet) -> (&mut Own, u32) {
        let (now, ..) = self.begin(state);
        if !ptr::eq(now, set) {
            // The route that is remembered has an index of the other set. Queues that this share opens are closed with the next batch.
            self.own.remembered = None;
            self.set = None;
        }
        (&mut self.own, self.tick)
    }

    /// The same without a look at whether engines have joined or left since the last batch. `None` before the first.
    #[inline]
    pub(super) fn go_on(&mut self) -> Option<(&EngineSet, &mut Own, u32)> {
        self.tick = self.tick.wrapping_add(1);
        Some((self.set.as_deref()?, &mut self.own, self.tick))
    }

    /// The engines as they were for the last batch, and what a run on them changes.
    pub(super) fn as_it_was(&mut self) -> Option<(&EngineSet, &mut Own)> {
        Some((self.set.as_deref()?, &mut self.own))
    }

    /// The number of the last batch.
    #[inline]
    pub(super) fn tick(&self) -> u32 {
        self.tick
    }

    /// The state's number when the engines were last looked at.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    #[cold]
    fn follow(&mut self, state: &State, epoch: u64) {
        let set = state.engines();
        let stays = |number: u16| set.slots.iter().any(|slot| slot.number == number);
        self.own.queues.retain(|(number, _)| stays(*number));
        self.own.remembered = None;
        self.own.recorder.retain(stays);
        self.set = Some(set);
        self.epoch = epoch;
    }
}

impl Own {
    /// The queue on this engine.
    #[inline]
    pub(super) fn queue_on(&mut self, slot: &EngineSlot, policy: &TrustPolicy) -> Result<&mut dyn EngineQueue> {
        let place = match self.queues.iter().position(|(number, _)| *number == slot.number) {
            Some(place) => place,
            None => {
                let queue = slot.ask(policy, |engine| engine.queue(QueueHint::default()))?;
                self.queues.push((slot.number, queue));
                self.queues.len() - 1
            }
        };
        Ok(self.queues[place].1.as_mut())
    }

    /// Closes the queue on this engine, if one is open: whatever state it was left in.
    pub(super) fn close(&mut self, slot: &EngineSlot) {
        if let Some(place) = self.queues.iter().position(|(number, _)| *number == slot.number) {
            let (_, queue) = self.queues.swap_remove(place);
            // After a panic its own clean-up may panic too.
            caught(|| drop(queue));
        }
    }
}
