//! Running operations as columns: giving them a place among canaries, and looking at every byte afterwards.

use core::ops::{Deref, DerefMut, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ciphermill_contract::columns::{AadColumn, ColumnData, Extents, IvColumn, KeyColumn, PreparedColumn, TagColumn};
use ciphermill_contract::{ColumnBatch, ColumnStatus, Direction, EngineQueue, KeyId, OpStatus, PreparedKey, Suite};
use ciphermill_memory::{Align, GuardedBuf};
use ciphermill_vectors::{Answer, Job};

use crate::execute::{Memory, Run, noise};
use crate::jobs::Item;
use crate::random::Rng;

/// How the columns of a batch are laid out. What a suite does not have is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) in_place: bool,
    /// Extents of input, output and additional data.
    pub(crate) lays: [Lay; 3],
    pub(crate) ivs: Ivs,
    pub(crate) tags: Tags,
    pub(crate) one_key: bool,
    pub(crate) one_aad: bool,
    /// What the buffers lie in.
    pub(crate) memory: Memory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lay {
    Offsets,
    Large,
    Strided,
    Spans,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ivs {
    Each,
    Counter,
    Inline,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tags {
    Before,
    After,
    Column,
}

/// One batch of columns to be run.
pub(crate) struct ColumnLoad<'a> {
    pub(crate) suite: Suite,
    pub(crate) direction: Direction,
    /// Operations as the layout wants them: IVs and tags of one length, equal lengths where extents are strided.
    pub(crate) items: &'a [Item],
    /// One an operation, or none at all.
    pub(crate) keys: Vec<Option<&'a PreparedKey>>,
    /// Operations that are none of the engine's business.
    pub(crate) left_out: &'a [usize],
}

/// A buffer on the heap or between guard pages.
enum Buffer {
    Heap(Vec<u8>),
    Guarded(GuardedBuf),
}

impl Buffer {
    fn new(bytes: &[u8], memory: Memory) -> Result<Buffer, String> {
        let align = match memory {
            Memory::Heap => return Ok(Buffer::Heap(bytes.to_vec())),
            Memory::GuardedEnd => Align::End,
            Memory::GuardedStart => Align::Start,
        };
        GuardedBuf::from_slice(bytes, align).map(Buffer::Guarded).map_err(|error| error.to_string())
    }

    fn slack_is_intact(&self) -> bool {
        match self {
            Buffer::Heap(_) => true,
            Buffer::Guarded(bytes) => bytes.slack_is_intact(),
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Buffer::Heap(bytes) => bytes,
            Buffer::Guarded(bytes) => bytes,
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Buffer::Heap(bytes) => bytes,
            Buffer::Guarded(bytes) => bytes,
        }
    }
}

/// Extents that own their offsets.
struct Placed {
    lay: Lay,
    small: Vec<i32>,
    large: Vec<i64>,
    spans: Vec<[u32; 2]>,
    stride: (usize, usize),
    /// Bytes of a buffer for them.
    len: usize,
}

impl Placed {
    /// Extents of these lengths behind `gap` bytes, and with as many behind each where they are strided or spans.
    fn new(lay: Lay, lens: &[usize], gap: usize) -> Placed {
        let mut placed =
            Placed { lay, small: Vec::new(), large: Vec::new(), spans: Vec::new(), stride: (0, 0), len: 0 };
        if lay == Lay::Strided {
            let len = lens.first().copied().unwrap_or(0);
            placed.stride = (len, len + gap);
            placed.len = lens.len().saturating_sub(1) * (len + gap) + len;
            return placed;
        }
        let mut at = gap;
        placed.large.push(at as i64);
        for len in lens {
            at += len;
            placed.large.push(at as i64);
        }
        placed.len = at + gap;
        if lay == Lay::Offsets {
            placed.small = placed.large.iter().map(|offset| *offset as i32).collect();
        }
        if lay == Lay::Spans {
            let pushed = |(index, ends): (usize, &[i64])| [0, 1].map(|end| ends[end] as u32 + (index * gap) as u32);
            placed.spans = placed.large.windows(2).enumerate().map(pushed).collect();
            placed.len += lens.len() * gap;
        }
        placed
    }

    fn extents(&self) -> Extents<'_> {
        match self.lay {
            Lay::Offsets => Extents::Offsets(&self.small),
            Lay::Large => Extents::LargeOffsets(&self.large),
            Lay::Strided => Extents::Strided { len: self.stride.0, stride: self.stride.1 },
            Lay::Spans => Extents::Spans(&self.spans),
        }
    }
}

/// The buffers of a batch; in place `input` is the one that is worked on.
const INPUT: usize = 0;
const OUTPUT: usize = 1;
const TAGS: usize = 2;
const AAD: usize = 3;
const IVS: usize = 4;
const NAMES: [&str; 5] = ["the input", "the output", "the tags", "the additional data", "the initialisation vectors"];

/// Where the parts of one operation lie.
struct Place {
    input: usize,
    output: (usize, Range<usize>),
    tag: (usize, Range<usize>),
    iv: (usize, Range<usize>),
    aad: Range<usize>,
}

/// A batch with a place for everything, before it runs.
struct Laid {
    extents: [Placed; 3],
    buffers: [Vec<u8>; 5],
    places: Vec<Place>,
    statuses: Vec<ColumnStatus>,
}

impl ColumnLoad<'_> {
    /// Runs the batch and compares every byte of every buffer.
    ///
    /// # Errors
    /// When the batch does not pass its check, the engine panics, or memory cannot be had.
    pub(crate) fn run(&self, queue: &mut dyn EngineQueue, layout: Layout, rng: &mut Rng) -> Result<Run, String> {
        let mut laid = self.lay_out(layout, rng);
        let mut held = Vec::with_capacity(laid.buffers.len());
        for bytes in &laid.buffers {
            held.push(Buffer::new(bytes, layout.memory)?);
        }
        let before = laid.statuses.clone();
        self.run_in(queue, layout, &mut laid, &mut held)?;
        let mut trespasses = Vec::new();
        for (buffer, name) in held.iter().zip(NAMES) {
            if !buffer.slack_is_intact() {
                trespasses.push(format!("bytes outside of {name} were written"));
            }
        }
        self.compare(&laid, &before, &held, &mut trespasses);
        // What is left out may be too short for its parts; nobody looks at its answer.
        let part =
            |(buffer, range): &(usize, Range<usize>)| held[*buffer].get(range.clone()).unwrap_or_default().to_vec();
        let answer = |(place, status): (&Place, &ColumnStatus)| Answer {
            status: status.status().unwrap_or_default(),
            output: if status.is_done() { part(&place.output) } else { Vec::new() },
            tag: part(&place.tag),
        };
        Ok(Run { answers: laid.places.iter().zip(&laid.statuses).map(answer).collect(), trespasses })
    }

    fn run_in(
        &self,
        queue: &mut dyn EngineQueue,
        layout: Layout,
        laid: &mut Laid,
        held: &mut [Buffer],
    ) -> Result<(), String> {
        let [inputs, outputs, aads] = &laid.extents;
        let [input, output, tags, aad, ivs] = held else { return Err("five buffers".to_owned()) };
        let (iv_len, tag_len) = self.lens();
        let data = match (self.suite.transforms(), layout.in_place) {
            (false, _) => ColumnData::Input { input, inputs: inputs.extents() },
            (true, true) => ColumnData::InPlace { data: input, extents: inputs.extents() },
            (true, false) => {
                ColumnData::Separate { input, inputs: inputs.extents(), output, outputs: outputs.extents() }
            }
        };
        let names: Vec<KeyId> = (0..self.items.len() as u32).map(|slot| KeyId { slot, generation: 1 }).collect();
        let keys = match (self.suite.needs_key(), names.first()) {
            (false, _) | (_, None) => KeyColumn::None,
            (true, Some(name)) if layout.one_key => KeyColumn::One(*name),
            (true, _) => KeyColumn::Each(&names),
        };
        let ivs = match layout.ivs {
            _ if iv_len == 0 => IvColumn::None,
            Ivs::Each => IvColumn::Each { bytes: ivs, len: iv_len },
            Ivs::Counter => IvColumn::Counter(&ivs[..iv_len]),
            Ivs::Inline => IvColumn::Inline { len: iv_len },
        };
        let aad = match layout.one_aad {
            true => AadColumn::One(aad),
            false => AadColumn::Each { bytes: aad, extents: aads.extents() },
        };
        let tags = match (layout.tags, self.direction) {
            _ if tag_len == 0 => TagColumn::None,
            (Tags::Before, _) => TagColumn::Before { len: tag_len },
            (Tags::After, _) => TagColumn::After { len: tag_len },
            (Tags::Column, Direction::Encrypt) => TagColumn::Written { bytes: tags, len: tag_len },
            (Tags::Column, Direction::Decrypt) => TagColumn::Expected { bytes: tags, len: tag_len },
        };
        let batch = ColumnBatch::new(self.suite, self.direction, data, &mut laid.statuses);
        let batch = batch.with_keys(keys).with_ivs(ivs).with_aad(aad).with_tags(tags);
        let mut columns = batch.check().map_err(|error| format!("check: {error}"))?;
        let prepared = match self.keys.first() {
            None => PreparedColumn::None,
            Some(key) if layout.one_key => key.map_or(PreparedColumn::None, PreparedColumn::One),
            Some(_) => PreparedColumn::Each(&self.keys),
        };
        let mut columns = columns.attach_keys(prepared).map_err(|error| format!("keys: {error}"))?;
        catch_unwind(AssertUnwindSafe(|| queue.run_columns(&mut columns))).map_err(|_| "the engine panicked".to_owned())
    }

    /// Bytes of each IV and tag.
    fn lens(&self) -> (usize, usize) {
        self.items.first().map_or((0, 0), |item| (item.job.iv.len(), item.job.tag.len()))
    }

    /// Gives every part a place among noise.
    fn lay_out(&self, layout: Layout, rng: &mut Rng) -> Laid {
        let (iv_len, tag_len) = self.lens();
        let mut statuses = vec![ColumnStatus::PENDING; self.items.len()];
        self.left_out.iter().for_each(|index| statuses[*index] = ColumnStatus::LEFT_OUT);
        let iv_inline = if layout.ivs == Ivs::Inline { iv_len } else { 0 };
        let tag_inline = if layout.tags == Tags::Column { 0 } else { tag_len };
        let encrypts = self.direction == Direction::Encrypt;
        let separate = self.suite.transforms() && !layout.in_place;
        let head = iv_inline + if layout.tags == Tags::Before { tag_inline } else { 0 };
        let sealed = (head, iv_inline + tag_inline);
        let [read, written] = match (separate, encrypts) {
            (false, _) => [sealed; 2],
            (true, true) => [(0, 0), sealed],
            (true, false) => [sealed, (0, 0)],
        };
        let any_strided = layout.lays.contains(&Lay::Strided);
        // What is left out may have any length, but for strides.
        let odd: Vec<Option<[usize; 2]>> = statuses
            .iter()
            .map(|status| (!any_strided && !status.is_pending()).then(|| [rng.below(50), rng.below(50)]))
            .collect();
        let lens = |more: usize, side: usize| -> Vec<usize> {
            let len =
                |(item, odd): (&Item, &Option<[usize; 2]>)| odd.map_or(item.job.input.len() + more, |odd| odd[side]);
            self.items.iter().zip(&odd).map(len).collect()
        };
        let aad_lens: Vec<usize> = match layout.one_aad {
            true => self.items.first().map(|item| item.job.aad.len()).into_iter().collect(),
            false => self.items.iter().map(|item| item.job.aad.len()).collect(),
        };
        let mut gap = || if layout.memory == Memory::Heap { rng.below(34) } else { 0 };
        let inputs = Placed::new(layout.lays[0], &lens(read.1, 0), gap());
        let outputs = Placed::new(layout.lays[1], &lens(written.1, 1), gap());
        let aads = Placed::new(layout.lays[2], &aad_lens, if layout.one_aad { 0 } else { gap() });
        let count = self.items.len();
        let sizes = [inputs.len, if separate { outputs.len } else { 0 }, count * tag_len, aads.len, count * iv_len];
        let mut laid = Laid {
            places: Vec::with_capacity(count),
            buffers: sizes.map(|len| noise(len, rng)),
            extents: [inputs, outputs, aads],
            statuses,
        };
        for (index, Item { job, .. }) in self.items.iter().enumerate() {
            let len = if odd[index].is_some() { 0 } else { job.input.len() };
            let place = self.place(index, len, layout, &laid.extents, [read.0, written.0], separate);
            if odd[index].is_none() {
                self.put(job, &place, &mut laid.buffers);
            } else if place.iv.0 == IVS {
                // The first one is where a counter begins, left out or not.
                laid.buffers[IVS][place.iv.1.clone()].copy_from_slice(&job.iv);
            }
            laid.places.push(place);
        }
        laid
    }

    /// Where an operation of `len` bytes lies.
    fn place(
        &self,
        index: usize,
        len: usize,
        layout: Layout,
        extents: &[Placed; 3],
        [read, written]: [usize; 2],
        separate: bool,
    ) -> Place {
        let (iv_len, tag_len) = self.lens();
        let starts = [extents[0].extents().at(index).0, extents[1].extents().at(index).0];
        let input = starts[0] + read;
        let output = match (self.suite.transforms(), separate) {
            (false, _) => (INPUT, 0..0),
            (true, true) => (OUTPUT, starts[1] + written..starts[1] + written + len),
            (true, false) => (INPUT, input..input + len),
        };
        // Who encrypts seals the output, who decrypts opens the input.
        let (buffer, start, head) = match (separate, self.direction) {
            (true, Direction::Encrypt) => (OUTPUT, starts[1], written),
            _ => (INPUT, starts[0], read),
        };
        let tag = match layout.tags {
            _ if tag_len == 0 => (TAGS, 0..0),
            Tags::Before => (buffer, start + head - tag_len..start + head),
            Tags::After => (buffer, start + head + len..start + head + len + tag_len),
            Tags::Column => (TAGS, index * tag_len..(index + 1) * tag_len),
        };
        let iv = match layout.ivs {
            Ivs::Inline => (buffer, start..start + iv_len),
            _ => (IVS, index * iv_len..(index + 1) * iv_len),
        };
        let (aad_start, aad_end) = extents[2].extents().at(if layout.one_aad { 0 } else { index });
        Place { input, output, tag, iv, aad: aad_start..aad_end }
    }

    fn put(&self, job: &Job, place: &Place, buffers: &mut [Vec<u8>; 5]) {
        buffers[INPUT][place.input..place.input + job.input.len()].copy_from_slice(&job.input);
        buffers[place.iv.0][place.iv.1.clone()].copy_from_slice(&job.iv);
        buffers[AAD][place.aad.clone()].copy_from_slice(&job.aad);
        if self.direction == Direction::Decrypt {
            buffers[place.tag.0][place.tag.1.clone()].copy_from_slice(&job.tag);
        }
    }

    /// Notes everything that changed and may not have.
    fn compare(&self, laid: &Laid, statuses: &[ColumnStatus], held: &[Buffer], trespasses: &mut Vec<String>) {
        // What the buffers have to look like: as before, but for what may be written.
        let mut allowed = laid.buffers.clone();
        for (index, (place, (old, new))) in laid.places.iter().zip(statuses.iter().zip(&laid.statuses)).enumerate() {
            if !old.is_pending() {
                if new != old {
                    trespasses.push(format!("operation {index} was {old:?} and is now {new:?}"));
                }
                continue;
            }
            let (buffer, range) = &place.output;
            let output = &held[*buffer][range.clone()];
            let written = match new.status() {
                None | Some(OpStatus::Pending) => {
                    trespasses.push(format!("operation {index}: left {new:?}"));
                    false
                }
                Some(OpStatus::Done) => true,
                Some(OpStatus::AuthFailed | OpStatus::BadInput(_)) => {
                    if output.iter().any(|byte| *byte != 0) {
                        trespasses.push(format!("operation {index}: {new:?}, but its output was not zeroed"));
                    }
                    true
                }
                // As it was, or zeroed.
                Some(OpStatus::EngineFault | OpStatus::Refused(_)) => output.iter().all(|byte| *byte == 0),
            };
            if written {
                allowed[*buffer][range.clone()].copy_from_slice(output);
            }
            if new.is_done() && self.direction == Direction::Encrypt {
                let (buffer, range) = &place.tag;
                allowed[*buffer][range.clone()].copy_from_slice(&held[*buffer][range.clone()]);
            }
        }
        for (buffer, (allowed, held)) in allowed.iter().zip(held).enumerate() {
            if **allowed != **held
                && let Some(offset) = allowed.iter().zip(held.iter()).position(|(allowed, held)| allowed != held)
            {
                let near = laid.places.iter().position(|place| place.input >= offset).unwrap_or(laid.places.len());
                let hint = if buffer == INPUT { format!(", before operation {near}") } else { String::new() };
                trespasses.push(format!("byte {offset} of {} was written{hint}", NAMES[buffer]));
            }
        }
    }
}
