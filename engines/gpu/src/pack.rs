//! A batch taken apart into messages, and messages packed as the kernels read them (`kernels/batch.h`).

use ciphermill_contract::key::SuiteName;
use ciphermill_contract::{Aad, CheckedBatch, Direction, OpStatus, PreparedKey, Reason};

use zeroize::Zeroizing;

use crate::device::GROUP;
use crate::device::Launch;
use crate::keys::Prepared;
use crate::select::{Iv, Parts, Plan};

/// Words before the first array; must agree with `HEAD_WORDS`.
pub(crate) const HEAD_WORDS: usize = 32;

/// Where a digest's initial state begins in the head; must agree with `HEAD_STATE`.
const HEAD_STATE: usize = 16;

/// Bytes of the longest tag: SHA-512.
const TAG_LEN_MAX: usize = 64;

/// Bytes of a part of a long message.
pub(crate) const PART_LEN: usize = 1024;

/// One message for the device: an operation, or a part of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// The operation's index in the batch.
    pub(crate) op: u32,
    /// Where in the operation's input it begins.
    from: u32,
    pub(crate) len: u32,
    /// Where its input and its output begin in the batch's arena.
    input: u32,
    output: u32,
    /// Where its key lies on the device, in words.
    key: u32,
    iv: [u8; 16],
    /// Its additional data in the batch's arena.
    aad: Aad,
}

/// How a run of pieces lies in the staging buffer; offsets and lengths in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Bytes from one piece's data to the next when all are alike; else there is an index.
    stride: Option<usize>,
    keys_at: usize,
    ivs_at: usize,
    aads_at: usize,
    /// Bytes from one piece's additional data to the next, where there is no index; zero when all share them.
    aad_stride: usize,
    pub(crate) data_at: usize,
    tags_at: usize,
    /// Whether the data lie behind all else, and are copied without the staging buffer.
    direct: bool,
    /// Bytes in the staging buffer, and on the device.
    pub(crate) staging_len: usize,
    pub(crate) len: usize,
}

/// Data of pieces that lie one behind the other, as kernels want them; in bytes of the batch's arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) input: usize,
    /// Where the output begins, for suites that transform.
    pub(crate) output: Option<usize>,
    pub(crate) len: usize,
}

/// Takes the pending operations of a batch apart. Operations that cannot be carried out, for example without a key of this
/// engine, are settled; the pieces come longest first, so that neighbours are of like lengths.
/// `pieces` is a vector that is not needed any more: fresh memory costs more than what is put there.
pub(crate) fn pieces(batch: &mut CheckedBatch<'_>, plan: &Plan, mut pieces: Vec<Piece>) -> Vec<Piece> {
    let suite = batch.suite();
    let (name, keyed) = (SuiteName::from(suite), suite.needs_key());
    let keys = batch.keys();
    pieces.clear();
    pieces.reserve(batch.len());
    let mut unfit = Vec::new();
    let mut last_key: Option<(&PreparedKey, u32)> = None;
    for (index, op) in batch.ops().iter().enumerate() {
        if !op.status.is_pending() {
            continue;
        }
        let key = match (keyed, keys.get(index).copied().flatten()) {
            (false, _) => 0,
            // Neighbours often have the same key.
            (true, Some(key)) if last_key.is_some_and(|(last, _)| core::ptr::eq(last, key)) => {
                last_key.map_or(0, |(_, word)| word)
            }
            (true, key) => {
                let Some((key, prepared)) = key.and_then(|key| Some((key, key.state_for::<Prepared>(name)?))) else {
                    unfit.push((index, OpStatus::EngineFault));
                    continue;
                };
                let word = prepared.resident.word();
                last_key = Some((key, word));
                word
            }
        };
        let iv = device_iv(plan, &op.iv[..usize::from(op.iv_len).min(16)]);
        if plan.parts == Parts::CountedFirst && !counter_lasts(&iv, op.input.len) {
            unfit.push((index, OpStatus::BadInput(Reason::InputTooLong)));
            continue;
        }
        let (input, output) = (op.input.offset, op.output);
        let whole = Piece { op: index as u32, from: 0, len: op.input.len, input, output, key, iv, aad: op.aad };
        if plan.parts == Parts::Whole || op.input.len as usize <= 2 * PART_LEN {
            pieces.push(whole);
        } else {
            split(plan, whole, &batch.arena()[op.input.range()], &mut pieces);
        }
    }
    for (index, status) in unfit {
        settle(batch, index, status);
    }
    // Stable, so that neighbours in the arena stay neighbours. Shares of a tag stay together.
    let ops = batch.ops();
    let len_of = |piece: &Piece| if plan.parts == Parts::Hashed { ops[piece.op as usize].input.len } else { piece.len };
    if pieces.windows(2).any(|pair| len_of(&pair[0]) != len_of(&pair[1])) {
        pieces.sort_by_key(|piece| core::cmp::Reverse(len_of(piece)));
    }
    pieces
}

