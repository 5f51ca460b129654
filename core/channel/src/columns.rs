//! Columns in shared memory. A request's [`ColumnShape`] lies where operations would, a line of the cache, and behind it a status an
//! operation. The columns themselves lie in the request's data, one behind the other, in an order that both sides know: what is read comes
//! first, what is written last.

use core::ops::Range;
use std::sync::atomic::Ordering;

use ciphermill_contract::{ColumnStatus, Direction, KeyId};
use ciphermill_memory::Region;

use crate::Corrupt;

/// Bytes of a shape.
pub const SHAPE_LEN: usize = 64;

const WORDS: usize = SHAPE_LEN / 4;

/// Columns begin with a line of the cache of their own.
const LINE: u64 = 64;

/// Keys by their handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeKeys {
    /// None: digests.
    None,
    /// One for all operations.
    One(KeyId),
    /// A column of slots and generations, 32 bits each.
    Each,
}

/// IVs, with the bytes of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeIvs {
    /// None.
    None,
    /// A column.
    Each(u32),
    /// The first, whose last four bytes count.
    Counter(u32),
    /// At the start of each sealed extent.
    Inline(u32),
}

/// Additional data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeAad {
    /// None.
    None,
    /// So many bytes for all.
    One(u32),
    /// Each operation's own.
    Each(ShapeBuffer),
}

/// Tags, with the bytes of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeTags {
    /// None.
    None,
    /// Before each ciphertext.
    Before(u32),
    /// Behind each ciphertext.
    After(u32),
    /// A column.
    Column(u32),
}

/// A buffer that operations have extents of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeBuffer {
    /// Bytes.
    pub len: u32,
    /// Where the extents lie.
    pub steps: ShapeSteps,
}

/// Where extents lie in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeSteps {
    /// By a column of offsets, 32 bits each, one more than operations.
    Offsets,
    /// `len` bytes each, `stride` apart.
    Strided {
        /// Bytes of each.
        len: u32,
        /// From one to the next.
        stride: u32,
    },
}

/// Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeData {
    /// Output in the place of the input.
    InPlace(ShapeBuffer),
    /// Input, and output.
    Separate(ShapeBuffer, ShapeBuffer),
    /// Input only.
    Input(ShapeBuffer),
}

/// What the columns of a request are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnShape {
    /// Keys.
    pub keys: ShapeKeys,
    /// IVs.
    pub ivs: ShapeIvs,
    /// Additional data.
    pub aad: ShapeAad,
    /// Tags.
    pub tags: ShapeTags,
    /// Data.
    pub data: ShapeData,
}

/// Where each column lies in a request's data; nothing for one that there is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnPlaces {
    /// Handles of keys.
    pub keys: Range<usize>,
    /// IVs that are not inline.
    pub ivs: Range<usize>,
    /// Additional data.
    pub aad: Range<usize>,
    /// Their offsets.
    pub aad_offsets: Range<usize>,
    /// Offsets of inputs, or of what is both.
    pub input_offsets: Range<usize>,
    /// Offsets of outputs.
    pub output_offsets: Range<usize>,
    /// Tags that are compared.
    pub expected: Range<usize>,
    /// Inputs, or what is both.
    pub input: Range<usize>,
    /// Outputs in a buffer of their own.
    pub output: Range<usize>,
    /// Tags that are written.
    pub written: Range<usize>,
    /// Bytes from the start that the service copies. What lies behind them is only written.
    pub copied: usize,
    /// Bytes in all.
    pub len: usize,
}

impl ShapeSteps {
    fn words(self) -> [u32; 3] {
        match self {
            ShapeSteps::Offsets => [0; 3],
            ShapeSteps::Strided { len, stride } => [1, len, stride],
        }
    }

    fn of([is_strided, len, stride]: [u32; 3]) -> ShapeSteps {
        if is_strided == 0 { ShapeSteps::Offsets } else { ShapeSteps::Strided { len, stride } }
    }

