//! Columnar batches that keep the rules, made from what is wished for.

use ciphermill_contract::{ColumnStatus, Direction, KeyId, Suite};

use crate::plain::{Aads, Form, Ivs, Keys, Lay, Tags, Told};
use crate::toy;

pub(crate) const KEY: KeyId = KeyId { slot: 3, generation: 1 };

/// What a batch shall be like. What its suite does not take becomes the nearest that it takes.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) suite: Suite,
    pub(crate) direction: Direction,
    pub(crate) in_place: bool,
    /// For input, output and additional data: offsets, large ones, strided, spans.
    pub(crate) lays: [u8; 3],
    /// Each, counter, inline, drawn; and steps above the shortest.
    pub(crate) iv: (u8, usize),
    /// None, one, each.
    pub(crate) aad: u8,
    /// Before, after, in a column; and steps above the shortest.
    pub(crate) tag: (u8, usize),
    pub(crate) key_each: bool,
    /// Bytes before the first extent, and between strided ones.
    pub(crate) gap: usize,
    pub(crate) ops: Vec<WishOp>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct WishOp {
    /// Steps above the shortest input; for one that is left out, bytes.
    pub(crate) len: usize,
    pub(crate) status: ColumnStatus,
    /// Bytes of additional data, where each has its own.
    pub(crate) aad_len: usize,
    /// Whether the tag is the right one, when decrypting.
    pub(crate) right: bool,
}

impl WishOp {
    pub(crate) fn pending(len: usize) -> WishOp {
        WishOp { len, status: ColumnStatus::PENDING, aad_len: len % 5, right: true }
    }
}

/// Bytes that repeat late.
pub(crate) fn noise(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| ((at + 1) * 167 + (at / 251) * 31 + seed * 89) as u8 ^ 0x5c).collect()
}

/// Extents of these lengths, and the bytes of a buffer for them, with as many left over behind as before.
fn lay_out(kind: u8, lens: &[usize], gap: usize) -> (Lay, usize) {
    let mut at = gap;
    let mut offsets = vec![at as i64];
    for len in lens {
        at += len;
        offsets.push(at as i64);
    }
    match kind {
        0 => (Lay::Small(offsets.into_iter().map(|offset| offset as i32).collect()), at + gap),
        1 => (Lay::Large(offsets), at + gap),
        3 => {
            // Every second one begins where the one before ends.
            let behind = |index: usize| (gap * index.div_ceil(2)) as u32;
            let span =
                |(index, ends): (usize, &[i64])| [ends[0] as u32 + behind(index), ends[1] as u32 + behind(index)];
            (Lay::Spans(offsets.windows(2).enumerate().map(span).collect()), at + gap + behind(lens.len()) as usize)
        }
        _ => {
            let len = lens.first().copied().unwrap_or(7);
            (Lay::Strided { len, stride: len + gap }, lens.len() * (len + gap))
        }
    }
}

impl Wish {
    /// A plain batch of pending operations.
    pub(crate) fn new(suite: &str, direction: Direction, lens: &[usize]) -> Wish {
        Wish {
            suite: suite.parse().expect("a suite"),
            direction,
            in_place: false,
            lays: [0; 3],
            iv: (0, 100),
            aad: 0,
            tag: (1, 100),
            key_each: false,
            gap: 3,
            ops: lens.iter().map(|len| WishOp::pending(*len)).collect(),
        }
    }

    /// A length that the suite takes.
    fn clamped(lengths: ciphermill_contract::suite::rules::Lengths, steps: usize) -> usize {
        lengths.round_up(lengths.min + steps.min((lengths.max - lengths.min) / lengths.step) * lengths.step)
    }

