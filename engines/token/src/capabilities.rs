//! What a token offers, as suites: from the list of its mechanisms and what it says of each (PKCS#11 3.1, 5.5.5 and 5.5.6).

use std::ptr;
use std::sync::OnceLock;

use ciphermill_contract::suite::{
    Aead, AesSize, Agreement, BlockCipher, Curve, Digest, Mac, Mode, PublicEncryption, SignPadding, Signature,
};
use ciphermill_contract::{Capability, Cost, Suite, capability::Directions};
use cryptoki_sys::{
    CK_FLAGS, CK_MECHANISM_INFO, CK_MECHANISM_TYPE, CK_RV, CK_SLOT_ID, CKA_CLASS, CKA_ENCRYPT, CKA_KEY_TYPE,
    CKA_MODULUS, CKA_PRIVATE, CKA_PUBLIC_EXPONENT, CKA_TOKEN, CKF_DECRYPT, CKF_DERIVE, CKF_ENCRYPT, CKF_SIGN,
    CKF_VERIFY, CKK_RSA, CKM_AES_CBC, CKM_AES_CTR, CKM_AES_ECB, CKM_AES_GCM, CKM_ECDH1_DERIVE, CKM_ECDSA, CKM_EDDSA,
    CKM_RSA_PKCS, CKM_RSA_PKCS_OAEP, CKM_RSA_PKCS_PSS, CKM_RSA_X_509, CKO_PUBLIC_KEY, CKR_FUNCTION_NOT_SUPPORTED,
};

use crate::digest;
use crate::kind::{Kind, NO, YES};
use crate::mechanism::Mechanism;
use crate::module::{Module, outcome};
use crate::session::{Call, Session};

/// Mechanisms of a token that are looked at.
const MECHANISMS_MAX: usize = 4096;

/// Bytes of an input. Those of signatures are digested here, and the token sees a digest; others are given to it in one call.
const INPUT_MAX: usize = 1 << 20;

/// What a signature by a token costs until it was measured, in nanoseconds: between a software token and a small HSM.
const SIGNATURE: Cost = Cost::new(20_000.0, 1_500_000.0, 1.0);

/// The same for secret keys.
const SECRET: Cost = Cost::new(20_000.0, 100_000.0, 2.0);

/// Bytes of the modulus that OAEP is tried with.
const TRIAL_LEN: usize = 256;

/// A mechanism, and what the token says of it.
pub(crate) struct Offer {
    pub(crate) mechanism: CK_MECHANISM_TYPE,
    pub(crate) info: CK_MECHANISM_INFO,
}

/// What a token's mechanisms make of the contract's suites.
///
/// # Errors
/// The code of the call that failed.
pub(crate) fn capabilities(module: &Module, slot: CK_SLOT_ID, session: &Session) -> Result<Vec<Capability>, CK_RV> {
    // Capabilities name suites that live as long as the program.
    static SUITES: OnceLock<Vec<Suite>> = OnceLock::new();
    let offers = offers(module, slot)?;
    let offers = Offers { oaep: oaep_digests(session, &offers), list: offers };
    let suites = SUITES.get_or_init(|| Suite::all().collect());
    let claim = |suite: &'static [Suite]| {
        let directions = suite.first().map_or(Directions::NONE, |suite| offers.directions(*suite));
        let is_secret = suite.iter().any(|suite| Kind::of(*suite).is_some_and(Kind::is_secret));
        let cost = if is_secret { SECRET } else { SIGNATURE };
        Capability::new(suite, cost).directions(directions).input_len_max(INPUT_MAX)
    };
    Ok(suites.chunks(1).map(claim).filter(|claim| claim.directions != Directions::NONE).collect())
}