/// An operation's IV as the kernels want it.
fn device_iv(plan: &Plan, iv: &[u8]) -> [u8; 16] {
    let mut out = [0; 16];
    let at = if plan.iv == Iv::CounterBefore { 16 - iv.len() } else { 0 };
    out[at..at + iv.len()].copy_from_slice(iv);
    if plan.iv == Iv::CounterBehind && iv.len() + 4 == plan.iv_len {
        out[plan.iv_len - 1] = 1;
    }
    out
}

/// Whether ChaCha20's counter has as many blocks left: RFC 8439 does not say what follows the last of 2^32.
fn counter_lasts(iv: &[u8; 16], len: u32) -> bool {
    let [a, b, c, d, ..] = *iv;
    u64::from(u32::from_le_bytes([a, b, c, d])) + u64::from(len.div_ceil(64)) <= 1 << 32
}

/// Takes a message apart.
fn split(plan: &Plan, whole: Piece, input: &[u8], pieces: &mut Vec<Piece>) {
    let placed = plan.parts == Parts::Placed;
    let mut from = 0;
    while from < input.len() {
        let left = input.len() - from;
        let alone = placed && left < PART_LEN + plan.grain;
        let len = if alone { left } else { PART_LEN.min(left) };
        let mut iv = whole.iv;
        match plan.parts {
            Parts::Chained if from > 0 => iv[..plan.iv_len].copy_from_slice(&input[from - plan.iv_len..from]),
            Parts::Counted => {
                // A shorter counter block lies in the upper bytes and goes round there.
                let blocks = ((from / plan.grain) as u128) << (8 * (16 - plan.iv_len));
                iv = u128::from_be_bytes(whole.iv).wrapping_add(blocks).to_be_bytes();
            }
            Parts::CountedFirst => {
                // Counter and nonce are one little-endian number; the counter was found to last. A block has 64 bytes.
                iv = u128::from_le_bytes(whole.iv).wrapping_add((from / 64) as u128).to_le_bytes();
            }
            _ => {}
        }
        let (input, output) = (whole.input + from as u32, whole.output + from as u32);
        let aad = if from == 0 { whole.aad } else { Aad::default() };
        pieces.push(Piece { from: from as u32, len: len as u32, input, output, iv, aad, ..whole });
        from += len;
    }
}

/// Settles an operation that was not carried out, by the contract's rules, or one that is done.
pub(crate) fn settle(batch: &mut CheckedBatch<'_>, index: usize, status: OpStatus) {
    let (suite, direction) = (batch.suite(), batch.direction());
    let (ops, arena, _) = batch.parts();
    let op = &mut ops[index];
    let output_len = suite.output_len(direction, op.input.len as usize, 0);
    op.output_len = if status.is_done() { output_len as u32 } else { 0 };
    if !status.is_done() {
        arena[op.output as usize..op.output as usize + output_len].fill(0);
    }
    op.status = status;
}

impl Plan {
    /// Bytes that a piece's IV takes with its place.
    #[inline]
    pub(crate) fn iv_room(&self) -> usize {
        self.iv_len + 4 * self.parts.place_words()
    }

    /// Bytes that a piece's additional data take.
    #[inline]
    fn aad_room(&self, piece: &Piece) -> usize {
        usize::from(piece.aad.len).next_multiple_of(16)
    }

    /// Bytes that a piece takes among the data.
    #[inline]
    fn room(&self, len: u32) -> usize {
        (len as usize).next_multiple_of(self.grain)
    }

    /// How many of the pieces fit `len_max` bytes of staging; at least one, or one message's where they have to stay
    /// together.
    pub(crate) fn fitting(&self, pieces: &[Piece], len_max: usize) -> usize {
        let around = 20 + self.iv_room() + self.tag_len;
        let mut len = 0;
        let past = |piece: &Piece| {
            len += around + self.room(piece.len) + self.aad_room(piece);
            len > len_max
        };
        let fitting = pieces.iter().position(past).unwrap_or(pieces.len()).max(1).min(pieces.len());
        if self.parts != Parts::Hashed {
            return fitting;
        }
        // All of a message or nothing: it leaves the staging buffer when its tag has been verified.
        let whole = |end: &usize| *end == pieces.len() || pieces[*end].op != pieces[*end - 1].op;
        (1..=fitting).rev().find(whole).or_else(|| (fitting..=pieces.len()).find(whole)).unwrap_or(pieces.len())
    }

