//! ML-KEM's keys and operations.
//!
//! A private key is expanded when it is prepared, so that decapsulation is arithmetic and hashes of fixed length. A public key is
//! only looked at then: its matrix is drawn when it is first used, beside those of the other operations of its group, and kept,
//! 4.5 KiB of it with ML-KEM-768. Encapsulation under keys that are used once fills lanes as well, however they were prepared.

use std::sync::OnceLock;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Kem;
use ciphermill_contract::{Direction, KeyForm, KeyMaterial, OpStatus, PreparedKey, Reason, Suite};
use zeroize::Zeroizing;

use super::super::groups;
use super::ml_kem::{
    Encapsulation, LEN, PrivateKey, PublicKey, decapsulate, encapsulate, expand, is_reduced, key_pairs, set_of,
};
use crate::select::Kernels;
use crate::work::{Scratch, Work};

/// Operations of a group, by lane.
const GROUP: usize = 2;

/// A public key as it came, and what has come of it; or a key pair.
enum Key {
    Public { encoded: Box<[u8]>, expanded: OnceLock<PublicKey> },
    Private(Box<PrivateKey>),
}

impl Key {
    /// The expanded public key, if it has been.
    fn public(&self) -> Option<&PublicKey> {
        match self {
            Key::Public { expanded, .. } => expanded.get(),
            Key::Private(pair) => Some(&pair.public),
        }
    }
}

/// Prepares seeds and encapsulation keys whose lengths the contract has looked at.
pub(super) fn prepare(kernels: &Kernels, keys: &[KeyMaterial<'_>], kem: Kem) -> Vec<Result<PreparedKey, KeyProblem>> {
    let (suite, set) = (Suite::Kem(kem), set_of(kem));
    // As many as lanes at a time: they are all in the caches.
    let mut prepared = Vec::with_capacity(keys.len());
    for keys in keys.chunks(kernels.lattice.lanes().into()) {
        let seeds: Vec<&[u8; 2 * LEN]> = keys.iter().filter_map(seed).collect();
        let mut pairs = if seeds.is_empty() { Vec::new() } else { key_pairs(kernels, set, &seeds) }.into_iter();
        prepared.extend(keys.iter().map(|key| {
            let key = if seed(key).is_some() {
                let (pair, _) = pairs.next().ok_or(KeyProblem::Length)?;
                Key::Private(Box::new(pair))
            } else if is_reduced(kernels, set, key.bytes) {
                Key::Public { encoded: key.bytes.into(), expanded: OnceLock::new() }
            } else {
                return Err(KeyProblem::Encoding);
            };
            Ok(PreparedKey::for_suite(suite, key))
        }));
    }
    prepared
}

/// The seed, if the key is one.
fn seed<'k>(key: &KeyMaterial<'k>) -> Option<&'k [u8; 2 * LEN]> {
    match key.form {
        KeyForm::Private => key.bytes.try_into().ok(),
        _ => None,
    }
}

/// Runs a batch of encapsulations or decapsulations.
pub(super) fn run(kernels: &Kernels, kem: Kem, work: &mut Work<'_>, scratch: &mut Scratch) {
    let most = usize::from(kernels.lattice.lanes()) * GROUP;
    groups::<Key>(work, most, |work, group| {
        // Polynomials of few operations fill the lanes too.
        scratch.occupancy.add(group.len(), 0);
        match work.direction() {
            Direction::Encrypt => run_encapsulations(kernels, kem, work, group),
            Direction::Decrypt => run_decapsulations(kernels, kem, work, group),
        }
    });
}

fn run_encapsulations(kernels: &Kernels, kem: Kem, work: &mut Work<'_>, group: &[(usize, &Key)]) {
    let set = set_of(kem);
    let mut coins = Zeroizing::new(vec![0; group.len() * LEN]);
    if getrandom::fill(&mut coins).is_err() {
        group.iter().for_each(|(index, _)| work.fail(*index, OpStatus::EngineFault));
        return;
    }
    expand_all(kernels, kem, group);
    let mut all = Vec::with_capacity(group.len());
    for ((_, key), coins) in group.iter().zip(coins.as_chunks::<LEN>().0) {
        let Some(key) = key.public() else { continue };
        let mut one = Encapsulation::new(key, kem.ciphertext_len());
        one.message.copy_from_slice(coins);
        all.push(one);
    }
    debug_assert_eq!(all.len(), group.len());
    encapsulate(kernels, set, &mut all);
    for ((index, _), one) in group.iter().zip(&all) {
        work.finish(*index, &one.secret, &one.ciphertext);
    }
}

/// Expands the public keys that have not been, each once.
fn expand_all(kernels: &Kernels, kem: Kem, group: &[(usize, &Key)]) {
    let mut fresh: Vec<(&[u8], &OnceLock<PublicKey>)> = Vec::new();
    for (_, key) in group {
        if let Key::Public { encoded, expanded } = key
            && expanded.get().is_none()
            && !fresh.iter().any(|(_, other)| core::ptr::eq(*other, expanded))
        {
            fresh.push((encoded, expanded));
        }
    }
    if fresh.is_empty() {
        return;
    }
    let encoded: Vec<&[u8]> = fresh.iter().map(|(encoded, _)| *encoded).collect();
    for ((_, place), key) in fresh.iter().zip(expand(kernels, set_of(kem), &encoded)) {
        // Another queue may have been first; then both are the same.
        place.get_or_init(|| key);
    }
}

fn run_decapsulations(kernels: &Kernels, kem: Kem, work: &mut Work<'_>, group: &[(usize, &Key)]) {
    let mut all = Vec::with_capacity(group.len());
    let mut places = Vec::with_capacity(group.len());
    for (index, key) in group {
        match key {
            Key::Public { .. } => work.fail(*index, OpStatus::Refused(Reason::KeyUnsuitable)),
            Key::Private(_) if work.tag_len(*index) != kem.ciphertext_len() => {
                work.fail(*index, OpStatus::EngineFault);
            }
            Key::Private(pair) => places.push((*index, &**pair)),
        }
    }
    all.extend(places.iter().map(|(index, pair)| (*pair, work.tag_bytes(*index))));
    if all.is_empty() {
        return;
    }
    let secrets = decapsulate(kernels, set_of(kem), &all);
    for ((index, _), secret) in places.iter().zip(secrets.iter()) {
        work.finish(*index, secret, &[]);
    }
}
