//! `lab short` as a section.

use ciphermill_contract::Direction;
use ciphermill_report::{Better, Section, Table};

use crate::LabError;
use crate::engines;
use crate::method::{Options, Progress};
use crate::rules::cycles_by;
use crate::short::{Row, Short};
use crate::shown::{best_cell, interval, path_part, ratio_cell};
use crate::workload::Parameters;

/// The suites that are measured when none is named: those of the central workload.
const SUITES: [&str; 3] = ["des-cbc", "3des-cbc", "aes-128-cbc"];

const SOURCE: &str = "M. Lindemann, S. W. Smith: Improving DES Coprocessor Throughput for Short Operations. 10th USENIX \
                      Security Symposium, 2001. Section 3.";

/// The lines that have to be read together: one suite in one direction.
type Group<'r> = Vec<&'r Row>;

/// The method in the lab's common frame.
///
/// # Errors
/// [`LabError`]: unknown names, an engine whose output is wrong, a user who asked for an end.
pub(crate) fn run(options: &Options, progress: Progress<'_>) -> Result<Section, LabError> {
    let default = Parameters::default();
    let ops = if options.quick { Short::QUICK_OPS } else { default.ops };
    let short = Short {
        suites: options.suites.clone(),
        directions: Vec::new(),
        engines: options.engines.clone(),
        kernels: Vec::new(),
        parameters: Parameters { ops, seed: options.seed, ..default },
        core: options.core,
        budget: options.budget,
    };
    short.section(progress)
}

impl Short {
    /// Operations of a quick run.
    pub const QUICK_OPS: usize = 10_000;

    /// Measures, and tells what was measured as a section of a record. Empty lists of suites, directions and engines stand
    /// for the usual ones.
    ///
    /// # Errors
    /// [`LabError`]: unknown names, impossible parameters, an engine whose output is wrong, an error of `progress`.
    pub fn section(mut self, progress: Progress<'_>) -> Result<Section, LabError> {
        if self.suites.is_empty() {
            self.suites = SUITES.map(engines::suite).to_vec();
        }
        if self.directions.is_empty() {
            self.directions = vec![Direction::Encrypt, Direction::Decrypt];
        }
        if self.engines.is_empty() {
            self.engines = engines::names().into_iter().map(str::to_owned).collect();
        }
        let mut section = Section::new("short", "Short operations, each with its own key and IV", SOURCE);
        section.lesson = lesson(&self.parameters);
        let rows = self.run(&mut section, progress)?;
        fill(&mut section, &rows);
        Ok(section)
    }
}

/// Fills the section from what was measured.
fn fill(section: &mut Section, rows: &[Row]) {
    let groups = groups(rows);
    section.conclusions = groups.iter().filter_map(|group| conclusion(group)).collect();
    section.tables.push(table(&groups));
    for group in &groups {
        for row in group {
            let name = format!("{}/{}/{}", row.suite, row.direction, label(row, group));
            section.measured(&name, row.ns_per_op, "ns/op", row.spread, Better::Less);
            if row.of_fastest.value != 1.0 {
                section.ratio(format!("{name}/of-fastest"), row.of_fastest, Better::Less);
            }
        }
    }
}

fn lesson(parameters: &Parameters) -> Vec<String> {
    let Parameters { ops, keys, len_min, len_max, .. } = parameters;
    vec![
        "Ciphers are quoted for long messages, where nothing but the cipher counts. Lindemann and Smith had a coprocessor \
         that encrypted about 20 megabytes a second of bulk data, and a user who got 1.5 kilobytes a second out of it: his \
         operations were 8 to 80 bytes long, each under another key, and nearly all of the time went into what stands around \
         the cipher. Columns of tables, tickets and tokens are such operations today."
            .to_owned(),
        format!(
            "This is their workload on this machine: {ops} operations of {len_min} to {len_max} bytes, rounded up to what the \
             suite takes, each under one of {keys} keys in random order and with an IV of its own. Engines and peers get \
             the same batch, interleaved on one core; every output is compared with the reference engine's before \
             anything is timed."
        ),
    ]
}

