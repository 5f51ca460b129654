//! The key table as the mill and its callers use it.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::limits::KEY_LEN_MAX;
use ciphermill_contract::{
    Direction, Directions, EngineKinds, Error, KeyForm, KeyId, KeyMaterial, PreparedKey, Reason, Refusal, Suite,
};
use ciphermill_keys::{KeyCheckValue, KeyEntry, KeyPolicy, KeyTable, KeyUsage, PreparedName, WrapMethod};
use proptest::prelude::*;

fn suite(name: &str) -> Suite {
    name.parse().unwrap()
}

fn import(table: &KeyTable, bytes: &[u8]) -> KeyId {
    table.import(KeyMaterial::secret(bytes), KeyPolicy::default()).unwrap()
}

fn refused(reason: Reason) -> Error {
    Error::Refused(Refusal::KeyPolicy(reason))
}

fn unknown() -> Error {
    Error::Refused(Refusal::KeyUnknown)
}

/// The bytes of a key, as an engine gets them.
fn bytes_of(table: &KeyTable, key: KeyId) -> Vec<u8> {
    let lease = table.lease();
    let prepared =
        lease.entry(key).unwrap().prepared(0, suite("random"), |key| Ok(PreparedKey::new(key.bytes.to_vec())));
    prepared.unwrap().state::<Vec<u8>>().unwrap().clone()
}

#[test]
fn keys_are_found_until_they_are_destroyed() {
    let table = KeyTable::new();
    let (first, second) = (import(&table, &[1; 16]), import(&table, &[2; 32]));
    assert_ne!(first, second);
    assert!(!first.is_none());
    assert!(table.len() == 2 && !table.is_empty());
    assert_eq!(bytes_of(&table, first), [1; 16]);
    assert_eq!(bytes_of(&table, second), [2; 32]);
    assert_eq!(table.key_check_value(second), Ok(KeyCheckValue::of(&[2; 32])));

    table.destroy(first).unwrap();
    assert!(table.lease().entry(first).is_none());
    assert_eq!(table.destroy(first), Err(unknown()));
    assert_eq!(table.policy(first), Err(unknown()));
    assert_eq!(table.key_check_value(first), Err(unknown()));
    assert_eq!(table.len(), 1);

    let third = import(&table, &[3; 16]);
    assert_ne!(third, first, "a slot that is used again has another generation");
    assert!(table.lease().entry(first).is_none());
    assert_eq!(bytes_of(&table, third), [3; 16]);
    assert!(table.lease().entry(KeyId::NONE).is_none());
    assert!(table.lease().entry(KeyId { slot: u32::MAX, generation: 1 }).is_none());

    table.clear();
    assert!(table.is_empty());
    assert!(table.lease().entry(third).is_none());
}

#[test]
fn a_lease_keeps_what_was_destroyed_under_it() {
    /// Counts its drops.
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    let drops = Arc::new(AtomicUsize::new(0));
    let table = KeyTable::new();
    let key = import(&table, &[5; 16]);
    let lease = table.lease();
    let pin = lease.pin(key).unwrap();
    let entry = lease.entry(key).unwrap();
    entry.prepared(3, suite("aes-128-ecb"), |_| Ok(PreparedKey::new(Dropped(Arc::clone(&drops))))).unwrap();
    table.destroy(key).unwrap();
    assert!(entry.prepared(3, suite("aes-128-ecb"), |_| panic!("it is there")).is_ok());
    assert_eq!(entry.key_len(), 16);
    drop(lease);
    assert_eq!(drops.load(Ordering::SeqCst), 0, "it is pinned");
    let other = import(&table, &[6; 16]);
    let made = |_: &KeyMaterial<'_>| Ok(PreparedKey::new(Dropped(Arc::clone(&drops))));
    table.lease().entry(other).unwrap().prepared(3, suite("aes-128-ecb"), made).unwrap();
    table.destroy(other).unwrap();
    assert_eq!(drops.load(Ordering::SeqCst), 1, "a pin keeps no other key");
    thread::spawn(move || drop(pin)).join().unwrap();
    assert_eq!(drops.load(Ordering::SeqCst), 2, "wiped with the last holder");
}

