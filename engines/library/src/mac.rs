//! Message authentication codes: HMAC, CMAC, GMAC, Poly1305.

use aws_lc_sys as sys;
use ciphermill_contract::suite::Mac;
use ciphermill_contract::{CheckedBatch, Direction, OpBuffers, OpStatus, PreparedKey, Result, Suite};

use crate::aead::Context;
use crate::aes::{self, AesKey};
use crate::cmac::{AesCmacKey, CbcMac, CmacKey, TripleDesCmacKey};
use crate::des::{self, TripleDesKey};
use crate::ffi::{Wiped, equal, fault, op_fault, wipe};
use crate::hmac::{DIGEST_MAX, HmacKey};
use crate::prepared::{Prepared, state};

/// A one-time key for Poly1305.
struct Poly1305Key(Wiped<[u8; 32]>);

impl Poly1305Key {
    fn compute(&self, message: &[u8]) -> [u8; 16] {
        let mut state = Wiped([0u8; 512]);
        let mut tag = [0; 16];
        // SAFETY: the state has the 512 bytes of `poly1305_state`, the key 32 and the tag 16; pointer and length are
        // the slice's.
        unsafe {
            sys::CRYPTO_poly1305_init(&mut state.0, self.0.0.as_ptr());
            sys::CRYPTO_poly1305_update(&mut state.0, message.as_ptr(), message.len());
            sys::CRYPTO_poly1305_finish(&mut state.0, tag.as_mut_ptr());
        }
        tag
    }
}

/// Prepares a key of a length that the suite takes.
pub(crate) fn prepare(key: &[u8], mac: Mac) -> Result<PreparedKey> {
    let suite = Suite::Mac(mac);
    let prepared = match mac {
        Mac::Hmac(digest) => HmacKey::new(digest, key).map(|state| Prepared::key(suite, state)),
        Mac::Cmac(_) => AesCmacKey::new(key).map(|state| Prepared::key(suite, state)),
        Mac::TripleDesCmac => TripleDesCmacKey::new(key).map(|state| Prepared::key(suite, state)),
        Mac::Gmac(size) | Mac::GmacAnyIv(size) => Context::gcm(size, key).map(|state| Prepared::key(suite, state)),
        // AWS-LC has no KMAC.
        Mac::Kmac(_) => None,
        Mac::Poly1305 => key.try_into().ok().map(|key| Prepared::key(suite, Poly1305Key(Wiped(key)))),
    };
    prepared.ok_or_else(fault)
}

/// Runs a batch; leaves operations of MACs that AWS-LC lacks pending.
pub(crate) fn run(batch: &mut CheckedBatch<'_>, mac: Mac) {
    let suite = batch.suite();
    let direction = batch.direction();
    match mac {
        Mac::Hmac(_) => batch.process(|op| {
            let Some(key) = state::<HmacKey>(op, suite) else { return OpStatus::EngineFault };
            let mut full = [0; DIGEST_MAX];
            if !key.compute(&[op.input], &mut full) {
                return op_fault();
            }
            settle(op, direction, full)
        }),
        Mac::Cmac(_) => cmac::<AesKey, { aes::BLOCK }>(batch),
        Mac::TripleDesCmac => cmac::<TripleDesKey, { des::BLOCK }>(batch),
        Mac::Gmac(_) | Mac::GmacAnyIv(_) => batch.process(|op| {
            let Some(key) = state::<Context>(op, suite) else { return OpStatus::EngineFault };
            let mut full = [0; 16];
            if !key.seal(op.iv, op.input, &mut [], &mut full) {
                return op_fault();
            }
            settle(op, direction, full)
        }),
        Mac::Poly1305 => batch.process(|op| match state::<Poly1305Key>(op, suite) {
            Some(key) => settle(op, direction, key.compute(op.input)),
            None => OpStatus::EngineFault,
        }),
        Mac::Kmac(_) => {}
    }
}

fn cmac<C: CbcMac<N>, const N: usize>(batch: &mut CheckedBatch<'_>) {
    let (suite, direction) = (batch.suite(), batch.direction());
    batch.process(|op| match state::<CmacKey<C, N>>(op, suite) {
        Some(key) => settle(op, direction, key.compute(op.input)),
        None => OpStatus::EngineFault,
    });
}

/// Writes the tag, cut to the operation's length, or compares it with the operation's.
pub(crate) fn settle<const N: usize>(op: &mut OpBuffers<'_>, direction: Direction, mut full: [u8; N]) -> OpStatus {
    let Some(tag) = full.get(..op.tag.len()) else { return OpStatus::EngineFault };
    if direction == Direction::Encrypt {
        op.tag.copy_from_slice(tag);
        return OpStatus::Done;
    }
    let right = equal(tag, op.tag);
    // The right tag of a forged message must not stay on the stack.
    wipe(&mut full);
    if right { OpStatus::Done } else { OpStatus::AuthFailed }
}
