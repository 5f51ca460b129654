//! Records as JSON: written only if they can be read again, read only if they hold what they promise.

use std::collections::BTreeSet;

use serde::Deserialize;
use thiserror::Error;

use crate::map::Map;
use crate::model::{Environment, Measurement, RECORD_FORMAT, RECORD_FORMAT_MIN, Record, Section};
use crate::plot::Plot;

/// Why a record cannot be read or written.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The text is not JSON, or not that of a record.
    #[error("not a record: {0}")]
    Json(#[from] serde_json::Error),
    /// Another version of the program wrote it.
    #[error(
        "the record has format {found}, but this program reads formats {RECORD_FORMAT_MIN} to {RECORD_FORMAT}: measure again with it"
    )]
    Format {
        /// The format that the record names.
        found: u64,
    },
    /// Something in the record breaks a rule.
    #[error("{place}: {rule}")]
    Invalid {
        /// Where, from the whole to the part: `section "ladder", table "Rungs", row 3`.
        place: String,
        /// What must hold there.
        rule: &'static str,
    },
}

impl Record {
    /// Reads a record.
    ///
    /// # Errors
    /// [`RecordError`]: not JSON, a field that is missing, unknown or of another kind (with line and column), another
    /// format, or a rule of [`Record::check`].
    pub fn read(text: &str) -> Result<Record, RecordError> {
        /// What says which format the rest has.
        #[derive(Deserialize)]
        struct Head {
            format: u64,
        }
        let head: Head = serde_json::from_str(text)?;
        if !(u64::from(RECORD_FORMAT_MIN)..=u64::from(RECORD_FORMAT)).contains(&head.format) {
            return Err(RecordError::Format { found: head.format });
        }
        let record: Record = serde_json::from_str(text)?;
        record.check()?;
        Ok(record)
    }

