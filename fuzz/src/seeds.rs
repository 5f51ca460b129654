//! What the fuzzer begins with: written anew before each run, so that it follows the formats.

use std::io;
use std::path::Path;

/// Writes the seeds of all targets to folders with their names.
///
/// # Errors
/// As for writing files.
pub fn write(folder: &Path) -> io::Result<()> {
    let targets = [
        ("names", crate::names::seeds()),
        ("messages", crate::messages::seeds()),
        ("channel", crate::channel::seeds()),
        ("keystore", crate::keystore::seeds()),
        #[cfg(feature = "c")]
        ("c", crate::c::seeds()),
        #[cfg(feature = "esp")]
        ("esp_inbound", crate::esp_inbound::seeds()),
        #[cfg(feature = "pkcs11")]
        ("pkcs11", crate::pkcs11::seeds()),
        #[cfg(feature = "engines")]
        ("keys", crate::keys::seeds()),
        #[cfg(feature = "tables")]
        ("manifest", crate::manifest::seeds()),
        #[cfg(feature = "tables")]
        ("folder", crate::folder::seeds()),
        #[cfg(feature = "tables")]
        ("columns", crate::columns::seeds()),
        #[cfg(feature = "tables")]
        ("config", crate::config::seeds()),
        #[cfg(feature = "tables")]
        ("csv", crate::csv_table::seeds()),
        #[cfg(feature = "tables")]
        ("parquet", crate::parquet_table::seeds()),
    ];
    for (target, seeds) in targets {
        let folder = folder.join(target);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in seeds.into_iter().enumerate() {
            std::fs::write(folder.join(format!("{number:03}")), seed)?;
        }
    }
    Ok(())
}
