//! The grid's cells: which suites, sizes, batches, keys and working sets.

use ciphermill_contract::{Direction, Suite};

use crate::engines::suite;
use crate::method::Options;
use crate::shown::grouped;
use crate::timing::Budget;

/// A suite of the grid.
#[derive(Clone, Copy, Debug)]
struct Line {
    name: &'static str,
    /// Whether encrypting and decrypting are different work.
    both_ways: bool,
    /// Bytes of the largest batch: where every byte costs much, larger ones tell nothing new.
    bytes_max: usize,
}

const fn line(name: &'static str) -> Line {
    Line { name, both_ways: true, bytes_max: 16 << 20 }
}

const fn one_way(name: &'static str) -> Line {
    Line { both_ways: false, ..line(name) }
}

const fn slow(name: &'static str) -> Line {
    Line { bytes_max: 1 << 20, ..line(name) }
}

const fn slow_one_way(name: &'static str) -> Line {
    Line { both_ways: false, ..slow(name) }
}

/// What peers run too, a suite for each way in which our engines work.
const LINES: [Line; 30] = [
    line("aes-128-ecb"),
    line("aes-128-cbc"),
    line("aes-256-cbc"),
    one_way("aes-128-ctr"),
    one_way("aes-256-ctr"),
    line("aes-256-xts"),
    line("aes-128-gcm"),
    line("aes-256-gcm"),
    line("aes-128-ccm"),
    line("aes-128-siv"),
    line("aes-128-ocb"),
    one_way("aes-128-gmac"),
    one_way("aes-128-cmac"),
    line("aes-128-cbc+hmac-sha1"),
    line("aes-256-cbc+hmac-sha256"),
    one_way("chacha20"),
    line("chacha20-poly1305"),
    one_way("poly1305"),
    one_way("md5"),
    one_way("sha1"),
    one_way("sha256"),
    one_way("sha512"),
    slow_one_way("sha3-256"),
    line("hmac-sha1"),
    one_way("hmac-sha256"),
    one_way("hmac-sha512"),
    slow("des-cbc"),
    slow("3des-cbc"),
    slow("blowfish-cbc"),
    slow_one_way("rc4"),
];

/// Keys that a batch's operations draw from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// 64, or one for each operation of a smaller batch.
    Few,
    /// One for all.
    One,
    /// One for each.
    Distinct,
}

/// Where a batch's operations and data are when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkingSet {
    /// As the same batch left them a moment ago: in the caches, as far as they go in there.
    Again,
    /// In memory: batches take turns, and are more than the caches hold.
    Memory,
}

/// One cell: a suite on batches of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) suite: Suite,
    pub(super) direction: Direction,
    /// Operations of a batch.
    pub(super) ops: usize,
    /// Bytes of each, rounded up to what the suite takes.
    pub(super) len: usize,
    pub(super) keys: Keys,
    pub(super) set: WorkingSet,
}

/// Few keys that operations draw from.
const FEW_KEYS: usize = 64;

impl Cell {
    pub(super) fn keys(&self) -> usize {
        match self.keys {
            Keys::Few => FEW_KEYS.min(self.ops),
            Keys::One => 1,
            Keys::Distinct => self.ops,
        }
    }

    /// Bytes of input of a batch.
    pub(super) fn bytes(&self) -> usize {
        self.ops * self.len
    }

    /// The suite and direction, as rows are called.
    pub(super) fn row(&self) -> String {
        if self.suite.has_direction(Direction::Decrypt) {
            format!("{} {}", self.suite, self.direction)
        } else {
            self.suite.to_string()
        }
    }

    /// The cell's name in a record, which stays the same.
    pub(super) fn path(&self) -> String {
        let keys = match self.keys {
            Keys::Few => "",
            Keys::One => "/one-key",
            Keys::Distinct => "/distinct-keys",
        };
        let set = if self.set == WorkingSet::Memory { "/memory" } else { "" };
        format!("{}/{}/{}x{}{keys}{set}", self.suite, self.direction, self.ops, self.len)
    }

    /// The shape in words.
    pub(super) fn shape(&self) -> String {
        let keys = match self.keys {
            Keys::Few => "",
            Keys::One => ", one key",
            Keys::Distinct => ", a key each",
        };
        let set = if self.set == WorkingSet::Memory { ", from memory" } else { "" };
        format!("{} × {}{keys}{set}", grouped(self.ops), size(self.len))
    }
}

/// Bytes, shortly.
pub(super) fn size(len: usize) -> String {
    if len >= 1024 && len.is_multiple_of(1024) { format!("{} KB", len / 1024) } else { format!("{len} B") }
}

/// How far the grid reaches.
#[derive(Clone, Copy, Debug)]
struct Extent {
    lengths: &'static [usize],
    batches: &'static [usize],
    /// The same with one key and with a key each.
    key_lengths: &'static [usize],
    key_batches: &'static [usize],
    /// The same from memory.
    memory_lengths: &'static [usize],
    memory_batches: &'static [usize],
    /// Time for each that is compared.
    time_ms: u64,
    rounds_max: usize,
}

