//! AWS-LC's AEADs as its users call them: a context kept for each key, one call for each message, from input to output
//! without a copy between. What is compared with is the engine `library`, which works in place on a copy.

mod ciphers;

use std::ptr;
use std::ptr::NonNull;

use aws_lc_sys as sys;
use ciphermill_contract::suite::{Aead, AesSize};
use ciphermill_contract::{Direction, Op, Suite};

use crate::native::{NativeLoop, Task, all_done};

/// The engine's name.
pub(crate) const NAME: &str = "library";

/// Bytes of a tag.
const TAG_LEN: usize = 16;

/// A context for one key.
struct Context(NonNull<sys::EVP_AEAD_CTX>);

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: came from `EVP_AEAD_CTX_new` and is freed once.
        unsafe { sys::EVP_AEAD_CTX_free(self.0.as_ptr()) };
    }
}

/// The loop over the operations of a task, all of whose spans were found within the arena.
struct Aeads {
    direction: Direction,
    contexts: Vec<Context>,
    key_of: Vec<usize>,
    ops: Vec<Op>,
    arena: Vec<u8>,
}

/// The loop, for AEADs with full tags and what `ciphers` has.
pub(crate) fn open(task: &Task<'_>) -> Option<Box<dyn NativeLoop>> {
    let Suite::Aead(aead) = task.suite else { return ciphers::open(task) };
    // SAFETY: each function returns a static table.
    let table = unsafe {
        match aead {
            Aead::AesGcm(AesSize::Aes128) => sys::EVP_aead_aes_128_gcm(),
            Aead::AesGcm(AesSize::Aes192) => sys::EVP_aead_aes_192_gcm(),
            Aead::AesGcm(AesSize::Aes256) => sys::EVP_aead_aes_256_gcm(),
            Aead::AesGcmSiv(AesSize::Aes128) => sys::EVP_aead_aes_128_gcm_siv(),
            Aead::AesGcmSiv(AesSize::Aes256) => sys::EVP_aead_aes_256_gcm_siv(),
            Aead::ChaCha20Poly1305 => sys::EVP_aead_chacha20_poly1305(),
            _ => return None,
        }
    };
    let context = |key: &&[u8]| {
        // SAFETY: the table is static; the key is read for its length, which the function checks.
        let made = unsafe { sys::EVP_AEAD_CTX_new(table, key.as_ptr(), key.len(), TAG_LEN) };
        NonNull::new(made).map(Context)
    };
    let contexts: Vec<Context> = task.keys.iter().map(context).collect::<Option<_>>()?;
    if !task.is_sound_apart(TAG_LEN) {
        return None;
    }
    let (ops, arena, key_of) = (task.ops.to_vec(), task.arena.to_vec(), task.key_of.to_vec());
    Some(Box::new(Aeads { direction: task.direction, contexts, key_of, ops, arena }))
}

impl Aeads {
    /// # Safety
    /// The operation lies within the arena that `base` is the start of, with its input apart from its output.
    #[inline]
    unsafe fn one(&self, context: &Context, op: &Op, base: *mut u8) -> bool {
        let (aad, len) = (op.aad.span(), op.input.len as usize);
        let mut written = 0;
        // SAFETY: the caller's promise; the context is only read; the tag has `TAG_LEN` bytes (`open`).
        unsafe {
            let (input, output) = (base.add(op.input.offset as usize), base.add(op.output as usize));
            let (aad_at, tag) = (base.add(aad.offset as usize), base.add(op.tag as usize));
            let (iv, iv_len) = (op.iv.as_ptr(), usize::from(op.iv_len));
            let (context, aad_len) = (context.0.as_ptr(), aad.len as usize);
            match self.direction {
                Direction::Encrypt => {
                    sys::EVP_AEAD_CTX_seal_scatter(
                        context,
                        output,
                        tag,
                        &mut written,
                        TAG_LEN,
                        iv,
                        iv_len,
                        input,
                        len,
                        ptr::null(),
                        0,
                        aad_at,
                        aad_len,
                    ) == 1
                }
                Direction::Decrypt => {
                    sys::EVP_AEAD_CTX_open_gather(
                        context, output, iv, iv_len, input, len, tag, TAG_LEN, aad_at, aad_len,
                    ) == 1
                }
            }
        }
    }
}

impl NativeLoop for Aeads {
    fn ways(&self) -> Vec<String> {
        vec!["EVP_AEAD, out of place".to_owned()]
    }

    fn restart(&mut self) -> bool {
        true
    }

    fn run(&mut self, _way: usize) -> bool {
        let base = self.arena.as_mut_ptr();
        let mut all = true;
        for (op, key) in self.ops.iter().zip(&self.key_of) {
            // SAFETY: `open` found every operation within an arena of this length, and its places apart; no reference to the
            // arena lives meanwhile.
            all &= unsafe { self.one(&self.contexts[*key], op, base) };
        }
        if !all {
            // SAFETY: forgets what OpenSSL's descendant queued for this thread.
            unsafe { sys::ERR_clear_error() };
        }
        all
    }

    fn answers(&mut self) -> (Vec<Op>, Vec<u8>) {
        (all_done(&self.ops), self.arena.clone())
    }
}
