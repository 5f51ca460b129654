//! RSA signatures and encryption (RFC 8017).

use aws_lc_sys as sys;
use ciphermill_contract::suite::{Digest, PublicEncryption, RsaSize, SignPadding};
use ciphermill_contract::{
    CheckedBatch, Direction, KeyMaterial, OpBuffers, OpStatus, PreparedKey, Reason, Result, Suite,
};

use super::{KeyPair, NO_PRIVATE_KEY};
use crate::digest;
use crate::ffi::{Wiped, done_if, fault, op_fault, take_error};
use crate::prepared::{Prepared, state};

/// Bytes of the longest modulus.
const MODULUS_MAX: usize = RsaSize::Rsa4096.len();

/// An RSA key whose modulus has the suite's size.
struct RsaKey(KeyPair);

impl RsaKey {
    fn as_ptr(&self) -> *mut sys::RSA {
        // SAFETY: the key is whole and holds an RSA key (`prepare`), which lives as long as it.
        unsafe { sys::EVP_PKEY_get0_RSA(self.0.key.as_ptr()) }
    }
}

/// Prepares a key, of which the contract has looked at shape and sizes.
pub(super) fn prepare(key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
    let rsa = RsaKey(KeyPair::parse(key, suite, sys::EVP_PKEY_RSA)?);
    let pointer = rsa.as_ptr();
    if pointer.is_null() {
        return Err(fault());
    }
    Ok(Prepared::key(suite, rsa))
}

/// Runs a batch of signatures or verifications.
pub(super) fn run_sign(batch: &mut CheckedBatch<'_>, size: RsaSize, padding: SignPadding, hash: Digest) {
    let suite = batch.suite();
    let direction = batch.direction();
    let (Some(md), Some(nid)) = (digest::table(hash), nid(hash)) else { return };
    batch.process(|op| {
        let (Some(key), Some(digest)) = (state::<RsaKey>(op, suite), digest::compute(hash, op.input)) else {
            return op_fault();
        };
        let digest = &digest[..hash.len()];
        match direction {
            Direction::Encrypt if !key.0.is_private => NO_PRIVATE_KEY,
            Direction::Encrypt => match op.tag.get_mut(..size.len()) {
                Some(out) => done_if(sign(key, padding, md, nid, digest, out)),
                None => OpStatus::EngineFault,
            },
            Direction::Decrypt if verify(key, padding, md, nid, digest, op.tag) => OpStatus::Done,
            Direction::Decrypt => {
                take_error();
                OpStatus::AuthFailed
            }
        }
    });
}

fn sign(key: &RsaKey, padding: SignPadding, md: *const sys::EVP_MD, nid: i32, digest: &[u8], out: &mut [u8]) -> bool {
    let rsa = key.as_ptr();
    match padding {
        SignPadding::Pkcs1 => {
            let mut written = 0;
            // SAFETY: `out` is as long as the modulus, which is what the function writes; pointers and lengths are the
            // slices'.
            let code =
                unsafe { sys::RSA_sign(nid, digest.as_ptr(), digest.len(), out.as_mut_ptr(), &mut written, rsa) };
            code == 1 && written as usize == out.len()
        }
        SignPadding::Pss => {
            let mut written = 0;
            // SAFETY: pointers and lengths are the slices', `md` is a static table.
            let code = unsafe {
                sys::RSA_sign_pss_mgf1(
                    rsa,
                    &mut written,
                    out.as_mut_ptr(),
                    out.len(),
                    digest.as_ptr(),
                    digest.len(),
                    md,
                    md,
                    digest.len() as i32,
                )
            };
            code == 1 && written == out.len()
        }
    }
}

fn verify(key: &RsaKey, padding: SignPadding, md: *const sys::EVP_MD, nid: i32, digest: &[u8], tag: &[u8]) -> bool {
    let rsa = key.as_ptr();
    // SAFETY: pointers and lengths are the slices', `md` is a static table.
    let code = unsafe {
        match padding {
            SignPadding::Pkcs1 => sys::RSA_verify(nid, digest.as_ptr(), digest.len(), tag.as_ptr(), tag.len(), rsa),
            SignPadding::Pss => sys::RSA_verify_pss_mgf1(
                rsa,
                digest.as_ptr(),
                digest.len(),
                md,
                md,
                digest.len() as i32,
                tag.as_ptr(),
                tag.len(),
            ),
        }
    };
    code == 1
}

