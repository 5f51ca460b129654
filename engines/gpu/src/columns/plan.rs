//! What all shares of columns have in common: how the device is to read them.

use ciphermill_contract::columns::{ColumnLayout, DataBuffers, Extents, IvPlace, PreparedColumn, TagPlace};
use ciphermill_contract::key::SuiteName;
use ciphermill_contract::{CheckedColumns, ColumnStatus, Direction, PreparedKey, Suite};

use crate::capabilities::INPUT_LEN_MAX;
use crate::keys::Prepared;
use crate::pack::PART_LEN;
use crate::select::{Iv, Parts, Plan, plan};

/// Bytes of an extent of an operation that is left out, at most.
const GAP_LEN_MAX: usize = 1 << 20;

/// Columns that go to the device as they lie.
pub(super) struct ColumnPlan {
    pub(super) suite: Plan,
    /// Which side of the data tags lie on; must agree with `kernels/columns`.
    pub(super) tags: TagSide,
    pub(super) ivs: IvSource,
    pub(super) keys: Keys,
    /// Whether tags are compared with what is there.
    pub(super) opens: bool,
    pub(super) in_place: bool,
    /// Whether operations are left out.
    pub(super) has_left_out: bool,
    /// The most bytes of data that an operation has.
    pub(super) longest: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagSide {
    None = 0,
    Before = 1,
    Behind = 2,
    Column = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IvSource {
    None = 0,
    /// A column of theirs, or one that the host makes of those that lie in the output.
    Column = 1,
    /// Where the data are read, before them.
    Inline = 2,
    Counted = 3,
}

/// The places of keys on the device, in words.
pub(super) enum Keys {
    None,
    One(u32),
    Each(Vec<u32>),
}

impl ColumnPlan {
    /// `None` for columns that become ops: those with a message of more than two parts, which is worked on in parts; those that
    /// lie far apart or leave wide gaps; those whose keys are not all this engine's; suites that are no messages.
    pub(super) fn of(columns: &CheckedColumns<'_>) -> Option<ColumnPlan> {
        let (suite, direction, layout) = (columns.suite(), columns.direction(), columns.layout());
        let own = plan(suite, direction)?;
        let first = columns.statuses().iter().position(|status| status.is_pending())?;
        let longest = longest(columns);
        let strided = matches!(layout.input_lens(), Extents::Strided { .. });
        if longest > 2 * PART_LEN && !(strided && own.parts == Parts::Whole) {
            return None;
        }
        // The counter of ChaCha20, where the caller gives it, may run out.
        let iv_len = layout.iv_len();
        let counted = own.parts == Parts::CountedFirst && iv_len == own.iv_len;
        if longest > INPUT_LEN_MAX
            || layout.has_spans()
            || columns.is_sparse()
            || has_wide_gap(columns)
            || counted
            || iv_len % 4 != 0
            || iv_len > own.iv_len
        {
            return None;
        }
        Some(ColumnPlan {
            tags: tag_side(&layout, first),
            ivs: iv_source(columns, &layout, first),
            keys: keys(columns, suite)?,
            opens: direction == Direction::Decrypt && layout.tag_len() > 0,
            in_place: !columns.keeps_inputs(),
            has_left_out: columns.pending() < columns.len(),
            longest,
            suite: own,
        })
    }

    /// Words of zero before an IV of so many bytes on the device, and the word behind it.
    pub(super) fn iv_frame(&self, iv_len: usize) -> (usize, u32) {
        let whole = self.suite.iv_len;
        match self.suite.iv {
            Iv::CounterBefore if iv_len > 0 => ((whole - iv_len) / 4, 0),
            // One, with its last byte at the end.
            Iv::CounterBehind if iv_len + 4 == whole => (0, 1u32.to_be()),
            _ => (0, 0),
        }
    }
}

/// Whether an operation that is left out takes so much room that places on the device might not fit 32 bits.
fn has_wide_gap(columns: &CheckedColumns<'_>) -> bool {
    if columns.pending() == columns.len() {
        return false;
    }
    let layout = columns.layout();
    let widest = |index: usize| {
        let aad = layout.own_aad().map_or(0, |(_, extents)| extents.at(index).1 - extents.at(index).0);
        layout.input_extent(index).len().max(layout.output_extent(index).len()).max(aad)
    };
    (0..columns.len()).any(|index| widest(index) > GAP_LEN_MAX)
}

fn longest(columns: &CheckedColumns<'_>) -> usize {
    let layout = columns.layout();
    if columns.pending() == columns.len() {
        return columns.longest_input() - layout.input_more();
    }
    let pending = columns.statuses().iter().enumerate().filter(|(_, status)| status.is_pending());
    pending.map(|(index, _)| layout.data(index).len).max().unwrap_or(0)
}

fn tag_side(layout: &ColumnLayout<'_>, index: usize) -> TagSide {
    let data = layout.data(index);
    match layout.tag(index, data) {
        TagPlace::None => TagSide::None,
        TagPlace::Column(_) => TagSide::Column,
        TagPlace::Input(at) if at < data.input => TagSide::Before,
        TagPlace::Output(at) if at < data.output => TagSide::Before,
        TagPlace::Input(_) | TagPlace::Output(_) => TagSide::Behind,
    }
}

fn iv_source(columns: &CheckedColumns<'_>, layout: &ColumnLayout<'_>, index: usize) -> IvSource {
    match layout.iv(index) {
        _ if layout.iv_len() == 0 => IvSource::None,
        IvPlace::Value(_) => IvSource::Counted,
        IvPlace::Column(_) => IvSource::Column,
        IvPlace::Input(_) => IvSource::Inline,
        // In place the output is what is read.
        IvPlace::Output(_) if !columns.keeps_inputs() => IvSource::Inline,
        IvPlace::Output(_) => IvSource::Column,
    }
}

/// `None` when a pending operation has no key of this engine's.
fn keys(columns: &CheckedColumns<'_>, suite: Suite) -> Option<Keys> {
    let name = SuiteName::from(suite);
    let word = |key: &PreparedKey| key.state_for::<Prepared>(name).map(|prepared| prepared.resident.word());
    match columns.prepared() {
        PreparedColumn::None if suite.needs_key() => None,
        PreparedColumn::None => Some(Keys::None),
        PreparedColumn::One(key) => word(key).map(Keys::One),
        PreparedColumn::Each(keys) => {
            let each = || keys.iter().zip(columns.statuses());
            // A kernel that takes two messages at a time mixes their keys: one that is left out has to have a key of this suite.
            let (first, _) = each().find(|(_, status)| status.is_pending())?;
            let filler = word((*first)?)?;
            let word = |(key, status): (&Option<&PreparedKey>, &ColumnStatus)| match key {
                _ if !status.is_pending() => Some(filler),
                Some(key) => word(key),
                None => None,
            };
            each().map(word).collect::<Option<_>>().map(Keys::Each)
        }
    }
}

/// What columns are read from, and what is written if that is another buffer.
pub(super) fn buffers<'b>(data: &'b DataBuffers<'_>) -> (&'b [u8], Option<&'b [u8]>) {
    match data {
        DataBuffers::Separate(input, output) => (input, Some(output)),
        DataBuffers::InPlace(data) => (data, None),
        DataBuffers::Input(input) => (input, None),
    }
}
