//! One key: its bytes, what it may be used for, and what engines made of it.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

use ciphermill_contract::limits::{ENGINES_MAX, SUITE_ORDINALS_MAX};
use ciphermill_contract::{
    Direction, Directions, EngineKinds, Error, KeyForm, KeyMaterial, PreparedKey, Reason, Result, Suite,
};
use ciphermill_memory::SecretBytes;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::policy::{KeyPolicy, KeyUsage};

/// Prepared forms that one key may have: every engine for each of a few suites.
pub const PREPARED_MAX: usize = 64;

const _: () = assert!(PREPARED_MAX >= ENGINES_MAX);

/// What a key check value is computed over, under the key itself.
const CHECK_LABEL: &[u8] = b"ciphermill key check v1";

/// A short value that tells whether two places hold the same key: the first eight bytes of HMAC-SHA-256 under the key's
/// bytes over the text `ciphermill key check v1`.
///
/// It is no secret for keys of full strength. For a single DES key it is something to search against; show it to those
/// who may use the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyCheckValue(pub [u8; 8]);

impl KeyCheckValue {
    /// The check value of a key's bytes.
    pub fn of(key: &[u8]) -> KeyCheckValue {
        let mac = match Hmac::<Sha256>::new_from_slice(key) {
            Ok(mac) => mac.chain_update(CHECK_LABEL).finalize().into_bytes(),
            Err(_) => unreachable!("HMAC takes keys of every length (RFC 2104, section 2)"),
        };
        let mut value = [0; 8];
        value.copy_from_slice(&mac[..8]);
        KeyCheckValue(value)
    }
}

impl fmt::Display for KeyCheckValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyCheckValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The name of a prepared form: which engine made it and for which suite. Made once a batch, compared once an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreparedName(u64);

impl PreparedName {
    /// The form that the engine with number `engine` in its mill makes for `suite`.
    #[inline]
    pub const fn new(engine: u16, suite: Suite) -> PreparedName {
        let radix = match suite {
            Suite::Fpe(ff1) => ff1.radix,
            _ => 0,
        };
        PreparedName((engine as u64) << 48 | (suite.ordinal() as u64) << 32 | radix as u64)
    }
}

/// What an operation asks of its key's policy. Made once a batch.
#[derive(Clone, Copy, Debug)]
pub struct KeyAsk {
    suite: Suite,
    /// As [`Terms`] have it.
    name: u16,
    direction: Direction,
    usage: KeyUsage,
    now_unix_s: u64,
}

impl KeyAsk {
    /// To be used with `suite` in `direction` now.
    ///
    /// `now_unix_s` counts only for keys that expire; where [`crate::KeyTable::any_expiry`] is false zero will do.
    pub const fn new(suite: Suite, direction: Direction, usage: KeyUsage, now_unix_s: u64) -> KeyAsk {
        KeyAsk { suite, name: only_name(suite.ordinal()), direction, usage, now_unix_s }
    }
}

/// A suite's ordinal as a number that is not zero.
const fn only_name(ordinal: usize) -> u16 {
    const { assert!(SUITE_ORDINALS_MAX < u16::MAX as usize) };
    ordinal as u16 + 1
}

/// A key of a [`crate::KeyTable`], found under a lease.
///
/// One cache line holds all that an operation needs: the flags, the suite of a key that has one, and the first prepared form.
#[repr(align(64))]
pub struct KeyEntry {
    terms: Terms,
    cold: Box<Cold>,
    first: OnceLock<Form>,
}

const _: () = assert!(size_of::<KeyEntry>() == 64);

/// What a key's policy says, as far as it fits a word: one that is compared with another key's in one go. Its bits are this version's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms(u64);

