//! HMAC from prepared midstates: both halves of the padded key are compressed when the key is prepared, so that an
//! operation costs its own blocks and one more.

use aws_lc_sys as sys;
use ciphermill_contract::suite::Digest;

use crate::ffi::{Plain, Wiped, wipe};

/// Bytes of the longest digest.
pub(crate) const DIGEST_MAX: usize = 64;

/// Bytes of the longest block under an HMAC that is prepared here (SHA-384, SHA-512).
const BLOCK_MAX: usize = 128;

/// A digest of AWS-LC with a state that is plain data.
trait Hash {
    /// The running state.
    type State: Plain;

    /// Bytes of a digest.
    const DIGEST: Digest;

    /// A fresh state.
    fn start() -> Option<Self::State>;

    /// Absorbs bytes.
    fn update(state: &mut Self::State, bytes: &[u8]) -> bool;

    /// Writes the digest; the state must be started anew afterwards.
    fn finish(state: &mut Self::State, out: &mut [u8; DIGEST_MAX]) -> bool;
}

macro_rules! hashes {
    ($($name:ident, $state:ident, $digest:ident, $init:ident, $update:ident, $finish:ident;)*) => {$(
        struct $name;

        impl Hash for $name {
            type State = sys::$state;

            const DIGEST: Digest = Digest::$digest;

            fn start() -> Option<sys::$state> {
                let mut state = Wiped::<sys::$state>::zeroed();
                // SAFETY: the state is a whole structure of the function's type.
                (unsafe { sys::$init(&mut state.0) } == 1).then_some(state.0)
            }

            fn update(state: &mut sys::$state, bytes: &[u8]) -> bool {
                // SAFETY: the state was started, pointer and length are those of the slice.
                unsafe { sys::$update(state, bytes.as_ptr().cast(), bytes.len()) == 1 }
            }

            fn finish(state: &mut sys::$state, out: &mut [u8; DIGEST_MAX]) -> bool {
                // SAFETY: the state was started, and no digest is longer than the output.
                unsafe { sys::$finish(out.as_mut_ptr(), state) == 1 }
            }
        }
    )*};
}

hashes! {
    Md5, MD5_CTX, Md5, MD5_Init, MD5_Update, MD5_Final;
    Sha1, SHA_CTX, Sha1, SHA1_Init, SHA1_Update, SHA1_Final;
    Sha224, SHA256_CTX, Sha224, SHA224_Init, SHA224_Update, SHA224_Final;
    Sha256, SHA256_CTX, Sha256, SHA256_Init, SHA256_Update, SHA256_Final;
    Sha384, SHA512_CTX, Sha384, SHA384_Init, SHA384_Update, SHA384_Final;
    Sha512, SHA512_CTX, Sha512, SHA512_Init, SHA512_Update, SHA512_Final;
}

/// The two midstates of a key (RFC 2104, section 4).
struct Midstates<H: Hash> {
    inner: Wiped<H::State>,
    outer: Wiped<H::State>,
}

impl<H: Hash> Midstates<H> {
    fn new(key: &[u8]) -> Option<Midstates<H>> {
        let block_len = H::DIGEST.block_len();
        let mut block = Wiped([0u8; BLOCK_MAX]);
        if key.len() > block_len {
            let mut state = Wiped(H::start()?);
            let mut digest = Wiped([0; DIGEST_MAX]);
            if !(H::update(&mut state.0, key) && H::finish(&mut state.0, &mut digest.0)) {
                return None;
            }
            block.0[..H::DIGEST.len()].copy_from_slice(&digest.0[..H::DIGEST.len()]);
        } else {
            block.0[..key.len()].copy_from_slice(key);
        }
        block.0.iter_mut().for_each(|byte| *byte ^= 0x36);
        let mut inner = Wiped(H::start()?);
        let ok = H::update(&mut inner.0, &block.0[..block_len]);
        block.0.iter_mut().for_each(|byte| *byte ^= 0x36 ^ 0x5c);
        let mut outer = Wiped(H::start()?);
        (ok && H::update(&mut outer.0, &block.0[..block_len])).then_some(Midstates { inner, outer })
    }

    fn compute(&self, parts: &[&[u8]], out: &mut [u8; DIGEST_MAX]) -> bool {
        let mut state = Wiped(self.inner.0);
        let mut ok = true;
        for part in parts {
            ok &= H::update(&mut state.0, part);
        }
        ok && self.finish(state, out)
    }

    /// What remains once the message has been absorbed.
    fn finish(&self, mut state: Wiped<H::State>, out: &mut [u8; DIGEST_MAX]) -> bool {
        let ok = H::finish(&mut state.0, out);
        state.0 = self.outer.0;
        ok && H::update(&mut state.0, &out[..H::DIGEST.len()]) && H::finish(&mut state.0, out)
    }
}

/// SHA-3 has no functions of its own in AWS-LC's interface, and SHA-512/t none to start with; AWS-LC's HMAC context holds the
/// midstates inline.
struct InlineKey(Box<Wiped<sys::HMAC_CTX>>);

// SAFETY: the context's pointers are to AWS-LC's static tables; everything else is inline.
unsafe impl Send for InlineKey {}
// SAFETY: as above, and the context is only copied from after it has been made.
unsafe impl Sync for InlineKey {}

