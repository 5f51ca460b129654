//! The peaks' section.

use ciphermill_contract::{Direction, Suite};
use ciphermill_report::{Axis, Better, Cell, Look, Plot, Scale, Section, Series, Table};

use super::plan::{ACCELERATORS, CHIP, Cited, Plan, Slide};
use crate::shown::{self, best_cell, digits, distinct, ends, geometric_mean};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Bytes of long operations: Gb/s.
    Bulk,
    /// Operations, short ones or of public keys: a second.
    Operations,
}

/// What one engine reached on so many threads.
#[derive(Clone, Debug)]
pub(super) struct Peak {
    pub(super) suite: Suite,
    pub(super) direction: Direction,
    pub(super) engine: &'static str,
    pub(super) threads: usize,
    pub(super) what: What,
    /// Gb/s or operations a second.
    pub(super) rate: f64,
    pub(super) spread: f64,
}

/// An algorithm with its peaks of one kind.
struct Row<'p> {
    suite: Suite,
    direction: Direction,
    what: What,
    cited: Option<Cited>,
    peaks: Vec<&'p Peak>,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Bulk => "bulk",
            What::Operations => "ops",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            What::Bulk => "Gb/s",
            What::Operations => "op/s",
        }
    }
}

impl Row<'_> {
    fn at(&self, engine: &str, threads: usize) -> Option<&Peak> {
        self.peaks.iter().copied().find(|peak| (peak.engine, peak.threads) == (engine, threads))
    }

    /// The fastest engine on so many threads.
    fn best(&self, threads: usize) -> Option<&Peak> {
        let at = self.peaks.iter().copied().filter(|peak| peak.threads == threads);
        at.max_by(|a, b| a.rate.total_cmp(&b.rate))
    }

    /// The paper's figure, when it is of this kind.
    fn cited(&self) -> Option<Cited> {
        let is_of_kind = self.what == What::Bulk || self.suite.is_public_key();
        self.cited.filter(|_| is_of_kind)
    }

    fn name(&self) -> String {
        format!("{} {}", self.suite, self.direction)
    }
}

const SOURCE: &str = "Christoph Schuba and others, Transparent Multi-core Cryptographic Support on Niagara CMT Processors (slides): \
                      Peak Crypto T2 Accelerator Performance, AES Performance";

/// What there is to learn, in paragraphs.
const LESSON: &[&str] = &[
    "A peak is what is left when nothing stands in the way: long operations or many at once, keys prepared, nothing to \
     wait for. No program gets it, but it says what an engine could do, and how far anything else stays below it. The \
     slides give it for a chip with eight accelerators, one a core, as gigabits a second for ciphers and digests and as \
     operations a second for public keys.",
    "Here every engine and peer runs on one thread and on more, up to all cores. Each thread has a queue and memory of its \
     own, so that whatever does not grow with the threads is the machine's: memory, clock, or cores that are halves of \
     one. Bulk rates are those of the best of several shapes; operations a second are counted with operations of 64 \
     bytes, and for public keys as they are.",
];

/// The section, with what is known before anything is measured.
pub(super) fn section() -> Section {
    shown::section("peaks", "Peaks: what each algorithm reaches on one thread and on all", SOURCE, LESSON)
}

/// Fills the section from what was measured.
pub(super) fn fill(section: &mut Section, plan: &Plan, peaks: &[Peak]) {
    for peak in peaks {
        let name = format!("{}/{}/{}/{}/t{}", peak.suite, peak.direction, peak.engine, peak.what.name(), peak.threads);
        section.measured(name, peak.rate, peak.what.unit(), peak.spread, Better::More);
    }
    let rows = rows(plan, peaks);
    let threads = plan.threads.last().copied().unwrap_or(1);
    let engines = distinct(peaks.iter().map(|peak| peak.engine));
    for what in [What::Bulk, What::Operations] {
        let rows: Vec<&Row<'_>> = rows.iter().filter(|row| row.what == what).collect();
        section.tables.push(peak_table(&rows, &engines, what, threads));
    }
    section.tables.push(thread_table(plan, &rows));
    section.plots.extend(thread_plot(plan, &rows));
    section.conclusions.extend(paper_words(&rows, threads));
    section.conclusions.extend(peer_words(&rows, threads));
    section.conclusions.extend(thread_words(&rows, threads));
}

