//! Columns: the form of a batch for data that lie in columns already.

use std::ptr::{null, null_mut};

use ciphermill::contract::columns::{AadColumn, ColumnData, ColumnStatus, Extents, IvColumn, KeyColumn, TagColumn};
use ciphermill::contract::{ColumnBatch, Direction, KeyId};

use crate::entry::entry;
use crate::failure::{Failure, ciphermill_status};
use crate::foreign::{self, Plain, Stretches, Versioned};
use crate::handle;
use crate::keys::ciphermill_key;
use crate::mill::ciphermill_mill;
use crate::run::{ReportPlace, ciphermill_report, ciphermill_run_options, options};
use crate::suite::{self, ciphermill_direction, ciphermill_suite};

/// Extents by 32-bit offsets: operation i has the bytes from `offsets[i]` to `offsets[i + 1]`. One more offset than operations.
pub const CIPHERMILL_EXTENTS_OFFSETS_32: u32 = 0;
/// The same by 64-bit offsets.
pub const CIPHERMILL_EXTENTS_OFFSETS_64: u32 = 1;
/// Extents by stride: operation i has `len` bytes from i * stride on.
pub const CIPHERMILL_EXTENTS_STRIDED: u32 = 2;

/// Input and output in buffers of their own.
pub const CIPHERMILL_DATA_SEPARATE: u32 = 0;
/// Output in the place of the input: `output` and `outputs` are both.
pub const CIPHERMILL_DATA_IN_PLACE: u32 = 1;
/// Input only: digests and MACs.
pub const CIPHERMILL_DATA_INPUT: u32 = 2;

/// No IVs.
pub const CIPHERMILL_IVS_NONE: u32 = 0;
/// `iv_len` bytes for each operation at `ivs`, one behind the other.
pub const CIPHERMILL_IVS_EACH: u32 = 1;
/// Operation i has the `iv_len` bytes at `ivs` with i added to the last four of them, big-endian.
pub const CIPHERMILL_IVS_COUNTER: u32 = 2;
/// At the start of each sealed extent; who encrypts has put them there.
pub const CIPHERMILL_IVS_INLINE: u32 = 3;
/// As CIPHERMILL_IVS_INLINE; when encrypting, the mill puts random ones there.
pub const CIPHERMILL_IVS_DRAWN: u32 = 4;

/// No additional data.
pub const CIPHERMILL_AAD_NONE: u32 = 0;
/// The `aad_len` bytes at `aad` for all operations.
pub const CIPHERMILL_AAD_ONE: u32 = 1;
/// Each operation's own, where `aads` says within the `aad_len` bytes at `aad`.
pub const CIPHERMILL_AAD_EACH: u32 = 2;

/// No tags.
pub const CIPHERMILL_TAGS_NONE: u32 = 0;
/// Within each sealed extent, directly before the ciphertext.
pub const CIPHERMILL_TAGS_BEFORE: u32 = 1;
/// Within each sealed extent, directly behind the ciphertext.
pub const CIPHERMILL_TAGS_AFTER: u32 = 2;
/// `tag_len` bytes for each operation at `tags`, one behind the other: written when encrypting, compared when decrypting.
pub const CIPHERMILL_TAGS_COLUMN: u32 = 3;

/// Status of a value: not yet processed; the only one in which it is touched.
pub const CIPHERMILL_COLUMN_PENDING: u8 = 0;
/// Status of a value: processed; output and tag are valid.
pub const CIPHERMILL_COLUMN_DONE: u8 = 1;
/// Status of a value: the tag did not verify. The output has been zeroed.
pub const CIPHERMILL_COLUMN_AUTH_FAILED: u8 = 2;
/// Status of a value: the engine failed at it.
pub const CIPHERMILL_COLUMN_ENGINE_FAULT: u8 = 5;
/// With a reason in the low six bits: the data break a rule that only an engine can see.
pub const CIPHERMILL_COLUMN_BAD_INPUT: u8 = 64;
/// With a reason in the low six bits: a policy or the key table refused it.
pub const CIPHERMILL_COLUMN_REFUSED: u8 = 128;
/// Status of a value, set by the caller: there is none, as for the null of a table.
pub const CIPHERMILL_COLUMN_LEFT_OUT: u8 = 255;

const _: () = {
    assert!(CIPHERMILL_COLUMN_PENDING == ColumnStatus::PENDING.byte());
    assert!(CIPHERMILL_COLUMN_DONE == ColumnStatus::DONE.byte());
    assert!(CIPHERMILL_COLUMN_AUTH_FAILED == ColumnStatus::AUTH_FAILED.byte());
    assert!(CIPHERMILL_COLUMN_ENGINE_FAULT == ColumnStatus::ENGINE_FAULT.byte());
    assert!(CIPHERMILL_COLUMN_LEFT_OUT == ColumnStatus::LEFT_OUT.byte());
    assert!(size_of::<ColumnStatus>() == 1);
};

