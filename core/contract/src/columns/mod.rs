//! Columnar batches: operations of one suite and direction whose data are columns, as tables, packet rings and devices hold
//! them. The other form of a batch is [`crate::Batch`], with a record an operation.
//!
//! # Layout
//!
//! A [`ColumnBatch`] has as many operations as statuses. [`Extents`] say where each operation's bytes lie in a buffer. What
//! is *sealed*, the output when encrypting and the input when decrypting, may hold IV and tag within its extent:
//!
//! ```text
//! [IV, if inline] [tag, if before] ciphertext [tag, if after]
//! ```
//!
//! What is in clear is the data alone. In place, the buffer's extents are the sealed ones both ways.
//!
//! # Rules
//!
//! [`ColumnBatch::check`] looks once at everything, and writes nothing:
//!
//! - every column has as many entries as there are operations; extents ascend and end within their buffer, so that no two
//!   operations touch each other;
//! - extents of input and output differ by exactly what is inline;
//! - lengths of data, IVs, tags and additional data are those that the suite takes;
//! - operations whose status is not [`ColumnStatus::PENDING`] are left out, as nulls of a table are: their extents have to
//!   ascend like the others', and may have any length.
//!
//! Columns are for suites whose output is as long as their input, digests and MACs ([`Suite::takes_columns`]).

mod as_ops;
mod check;
mod extents;
mod status;

use core::fmt;

pub use self::as_ops::{CHUNK_BYTES, CHUNK_OPS};
pub use self::extents::Extents;
pub use self::status::ColumnStatus;
use crate::error::{Error, Result};
use crate::key::{KeyId, PreparedKey};
use crate::limits::IV_LEN_MAX;
use crate::status::Reason;
use crate::suite::{Chain, ChainOrder, Direction, Suite};

impl Suite {
    /// Whether columns can be run: the output is as long as the input, or there is none but a tag or digest.
    pub const fn takes_columns(self) -> bool {
        match self {
            Suite::Cipher(..) | Suite::Stream(_) | Suite::Aead(_) | Suite::Fpe(_) => true,
            Suite::Digest(_) | Suite::Mac(_) => true,
            Suite::Chain(Chain { order, .. }) => matches!(order, ChainOrder::EncryptThenMac),
            _ => false,
        }
    }
}

/// The keys of a columnar batch.
#[derive(Clone, Copy, Debug, Default)]
pub enum KeyColumn<'a> {
    /// None: digests.
    #[default]
    None,
    /// One for all operations.
    One(KeyId),
    /// One an operation.
    Each(&'a [KeyId]),
}

/// The IVs, nonces, tweaks or counter blocks of a columnar batch.
#[derive(Clone, Copy, Debug, Default)]
pub enum IvColumn<'a> {
    /// None.
    #[default]
    None,
    /// Of `len` bytes each, one behind the other.
    Each {
        /// As many times `len` bytes as there are operations.
        bytes: &'a [u8],
        /// Bytes of each.
        len: usize,
    },
    /// Operation `i` has this one with `i` added to its last four bytes, big-endian. It must not wrap within the batch.
    Counter(&'a [u8]),
    /// At the start of each sealed extent, `len` bytes. Who encrypts has put them there.
    Inline {
        /// Bytes of each.
        len: usize,
    },
    /// As [`IvColumn::Inline`]; when encrypting, the mill puts random ones there. No other than a mill takes these.
    Drawn {
        /// Bytes of each.
        len: usize,
    },
}

/// The additional data of a columnar batch, or the tweaks of FF1.
#[derive(Clone, Copy, Default)]
pub enum AadColumn<'a> {
    /// None.
    #[default]
    None,
    /// The same for all operations.
    One(&'a [u8]),
    /// Each operation's own.
    Each {
        /// What they lie in.
        bytes: &'a [u8],
        /// Where each lies.
        extents: Extents<'a>,
    },
}

/// The tags, digests or MACs of a columnar batch.
#[derive(Default)]
pub enum TagColumn<'a> {
    /// None.
    #[default]
    None,
    /// Within each sealed extent, directly before the ciphertext.
    Before {
        /// Bytes of each.
        len: usize,
    },
    /// Within each sealed extent, directly behind the ciphertext.
    After {
        /// Bytes of each.
        len: usize,
    },
    /// In a column of their own, which is written: when encrypting.
    Written {
        /// As many times `len` bytes as there are operations.
        bytes: &'a mut [u8],
        /// Bytes of each.
        len: usize,
    },
    /// In a column of their own, which the operations' tags are compared with: when decrypting.
    Expected {
        /// As many times `len` bytes as there are operations.
        bytes: &'a [u8],
        /// Bytes of each.
        len: usize,
    },
}

