//! Columns, which go as they lie: stretches of their buffers, offsets, IVs, additional data and tags.

use ciphermill_channel::{
    ColumnPlaces, ColumnShape, Request, ShapeAad, ShapeBuffer, ShapeData, ShapeIvs, ShapeKeys, ShapeSteps, ShapeTags,
    get_statuses, key_bytes, put_statuses,
};
use ciphermill_contract::columns::{
    DataBuffers, Extents, IvColumn, IvPlace, PreparedColumn, TagBuffer, TagPlace, TagSide,
};
use ciphermill_contract::{CheckedColumns, ColumnStatus, Direction, KeyId, OpStatus, PreparedKey, Result, Suite};

use crate::cargo::{Cargo, Way, believed, columns_at, full, staged};
use crate::key::RemoteKey;

/// Columns in parts.
pub(crate) struct Parts<'p, 'c> {
    pub(crate) parts: &'p mut [CheckedColumns<'c>],
    /// Bytes of a channel.
    pub(crate) room: usize,
    /// The next to go.
    pub(crate) next: usize,
    /// Those that have no room in a channel, since some operations are much longer than others.
    pub(crate) left: Vec<usize>,
}

/// The remote key of an operation.
fn remote(suite: Suite, key: Option<&PreparedKey>) -> Option<&RemoteKey> {
    key?.state_for::<RemoteKey>(suite.into())
}

/// Whether the service alone has keys of these columns.
pub(crate) fn names_keys(columns: &CheckedColumns<'_>) -> bool {
    let is_reference = |key| remote(columns.suite(), key).is_some_and(RemoteKey::is_reference);
    match columns.prepared() {
        PreparedColumn::None => false,
        PreparedColumn::One(key) => is_reference(Some(key)),
        PreparedColumn::Each(keys) => keys.iter().any(|key| is_reference(*key)),
    }
}

/// Whether every operation has a key that this engine has prepared, if the suite takes one.
pub(crate) fn has_keys(columns: &CheckedColumns<'_>) -> bool {
    let suite = columns.suite();
    let is_ours = |key| remote(suite, key).is_some();
    !suite.needs_key()
        || match columns.prepared() {
            PreparedColumn::None => false,
            PreparedColumn::One(key) => is_ours(Some(key)),
            PreparedColumn::Each(keys) => keys.iter().all(|key| is_ours(*key)),
        }
}

/// From the first extent's first byte to the last one's last.
fn stretch(extents: Extents<'_>, count: usize) -> (usize, usize) {
    count.checked_sub(1).map_or((0, 0), |last| (extents.at(0).0, extents.at(last).1))
}

/// The shape of a buffer of which the stretch of all extents is taken.
fn buffer(extents: Extents<'_>, count: usize) -> ShapeBuffer {
    let (start, end) = stretch(extents, count);
    let steps = match extents {
        Extents::Offsets(_) | Extents::LargeOffsets(_) => ShapeSteps::Offsets,
        Extents::Strided { len, stride } => ShapeSteps::Strided { len: len as u32, stride: stride as u32 },
        // Not here: these are ops.
        Extents::Spans(_) => ShapeSteps::Offsets,
    };
    ShapeBuffer { len: (end - start) as u32, steps }
}

/// The shape of columns.
fn shape(columns: &CheckedColumns<'_>) -> ColumnShape {
    let (layout, count) = (columns.layout(), columns.len());
    let iv_len = layout.iv_len() as u32;
    let tag_len = layout.tag_len() as u32;
    let input = buffer(layout.input_lens(), count);
    ColumnShape {
        keys: match columns.prepared() {
            PreparedColumn::None => ShapeKeys::None,
            // Its handle is put in when the columns are sent.
            PreparedColumn::One(_) => ShapeKeys::One(KeyId::NONE),
            PreparedColumn::Each(_) => ShapeKeys::Each,
        },
        ivs: match layout.ivs() {
            IvColumn::None => ShapeIvs::None,
            IvColumn::Each { .. } => ShapeIvs::Each(iv_len),
            IvColumn::Counter(_) => ShapeIvs::Counter(iv_len),
            IvColumn::Inline { .. } | IvColumn::Drawn { .. } => ShapeIvs::Inline(iv_len),
        },
        aad: match (layout.own_aad(), layout.shared_aad()) {
            (Some((_, extents)), _) => ShapeAad::Each(buffer(extents, count)),
            (None, Some(shared)) if !shared.is_empty() => ShapeAad::One(shared.len() as u32),
            _ => ShapeAad::None,
        },
        tags: match layout.tag_side() {
            TagSide::None => ShapeTags::None,
            TagSide::Before => ShapeTags::Before(tag_len),
            TagSide::After => ShapeTags::After(tag_len),
            TagSide::Column => ShapeTags::Column(tag_len),
        },
        data: match columns.data() {
            DataBuffers::InPlace(_) => ShapeData::InPlace(input),
            DataBuffers::Separate(..) => ShapeData::Separate(input, buffer(layout.output_lens(), count)),
            DataBuffers::Input(_) => ShapeData::Input(input),
        },
    }
}

