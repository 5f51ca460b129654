//! Columns of Arrow data, protected and restored; `ciphermill/__init__.py` makes of it what users see.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::{ArrayReader, ArrayRef};
use arrow_schema::FieldRef;
use ciphermill_contract::Direction;
use ciphermill_table::{ArrayPlan, ArrayTable, ColumnSpec, Manifest, Rekey, TableColumn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrow::{self, ArrowArray, ArrowStream, Imported};
use crate::errors;
use crate::keystore::{Key, Loaded};
use crate::process::{self, Here};

/// What errors call tables that are no files.
const SOURCE: &str = "table";

/// The columns of tables under a key.
#[pyclass(module = "ciphermill._native", name = "Columns", frozen)]
pub(crate) struct Columns {
    held: Here<Held>,
}

struct Held {
    table: Arc<ArrayTable>,
    /// Why the key may not protect anything new.
    only_restores: Option<String>,
    /// Column keys are derived from them when columns are first met.
    _roots: Vec<Loaded>,
}

#[pymethods]
impl Columns {
    /// `columns` has for each name a method with options as on the command line, or a dictionary of them; `types` the types
    /// in clear of columns whose metadata do not say them. With `to`, restoring means to rekey: under that key, and by the
    /// methods of `again`.
    #[new]
    #[pyo3(signature = (key, columns, types, manifest, to=None, again=None))]
    fn new(
        py: Python<'_>,
        key: &Key,
        columns: Option<&Bound<'_, PyDict>>,
        types: Option<&Bound<'_, PyDict>>,
        manifest: Option<PathBuf>,
        to: Option<&Key>,
        again: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Columns> {
        let mill = process::mill(py)?;
        let (loaded, root, only_restores) = key.root(&mill)?;
        let mut roots = vec![loaded];
        let mut table_columns = Vec::new();
        if let Some(path) = &manifest {
            let manifest = Manifest::read(path).map_err(errors::of_table)?;
            manifest.verify(path, &mill, &root).map_err(errors::of_table)?;
            table_columns = manifest.table_columns().map_err(errors::of_table)?;
        }
        for (name, method) in columns.into_iter().flat_map(|columns| columns.iter()) {
            let spec = spec(&name.extract::<String>()?, &method)?;
            table_columns.push(TableColumn { spec, data_type: None, stays: None });
        }
        for (name, data_type) in types.into_iter().flat_map(|types| types.iter()) {
            let name: String = name.extract()?;
            let Some(column) = table_columns.iter_mut().find(|column| column.spec.name == name) else {
                return Err(errors::misuse(format!("types names `{name}`, which is none of the columns")));
            };
            column.data_type = Some(arrow::data_type(&data_type)?);
        }
        let mut table = ArrayTable::new(&mill, root, table_columns, Path::new(SOURCE)).map_err(errors::of_table)?;
        if let Some(to) = to {
            let (loaded, root, only_restores) = to.root(&mill)?;
            if let Some(rule) = only_restores {
                return Err(errors::raise(errors::Kind::Refused, rule, None, None));
            }
            roots.push(loaded);
            let again = again.into_iter().flat_map(|again| again.iter());
            let columns =
                again.map(|(name, method)| spec(&name.extract::<String>()?, &method)).collect::<PyResult<_>>()?;
            table = table.rekeying(Rekey { root, columns });
        }
        Ok(Columns { held: Here::new(Held { table: Arc::new(table), only_restores, _roots: roots }) })
    }

    /// Protects (`encrypts`) or restores an object's Arrow data, all of them at once, or as a stream that is read later.
    #[pyo3(signature = (data, encrypts, only, lazy))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
        encrypts: bool,
        only: Option<Vec<String>>,
        lazy: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let held = self.held.get()?;
        if let Some(rule) = held.only_restores.as_ref().filter(|_| encrypts) {
            return Err(errors::raise(errors::Kind::Refused, rule.clone(), None, None));
        }
        let direction = if encrypts { Direction::Encrypt } else { Direction::Decrypt };
        let plan = |field: &FieldRef| held.table.plan(direction, field, only.as_deref()).map_err(errors::of_table);
        match arrow::import(data)? {
            Imported::Array(field, array) => {
                let mut plan = plan(&field)?;
                let done = py.detach(|| plan.run(&array)).map_err(errors::of_table)?;
                Ok(Bound::new(py, ArrowArray::new(Arc::clone(plan.field()), done))?.into_any())
            }
            Imported::Stream(stream) => {
                let plan = plan(stream.field())?;
                let field = Arc::clone(plan.field());
                let stream = if lazy {
                    ArrowStream::of_reader(field, Box::new(reading(stream, plan)))
                } else {
                    ArrowStream::of_arrays(field, py.detach(|| read(stream, plan))?)
                };
                Ok(Bound::new(py, stream)?.into_any())
            }
        }
    }

    /// Each column's name, and how it is protected as the command line writes it.
    fn columns(&self) -> PyResult<Vec<(String, String)>> {
        let column = |column: &TableColumn| (column.spec.name.clone(), column.spec.to_string());
        Ok(self.held.get()?.table.columns().iter().map(column).collect())
    }
}

/// The name of a column's method, and method and options as the command line writes them, with the logical name.
#[pyfunction]
pub(crate) fn column_spec(name: &str, method: &Bound<'_, PyAny>) -> PyResult<(&'static str, String)> {
    let mut spec = spec(name, method)?;
    let method = spec.method.name();
    // Without a name there is nothing that a logical name could be equal to, so that it is written.
    spec.name.clear();
    Ok((method, spec.to_string().trim_start_matches('=').to_owned()))
}

/// Writes the manifest of a folder of Parquet tables with columns that were protected under a key: `columns` has the methods by
/// name, `types` the types in clear. Returns the manifest's place and how many tables there are.
#[pyfunction]
pub(crate) fn adopt_folder(
    py: Python<'_>,
    path: PathBuf,
    key: &Key,
    columns: &Bound<'_, PyDict>,
    types: &Bound<'_, PyDict>,
) -> PyResult<(PathBuf, usize)> {
    let mill = process::mill(py)?;
    let (_loaded, root, _) = key.root(&mill)?;
    let mut table_columns = Vec::new();
    for (name, method) in columns.iter() {
        let name: String = name.extract()?;
        let data_type = types.get_item(&name)?.map(|data_type| arrow::data_type(&data_type)).transpose()?;
        table_columns.push(TableColumn { spec: spec(&name, &method)?, data_type, stays: None });
    }
    let cancel = AtomicBool::new(false);
    py.detach(|| ciphermill_table::adopt_folder(&path, &table_columns, &mill, &root, &cancel)).map_err(errors::of_table)
}

/// A column's specification from a text or a dictionary.
fn spec(name: &str, method: &Bound<'_, PyAny>) -> PyResult<ColumnSpec> {
    if let Ok(text) = method.extract::<String>() {
        return ColumnSpec::named(name, &text).map_err(errors::of_table);
    }
    let Ok(options) = method.cast::<PyDict>() else {
        return Err(errors::misuse(format!(
            "column `{name}`: write a method, for example \"deterministic\", or a dictionary"
        )));
    };
    let mut method = None;
    let mut pairs = Vec::new();
    for (option, value) in options.iter() {
        let option: String = option.extract()?;
        let value = match value.extract::<bool>() {
            Ok(true) => None,
            Ok(false) => continue,
            Err(_) => Some(value.str()?.to_string()),
        };
        if option == "method" { method = value } else { pairs.push((option.replace('_', "-"), value)) }
    }
    let Some(method) = method else {
        return Err(errors::misuse(format!("column `{name}`: the dictionary has no \"method\"")));
    };
    let pairs: Vec<(&str, Option<String>)> = pairs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    ColumnSpec::of_options(name, &method, &pairs).map_err(errors::of_table)
}

fn read(
    stream: impl Iterator<Item = Result<ArrayRef, arrow_schema::ArrowError>>,
    mut plan: ArrayPlan,
) -> PyResult<Vec<ArrayRef>> {
    let mut done = Vec::new();
    for array in stream {
        let array = array.map_err(|error| errors::misuse(format!("Arrow data: {error}")))?;
        done.push(plan.run(&array).map_err(errors::of_table)?);
    }
    Ok(done)
}

fn reading(
    mut stream: impl Iterator<Item = Result<ArrayRef, arrow_schema::ArrowError>>,
    plan: ArrayPlan,
) -> impl FnMut() -> Option<Result<ArrayRef, String>> {
    // It holds keys, and a stream may be there when the process forks.
    let mut plan = Here::new(plan);
    move || {
        let Some(plan) = plan.get_mut() else {
            return Some(Err(
                "keys do not go along into forked processes: this stream belongs to another one".to_owned()
            ));
        };
        let array = match stream.next()? {
            Ok(array) => array,
            Err(error) => return Some(Err(error.to_string())),
        };
        Some(plan.run(&array).map_err(|error| error.to_string()))
    }
}