impl Terms {
    /// Whether [`KeyEntry::check`] has anything to compare but the suite and the direction.
    const RESTRICTED: u64 = 1 << 16;
    /// Whether operations with the key are counted.
    const BUDGET: u64 = 1 << 17;
    /// As [`KeyEntry::is_free`] says.
    const FREE: u64 = 1 << 18;
    /// As [`Terms::are_all`] says.
    const ALL: u64 = 1 << 19;
    /// Where the kinds of engines lie.
    const ENGINES: u32 = 24;
    /// Where the directions lie.
    const DIRECTIONS: u32 = 32;

    fn of(policy: &KeyPolicy) -> Terms {
        let is_restricted = !policy.suites.is_any()
            || policy.directions != Directions::BOTH
            || policy.expires_unix_s.is_some()
            || policy.engines.is_empty();
        let only = match policy.suites.only_ordinal() {
            Some(ordinal) if policy.expires_unix_s.is_none() && !policy.engines.is_empty() => only_name(ordinal),
            _ => 0,
        };
        let is_free = !is_restricted && policy.operations_max.is_none() && policy.engines == EngineKinds::ALL;
        let flags = [
            (is_restricted, Terms::RESTRICTED),
            (policy.operations_max.is_some(), Terms::BUDGET),
            (is_free, Terms::FREE),
            (!is_restricted || only != 0, Terms::ALL),
        ];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag);
        let engines = u64::from(policy.engines.bits()) << Terms::ENGINES;
        Terms(u64::from(only) | flags | engines | u64::from(policy.directions.bits()) << Terms::DIRECTIONS)
    }

    /// Whether these are all that the policy says, the number of operations left of a budget apart: then keys of the same terms are allowed the
    /// same.
    #[inline]
    pub fn are_all(self) -> bool {
        self.has(Terms::ALL)
    }

    #[inline]
    fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    /// The only suite that the key may be used with, where that and the direction are all that its policy says of an operation; or zero.
    #[inline]
    fn only(self) -> u16 {
        self.0 as u16
    }

    #[inline]
    fn engines(self) -> EngineKinds {
        EngineKinds::from_bits((self.0 >> Terms::ENGINES) as u8)
    }

    #[inline]
    fn has_direction(self, direction: Direction) -> bool {
        self.0 >> Terms::DIRECTIONS & 1 << direction as u8 != 0
    }
}

/// What only imports, preparations and restricted keys look at.
struct Cold {
    form: KeyForm,
    bytes: SecretBytes,
    policy: KeyPolicy,
    /// Operations left of the budget.
    operations_left: AtomicU64,
    /// Prepared forms behind the first.
    more: OnceLock<Box<Node>>,
    /// The public half of a key by reference, as the first engine told it that has the key.
    half: OnceLock<Box<[u8]>>,
}

/// A prepared form and its name.
struct Form {
    name: PreparedName,
    prepared: PreparedKey,
}

/// A form of the list. It only ever grows at its end, so a reference into it is good as long as the entry is.
struct Node {
    form: Form,
    next: OnceLock<Box<Node>>,
}

impl KeyEntry {
    pub(crate) fn new(form: KeyForm, bytes: SecretBytes, policy: KeyPolicy) -> KeyEntry {
        KeyEntry {
            terms: Terms::of(&policy),
            cold: Box::new(Cold {
                form,
                bytes,
                operations_left: AtomicU64::new(policy.operations_max.unwrap_or(u64::MAX)),
                policy,
                more: OnceLock::new(),
                half: OnceLock::new(),
            }),
            first: OnceLock::new(),
        }
    }

    /// Whether a key that an engine has under this reference is the one that the first engine had which told its public half: names of
    /// keys are given by hand, and two tokens may have different keys of one name.
    pub fn is_same_key(&self, half: &[u8]) -> bool {
        **self.cold.half.get_or_init(|| half.into()) == *half
    }

