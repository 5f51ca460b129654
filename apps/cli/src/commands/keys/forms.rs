//! Public keys in the forms of SSH and JOSE.

use anyhow::{anyhow, bail};
use base64ct::{Base64, Base64UrlUnpadded, Encoding};
use ciphermill_contract::Suite;
use ciphermill_contract::suite::{Agreement, Curve, Signature};
use p256::elliptic_curve::sec1::ToSec1Point;
use pkcs8::DecodePublicKey;
use pkcs8::der::Decode;
use pkcs8::spki::SubjectPublicKeyInfoRef;
use rsa::traits::PublicKeyParts;
use serde_json::json;

/// The line of a key in SSH's form (RFC 4253, 6.6), as it stands in `authorized_keys`, with a comment.
///
/// # Errors
/// SSH has no such keys.
pub(super) fn ssh(suite: Suite, der: &[u8], comment: &str) -> anyhow::Result<String> {
    let (name, fields) = match suite {
        Suite::Sign(Signature::Rsa(..)) => {
            let [modulus, exponent] = rsa_numbers(der)?;
            ("ssh-rsa", [positive(&exponent), positive(&modulus)].map(|number| string(&number)).concat())
        }
        // RFC 5656, 3.1.
        Suite::Sign(Signature::Ecdsa(curve) | Signature::EcdsaDigest(curve)) => {
            let (name, id) = match curve {
                Curve::P256 => ("ecdsa-sha2-nistp256", "nistp256"),
                Curve::P384 => ("ecdsa-sha2-nistp384", "nistp384"),
                Curve::P521 => ("ecdsa-sha2-nistp521", "nistp521"),
                _ => bail!("{suite}: SSH has keys on P-256, P-384 and P-521 only"),
            };
            (name, [string(id.as_bytes()), string(&point(curve, der)?)].concat())
        }
        // RFC 8709, 4.
        Suite::Sign(Signature::Ed25519 | Signature::Ed25519Cofactored) => ("ssh-ed25519", string(raw(der)?)),
        _ => bail!("{suite}: SSH has no such keys; it has RSA, ECDSA and Ed25519 keys that sign"),
    };
    let key = [string(name.as_bytes()), fields].concat();
    Ok(format!("{name} {} {comment}", Base64::encode_string(&key)))
}

/// A key as a JSON Web Key (RFC 7517), on one line.
///
/// # Errors
/// JOSE has no such keys.
pub(super) fn jwk(suite: Suite, der: &[u8]) -> anyhow::Result<String> {
    let text = |bytes: &[u8]| Base64UrlUnpadded::encode_string(bytes);
    let octet_pair = |name: &str| anyhow::Ok(json!({ "kty": "OKP", "crv": name, "x": text(raw(der)?) }));
    let key = match suite {
        // RFC 7518, 6.3.1.
        Suite::Sign(Signature::Rsa(..)) | Suite::PublicEncrypt(_) => {
            let [modulus, exponent] = rsa_numbers(der)?;
            json!({ "kty": "RSA", "n": text(&modulus), "e": text(&exponent) })
        }
        // RFC 7518, 6.2.1.
        Suite::Sign(Signature::Ecdsa(curve) | Signature::EcdsaDigest(curve)) | Suite::Agree(Agreement::Ecdh(curve)) => {
            let name = match curve {
                Curve::P256 => "P-256",
                Curve::P384 => "P-384",
                Curve::P521 => "P-521",
                _ => bail!("{suite}: JWKs are written of keys on P-256, P-384 and P-521 only"),
            };
            let point = point(curve, der)?;
            let (x, y) = point[1..].split_at(curve.field_len());
            json!({ "kty": "EC", "crv": name, "x": text(x), "y": text(y) })
        }
        // RFC 8037, 2.
        Suite::Sign(Signature::Ed25519 | Signature::Ed25519Cofactored) => octet_pair("Ed25519")?,
        Suite::Agree(Agreement::X25519) => octet_pair("X25519")?,
        Suite::Agree(Agreement::X448) => octet_pair("X448")?,
        Suite::Sign(Signature::MlDsa(_)) | Suite::Kem(_) => bail!("{suite}: JOSE's form of such keys is a draft still"),
        _ => bail!("{suite}: JOSE has no such keys"),
    };
    Ok(key.to_string())
}