fn groups(rows: &[Row]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in rows {
        let same = |group: &&mut Group<'_>| group[0].suite == row.suite && group[0].direction == row.direction;
        match groups.iter_mut().find(same) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

/// The engine's name; with the kernel where the same engine ran several.
fn label(row: &Row, group: &Group<'_>) -> String {
    let twins = group.iter().filter(|other| other.engine == row.engine).count();
    if twins > 1 { format!("{}/{}", row.engine, path_part(&row.kernel)) } else { row.engine.clone() }
}

/// Who is the fastest, and by how much.
fn conclusion(group: &Group<'_>) -> Option<String> {
    let mut order = group.clone();
    order.sort_by(|a, b| a.ns_per_op.total_cmp(&b.ns_per_op));
    let [fastest, next, ..] = order[..] else { return None };
    let slowest = order[order.len() - 1];
    let factor = |other: &Row| other.of_fastest.value;
    let of = format!("{} {}", fastest.suite, fastest.direction);
    let noise = match [next, slowest].iter().any(|row| row.of_fastest.is_noisy()) {
        true => " Some of these figures are noisy and should not be quoted.",
        false => "",
    };
    let (first, second) = (label(fastest, group), label(next, group));
    // A difference within the interval is none.
    let lead = if next.of_fastest.interval[0] <= 1.0 {
        format!("{of}: {first} ({:.1} ns an operation) and {second} are level", fastest.ns_per_op)
    } else {
        format!(
            "{of}: {first} is the fastest at {:.1} ns an operation, {:.1} × as fast as {second}",
            fastest.ns_per_op,
            factor(next)
        )
    };
    let tail = match order.len() {
        2 => String::new(),
        _ => format!(", {:.1} × as fast as {}", factor(slowest), label(slowest, group)),
    };
    Some(format!("{lead}{tail}.{noise}"))
}

fn table(groups: &[Group<'_>]) -> Table {
    let heads =
        ["suite", "direction", "engine", "kernel", "ns/op", "MB/s", "cycles/B", "× fastest", "95 %", "idle lanes"];
    let mut table = Table::new("Engines and peers on the same operations", &heads, 4);
    for group in groups {
        let fastest = group.iter().map(|row| row.ns_per_op).fold(f64::MAX, f64::min);
        for row in group {
            let best = |text: String| best_cell(text, row.ns_per_op == fastest);
            table.row([
                row.suite.clone().into(),
                row.direction.clone().into(),
                row.engine.clone().into(),
                row.kernel.clone().into(),
                best(format!("{:.1}", row.ns_per_op)),
                best(format!("{:.0}", row.mb_per_s)),
                format!("{:.2}", row.cycles_per_byte).into(),
                ratio_cell(row.of_fastest),
                interval(row.of_fastest).into(),
                row.idle_lanes.map_or_else(String::new, |share| format!("{:.1} %", share * 100.0)).into(),
            ]);
        }
    }
    table.note = format!("MB/s: 10^6 bytes of input a second. {}", cycles_by().note());
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use ciphermill_report::{Emphasis, Estimate};

    fn row(engine: &str, kernel: &str, ns_per_op: f64, spread: f64) -> Row {
        Row {
            suite: "3des-cbc".to_owned(),
            direction: "encrypt".to_owned(),
            engine: engine.to_owned(),
            kernel: kernel.to_owned(),
            ops: 1000,
            bytes: 48_000,
            ns_per_op,
            mb_per_s: 48_000.0 / ns_per_op,
            cycles_per_byte: ns_per_op * 3.0 / 48.0,
            spread,
            of_fastest: Estimate::default(),
            idle_lanes: None,
        }
    }

    fn of(mut rows: Vec<Row>) -> Section {
        let fastest = rows.iter().map(|row| row.ns_per_op).fold(f64::MAX, f64::min);
        for row in &mut rows {
            let (value, half) = (row.ns_per_op / fastest, row.spread);
            row.of_fastest = Estimate { value, interval: [value * (1.0 - half), value * (1.0 + half)] };
        }
        let mut section = Section::new("short", "", "");
        fill(&mut section, &rows);
        section
    }

    #[test]
    fn conclusions_come_from_the_figures() {
        let made = of(vec![
            row("openssl", "", 2000.0, 0.01),
            row("lanes", "avx2", 100.0, 0.01),
            row("library", "", 400.0, 0.01),
        ]);
        assert_eq!(
            made.conclusions,
            [
                "3des-cbc encrypt: lanes is the fastest at 100.0 ns an operation, 4.0 × as fast as library, 20.0 × as fast as \
              openssl."
            ]
        );
        let other = of(vec![row("openssl", "", 100.0, 0.01), row("lanes", "avx2", 103.0, 0.08)]);
        assert_eq!(
            other.conclusions,
            [
                "3des-cbc encrypt: openssl (100.0 ns an operation) and lanes are level. Some of these figures are noisy and \
              should not be quoted."
            ]
        );
        assert!(of(vec![row("lanes", "avx2", 100.0, 0.01)]).conclusions.is_empty());
    }

    #[test]
    fn rows_are_marked() {
        let made = of(vec![row("openssl", "", 2000.0, 0.09), row("lanes", "avx2", 100.0, 0.01)]);
        let [slow, fast] = &made.tables[0].rows[..] else { panic!("{made:?}") };
        assert_eq!((slow[4].emphasis, fast[4].emphasis), (Emphasis::Plain, Emphasis::Good));
        assert_eq!((slow[7].text.as_str(), slow[7].emphasis), ("20.00 ×", Emphasis::Doubtful));
        assert_eq!((fast[7].text.as_str(), slow[8].text.as_str()), ("1.00 ×", "18.20–21.80"));
        assert!(made.tables[0].rows.iter().all(|row| row.len() == made.tables[0].columns.len()));
        assert_eq!(made.noisy(), 2, "the time and the ratio");
    }

    #[test]
    fn an_engine_with_two_kernels_has_two_names() {
        let made = of(vec![
            row("lanes", "avx512", 100.0, 0.01),
            row("lanes", "avx2", 200.0, 0.01),
            row("library", "", 400.0, 0.01),
        ]);
        let names: Vec<_> = made.measurements.iter().map(|measurement| measurement.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "3des-cbc/encrypt/lanes/avx512",
                "3des-cbc/encrypt/lanes/avx2",
                "3des-cbc/encrypt/lanes/avx2/of-fastest",
                "3des-cbc/encrypt/library",
                "3des-cbc/encrypt/library/of-fastest",
            ]
        );
    }
}
