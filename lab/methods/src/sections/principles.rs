//! `lab principles` as a section: the paper's two tables for this machine.

use std::sync::atomic::AtomicBool;

use ciphermill_principles::Variant;
use ciphermill_report::{Better, Section, Table};

use crate::LabError;
use crate::method::{Options, Progress};
use crate::principles::{self, AlgorithmRecord, Record, Utilisation, VariantRecord};
use crate::shown::{capital, ends, path_part, ratio_cell, spread_cell, times};

/// Bytes of each message unless said otherwise.
const LEN: usize = 1024;

const SOURCE: &str = "Z. Tan, C. Lin, Y. Li, Y. Jiang: Optimization and Benchmark of Cryptographic Algorithms on Network \
                      Processors (Intel IXP1200). Tables 1 and 2.";

/// The method in the lab's common frame.
///
/// # Errors
/// As [`principles::run`].
pub(crate) fn run(options: &Options, progress: Progress<'_>) -> Result<Section, LabError> {
    let stop = AtomicBool::new(false);
    let own = principles::Options {
        algorithms: principles::named(&[])?,
        len: LEN,
        seed: options.seed,
        budget: options.budget,
        stop: &stop,
    };
    section(&own, options.core, progress)
}

/// Measures with options of the method's own, and tells what was measured as a section of a record.
///
/// # Errors
/// As [`principles::run`].
pub fn section(
    options: &principles::Options<'_>,
    core: Option<usize>,
    progress: Progress<'_>,
) -> Result<Section, LabError> {
    let mut section = principles::run(options, progress)?.section();
    if let Some(core) = core {
        let why = "its variants take every hardware thread, so none of them is pinned";
        section.lacks(format!("the principles on core {core} alone"), why);
    }
    Ok(section)
}

impl Record {
    /// The record as a section of the lab's common record.
    fn section(&self) -> Section {
        let mut section = Section::new("principles", "A network processor's principles, today", SOURCE);
        section.lesson = lesson(self);
        section.conclusions = conclusions(&self.algorithms);
        section.tables = vec![characteristics(self), throughput(self)];
        for algorithm in &self.algorithms {
            for variant in &algorithm.variants {
                let name = format!("{}/{}", algorithm.algorithm, path_part(variant.variant));
                section.measured(&name, variant.mbps, "Mb/s", variant.spread, Better::More);
                let gain = format!("{name}/gain");
                section.ratio(gain, variant.gain, Better::Neither);
            }
        }
        section
    }
}

fn lesson(record: &Record) -> Vec<String> {
    vec![
        "Tan, Lin, Li and Jiang made ciphers and digests fast on Intel's IXP1200, a network processor of 2000: simple cores \
         without caches, each with four hardware threads, on which every access to memory is waited for unless a program finds \
         something else to do. Their principles: unroll the rounds and keep constants in registers (computation oriented), put \
         independent work between a read and its use (latency hiding), give each hardware thread messages of its own (thread \
         parallel, over either of the two: M1 and M2), and let one thread keep the serial state while another handles the data \
         (helper thread)."
            .to_owned(),
        format!(
            "Here each algorithm is written in each of these ways, and in one that the paper could not have: many messages \
             side by side in one thread (lanes). {} messages of {} bytes under {} keys; the variants are interleaved, and must \
             agree with each other before they are timed. What a processor of today does by itself shows as a gain that is \
             gone; what it cannot do shows as one that has grown.",
            record.messages, record.len, record.keys
        ),
    ]
}

/// What became of each principle, and what lanes are worth.
fn conclusions(algorithms: &[AlgorithmRecord]) -> Vec<String> {
    let mut said = Vec::new();
    let variants = [
        Variant::ComputationOriented,
        Variant::LatencyHiding,
        Variant::ThreadParallelM1,
        Variant::ThreadParallelM2,
        Variant::HelperThread,
    ];
    for variant in variants.map(Variant::name) {
        let both: Vec<(&str, f64, f64)> = algorithms
            .iter()
            .filter_map(|algorithm| {
                let own = of(algorithm, variant)?;
                Some((algorithm.algorithm, own.gain.value, own.paper?.gain))
            })
            .collect();
        let Some((least, most)) = ends(&both, |(_, own, _)| *own) else { continue };
        let more = both.iter().filter(|(_, own, paper)| own > paper).count();
        let tail = match both.len() {
            1 => String::new(),
            all => format!(
                ", least in {} ({:.2} ×, there {:.2} ×); {more} of {all} gain more than on the IXP1200",
                least.0, least.1, least.2
            ),
        };
        let verb = if both.len() == 1 { "gains in" } else { "gains most in" };
        said.push(format!(
            "{} {verb} {} ({:.2} ×, on the IXP1200 {:.2} ×){tail}.",
            capital(variant),
            most.0,
            most.1,
            most.2
        ));
    }
    let lanes: Vec<(&str, f64, bool)> = algorithms
        .iter()
        .filter_map(|algorithm| {
            let lanes = of(algorithm, Variant::Lanes.name())?;
            let single = algorithm.variants.iter().filter(|variant| variant.threads == 1);
            let best = single.map(|variant| variant.mbps).fold(0.0, f64::max);
            Some((algorithm.algorithm, lanes.gain.value, lanes.mbps >= best))
        })
        .collect();
    if let Some((name, gain, _)) = lanes.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
        let fastest = lanes.iter().filter(|(.., fastest)| *fastest).count();
        let all = lanes.len();
        said.push(format!(
            "Lanes are the fastest way on one thread in {fastest} of {all}; they are worth most in {name} ({gain:.2} ×)."
        ));
    }
    said
}

