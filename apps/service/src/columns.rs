//! Requests whose data are columns: copied out of the client's memory, named, and written back.

use std::ops::Range;

use ciphermill_channel::{
    Channel, ColumnPlaces, ColumnShape, Corrupt, Request, ShapeAad, ShapeBuffer, ShapeData, ShapeIvs, ShapeKeys,
    ShapeSteps, ShapeTags, get_statuses, key_of_bytes, put_statuses,
};
use ciphermill_contract::columns::{AadColumn, ColumnData, Extents, IvColumn, KeyColumn, TagColumn};
use ciphermill_contract::{ColumnBatch, ColumnStatus, Direction, KeyId, OpStatus, Reason};

use crate::keys::{Found, Keys, UNKNOWN};

/// The columns of one request, but for those that lie in the worker's arena.
#[derive(Default)]
pub(crate) struct Columns {
    keys: Vec<KeyId>,
    statuses: Vec<ColumnStatus>,
    aad_offsets: Vec<i32>,
    inputs: Vec<i32>,
    outputs: Vec<i32>,
    /// Operations that name a key for another suite.
    misfits: Vec<usize>,
}

/// The shape of a request's columns, copied once, and where they lie.
pub(crate) struct Asked {
    shape: ColumnShape,
    pub(crate) places: ColumnPlaces,
}

impl Asked {
    /// What a client asks for.
    pub(crate) fn of(channel: &Channel, request: &Request) -> Result<Asked, Corrupt> {
        let shape = ColumnShape::get(channel.memory(), request.ops_at as usize)?;
        let places = shape.places(request.ops as usize, request.direction);
        let places = places.filter(|places| places.len == request.data_len as usize);
        let wrong = Corrupt { place: "the columns", rule: "must be as long as the request's data" };
        Ok(Asked { shape, places: places.ok_or(wrong)? })
    }

    /// Bytes that operations read, those that all of them read as often as they do. No others are read twice: extents do not overlap.
    pub(crate) fn bytes_read(&self, request: &Request) -> u64 {
        let shared = if let ShapeAad::One(len) = self.shape.aad { u64::from(len) * u64::from(request.ops) } else { 0 };
        u64::from(request.data_len) + shared
    }

    /// Where what is written begins; all columns before it are only read.
    fn written_from(&self) -> usize {
        match self.shape.data {
            ShapeData::InPlace(_) => self.places.input.start,
            ShapeData::Separate(..) => self.places.output.start,
            ShapeData::Input(_) => self.places.written.start,
        }
    }
}

impl Columns {
    /// Takes the columns that do not stay in `arena`, into which the request's were copied as far as they are read.
    pub(crate) fn take(
        &mut self,
        asked: &Asked,
        channel: &Channel,
        request: &Request,
        arena: &[u8],
    ) -> Result<(), Corrupt> {
        let places = &asked.places;
        get_statuses(channel.memory(), request.ops_at as usize, request.ops as usize, &mut self.statuses)?;
        self.keys.clear();
        self.keys.extend(arena[places.keys.clone()].as_chunks::<8>().0.iter().map(key_of_bytes));
        for (offsets, place) in [
            (&mut self.aad_offsets, &places.aad_offsets),
            (&mut self.inputs, &places.input_offsets),
            (&mut self.outputs, &places.output_offsets),
        ] {
            offsets.clear();
            let bytes = arena[place.clone()].as_chunks::<4>().0;
            offsets.extend(bytes.iter().map(|bytes| i32::from_le_bytes(*bytes)));
        }
        Ok(())
    }

    /// Names keys as the mill does; what is no key of the client's for this suite is one that nobody has.
    pub(crate) fn name_keys(&mut self, asked: &Asked, keys: &Keys, request: &Request) {
        self.misfits.clear();
        if let ShapeKeys::One(handle) = asked.shape.keys {
            self.keys.push(handle);
        }
        let suite = request.suite.into();
        for (index, key) in self.keys.iter_mut().enumerate() {
            *key = match keys.find(*key, suite) {
                Found::Key(id) => id,
                Found::OtherSuite => {
                    self.misfits.push(index);
                    UNKNOWN
                }
            };
        }
    }

