//! What a gateway counts besides its mill.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::output::{self, short};

/// One way through a gateway, since its start.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    packets: f64,
    done: f64,
    bytes: f64,
    bypassed: f64,
    associations: f64,
    /// By reason.
    dropped: BTreeMap<String, f64>,
}

/// Both ways, by the names that the metrics have for them.
pub(super) type Ways = BTreeMap<String, Way>;

impl Way {
    /// A metric of this way; `reason` is that of what was dropped.
    pub(super) fn take(&mut self, name: &str, reason: Option<String>, value: f64) {
        match (name, reason) {
            ("packets_total", _) => self.packets = value,
            ("done_total", _) => self.done = value,
            ("bytes_total", _) => self.bytes = value,
            ("bypassed_total", _) => self.bypassed = value,
            ("associations", _) => self.associations = value,
            ("dropped_total", Some(reason)) if value > 0.0 => {
                self.dropped.insert(reason, value);
            }
            _ => {}
        }
    }

    fn dropped_all(&self) -> f64 {
        self.dropped.values().sum()
    }
}

/// A way's row: rates over the last interval, totals since the start.
#[derive(Serialize)]
pub(super) struct WayRow {
    way: String,
    packets_per_s: Option<f64>,
    /// Protected, or opened.
    done_per_s: Option<f64>,
    mbit_per_s: Option<f64>,
    dropped_per_s: Option<f64>,
    associations: f64,
    packets: f64,
    done: f64,
    bypassed: f64,
    dropped: BTreeMap<String, f64>,
}

/// The rows of both ways.
pub(super) fn rows(now: &Ways, before: Option<&Ways>, seconds: Option<f64>) -> Vec<WayRow> {
    let row = |(name, way): (&String, &Way)| {
        let earlier = before.map(|before| before.get(name).cloned().unwrap_or_default());
        let rate = |count: fn(&Way) -> f64| Some((count(way) - count(earlier.as_ref()?)) / seconds?);
        WayRow {
            way: name.clone(),
            packets_per_s: rate(|way| way.packets),
            done_per_s: rate(|way| way.done),
            mbit_per_s: rate(|way| way.bytes * 8.0 / 1e6),
            dropped_per_s: rate(Way::dropped_all),
            associations: way.associations,
            packets: way.packets,
            done: way.done,
            bypassed: way.bypassed,
            dropped: way.dropped.clone(),
        }
    };
    now.iter().map(row).collect()
}

/// They as a table.
pub(super) fn table(rows: &[WayRow]) -> String {
    let head = ["way", "packets/s", "done/s", "Mbit/s", "dropped/s", "associations", "done", "passed", "dropped"];
    let mut table = output::table(&head, 1);
    let rate = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| short(value.round()));
    for row in rows {
        let reasons: Vec<String> = row
            .dropped
            .iter()
            .map(|(reason, count)| format!("{} {}", short(*count), reason.replace('_', " ")))
            .collect();
        table.add_row([
            row.way.clone(),
            rate(row.packets_per_s),
            rate(row.done_per_s),
            row.mbit_per_s.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}")),
            rate(row.dropped_per_s),
            short(row.associations),
            short(row.done),
            short(row.bypassed),
            if reasons.is_empty() { "0".to_owned() } else { reasons.join(", ") },
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_and_reasons_are_told() {
        let (mut before, mut now) = (Way::default(), Way::default());
        for (way, packets) in [(&mut before, 100.0), (&mut now, 300.0)] {
            way.take("packets_total", None, packets);
            way.take("bytes_total", None, packets * 1e4);
            way.take("associations", None, 2.0);
            way.take("dropped_total", Some("unknown_spi".to_owned()), packets / 100.0);
            way.take("dropped_total", Some("replayed".to_owned()), 0.0);
        }
        let ways = |way: Way| Ways::from([("in".to_owned(), way)]);
        let rows = rows(&ways(now), Some(&ways(before)), Some(2.0));
        let [row] = rows.as_slice() else { panic!("one way") };
        assert_eq!((row.packets_per_s, row.mbit_per_s, row.dropped_per_s), (Some(100.0), Some(8.0), Some(1.0)));
        let table = table(&rows);
        assert!(table.contains("3 unknown spi") && !table.contains("replayed"), "{table}");
    }
}
