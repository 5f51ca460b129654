//! Stream ciphers: ChaCha20 and RC4.

use aws_lc_sys as sys;
use ciphermill_contract::suite::StreamCipher;
use ciphermill_contract::{CheckedBatch, OpBuffers, OpStatus, PreparedKey, Reason, Result, Suite};

use crate::ffi::{Wiped, fault};
use crate::prepared::{Prepared, state};

/// Bytes of a block of ChaCha20.
const CHACHA_BLOCK: usize = 64;

/// A key for ChaCha20.
struct ChaChaKey(Wiped<[u8; 32]>);

/// RC4's state after the key setup; each operation starts from a copy of it.
struct Rc4Key(Wiped<sys::RC4_KEY>);

impl Rc4Key {
    fn new(key: &[u8]) -> Option<Rc4Key> {
        let len = u32::try_from(key.len()).ok()?;
        let mut state = Wiped::<sys::RC4_KEY>::zeroed();
        // SAFETY: `len` is the key's length, and keys have one byte at least (`Suite::key_len`).
        unsafe { sys::RC4_set_key(&mut state.0, len, key.as_ptr()) };
        Some(Rc4Key(state))
    }
}

/// Prepares a key of a length that the cipher takes.
pub(crate) fn prepare(key: &[u8], stream: StreamCipher) -> Result<PreparedKey> {
    let suite = Suite::Stream(stream);
    let prepared = match stream {
        StreamCipher::ChaCha20 => key.try_into().ok().map(|key| Prepared::key(suite, ChaChaKey(Wiped(key)))),
        StreamCipher::Rc4 => Rc4Key::new(key).map(|state| Prepared::key(suite, state)),
        StreamCipher::Seal3 => None,
    };
    prepared.ok_or_else(fault)
}

/// Runs a batch; leaves operations of other ciphers pending. Both ways are the same.
pub(crate) fn run(batch: &mut CheckedBatch<'_>, stream: StreamCipher) {
    let suite = batch.suite();
    match stream {
        StreamCipher::ChaCha20 => batch.process(|op| match state::<ChaChaKey>(op, suite) {
            Some(key) => chacha20(key, op),
            None => OpStatus::EngineFault,
        }),
        StreamCipher::Rc4 => batch.process(|op| match state::<Rc4Key>(op, suite) {
            Some(key) => rc4(key, op),
            None => OpStatus::EngineFault,
        }),
        StreamCipher::Seal3 => {}
    }
}

fn chacha20(key: &ChaChaKey, op: &mut OpBuffers<'_>) -> OpStatus {
    // RFC 8439, 2.4: the counter comes first, then the nonce; a bare nonce counts from zero.
    let (counter, nonce) = match op.iv.split_first_chunk::<4>() {
        Some((counter, nonce)) if nonce.len() == 12 => (u32::from_le_bytes(*counter), nonce),
        _ if op.iv.len() == 12 => (0, op.iv),
        _ => return OpStatus::EngineFault,
    };
    // The counter has 32 bits, and the standard does not say what follows.
    if u64::from(counter) + op.data.len().div_ceil(CHACHA_BLOCK) as u64 > 1 << 32 {
        return OpStatus::BadInput(Reason::InputTooLong);
    }
    let place = op.data.as_mut_ptr();
    // SAFETY: `data.len()` bytes lie at `place`, input and output may be the same place; the key has 32 bytes and the
    // nonce 12.
    unsafe { sys::CRYPTO_chacha_20(place, place, op.data.len(), key.0.0.as_ptr(), nonce.as_ptr(), counter) };
    OpStatus::Done
}

fn rc4(key: &Rc4Key, op: &mut OpBuffers<'_>) -> OpStatus {
    let mut state = Wiped(key.0.0);
    let place = op.data.as_mut_ptr();
    // SAFETY: `data.len()` bytes lie at `place`; the function reads each byte before it writes it.
    unsafe { sys::RC4(&mut state.0, op.data.len(), place, place) };
    OpStatus::Done
}