/// Bytes of a channel that columns take.
fn room(columns: &CheckedColumns<'_>) -> usize {
    let places = shape(columns).places(columns.len(), columns.direction());
    places.map_or(usize::MAX, |places| columns_at(0, columns.len()) + places.len)
}

impl Parts<'_, '_> {
    fn places(&self, piece: usize) -> (ColumnShape, ColumnPlaces) {
        let columns = &self.parts[piece];
        let shape = shape(columns);
        // What has no room was not sent.
        (shape, shape.places(columns.len(), columns.direction()).unwrap_or_default())
    }
}

impl Cargo for Parts<'_, '_> {
    fn suite(&self) -> Suite {
        self.parts.first().map_or(Suite::Random, |part| part.suite())
    }

    fn next(&mut self) -> Option<usize> {
        while self.next < self.parts.len() {
            let next = self.next;
            self.next += 1;
            if room(&self.parts[next]) <= self.room {
                return Some(next);
            }
            self.left.push(next);
        }
        None
    }

    fn work(&self, piece: usize) -> (usize, usize) {
        (self.parts[piece].pending(), self.parts[piece].input_bytes() as usize)
    }

    fn room(&self, piece: usize) -> usize {
        room(&self.parts[piece])
    }

    fn put(&mut self, piece: usize, way: &mut Way<'_>) -> Result<Request> {
        let (shape, places) = self.places(piece);
        let columns = &self.parts[piece];
        let (suite, count) = (columns.suite(), columns.len());
        let data_at = columns_at(way.at, count);
        let shape = match (shape.keys, columns.prepared()) {
            (ShapeKeys::One(_), PreparedColumn::One(key)) => {
                let key = remote(suite, Some(key)).ok_or_else(full)?.at(way.link)?;
                ColumnShape { keys: ShapeKeys::One(key), ..shape }
            }
            _ => shape,
        };
        put_small(columns, &places, way, data_at)?;
        let layout = columns.layout();
        let mut is_written = true;
        let mut put = |at: usize, bytes: &[u8]| is_written &= way.memory.write(data_at + at, bytes);
        if let Some((bytes, extents)) = layout.own_aad() {
            let (start, end) = stretch(extents, count);
            put(places.aad.start, &bytes[start..end]);
        } else if let Some(shared) = layout.shared_aad() {
            put(places.aad.start, shared);
        }
        if let Some(tags) = columns.expected_tags() {
            put(places.expected.start, &tags[..places.expected.len()]);
        }
        let start = layout.input_extent(0).start;
        put(places.input.start, &read_buffer(columns.data())[start..start + places.input.len()]);
        if let DataBuffers::Separate(_, output) = columns.data()
            && places.copied > places.output.start
        {
            let start = layout.output_extent(0).start;
            put(places.output.start, &output[start..start + places.output.len()]);
        }
        let statuses = put_statuses(way.memory, way.at, columns.statuses());
        if !is_written || statuses.is_err() || shape.put(way.memory, way.at).is_err() {
            return Err(full());
        }
        Ok(Request {
            suite,
            direction: columns.direction(),
            ops: count as u32,
            columns: true,
            ops_at: way.at as u32,
            data_at: data_at as u32,
            data_len: places.len as u32,
        })
    }

    fn take(&mut self, piece: usize, way: &mut Way<'_>) -> Result<()> {
        let (_, places) = self.places(piece);
        let columns = &mut self.parts[piece];
        let count = columns.len();
        let data_at = columns_at(way.at, count);
        let mut statuses = Vec::with_capacity(count);
        get_statuses(way.memory, way.at, count, &mut statuses).map_err(|_| full())?;
        let all_done = statuses.iter().fold(true, |all, status| all & status.is_done());
        if all_done && columns.pending() == count {
            take_all(columns, &places, way, data_at)
        } else {
            take_each(columns, &places, &statuses, way, data_at)
        }
    }
}

/// The buffer that is read.
fn read_buffer<'c>(data: &'c DataBuffers<'_>) -> &'c [u8] {
    match data {
        DataBuffers::Separate(input, _) | DataBuffers::Input(input) => input,
        DataBuffers::InPlace(both) => both,
    }
}