/// Runs a batch of encryptions or decryptions.
pub(super) fn run_encrypt(batch: &mut CheckedBatch<'_>, encryption: PublicEncryption) {
    let suite = batch.suite();
    let encrypt = batch.direction() == Direction::Encrypt;
    let (padding, md) = match encryption {
        PublicEncryption::RsaRaw(_) => (sys::RSA_NO_PADDING, None),
        PublicEncryption::RsaPkcs1(_) => (sys::RSA_PKCS1_PADDING, None),
        PublicEncryption::RsaOaep(_, hash) => match digest::table(hash) {
            Some(md) => (sys::RSA_PKCS1_OAEP_PADDING, Some(md)),
            None => return,
        },
    };
    let is_raw = padding == sys::RSA_NO_PADDING;
    batch.process(|op| match state::<RsaKey>(op, suite) {
        Some(key) if !encrypt && !key.0.is_private => NO_PRIVATE_KEY,
        Some(key) => match if is_raw { settle_raw(key, op, encrypt) } else { None } {
            Some(status) => status,
            None => transform(key, (padding, md), op, encrypt),
        },
        None => OpStatus::EngineFault,
    });
}

/// What becomes of a number without padding before the library sees it; nothing for most.
///
/// The library takes numbers below the modulus only, and decrypts none of the three that are their own roots under every
/// exponent (NIST SP 800-56B, 7.1.2.1, leaves them out; RFC 8017, 5.1.2, does not).
fn settle_raw(key: &RsaKey, op: &mut OpBuffers<'_>, encrypt: bool) -> Option<OpStatus> {
    let mut modulus = [0u8; MODULUS_MAX];
    let (Some(input), Some(modulus)) = (op.data.get(..op.input_len), modulus.get_mut(..op.input_len)) else {
        return Some(OpStatus::EngineFault);
    };
    // SAFETY: the key is whole; the modulus is the key's own and lives as long; the slice has room for the length that is given.
    let written = unsafe { sys::BN_bn2bin_padded(modulus.as_mut_ptr(), modulus.len(), sys::RSA_get0_n(key.as_ptr())) };
    if written != 1 {
        return Some(op_fault());
    }
    if *input >= *modulus {
        return Some(if encrypt { OpStatus::BadInput(Reason::NotBelowModulus) } else { OpStatus::AuthFailed });
    }
    let ((low, high), (modulus_low, modulus_high)) = (input.split_last()?, modulus.split_last()?);
    // Zero, one, and the modulus, which is odd, less one.
    let is_small = *low < 2 && high.iter().all(|byte| *byte == 0);
    (is_small || (*low == modulus_low - 1 && high == modulus_high)).then_some(OpStatus::Done)
}

/// The library's number of a padding, with OAEP's digest.
type Padding = (i32, Option<*const sys::EVP_MD>);

/// Encrypts or decrypts in place.
fn transform(key: &RsaKey, (padding, md): Padding, op: &mut OpBuffers<'_>, encrypt: bool) -> OpStatus {
    let Some(context) = key.0.context() else { return op_fault() };
    let Some(input) = op.data.get(..op.input_len) else { return OpStatus::EngineFault };
    let mut out = Wiped([0u8; MODULUS_MAX]);
    let mut written = MODULUS_MAX;
    // SAFETY: the context is whole and of an RSA key, `md` is a static table.
    let ready = unsafe {
        let context = context.as_ptr();
        let started = if encrypt { sys::EVP_PKEY_encrypt_init(context) } else { sys::EVP_PKEY_decrypt_init(context) };
        started == 1
            && sys::EVP_PKEY_CTX_set_rsa_padding(context, padding) == 1
            && md.is_none_or(|md| {
                sys::EVP_PKEY_CTX_set_rsa_oaep_md(context, md) == 1
                    && sys::EVP_PKEY_CTX_set_rsa_mgf1_md(context, md) == 1
            })
    };
    if !ready {
        return op_fault();
    }
    let work = if encrypt { sys::EVP_PKEY_encrypt } else { sys::EVP_PKEY_decrypt };
    // SAFETY: the context is ready for this function; output and length belong together and hold the longest modulus;
    // the input is another buffer.
    let code = unsafe { work(context.as_ptr(), out.0.as_mut_ptr(), &mut written, input.as_ptr(), input.len()) };
    if code != 1 {
        // Past this point a decryption fails by its padding or because the ciphertext is not below the modulus.
        take_error();
        return if encrypt { OpStatus::EngineFault } else { OpStatus::AuthFailed };
    }
    let (Some(result), Some(place)) = (out.0.get(..written), op.data.get_mut(..written)) else {
        return OpStatus::EngineFault;
    };
    place.copy_from_slice(result);
    op.output_len = written;
    OpStatus::Done
}

fn nid(digest: Digest) -> Option<i32> {
    match digest {
        Digest::Sha1 => Some(sys::NID_sha1),
        Digest::Sha256 => Some(sys::NID_sha256),
        Digest::Sha384 => Some(sys::NID_sha384),
        Digest::Sha512 => Some(sys::NID_sha512),
        _ => None,
    }
}
