//! The driver benchmark's section: plots, tables, and sentences that follow from the numbers.

use ciphermill_contract::{Direction, Suite};
use ciphermill_report::{Axis, Better, Cell, Estimate, Look, Plot, Scale, Section, Series, Table};

use super::drive::{CHECKINGS, COMPLETIONS, DISPATCHES};
use super::effects::{Effect, Factor, Observation, effects};
use super::plan::{PAPER, PAPER_FACTORS, Plan};
use crate::shown::{self, capital, digits, distinct, ends, figure_cell, grouped, ratio_cell, times};
use crate::timing::Samples;

/// A rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rate {
    /// Megabits (10^6) of input a second.
    pub(super) mbit_per_s: f64,
    pub(super) spread: f64,
}

/// One size of one suite.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) suite: Suite,
    pub(super) direction: Direction,
    pub(super) len: usize,
    pub(super) chunks: usize,
    pub(super) one: Rate,
    pub(super) all: Rate,
    /// How many times as fast everything at once is.
    pub(super) factor: Estimate,
    pub(super) bare: Rate,
    pub(super) bare_name: &'static str,
}

/// One combination of the design.
#[derive(Clone, Debug)]
pub(super) struct DesignPoint {
    pub(super) seen: Observation,
    pub(super) spread: f64,
}

/// Below this, one way of dispatching is as good as the other.
const NO_MATTER: f64 = 1.1;

/// Below this, suites are nearly identical.
const NEARLY: f64 = 1.5;

impl Rate {
    pub(super) fn of(bytes: f64, samples: &Samples) -> Rate {
        let ns = samples.median_ns();
        Rate { mbit_per_s: if ns > 0.0 { bytes * 8000.0 / ns } else { 0.0 }, spread: samples.spread() }
    }
}

impl Point {
    fn name(&self) -> String {
        format!("{} {}", self.suite, self.direction)
    }
}

const SOURCE: &str = "Geoff Waters, Understanding Crypto Performance in Embedded Systems, part 2 (Embedded.com, Freescale): \
                      Accelerator Measurement Methodology, figure 1";

/// What there is to learn, in paragraphs.
const LESSON: &[&str] = &[
    "A driver benchmark fills memory with chunks of data, has the engine work on each, and divides bytes by time. What \
     it finds depends on the driver at least as much as on the engine. A driver that builds the next operation only \
     when the last one is done pays its own overhead for every chunk; one that builds all operations first and hands \
     them over as fast as they are taken pays it once a batch, and lets the engine work on many side by side. Both are \
     honest, but only the first is what a program does that handles packets as they come.",
    "More such choices move the figure: whether the caller asks for completions or sleeps until it is woken, whether \
     chunks are new or one chunk stays in the cache, whether one key serves all, and whether answers are compared \
     while the clock runs. Here every combination of them is measured, and the variation of the results is divided \
     among the variables. Chunks go through the mill, which chooses the engine; beside it stands the bare engine with all \
     chunks as one batch.",
];

/// The section, with what is known before anything is measured.
pub(super) fn section() -> Section {
    shown::section("driver", "Driving an engine: how the way of asking moves the answer", SOURCE, LESSON)
}

/// The variables of the design, in the order of an observation's levels.
pub(super) fn factors(sizes: &[usize]) -> Vec<Factor> {
    let factor = |name: &str, levels: &[&str]| {
        let levels = levels.iter().map(|level| (*level).to_owned()).collect();
        Factor { name: name.to_owned(), levels }
    };
    vec![
        Factor { levels: sizes.iter().map(|len| format!("{len} B")).collect(), ..factor("size", &[]) },
        factor("dispatch", &DISPATCHES.map(|(_, name)| name)),
        factor("completion", &COMPLETIONS.map(|(_, name)| name)),
        factor("data", &["unique chunks", "one chunk repeated"]),
        factor("keys", &["one key", "many keys"]),
        factor("checking", &CHECKINGS.map(|(_, name)| name)),
    ]
}

/// Fills the section from what was measured.
pub(super) fn fill(section: &mut Section, plan: &Plan, points: &[Point], seen: &[DesignPoint]) {
    measurements(section, points);
    section.plots.extend(figure_1(points));
    section.plots.extend(dispatch_plot(points));
    section.tables.push(dispatch_table(points));
    section.conclusions.extend(dispatch_words(points));
    section.conclusions.extend(suite_words(points));
    let factors = factors(plan.extent.design.sizes);
    for point in seen {
        let levels = point.seen.levels.iter().zip(&factors);
        let levels: Vec<String> = levels.map(|(level, factor)| factor.levels[*level].replace(' ', "-")).collect();
        let name = format!("design/{}", levels.join("/"));
        section.measured(name, point.seen.rate, "Mb/s", point.spread, Better::More);
    }
    let seen: Vec<Observation> = seen.iter().map(|point| point.seen.clone()).collect();
    effects_of(section, &factors, &seen, &plan.design_suite.to_string());
}

