//! Operations in shared memory: the contract's 64 bytes ([`Op`]), copied field by field. A copy is made of words that may be anything, so
//! that an [`Op`], whose status is an enum, is never made of them as they are.

use ciphermill_contract::op::{Aad, Span};
use ciphermill_contract::{KeyId, Op, OpStatus, Reason};
use ciphermill_memory::Region;

use crate::Corrupt;

/// Bytes of an operation.
pub const OP_LEN: usize = 64;

/// Bytes of a result: the status, the tag's length and the output's, in words of 8, 16 and 32 bits.
pub(crate) const RESULT_LEN: usize = 8;

/// Bytes of an operation and of its result. Results lie behind all operations, apart from them: one side alone writes to either, so that
/// lines of the cache go one way.
pub const RECORD_LEN: usize = OP_LEN + RESULT_LEN;

/// Operations, and results, that are copied at a time.
const CHUNK: usize = 16;
const RESULTS: usize = 128;

const OUTSIDE: Corrupt = Corrupt { place: "operations", rule: "must lie within the channel's memory" };

/// Writes operations from the byte `at` on, all of them pending.
///
/// # Errors
/// [`Corrupt`] where they do not fit; those before were written.
pub fn put_ops(region: &Region, at: usize, ops: impl Iterator<Item = Op>) -> Result<(), Corrupt> {
    let mut bytes = [0; CHUNK * OP_LEN];
    let mut place = at;
    let mut filled = 0;
    for op in ops {
        bytes[filled..filled + OP_LEN].copy_from_slice(&encode(&op));
        filled += OP_LEN;
        if filled == bytes.len() {
            if !region.write(place, &bytes) {
                return Err(OUTSIDE);
            }
            place += filled;
            filled = 0;
        }
    }
    if region.write(place, &bytes[..filled]) { Ok(()) } else { Err(OUTSIDE) }
}

/// Copies `count` operations from the byte `at` on to the end of `ops`. All are pending, whatever their status says there.
///
/// # Errors
/// [`Corrupt`] where they do not lie within the memory; nothing is copied then.
pub fn get_ops(region: &Region, at: usize, count: usize, ops: &mut Vec<Op>) -> Result<(), Corrupt> {
    let end = count.checked_mul(OP_LEN).and_then(|len| len.checked_add(at));
    if end.is_none_or(|end| end > region.len()) {
        return Err(OUTSIDE);
    }
    ops.reserve(count);
    let mut bytes = [0; CHUNK * OP_LEN];
    for first in (0..count).step_by(CHUNK) {
        let bytes = &mut bytes[..(count - first).min(CHUNK) * OP_LEN];
        if !region.read(at + first * OP_LEN, bytes) {
            return Err(OUTSIDE);
        }
        ops.extend(bytes.as_chunks::<OP_LEN>().0.iter().map(decode));
    }
    Ok(())
}

/// Writes what became of operations whose records begin at the byte `at`: statuses and the lengths that were written.
///
/// # Errors
/// [`Corrupt`] where results do not lie within the memory; those before were written.
pub fn write_results(region: &Region, at: usize, ops: &[Op]) -> Result<(), Corrupt> {
    let mut place = at.saturating_add(ops.len() * OP_LEN);
    let mut bytes = [0; RESULTS * RESULT_LEN];
    for ops in ops.chunks(RESULTS) {
        let bytes = &mut bytes[..ops.len() * RESULT_LEN];
        for (bytes, op) in bytes.as_chunks_mut::<RESULT_LEN>().0.iter_mut().zip(ops) {
            bytes[..2].copy_from_slice(&encode_status(op.status));
            bytes[2..4].copy_from_slice(&op.tag_len.to_le_bytes());
            bytes[4..].copy_from_slice(&op.output_len.to_le_bytes());
        }
        if !region.write(place, bytes) {
            return Err(OUTSIDE);
        }
        place += bytes.len();
    }
    Ok(())
}

/// Reads what became of `count` operations, whose records begin at the byte `at`: calls `each` with the index, the status, and the bytes
/// of output and of tag that were written. What is no status is an engine's fault.
///
/// # Errors
/// [`Corrupt`] where they do not lie within the memory.
pub fn read_results(
    region: &Region,
    at: usize,
    count: usize,
    mut each: impl FnMut(usize, OpStatus, u32, u16),
) -> Result<(), Corrupt> {
    let at = at.saturating_add(count.saturating_mul(OP_LEN));
    let mut bytes = [0; RESULTS * RESULT_LEN];
    for first in (0..count).step_by(RESULTS) {
        let bytes = &mut bytes[..(count - first).min(RESULTS) * RESULT_LEN];
        if !region.read(at.saturating_add(first * RESULT_LEN), bytes) {
            return Err(OUTSIDE);
        }
        for (index, bytes) in bytes.as_chunks::<RESULT_LEN>().0.iter().enumerate() {
            let [status, reason, tag_low, tag_high, output_len @ ..] = *bytes;
            let tag_len = u16::from_le_bytes([tag_low, tag_high]);
            each(first + index, decode_status([status, reason]), u32::from_le_bytes(output_len), tag_len);
        }
    }
    Ok(())
}

