//! The levels and indices of a chunk whose values all lie in its dictionary.

use parquet::column::page::{Page as DecodedPage, PageReader};

use crate::column::NULL_ROW;

use super::guard::{damaged, split};
use super::levels;
use super::read::ChunkSource;
use super::thrift::Parsed;

/// Rows of a category column whose indices are held in memory.
pub(super) const CATEGORY_ROWS_MAX: u64 = 16 << 20;

/// What the indices of a chunk say.
pub(super) struct Used {
    pub(super) rows: u64,
    pub(super) nulls: u64,
    /// How many rows have each value of the dictionary.
    pub(super) values: Vec<u64>,
}

/// Decodes all levels and indices and counts them; each index is within the dictionary then.
pub(super) fn indices_of(source: &ChunkSource, dictionary: usize) -> Parsed<Used> {
    let mut used = Used { rows: 0, nulls: 0, values: vec![0; dictionary] };
    each_page_of_indices(source, &mut |rows, _, present, width, indices| {
        used.rows += rows as u64;
        used.nulls += (rows - present) as u64;
        levels::decode(indices, width, present, &mut |index, times| {
            let value = used.values.get_mut(index as usize);
            *value.ok_or_else(|| damaged("an index is past the dictionary"))? += times as u64;
            Ok(())
        })
    })?;
    Ok(used)
}

/// The index of each row's value in the dictionary, or [`NULL_ROW`], of a chunk of at most [`CATEGORY_ROWS_MAX`] rows.
pub(super) fn indices_in_order(source: &ChunkSource, dictionary: usize) -> Parsed<Vec<u32>> {
    if source.rows > CATEGORY_ROWS_MAX {
        let found = source.rows;
        return Err(damaged(&format!("{found} rows of a category, and at most {CATEGORY_ROWS_MAX} are taken")));
    }
    let mut all = Vec::new();
    each_page_of_indices(source, &mut |rows, definition, present, width, indices| {
        let mut found = Vec::with_capacity(present);
        levels::decode(indices, width, present, &mut |index, times| {
            found.extend(std::iter::repeat_n(index, times));
            if index as usize >= dictionary { Err(damaged("an index is past the dictionary")) } else { Ok(()) }
        })?;
        if present == rows {
            all.append(&mut found);
            return Ok(());
        }
        let mut found = found.into_iter();
        levels::decode(definition, 1, rows, &mut |level, times| {
            match level {
                1 => all.extend(found.by_ref().take(times)),
                _ => all.extend(std::iter::repeat_n(NULL_ROW, times)),
            }
            Ok(())
        })
    })?;
    Ok(all)
}

/// The same of indices that are at hand.
pub(super) fn used_by(indices: &[u32], dictionary: usize) -> Used {
    let mut used = Used { rows: indices.len() as u64, nulls: 0, values: vec![0; dictionary] };
    for index in indices {
        match used.values.get_mut(*index as usize) {
            Some(value) => *value += 1,
            None => used.nulls += 1,
        }
    }
    used
}

/// Takes a page's rows, its definition levels, how many rows are not null, and the width of indices and these.
type OnIndices<'a> = &'a mut dyn FnMut(usize, &[u8], usize, u8, &[u8]) -> Parsed<()>;

/// Finds levels and indices in all data pages.
fn each_page_of_indices(source: &ChunkSource, take: OnIndices<'_>) -> Parsed<()> {
    let nullable = source.column.max_def_level() > 0;
    let mut pages = source.pages()?;
    while let Some(page) = pages.get_next_page()? {
        let rows = page.num_values() as usize;
        let buffer = page.buffer().as_ref();
        let (definition, indices) = match &page {
            DecodedPage::DictionaryPage { .. } => continue,
            DecodedPage::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
                let start = *rep_levels_byte_len as usize;
                split(buffer, start, *def_levels_byte_len as usize)?
            }
            DecodedPage::DataPage { def_level_encoding, .. } if nullable => {
                if *def_level_encoding != parquet::basic::Encoding::RLE {
                    return Err(damaged("its levels are not encoded by RLE"));
                }
                let len = buffer.first_chunk::<4>().ok_or_else(|| damaged("its levels have no length"))?;
                split(buffer, 4, u32::from_le_bytes(*len) as usize)?
            }
            DecodedPage::DataPage { .. } => (&[][..], buffer),
        };
        let mut present = rows;
        if nullable {
            present = 0;
            levels::decode(definition, 1, rows, &mut |level, times| {
                present += if level == 1 { times } else { 0 };
                if level > 1 { Err(damaged("a level is past the column's")) } else { Ok(()) }
            })?;
        }
        let (width, indices) = match indices.split_first() {
            Some((width, indices)) => (*width, indices),
            None if present == 0 => (0, &[][..]),
            None => return Err(damaged("its indices are missing")),
        };
        take(rows, definition, present, width, indices)?;
    }
    Ok(())
}