    /// The pieces' data, if they can be copied as they lie: all of one length, which needs no padding, each where the one
    /// before ends, in the input and in the output. Not where tags are verified: no plaintext leaves the staging buffer
    /// before they are.
    pub(crate) fn run(&self, direction: Direction, pieces: &[Piece]) -> Option<Run> {
        let first = pieces.first()?;
        let verifies = direction == Direction::Decrypt && self.tag_len > 0;
        if verifies || first.len == 0 || self.room(first.len) != first.len as usize {
            return None;
        }
        let follows = |pair: &[Piece]| {
            let (one, next) = (&pair[0], &pair[1]);
            next.len == one.len
                && next.aad.len == one.aad.len
                && next.input == one.input + one.len
                && (!self.transforms || next.output == one.output + one.len)
        };
        pieces.windows(2).all(follows).then(|| Run {
            input: first.input as usize,
            output: self.transforms.then_some(first.output as usize),
            len: pieces.len() * first.len as usize,
        })
    }

    /// How pieces lie in the staging buffer; `direct` puts the data behind it.
    pub(crate) fn layout(&self, pieces: &[Piece], keyed: bool, direct: bool) -> Layout {
        let count = pieces.len();
        let (first_len, first_aad) = pieces.first().map_or((0, Aad::default()), |piece| (piece.len, piece.aad));
        let (mut shared, mut alike) = (true, true);
        for piece in pieces {
            shared &= piece.aad == first_aad;
            alike &= (piece.len == first_len) & (piece.aad.len == first_aad.len);
        }
        // A stride of zero would mean an index.
        let stride = alike.then(|| self.room(first_len).max(self.grain));
        let keys_at = 4 * HEAD_WORDS + if alike { 0 } else { 16 * count };
        let ivs_at = keys_at + if keyed { 4 * count } else { 0 };
        let aads_at = (ivs_at + self.iv_room() * count).next_multiple_of(16);
        let aads_len: usize = match pieces.first() {
            Some(first) if shared => self.aad_room(first),
            _ => pieces.iter().map(|piece| self.aad_room(piece)).sum(),
        };
        let aad_stride = if shared { 0 } else { usize::from(first_aad.len).next_multiple_of(16) };
        let aads_end = aads_at + aads_len;
        let tags_len = self.tag_len * count;
        let data_len = match stride {
            Some(stride) => stride * count,
            None => pieces.iter().map(|piece| self.room(piece.len)).sum(),
        };
        let (data_at, tags_at) = match direct {
            false => (aads_end, aads_end + data_len),
            true => ((aads_end + tags_len).next_multiple_of(16), aads_end),
        };
        let staging_len = tags_at + tags_len;
        let len = staging_len.max(data_at + data_len);
        Layout { stride, keys_at, ivs_at, aads_at, aad_stride, data_at, tags_at, direct, staging_len, len }
    }

    /// The launch for a packed layout.
    pub(crate) fn launch(&self, layout: &Layout, count: usize) -> Launch {
        let output_at = if self.transforms && !layout.direct { layout.data_at } else { layout.tags_at };
        Launch {
            program: self.program,
            kernel: self.kernel,
            groups: count.div_ceil(self.per_item * GROUP),
            input_len: layout.tags_at,
            output: output_at..layout.staging_len,
            memory_len: layout.len,
            column_groups: None,
        }
    }
}

/// Writes a word, little-endian.
pub(crate) fn put(staging: &mut [u8], at: usize, word: usize) {
    // Everything that is put fits the staging buffer, whose length is 32 bits wide; places in columns wrap.
    staging[at..at + 4].copy_from_slice(&(word as u32).to_le_bytes());
}

/// The head of a packed batch, as far as it is not the plan's: places and lengths in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Head {
    pub(crate) count: usize,
    pub(crate) index_at: usize,
    pub(crate) keys_at: usize,
    pub(crate) ivs_at: usize,
    pub(crate) data_at: usize,
    pub(crate) tags_at: usize,
    /// Zero where there is an index.
    pub(crate) stride: usize,
    pub(crate) len: usize,
    pub(crate) aads_at: usize,
    pub(crate) aad_stride: usize,
    pub(crate) aad_len: usize,
}

