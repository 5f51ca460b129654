//! Finite-field Diffie-Hellman (NIST SP 800-56A, 5.7.1.1) in the groups of RFC 7919 and of IKE (RFC 2409, RFC 3526).

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::DhGroup;
use ciphermill_contract::{KeyMaterial, OpBuffers, OpStatus, PreparedKey, Result};
use ciphermill_pairs::dh::prime;
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd, U8192};
use zeroize::Zeroizing;

use super::{BAD_PUBLIC_VALUE, Outcome, put_output, state};

/// A private exponent and its group in Montgomery form. The exponent is as wide as its encoding, whose length is no
/// secret; exponentiation takes the same steps for all exponents of a width.
struct DhKey {
    group: DhGroup,
    params: BoxedMontyParams,
    exponent: Zeroizing<BoxedUint>,
}

/// Prepares a private exponent.
///
/// # Errors
/// `Parameters` when it is not below the order `(p - 1) / 2`. The contract has refused zero.
pub(super) fn prepare(key: &KeyMaterial<'_>, group: DhGroup) -> Result<PreparedKey, KeyProblem> {
    let exponent = Zeroizing::new(number(key.bytes).ok_or(KeyProblem::Length)?);
    let prime = number(prime(group)).ok_or(KeyProblem::Parameters)?;
    if *exponent >= prime.wrapping_shr(1) {
        return Err(KeyProblem::Parameters);
    }
    let prime = Odd::new(prime).into_option().ok_or(KeyProblem::Parameters)?;
    Ok(PreparedKey::new(DhKey { group, params: BoxedMontyParams::new(prime), exponent }))
}

/// Agrees with the peer whose public value is the input.
pub(super) fn agree(group: DhGroup, buffers: &mut OpBuffers<'_>) -> Outcome {
    let key: &DhKey = state(buffers)?;
    if key.group != group {
        return Err(OpStatus::EngineFault);
    }
    let peer = number(buffers.input).ok_or(BAD_PUBLIC_VALUE)?;
    // SP 800-56A, 5.6.2.3.1: 1 < y < p - 1, and y to the order is one. The order is `(p - 1) / 2`, so that this power is
    // Legendre's symbol (Euler), which takes less time.
    let last = key.params.modulus().wrapping_sub(BoxedUint::one());
    if peer <= BoxedUint::one() || peer >= last {
        return Err(BAD_PUBLIC_VALUE);
    }
    if !is_square(buffers.input, prime(group)) {
        return Err(BAD_PUBLIC_VALUE);
    }
    let power = Zeroizing::new(BoxedMontyForm::new(peer, &key.params).pow(&key.exponent));
    let shared = Zeroizing::new(power.retrieve());
    put_output(buffers, &Zeroizing::new(shared.to_be_bytes()))
}

/// Whether a public number is a square modulo a prime.
fn is_square(number: &[u8], prime: &[u8]) -> bool {
    /// A number as wide as those of the largest group.
    fn wide(bytes: &[u8]) -> Option<U8192> {
        let mut padded = [0; U8192::BYTES];
        padded.get_mut(U8192::BYTES.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
        Some(U8192::from_be_slice(&padded))
    }
    let prime = wide(prime).and_then(|prime| Odd::new(prime).into_option());
    wide(number).zip(prime).is_some_and(|(number, prime)| number.jacobi_symbol_vartime(&prime).is_one().into())
}

/// A big-endian number as wide as its encoding.
fn number(bytes: &[u8]) -> Option<BoxedUint> {
    let bits = u32::try_from(bytes.len()).ok()?.checked_mul(8)?;
    BoxedUint::from_be_slice(bytes, bits).ok()
}
