//! Batches of operations, whose data lie wherever their callers have put them: gathered for the way, and scattered when they come back.
//!
//! Many operations that agree in what they have go as columns, so that a record an operation need not change cores twice. Few, and those of
//! suites that columns are not for, go as records, which the service may run together with others' operations.

use std::ops::Range;

use ciphermill_channel::{
    ColumnPlaces, ColumnShape, OPS_MAX, RECORD_LEN, Request, ShapeAad, ShapeBuffer, ShapeData, ShapeIvs, ShapeKeys,
    ShapeSteps, ShapeTags, get_statuses, key_bytes, put_ops, put_statuses, read_results,
};
use ciphermill_contract::limits::IV_LEN_MAX;
use ciphermill_contract::op::{Aad, Span};
use ciphermill_contract::{ColumnStatus, Direction, KeyId, Op, OpStatus, PreparedKey, Result, Suite};

use crate::cargo::{Cargo, LINE, Put, Take, Way, believed, columns_at, full};
use crate::key::RemoteKey;
use crate::shared::Pace;

/// From so many operations on they go as columns. Requests of fewer are worth more when the service joins them.
pub const COLUMNS_FROM: usize = 32;

/// Longer inputs, on the average, are copied where they go at once.
const STAGED_MAX: usize = 512;

/// Columns, and what is said of them, each of which begins with a line of its own.
const COLUMNS: usize = 12;

const _: () = assert!(8 + IV_LEN_MAX + 2 * 4 < RECORD_LEN);

/// A batch of operations, in pieces.
pub(crate) struct Ops<'b> {
    pub(crate) suite: Suite,
    pub(crate) direction: Direction,
    pub(crate) ops: &'b mut [Op],
    pub(crate) arena: &'b mut [u8],
    pub(crate) keys: &'b [Option<&'b PreparedKey>],
    pub(crate) limits: Limits,
    /// Those that were cut.
    pub(crate) pieces: Vec<Piece>,
}

/// How much a piece may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Operations.
    pub(crate) most: usize,
    /// Bytes of a channel.
    pub(crate) room: usize,
    /// Whether the service takes so many together has to be asked of this; `None` where it takes all.
    pub(crate) pace: Option<Pace>,
}

/// A part of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Which operations; those among them that are not pending are passed over.
    pub(crate) ops: Range<usize>,
    /// How many are pending.
    pub(crate) pending: usize,
    /// Bytes of their inputs, and of all their parts: inputs, additional data, outputs, tags.
    input: usize,
    parts: [usize; 4],
    /// What they share, if they go as columns.
    common: Option<Common>,
}

/// What operations that go as columns share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Common {
    iv_len: u8,
    tag_len: u16,
    /// Bytes of each input and of each additional data, where all have as many.
    input_len: Option<u32>,
    aad_len: Option<u16>,
}

impl Common {
    fn of(op: &Op) -> Common {
        Common { iv_len: op.iv_len, tag_len: op.tag_len, input_len: Some(op.input.len), aad_len: Some(op.aad.len) }
    }

    fn and(self, op: &Op) -> Option<Common> {
        (self.iv_len == op.iv_len && self.tag_len == op.tag_len).then_some(Common {
            input_len: self.input_len.filter(|len| *len == op.input.len),
            aad_len: self.aad_len.filter(|len| *len == op.aad.len),
            ..self
        })
    }
}

impl Piece {
    /// One more operation.
    #[inline(always)]
    fn add(&mut self, (suite, direction): (Suite, Direction), index: usize, op: &Op, may_be_columns: bool) {
        let (input, output) = (op.input.len as usize, output_len(suite, direction, op));
        let in_place = suite.transforms();
        self.common = match self.pending {
            0 => may_be_columns.then(|| Common::of(op)),
            _ => self.common.and_then(|common| common.and(op)),
        };
        self.ops.end = index + 1;
        self.pending += 1;
        self.input += input;
        self.parts[0] += if in_place { input.max(output) } else { input };
        self.parts[1] += usize::from(op.aad.len);
        self.parts[2] += if in_place { 0 } else { output };
        self.parts[3] += usize::from(op.tag_len);
    }

    /// The piece as it goes: few operations do so as records.
    fn ended(self) -> Piece {
        let common = self.common.filter(|_| self.pending >= COLUMNS_FROM);
        Piece { common, ..self }
    }