/// Where each operation's bytes lie in a buffer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ciphermill_extents {
    /// CIPHERMILL_EXTENTS_OFFSETS_32, _OFFSETS_64 or _STRIDED.
    pub kind: u32,
    /// Zero.
    pub reserved: u32,
    /// One more offset than operations, ascending: int32_t or int64_t. NULL when strided.
    pub offsets: *const std::ffi::c_void,
    /// When strided, the bytes of each operation.
    pub len: usize,
    /// When strided, from the start of one to that of the next.
    pub stride: usize,
}

const NO_EXTENTS: ciphermill_extents =
    ciphermill_extents { kind: CIPHERMILL_EXTENTS_STRIDED, reserved: 0, offsets: null(), len: 0, stride: 0 };

/// A batch as columns. Set `struct_len` to the size of the structure, and what is not needed to zero.
///
/// What is sealed, the output when encrypting and the input when decrypting, may hold IV and tag within its extents: IV, tag
/// before, ciphertext, tag after. What is in clear is the data alone. In place, the extents are the sealed ones both ways.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ciphermill_columns {
    /// sizeof(ciphermill_columns).
    pub struct_len: usize,
    /// What is done to every operation.
    pub suite: ciphermill_suite,
    /// CIPHERMILL_ENCRYPT or CIPHERMILL_DECRYPT.
    pub direction: ciphermill_direction,
    /// CIPHERMILL_DATA_SEPARATE, _IN_PLACE or _INPUT.
    pub data: u32,
    /// A byte for each operation: CIPHERMILL_COLUMN_PENDING or _LEFT_OUT when the batch is run.
    pub statuses: *mut u8,
    /// How many operations there are.
    pub count: usize,
    /// What is read; NULL in place.
    pub input: *const u8,
    /// Its bytes.
    pub input_len: usize,
    /// Where each operation reads.
    pub inputs: ciphermill_extents,
    /// What is written; NULL for digests and MACs.
    pub output: *mut u8,
    /// Its bytes.
    pub output_len: usize,
    /// Where each operation writes.
    pub outputs: ciphermill_extents,
    /// The keys; NULL for digests.
    pub keys: *const ciphermill_key,
    /// One for all operations, or as many as there are operations.
    pub keys_len: usize,
    /// CIPHERMILL_IVS_NONE, _EACH, _COUNTER, _INLINE or _DRAWN.
    pub iv_kind: u32,
    /// CIPHERMILL_AAD_NONE, _ONE or _EACH.
    pub aad_kind: u32,
    /// The IVs, or the first.
    pub ivs: *const u8,
    /// Bytes of each.
    pub iv_len: usize,
    /// Additional data, or FF1's tweaks.
    pub aad: *const u8,
    /// Bytes of all.
    pub aad_len: usize,
    /// Where each operation's own lie.
    pub aads: ciphermill_extents,
    /// The tags in a column of their own.
    pub tags: *mut u8,
    /// Bytes of each.
    pub tag_len: usize,
    /// CIPHERMILL_TAGS_NONE, _BEFORE, _AFTER or _COLUMN.
    pub tag_kind: u32,
    /// Zero.
    pub reserved: u32,
}

impl Default for ciphermill_columns {
    fn default() -> Self {
        Self {
            struct_len: size_of::<Self>(),
            suite: 0,
            direction: 0,
            data: 0,
            statuses: null_mut(),
            count: 0,
            input: null(),
            input_len: 0,
            inputs: NO_EXTENTS,
            output: null_mut(),
            output_len: 0,
            outputs: NO_EXTENTS,
            keys: null(),
            keys_len: 0,
            iv_kind: 0,
            aad_kind: 0,
            ivs: null(),
            iv_len: 0,
            aad: null(),
            aad_len: 0,
            aads: NO_EXTENTS,
            tags: null_mut(),
            tag_len: 0,
            tag_kind: 0,
            reserved: 0,
        }
    }
}

// SAFETY: integers and pointers, which are checked before they are followed.
unsafe impl Plain for ciphermill_columns {}
// SAFETY: its first field is its length.
unsafe impl Versioned for ciphermill_columns {}

/// Whether a buffer of one kind is of use, and what it is called.
fn unknown(what: &str, kind: u32) -> Failure {
    Failure::misuse(format!("{what}: there is no kind {kind}"))
}

fn product(count: usize, len: usize, what: &str) -> Result<usize, Failure> {
    count.checked_mul(len).ok_or_else(|| Failure::misuse(format!("{what}: {count} of {len} bytes are too many")))
}

