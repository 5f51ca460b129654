//! Accounts: what all connections of a user may have together, and their share of the workers' time beside others.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ciphermill_router::Bucket;

use crate::peer::Peer;

/// What holds for a user. Nothing is refused by it: what is beyond waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The share of the workers' time that each of the user's connections has beside others, which have 1; above zero.
    pub weight: f64,
    /// Operations a second of all connections together; above zero.
    pub ops_per_second: Option<f64>,
    /// The same, of operations with public keys.
    pub public_key_ops_per_second: Option<f64>,
    /// Bytes of requests that workers have or are next for, of all connections together. One request may always be.
    pub bytes_in_flight: Option<u64>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { weight: 1.0, ops_per_second: None, public_key_ops_per_second: None, bytes_in_flight: None }
    }
}

impl Rules {
    fn is_limit(&self) -> bool {
        self.ops_per_second.is_some() || self.public_key_ops_per_second.is_some() || self.bytes_in_flight.is_some()
    }
}

/// Rules by users and groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserRules {
    /// By the user's number.
    pub users: HashMap<u32, Rules>,
    /// By a group's number: for processes whose own group it is, and whose user has no rules.
    pub groups: HashMap<u32, Rules>,
}

impl UserRules {
    pub(crate) fn of(&self, peer: &Peer) -> Rules {
        self.users.get(&peer.uid).or_else(|| self.groups.get(&peer.gid)).copied().unwrap_or_default()
    }
}

/// A user, as long as one of its connections is there or anything is owed. Asked under the desk's lock.
pub(crate) struct Account {
    state: Mutex<State>,
    /// Whether anything is limited: asked for each request, of accounts of which most have no limit.
    is_limited: AtomicBool,
    /// As the bits of a number.
    weight: AtomicU64,
    /// How often the rules have changed.
    era: AtomicU32,
    /// Bytes of requests that workers have or are next for.
    bytes: AtomicU64,
}

#[derive(Default)]
struct State {
    rules: Rules,
    ops: Bucket,
    public_key_ops: Bucket,
    /// Requests that wait for bytes, by their numbers, in the order in which they came.
    line: VecDeque<u64>,
    next: u64,
}

