//! Prepared keys of either scheme.
//!
//! A private key is expanded when it is prepared. A public key is only looked at then: its matrix is drawn when it is used,
//! beside those of the other operations of its group, and kept when it is used again. So keys that are used once, as most peers'
//! are, fill lanes however they were prepared, and take no memory of a matrix: 4.5 KiB with ML-KEM-768, 30 KiB with ML-DSA-65.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{KeyForm, KeyMaterial, PreparedKey, Suite};

/// An expanded private key.
pub(super) trait Pair: Send + Sync + Sized + 'static {
    /// Its other half, expanded.
    type Public: Default + Send + Sync + 'static;

    /// The other half.
    fn public(&self) -> &Self::Public;
}

/// A public key as it came, and what is kept of it; or a key pair.
pub(super) enum Key<S: Pair> {
    Public(Encoded<S::Public>),
    Private(Box<S>),
}

/// A public key.
pub(super) struct Encoded<P> {
    bytes: Box<[u8]>,
    /// Whether it has been used.
    was_used: AtomicBool,
    /// Once it has been used twice.
    expanded: OnceLock<P>,
}

/// Prepares seeds of `N` bytes, `most` at a time, and public keys, which `check` looks at.
pub(super) fn prepare<S: Pair, const N: usize>(
    keys: &[KeyMaterial<'_>],
    suite: Suite,
    most: usize,
    pairs: impl Fn(&[&[u8; N]]) -> Vec<S>,
    check: impl Fn(&[u8]) -> Result<(), KeyProblem>,
) -> Vec<Result<PreparedKey, KeyProblem>> {
    let mut prepared = Vec::with_capacity(keys.len());
    for keys in keys.chunks(most) {
        let seeds: Vec<&[u8; N]> = keys.iter().filter_map(seed).collect();
        let mut pairs = if seeds.is_empty() { Vec::new() } else { pairs(&seeds) }.into_iter();
        prepared.extend(keys.iter().map(|key| {
            let key = if seed::<N>(key).is_some() {
                Key::Private(Box::new(pairs.next().ok_or(KeyProblem::Length)?))
            } else {
                check(key.bytes)?;
                let (was_used, expanded) = (AtomicBool::new(false), OnceLock::new());
                Key::<S>::Public(Encoded { bytes: key.bytes.into(), was_used, expanded })
            };
            Ok(PreparedKey::for_suite(suite, key))
        }));
    }
    prepared
}

/// The seed, if the key is one.
fn seed<'k, const N: usize>(key: &KeyMaterial<'k>) -> Option<&'k [u8; N]> {
    match key.form {
        KeyForm::Private => key.bytes.try_into().ok(),
        _ => None,
    }
}

/// The expanded public keys of a group of operations. Those that are not kept are expanded into `pool`, each once, `most` at a
/// time.
pub(super) fn expand_all<'k, S: Pair>(
    group: &[(usize, &'k Key<S>)],
    pool: &'k mut Vec<S::Public>,
    most: usize,
    expand: impl Fn(&[&[u8]], &mut [S::Public]),
) -> Vec<&'k S::Public> {
    /// Where a key is found.
    enum Place<'k, S: Pair> {
        Kept(&'k S::Public),
        Fresh(usize),
    }
    let mut fresh: Vec<(&'k Encoded<S::Public>, usize)> = Vec::new();
    let place = |(_, key): &(usize, &'k Key<S>)| {
        let encoded = match key {
            Key::Private(pair) => return Place::<'k, S>::Kept(pair.public()),
            Key::Public(encoded) => encoded,
        };
        if let Some(kept) = encoded.expanded.get() {
            return Place::Kept(kept);
        }
        let found = fresh.iter().position(|(other, _)| core::ptr::eq(*other, encoded));
        let index = found.unwrap_or(fresh.len());
        if found.is_none() {
            fresh.push((encoded, 0));
        }
        fresh[index].1 += 1;
        Place::Fresh(index)
    };
    let places: Vec<Place<'k, S>> = group.iter().map(place).collect();
    if pool.len() < fresh.len() {
        pool.resize_with(fresh.len(), S::Public::default);
    }
    for (fresh, pool) in fresh.chunks(most).zip(pool.chunks_mut(most)) {
        let encoded: Vec<&[u8]> = fresh.iter().map(|(encoded, _)| &encoded.bytes[..]).collect();
        expand(&encoded, &mut pool[..fresh.len()]);
    }
    for ((encoded, uses), expanded) in fresh.iter().zip(pool.iter_mut()) {
        if *uses > 1 || encoded.was_used.swap(true, Ordering::Relaxed) {
            // Another queue may have been first; then both are the same.
            encoded.expanded.get_or_init(|| core::mem::take(expanded));
        }
    }
    let pool = &*pool;
    let found = |place| match place {
        Place::Kept(kept) => kept,
        Place::Fresh(index) => fresh[index].0.expanded.get().unwrap_or(&pool[index]),
    };
    places.into_iter().map(found).collect()
}

/// What a queue keeps between batches: keys that are used once, whose memory is used again. They are public.
#[derive(Default)]
pub(crate) struct Pools {
    pub(super) kem: Vec<super::ml_kem::PublicKey>,
    pub(super) dsa: Vec<super::ml_dsa::PublicKey>,
}
