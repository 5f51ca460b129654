//! Where operations that are measured lie; the lab's lie there too.
//!
//! Additional data, inputs, outputs and tags are apart from each other, each kind together from a cache line on, so that a run
//! changes nothing that the next one reads.

use ciphermill_contract::limits::ARENA_LEN_MAX;
use ciphermill_contract::{Direction, Error, KeyId, Op, Result, Span, Suite};

/// Bytes of random output that an operation asks for.
const RANDOM_LEN: u32 = 64;

/// Bytes of a cache line and of the widest vector.
pub(crate) const LINE_LEN: usize = 64;

/// Operations of a symmetric suite with these input lengths in bytes and `aad_len` bytes of additional data each, and their
/// arena, which is zero. They have no IV; those of a suite with keys name slot 0.
///
/// # Errors
/// [`Error::Exhausted`] when they need more than [`ARENA_LEN_MAX`].
pub fn layout(suite: Suite, direction: Direction, lengths: &[usize], aad_len: usize) -> Result<(Vec<Op>, Vec<u8>)> {
    let tag_len = suite.default_tag_len();
    let room = |len: &usize| suite.output_len(direction, *len, RANDOM_LEN as usize);
    let (inputs, outputs) = (lengths.iter().sum::<usize>(), lengths.iter().map(room).sum::<usize>());
    let behind = |end: usize| end.next_multiple_of(LINE_LEN);
    let (mut aad, mut input) = (0, behind(aad_len * lengths.len()));
    let mut output = behind(input + inputs);
    let mut tag = behind(output + outputs);
    let total = tag + tag_len * lengths.len();
    if total > ARENA_LEN_MAX {
        return Err(Error::exhausted("ARENA_LEN_MAX", ARENA_LEN_MAX, total));
    }
    let key = if suite.needs_key() { KeyId { slot: 0, generation: 1 } } else { KeyId::NONE };
    let mut ops = Vec::with_capacity(lengths.len());
    for len in lengths {
        let mut op = Op::in_place(key, Span::new(input as u32, *len as u32)).with_output(output as u32);
        if aad_len > 0 {
            op = op.with_aad(aad as u32, aad_len as u16);
        }
        if tag_len > 0 {
            op = op.with_tag(tag as u32, tag_len as u16);
        }
        if suite == Suite::Random {
            op.output_len = RANDOM_LEN;
        }
        ops.push(op);
        aad += aad_len;
        input += len;
        output += room(len);
        tag += tag_len;
    }
    Ok((ops, vec![0u8; total]))
}

/// Operations that undo those in `ops`, which were run over `arena`: with their keys and IVs, on their outputs or, where the
/// suite only computes tags, on their inputs. All have as much additional data as the first.
///
/// # Errors
/// As [`layout`].
pub fn undo(suite: Suite, ops: &[Op], arena: &[u8]) -> Result<(Vec<Op>, Vec<u8>)> {
    let input = |op: &Op| if suite.transforms() { Span::new(op.output, op.output_len) } else { op.input };
    let lengths: Vec<usize> = ops.iter().map(|op| input(op).len as usize).collect();
    let aad_len = ops.first().map_or(0, |op| usize::from(op.aad.len));
    let (mut undoing, mut undoing_arena) = layout(suite, Direction::Decrypt, &lengths, aad_len)?;
    for (op, from) in undoing.iter_mut().zip(ops) {
        op.key = from.key;
        // The rest of a longer one comes with the additional data.
        (op.iv, op.iv_len) = (from.iv, from.iv_len);
        undoing_arena[op.input.range()].copy_from_slice(&arena[input(from).range()]);
        undoing_arena[op.aad.span().range()].copy_from_slice(&arena[from.aad.span().range()]);
        undoing_arena[op.tag_span().range()].copy_from_slice(&arena[from.tag_span().range()]);
    }
    Ok((undoing, undoing_arena))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(arena: &[u8], spans: [Span; 3]) -> [u8; 3] {
        spans.map(|span| arena[span.range()].first().copied().unwrap_or_default())
    }

    #[test]
    fn what_is_undone_is_the_output_or_what_a_tag_was_made_of() {
        for (name, undone) in [("aes-128-gcm", [1, 3, 4]), ("hmac-sha256", [0, 2, 4])] {
            let suite: Suite = name.parse().expect("a suite");
            let (mut ops, mut arena) =
                layout(suite, Direction::Encrypt, &[3, 5], suite.aad_len().round_up(2)).expect("fits");
            let op = &mut ops[1];
            op.output_len = suite.output_len(Direction::Encrypt, 5, 0) as u32;
            let spans = [op.aad.span(), op.input, Span::new(op.output, op.output_len), op.tag_span()];
            for (span, byte) in spans.into_iter().zip(1..) {
                let place = &mut arena[span.range()];
                assert!(place.iter().all(|byte| *byte == 0), "{name}: apart from the others");
                place.fill(byte);
            }
            let (undoing, arena) = undo(suite, &ops, &arena).expect("fits");
            let op = &undoing[1];
            assert_eq!((op.key, op.input.len), (ops[1].key, 5));
            assert_eq!(bytes(&arena, [op.aad.span(), op.input, op.tag_span()]), undone, "{name}");
        }
    }

    #[test]
    fn more_than_an_arena_is_refused() {
        let suite: Suite = "aes-128-gcm".parse().expect("a suite");
        let exhausted = Error::exhausted("ARENA_LEN_MAX", ARENA_LEN_MAX, (1 << 32) + 16);
        assert_eq!(layout(suite, Direction::Encrypt, &[1 << 31], 0), Err(exhausted));
    }
}
