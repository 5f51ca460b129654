//! Digests.

use aws_lc_sys as sys;
use ciphermill_contract::suite::Digest;
use ciphermill_contract::{OpStatus, Piece, PreparedKey, Reason, Stream};

use crate::digest::table;
use crate::ffi::{Owned, done_if};

/// A message that is digested.
pub(super) struct DigestStream {
    digest: Digest,
    context: Owned<sys::EVP_MD_CTX>,
}

impl DigestStream {
    /// `None` for a digest that AWS-LC lacks, or when it gives no context.
    pub(super) fn new(digest: Digest) -> Option<DigestStream> {
        table(digest)?;
        Some(DigestStream { digest, context: context()? })
    }
}

fn context() -> Option<Owned<sys::EVP_MD_CTX>> {
    // SAFETY: a new context has no other owner.
    unsafe { Owned::new(sys::EVP_MD_CTX_new()) }
}

impl Stream for DigestStream {
    fn begin(&mut self, _: Option<&PreparedKey>, _: &[u8]) -> OpStatus {
        let Some(md) = table(self.digest) else { return OpStatus::EngineFault };
        // SAFETY: the context is ours, `md` a static table.
        done_if(unsafe { sys::EVP_DigestInit_ex(self.context.as_ptr(), md, core::ptr::null_mut()) } == 1)
    }

    fn absorb(&mut self, _: Option<&PreparedKey>, bytes: &[u8]) -> OpStatus {
        // SAFETY: the context is ours; pointer and length are the slice's.
        done_if(unsafe { sys::EVP_DigestUpdate(self.context.as_ptr(), bytes.as_ptr().cast(), bytes.len()) } == 1)
    }

    fn transform(&mut self, _: Option<&PreparedKey>, _: Piece<'_>) -> OpStatus {
        OpStatus::BadInput(Reason::InputUnexpected)
    }

    fn finish(&mut self, _: Option<&PreparedKey>, tag: &mut [u8]) -> OpStatus {
        if !self.digest.is_xof() && tag.len() != self.digest.len() {
            return OpStatus::BadInput(Reason::TagLength);
        }
        let (context, out) = (self.context.as_ptr(), tag.as_mut_ptr());
        let mut written = 0;
        // SAFETY: the context is ours; the functions write as much as they are asked for, or a digest, which has that length.
        done_if(unsafe {
            if self.digest.is_xof() {
                sys::EVP_DigestFinalXOF(context, out, tag.len()) == 1
            } else {
                sys::EVP_DigestFinal_ex(context, out, &mut written) == 1
            }
        })
    }

    fn duplicate(&self) -> Option<Box<dyn Stream>> {
        let context = context()?;
        // SAFETY: both contexts are whole, and ours.
        let copied = unsafe { sys::EVP_MD_CTX_copy_ex(context.as_ptr(), self.context.as_ptr()) } == 1;
        copied.then(|| Box::new(DigestStream { digest: self.digest, context }) as Box<dyn Stream>)
    }
}
