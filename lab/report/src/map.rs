//! Heat maps, as data: ratios around one over two axes, the second of which is in groups.

use serde::{Deserialize, Serialize};

use crate::estimate::Estimate;

/// A ratio is behind when its whole interval lies below this. A few per cent are left to what an interval does not cover:
/// code and memory lie elsewhere in the next build.
pub const MAP_BEHIND_BELOW: f64 = 0.97;

/// A ratio is ahead when its whole interval lies above this; see [`MAP_BEHIND_BELOW`].
pub const MAP_AHEAD_ABOVE: f64 = 1.03;

/// A heat map.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    /// What it shows.
    pub title: String,
    /// What a reader has to know of it; may be empty.
    pub note: String,
    /// What the rows are: `suite`.
    pub rows_name: String,
    /// The columns.
    pub groups: Vec<MapGroup>,
    /// The rows.
    pub rows: Vec<MapRow>,
}

/// Columns that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapGroup {
    /// What they have in common: `8 operations a batch`.
    pub name: String,
    /// What tells them apart, short: `16 B`.
    pub columns: Vec<String>,
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapRow {
    /// What it is: `aes-128-cbc encrypt`.
    pub name: String,
    /// A cell for each column of all groups; none where nothing was measured.
    pub cells: Vec<Option<MapCell>>,
}

/// A ratio with its 95 % interval; above one is good.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapCell {
    /// The median.
    pub value: f64,
    /// The ends of the interval.
    pub interval: [f64; 2],
    /// What it was computed from, in a line: `lanes 12.3 ns, ipsec-mb 14.1 ns`.
    pub detail: String,
}

/// What a ratio says, as far as its interval tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapState {
    /// Below one: the whole interval is below [`MAP_BEHIND_BELOW`].
    Behind,
    /// About one, or too uncertain to tell.
    Level,
    /// Above one: the whole interval is above [`MAP_AHEAD_ABOVE`].
    Ahead,
}

impl Map {
    /// A map without rows.
    pub fn new(title: &str, rows_name: &str, groups: Vec<MapGroup>) -> Map {
        Map { title: title.to_owned(), rows_name: rows_name.to_owned(), groups, ..Map::default() }
    }

    /// Adds a row.
    pub fn row(&mut self, name: impl Into<String>, cells: impl IntoIterator<Item = Option<MapCell>>) {
        self.rows.push(MapRow { name: name.into(), cells: cells.into_iter().collect() });
    }

    /// How many columns all groups have together.
    pub fn width(&self) -> usize {
        self.groups.iter().map(|group| group.columns.len()).sum()
    }
}

impl MapGroup {
    /// A group of columns.
    pub fn new(name: impl Into<String>, columns: Vec<String>) -> MapGroup {
        MapGroup { name: name.into(), columns }
    }
}

impl MapCell {
    /// A ratio, and what it was computed from.
    pub fn new(ratio: Estimate, detail: impl Into<String>) -> MapCell {
        MapCell { value: ratio.value, interval: ratio.interval, detail: detail.into() }
    }

    /// What it says.
    pub fn state(&self) -> MapState {
        let [low, high] = self.interval;
        if high < MAP_BEHIND_BELOW {
            MapState::Behind
        } else if low > MAP_AHEAD_ABOVE {
            MapState::Ahead
        } else {
            MapState::Level
        }
    }

    /// Whether the interval is too wide for the ratio to be quoted.
    pub fn is_noisy(&self) -> bool {
        Estimate { value: self.value, interval: self.interval }.is_noisy()
    }
}

impl MapState {
    /// The state in a word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            MapState::Behind => "behind",
            MapState::Level => "level",
            MapState::Ahead => "ahead",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(low: f64, high: f64) -> MapState {
        MapCell::new(Estimate { value: (low + high) / 2.0, interval: [low, high] }, "").state()
    }

    #[test]
    fn the_whole_interval_decides() {
        assert_eq!(state(0.5, 0.969), MapState::Behind);
        assert_eq!(state(0.5, MAP_BEHIND_BELOW), MapState::Level);
        assert_eq!(state(0.98, 1.02), MapState::Level);
        assert_eq!(state(0.5, 3.0), MapState::Level, "an interval that wide says nothing");
        assert_eq!(state(MAP_AHEAD_ABOVE, 3.0), MapState::Level);
        assert_eq!(state(1.031, 3.0), MapState::Ahead);
        assert_eq!(state(f64::NAN, f64::NAN), MapState::Level);
    }

    #[test]
    fn a_map_is_as_wide_as_its_groups_together() {
        let group = |columns: &[&str]| MapGroup::new("g", columns.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(Map::new("t", "suite", vec![group(&["16 B", "64 B"]), group(&["16 B"])]).width(), 3);
    }
}
