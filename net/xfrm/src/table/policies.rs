//! The policies of a table.

use std::collections::BTreeMap;

use rustix::io::Errno;

use crate::association::Counters;
use crate::policy::{Direction, Policy, PolicyKey, PolicyState};
use crate::refusal::Refusal;

/// Most policies.
const POLICIES_MAX: usize = 1 << 18;
const NO_POLICY: Refusal = Refusal::new(Errno::NOENT, "no such policy");

/// Policies by their positions.
#[derive(Default)]
pub(super) struct Policies {
    states: BTreeMap<u64, PolicyState>,
    last_position: u64,
    last_index: u32,
}

impl Policies {
    fn find(&self, key: &PolicyKey) -> Option<u64> {
        self.states.iter().find(|(_, state)| key.names(&state.policy)).map(|(&position, _)| position)
    }

    pub(super) fn add(&mut self, policy: Policy, now: u64) -> Result<PolicyState, Refusal> {
        if self.find(&policy.key()).is_some() {
            return Err(Refusal::new(Errno::EXIST, "a policy with this selector is there"));
        }
        self.insert(policy, now)
    }

    pub(super) fn update(&mut self, mut policy: Policy, now: u64) -> Result<PolicyState, Refusal> {
        if let Some(old) = self.find(&policy.key()).and_then(|position| self.states.remove(&position)) {
            policy.index = old.policy.index;
        }
        self.insert(policy, now)
    }

    fn insert(&mut self, mut policy: Policy, now: u64) -> Result<PolicyState, Refusal> {
        if self.states.len() >= POLICIES_MAX {
            return Err(Refusal::new(Errno::NOBUFS, "as many policies as there may be"));
        }
        let taken = |index: u32| self.states.values().any(|state| state.policy.index == index);
        while policy.index == 0 || taken(policy.index) {
            self.last_index = self.last_index.wrapping_add(1);
            policy.index = self.last_index << 3 | policy.direction as u32;
        }
        self.last_position += 1;
        let state = PolicyState { policy, counters: Counters { added: now, ..Counters::default() } };
        self.states.insert(self.last_position, state.clone());
        Ok(state)
    }

    pub(super) fn delete(&mut self, key: &PolicyKey) -> Result<PolicyState, Refusal> {
        self.find(key).and_then(|position| self.states.remove(&position)).ok_or(NO_POLICY)
    }

    pub(super) fn query(&self, key: &PolicyKey) -> Result<PolicyState, Refusal> {
        self.find(key).and_then(|position| self.states.get(&position)).cloned().ok_or(NO_POLICY)
    }

    pub(super) fn flush(&mut self, kind: u8) {
        self.states.retain(|_, state| state.policy.kind != kind);
    }

    pub(super) fn list(&self, position: u64, most: usize) -> Vec<(u64, PolicyState)> {
        let behind = self.states.range(position.saturating_add(1)..);
        behind.take(most).map(|(&position, state)| (position, state.clone())).collect()
    }

    pub(super) fn counts(&self) -> [u32; 3] {
        [Direction::In, Direction::Out, Direction::Forward].map(|direction| {
            let there = self.states.values().filter(|state| state.policy.direction == direction).count();
            u32::try_from(there).unwrap_or(u32::MAX)
        })
    }
}