/// The buffers of a columnar batch.
pub enum ColumnData<'a> {
    /// Input and output in buffers of their own.
    Separate {
        /// What is read.
        input: &'a [u8],
        /// Where each operation reads.
        inputs: Extents<'a>,
        /// What is written.
        output: &'a mut [u8],
        /// Where each operation writes.
        outputs: Extents<'a>,
    },
    /// Output in the place of the input, both ways in extents that have room for what is inline.
    InPlace {
        /// What is read and written.
        data: &'a mut [u8],
        /// Where each operation works.
        extents: Extents<'a>,
    },
    /// Input only: digests and MACs.
    Input {
        /// What is read.
        input: &'a [u8],
        /// Where each operation reads.
        inputs: Extents<'a>,
    },
}

/// Operations of one suite and direction with their data as columns; see the module's head.
pub struct ColumnBatch<'a> {
    suite: Suite,
    direction: Direction,
    data: ColumnData<'a>,
    statuses: &'a mut [ColumnStatus],
    keys: KeyColumn<'a>,
    ivs: IvColumn<'a>,
    aad: AadColumn<'a>,
    tags: TagColumn<'a>,
}

impl<'a> ColumnBatch<'a> {
    /// A batch of as many operations as `statuses`, with neither keys, IVs, additional data nor tags yet. Nothing is looked
    /// at.
    pub fn new(
        suite: Suite,
        direction: Direction,
        data: ColumnData<'a>,
        statuses: &'a mut [ColumnStatus],
    ) -> ColumnBatch<'a> {
        let (keys, ivs, aad, tags) = Default::default();
        ColumnBatch { suite, direction, data, statuses, keys, ivs, aad, tags }
    }

    /// Sets one key for all operations.
    #[must_use]
    pub fn with_key(self, key: KeyId) -> ColumnBatch<'a> {
        ColumnBatch { keys: KeyColumn::One(key), ..self }
    }

    /// Sets the keys.
    #[must_use]
    pub fn with_keys(self, keys: KeyColumn<'a>) -> ColumnBatch<'a> {
        ColumnBatch { keys, ..self }
    }

    /// Sets the IVs.
    #[must_use]
    pub fn with_ivs(self, ivs: IvColumn<'a>) -> ColumnBatch<'a> {
        ColumnBatch { ivs, ..self }
    }

    /// Sets the additional data.
    #[must_use]
    pub fn with_aad(self, aad: AadColumn<'a>) -> ColumnBatch<'a> {
        ColumnBatch { aad, ..self }
    }

    /// Sets the tags.
    #[must_use]
    pub fn with_tags(self, tags: TagColumn<'a>) -> ColumnBatch<'a> {
        ColumnBatch { tags, ..self }
    }

    /// What is done to every operation.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Which way.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.statuses.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.statuses.is_empty()
    }
}

impl fmt::Debug for ColumnBatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnBatch({}, {:?}, {} operations)", self.suite, self.direction, self.len())
    }
}

/// Where the parts of operations lie, as checked. Offsets of input and output count from the start of their buffers; in
/// place both are the same buffer.
#[derive(Clone, Copy)]
pub struct ColumnLayout<'a> {
    inputs: Extents<'a>,
    outputs: Extents<'a>,
    /// What lies before the data in an input's extent, and before and behind it.
    input_head: usize,
    input_more: usize,
    output_head: usize,
    ivs: IvColumn<'a>,
    aad: AadColumn<'a>,
    tag: TagSide,
    tag_len: usize,
    direction: Direction,
}

/// Where tags lie, without the buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TagSide {
    None,
    Before,
    After,
    Column,
}

/// The data of one operation: bytes in clear or ciphertext, without IV and tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataPlace {
    /// First byte in the input.
    pub input: usize,
    /// First byte in the output.
    pub output: usize,
    /// Bytes of both.
    pub len: usize,
}

/// The tag of one operation: an offset in one of three buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagPlace {
    /// There is none.
    None,
    /// In the input: to be verified.
    Input(usize),
    /// In the output: to be written.
    Output(usize),
    /// In the tags' own column.
    Column(usize),
}