    /// Whether nothing lies between extents.
    fn is_dense(self) -> bool {
        match self {
            ShapeSteps::Offsets => true,
            ShapeSteps::Strided { len, stride } => len == stride,
        }
    }

    fn offsets_len(self, count: u64) -> u64 {
        if self == ShapeSteps::Offsets { (count + 1) * 4 } else { 0 }
    }
}

impl ShapeBuffer {
    const NONE: ShapeBuffer = ShapeBuffer { len: 0, steps: ShapeSteps::Strided { len: 0, stride: 0 } };
}

impl ColumnShape {
    /// Bytes that a request of so many operations has where operations would lie: this, and their statuses.
    pub fn head_len(count: usize) -> usize {
        SHAPE_LEN + count
    }

    fn to_words(self) -> [u32; WORDS] {
        let (keys, key) = match self.keys {
            ShapeKeys::None => (0, KeyId::NONE),
            ShapeKeys::One(key) => (1, key),
            ShapeKeys::Each => (2, KeyId::NONE),
        };
        let (ivs, iv_len) = match self.ivs {
            ShapeIvs::None => (0, 0),
            ShapeIvs::Each(len) => (1, len),
            ShapeIvs::Counter(len) => (2, len),
            ShapeIvs::Inline(len) => (3, len),
        };
        let (aad, own_aad) = match self.aad {
            ShapeAad::None => (0, ShapeBuffer::NONE),
            ShapeAad::One(len) => (1, ShapeBuffer { len, ..ShapeBuffer::NONE }),
            ShapeAad::Each(buffer) => (2, buffer),
        };
        let (tags, tag_len) = match self.tags {
            ShapeTags::None => (0, 0),
            ShapeTags::Before(len) => (1, len),
            ShapeTags::After(len) => (2, len),
            ShapeTags::Column(len) => (3, len),
        };
        let (data, input, output) = match self.data {
            ShapeData::InPlace(both) => (0, both, ShapeBuffer::NONE),
            ShapeData::Separate(input, output) => (1, input, output),
            ShapeData::Input(input) => (2, input, ShapeBuffer::NONE),
        };
        let [aads, inputs, outputs] = [own_aad, input, output].map(|buffer| buffer.steps.words());
        let strided = aads[0] | inputs[0] << 1 | outputs[0] << 2;
        let kinds = keys | ivs << 2 | aad << 4 | tags << 6 | data << 8 | strided << 10;
        [
            kinds,
            key.slot,
            key.generation,
            iv_len,
            tag_len,
            own_aad.len,
            aads[1],
            aads[2],
            input.len,
            inputs[1],
            inputs[2],
            output.len,
            outputs[1],
            outputs[2],
            0,
            0,
        ]
    }

    fn from_words(words: [u32; WORDS]) -> Result<ColumnShape, Corrupt> {
        let [
            kinds,
            slot,
            generation,
            iv_len,
            tag_len,
            aad_len,
            a1,
            a2,
            input_len,
            i1,
            i2,
            output_len,
            o1,
            o2,
            rest @ ..,
        ] = words;
        let none = Corrupt { place: "the columns' shape", rule: "must be one that there is" };
        let kind = |at: u32, bits: u32| kinds >> at & ((1 << bits) - 1);
        if kinds >> 13 != 0 || rest != [0; 2] {
            return Err(none);
        }
        let buffer = |at, len, own: [u32; 2]| {
            let steps = ShapeSteps::of([kind(at, 1), own[0], own[1]]);
            ShapeBuffer { len, steps }
        };
        let (own_aad, input) = (buffer(10, aad_len, [a1, a2]), buffer(11, input_len, [i1, i2]));
        Ok(ColumnShape {
            keys: match kind(0, 2) {
                0 => ShapeKeys::None,
                1 => ShapeKeys::One(KeyId { slot, generation }),
                2 => ShapeKeys::Each,
                _ => return Err(none),
            },
            ivs: match kind(2, 2) {
                0 => ShapeIvs::None,
                1 => ShapeIvs::Each(iv_len),
                2 => ShapeIvs::Counter(iv_len),
                _ => ShapeIvs::Inline(iv_len),
            },
            aad: match kind(4, 2) {
                0 => ShapeAad::None,
                1 => ShapeAad::One(aad_len),
                2 => ShapeAad::Each(own_aad),
                _ => return Err(none),
            },
            tags: match kind(6, 2) {
                0 => ShapeTags::None,
                1 => ShapeTags::Before(tag_len),
                2 => ShapeTags::After(tag_len),
                _ => ShapeTags::Column(tag_len),
            },
            data: match kind(8, 2) {
                0 => ShapeData::InPlace(input),
                1 => ShapeData::Separate(input, buffer(12, output_len, [o1, o2])),
                2 => ShapeData::Input(input),
                _ => return Err(none),
            },
        })
    }

