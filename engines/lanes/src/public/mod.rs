//! Public-key suites: an operation a lane, eight of them in the time that one takes.
//!
//! [`isa`] has the instruction sets, [`room`] the memory that numbers lie in. A family takes a batch in groups of as many operations
//! as there are lanes; lanes without an operation repeat the first one, since a vector costs the same however full it is.

pub(crate) mod binary_curves;
mod curve25519;
mod curve448;
mod dh;
mod fault;
pub(crate) mod isa;
pub(crate) mod lattice;
mod legendre;
mod long;
mod montgomery;
mod nonce;
mod portable;
mod powers;
mod prime_curves;
pub(crate) mod room;
mod rsa;
#[cfg(test)]
mod samples;
mod unrolled;
mod vectors;
#[cfg(target_arch = "x86_64")]
mod x86;

use core::any::Any;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Agreement, KeyPair, Signature};
use ciphermill_contract::{Capability, KeyMaterial, OpStatus, PreparedKey, Suite};
use zeroize::Zeroizing;

use self::isa::PublicKernel;
use crate::select::Kernels;
use crate::work::{NoKey, Occupancy, Scratch, Work};

/// What the family runs.
pub(crate) fn capabilities(kernel: PublicKernel) -> Vec<Capability> {
    let mut all = Vec::new();
    all.extend(rsa::capabilities(kernel));
    all.extend(dh::capabilities(kernel));
    all.extend(curve25519::capabilities(kernel));
    all.extend(curve448::capabilities(kernel));
    all.extend(prime_curves::capabilities(kernel));
    all
}

/// Prepares a key that [`Suite::check_key`] takes.
///
/// # Errors
/// What is wrong with the key.
pub(crate) fn prepare(kernels: &Kernels, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey, KeyProblem> {
    match suite {
        Suite::Sign(Signature::Rsa(size, ..)) => rsa::prepare(key, suite, size),
        Suite::PublicEncrypt(encryption) => rsa::prepare(key, suite, encryption.size()),
        Suite::Agree(Agreement::Dh(group)) => dh::prepare(key, suite, group),
        Suite::Agree(Agreement::X25519) | Suite::Sign(Signature::Ed25519 | Signature::Ed25519Cofactored) => {
            curve25519::prepare(kernels, key, suite)
        }
        Suite::Agree(Agreement::X448) => curve448::prepare(key, suite),
        Suite::Agree(Agreement::Ecdh(curve)) | Suite::Sign(Signature::Ecdsa(curve)) if curve.is_binary() => {
            binary_curves::prepare(kernels, key, suite)
        }
        Suite::Agree(Agreement::Ecdh(_)) | Suite::Sign(Signature::Ecdsa(_) | Signature::EcdsaDigest(_)) => {
            prime_curves::prepare(key, suite)
        }
        Suite::Sign(Signature::MlDsa(_)) | Suite::Kem(_) => {
            lattice::prepare(kernels, &[*key], suite).pop().unwrap_or(Err(KeyProblem::Parameters))
        }
        _ => Err(KeyProblem::Parameters),
    }
}

/// Runs a batch.
pub(crate) fn run(kernels: &Kernels, work: &mut Work<'_>, scratch: &mut Scratch) {
    match work.suite() {
        Suite::Sign(Signature::Rsa(..)) | Suite::PublicEncrypt(_) => rsa::run(kernels, work, scratch),
        Suite::Agree(Agreement::Dh(_)) => dh::run(kernels, work, scratch),
        Suite::Agree(Agreement::X25519) | Suite::Sign(Signature::Ed25519 | Signature::Ed25519Cofactored) => {
            curve25519::run(kernels, work, scratch)
        }
        Suite::Agree(Agreement::X448) => curve448::run(kernels.public, work, scratch),
        Suite::Agree(Agreement::Ecdh(curve)) | Suite::Sign(Signature::Ecdsa(curve)) if curve.is_binary() => {
            binary_curves::run(kernels, work, scratch);
        }
        Suite::Agree(Agreement::Ecdh(_)) | Suite::Sign(Signature::Ecdsa(_) | Signature::EcdsaDigest(_)) => {
            prime_curves::run(kernels, work, scratch)
        }
        Suite::Generate(pair) => match pair {
            KeyPair::Rsa(_) => rsa::run(kernels, work, scratch),
            KeyPair::X25519 | KeyPair::Ed25519 => curve25519::run(kernels, work, scratch),
            KeyPair::X448 => curve448::run(kernels.public, work, scratch),
            KeyPair::Ec(_) => prime_curves::run(kernels, work, scratch),
            KeyPair::MlKem(_) | KeyPair::MlDsa(_) => lattice::run(kernels, work, scratch),
        },
        Suite::Sign(Signature::MlDsa(_)) | Suite::Kem(_) => lattice::run(kernels, work, scratch),
        _ => {}
    }
}

/// Generates pairs whose private keys are random bytes, `most` at a time; `public_of` gives their public keys.
fn of_random_bytes<const LEN: usize, K: AsRef<[u8]>>(
    work: &mut Work<'_>,
    most: usize,
    mut public_of: impl FnMut(&[[u8; LEN]]) -> Vec<K>,
) {
    groups::<NoKey>(work, most, |work, group| {
        let mut private = Zeroizing::new(vec![[0; LEN]; group.len()]);
        if getrandom::fill(private.as_flattened_mut()).is_err() {
            return group.iter().for_each(|(index, _)| work.fail(*index, OpStatus::EngineFault));
        }
        for (((index, _), private), public) in group.iter().zip(private.iter()).zip(public_of(&private)) {
            work.finish(*index, private, public.as_ref());
        }
    });
}

/// Counts the lanes of so many operations, and those that ran empty.
fn count_lanes(kernel: PublicKernel, occupancy: &mut Occupancy, ops: usize) {
    occupancy.add(ops, ops.next_multiple_of(kernel.lanes().into()) - ops);
}

/// Hands the pending operations of a batch, by index and key, to `run`, `most` at a time. Operations whose key is not a `K` of this
/// suite fail.
fn groups<'w, K: Any>(work: &mut Work<'w>, most: usize, mut run: impl FnMut(&mut Work<'w>, &[(usize, &'w K)])) {
    let mut next = 0;
    let mut group = Vec::with_capacity(most);
    loop {
        group.clear();
        while group.len() < most
            && let Some(op) = work.take_keyed::<K>(&mut next)
        {
            group.push(op);
        }
        if group.is_empty() {
            return;
        }
        run(work, &group);
    }
}
