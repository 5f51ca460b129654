//! A thread's queues on a mill's engines.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ciphermill_contract::{EngineQueue, OwnedBatch, QueueHint, Result};
use ciphermill_router::size_class;

use crate::choose::Remembered;
use crate::dispatch::Way;
use crate::engines::{EngineSet, EngineSlot, place};
use crate::metrics::Recorder;
use crate::mill::Shared;
use crate::panics::caught;
use crate::policy::TrustPolicy;

/// One queue on each engine, opened when first needed, and the engines as they were when this thread last looked.
#[derive(Default)]
pub(crate) struct Queues {
    set: Option<Arc<EngineSet>>,
    epoch: u64,
    open: Open,
    tick: u32,
}

/// Open queues, each with its engine's number.
#[derive(Default)]
pub(crate) struct Open {
    queues: Vec<(u16, Box<dyn EngineQueue>)>,
    /// The last short batch's route.
    pub(crate) remembered: Option<Remembered>,
    /// What this thread counts of the engines.
    pub(crate) recorder: Recorder,
}

impl Queues {
    /// The engines as they are now, the queues on them, and the number of this batch. Queues on engines that have left
    /// are closed here.
    #[inline]
    pub(crate) fn begin(&mut self, shared: &Shared) -> (&EngineSet, &mut Open, u32) {
        self.tick = self.tick.wrapping_add(1);
        let epoch = shared.epoch.load(Ordering::Acquire);
        if self.epoch != epoch || self.set.is_none() {
            self.follow(shared, epoch);
        }
        let set = self.set.get_or_insert_with(|| shared.engines());
        (set, &mut self.open, self.tick)
    }

    /// What an owned batch will probably take, in nanoseconds, on the engine that is fastest for it. Its bytes are taken
    /// to be its arena's.
    pub(crate) fn predict(&mut self, shared: &Shared, batch: &OwnedBatch) -> u64 {
        let (ops, bytes) = (batch.ops.len() as u64, batch.arena.bytes().len() as u64);
        let (place, class) = (place(batch.suite, batch.direction), size_class(ops, bytes));
        let (set, open, tick) = self.begin(shared);
        let way = Way::new(shared, set, open, tick);
        let plan = set.plan(batch.suite, batch.direction);
        let ns = plan.iter().map(|candidate| way.as_of_now(candidate, place, class)).filter(|now| now.trusted);
        ns.map(|now| now.cost.predict_ns(ops, bytes)).fold(f64::MAX, f64::min).min(1e15) as u64
    }

    #[cold]
    fn follow(&mut self, shared: &Shared, epoch: u64) {
        let set = shared.engines();
        let stays = |number: u16| set.slots.iter().any(|slot| slot.number == number);
        self.open.queues.retain(|(number, _)| stays(*number));
        self.open.remembered = None;
        self.open.recorder.retain(stays);
        self.set = Some(set);
        self.epoch = epoch;
    }
}

impl Open {
    /// The queue on this engine.
    #[inline]
    pub(crate) fn on(&mut self, slot: &EngineSlot, policy: &TrustPolicy) -> Result<&mut dyn EngineQueue> {
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
    pub(crate) fn close(&mut self, slot: &EngineSlot) {
        if let Some(place) = self.queues.iter().position(|(number, _)| *number == slot.number) {
            let (_, queue) = self.queues.swap_remove(place);
            // After a panic its own clean-up may panic too.
            caught(|| drop(queue));
        }
    }
}