/// What a token has.
///
/// # Errors
/// The code of the call that failed.
pub(crate) fn offers(module: &Module, slot: CK_SLOT_ID) -> Result<Vec<Offer>, CK_RV> {
    let list = module.functions().C_GetMechanismList.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
    let ask = module.functions().C_GetMechanismInfo.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
    let mut count = 0;
    // SAFETY: without a place for mechanisms only their number is written.
    outcome(unsafe { list(slot, ptr::null_mut(), &raw mut count) })?;
    let mut mechanisms = vec![0; usize::try_from(count).unwrap_or(MECHANISMS_MAX).min(MECHANISMS_MAX)];
    count = mechanisms.len() as _;
    // SAFETY: `mechanisms` has room for `count`.
    outcome(unsafe { list(slot, mechanisms.as_mut_ptr(), &raw mut count) })?;
    mechanisms.truncate(usize::try_from(count).unwrap_or(0));
    let mut offers = Vec::with_capacity(mechanisms.len());
    for mechanism in mechanisms {
        let mut info = CK_MECHANISM_INFO::default();
        // SAFETY: the last argument is a place for the answer.
        outcome(unsafe { ask(slot, mechanism, &raw mut info) })?;
        offers.push(Offer { mechanism, info });
    }
    Ok(offers)
}

/// The digests within OAEP: the list does not tell them (6.1.8), and tokens are known that have one alone. A message is encrypted with
/// each, for a modulus that is nobody's.
fn oaep_digests(session: &Session, offers: &[Offer]) -> Vec<Digest> {
    if !offers.iter().any(|offer| offer.mechanism == CKM_RSA_PKCS_OAEP) {
        return Vec::new();
    }
    let (class, key_type) = (CKO_PUBLIC_KEY.to_ne_bytes(), CKK_RSA.to_ne_bytes());
    let template: [(_, &[u8]); 7] = [
        (CKA_CLASS, &class),
        (CKA_KEY_TYPE, &key_type),
        (CKA_TOKEN, NO),
        (CKA_PRIVATE, NO),
        (CKA_ENCRYPT, YES),
        (CKA_MODULUS, &[0xff; TRIAL_LEN]),
        (CKA_PUBLIC_EXPONENT, &[1, 0, 1]),
    ];
    let Ok(key) = session.create(&template) else { return Vec::new() };
    let encrypts = |digest: &Digest| {
        let Some(mechanism) = Mechanism::oaep(*digest) else { return false };
        let mut ciphertext = [0; TRIAL_LEN];
        let written = session
            .begin(Call::Encrypt, &mechanism, key)
            .and_then(|()| session.finish(Call::Encrypt, b"trial", &mut ciphertext));
        written == Ok(TRIAL_LEN)
    };
    let digests = [Digest::Sha1, Digest::Sha256].into_iter().filter(encrypts).collect();
    // Else it goes with its session.
    let _ = session.destroy(key);
    digests
}

/// Whether a mechanism is there for this use, and for keys of so many bits.
pub(crate) fn has(offers: &[Offer], mechanism: CK_MECHANISM_TYPE, flag: CK_FLAGS, bits: usize) -> bool {
    offers.iter().any(|offer| {
        let (min, max) = (offer.info.ulMinKeySize, offer.info.ulMaxKeySize);
        offer.mechanism == mechanism && offer.info.flags & flag != 0 && (min..=max).contains(&(bits as _))
    })
}

/// What a token offers.
struct Offers {
    list: Vec<Offer>,
    /// Digests within OAEP.
    oaep: Vec<Digest>,
}

impl Offers {
    fn has(&self, mechanism: CK_MECHANISM_TYPE, flag: CK_FLAGS, bits: usize) -> bool {
        has(&self.list, mechanism, flag, bits)
    }

    /// The same for secret keys, whose sizes are bytes (6.13.2); some tokens say bits, and some nothing.
    fn has_secret(&self, mechanism: CK_MECHANISM_TYPE, flag: CK_FLAGS, len: usize) -> bool {
        [len, 8 * len, 0].into_iter().any(|size| self.has(mechanism, flag, size))
    }