/// What `ask` hears from the entry of a key with this policy.
fn ask_entry<T>(policy: KeyPolicy, ask: impl FnOnce(&KeyEntry) -> T) -> T {
    let table = KeyTable::new();
    let key = table.import(KeyMaterial::secret(&[7; 16]), policy).unwrap();
    let lease = table.lease();
    ask(lease.entry(key).unwrap())
}

#[test]
fn a_key_is_free_when_no_rule_can_refuse_an_operation() {
    let rules = [
        KeyPolicy::only(suite("aes-128-gcm")),
        KeyPolicy::default().directions(Directions::DECRYPT),
        KeyPolicy::default().engines(EngineKinds::IN_PROCESS),
        KeyPolicy::default().operations_max(u64::MAX),
        KeyPolicy::default().expires_unix_s(u64::MAX),
    ];
    for policy in rules {
        assert!(!ask_entry(policy.clone(), KeyEntry::is_free), "{policy:?}");
    }
    let more = KeyPolicy::default().exportable(true).wraps(true);
    assert!(more.exportable && more.wraps);
    assert!(ask_entry(more, KeyEntry::is_free) && !ask_entry(KeyPolicy::default(), KeyEntry::has_budget));
    assert!(ask_entry(KeyPolicy::default().operations_max(1), KeyEntry::has_budget));
}

#[test]
fn a_form_is_found_under_its_own_name_only() {
    ask_entry(KeyPolicy::default(), |entry| {
        let names = ["aes-128-gcm", "aes-128-cbc", "aes-128-ctr"].map(|name| PreparedName::new(2, suite(name)));
        let found = |name| entry.prepared_before(name).map(|form| *form.state::<usize>().unwrap());
        for (made, name) in names.into_iter().enumerate() {
            entry.prepared_as(name, |_| Ok(PreparedKey::new(made))).unwrap();
            let all: Vec<_> = names.into_iter().map(found).collect();
            let expected: Vec<_> = (0..names.len()).map(|place| (place <= made).then_some(place)).collect();
            assert_eq!(all, expected);
        }
        assert_eq!(found(PreparedName::new(3, suite("aes-128-gcm"))), None);
    });
}

#[test]
fn unsuitable_imports_are_refused() {
    let table = KeyTable::with_limit(2);
    let long = vec![0; KEY_LEN_MAX + 1];
    let refusal = table.import(KeyMaterial::secret(&long), KeyPolicy::default());
    assert_eq!(refusal, Err(Error::exhausted("KEY_LEN_MAX", KEY_LEN_MAX, KEY_LEN_MAX + 1)));
    assert_eq!(table.import(KeyMaterial::secret(&[]), KeyPolicy::default()), Err(refused(Reason::KeyUnsuitable)));
    let longest = import(&table, &long[1..]);
    assert_eq!(bytes_of(&table, longest).len(), KEY_LEN_MAX);
    import(&table, &[1]);
    let full = table.import(KeyMaterial::secret(&[2]), KeyPolicy::default());
    assert_eq!(full, Err(Error::exhausted("KEYS_MAX", 2, 3)));
    table.destroy(longest).unwrap();
    import(&table, &[2]);
}

#[test]
fn the_clock_is_needed_once_a_key_expires() {
    let table = KeyTable::new();
    import(&table, &[1; 16]);
    assert!(!table.any_expiry());
    let policy = KeyPolicy::default().expires_unix_s(1000);
    let key = table.import(KeyMaterial::secret(&[2; 16]), policy.clone()).unwrap();
    assert!(table.any_expiry());
    assert_eq!(table.policy(key), Ok(policy));
    let lease = table.lease();
    let entry = lease.entry(key).unwrap();
    let check = |now| entry.check(suite("aes-128-gcm"), Direction::Encrypt, KeyUsage::Plain, now);
    assert_eq!(check(999), Ok(EngineKinds::ALL));
    assert_eq!(check(1000), Err(Reason::KeyExpired));
}

