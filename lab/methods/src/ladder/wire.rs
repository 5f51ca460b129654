//! What the lab and its child say to each other: messages of a head and a body, all numbers little-endian.
//!
//! | head | bytes |
//! |---|---|
//! | `CmLd` | 4 |
//! | kind | 1 |
//! | how the operations lie in the body and are worked on, zero without operations | 1 |
//! | which of the child's mills | 1 |
//! | zero | 1 |
//! | operations (for [`Kind::Ring`] cells) | 4 |
//! | bytes of the body (for [`Kind::Cell`] and [`Kind::Ring`]: in a cell) | 4 |
//!
//! Whoever reads refuses what breaks a rule and says which one, and where.

use std::fmt;
use std::ops::Range;

/// Bytes of a head.
pub(crate) const HEAD_LEN: usize = 16;

/// Bytes that a body may have.
pub(crate) const BODY_MAX: usize = 16 << 20;

/// Operations that a message may hold.
pub(crate) const OPS_MAX: usize = 1 << 16;

/// Bytes of a block, and so of an IV, of the suites that the ladder is climbed with.
pub(crate) const BLOCK: usize = 8;

/// Bytes that a cell of the ring begins with: how many operations follow, and a zero.
pub(crate) const CELL_HEAD_LEN: usize = 8;

const MAGIC: [u8; 4] = *b"CmLd";

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WireError {
    /// The byte of the head or the body at which the rule is broken.
    pub(crate) at: usize,
    /// The rule.
    pub(crate) rule: &'static str,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.at, self.rule)
    }
}

fn broken<T>(at: usize, rule: &'static str) -> Result<T, WireError> {
    Err(WireError { at, rule })
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Opens a mill; the body is an [`Opening`].
    Open = 1,
    /// Operations.
    Run = 2,
    /// Operations that lie in the first cell of the shared memory.
    Cell = 3,
    /// From now on operations come through all cells, until one comes with none.
    Ring = 4,
    /// The answer: opened, and the name of the kernel; or ready for the ring.
    Ready = 17,
    /// The answer: the outputs, or the body with the outputs in the inputs' places.
    Output = 18,
    /// The answer: why not, as text.
    Refused = 19,
}

impl Kind {
    const ALL: [Kind; 7] = [Kind::Open, Kind::Run, Kind::Cell, Kind::Ring, Kind::Ready, Kind::Output, Kind::Refused];
}

/// How operations lie in a message and what is done with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum How {
    /// Each with its wrapped key, which is unwrapped each time; the mill is called for each.
    Unwrapped = 1,
    /// The same, but unwrapped keys are found again by their wrapped form.
    Cached = 2,
    /// One wrapped key for all; one operation of the engine, whose chaining is broken afterwards.
    Chained = 3,
    /// Each with its wrapped key (found again); the mill is called once.
    Whole = 4,
    /// Each with the index of its key; the mill is called once, and works where the data lie.
    InPlace = 5,
    /// The same, with all keys first, then all lengths, all IVs, all data.
    Grouped = 6,
}

impl How {
    /// Every way.
    pub(crate) const ALL: [How; 6] =
        [How::Unwrapped, How::Cached, How::Chained, How::Whole, How::InPlace, How::Grouped];

    /// Whether outputs take the inputs' places in the message.
    pub(crate) fn is_in_place(self) -> bool {
        matches!(self, How::InPlace | How::Grouped)
    }

    /// Bytes of a body of `count` operations with `bytes` bytes of data together.
    pub(crate) fn body_len(self, count: usize, bytes: usize, wrapped_len: usize) -> usize {
        let (once, each) = match self {
            How::Chained => (wrapped_len, 4 + BLOCK),
            How::Unwrapped | How::Cached | How::Whole => (0, wrapped_len + 4 + BLOCK),
            How::InPlace | How::Grouped => (0, 4 + 4 + BLOCK),
        };
        once + each * count + bytes
    }
}

/// A message's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) how: Option<How>,
    pub(crate) mill: u8,
    pub(crate) count: usize,
    pub(crate) len: usize,
}

impl Head {
    /// A head without operations.
    pub(crate) fn plain(kind: Kind, len: usize) -> Head {
        Head { kind, how: None, mill: 0, count: 0, len }
    }

    /// Bytes that follow the head.
    pub(crate) fn body_len(&self) -> usize {
        if matches!(self.kind, Kind::Cell | Kind::Ring) { 0 } else { self.len }
    }