fn of<'a>(algorithm: &'a AlgorithmRecord, variant: &str) -> Option<&'a VariantRecord> {
    algorithm.variants.iter().find(|other| other.variant == variant)
}

fn characteristics(record: &Record) -> Table {
    let heads = [
        "algorithm",
        "rounds",
        "instr.: unopt.",
        "comp.",
        "hiding",
        "lanes",
        "accesses: unopt.",
        "comp.",
        "IXP1200: space",
        "rounds",
        "accesses",
    ];
    let title = "Table 1. Instructions and memory accesses a round, counted (IXP1200: table 1 of the paper)";
    let mut table = Table::new(title, &heads, 2);
    for algorithm in &record.algorithms {
        let cell = |name: &str, figure: fn(&VariantRecord) -> f64| {
            of(algorithm, name).map_or_else(String::new, |variant| format!("{:.1}", figure(variant)))
        };
        let instructions = |variant: &VariantRecord| variant.instructions_per_round;
        let accesses = |variant: &VariantRecord| variant.accesses_per_round;
        let cells = [
            algorithm.algorithm.to_owned(),
            algorithm.rounds.to_owned(),
            cell("unoptimised", instructions),
            cell("computation oriented", instructions),
            cell("latency hiding", instructions),
            cell("lanes", instructions),
            cell("unoptimised", accesses),
            cell("computation oriented", accesses),
            algorithm.paper.instruction_space.to_string(),
            algorithm.paper.rounds.map_or_else(|| "/".to_owned(), |rounds| rounds.to_string()),
            algorithm.paper.accesses.to_string(),
        ];
        table.row(cells.map(Into::into));
    }
    table.note = "Counted by running the same source over words that count: word operations, loop control, reads and writes of \
                  tables, messages and buffers; moves, immediates and address arithmetic are free. A helper's ring is not \
                  counted. In lanes a vector's instructions are shared by its messages."
        .to_owned();
    table
}

fn throughput(record: &Record) -> Table {
    // As short as they are so that a line fits a terminal.
    let heads = ["cipher", "variant", "Mb/s", "ρ", "gain", "cycles/B", "spread", "on IXP1200", "ρ", "gain"];
    let title =
        "Table 2. Throughput, utilisation ρ, and gain over the unoptimised variant (IXP1200: table 2 of the paper)";
    let mut table = Table::new(title, &heads, 2);
    for algorithm in &record.algorithms {
        for (index, variant) in algorithm.variants.iter().enumerate() {
            let name = if index == 0 { algorithm.algorithm } else { "" };
            let [mbps, utilisation, gain] = ixp1200(variant);
            table.row([
                name.into(),
                label(algorithm, variant).into(),
                format!("{:.0}", variant.mbps).into(),
                format!("{:.1} %", variant.utilisation).into(),
                ratio_cell(variant.gain),
                format!("{:.2}", variant.cycles_per_byte).into(),
                spread_cell(variant.spread),
                mbps.into(),
                utilisation.into(),
                gain.into(),
            ]);
        }
    }
    table.note = throughput_note(record);
    table
}

/// The variant's name, with what it runs on where that is not one message in one thread.
fn label(algorithm: &AlgorithmRecord, variant: &VariantRecord) -> String {
    match (variant.variant, variant.threads) {
        ("lanes", _) => format!("lanes: {}", algorithm.lanes),
        (name, 1) => name.to_owned(),
        (name, threads) => format!("{name}: {threads}"),
    }
}

/// The paper's cells. Its column "thread parallel" is the better of M1 and M2, and has a star here.
fn ixp1200(variant: &VariantRecord) -> [String; 3] {
    let star = if variant.variant.starts_with("thread parallel") { "*" } else { "" };
    let cells = variant.paper.map(|paper| {
        [format!("{}{star}", as_printed(paper.mbps)), format!("{:.1} %", paper.utilisation), times(paper.gain)]
    });
    cells.unwrap_or_else(|| ["/".to_owned(), "/".to_owned(), "/".to_owned()])
}

