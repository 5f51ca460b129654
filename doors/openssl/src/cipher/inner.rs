//! Contexts of `default`, and what they are given.

use std::ffi::CStr;
use std::sync::OnceLock;
use std::{ptr, slice};

use ciphermill_contract::suite::{Aead, AesSize, BlockCipher, Mode};
use ciphermill_contract::{Piece, Suite};

use crate::dispatch::{Ciphers, Object};
use crate::ffi::Param;
use crate::inner::{Inner, provider_context};
use crate::params::END;

/// Ciphers that are offered, by the names that `default` has for them, and what the mill is asked for.
pub(crate) const CIPHERS: [(&CStr, Suite); 14] = [
    (c"AES-128-CTR", aes(AesSize::Aes128, Mode::Ctr)),
    (c"AES-192-CTR", aes(AesSize::Aes192, Mode::Ctr)),
    (c"AES-256-CTR", aes(AesSize::Aes256, Mode::Ctr)),
    (c"AES-128-GCM", Suite::Aead(Aead::AesGcm(AesSize::Aes128))),
    (c"AES-192-GCM", Suite::Aead(Aead::AesGcm(AesSize::Aes192))),
    (c"AES-256-GCM", Suite::Aead(Aead::AesGcm(AesSize::Aes256))),
    (c"AES-128-CBC", aes(AesSize::Aes128, Mode::Cbc)),
    (c"AES-192-CBC", aes(AesSize::Aes192, Mode::Cbc)),
    (c"AES-256-CBC", aes(AesSize::Aes256, Mode::Cbc)),
    (c"AES-128-ECB", aes(AesSize::Aes128, Mode::Ecb)),
    (c"AES-192-ECB", aes(AesSize::Aes192, Mode::Ecb)),
    (c"AES-256-ECB", aes(AesSize::Aes256, Mode::Ecb)),
    (c"AES-128-XTS", aes(AesSize::Aes128, Mode::Xts)),
    (c"AES-256-XTS", aes(AesSize::Aes256, Mode::Xts)),
];

const fn aes(size: AesSize, mode: Mode) -> Suite {
    Suite::Cipher(BlockCipher::Aes(size), mode)
}

static FUNCTIONS: [OnceLock<Ciphers>; CIPHERS.len()] = [const { OnceLock::new() }; CIPHERS.len()];

/// The functions of `default` for a cipher.
pub(super) fn functions(of: usize) -> &'static Ciphers {
    FUNCTIONS[of].get_or_init(|| Inner::functions(CIPHERS[of].0))
}

/// What the mill is asked for.
pub(super) fn suite(of: usize) -> Suite {
    CIPHERS[of].1
}

/// A context of `default`.
pub(super) struct InnerCipher {
    pub(super) of: usize,
    pub(super) object: Object,
}

/// Where bytes come from and go to, as the core hands them over.
#[derive(Clone, Copy)]
pub(super) struct Text {
    pub(super) out: *mut u8,
    pub(super) input: *const u8,
    pub(super) len: usize,
}

/// What a message is begun with.
pub(super) struct Begin<'b> {
    pub(super) encrypt: bool,
    pub(super) key: Option<&'b [u8]>,
    pub(super) iv: Option<&'b [u8]>,
}

impl InnerCipher {
    pub(super) fn new(of: usize) -> Option<InnerCipher> {
        // SAFETY: the context is that of `default`, whose function it is.
        let object = unsafe { functions(of).newctx?(provider_context()) };
        (!object.is_null()).then_some(InnerCipher { of, object })
    }

    pub(super) fn functions(&self) -> &'static Ciphers {
        functions(self.of)
    }

    pub(super) fn duplicate(&self) -> Option<InnerCipher> {
        // SAFETY: a context of these functions.
        let object = unsafe { self.functions().dupctx?(self.object) };
        (!object.is_null()).then_some(InnerCipher { object, ..*self })
    }

    /// Begins a message, or takes a key or IV.
    ///
    /// # Safety
    /// The parameters must be null or an array that is ended by a null key.
    pub(super) unsafe fn begin(&self, begin: &Begin<'_>, params: *const Param) -> bool {
        let functions = self.functions();
        let init = if begin.encrypt { functions.encrypt_init } else { functions.decrypt_init };
        let part = |bytes: Option<&[u8]>| bytes.map_or((ptr::null(), 0), |bytes| (bytes.as_ptr(), bytes.len()));
        let (key, iv) = (part(begin.key), part(begin.iv));
        // SAFETY: slices with their lengths; the caller's promise.
        init.is_some_and(|init| unsafe { init(self.object, key.0, key.1, iv.0, iv.1, params) } == 1)
    }

    /// The next bytes of a message; how many came out.
    ///
    /// # Safety
    /// What the core promises of its buffers.
    pub(super) unsafe fn update(&self, text: Text, room: usize) -> Option<usize> {
        let mut written = 0;
        // SAFETY: the caller's promise.
        let done = unsafe { self.functions().update?(self.object, text.out, &mut written, room, text.input, text.len) };
        (done == 1).then_some(written)
    }

    /// Ends a message of which nothing is held back; whether it is right.
    pub(super) fn finish(&self) -> bool {
        let (mut room, mut written) = ([0; 16], 0);
        let finish = self.functions().finish;
        // SAFETY: a context of these functions, and a place with its length.
        finish.is_some_and(|finish| unsafe { finish(self.object, room.as_mut_ptr(), &mut written, room.len()) } == 1)
    }

    /// Answers one question.
    ///
    /// # Safety
    /// The parameter's buffer is writable for its size.
    pub(super) unsafe fn get(&self, param: &mut Param) -> bool {
        let mut asked = [*param, END];
        let get = self.functions().get_ctx_params;
        // SAFETY: an array of one; the caller's promise.
        let done = get.is_some_and(|get| unsafe { get(self.object, asked.as_mut_ptr()) } == 1);
        param.return_size = asked[0].return_size;
        done
    }
}

impl Drop for InnerCipher {
    fn drop(&mut self) {
        if let Some(free) = self.functions().freectx {
            // SAFETY: this value's own context.
            unsafe { free(self.object) };
        }
    }
}

impl Text {
    /// Whether input and output share some bytes but do not begin at the same.
    fn overlaps(&self) -> bool {
        let (input, out) = (self.input as usize, self.out as usize);
        input != out && input.abs_diff(out) < self.len
    }

    /// Calls a function with buffers that are the same or apart, for which a copy of the input is made if they are neither.
    ///
    /// # Safety
    /// `len` bytes may be read at `input` and written at `out`.
    pub(super) unsafe fn run<R>(self, function: impl FnOnce(Piece<'_>) -> R) -> Option<R> {
        if self.len == 0 {
            return Some(function(Piece::in_place(&mut [])));
        }
        // SAFETY: the caller's promise; a slice of the input is made only where it is apart from the output.
        unsafe {
            if self.overlaps() {
                self.out.copy_from(self.input, self.len);
            }
            let output = slice::from_raw_parts_mut(self.out, self.len);
            if self.overlaps() || ptr::eq(self.input, self.out) {
                return Some(function(Piece::in_place(output)));
            }
            Piece::apart(slice::from_raw_parts(self.input, self.len), output).map(function)
        }
    }
}
