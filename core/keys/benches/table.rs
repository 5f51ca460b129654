//! What a key table costs: lookups among a million keys, and imports.

use std::hint::black_box;
use std::time::Duration;

use ciphermill_contract::{Direction, KeyId, KeyMaterial, PreparedKey, Suite};
use ciphermill_keys::{KeyPolicy, KeyTable, KeyUsage, PreparedName};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

const KEYS: usize = 1_000_000;
/// Names that are looked up in one measurement, so that the lease and the loop do not count.
const LOOKUPS: usize = 1 << 16;

/// Sixteen bytes that differ from key to key.
fn key_bytes(number: u64) -> [u8; 16] {
    let mut bytes = [0x5A; 16];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Marsaglia's xorshift64: cheap, and random enough to defeat caches.
fn next_random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn import(table: &KeyTable, number: u64) -> KeyId {
    match table.import(KeyMaterial::secret(&key_bytes(number)), KeyPolicy::default()) {
        Ok(key) => key,
        Err(error) => panic!("key {number}: {error}"),
    }
}

fn lookups(criterion: &mut Criterion) {
    let suite: Suite = match "aes-128-gcm".parse() {
        Ok(suite) => suite,
        Err(error) => panic!("{error}"),
    };
    let table = KeyTable::new();
    let keys: Vec<KeyId> = (0..KEYS as u64).map(|number| import(&table, number)).collect();
    let name = PreparedName::new(0, suite);
    for (number, key) in keys.iter().enumerate() {
        let lease = table.lease();
        let made = lease.entry(*key).map(|entry| entry.prepared_as(name, |_| Ok(PreparedKey::new(number))).is_ok());
        assert_eq!(made, Some(true));
    }
    let mut state = 88_172_645_463_325_252;
    let random: Vec<KeyId> = (0..LOOKUPS).map(|_| keys[next_random(&mut state) as usize % KEYS]).collect();
    let hot: Vec<KeyId> = (0..LOOKUPS).map(|at| keys[at % 64]).collect();

    let mut group = criterion.benchmark_group("lookup");
    group.throughput(Throughput::Elements(LOOKUPS as u64)).measurement_time(Duration::from_secs(4)).sample_size(50);
    for (which, names) in [("random of 1,000,000", &random), ("64 hot keys", &hot)] {
        group.bench_function(format!("found, {which}"), |bencher| {
            bencher.iter(|| {
                let lease = table.lease();
                let found = names.iter().filter(|key| lease.entry(**key).is_some()).count();
                assert_eq!(found, LOOKUPS);
            });
        });
        group.bench_function(format!("found, checked and prepared, {which}"), |bencher| {
            bencher.iter(|| {
                let lease = table.lease();
                let mut sum = 0usize;
                for key in names {
                    let Some(entry) = lease.entry(*key) else { panic!("{key} is there") };
                    assert!(entry.check(suite, Direction::Encrypt, KeyUsage::Plain, 0).is_ok());
                    let Ok(prepared) = entry.prepared_as(name, |_| panic!("{key} is prepared")) else {
                        panic!("{key} is prepared")
                    };
                    sum += core::ptr::from_ref(prepared) as usize;
                }
                black_box(sum)
            });
        });
    }
    group.finish();
}

fn imports(criterion: &mut Criterion) {
    const IMPORTS: u64 = 100_000;
    let mut group = criterion.benchmark_group("import");
    group.throughput(Throughput::Elements(IMPORTS)).sample_size(10);
    group.bench_function("100,000 AES-128 keys", |bencher| {
        bencher.iter_batched(
            KeyTable::new,
            |table| {
                (0..IMPORTS).for_each(|number| {
                    import(&table, number);
                });
                assert_eq!(table.len(), IMPORTS as usize);
                table
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, lookups, imports);
criterion_main!(benches);
