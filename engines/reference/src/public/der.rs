//! Keys in DER: PKCS#8 private keys (RFC 5958) and SubjectPublicKeyInfo (RFC 5280, 4.1), and what they say they are.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{KeyForm, KeyMaterial, Result};
use rsa::pkcs8::der::Decode;
use rsa::pkcs8::{ObjectIdentifier, PrivateKeyInfoRef, SubjectPublicKeyInfoRef};

use super::Pair;

/// What a key's algorithm identifier has to say.
#[derive(Clone, Copy)]
pub(super) enum Algorithm {
    /// `rsaEncryption` (RFC 8017, A.1); its parameters are checked where the key is built.
    Rsa,
    /// `id-ecPublicKey` with this named curve (RFC 5480, 2.1.1).
    Curve(ObjectIdentifier),
}

/// A PKCS#8 private key of an algorithm.
///
/// # Errors
/// `Encoding` when the bytes do not parse to their end, `Parameters` when they are a key of something else.
pub(super) fn private(bytes: &[u8], algorithm: Algorithm) -> Result<PrivateKeyInfoRef<'_>, KeyProblem> {
    let info = PrivateKeyInfoRef::from_der(bytes).map_err(|_| KeyProblem::Encoding)?;
    check(algorithm, info.algorithm.oid, || info.algorithm.parameters_oid().ok())?;
    Ok(info)
}

/// A SubjectPublicKeyInfo of an algorithm.
///
/// # Errors
/// As [`private`].
pub(super) fn public(bytes: &[u8], algorithm: Algorithm) -> Result<SubjectPublicKeyInfoRef<'_>, KeyProblem> {
    let info = SubjectPublicKeyInfoRef::from_der(bytes).map_err(|_| KeyProblem::Encoding)?;
    check(algorithm, info.algorithm.oid, || info.algorithm.parameters_oid().ok())?;
    Ok(info)
}

/// A key pair, or its public half, of an algorithm.
///
/// # Errors
/// As [`private`]; `Form` for symmetric keys.
pub(super) fn pair<S, V>(key: &KeyMaterial<'_>, algorithm: Algorithm) -> Result<Pair<S, V>, KeyProblem>
where
    S: for<'a> TryFrom<PrivateKeyInfoRef<'a>>,
    V: for<'a> TryFrom<SubjectPublicKeyInfoRef<'a>> + for<'a> From<&'a S>,
{
    match key.form {
        KeyForm::Private => {
            let private = S::try_from(private(key.bytes, algorithm)?).map_err(|_| KeyProblem::Encoding)?;
            Ok(Pair { public: V::from(&private), private: Some(private) })
        }
        KeyForm::Public => {
            let public = V::try_from(public(key.bytes, algorithm)?).map_err(|_| KeyProblem::Encoding)?;
            Ok(Pair { public, private: None })
        }
        KeyForm::Secret | KeyForm::Reference => Err(KeyProblem::Form),
    }
}

fn check(
    algorithm: Algorithm,
    oid: ObjectIdentifier,
    parameters: impl FnOnce() -> Option<ObjectIdentifier>,
) -> Result<(), KeyProblem> {
    let is_expected = match algorithm {
        Algorithm::Rsa => oid == rsa::pkcs1::ALGORITHM_OID,
        Algorithm::Curve(curve) => oid == p256::elliptic_curve::ALGORITHM_OID && parameters() == Some(curve),
    };
    if is_expected { Ok(()) } else { Err(KeyProblem::Parameters) }
}
