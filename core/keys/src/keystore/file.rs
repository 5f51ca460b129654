//! What the readers of both formats have in common.

use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// The version of the format that this program writes.
pub const FORMAT_VERSION: u32 = 2;

/// Sealed records by name and version.
pub(super) type Records = BTreeMap<(String, u32), Vec<u8>>;

/// Opens a regular file for reading; none when it is something else. Never waits for whoever might write into a FIFO.
pub(super) fn open_regular(path: &Path) -> io::Result<Option<(File, Metadata)>> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    // Of the open file, so that it is the same that is read.
    let metadata = file.metadata()?;
    Ok(metadata.is_file().then_some((file, metadata)))
}

/// All of a file; none when it is longer than `len_max` bytes.
pub(super) fn read_at_most(file: &File, metadata: &Metadata, len_max: usize) -> io::Result<Option<Vec<u8>>> {
    if metadata.len() > len_max as u64 {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    file.take(len_max as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() <= len_max).then_some(bytes))
}