    pub(crate) fn told(&self) -> Told {
        let (suite, count) = (self.suite, self.ops.len());
        let form = match (suite.transforms(), self.in_place) {
            (false, _) => Form::Input,
            (true, true) => Form::InPlace,
            (true, false) => Form::Separate,
        };
        let (ivs, tags) = (self.ivs(), self.tags());
        let iv_inline = if matches!(ivs, Ivs::Inline(_) | Ivs::Drawn(_)) { ivs.len() } else { 0 };
        let tag_inline = if matches!(tags, Tags::Before(_) | Tags::After(_)) { tags.len() } else { 0 };
        let more = iv_inline + tag_inline;
        let (input_more, output_more) = match (form, self.direction) {
            (Form::Input, _) => (0, 0),
            (Form::InPlace, _) => (more, more),
            (Form::Separate, Direction::Encrypt) => (0, more),
            (Form::Separate, Direction::Decrypt) => (more, 0),
        };
        let uniform = self.lays.contains(&2);
        let data_len = |op: &WishOp| Self::clamped(suite.input_len(self.direction), op.len);
        // What is left out has a length that is nothing to the others, where lengths may differ at all.
        let len = |op: &WishOp, more: usize| match (uniform, op.status.is_pending()) {
            (true, _) => data_len(&self.ops[0]) + more,
            (false, true) => data_len(op) + more,
            (false, false) => op.len,
        };
        let lens = |more: usize| self.ops.iter().map(|op| len(op, more)).collect::<Vec<_>>();
        let (inputs, input_len) = lay_out(self.lays[0], &lens(input_more), self.gap);
        let (outputs, output_len) = lay_out(self.lays[1], &lens(output_more), self.gap);
        let keys = match (suite.needs_key(), self.key_each) {
            (false, _) => Keys::None,
            (true, false) => Keys::One(KEY),
            (true, true) => Keys::Each((0..count as u32).map(|slot| KeyId { slot, generation: 1 }).collect()),
        };
        let mut told = Told {
            suite,
            direction: self.direction,
            form,
            input: noise(input_len, 1),
            inputs,
            output: noise(if form == Form::Separate { output_len } else { 0 }, 2),
            outputs,
            statuses: self.ops.iter().map(|op| op.status).collect(),
            keys,
            ivs,
            aad: self.aads(),
            tags,
        };
        self.put_tags(&mut told);
        told
    }

    fn ivs(&self) -> Ivs {
        let len = Self::clamped(self.suite.iv_len(), self.iv.1);
        match self.iv.0 {
            _ if self.suite.iv_len().max == 0 => Ivs::None,
            2 if self.suite.transforms() => Ivs::Inline(len),
            3 if self.suite.transforms() => Ivs::Drawn(len),
            1 if len >= 4 => Ivs::Counter([noise(len - 4, 3), vec![0xff, 0xff, 0xf0, 0x00]].concat()),
            _ => Ivs::Each(noise(len * self.ops.len(), 4), len),
        }
    }

    fn aads(&self) -> Aads {
        let lengths = self.suite.aad_len();
        let of = |len: usize| len.clamp(lengths.min, lengths.max);
        match self.aad {
            0 if lengths.min == 0 => Aads::None,
            0 | 1 => Aads::One(noise(of(9), 5)),
            _ => {
                let uniform = self.lays[2] == 2;
                let lens: Vec<usize> =
                    self.ops.iter().map(|op| of(if uniform { self.ops[0].aad_len } else { op.aad_len })).collect();
                let (lay, len) = lay_out(self.lays[2], &lens, self.gap);
                Aads::Each(noise(len, 6), lay)
            }
        }
    }

    fn tags(&self) -> Tags {
        let len = Self::clamped(self.suite.tag_len(self.direction), self.tag.1);
        let inline = self.suite.transforms();
        match (self.tag.0, self.direction) {
            _ if self.suite.tag_len(self.direction).max == 0 => Tags::None,
            (0, _) if inline => Tags::Before(len),
            (1, _) if inline => Tags::After(len),
            (_, Direction::Encrypt) => Tags::Written(noise(len * self.ops.len(), 7), len),
            (_, Direction::Decrypt) => Tags::Expected(noise(len * self.ops.len(), 8), len),
        }
    }

    /// Puts the right tags where operations shall have them.
    fn put_tags(&self, told: &mut Told) {
        if self.direction == Direction::Encrypt {
            return;
        }
        for (index, _) in self.ops.iter().enumerate().filter(|(_, op)| op.right && op.status.is_pending()) {
            let place = told.place(index);
            let tag = toy::tag(toy::key_of(index, told), &told.iv(index), told.aad(index), &told.input[place.input]);
            let len = told.tags.len();
            match (&mut told.tags, place.tag) {
                (Tags::Expected(bytes, _), _) => bytes[index * len..][..len].copy_from_slice(&tag[..len]),
                (_, Some(range)) => told.input[range].copy_from_slice(&tag[..len]),
                _ => {}
            }
        }
    }
}
