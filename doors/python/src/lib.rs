//! The native half of the Python package `ciphermill`: keystores, columns of Arrow data, batches of short messages.
//!
//! Arrow data come and go through the PyCapsule interface, without a copy and without pyarrow. The interpreter's lock is
//! released while batches run. Nothing here shows or pickles keys.

mod arrow;
mod batches;
mod errors;
mod keystore;
mod process;
mod protector;

use pyo3::prelude::*;

/// The native half of `ciphermill`; use the package.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<keystore::Keystore>()?;
    module.add_class::<keystore::Key>()?;
    module.add_class::<protector::Columns>()?;
    module.add_class::<arrow::ArrowArray>()?;
    module.add_class::<arrow::ArrowStream>()?;
    module.add_function(wrap_pyfunction!(protector::adopt_folder, module)?)?;
    module.add_function(wrap_pyfunction!(protector::column_spec, module)?)?;
    module.add_function(wrap_pyfunction!(batches::run_batch, module)?)?;
    module.add_function(wrap_pyfunction!(batches::suite_shape, module)?)?;
    Ok(())
}
