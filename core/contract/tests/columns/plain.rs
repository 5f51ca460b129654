//! A columnar batch in plain words, and what `ColumnBatch::check` promises, stated plainly: quadratic, the same for every
//! suite, and in numbers that no length overflows.

use std::ops::Range;

use ciphermill_contract::columns::{AadColumn, ColumnData, Extents, IvColumn, KeyColumn, TagColumn};
use ciphermill_contract::{ColumnBatch, ColumnStatus, Direction, KeyId, Reason, Suite};

/// Extents that own their offsets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lay {
    Small(Vec<i32>),
    Large(Vec<i64>),
    Strided { len: usize, stride: usize },
    Spans(Vec<[u32; 2]>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    Separate,
    InPlace,
    Input,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Keys {
    None,
    One(KeyId),
    Each(Vec<KeyId>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ivs {
    None,
    Each(Vec<u8>, usize),
    Counter(Vec<u8>),
    Inline(usize),
    Drawn(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Aads {
    None,
    One(Vec<u8>),
    Each(Vec<u8>, Lay),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tags {
    None,
    Before(usize),
    After(usize),
    Written(Vec<u8>, usize),
    Expected(Vec<u8>, usize),
}

/// A columnar batch with its buffers. In place `input` is the buffer, and the outputs are not looked at.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) suite: Suite,
    pub(crate) direction: Direction,
    pub(crate) form: Form,
    pub(crate) input: Vec<u8>,
    pub(crate) inputs: Lay,
    pub(crate) output: Vec<u8>,
    pub(crate) outputs: Lay,
    pub(crate) statuses: Vec<ColumnStatus>,
    pub(crate) keys: Keys,
    pub(crate) ivs: Ivs,
    pub(crate) aad: Aads,
    pub(crate) tags: Tags,
}

/// Where the parts of an operation of a batch that keeps the rules lie; IV and tag when they are inline.
pub(crate) struct Place {
    pub(crate) input: Range<usize>,
    pub(crate) output: Range<usize>,
    pub(crate) iv: Option<Range<usize>>,
    pub(crate) tag: Option<Range<usize>>,
}

impl Lay {
    pub(crate) fn extents(&self) -> Extents<'_> {
        match self {
            Lay::Small(offsets) => Extents::Offsets(offsets),
            Lay::Large(offsets) => Extents::LargeOffsets(offsets),
            Lay::Strided { len, stride } => Extents::Strided { len: *len, stride: *stride },
            Lay::Spans(spans) => Extents::Spans(spans),
        }
    }

    /// Where an operation begins and ends.
    pub(crate) fn at(&self, index: usize) -> (i128, i128) {
        match self {
            Lay::Small(offsets) => (offsets[index].into(), offsets[index + 1].into()),
            Lay::Large(offsets) => (offsets[index].into(), offsets[index + 1].into()),
            Lay::Strided { len, stride } => {
                let start = index as i128 * *stride as i128;
                (start, start + *len as i128)
            }
            Lay::Spans(spans) => (spans[index][0].into(), spans[index][1].into()),
        }
    }

    fn len_at(&self, index: usize) -> i128 {
        self.at(index).1 - self.at(index).0
    }

    fn has(&self, count: usize) -> bool {
        match self {
            Lay::Small(offsets) => offsets.len() == count + 1,
            Lay::Large(offsets) => offsets.len() == count + 1,
            Lay::Strided { .. } => true,
            Lay::Spans(spans) => spans.len() == count,
        }
    }

    /// What is wrong with where operations lie, each with its index. Strides concern all of them.
    fn misplaced(&self, count: usize, buffer_len: usize, past: Reason) -> Vec<(usize, Reason)> {
        let mut broken = Vec::new();
        let strided = matches!(self, Lay::Strided { .. });
        if let Lay::Strided { len, stride } = self
            && stride < len
            && count > 0
        {
            broken.push((0, Reason::ExtentsDescend));
        }
        for index in 0..count {
            let (start, end) = self.at(index);
            if start < 0 || end < start || (0..index).any(|before| self.at(before).1 > start) {
                broken.push((if strided { 0 } else { index }, Reason::ExtentsDescend));
            }
            if end > buffer_len as i128 {
                broken.push((if strided { 0 } else { index }, past));
            }
        }
        broken
    }
}

impl Ivs {
    pub(crate) fn len(&self) -> usize {
        match self {
            Ivs::None => 0,
            Ivs::Each(_, len) | Ivs::Inline(len) | Ivs::Drawn(len) => *len,
            Ivs::Counter(first) => first.len(),
        }
    }

    fn inline(&self) -> usize {
        if matches!(self, Ivs::Inline(_) | Ivs::Drawn(_)) { self.len() } else { 0 }
    }
}

impl Tags {
    pub(crate) fn len(&self) -> usize {
        match self {
            Tags::None => 0,
            Tags::Before(len) | Tags::After(len) | Tags::Written(_, len) | Tags::Expected(_, len) => *len,
        }
    }
}

impl Told {
    pub(crate) fn len(&self) -> usize {
        self.statuses.len()
    }

    pub(crate) fn batch(&mut self) -> ColumnBatch<'_> {
        let data = match self.form {
            Form::Separate => ColumnData::Separate {
                input: &self.input,
                inputs: self.inputs.extents(),
                output: &mut self.output,
                outputs: self.outputs.extents(),
            },
            Form::InPlace => ColumnData::InPlace { data: &mut self.input, extents: self.inputs.extents() },
            Form::Input => ColumnData::Input { input: &self.input, inputs: self.inputs.extents() },
        };
        let keys = match &self.keys {
            Keys::None => KeyColumn::None,
            Keys::One(key) => KeyColumn::One(*key),
            Keys::Each(keys) => KeyColumn::Each(keys),
        };
        let ivs = match &self.ivs {
            Ivs::None => IvColumn::None,
            Ivs::Each(bytes, len) => IvColumn::Each { bytes, len: *len },
            Ivs::Counter(first) => IvColumn::Counter(first),
            Ivs::Inline(len) => IvColumn::Inline { len: *len },
            Ivs::Drawn(len) => IvColumn::Drawn { len: *len },
        };
        let aad = match &self.aad {
            Aads::None => AadColumn::None,
            Aads::One(bytes) => AadColumn::One(bytes),
            Aads::Each(bytes, lay) => AadColumn::Each { bytes, extents: lay.extents() },
        };
        let tags = match &mut self.tags {
            Tags::None => TagColumn::None,
            Tags::Before(len) => TagColumn::Before { len: *len },
            Tags::After(len) => TagColumn::After { len: *len },
            Tags::Written(bytes, len) => TagColumn::Written { bytes, len: *len },
            Tags::Expected(bytes, len) => TagColumn::Expected { bytes, len: *len },
        };
        let batch = ColumnBatch::new(self.suite, self.direction, data, &mut self.statuses);
        batch.with_keys(keys).with_ivs(ivs).with_aad(aad).with_tags(tags)
    }

    /// Bytes inline before the data of a sealed extent, and before and behind them.
    fn sealed(&self) -> (usize, usize) {
        let iv = self.ivs.inline();
        match self.tags {
            Tags::Before(len) => (iv + len, iv + len),
            Tags::After(len) => (iv, iv + len),
            _ => (iv, iv),
        }
    }

    /// The same for input and output.
    fn heads_and_more(&self) -> [(usize, usize); 2] {
        let encrypts = self.direction == Direction::Encrypt;
        match self.form {
            Form::Input => [(0, 0); 2],
            Form::InPlace => [self.sealed(); 2],
            Form::Separate if encrypts => [(0, 0), self.sealed()],
            Form::Separate => [self.sealed(), (0, 0)],
        }
    }

    /// Every rule that the batch breaks, with the operation. What concerns all operations comes alone, since without it
    /// the operations cannot be looked at. A suite and direction that columns can be run with are taken for granted.
    pub(crate) fn broken(&self) -> Vec<(usize, Reason)> {
        let broken = self.broken_as_a_whole();
        if broken.is_empty() { self.broken_ops() } else { broken }
    }

    /// The rules that the columns as such break; with the operation where a key is missing.
    pub(crate) fn broken_as_a_whole(&self) -> Vec<(usize, Reason)> {
        let mut broken: Vec<(usize, Reason)> = self.broken_keys().into_iter().collect();
        broken.extend(self.broken_ivs());
        broken.extend(self.broken_tags());
        broken.extend(self.broken_shape());
        broken
    }

    fn broken_keys(&self) -> Option<(usize, Reason)> {
        match &self.keys {
            Keys::None => self.suite.needs_key().then_some((0, Reason::KeyMissing)),
            _ if !self.suite.needs_key() => Some((0, Reason::KeyUnexpected)),
            Keys::One(key) => key.is_none().then_some((0, Reason::KeyMissing)),
            Keys::Each(keys) if keys.len() != self.len() => Some((0, Reason::ColumnLength)),
            Keys::Each(keys) => Some((keys.iter().position(|key| key.is_none())?, Reason::KeyMissing)),
        }
    }

    fn broken_ivs(&self) -> Vec<(usize, Reason)> {
        let mut broken = Vec::new();
        if !self.suite.iv_len().contains(self.ivs.len()) || self.ivs.inline() > 0 && !self.suite.transforms() {
            broken.push((0, Reason::IvLength));
        }
        match &self.ivs {
            Ivs::Each(bytes, len) if *len as u128 * self.len() as u128 != bytes.len() as u128 => {
                broken.push((0, Reason::ColumnLength));
            }
            Ivs::Counter(first) if first.len() < 4 => broken.push((0, Reason::IvLength)),
            Ivs::Counter(first) => {
                let counter = first[first.len() - 4..].iter().fold(0, |number, byte| number << 8 | u128::from(*byte));
                if (0..self.len() as u128).any(|index| counter + index >= 1 << 32) {
                    broken.push((0, Reason::CounterWraps));
                }
            }
            Ivs::Drawn(_) if self.direction == Direction::Encrypt => broken.push((0, Reason::IvDrawn)),
            _ => {}
        }
        broken
    }

    fn broken_tags(&self) -> Vec<(usize, Reason)> {
        let mut broken = Vec::new();
        let inline = matches!(self.tags, Tags::Before(_) | Tags::After(_));
        if !self.suite.tag_len(self.direction).contains(self.tags.len()) || inline && !self.suite.transforms() {
            broken.push((0, Reason::TagLength));
        }
        match (&self.tags, self.direction) {
            (Tags::Written(..), Direction::Decrypt) | (Tags::Expected(..), Direction::Encrypt) => {
                broken.push((0, Reason::TagDirection));
            }
            (Tags::Written(bytes, len) | Tags::Expected(bytes, len), _)
                if *len as u128 * self.len() as u128 != bytes.len() as u128 =>
            {
                broken.push((0, Reason::ColumnLength));
            }
            _ => {}
        }
        broken
    }

    /// Buffers, numbers of extents, and what all share.
    fn broken_shape(&self) -> Vec<(usize, Reason)> {
        let mut broken = Vec::new();
        if self.suite.transforms() == (self.form == Form::Input) {
            broken.push((0, Reason::ColumnBuffers));
        }
        if !self.lays().iter().all(|(lay, ..)| lay.has(self.len())) {
            broken.push((0, Reason::ColumnLength));
        }
        let shared = match &self.aad {
            Aads::None => Some(0),
            Aads::One(bytes) => Some(bytes.len()),
            Aads::Each(..) => None,
        };
        if shared.is_some_and(|len| !self.suite.aad_len().contains(len)) {
            broken.push((0, Reason::AadUnexpected));
        }
        broken
    }

    /// Extents in use, the bytes of their buffers, and the rule that reaching past those breaks.
    fn lays(&self) -> Vec<(&Lay, usize, Reason)> {
        let mut lays = vec![(&self.inputs, self.input.len(), Reason::InputPastEnd)];
        if self.form == Form::Separate {
            lays.push((&self.outputs, self.output.len(), Reason::OutputPastEnd));
        }
        if let Aads::Each(bytes, lay) = &self.aad {
            lays.push((lay, bytes.len(), Reason::AadPastEnd));
        }
        lays
    }

    fn broken_ops(&self) -> Vec<(usize, Reason)> {
        let misplaced = |(lay, len, past): (&Lay, usize, Reason)| lay.misplaced(self.len(), len, past);
        let mut broken: Vec<(usize, Reason)> = self.lays().into_iter().flat_map(misplaced).collect();
        let [(_, input_more), (_, output_more)] = self.heads_and_more();
        let lengths = self.suite.input_len(self.direction);
        for (index, status) in self.statuses.iter().enumerate().filter(|(_, status)| **status != ColumnStatus::LEFT_OUT)
        {
            if !status.is_pending() {
                broken.push((index, Reason::NotPending));
            }
            let len = self.inputs.len_at(index) - input_more as i128;
            if len < lengths.min as i128 {
                broken.push((index, Reason::InputTooShort));
            } else if len > lengths.max as i128 {
                broken.push((index, Reason::InputTooLong));
            } else if !lengths.contains(len as usize) {
                broken.push((index, Reason::NotBlockMultiple));
            }
            if self.form == Form::Separate && self.outputs.len_at(index) != len + output_more as i128 {
                broken.push((index, Reason::OutputLength));
            }
            if let Aads::Each(_, lay) = &self.aad
                && !usize::try_from(lay.len_at(index)).is_ok_and(|len| self.suite.aad_len().contains(len))
            {
                broken.push((index, Reason::AadUnexpected));
            }
        }
        broken
    }

    /// Where a pending operation's parts lie.
    pub(crate) fn place(&self, index: usize) -> Place {
        let [(input_head, input_more), (output_head, _)] = self.heads_and_more();
        let input = self.inputs.at(index).0 as usize + input_head;
        let len = self.inputs.len_at(index) as usize - input_more;
        let output = match self.form {
            Form::Separate => self.outputs.at(index).0 as usize + output_head,
            Form::InPlace => input,
            Form::Input => 0,
        };
        let sealed = if self.direction == Direction::Encrypt { output } else { input };
        let (before, _) = self.sealed();
        let tag = match self.tags {
            Tags::Before(len) => Some(sealed - len..sealed),
            Tags::After(tag) => Some(sealed + len..sealed + len + tag),
            _ => None,
        };
        let iv = (self.ivs.inline() > 0).then(|| sealed - before..sealed - before + self.ivs.len());
        Place { input: input..input + len, output: output..output + len, iv, tag }
    }

    /// The buffer that ciphertext, inline IVs and inline tags lie in.
    pub(crate) fn sealed_buffer(&mut self) -> &mut Vec<u8> {
        match (self.form, self.direction) {
            (Form::Separate, Direction::Encrypt) => &mut self.output,
            _ => &mut self.input,
        }
    }

    /// An operation's IV.
    pub(crate) fn iv(&self, index: usize) -> Vec<u8> {
        match &self.ivs {
            Ivs::None => Vec::new(),
            Ivs::Each(bytes, len) => bytes[index * len..(index + 1) * len].to_vec(),
            Ivs::Counter(first) => {
                let (head, counter) = first.split_at(first.len() - 4);
                let counter = counter.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
                [head, &(counter + index as u32).to_be_bytes()].concat()
            }
            Ivs::Inline(_) | Ivs::Drawn(_) => {
                let iv = self.place(index).iv.unwrap_or_default();
                match (self.form, self.direction) {
                    (Form::Separate, Direction::Encrypt) => self.output[iv].to_vec(),
                    _ => self.input[iv].to_vec(),
                }
            }
        }
    }

    /// An operation's additional data.
    pub(crate) fn aad(&self, index: usize) -> &[u8] {
        match &self.aad {
            Aads::None => &[],
            Aads::One(bytes) => bytes,
            Aads::Each(bytes, lay) => &bytes[lay.at(index).0 as usize..lay.at(index).1 as usize],
        }
    }
}