impl Account {
    pub(crate) fn new(rules: Rules) -> Account {
        let account = Account {
            state: Mutex::default(),
            is_limited: AtomicBool::new(false),
            weight: AtomicU64::new(0),
            era: AtomicU32::new(0),
            bytes: AtomicU64::new(0),
        };
        account.put_in_force(rules);
        account
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has other rules hold from now on. What is held back is to be asked about again.
    pub(crate) fn set_rules(&self, rules: Rules) {
        if self.state().rules != rules {
            self.put_in_force(rules);
        }
    }

    fn put_in_force(&self, rules: Rules) {
        let mut state = self.state();
        (state.rules, state.ops, state.public_key_ops) = (rules, Bucket::default(), Bucket::default());
        self.is_limited.store(rules.is_limit(), Ordering::Relaxed);
        self.weight.store(rules.weight.to_bits(), Ordering::Relaxed);
        // Before whoever changes them looks whether a worker sleeps: one that is about to sees this, or is seen.
        self.era.fetch_add(1, Ordering::SeqCst);
    }

    /// The share of each connection.
    #[inline]
    pub(crate) fn weight(&self) -> f64 {
        f64::from_bits(self.weight.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited.load(Ordering::Relaxed)
    }

    /// Changes with the rules.
    pub(crate) fn era(&self) -> u32 {
        self.era.load(Ordering::SeqCst)
    }

    /// Takes operations off the user's rates, and says when they are due.
    pub(crate) fn due_ns(&self, ops: u32, is_public_key: bool, now_ns: u64) -> u64 {
        let mut state = self.state();
        let Rules { ops_per_second, public_key_ops_per_second, .. } = state.rules;
        let all = ops_per_second.map(|rate| state.ops.take(ops.into(), rate, now_ns));
        let public_key_rate = public_key_ops_per_second.filter(|_| is_public_key);
        let public_key = public_key_rate.map(|rate| state.public_key_ops.take(ops.into(), rate, now_ns));
        all.max(public_key).unwrap_or(now_ns)
    }

    /// Whether nothing is owed to its rates, so that a new account would be the same.
    pub(crate) fn is_settled(&self, now_ns: u64) -> bool {
        let state = self.state();
        state.ops.is_full(now_ns) && state.public_key_ops.is_full(now_ns)
    }

    /// Whether so many bytes may be in flight besides what is. Who has to wait gets a number, and its turn in the order of these.
    pub(crate) fn has_room(&self, number: &mut Option<u64>, bytes: u32) -> bool {
        let mut state = self.state();
        if self.has_room_in(&state, *number, bytes) {
            state.line.retain(|other| Some(*other) != *number);
            return true;
        }
        if number.is_none() {
            state.next += 1;
            *number = Some(state.next);
            let own = state.next;
            state.line.push_back(own);
        }
        false
    }

    /// The same for one that waits already, without taking it.
    pub(crate) fn would_have_room(&self, number: Option<u64>, bytes: u32) -> bool {
        self.has_room_in(&self.state(), number, bytes)
    }

    fn has_room_in(&self, state: &State, number: Option<u64>, bytes: u32) -> bool {
        let Some(limit) = state.rules.bytes_in_flight else { return true };
        let in_flight = self.bytes.load(Ordering::SeqCst);
        let is_first = state.line.front().is_none_or(|first| Some(*first) == number);
        is_first && (in_flight == 0 || in_flight.saturating_add(bytes.into()) <= limit)
    }

    /// Whether a request waits for bytes.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.state().line.is_empty()
    }

    /// A request that has waited for bytes does so no more.
    pub(crate) fn gives_up(&self, number: Option<u64>) {
        if number.is_some() {
            self.state().line.retain(|other| Some(*other) != number);
        }
    }

    /// Bytes are in flight, …
    #[inline]
    pub(crate) fn begins(&self, bytes: u32) {
        self.bytes.fetch_add(bytes.into(), Ordering::Relaxed);
    }

    /// … and are no more. Before it is looked whether a worker sleeps that might wait for them: it sees this, or is seen.
    #[inline]
    pub(crate) fn ends(&self, bytes: u32) {
        self.bytes.fetch_sub(bytes.into(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_own_rules_go_before_those_of_the_group() {
        let of = |weight| Rules { weight, ..Rules::default() };
        let rules =
            UserRules { users: HashMap::from([(1, of(2.0))]), groups: HashMap::from([(5, of(3.0)), (6, of(4.0))]) };
        let weight = |uid, gid| rules.of(&Peer { pid: 1, uid, gid }).weight;
        assert_eq!([weight(1, 5), weight(2, 5), weight(2, 6), weight(2, 7)], [2.0, 3.0, 4.0, 1.0]);
    }

    #[test]
    fn public_keys_go_by_both_rates() {
        let rules = Rules { ops_per_second: Some(1000.0), public_key_ops_per_second: Some(10.0), ..Rules::default() };
        let account = Account::new(rules);
        assert_eq!(account.due_ns(1, true, 0), 0);
        assert_eq!(account.due_ns(1, true, 0), 100_000_000);
        assert_eq!(account.due_ns(98, false, 0), 0);
        assert_eq!(account.due_ns(1, false, 0), 1_000_000, "the signatures counted here, too");
    }

    #[test]
    fn bytes_are_had_in_the_order_of_asking() {
        let account = Account::new(Rules { bytes_in_flight: Some(100), ..Rules::default() });
        let (mut large, mut small) = (None, None);
        assert!(account.has_room(&mut None, 60));
        account.begins(60);
        assert!(!account.has_room(&mut large, 80), "it does not fit");
        assert!(!account.has_room(&mut small, 10), "it would, but comes behind");
        account.ends(60);
        assert!(!account.has_room(&mut small, 10));
        assert!(account.has_room(&mut large, 80));
        account.begins(80);
        assert!(account.has_room(&mut small, 10));
        account.begins(10);
        // More than there may ever be goes when nothing else does.
        let mut huge = None;
        assert!(!account.has_room(&mut huge, 1000));
        account.ends(80);
        account.ends(10);
        assert!(account.has_room(&mut huge, 1000));
        // Who has gone is not waited for.
        account.begins(1000);
        let (mut gone, mut waits) = (None, None);
        assert!(!account.has_room(&mut gone, 10) && !account.has_room(&mut waits, 10));
        account.ends(1000);
        account.gives_up(gone);
        assert!(account.has_room(&mut waits, 10));
    }
}
