//! The curves: their constants, and what is done for each by the crate that has the curve one operation at a time.

use std::sync::OnceLock;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Digest;
use ciphermill_contract::{KeyForm, KeyMaterial};
use zeroize::Zeroizing;

use super::super::isa::LIMB_BITS;
use super::modulus::{
    FieldPrime, Modulus, P256Order, P256Prime, P384Order, P384Prime, P521Order, P521Prime, limbs, shifted,
};
use super::table::Table;

/// A curve `y² = x³ - 3 x + b` of prime order, in numbers of `L` limbs.
pub(super) trait Curve<const L: usize>: 'static {
    /// The field.
    type Prime: FieldPrime<L>;
    /// The group's order.
    type Order: Modulus<L>;
    /// A point, as the crate for this curve checks it and verifies by it.
    type Verifier: Send + Sync + 'static;
    /// Bits of the order, and of the prime but for secp160r1's, which has one less.
    const BITS: usize;
    /// Bytes of the order.
    const LEN: usize = Self::BITS.div_ceil(8);
    /// Bytes of the prime.
    const FIELD_LEN: usize = Self::LEN;
    /// The digest of messages.
    const DIGEST: Digest;
    /// The curve's `b`.
    const B: [u64; L];
    /// The generator's coordinates.
    const GENERATOR: [[u64; L]; 2];
    /// `b` in Montgomery's form.
    const B_FORM: [u64; L] = shifted(Self::B, LIMB_BITS * L as u32, <Self::Prime as Modulus<L>>::LIMBS);
    /// The generator in Montgomery's form.
    const GENERATOR_FORM: [[u64; L]; 2] = [
        shifted(Self::GENERATOR[0], LIMB_BITS * L as u32, <Self::Prime as Modulus<L>>::LIMBS),
        shifted(Self::GENERATOR[1], LIMB_BITS * L as u32, <Self::Prime as Modulus<L>>::LIMBS),
    ];

    /// The generator's multiples, which are computed once.
    fn table() -> &'static OnceLock<Table>;
    /// Takes a key for ECDSA.
    ///
    /// # Errors
    /// `Parameters` for another algorithm or curve, `Encoding` when the key does not parse, its point is not on the curve or
    /// does not belong to its scalar.
    fn pair(key: &KeyMaterial<'_>) -> Result<Pair<Self::Verifier>, KeyProblem>;
    /// Takes a private key for ECDH: its scalar.
    ///
    /// # Errors
    /// As [`Curve::pair`].
    fn secret(key: &KeyMaterial<'_>) -> Result<Zeroizing<Vec<u8>>, KeyProblem>;
    /// Verifies a digest's signature alone, whatever points lie on the way.
    fn verify(key: &Self::Verifier, digest: &[u8], signature: &[u8]) -> bool;
}

/// A key for ECDSA, taken apart.
pub(super) struct Pair<V> {
    /// The scalar of a private key, the most significant byte first.
    pub(super) secret: Option<Zeroizing<Vec<u8>>>,
    /// The public point as SEC 1 has it, not compressed.
    pub(super) point: Vec<u8>,
    /// The same for verifying.
    pub(super) verifier: V,
}

macro_rules! curve {
    ($(#[$doc:meta])* $curve:ident, $limbs:literal, $bits:literal, $prime:ident, $order:ident, $digest:ident, $crate_name:ident,
     $parameters:ident, b: $b:expr, x: $x:expr, y: $y:expr) => {
        $(#[$doc])*
        pub(super) struct $curve;

        impl Curve<$limbs> for $curve {
            type Prime = $prime;
            type Order = $order;
            type Verifier = $crate_name::ecdsa::VerifyingKey;
            const BITS: usize = $bits;
            const DIGEST: Digest = Digest::$digest;
            const B: [u64; $limbs] = limbs($b);
            const GENERATOR: [[u64; $limbs]; 2] = [limbs($x), limbs($y)];

            fn table() -> &'static OnceLock<Table> {
                static TABLE: OnceLock<Table> = OnceLock::new();
                &TABLE
            }

            fn pair(key: &KeyMaterial<'_>) -> Result<Pair<Self::Verifier>, KeyProblem> {
                use $crate_name::elliptic_curve::pkcs8::der::Decode;
                use $crate_name::elliptic_curve::pkcs8::{PrivateKeyInfoRef, SubjectPublicKeyInfoRef};
                let encoding = |_| KeyProblem::Encoding;
                let (secret, verifier) = match key.form {
                    KeyForm::Private => {
                        let info = PrivateKeyInfoRef::from_der(key.bytes).map_err(encoding)?;
                        named_curve::<$crate_name::$parameters>(&info.algorithm)?;
                        let private = $crate_name::ecdsa::SigningKey::try_from(info).map_err(|_| KeyProblem::Encoding)?;
                        (Some(Zeroizing::new(Zeroizing::new(private.to_bytes()).to_vec())), *private.verifying_key())
                    }
                    _ => {
                        let info = SubjectPublicKeyInfoRef::from_der(key.bytes).map_err(encoding)?;
                        named_curve::<$crate_name::$parameters>(&info.algorithm)?;
                        (None, Self::Verifier::try_from(info).map_err(|_| KeyProblem::Encoding)?)
                    }
                };
                Ok(Pair { secret, point: verifier.to_sec1_point(false).as_bytes().to_vec(), verifier })
            }

            fn secret(key: &KeyMaterial<'_>) -> Result<Zeroizing<Vec<u8>>, KeyProblem> {
                use $crate_name::elliptic_curve::pkcs8::PrivateKeyInfoRef;
                use $crate_name::elliptic_curve::pkcs8::der::Decode;
                let info = PrivateKeyInfoRef::from_der(key.bytes).map_err(|_| KeyProblem::Encoding)?;
                named_curve::<$crate_name::$parameters>(&info.algorithm)?;
                let secret = $crate_name::SecretKey::try_from(info).map_err(|_| KeyProblem::Encoding)?;
                Ok(Zeroizing::new(Zeroizing::new(secret.to_bytes()).to_vec()))
            }

            fn verify(key: &Self::Verifier, digest: &[u8], signature: &[u8]) -> bool {
                use $crate_name::ecdsa::signature::hazmat::PrehashVerifier;
                $crate_name::ecdsa::Signature::from_slice(signature)
                    .is_ok_and(|signature| key.verify_prehash(digest, &signature).is_ok())
            }
        }
    };
}

/// RFC 5480, 2.1.1: an elliptic curve's key with this named curve.
fn named_curve<C: p256::elliptic_curve::pkcs8::AssociatedOid>(
    algorithm: &p256::elliptic_curve::pkcs8::AlgorithmIdentifierRef<'_>,
) -> Result<(), KeyProblem> {
    let is_named = algorithm.oid == p256::elliptic_curve::ALGORITHM_OID && algorithm.parameters_oid() == Ok(C::OID);
    if is_named { Ok(()) } else { Err(KeyProblem::Parameters) }
}

curve! {
    /// P-256 (NIST SP 800-186, 3.2.1.3).
    P256, 5, 256, P256Prime, P256Order, Sha256, p256, NistP256,
    b: "5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b",
    x: "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296",
    y: "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
}

curve! {
    /// P-384 (NIST SP 800-186, 3.2.1.4).
    P384, 8, 384, P384Prime, P384Order, Sha384, p384, NistP384,
    b: concat!(
        "b3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875a",
        "c656398d8a2ed19d2a85c8edd3ec2aef"
    ),
    x: concat!(
        "aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a38",
        "5502f25dbf55296c3a545e3872760ab7"
    ),
    y: concat!(
        "3617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c0",
        "0a60b1ce1d7e819d7a431d7c90ea0e5f"
    )
}

curve! {
    /// P-521 (NIST SP 800-186, 3.2.1.5).
    P521, 11, 521, P521Prime, P521Order, Sha512, p521, NistP521,
    b: concat!(
        "0051953eb9618e1c9a1f929a21a0b68540eea2da725b99b315f3b8b489918ef1",
        "09e156193951ec7e937b1652c0bd3bb1bf073573df883d2c34f1ef451fd46b503f00"
    ),
    x: concat!(
        "00c6858e06b70404e9cd9e3ecb662395b4429c648139053fb521f828af606b4d",
        "3dbaa14b5e77efe75928fe1dc127a2ffa8de3348b3c1856a429bf97e7e31c2e5bd66"
    ),
    y: concat!(
        "011839296a789a3bc0045c8a5fb42c7d1bd998f54449579b446817afbd17273e",
        "662c97ee72995ef42640c550b9013fad0761353c7086a272c24088be94769fd16650"
    )
}
