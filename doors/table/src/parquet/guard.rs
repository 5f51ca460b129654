//! Stands between the pages of a chunk and their decoder: a page whose delta encoding claims more values than the page has
//! is refused, since the decoder makes room for what is claimed.

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;

use super::thrift::Parsed;

/// Values of a page of delta-encoded byte strings; their lengths are held in memory.
const DELTA_VALUES_MAX: usize = 16 << 20;

/// Miniblocks of a block; writers use 4.
const MINI_BLOCKS_MAX: u64 = 1024;

/// Hands pages on after a look at them.
pub(crate) struct Guard<R> {
    pages: R,
    level_kinds: usize,
}

impl<R: PageReader> Guard<R> {
    /// `level_kinds` is how many kinds of levels the column has: none, definition levels, or repetition levels too.
    pub(crate) fn new(pages: R, level_kinds: usize) -> Guard<R> {
        Guard { pages, level_kinds }
    }

    fn check(&self, page: &Page) -> Parsed<()> {
        let streams = match page.encoding() {
            Encoding::DELTA_BINARY_PACKED | Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
            Encoding::DELTA_BYTE_ARRAY => 2,
            _ => return Ok(()),
        };
        let bytes = page.buffer().as_ref();
        let mut at = match page {
            Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
                *def_levels_byte_len as usize + *rep_levels_byte_len as usize
            }
            Page::DataPage { .. } => skip_levels(bytes, self.level_kinds)?,
            Page::DictionaryPage { .. } => 0,
        };
        let limit = page.num_values() as usize;
        if page.encoding() != Encoding::DELTA_BINARY_PACKED && limit > DELTA_VALUES_MAX {
            return Err(damaged(&format!("it has {limit} values, and at most {DELTA_VALUES_MAX} are read")));
        }
        for _ in 0..streams {
            let stream = bytes.get(at..).ok_or_else(|| damaged("levels reach past the page"))?;
            at += skip_delta(stream, limit)?;
        }
        Ok(())
    }
}

/// The length of the levels at the start of a data page of version 1, each kind with its own length before it.
fn skip_levels(bytes: &[u8], kinds: usize) -> Parsed<usize> {
    let mut at = 0usize;
    for _ in 0..kinds {
        let len = bytes.get(at..).and_then(<[u8]>::first_chunk::<4>).ok_or_else(|| damaged("levels have no length"))?;
        at = at.saturating_add(4 + u32::from_le_bytes(*len) as usize);
    }
    Ok(at)
}

/// The length of a stream of delta-encoded integers (`Encodings.md`, "DELTA_BINARY_PACKED"), which has `limit` of them at
/// most.
fn skip_delta(stream: &[u8], limit: usize) -> Parsed<usize> {
    let mut at = 0;
    let block = varint(stream, &mut at)?;
    let mini_blocks = varint(stream, &mut at)?;
    let total = varint(stream, &mut at)?;
    varint(stream, &mut at)?;
    if total > limit as u64 {
        return Err(damaged(&format!("its values claim to be {total}, and the page has {limit}")));
    }
    if mini_blocks == 0 || mini_blocks > MINI_BLOCKS_MAX || block == 0 || block > u64::from(u32::MAX) {
        return Err(damaged("its blocks are out of range"));
    }
    let (mini_blocks, per_mini_block) = (mini_blocks as usize, block / mini_blocks);
    let mut left = total.saturating_sub(1);
    while left > 0 {
        varint(stream, &mut at)?;
        let widths = stream.get(at..at + mini_blocks).ok_or_else(|| damaged("a block ends early"))?;
        at += mini_blocks;
        for width in widths {
            if left == 0 {
                break;
            }
            at += (per_mini_block * u64::from(*width)).div_ceil(8) as usize;
            left = left.saturating_sub(per_mini_block.max(1));
        }
        if at > stream.len() && left > 0 {
            return Err(damaged("a block ends early"));
        }
    }
    Ok(at.min(stream.len()))
}

fn varint(bytes: &[u8], at: &mut usize) -> Parsed<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at).ok_or_else(|| damaged("a block ends early"))?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(damaged("an integer is too long"))
}

/// The bytes from `start` on that are levels, and what follows them.
pub(super) fn split(buffer: &[u8], start: usize, len: usize) -> Parsed<(&[u8], &[u8])> {
    let end = start.saturating_add(len);
    match (buffer.get(start..end), buffer.get(end..)) {
        (Some(levels), Some(rest)) => Ok((levels, rest)),
        _ => Err(damaged("its levels reach past the page")),
    }
}

/// A page whose content is not as the format has it.
pub(super) fn damaged(problem: &str) -> ParquetError {
    ParquetError::General(format!("a page: {problem}"))
}

impl<R: PageReader> PageReader for Guard<R> {
    fn get_next_page(&mut self) -> Parsed<Option<Page>> {
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page {
            self.check(page)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Parsed<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Parsed<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Parsed<bool> {
        self.pages.at_record_boundary()
    }
}

impl<R: PageReader> Iterator for Guard<R> {
    type Item = Parsed<Page>;

    fn next(&mut self) -> Option<Parsed<Page>> {
        self.get_next_page().transpose()
    }
}
