//! ML-KEM's keys and operations.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Kem;
use ciphermill_contract::{Direction, KeyMaterial, OpStatus, PreparedKey, Reason, Suite};
use zeroize::Zeroizing;

use super::super::groups;
use super::key::{self, Pair, expand_all};
use super::ml_kem::{
    Encapsulation, LEN, PrivateKey, PublicKey, decapsulate, encapsulate, expand, is_reduced, key_pairs, set_of,
};
use crate::select::Kernels;
use crate::work::{Scratch, Work};

/// Operations of a group, by lane.
const GROUP: usize = 2;

type Key = key::Key<PrivateKey>;

impl Pair for PrivateKey {
    type Public = PublicKey;

    fn public(&self) -> &PublicKey {
        &self.public
    }
}

/// Prepares seeds and encapsulation keys whose lengths the contract has looked at.
pub(super) fn prepare(kernels: &Kernels, keys: &[KeyMaterial<'_>], kem: Kem) -> Vec<Result<PreparedKey, KeyProblem>> {
    let set = set_of(kem);
    let pairs = |seeds: &[&[u8; 2 * LEN]]| key_pairs(kernels, set, seeds);
    let check = |bytes: &[u8]| if is_reduced(kernels, set, bytes) { Ok(()) } else { Err(KeyProblem::Encoding) };
    key::prepare(keys, Suite::Kem(kem), kernels.lattice.lanes().into(), pairs, check)
}

/// Runs a batch of encapsulations or decapsulations.
pub(super) fn run(kernels: &Kernels, kem: Kem, work: &mut Work<'_>, scratch: &mut Scratch) {
    let most = usize::from(kernels.lattice.lanes()) * GROUP;
    groups::<Key>(work, most, |work, group| {
        // Polynomials of few operations fill the lanes too.
        scratch.occupancy.add(group.len(), 0);
        match work.direction() {
            Direction::Encrypt => run_encapsulations(kernels, kem, work, &mut scratch.lattice.kem, group),
            Direction::Decrypt => run_decapsulations(kernels, kem, work, group),
        }
    });
}

fn run_encapsulations(
    kernels: &Kernels,
    kem: Kem,
    work: &mut Work<'_>,
    pool: &mut Vec<PublicKey>,
    group: &[(usize, &Key)],
) {
    let (set, lanes) = (set_of(kem), usize::from(kernels.lattice.lanes()));
    let mut coins = Zeroizing::new(vec![[0; LEN]; group.len()]);
    if getrandom::fill(coins.as_flattened_mut()).is_err() {
        group.iter().for_each(|(index, _)| work.fail(*index, OpStatus::EngineFault));
        return;
    }
    let keys = expand_all(group, pool, lanes, |encoded, keys| expand(kernels, set, encoded, keys));
    let one = |(key, coins)| Encapsulation::new(key, coins, kem.ciphertext_len());
    let mut all: Vec<Encapsulation<'_>> = keys.into_iter().zip(coins.iter()).map(one).collect();
    encapsulate(kernels, set, &mut all);
    for ((index, _), one) in group.iter().zip(&all) {
        work.finish(*index, &one.secret, &one.ciphertext);
    }
}

fn run_decapsulations(kernels: &Kernels, kem: Kem, work: &mut Work<'_>, group: &[(usize, &Key)]) {
    let mut all = Vec::with_capacity(group.len());
    let mut places = Vec::with_capacity(group.len());
    for (index, key) in group {
        match key {
            Key::Public(_) => work.fail(*index, OpStatus::Refused(Reason::KeyUnsuitable)),
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
