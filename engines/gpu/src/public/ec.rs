//! Elliptic curves: ECDSA (FIPS 186-5, 6.4) and ECDH (NIST SP 800-56A, 5.7.1.2) over P-256, and X25519 (RFC 7748).
//!
//! The device multiplies points; what is modulo the order of the group is done here, by the p256 crate, and so are all checks
//! of what comes in. Signing costs the host the nonce, an inverse and two products, verifying an inverse and two products.
//!
//! Nonces are RFC 6979's with 32 fresh random bytes as its additional data (3.6): two signatures of one message have nonces of
//! their own, so that a device which gives a wrong point for one of them betrays nothing of the key. A point that is not on
//! the curve is a fault. A wrong one that is on it makes a signature that does not verify, which is not found out here.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{KeyForm, KeyMaterial, OpStatus, Reason};
use p256::ecdsa::{Signature, SigningKey, VerifyingKey};
use p256::elliptic_curve::ops::Reduce;
use p256::elliptic_curve::pkcs8::der::Decode;
use p256::elliptic_curve::pkcs8::{AssociatedOid, PrivateKeyInfoRef, SubjectPublicKeyInfoRef};
use p256::elliptic_curve::subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use p256::elliptic_curve::{ALGORITHM_OID, Curve};
use p256::{FieldBytes, NistP256, PublicKey, Scalar, SecretKey, U256};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use super::around::{Around, Out, Shape, View};
use crate::keys::Halves;
use crate::program::Program;

/// Bytes of a coordinate or scalar.
const LEN: usize = 32;

/// Bytes of a scalar of 258 bits, in words.
const LADDER_LEN: usize = 36;

/// Bytes of additional randomness of a nonce.
const HEDGE_LEN: usize = 32;

/// The first byte of an uncompressed point (SEC 1, 2.3.3), and its length.
const UNCOMPRESSED: u8 = 4;
const POINT_LEN: usize = 1 + 2 * LEN;

/// The public value that an operation brings along is malformed or not in the group.
const BAD_PUBLIC_VALUE: OpStatus = OpStatus::BadInput(Reason::BadPublicValue);

/// Prepares a key for ECDSA over P-256: the device gets the public point.
///
/// # Errors
/// `Parameters` for another algorithm or curve, `Encoding` when the key does not parse, its point is not on the curve or
/// does not belong to its scalar.
pub(super) fn prepare_ecdsa(key: &KeyMaterial<'_>) -> Result<Halves, KeyProblem> {
    let pair = match key.form {
        KeyForm::Private => {
            let private = SigningKey::try_from(private_info(key)?).map_err(|_| KeyProblem::Encoding)?;
            EcdsaKey { public: *private.verifying_key(), private: Some(private) }
        }
        _ => {
            let info = SubjectPublicKeyInfoRef::from_der(key.bytes).map_err(|_| KeyProblem::Encoding)?;
            is_p256(info.algorithm.oid == ALGORITHM_OID, info.algorithm.parameters_oid().ok())?;
            EcdsaKey { public: VerifyingKey::try_from(info).map_err(|_| KeyProblem::Encoding)?, private: None }
        }
    };
    let point: PublicKey = pair.public.into();
    let mut device = Zeroizing::new(vec![0; 2 * LEN]);
    put_point(&mut device, &point.to_sec1_bytes()).ok_or(KeyProblem::Encoding)?;
    Ok(Halves { device, host: Some(Box::new(pair)) })
}

/// Prepares a private key for ECDH over P-256: the device gets the scalar.
///
/// # Errors
/// As [`prepare_ecdsa`].
pub(super) fn prepare_ecdh(key: &KeyMaterial<'_>) -> Result<Halves, KeyProblem> {
    let secret = SecretKey::try_from(private_info(key)?).map_err(|_| KeyProblem::Encoding)?;
    let scalar = Zeroizing::new(*secret.to_nonzero_scalar());
    let mut device = Zeroizing::new(vec![0; LADDER_LEN]);
    // A scalar that is turned has the same x.
    put_ladder_scalar(&mut device, &scalar);
    Ok(Halves { device, host: Some(Box::new(EcdhKey)) })
}