    /// The head as bytes. Numbers beyond 32 bits saturate, and are refused by whoever reads them.
    pub(crate) fn to_bytes(self) -> [u8; HEAD_LEN] {
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes();
        let mut bytes = [0; HEAD_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.kind as u8;
        bytes[5] = self.how.map_or(0, |how| how as u8);
        bytes[6] = self.mill;
        bytes[8..12].copy_from_slice(&number(self.count));
        bytes[12..].copy_from_slice(&number(self.len));
        bytes
    }

    /// Reads a head.
    ///
    /// # Errors
    /// The first rule that is broken, with the byte.
    pub(crate) fn read(bytes: &[u8; HEAD_LEN]) -> Result<Head, WireError> {
        if bytes[..4] != MAGIC {
            return broken(0, "a message begins with `CmLd`");
        }
        let Some(kind) = Kind::ALL.into_iter().find(|kind| *kind as u8 == bytes[4]) else {
            return broken(4, "there is no such kind of message");
        };
        let how = How::ALL.into_iter().find(|how| *how as u8 == bytes[5]);
        let with_ops = matches!(kind, Kind::Run | Kind::Cell | Kind::Ring);
        if how.is_some() != with_ops || (how.is_none() && bytes[5] != 0) {
            return broken(5, "messages with operations, and no others, say how these lie");
        }
        if bytes[7] != 0 {
            return broken(7, "this byte is zero");
        }
        let [count, len] = [8, 12].map(|at| number(bytes, at).unwrap_or(usize::MAX));
        if (with_ops && count == 0) || count > OPS_MAX {
            return broken(8, "a message holds 1 to 65536 operations");
        }
        if len > BODY_MAX {
            return broken(12, "a body has at most 16 MiB");
        }
        Ok(Head { kind, how, mill: bytes[6], count, len })
    }
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?) as usize)
}

/// How an operation names its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyName {
    /// Where the wrapped key lies in the body.
    Wrapped(Range<usize>),
    /// Its place among the keys that the mill was opened with.
    Index(usize),
}

/// An operation as it lies in a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) key: KeyName,
    pub(crate) iv: [u8; BLOCK],
    /// Where the data lie in the body.
    pub(crate) data: Range<usize>,
}

/// An operation that is to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) key: usize,
    pub(crate) wrapped: &'a [u8],
    pub(crate) iv: &'a [u8],
    pub(crate) data: &'a [u8],
}

/// Writes bytes one behind the other; beyond the end nothing is written, and the position says how many were wanted.
struct Pen<'a> {
    room: &'a mut [u8],
    at: usize,
}

impl Pen<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        if let Some(place) = self.room.get_mut(self.at..end) {
            place.copy_from_slice(bytes);
        }
        self.at = end;
    }

    #[inline]
    fn put_number(&mut self, value: usize) {
        self.put(&u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes());
    }
}

/// Writes operations the way that `how` says. Returns the length that they need, which is written only if it fits `room`.
pub(crate) fn write_items<'a, I>(how: How, items: I, room: &mut [u8]) -> usize
where
    I: Iterator<Item = Outgoing<'a>> + Clone,
{
    let mut pen = Pen { room, at: 0 };
    match how {
        How::Unwrapped | How::Cached | How::Whole => {
            for item in items {
                pen.put(item.wrapped);
                pen.put_number(item.data.len());
                pen.put(item.iv);
                pen.put(item.data);
            }
        }
        How::Chained => {
            if let Some(first) = items.clone().next() {
                pen.put(first.wrapped);
            }
            for item in items {
                pen.put_number(item.data.len());
                pen.put(item.iv);
                pen.put(item.data);
            }
        }
        How::InPlace => {
            for item in items {
                pen.put_number(item.key);
                pen.put_number(item.data.len());
                pen.put(item.iv);
                pen.put(item.data);
            }
        }
        How::Grouped => {
            items.clone().for_each(|item| pen.put_number(item.key));
            items.clone().for_each(|item| pen.put_number(item.data.len()));
            items.clone().for_each(|item| pen.put(item.iv));
            items.for_each(|item| pen.put(item.data));
        }
    }
    pen.at
}

/// Goes through a body's operations, in their order, after having found that it holds them and nothing else.
///
/// # Errors
/// The first rule that is broken, with the byte; `each` has then seen what lies before it. What `each` returns.
pub(crate) fn read_items(
    how: How,
    count: usize,
    wrapped_len: usize,
    body: &[u8],
    mut each: impl FnMut(Item) -> Result<(), WireError>,
) -> Result<(), WireError> {
    let end = if how == How::Grouped {
        read_grouped(count, body, &mut each)?
    } else {
        let mut at = 0;
        let mut wrapped = 0..0;
        if how == How::Chained {
            wrapped = take(body, &mut at, wrapped_len, "the body ends within the wrapped key")?;
        }
        for _ in 0..count {
            let key = match how {
                How::InPlace => KeyName::Index(take_number(body, &mut at, "the body ends within an index of a key")?),
                How::Chained => KeyName::Wrapped(wrapped.clone()),
                _ => KeyName::Wrapped(take(body, &mut at, wrapped_len, "the body ends within a wrapped key")?),
            };
            let len_at = at;
            let len = take_number(body, &mut at, "the body ends within a length")?;
            let iv = read_iv(body, &mut at)?;
            let data = take_data(body, &mut at, len, len_at)?;
            each(Item { key, iv, data })?;
        }
        at
    };
    if end == body.len() { Ok(()) } else { broken(end, "bytes follow the last operation") }
}

