//! The pages of a column chunk: their headers, checked before anything is allocated for what they claim.

use std::fs::File;
use std::os::unix::fs::FileExt;

use parquet::errors::ParquetError;

use super::thrift::{Parsed, Struct};

/// Bytes of a page, compressed or not. Writers make pages of 1 MB; some put a row group into one page.
pub const PAGE_LEN_MAX: usize = 128 << 20;

/// Values of a dictionary page.
pub const DICTIONARY_VALUES_MAX: usize = 2 << 20;

/// Bytes of a page header, which may hold statistics.
const HEADER_LEN_MAX: usize = 4 << 20;

const HEADER_LEN_USUAL: usize = 512;

const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const DATA_PAGE_V2: i64 = 3;

/// Values of Parquet's `Encoding`.
const PLAIN: i64 = 0;
const PLAIN_DICTIONARY: i64 = 2;
const RLE: i64 = 3;
const DELTA_BYTE_ARRAY: i64 = 7;
const RLE_DICTIONARY: i64 = 8;

/// Where the bytes of a column chunk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

/// A page's header and where its body is.
pub(crate) struct Page {
    pub(crate) header: Struct,
    pub(crate) body: Extent,
}

/// What the headers of a chunk's pages say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Values of the dictionary page.
    pub(crate) dictionary: Option<usize>,
    /// Levels of all data pages: rows of a flat column.
    pub(crate) levels: u64,
    /// Data pages whose values are indices into the dictionary, and others.
    pub(crate) by_dictionary: u64,
    pub(crate) by_value: u64,
    /// Data pages whose values are neither PLAIN nor in the dictionary, or whose levels are not encoded by RLE.
    pub(crate) unusual: u64,
    /// The encoding of the first data page that does not use the dictionary.
    pub(crate) encoding: Option<i64>,
    /// Version of the data pages: 1 or 2; of the first, should they differ.
    pub(crate) version: u8,
    /// Bytes of the longest data page in which values are built from those before them.
    pub(crate) longest_delta: usize,
    /// Bytes of the longest data page, and of the dictionary, uncompressed.
    pub(crate) page_len_max: usize,
    pub(crate) dictionary_len: usize,
}

/// Walks through the pages of a chunk.
pub(crate) struct Pages<'f> {
    file: &'f File,
    at: u64,
    end: u64,
}

impl<'f> Pages<'f> {
    pub(crate) fn new(file: &'f File, chunk: Extent) -> Pages<'f> {
        Pages { file, at: chunk.start, end: chunk.start + chunk.len }
    }

    /// The next page, whose sizes are within the chunk and the limits; nothing at the chunk's end.
    pub(crate) fn next(&mut self) -> Parsed<Option<Page>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let (header, header_len) = self.header()?;
        let size = |id| header.int(id).and_then(|size| usize::try_from(size).ok());
        let (Some(uncompressed), Some(compressed)) = (size(2), size(3)) else {
            return Err(damaged("a page has no size"));
        };
        let start = self.at + header_len;
        let end = start + compressed as u64;
        if end > self.end {
            return Err(damaged("a page reaches past its column chunk"));
        }
        if uncompressed.max(compressed) > PAGE_LEN_MAX {
            let found = uncompressed.max(compressed);
            return Err(ParquetError::General(format!(
                "a page has {found} bytes, and at most {PAGE_LEN_MAX} are read"
            )));
        }
        self.at = end;
        Ok(Some(Page { header, body: Extent { start, len: compressed as u64 } }))
    }