fn rows<'p>(plan: &'p Plan, peaks: &'p [Peak]) -> Vec<Row<'p>> {
    let mut rows = Vec::new();
    for algorithm in &plan.algorithms {
        for what in [What::Bulk, What::Operations] {
            let (suite, direction) = (algorithm.suite, algorithm.direction);
            let own = |peak: &&Peak| (peak.suite, peak.direction, peak.what) == (suite, direction, what);
            let peaks: Vec<&Peak> = peaks.iter().filter(own).collect();
            if !peaks.is_empty() {
                rows.push(Row { suite, direction, what, cited: algorithm.cited, peaks });
            }
        }
    }
    rows
}

/// Operations a second are many, so in thousands.
fn shown(what: What, rate: f64) -> String {
    match what {
        What::Bulk => digits(rate),
        What::Operations => digits(rate / 1000.0),
    }
}

fn peak_table(rows: &[&Row<'_>], engines: &[&str], what: What, threads: usize) -> Table {
    let (title, unit) = match what {
        What::Bulk => ("Peak bulk rates", "Gb/s"),
        What::Operations => ("Operations", "thousands a second"),
    };
    let paper = format!("{CHIP}, chip");
    let mut heads = vec!["algorithm", "direction", paper.as_str()];
    heads.extend(engines);
    heads.push("best by paper");
    let title = format!("{title} on {threads} thread{}, {unit}", if threads == 1 { "" } else { "s" });
    let mut table = Table::new(&title, &heads, 2);
    table.note = format!(
        "The chip's figures ({ACCELERATORS} accelerators) are from the slide `{}`; those for counter mode from `{}`, read as Gb/s. Its ECCp-160 \
         stands beside P-256, a larger curve. The best of each row is marked.",
        Slide::Peak.title(),
        Slide::Counter.title()
    );
    for row in rows {
        let best = row.best(threads);
        let mut cells: Vec<Cell> = vec![row.suite.to_string().into(), row.direction.to_string().into()];
        cells.push(
            row.cited().map_or(String::new(), |cited| format!("{} {}", cited.name, shown(what, cited.value))).into(),
        );
        for engine in engines {
            cells.push(match row.at(engine, threads) {
                None => "".into(),
                Some(peak) => best_cell(shown(what, peak.rate), best.is_some_and(|best| best.engine == *engine)),
            });
        }
        let by_paper = row.cited().zip(best).map(|(cited, best)| format!("{} ×", digits(best.rate / cited.value)));
        cells.push(by_paper.unwrap_or_default().into());
        table.row(cells);
    }
    table
}

fn thread_table(plan: &Plan, rows: &[Row<'_>]) -> Table {
    let counts: Vec<String> = plan.threads.iter().map(|threads| format!("{threads}")).collect();
    let mut heads = vec!["algorithm", "direction", "engine", "unit"];
    heads.extend(counts.iter().map(String::as_str));
    heads.push("share of linear");
    let mut table = Table::new("By threads: the best engine of each algorithm", &heads, 4);
    table.note = "The last column is the rate on all threads by that of one thread times their number.".to_owned();
    let last = plan.threads.last().copied().unwrap_or(1);
    for row in rows {
        let Some(best) = row.best(last) else { continue };
        let mut cells: Vec<Cell> = vec![
            row.suite.to_string().into(),
            row.direction.to_string().into(),
            best.engine.into(),
            row.what.unit().into(),
        ];
        for threads in &plan.threads {
            let peak = row.at(best.engine, *threads);
            cells.push(peak.map_or(String::new(), |peak| digits(peak.rate)).into());
        }
        cells.push(scaling(row, last).map_or(String::new(), |share| format!("{:.0} %", 100.0 * share)).into());
        table.row(cells);
    }
    table
}

/// The best engine's rate on all threads, as a share of one thread's times their number.
fn scaling(row: &Row<'_>, threads: usize) -> Option<f64> {
    let best = row.best(threads)?;
    let one = row.at(best.engine, 1)?;
    Some(best.rate / (one.rate * threads as f64))
}

fn thread_plot(plan: &Plan, rows: &[Row<'_>]) -> Option<Plot> {
    let last = plan.threads.last().copied()?;
    let mut plot =
        Plot::new("Bulk rates by threads", Axis::new("threads", Scale::Log2), Axis::new("Gb/s", Scale::Log10));
    plot.caption = format!(
        "The best engine of each algorithm. Dashed: what the {} reaches with one and with all of its {} accelerators, taking them \
         to be alike.",
        CHIP, ACCELERATORS
    );
    for row in rows.iter().filter(|row| row.what == What::Bulk) {
        let Some(best) = row.best(last) else { continue };
        let at = |threads: &usize| row.at(best.engine, *threads).map(|peak| [*threads as f64, peak.rate]);
        let points = plan.threads.iter().filter_map(at).collect();
        plot.series.push(Series::new(format!("{} by {}", row.name(), best.engine), Look::Measured, points));
        if let Some(cited) = row.cited().filter(|cited| cited.slide == Slide::Peak) {
            let chip = ACCELERATORS as f64;
            let points = vec![[1.0, cited.value / chip], [chip, cited.value]];
            plot.series.push(Series::new(format!("{CHIP}, {}", cited.name), Look::Cited, points));
        }
    }
    (!plot.series.is_empty()).then_some(plot)
}

/// This machine against the paper's chip.
fn paper_words(rows: &[Row<'_>], threads: usize) -> Vec<String> {
    let compared: Vec<(&Row<'_>, f64, f64)> = rows
        .iter()
        .filter_map(|row| {
            let (cited, best, one) = (row.cited()?, row.best(threads)?, row.best(1)?);
            let accelerator = cited.value / ACCELERATORS as f64;
            Some((row, best.rate / cited.value, one.rate / accelerator))
        })
        .collect();
    let Some((least, most)) = ends(&compared, |(_, ratio, _)| *ratio) else {
        return vec![format!("Nothing that was measured stands in the tables of the {CHIP}.")];
    };
    let over = compared.iter().filter(|(_, ratio, _)| *ratio >= 1.0).count();
    vec![format!(
        "On all {threads} threads this machine reaches or passes the {} chip in {over} of {} algorithms: most in {} ({} times), least \
         in {} ({} times). One thread by one accelerator: {} times in the geometric mean.",
        CHIP,
        compared.len(),
        most.0.name(),
        digits(most.1),
        least.0.name(),
        digits(least.1),
        digits(geometric_mean(compared.iter().map(|(_, _, one)| *one)))
    )]
}

/// Who leads how often, and our lanes against the best of the others.
fn peer_words(rows: &[Row<'_>], threads: usize) -> Vec<String> {
    let mut leads: Vec<(&str, usize)> = Vec::new();
    let mut ratios = Vec::new();
    for row in rows {
        let Some(best) = row.best(threads) else { continue };
        match leads.iter_mut().find(|(engine, _)| *engine == best.engine) {
            Some((_, count)) => *count += 1,
            None => leads.push((best.engine, 1)),
        }
        let others = row.peaks.iter().filter(|peak| peak.threads == threads && peak.engine != "lanes");
        let other = others.map(|peak| peak.rate).max_by(f64::total_cmp);
        if let (Some(own), Some(other)) = (row.at("lanes", threads), other) {
            ratios.push((row, own.rate / other));
        }
    }
    leads.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut words = Vec::new();
    if !leads.is_empty() {
        let leads: Vec<String> = leads.iter().map(|(engine, count)| format!("{engine} {count}")).collect();
        words.push(format!("Of {} peaks on {threads} threads, these engines hold: {}.", rows.len(), leads.join(", ")));
    }
    if let Some((least, most)) = ends(&ratios, |(_, ratio)| *ratio) {
        words.push(format!(
            "lanes against the best of the others: {} times in the geometric mean, from {} times ({}, {}) to {} times ({}, {}).",
            digits(geometric_mean(ratios.iter().map(|(_, ratio)| *ratio))),
            digits(least.1),
            least.0.name(),
            least.0.what.name(),
            digits(most.1),
            most.0.name(),
            most.0.what.name()
        ));
    }
    words
}

fn thread_words(rows: &[Row<'_>], threads: usize) -> Option<String> {
    if threads == 1 {
        return Some("There is one core only, so nothing can be said of scaling.".to_owned());
    }
    let shares: Vec<(&Row<'_>, f64)> = rows.iter().filter_map(|row| Some((row, scaling(row, threads)?))).collect();
    let (least, _) = ends(&shares, |(_, share)| *share)?;
    Some(format!(
        "{threads} threads do {:.2} times the work of one in the geometric mean; {} grows least, to {:.2} times.",
        threads as f64 * geometric_mean(shares.iter().map(|(_, share)| *share)),
        least.0.name(),
        threads as f64 * least.1
    ))
}

#[cfg(test)]
mod tests {
    use ciphermill_report::Emphasis;

    use super::*;
    use crate::method::Options;

    fn peak(name: &str, engine: &'static str, threads: usize, rate: f64) -> Peak {
        let suite: Suite = name.parse().expect("a suite");
        let what = if suite.is_public_key() { What::Operations } else { What::Bulk };
        Peak { suite, direction: Direction::Encrypt, engine, threads, what, rate, spread: 0.01 }
    }

    fn plan() -> Plan {
        Plan::new(&Options { quick: true, ..Options::default() }, 2)
    }

    #[test]
    fn the_papers_chip_and_the_peers_are_compared() {
        let peaks = [
            peak("aes-128-cbc", "lanes", 1, 50.0),
            peak("aes-128-cbc", "lanes", 2, 88.0),
            peak("aes-128-cbc", "openssl", 1, 12.0),
            peak("aes-128-cbc", "openssl", 2, 22.0),
            peak("ecdh-p256", "library", 1, 20_000.0),
            peak("ecdh-p256", "library", 2, 26_000.0),
        ];
        let mut section = section();
        fill(&mut section, &plan(), &peaks);
        let words = section.conclusions.join("\n");
        assert!(words.contains("in 1 of 2 algorithms: most in aes-128-cbc encrypt (2.00 times)"), "{words}");
        assert!(words.contains("least in ecdh-p256 encrypt (0.500 times)"), "{words}");
        assert!(words.contains("lanes against the best of the others: 4.00 times"), "{words}");
        assert!(words.contains("ecdh-p256 encrypt grows least, to 1.30 times"), "{words}");
        let [bulk, operations, threads] = section.tables.as_slice() else { panic!("three tables") };
        assert_eq!(bulk.rows[0][2].text, "AES-128 44.0");
        assert_eq!((bulk.rows[0][3].emphasis, bulk.rows[0][4].emphasis), (Emphasis::Good, Emphasis::Plain));
        assert_eq!(bulk.rows[0].last().map(|cell| cell.text.as_str()), Some("2.00 ×"));
        assert_eq!(operations.rows[0][2].text, "ECCp-160 52.0");
        assert_eq!(threads.rows[0].last().map(|cell| cell.text.as_str()), Some("88 %"));
        let cited: Vec<_> = section.plots[0].series.iter().filter(|series| series.look == Look::Cited).collect();
        assert_eq!(cited[0].points, [[1.0, 5.5], [8.0, 44.0]]);
    }

    #[test]
    fn without_the_papers_algorithms_that_is_said() {
        let mut section = section();
        fill(&mut section, &plan(), &[peak("aes-128-gcm", "lanes", 1, 50.0)]);
        assert!(section.conclusions[0].starts_with("Nothing that was measured stands"));
    }
}
