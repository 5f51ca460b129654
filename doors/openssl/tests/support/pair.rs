//! Two contexts of a cipher, one of `default` and one of ours, and what they are asked.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use std::ffi::{c_int, c_void};

use foreign_types::ForeignTypeRef;
use openssl::cipher::Cipher;
use openssl::cipher_ctx::CipherCtx;

unsafe extern "C" {
    fn EVP_CIPHER_CTX_get_updated_iv(context: *mut openssl_sys::EVP_CIPHER_CTX, iv: *mut c_void, len: usize) -> c_int;
    fn EVP_CIPHER_CTX_iv(context: *const openssl_sys::EVP_CIPHER_CTX) -> *const u8;
    fn EVP_CIPHER_CTX_get_num(context: *const openssl_sys::EVP_CIPHER_CTX) -> c_int;
}

/// Numbers from a seed (SplitMix64, Steele, Lea and Flood 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    pub(crate) fn part_len(&mut self) -> usize {
        match self.below(4) {
            0 => self.below(40),
            1 => 16 * self.below(60),
            2 => self.below(600),
            _ => self.below(20_000),
        }
    }
}

/// One context of `default` and one of ours, which are asked the same.
pub(crate) struct Pair {
    pub(crate) theirs: CipherCtx,
    pub(crate) ours: CipherCtx,
}

pub(crate) fn fetch(name: &str, provider: &str) -> Cipher {
    Cipher::fetch(None, name, Some(&format!("provider={provider}"))).expect("a cipher")
}

impl Pair {
    pub(crate) fn new(name: &str, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> Pair {
        let open = |provider| {
            let mut context = CipherCtx::new().expect("a context");
            begin(&mut context, Some(&fetch(name, provider)), encrypt, key, iv).expect("begun");
            context
        };
        Pair { theirs: open("default"), ours: open("ciphermill") }
    }

    /// Asks both, and returns what they say alike.
    pub(crate) fn both<R: PartialEq + std::fmt::Debug>(
        &mut self,
        what: &str,
        mut ask: impl FnMut(&mut CipherCtx) -> R,
    ) -> R {
        let (theirs, ours) = (ask(&mut self.theirs), ask(&mut self.ours));
        assert_eq!(ours, theirs, "{what}");
        ours
    }

    pub(crate) fn begin(&mut self, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) {
        self.both("begin", |context| begin(context, None, encrypt, key, iv).is_ok());
    }

    pub(crate) fn update(&mut self, input: &[u8]) -> Option<Vec<u8>> {
        self.both("update", |context| {
            let mut output = vec![0; input.len() + 16];
            let len = context.cipher_update(input, Some(&mut output)).ok()?;
            output.truncate(len);
            Some(output)
        })
    }

    pub(crate) fn aad(&mut self, aad: &[u8]) {
        self.both("additional data", |context| context.cipher_update(aad, None).ok());
    }

    pub(crate) fn finish(&mut self) -> Option<usize> {
        self.both("final", |context| context.cipher_final(&mut [0; 32]).ok())
    }

    pub(crate) fn tag(&mut self, len: usize) -> Option<Vec<u8>> {
        self.both("tag", |context| {
            let mut tag = vec![0; len];
            context.tag(&mut tag).ok().map(|()| tag)
        })
    }

    pub(crate) fn set_tag(&mut self, tag: &[u8]) {
        self.both("set tag", |context| context.set_tag(tag).is_ok());
    }

    pub(crate) fn place(&mut self) {
        self.both("IV and place in the block", |context| {
            let mut iv = [0_u8; 16];
            // SAFETY: a context with a cipher, and room for its IV.
            unsafe {
                let context = context.as_ptr();
                let done = EVP_CIPHER_CTX_get_updated_iv(context, iv.as_mut_ptr().cast(), iv.len());
                // What programs for earlier versions of OpenSSL ask.
                let place = EVP_CIPHER_CTX_iv(context);
                assert!(!place.is_null());
                (done, iv, place.cast::<[u8; 16]>().read(), EVP_CIPHER_CTX_get_num(context))
            }
        });
    }

    pub(crate) fn padding(&mut self, padding: bool) {
        self.both("padding", |context| context.set_padding(padding));
    }

    /// Goes on with copies of both, which have come as far.
    pub(crate) fn copy(&mut self) {
        let copies = self.copies();
        // What happens to the originals does not matter to the copies.
        let _ = self.update(&[7; 1000]);
        *self = copies;
    }

    fn copies(&self) -> Pair {
        let copy = |from: &CipherCtx| {
            let mut to = CipherCtx::new().expect("a context");
            to.copy(from).expect("a copy");
            to
        };
        Pair { theirs: copy(&self.theirs), ours: copy(&self.ours) }
    }
}

pub(crate) fn begin(
    context: &mut CipherCtx,
    cipher: Option<&Cipher>,
    encrypt: bool,
    key: Option<&[u8]>,
    iv: Option<&[u8]>,
) -> Result<(), openssl::error::ErrorStack> {
    let cipher = cipher.map(|cipher| &**cipher);
    if encrypt { context.encrypt_init(cipher, key, iv) } else { context.decrypt_init(cipher, key, iv) }
}
