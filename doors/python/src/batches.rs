//! Batches of short messages: lists of `bytes`, or arrays of bytes with a row for each.

#![allow(unsafe_code, reason = "NumPy tells where an array lies as a number")]

use ciphermill::{KeyPolicy, Mill};
use ciphermill_contract::columns::{AadColumn, ColumnData, ColumnStatus, Extents, IvColumn, KeyColumn, TagColumn};
use ciphermill_contract::suite::Aead;
use ciphermill_contract::{ColumnBatch, Direction, KeyId, KeyMaterial, OpStatus, Suite};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyTuple};
use zeroize::Zeroizing;

use crate::errors;
use crate::keystore::{Key, Loaded, parse_suite};
use crate::process;

/// A NumPy array of bytes with two dimensions, which lies without gaps. Whoever has it keeps the array.
#[derive(Clone, Copy)]
struct Rows {
    at: usize,
    count: usize,
    width: usize,
}

impl Rows {
    /// The array of an object; `None` if it is none.
    ///
    /// # Errors
    /// `Misuse` for arrays of another type or shape.
    fn of(object: &Bound<'_, PyAny>, what: &str, is_written: bool) -> PyResult<Option<Rows>> {
        let Some(interface) = object.getattr_opt("__array_interface__")? else { return Ok(None) };
        let interface = interface.cast::<PyDict>().map_err(PyErr::from)?;
        let entry = |name| interface.get_item(name)?.ok_or_else(|| errors::misuse(format!("{what}: no array")));
        let wrong = || errors::misuse(format!("{what}: an array has the type uint8, a row for each, and no gaps"));
        let (at, is_read_only) = entry("data")?.extract::<(usize, bool)>()?;
        let Ok((count, width)) = entry("shape")?.extract::<(usize, usize)>() else { return Err(wrong()) };
        if count.checked_mul(width).is_none_or(|len| len > isize::MAX as usize) {
            return Err(wrong());
        }
        let has_gaps = match interface.get_item("strides")? {
            Some(strides) if !strides.is_none() => strides.extract::<(isize, isize)>()? != (width as isize, 1),
            _ => false,
        };
        if entry("typestr")?.extract::<String>()? != "|u1" || has_gaps && count > 1 {
            return Err(wrong());
        }
        if is_written && is_read_only {
            return Err(errors::misuse(format!("{what}: the array cannot be written")));
        }
        Ok(Some(Rows { at, count, width }))
    }

    fn len(&self) -> usize {
        self.count * self.width
    }

    /// # Safety
    /// The array is still there, and nobody writes to it meanwhile.
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: by the caller; NumPy's arrays have as many bytes as their shape says.
        unsafe { std::slice::from_raw_parts(self.at as *const u8, self.len()) }
    }

    /// # Safety
    /// As for [`Rows::bytes`], and nobody reads it meanwhile.
    unsafe fn bytes_mut<'a>(self) -> &'a mut [u8] {
        if self.len() == 0 {
            return &mut [];
        }
        // SAFETY: as in `bytes`.
        unsafe { std::slice::from_raw_parts_mut(self.at as *mut u8, self.len()) }
    }
}

/// Byte strings: one for all, or one for each message.
enum Strings {
    One(Zeroizing<Vec<u8>>),
    Rows(Rows),
    Each { bytes: Zeroizing<Vec<u8>>, offsets: Vec<i64> },
}

