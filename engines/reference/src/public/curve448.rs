//! X448 (RFC 7748): the ladder as section 5 writes it, over a library's modular arithmetic.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{KeyMaterial, OpBuffers, PreparedKey, Result};
use crypto_bigint::modular::ConstMontyForm;
use crypto_bigint::{Choice, CtSelect, U448, const_monty_params};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::{BAD_PUBLIC_VALUE, Outcome, put_output, state};

/// Bytes of scalars, public values and shared secrets.
const LEN: usize = 56;

/// Bits of a scalar.
const BITS: u32 = 448;

/// `(A - 2) / 4` of the curve (RFC 7748, 4.2 and 5).
const A24: u64 = 39_081;

const_monty_params!(
    Prime,
    U448,
    "fffffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "`2^448 - 2^224 - 1`."
);

type Element = ConstMontyForm<Prime, { U448::LIMBS }>;

/// A scalar, clamped (RFC 7748, 5).
#[derive(Zeroize, ZeroizeOnDrop)]
struct Scalar(U448);

/// Prepares a scalar.
///
/// # Errors
/// `Length`.
pub(super) fn prepare(key: &KeyMaterial<'_>) -> Result<PreparedKey, KeyProblem> {
    Ok(PreparedKey::new(Scalar::clamped(key.bytes).ok_or(KeyProblem::Length)?))
}

impl Scalar {
    fn clamped(bytes: &[u8]) -> Option<Scalar> {
        let mut bytes = Zeroizing::new(<[u8; LEN]>::try_from(bytes).ok()?);
        bytes[0] &= 252;
        bytes[LEN - 1] |= 128;
        Some(Scalar(U448::from_le_slice(&*bytes)))
    }
}

/// The public key of a scalar: its product with the base point, whose coordinate is five (RFC 7748, 6.2).
pub(super) fn public_of(scalar: &[u8]) -> Option<Vec<u8>> {
    let scalar = Scalar::clamped(scalar)?;
    Some(multiply(&scalar.0, &Element::new(&U448::from(5u64))).to_le_bytes().as_ref().to_vec())
}

/// Agrees with the peer whose coordinate is the input.
pub(super) fn agree(buffers: &mut OpBuffers<'_>) -> Outcome {
    let scalar: &Scalar = state(buffers)?;
    let peer = <[u8; LEN]>::try_from(buffers.input).map_err(|_| BAD_PUBLIC_VALUE)?;
    // Values that are not below the prime are taken modulo it (RFC 7748, 5).
    let shared = Zeroizing::new(multiply(&scalar.0, &Element::new(&U448::from_le_slice(&peer))));
    // RFC 7748, 6.2: a peer of small order leads to zero.
    if *shared == U448::ZERO {
        return Err(BAD_PUBLIC_VALUE);
    }
    put_output(buffers, Zeroizing::new(shared.to_le_bytes()).as_ref())
}

/// The product of a scalar and the point with the coordinate `u` (RFC 7748, 5).
fn multiply(scalar: &U448, u: &Element) -> U448 {
    let a24 = Element::new(&U448::from(A24));
    let (mut x_2, mut z_2, mut x_3, mut z_3) = (Element::ONE, Element::ZERO, *u, Element::ONE);
    let mut swap = Choice::FALSE;
    for t in (0..BITS).rev() {
        let bit = scalar.bit(t);
        swap ^= bit;
        Element::ct_swap(&mut x_2, &mut x_3, swap);
        Element::ct_swap(&mut z_2, &mut z_3, swap);
        swap = bit;
        let (a, b) = (x_2 + z_2, x_2 - z_2);
        let (aa, bb) = (a.square(), b.square());
        let e = aa - bb;
        let (c, d) = (x_3 + z_3, x_3 - z_3);
        let (da, cb) = (d * a, c * b);
        x_3 = (da + cb).square();
        z_3 = *u * (da - cb).square();
        x_2 = aa * bb;
        z_2 = e * (aa + a24 * e);
    }
    Element::ct_swap(&mut x_2, &mut x_3, swap);
    Element::ct_swap(&mut z_2, &mut z_3, swap);
    // The point at infinity has the inverse zero (RFC 7748, 5).
    let inverse = z_2.invert().unwrap_or(Element::ZERO);
    (x_2 * inverse).retrieve()
}