impl InlineKey {
    fn new(md: *const sys::EVP_MD, key: &[u8]) -> Option<InlineKey> {
        // A context of zeros is an uninitialised one (hmac.h).
        let mut context = Box::new(Wiped::<sys::HMAC_CTX>::zeroed());
        // SAFETY: the context is whole, `md` is one of AWS-LC's static tables, key pointer and length belong together.
        let code =
            unsafe { sys::HMAC_Init_ex(&mut context.0, key.as_ptr().cast(), key.len(), md, core::ptr::null_mut()) };
        (code == 1).then_some(InlineKey(context))
    }

    fn compute(&self, parts: &[&[u8]], out: &mut [u8; DIGEST_MAX]) -> bool {
        let mut context = Wiped(self.0.0);
        parts.iter().all(|part| inline_update(&mut context, part)) && inline_finish(context, out)
    }
}

fn inline_update(context: &mut Wiped<sys::HMAC_CTX>, bytes: &[u8]) -> bool {
    // SAFETY: the context is a copy of an initialised one, which is flat; pointer and length are the slice's.
    unsafe { sys::HMAC_Update(&mut context.0, bytes.as_ptr(), bytes.len()) == 1 }
}

fn inline_finish(mut context: Wiped<sys::HMAC_CTX>, out: &mut [u8; DIGEST_MAX]) -> bool {
    let mut written = 0;
    // SAFETY: as above; no digest is longer than the output.
    unsafe { sys::HMAC_Final(&mut context.0, out.as_mut_ptr(), &mut written) == 1 }
}

/// What keys and messages under way are, for each digest that has a state of its own.
macro_rules! kinds {
    ($($name:ident),*) => {
        enum Kind {
            $($name(Midstates<$name>),)*
            Inline(InlineKey),
        }

        /// A message under way: the running state of the inner digest, or AWS-LC's context.
        #[derive(Clone)]
        enum State {
            $($name(Wiped<<$name as Hash>::State>),)*
            Inline(Box<Wiped<sys::HMAC_CTX>>),
        }

        impl HmacKey {
            /// The full HMAC of the parts one after the other, at the start of `out`. False when AWS-LC fails.
            pub(crate) fn compute(&self, parts: &[&[u8]], out: &mut [u8; DIGEST_MAX]) -> bool {
                let ok = match &self.0 {
                    $(Kind::$name(key) => key.compute(parts, out),)*
                    Kind::Inline(key) => key.compute(parts, out),
                };
                if !ok {
                    wipe(out);
                }
                ok
            }

            /// Begins a message that comes in pieces.
            pub(crate) fn start(&self) -> RunningHmac {
                RunningHmac(match &self.0 {
                    $(Kind::$name(key) => State::$name(key.inner.clone()),)*
                    Kind::Inline(key) => State::Inline(key.0.clone()),
                })
            }

            /// Ends a message of this key, with its full HMAC at the start of `out`. False when AWS-LC fails.
            pub(crate) fn end(&self, running: RunningHmac, out: &mut [u8; DIGEST_MAX]) -> bool {
                match (&self.0, running.0) {
                    $((Kind::$name(key), State::$name(state)) => key.finish(state, out),)*
                    (Kind::Inline(_), State::Inline(context)) => inline_finish(*context, out),
                    _ => false,
                }
            }
        }

        impl RunningHmac {
            /// Takes more of the message. False when AWS-LC fails.
            pub(crate) fn absorb(&mut self, bytes: &[u8]) -> bool {
                match &mut self.0 {
                    $(State::$name(state) => $name::update(&mut state.0, bytes),)*
                    State::Inline(context) => inline_update(context, bytes),
                }
            }
        }
    };
}

kinds!(Md5, Sha1, Sha224, Sha256, Sha384, Sha512);

// SAFETY: the context's pointers are to AWS-LC's static tables; everything else is inline.
unsafe impl Send for State {}

/// An HMAC key, its padded halves already compressed.
pub(crate) struct HmacKey(Kind);

/// A message of an HMAC as far as it has come.
#[derive(Clone)]
pub(crate) struct RunningHmac(State);

impl HmacKey {
    /// Prepares a key of any length; `None` for digests that AWS-LC lacks.
    pub(crate) fn new(digest: Digest, key: &[u8]) -> Option<HmacKey> {
        let kind = match digest {
            Digest::Md5 => Kind::Md5(Midstates::new(key)?),
            Digest::Sha1 => Kind::Sha1(Midstates::new(key)?),
            Digest::Sha224 => Kind::Sha224(Midstates::new(key)?),
            Digest::Sha256 => Kind::Sha256(Midstates::new(key)?),
            Digest::Sha384 => Kind::Sha384(Midstates::new(key)?),
            Digest::Sha512 => Kind::Sha512(Midstates::new(key)?),
            Digest::Sha512_224 | Digest::Sha512_256 => {
                Kind::Inline(InlineKey::new(crate::digest::table(digest)?, key)?)
            }
            Digest::Sha3_224 | Digest::Sha3_256 | Digest::Sha3_384 | Digest::Sha3_512 => {
                Kind::Inline(InlineKey::new(crate::digest::table(digest)?, key)?)
            }
            Digest::Shake128 | Digest::Shake256 | Digest::Blake3 => return None,
        };
        Some(HmacKey(kind))
    }
}