/// Puts the columns there that are not copied as they lie, all of them short: keys, IVs and offsets.
fn put_small(columns: &CheckedColumns<'_>, places: &ColumnPlaces, way: &mut Way<'_>, data_at: usize) -> Result<()> {
    let (layout, count) = (columns.layout(), columns.len());
    let stage = staged(way.stage, places.output_offsets.end);
    if let PreparedColumn::Each(keys) = columns.prepared() {
        let own = stage[places.keys.clone()].as_chunks_mut::<8>().0;
        for (own, key) in own.iter_mut().zip(keys) {
            *own = key_bytes(remote(columns.suite(), *key).ok_or_else(full)?.at(way.link)?);
        }
    }
    match layout.ivs() {
        IvColumn::Each { bytes, .. } => stage[places.ivs.clone()].copy_from_slice(&bytes[..places.ivs.len()]),
        IvColumn::Counter(_) => {
            if let IvPlace::Value(first) = layout.iv(0) {
                stage[places.ivs.clone()].copy_from_slice(&first[..places.ivs.len()]);
            }
        }
        IvColumn::None | IvColumn::Inline { .. } | IvColumn::Drawn { .. } => {}
    }
    let own_aad = layout.own_aad().map(|(_, extents)| extents);
    for (place, extents) in [
        (&places.aad_offsets, own_aad),
        (&places.input_offsets, Some(layout.input_lens())),
        (&places.output_offsets, Some(layout.output_lens())),
    ] {
        let Some(extents) = extents.filter(|_| !place.is_empty()) else { continue };
        let (first, end) = stretch(extents, count);
        let own = stage[place.clone()].as_chunks_mut::<4>().0;
        for (index, own) in own.iter_mut().enumerate() {
            let at = if index < count { extents.at(index).0 } else { end };
            *own = ((at - first) as u32).to_le_bytes();
        }
    }
    for place in [&places.keys, &places.ivs, &places.aad_offsets, &places.input_offsets, &places.output_offsets] {
        if !way.memory.write(data_at + place.start, &stage[place.clone()]) {
            return Err(full());
        }
    }
    Ok(())
}

/// Takes outputs and tags of which all are right.
fn take_all(columns: &mut CheckedColumns<'_>, places: &ColumnPlaces, way: &Way<'_>, data_at: usize) -> Result<()> {
    let layout = columns.layout();
    let (buffers, statuses) = columns.parts();
    let data = match &mut buffers.data {
        DataBuffers::InPlace(data) => {
            let start = layout.input_extent(0).start;
            way.memory.read(data_at + places.input.start, &mut data[start..start + places.input.len()])
        }
        DataBuffers::Separate(_, output) => {
            let start = layout.output_extent(0).start;
            way.memory.read(data_at + places.output.start, &mut output[start..start + places.output.len()])
        }
        DataBuffers::Input(_) => true,
    };
    let tags = match &mut buffers.tags {
        TagBuffer::Written(tags) => way.memory.read(data_at + places.written.start, &mut tags[..places.written.len()]),
        TagBuffer::None | TagBuffer::Expected(_) => true,
    };
    if !data || !tags {
        return Err(full());
    }
    statuses.fill(ColumnStatus::DONE);
    Ok(())
}

/// Takes what came of each operation.
fn take_each(
    columns: &mut CheckedColumns<'_>,
    places: &ColumnPlaces,
    found: &[ColumnStatus],
    way: &mut Way<'_>,
    data_at: usize,
) -> Result<()> {
    let (layout, suite, direction) = (columns.layout(), columns.suite(), columns.direction());
    let prepared = columns.prepared();
    let (output_at, start) = match columns.data() {
        DataBuffers::InPlace(_) => (places.input.start, layout.input_extent(0).start),
        DataBuffers::Separate(..) => (places.output.start, layout.output_extent(0).start),
        DataBuffers::Input(_) => (places.written.start, 0),
    };
    let from = output_at.min(places.written.start);
    let stage = staged(way.stage, places.len - from);
    if !way.memory.read(data_at + from, stage) {
        return Err(full());
    }
    for (index, found) in found.iter().enumerate() {
        if !columns.statuses()[index].is_pending() {
            continue;
        }
        let names_key = || remote(suite, prepared.at(index)).is_some_and(RemoteKey::is_reference);
        let status = match found.status() {
            Some(OpStatus::Pending) | None => OpStatus::EngineFault,
            Some(status) => believed(status, names_key),
        };
        let data = layout.data(index);
        let at = |place: usize| place - start + output_at - from;
        let output = if suite.transforms() { &stage[at(data.output)..][..data.len] } else { &[] };
        let tag = match layout.tag(index, data) {
            TagPlace::Output(place) => &stage[at(place)..][..layout.tag_len()],
            TagPlace::Column(place) if direction == Direction::Encrypt => {
                &stage[places.written.start - from + place..][..layout.tag_len()]
            }
            _ => &[],
        };
        columns.end(index, status, output, tag);
    }
    Ok(())
}
