//! The manifest of a folder that others wrote, with columns that were protected as arrays (Spark).

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use arrow_array::Array;
use ciphermill::Mill;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::files::{TableFile, list};
use super::journal::{JOURNAL, Record};
use super::manifest::{FolderFile, FolderManifest};
use crate::arrays::TableColumn;
use crate::error::{Result, TableError, find_column};
use crate::hash::TableHash;
use crate::job::{Format, check_cancel};
use crate::keys::{self, Purpose, RootKey};
use crate::manifest::{Covers, MANIFEST_FORMAT, Manifest, ManifestColumn, ManifestKey};
use crate::parquet::{ParquetInput, spark_in_clear};
use crate::protect::encoding_of;
use crate::text;
use crate::types::{check_type, type_tag_of};

/// Writes the manifest of a folder of Parquet tables whose columns were protected through [`crate::ArrayTable`], so that the folder
/// can be verified, restored and rekeyed like one of [`crate::protect_folder`]. A manifest that is there is replaced. Each table is
/// read once, for its hash and its nulls.
///
/// Every column needs its type in clear (`TableColumn::data_type`). Returns the manifest's place and how many tables there are.
///
/// # Errors
/// [`TableError`], naming the file; nothing is written then.
pub fn adopt_folder(
    folder: &Path,
    columns: &[TableColumn],
    mill: &Mill,
    root: &RootKey,
    cancel: &AtomicBool,
) -> Result<(PathBuf, usize)> {
    if let Some(record) = Record::read(folder)? {
        return Err(TableError::OtherWork { journal: folder.join(JOURNAL), problem: record.work().to_string() });
    }
    let adopt = |file: TableFile| {
        let manifest = adopt_table(&file, columns, mill, root, cancel)?;
        Ok(FolderFile { path: file.name, manifest })
    };
    let files = list(folder)?.into_iter().map(adopt).collect::<Result<Vec<_>>>()?;
    let count = files.len();
    Ok((FolderManifest::put(folder, files, mill, root)?, count))
}

/// The signed manifest of one table.
fn adopt_table(
    table: &TableFile,
    columns: &[TableColumn],
    mill: &Mill,
    root: &RootKey,
    cancel: &AtomicBool,
) -> Result<Manifest> {
    let path = table.path.as_path();
    let on_read = |source| TableError::io(path, "read", source);
    let file = File::open(path).map_err(on_read)?;
    let input = ParquetInput::open(file.try_clone().map_err(on_read)?, path)?;
    let names: Vec<String> = input.schema().fields().iter().map(|field| field.name().clone()).collect();
    let mut rows = 0;
    let mut adopted = Vec::new();
    for column in columns {
        let index = find_column(path, &names, &column.spec.name)?;
        let (count, nulls) = count_nulls(&file, path, index)?;
        rows = count;
        adopted.push(ManifestColumn {
            values: count - nulls,
            nulls,
            ..adopt_column(&input, index, column, mill, root)?
        });
    }
    let file_metadata = spark_in_clear(&input)?;
    let manifest = Manifest {
        ciphermill_manifest: MANIFEST_FORMAT,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        created: text::now(),
        format: Format::Parquet,
        delimiter: None,
        unnamed_columns: None,
        converted_from: None,
        root_key: ManifestKey::of(mill, root)?,
        rows,
        rejected_rows: 0,
        bytes: 0,
        sha256: String::new(),
        covers: Covers::File,
        columns: adopted,
        file_metadata: file_metadata.into_iter().collect(),
        signature: String::new(),
        previous: None,
        pending: None,
    };
    TableHash::of(&file, path, || check_cancel(cancel))?.put_into(manifest).signed(mill, root)
}

fn adopt_column(
    input: &ParquetInput,
    index: usize,
    column: &TableColumn,
    mill: &Mill,
    root: &RootKey,
) -> Result<ManifestColumn> {
    let spec = &column.spec;
    let untyped = || TableError::Spec { text: spec.to_string(), problem: "its type in clear is not said".to_owned() };
    let data_type = column.data_type.clone().ok_or_else(untyped)?;
    let unsupported = |rule| TableError::UnsupportedType {
        file: input.path().to_owned(),
        column: spec.name.clone(),
        data_type: data_type.to_string(),
        rule,
    };
    check_type(&spec.method, &data_type).map_err(unsupported)?;
    let type_tag = type_tag_of(&data_type, spec.as_text).map_err(unsupported)?;
    let associated_data = keys::associated_data(&spec.method, type_tag, &spec.logical, None);
    let context = keys::column_context(&spec.method, &associated_data);
    let nullable = input.schema().field(index).is_nullable();
    Ok(ManifestColumn {
        name: spec.name.clone(),
        logical: spec.logical.clone(),
        method: spec.method.name().to_owned(),
        on_bad: String::new(),
        bad_values: 0,
        as_text: spec.as_text,
        bound_to: None,
        options: spec.method.options(),
        data_type: data_type.to_string(),
        nullable,
        encoding: encoding_of(&spec.method, Format::Parquet).to_owned(),
        check_value: keys::check_value(mill, root, Purpose::ColumnCheck, &context)?,
        values: 0,
        nulls: 0,
        parquet: Some(input.storage_in_clear(index, &data_type, nullable)?),
    })
}

/// The rows of a column, and how many are null.
fn count_nulls(file: &File, path: &Path, column: usize) -> Result<(u64, u64)> {
    let on_read = |source| TableError::io(path, "read", source);
    let on_parquet = |source| TableError::parquet(path, source);
    let builder = ParquetRecordBatchReaderBuilder::try_new(file.try_clone().map_err(on_read)?).map_err(on_parquet)?;
    let mask = ProjectionMask::roots(builder.parquet_schema(), [column]);
    let (mut rows, mut nulls) = (0, 0);
    for batch in builder.with_projection(mask).build().map_err(on_parquet)? {
        let batch =
            batch.map_err(|source| TableError::Arrow { path: path.to_owned(), column: String::new(), source })?;
        rows += batch.num_rows() as u64;
        nulls += batch.column(0).null_count() as u64;
    }
    Ok((rows, nulls))
}