    /// Whether its operations are so short that they are gathered before they are copied.
    fn is_staged(&self) -> bool {
        self.input < self.pending * STAGED_MAX
    }

    fn data_len(&self) -> usize {
        self.parts.iter().sum()
    }

    /// Bytes of a channel, in either form and at most.
    fn bound(&self) -> usize {
        self.pending * RECORD_LEN + self.data_len() + COLUMNS * LINE
    }

    /// What an operation adds to that, at most.
    #[inline(always)]
    fn bound_of((suite, direction): (Suite, Direction), op: &Op) -> usize {
        let output = output_len(suite, direction, op);
        RECORD_LEN + op.input.len as usize + output + usize::from(op.aad.len) + usize::from(op.tag_len)
    }

    /// Bytes of a channel.
    fn room(&self) -> usize {
        match self.common {
            None => self.pending * RECORD_LEN + self.data_len(),
            Some(_) => self.bound(),
        }
    }
}

impl<'b> Ops<'b> {
    /// The key of an operation, if it has one that this engine has prepared for the suite.
    pub(crate) fn key(&self, index: usize) -> Option<&'b RemoteKey> {
        self.keys.get(index).copied().flatten()?.state_for::<RemoteKey>(self.suite.into())
    }

    /// Whether the service alone has keys of these operations.
    pub(crate) fn names_keys(&self, piece: &Piece) -> bool {
        piece.ops.clone().any(|index| self.names_key(index))
    }

    fn names_key(&self, index: usize) -> bool {
        self.key(index).is_some_and(RemoteKey::is_reference)
    }

    /// The next piece: as many operations as the limits allow. A piece that has no room is one operation.
    fn next_piece(&self) -> Option<Piece> {
        let Limits { most, room, pace } = self.limits;
        let (most, way) = (most.min(OPS_MAX as usize), (self.suite, self.direction));
        let may_be_columns = self.suite.takes_columns() && self.ops.len() >= COLUMNS_FROM;
        let start = self.pieces.last().map_or(0, |piece| piece.ops.end);
        let mut piece = Piece::default();
        for (index, op) in self.ops.iter().enumerate().skip(start).filter(|(_, op)| op.status.is_pending()) {
            let fits = piece.pending < most
                && piece.bound() + Piece::bound_of(way, op) <= room
                && pace.is_none_or(|pace| pace.is_short(piece.pending + 1, piece.input + op.input.len as usize));
            if piece.pending > 0 && !fits {
                break;
            }
            if piece.pending == 0 {
                piece.ops.start = index;
            }
            piece.add(way, index, op, may_be_columns);
        }
        (piece.pending > 0).then(|| piece.ended())
    }

    /// Two pieces with half of the pending operations each, as far as there are two.
    pub(crate) fn halves(&self, piece: &Piece) -> Option<[Piece; 2]> {
        let pending = piece.ops.clone().filter(|index| self.ops[*index].status.is_pending());
        let middle = pending.clone().nth(piece.pending / 2).filter(|_| piece.pending > 1)?;
        let half = |own: Range<usize>| {
            let none = Piece { ops: own.start..own.start, ..Piece::default() };
            let all = pending.clone().filter(|index| own.contains(index));
            all.fold(none, |mut piece, index| {
                piece.add((self.suite, self.direction), index, &self.ops[index], false);
                piece
            })
        };
        Some([half(piece.ops.start..middle), half(middle..piece.ops.end)])
    }

    /// An operation that the service has not done: nothing is left of what it may have been given.
    pub(crate) fn fail(&mut self, index: usize) {
        let op = &mut self.ops[index];
        let output_len = output_len(self.suite, self.direction, op);
        let output = op.output as usize..op.output as usize + output_len;
        if !output.is_empty() {
            self.arena[output].fill(0);
        }
        (op.status, op.output_len) = (OpStatus::EngineFault, 0);
    }

    /// Pending operations of a piece, by their index.
    fn pending<'p>(ops: &'p [Op], piece: &Piece) -> impl Iterator<Item = (usize, &'p Op)> + use<'p> {
        let own = ops[piece.ops.clone()].iter().enumerate();
        let first = piece.ops.start;
        own.filter(|(_, op)| op.status.is_pending()).map(move |(index, op)| (first + index, op))
    }
}