/// With as many decimals as the paper prints.
fn as_printed(mbps: f64) -> String {
    let tenths = mbps * 10.0;
    if (tenths - tenths.round()).abs() < 1e-6 { format!("{mbps:.1}") } else { format!("{mbps:.2}") }
}

/// What a reader has to know of the figures.
fn throughput_note(record: &Record) -> String {
    let clocks = record.algorithms.iter().map(|algorithm| algorithm.clock_ghz);
    let (low, high) = clocks.fold((f64::MAX, 0.0f64), |(low, high), ghz| (low.min(ghz), high.max(ghz)));
    let utilisation = match &record.utilisation {
        Utilisation::Counters { issue_width } => format!(
            "ρ: instructions a cycle by the processor's counters, as a share of the {issue_width} that can begin in one."
        ),
        Utilisation::Floor { issue_width, why } => format!(
            "ρ: the floor (counted instructions at {issue_width} a cycle, those that compute with vectors at 3, AVX-512 2) as \
             a share of the cycles that all threads took; no counters to ask here ({why})."
        ),
    };
    format!(
        "{utilisation} Cycles by a chain of dependent instructions timed in the same turns: {low:.2} to {high:.2} GHz. * The \
         paper gives the better of M1 and M2 (Blowfish: M2, Khufu/Khafre: M1); both rows have it."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::principles::PaperFigure;
    use ciphermill_principles::paper::Characteristics;
    use ciphermill_report::Estimate;

    fn variant(name: &'static str, threads: usize, gain: f64, paper: Option<f64>) -> VariantRecord {
        let paper = paper.map(|gain| PaperFigure { mbps: 100.0 * gain, gain, utilisation: 50.0 });
        VariantRecord {
            variant: name,
            threads,
            instructions_per_round: 1.0,
            accesses_per_round: 1.0,
            mbps: 1000.0 * gain,
            cycles_per_byte: 1.0,
            gain: Estimate { value: gain, interval: [gain; 2] },
            utilisation: 50.0,
            spread: 0.01,
            paper,
        }
    }

    fn algorithm(name: &'static str, hiding: f64, lanes: f64) -> AlgorithmRecord {
        AlgorithmRecord {
            algorithm: name,
            rounds: "",
            lanes: "8".to_owned(),
            clock_ghz: 3.0,
            paper: Characteristics { instruction_space: 1, rounds: None, accesses: 1 },
            variants: vec![
                variant("unoptimised", 1, 1.0, Some(1.0)),
                variant("latency hiding", 1, hiding, Some(1.5)),
                variant("lanes", 1, lanes, None),
            ],
        }
    }

    #[test]
    fn the_papers_figures_keep_their_decimals() {
        assert_eq!([219.06, 775.87, 261.0, 1103.7].map(as_printed), ["219.06", "775.87", "261.0", "1103.7"]);
    }

    /// A machine that is busy makes cells wider, and must not make names break.
    #[test]
    fn names_stay_whole_where_every_figure_is_noisy() {
        let paper = Some(99.99);
        let mut rc4 = algorithm("blowfish", 2.0, 1.2);
        let threads = [("thread parallel M1", 16), ("thread parallel M2", 16), ("helper thread", 2)];
        rc4.variants.extend(threads.map(|(name, threads)| variant(name, threads, 10.0, paper)));
        for variant in &mut rc4.variants {
            variant.spread = 9.999;
            variant.gain.interval = [0.0, 99.0];
            variant.cycles_per_byte = 999.0;
        }
        let mut section = Section::new("principles", "t", "s");
        section.tables.push(throughput(&Record {
            messages: 64,
            len: 64,
            keys: 4,
            utilisation: Utilisation::Floor { issue_width: 6.0, why: "no counters".to_owned() },
            algorithms: vec![rc4],
        }));
        let said = ciphermill_report::terminal(&section, 120, false);
        for name in ["thread parallel M1: 16", "thread parallel M2: 16", "helper thread: 2", "~± 999.9 %"] {
            assert!(said.contains(name), "`{name}` is missing in: {said}");
        }
    }

    #[test]
    fn conclusions_come_from_the_figures() {
        let said = conclusions(&[algorithm("rc4", 2.0, 1.2), algorithm("seal", 1.1, 3.0)]);
        assert_eq!(
            said,
            [
                "Latency hiding gains most in rc4 (2.00 ×, on the IXP1200 1.50 ×), least in seal (1.10 ×, there 1.50 ×); 1 of 2 \
                 gain more than on the IXP1200.",
                "Lanes are the fastest way on one thread in 1 of 2; they are worth most in seal (3.00 ×).",
            ]
        );
        let one = conclusions(&[algorithm("md5", 1.2, 9.0)]);
        assert_eq!(one[0], "Latency hiding gains in md5 (1.20 ×, on the IXP1200 1.50 ×).");
        assert!(conclusions(&[]).is_empty());
    }
}