#[inline(always)]
fn encode(op: &Op) -> [u8; OP_LEN] {
    let mut bytes = [0; OP_LEN];
    bytes[0..4].copy_from_slice(&op.key.slot.to_le_bytes());
    bytes[4..8].copy_from_slice(&op.key.generation.to_le_bytes());
    bytes[8..24].copy_from_slice(&op.iv);
    bytes[24..28].copy_from_slice(&op.input.offset.to_le_bytes());
    bytes[28..32].copy_from_slice(&op.input.len.to_le_bytes());
    bytes[32..36].copy_from_slice(&op.output.to_le_bytes());
    bytes[36..40].copy_from_slice(&op.tag.to_le_bytes());
    let Aad { offset, len } = op.aad;
    bytes[40..44].copy_from_slice(&offset.to_le_bytes());
    bytes[44..46].copy_from_slice(&len.to_le_bytes());
    bytes[56..60].copy_from_slice(&op.output_len.to_le_bytes());
    bytes[60..62].copy_from_slice(&op.tag_len.to_le_bytes());
    bytes[62] = op.iv_len;
    bytes[63] = op.reserved;
    bytes
}

#[inline(always)]
fn decode(bytes: &[u8; OP_LEN]) -> Op {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let mut iv = [0; 16];
    iv.copy_from_slice(&bytes[8..24]);
    Op {
        key: KeyId { slot: word(0), generation: word(4) },
        iv,
        input: Span::new(word(24), word(28)),
        output: word(32),
        tag: word(36),
        aad: Aad::new(word(40), half(44)),
        status: OpStatus::Pending,
        cookie: 0,
        output_len: word(56),
        tag_len: half(60),
        iv_len: bytes[62],
        reserved: bytes[63],
    }
}

fn encode_status(status: OpStatus) -> [u8; 2] {
    match status {
        OpStatus::Pending => [0, 0],
        OpStatus::Done => [1, 0],
        OpStatus::AuthFailed => [2, 0],
        OpStatus::BadInput(reason) => [3, reason as u8],
        OpStatus::Refused(reason) => [4, reason as u8],
        OpStatus::EngineFault => [5, 0],
    }
}

fn decode_status([status, reason]: [u8; 2]) -> OpStatus {
    match (status, Reason::ALL.get(usize::from(reason))) {
        (1, _) => OpStatus::Done,
        (2, _) => OpStatus::AuthFailed,
        (3, Some(reason)) => OpStatus::BadInput(*reason),
        (4, Some(reason)) => OpStatus::Refused(*reason),
        _ => OpStatus::EngineFault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ops(count: u32) -> Vec<Op> {
        let op = |index: u32| Op {
            key: KeyId { slot: index, generation: 7 },
            iv: [index as u8; 16],
            input: Span::new(index * 64, 33),
            output: index * 64 + 1,
            tag: index * 64 + 2,
            aad: Aad::new(index + 3, 9),
            output_len: index + 4,
            tag_len: 16,
            iv_len: 12,
            reserved: 1,
            ..Op::default()
        };
        (0..count).map(op).collect()
    }

    #[test]
    fn operations_and_results_come_through_in_any_number() {
        let region = Region::create("test", 16_384).expect("memory");
        for count in [1, 15, 16, 17, 33, 64] {
            let mut sent = ops(count);
            put_ops(&region, 4096, sent.iter().copied()).expect("fits");
            let mut got = Vec::new();
            get_ops(&region, 4096, count as usize, &mut got).expect("within");
            assert_eq!(got, sent);
            let reasons =
                Reason::ALL.iter().flat_map(|reason| [OpStatus::BadInput(*reason), OpStatus::Refused(*reason)]);
            let plain = [OpStatus::Done, OpStatus::AuthFailed, OpStatus::EngineFault];
            for (op, status) in sent.iter_mut().zip(plain.into_iter().chain(reasons).cycle()) {
                (op.status, op.output_len, op.tag_len) = (status, op.output_len + 1, 15);
            }
            write_results(&region, 4096, &sent).expect("within");
            let mut seen = 0;
            read_results(&region, 4096, count as usize, |index, status, output_len, tag_len| {
                let op = &sent[index];
                assert_eq!((status, output_len, tag_len), (op.status, op.output_len, op.tag_len));
                seen += 1;
            })
            .expect("within");
            assert_eq!(seen, count);
            // No operation is written to.
            let mut again = Vec::new();
            get_ops(&region, 4096, count as usize, &mut again).expect("within");
            assert_eq!(again, got);
        }
    }

    #[test]
    fn what_was_not_ended_or_is_no_status_is_a_fault() {
        for bytes in [[0, 0], [6, 0], [255, 255], [3, 255], [4, Reason::ALL.len() as u8]] {
            assert_eq!(decode_status(bytes), OpStatus::EngineFault, "{bytes:?}");
        }
    }

    #[test]
    fn nothing_outside_is_read_or_written() {
        let region = Region::create("test", 4096).expect("memory");
        let mut got = Vec::new();
        for (at, count) in [(4096 - 64, 2), (4097, 1), (usize::MAX, 1), (0, usize::MAX), (0, 65)] {
            assert_eq!(get_ops(&region, at, count, &mut got), Err(OUTSIDE), "{at}, {count}");
        }
        assert!(got.is_empty());
        assert_eq!(put_ops(&region, 4096 - 63, ops(1).into_iter()), Err(OUTSIDE));
        assert_eq!(write_results(&region, 4096 - RECORD_LEN + 1, &ops(1)), Err(OUTSIDE));
        assert_eq!(read_results(&region, 4096 - RECORD_LEN + 1, 1, |_, _, _, _| {}), Err(OUTSIDE));
    }
}