    fn header(&self) -> Parsed<(Struct, u64)> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let mut window = HEADER_LEN_USUAL;
        loop {
            let mut bytes = vec![0; window.min(left)];
            self.file.read_exact_at(&mut bytes, self.at)?;
            match Struct::parse(&bytes) {
                Ok((header, len)) => return Ok((header, len as u64)),
                Err(ParquetError::EOF(_)) if bytes.len() < left && window < HEADER_LEN_MAX => window *= 8,
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads all headers.
    pub(crate) fn survey(mut self) -> Parsed<Survey> {
        let mut survey = Survey::default();
        while let Some(page) = self.next()? {
            survey.add(&page)?;
        }
        Ok(survey)
    }
}

impl Survey {
    fn add(&mut self, page: &Page) -> Parsed<()> {
        let header = &page.header;
        let len = header.int(2).and_then(|len| usize::try_from(len).ok()).unwrap_or(PAGE_LEN_MAX);
        if let Some(dictionary) = page.dictionary_head() {
            let values = dictionary.int(1).and_then(|count| usize::try_from(count).ok());
            let values = values.ok_or_else(|| damaged("a dictionary has no length"))?;
            if values > DICTIONARY_VALUES_MAX {
                let limit = DICTIONARY_VALUES_MAX;
                return Err(ParquetError::General(format!(
                    "a dictionary has {values} values, and at most {limit} are read"
                )));
            }
            self.dictionary_len = len;
            if self.dictionary.replace(values).is_some() || self.by_dictionary + self.by_value > 0 {
                return Err(damaged("a dictionary does not stand first"));
            }
            return Ok(());
        }
        // Pages of other kinds (indices) hold no values.
        let Some((data, version)) = page.data_head() else { return Ok(()) };
        let levels = data.int(1).and_then(|count| u64::try_from(count).ok());
        self.page_len_max = self.page_len_max.max(len);
        self.levels += levels.ok_or_else(|| damaged("a page has no count of values"))?;
        let encoding = data.int(if version == 1 { 2 } else { 4 }).ok_or_else(|| damaged("a page has no encoding"))?;
        if self.version == 0 {
            self.version = version;
        }
        match encoding {
            PLAIN_DICTIONARY | RLE_DICTIONARY if self.dictionary.is_none() => {
                return Err(damaged("a page refers to a dictionary that is not there"));
            }
            PLAIN_DICTIONARY | RLE_DICTIONARY => self.by_dictionary += 1,
            other => {
                self.by_value += 1;
                self.encoding.get_or_insert(other);
            }
        }
        let has_usual_levels = version == 2 || data.int(3) == Some(RLE);
        let has_usual_values = matches!(encoding, PLAIN | PLAIN_DICTIONARY | RLE_DICTIONARY);
        self.unusual += u64::from(!has_usual_levels || !has_usual_values);
        if encoding == DELTA_BYTE_ARRAY {
            self.longest_delta = self.longest_delta.max(len);
        }
        Ok(())
    }

    /// Whether each value of the chunk is an index into its dictionary.
    pub(crate) fn is_all_dictionary(&self) -> bool {
        self.dictionary.is_some() && self.by_value == 0
    }

    /// The encoding of values beside the dictionary.
    pub(crate) fn value_encoding(&self) -> i64 {
        self.encoding.unwrap_or(PLAIN)
    }
}

impl Page {
    /// The header of a data page, and its version.
    pub(crate) fn data_head(&self) -> Option<(&Struct, u8)> {
        match self.header.int(1)? {
            DATA_PAGE => Some((self.header.record(5)?, 1)),
            DATA_PAGE_V2 => Some((self.header.record(8)?, 2)),
            _ => None,
        }
    }

    /// The header of a dictionary page.
    pub(crate) fn dictionary_head(&self) -> Option<&Struct> {
        (self.header.int(1)? == DICTIONARY_PAGE).then(|| self.header.record(7))?
    }
}

/// A header of a dictionary page of plain values.
pub(crate) fn dictionary_header(values: usize, uncompressed: usize, compressed: usize) -> Struct {
    let mut dictionary = Struct::default();
    dictionary.set_i32(1, size_i32(values));
    dictionary.set_i32(2, PLAIN as i32);
    let mut header = sized(DICTIONARY_PAGE, uncompressed, compressed);
    header.set(7, super::thrift::Value::Struct(dictionary));
    header
}

/// A header of a data page of version 1 whose values are indices into the dictionary.
pub(crate) fn index_header(levels: usize, uncompressed: usize, compressed: usize) -> Struct {
    const RLE: i32 = 3;
    let mut data = Struct::default();
    data.set_i32(1, size_i32(levels));
    data.set_i32(2, RLE_DICTIONARY as i32);
    data.set_i32(3, RLE);
    data.set_i32(4, RLE);
    let mut header = sized(DATA_PAGE, uncompressed, compressed);
    header.set(5, super::thrift::Value::Struct(data));
    header
}

/// A header of a data page of version 2 whose values are indices into the dictionary.
pub(crate) fn index_header_v2(
    rows: usize,
    nulls: usize,
    levels_len: usize,
    uncompressed: usize,
    compressed: usize,
) -> Struct {
    let mut data = Struct::default();
    let numbers = [rows, nulls, rows, RLE_DICTIONARY as usize, levels_len, 0];
    for (field, number) in (1..).zip(numbers) {
        data.set_i32(field, size_i32(number));
    }
    data.set(7, super::thrift::Value::Bool(true));
    let mut header = sized(DATA_PAGE_V2, uncompressed, compressed);
    header.set(8, super::thrift::Value::Struct(data));
    header
}

fn sized(kind: i64, uncompressed: usize, compressed: usize) -> Struct {
    let mut header = Struct::default();
    header.set_i32(1, kind as i32);
    header.set_i32(2, size_i32(uncompressed));
    header.set_i32(3, size_i32(compressed));
    header
}

/// A size that [`PAGE_LEN_MAX`] bounds.
pub(crate) fn size_i32(size: usize) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}

fn damaged(problem: &str) -> ParquetError {
    ParquetError::General(problem.to_owned())
}