#[test]
fn operational_keys_come_in_under_a_master_key() {
    let table = KeyTable::new();
    let master = table.import(KeyMaterial::secret(&[0x5B; 24]), KeyPolicy::wrapping()).unwrap();
    let other = table.import(KeyMaterial::secret(&[0x5C; 24]), KeyPolicy::wrapping()).unwrap();
    let key: Vec<u8> = (1..=24).collect();
    for method in WrapMethod::ALL {
        let exportable = KeyPolicy::default().exportable(true);
        let plain = table.import(KeyMaterial::secret(&key), exportable).unwrap();
        let wrapped = table.wrap(master, method, plain).unwrap();
        assert!(!wrapped.windows(8).any(|window| key.windows(8).any(|part| part == window)));
        let policy = KeyPolicy::only(suite("3des-cbc"));
        let again = table.import_wrapped(master, method, &wrapped, KeyForm::Secret, policy.clone()).unwrap();
        assert_eq!(bytes_of(&table, again), key);
        assert_eq!(table.policy(again), Ok(policy));
        assert_eq!(table.key_check_value(again), table.key_check_value(plain));
        let wrong = table.import_wrapped(other, method, &wrapped, KeyForm::Secret, KeyPolicy::default());
        match method {
            // Nothing in ECB mode tells that the key is another.
            WrapMethod::TripleDesEcb => assert_ne!(bytes_of(&table, wrong.unwrap()), key),
            _ => assert_eq!(wrong, Err(Error::Refused(Refusal::UnwrapFailed))),
        }
    }
}

#[test]
fn wrapping_obeys_policies() {
    let table = KeyTable::new();
    let policy = |policy: KeyPolicy| table.import(KeyMaterial::secret(&[9; 16]), policy).unwrap();
    let (locked_in, free) = (policy(KeyPolicy::default()), policy(KeyPolicy::default().exportable(true)));
    let wrapping = policy(KeyPolicy::wrapping());
    let kwp = WrapMethod::AesKwp;

    assert_eq!(table.wrap(wrapping, kwp, locked_in), Err(refused(Reason::KeyDirection)));
    assert_eq!(table.wrap(free, kwp, free), Err(refused(Reason::KeySuite)));
    let wrapped = table.wrap(wrapping, kwp, free).unwrap();
    let bring = |key| table.import_wrapped(key, kwp, &wrapped, KeyForm::Secret, KeyPolicy::default());
    assert!(bring(wrapping).is_ok());
    assert_eq!(bring(free), Err(refused(Reason::KeySuite)));
    assert_eq!(bring(KeyId { slot: 99, generation: 1 }), Err(unknown()));

    let out_only = policy(KeyPolicy::wrapping().directions(Directions::ENCRYPT));
    assert!(table.wrap(out_only, kwp, free).is_ok());
    assert_eq!(bring(out_only), Err(refused(Reason::KeyDirection)));
    let twice = policy(KeyPolicy::wrapping().operations_max(2));
    assert!(bring(twice).is_ok() && bring(twice).is_ok());
    assert_eq!(bring(twice), Err(refused(Reason::KeyBudget)));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let expired = policy(KeyPolicy::wrapping().expires_unix_s(now));
    assert_eq!(bring(expired), Err(refused(Reason::KeyExpired)));
    let old = policy(KeyPolicy::default().exportable(true).expires_unix_s(now));
    assert_eq!(table.wrap(wrapping, kwp, old), Err(refused(Reason::KeyExpired)));
    let public = table.import(KeyMaterial::public(&[9; 16]), KeyPolicy::wrapping()).unwrap();
    assert_eq!(bring(public), Err(refused(Reason::KeyUnsuitable)));

    let odd = table.import(KeyMaterial::secret(&[9; 15]), KeyPolicy::wrapping()).unwrap();
    assert_eq!(bring(odd), Err(Error::key(suite("aes-256-ecb"), KeyProblem::Length)));
    let lease = table.lease();
    let check = lease.entry(wrapping).unwrap().check(suite("aes-128-ecb"), Direction::Decrypt, KeyUsage::Plain, 0);
    assert_eq!(check, Err(Reason::KeySuite), "a wrapping key decrypts nothing");
}

