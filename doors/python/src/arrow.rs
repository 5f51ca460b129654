//! Arrow's PyCapsule interface: arrays and streams of arrays, in and out without a copy.
//!
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>

#![allow(unsafe_code, reason = "the C data interface is structs behind raw pointers")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array, ArrayReader, ArrayRef, make_array};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::errors;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// `errno` for what a stream cannot give.
const EIO: c_int = 5;

/// What makes the arrays of a stream, one at each call.
pub(crate) type Next = Box<dyn FnMut() -> Option<Result<ArrayRef, String>> + Send>;

/// What a Python object gives.
pub(crate) enum Imported {
    Array(FieldRef, ArrayRef),
    Stream(ArrayStreamReader),
}

fn arrow(error: ArrowError) -> PyErr {
    errors::misuse(format!("Arrow data: {error}"))
}

fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<*mut T> {
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| errors::misuse("Arrow data: not a PyCapsule"))?;
    Ok(capsule.pointer_checked(Some(name))?.cast::<T>().as_ptr())
}

/// Takes an object's arrays: through `__arrow_c_array__` where it has one, else as a stream.
///
/// # Errors
/// `Misuse` for objects without Arrow data; the object's own errors.
pub(crate) fn import(object: &Bound<'_, PyAny>) -> PyResult<Imported> {
    if let Ok(own) = object.cast::<ArrowArray>() {
        let ArrowArray { field, array } = own.get();
        return Ok(Imported::Array(Arc::clone(field), Arc::clone(array)));
    }
    if let Some(method) = object.getattr_opt("__arrow_c_array__")? {
        let capsules = method.call0()?;
        let (schema, array) = capsules.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        // SAFETY: a capsule of this name holds such a struct, by the interface.
        let field = Field::try_from(unsafe { &*pointer::<FFI_ArrowSchema>(&schema, SCHEMA)? }).map_err(arrow)?;
        // SAFETY: as above; what is moved out is marked as released.
        let array = unsafe { FFI_ArrowArray::from_raw(pointer(&array, ARRAY)?) };
        if array.is_released() {
            return Err(errors::misuse("Arrow data: the array was taken already"));
        }
        // SAFETY: producers of the interface give an array of the type that their schema says.
        let data = unsafe { from_ffi_and_data_type(array, field.data_type().clone()) }.map_err(arrow)?;
        return Ok(Imported::Array(Arc::new(field), make_array(data)));
    }
    if let Some(method) = object.getattr_opt("__arrow_c_stream__")? {
        let capsule = method.call0()?;
        // SAFETY: as above.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer(&capsule, STREAM)?) };
        return ArrayStreamReader::try_new(stream).map(Imported::Stream).map_err(arrow);
    }
    Err(errors::misuse(format!(
        "`{}` has neither __arrow_c_array__ nor __arrow_c_stream__: give Arrow data, as those of pyarrow, polars, DuckDB, \
         pandas 3 or nanoarrow are",
        object.get_type().name()?
    )))
}

/// A type: by Arrow's name for it (`Int64`, `Decimal128(15, 2)`), or that of an object with Arrow data or a schema.
///
/// # Errors
/// `Misuse` for anything else.
pub(crate) fn data_type(object: &Bound<'_, PyAny>) -> PyResult<DataType> {
    if let Ok(name) = object.extract::<String>() {
        let wrong =
            |_| errors::misuse(format!("`{name}` is not an Arrow type; write `Int64`, `Utf8`, `Decimal128(15, 2)` …"));
        return name.parse().map_err(wrong);
    }
    let Some(method) = object.getattr_opt("__arrow_c_schema__")? else {
        return Ok(match import(object)? {
            Imported::Array(field, _) => field.data_type().clone(),
            Imported::Stream(stream) => stream.field().data_type().clone(),
        });
    };
    // Lives as long as what it points to is looked at.
    let capsule = method.call0()?;
    // SAFETY: a capsule of this name holds such a struct, by the interface.
    let field = Field::try_from(unsafe { &*pointer::<FFI_ArrowSchema>(&capsule, SCHEMA)? }).map_err(arrow)?;
    Ok(field.data_type().clone())
}

fn schema_capsule<'py>(py: Python<'py>, field: &Field) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowSchema::try_from(field).map_err(arrow)?, SCHEMA)
}

/// An Arrow array. Hand it to ``pyarrow.array``, ``polars.Series``, ``nanoarrow.array`` or whatever else takes
/// objects with ``__arrow_c_array__``; nothing is copied.
#[pyclass(module = "ciphermill", name = "ArrowArray", frozen)]
pub(crate) struct ArrowArray {
    field: FieldRef,
    array: ArrayRef,
}

impl ArrowArray {
    pub(crate) fn new(field: FieldRef, array: ArrayRef) -> ArrowArray {
        ArrowArray { field, array }
    }
}

#[pymethods]
impl ArrowArray {
    /// The array and its type as capsules. What is asked for another type is given as it is.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema;
        let array = PyCapsule::new_with_value(py, FFI_ArrowArray::new(&self.array.to_data()), ARRAY)?;
        (self.__arrow_c_schema__(py)?, array).into_pyobject(py)
    }

    /// The type as a capsule. That of an array alone has neither name nor metadata: no library keeps them, and for a short
    /// array they would take as long as the rest.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        match self.field.data_type() {
            DataType::Struct(_) => schema_capsule(py, &self.field),
            data_type => schema_capsule(py, &Field::new("", data_type.clone(), true)),
        }
    }

    /// Values.
    fn __len__(&self) -> usize {
        self.array.len()
    }

    /// Arrow's name of the type.
    #[getter]
    fn r#type(&self) -> String {
        self.field.data_type().to_string()
    }

    fn __repr__(&self) -> String {
        format!("<ciphermill.ArrowArray of {} values, {}>", self.array.len(), self.field.data_type())
    }
}