fn measurements(section: &mut Section, points: &[Point]) {
    for point in points {
        let of = |way: &str| format!("{}/{}/{way}/{}", point.suite, point.direction, point.len);
        let mut rate = |way: &str, rate: Rate| {
            section.measured(of(way), rate.mbit_per_s, "Mb/s", rate.spread, Better::More);
        };
        rate("one-at-a-time", point.one);
        rate("all-at-once", point.all);
        rate(&format!("bare-{}", point.bare_name), point.bare);
        section.ratio(of("factor"), point.factor, Better::Neither);
    }
}

/// The points of each suite and direction, in order.
fn by_suite(points: &[Point]) -> Vec<&[Point]> {
    points.chunk_by(|a, b| (a.suite, a.direction) == (b.suite, b.direction)).collect()
}

fn series(name: String, points: &[Point], value: impl Fn(&Point) -> f64) -> Series {
    Series::new(name, Look::Measured, points.iter().map(|point| [point.len as f64, value(point)]).collect())
}

fn figure_1(points: &[Point]) -> Option<Plot> {
    let suites = by_suite(points);
    let first = suites.first()?;
    let mut plot = Plot::new(
        "Figure 1 for this machine: the driver benchmark by suite",
        Axis::new("bytes a chunk", Scale::Log2),
        Axis::new("Mb/s", Scale::Log10),
    );
    plot.caption = format!(
        "One at a time for every suite, and all at once for {}, as in the article. Where the lower lines lie together, the \
         way of asking is measured; where they part, the cipher is. Unique chunks, one key, polled, unchecked.",
        first[0].name()
    );
    for points in &suites {
        plot.series.push(series(format!("{}, one at a time", points[0].name()), points, |point| point.one.mbit_per_s));
    }
    plot.series.push(series(format!("{}, all at once", first[0].name()), first, |point| point.all.mbit_per_s));
    let bare = format!("{}, all as one batch of bare {}", first[0].name(), first[0].bare_name);
    plot.series.push(series(bare, first, |point| point.bare.mbit_per_s));
    Some(plot)
}

fn dispatch_plot(points: &[Point]) -> Option<Plot> {
    let suites = by_suite(points);
    suites.first()?;
    let mut plot = Plot::new(
        "All at once by one at a time",
        Axis::new("bytes a chunk", Scale::Log2),
        Axis::new("times as fast", Scale::Log2),
    );
    plot.caption =
        "How many times as fast chunks are done when all are handed over at once. The article gives its factor in \
                    words: about four at small sizes (drawn at 64 bytes), next to nothing from 1 KB on."
            .to_owned();
    for points in suites {
        plot.series.push(series(points[0].name(), points, |point| point.factor.value));
    }
    plot.series.push(Series::new(PAPER, Look::Cited, PAPER_FACTORS.to_vec()));
    Some(plot)
}

fn dispatch_table(points: &[Point]) -> Table {
    let heads =
        ["suite", "direction", "bytes", "chunks", "one at a time, Mb/s", "all at once, Mb/s", "factor", "bare, Mb/s"];
    let mut table = Table::new("Two styles of dispatch", &heads, 2);
    table.note =
        "`bare` is the first engine that takes part, called without the mill, with all chunks as one batch.".to_owned();
    for point in points {
        let rate = |rate: Rate| figure_cell(digits(rate.mbit_per_s), rate.spread);
        table.row([
            point.suite.to_string().into(),
            point.direction.to_string().into(),
            point.len.to_string().into(),
            grouped(point.chunks).into(),
            rate(point.one),
            rate(point.all),
            ratio_cell(point.factor),
            rate(point.bare),
        ]);
    }
    table
}

/// What the factors between the styles say, suite by suite.
fn dispatch_words(points: &[Point]) -> Vec<String> {
    let mut words = Vec::new();
    for points in by_suite(points) {
        let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
        let mut text = format!(
            "{}: handed over all at once, chunks of {} B are done {:.1} times as fast as one at a time, chunks of {} B {:.1} \
             times",
            first.name(),
            first.len,
            first.factor.value,
            last.len,
            last.factor.value
        );
        let matters = points.iter().rposition(|point| point.factor.value >= NO_MATTER);
        text += &match matters {
            None => "; at no size does it matter by a tenth or more.".to_owned(),
            Some(at) if at + 1 == points.len() => "; unlike in the article, no size makes the styles equal.".to_owned(),
            Some(at) => format!("; from {} B on the difference is below a tenth.", points[at + 1].len),
        };
        words.push(text);
    }
    let [len, factor] = PAPER_FACTORS[0];
    if let Some(point) = points.iter().find(|point| point.len >= 64) {
        words.push(format!(
            "{}: a factor of about {factor} at small sizes (drawn at {len:.0} B); this machine has {:.1} with {} at {} B.",
            PAPER,
            point.factor.value,
            point.name(),
            point.len
        ));
    }
    words
}