/// Prepares a scalar for X25519.
///
/// # Errors
/// `Length`.
pub(super) fn prepare_x25519(key: &KeyMaterial<'_>) -> Result<Halves, KeyProblem> {
    if key.bytes.len() != LEN {
        return Err(KeyProblem::Length);
    }
    let mut device = Zeroizing::new(key.bytes.to_vec());
    // RFC 7748, 5: clamped.
    device[0] &= 248;
    device[LEN - 1] = device[LEN - 1] & 127 | 64;
    Ok(Halves { device, host: Some(Box::new(X25519Key)) })
}

fn private_info<'k>(key: &KeyMaterial<'k>) -> Result<PrivateKeyInfoRef<'k>, KeyProblem> {
    let info = PrivateKeyInfoRef::from_der(key.bytes).map_err(|_| KeyProblem::Encoding)?;
    is_p256(info.algorithm.oid == ALGORITHM_OID, info.algorithm.parameters_oid().ok())?;
    Ok(info)
}

/// RFC 5480, 2.1.1: an elliptic curve's key with this named curve.
fn is_p256(is_curve: bool, named: Option<p256::pkcs8::ObjectIdentifier>) -> Result<(), KeyProblem> {
    if is_curve && named == Some(NistP256::OID) { Ok(()) } else { Err(KeyProblem::Parameters) }
}

/// An ECDSA key pair or its public half.
pub(super) struct EcdsaKey {
    private: Option<SigningKey>,
    public: VerifyingKey,
}

/// The scalar is on the device; nothing of it is needed here.
pub(super) struct EcdhKey;

/// The same.
pub(super) struct X25519Key;

/// Signs with ECDSA.
pub(super) struct Sign;

/// What a signature needs again when its point is there.
#[derive(Default)]
pub(super) struct Nonce {
    scalar: Scalar,
    digest: FieldBytes,
}

impl Drop for Nonce {
    fn drop(&mut self) {
        self.scalar.zeroize();
    }
}

impl Around for Sign {
    type Key = EcdsaKey;
    type Kept = Nonce;

    fn shape(&self) -> Shape {
        Shape {
            program: Program::P256,
            kernel: "base",
            items: 1,
            input_len: LEN,
            output_len: 2 * LEN,
            scratch_words: 0,
            host_ns: 20_000,
        }
    }

    fn before(&self, op: &View<'_>, key: &EcdsaKey, nonce: &mut Nonce, place: &mut [u8]) -> Result<(), OpStatus> {
        let private = key.private.as_ref().ok_or(OpStatus::Refused(Reason::KeyUnsuitable))?;
        nonce.digest = Sha256::digest(op.input);
        nonce.scalar = draw(private, &nonce.digest).ok_or(OpStatus::EngineFault)?;
        // The kernel takes odd scalars. The negative's point has the same x.
        let odd = Zeroizing::new(Scalar::conditional_select(&nonce.scalar, &-nonce.scalar, nonce.scalar.is_even()));
        put_number(place, &Zeroizing::new(odd.to_bytes()));
        Ok(())
    }

    fn after(&self, _: &View<'_>, key: &EcdsaKey, nonce: &mut Nonce, result: &[u8], out: &mut Out<'_>) -> OpStatus {
        let Some(private) = &key.private else { return OpStatus::EngineFault };
        let Some(x) = checked_x(result) else { return OpStatus::EngineFault };
        let r = Scalar::reduce(&x);
        let z = Scalar::reduce(&nonce.digest);
        let Some(inverse) = Option::<Scalar>::from(nonce.scalar.invert()).map(Zeroizing::new) else {
            return OpStatus::EngineFault;
        };
        let sum: Zeroizing<Scalar> = Zeroizing::new(z + r * **private.as_nonzero_scalar());
        let s = *inverse * *sum;
        // FIPS 186-5, 6.4.1, step 11: where one of them is zero, once more.
        let Ok(signature) = Signature::from_scalars(r, s) else { return OpStatus::Pending };
        let Some(place) = out.tag.get_mut(..2 * LEN) else { return OpStatus::EngineFault };
        place.copy_from_slice(&signature.to_bytes());
        out.tag_len = 2 * LEN;
        OpStatus::Done
    }
}

