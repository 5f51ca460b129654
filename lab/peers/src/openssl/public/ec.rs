//! ECDSA (FIPS 186-5) and ECDH (SEC 1, 3.3.1) on prime and binary curves.
//!
//! On binary curves, whose cofactor is 2 or 4, neither is multiplied by it nor the order of a public value examined, as OpenSSL's
//! users do by default.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Curve, Digest};
use ciphermill_contract::{Direction, Error, KeyMaterial, OpBuffers, OpStatus, Result, Suite};
use openssl::bn::{BigNum, BigNumContext, BigNumRef};
use openssl::ec::{EcKey, EcPoint};
use openssl::ecdsa::EcdsaSig;
use openssl::error::ErrorStack;
use openssl::pkey::{Private, Public};
use openssl::sha::{Sha256, Sha384, Sha512};

use super::{BAD_PUBLIC_VALUE, Context, Key, NoPrivateKey, Pair, unreadable};

/// The first byte of an uncompressed point (SEC 1, 2.3.3).
const UNCOMPRESSED: u8 = 4;

/// A key on a curve: the private key, where there is one, and the public one.
pub(crate) struct EcPair {
    pub(crate) private: Option<EcKey<Private>>,
    pub(crate) public: EcKey<Public>,
    curve: Curve,
}

impl EcPair {
    /// Parses a key whose curve the contract has looked at.
    pub(crate) fn parse(key: &KeyMaterial<'_>, suite: Suite, curve: Curve) -> Result<EcPair> {
        let parse = || {
            let pair = Pair::of_der(key)?;
            let private = pair.private.map(|private| private.ec_key()).transpose()?;
            let public = pair.public.ec_key()?;
            private.as_ref().map_or_else(|| public.check_key(), |private| private.check_key())?;
            Ok(EcPair { private, public, curve })
        };
        parse().map_err(unreadable(suite))
    }
}

struct SignatureKey(EcPair);

/// Parses a key for signatures.
///
/// # Errors
/// `Refused`: `Encoding` when OpenSSL does not read it, when the point is not on the curve or is not the scalar's.
pub(super) fn signature(key: &KeyMaterial<'_>, suite: Suite, curve: Curve) -> Result<Box<dyn Key>> {
    Ok(Box::new(SignatureKey(EcPair::parse(key, suite, curve)?)))
}

impl Key for SignatureKey {
    fn context(&self, direction: Direction) -> std::result::Result<Box<dyn Context>, ErrorStack> {
        let EcPair { private, public, curve } = &self.0;
        Ok(match (direction, private) {
            (Direction::Encrypt, None) => Box::new(NoPrivateKey),
            (Direction::Encrypt, Some(private)) => Box::new(Signer { key: private.clone(), curve: *curve }),
            (Direction::Decrypt, _) => Box::new(Verifier { key: public.clone(), curve: *curve }),
        })
    }
}

/// Gives `work` the digest that the curve signs.
pub(crate) fn with_digest<R>(curve: Curve, input: &[u8], work: impl FnOnce(&[u8]) -> R) -> R {
    macro_rules! finished {
        ($sha:ident) => {{
            let mut sha = $sha::new();
            sha.update(input);
            work(&sha.finish())
        }};
    }
    match curve.digest() {
        Digest::Sha384 => finished!(Sha384),
        Digest::Sha512 => finished!(Sha512),
        _ => finished!(Sha256),
    }
}

struct Signer {
    key: EcKey<Private>,
    curve: Curve,
}

impl Context for Signer {
    fn run(&mut self, op: &mut OpBuffers<'_>) -> OpStatus {
        let len = self.curve.order_len();
        let Some((r, s)) = op.tag.get_mut(..2 * len).map(|tag| tag.split_at_mut(len)) else {
            return OpStatus::EngineFault;
        };
        let signature = with_digest(self.curve, op.input, |digest| EcdsaSig::sign(digest, &self.key));
        let Ok(signature) = signature else { return OpStatus::EngineFault };
        match write(signature.r(), r).and_then(|()| write(signature.s(), s)) {
            Some(()) => OpStatus::Done,
            None => OpStatus::EngineFault,
        }
    }
}

/// Writes a number big-endian, padded on the left.
fn write(number: &BigNumRef, out: &mut [u8]) -> Option<()> {
    let bytes = number.to_vec_padded(i32::try_from(out.len()).ok()?).ok()?;
    out.copy_from_slice(bytes.get(..out.len())?);
    Some(())
}

struct Verifier {
    key: EcKey<Public>,
    curve: Curve,
}

impl Context for Verifier {
    fn run(&mut self, op: &mut OpBuffers<'_>) -> OpStatus {
        let Some((r, s)) = op.tag.split_at_checked(self.curve.order_len()) else { return OpStatus::EngineFault };
        let number = |bytes: &[u8]| BigNum::from_slice(bytes);
        let signature = number(r).and_then(|r| EcdsaSig::from_private_components(r, number(s)?));
        let Ok(signature) = signature else { return OpStatus::EngineFault };
        match with_digest(self.curve, op.input, |digest| signature.verify(digest, &self.key)) {
            Ok(true) => OpStatus::Done,
            _ => OpStatus::AuthFailed,
        }
    }
}

struct AgreementKey(EcKey<Private>);

/// Parses a private key for agreements.
///
/// # Errors
/// As [`signature`].
pub(super) fn agreement(key: &KeyMaterial<'_>, suite: Suite, curve: Curve) -> Result<Box<dyn Key>> {
    let private = EcPair::parse(key, suite, curve)?.private.ok_or(Error::key(suite, KeyProblem::Form))?;
    Ok(Box::new(AgreementKey(private)))
}

impl Key for AgreementKey {
    fn context(&self, _direction: Direction) -> std::result::Result<Box<dyn Context>, ErrorStack> {
        let (key, context) = (self.0.clone(), BigNumContext::new()?);
        let product = EcPoint::new(key.group())?;
        Ok(Box::new(Agreement { key, context, product, x: BigNum::new()?, y: BigNum::new()? }))
    }
}

/// What an agreement needs, kept from one to the next.
struct Agreement {
    key: EcKey<Private>,
    context: BigNumContext,
    product: EcPoint,
    x: BigNum,
    y: BigNum,
}

impl Context for Agreement {
    fn run(&mut self, op: &mut OpBuffers<'_>) -> OpStatus {
        let Agreement { key, context, product, x, y } = self;
        let group = key.group();
        if op.input.first() != Some(&UNCOMPRESSED) {
            return BAD_PUBLIC_VALUE;
        }
        // Takes points on the curve only.
        let Ok(peer) = EcPoint::from_bytes(group, op.input, context) else { return BAD_PUBLIC_VALUE };
        if product.mul2(group, &peer, key.private_key(), context).is_err() {
            return OpStatus::EngineFault;
        }
        // On binary curves there are points whose multiples reach it.
        if product.is_infinity(group) {
            return BAD_PUBLIC_VALUE;
        }
        match product.affine_coordinates(group, x, y, context).ok().and_then(|()| write(x, op.data)) {
            Some(()) => OpStatus::Done,
            None => OpStatus::EngineFault,
        }
    }
}
