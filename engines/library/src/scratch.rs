//! What a queue keeps between operations: contexts that AWS-LC writes to while it works, so that no two threads may
//! share them.

use core::sync::atomic::{AtomicU64, Ordering};

use aws_lc_sys as sys;
use ciphermill_contract::Result;

use crate::ffi::{Owned, fault};

/// A queue's contexts.
pub(crate) struct Scratch {
    /// For modes that only the EVP interface offers at full speed.
    pub(crate) cipher: CipherScratch,
    /// For digests without functions of their own.
    pub(crate) digest: Owned<sys::EVP_MD_CTX>,
}

/// A cipher context that remembers which key it holds, so that runs of operations under one key expand it once.
pub(crate) struct CipherScratch {
    context: Owned<sys::EVP_CIPHER_CTX>,
    loaded: Option<ScheduleId>,
}

/// The name of a prepared key's schedule, different for each one ever made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScheduleId(u64);

impl ScheduleId {
    /// A name that no schedule had before.
    pub(crate) fn next() -> ScheduleId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        ScheduleId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Scratch {
    /// Fresh contexts.
    pub(crate) fn new() -> Result<Scratch> {
        // SAFETY: a new context has no other owner.
        let context = unsafe { Owned::new(sys::EVP_CIPHER_CTX_new()) }.ok_or_else(fault)?;
        // SAFETY: a new context has no other owner.
        let digest = unsafe { Owned::new(sys::EVP_MD_CTX_new()) }.ok_or_else(fault)?;
        Ok(Scratch { cipher: CipherScratch { context, loaded: None }, digest })
    }

    /// Wipes what the last batch left behind.
    pub(crate) fn clear(&mut self) {
        self.cipher.clear();
    }
}

impl CipherScratch {
    /// Makes the context ready to work under a key in one direction; expands the key unless it was the last one.
    /// Within one batch a key's direction never changes.
    pub(crate) fn load(&mut self, cipher: *const sys::EVP_CIPHER, id: ScheduleId, key: &[u8], encrypt: bool) -> bool {
        if self.loaded == Some(id) {
            return true;
        }
        let none = core::ptr::null_mut();
        // SAFETY: the context is whole; `cipher` is one of AWS-LC's own; the caller's key is as long as the cipher's,
        // which the second call checks first. A null cipher keeps the one that was set.
        let ok = unsafe {
            let context = self.context.as_ptr();
            let way = i32::from(encrypt);
            sys::EVP_CipherInit_ex(context, cipher, none, core::ptr::null(), core::ptr::null(), way) == 1
                && sys::EVP_CIPHER_CTX_key_length(context) as usize == key.len()
                && sys::EVP_CipherInit_ex(context, core::ptr::null(), none, key.as_ptr(), core::ptr::null(), way) == 1
                && sys::EVP_CIPHER_CTX_set_padding(context, 0) == 1
        };
        self.loaded = ok.then_some(id);
        ok
    }

    /// Sets the IV of the next update, keeping key and direction.
    pub(crate) fn set_iv(&mut self, iv: &[u8; 16]) -> bool {
        let none = core::ptr::null_mut();
        // SAFETY: the context holds a cipher and key (`load`), whose IVs have at most 16 bytes.
        unsafe {
            sys::EVP_CipherInit_ex(self.context.as_ptr(), core::ptr::null(), none, core::ptr::null(), iv.as_ptr(), -1)
                == 1
        }
    }

    /// Transforms `data` in place, all of it.
    pub(crate) fn update(&mut self, data: &mut [u8]) -> bool {
        let Ok(len) = i32::try_from(data.len()) else { return false };
        let place = data.as_mut_ptr();
        let mut written = 0;
        // SAFETY: `len` bytes lie at `place`; the function works in place and writes no more than it reads, because
        // callers pass whole blocks or a mode without blocks.
        let code = unsafe { sys::EVP_CipherUpdate(self.context.as_ptr(), place, &mut written, place, len) };
        code == 1 && written == len
    }

    /// Wipes the key.
    fn clear(&mut self) {
        if self.loaded.take().is_some() {
            // SAFETY: the context is whole and stays so; its key is freed, which wipes it.
            unsafe { sys::EVP_CIPHER_CTX_cleanup(self.context.as_ptr()) };
        }
    }
}
