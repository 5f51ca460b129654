//! From a protected table to one that is protected under another key, version or method, in one pass and never in clear.

use arrow_schema::DataType;
use ciphermill::Mill;
use ciphermill_contract::Direction;

use crate::bad::OnBad;
use crate::column::{BadHandling, ColumnSetup, ColumnWorker, Opening, suite_of};
use crate::error::{Result, TableError, find_column};
use crate::job::{Format, UnprotectJob};
use crate::keys::{self, Purpose, RootKey};
use crate::manifest::{Manifest, ManifestColumn, ManifestKey};
use crate::parquet::foreign::{Pairs, spark_rekeyed};
use crate::parquet::{self, ParquetInput};
use crate::protect::encoding_of;
use crate::spec::{ColumnSpec, Method};
use crate::types::check_type;

/// What a table is to be protected under.
pub struct Rekey {
    /// The root key.
    pub root: RootKey,
    /// Columns that get another method, named as in the manifest. All others keep theirs.
    pub columns: Vec<ColumnSpec>,
}

impl Rekey {
    /// Whether a table with this manifest is protected so already.
    pub fn is_done(&self, manifest: &Manifest) -> bool {
        let key = &manifest.root_key;
        let is_so = |column: &ManifestColumn| {
            let spec = self.columns.iter().find(|spec| spec.name == column.name);
            spec.is_none_or(|spec| spec.method.name() == column.method && spec.method.options() == column.options)
        };
        (key.name.as_str(), key.version) == (self.root.name.as_str(), self.root.version)
            && manifest.columns.iter().all(is_so)
    }

    /// Refuses what rekeying does not do, and columns that a table with this manifest does not have.
    ///
    /// # Errors
    /// `OtherFormat`, `ColumnUnknown`, `ColumnAmbiguous`.
    pub(crate) fn check(&self, job: &UnprotectJob, manifest: &Manifest) -> Result<()> {
        if !job.columns.is_empty() || job.format.is_some_and(|format| format != manifest.format) {
            let rule = "keeps all columns protected, and the table's format";
            return Err(TableError::OtherFormat { option: "rekeying", rule });
        }
        let names: Vec<String> = manifest.columns.iter().map(|column| column.name.clone()).collect();
        self.columns.iter().try_for_each(|spec| find_column(&job.input, &names, &spec.name).map(drop))
    }

    /// How a column of the manifest is to be protected.
    pub(crate) fn method(&self, column: &ManifestColumn, method: &Method) -> Result<Method> {
        let refused = |problem: &str| refused(&column.name, problem);
        let new = self.method_of(&column.name, method)?;
        if column.on_bad == OnBad::Token.name() && column.bad_values > 0 {
            return refused("some of its values are tokens, which do not come back");
        }
        if column.bound_to.is_some() && new != *method {
            return refused("its values are bound to their rows, and keep their method");
        }
        Ok(new)
    }

    /// How a column is to be protected that is protected by `method`.
    ///
    /// # Errors
    /// `Spec`.
    pub(crate) fn method_of(&self, name: &str, method: &Method) -> Result<Method> {
        let new = self.columns.iter().find(|spec| spec.name == name).map(|spec| &spec.method);
        let new = new.unwrap_or(method).clone();
        if !method.is_reversible() {
            let rule = "tokens do not come back; leave the column out, or make them anew from the table in clear";
            return refused(name, rule);
        }
        let is_ff1 = |method: &Method| matches!(method, Method::Ff1(_));
        if (is_ff1(method) || is_ff1(&new)) && new != *method {
            return refused(name, "values of ff1 keep their method and its options");
        }
        Ok(new)
    }

    /// A worker that does what the one of unprotecting does, and protects again.
    pub(crate) fn worker(&self, mill: &Mill, column: &ManifestColumn, setup: ColumnSetup) -> Result<ColumnWorker> {
        let method = self.method(column, &setup.method)?;
        let data_type = column.data_type.parse().unwrap_or(DataType::Null);
        self.moving(mill, setup, method, &data_type)
    }

