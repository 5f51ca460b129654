//! XTS (IEEE 1619-2018, NIST SP 800-38E) over ECB, for key lengths that AWS-LC has no XTS of.

use ciphermill_contract::OpStatus;

use crate::aes::{AesKey, BLOCK};
use crate::ffi::Wiped;

/// Bytes whose tweaks are computed at a time.
const CHUNK: usize = 64 * BLOCK;

/// Runs one data unit of a block or more in place. `ecb` enciphers or deciphers whole blocks under the data key.
pub(crate) fn run(
    tweak_key: &AesKey,
    iv: [u8; BLOCK],
    data: &mut [u8],
    encrypt: bool,
    mut ecb: impl FnMut(&mut [u8]) -> OpStatus,
) -> OpStatus {
    let mut tweak = Wiped(iv);
    tweak_key.encrypt_block(&mut tweak.0);
    let rest_len = data.len() % BLOCK;
    let Some(whole) = (data.len() - rest_len).checked_sub(if rest_len == 0 { 0 } else { BLOCK }) else {
        return OpStatus::EngineFault;
    };
    let (whole, end) = data.split_at_mut(whole);
    let mut tweaked = |data: &mut [u8], tweak: &mut [u8; BLOCK]| {
        let mut tweaks = Wiped([0; CHUNK]);
        for data in data.chunks_mut(CHUNK) {
            for place in tweaks.0[..data.len()].as_chunks_mut().0 {
                *place = *tweak;
                double(tweak);
            }
            add(data, &tweaks.0);
            let status = ecb(data);
            add(data, &tweaks.0);
            if !status.is_done() {
                return status;
            }
        }
        OpStatus::Done
    };
    let status = tweaked(whole, &mut tweak.0);
    if rest_len == 0 || !status.is_done() {
        return status;
    }
    // IEEE 1619, 5.3.2 and 5.4.2: the last whole block lends its end to the rest. When decrypting, the two last tweaks
    // change places.
    let mut next = Wiped(tweak.0);
    double(&mut next.0);
    let (first, second) = if encrypt { (&mut tweak.0, &mut next.0) } else { (&mut next.0, &mut tweak.0) };
    let (last, rest) = end.split_at_mut(BLOCK);
    let status = tweaked(last, first);
    last[..rest_len].swap_with_slice(rest);
    if status.is_done() { tweaked(last, second) } else { status }
}

/// Adds `from` to `to` bit by bit, as far as `to` reaches.
fn add(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= from;
    }
}

/// Multiplies by the primitive element (IEEE 1619, 5.2): a shift of the little-endian number, reduced without a branch.
fn double(tweak: &mut [u8; BLOCK]) {
    let number = u128::from_le_bytes(*tweak);
    *tweak = ((number << 1) ^ ((number >> 127) * 0x87)).to_le_bytes();
}