    fn both(&self, mechanism: CK_MECHANISM_TYPE, flags: [CK_FLAGS; 2], bits: usize) -> Directions {
        either(flags.map(|flag| self.has(mechanism, flag, bits)))
    }

    /// The ways that the token goes with a suite. That it knows a digest within PSS is not in its list; that it has the mechanism which
    /// makes that digest itself says so (6.1.10 and 6.1.14).
    fn directions(&self, suite: Suite) -> Directions {
        const SIGNS: [CK_FLAGS; 2] = [CKF_SIGN, CKF_VERIFY];
        const ENCRYPTS: [CK_FLAGS; 2] = [CKF_ENCRYPT, CKF_DECRYPT];
        match suite {
            Suite::Sign(Signature::Rsa(size, SignPadding::Pkcs1, digest)) if digest::mechanisms(digest).is_some() => {
                self.both(CKM_RSA_PKCS, SIGNS, size.bits())
            }
            Suite::Sign(Signature::Rsa(size, SignPadding::Pss, digest)) => {
                let has = |flag| {
                    self.has(CKM_RSA_PKCS_PSS, flag, size.bits())
                        && digest::mechanisms(digest).is_some_and(|names| self.has(names.pss, flag, size.bits()))
                };
                either(SIGNS.map(has))
            }
            Suite::Sign(Signature::Ecdsa(curve) | Signature::EcdsaDigest(curve)) => {
                bits(curve).map_or(Directions::NONE, |bits| self.both(CKM_ECDSA, SIGNS, bits))
            }
            Suite::Sign(Signature::Ed25519) => self.both(CKM_EDDSA, SIGNS, 256),
            // Tokens verify by the equation without the cofactor.
            Suite::Sign(Signature::Ed25519Cofactored) => self.both(CKM_EDDSA, [CKF_SIGN, 0], 256),
            Suite::PublicEncrypt(PublicEncryption::RsaPkcs1(size)) => self.both(CKM_RSA_PKCS, ENCRYPTS, size.bits()),
            Suite::PublicEncrypt(PublicEncryption::RsaOaep(size, digest)) if self.oaep.contains(&digest) => {
                self.both(CKM_RSA_PKCS_OAEP, ENCRYPTS, size.bits())
            }
            // The private key's primitive is the same function whichever call asks for it.
            Suite::PublicEncrypt(PublicEncryption::RsaRaw(size)) => {
                self.both(CKM_RSA_X_509, [CKF_ENCRYPT, CKF_DECRYPT | CKF_SIGN], size.bits())
            }
            Suite::Agree(Agreement::Ecdh(curve)) => {
                bits(curve).map_or(Directions::NONE, |bits| self.both(CKM_ECDH1_DERIVE, [CKF_DERIVE, 0], bits))
            }
            suite => self.secret_directions(suite),
        }
    }

    fn secret_directions(&self, suite: Suite) -> Directions {
        let ciphers = |mechanism, size: AesSize| {
            either([CKF_ENCRYPT, CKF_DECRYPT].map(|flag| self.has_secret(mechanism, flag, size.key_len())))
        };
        match suite {
            Suite::Cipher(BlockCipher::Aes(size), Mode::Ecb) => ciphers(CKM_AES_ECB, size),
            Suite::Cipher(BlockCipher::Aes(size), Mode::Cbc) => ciphers(CKM_AES_CBC, size),
            Suite::Cipher(BlockCipher::Aes(size), Mode::Ctr) => ciphers(CKM_AES_CTR, size),
            Suite::Aead(Aead::AesGcm(size)) => ciphers(CKM_AES_GCM, size),
            Suite::Mac(mac) => {
                let len = match mac {
                    Mac::Cmac(size) => size.key_len(),
                    // Copies have keys of that length.
                    Mac::Hmac(digest) => digest.block_len(),
                    _ => return Directions::NONE,
                };
                let makes = Mechanism::mac(mac).is_some_and(|named| self.has_secret(named.name, CKF_SIGN, len));
                // A code that is verified is made, and compared here.
                either([makes; 2])
            }
            _ => Directions::NONE,
        }
    }
}

