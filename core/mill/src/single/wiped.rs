//! Memory that messages pass through.

use ciphermill_memory::wipe;

/// Bytes that are wiped when they are dropped.
#[derive(Default)]
pub(super) struct WipedVec(pub(super) Vec<u8>);

impl WipedVec {
    /// Makes room for `len` bytes and more, and wipes where they were before.
    pub(super) fn grow(&mut self, len: usize) {
        let mut wider = Vec::with_capacity(2 * len);
        wider.extend_from_slice(&self.0);
        wipe(&mut self.0);
        self.0 = wider;
    }
}

impl Drop for WipedVec {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}