/// Whether suites lie together when chunks are short and part when they are long.
fn suite_words(points: &[Point]) -> Vec<String> {
    let at = |len: usize| points.iter().filter(move |point| point.len == len && point.direction == Direction::Encrypt);
    let apart = |len: usize| {
        let (slow, fast) = ends(at(len), |point| point.one.mbit_per_s)?;
        (at(len).count() > 1).then(|| (fast.one.mbit_per_s / slow.one.mbit_per_s, fast.suite, slow.suite))
    };
    let shortest = points.iter().map(|point| point.len).min();
    let longest = points.iter().map(|point| point.len).max();
    let mut words = Vec::new();
    if let (Some(short), Some(long)) = (shortest, longest)
        && let (Some((near, fast, slow)), Some((far, long_fast, long_slow))) = (apart(short), apart(long))
    {
        let verdict = match (near < NEARLY, near < far) {
            (true, _) => "as in the article, short chunks measure the way of asking and not the cipher",
            (false, true) => {
                "the way of asking narrows the difference at short chunks without hiding it as in the article"
            }
            (false, false) => "unlike in the article, short chunks tell the ciphers apart as well as long ones",
        };
        words.push(format!(
            "One at a time, the suites lie {near:.1} times apart at {short} B ({fast} against {slow}) and {far:.1} times at \
             {long} B ({long_fast} against {long_slow}): {verdict}."
        ));
    }
    for suite in distinct(points.iter().map(|point| point.suite)) {
        let of = |direction| {
            let mut own = points.iter().filter(|point| point.suite == suite && point.direction == direction);
            own.rfind(|point| Some(point.len) == longest)
        };
        if let (Some(there), Some(back)) = (of(Direction::Encrypt), of(Direction::Decrypt)) {
            let ratio = back.all.mbit_per_s / there.all.mbit_per_s;
            words.push(format!(
                "{suite}: decrypting chunks of {} B runs at {ratio:.2} times the rate of encrypting.",
                there.len
            ));
        }
    }
    words
}

/// What one variable did within each size.
fn at_each_size(factors: &[Factor], seen: &[Observation], factor: usize) -> Vec<Option<Effect>> {
    let within = |size: usize| {
        let part: Vec<Observation> = seen
            .iter()
            .filter(|seen| seen.levels[0] == size)
            .map(|seen| Observation { levels: seen.levels[1..].to_vec(), rate: seen.rate })
            .collect();
        let found = effects(&factors[1..], &part)?;
        found.mains.into_iter().find(|effect| effect.factor + 1 == factor)
    };
    (0..factors[0].levels.len()).map(within).collect()
}

fn effects_of(section: &mut Section, factors: &[Factor], seen: &[Observation], suite: &str) {
    let Some(found) = effects(factors, seen) else {
        if !seen.is_empty() {
            section.lacks("what moves the result", "not every combination was measured");
        }
        return;
    };
    let mut heads = vec!["variable", "best", "worst", "best by worst", "share of variation"];
    let sizes: Vec<String> = factors[0].levels.iter().map(|size| format!("at {size}")).collect();
    heads.extend(sizes.iter().map(String::as_str));
    let mut table = Table::new("What moved the result", &heads, 3);
    table.note = format!(
        "{suite} encrypting; every combination of {} settings. `best by worst` is the geometric mean over all other settings, \
         at every size together and at each. Variables in the order of their share; what two do together: {:.1} % at most, \
         larger interactions and noise: {:.1} %.",
        seen.len(),
        found.pair.map_or(0.0, |(_, share)| 100.0 * share),
        100.0 * found.rest
    );
    for effect in &found.mains {
        let factor = &factors[effect.factor];
        let mut row: Vec<Cell> = vec![
            factor.name.as_str().into(),
            factor.levels[effect.best].as_str().into(),
            factor.levels[effect.worst].as_str().into(),
            times(effect.ratio).into(),
            format!("{:.1} %", 100.0 * effect.share).into(),
        ];
        for within in at_each_size(factors, seen, effect.factor) {
            row.push(within.map_or(String::new(), |effect| times(effect.ratio)).into());
        }
        table.row(row);
        section.measured(format!("effect/{}", factor.name), effect.ratio, "×", 0.0, Better::Neither);
        section.measured(format!("share/{}", factor.name), 100.0 * effect.share, "%", 0.0, Better::Neither);
    }
    section.tables.push(table);
    section.conclusions.extend(effect_words(factors, &found.mains));
    if let Some(([a, b], share)) = found.pair
        && share > 0.01
    {
        section.conclusions.push(format!(
            "{} and {} act together: {:.0} % of the variation is that the one matters more or less by the other.",
            capital(&factors[a].name),
            factors[b].name,
            100.0 * share
        ));
    }
}

