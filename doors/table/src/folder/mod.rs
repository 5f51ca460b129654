//! Folders of tables: each file as it would be alone, many at a time, with one manifest for all.
//!
//! | file of the output | what it is |
//! |---|---|
//! | `region=EU/part-0.parquet` … | the tables, under the names that they had |
//! | `_ciphermill.json` | the manifest of the folder ([`FolderManifest`]), written last |
//! | `_ciphermill.journal` | what is done of a run that has not ended ([`journal`]) |
//!
//! Names that begin with `_` or `.` are those of no table, to us as to Hive and Spark. A table appears whole or not at all. A run
//! that was cut short, or that failed at a file, goes on where it was when the same job is asked for again.
//!
//! Rekeying can be done in place, too. Each file is then the old one or the new one: what the new one will be is in the journal
//! before the file is replaced, so that whoever opens the folder meanwhile has a manifest for either ([`Folder`]).

mod adopt;
mod files;
mod inspect;
mod journal;
pub(crate) mod manifest;
mod open;
mod protect;
mod restore;
mod run;

pub use adopt::adopt_folder;
pub use files::is_folder;
pub use inspect::{FolderInspection, inspect_folder};
pub use manifest::{FOLDER_FORMAT, FOLDER_MANIFEST, FolderFile, FolderManifest};
pub use open::Folder;
pub use protect::protect_folder;
pub use restore::{rekey_folder, restore_folder};