impl Head {
    /// Writes the head, in the order of `kernels/batch.h`.
    pub(crate) fn put(&self, plan: &Plan, staging: &mut [u8]) {
        let head = [
            self.count,
            self.index_at / 4,
            self.keys_at / 4,
            self.ivs_at / 4,
            self.data_at / 4,
            self.tags_at / 4,
            self.stride / 4,
            self.len,
            plan.iv_room() / 4,
            plan.tag_len / 4,
            plan.rounds as usize,
            self.aads_at / 4,
            self.aad_stride / 4,
            self.aad_len,
        ];
        staging[..4 * HEAD_WORDS].fill(0);
        head.into_iter().enumerate().for_each(|(at, word)| put(staging, 4 * at, word));
        let state = plan.state.into_iter().enumerate();
        state.for_each(|(at, word)| put(staging, 4 * (HEAD_STATE + at), word as usize));
    }
}

fn pack_head(plan: &Plan, pieces: &[Piece], layout: &Layout, staging: &mut [u8]) {
    let first = pieces.first();
    let head = Head {
        count: pieces.len(),
        index_at: 4 * HEAD_WORDS,
        keys_at: layout.keys_at,
        ivs_at: layout.ivs_at,
        data_at: layout.data_at,
        tags_at: layout.tags_at,
        stride: layout.stride.unwrap_or(0),
        len: first.map_or(0, |piece| piece.len as usize),
        aads_at: layout.aads_at,
        aad_stride: layout.aad_stride,
        aad_len: first.map_or(0, |piece| usize::from(piece.aad.len)),
    };
    head.put(plan, staging);
}

/// Copies bytes and fills up with zeros.
fn put_padded(staging: &mut [u8], at: usize, bytes: &[u8], room: usize) {
    let place = &mut staging[at..at + room];
    place[..bytes.len()].copy_from_slice(bytes);
    place[bytes.len()..].fill(0);
}

/// Packs pieces into a staging buffer of the layout's length.
pub(crate) fn pack(batch: &CheckedBatch<'_>, plan: &Plan, pieces: &[Piece], layout: &Layout, staging: &mut [u8]) {
    pack_head(plan, pieces, layout, staging);
    if layout.ivs_at > layout.keys_at {
        let places = staging[layout.keys_at..layout.ivs_at].chunks_exact_mut(4);
        for (place, piece) in places.zip(pieces) {
            place.copy_from_slice(&piece.key.to_le_bytes());
        }
    }
    pack_ivs(batch, plan, pieces, &mut staging[layout.ivs_at..]);
    match layout.stride {
        Some(stride) => pack_alike(batch, plan, pieces, layout, stride, staging),
        None => pack_mixed(batch, plan, pieces, layout, staging),
    }
}

/// IVs, and behind them what parts of some suites want to know of their message: the number of their first block, and
/// the message's bytes.
fn pack_ivs(batch: &CheckedBatch<'_>, plan: &Plan, pieces: &[Piece], staging: &mut [u8]) {
    if plan.iv_room() == 0 {
        return;
    }
    let place_words = plan.parts.place_words();
    for (place, piece) in staging.chunks_exact_mut(plan.iv_room()).zip(pieces) {
        let (iv, behind) = place.split_at_mut(plan.iv_len);
        iv.copy_from_slice(&piece.iv[..plan.iv_len]);
        if place_words > 0 {
            let words = [piece.from as usize / plan.grain, batch.ops()[piece.op as usize].input.len as usize];
            words.into_iter().take(place_words).enumerate().for_each(|(at, word)| put(behind, 4 * at, word));
        }
    }
}

/// Additional data and data of pieces that are alike: no index, and nothing to decide for each of them.
fn pack_alike(
    batch: &CheckedBatch<'_>,
    plan: &Plan,
    pieces: &[Piece],
    layout: &Layout,
    stride: usize,
    staging: &mut [u8],
) {
    let arena = batch.arena();
    // When all share them they lie there once, with a stride of zero.
    let own = if layout.aad_stride == 0 { 1 } else { pieces.len() };
    for (number, piece) in pieces.iter().take(own).enumerate() {
        let aad = &arena[piece.aad.span().range()];
        put_padded(staging, layout.aads_at + number * layout.aad_stride, aad, plan.aad_room(piece));
    }
    if layout.direct {
        return;
    }
    let len = pieces.first().map_or(0, |piece| piece.len as usize);
    let places = staging[layout.data_at..].chunks_exact_mut(stride);
    if len == stride {
        for (place, piece) in places.zip(pieces) {
            place.copy_from_slice(&arena[piece.input as usize..piece.input as usize + len]);
        }
    } else {
        for (place, piece) in places.zip(pieces) {
            let (data, padding) = place.split_at_mut(len);
            data.copy_from_slice(&arena[piece.input as usize..piece.input as usize + len]);
            padding.fill(0);
        }
    }
}