    /// A worker that opens as the one of `setup` and protects by this method.
    ///
    /// # Errors
    /// `Spec` for a method that does not take the column's type in clear; what the mill answers.
    pub(crate) fn moving(
        &self,
        mill: &Mill,
        setup: ColumnSetup,
        method: Method,
        data_type: &DataType,
    ) -> Result<ColumnWorker> {
        check_type(&method, data_type)
            .map_err(|rule| TableError::Spec { text: setup.column.clone(), problem: rule.to_owned() })?;
        // The second byte is the method; all else stays what it was.
        let associated_data = keys::of_method(&setup.associated_data, &method);
        let context = keys::column_context(&method, &associated_data);
        let key = keys::derive(mill, &self.root, Purpose::Column, &context, suite_of(&method))?;
        let opening = Opening { key: setup.key, method: setup.method, associated_data: setup.associated_data };
        let worker = ColumnWorker::new(ColumnSetup {
            key,
            method,
            direction: Direction::Encrypt,
            associated_data,
            // Their texts go from one key to the other.
            integer: None,
            bad: BadHandling::new(OnBad::Error),
            ..setup
        });
        Ok(worker.opening_first(opening))
    }

    /// The footer's metadata of the table: what others say of protected columns is as true as it was, save which key they are under.
    pub(crate) fn metadata(&self, input: &ParquetInput, before: &Manifest) -> Result<Pairs> {
        let (mut pairs, _) = input.rewrite_metadata(&[])?;
        let mut methods = Vec::new();
        for column in &before.columns {
            let (method, logical) = (self.method(column, &column.method()?)?, column.logical.clone());
            // Without a name there is nothing that the logical one could be equal to, so that it is written.
            let (name, as_text, on_bad) = (String::new(), column.as_text, OnBad::Error);
            let spec = ColumnSpec { name, logical, method, bind: true, as_text, on_bad };
            methods.push((column.name.clone(), spec.to_string().trim_start_matches('=').to_owned()));
        }
        spark_rekeyed(&mut pairs, &methods, &self.root.name, self.root.version);
        Ok(pairs)
    }

    /// The manifest of the table, without its hash, length and signature.
    pub(crate) fn manifest(
        &self,
        mill: &Mill,
        before: &Manifest,
        rows: u64,
        columns: Vec<ManifestColumn>,
    ) -> Result<Manifest> {
        Ok(Manifest { root_key: ManifestKey::of(mill, &self.root)?, columns, ..before.begun_anew(rows) })
    }

    /// A column of that manifest.
    pub(crate) fn manifest_column(
        &self,
        mill: &Mill,
        before: &ManifestColumn,
        worker: &ColumnWorker,
        format: Format,
    ) -> Result<ManifestColumn> {
        let context = keys::column_context(worker.method(), worker.associated_data());
        Ok(ManifestColumn {
            name: worker.column().to_owned(),
            method: worker.method().name().to_owned(),
            options: worker.method().options(),
            encoding: encoding_of(worker.method(), format).to_owned(),
            check_value: keys::check_value(mill, &self.root, Purpose::ColumnCheck, &context)?,
            values: worker.counts.values,
            nulls: worker.counts.nulls,
            ..before.clone()
        })
    }
}

fn refused<T>(column: &str, problem: &str) -> Result<T> {
    Err(TableError::Spec { text: column.to_owned(), problem: format!("cannot be rekeyed: {problem}") })
}

/// How the columns of a protected Parquet file are stored again.
pub(crate) fn layout(input: &ParquetInput, index: usize, method: &Method) -> Result<parquet::Layout> {
    let (layout, _) = input.protected_layout(index, method, None)?;
    // Values of a dictionary that random values were made of are not distinguished any more.
    Ok(parquet::Layout { categories: false, ..layout })
}
