//! ECDSA (FIPS 186-4) and ECDH (NIST SP 800-56A, without the cofactor) over the binary curves of SEC 2, an operation a lane.
//!
//! [`field`] has the arithmetic of polynomials, [`points`] that of points, [`curve`] the constants; [`multiply`] and [`affine`] do it
//! for many operations at once. [`order`] is what ECDSA does modulo the order, which is cheap beside it. [`keys`] takes keys, [`agree`]
//! and [`sign`] run batches.

mod affine;
mod agree;
mod curve;
mod field;
pub(crate) mod isa;
mod keys;
mod multiply;
mod order;
mod points;
mod portable;
mod sign;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Agreement, Curve as Name, Signature, lists};
use ciphermill_contract::{Capability, Cost, Directions, KeyMaterial, PreparedKey, Suite};

use self::curve::{
    SECT163K1, SECT163R1, SECT163R2, SECT233K1, SECT233R1, SECT283K1, SECT283R1, SECT409K1, SECT409R1, SECT571K1,
    SECT571R1,
};
use self::isa::BinaryKernel;
use crate::select::Kernels;
use crate::work::{Scratch, Work};

/// Nanoseconds of a multiple by bits of the field, with vectors of 512 bits.
const MULTIPLE_NS: [(usize, f64); 5] =
    [(163, 3_500.0), (233, 6_000.0), (283, 11_500.0), (409, 25_000.0), (571, 60_000.0)];

/// What the family runs.
pub(crate) fn capabilities(kernel: BinaryKernel) -> Vec<Capability> {
    let of = |suite: &'static Suite, op_ns: f64| {
        Capability::new(core::slice::from_ref(suite), Cost::new(500.0, op_ns, 0.1)).lanes(kernel.lanes()).in_step()
    };
    let mut all = Vec::new();
    for suite in &lists::LEGACY_CURVES {
        let (Suite::Sign(Signature::Ecdsa(curve)) | Suite::Agree(Agreement::Ecdh(curve))) = suite else { continue };
        let found = MULTIPLE_NS.iter().find(|(bits, _)| curve.is_binary() && bits.div_ceil(8) == curve.field_len());
        let Some(multiple_ns) = found.map(|(_, ns)| ns * kernel.slower()) else { continue };
        if let Suite::Agree(_) = suite {
            all.push(of(suite, multiple_ns).directions(Directions::ENCRYPT));
        } else {
            all.push(of(suite, multiple_ns + 4_000.0).directions(Directions::ENCRYPT));
            all.push(of(suite, 2.0 * multiple_ns + 2_000.0).directions(Directions::DECRYPT));
        }
    }
    all
}

/// Calls a function of the curve that a name stands for; the last expression for every other name.
macro_rules! with_curve {
    ($name:expr, $function:path, ($($arg:expr),*), $else:expr) => {
        match $name {
            Name::Sect163k1 => $function(&SECT163K1, $($arg),*),
            Name::Sect163r1 => $function(&SECT163R1, $($arg),*),
            Name::Sect163r2 => $function(&SECT163R2, $($arg),*),
            Name::Sect233k1 => $function(&SECT233K1, $($arg),*),
            Name::Sect233r1 => $function(&SECT233R1, $($arg),*),
            Name::Sect283k1 => $function(&SECT283K1, $($arg),*),
            Name::Sect283r1 => $function(&SECT283R1, $($arg),*),
            Name::Sect409k1 => $function(&SECT409K1, $($arg),*),
            Name::Sect409r1 => $function(&SECT409R1, $($arg),*),
            Name::Sect571k1 => $function(&SECT571K1, $($arg),*),
            Name::Sect571r1 => $function(&SECT571R1, $($arg),*),
            _ => $else,
        }
    };
}

/// Prepares a key for one of the suites.
///
/// # Errors
/// What is wrong with the key.
pub(crate) fn prepare(kernels: &Kernels, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey, KeyProblem> {
    let (Suite::Sign(Signature::Ecdsa(name)) | Suite::Agree(Agreement::Ecdh(name))) = suite else {
        return Err(KeyProblem::Parameters);
    };
    with_curve!(name, keys::prepare, (kernels.binary, key, suite), Err(KeyProblem::Parameters))
}

/// Runs a batch.
pub(crate) fn run(kernels: &Kernels, work: &mut Work<'_>, scratch: &mut Scratch) {
    match work.suite() {
        Suite::Agree(Agreement::Ecdh(name)) => with_curve!(name, agree::run, (kernels.binary, work, scratch), {}),
        Suite::Sign(Signature::Ecdsa(name)) => with_curve!(name, sign::run, (kernels, work, scratch), {}),
        _ => {}
    }
}