/// The index, additional data and data of pieces of several lengths.
fn pack_mixed(batch: &CheckedBatch<'_>, plan: &Plan, pieces: &[Piece], layout: &Layout, staging: &mut [u8]) {
    let arena = batch.arena();
    let (mut data_at, mut aads_end) = (layout.data_at, layout.aads_at);
    // The additional data that were put last, there and here: neighbours often share them.
    let mut last_aad: Option<(Aad, usize)> = None;
    for (number, piece) in pieces.iter().enumerate() {
        let reused = last_aad.filter(|(aad, _)| *aad == piece.aad);
        let aad_at = reused.map_or(aads_end, |(_, at)| at);
        if reused.is_none() {
            put_padded(staging, aads_end, &arena[piece.aad.span().range()], plan.aad_room(piece));
            aads_end += plan.aad_room(piece);
            last_aad = Some((piece.aad, aad_at));
        }
        let entry = [data_at / 4, piece.len as usize, aad_at / 4, usize::from(piece.aad.len)];
        let at = 4 * HEAD_WORDS + 16 * number;
        entry.into_iter().enumerate().for_each(|(word, value)| put(staging, at + 4 * word, value));
        let input = piece.input as usize..piece.input as usize + piece.len as usize;
        let room = plan.room(piece.len);
        put_padded(staging, data_at, &arena[input], room);
        data_at += room;
    }
}

/// Takes the results out of a staging buffer; operations stay pending until all their pieces are there, except those
/// whose tags do not verify.
pub(crate) fn unpack(batch: &mut CheckedBatch<'_>, plan: &Plan, pieces: &[Piece], layout: &Layout, staging: &[u8]) {
    if plan.tag_len > 0 {
        return unpack_tagged(batch, plan, pieces, layout, staging);
    }
    if layout.direct {
        return;
    }
    let (_, arena, _) = batch.parts();
    let mut data = staging.get(layout.data_at..).unwrap_or_default();
    for piece in pieces {
        let len = piece.len as usize;
        let (own, behind) = data.split_at(layout.stride.unwrap_or_else(|| plan.room(piece.len)));
        arena[piece.output as usize..piece.output as usize + len].copy_from_slice(&own[..len]);
        data = behind;
    }
}

/// The same for suites with tags. The parts of a message lie one behind the other.
fn unpack_tagged(batch: &mut CheckedBatch<'_>, plan: &Plan, pieces: &[Piece], layout: &Layout, staging: &[u8]) {
    let verifies = batch.direction() == Direction::Decrypt;
    let copies = plan.transforms && !layout.direct;
    let (ops, arena, _) = batch.parts();
    let mut data_at = layout.data_at;
    let mut tags = staging.get(layout.tags_at..).unwrap_or_default();
    for parts in pieces.chunk_by(|one, next| one.op == next.op) {
        let op = &mut ops[parts[0].op as usize];
        let (shares, others) = tags.split_at(plan.tag_len * parts.len());
        tags = others;
        let own = sum(shares, plan.tag_len);
        let tag = &mut arena[op.tag_span().range()];
        let mut good = true;
        if verifies {
            good = subtle::ConstantTimeEq::ct_eq(&*tag, &own[..tag.len()]).into();
        } else {
            tag.copy_from_slice(&own[..tag.len()]);
        }
        if !good {
            // Authentication comes before plaintext: none of it leaves the staging buffer.
            op.status = OpStatus::AuthFailed;
            op.output_len = 0;
        }
        for piece in parts {
            let (output, len) = (piece.output as usize, piece.len as usize);
            if plan.transforms && !good {
                arena[output..output + len].fill(0);
            } else if copies {
                arena[output..output + len].copy_from_slice(&staging[data_at..data_at + len]);
            }
            data_at += layout.stride.unwrap_or_else(|| plan.room(piece.len));
        }
    }
}

/// The sum of shares of a tag, of `len` bytes each: what is to come may be a tag that nobody has seen, so that it is wiped.
fn sum(shares: &[u8], len: usize) -> Zeroizing<[u8; TAG_LEN_MAX]> {
    let mut sum = Zeroizing::new([0; TAG_LEN_MAX]);
    for share in shares.chunks_exact(len) {
        sum.iter_mut().zip(share).for_each(|(byte, other)| *byte ^= other);
    }
    sum
}
