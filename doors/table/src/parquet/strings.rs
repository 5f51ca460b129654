//! Reads the byte strings of a flat chunk where they are PLAIN or in its dictionary: as places in their pages, without a counted
//! handle for each, which took an eighth of the time of protecting a table.

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};

use crate::column::NULL_ROW;
use crate::encode::{Span, Spans};

use super::guard::{damaged, split};
use super::levels::Runs;
use super::thrift::Parsed;

/// The byte strings of a PLAIN page.
///
/// # Errors
/// When there are not as many.
pub(super) fn of_plain(page: Bytes, count: usize) -> Parsed<Spans> {
    let mut spans = Vec::with_capacity(count.min(page.len() / 4));
    let mut at = 0;
    for _ in 0..count {
        spans.push(next_plain(&page, &mut at, 0)?);
    }
    Ok(Spans { buffers: vec![page], spans })
}

/// The next byte string of a PLAIN page: four bytes of length, little-endian, and its own.
#[inline]
fn next_plain(page: &[u8], at: &mut usize, buffer: u32) -> Parsed<Span> {
    let short = || damaged("it has fewer values than its levels say");
    let len = page.get(*at..).and_then(<[u8]>::first_chunk::<4>).ok_or_else(short)?;
    let (start, len) = (*at + 4, u32::from_le_bytes(*len));
    if page.len() - start < len as usize {
        return Err(short());
    }
    *at = start + len as usize;
    // Pages are far shorter than 4 GiB (`PAGE_LEN_MAX`).
    Ok(Span { buffer, start: start as u32, len })
}

/// Reads such a chunk.
pub(super) struct StringReader {
    pages: Box<dyn PageReader>,
    nullable: bool,
    dictionary: Option<Spans>,
    page: Option<StringPage>,
}

/// A data page on its way.
struct StringPage {
    body: Bytes,
    /// Its rows that are left.
    left: usize,
    /// Which of them have values, where they may be null.
    levels: Option<Runs<Bytes>>,
    values: Values,
}

enum Values {
    /// From this place on.
    Plain(usize),
    Indices(Runs<Bytes>),
}

impl StringReader {
    pub(super) fn new(pages: Box<dyn PageReader>, nullable: bool) -> StringReader {
        StringReader { pages, nullable, dictionary: None, page: None }
    }

    /// The next rows, fewer than `step` only at the end: which value each has, or [`NULL_ROW`], and the values.
    pub(super) fn next(&mut self, step: usize) -> Parsed<(Vec<u32>, Spans)> {
        let (mut slots, mut found) = (Vec::new(), Spans::default());
        let dictionary = self.dictionary.take();
        let mut taking = Taking { slots: &mut slots, found: &mut found, dictionary };
        while taking.slots.len() < step {
            let Some(page) = self.page.as_mut().filter(|page| page.left > 0) else {
                let Some(page) = self.pages.get_next_page()? else { break };
                self.load(page, &mut taking)?;
                continue;
            };
            let wanted = page.left.min(step - taking.slots.len());
            taking.take(page, wanted)?;
        }
        self.dictionary = taking.dictionary;
        Ok((slots, found))
    }

    fn load(&mut self, page: Page, taking: &mut Taking<'_>) -> Parsed<()> {
        if let Page::DictionaryPage { buf, num_values, .. } = page {
            taking.dictionary = Some(of_plain(buf, num_values as usize)?);
            return Ok(());
        }
        let (encoding, left, buffer) = (page.encoding(), page.num_values() as usize, page.buffer().clone());
        let (start, len) = match &page {
            Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
                (*rep_levels_byte_len as usize, *def_levels_byte_len as usize)
            }
            _ if self.nullable => {
                let len = buffer.first_chunk::<4>().ok_or_else(|| damaged("its levels have no length"))?;
                (4, u32::from_le_bytes(*len) as usize)
            }
            _ => (0, 0),
        };
        let (levels, body) = split(&buffer, start, len)?;
        let (levels, body) = (buffer.slice_ref(levels), buffer.slice_ref(body));
        let levels = self.nullable.then(|| Runs::new(levels, 1, left)).transpose()?;
        let values = match encoding {
            Encoding::PLAIN => Values::Plain(0),
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY if taking.dictionary.is_some() => {
                // A page without values has no width.
                let width = body.first().copied().unwrap_or(0);
                Values::Indices(Runs::new(body.slice(body.len().min(1)..), width, left)?)
            }
            other => return Err(damaged(&format!("its values are {other}, which was not announced"))),
        };
        self.page = Some(StringPage { body, left, levels, values });
        Ok(())
    }
}

