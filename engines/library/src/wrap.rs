//! AES key wrap, KW and KWP (NIST SP 800-38F), by AWS-LC's functions over its AES.

use aws_lc_sys as sys;
use ciphermill_contract::suite::KeyWrap;
use ciphermill_contract::{CheckedBatch, Direction, OpBuffers, OpStatus, PreparedKey, Result, Suite};

use crate::aes::AesKey;
use crate::ffi::{fault, op_fault};
use crate::prepared::{Prepared, state};

/// Bytes that a wrapped key is longer by.
const MORE: usize = 8;

/// A key that keys are wrapped by.
struct WrapKey {
    encryption: AesKey,
    decryption: AesKey,
}

/// Prepares a key of a length that the suite takes.
pub(crate) fn prepare(key: &[u8], suite: Suite) -> Result<PreparedKey> {
    let make = || Some(WrapKey { encryption: AesKey::encryption(key)?, decryption: AesKey::decryption(key)? });
    make().map(|state| Prepared::key(suite, state)).ok_or_else(fault)
}

/// Runs a batch.
pub(crate) fn run(batch: &mut CheckedBatch<'_>, wrap: KeyWrap) {
    let (suite, direction) = (batch.suite(), batch.direction());
    batch.process(|op| {
        let Some(key) = state::<WrapKey>(op, suite) else { return OpStatus::EngineFault };
        match direction {
            Direction::Encrypt => seal(key, wrap, op),
            Direction::Decrypt => open(key, wrap, op),
        }
    });
}

fn seal(key: &WrapKey, wrap: KeyWrap, op: &mut OpBuffers<'_>) -> OpStatus {
    let (place, len, room) = (op.data.as_mut_ptr(), op.input_len, op.data.len());
    if room < len.next_multiple_of(MORE) + MORE {
        return OpStatus::EngineFault;
    }
    let written = match wrap {
        // SAFETY: `len` bytes lie at `place`, which has room for `MORE` more; the function moves its input to where it works
        // first; the IV has the 8 bytes that it reads.
        KeyWrap::Kw(_) => usize::try_from(unsafe {
            sys::AES_wrap_key(key.encryption.as_ptr(), iv_of(op), place, place.cast_const(), len)
        }),
        KeyWrap::Kwp(_) => {
            let mut written = 0;
            // SAFETY: as above; the function copies its input before it writes, and no more than `room` bytes.
            let code = unsafe {
                sys::AES_wrap_key_padded(key.encryption.as_ptr(), place, &mut written, room, place.cast_const(), len)
            };
            Ok(if code == 1 { written } else { 0 })
        }
    };
    if written == Ok(room) { OpStatus::Done } else { op_fault() }
}

fn open(key: &WrapKey, wrap: KeyWrap, op: &mut OpBuffers<'_>) -> OpStatus {
    let (place, len) = (op.data.as_mut_ptr(), op.input_len);
    if op.data.len() < len || len < 2 * MORE {
        return OpStatus::EngineFault;
    }
    let written = match wrap {
        // SAFETY: `len` bytes lie at `place`, of which the function writes `MORE` less, where it has moved its input to
        // first; the IV has the 8 bytes that it reads.
        KeyWrap::Kw(_) => usize::try_from(unsafe {
            sys::AES_unwrap_key(key.decryption.as_ptr(), iv_of(op), place, place.cast_const(), len)
        })
        .ok(),
        KeyWrap::Kwp(_) => {
            let mut written = 0;
            // SAFETY: as above; a single block is deciphered apart.
            let code = unsafe {
                sys::AES_unwrap_key_padded(key.decryption.as_ptr(), place, &mut written, len, place.cast_const(), len)
            };
            (code == 1).then_some(written)
        }
    };
    // Lengths are those of the suite, so that nothing else can be wrong.
    let Some(written) = written else { return OpStatus::AuthFailed };
    op.output_len = written;
    OpStatus::Done
}

/// The operation's IV, or none for the default one.
fn iv_of(op: &OpBuffers<'_>) -> *const u8 {
    if op.iv.len() == MORE { op.iv.as_ptr() } else { core::ptr::null() }
}