    /// Writes the shape to the byte `at`, a multiple of four.
    ///
    /// # Errors
    /// [`Corrupt`] where it does not fit.
    pub fn put(self, region: &Region, at: usize) -> Result<(), Corrupt> {
        let words = region.words(at, WORDS).ok_or(OUTSIDE)?;
        words.iter().zip(self.to_words()).for_each(|(own, word)| own.store(word, Ordering::Relaxed));
        Ok(())
    }

    /// A shape from a copy of what is at the byte `at`.
    ///
    /// # Errors
    /// [`Corrupt`] for what is none, or lies outside.
    pub fn get(region: &Region, at: usize) -> Result<ColumnShape, Corrupt> {
        let words = region.words(at, WORDS).ok_or(OUTSIDE)?;
        let mut copy = [0; WORDS];
        copy.iter_mut().zip(words).for_each(|(copy, word)| *copy = word.load(Ordering::Relaxed));
        ColumnShape::from_words(copy)
    }

    /// Where the columns of `count` operations lie. `None` where they take more than any channel has.
    pub fn places(&self, count: usize, direction: Direction) -> Option<ColumnPlaces> {
        let mut places = ColumnPlaces::default();
        let mut end = 0u64;
        // Counts are below 2^32, as lengths are, so that no product wraps; of the ends the last is the greatest.
        let mut place = |len: u64| {
            let at = if len == 0 { end } else { end.next_multiple_of(LINE) };
            end = at.checked_add(len).filter(|end| *end <= u64::from(u32::MAX))?;
            Some(at as usize..end as usize)
        };
        let count = u64::from(u32::try_from(count).ok()?);
        let each = |len: u32| u64::from(len) * count;
        places.keys = place(if self.keys == ShapeKeys::Each { 8 * count } else { 0 })?;
        places.ivs = place(match self.ivs {
            ShapeIvs::None | ShapeIvs::Inline(_) => 0,
            ShapeIvs::Each(len) => each(len),
            ShapeIvs::Counter(len) => len.into(),
        })?;
        let (aad, aad_offsets) = match self.aad {
            ShapeAad::None => (0, 0),
            ShapeAad::One(len) => (len.into(), 0),
            ShapeAad::Each(buffer) => (buffer.len.into(), buffer.steps.offsets_len(count)),
        };
        places.aad = place(aad)?;
        places.aad_offsets = place(aad_offsets)?;
        let (ShapeData::InPlace(input) | ShapeData::Separate(input, _) | ShapeData::Input(input)) = self.data;
        places.input_offsets = place(input.steps.offsets_len(count))?;
        let output = if let ShapeData::Separate(_, output) = self.data { output } else { ShapeBuffer::NONE };
        places.output_offsets = place(output.steps.offsets_len(count))?;
        let tags = if let ShapeTags::Column(len) = self.tags { each(len) } else { 0 };
        let (expected, written) = if direction == Direction::Encrypt { (0, tags) } else { (tags, 0) };
        places.expected = place(expected)?;
        places.input = place(input.len.into())?;
        places.copied = places.input.end;
        places.output = place(output.len.into())?;
        if !self.output_is_only_written(direction) {
            places.copied = places.output.end;
        }
        places.written = place(written)?;
        places.len = places.written.end;
        Some(places)
    }