/// A fresh nonce; `None` where the operating system has no randomness.
fn draw(private: &SigningKey, digest: &FieldBytes) -> Option<Scalar> {
    let mut hedge = Zeroizing::new([0; HEDGE_LEN]);
    getrandom::fill(&mut *hedge).ok()?;
    let secret = Zeroizing::new(private.to_bytes());
    let mut bytes = Zeroizing::new(FieldBytes::default());
    // It gives numbers from one to the order.
    rfc6979::KGenerator::<Sha256, U256>::new(&secret, digest, &*hedge, &NistP256::ORDER).fill_next_k(&mut bytes);
    Some(Scalar::reduce(&*bytes))
}

/// Verifies with ECDSA.
pub(super) struct Verify;

/// What is compared in the end.
#[derive(Default)]
pub(super) struct Claim(Option<Signature>);

impl Around for Verify {
    type Key = EcdsaKey;
    type Kept = Claim;

    fn shape(&self) -> Shape {
        Shape {
            program: Program::P256Verify,
            kernel: "verify",
            items: 1,
            input_len: LEN + LADDER_LEN + 4,
            output_len: 2 * LEN,
            scratch_words: 0,
            host_ns: 15_000,
        }
    }

    fn before(&self, op: &View<'_>, _: &EcdsaKey, claim: &mut Claim, place: &mut [u8]) -> Result<(), OpStatus> {
        // Numbers of zero or beyond the order do not parse (FIPS 186-5, 6.4.2).
        let signature = Signature::from_slice(op.tag).map_err(|_| OpStatus::AuthFailed)?;
        let (r, s) = signature.split_scalars();
        let z = Scalar::reduce(&Sha256::digest(op.input));
        let inverse = Option::<Scalar>::from(s.as_ref().invert_vartime()).ok_or(OpStatus::EngineFault)?;
        let (u1, u2) = (z * inverse, *r * inverse);
        claim.0 = Some(signature);
        let (first, rest) = place.split_at_mut(LEN);
        let (second, sign) = rest.split_at_mut(LADDER_LEN);
        let is_even = u1.is_even();
        if bool::from(is_even) && bool::from(u1.ct_eq(&Scalar::ZERO)) {
            // Zero's odd form is the order itself.
            put_number(first, &NistP256::ORDER.to_be_bytes());
        } else {
            put_number(first, &Scalar::conditional_select(&u1, &-u1, is_even).to_bytes());
        }
        let is_turned = put_ladder_scalar(second, &u2);
        sign[0] = (is_even ^ is_turned).unwrap_u8();
        Ok(())
    }

    fn after(&self, op: &View<'_>, key: &EcdsaKey, claim: &mut Claim, result: &[u8], _: &mut Out<'_>) -> OpStatus {
        let Some(signature) = &claim.0 else { return OpStatus::EngineFault };
        if result.iter().all(|byte| *byte == 0) {
            // Points at infinity and doublings on the way, which only signatures that were made for it lead to.
            return verdict(p256::ecdsa::signature::Verifier::verify(&key.public, op.input, signature).is_ok());
        }
        let Some(x) = checked_x(result) else { return OpStatus::EngineFault };
        verdict(Scalar::reduce(&x) == *signature.r())
    }
}

fn verdict(is_good: bool) -> OpStatus {
    if is_good { OpStatus::Done } else { OpStatus::AuthFailed }
}

/// Agrees by ECDH.
pub(super) struct Ecdh;

impl Around for Ecdh {
    type Key = EcdhKey;
    type Kept = ();

    fn shape(&self) -> Shape {
        Shape {
            program: Program::P256,
            kernel: "agree",
            items: 1,
            input_len: 2 * LEN,
            output_len: LEN,
            scratch_words: 0,
            host_ns: 2_000,
        }
    }

    fn before(&self, op: &View<'_>, _: &EcdhKey, (): &mut (), place: &mut [u8]) -> Result<(), OpStatus> {
        // Points off the curve and the point at infinity do not parse; the cofactor is one.
        if op.input.first() != Some(&UNCOMPRESSED) || PublicKey::from_sec1_bytes(op.input).is_err() {
            return Err(BAD_PUBLIC_VALUE);
        }
        put_point(place, op.input).ok_or(BAD_PUBLIC_VALUE)
    }

