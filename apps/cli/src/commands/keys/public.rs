//! Public keys as other programs take them: SubjectPublicKeyInfo (RFC 5280, 4.1.2.7).

use anyhow::{anyhow, bail};
use ciphermill_contract::suite::{Agreement, Curve, Kem, MlDsaSet, Signature};
use ciphermill_contract::{Batch, Direction, KeyForm, KeyId, KeyMaterial, Op, QueueHint, Span, Suite};
use ml_dsa::{ExpandedSigningKey, MlDsa44, MlDsa65, MlDsa87, MlDsaParams, Seed};
use ml_kem::kem::{DecapsulationKey, Decapsulator, EncapsulationKey, Kem as KemSet, KeyExport};
use ml_kem::{KeyInit, MlKem512, MlKem768, MlKem1024};
use pkcs8::der::Encode;
use pkcs8::der::asn1::BitStringRef;
use pkcs8::der::pem::LineEnding;
use pkcs8::spki::{AlgorithmIdentifierRef, EncodePublicKey, SubjectPublicKeyInfoRef};
use pkcs8::{DecodePrivateKey, ObjectIdentifier};
use zeroize::{Zeroize, Zeroizing};

/// The engine that says whether a key suits its suite, and makes its public half: it runs every suite, on every machine.
pub(super) const CHECKING_ENGINE: &str = "reference";

/// The algorithm of the suites whose keys the contract has raw: RFC 8410 (X25519, X448, Ed25519), RFC 9881 (ML-DSA),
/// RFC 9935 (ML-KEM).
pub(super) fn object_identifier(suite: Suite) -> Option<ObjectIdentifier> {
    Some(ObjectIdentifier::new_unwrap(match suite {
        Suite::Agree(Agreement::X25519) => "1.3.101.110",
        Suite::Agree(Agreement::X448) => "1.3.101.111",
        Suite::Sign(Signature::Ed25519 | Signature::Ed25519Cofactored) => "1.3.101.112",
        Suite::Sign(Signature::MlDsa(MlDsaSet::MlDsa44)) => "2.16.840.1.101.3.4.3.17",
        Suite::Sign(Signature::MlDsa(MlDsaSet::MlDsa65)) => "2.16.840.1.101.3.4.3.18",
        Suite::Sign(Signature::MlDsa(MlDsaSet::MlDsa87)) => "2.16.840.1.101.3.4.3.19",
        Suite::Kem(Kem::MlKem512) => "2.16.840.1.101.3.4.4.1",
        Suite::Kem(Kem::MlKem768) => "2.16.840.1.101.3.4.4.2",
        Suite::Kem(Kem::MlKem1024) => "2.16.840.1.101.3.4.4.3",
        _ => return None,
    }))
}

/// The public key of a key pair in DER.
pub(crate) fn info(suite: Suite, key: KeyMaterial<'_>) -> anyhow::Result<Vec<u8>> {
    let unsound = || anyhow!("the keystore's private key is none of {suite}");
    match (key.form, object_identifier(suite)) {
        (KeyForm::Secret, _) => bail!("a secret key has no public half"),
        (KeyForm::Reference, _) => bail!("the key is elsewhere, and only its name is here"),
        (KeyForm::Public, Some(algorithm)) => encode(algorithm, key.bytes),
        (KeyForm::Public, None) => Ok(key.bytes.to_vec()),
        (KeyForm::Private, Some(algorithm)) => encode(algorithm, &raw_public(suite, key.bytes).ok_or_else(unsound)?),
        (KeyForm::Private, None) => encoded_public(suite, key.bytes),
    }
}

/// DER as PEM (RFC 7468, section 13).
pub(super) fn pem(der: &[u8]) -> anyhow::Result<String> {
    pkcs8::der::pem::encode_string("PUBLIC KEY", LineEnding::LF, der).map_err(|error| anyhow!("PEM: {error}"))
}

fn encode(oid: ObjectIdentifier, raw: &[u8]) -> anyhow::Result<Vec<u8>> {
    let subject_public_key = BitStringRef::from_bytes(raw)?;
    Ok(SubjectPublicKeyInfoRef { algorithm: AlgorithmIdentifierRef { oid, parameters: None }, subject_public_key }
        .to_der()?)
}

/// The public key of a seed or scalar.
fn raw_public(suite: Suite, private: &[u8]) -> Option<Vec<u8>> {
    let scalar = || Some(Zeroizing::new(<[u8; 32]>::try_from(private).ok()?));
    Some(match suite {
        Suite::Agree(Agreement::X25519) => {
            x25519_dalek::PublicKey::from(&x25519_dalek::StaticSecret::from(*scalar()?)).to_bytes().to_vec()
        }
        Suite::Agree(Agreement::X448) => x448_public(private)?,
        Suite::Sign(Signature::Ed25519 | Signature::Ed25519Cofactored) => {
            ed25519_dalek::SigningKey::from_bytes(&*scalar()?).verifying_key().to_bytes().to_vec()
        }
        Suite::Sign(Signature::MlDsa(set)) => match set {
            MlDsaSet::MlDsa44 => ml_dsa_public::<MlDsa44>(private)?,
            MlDsaSet::MlDsa65 => ml_dsa_public::<MlDsa65>(private)?,
            MlDsaSet::MlDsa87 => ml_dsa_public::<MlDsa87>(private)?,
        },
        Suite::Kem(kem) => match kem {
            Kem::MlKem512 => ml_kem_public::<MlKem512>(private)?,
            Kem::MlKem768 => ml_kem_public::<MlKem768>(private)?,
            Kem::MlKem1024 => ml_kem_public::<MlKem1024>(private)?,
        },
        _ => return None,
    })
}