/// Modulus and exponent, without zeros before them.
fn rsa_numbers(der: &[u8]) -> anyhow::Result<[Vec<u8>; 2]> {
    let key = rsa::RsaPublicKey::from_public_key_der(der)?;
    Ok([key.n().as_ref(), key.e()].map(|number| {
        let bytes = number.to_be_bytes();
        bytes.iter().copied().skip_while(|byte| *byte == 0).collect()
    }))
}

/// The uncompressed point of a key, which may be compressed itself.
fn point(curve: Curve, der: &[u8]) -> anyhow::Result<Vec<u8>> {
    Ok(match curve {
        Curve::P256 => p256::PublicKey::from_public_key_der(der)?.to_sec1_point(false).as_bytes().to_vec(),
        Curve::P384 => p384::PublicKey::from_public_key_der(der)?.to_sec1_point(false).as_bytes().to_vec(),
        Curve::P521 => p521::PublicKey::from_public_key_der(der)?.to_sec1_point(false).as_bytes().to_vec(),
        _ => bail!("public keys on {curve} are not taken apart here"),
    })
}

/// The key that stands in SubjectPublicKeyInfo as it is.
fn raw(der: &[u8]) -> anyhow::Result<&[u8]> {
    let info = SubjectPublicKeyInfoRef::from_der(der).map_err(|_| anyhow!("it is no sound public key"))?;
    Ok(info.subject_public_key.raw_bytes())
}

/// A string with its length (RFC 4251, 5).
fn string(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

/// The contents of a positive `mpint` (RFC 4251, 5): a zero stands before a first bit that is set.
fn positive(number: &[u8]) -> Vec<u8> {
    let zero: &[u8] = if number.first().is_some_and(|first| *first >= 0x80) { &[0] } else { &[] };
    [zero, number].concat()
}

#[cfg(test)]
mod tests {
    use ciphermill_contract::KeyMaterial;
    use ciphermill_vectors::keys::{pair_name, pairs};

    use super::super::public::info;
    use super::*;

    fn suite(name: &str) -> Suite {
        name.parse().unwrap()
    }

    fn public_der(suite: Suite) -> Vec<u8> {
        info(suite, KeyMaterial::public(&pairs(&pair_name(suite).unwrap())[0].public)).unwrap()
    }

    /// RFC 8037, A.2: the key of RFC 8032's first test vector.
    #[test]
    fn an_octet_pair_is_that_of_the_standard() {
        let private = hex::decode("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60").unwrap();
        let der = info(suite("ed25519"), KeyMaterial::private(&private)).unwrap();
        let key: serde_json::Value = serde_json::from_str(&jwk(suite("ed25519"), &der).unwrap()).unwrap();
        assert_eq!(key, json!({ "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" }));
    }

    #[test]
    fn keys_come_back_from_their_json() {
        let member = |key: &serde_json::Value, name: &str| {
            Base64UrlUnpadded::decode_vec(key[name].as_str().expect("a text")).expect("base64url")
        };
        for name in ["ecdsa-p256", "ecdsa-p384", "ecdsa-p521", "ecdh-p521"] {
            let suite = suite(name);
            let der = public_der(suite);
            let key: serde_json::Value = serde_json::from_str(&jwk(suite, &der).unwrap()).unwrap();
            let point = [&[4][..], &member(&key, "x"), &member(&key, "y")].concat();
            assert!(der.ends_with(&point), "{name}");
        }
        for name in ["rsa-2048-sign-pss-sha256", "rsa-4096-encrypt-oaep-sha256"] {
            let suite = suite(name);
            let der = public_der(suite);
            let key: serde_json::Value = serde_json::from_str(&jwk(suite, &der).unwrap()).unwrap();
            assert_eq!(member(&key, "e"), [1, 0, 1]);
            let modulus = member(&key, "n");
            assert!(modulus[0] >= 0x80 && der.windows(modulus.len()).any(|window| window == modulus), "{name}");
        }
    }

    #[test]
    fn what_has_no_form_is_refused() {
        for name in ["x25519", "ecdh-p256", "rsa-2048-encrypt-pkcs1", "ml-dsa-44", "ml-kem-768"] {
            let suite = suite(name);
            assert!(ssh(suite, &public_der(suite), "").is_err(), "{name}");
        }
        for name in ["ml-dsa-44", "ml-kem-768"] {
            let suite = suite(name);
            assert!(jwk(suite, &public_der(suite)).unwrap_err().to_string().contains("draft"), "{name}");
        }
    }
}
