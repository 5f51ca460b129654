//! Digests.

use aws_lc_sys as sys;
use ciphermill_contract::suite::Digest;
use ciphermill_contract::{CheckedBatch, OpBuffers, OpStatus};

use crate::ffi::{Owned, done_if};

/// One of AWS-LC's functions from message and length to a digest.
type OneShot = unsafe extern "C" fn(*const u8, usize, *mut u8) -> *mut u8;

/// Runs a batch; leaves operations of digests that AWS-LC lacks pending.
pub(crate) fn run(batch: &mut CheckedBatch<'_>, digest: Digest, context: &Owned<sys::EVP_MD_CTX>) {
    if let Some(function) = one_shot(digest) {
        batch.process(|op| write(op, digest, |input, out| direct(function, input, out)));
    } else if let Some(md) = table(digest) {
        batch.process(|op| write(op, digest, |input, out| through_context(context, md, digest.is_xof(), input, out)));
    }
}

/// The digest of a message, at the start of the result. `None` when AWS-LC lacks the digest or fails.
pub(crate) fn compute(digest: Digest, message: &[u8]) -> Option<[u8; 64]> {
    let mut out = [0; 64];
    direct(one_shot(digest)?, message, &mut out).then_some(out)
}

fn write(op: &mut OpBuffers<'_>, digest: Digest, hash: impl FnOnce(&[u8], &mut [u8]) -> bool) -> OpStatus {
    // An extendable-output function gives what there is room for.
    let len = if digest.is_xof() { op.tag.len() } else { digest.len() };
    match op.tag.get_mut(..len) {
        Some(tag) => done_if(hash(op.input, tag)),
        None => OpStatus::EngineFault,
    }
}

/// The caller's `out` is at least as long as the function's digest.
fn direct(function: OneShot, input: &[u8], out: &mut [u8]) -> bool {
    // SAFETY: pointer and length are the slice's; `out` is long enough (`write`, `compute`).
    !unsafe { function(input.as_ptr(), input.len(), out.as_mut_ptr()) }.is_null()
}

fn through_context(
    context: &Owned<sys::EVP_MD_CTX>,
    md: *const sys::EVP_MD,
    is_xof: bool,
    input: &[u8],
    out: &mut [u8],
) -> bool {
    let context = context.as_ptr();
    // SAFETY: the context belongs to this queue alone, `md` is a static table, pointer and length are the slice's.
    let absorbed = unsafe {
        sys::EVP_DigestInit_ex(context, md, core::ptr::null_mut()) == 1
            && sys::EVP_DigestUpdate(context, input.as_ptr().cast(), input.len()) == 1
    };
    if is_xof {
        // SAFETY: as above; the function writes as much as it is asked for.
        return absorbed && unsafe { sys::EVP_DigestFinalXOF(context, out.as_mut_ptr(), out.len()) } == 1;
    }
    let mut written = 0;
    // SAFETY: as above; `out` is as long as the digest (`write`), which the function writes whole.
    let ok = absorbed && unsafe { sys::EVP_DigestFinal_ex(context, out.as_mut_ptr(), &mut written) } == 1;
    ok && written as usize == out.len()
}

fn one_shot(digest: Digest) -> Option<OneShot> {
    Some(match digest {
        Digest::Md5 => sys::MD5,
        Digest::Sha1 => sys::SHA1,
        Digest::Sha224 => sys::SHA224,
        Digest::Sha256 => sys::SHA256,
        Digest::Sha384 => sys::SHA384,
        Digest::Sha512 => sys::SHA512,
        Digest::Sha512_224 => sys::SHA512_224,
        Digest::Sha512_256 => sys::SHA512_256,
        Digest::Sha3_224
        | Digest::Sha3_256
        | Digest::Sha3_384
        | Digest::Sha3_512
        | Digest::Shake128
        | Digest::Shake256
        | Digest::Blake3 => return None,
    })
}

/// AWS-LC's static table for a digest.
pub(crate) fn table(digest: Digest) -> Option<*const sys::EVP_MD> {
    // SAFETY: each function returns a static table.
    Some(unsafe {
        match digest {
            Digest::Md5 => sys::EVP_md5(),
            Digest::Sha1 => sys::EVP_sha1(),
            Digest::Sha224 => sys::EVP_sha224(),
            Digest::Sha256 => sys::EVP_sha256(),
            Digest::Sha384 => sys::EVP_sha384(),
            Digest::Sha512 => sys::EVP_sha512(),
            Digest::Sha512_224 => sys::EVP_sha512_224(),
            Digest::Sha512_256 => sys::EVP_sha512_256(),
            Digest::Sha3_224 => sys::EVP_sha3_224(),
            Digest::Sha3_256 => sys::EVP_sha3_256(),
            Digest::Sha3_384 => sys::EVP_sha3_384(),
            Digest::Sha3_512 => sys::EVP_sha3_512(),
            Digest::Shake128 => sys::EVP_shake128(),
            Digest::Shake256 => sys::EVP_shake256(),
            Digest::Blake3 => return None,
        }
    })
}