    /// Whether every byte of an output of its own is written by the operations, if all are done.
    pub fn output_is_only_written(&self, direction: Direction) -> bool {
        let has_ivs = matches!(self.ivs, ShapeIvs::Inline(_)) && direction == Direction::Encrypt;
        matches!(self.data, ShapeData::Separate(_, output) if output.steps.is_dense() && !has_ivs)
    }
}

/// Statuses that are copied at a time.
const STATUSES: usize = 256;

/// A key's handle, as a column of keys has it.
pub fn key_bytes(key: KeyId) -> [u8; 8] {
    (u64::from(key.slot) | u64::from(key.generation) << 32).to_le_bytes()
}

/// The handle of these bytes.
pub fn key_of_bytes(bytes: &[u8; 8]) -> KeyId {
    let both = u64::from_le_bytes(*bytes);
    KeyId { slot: both as u32, generation: (both >> 32) as u32 }
}

const OUTSIDE: Corrupt = Corrupt { place: "columns", rule: "must lie within the channel's memory" };

/// Writes the statuses of columns whose shape is at the byte `at`.
///
/// # Errors
/// [`Corrupt`] where they do not fit.
pub fn put_statuses(region: &Region, at: usize, statuses: &[ColumnStatus]) -> Result<(), Corrupt> {
    let mut bytes = [0; STATUSES];
    let mut at = at.saturating_add(SHAPE_LEN);
    for statuses in statuses.chunks(STATUSES) {
        bytes.iter_mut().zip(statuses).for_each(|(byte, status)| *byte = status.byte());
        if !region.write(at, &bytes[..statuses.len()]) {
            return Err(OUTSIDE);
        }
        at += statuses.len();
    }
    Ok(())
}

