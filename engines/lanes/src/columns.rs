//! Columns in lanes: no byte of data is copied. Kernels take operations from a window of records that lies in the first-level
//! cache, whose offsets count from the places of the window's first operation in the caller's own buffers.

use ciphermill_contract::columns::{ColumnLayout, ColumnStatus, DataPlace, Extents, IvPlace, PreparedColumn, TagPlace};
use ciphermill_contract::limits::IV_LEN_MAX;
use ciphermill_contract::suite::BlockCipher;
use ciphermill_contract::{Aad, CheckedColumns, Direction, Op, OpStatus, PreparedKey, Span, Suite};

#[cfg(target_arch = "x86_64")]
use crate::aes::siv_columns::SivColumns;
use crate::rows::{Pointers, Rows, with_rows};
use crate::select::Kernels;
use crate::work::{self, Bases, Scratch, Work};

/// Records that stay in the first-level cache.
const WINDOW_OPS: usize = 512;

/// Bytes that a window's offsets may reach, less than a record's fields hold.
const WINDOW_BYTES: usize = 1 << 31;

/// Runs columns, a window after the other.
pub(crate) fn run(
    kernels: &Kernels,
    scratch: &mut Scratch,
    columns: &mut CheckedColumns<'_>,
    kernel: impl Fn(&Kernels, &mut Work<'_>, &mut Scratch),
) {
    let (suite, direction, count) = (columns.suite(), columns.direction(), columns.len());
    let (layout, prepared) = (columns.layout(), columns.prepared());
    let needs_key = suite.needs_key();
    // Bits of blocks, a lane each, want more operations to be ordered by length.
    let is_sliced = matches!(suite, Suite::Cipher(BlockCipher::Des | BlockCipher::TripleDes, _));
    let most = if is_sliced { work::WINDOW_OPS } else { WINDOW_OPS };
    let keys_of_one: Vec<Option<&PreparedKey>> = match prepared {
        PreparedColumn::One(key) => vec![Some(key); count.min(most)],
        _ => Vec::new(),
    };
    #[cfg(target_arch = "x86_64")]
    let mut siv = kernels.aes.and_then(|aes| SivColumns::of(aes, columns));
    let (buffers, statuses) = columns.parts();
    let pointers = Pointers::of(&mut buffers.data, &mut buffers.tags);
    let mut ops = core::mem::take(&mut scratch.column_ops);
    let mut next = 0;
    while next < count {
        #[cfg(target_arch = "x86_64")]
        if let Some(siv) = &mut siv {
            let here = next..count.min(next + most);
            let statuses = &mut statuses[here.clone()];
            if with_rows!(&layout, |rows| siv.run(rows, &pointers, next, statuses, &mut scratch.occupancy)) {
                next = here.end;
                continue;
            }
        }
        let bases = pointers.window(&layout, &statuses[next..], (next, most), &mut ops);
        let here = next..next + ops.len();
        let keys: &[_] = match prepared {
            _ if !needs_key => &[],
            PreparedColumn::None => &[],
            PreparedColumn::One(_) => &keys_of_one[..ops.len()],
            PreparedColumn::Each(keys) => &keys[here.clone()],
        };
        let mut work = Work::of_columns(suite, direction, &mut ops, bases, keys);
        kernel(kernels, &mut work, scratch);
        let all_done = work.settled() == work.len() && work.failed() == 0;
        settle(&mut statuses[here], &ops, all_done);
        next += ops.len();
    }
    scratch.column_ops = ops;
}

/// Gives the operations of a window their statuses.
fn settle(statuses: &mut [ColumnStatus], ops: &[Op], all_done: bool) {
    if all_done {
        return statuses.fill(ColumnStatus::DONE);
    }
    for (status, op) in statuses.iter_mut().zip(ops).filter(|(status, _)| status.is_pending()) {
        // Suites that this engine does not claim end here.
        *status = if op.status.is_pending() { ColumnStatus::ENGINE_FAULT } else { op.status.into() };
    }
}

/// What the offsets of a window's records count from, in the caller's buffers.
#[derive(Clone, Copy)]
struct Origin {
    input: usize,
    output: usize,
    tag: usize,
    aad: *const u8,
}

impl Pointers {
    /// Fills `ops` with the operations from `first` on whose statuses these are, `most` of them or fewer.
    fn window(
        &self,
        layout: &ColumnLayout<'_>,
        statuses: &[ColumnStatus],
        (first, most): (usize, usize),
        ops: &mut Vec<Op>,
    ) -> Bases {
        let (inputs, outputs) = layout.extents();
        let (tag_base, tag) = match layout.tags_from(first) {
            TagPlace::None => (self.tags, 0),
            TagPlace::Input(at) => (self.input.cast_mut(), at),
            TagPlace::Output(at) => (self.output, at),
            TagPlace::Column(at) => (self.tags, at),
        };
        let aad = layout.aad(first).as_ptr();
        let origin = Origin { input: inputs.at(first).0, output: outputs.at(first).0, tag, aad };
        let shared_aad_len = layout.shared_aad().map_or(0, <[u8]>::len);
        let template = Op {
            tag_len: layout.tag_len() as u16,
            iv_len: layout.iv_len() as u8,
            aad: Aad::new(0, shared_aad_len as u16),
            ..Op::default()
        };
        ops.clear();
        ops.resize(statuses.len().min(most), template);
        let fill = Fill { pointers: self, layout, statuses, first, origin };
        let filled = with_rows!(layout, |rows| fill.fill(ops, rows));
        ops.truncate(filled);
        // SAFETY: checked: operations lie within their buffers, so the first one does.
        unsafe {
            Bases {
                input: self.input.add(origin.input),
                output: self.output.add(origin.output),
                tag: tag_base.add(origin.tag),
                aad,
            }
        }
    }
}

/// A window that is being filled.
struct Fill<'f> {
    pointers: &'f Pointers,
    layout: &'f ColumnLayout<'f>,
    statuses: &'f [ColumnStatus],
    first: usize,
    origin: Origin,
}