    /// Whether the key may be used with `suite` in `direction` now, and by which kinds of engines. The budget is not
    /// looked at, see [`KeyEntry::spend`].
    ///
    /// `now_unix_s` counts only for keys that expire; where [`crate::KeyTable::any_expiry`] is false zero will do.
    ///
    /// # Errors
    ///
    /// The rule of the policy that says no: [`Reason::KeyExpired`], [`Reason::KeySuite`], [`Reason::KeyDirection`] or
    /// [`Reason::KeyEngine`].
    pub fn check(
        &self,
        suite: Suite,
        direction: Direction,
        usage: KeyUsage,
        now_unix_s: u64,
    ) -> Result<EngineKinds, Reason> {
        self.allows(&KeyAsk::new(suite, direction, usage, now_unix_s))
    }

    /// The same of what was put together once for a whole batch.
    ///
    /// # Errors
    ///
    /// As [`KeyEntry::check`].
    #[inline]
    pub fn allows(&self, ask: &KeyAsk) -> Result<EngineKinds, Reason> {
        let is_only =
            self.terms.only() == ask.name && (ask.usage != KeyUsage::Plain || self.terms.has_direction(ask.direction));
        if !self.terms.has(Terms::RESTRICTED) || is_only {
            return Ok(self.terms.engines());
        }
        self.check_restricted(ask)
    }

