//! What `ff1` leaves in clear, counted: separators and kept characters.

use crate::column::NULL_ROW;
use crate::distinct::Outputs;
use crate::spec::Ff1Options;

/// The characters of a column that stay in clear, over all rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InClear {
    /// Characters at the start of each value that are kept.
    pub keep_first: usize,
    /// Characters at the end of each value that are kept.
    pub keep_last: usize,
    /// Kept characters in all.
    pub kept: u64,
    /// Separators that occurred, and how often.
    pub separators: Vec<(char, u64)>,
}

impl InClear {
    /// Adds what stays in clear of the same column of another table.
    pub(crate) fn add(&mut self, other: InClear) {
        self.kept += other.kept;
        for (separator, count) in other.separators {
            match self.separators.iter_mut().find(|(known, _)| *known == separator) {
                Some((_, known)) => *known += count,
                None => self.separators.push((separator, count)),
            }
        }
    }
}

/// Counts what stays in clear, batch by batch.
pub(crate) struct ClearCounter {
    in_clear: InClear,
    /// For each ASCII character its place among the separators, or [`NO_SEPARATOR`].
    ascii: [usize; 128],
}

const NO_SEPARATOR: usize = usize::MAX;

impl ClearCounter {
    pub(crate) fn new(options: &Ff1Options) -> ClearCounter {
        let separators = options.separators.characters().unwrap_or_default();
        let mut ascii = [NO_SEPARATOR; 128];
        for (place, separator) in separators.iter().enumerate() {
            if let Some(entry) = ascii.get_mut(*separator as usize) {
                *entry = place;
            }
        }
        let in_clear = InClear {
            keep_first: options.keep_first,
            keep_last: options.keep_last,
            kept: 0,
            separators: separators.iter().map(|character| (*character, 0)).collect(),
        };
        ClearCounter { in_clear, ascii }
    }

    /// Adds a batch, whose rows have slots of `outputs`.
    pub(crate) fn add(&mut self, rows: &[u32], outputs: &Outputs) {
        for slot in rows.iter().filter(|slot| **slot != NULL_ROW) {
            self.add_text(outputs.at(*slot as usize), 1);
        }
    }

    /// Adds a text that this many rows have.
    pub(crate) fn add_text(&mut self, text: &[u8], rows: u64) {
        let InClear { keep_first, keep_last, kept, separators } = &mut self.in_clear;
        *kept += rows * (*keep_first + *keep_last) as u64;
        if separators.is_empty() {
            return;
        }
        for byte in text {
            if let Some(place) = self.ascii.get(usize::from(*byte)).filter(|place| **place != NO_SEPARATOR) {
                separators[*place].1 += rows;
            }
        }
        for (character, count) in separators.iter_mut().filter(|(character, _)| !character.is_ascii()) {
            let mut utf8 = [0; 4];
            let separator = character.encode_utf8(&mut utf8).as_bytes();
            // Characters do not overlap in UTF-8, so each one is found once.
            *count += rows * text.windows(separator.len()).filter(|window| *window == separator).count() as u64;
        }
    }

    /// What was counted, without separators that did not occur.
    pub(crate) fn in_clear(&self) -> InClear {
        let mut in_clear = self.in_clear.clone();
        in_clear.separators.retain(|(_, count)| *count != 0);
        in_clear
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ColumnSpec, Method};

    #[test]
    fn rows_count_and_not_distinct_values() {
        let Method::Ff1(options) = ColumnSpec::parse("a=ff1:sep=-€ ,keep=2,keep-last=1").unwrap().method else {
            panic!("not ff1")
        };
        let mut outputs = Outputs::default();
        outputs.push("12-34-€€56".as_bytes());
        outputs.push(b"unused - -");
        outputs.push(b"1234567");
        let mut counter = ClearCounter::new(&options);
        counter.add(&[0, NULL_ROW, 0, 2], &outputs);
        counter.add(&[0], &outputs);
        let in_clear = counter.in_clear();
        assert_eq!((in_clear.keep_first, in_clear.keep_last, in_clear.kept), (2, 1, 12));
        assert_eq!(in_clear.separators, [('-', 6), ('€', 6)]);
    }
}
