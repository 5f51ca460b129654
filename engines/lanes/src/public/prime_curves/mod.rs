//! ECDSA (FIPS 186-5) and ECDH (NIST SP 800-56A) over P-256, P-384, P-521 and secp160r1, an operation a lane.
//!
//! [`modulus`] and [`curve`] have the constants, [`field`] the arithmetic of numbers, [`points`] and [`scalar`] that of points;
//! [`generator`] is the table for the generator's multiples. [`agree`], [`sign`] and [`generate`] run
//! batches, [`signature`] and [`verify`] are what the latter leaves to lanes.

mod agree;
mod curve;
mod field;
mod generate;
mod generator;
pub(super) mod isa;
mod modulus;
mod nonce;
mod numbers;
mod points;
mod scalar;
mod secp160r1;
mod sign;
mod signature;
mod table;
#[cfg(test)]
mod tests;
mod verify;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Agreement, Curve as Name, KeyPair, Signature, lists};
use ciphermill_contract::{Capability, Cost, Directions, KeyMaterial, PreparedKey, Suite};

use self::curve::{P256, P384, P521};
use self::secp160r1::Secp160r1;
use super::isa::PublicKernel;
use crate::select::Kernels;
use crate::work::{Scratch, Work};

/// What the family runs.
pub(crate) fn capabilities(kernel: PublicKernel) -> Vec<Capability> {
    let of = |suites, op_ns: f64| {
        Capability::new(suites, Cost::new(500.0, op_ns * kernel.slower(), 0.1)).lanes(kernel.lanes()).in_step()
    };
    let mut all = Vec::new();
    // Agreeing, signing, verifying.
    let figures = [
        (&lists::ECDH[0], &lists::ECDSA[0], Some(&lists::ECDSA_DIGEST[0]), [10_000.0, 3_500.0, 12_000.0]),
        (&lists::ECDH[1], &lists::ECDSA[1], Some(&lists::ECDSA_DIGEST[1]), [45_000.0, 12_000.0, 52_000.0]),
        (&lists::ECDH[2], &lists::ECDSA[2], Some(&lists::ECDSA_DIGEST[2]), [58_000.0, 16_000.0, 70_000.0]),
        (&SECP160R1[1], &SECP160R1[0], None, [5_000.0, 3_000.0, 6_000.0]),
    ];
    for (index, (agreement, signature, of_digests, [agree_ns, sign_ns, verify_ns])) in figures.into_iter().enumerate() {
        let agreement = core::slice::from_ref(agreement);
        all.push(of(agreement, agree_ns).directions(Directions::ENCRYPT));
        for signature in [Some(signature), of_digests].into_iter().flatten() {
            let signature = core::slice::from_ref(signature);
            all.push(of(signature, sign_ns).directions(Directions::ENCRYPT));
            all.push(of(signature, verify_ns).directions(Directions::DECRYPT));
        }
        // Signing without its hashes, and a point that is written whole. Nobody needs new pairs of the legacy curve.
        if !Name::ALL[index].is_legacy() {
            let generation = lists::generating(KeyPair::Ec(Name::ALL[index]), 1);
            all.push(of(generation, 0.8 * sign_ns).directions(Directions::ENCRYPT));
        }
    }
    all
}

/// Signatures, then agreement.
static SECP160R1: [Suite; 2] =
    [Suite::Sign(Signature::Ecdsa(Name::Secp160r1)), Suite::Agree(Agreement::Ecdh(Name::Secp160r1))];

/// Prepares a key for one of the suites.
///
/// # Errors
/// What is wrong with the key.
pub(crate) fn prepare(key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey, KeyProblem> {
    match suite {
        Suite::Agree(Agreement::Ecdh(Name::P256)) => agree::prepare::<P256, 5>(key, suite),
        Suite::Agree(Agreement::Ecdh(Name::P384)) => agree::prepare::<P384, 8>(key, suite),
        Suite::Agree(Agreement::Ecdh(Name::P521)) => agree::prepare::<P521, 11>(key, suite),
        Suite::Agree(Agreement::Ecdh(Name::Secp160r1)) => agree::prepare::<Secp160r1, 4>(key, suite),
        Suite::Sign(Signature::Ecdsa(Name::Secp160r1)) => sign::prepare::<Secp160r1, 4>(key, suite),
        Suite::Sign(Signature::Ecdsa(Name::P256) | Signature::EcdsaDigest(Name::P256)) => {
            sign::prepare::<P256, 5>(key, suite)
        }
        Suite::Sign(Signature::Ecdsa(Name::P384) | Signature::EcdsaDigest(Name::P384)) => {
            sign::prepare::<P384, 8>(key, suite)
        }
        Suite::Sign(Signature::Ecdsa(Name::P521) | Signature::EcdsaDigest(Name::P521)) => {
            sign::prepare::<P521, 11>(key, suite)
        }
        _ => Err(KeyProblem::Parameters),
    }
}

/// Runs a batch.
pub(crate) fn run(kernels: &Kernels, work: &mut Work<'_>, scratch: &mut Scratch) {
    match work.suite() {
        Suite::Agree(Agreement::Ecdh(Name::P256)) => agree::run::<P256, 5>(kernels.public, work, scratch),
        Suite::Agree(Agreement::Ecdh(Name::P384)) => agree::run::<P384, 8>(kernels.public, work, scratch),
        Suite::Agree(Agreement::Ecdh(Name::P521)) => agree::run::<P521, 11>(kernels.public, work, scratch),
        Suite::Agree(Agreement::Ecdh(Name::Secp160r1)) => agree::run::<Secp160r1, 4>(kernels.public, work, scratch),
        Suite::Sign(Signature::Ecdsa(Name::Secp160r1)) => sign::run::<Secp160r1, 4>(kernels, work, scratch),
        Suite::Sign(Signature::Ecdsa(Name::P256) | Signature::EcdsaDigest(Name::P256)) => {
            sign::run::<P256, 5>(kernels, work, scratch)
        }
        Suite::Sign(Signature::Ecdsa(Name::P384) | Signature::EcdsaDigest(Name::P384)) => {
            sign::run::<P384, 8>(kernels, work, scratch)
        }
        Suite::Sign(Signature::Ecdsa(Name::P521) | Signature::EcdsaDigest(Name::P521)) => {
            sign::run::<P521, 11>(kernels, work, scratch)
        }
        Suite::Generate(KeyPair::Ec(name)) => match name {
            Name::P256 => generate::run::<P256, 5>(kernels.public, work, scratch, name),
            Name::P384 => generate::run::<P384, 8>(kernels.public, work, scratch, name),
            Name::P521 => generate::run::<P521, 11>(kernels.public, work, scratch, name),
            _ => {}
        },
        _ => {}
    }
}