impl Strings {
    fn of(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Strings> {
        if let Some(rows) = Rows::of(object, what, false)? {
            return Ok(Strings::Rows(rows));
        }
        let mut bytes = Zeroizing::new(Vec::new());
        if push(object, &mut bytes) {
            return Ok(Strings::One(bytes));
        }
        let Ok(items) = object.try_iter() else {
            return Err(errors::misuse(format!("{what}: a list of bytes, or an array of uint8 with a row for each")));
        };
        let items = items.collect::<PyResult<Vec<_>>>()?;
        let mut offsets = Vec::with_capacity(items.len() + 1);
        offsets.push(0);
        for (at, item) in items.iter().enumerate() {
            if !push(item, &mut bytes) {
                let found = item.get_type().name()?;
                return Err(errors::raise(
                    errors::Kind::Misuse,
                    format!("{what}, {at}: {found} and not bytes"),
                    None,
                    Some(at as u64),
                ));
            }
            offsets.push(bytes.len() as i64);
        }
        Ok(Strings::Each { bytes, offsets })
    }

    /// How many there are; `None` for one that serves all.
    fn count(&self) -> Option<usize> {
        match self {
            Strings::One(_) => None,
            Strings::Rows(rows) => Some(rows.count),
            Strings::Each { offsets, .. } => Some(offsets.len() - 1),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Strings::One(bytes) | Strings::Each { bytes, .. } => bytes,
            // SAFETY: the caller of the batch holds the array until it has ended.
            Strings::Rows(rows) => unsafe { rows.bytes() },
        }
    }

    fn extents(&self) -> Extents<'_> {
        match self {
            Strings::One(bytes) => Extents::Strided { len: bytes.len(), stride: 0 },
            Strings::Rows(rows) => Extents::Strided { len: rows.width, stride: rows.width },
            Strings::Each { offsets, .. } => Extents::LargeOffsets(offsets),
        }
    }

    /// Bytes of each, if all have as many.
    fn width(&self) -> Option<usize> {
        match self {
            Strings::One(bytes) => Some(bytes.len()),
            Strings::Rows(rows) => Some(rows.width),
            Strings::Each { offsets, .. } => {
                let width = offsets.get(1).copied().unwrap_or(0);
                offsets.windows(2).all(|ends| ends[1] - ends[0] == width).then_some(width as usize)
            }
        }
    }

    fn check_count(&self, what: &str, count: usize) -> PyResult<()> {
        match self.count() {
            Some(found) if found != count => Err(errors::misuse(format!("{what}: {found} for {count} messages"))),
            _ => Ok(()),
        }
    }
}

/// Appends a byte string; says whether it was one. What becomes too small for it is wiped.
fn push(object: &Bound<'_, PyAny>, bytes: &mut Zeroizing<Vec<u8>>) -> bool {
    let mut append = |more: &[u8]| {
        if bytes.capacity() - bytes.len() < more.len() {
            let mut larger = Zeroizing::new(Vec::with_capacity((bytes.len() + more.len()).max(2 * bytes.capacity())));
            larger.extend_from_slice(bytes);
            *bytes = larger;
        }
        bytes.extend_from_slice(more);
    };
    if let Ok(found) = object.cast::<PyBytes>() {
        append(found.as_bytes());
    } else if let Ok(found) = object.cast::<PyByteArray>() {
        append(&Zeroizing::new(found.to_vec()));
    } else {
        return false;
    }
    true
}

/// Keys that a batch is to have.
enum Keys {
    None,
    /// Of a keystore: the key of each message, or one for all.
    Loaded {
        _loaded: Vec<Loaded>,
        ids: Vec<KeyId>,
        is_one: bool,
    },
    /// Bytes, to be brought into the table for this batch.
    Raw(Strings),
}

impl Keys {
    fn of(object: &Bound<'_, PyAny>, mill: &Mill) -> PyResult<Keys> {
        if object.is_none() {
            return Ok(Keys::None);
        }
        if let Ok(key) = object.cast::<Key>() {
            let loaded = key.get().load(mill)?;
            return Ok(Keys::Loaded { ids: vec![loaded.id], _loaded: vec![loaded], is_one: true });
        }
        let is_keys = object.cast::<PyList>().is_ok() || object.cast::<PyTuple>().is_ok();
        if !is_keys || !object.get_item(0).is_ok_and(|first| first.cast::<Key>().is_ok()) {
            return Strings::of(object, "keys").map(Keys::Raw);
        }
        let (mut loaded, mut ids): (Vec<Loaded>, Vec<KeyId>) = (Vec::new(), Vec::new());
        let mut met: std::collections::HashMap<usize, KeyId> = std::collections::HashMap::new();
        for (at, item) in object.try_iter()?.enumerate() {
            let item = item?;
            let Ok(key) = item.cast::<Key>() else {
                return Err(errors::misuse(format!("keys, {at}: the first is a Key, and so all must be")));
            };
            let id = match met.get(&(item.as_ptr() as usize)) {
                Some(id) => *id,
                None => {
                    loaded.push(key.get().load(mill)?);
                    let id = loaded[loaded.len() - 1].id;
                    met.insert(item.as_ptr() as usize, id);
                    id
                }
            };
            ids.push(id);
        }
        Ok(Keys::Loaded { _loaded: loaded, ids, is_one: false })
    }