/// Arrow arrays one after the other: a table, a chunked array, or a reader. Hand it to ``pyarrow.table``,
/// ``polars.DataFrame``, ``pyarrow.RecordBatchReader.from_stream`` or whatever else takes objects with
/// ``__arrow_c_stream__``; nothing is copied.
#[pyclass(module = "ciphermill", name = "ArrowStream", frozen)]
pub(crate) struct ArrowStream {
    field: FieldRef,
    source: Source,
}

enum Source {
    /// As often as one likes.
    Arrays(Arc<[ArrayRef]>),
    /// Once.
    Reader(Mutex<Option<Next>>),
}

impl ArrowStream {
    pub(crate) fn of_arrays(field: FieldRef, arrays: Vec<ArrayRef>) -> ArrowStream {
        ArrowStream { field, source: Source::Arrays(arrays.into()) }
    }

    pub(crate) fn of_reader(field: FieldRef, next: Next) -> ArrowStream {
        ArrowStream { field, source: Source::Reader(Mutex::new(Some(next))) }
    }
}

#[pymethods]
impl ArrowStream {
    /// The arrays as a capsule. What is asked for another type is given as it is. A reader can be taken once.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let next = match &self.source {
            Source::Arrays(arrays) => {
                let (arrays, mut at) = (Arc::clone(arrays), 0);
                Box::new(move || {
                    at += 1;
                    arrays.get(at - 1).map(|array| Ok(Arc::clone(array)))
                })
            }
            Source::Reader(reader) => {
                let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
                reader.take().ok_or_else(|| errors::misuse("this stream was read already; it can be read once"))?
            }
        };
        PyCapsule::new_with_value(py, exported(Arc::clone(&self.field), next), STREAM)
    }

    /// The type as a capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.field)
    }

    /// Arrow's name of the type.
    #[getter]
    fn r#type(&self) -> String {
        self.field.data_type().to_string()
    }

    fn __repr__(&self) -> String {
        format!("<ciphermill.ArrowStream of {}>", self.field.data_type())
    }
}

/// What a stream's callbacks work on.
struct Exported {
    field: FieldRef,
    next: Next,
    error: Option<CString>,
}

impl Exported {
    fn fail(&mut self, message: String) -> c_int {
        self.error = CString::new(message.replace('\0', " ")).ok();
        EIO
    }
}

fn exported(field: FieldRef, next: Next) -> FFI_ArrowArrayStream {
    let exported = Box::into_raw(Box::new(Exported { field, next, error: None }));
    // SAFETY: the callbacks are those of such a box, which `release` takes back once.
    unsafe {
        FFI_ArrowArrayStream::new_unchecked(
            Some(get_schema),
            Some(get_next),
            Some(get_last_error),
            Some(release),
            exported.cast::<c_void>(),
        )
    }
}

/// # Safety
/// A stream of [`exported`] that was not released, which nobody else uses meanwhile.
unsafe fn exported_of<'a>(stream: *mut FFI_ArrowArrayStream) -> &'a mut Exported {
    // SAFETY: by the caller.
    unsafe { &mut *(*stream).private_data().cast::<Exported>() }
}

unsafe extern "C" fn get_schema(stream: *mut FFI_ArrowArrayStream, out: *mut FFI_ArrowSchema) -> c_int {
    // SAFETY: consumers call this with a stream that they hold.
    let exported = unsafe { exported_of(stream) };
    match FFI_ArrowSchema::try_from(&*exported.field) {
        Ok(schema) => {
            // SAFETY: consumers give room for a schema, in which nothing is that would have to be dropped.
            unsafe { out.write(schema) };
            0
        }
        Err(error) => exported.fail(error.to_string()),
    }
}

unsafe extern "C" fn get_next(stream: *mut FFI_ArrowArrayStream, out: *mut FFI_ArrowArray) -> c_int {
    // SAFETY: as in `get_schema`.
    let exported = unsafe { exported_of(stream) };
    let next = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut exported.next));
    let array = match next {
        Ok(None) => FFI_ArrowArray::empty(),
        Ok(Some(Ok(array))) => FFI_ArrowArray::new(&array.to_data()),
        Ok(Some(Err(message))) => return exported.fail(message),
        Err(_) => return exported.fail("ciphermill has panicked, which is a bug".to_owned()),
    };
    // SAFETY: as in `get_schema`.
    unsafe { out.write(array) };
    0
}

unsafe extern "C" fn get_last_error(stream: *mut FFI_ArrowArrayStream) -> *const c_char {
    // SAFETY: as in `get_schema`.
    let exported = unsafe { exported_of(stream) };
    exported.error.as_ref().map_or(std::ptr::null(), |error| error.as_ptr())
}

unsafe extern "C" fn release(stream: *mut FFI_ArrowArrayStream) {
    // SAFETY: called once, with a stream of `exported`.
    unsafe {
        drop(Box::from_raw((*stream).private_data().cast::<Exported>()));
        (*stream).set_private_data(std::ptr::null_mut());
        (*stream).set_release(None);
    }
}