impl Fill<'_> {
    /// Writes what is an operation's own into records that have what is the same for all. `input` and `output` say where
    /// extents lie. Returns how many records there are: fewer when one lies too far away.
    #[inline(always)]
    fn fill(&self, ops: &mut [Op], rows: &impl Rows) -> usize {
        let (layout, origin) = (self.layout, self.origin);
        let own_aad = layout.shared_aad().is_none();
        for (at, op) in ops.iter_mut().enumerate() {
            let index = self.first + at;
            if !self.statuses[at].is_pending() {
                op.status = OpStatus::Done;
                continue;
            }
            let data = rows.data(index);
            let (input, output) = (data.input - origin.input, data.output - origin.output);
            let tag = match layout.tag(index, data) {
                TagPlace::None => origin.tag,
                TagPlace::Input(at) | TagPlace::Output(at) | TagPlace::Column(at) => at,
            };
            if input.max(output) > WINDOW_BYTES {
                return at;
            }
            op.input = Span::new(input as u32, data.len as u32);
            op.output = output as u32;
            op.tag = (tag - origin.tag) as u32;
            // SAFETY: checked: the IV lies within its buffer.
            unsafe { self.fill_iv(op, index, data) };
            if own_aad {
                let aad = layout.aad(index);
                let offset = aad.as_ptr().addr() - origin.aad.addr();
                if offset > WINDOW_BYTES {
                    return at;
                }
                op.aad = Aad::new(offset as u32, aad.len() as u16);
            }
        }
        ops.len()
    }

    /// # Safety
    /// The operation at `index` is pending, and its data are `data`.
    #[inline(always)]
    unsafe fn fill_iv(&self, op: &mut Op, index: usize, data: DataPlace) {
        let (layout, len) = (self.layout, usize::from(op.iv_len));
        if len == 0 {
            return;
        }
        // SAFETY: the caller's promise: an inline IV begins so far before the data.
        let from = unsafe {
            match layout.inline_iv() {
                Some(Direction::Encrypt) => self.pointers.output.add(data.output - layout.sealed_head()).cast_const(),
                Some(Direction::Decrypt) => self.pointers.input.add(data.input - layout.sealed_head()),
                None => match layout.iv(index) {
                    IvPlace::Column(bytes) => bytes.as_ptr(),
                    IvPlace::Value(iv) => return op.iv = iv,
                    // Not inline.
                    IvPlace::Input(_) | IvPlace::Output(_) => return,
                },
            }
        };
        let to = op.iv.as_mut_ptr();
        // Of a length that is known, a copy is a load and a store; of another, a call.
        // SAFETY: the IV's bytes; no suite has longer ones than a record has room for.
        unsafe {
            match len {
                12 => core::ptr::copy_nonoverlapping(from, to, 12),
                16 => core::ptr::copy_nonoverlapping(from, to, 16),
                _ => core::ptr::copy_nonoverlapping(from, to, len.min(IV_LEN_MAX)),
            }
        }
    }
}