#[test]
fn policies_methods_and_check_values_have_words() {
    let only = KeyPolicy::only(suite("aes-128-gcm"));
    assert_eq!(format!("{:?} {:?}", KeyPolicy::default().suites, only.suites), r#"any {"aes-128-gcm"}"#);
    let methods = WrapMethod::ALL.map(|method| method.to_string());
    assert_eq!(methods, ["aes-kwp", "aes-kw", "3des-ecb", "3des-ecb-checked"]);
    let value = KeyCheckValue([0x01, 0xAB, 0, 0, 0, 0, 0, 0xFF]);
    assert_eq!(format!("{value} {value:?}"), "01ab0000000000ff 01ab0000000000ff");
}

#[test]
fn nothing_prints_key_bytes() {
    let table = KeyTable::new();
    let key = import(&table, b"do not print me!");
    let lease = table.lease();
    let text = format!("{table:?} {lease:?} {:?} {:?}", lease.entry(key), lease.pin(key));
    assert!(text.starts_with("KeyTable { len: 1, .. } KeyLease Some(KeyEntry { form: Secret, key_len: 16"), "{text}");
    for hidden in ["do not print", "646f206e", "100, 111, 32"] {
        assert!(!text.contains(hidden), "{text}");
    }
}

/// Keys are destroyed and imported while other threads look them up and use what they found. What a lookup finds is
/// always the key of that name, whole.
#[test]
fn readers_never_see_a_wrong_or_dead_key() {
    const KEYS: usize = 64;
    const ROUNDS: u32 = 3000;
    fn key_bytes(value: u32) -> Vec<u8> {
        value.to_le_bytes().repeat(5)
    }

    /// Ends the readers, also when the writer panics.
    struct Stop<'s>(&'s AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    // A reader that sleeps under its lease keeps every key that is destroyed meanwhile, so there must be room.
    let table = KeyTable::new();
    let import_numbered = |value: u32| import(&table, &key_bytes(value));
    let names: Vec<std::sync::Mutex<(KeyId, u32)>> =
        (0..KEYS as u32).map(|value| std::sync::Mutex::new((import_numbered(value), value))).collect();
    let stop = AtomicBool::new(false);
    let found = AtomicUsize::new(0);
    thread::scope(|scope| {
        for reader in 0..3usize {
            let (table, names, stop, found) = (&table, &names, &stop, &found);
            scope.spawn(move || {
                let mut at = reader;
                while !stop.load(Ordering::Relaxed) {
                    let lease = table.lease();
                    for _ in 0..16 {
                        at = (at * 5 + 7) % KEYS;
                        let (key, value) = *names[at].lock().unwrap();
                        let Some(entry) = lease.entry(key) else { continue };
                        let made = entry.prepared(reader as u16, suite("aes-128-cbc"), |material| {
                            Ok(PreparedKey::new(material.bytes.to_vec()))
                        });
                        assert_eq!(made.unwrap().state::<Vec<u8>>().unwrap(), &key_bytes(value));
                        found.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let _stop = Stop(&stop);
        let mut round = 0;
        // On a busy machine the readers may start late.
        while round < ROUNDS || found.load(Ordering::Relaxed) < ROUNDS as usize {
            round += 1;
            let at = round as usize * 13 % KEYS;
            let value = round + 1000;
            let (old, _) = *names[at].lock().unwrap();
            table.destroy(old).unwrap();
            assert!(table.lease().entry(old).is_none(), "lookups fail at once");
            *names[at].lock().unwrap() = (import_numbered(value), value);
        }
    });
    assert_eq!(table.len(), KEYS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Imports and destructions in any order behave as a list of keys does.
    #[test]
    fn the_table_behaves_as_a_model(steps in proptest::collection::vec((any::<bool>(), any::<u16>()), 1..80)) {
        let table = KeyTable::with_limit(40);
        let mut live: Vec<(KeyId, Vec<u8>)> = Vec::new();
        let mut dead: Vec<KeyId> = Vec::new();
        for (is_import, pick) in steps {
            if is_import {
                let bytes = pick.to_le_bytes().repeat(8);
                match table.import(KeyMaterial::secret(&bytes), KeyPolicy::default()) {
                    Ok(key) => live.push((key, bytes)),
                    Err(error) => {
                        prop_assert_eq!(error, Error::exhausted("KEYS_MAX", 40, 41));
                        prop_assert_eq!(live.len(), 40);
                    }
                }
            } else if !live.is_empty() {
                let (key, _) = live.swap_remove(pick as usize % live.len());
                prop_assert_eq!(table.destroy(key), Ok(()));
                dead.push(key);
            }
            prop_assert_eq!(table.len(), live.len());
        }
        for (key, bytes) in &live {
            prop_assert_eq!(&bytes_of(&table, *key), bytes);
        }
        for key in dead {
            prop_assert!(table.lease().entry(key).is_none());
        }
    }
}
