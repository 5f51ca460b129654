//! Columns that keep every rule: what engines get.

use core::fmt;

use super::form::KeyColumn;
use super::layout::ColumnLayout;
use super::status::ColumnStatus;
use crate::error::{Error, Result};
use crate::key::PreparedKey;
use crate::status::Reason;
use crate::suite::{Direction, Suite};

/// A columnar batch that keeps every rule, with the prepared keys of its operations.
pub struct CheckedColumns<'a> {
    pub(super) suite: Suite,
    pub(super) direction: Direction,
    pub(super) buffers: ColumnBuffers<'a>,
    pub(super) statuses: &'a mut [ColumnStatus],
    pub(super) keys: KeyColumn<'a>,
    pub(super) prepared: PreparedColumn<'a>,
    pub(super) layout: ColumnLayout<'a>,
    pub(super) pending: usize,
    pub(super) input_bytes: u64,
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

    /// How many operations ended well.
    pub fn done(&self) -> usize {
        self.statuses.iter().map(|status| usize::from(status.is_done())).sum()
    }

    /// The longest extent of an input, in bytes: no pending operation has more. A pass over the offsets.
    pub fn longest_input(&self) -> usize {
        self.layout.inputs.longest()
    }

    /// Whether inputs are still there when outputs have been written.
    pub fn keeps_inputs(&self) -> bool {
        !matches!(self.buffers.data, DataBuffers::InPlace(_))
    }

    /// Operations whose status satisfies `wanted`, set to `status`, but for those that are left out, which nobody has checked
    /// and which stay so. Returns how many there were.
    pub fn replace_status(&mut self, wanted: impl Fn(ColumnStatus) -> bool, status: ColumnStatus) -> usize {
        let mut count = 0;
        for own in self.statuses.iter_mut().filter(|own| **own != ColumnStatus::LEFT_OUT && wanted(**own)) {
            *own = status;
            count += 1;
        }
        count
    }

    /// Sets the status of an operation that is not left out.
    #[inline]
    pub fn set_status(&mut self, index: usize, status: ColumnStatus) {
        let own = &mut self.statuses[index];
        if *own != ColumnStatus::LEFT_OUT {
            *own = status;
        }
    }

    /// The buffers of data.
    #[inline]
    pub fn data(&self) -> &DataBuffers<'a> {
        &self.buffers.data
    }

    /// The column of tags that are compared with the operations' own; `None` when there is none.
    #[inline]
    pub fn expected_tags(&self) -> Option<&[u8]> {
        match &self.buffers.tags {
            TagBuffer::Expected(tags) => Some(tags),
            TagBuffer::None | TagBuffer::Written(_) => None,
        }
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