/// Rows that are being taken.
struct Taking<'a> {
    slots: &'a mut Vec<u32>,
    found: &'a mut Spans,
    dictionary: Option<Spans>,
}

impl Taking<'_> {
    fn take(&mut self, page: &mut StringPage, wanted: usize) -> Parsed<()> {
        page.left -= wanted;
        // A page without values is not kept.
        let mut buffer = None;
        let Some(mut levels) = page.levels.take() else { return self.values(page, wanted, &mut buffer) };
        let mut left = wanted;
        while left > 0 {
            let (level, times) =
                levels.next(left)?.ok_or_else(|| damaged("it has fewer levels than its header says"))?;
            left -= times;
            match level {
                0 => self.slots.extend(std::iter::repeat_n(NULL_ROW, times)),
                1 => self.values(page, times, &mut buffer)?,
                _ => return Err(damaged("a level is past the column's")),
            }
        }
        page.levels = Some(levels);
        Ok(())
    }

    /// The next values of a page, which lie in `buffer`.
    fn values(&mut self, page: &mut StringPage, count: usize, buffer: &mut Option<u32>) -> Parsed<()> {
        let Spans { buffers, spans } = self.found;
        let dictionary = self.dictionary.as_ref();
        let buffer = *buffer.get_or_insert_with(|| {
            buffers.push(match (&page.values, dictionary.and_then(|dictionary| dictionary.buffers.first())) {
                (Values::Indices(_), Some(dictionary)) => dictionary.clone(),
                _ => page.body.clone(),
            });
            buffers.len() as u32 - 1
        });
        let first = spans.len();
        match &mut page.values {
            Values::Plain(at) => {
                for _ in 0..count {
                    spans.push(next_plain(&page.body, at, buffer)?);
                }
            }
            Values::Indices(runs) => {
                let dictionary = dictionary.map_or(&[][..], |dictionary| &dictionary.spans);
                let mut left = count;
                while left > 0 {
                    let (index, times) =
                        runs.next(left)?.ok_or_else(|| damaged("it has fewer values than its levels say"))?;
                    let span =
                        dictionary.get(index as usize).ok_or_else(|| damaged("an index is past the dictionary"))?;
                    spans.extend(std::iter::repeat_n(Span { buffer, ..*span }, times));
                    left -= times;
                }
            }
        }
        // A batch has far fewer than 2^32 rows.
        self.slots.extend(first as u32..spans.len() as u32);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::path::Path;
    use std::sync::Arc;

    use arrow_array::{ArrayRef, RecordBatch, StringArray};
    use arrow_schema::{DataType, Field, Schema};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::{WriterProperties, WriterVersion};
    use proptest::prelude::*;

    use super::super::ParquetInput;
    use super::super::read::ChunkReader;
    use super::*;

    fn file_of(values: &[Option<String>], nullable: bool, properties: WriterProperties) -> File {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, nullable)]));
        let column: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
        let file = tempfile::tempfile().unwrap();
        let mut writer =
            ArrowWriter::try_new(file.try_clone().unwrap(), Arc::clone(&schema), Some(properties)).unwrap();
        writer.write(&RecordBatch::try_new(schema, vec![column]).unwrap()).unwrap();
        writer.close().unwrap();
        file
    }

    /// Pages as no library of ours writes them.
    struct Pages(std::vec::IntoIter<Page>);

    impl PageReader for Pages {
        fn get_next_page(&mut self) -> Parsed<Option<Page>> {
            Ok(self.0.next())
        }

        fn peek_next_page(&mut self) -> Parsed<Option<parquet::column::page::PageMetadata>> {
            Ok(None)
        }

        fn skip_next_page(&mut self) -> Parsed<()> {
            Ok(())
        }
    }

    impl Iterator for Pages {
        type Item = Parsed<Page>;

        fn next(&mut self) -> Option<Parsed<Page>> {
            self.0.next().map(Ok)
        }
    }

    /// A data page of version 1, of levels and what follows them.
    fn page(encoding: Encoding, rows: u32, levels: &[u8], body: &[u8]) -> Page {
        let buf = [&(levels.len() as u32).to_le_bytes()[..], levels, body].concat().into();
        let (def_level_encoding, rep_level_encoding) = (Encoding::RLE, Encoding::RLE);
        Page::DataPage { buf, num_values: rows, encoding, def_level_encoding, rep_level_encoding, statistics: None }
    }

    /// The values of a nullable column of these pages behind a dictionary of `a`, `b`, `c`.
    fn hand_made(pages: Vec<Page>) -> Parsed<(Vec<Option<char>>, usize)> {
        let buf = b"\x01\0\0\0a\x01\0\0\0b\x01\0\0\0c".as_slice().into();
        let dictionary = Page::DictionaryPage { buf, num_values: 3, encoding: Encoding::PLAIN, is_sorted: false };
        let pages: Vec<Page> = std::iter::once(dictionary).chain(pages).collect();
        let (slots, spans) = StringReader::new(Box::new(Pages(pages.into_iter())), true).next(1000)?;
        let value = |slot: &u32| (*slot != NULL_ROW).then(|| char::from(spans.at(*slot as usize)[0]));
        Ok((slots.iter().map(value).collect(), spans.buffers.len()))
    }

    #[test]
    fn pages_of_other_writers_are_read() {
        // Levels 0 and 1 by turns; of two groups of five-bit indices only the ten that there are.
        let levels = [0x07, 0x55, 0x55, 0x55];
        let indices = [5, 0x05, 0x20, 0x08, 0x10, 0x04, 0x08, 0x02, 0x00];
        let (values, _) = hand_made(vec![page(Encoding::RLE_DICTIONARY, 20, &levels, &indices)]).unwrap();
        let found: String = values.iter().flatten().collect();
        assert_eq!((values.len(), found.as_str()), (20, "abcabcabca"));
        assert!(values.iter().step_by(2).all(Option::is_some) || values.iter().step_by(2).all(Option::is_none));
        // Nulls alone, with and without anything behind them; no page of theirs is kept.
        let nulls = || page(Encoding::PLAIN, 3, &[6, 0], &[]);
        let padded = page(Encoding::PLAIN, 3, &[6, 0], &[9; 100]);
        let empty = page(Encoding::RLE_DICTIONARY, 3, &[6, 0], &[]);
        assert_eq!(hand_made(vec![nulls(), padded, empty]).unwrap(), (vec![None; 9], 0));
        // One value for all, whose index has no bits, and no rows at all.
        let same = page(Encoding::PLAIN_DICTIONARY, 2, &[4, 1], &[0, 4]);
        let none = page(Encoding::PLAIN, 0, &[], &[]);
        assert_eq!(hand_made(vec![none, same]).unwrap(), (vec![Some('a'); 2], 1));
    }

    #[test]
    fn pages_that_are_wrong_are_errors() {
        for (encoding, rows, levels, body, said) in [
            (Encoding::PLAIN, 2, &[4, 3][..], &[1, 0, 0, 0, b'x'][..], "a level is past"),
            (Encoding::PLAIN, 2, &[4, 1], &[1, 0, 0, 0, b'x'], "fewer values"),
            (Encoding::PLAIN, 1, &[2, 1], &[9, 0, 0, 0, b'x'], "fewer values"),
            (Encoding::PLAIN, 9, &[2, 1], &[1, 0, 0, 0, b'x'], "a run has no length"),
            (Encoding::RLE_DICTIONARY, 2, &[4, 1], &[2, 4, 3], "past the dictionary"),
            (Encoding::RLE_DICTIONARY, 2, &[4, 1], &[2, 2, 1], "a run has no length"),
            (Encoding::RLE_DICTIONARY, 2, &[4, 1], &[40, 4, 1], "more than 32 bits"),
            (Encoding::DELTA_BYTE_ARRAY, 2, &[4, 1], &[], "was not announced"),
        ] {
            let error = hand_made(vec![page(encoding, rows, levels, body)]).unwrap_err().to_string();
            assert!(error.contains(said), "{error}, and not {said}");
        }
    }

    type Found = Parsed<Vec<Option<Vec<u8>>>>;

    fn values_of(mut reader: ChunkReader, step: usize) -> Found {
        let mut all = Vec::new();
        while let Some(rows) = reader.next(step)? {
            assert!(rows.len() <= step);
            let cells = rows.stretch(0, rows.len());
            all.extend((0..rows.len()).map(|row| (!cells.is_null(row)).then(|| cells.value(row).to_vec())));
        }
        Ok(all)
    }

    /// What our reader and the library's make of the only column of a file.
    fn both(file: File, step: usize) -> Result<(Found, Found), crate::error::TableError> {
        let input = ParquetInput::open(file, Path::new("t.parquet"))?;
        let Some(group) = input.footer.groups().next() else { return Ok((Ok(Vec::new()), Ok(Vec::new()))) };
        let (source, survey) = input.surveyed(group, 0).map_err(|source| input.error(source))?;
        let own = ChunkReader::new(&source, &survey).and_then(|reader| values_of(reader, step));
        // The library asserts some of what a damaged page may have otherwise.
        let theirs = || ChunkReader::of_library(&source, &survey).and_then(|reader| values_of(reader, step));
        let theirs = catch_unwind(AssertUnwindSafe(theirs)).unwrap_or_else(|_| Err(damaged("it panicked")));
        Ok((own, theirs))
    }

    proptest! {
        #[test]
        fn strings_are_those_that_the_library_reads(
            values in prop::collection::vec(prop::option::weighted(0.8, "[a-d]{0,3}|[a-z]{0,60}"), 0..600),
            nullable: bool,
            dictionary: bool,
            second: bool,
            page_rows in 1usize..200,
            step in 1usize..300,
        ) {
            let values: Vec<Option<String>> =
                values.into_iter().map(|value| value.or((!nullable).then(String::new))).collect();
            let version = if second { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
            // The dictionary is given up on the way.
            let properties = WriterProperties::builder()
                .set_writer_version(version)
                .set_encoding(Encoding::PLAIN)
                .set_dictionary_enabled(dictionary)
                .set_dictionary_page_size_limit(400)
                .set_write_batch_size(1 + page_rows / 2)
                .set_data_page_row_count_limit(page_rows)
                .build();
            let (own, theirs) = both(file_of(&values, nullable, properties), step).unwrap();
            let wanted: Vec<Option<Vec<u8>>> = values.iter().map(|value| value.clone().map(String::into_bytes)).collect();
            prop_assert_eq!(own.unwrap(), wanted.clone());
            prop_assert_eq!(theirs.unwrap(), wanted);
        }

        /// Never a panic; and what both take for good is the same.
        #[test]
        fn damaged_pages_are_errors(at in 4usize..2000, bit in 0u8..8, dictionary: bool, nullable: bool) {
            use std::os::unix::fs::FileExt;
            let values: Vec<Option<String>> =
                (0..200).map(|row| (!nullable || row % 7 != 0).then(|| format!("value {}", row % 40))).collect();
            let properties =
                WriterProperties::builder().set_encoding(Encoding::PLAIN).set_dictionary_enabled(dictionary).build();
            let file = file_of(&values, nullable, properties);
            let mut byte = [0];
            if file.read_exact_at(&mut byte, at as u64).is_err() {
                return Ok(());
            }
            file.write_all_at(&[byte[0] ^ 1 << bit], at as u64).unwrap();
            if let Ok((Ok(own), Ok(theirs))) = both(file, 64) {
                prop_assert_eq!(own, theirs);
            }
        }
    }
}
