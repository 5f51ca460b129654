//! Errors as Python's exceptions, of the four kinds; the classes are in `ciphermill/_errors.py`.

use ciphermill_contract::{Error, OpStatus};
use ciphermill_keys::KeystoreError;
use ciphermill_table::TableError;
use pyo3::exceptions::{PyImportError, PyOSError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

/// A kind of error, by the name of its class.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Misuse,
    Refused,
    NotAuthentic,
    Exhausted,
    EngineFault,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Misuse => "Misuse",
            Kind::Refused => "Refused",
            Kind::NotAuthentic => "NotAuthentic",
            Kind::Exhausted => "Exhausted",
            Kind::EngineFault => "EngineFault",
        }
    }
}

/// An exception; `column` and `row` become its attributes.
pub(crate) fn raise(kind: Kind, message: String, column: Option<&str>, row: Option<u64>) -> PyErr {
    Python::attach(|py| build(py, kind, message, column, row).unwrap_or_else(|error| error))
}

fn build(py: Python<'_>, kind: Kind, message: String, column: Option<&str>, row: Option<u64>) -> PyResult<PyErr> {
    static MODULE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let module =
        MODULE.get_or_try_init(py, || PyModule::import(py, "ciphermill._errors").map(|it| it.into_any().unbind()))?;
    let class = module.bind(py).getattr(kind.name())?;
    let class = class.cast::<PyType>().map_err(|_| PyImportError::new_err("ciphermill._errors has no such class"))?;
    let places = PyDict::new(py);
    places.set_item("column", column)?;
    places.set_item("row", row)?;
    Ok(PyErr::from_value(class.call((message,), Some(&places))?))
}

/// The caller's mistake.
pub(crate) fn misuse(message: impl Into<String>) -> PyErr {
    raise(Kind::Misuse, message.into(), None, None)
}

fn kind_of_mill(error: &Error) -> Kind {
    match error {
        Error::Misuse(_) => Kind::Misuse,
        Error::Refused(_) => Kind::Refused,
        Error::Exhausted(_) => Kind::Exhausted,
        _ => Kind::EngineFault,
    }
}

/// The kind of what has become of one operation.
pub(crate) fn kind_of_status(status: OpStatus) -> Kind {
    match status {
        OpStatus::AuthFailed => Kind::NotAuthentic,
        OpStatus::BadInput(_) => Kind::Misuse,
        OpStatus::Refused(_) => Kind::Refused,
        _ => Kind::EngineFault,
    }
}

/// An error of the mill.
pub(crate) fn of_mill(error: Error) -> PyErr {
    raise(kind_of_mill(&error), error.to_string(), None, None)
}

/// An error of the table door.
pub(crate) fn of_table(error: TableError) -> PyErr {
    let kind = match &error {
        TableError::Authentication(_) | TableError::AuthenticationOfRow { .. } | TableError::Damaged { .. } => {
            Kind::NotAuthentic
        }
        TableError::WrongKey { .. } | TableError::KeyVersion { .. } | TableError::ManifestAltered { .. } => {
            Kind::Refused
        }
        TableError::Mill { source, .. } => kind_of_mill(source),
        TableError::Operation { status, .. } | TableError::RootKey { status } => kind_of_status(*status),
        TableError::Entropy | TableError::Panicked => Kind::EngineFault,
        TableError::Io { source, .. } => return os_error(source, error.to_string()),
        _ => Kind::Misuse,
    };
    let column = match &error {
        TableError::ColumnUnknown { column, .. }
        | TableError::ColumnAmbiguous { column, .. }
        | TableError::ColumnTwice { column }
        | TableError::NotReversible { column, .. }
        | TableError::Arrow { column, .. }
        | TableError::UnsupportedType { column, .. } => Some(column.clone()),
        error => error.place().map(|place| place.column.clone()),
    };
    let row = error.place().map(|place| place.row);
    raise(kind, error.to_string(), column.as_deref(), row)
}

/// An error of the keystore.
pub(crate) fn of_keystore(error: KeystoreError) -> PyErr {
    let kind = match &error {
        KeystoreError::Io { source, .. } => return os_error(source, error.to_string()),
        KeystoreError::Table(source) => kind_of_mill(source),
        KeystoreError::WrongSecret
        | KeystoreError::WrongSecretKind { .. }
        | KeystoreError::InsecureKeyFile { .. }
        | KeystoreError::Damaged { .. }
        | KeystoreError::Retired { .. }
        | KeystoreError::Destroyed { .. } => Kind::Refused,
        KeystoreError::Locked { .. } => Kind::Exhausted,
        KeystoreError::Clock | KeystoreError::Entropy => Kind::EngineFault,
        _ => Kind::Misuse,
    };
    raise(kind, error.to_string(), None, None)
}

/// Python has classes of its own for what the operating system refused.
fn os_error(source: &std::io::Error, message: String) -> PyErr {
    match source.raw_os_error() {
        Some(code) => PyOSError::new_err((code, message)),
        None => PyOSError::new_err(message),
    }
}