/// Copies the statuses of `count` columns whose shape is at the byte `at` into `statuses`. What is no status is an engine's fault.
///
/// # Errors
/// [`Corrupt`] where they do not lie within the memory.
pub fn get_statuses(region: &Region, at: usize, count: usize, statuses: &mut Vec<ColumnStatus>) -> Result<(), Corrupt> {
    let mut bytes = [0; STATUSES];
    let at = at.saturating_add(SHAPE_LEN);
    statuses.clear();
    for first in (0..count).step_by(STATUSES) {
        let bytes = &mut bytes[..(count - first).min(STATUSES)];
        if !region.read(at.saturating_add(first), bytes) {
            return Err(OUTSIDE);
        }
        // Most often all are the same.
        let all = [ColumnStatus::PENDING, ColumnStatus::DONE];
        match all.into_iter().find(|status| bytes.iter().fold(true, |all, byte| all & (*byte == status.byte()))) {
            Some(status) => statuses.resize(first + bytes.len(), status),
            None => {
                let each = bytes.iter().map(|byte| ColumnStatus::of_byte(*byte));
                statuses.extend(each.map(|status| status.unwrap_or(ColumnStatus::ENGINE_FAULT)));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn buffer() -> impl Strategy<Value = ShapeBuffer> {
        let steps = prop::option::of((any::<u32>(), any::<u32>()));
        (prop_oneof![0u32..5000, any::<u32>()], steps).prop_map(|(len, steps)| {
            let steps = steps.map(|(len, stride)| ShapeSteps::Strided { len, stride });
            ShapeBuffer { len, steps: steps.unwrap_or(ShapeSteps::Offsets) }
        })
    }

    fn shape() -> impl Strategy<Value = ColumnShape> {
        let len = || prop_oneof![0u32..40, any::<u32>()];
        let key =
            (any::<u32>(), any::<u32>()).prop_map(|(slot, generation)| ShapeKeys::One(KeyId { slot, generation }));
        let keys = prop_oneof![Just(ShapeKeys::None), key, Just(ShapeKeys::Each)];
        let ivs = prop_oneof![
            Just(ShapeIvs::None),
            len().prop_map(ShapeIvs::Each),
            len().prop_map(ShapeIvs::Counter),
            len().prop_map(ShapeIvs::Inline)
        ];
        let aad = prop_oneof![Just(ShapeAad::None), len().prop_map(ShapeAad::One), buffer().prop_map(ShapeAad::Each)];
        let tags = prop_oneof![
            Just(ShapeTags::None),
            len().prop_map(ShapeTags::Before),
            len().prop_map(ShapeTags::After),
            len().prop_map(ShapeTags::Column)
        ];
        let data = prop_oneof![
            buffer().prop_map(ShapeData::InPlace),
            (buffer(), buffer()).prop_map(|(input, output)| ShapeData::Separate(input, output)),
            buffer().prop_map(ShapeData::Input)
        ];
        let all = (keys, ivs, aad, tags, data);
        all.prop_map(|(keys, ivs, aad, tags, data)| ColumnShape { keys, ivs, aad, tags, data })
    }

    proptest! {
        #[test]
        fn shapes_come_through(shape in shape()) {
            let region = Region::create("test", 4096).expect("memory");
            shape.put(&region, 64).expect("fits");
            prop_assert_eq!(ColumnShape::get(&region, 64), Ok(shape));
        }

        /// Columns lie one behind the other, and what is only written lies behind what is copied.
        #[test]
        fn places_do_not_meet(shape in shape(), count in prop_oneof![1usize..300, 1usize..65_536], encrypts: bool) {
            let direction = if encrypts { Direction::Encrypt } else { Direction::Decrypt };
            if let Some(places) = shape.places(count, direction) {
                let ColumnPlaces { keys, ivs, aad, aad_offsets, input_offsets, output_offsets, expected, .. } = places.clone();
                let all = [keys, ivs, aad, aad_offsets, input_offsets, output_offsets, expected];
                let written = [places.input, places.output, places.written.clone()];
                let mut end = 0;
                for place in all.iter().chain(&written) {
                    prop_assert!(place.start >= end && place.end >= place.start);
                    prop_assert!(place.is_empty() || place.start % 64 == 0);
                    end = place.end;
                }
                prop_assert_eq!(end, places.len);
                prop_assert!(places.copied <= places.len && (places.written.is_empty() || places.copied <= places.written.start));
            }
        }

        #[test]
        fn any_words_are_a_shape_or_none(words: [u32; WORDS]) {
            let mut words = words;
            words[0] &= 0x1fff;
            (words[14], words[15]) = (0, 0);
            if let Ok(shape) = ColumnShape::from_words(words) {
                prop_assert_eq!(ColumnShape::from_words(shape.to_words()), Ok(shape));
            }
            words[0] |= 0x2000;
            prop_assert!(ColumnShape::from_words(words).is_err());
        }
    }

    #[test]
    fn statuses_come_through_in_any_number() {
        let region = Region::create("test", 4096).expect("memory");
        for count in [1, 255, 256, 257, 700] {
            for mixed in [false, true] {
                let status = |index: usize| match index % 100 {
                    7 if mixed => ColumnStatus::LEFT_OUT,
                    9 if mixed => ColumnStatus::AUTH_FAILED,
                    _ => ColumnStatus::DONE,
                };
                let all: Vec<ColumnStatus> = (0..count).map(status).collect();
                put_statuses(&region, 128, &all).expect("fit");
                let mut found = Vec::new();
                get_statuses(&region, 128, count, &mut found).expect("within");
                assert_eq!(found, all);
            }
        }
        assert!(region.write(128 + SHAPE_LEN, &[3, 0]));
        let mut found = Vec::new();
        get_statuses(&region, 128, 2, &mut found).expect("within");
        assert_eq!(found, [ColumnStatus::ENGINE_FAULT, ColumnStatus::PENDING]);
        assert_eq!(get_statuses(&region, 4096 - SHAPE_LEN, 1, &mut found), Err(OUTSIDE));
        assert_eq!(put_statuses(&region, 4096 - SHAPE_LEN, &[ColumnStatus::DONE]), Err(OUTSIDE));
        assert_eq!(ColumnShape::get(&region, 4096), Err(OUTSIDE));
    }
}
