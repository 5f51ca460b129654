//! What a token offers, as suites: from the list of its mechanisms and what it says of each (PKCS#11 3.1, 5.5.5 and 5.5.6).

use std::ptr;
use std::sync::OnceLock;

use ciphermill_contract::suite::{Curve, SignPadding, Signature};
use ciphermill_contract::{Capability, Cost, Direction, Suite, capability::Directions};
use cryptoki_sys::{
    CK_FLAGS, CK_MECHANISM_INFO, CK_MECHANISM_TYPE, CK_RV, CK_SLOT_ID, CKF_SIGN, CKM_ECDSA, CKM_RSA_PKCS,
    CKM_RSA_PKCS_PSS, CKR_FUNCTION_NOT_SUPPORTED,
};

use crate::digest;
use crate::module::{Module, outcome};

/// Mechanisms of a token that are looked at.
const MECHANISMS_MAX: usize = 4096;

/// Bytes of a message that is signed: it is digested here, and the token sees a digest.
const INPUT_MAX: usize = 1 << 20;

/// What a signature by a token costs until it was measured, in nanoseconds: between a software token and a small HSM.
const SIGNATURE: Cost = Cost::new(20_000.0, 1_500_000.0, 1.0);

/// A mechanism, and what the token says of it.
struct Offer {
    mechanism: CK_MECHANISM_TYPE,
    info: CK_MECHANISM_INFO,
}

/// What a token's mechanisms make of the contract's suites.
///
/// # Errors
/// The code of the call that failed.
pub(crate) fn capabilities(module: &Module, slot: CK_SLOT_ID) -> Result<Vec<Capability>, CK_RV> {
    // Capabilities name suites that live as long as the program.
    static SUITES: OnceLock<Vec<Suite>> = OnceLock::new();
    let offers = offers(module, slot)?;
    let suites = SUITES.get_or_init(|| Suite::all().collect());
    let claimed = suites.chunks(1).filter(|suite| suite.iter().all(|suite| is_offered(&offers, *suite)));
    Ok(claimed
        .map(|suite| Capability::new(suite, SIGNATURE).directions(Directions::ENCRYPT).input_len_max(INPUT_MAX))
        .collect())
}

fn offers(module: &Module, slot: CK_SLOT_ID) -> Result<Vec<Offer>, CK_RV> {
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

fn has(offers: &[Offer], mechanism: CK_MECHANISM_TYPE, flag: CK_FLAGS, bits: usize) -> bool {
    offers.iter().any(|offer| {
        let (min, max) = (offer.info.ulMinKeySize, offer.info.ulMaxKeySize);
        offer.mechanism == mechanism && offer.info.flags & flag != 0 && (min..=max).contains(&(bits as _))
    })
}

/// Whether the token signs so. That it knows a digest within PSS is not in its list; that it has the mechanism which makes that digest
/// itself says so (6.1.10 and 6.1.14).
fn is_offered(offers: &[Offer], suite: Suite) -> bool {
    if !suite.has_direction(Direction::Encrypt) {
        return false;
    }
    match suite {
        Suite::Sign(Signature::Rsa(size, SignPadding::Pkcs1, digest)) => {
            digest::mechanisms(digest).is_some() && has(offers, CKM_RSA_PKCS, CKF_SIGN, size.bits())
        }
        Suite::Sign(Signature::Rsa(size, SignPadding::Pss, digest)) => {
            has(offers, CKM_RSA_PKCS_PSS, CKF_SIGN, size.bits())
                && digest::mechanisms(digest).is_some_and(|names| has(offers, names.pss, CKF_SIGN, size.bits()))
        }
        Suite::Sign(Signature::Ecdsa(curve) | Signature::EcdsaDigest(curve)) => {
            bits(curve).is_some_and(|bits| has(offers, CKM_ECDSA, CKF_SIGN, bits))
        }
        _ => false,
    }
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
    use ciphermill_contract::suite::{Digest, RsaSize};

    fn offer(mechanism: CK_MECHANISM_TYPE, flags: CK_FLAGS, min: u64, max: u64) -> Offer {
        Offer { mechanism, info: CK_MECHANISM_INFO { ulMinKeySize: min, ulMaxKeySize: max, flags } }
    }

    #[test]
    fn only_what_is_offered_for_that_size_and_use_is_claimed() {
        let rsa = |size| Suite::Sign(Signature::Rsa(size, SignPadding::Pkcs1, Digest::Sha256));
        let offers = [offer(CKM_RSA_PKCS, CKF_SIGN, 2048, 3072), offer(CKM_ECDSA, 0, 256, 521)];
        assert!(is_offered(&offers, rsa(RsaSize::Rsa2048)));
        assert!(!is_offered(&offers, rsa(RsaSize::Rsa4096)));
        assert!(!is_offered(&offers, Suite::Sign(Signature::Ecdsa(Curve::P256))));
    }

    #[test]
    fn pss_wants_the_digest_too() {
        let suite = Suite::Sign(Signature::Rsa(RsaSize::Rsa2048, SignPadding::Pss, Digest::Sha256));
        let bare = [offer(CKM_RSA_PKCS_PSS, CKF_SIGN, 512, 4096)];
        assert!(!is_offered(&bare, suite));
        let both = [
            offer(CKM_RSA_PKCS_PSS, CKF_SIGN, 512, 4096),
            offer(cryptoki_sys::CKM_SHA256_RSA_PKCS_PSS, CKF_SIGN, 512, 4096),
        ];
        assert!(is_offered(&both, suite));
    }
}