/// Bytes of room that an operation's output has.
#[inline]
fn output_len(suite: Suite, direction: Direction, op: &Op) -> usize {
    // Asked for every operation: most suites are told by one comparison.
    if suite.keeps_len() {
        return op.input.len as usize;
    }
    suite.output_len(direction, op.input.len as usize, op.output_len as usize)
}

impl Cargo for Ops<'_> {
    fn suite(&self) -> Suite {
        self.suite
    }

    fn next(&mut self) -> Option<usize> {
        let piece = self.next_piece()?;
        self.pieces.push(piece);
        Some(self.pieces.len() - 1)
    }

    fn work(&self, piece: usize) -> (usize, usize) {
        (self.pieces[piece].pending, self.pieces[piece].input)
    }

    fn room(&self, piece: usize) -> usize {
        self.pieces[piece].room()
    }

    fn put(&mut self, piece: usize, way: &mut Way<'_>) -> Result<Request> {
        let piece = &self.pieces[piece];
        match piece.common {
            Some(common) => self.put_columns(piece, common, way),
            None => self.put_records(piece, way),
        }
    }

    fn take(&mut self, piece: usize, way: &mut Way<'_>) -> Result<()> {
        let piece = self.pieces[piece].clone();
        match piece.common {
            Some(common) => self.take_columns(&piece, common, way),
            None => self.take_records(&piece, way),
        }
    }
}

/// Operations as records: their parts lie one behind the other, all inputs first.
impl Ops<'_> {
    fn put_records(&self, piece: &Piece, way: &mut Way<'_>) -> Result<Request> {
        let data_at = way.at + piece.pending * RECORD_LEN;
        let len = piece.data_len();
        let mut next = Places::of(piece);
        let mut refused = Ok(());
        let (link, memory, at) = (way.link, way.memory, way.at);
        let mut out = Put::new(way, data_at, len, piece.is_staged());
        let sent = Ops::pending(self.ops, piece).map_while(|(index, op)| {
            let key = self.key(index).map_or(Ok(KeyId::NONE), |key| key.at(link));
            let key = key.map_err(|error| refused = Err(error)).ok()?;
            let [input, aad, output, tag] = next.step(self.suite, self.direction, op);
            out.put(input.start, &self.arena[op.input.range()]);
            out.put(aad.start, &self.arena[op.aad.span().range()]);
            out.put(tag.start, &self.arena[op.tag_span().range()]);
            let own = Op {
                key,
                input: Span::new(input.start as u32, op.input.len),
                output: output.start as u32,
                tag: tag.start as u32,
                aad: Aad::new(aad.start as u32, op.aad.len),
                ..*op
            };
            Some(own)
        });
        put_ops(memory, at, sent).map_err(|_| full())?;
        refused?;
        out.end()?;
        Ok(self.request(piece, at, data_at, len))
    }

    fn request(&self, piece: &Piece, ops_at: usize, data_at: usize, data_len: usize) -> Request {
        Request {
            suite: self.suite,
            direction: self.direction,
            ops: piece.pending as u32,
            columns: piece.common.is_some(),
            ops_at: ops_at as u32,
            data_at: data_at as u32,
            data_len: data_len as u32,
        }
    }

    fn take_records(&mut self, piece: &Piece, way: &mut Way<'_>) -> Result<()> {
        let data_at = way.at + piece.pending * RECORD_LEN;
        let (memory, ops_at) = (way.memory, way.at);
        let mut from = Take::new(way, data_at, piece.data_len(), piece.is_staged());
        let mut next = Places::of(piece);
        let mut at = piece.ops.start;
        let results = read_results(memory, ops_at, piece.pending, |_, status, output_len, tag_len| {
            let Some(skipped) = self.ops[at..piece.ops.end].iter().position(|op| op.status.is_pending()) else {
                return;
            };
            let index = at + skipped;
            at = index + 1;
            let status = believed(status, || self.names_key(index));
            let op = &mut self.ops[index];
            let [_, _, output, tag] = next.step(self.suite, self.direction, op);
            from.take(output.start, &mut self.arena[op.output as usize..][..output.len()]);
            from.take(tag.start, &mut self.arena[op.tag_span().range()]);
            if from.is_there {
                (op.status, op.output_len, op.tag_len) = (status, output_len, tag_len);
            }
        });
        if results.is_ok() && from.is_there { Ok(()) } else { Err(full()) }
    }
}

/// Where the parts of the next operation of a piece lie in its data.
struct Places([usize; 4]);