    /// What the policy says, as far as it fits a word.
    #[inline]
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// Whether no rule of the policy can ever refuse an operation or an engine: any suite, direction and kind of engine,
    /// no budget, no expiry.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.terms.has(Terms::FREE)
    }

    /// The kinds of engines that may hold the key.
    #[inline]
    pub fn engines(&self) -> EngineKinds {
        self.terms.engines()
    }

    /// Whether operations with the key are counted.
    #[inline]
    pub fn has_budget(&self) -> bool {
        self.terms.has(Terms::BUDGET)
    }

    /// Takes up to `count` operations from the budget and returns how many there were to take; all of them when the key
    /// has no budget. What several threads are granted never adds up to more than the budget.
    pub fn spend(&self, count: u64) -> u64 {
        if !self.terms.has(Terms::BUDGET) {
            return count;
        }
        let taken = self
            .cold
            .operations_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(count)));
        // The closure always gives a value, so both sides hold what was there before.
        let (Ok(left) | Err(left)) = taken;
        left.min(count)
    }

    /// Puts back operations that [`KeyEntry::spend`] granted and that were never begun.
    pub fn put_back(&self, count: u64) {
        if let Some(budget) = self.cold.policy.operations_max {
            let _ = self.cold.operations_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                Some(left.saturating_add(count).min(budget))
            });
        }
    }

    /// Operations left of the budget, when there is one.
    pub fn operations_left(&self) -> Option<u64> {
        self.terms.has(Terms::BUDGET).then(|| self.cold.operations_left.load(Ordering::Relaxed))
    }

    /// The policy.
    pub fn policy(&self) -> &KeyPolicy {
        &self.cold.policy
    }

    /// What the key's bytes are.
    pub fn form(&self) -> KeyForm {
        self.cold.form
    }

    /// Length of the key in bytes.
    pub fn key_len(&self) -> usize {
        self.cold.bytes.len()
    }

    /// The key's check value.
    pub fn key_check_value(&self) -> KeyCheckValue {
        KeyCheckValue::of(&self.cold.bytes)
    }

    /// What the engine with number `engine` made of the key for `suite`; `make` makes it the first time. Lock-free from
    /// then on. Threads that ask at the same moment may each make it; the first stays.
    ///
    /// # Errors
    ///
    /// What `make` returns; nothing is kept then. [`Error::Exhausted`] beyond [`PREPARED_MAX`] forms.
    #[inline]
    pub fn prepared(
        &self,
        engine: u16,
        suite: Suite,
        make: impl FnOnce(&KeyMaterial<'_>) -> Result<PreparedKey>,
    ) -> Result<&PreparedKey> {
        self.prepared_as(PreparedName::new(engine, suite), make)
    }

    /// As [`KeyEntry::prepared`], under a name that was made once for a whole batch.
    #[inline]
    pub fn prepared_as(
        &self,
        name: PreparedName,
        make: impl FnOnce(&KeyMaterial<'_>) -> Result<PreparedKey>,
    ) -> Result<&PreparedKey> {
        match self.first.get() {
            Some(node) if node.name == name => Ok(&node.prepared),
            _ => self.prepared_in_list(name, make),
        }
    }

    /// The public half of a key by reference under that name, made once by an engine that has no use for the reference: what others sign is
    /// verified with it. None where no half is known.
    pub fn half_prepared_as(
        &self,
        name: PreparedName,
        make: impl FnOnce(&KeyMaterial<'_>) -> Result<PreparedKey>,
    ) -> Option<Result<&PreparedKey>> {
        let half = self.cold.half.get()?;
        Some(self.prepared_as(name, |_| make(&KeyMaterial::public(half))))
    }

    /// What was made of the key under that name, if it has been made.
    #[inline]
    pub fn prepared_before(&self, name: PreparedName) -> Option<&PreparedKey> {
        match self.first.get() {
            Some(form) if form.name == name => Some(&form.prepared),
            _ => self.find(name).ok(),
        }
    }

    /// Makes the form of that name of all these keys that lack it, in one go: `make_many` gets each such key's bytes
    /// once, in any order of the entries, and returns as many outcomes. Failures are not kept, nor reported: who asks for
    /// one of those keys by [`KeyEntry::prepared_as`] hears why.
    pub fn prepare_all(
        entries: &[&KeyEntry],
        name: PreparedName,
        make_many: impl FnOnce(&[KeyMaterial<'_>]) -> Vec<Result<PreparedKey>>,
    ) {
        let mut lacking: Vec<&KeyEntry> =
            entries.iter().copied().filter(|entry| entry.prepared_before(name).is_none()).collect();
        lacking.sort_unstable_by_key(|entry| core::ptr::from_ref(*entry));
        lacking.dedup_by_key(|entry| core::ptr::from_ref(*entry));
        let materials: Vec<KeyMaterial<'_>> = lacking.iter().map(|entry| entry.material()).collect();
        for (entry, prepared) in lacking.iter().zip(make_many(&materials)) {
            if let Ok(prepared) = prepared {
                // A form too many is not kept either.
                let _ = entry.prepared_as(name, |_| Ok(prepared));
            }
        }
    }

    pub(crate) fn material(&self) -> KeyMaterial<'_> {
        KeyMaterial { form: self.cold.form, bytes: &self.cold.bytes }
    }

    fn check_restricted(&self, ask: &KeyAsk) -> Result<EngineKinds, Reason> {
        let policy = &self.cold.policy;
        if policy.is_expired(ask.now_unix_s) {
            Err(Reason::KeyExpired)
        } else if !policy.suites.contains(ask.suite) {
            Err(Reason::KeySuite)
        } else if ask.usage == KeyUsage::Plain && !self.terms.has_direction(ask.direction) {
            Err(Reason::KeyDirection)
        } else if self.terms.engines().is_empty() {
            Err(Reason::KeyEngine)
        } else {
            Ok(self.terms.engines())
        }
    }

    #[cold]
    #[inline(never)]
    fn prepared_in_list(
        &self,
        name: PreparedName,
        make: impl FnOnce(&KeyMaterial<'_>) -> Result<PreparedKey>,
    ) -> Result<&PreparedKey> {
        let len = match self.find(name) {
            Ok(prepared) => return Ok(prepared),
            Err(len) => len,
        };
        if len >= PREPARED_MAX {
            return Err(Error::exhausted("PREPARED_MAX", PREPARED_MAX, len + 1));
        }
        let form = Form { name, prepared: make(&self.material())? };
        let mut ours = self.first.set(form).err().map(|form| Box::new(Node { form, next: OnceLock::new() }));
        // Others may append meanwhile, perhaps the same form, which is taken then.
        let (mut place, mut len) = (&self.cold.more, 1);
        loop {
            if let Ok(prepared) = self.find(name) {
                return Ok(prepared);
            }
            let Some(node) = ours else { unreachable!("a form that was set is found") };
            if len >= PREPARED_MAX {
                return Err(Error::exhausted("PREPARED_MAX", PREPARED_MAX, len + 1));
            }
            ours = place.set(node).err();
            let Some(there) = place.get() else { unreachable!("a cell that was set, by whomever, stays set") };
            (place, len) = (&there.next, len + 1);
        }
    }

    /// The form of that name, or how many there are.
    fn find(&self, name: PreparedName) -> Result<&PreparedKey, usize> {
        let Some(first) = self.first.get() else { return Err(0) };
        if first.name == name {
            return Ok(&first.prepared);
        }
        let mut len = 1;
        let mut next = self.cold.more.get();
        while let Some(node) = next {
            if node.form.name == name {
                return Ok(&node.form.prepared);
            }
            len += 1;
            next = node.next.get();
        }
        Err(len)
    }
}

impl fmt::Debug for KeyEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyEntry")
            .field("form", &self.form())
            .field("key_len", &self.key_len())
            .field("policy", self.policy())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use ciphermill_contract::EngineKind;

    use super::*;
    use crate::policy::SuiteSet;

    fn entry(policy: KeyPolicy) -> KeyEntry {
        KeyEntry::new(KeyForm::Secret, SecretBytes::from_slice(&[7; 16]).unwrap(), policy)
    }

    fn suite(name: &str) -> Suite {
        name.parse().unwrap()
    }

    #[test]
    fn every_rule_of_a_policy_is_checked() {
        let (gcm, cbc) = (suite("aes-128-gcm"), suite("aes-128-cbc"));
        let free = entry(KeyPolicy::default());
        assert_eq!(free.check(gcm, Direction::Encrypt, KeyUsage::Plain, u64::MAX), Ok(EngineKinds::ALL));

        let narrow = entry(
            KeyPolicy::only(gcm)
                .directions(Directions::DECRYPT)
                .engines(EngineKinds::only(EngineKind::Token))
                .expires_unix_s(50),
        );
        assert_eq!(
            narrow.check(gcm, Direction::Decrypt, KeyUsage::Plain, 49),
            Ok(EngineKinds::only(EngineKind::Token))
        );
        assert_eq!(narrow.check(gcm, Direction::Decrypt, KeyUsage::Plain, 50), Err(Reason::KeyExpired));
        assert_eq!(narrow.check(cbc, Direction::Decrypt, KeyUsage::Plain, 0), Err(Reason::KeySuite));
        assert_eq!(narrow.check(gcm, Direction::Encrypt, KeyUsage::Plain, 0), Err(Reason::KeyDirection));

        let token = entry(KeyPolicy::default().engines(EngineKinds::only(EngineKind::Token)));
        assert_eq!(token.check(cbc, Direction::Encrypt, KeyUsage::Plain, 0), Ok(EngineKinds::only(EngineKind::Token)));
        let nowhere = entry(KeyPolicy::default().engines(EngineKinds::NONE));
        assert_eq!(nowhere.check(cbc, Direction::Encrypt, KeyUsage::Plain, 0), Err(Reason::KeyEngine));
        let nothing = entry(KeyPolicy::default().suites(SuiteSet::none()));
        assert_eq!(nothing.check(cbc, Direction::Encrypt, KeyUsage::Plain, 0), Err(Reason::KeySuite));
    }

    #[test]
    fn a_key_for_one_suite_is_checked_as_its_policy_says() {
        let suites: Vec<Suite> = Suite::all().collect();
        for own in suites.iter().step_by(17) {
            for directions in [Directions::BOTH, Directions::ENCRYPT, Directions::DECRYPT, Directions::NONE] {
                let entry = entry(KeyPolicy::only(*own).directions(directions));
                for suite in &suites {
                    for direction in [Direction::Encrypt, Direction::Decrypt] {
                        let expected = match suite == own {
                            false => Err(Reason::KeySuite),
                            true if !directions.contains(direction) => Err(Reason::KeyDirection),
                            true => Ok(EngineKinds::ALL),
                        };
                        let ask = |usage| entry.allows(&KeyAsk::new(*suite, direction, usage, 0));
                        assert_eq!(ask(KeyUsage::Plain), expected, "{own} asked for {suite}, {direction}");
                        let inside = if suite == own { Ok(EngineKinds::ALL) } else { Err(Reason::KeySuite) };
                        assert_eq!(ask(KeyUsage::Transform), inside, "{own} asked for {suite} within a transform");
                    }
                }
            }
        }
        let radix = |radix| {
            Suite::Fpe(ciphermill_contract::suite::Ff1 { size: ciphermill_contract::suite::AesSize::Aes128, radix })
        };
        let entry = entry(KeyPolicy::only(radix(10)));
        assert!(entry.check(radix(36), Direction::Encrypt, KeyUsage::Plain, 0).is_ok(), "a radix does not count");
    }

    #[test]
    fn budgets_are_exact_under_contention() {
        let entry = entry(KeyPolicy::default().operations_max(10_007));
        let granted: u64 = thread::scope(|scope| {
            let spenders: Vec<_> = (1..=4u64)
                .map(|step| {
                    let entry = &entry;
                    scope.spawn(move || (0..4000).map(|_| entry.spend(step)).sum::<u64>())
                })
                .collect();
            spenders.into_iter().map(|spender| spender.join().unwrap()).sum()
        });
        assert_eq!(granted, 10_007);
        assert_eq!(entry.spend(1), 0);
        entry.put_back(3);
        assert_eq!(entry.spend(5), 3);
        entry.put_back(u64::MAX);
        assert_eq!(entry.operations_left(), Some(10_007), "never more than the budget");
    }

    #[test]
    fn keys_without_a_budget_grant_everything() {
        let entry = entry(KeyPolicy::default());
        assert!(!entry.has_budget());
        assert_eq!(entry.spend(u64::MAX), u64::MAX);
        assert_eq!(entry.spend(9), 9);
        assert_eq!(entry.operations_left(), None);
    }

    #[test]
    fn a_form_is_made_once_for_each_engine_and_suite() {
        let entry = entry(KeyPolicy::default());
        let made = AtomicUsize::new(0);
        let ask = |engine: u16, name: &str| {
            let value = (engine, name.to_owned());
            let prepared = entry.prepared(engine, suite(name), |key| {
                assert_eq!(key.bytes, [7; 16]);
                made.fetch_add(1, Ordering::Relaxed);
                Ok(PreparedKey::new(value.clone()))
            });
            assert_eq!(prepared.unwrap().state::<(u16, String)>(), Some(&value));
        };
        for _ in 0..3 {
            for engine in 0..3 {
                for name in ["aes-128-gcm", "aes-128-cbc", "ff1-aes-128", "ff1-aes-128-radix-26"] {
                    ask(engine, name);
                }
            }
        }
        assert_eq!(made.load(Ordering::Relaxed), 12);
    }

    #[test]
    fn keys_that_lack_a_form_are_made_in_one_go_and_once() {
        let keys: Vec<KeyEntry> = (0..5).map(|_| entry(KeyPolicy::default())).collect();
        let name = PreparedName::new(2, suite("blowfish-cbc"));
        assert!(keys[1].prepared_as(name, |_| Ok(PreparedKey::new(100u32))).is_ok());
        let asked: Vec<&KeyEntry> = [0, 3, 1, 3, 4, 0].map(|index| &keys[index]).to_vec();
        let mut made = 0;
        KeyEntry::prepare_all(&asked, name, |materials| {
            assert!(materials.iter().all(|material| material.bytes == [7; 16]));
            made = materials.len() as u32;
            let failure = Error::Refused(ciphermill_contract::Refusal::KeyUnknown);
            (0..made).map(|n| if n == 1 { Err(failure.clone()) } else { Ok(PreparedKey::new(n)) }).collect()
        });
        assert_eq!(made, 3, "each key without the form once");
        let value = |key: &KeyEntry| key.prepared_before(name).map(|form| *form.state::<u32>().expect("a number"));
        assert_eq!((value(&keys[1]), value(&keys[2])), (Some(100), None));
        let mut values: Vec<_> = [0, 3, 4].map(|index| value(&keys[index])).to_vec();
        values.sort_unstable();
        assert_eq!(values, [None, Some(0), Some(2)], "the one that failed is not kept");
    }

    #[test]
    fn a_failure_is_not_kept() {
        let entry = entry(KeyPolicy::default());
        let gcm = suite("aes-128-gcm");
        let failure = Error::Refused(ciphermill_contract::Refusal::KeyUnknown);
        assert_eq!(entry.prepared(0, gcm, |_| Err(failure.clone())).unwrap_err(), failure);
        assert!(entry.prepared(0, gcm, |_| Ok(PreparedKey::new(1u8))).is_ok());
    }

    #[test]
    fn forms_are_limited() {
        let entry = entry(KeyPolicy::default());
        let suites: Vec<Suite> = Suite::all().take(PREPARED_MAX + 1).collect();
        for suite in &suites[..PREPARED_MAX] {
            assert!(entry.prepared(1, *suite, |_| Ok(PreparedKey::new(()))).is_ok());
        }
        let refused = entry.prepared(1, suites[PREPARED_MAX], |_| Ok(PreparedKey::new(()))).unwrap_err();
        assert_eq!(refused, Error::exhausted("PREPARED_MAX", PREPARED_MAX, PREPARED_MAX + 1));
        assert!(entry.prepared(1, suites[3], |_| panic!("it is there")).is_ok());
    }

    #[test]
    fn threads_agree_on_one_form() {
        let suites: Vec<Suite> = Suite::all().take(20).collect();
        let entry = entry(KeyPolicy::default());
        let places: Vec<Vec<usize>> = thread::scope(|scope| {
            let askers: Vec<_> = (0..4usize)
                .map(|thread| {
                    let (entry, suites) = (&entry, &suites);
                    scope.spawn(move || {
                        let ask = |suite: &Suite| {
                            let made = entry.prepared(0, *suite, |_| Ok(PreparedKey::new(*suite))).unwrap();
                            assert_eq!(made.state::<Suite>(), Some(suite));
                            core::ptr::from_ref(made) as usize
                        };
                        let mut order: Vec<usize> = (0..suites.len()).collect();
                        order.rotate_left(thread * 5);
                        let mut places = vec![0; suites.len()];
                        for index in order {
                            places[index] = ask(&suites[index]);
                        }
                        places
                    })
                })
                .collect();
            askers.into_iter().map(|asker| asker.join().unwrap()).collect()
        });
        assert!(places.iter().all(|place| *place == places[0]));
        assert_eq!(entry.find(PreparedName(u64::MAX)).map(|_| ()), Err(20));
    }

    #[test]
    fn check_values_follow_their_definition() {
        // HMAC-SHA-256 of the label under sixteen bytes of 07, computed with another implementation.
        let value = entry(KeyPolicy::default()).key_check_value();
        assert_eq!(value, KeyCheckValue::of(&[7; 16]));
        assert_eq!(value.to_string(), "a2ed46f584ae980a");
        assert_ne!(value, KeyCheckValue::of(&[8; 16]));
    }

    #[test]
    fn debug_output_is_redacted() {
        let secret = SecretBytes::from_slice(b"sixteen secret b").unwrap();
        let entry = KeyEntry::new(KeyForm::Secret, secret, KeyPolicy::default());
        let text = format!("{entry:?}");
        assert!(text.contains("key_len: 16") && !text.contains("sixteen") && !text.contains("115"), "{text}");
    }
}