fn read_grouped(
    count: usize,
    body: &[u8],
    each: &mut impl FnMut(Item) -> Result<(), WireError>,
) -> Result<usize, WireError> {
    let mut data_at = count.saturating_mul(4 + 4 + BLOCK);
    if body.len() < data_at {
        return broken(body.len(), "the body ends within the parameters");
    }
    for n in 0..count {
        let (mut key_at, mut len_at, mut iv_at) = (4 * n, 4 * (count + n), 8 * count + BLOCK * n);
        let key = KeyName::Index(take_number(body, &mut key_at, "the body ends within an index of a key")?);
        let place = len_at;
        let len = take_number(body, &mut len_at, "the body ends within a length")?;
        let iv = read_iv(body, &mut iv_at)?;
        let data = take_data(body, &mut data_at, len, place)?;
        each(Item { key, iv, data })?;
    }
    Ok(data_at)
}

#[inline]
fn take(body: &[u8], at: &mut usize, len: usize, rule: &'static str) -> Result<Range<usize>, WireError> {
    let range = *at..at.saturating_add(len);
    if range.end > body.len() {
        return broken(*at, rule);
    }
    *at = range.end;
    Ok(range)
}

#[inline]
fn take_number(body: &[u8], at: &mut usize, rule: &'static str) -> Result<usize, WireError> {
    let place = take(body, at, 4, rule)?;
    number(body, place.start).map_or_else(|| broken(place.start, rule), Ok)
}

#[inline]
fn read_iv(body: &[u8], at: &mut usize) -> Result<[u8; BLOCK], WireError> {
    let place = take(body, at, BLOCK, "the body ends within an IV")?;
    let mut iv = [0; BLOCK];
    iv.copy_from_slice(&body[place]);
    Ok(iv)
}

#[inline]
fn take_data(body: &[u8], at: &mut usize, len: usize, len_at: usize) -> Result<Range<usize>, WireError> {
    if len == 0 || !len.is_multiple_of(BLOCK) {
        return broken(len_at, "data are whole blocks, one at least");
    }
    take(body, at, len, "the body ends within an operation's data")
}

/// What a mill of the child is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// The suite's name.
    pub(crate) suite: String,
    /// The engine's name.
    pub(crate) engine: String,
    /// Whether known-answer tests and a witness are on.
    pub(crate) checked: bool,
    /// The key that the others are wrapped under. Made up for the measuring, like all of them.
    pub(crate) wrapping: [u8; 32],
    /// The keys, wrapped, all of one length.
    pub(crate) wrapped: Vec<Vec<u8>>,
}

impl Opening {
    /// The body: lengths of the two names (1 byte each), `checked`, length of a wrapped key, the number of keys (4 bytes),
    /// then the names, the wrapping key and the keys.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let short = |len: usize| u8::try_from(len).unwrap_or(u8::MAX);
        let wrapped_len = self.wrapped.first().map_or(0, Vec::len);
        let lengths = [self.suite.len(), self.engine.len(), usize::from(self.checked), wrapped_len].map(short);
        let count = u32::try_from(self.wrapped.len()).unwrap_or(u32::MAX).to_le_bytes();
        let parts = [&lengths[..], &count, self.suite.as_bytes(), self.engine.as_bytes(), &self.wrapping];
        parts.into_iter().chain(self.wrapped.iter().map(Vec::as_slice)).flatten().copied().collect()
    }

    /// Reads the body.
    ///
    /// # Errors
    /// The first rule that is broken, with the byte.
    pub(crate) fn read(body: &[u8]) -> Result<Opening, WireError> {
        let mut at = 0;
        let lengths = take(body, &mut at, 4, "the body ends within the lengths")?;
        let [suite_len, engine_len, checked, wrapped_len] =
            <[u8; 4]>::try_from(&body[lengths]).unwrap_or_default().map(usize::from);
        if checked > 1 {
            return broken(2, "this byte is 0 or 1");
        }
        let count = take_number(body, &mut at, "the body ends within the number of keys")?;
        let mut text = |len: usize| {
            let from = at;
            let place = take(body, &mut at, len, "the body ends within a name")?;
            let text = std::str::from_utf8(&body[place]).map_err(|_| WireError { at: from, rule: "names are text" })?;
            Ok(text.to_owned())
        };
        let (suite, engine) = (text(suite_len)?, text(engine_len)?);
        let place = take(body, &mut at, 32, "the body ends within the wrapping key")?;
        let mut wrapping = [0; 32];
        wrapping.copy_from_slice(&body[place]);
        if body.len() - at != count.saturating_mul(wrapped_len) || (count != 0 && wrapped_len == 0) {
            return broken(at, "the wrapped keys do not fill the rest of the body");
        }
        let wrapped = body[at..].chunks(wrapped_len.max(1)).map(<[u8]>::to_vec).collect();
        Ok(Opening { suite, engine, checked: checked == 1, wrapping, wrapped })
    }
}

#[cfg(test)]
mod tests;
