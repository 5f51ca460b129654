//! The engine and its queues.

use core::fmt;
use std::sync::{Arc, Mutex};

use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{
    ArenaBuffer, Capability, CheckedBatch, Cost, Direction, Engine, EngineInfo, EngineKind, EngineQueue, Error,
    KeyMaterial, Occupancy, PreparedKey, QueueHint, Result, Stream, Suite, capability,
};

use crate::control::{Control, FaultHandle, Owner, Turn};
use crate::inject;
use crate::parts::{self, Parts};
use crate::script::{Fault, Script};

/// An engine that does what another one does, except where its script says otherwise.
///
/// Its queues run batches on the caller's thread, whatever those of the inner engine can do.
pub struct FaultEngine {
    info: EngineInfo,
    capabilities: Vec<Capability>,
    inner: Arc<dyn Engine>,
    owner: Arc<Owner>,
}

impl FaultEngine {
    /// An engine of kind [`EngineKind::Fault`] around `inner`, whose version, parallelism, kernels and capabilities it
    /// claims.
    pub fn new(name: &'static str, inner: Arc<dyn Engine>, script: Script) -> FaultEngine {
        FaultEngine {
            info: EngineInfo { name, kind: EngineKind::Fault, ..inner.info().clone() },
            capabilities: inner.capabilities().to_vec(),
            inner,
            owner: Arc::new(Owner::new(script)),
        }
    }

    /// The same, posing as another kind, for key policies that name it.
    #[must_use]
    pub fn with_kind(mut self, kind: EngineKind) -> FaultEngine {
        self.info.kind = kind;
        self
    }

    /// The same, claiming this cost for every suite, so that a router prefers or avoids it.
    #[must_use]
    pub fn with_prior(mut self, prior: Cost) -> FaultEngine {
        for capability in &mut self.capabilities {
            capability.prior = prior;
        }
        self
    }

    /// The same, where this happens to the calls that are not batches: keys prepared and queues opened, counted
    /// together. A panic unwinds, delays and stalls block, death kills the engine, and every other fault fails the call
    /// with [`Error::EngineFault`].
    #[must_use]
    pub fn with_call_script(self, script: Script) -> FaultEngine {
        self.handle().set_call_script(script);
        self
    }

    /// What steers the engine from outside, also when it has been given away.
    pub fn handle(&self) -> FaultHandle {
        FaultHandle::new(Arc::clone(&self.owner))
    }

    /// Meets what the script has for a call that is not a batch.
    fn call(&self) -> Result<()> {
        let control = self.owner.control();
        let Some(turn) = control.begin_call() else {
            return Err(Error::fault(self.info.name, FaultKind::Unavailable));
        };
        if turn.fault != Fault::None {
            control.count_injected();
        }
        let goes_on = match turn.fault {
            Fault::None => true,
            Fault::Delay(delay) => control.delay(&turn, delay),
            Fault::Stall => control.stall(&turn),
            Fault::Panic => std::panic::resume_unwind(Box::new("a panic by script")),
            _ => false,
        };
        if goes_on { Ok(()) } else { Err(Error::fault(self.info.name, FaultKind::Call(0))) }
    }
}

impl fmt::Debug for FaultEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultEngine")
            .field("info", &self.info)
            .field("inner", &self.inner.info().name)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

impl Engine for FaultEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        self.call()?;
        self.inner.prepare(key, suite)
    }

    fn public_half<'k>(&self, key: &'k PreparedKey, suite: Suite) -> Option<&'k [u8]> {
        self.inner.public_half(key, suite)
    }

    fn takes_key_bytes(&self) -> bool {
        self.inner.takes_key_bytes()
    }

    fn arena(&self, len: usize) -> Option<Box<dyn ArenaBuffer>> {
        self.inner.arena(len)
    }

    fn stream(&self, suite: Suite, direction: Direction) -> Option<Box<dyn Stream>> {
        capability::find(&self.capabilities, suite, direction).filter(|_| parts::has_parts(suite))?;
        let inner = self.inner.queue(QueueHint::default()).ok()?;
        let queue: Box<dyn EngineQueue> = Box::new(FaultQueue { inner, control: Arc::clone(self.owner.control()) });
        let (iv, aad, input) = Default::default();
        Some(Box::new(Parts { suite, direction, queue: Arc::new(Mutex::new(queue)), iv, aad, input }))
    }

    fn queue(&self, hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        self.call()?;
        let inner = self.inner.queue(hint)?;
        Ok(Box::new(FaultQueue { inner, control: Arc::clone(self.owner.control()) }))
    }
}

struct FaultQueue {
    inner: Box<dyn EngineQueue>,
    control: Arc<Control>,
}

impl EngineQueue for FaultQueue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        match self.control.begin() {
            Some(turn) => self.take(&turn, batch),
            None => {
                inject::fail_all(batch);
            }
        }
    }

    fn occupancy(&self) -> Option<Occupancy> {
        self.inner.occupancy()
    }
}

impl FaultQueue {
    fn take(&mut self, turn: &Turn, batch: &mut CheckedBatch<'_>) {
        let injected = match turn.fault {
            Fault::None => {
                self.inner.run(batch);
                false
            }
            Fault::Delay(delay) => {
                self.control.count_injected();
                let alive = self.control.delay(turn, delay);
                return self.run_or_fail(alive, batch);
            }
            Fault::Stall => {
                self.control.count_injected();
                let goes_on = self.control.stall(turn);
                return self.run_or_fail(goes_on, batch);
            }
            Fault::Errors => inject::fail_all(batch),
            Fault::Death => {
                inject::fail_all(batch);
                true
            }
            Fault::ErrorAt(op) => {
                let found = inject::fail_one(batch, op);
                self.inner.run(batch);
                found
            }
            Fault::WrongBit { op, bit } => {
                let pending = inject::pending(batch);
                self.inner.run(batch);
                inject::turn_over(batch, &pending, op, bit)
            }
            Fault::Unfinished => inject::stop_in_the_middle(batch, self.inner.as_mut()),
            Fault::Panic => {
                inject::stop_in_the_middle(batch, self.inner.as_mut());
                self.control.count_injected();
                std::panic::resume_unwind(Box::new("a panic by script"))
            }
        };
        if injected {
            self.control.count_injected();
        }
    }

    fn run_or_fail(&mut self, run: bool, batch: &mut CheckedBatch<'_>) {
        if run {
            self.inner.run(batch);
        } else {
            inject::fail_all(batch);
        }
    }
}