    fn after(&self, _: &View<'_>, _: &EcdhKey, (): &mut (), result: &[u8], out: &mut Out<'_>) -> OpStatus {
        put_number(out.data, result);
        OpStatus::Done
    }
}

/// Agrees by X25519.
pub(super) struct X25519;

impl Around for X25519 {
    type Key = X25519Key;
    type Kept = ();

    fn shape(&self) -> Shape {
        Shape {
            program: Program::X25519,
            kernel: "agree",
            items: 1,
            input_len: LEN,
            output_len: LEN,
            scratch_words: 0,
            host_ns: 200,
        }
    }

    fn before(&self, op: &View<'_>, _: &X25519Key, (): &mut (), place: &mut [u8]) -> Result<(), OpStatus> {
        if op.input.len() != LEN {
            return Err(BAD_PUBLIC_VALUE);
        }
        place.copy_from_slice(op.input);
        Ok(())
    }

    fn after(&self, _: &View<'_>, _: &X25519Key, (): &mut (), result: &[u8], out: &mut Out<'_>) -> OpStatus {
        // RFC 7748, 6.1: a peer of small order leads to zero. Looked for without a branch on the way.
        if result.iter().fold(0, |any, byte| any | byte) == 0 {
            return BAD_PUBLIC_VALUE;
        }
        out.data.copy_from_slice(result);
        OpStatus::Done
    }
}

/// Turns a number's bytes round: the device has the least significant first.
fn put_number(to: &mut [u8], number: &[u8]) {
    for (to, from) in to.iter_mut().zip(number.iter().rev()) {
        *to = *from;
    }
}

/// The device's form of an uncompressed point: x, then y.
fn put_point(to: &mut [u8], point: &[u8]) -> Option<()> {
    let (x, y) = point.get(1..POINT_LEN)?.split_at(LEN);
    let (to_x, to_y) = to.split_at_mut_checked(LEN)?;
    put_number(to_x, x);
    put_number(to_y, y);
    Some(())
}

/// The x, most significant byte first, of a point that the device gave; `None` where that is not on the curve.
fn checked_x(result: &[u8]) -> Option<FieldBytes> {
    let (x, y) = result.split_at_checked(LEN)?;
    let mut point = [UNCOMPRESSED; POINT_LEN];
    put_number(&mut point[1..=LEN], x);
    put_number(&mut point[1 + LEN..], y);
    PublicKey::from_sec1_bytes(&point).ok()?;
    FieldBytes::try_from(&point[1..=LEN]).ok()
}

/// A scalar's form for the ladder (`kernels/ec/ladder.h`): itself plus two or three times the order, whichever has 258 bits.
/// The ladder does not take the order minus one, which becomes one; whether it did is given back.
fn put_ladder_scalar(to: &mut [u8], scalar: &Scalar) -> Choice {
    let is_last = scalar.ct_eq(&-Scalar::ONE);
    let scalar = Zeroizing::new(Scalar::conditional_select(scalar, &Scalar::ONE, is_last));
    let bytes = Zeroizing::new(scalar.to_bytes());
    let order = NistP256::ORDER.to_be_bytes();
    let (mut twice, mut thrice) = (Zeroizing::new([0; LADDER_LEN]), Zeroizing::new([0; LADDER_LEN]));
    let (mut carry_twice, mut carry_thrice) = (0u16, 0u16);
    for at in 0..LADDER_LEN {
        let of = |number: &[u8]| if at < LEN { u16::from(number[LEN - 1 - at]) } else { 0 };
        carry_twice += of(&bytes) + 2 * of(&order);
        carry_thrice += of(&bytes) + 3 * of(&order);
        (twice[at], carry_twice) = (carry_twice as u8, carry_twice >> 8);
        (thrice[at], carry_thrice) = (carry_thrice as u8, carry_thrice >> 8);
    }
    // Bit 257 is the second of the last byte.
    let is_long = Choice::from(twice[LEN] >> 1 & 1);
    for (to, (thrice, twice)) in to.iter_mut().zip(thrice.iter().zip(twice.iter())) {
        *to = u8::conditional_select(thrice, twice, is_long);
    }
    is_last
}
