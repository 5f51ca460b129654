//! Keys from files: raw, in hexadecimal digits, in PEM or DER.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use ciphermill_contract::limits::KEY_LEN_MAX;
use ciphermill_contract::{KeyForm, KeyMaterial, Suite};
use ciphermill_keys::keystore::{KeyKind, is_encoded_key};
use pkcs8::PrivateKeyInfoRef;
use pkcs8::der::{Decode, SecretDocument};
use pkcs8::spki::SubjectPublicKeyInfoRef;
use zeroize::Zeroizing;

use super::public::{CHECKING_ENGINE, object_identifier};

/// A key that was read, in the form that the contract has for it.
pub(super) struct ReadKey {
    bytes: Zeroizing<Vec<u8>>,
    form: KeyForm,
}

impl ReadKey {
    pub(super) fn material(&self) -> KeyMaterial<'_> {
        KeyMaterial { form: self.form, bytes: &self.bytes }
    }
}

/// Reads a key for a suite from a file or standard input. What was read is wiped, whatever becomes of it.
pub(super) fn read(file: &Path, is_hex: bool, suite: Suite) -> anyhow::Result<ReadKey> {
    let bytes = read_bytes(file, is_hex)?;
    let named = |error: anyhow::Error| error.context(format!("{} is no key for {suite}", file.display()));
    let key = if suite.is_public_key() { key_pair(bytes, suite) } else { secret_key(bytes, suite) }.map_err(named)?;
    check(&key, suite).map_err(named)?;
    Ok(key)
}

fn secret_key(bytes: Zeroizing<Vec<u8>>, suite: Suite) -> anyhow::Result<ReadKey> {
    if is_encoded_key(&bytes) {
        bail!("it holds a key pair or certificate in PEM or DER, and a secret key is raw bytes");
    }
    if !suite.key_len().contains(bytes.len()) {
        bail!("{suite} takes no key of {} bytes", bytes.len());
    }
    Ok(ReadKey { bytes, form: KeyForm::Secret })
}

fn key_pair(bytes: Zeroizing<Vec<u8>>, suite: Suite) -> anyhow::Result<ReadKey> {
    let encoded = match core::str::from_utf8(&bytes) {
        Ok(text) if text.contains("-----BEGIN ") => {
            let (label, document) = SecretDocument::from_pem(text.trim()).map_err(|_| anyhow!("it is no sound PEM"))?;
            let form = match label {
                "PRIVATE KEY" => KeyForm::Private,
                "PUBLIC KEY" => KeyForm::Public,
                "ENCRYPTED PRIVATE KEY" => bail!("it is encrypted; `openssl pkcs8 -in FILE` decrypts it"),
                "RSA PRIVATE KEY" | "EC PRIVATE KEY" => {
                    bail!("it is not PKCS#8; `openssl pkcs8 -topk8 -nocrypt -in FILE` converts it")
                }
                _ => bail!("it holds something else: {label}"),
            };
            Some((Zeroizing::new(document.as_bytes().to_vec()), form))
        }
        _ if PrivateKeyInfoRef::from_der(&bytes).is_ok() => Some((bytes.clone(), KeyForm::Private)),
        _ if SubjectPublicKeyInfoRef::from_der(&bytes).is_ok() => Some((bytes.clone(), KeyForm::Public)),
        _ => None,
    };
    let Some((encoded, form)) = encoded else {
        return if is_encoded_key(&bytes) {
            Err(anyhow!("it is not PKCS#8; `openssl pkcs8 -topk8 -nocrypt -inform DER -in FILE` converts it"))
        } else {
            // A seed, scalar or exponent; whether it can be one is checked by its preparation.
            Ok(ReadKey { bytes, form: KeyForm::Private })
        };
    };
    let Some(expected) = object_identifier(suite) else { return Ok(ReadKey { bytes: encoded, form }) };
    // The contract has these raw.
    let wrong = || anyhow!("it is a key of another algorithm");
    let raw = if form == KeyForm::Private {
        let info = PrivateKeyInfoRef::from_der(&encoded).map_err(|_| anyhow!("it is no sound PKCS#8"))?;
        if info.algorithm.oid != expected {
            return Err(wrong());
        }
        let kind = KeyKind::for_suite(suite).ok_or_else(wrong)?;
        seed(info.private_key.as_bytes(), kind.len()).ok_or_else(|| anyhow!("it does not hold the seed"))?
    } else {
        let info = SubjectPublicKeyInfoRef::from_der(&encoded).map_err(|_| anyhow!("it is no sound public key"))?;
        if info.algorithm.oid != expected {
            return Err(wrong());
        }
        info.subject_public_key.raw_bytes()
    };
    Ok(ReadKey { bytes: Zeroizing::new(raw.to_vec()), form })
}

/// The seed in a private key: an octet string (RFC 8410), tagged \[0\] or followed by the expanded key (RFC 9881, RFC 9935).
fn seed(private_key: &[u8], len: usize) -> Option<&[u8]> {
    let (len_byte, seed) = match private_key {
        [0x04 | 0x80, len_byte, seed @ ..] if seed.len() == len => (*len_byte, seed),
        [0x30, 0x82, _, _, 0x04, len_byte, rest @ ..] => (*len_byte, rest.get(..len)?),
        _ => return None,
    };
    (len_byte as usize == len).then_some(seed)
}

