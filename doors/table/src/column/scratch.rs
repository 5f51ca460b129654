//! Values of a column that wait for the mill.

use ciphermill_contract::columns::{ColumnStatus, Extents};

use crate::distinct::Outputs;

/// Byte strings one behind the other, with the offsets that a columnar batch wants.
#[derive(Default)]
pub(super) struct Strings {
    pub(super) bytes: Vec<u8>,
    pub(super) offsets: Vec<i64>,
}

impl Strings {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.offsets.clear();
        self.offsets.push(0);
    }

    /// Ends the string that was appended to `bytes`.
    pub(super) fn end(&mut self) {
        self.offsets.push(self.bytes.len() as i64);
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.end();
    }

    pub(super) fn at(&self, index: usize) -> &[u8] {
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    pub(super) fn extents(&self) -> Extents<'_> {
        Extents::LargeOffsets(&self.offsets)
    }
}

/// Values that wait for the mill; what all columns of a job share, used again for each batch.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Values; of FF1 their numerals.
    pub(super) inputs: Strings,
    /// The associated data of each, where they differ.
    pub(super) associated: Strings,
    /// What stays in clear of each text of FF1.
    pub(super) templates: Strings,
    /// Whether any of those is part of its tweak.
    pub(super) own_tweaks: bool,
    /// The row of each.
    pub(super) rows: Vec<u32>,
    pub(super) statuses: Vec<ColumnStatus>,
    /// Results that are not yet outputs.
    pub(super) results: Outputs,
    /// An integer's text.
    pub(super) text: Vec<u8>,
}

impl Scratch {
    pub(super) fn clear(&mut self) {
        for strings in [&mut self.inputs, &mut self.associated, &mut self.templates] {
            strings.clear();
        }
        self.own_tweaks = false;
        self.rows.clear();
    }

    /// How many values wait.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of those values.
    pub(super) fn byte_len(&self) -> usize {
        self.inputs.bytes.len()
    }
}