    fn check_count(&self, count: usize) -> PyResult<()> {
        match self {
            Keys::Raw(strings) => strings.check_count("keys", count),
            Keys::Loaded { ids, is_one: false, .. } if ids.len() != count => {
                Err(errors::misuse(format!("keys: {} for {count} messages", ids.len())))
            }
            _ => Ok(()),
        }
    }

    /// The same in the table.
    fn load(self, mill: &Mill, suite: Suite) -> PyResult<Keys> {
        let Keys::Raw(strings) = self else { return Ok(self) };
        let (bytes, extents) = (strings.bytes(), strings.extents());
        let mut loaded = Vec::new();
        for at in 0..strings.count().unwrap_or(1) {
            let (start, end) = extents.at(at);
            let key = KeyMaterial::secret(&bytes[start..end]);
            let id = mill.keys().import(key, KeyPolicy::only(suite)).map_err(errors::of_mill)?;
            loaded.push(Loaded::new(mill, id));
        }
        let is_one = strings.count().is_none();
        Ok(Keys::Loaded { ids: loaded.iter().map(|key| key.id).collect(), _loaded: loaded, is_one })
    }
}

/// A batch as it was asked for.
struct Request {
    suite: Suite,
    direction: Direction,
    keys: Keys,
    nonces: Option<Strings>,
    messages: Strings,
    aad: Option<Strings>,
    tag_len: usize,
    out: Option<Rows>,
}

/// What came of it.
struct Ended {
    /// Nothing where it went into an array.
    bytes: Vec<u8>,
    offsets: Vec<i64>,
    statuses: Vec<ColumnStatus>,
}

impl Request {
    /// Bytes that a result has more than its message, or has in all.
    fn result_len(&self, message_len: usize) -> PyResult<usize> {
        match (self.suite.transforms(), self.direction) {
            (false, _) => Ok(self.tag_len),
            (true, Direction::Encrypt) => Ok(message_len + self.tag_len),
            (true, Direction::Decrypt) => message_len.checked_sub(self.tag_len).ok_or_else(|| {
                errors::misuse(format!("messages: one has {message_len} bytes, and its tag {}", self.tag_len))
            }),
        }
    }

    fn run(self, mill: &Mill) -> PyResult<Ended> {
        let Some(count) = self.messages.count() else {
            return Err(errors::misuse("messages: a list of bytes, or an array of uint8 with a row for each"));
        };
        for (strings, what) in [(&self.nonces, "nonces"), (&self.aad, "associated data")] {
            strings.as_ref().map_or(Ok(()), |strings| strings.check_count(what, count))?;
        }
        self.keys.check_count(count)?;
        let inputs = self.messages.extents();
        let mut offsets = Vec::with_capacity(count + 1);
        offsets.push(0i64);
        let mut end = 0;
        for at in 0..count {
            let (start, stop) = inputs.at(at);
            end += self.result_len(stop - start)?;
            offsets.push(end as i64);
        }
        let mut own = Vec::new();
        let out = match self.out {
            Some(rows) if rows.len() != end || rows.count != count => {
                return Err(errors::misuse(format!(
                    "out: {} rows of {} bytes do not take the results",
                    rows.count, rows.width
                )));
            }
            // SAFETY: the caller holds the array until the batch has ended, and has just made it.
            Some(rows) => unsafe { rows.bytes_mut() },
            None => {
                own.resize(end, 0);
                &mut own[..]
            }
        };
        let mut statuses = vec![ColumnStatus::PENDING; count];
        self.run_into(mill, out, &offsets, &mut statuses)?;
        Ok(Ended { bytes: own, offsets, statuses })
    }

