//! ML-DSA's keys and operations.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{MlDsaSet, Signature};
use ciphermill_contract::{Direction, KeyMaterial, OpStatus, PreparedKey, Reason, Suite};
use zeroize::Zeroizing;

use super::super::groups;
use super::key::{self, Pair, expand_all};
use super::ml_dsa::{LEN, Message, PrivateKey, PublicKey, expand, key_pairs, set_of, sign_all, verify_all};
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

/// Prepares seeds and public keys whose lengths the contract has looked at. Any bytes are a public key.
pub(super) fn prepare(
    kernels: &Kernels,
    keys: &[KeyMaterial<'_>],
    set: MlDsaSet,
) -> Vec<Result<PreparedKey, KeyProblem>> {
    let pairs = |seeds: &[&[u8; LEN]]| key_pairs(kernels, set_of(set), seeds);
    let check = |bytes: &[u8]| if bytes.len() == set.public_len() { Ok(()) } else { Err(KeyProblem::Length) };
    key::prepare(keys, Suite::Sign(Signature::MlDsa(set)), kernels.lattice.lanes().into(), pairs, check)
}

/// Runs a batch of signatures or verifications.
pub(super) fn run(kernels: &Kernels, set: MlDsaSet, work: &mut Work<'_>, scratch: &mut Scratch) {
    let most = usize::from(kernels.lattice.lanes()) * GROUP;
    groups::<Key>(work, most, |work, group| {
        // Polynomials of few operations fill the lanes too.
        scratch.occupancy.add(group.len(), 0);
        match work.direction() {
            Direction::Encrypt => sign(kernels, set, work, group),
            Direction::Decrypt => verify(kernels, set, work, &mut scratch.lattice.dsa, group),
        }
    });
}

fn message<'a>(work: &'a Work<'_>, index: usize) -> Message<'a> {
    Message { context: work.aad(index), bytes: work.input(index) }
}

fn sign(kernels: &Kernels, set: MlDsaSet, work: &mut Work<'_>, group: &[(usize, &Key)]) {
    let mut signers = Vec::with_capacity(group.len());
    for (index, key) in group {
        match key {
            Key::Private(pair) => signers.push((*index, &**pair)),
            Key::Public(_) => work.fail(*index, OpStatus::Refused(Reason::KeyUnsuitable)),
        }
    }
    let mut random = Zeroizing::new(vec![[0; LEN]; signers.len()]);
    if getrandom::fill(random.as_flattened_mut()).is_err() {
        signers.iter().for_each(|(index, _)| work.fail(*index, OpStatus::EngineFault));
        return;
    }
    let all: Vec<_> = signers.iter().map(|(index, pair)| (*pair, message(work, *index))).collect();
    let signed = sign_all(kernels, set_of(set), &all, &random, set.signature_len());
    for ((index, _), signing) in signers.iter().zip(&signed) {
        if signing.signature.is_empty() {
            work.fail(*index, OpStatus::EngineFault);
        } else {
            work.finish(*index, &[], &signing.signature);
        }
    }
}

fn verify(kernels: &Kernels, set: MlDsaSet, work: &mut Work<'_>, pool: &mut Vec<PublicKey>, group: &[(usize, &Key)]) {
    let mut signed = Vec::with_capacity(group.len());
    for (index, key) in group {
        if work.tag_len(*index) == set.signature_len() {
            signed.push((*index, *key));
        } else {
            work.fail(*index, OpStatus::AuthFailed);
        }
    }
    let expand_with = |encoded: &[&[u8]], keys: &mut [PublicKey]| expand(kernels, set_of(set), encoded, keys);
    let keys = expand_all(&signed, pool, kernels.lattice.lanes().into(), expand_with);
    let all: Vec<_> = keys
        .into_iter()
        .zip(&signed)
        .map(|(key, (index, _))| (key, message(work, *index), work.tag_bytes(*index)))
        .collect();
    let valid = verify_all(kernels, set_of(set), &all);
    for ((index, _), valid) in signed.iter().zip(valid) {
        if valid {
            work.done_with(*index, 0);
        } else {
            work.fail(*index, OpStatus::AuthFailed);
        }
    }
}