impl ciphermill_columns {
    /// What every buffer is as memory: those that are written overlap no other.
    fn check_apart(&self, direction: Direction) -> Result<(), Failure> {
        let mut apart = Stretches::<12>::new();
        apart.add(self.statuses.cast_const(), self.count, true, "statuses")?;
        if self.data != CIPHERMILL_DATA_INPUT {
            apart.add(self.output.cast_const(), self.output_len, true, "output")?;
        }
        if self.tag_kind == CIPHERMILL_TAGS_COLUMN {
            let len = product(self.count, self.tag_len, "tags")?;
            apart.add(self.tags.cast_const(), len, direction == Direction::Encrypt, "tags")?;
        }
        if self.data != CIPHERMILL_DATA_IN_PLACE {
            apart.add(self.input, self.input_len, false, "input")?;
        }
        if self.aad_kind != CIPHERMILL_AAD_NONE {
            apart.add(self.aad, self.aad_len, false, "aad")?;
        }
        let ivs_len = match self.iv_kind {
            CIPHERMILL_IVS_EACH => product(self.count, self.iv_len, "ivs")?,
            CIPHERMILL_IVS_COUNTER => self.iv_len,
            _ => 0,
        };
        apart.add(self.ivs, ivs_len, false, "ivs")?;
        apart.add(self.keys, self.keys_len, false, "keys")?;
        for (extents, what) in [
            (&self.inputs, "the inputs' offsets"),
            (&self.outputs, "the outputs' offsets"),
            (&self.aads, "the offsets of additional data"),
        ] {
            let width = match extents.kind {
                _ if extents.offsets.is_null() => 0,
                CIPHERMILL_EXTENTS_OFFSETS_32 => 4,
                CIPHERMILL_EXTENTS_OFFSETS_64 => 8,
                _ => 0,
            };
            let len = product(self.count.saturating_add(1), width, what)?;
            apart.add(extents.offsets.cast::<u8>(), len, false, what)?;
        }
        Ok(())
    }

