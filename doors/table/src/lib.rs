//! Protects columns of CSV and Parquet tables through a mill, and restores them.
//!
//! Tables stream through in batches of rows, so that memory stays bounded whatever the size of the file. Of each batch
//! every named column becomes operations in one arena, which the mill runs on whichever engine does them best; all other
//! columns pass unchanged. Beside the output stands a signed [`Manifest`] that says what was done.
//!
//! ```no_run
//! # fn job(mill: &ciphermill::Mill, id: ciphermill_contract::KeyId) -> ciphermill_table::Result<()> {
//! use ciphermill_table::{ColumnSpec, NoProgress, ProtectJob, RootKey, UnprotectJob, protect, unprotect};
//!
//! let root = RootKey { id, name: "customers".to_owned(), version: 1 };
//! let job = ProtectJob::new("customer.parquet", "customer.protected.parquet")
//!     .column(ColumnSpec::parse("c_name=random")?)
//!     .column(ColumnSpec::parse("c_phone=ff1:preset=phone,keep=2")?);
//! let summary = protect(&job, mill, &root, &NoProgress)?;
//! println!("{} values by {:?}", summary.values, summary.engines());
//!
//! let back = UnprotectJob::new("customer.protected.parquet", "customer.again.parquet");
//! unprotect(&back, mill, &root, &NoProgress)?;
//! # Ok(())
//! # }
//! ```
//!
//! Reading order: [`spec`], [`job`], `protect`, `column`, `keys`, [`manifest`], `pair`, `source`, then the formats; `folder` for many tables.
/// The Rust examples of the documents, as documentation tests of a crate that has both the mill and all engines at hand.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/rust.md")]
    mod rust {}
}

mod arrays;
mod bad;
mod clear;
mod column;
mod compress;
mod convert;
mod csv_blocks;
mod csv_io;
mod csv_scan;
mod dialect;
mod distinct;
mod embed;
mod encode;
mod error;
mod ff1;
mod folder;
mod hash;
mod inspect;
pub mod job;
mod keys;
pub mod manifest;
mod numbers;
mod options;
mod output;
mod pair;
mod parquet;
mod pipeline;
mod protect;
mod rekey;
mod row_id;
mod source;
pub mod spec;
mod table;
#[cfg(test)]
mod testing;
mod text;
mod types;
mod unprotect;
mod values;

pub use arrays::{ArrayColumn, ArrayPlan, ArrayTable, MARK_KEY, TableColumn};
pub use bad::{BAD_ROWS_NAMED, BadValues, OnBad};
pub use clear::InClear;
pub use column::{OPS_PER_RUN, VALUE_LEN_MAX};
pub use convert::{CONVERTED_CHUNKS_MAX, CONVERTED_COLUMNS_MAX, CONVERTED_PAGES_MAX};
pub use csv_scan::{HEADER_LEN_MAX, RECORD_LEN_MAX};
pub use dialect::COLUMNS_MAX;
pub use error::{Place, Result, TableError};
pub use ff1::{ALPHABET_LEN_MAX, Alphabet, Separators};
pub use folder::{
    FOLDER_FORMAT, FOLDER_MANIFEST, Folder, FolderFile, FolderInspection, FolderManifest, adopt_folder, inspect_folder,
    is_folder, protect_folder, rekey_folder, restore_folder,
};
pub use inspect::{Check, Inspection, inspect, rebuild};
pub use job::{
    BATCH_BYTES_MAX, BATCH_ROWS_MAX, ColumnSummary, Converted, Files, Format, NoProgress, Origin, Position, Progress,
    ProtectJob, STANDARD_STREAM, Summary, UnprotectJob,
};
pub use keys::{FORMAT, RootKey};
pub use manifest::{
    ConvertedFrom, Covers, FOOTER_KEY, MANIFEST_FORMAT, MANIFEST_SUFFIX, Manifest, ManifestColumn, ManifestKey,
    ParquetStorage, Pending, manifest_path,
};
pub use parquet::{
    Codec, DICTIONARY_VALUES_MAX, EXPANDED_LEN_MAX, FOOTER_LEN_MAX, NESTED_VALUES_MAX, PAGE_LEN_MAX, REJECT_ROWS_MAX,
};
pub use protect::protect;
pub use rekey::Rekey;
pub use row_id::ROW_ID_LEN_MAX;
pub use source::Protected;
pub use spec::{ColumnSpec, Ff1Options, LOGICAL_NAME_MAX, Method, RowBinding};
pub use unprotect::{rekey, restore, unprotect};
pub use values::{ValueEncoding, Values};