fn either([encrypts, decrypts]: [bool; 2]) -> Directions {
    Directions::from_bits(u8::from(encrypts) | u8::from(decrypts) << 1).unwrap_or(Directions::NONE)
}

/// Bits of the order of the curves that are claimed. The list says nothing of single curves: these are the ones that all tokens with
/// ECDSA have, as far as their range reaches.
fn bits(curve: Curve) -> Option<usize> {
    match curve {
        Curve::P256 => Some(256),
        Curve::P384 => Some(384),
        Curve::P521 => Some(521),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ciphermill_contract::suite::RsaSize;

    fn offer(mechanism: CK_MECHANISM_TYPE, flags: CK_FLAGS, min: u64, max: u64) -> Offer {
        Offer { mechanism, info: CK_MECHANISM_INFO { ulMinKeySize: min, ulMaxKeySize: max, flags } }
    }

    fn offers(list: Vec<Offer>) -> Offers {
        Offers { list, oaep: vec![Digest::Sha256] }
    }

    #[test]
    fn only_what_is_offered_for_that_size_and_use_is_claimed() {
        let rsa = |size| Suite::Sign(Signature::Rsa(size, SignPadding::Pkcs1, Digest::Sha256));
        let offers = offers(vec![
            offer(CKM_RSA_PKCS, CKF_SIGN, 2048, 3072),
            offer(CKM_ECDSA, CKF_VERIFY, 256, 521),
            offer(CKM_AES_CBC, CKF_DECRYPT, 16, 24),
            offer(CKM_AES_GCM, CKF_ENCRYPT | CKF_DECRYPT, 128, 256),
        ]);
        assert_eq!(offers.directions(rsa(RsaSize::Rsa2048)), Directions::ENCRYPT);
        assert_eq!(offers.directions(rsa(RsaSize::Rsa4096)), Directions::NONE);
        assert_eq!(offers.directions(Suite::Sign(Signature::Ecdsa(Curve::P256))), Directions::DECRYPT);
        assert_eq!(offers.directions(Suite::Sign(Signature::Ecdsa(Curve::P224))), Directions::NONE);
        let cbc = |size| Suite::Cipher(BlockCipher::Aes(size), Mode::Cbc);
        assert_eq!(offers.directions(cbc(AesSize::Aes128)), Directions::DECRYPT);
        assert_eq!(offers.directions(cbc(AesSize::Aes256)), Directions::NONE);
        assert_eq!(offers.directions(Suite::Aead(Aead::AesGcm(AesSize::Aes256))), Directions::BOTH);
    }

    #[test]
    fn pss_and_oaep_want_the_digest_too() {
        let suite = Suite::Sign(Signature::Rsa(RsaSize::Rsa2048, SignPadding::Pss, Digest::Sha256));
        let flags = CKF_SIGN | CKF_VERIFY;
        let bare = offers(vec![offer(CKM_RSA_PKCS_PSS, flags, 512, 4096)]);
        assert_eq!(bare.directions(suite), Directions::NONE);
        let both = offers(vec![
            offer(CKM_RSA_PKCS_PSS, flags, 512, 4096),
            offer(cryptoki_sys::CKM_SHA256_RSA_PKCS_PSS, CKF_VERIFY, 512, 4096),
            offer(CKM_RSA_PKCS_OAEP, CKF_DECRYPT, 512, 4096),
        ]);
        assert_eq!(both.directions(suite), Directions::DECRYPT);
        let oaep = |digest| Suite::PublicEncrypt(PublicEncryption::RsaOaep(RsaSize::Rsa2048, digest));
        assert_eq!(both.directions(oaep(Digest::Sha256)), Directions::DECRYPT);
        assert_eq!(both.directions(oaep(Digest::Sha1)), Directions::NONE);
    }
}
