//! One operation: its buffers, where they lie in an arena, and its run in a batch of its own.

#[cfg(test)]
mod exhaustive;

use ciphermill_contract::op::iv_rest;
use ciphermill_contract::{Aad, Batch, Direction, Error, KeyId, Op, OpStatus, Reason, Result, Span, Suite};
use ciphermill_memory::wipe;
use smallvec::SmallVec;

use crate::policy::RunOptions;
use crate::run::Runner;

/// One operation and its buffers.
#[derive(Debug)]
pub struct One<'d> {
    /// The key, [`KeyId::NONE`] for suites without one.
    pub key: KeyId,
    /// The initialisation vector, nonce, tweak or counter block.
    pub iv: &'d [u8],
    /// Additional authenticated data, or FF1's tweak.
    pub aad: &'d [u8],
    /// The input, and where the output goes: as long as the longer of both.
    pub data: &'d mut [u8],
    /// Bytes of input in `data`.
    pub input_len: usize,
    /// Where the tag, digest or signature goes, or lies when it is to be verified.
    pub tag: &'d mut [u8],
}

/// What became of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneDone {
    /// Its status.
    pub status: OpStatus,
    /// Bytes of output in `data`.
    pub output_len: usize,
    /// Bytes at `tag`.
    pub tag_len: usize,
}

/// Where an operation's parts lie in an arena from `start` on, and where they end; or the rule that its buffers break.
/// What the arena holds behind them is no room for it.
#[inline(always)]
pub(super) fn lay_out(one: &One<'_>, suite: Suite, direction: Direction, start: usize) -> Result<(Op, usize), Reason> {
    if one.input_len > one.data.len() {
        return Err(Reason::InputPastEnd);
    }
    if suite.output_len(direction, one.input_len, one.data.len()) > one.data.len() {
        return Err(Reason::OutputPastEnd);
    }
    let aad = start + one.data.len();
    let aad_len = iv_rest(one.iv).len() + one.aad.len();
    let tag = aad + aad_len;
    let output = if suite.transforms() { start } else { tag + one.tag.len() };
    let end = if suite.transforms() { output.max(tag + one.tag.len()) } else { output + one.data.len() };
    let (Ok(end_offset), Ok(aad_len), Ok(tag_len)) =
        (u32::try_from(end), u16::try_from(aad_len), u16::try_from(one.tag.len()))
    else {
        return Err(Reason::InputTooLong);
    };
    debug_assert!(end_offset as usize == end);
    let op = Op {
        key: one.key,
        input: Span::new(start as u32, one.input_len as u32),
        output: output as u32,
        tag: tag as u32,
        tag_len,
        aad: Aad::new(aad as u32, aad_len),
        // Random bytes are asked for by the room that there is; all other suites set this themselves.
        output_len: if suite == Suite::Random { one.data.len() as u32 } else { 0 },
        ..Op::default()
    };
    Ok((op.with_iv(one.iv), end))
}

/// A place for an operation's output behind all that is laid out, and where that ends then: its input stays, for another engine
/// when one fails. Beyond what offsets reach, and for suites that do not transform, it stays where it was.
pub(super) fn apart(suite: Suite, op: &Op, end: usize, one: &One<'_>) -> (u32, usize) {
    let output_len = one.data.len();
    match (u32::try_from(end), u32::try_from(end + output_len)) {
        (Ok(output), Ok(_)) if suite.transforms() => (output, end + output_len),
        _ => (op.output, end),
    }
}

#[inline(always)]
pub(super) fn copy_in(one: &One<'_>, op: &Op, arena: &mut [u8]) {
    copy(&mut arena[op.input.range()], &one.data[..one.input_len]);
    let (iv, aad) = arena[op.aad.span().range()].split_at_mut(op.aad.span().len as usize - one.aad.len());
    copy(iv, iv_rest(one.iv));
    copy(aad, one.aad);
    copy(&mut arena[op.tag_span().range()], one.tag);
}

#[inline(always)]
pub(super) fn copy_out(one: &mut One<'_>, direction: Direction, suite: Suite, op: &Op, arena: &[u8]) -> OneDone {
    let done = OneDone { status: op.status, output_len: op.output_len as usize, tag_len: usize::from(op.tag_len) };
    if matches!(op.status, OpStatus::Refused(_)) {
        // Nobody has begun it: buffers stay as they are.
        return done;
    }
    if suite.output_len(direction, one.input_len, one.data.len()) != 0 {
        // As the engine left it: zeros after a failure.
        let len = one.data.len();
        copy(one.data, &arena[op.output as usize..][..len]);
    }
    if direction == Direction::Encrypt {
        let len = one.tag.len();
        copy(one.tag, &arena[op.tag as usize..][..len]);
    }
    done
}

/// Copies bytes of the same number. Short ones take a few moves instead of a call to `memcpy`, of which a lone operation
/// would make five.
///
/// # Panics
/// When there are not as many.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        0 => assert!(to.is_empty()),
        1..=15 => to.copy_from_slice(from),
        16..=31 => ends::<16>(to, from),
        32..=63 => ends::<32>(to, from),
        64..=128 => ends::<64>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies what is `N` to `2 * N` bytes long: its first and its last `N`, which may overlap.
#[inline(always)]
fn ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    assert!(to.len() == from.len() && from.len() <= 2 * N);
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk::<N>()) {
        *to = *from;
    }
}

/// Runs one operation in a batch of its own.
pub(super) fn run_alone(runner: &Runner, suite: Suite, direction: Direction, one: &mut One<'_>) -> Result<OneDone> {
    let (mut op, mut end) = match lay_out(one, suite, direction, 0) {
        Ok(place) => place,
        Err(reason) => return Ok(bad_input(reason)),
    };
    (op.output, end) = apart(suite, &op, end, one);
    let mut arena: SmallVec<[u8; 512]> = SmallVec::from_elem(0, end);
    copy_in(one, &op, &mut arena);
    let mut ops = [op];
    let batch = Batch::new(suite, direction, &mut ops, &mut arena);
    let ran = runner.with_context(|context| runner.run(context, batch, &RunOptions::default()));
    let done = match ran {
        Ok(_) => Ok(copy_out(one, direction, suite, &ops[0], &arena)),
        Err(Error::Misuse(misuse)) => Ok(bad_input(misuse.reason)),
        Err(error) => Err(error),
    };
    wipe(&mut arena);
    done
}

/// The outcome of an operation that breaks a rule; its buffers are as they were.
pub(super) fn bad_input(reason: Reason) -> OneDone {
    OneDone { status: OpStatus::BadInput(reason), output_len: 0, tag_len: 0 }
}
