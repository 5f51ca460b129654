//! Public-key suites: the host turns an operation into numbers of fixed length, the device works on them, and the host
//! turns the result into the operation's output, tag and status. A suite says how in an [`around::Around`]; `flight` does the rest.

mod around;
mod ec;
mod flight;
mod lattice;
mod rsa;
#[cfg(test)]
mod tests;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Agreement, Curve, Signature};
use ciphermill_contract::{CheckedBatch, Direction, KeyMaterial, Suite};

use crate::keys::Halves;
use crate::pipeline::Pipeline;

/// Runs a batch if its suite and direction are of those here. Operations that the device failed at are settled.
pub(crate) fn run(queue: &mut Pipeline, batch: &mut CheckedBatch<'_>) {
    match (batch.suite(), batch.direction()) {
        (Suite::Sign(Signature::Rsa(..)) | Suite::PublicEncrypt(_), _) => rsa::run(queue, batch),
        (Suite::Sign(Signature::MlDsa(set)), Direction::Encrypt) => flight::fly(queue, batch, &lattice::Sign(set)),
        (Suite::Sign(Signature::MlDsa(set)), Direction::Decrypt) => flight::fly(queue, batch, &lattice::Verify(set)),
        (Suite::Kem(kem), Direction::Encrypt) => flight::fly(queue, batch, &lattice::Encapsulate(kem)),
        (Suite::Kem(kem), Direction::Decrypt) => flight::fly(queue, batch, &lattice::Decapsulate(kem)),
        (Suite::Sign(Signature::Ecdsa(Curve::P256)), Direction::Encrypt) => flight::fly(queue, batch, &ec::Sign),
        (Suite::Sign(Signature::Ecdsa(Curve::P256)), Direction::Decrypt) => flight::fly(queue, batch, &ec::Verify),
        (Suite::Agree(Agreement::Ecdh(Curve::P256)), Direction::Encrypt) => flight::fly(queue, batch, &ec::Ecdh),
        (Suite::Agree(Agreement::X25519), Direction::Encrypt) => flight::fly(queue, batch, &ec::X25519),
        _ => {}
    }
}

/// Whether a suite is one of those that come here.
pub(crate) fn takes(suite: Suite) -> bool {
    matches!(suite, Suite::Sign(_) | Suite::PublicEncrypt(_) | Suite::Agree(_) | Suite::Kem(_))
}

/// Checks a key that [`Suite::check_key`] takes and works out its halves.
pub(crate) fn prepare(key: &KeyMaterial<'_>, suite: Suite) -> Result<Halves, KeyProblem> {
    match suite {
        Suite::Sign(Signature::MlDsa(set)) => lattice::prepare_ml_dsa(key, set),
        Suite::Kem(kem) => lattice::prepare_ml_kem(key, kem),
        Suite::Sign(Signature::Ecdsa(Curve::P256)) => ec::prepare_ecdsa(key),
        Suite::Agree(Agreement::Ecdh(Curve::P256)) => ec::prepare_ecdh(key),
        Suite::Agree(Agreement::X25519) => ec::prepare_x25519(key),
        Suite::Sign(Signature::Rsa(size, ..)) => rsa::prepare(key, size),
        Suite::PublicEncrypt(encryption) => rsa::prepare(key, encryption.size()),
        _ => Err(KeyProblem::Parameters),
    }
}
