//! What a caller says: columns of keys, IVs, additional data and tags, and the buffers.

use core::fmt;

use super::extents::Extents;
use super::status::ColumnStatus;
use crate::key::KeyId;
use crate::limits::IV_LEN_MAX;
use crate::suite::{Direction, Suite};

impl Suite {
    /// Whether columns can be run: the output is as long as the input, or there is none but a tag or digest; and operations have room for
    /// every IV.
    pub const fn takes_columns(self) -> bool {
        self.iv_len().max <= IV_LEN_MAX && (self.keeps_len() || matches!(self, Suite::Digest(_) | Suite::Mac(_)))
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
    pub(super) suite: Suite,
    pub(super) direction: Direction,
    pub(super) data: ColumnData<'a>,
    pub(super) statuses: &'a mut [ColumnStatus],
    pub(super) keys: KeyColumn<'a>,
    pub(super) ivs: IvColumn<'a>,
    pub(super) aad: AadColumn<'a>,
    pub(super) tags: TagColumn<'a>,
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