/// The IV of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IvPlace {
    /// Its bytes; of more than the layout's IV length the rest is zero.
    Value([u8; IV_LEN_MAX]),
    /// At this offset of the input.
    Input(usize),
    /// At this offset of the output.
    Output(usize),
}

impl<'a> ColumnLayout<'a> {
    /// The data of the operation at `index`, which is pending.
    #[inline(always)]
    pub fn data(&self, index: usize) -> DataPlace {
        let (start, end) = self.inputs.at(index);
        DataPlace {
            input: start + self.input_head,
            output: self.outputs.at(index).0 + self.output_head,
            len: end - start - self.input_more,
        }
    }

    /// The tag of the operation at `index`, whose data are `data`.
    #[inline(always)]
    pub fn tag(&self, index: usize, data: DataPlace) -> TagPlace {
        let sealed = |offset| match self.direction {
            Direction::Encrypt => TagPlace::Output(offset),
            Direction::Decrypt => TagPlace::Input(offset),
        };
        let at = if self.direction == Direction::Encrypt { data.output } else { data.input };
        match self.tag {
            TagSide::None => TagPlace::None,
            TagSide::Before => sealed(at - self.tag_len),
            TagSide::After => sealed(at + data.len),
            TagSide::Column => TagPlace::Column(index * self.tag_len),
        }
    }

    /// Bytes of each tag.
    #[inline]
    pub fn tag_len(&self) -> usize {
        self.tag_len
    }

    /// The IV of the operation at `index`.
    #[inline(always)]
    pub fn iv(&self, index: usize) -> IvPlace {
        let mut value = [0; IV_LEN_MAX];
        match self.ivs {
            IvColumn::None => {}
            IvColumn::Each { bytes, len } => value[..len].copy_from_slice(&bytes[index * len..][..len]),
            IvColumn::Counter(first) => {
                let (head, counter) = first.split_at(first.len() - 4);
                value[..head.len()].copy_from_slice(head);
                // Checked: it does not wrap.
                let number = counter.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
                let number = number.wrapping_add(index as u32);
                value[head.len()..first.len()].copy_from_slice(&number.to_be_bytes());
            }
            IvColumn::Inline { .. } | IvColumn::Drawn { .. } => match self.direction {
                Direction::Encrypt => return IvPlace::Output(self.outputs.at(index).0),
                Direction::Decrypt => return IvPlace::Input(self.inputs.at(index).0),
            },
        }
        IvPlace::Value(value)
    }

    /// Bytes of each IV.
    #[inline]
    pub fn iv_len(&self) -> usize {
        match self.ivs {
            IvColumn::None => 0,
            IvColumn::Each { len, .. } | IvColumn::Inline { len } | IvColumn::Drawn { len } => len,
            IvColumn::Counter(first) => first.len(),
        }
    }

    /// The additional data of the operation at `index`.
    #[inline(always)]
    pub fn aad(&self, index: usize) -> &'a [u8] {
        match self.aad {
            AadColumn::None => &[],
            AadColumn::One(bytes) => bytes,
            AadColumn::Each { bytes, extents } => {
                let (start, end) = extents.at(index);
                &bytes[start..end]
            }
        }
    }

    /// The additional data that all operations share; `None` when each has its own.
    #[inline]
    pub fn shared_aad(&self) -> Option<&'a [u8]> {
        match self.aad {
            AadColumn::None => Some(&[]),
            AadColumn::One(bytes) => Some(bytes),
            AadColumn::Each { .. } => None,
        }
    }

    /// Where the extents of input and output of all operations lie.
    #[inline]
    pub fn extents(&self) -> (Extents<'a>, Extents<'a>) {
        (self.inputs, self.outputs)
    }
}

/// A columnar batch that keeps every rule, with the prepared keys of its operations.
pub struct CheckedColumns<'a> {
    suite: Suite,
    direction: Direction,
    buffers: ColumnBuffers<'a>,
    statuses: &'a mut [ColumnStatus],
    keys: KeyColumn<'a>,
    prepared: PreparedColumn<'a>,
    layout: ColumnLayout<'a>,
    pending: usize,
    input_bytes: u64,
}

/// The buffers of checked columns.
pub struct ColumnBuffers<'a> {
    /// Input and output, or what is both.
    pub data: DataBuffers<'a>,
    /// The tags' own column, if they have one.
    pub tags: TagBuffer<'a>,
}

