//! AES over AWS-LC's block and mode functions. A schedule is made once and only read afterwards, so that any number
//! of queues may use it at the same time.

use aws_lc_sys as sys;
use ciphermill_contract::suite::Mode;

use crate::ffi::Wiped;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 16;

/// Bytes of ciphertext that a CBC-MAC leaves behind at a time; they are thrown away.
const MAC_CHUNK: usize = 32 * BLOCK;

/// An expanded AES key for one direction.
pub(crate) struct AesKey(Wiped<sys::AES_KEY>);

/// How far a message in counter mode has come.
#[derive(Clone)]
pub(crate) struct Counter {
    counter: [u8; BLOCK],
    /// The key stream of the last block.
    rest: Wiped<[u8; BLOCK]>,
    used: u32,
}

impl Counter {
    /// The beginning of a message.
    pub(crate) fn new(counter: [u8; BLOCK]) -> Counter {
        Counter { counter, rest: Wiped([0; BLOCK]), used: 0 }
    }
}

/// How far a message in CFB8, CFB128 or OFB has come.
#[derive(Clone)]
pub(crate) struct Feedback {
    mode: Mode,
    encrypt: bool,
    register: Wiped<[u8; BLOCK]>,
    used: i32,
}

impl Feedback {
    /// The beginning of a message.
    pub(crate) fn new(mode: Mode, encrypt: bool, iv: [u8; BLOCK]) -> Feedback {
        Feedback { mode, encrypt, register: Wiped(iv), used: 0 }
    }
}

impl AesKey {
    /// Expands a key of 16, 24 or 32 bytes for encryption; `None` for any other length.
    pub(crate) fn encryption(key: &[u8]) -> Option<AesKey> {
        let bits = bits(key)?;
        let mut schedule = Wiped::<sys::AES_KEY>::zeroed();
        // SAFETY: `bits` is the length of `key`, which the function reads.
        let code = unsafe { sys::AES_set_encrypt_key(key.as_ptr(), bits, &mut schedule.0) };
        (code == 0).then_some(AesKey(schedule))
    }

    /// Expands a key of 16, 24 or 32 bytes for decryption; `None` for any other length.
    pub(crate) fn decryption(key: &[u8]) -> Option<AesKey> {
        let bits = bits(key)?;
        let mut schedule = Wiped::<sys::AES_KEY>::zeroed();
        // SAFETY: `bits` is the length of `key`, which the function reads.
        let code = unsafe { sys::AES_set_decrypt_key(key.as_ptr(), bits, &mut schedule.0) };
        (code == 0).then_some(AesKey(schedule))
    }

    /// Encrypts a block in place; the key must be one for encryption.
    pub(crate) fn encrypt_block(&self, block: &mut [u8; BLOCK]) {
        let place = block.as_mut_ptr();
        // SAFETY: the block has 16 bytes; the function reads all of them before it writes.
        unsafe { sys::AES_encrypt(place, place, &self.0.0) }
    }

    /// Decrypts a block in place; the key must be one for decryption.
    pub(crate) fn decrypt_block(&self, block: &mut [u8; BLOCK]) {
        let place = block.as_mut_ptr();
        // SAFETY: the block has 16 bytes; the function reads all of them before it writes.
        unsafe { sys::AES_decrypt(place, place, &self.0.0) }
    }

    /// The schedule, for AWS-LC's functions that only read it.
    pub(crate) fn as_ptr(&self) -> *const sys::AES_KEY {
        &self.0.0
    }

    /// CBC in place over the whole blocks of `data`; `iv` is left at the last ciphertext block.
    pub(crate) fn cbc(&self, iv: &mut [u8; BLOCK], data: &mut [u8], encrypt: bool) {
        let len = data.len() - data.len() % BLOCK;
        if len == 0 {
            return;
        }
        let place = data.as_mut_ptr();
        let way = if encrypt { sys::AES_ENCRYPT } else { sys::AES_DECRYPT };
        // SAFETY: `len` bytes lie at `place`, a multiple of the block; input and output are the same place, which the
        // function allows; the IV has 16 bytes.
        unsafe { sys::AES_cbc_encrypt(place, place, len, &self.0.0, iv.as_mut_ptr(), way) }
    }

    /// Counter mode in place from the counter block `counter`, counted as one big-endian number of 128 bits.
    pub(crate) fn ctr(&self, counter: [u8; BLOCK], data: &mut [u8]) {
        let place = data.as_mut_ptr();
        // SAFETY: `data.len()` bytes lie at `place`.
        unsafe { self.ctr_on(&mut Counter::new(counter), place, place, data.len()) };
    }

    /// Counter mode of the next bytes of a message.
    ///
    /// # Safety
    /// `len` bytes may be read at `input` and written at `output`, which is the same place or apart.
    pub(crate) unsafe fn ctr_on(&self, at: &mut Counter, input: *const u8, output: *mut u8, len: usize) {
        if len == 0 {
            return;
        }
        let Counter { counter, rest, used } = at;
        // SAFETY: the caller's promise; counter and rest have 16 bytes, and `used` is below 16.
        unsafe {
            let (counter, rest) = (counter.as_mut_ptr(), rest.0.as_mut_ptr());
            sys::AES_ctr128_encrypt(input, output, len, &self.0.0, counter, rest, used);
        }
    }

    /// The next bytes of a message in CFB or OFB.
    ///
    /// # Safety
    /// `len` bytes may be read at `input` and written at `output`, which is the same place or apart.
    pub(crate) unsafe fn feedback_on(&self, at: &mut Feedback, input: *const u8, output: *mut u8, len: usize) {
        let Feedback { mode, encrypt, register, used } = at;
        let (register, way) = (register.0.as_mut_ptr(), if *encrypt { sys::AES_ENCRYPT } else { sys::AES_DECRYPT });
        // SAFETY: the caller's promise; the register has 16 bytes, and `used` is what the function has left, below 16. Each byte is
        // read before it is written.
        unsafe {
            match mode {
                Mode::Cfb8 => sys::AES_cfb8_encrypt(input, output, len, &self.0.0, register, used, way),
                Mode::Cfb128 => sys::AES_cfb128_encrypt(input, output, len, &self.0.0, register, used, way),
                _ => sys::AES_ofb128_encrypt(input, output, len, &self.0.0, register, used),
            }
        }
    }

    /// CBC-MAC: absorbs the whole blocks of `data` into `state`.
    pub(crate) fn cbc_mac(&self, state: &mut [u8; BLOCK], data: &[u8]) {
        let mut sink = [0u8; MAC_CHUNK];
        for chunk in data[..data.len() - data.len() % BLOCK].chunks(MAC_CHUNK) {
            // SAFETY: the chunk is a multiple of the block and no longer than the sink; the state has 16 bytes.
            unsafe {
                sys::AES_cbc_encrypt(
                    chunk.as_ptr(),
                    sink.as_mut_ptr(),
                    chunk.len(),
                    &self.0.0,
                    state.as_mut_ptr(),
                    sys::AES_ENCRYPT,
                );
            }
        }
    }
}

/// The first counter block that a CTR operation's IV stands for: itself, or a nonce before a 32-bit counter from one
/// (RFC 3686). With at most 2^30 bytes of input that counter never wraps.
pub(crate) fn counter_block(iv: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let len = iv.len().min(BLOCK);
    block[..len].copy_from_slice(&iv[..len]);
    if len < BLOCK {
        block[BLOCK - 1] = 1;
    }
    block
}

fn bits(key: &[u8]) -> Option<u32> {
    match key.len() {
        16 => Some(128),
        24 => Some(192),
        32 => Some(256),
        _ => None,
    }
}