const FULL: Extent = Extent {
    lengths: &[16, 64, 256, 1024, 4096, 16_384],
    batches: &[1, 8, 64, 1024],
    key_lengths: &[16, 64, 256, 1024],
    key_batches: &[64, 1024],
    memory_lengths: &[1024, 16_384],
    memory_batches: &[64, 1024],
    time_ms: 12,
    rounds_max: 101,
};

const QUICK: Extent = Extent {
    lengths: &[16, 256, 4096],
    batches: &[1, 64],
    key_lengths: &[],
    key_batches: &[],
    memory_lengths: &[],
    memory_batches: &[],
    time_ms: 2,
    rounds_max: 21,
};

/// What is measured.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    extent: Extent,
    lines: Vec<(Suite, Line)>,
    pub(super) budget: Budget,
    pub(super) seed: u64,
    /// Whether the mill's engines are measured beforehand, for what the router makes of it.
    pub(super) is_tuned: bool,
}

impl Plan {
    pub(super) fn new(options: &Options) -> Plan {
        let extent = if options.quick { QUICK } else { FULL };
        let known: Vec<(Suite, Line)> = LINES.iter().map(|line| (suite(line.name), *line)).collect();
        let other = |suite: &Suite| Line {
            name: "",
            both_ways: true,
            bytes_max: if suite.is_legacy() { 1 << 20 } else { 16 << 20 },
        };
        let of = |suite: &Suite| {
            known.iter().find(|(known, _)| known == suite).map_or_else(|| other(suite), |(_, line)| *line)
        };
        let lines = match options.suites.as_slice() {
            [] => known,
            asked => asked.iter().map(|suite| (*suite, of(suite))).collect(),
        };
        let budget = Budget { rounds_max: extent.rounds_max, ..options.budget_of(extent.time_ms) };
        Plan { extent, lines, budget, seed: options.seed, is_tuned: !options.quick }
    }

    /// The suites and directions, each a row.
    pub(super) fn rows(&self) -> impl Iterator<Item = (Suite, Direction)> {
        let directions = |(suite, line): &(Suite, Line)| {
            let ways = [Direction::Encrypt, Direction::Decrypt].into_iter();
            let (suite, both) = (*suite, line.both_ways);
            ways.filter(move |way| suite.has_direction(*way) && (both || *way == Direction::Encrypt))
                .map(move |way| (suite, way))
        };
        self.lines.iter().flat_map(directions)
    }

    /// The cells of a row.
    pub(super) fn cells(&self, suite: Suite, direction: Direction) -> Vec<Cell> {
        let extent = &self.extent;
        let bytes_max = self.lines.iter().find(|(own, _)| *own == suite).map_or(0, |(_, line)| line.bytes_max);
        let mut cells: Vec<Cell> = Vec::new();
        let mut add = |lengths: &[usize], batches: &[usize], keys: Keys, set: WorkingSet| {
            for ops in batches.iter().copied() {
                for len in lengths.iter().copied() {
                    let len = suite.input_len(Direction::Encrypt).round_up(len);
                    let cell = Cell { suite, direction, ops, len, keys, set };
                    if cell.bytes() <= bytes_max && !cells.contains(&cell) {
                        cells.push(cell);
                    }
                }
            }
        };
        add(extent.lengths, extent.batches, Keys::Few, WorkingSet::Again);
        if suite.needs_key() {
            add(extent.key_lengths, extent.key_batches, Keys::One, WorkingSet::Again);
            add(extent.key_lengths, extent.key_batches, Keys::Distinct, WorkingSet::Again);
        }
        add(extent.memory_lengths, extent.memory_batches, Keys::Few, WorkingSet::Memory);
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(options: &Options) -> Vec<Cell> {
        let plan = Plan::new(options);
        plan.rows().flat_map(|(suite, direction)| plan.cells(suite, direction)).collect()
    }

    #[test]
    fn every_cell_is_there_once_and_has_a_name_of_its_own() {
        let cells = all(&Options::default());
        let mut paths: Vec<String> = cells.iter().map(Cell::path).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), cells.len());
        assert!(cells.len() > 1500, "{}", cells.len());
        for cell in &cells {
            assert!(cell.suite.input_len(cell.direction).contains(cell.len), "{cell:?}");
            assert!(cell.keys() >= 1 && cell.keys() <= cell.ops && cell.bytes() <= 16 << 20, "{cell:?}");
        }
        assert!(all(&Options { quick: true, ..Options::default() }).len() < 350);
    }

    #[test]
    fn suites_that_are_asked_for_are_the_rows() {
        let suites = vec![suite("aes-192-gcm"), suite("sha1")];
        let plan = Plan::new(&Options { suites, ..Options::default() });
        let rows: Vec<String> = plan.rows().map(|(suite, direction)| format!("{suite} {direction}")).collect();
        assert_eq!(rows, ["aes-192-gcm encrypt", "aes-192-gcm decrypt", "sha1 encrypt"]);
        let cells = plan.cells(suite("sha1"), Direction::Encrypt);
        assert!(cells.iter().all(|cell| cell.keys == Keys::Few), "a digest has no keys");
        assert_eq!(cells[0].path(), "sha1/encrypt/1x16");
        assert_eq!((cells[0].row().as_str(), cells[0].shape().as_str()), ("sha1", "1 × 16 B"));
    }
}
