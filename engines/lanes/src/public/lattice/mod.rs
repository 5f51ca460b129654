//! ML-KEM (FIPS 203) and ML-DSA (FIPS 204).
//!
//! Sponges run across operations, keys and polynomials, one a lane. Arithmetic runs within a polynomial, whose coefficients fill
//! vectors, one operation after the other: no transposition is needed between the two, and the polynomials of one operation alone
//! fill lanes too.

mod dsa;
mod dsa_kernels;
mod dsa_ring;
mod fields;
pub(crate) mod isa;
mod kem;
mod kem_ring;
mod key;
mod ml_dsa;
mod ml_kem;
mod portable;
#[cfg(test)]
mod ring_tests;
mod sample;
mod tables;
#[cfg(test)]
mod tests;
mod vectors;
#[cfg(target_arch = "x86_64")]
mod x86;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Kem, KeyPair, MlDsaSet, Signature, lists};
use ciphermill_contract::{Capability, Cost, Directions, KeyMaterial, PreparedKey, Suite};

use self::isa::LatticeKernel;
pub(crate) use self::key::Pools;
use super::of_random_bytes;
use crate::select::Kernels;
use crate::work::{Scratch, Work};

/// Pairs that are generated at a time.
const GENERATED_MAX: usize = 64;

/// What runs here, as long as keys are used again: a public key's first two uses take as much again with ML-KEM, three times as
/// much with ML-DSA. Few operations fill lanes with their polynomials, but hash alone.
pub(crate) fn capabilities(kernel: LatticeKernel) -> Vec<Capability> {
    let slower = match kernel.lanes() {
        8 => 1.0,
        4 => 1.4,
        _ => 8.0,
    };
    // Nanoseconds of an operation and of a byte, in full lanes and alone.
    let of = |suites, directions, full: [f64; 2], few: [f64; 2]| {
        let cost = |[op_ns, byte_ns]: [f64; 2]| Cost::new(500.0, op_ns * slower, byte_ns * slower);
        Capability::new(suites, cost(full)).lanes(kernel.lanes()).few(cost(few)).directions(directions)
    };
    vec![
        of(&lists::ML_KEM, Directions::ENCRYPT, [2_100.0, 0.0], [3_300.0, 0.0]),
        of(&lists::ML_KEM, Directions::DECRYPT, [3_100.0, 0.0], [6_600.0, 0.0]),
        of(&lists::ML_DSA, Directions::ENCRYPT, [50_000.0, 0.3], [60_000.0, 2.0]),
        of(&lists::ML_DSA, Directions::DECRYPT, [4_300.0, 0.3], [7_500.0, 2.0]),
        of(lists::generating(KeyPair::MlKem(Kem::MlKem512), 3), Directions::ENCRYPT, [2_300.0, 0.0], [4_000.0, 0.0]),
        of(
            lists::generating(KeyPair::MlDsa(MlDsaSet::MlDsa44), 3),
            Directions::ENCRYPT,
            [12_000.0, 0.0],
            [18_000.0, 0.0],
        ),
    ]
}

/// Prepares keys of one suite, side by side.
///
/// # Errors
/// What is wrong with each key.
pub(crate) fn prepare(
    kernels: &Kernels,
    keys: &[KeyMaterial<'_>],
    suite: Suite,
) -> Vec<Result<PreparedKey, KeyProblem>> {
    match suite {
        Suite::Kem(kem) => kem::prepare(kernels, keys, kem),
        Suite::Sign(Signature::MlDsa(set)) => dsa::prepare(kernels, keys, set),
        _ => keys.iter().map(|_| Err(KeyProblem::Parameters)).collect(),
    }
}

/// Runs a batch.
pub(crate) fn run(kernels: &Kernels, work: &mut Work<'_>, scratch: &mut Scratch) {
    match work.suite() {
        Suite::Kem(kem) => kem::run(kernels, kem, work, scratch),
        Suite::Sign(Signature::MlDsa(set)) => dsa::run(kernels, set, work, scratch),
        Suite::Generate(KeyPair::MlKem(kem)) => {
            of_random_bytes(work, GENERATED_MAX, |seeds| {
                scratch.occupancy.add(seeds.len(), 0);
                generate_ml_kem(kernels, kem, seeds)
            });
        }
        Suite::Generate(KeyPair::MlDsa(set)) => {
            of_random_bytes(work, GENERATED_MAX, |seeds| {
                scratch.occupancy.add(seeds.len(), 0);
                generate_ml_dsa(kernels, set, seeds)
            });
        }
        _ => {}
    }
}

/// The encapsulation keys of seeds `d ‖ z`, side by side.
fn generate_ml_kem(kernels: &Kernels, kem: Kem, seeds: &[[u8; 64]]) -> Vec<Vec<u8>> {
    let mut keys = Vec::with_capacity(seeds.len());
    for seeds in seeds.chunks(kernels.lattice.lanes().into()) {
        keys.extend(ml_kem::public_keys(kernels, ml_kem::set_of(kem), &seeds.iter().collect::<Vec<_>>()));
    }
    keys
}

/// The public keys of seeds, side by side.
fn generate_ml_dsa(kernels: &Kernels, set: MlDsaSet, seeds: &[[u8; 32]]) -> Vec<Vec<u8>> {
    let mut keys = Vec::with_capacity(seeds.len());
    for seeds in seeds.chunks(kernels.lattice.lanes().into()) {
        keys.extend(ml_dsa::public_keys(kernels, ml_dsa::set_of(set), &seeds.iter().collect::<Vec<_>>()));
    }
    keys
}