impl Places {
    fn of(piece: &Piece) -> Places {
        let [inputs, aads, outputs, _] = piece.parts;
        Places([0, inputs, inputs + aads, inputs + aads + outputs])
    }

    /// Input, additional data, output and tag of an operation.
    fn step(&mut self, suite: Suite, direction: Direction, op: &Op) -> [Range<usize>; 4] {
        let (input, output) = (op.input.len as usize, output_len(suite, direction, op));
        let mut place = |part: usize, len: usize| {
            let at = self.0[part];
            self.0[part] += len;
            at
        };
        let (input_at, output_at) = if suite.transforms() {
            let at = place(0, input.max(output));
            (at, at)
        } else {
            (place(0, input), place(2, output))
        };
        let (aad, tag) = (usize::from(op.aad.len), usize::from(op.tag_len));
        let (aad_at, tag_at) = (place(1, aad), place(3, tag));
        [input_at..input_at + input, aad_at..aad_at + aad, output_at..output_at + output, tag_at..tag_at + tag]
    }
}

/// Operations as columns.
impl Ops<'_> {
    fn shape(&self, piece: &Piece, common: Common) -> (ColumnShape, ColumnPlaces) {
        let steps = |len: Option<u32>| match len {
            Some(len) => ShapeSteps::Strided { len, stride: len },
            None => ShapeSteps::Offsets,
        };
        let [inputs, aads, ..] = piece.parts.map(|len| len as u32);
        let input = ShapeBuffer { len: inputs, steps: steps(common.input_len) };
        let shape = ColumnShape {
            keys: if self.suite.needs_key() { ShapeKeys::Each } else { ShapeKeys::None },
            ivs: if common.iv_len == 0 { ShapeIvs::None } else { ShapeIvs::Each(common.iv_len.into()) },
            aad: match aads {
                0 => ShapeAad::None,
                len => ShapeAad::Each(ShapeBuffer { len, steps: steps(common.aad_len.map(u32::from)) }),
            },
            tags: if common.tag_len == 0 { ShapeTags::None } else { ShapeTags::Column(common.tag_len.into()) },
            data: if self.suite.transforms() { ShapeData::InPlace(input) } else { ShapeData::Input(input) },
        };
        // Pieces are shorter than channels are.
        (shape, shape.places(piece.pending, self.direction).unwrap_or_default())
    }

    fn put_columns(&self, piece: &Piece, common: Common, way: &mut Way<'_>) -> Result<Request> {
        let (shape, places) = self.shape(piece, common);
        let data_at = columns_at(way.at, piece.pending);
        let (link, memory, ops_at) = (way.link, way.memory, way.at);
        let mut out = Put::new(way, data_at, places.copied, piece.is_staged());
        let (mut key, mut iv, mut aad, mut input, mut tag) =
            (places.keys.start, places.ivs.start, places.aad.start, places.input.start, places.expected.start);
        let (mut aad_offset, mut input_offset) = (places.aad_offsets.start, places.input_offsets.start);
        let iv_len = usize::from(common.iv_len);
        let mut put = |at: &mut usize, bytes: &[u8]| {
            out.put(*at, bytes);
            *at += bytes.len();
        };
        let (keys, aads) = (shape.keys == ShapeKeys::Each, shape.aad != ShapeAad::None);
        let (offsets, aad_offsets) = (!places.input_offsets.is_empty(), !places.aad_offsets.is_empty());
        let expected = !places.expected.is_empty();
        for (index, op) in Ops::pending(self.ops, piece) {
            if keys {
                let own = self.key(index).map_or(Ok(KeyId::NONE), |key| key.at(link))?;
                put(&mut key, &key_bytes(own));
            }
            put(&mut iv, &op.iv[..iv_len.min(IV_LEN_MAX)]);
            if offsets {
                put(&mut input_offset, &((input - places.input.start) as u32).to_le_bytes());
            }
            put(&mut input, &self.arena[op.input.range()]);
            if aads {
                if aad_offsets {
                    put(&mut aad_offset, &((aad - places.aad.start) as u32).to_le_bytes());
                }
                put(&mut aad, &self.arena[op.aad.span().range()]);
            }
            if expected {
                put(&mut tag, &self.arena[op.tag_span().range()]);
            }
        }
        // The ends of the last ones.
        if offsets {
            put(&mut input_offset, &((input - places.input.start) as u32).to_le_bytes());
        }
        if aad_offsets {
            put(&mut aad_offset, &((aad - places.aad.start) as u32).to_le_bytes());
        }
        out.end()?;
        let pending = vec![ColumnStatus::PENDING; piece.pending];
        put_statuses(memory, ops_at, &pending).and_then(|()| shape.put(memory, ops_at)).map_err(|_| full())?;
        Ok(self.request(piece, ops_at, data_at, places.len))
    }

    fn take_columns(&mut self, piece: &Piece, common: Common, way: &mut Way<'_>) -> Result<()> {
        let (_, places) = self.shape(piece, common);
        let data_at = columns_at(way.at, piece.pending);
        let transforms = self.suite.transforms();
        let mut statuses = Vec::with_capacity(piece.pending);
        get_statuses(way.memory, way.at, piece.pending, &mut statuses).map_err(|_| full())?;
        // What is written is the last of all, and one stretch.
        let first = if transforms { places.input.start } else { places.written.start };
        let mut from = Take::new(way, data_at + first, places.len - first, piece.is_staged());
        let (mut output, mut tag) = (0, places.written.start - first);
        let has_tags = !places.written.is_empty();
        let mut at = piece.ops.start;
        for status in statuses {
            let Some(skipped) = self.ops[at..piece.ops.end].iter().position(|op| op.status.is_pending()) else { break };
            let index = at + skipped;
            at = index + 1;
            let status = match status.status() {
                Some(OpStatus::Pending) | None => OpStatus::EngineFault,
                Some(status) => believed(status, || self.names_key(index)),
            };
            let op = &mut self.ops[index];
            if transforms {
                let len = op.input.len as usize;
                from.take(output, &mut self.arena[op.output as usize..][..len]);
                output += len;
            }
            if has_tags {
                from.take(tag, &mut self.arena[op.tag_span().range()]);
                tag += usize::from(op.tag_len);
            }
            if !from.is_there {
                return Err(full());
            }
            op.output_len = if transforms && status.is_done() { op.input.len } else { 0 };
            op.status = status;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces of operations with these many bytes each, of which every third is not pending.
    fn pieces(suite: &str, lens: &[u32], count: u32, limits: Limits) -> (Vec<Piece>, Vec<Op>) {
        let op = |index: u32| {
            let len = lens[index as usize % lens.len()];
            let op = Op::in_place(KeyId { slot: 0, generation: 1 }, Span::new(index * 256, len));
            let status = if index % 3 == 2 { OpStatus::Done } else { OpStatus::Pending };
            Op { status, ..op.with_tag(index * 256 + len, 16).with_iv(&[0; 12]) }
        };
        let mut ops: Vec<Op> = (0..count).map(op).collect();
        let suite = suite.parse().expect("a suite");
        let (direction, pieces) = (Direction::Encrypt, Vec::new());
        let mut batch = Ops { suite, direction, ops: &mut ops, arena: &mut [], keys: &[], limits, pieces };
        while batch.next().is_some() {}
        (core::mem::take(&mut batch.pieces), ops)
    }

    #[test]
    fn pieces_have_every_pending_operation_once_and_room() {
        for (suite, lens) in [("aes-128-gcm", &[64][..]), ("aes-128-gcm", &[8, 80, 33]), ("aes-256-kw", &[16, 32])] {
            for (count, most, room) in [(1000, 1000, 4096), (1000, 64, 1 << 20), (7, 100, 300), (3, 1, 64)] {
                let (pieces, ops) = pieces(suite, lens, count, Limits { most, room, pace: None });
                let mut end = 0;
                for piece in &pieces {
                    assert!(piece.ops.start >= end && piece.pending <= most);
                    assert!(piece.pending == 1 || piece.room() <= room, "{piece:?}");
                    let own = &ops[piece.ops.clone()];
                    assert_eq!(own.iter().filter(|op| op.status.is_pending()).count(), piece.pending);
                    assert!(
                        own[0].status.is_pending() && ops[end..piece.ops.start].iter().all(|op| op.status.is_done())
                    );
                    assert_eq!(piece.common.is_some(), piece.pending >= COLUMNS_FROM && suite == "aes-128-gcm");
                    end = piece.ops.end;
                }
                assert!(ops[end..].iter().all(|op| op.status.is_done()), "{suite}, {count}");
            }
        }
    }
}