    /// The record as JSON, indented, with a line end.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] where it could not be read again: [`Record::check`].
    pub fn to_json(&self) -> Result<String, RecordError> {
        self.check()?;
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// Checks the rules that types do not hold: the format, finite numbers, tables and maps whose rows are as wide as their
    /// heads, names of measurements that are unique.
    ///
    /// # Errors
    /// [`RecordError`] for the first rule that is broken.
    pub fn check(&self) -> Result<(), RecordError> {
        if !(RECORD_FORMAT_MIN..=RECORD_FORMAT).contains(&self.format) {
            return Err(RecordError::Format { found: u64::from(self.format) });
        }
        check_environment(&self.environment)?;
        let mut methods = BTreeSet::new();
        for section in &self.sections {
            section.check()?;
            if !methods.insert(&section.method) {
                return invalid(place_of(section), "a method may have one section");
            }
        }
        Ok(())
    }
}

impl Section {
    /// Checks the rules of [`Record::check`] for this section.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] for the first rule that is broken.
    pub fn check(&self) -> Result<(), RecordError> {
        let place = place_of(self);
        for plot in &self.plots {
            check_plot(plot, &place)?;
        }
        for table in &self.tables {
            for (index, row) in table.rows.iter().enumerate() {
                if row.len() != table.columns.len() {
                    let place = format!("{place}, table {:?}, row {}", table.title, index + 1);
                    return invalid(place, "a row must have a cell for each column");
                }
            }
        }
        for map in &self.maps {
            check_map(map, &place)?;
        }
        let mut names = BTreeSet::new();
        for measurement in &self.measurements {
            let place = || format!("{place}, measurement {:?}", measurement.name);
            if !measurement.value.is_finite() {
                return invalid(place(), "the value must be a finite number");
            }
            if !(measurement.spread.is_finite() && measurement.spread >= 0.0) {
                return invalid(place(), "the spread must be a finite number, zero or above");
            }
            if !is_within_interval(measurement) {
                return invalid(place(), "the value must lie within its interval");
            }
            if !names.insert(&measurement.name) {
                return invalid(place(), "a name may occur once in a section");
            }
        }
        Ok(())
    }
}

fn is_within_interval(measurement: &Measurement) -> bool {
    let Some([low, high]) = measurement.interval else { return true };
    low.is_finite() && high.is_finite() && (low..=high).contains(&measurement.value)
}

fn place_of(section: &Section) -> String {
    format!("section {:?}", section.method)
}

fn check_environment(environment: &Environment) -> Result<(), RecordError> {
    let ghz = environment.ghz.into_iter().flatten();
    let numbers = [environment.timer_resolution_ns, environment.timer_cost_ns].into_iter().chain(environment.steal);
    if numbers.chain(ghz).all(f64::is_finite) {
        Ok(())
    } else {
        invalid("environment".to_owned(), "times, rates and shares must be finite numbers")
    }
}

fn check_plot(plot: &Plot, section: &str) -> Result<(), RecordError> {
    let place = format!("{section}, plot {:?}", plot.title);
    for series in &plot.series {
        if let Some(index) = series.points.iter().position(|[x, y]| !(x.is_finite() && y.is_finite())) {
            let place = format!("{place}, line {:?}, point {}", series.name, index + 1);
            return invalid(place, "both coordinates must be finite numbers");
        }
    }
    for crossing in &plot.crossings {
        if !crossing.x.is_finite() {
            return invalid(format!("{place}, crossing {:?}", crossing.label), "the place must be a finite number");
        }
    }
    Ok(())
}

fn check_map(map: &Map, section: &str) -> Result<(), RecordError> {
    let place = format!("{section}, map {:?}", map.title);
    for group in &map.groups {
        if group.columns.is_empty() {
            return invalid(format!("{place}, group {:?}", group.name), "a group must have a column");
        }
    }
    for (index, row) in map.rows.iter().enumerate() {
        let place = format!("{place}, row {}", index + 1);
        if row.cells.len() != map.width() {
            return invalid(place, "a row must have a cell for each column");
        }
        for (index, cell) in row.cells.iter().enumerate() {
            let Some(cell) = cell else { continue };
            let ([low, high], place) = (cell.interval, || format!("{place}, cell {}", index + 1));
            if ![cell.value, low, high].iter().all(|number| number.is_finite() && *number > 0.0) {
                return invalid(place(), "a ratio and its interval must be finite numbers above zero");
            }
            if !(low..=high).contains(&cell.value) {
                return invalid(place(), "the ratio must lie within its interval");
            }
        }
    }
    Ok(())
}

fn invalid(place: String, rule: &'static str) -> Result<(), RecordError> {
    Err(RecordError::Invalid { place, rule })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Estimate;
    use crate::map::{MapCell, MapGroup};
    use crate::model::Better;
    use crate::plot::{Axis, Crossing, Look, Scale, Series};
    use crate::sample;
    use crate::table::Table;

    fn complaint(record: &Record) -> String {
        record.to_json().expect_err("the record breaks a rule").to_string()
    }

    #[test]
    fn a_record_survives_being_written_and_read() {
        let record = sample::record();
        let text = record.to_json().expect("the sample keeps the rules");
        assert!(text.ends_with("}\n"));
        // Not compared by assert_eq, which would print both.
        assert!(Record::read(&text).expect("what was written can be read") == record);
    }

    #[test]
    fn other_texts_are_refused_with_their_place() {
        let text = sample::record().to_json().expect("the sample keeps the rules");
        let complaint = |text: &str| Record::read(text).expect_err("not a record").to_string();
        assert!(complaint("{").contains("line 1"), "{}", complaint("{"));
        assert!(complaint("{}").contains("missing field `format`"));
        let other = text.replacen("\"format\": 2", "\"format\": 99", 1);
        assert_eq!(
            complaint(&other),
            "the record has format 99, but this program reads formats 1 to 2: measure again with it"
        );
        let unknown = text.replacen("\"cpu\"", "\"gpu\"", 1);
        assert!(complaint(&unknown).contains("unknown field `gpu`") && complaint(&unknown).contains("line"));
        let huge = text.replacen("\"timer_cost_ns\": 25.0", "\"timer_cost_ns\": 1e999", 1);
        assert_ne!(huge, text);
        assert!(complaint(&huge).contains("number out of range"), "{}", complaint(&huge));
    }

    /// A record as the first format had it: no intervals, no disturbances.
    #[test]
    fn records_of_the_first_format_are_read() {
        let text = sample::record().to_json().expect("the sample keeps the rules");
        let mut old: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        old["format"] = 1.into();
        old["environment"].as_object_mut().expect("an object").remove("disturbances").expect("was there");
        for section in old["sections"].as_array_mut().expect("sections") {
            for measurement in section["measurements"].as_array_mut().expect("measurements") {
                measurement.as_object_mut().expect("an object").remove("interval");
            }
        }
        let record = Record::read(&old.to_string()).expect("the first format is read");
        assert_eq!(record.format, 1);
        assert!(record.environment.disturbances.is_empty());
        assert_eq!(record.warnings()[0], sample::record().environment.warnings[0]);
        record.to_json().expect("and can be written again");
    }

    /// Sections had no maps once; those that still have none are written as they were then.
    #[test]
    fn a_section_without_maps_is_written_as_before_there_were_any() {
        let mut record = sample::record();
        assert_eq!(record.sections.iter().map(|section| section.maps.len()).sum::<usize>(), 2);
        record.sections.retain(|section| section.maps.is_empty());
        let text = record.to_json().expect("the sample keeps the rules");
        assert!(!text.contains("\"maps\""));
        let read = Record::read(&text).expect("no maps are none");
        assert!(read == record);
        assert!(read.to_json().expect("it was read") == text, "to the last byte");
    }

    #[test]
    fn rules_of_maps_are_named_with_their_place() {
        let mut record = sample::record();
        record.sections = vec![Section::new("m", "t", "s")];
        let columns = ["16 B", "64 B"].map(str::to_owned).to_vec();
        let mut map = Map::new("r", "suite", vec![MapGroup::new("g", columns)]);
        map.row("a", [None, Some(MapCell::new(Estimate { value: 1.0, interval: [0.9, 1.1] }, "d"))]);
        let mut complaint_of = |change: &dyn Fn(&mut Map)| {
            let mut broken = map.clone();
            change(&mut broken);
            record.sections[0].maps = vec![broken];
            complaint(&record)
        };
        let cell = |map: &mut Map, value: f64, interval: [f64; 2]| {
            map.rows[0].cells[1] = Some(MapCell::new(Estimate { value, interval }, ""));
        };
        let place = "section \"m\", map \"r\", row 1";
        let narrow = complaint_of(&|map| map.rows[0].cells.truncate(1));
        assert_eq!(narrow, format!("{place}: a row must have a cell for each column"));
        let positive = format!("{place}, cell 2: a ratio and its interval must be finite numbers above zero");
        for (value, interval) in [
            (f64::NAN, [0.9, 1.1]),
            (0.0, [0.0, 1.1]),
            (1.0, [-0.1, 1.1]),
            (1.0, [f64::NAN, 1.1]),
            (1.0, [0.9, f64::INFINITY]),
        ] {
            assert_eq!(complaint_of(&|map| cell(map, value, interval)), positive, "{value}, {interval:?}");
        }
        for interval in [[1.1, 0.9], [1.1, 1.2]] {
            let outside = complaint_of(&|map| cell(map, 1.0, interval));
            assert_eq!(outside, format!("{place}, cell 2: the ratio must lie within its interval"));
        }
        let empty = complaint_of(&|map| map.groups.push(MapGroup::default()));
        assert_eq!(empty, "section \"m\", map \"r\", group \"\": a group must have a column");
        record.sections[0].maps = vec![map];
        record.check().expect("mended");
        let text = record.to_json().expect("mended");
        let unknown = text.replacen("\"detail\"", "\"details\"", 1);
        let complaint = Record::read(&unknown).expect_err("an unknown field").to_string();
        assert!(complaint.contains("unknown field `details`"), "{complaint}");
    }

    #[test]
    fn rules_are_named_with_their_place() {
        let mut record = sample::record();
        record.sections[0].tables[0].rows[1].pop();
        let place =
            format!("section {:?}, table {:?}, row 2", record.sections[0].method, record.sections[0].tables[0].title);
        assert_eq!(complaint(&record), format!("{place}: a row must have a cell for each column"));

        let mut record = sample::record();
        record.sections = vec![Section::new("m", "t", "s")];
        record.sections[0].measured("a", f64::NAN, "ns", 0.0, Better::Less);
        assert_eq!(complaint(&record), "section \"m\", measurement \"a\": the value must be a finite number");
        record.sections[0].measurements[0].value = 1.0;
        record.sections[0].measurements[0].spread = -0.1;
        assert!(complaint(&record).contains("the spread must be"));
        record.sections[0].measurements[0].spread = 0.1;
        record.sections[0].measurements[0].interval = Some([1.1, 1.2]);
        assert!(complaint(&record).contains("within its interval"));
        record.sections[0].measurements[0].interval = Some([f64::NEG_INFINITY, 1.2]);
        assert!(complaint(&record).contains("within its interval"));
        record.sections[0].measurements[0].interval = Some([0.9, 1.2]);
        record.sections[0].measured("a", 1.0, "ns", 0.0, Better::Less);
        assert!(complaint(&record).contains("a name may occur once"));
        record.sections[0].measurements.pop();
        record.sections[0].tables.push(Table::new("t", &["a"], 1));
        record.check().expect("mended");

        let mut plot = Plot::new("p", Axis::new("x", Scale::Linear), Axis::new("y", Scale::Linear));
        plot.series.push(Series::new("l", Look::Measured, vec![[0.0, 1.0], [f64::INFINITY, 1.0]]));
        record.sections[0].plots.push(plot);
        assert!(complaint(&record).starts_with("section \"m\", plot \"p\", line \"l\", point 2: both"));
        record.sections[0].plots[0].series.clear();
        record.sections[0].plots[0].crossings.push(Crossing { x: f64::NAN, label: "c".to_owned() });
        assert!(complaint(&record).contains("crossing \"c\": the place must be"));
        record.sections[0].plots.clear();

        record.environment.steal = Some(f64::NAN);
        assert!(complaint(&record).starts_with("environment: "));
        record.environment.steal = None;
        record.sections.push(Section::new("m", "t", "s"));
        assert_eq!(complaint(&record), "section \"m\": a method may have one section");
        record.format = 7;
        assert!(complaint(&record).contains("format 7"));
    }
}