/// What a scalar agrees on with the base point, whose coordinate is five (RFC 7748, 6.2).
fn x448_public(scalar: &[u8]) -> Option<Vec<u8>> {
    let suite = Suite::Agree(Agreement::X448);
    let engine = ciphermill_engines::open(CHECKING_ENGINE)?.ok()?;
    let key = engine.prepare(&KeyMaterial::private(scalar), suite).ok()?;
    let mut arena = [0; 112];
    arena[0] = 5;
    let id = KeyId { slot: 0, generation: 1 };
    let mut ops = [Op { key: id, input: Span::new(0, 56), output: 56, ..Op::default() }];
    let mut batch = Batch::new(suite, Direction::Encrypt, &mut ops, &mut arena).check().ok()?;
    engine.queue(QueueHint::default()).ok()?.run(&mut batch.attach_keys(&[Some(&key)]).ok()?);
    ops[0].status.is_done().then(|| arena[56..].to_vec())
}

fn ml_dsa_public<P: MlDsaParams>(private: &[u8]) -> Option<Vec<u8>> {
    let mut seed = Seed::try_from(private).ok()?;
    let key = Box::new(ExpandedSigningKey::<P>::from_seed(&seed));
    seed.as_mut_slice().zeroize();
    Some(key.verifying_key().encode().to_vec())
}

fn ml_kem_public<K>(private: &[u8]) -> Option<Vec<u8>>
where
    K: KemSet,
    DecapsulationKey<K>: KeyInit + Decapsulator<Kem = K>,
    EncapsulationKey<K>: KeyExport,
{
    let key = DecapsulationKey::<K>::new_from_slice(private).ok()?;
    Some(key.encapsulation_key().to_bytes().to_vec())
}

/// The public key of a PKCS#8 private key.
fn encoded_public(suite: Suite, private: &[u8]) -> anyhow::Result<Vec<u8>> {
    let curve = match suite {
        Suite::Sign(Signature::Rsa(..)) | Suite::PublicEncrypt(_) => {
            return Ok(rsa::RsaPrivateKey::from_pkcs8_der(private)?.to_public_key().to_public_key_der()?.into_vec());
        }
        Suite::Sign(Signature::Ecdsa(curve) | Signature::EcdsaDigest(curve)) | Suite::Agree(Agreement::Ecdh(curve)) => {
            curve
        }
        _ => bail!("{suite}: its public keys have no form that other programs take"),
    };
    let der = match curve {
        Curve::P256 => p256::SecretKey::from_pkcs8_der(private)?.public_key().to_public_key_der()?,
        Curve::P384 => p384::SecretKey::from_pkcs8_der(private)?.public_key().to_public_key_der()?,
        Curve::P521 => p521::SecretKey::from_pkcs8_der(private)?.public_key().to_public_key_der()?,
        _ => return kept_public(suite, curve, private),
    };
    Ok(der.into_vec())
}

/// The public key that a private one on a curve has with it (RFC 5915, 3), which engines compare with the scalar when they prepare it.
fn kept_public(suite: Suite, curve: Curve, private: &[u8]) -> anyhow::Result<Vec<u8>> {
    let info = pkcs8::PrivateKeyInfoRef::try_from(private)?;
    let key = info.private_key.as_bytes();
    // The last element, uncompressed. A key without it is shorter than such a point.
    let at = key.len().checked_sub(1 + 2 * curve.field_len());
    let point = at.and_then(|at| key.get(at..)).filter(|point| point.first() == Some(&4));
    let subject_public_key = BitStringRef::from_bytes(
        point.ok_or_else(|| anyhow!("{suite}: the private key has no uncompressed public key with it"))?,
    )?;
    Ok(SubjectPublicKeyInfoRef { algorithm: info.algorithm, subject_public_key }.to_der()?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ciphermill_vectors::keys::{pair_name, pairs};

    use super::*;

    /// The public keys that the vectors have for every kind of key pair.
    #[test]
    fn public_keys_are_those_of_the_vectors() {
        let mut kinds = BTreeSet::new();
        for suite in Suite::all().filter(|suite| suite.is_public_key()) {
            let is_exponent = matches!(suite, Suite::Agree(Agreement::Dh(_)));
            let Some(name) = pair_name(suite).filter(|_| !is_exponent) else { continue };
            for pair in pairs(&name) {
                let derived = info(suite, KeyMaterial::private(&pair.private)).unwrap();
                let wrapped = info(suite, KeyMaterial::public(&pair.public)).unwrap();
                // An X25519 key pair's public half is masked as RFC 7748 says wherever it is used.
                assert_eq!(derived, wrapped, "{suite}");
                assert!(derived.ends_with(&pair.public) || derived == pair.public, "{suite}");
            }
            kinds.insert(name);
        }
        assert!(kinds.len() >= 15, "{kinds:?}");
    }

    /// RFC 8410, sections 10.1 and 10.3.
    #[test]
    fn pem_is_that_of_the_standard() {
        let private = hex::decode("d4ee72dbf913584ad5b6d8f1f769f8ad3afe7c28cbf1d4fbe097a88f44755842").unwrap();
        let der = info("ed25519".parse().unwrap(), KeyMaterial::private(&private)).unwrap();
        assert_eq!(
            pem(&der).unwrap(),
            "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n"
        );
    }

    #[test]
    fn what_has_no_public_half_is_refused() {
        for (name, key) in [
            ("aes-256-gcm", KeyMaterial::secret(&[7; 32])),
            ("ed25519", KeyMaterial::private(&[7; 31])),
            ("ecdsa-p256", KeyMaterial::private(&[7; 32])),
            ("dh-ffdhe2048", KeyMaterial::private(&[7; 32])),
        ] {
            assert!(info(name.parse().unwrap(), key).is_err(), "{name}");
        }
    }
}