    /// The batch, for a mill.
    pub(crate) fn batch<'a>(&'a mut self, asked: &Asked, request: &Request, arena: &'a mut [u8]) -> ColumnBatch<'a> {
        let Asked { shape, places } = asked;
        let from = asked.written_from();
        let (read, written) = arena.split_at_mut(from);
        let (data, tags) = written.split_at_mut(places.written.start - from);
        let read = &*read;
        let input = |buffer| extents(buffer, &self.inputs);
        let data = match shape.data {
            ShapeData::InPlace(both) => {
                ColumnData::InPlace { data: &mut data[..both.len as usize], extents: input(both) }
            }
            ShapeData::Separate(own, output) => ColumnData::Separate {
                input: &read[places.input.clone()],
                inputs: input(own),
                output: &mut data[..output.len as usize],
                outputs: extents(output, &self.outputs),
            },
            ShapeData::Input(own) => ColumnData::Input { input: &read[places.input.clone()], inputs: input(own) },
        };
        let ivs = match shape.ivs {
            ShapeIvs::None => IvColumn::None,
            ShapeIvs::Each(len) => IvColumn::Each { bytes: &read[places.ivs.clone()], len: len as usize },
            ShapeIvs::Counter(_) => IvColumn::Counter(&read[places.ivs.clone()]),
            ShapeIvs::Inline(len) => IvColumn::Inline { len: len as usize },
        };
        let aad = match shape.aad {
            ShapeAad::None => AadColumn::None,
            ShapeAad::One(_) => AadColumn::One(&read[places.aad.clone()]),
            ShapeAad::Each(buffer) => {
                AadColumn::Each { bytes: &read[places.aad.clone()], extents: extents(buffer, &self.aad_offsets) }
            }
        };
        let tags = match (shape.tags, request.direction) {
            (ShapeTags::None, _) => TagColumn::None,
            (ShapeTags::Before(len), _) => TagColumn::Before { len: len as usize },
            (ShapeTags::After(len), _) => TagColumn::After { len: len as usize },
            (ShapeTags::Column(len), Direction::Encrypt) => {
                TagColumn::Written { bytes: &mut tags[..places.written.len()], len: len as usize }
            }
            (ShapeTags::Column(len), Direction::Decrypt) => {
                TagColumn::Expected { bytes: &read[places.expected.clone()], len: len as usize }
            }
        };
        let keys = match (shape.keys, self.keys.first()) {
            (ShapeKeys::One(_), Some(key)) => KeyColumn::One(*key),
            (ShapeKeys::Each, _) => KeyColumn::Each(&self.keys),
            _ => KeyColumn::None,
        };
        let batch = ColumnBatch::new(request.suite, request.direction, data, &mut self.statuses);
        batch.with_keys(keys).with_ivs(ivs).with_aad(aad).with_tags(tags)
    }

    /// Writes what came of the batch into the client's memory. False where it has no room, which was checked.
    pub(crate) fn give(&mut self, asked: &Asked, channel: &Channel, request: &Request, arena: &mut [u8]) -> bool {
        let Asked { shape, places } = asked;
        self.name_misfits(asked);
        self.clear_what_is_not_done(asked, request, arena);
        let data = match shape.data {
            ShapeData::InPlace(_) => places.input.clone(),
            ShapeData::Separate(_, output) => {
                // Around the extents there may be what others have left in this memory.
                let extents = extents(output, &self.outputs);
                let end = self.statuses.len().checked_sub(1).map_or(0, |last| extents.at(last).1);
                let start = if end == 0 { 0 } else { extents.at(0).0 };
                places.output.start + start..places.output.start + end
            }
            ShapeData::Input(_) => 0..0,
        };
        let memory = channel.memory();
        let write = |place: Range<usize>| memory.write(request.data_at as usize + place.start, &arena[place]);
        write(data)
            && write(places.written.clone())
            && put_statuses(memory, request.ops_at as usize, &self.statuses).is_ok()
    }

    /// Says of operations whose key is for another suite why they were refused.
    fn name_misfits(&mut self, asked: &Asked) {
        let unknown = ColumnStatus::from(OpStatus::Refused(Reason::KeyUnknown));
        let other = ColumnStatus::from(OpStatus::Refused(Reason::KeySuite));
        let Columns { statuses, misfits, .. } = self;
        let name = |status: &mut ColumnStatus| {
            if *status == unknown {
                *status = other;
            }
        };
        match asked.shape.keys {
            ShapeKeys::One(_) if !misfits.is_empty() => statuses.iter_mut().for_each(name),
            _ => misfits.drain(..).for_each(|index| name(&mut statuses[index])),
        }
    }

    /// What was not copied from the client, and what no operation has written, may be somebody else's.
    fn clear_what_is_not_done(&self, asked: &Asked, request: &Request, arena: &mut [u8]) {
        let Asked { shape, places } = asked;
        if self.statuses.iter().all(|status| status.is_done()) {
            return;
        }
        let tag_len = places.written.len() / self.statuses.len();
        let output = match shape.data {
            ShapeData::Separate(_, output) if shape.output_is_only_written(request.direction) => Some(output),
            _ => None,
        };
        for (index, _) in self.statuses.iter().enumerate().filter(|(_, status)| !status.is_done()) {
            arena[places.written.start + index * tag_len..][..tag_len].fill(0);
            if let Some(output) = output {
                let (start, end) = extents(output, &self.outputs).at(index);
                arena[places.output.start + start..places.output.start + end].fill(0);
            }
        }
    }
}

fn extents(buffer: ShapeBuffer, offsets: &[i32]) -> Extents<'_> {
    match buffer.steps {
        ShapeSteps::Offsets => Extents::Offsets(offsets),
        ShapeSteps::Strided { len, stride } => Extents::Strided { len: len as usize, stride: stride as usize },
    }
}
