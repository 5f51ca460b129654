//! What every part of a mill may see: engines, keys, costs, policy and counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use ciphermill_contract::error::Refusal;
use ciphermill_contract::limits::ENGINES_MAX;
use ciphermill_contract::{Engine, Error, Result};
use ciphermill_keys::KeyTable;

use crate::costs::Costs;
use crate::disabled::Disabled;
use crate::engines::{EngineSet, EngineSlot, Epoch};
use crate::metrics::Books;
use crate::policy::Policy;

/// Engines, keys, costs, policy and counts of one mill.
pub(crate) struct State {
    engines: RwLock<Arc<EngineSet>>,
    /// Advances with the changes of `engines` and of what they may run.
    epoch: Epoch,
    /// Engines that ever joined.
    joined: AtomicU64,
    pub(crate) keys: KeyTable,
    pub(crate) policy: Policy,
    pub(crate) metrics: Books,
    pub(crate) costs: Costs,
}

impl State {
    /// A mill without engines.
    pub(crate) fn new(keys: KeyTable, policy: Policy, costs: Costs, disabled: Disabled) -> State {
        State {
            engines: RwLock::new(Arc::new(EngineSet::new(Vec::new(), policy.engines, &costs, Arc::new(disabled)))),
            epoch: Epoch::default(),
            joined: AtomicU64::new(0),
            keys,
            policy,
            metrics: Books::default(),
            costs,
        }
    }

    /// The engines as they are now.
    pub(crate) fn engines(&self) -> Arc<EngineSet> {
        // Sets are replaced whole, so that a poisoned lock is safe to use.
        Arc::clone(&self.engines.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A number that changes with the engines and with what they may run.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.now()
    }

    /// Lets engines join and one leave.
    ///
    /// # Errors
    /// `Exhausted` beyond [`ENGINES_MAX`] engines; `Refused` for a name that is taken, or that no engine has.
    pub(crate) fn change_engines(&self, joining: Vec<Arc<dyn Engine>>, leaving: Option<&str>) -> Result<()> {
        let mut engines = self.engines.write().unwrap_or_else(PoisonError::into_inner);
        let mut slots: Vec<Arc<EngineSlot>> = engines.slots.clone();
        if let Some(name) = leaving {
            slots.remove(engines.named(name)?);
            tracing::info!(engine = name, "engine leaves");
        }
        if slots.len() + joining.len() > ENGINES_MAX {
            return Err(Error::exhausted("ENGINES_MAX", ENGINES_MAX, slots.len() + joining.len()));
        }
        for engine in joining {
            let name = engine.info().name;
            if slots.iter().any(|slot| slot.name() == name) {
                return Err(Error::Refused(Refusal::EngineUnavailable(format!("{name}, given twice"))));
            }
            let number = self.joined.fetch_add(1, Ordering::Relaxed);
            let number = u16::try_from(number)
                .map_err(|_| Error::exhausted("engines that ever joined", u16::MAX.into(), number as usize))?;
            slots.push(EngineSlot::new(number, engine, self.epoch.clone()));
        }
        let disabled = Arc::clone(&engines.disabled);
        *engines = Arc::new(EngineSet::new(slots, self.policy.engines, &self.costs, disabled));
        self.epoch.advance();
        Ok(())
    }

    /// Replaces the rules that disable engines and suites.
    pub(crate) fn set_disabled(&self, disabled: Disabled) {
        let mut engines = self.engines.write().unwrap_or_else(PoisonError::into_inner);
        tracing::info!(rules = ?disabled.rules().iter().map(ToString::to_string).collect::<Vec<_>>(), "disabled");
        let slots = engines.slots.clone();
        *engines = Arc::new(EngineSet::new(slots, self.policy.engines, &self.costs, Arc::new(disabled)));
        self.epoch.advance();
    }
}