/// Input and output of checked columns.
pub enum DataBuffers<'a> {
    /// Buffers of their own.
    Separate(&'a [u8], &'a mut [u8]),
    /// One for both.
    InPlace(&'a mut [u8]),
    /// Input only.
    Input(&'a [u8]),
}

/// The column of tags.
pub enum TagBuffer<'a> {
    /// There is none.
    None,
    /// Tags are written there.
    Written(&'a mut [u8]),
    /// Tags are compared with what is there.
    Expected(&'a [u8]),
}

/// The prepared keys of checked columns.
#[derive(Clone, Copy, Debug, Default)]
pub enum PreparedColumn<'a> {
    /// None: digests.
    #[default]
    None,
    /// One for all operations.
    One(&'a PreparedKey),
    /// One an operation.
    Each(&'a [Option<&'a PreparedKey>]),
}

impl<'a> PreparedColumn<'a> {
    /// The key of the operation at `index`.
    #[inline]
    pub fn at(&self, index: usize) -> Option<&'a PreparedKey> {
        match self {
            PreparedColumn::None => None,
            PreparedColumn::One(key) => Some(key),
            PreparedColumn::Each(keys) => keys.get(index).copied().flatten(),
        }
    }
}

impl fmt::Debug for CheckedColumns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CheckedColumns({}, {:?}, {} operations)", self.suite, self.direction, self.len())
    }
}

impl<'a> CheckedColumns<'a> {
    /// What is done to every operation.
    #[inline]
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Which way.
    #[inline]
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// How many operations there are, pending or not.
    #[inline]
    pub fn len(&self) -> usize {
        self.statuses.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.statuses.is_empty()
    }

    /// How many operations were pending when the batch was checked.
    #[inline]
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Bytes of input of all pending operations together, without IVs and tags.
    #[inline]
    pub fn input_bytes(&self) -> u64 {
        self.input_bytes
    }

    /// The names of the keys.
    #[inline]
    pub fn keys(&self) -> KeyColumn<'a> {
        self.keys
    }

    /// The keys, prepared by the engine that runs the batch.
    #[inline]
    pub fn prepared(&self) -> PreparedColumn<'a> {
        self.prepared
    }

    /// Where operations lie.
    #[inline]
    pub fn layout(&self) -> ColumnLayout<'a> {
        self.layout
    }

    /// What has become of each operation.
    #[inline]
    pub fn statuses(&self) -> &[ColumnStatus] {
        self.statuses
    }

    /// Sets the status of an operation.
    #[inline]
    pub fn set_status(&mut self, index: usize, status: ColumnStatus) {
        self.statuses[index] = status;
    }

    /// The buffers, and the statuses to be written, for engines with kernels of their own. Such an engine touches pending
    /// operations only, gives each a status, and zeroes the output of a failed open.
    #[inline]
    pub fn parts(&mut self) -> (&mut ColumnBuffers<'a>, &mut [ColumnStatus]) {
        (&mut self.buffers, self.statuses)
    }

    /// The batch with these keys attached.
    ///
    /// # Errors
    /// `Misuse` when there are not as many keys as operations.
    pub fn attach_keys<'b>(&'b mut self, keys: PreparedColumn<'b>) -> Result<CheckedColumns<'b>> {
        if let PreparedColumn::Each(keys) = keys
            && keys.len() != self.len()
        {
            return Err(Error::misuse(keys.len().min(self.len()), Reason::KeyMissing));
        }
        let data = match &mut self.buffers.data {
            DataBuffers::Separate(input, output) => DataBuffers::Separate(input, output),
            DataBuffers::InPlace(data) => DataBuffers::InPlace(data),
            DataBuffers::Input(input) => DataBuffers::Input(input),
        };
        let tags = match &mut self.buffers.tags {
            TagBuffer::None => TagBuffer::None,
            TagBuffer::Written(bytes) => TagBuffer::Written(bytes),
            TagBuffer::Expected(bytes) => TagBuffer::Expected(bytes),
        };
        Ok(CheckedColumns {
            suite: self.suite,
            direction: self.direction,
            buffers: ColumnBuffers { data, tags },
            statuses: self.statuses,
            keys: self.keys,
            prepared: keys,
            layout: self.layout,
            pending: self.pending,
            input_bytes: self.input_bytes,
        })
    }
}