    /// # Safety
    /// As [`ciphermill_columns::batch`].
    unsafe fn extents<'a>(&self, of: &ciphermill_extents, what: &'static str) -> Result<Extents<'a>, Failure> {
        let count = self.count.checked_add(1).ok_or_else(|| Failure::misuse("too many operations"))?;
        match of.kind {
            CIPHERMILL_EXTENTS_OFFSETS_32 => {
                // SAFETY: by the caller.
                Ok(Extents::Offsets(unsafe { foreign::slice(of.offsets.cast::<i32>(), count, what) }?))
            }
            CIPHERMILL_EXTENTS_OFFSETS_64 => {
                // SAFETY: by the caller.
                Ok(Extents::LargeOffsets(unsafe { foreign::slice(of.offsets.cast::<i64>(), count, what) }?))
            }
            CIPHERMILL_EXTENTS_STRIDED => Ok(Extents::Strided { len: of.len, stride: of.stride }),
            kind => Err(unknown(what, kind)),
        }
    }

    /// # Safety
    /// As [`ciphermill_columns::batch`].
    unsafe fn data<'a>(&self) -> Result<ColumnData<'a>, Failure> {
        // SAFETY: by the caller.
        let input = || unsafe { foreign::slice(self.input, self.input_len, "input") };
        // SAFETY: by the caller.
        let output = || unsafe { foreign::slice_mut(self.output, self.output_len, "output") };
        // SAFETY: by the caller.
        let inputs = || unsafe { self.extents(&self.inputs, "the inputs' extents") };
        // SAFETY: by the caller.
        let outputs = || unsafe { self.extents(&self.outputs, "the outputs' extents") };
        Ok(match self.data {
            CIPHERMILL_DATA_SEPARATE => {
                ColumnData::Separate { input: input()?, inputs: inputs()?, output: output()?, outputs: outputs()? }
            }
            CIPHERMILL_DATA_IN_PLACE => ColumnData::InPlace { data: output()?, extents: outputs()? },
            CIPHERMILL_DATA_INPUT => ColumnData::Input { input: input()?, inputs: inputs()? },
            kind => return Err(unknown("data", kind)),
        })
    }

    /// # Safety
    /// As [`ciphermill_columns::batch`].
    unsafe fn ivs<'a>(&self) -> Result<IvColumn<'a>, Failure> {
        let len = self.iv_len;
        // SAFETY: by the caller.
        let bytes = |count| unsafe { foreign::slice(self.ivs, product(count, len, "ivs")?, "ivs") };
        Ok(match self.iv_kind {
            CIPHERMILL_IVS_NONE => IvColumn::None,
            CIPHERMILL_IVS_EACH => IvColumn::Each { bytes: bytes(self.count)?, len },
            CIPHERMILL_IVS_COUNTER => IvColumn::Counter(bytes(1)?),
            CIPHERMILL_IVS_INLINE => IvColumn::Inline { len },
            CIPHERMILL_IVS_DRAWN => IvColumn::Drawn { len },
            kind => return Err(unknown("ivs", kind)),
        })
    }

    /// # Safety
    /// As [`ciphermill_columns::batch`].
    unsafe fn aad<'a>(&self) -> Result<AadColumn<'a>, Failure> {
        // SAFETY: by the caller.
        let bytes = || unsafe { foreign::slice(self.aad, self.aad_len, "aad") };
        Ok(match self.aad_kind {
            CIPHERMILL_AAD_NONE => AadColumn::None,
            CIPHERMILL_AAD_ONE => AadColumn::One(bytes()?),
            CIPHERMILL_AAD_EACH => AadColumn::Each {
                bytes: bytes()?,
                // SAFETY: by the caller.
                extents: unsafe { self.extents(&self.aads, "the extents of additional data") }?,
            },
            kind => return Err(unknown("aad", kind)),
        })
    }

    /// # Safety
    /// As [`ciphermill_columns::batch`].
    unsafe fn tags<'a>(&self, direction: Direction) -> Result<TagColumn<'a>, Failure> {
        let len = self.tag_len;
        let all = || product(self.count, len, "tags");
        Ok(match (self.tag_kind, direction) {
            (CIPHERMILL_TAGS_NONE, _) => TagColumn::None,
            (CIPHERMILL_TAGS_BEFORE, _) => TagColumn::Before { len },
            (CIPHERMILL_TAGS_AFTER, _) => TagColumn::After { len },
            (CIPHERMILL_TAGS_COLUMN, Direction::Encrypt) => {
                // SAFETY: by the caller.
                TagColumn::Written { bytes: unsafe { foreign::slice_mut(self.tags, all()?, "tags") }?, len }
            }
            (CIPHERMILL_TAGS_COLUMN, Direction::Decrypt) => {
                // SAFETY: by the caller.
                TagColumn::Expected { bytes: unsafe { foreign::slice(self.tags.cast_const(), all()?, "tags") }?, len }
            }
            (kind, _) => return Err(unknown("tags", kind)),
        })
    }

    /// The contract's batch.
    ///
    /// # Safety
    /// The buffers are the caller's to be read and written, as `check_apart` has them, and nobody else touches them while the
    /// result is in use.
    unsafe fn batch<'a>(&self) -> Result<ColumnBatch<'a>, Failure> {
        let (suite, direction) = (suite::of_number(self.suite)?, suite::direction(self.direction)?);
        self.check_apart(direction)?;
        // SAFETY: by the caller. Every byte is a status of columns.
        let statuses = unsafe { foreign::slice_mut(self.statuses.cast::<ColumnStatus>(), self.count, "statuses") }?;
        // SAFETY: by the caller; keys have the same layout, as asserted beside theirs.
        let keys = unsafe { foreign::slice(self.keys.cast::<KeyId>(), self.keys_len, "keys") }?;
        let keys = match keys {
            [] => KeyColumn::None,
            [one] => KeyColumn::One(*one),
            each => KeyColumn::Each(each),
        };
        // SAFETY: by the caller.
        let (data, ivs, aad, tags) = unsafe { (self.data()?, self.ivs()?, self.aad()?, self.tags(direction)?) };
        let batch = ColumnBatch::new(suite, direction, data, statuses);
        Ok(batch.with_keys(keys).with_ivs(ivs).with_aad(aad).with_tags(tags))
    }
}

/// Runs columns on the calling thread, large ones on the mill's threads as well, where they are predicted to be done first. On
/// return every value that was pending has a status. Ciphers, AEADs, format-preserving encryption, digests and MACs run as columns.
///
/// `report` may be NULL if nobody wants it, `options` for what is usual.
///
/// # Errors
/// As ciphermill_run; CIPHERMILL_REFUSED for suites that do not run as columns.
///
/// # Threads
/// Any. Nobody else writes to any of the buffers meanwhile, or reads what is written.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_run_columns(
    mill: *const ciphermill_mill,
    report: *mut ciphermill_report,
    columns: *const ciphermill_columns,
    options: *const ciphermill_run_options,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mill = unsafe { handle::shared(mill) }?;
        let place = ReportPlace::new(report)?;
        foreign::place(columns.cast_mut(), "columns")?;
        // SAFETY: the caller's to be read.
        let (columns, options) = unsafe { (foreign::versioned(columns, "columns")?, self::options(options)?) };
        // SAFETY: the caller's to be read and written.
        let batch = unsafe { columns.batch() }?;
        let report = mill.run_columns_with(batch, &options)?;
        // SAFETY: the caller's to be written.
        unsafe { place.put(&report) };
        Ok(())
    })
}