fn effect_words(factors: &[Factor], mains: &[Effect]) -> Vec<String> {
    let describe = |effect: &Effect| {
        let factor = &factors[effect.factor];
        format!(
            "{} ({} over {}: {:.2} times, {:.0} % of the variation)",
            factor.name,
            factor.levels[effect.best],
            factor.levels[effect.worst],
            effect.ratio,
            100.0 * effect.share
        )
    };
    let (moved, idle): (Vec<&Effect>, Vec<&Effect>) = mains.iter().partition(|effect| effect.ratio >= NO_MATTER);
    let mut words = Vec::new();
    if !moved.is_empty() {
        let moved: Vec<String> = moved.into_iter().map(describe).collect();
        words.push(format!("What moved the result, most first: {}.", moved.join("; ")));
    }
    if !idle.is_empty() {
        let names: Vec<&str> = idle.iter().map(|effect| factors[effect.factor].name.as_str()).collect();
        words.push(format!("Less than a tenth, over everything else: {}.", names.join(", ")));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(name: &str, len: usize, one: f64, all: f64) -> Point {
        let rate = |mbit_per_s| Rate { mbit_per_s, spread: 0.01 };
        Point {
            suite: name.parse().expect("a suite"),
            direction: Direction::Encrypt,
            len,
            chunks: 10,
            one: rate(one),
            all: rate(all),
            factor: Estimate { value: all / one, interval: [all / one; 2] },
            bare: rate(all),
            bare_name: "lanes",
        }
    }

    #[test]
    fn the_factor_and_where_it_ends_are_computed() {
        let points = [
            point("des-cbc", 64, 100.0, 400.0),
            point("des-cbc", 1024, 500.0, 520.0),
            point("des-cbc", 4096, 600.0, 600.0),
        ];
        let words = dispatch_words(&points);
        assert!(words[0].contains("64 B are done 4.0 times") && words[0].contains("from 1024 B on"), "{words:?}");
        assert!(words[1].contains("this machine has 4.0"), "{words:?}");
        let never = [point("des-cbc", 64, 100.0, 400.0), point("des-cbc", 1024, 100.0, 300.0)];
        assert!(dispatch_words(&never)[0].contains("no size makes the styles equal"));
        let same = [point("des-cbc", 64, 100.0, 101.0)];
        assert!(dispatch_words(&same)[0].contains("at no size"));
    }

    #[test]
    fn suites_that_lie_together_when_short_are_called_so() {
        let near = [
            point("des-cbc", 16, 100.0, 1.0),
            point("des-cbc", 1024, 200.0, 1.0),
            point("aes-128-cbc", 16, 110.0, 1.0),
            point("aes-128-cbc", 1024, 2000.0, 1.0),
        ];
        let words = suite_words(&near);
        assert!(
            words[0].contains("1.1 times apart at 16 B") && words[0].contains("as in the article, short"),
            "{words:?}"
        );
        let mut far = near.clone();
        far[0].one.mbit_per_s = 1.0;
        assert!(suite_words(&far)[0].contains("tell the ciphers apart"), "{:?}", suite_words(&far));
    }

    #[test]
    fn what_moved_the_result_is_named_in_order() {
        let factors = factors(&[64, 1024]);
        let counts: Vec<usize> = factors.iter().map(|factor| factor.levels.len()).collect();
        let all: usize = counts.iter().product();
        let observation = |mut n: usize| {
            let levels: Vec<usize> = counts.iter().map(|count| (n % count, n /= count).0).collect();
            let rate = 100.0 * 3f64.powi(levels[1] as i32) / 10f64.powi(levels[2] as i32);
            Observation { levels, rate }
        };
        let seen: Vec<Observation> = (0..all).map(observation).collect();
        let mut section = section();
        effects_of(&mut section, &factors, &seen, "des-cbc");
        assert_eq!(section.tables[0].rows.len(), 6);
        assert_eq!(section.tables[0].rows[0][0].text, "completion");
        assert_eq!(section.tables[0].rows[0][3].text, "10.00 ×");
        assert_eq!(section.tables[0].rows[1][5].text, "3.00 ×");
        assert!(
            section.conclusions[0]
                .starts_with("What moved the result, most first: completion (polled over woken: 10.00")
        );
        assert!(section.conclusions[1].contains("size"), "{:?}", section.conclusions);
        let mut holes = super::section();
        effects_of(&mut holes, &factors, &seen[1..], "des-cbc");
        assert_eq!((holes.missing.len(), holes.tables.len()), (1, 0));
    }
}