/// Whether an engine takes the key.
fn check(key: &ReadKey, suite: Suite) -> anyhow::Result<()> {
    let engine = ciphermill_engines::open(CHECKING_ENGINE).context("there is no engine to check keys with")??;
    engine.prepare(&key.material(), suite)?;
    Ok(())
}

fn read_bytes(file: &Path, is_hex: bool) -> anyhow::Result<Zeroizing<Vec<u8>>> {
    // Room for everything at once, so that no copy is left behind by growing.
    let mut bytes = Zeroizing::new(Vec::with_capacity(2 * KEY_LEN_MAX + 2));
    let mut reader: Box<dyn Read> = if file == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(std::fs::File::open(file).with_context(|| format!("cannot read {}", file.display()))?)
    };
    reader
        .by_ref()
        .take(2 * KEY_LEN_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {}", file.display()))?;
    if bytes.len() > 2 * KEY_LEN_MAX {
        bail!("{} holds more than a key may have ({KEY_LEN_MAX} bytes)", file.display());
    }
    if is_hex {
        let digits = bytes.trim_ascii();
        let mut key = Zeroizing::new(vec![0u8; digits.len() / 2]);
        hex::decode_to_slice(digits, &mut key)
            .map_err(|_| anyhow!("{} does not hold hexadecimal digits alone", file.display()))?;
        return Ok(key);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use ciphermill_vectors::keys::{pair_name, pairs};
    use pkcs8::der::Encode;
    use pkcs8::der::asn1::{OctetString, OctetStringRef};
    use pkcs8::spki::AlgorithmIdentifierRef;

    use super::super::public;
    use super::*;

    fn suite(name: &str) -> Suite {
        name.parse().unwrap()
    }

    fn read_pair(bytes: &[u8], suite: Suite) -> anyhow::Result<ReadKey> {
        let key = key_pair(Zeroizing::new(bytes.to_vec()), suite)?;
        check(&key, suite)?;
        Ok(key)
    }

    #[test]
    fn every_kind_of_key_pair_comes_in_as_it_went_out() {
        let kinds = ["rsa-2048-sign-pkcs1-sha256", "ecdsa-p256", "ecdh-p384", "ed25519", "ml-dsa-44", "ml-kem-768"];
        for suite in kinds.map(suite) {
            let pair = pairs(&pair_name(suite).unwrap())[0];
            let private = read_pair(&pair.private, suite).unwrap();
            assert_eq!((private.form, &private.bytes[..]), (KeyForm::Private, &pair.private[..]), "{suite}");
            let der = public::info(suite, KeyMaterial::private(&pair.private)).unwrap();
            for encoded in [der.clone(), public::pem(&der).unwrap().into_bytes()] {
                let read = key_pair(Zeroizing::new(encoded), suite).unwrap();
                assert_eq!((read.form, &read.bytes[..]), (KeyForm::Public, &pair.public[..]), "{suite}");
                // Agreement takes private keys only.
                assert_eq!(check(&read, suite).is_ok(), !matches!(suite, Suite::Agree(_)), "{suite}");
            }
        }
    }

    #[test]
    fn seeds_are_taken_out_of_pkcs8() {
        for (name, prefixes) in [("ed25519", &[&[0x04u8, 32][..]][..]), ("ml-dsa-44", &[&[0x80, 32], &[0x04, 32]])] {
            let suite = suite(name);
            let pair = pairs(&pair_name(suite).unwrap())[0];
            for prefix in prefixes {
                let inner = [*prefix, &pair.private].concat();
                let algorithm = AlgorithmIdentifierRef { oid: object_identifier(suite).unwrap(), parameters: None };
                let info = PrivateKeyInfoRef::new(algorithm, OctetStringRef::new(&inner).unwrap());
                let read = read_pair(&info.to_der().unwrap(), suite).unwrap();
                assert_eq!(&read.bytes[..], &pair.private[..], "{name}");
            }
        }
        let both = [&[0x30, 0x82, 0x0a, 0x26, 0x04, 32][..], &[7; 32], &[0x04, 0x82, 0x0a, 0x00], &[1; 2560]].concat();
        assert_eq!(seed(&both, 32), Some(&[7; 32][..]));
        assert_eq!(seed(&OctetString::new(vec![1; 2560]).unwrap().to_der().unwrap(), 32), None);
    }

    #[test]
    fn keys_of_another_algorithm_are_refused() {
        let x25519 = hex::decode(
            "302e020100300506032b656e042204200101010101010101010101010101010101010101010101010101010101010101",
        );
        let x25519 = x25519.unwrap();
        assert!(read_pair(&x25519, suite("x25519")).is_ok());
        assert!(read_pair(&x25519, suite("ed25519")).is_err());
        assert!(read_pair(&x25519, suite("ecdsa-p256")).is_err());
        let p256 = &pairs("p256")[0].private;
        assert!(read_pair(p256, suite("ecdsa-p384")).is_err());
        assert!(read_pair(&[7; 31], suite("ed25519")).is_err());
        assert!(
            read_pair(b"-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----", suite("ecdsa-p256"))
                .is_err()
        );
        for suite in ["aes-256-gcm", "hmac-sha256"] {
            assert!(secret_key(Zeroizing::new(p256.clone()), suite.parse().unwrap()).is_err());
        }
    }
}