    fn run_into(self, mill: &Mill, out: &mut [u8], offsets: &[i64], statuses: &mut [ColumnStatus]) -> PyResult<()> {
        let Request { suite, direction, keys, nonces, messages, aad, tag_len, .. } = self;
        let (input, inputs) = (messages.bytes(), messages.extents());
        let (data, tags) = if suite.transforms() {
            let data = ColumnData::Separate { input, inputs, output: out, outputs: Extents::LargeOffsets(offsets) };
            let tags = match (tag_len, suite) {
                (0, _) => TagColumn::None,
                (len, Suite::Aead(Aead::AesSiv(_))) => TagColumn::Before { len },
                (len, _) => TagColumn::After { len },
            };
            (data, tags)
        } else {
            (ColumnData::Input { input, inputs }, TagColumn::Written { bytes: out, len: tag_len })
        };
        let ivs = match &nonces {
            None => IvColumn::None,
            Some(nonces) => {
                let len = nonces.width().ok_or_else(|| errors::misuse("nonces: all have one length"))?;
                if nonces.count().is_none() && statuses.len() != 1 {
                    return Err(errors::misuse("nonces: each message has its own"));
                }
                IvColumn::Each { bytes: nonces.bytes(), len }
            }
        };
        let aad = match &aad {
            None => AadColumn::None,
            Some(Strings::One(bytes)) => AadColumn::One(bytes),
            Some(each) => AadColumn::Each { bytes: each.bytes(), extents: each.extents() },
        };
        let keys = keys.load(mill, suite)?;
        let keys = match &keys {
            Keys::Loaded { ids, is_one: true, .. } => KeyColumn::One(ids[0]),
            Keys::Loaded { ids, .. } => KeyColumn::Each(ids),
            _ => KeyColumn::None,
        };
        let batch = ColumnBatch::new(suite, direction, data, statuses).with_keys(keys);
        mill.run_columns(batch.with_ivs(ivs).with_aad(aad).with_tags(tags)).map_err(errors::of_mill)?;
        Ok(())
    }
}

/// Runs a batch; `ciphermill/_batches.py` documents what it is to users. Results go into `out`, an array of rows, or come as a
/// list. A message that did not end well raises its error, or is `None` in the list if `keeps_going`.
#[pyfunction]
#[pyo3(signature = (suite, encrypts, keys, nonces, messages, aad, tag_len, out, keeps_going))]
#[expect(clippy::too_many_arguments, reason = "one private call of our own package")]
pub(crate) fn run_batch<'py>(
    py: Python<'py>,
    suite: &str,
    encrypts: bool,
    keys: &Bound<'py, PyAny>,
    nonces: Option<&Bound<'py, PyAny>>,
    messages: &Bound<'py, PyAny>,
    aad: Option<&Bound<'py, PyAny>>,
    tag_len: Option<usize>,
    out: Option<&Bound<'py, PyAny>>,
    keeps_going: bool,
) -> PyResult<Option<Bound<'py, PyList>>> {
    let mill = process::mill(py)?;
    let suite = parse_suite(suite)?;
    let out = match out {
        Some(out) => Some(Rows::of(out, "out", true)?.ok_or_else(|| errors::misuse("out: an array of uint8"))?),
        None => None,
    };
    let request = Request {
        suite,
        direction: if encrypts { Direction::Encrypt } else { Direction::Decrypt },
        keys: Keys::of(keys, &mill)?,
        nonces: nonces.map(|nonces| Strings::of(nonces, "nonces")).transpose()?,
        messages: Strings::of(messages, "messages")?,
        aad: aad.map(|aad| Strings::of(aad, "associated data")).transpose()?,
        tag_len: tag_len.unwrap_or_else(|| suite.default_tag_len()),
        out,
    };
    let ended = py.detach(|| request.run(&mill))?;
    let is_bad = |status: &ColumnStatus| !status.is_done();
    if !keeps_going && let Some(at) = ended.statuses.iter().position(is_bad) {
        let status = ended.statuses[at].status().unwrap_or(OpStatus::EngineFault);
        let message = format!("message {at}: {status}");
        return Err(errors::raise(errors::kind_of_status(status), message, None, Some(at as u64)));
    }
    if out.is_some() {
        return Ok(None);
    }
    let results = PyList::empty(py);
    for (ends, status) in ended.offsets.windows(2).zip(&ended.statuses) {
        let result = &ended.bytes[ends[0] as usize..ends[1] as usize];
        if status.is_done() {
            results.append(PyBytes::new(py, result))?;
        } else {
            results.append(py.None())?;
        }
    }
    Ok(Some(results))
}

/// Bytes of a suite's tag or digest when nobody says otherwise, and whether results have the length of their messages
/// beside it.
#[pyfunction]
pub(crate) fn suite_shape(suite: &str) -> PyResult<(usize, bool)> {
    let suite = parse_suite(suite)?;
    Ok((suite.default_tag_len(), suite.transforms()))
}
