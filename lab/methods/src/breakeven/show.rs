//! The break-even sweep's section.

use ciphermill_contract::{Cost, Suite};
use ciphermill_report::{Axis, Better, Cell, Crossing, Look, Plot, Scale, Section, Series, Table};
use ciphermill_router::{Point, fit};

use super::cross::{Overtaking, overtaking, predicted_batch, predicted_len};
use super::plan::{ACCELERATOR, PAPER_SUITE, Plan, SOFTWARE};
use crate::shown::{self, best_cell, digits, distinct, geometric_mean};

/// One engine on one shape.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) engine: &'static str,
    pub(super) len: usize,
    pub(super) ops: usize,
    /// Nanoseconds a batch.
    pub(super) ns: f64,
    pub(super) spread: f64,
}

/// What was measured of a suite.
#[derive(Clone, Debug)]
pub(super) struct Swept {
    pub(super) suite: Suite,
    pub(super) shapes: Vec<Shape>,
}

/// What is held fast while the other is swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Len(usize),
    Ops(usize),
}

/// A pair in which one overtakes the other somewhere.
struct Pair {
    incumbent: &'static str,
    challenger: &'static str,
    /// Measured and by the fitted costs, for each value that was held.
    places: Vec<(Option<Overtaking>, Option<Overtaking>)>,
}

impl Swept {
    /// The engines, in the order of measuring.
    fn engines(&self) -> Vec<&'static str> {
        distinct(self.shapes.iter().map(|shape| shape.engine))
    }

    fn shape(&self, engine: &str, len: usize, ops: usize) -> Option<&Shape> {
        self.shapes.iter().find(|shape| (shape.engine, shape.len, shape.ops) == (engine, len, ops))
    }

    /// An engine's times along the axis that is swept.
    fn line(&self, engine: &str, held: Held) -> Vec<[f64; 2]> {
        let on = |shape: &&Shape| shape.engine == engine;
        let place = |shape: &Shape| match held {
            Held::Len(len) if shape.len == len => Some([shape.ops as f64, shape.ns]),
            Held::Ops(ops) if shape.ops == ops => Some([shape.len as f64, shape.ns]),
            _ => None,
        };
        let mut line: Vec<[f64; 2]> = self.shapes.iter().filter(on).filter_map(place).collect();
        line.sort_by(|a, b| a[0].total_cmp(&b[0]));
        line
    }

    /// The cost that fits all of an engine's shapes.
    fn cost(&self, engine: &str) -> Option<Cost> {
        let own = self.shapes.iter().filter(|shape| shape.engine == engine);
        let point = |shape: &Shape| {
            let ops = shape.ops as u64;
            Point { ops, bytes: ops * shape.len as u64, ns: shape.ns }
        };
        Some(fit(&own.map(point).collect::<Vec<_>>())?.cost)
    }

    /// The ends of what was swept.
    fn ends(&self, of: impl Fn(&Shape) -> usize) -> Option<[usize; 2]> {
        Some([self.shapes.iter().map(&of).min()?, self.shapes.iter().map(&of).max()?])
    }

    /// Pairs in which one overtakes the other between two points for one of the values held at least.
    fn pairs(&self, held: &[Held]) -> Vec<Pair> {
        let engines = self.engines();
        let costs: Vec<Option<Cost>> = engines.iter().map(|engine| self.cost(engine)).collect();
        let mut pairs = Vec::new();
        for (a, incumbent) in engines.iter().enumerate() {
            for (b, challenger) in engines.iter().enumerate().filter(|(b, _)| *b != a) {
                let place = |held: &Held| {
                    let measured = overtaking(&self.line(incumbent, *held), &self.line(challenger, *held));
                    let fitted = costs[a].zip(costs[b]).and_then(|(a, b)| self.predicted(&a, &b, *held));
                    (measured, fitted)
                };
                let places: Vec<_> = held.iter().map(place).collect();
                if places.iter().any(|(measured, _)| matches!(measured, Some(Overtaking::At(_)))) {
                    pairs.push(Pair { incumbent, challenger, places });
                }
            }
        }
        pairs
    }

    fn predicted(&self, incumbent: &Cost, challenger: &Cost, held: Held) -> Option<Overtaking> {
        match held {
            Held::Len(len) => {
                let batches = self.ends(|shape| shape.ops)?;
                Some(predicted_batch(incumbent, challenger, len, batches))
            }
            Held::Ops(ops) => Some(predicted_len(incumbent, challenger, ops, self.ends(|shape| shape.len)?)),
        }
    }

    /// Who is fastest along the axis: each from its first point on. Whoever leads keeps its place until another is faster
    /// by more than the spread of either.
    fn winners(&self, held: Held) -> Vec<(f64, &'static str)> {
        let engines = self.engines();
        let mut places: Vec<f64> = engines.iter().flat_map(|engine| self.line(engine, held)).map(|[x, _]| x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let at = |x: f64, engine: &str| match held {
            Held::Len(len) => self.shape(engine, len, x as usize),
            Held::Ops(ops) => self.shape(engine, x as usize, ops),
        };
        let mut winners: Vec<(f64, &'static str)> = Vec::new();
        for x in places {
            let shapes = engines.iter().filter_map(|engine| at(x, engine));
            let Some(best) = shapes.min_by(|a, b| a.ns.total_cmp(&b.ns)) else { continue };
            let leader = winners.last().and_then(|(_, leader)| at(x, leader));
            let is_clear = |leader: &Shape| leader.ns > best.ns * (1.0 + leader.spread.max(best.spread));
            if leader.is_none_or(is_clear) {
                winners.push((x, best.engine));
            }
        }
        winners
    }
}

const SOURCE: &str = "Christoph Schuba and others, Transparent Multi-core Cryptographic Support on Niagara CMT Processors (slides): \
                      Packet size issues, Packet size - breakeven point";

/// What there is to learn, in paragraphs.
const LESSON: &[&str] = &[
    "Every engine costs something before the first byte: a call, a copy, lanes that have to be filled. An engine that is \
     fast by the byte and dear by the call loses on short requests and wins on long ones, and in between lies the size at \
     which it pays. The slides find it by running `openssl speed` with and without the accelerator and looking where the \
     second column becomes the larger.",
    "A request has two sizes: how long an operation is, and how many operations come together. So each engine and peer is \
     measured over both, all taking turns on the same operations, and two questions are asked of each pair: from which \
     batch on does one overtake the other, for each length; and from which length on, for each batch. Beside the measured \
     answer stands that of the model which the router uses: so much a batch, an operation and a byte.",
];

/// The section, with what is known before anything is measured.
pub(super) fn section() -> Section {
    shown::section("breakeven", "Break-even: from which size on an engine pays", SOURCE, LESSON)
}

/// Fills the section from what was measured.
pub(super) fn fill(section: &mut Section, plan: &Plan, all: &[Swept]) {
    for swept in all {
        for shape in &swept.shapes {
            let name = format!("{}/encrypt/{}/{}/x{}", swept.suite, shape.engine, shape.len, shape.ops);
            section.measured(name, shape.ns / shape.ops as f64, "ns/op", shape.spread, Better::Less);
        }
    }
    section.tables.push(speed_table(plan, all, 1));
    section.tables.push(speed_table(plan, all, plan.extent.table));
    if let Some(swept) = all.iter().find(|swept| swept.suite.to_string() == PAPER_SUITE) {
        section.plots.push(paper_plot(swept));
    }
    section.conclusions.extend(paper_words());
    for swept in all.iter().filter(|swept| !swept.shapes.is_empty()) {
        let lengths: Vec<Held> = plan.extent.lengths.iter().map(|len| Held::Len(*len)).collect();
        let batches: Vec<Held> = plan.extent.batches.iter().map(|ops| Held::Ops(*ops)).collect();
        let (by_len, by_ops) = (swept.pairs(&lengths), swept.pairs(&batches));
        section.plots.push(batch_plot(swept, plan.extent.lengths[plan.extent.lengths.len().min(2) - 1]));
        section.tables.push(pair_table(swept, &lengths, &by_len));
        section.tables.push(pair_table(swept, &batches, &by_ops));
        for (held, pairs) in [(&lengths, &by_len), (&batches, &by_ops)] {
            crossings(section, swept, held, pairs);
        }
        section
            .conclusions
            .extend(winner_words(swept, Held::Len(plan.extent.lengths[plan.extent.lengths.len().min(2) - 1])));
        section.conclusions.extend(winner_words(swept, Held::Ops(1)));
        section.conclusions.extend(model_words(swept, by_len.iter().chain(&by_ops)));
    }
}

fn held_name(held: Held) -> String {
    match held {
        Held::Len(len) => format!("{len} B"),
        Held::Ops(1) => "one operation".to_owned(),
        Held::Ops(ops) => format!("{ops} operations"),
    }
}

/// The measured crossings as numbers.
fn crossings(section: &mut Section, swept: &Swept, held: &[Held], pairs: &[Pair]) {
    for pair in pairs {
        for (held, (measured, fitted)) in held.iter().zip(&pair.places) {
            let (place, unit) = match held {
                Held::Len(len) => (format!("{len}"), "op"),
                Held::Ops(ops) => (format!("x{ops}"), "B"),
            };
            let name = format!("crossing/{}/{}-over-{}/{place}", swept.suite, pair.challenger, pair.incumbent);
            if let Some(Overtaking::At(at)) = measured {
                section.measured(name.clone(), *at, unit, 0.0, Better::Neither);
            }
            if let Some(Overtaking::At(at)) = fitted {
                section.measured(format!("fitted-{name}"), *at, unit, 0.0, Better::Neither);
            }
        }
    }
}

/// The table of `openssl speed`: thousands of bytes a second.
fn speed_table(plan: &Plan, all: &[Swept], ops: usize) -> Table {
    let lengths: Vec<String> = plan.extent.table_lengths.iter().map(|len| format!("{len} bytes")).collect();
    let mut heads = vec!["type", "engine"];
    heads.extend(lengths.iter().map(String::as_str));
    let how = if ops == 1 { "one operation after the other".to_owned() } else { format!("{ops} operations a batch") };
    let mut table = Table::new(&format!("In the style of `openssl speed`: {how}"), &heads, 2);
    table.note = "In 1000s of bytes per second processed. The fastest of each column and type is marked.".to_owned();
    for swept in all {
        let best = |len: usize| {
            let times = swept.shapes.iter().filter(|shape| (shape.len, shape.ops) == (len, ops)).map(|shape| shape.ns);
            times.min_by(f64::total_cmp)
        };
        for engine in swept.engines() {
            let mut row: Vec<Cell> = vec![swept.suite.to_string().into(), engine.into()];
            for len in plan.extent.table_lengths {
                row.push(match swept.shape(engine, *len, ops) {
                    None => "".into(),
                    Some(shape) => {
                        let thousands = (ops * len) as f64 * 1e6 / shape.ns;
                        best_cell(format!("{thousands:.2}k"), best(*len) == Some(shape.ns))
                    }
                });
            }
            table.row(row);
        }
    }
    table
}

fn told(place: Option<Overtaking>) -> String {
    match place {
        None => "not measured".to_owned(),
        Some(Overtaking::Always) => "always".to_owned(),
        Some(Overtaking::Never) => "never".to_owned(),
        Some(Overtaking::At(at)) => digits(at),
    }
}

fn pair_table(swept: &Swept, held: &[Held], pairs: &[Pair]) -> Table {
    let columns: Vec<String> = held.iter().map(|held| held_name(*held)).collect();
    let mut heads = vec!["overtakes", "whom"];
    heads.extend(columns.iter().map(String::as_str));
    let what = match held.first() {
        Some(Held::Ops(_)) => "lengths in bytes, for each batch",
        _ => "batches in operations, for each length",
    };
    let mut table = Table::new(&format!("{}: break-even {what}", swept.suite), &heads, 2);
    table.note = "From where on the first is faster at every point: measured, and by the fitted model in parentheses. Pairs that \
                  never change places are left out."
        .to_owned();
    for pair in pairs {
        let mut row: Vec<Cell> = vec![pair.challenger.into(), pair.incumbent.into()];
        row.extend(pair.places.iter().map(|(measured, fitted)| match measured {
            None => Cell::from(""),
            measured => Cell::from(format!("{} ({})", told(*measured), told(*fitted))),
        }));
        table.row(row);
    }
    table
}

/// Megabytes a second by length, one operation at a time, beside the paper's.
fn paper_plot(swept: &Swept) -> Plot {
    let mut plot = Plot::new(
        &format!("{}: one operation after the other", swept.suite),
        Axis::new("bytes an operation", Scale::Log2),
        Axis::new("MB/s", Scale::Log10),
    );
    plot.caption =
        "What `openssl speed` shows, for the engines here and the two runs in the slides. The mark is where the \
                    accelerator of the slides begins to pay."
            .to_owned();
    for engine in swept.engines() {
        let line = swept.line(engine, Held::Ops(1)).into_iter().map(|[len, ns]| [len, len * 1000.0 / ns]);
        plot.series.push(Series::new(engine, Look::Measured, line.collect()));
    }
    for line in [SOFTWARE, ACCELERATOR] {
        plot.series.push(Series::new(line.name, Look::Cited, line.rates()));
    }
    if let Some(Overtaking::At(x)) = overtaking(&SOFTWARE.ns(), &ACCELERATOR.ns()) {
        plot.crossings.push(Crossing { x, label: format!("{} overtakes", ACCELERATOR.name) });
    }
    plot
}

/// Operations a second by batch.
fn batch_plot(swept: &Swept, len: usize) -> Plot {
    let mut plot = Plot::new(
        &format!("{}: operations of {len} B by batch", swept.suite),
        Axis::new("operations a batch", Scale::Log2),
        Axis::new("operations a second", Scale::Log10),
    );
    plot.caption =
        "Lines that rise cost something by the batch or fill lanes; thin lines are the fitted model. Marks are where \
                    another engine becomes the fastest."
            .to_owned();
    for engine in swept.engines() {
        let line = swept.line(engine, Held::Len(len));
        let rates = line.iter().map(|[ops, ns]| [*ops, ops * 1e9 / ns]).collect();
        plot.series.push(Series::new(engine, Look::Measured, rates));
        if let Some(cost) = swept.cost(engine) {
            let fitted = |[ops, _]: &[f64; 2]| {
                let ns = cost.predict_ns(*ops as u64, *ops as u64 * len as u64);
                [*ops, ops * 1e9 / ns]
            };
            let fitted = line.iter().map(fitted).collect();
            plot.series.push(Series::new(format!("{engine}, model"), Look::Fitted, fitted));
        }
    }
    let winners = swept.winners(Held::Len(len));
    for pair in winners.windows(2) {
        let ([(_, before), (at, after)], held) = ([pair[0], pair[1]], Held::Len(len));
        let x = match overtaking(&swept.line(before, held), &swept.line(after, held)) {
            Some(Overtaking::At(x)) => x,
            _ => at,
        };
        plot.crossings.push(Crossing { x, label: format!("{after} overtakes {before}") });
    }
    plot
}

/// Where the accelerator of the slides pays, by their own counts.
fn paper_words() -> Option<String> {
    let (slow, fast) = (SOFTWARE.ns(), ACCELERATOR.ns());
    let Overtaking::At(at) = overtaking(&slow, &fast)? else { return None };
    let (first, last) = (slow.first()?, slow.last()?);
    let ratio = |x: f64| {
        let of = |line: &[[f64; 2]]| line.iter().find(|[place, _]| *place == x).map(|[_, ns]| *ns);
        Some(of(&slow)? / of(&fast)?)
    };
    Some(format!(
        "By the counts in the slides, {} overtakes {} at {at:.0} B; it has {:.2} times its rate at {:.0} B and {:.2} times at \
         {:.0} B.",
        ACCELERATOR.name,
        SOFTWARE.name,
        ratio(first[0])?,
        first[0],
        ratio(last[0])?,
        last[0]
    ))
}

fn winner_words(swept: &Swept, held: Held) -> Option<String> {
    let winners = swept.winners(held);
    let (first, later) = winners.split_first()?;
    let (along, unit) = match held {
        Held::Len(_) => ("batches", "operations"),
        Held::Ops(_) => ("lengths", "B"),
    };
    let mut text = format!("{}, {}: {} is the fastest", swept.suite, held_name(held), first.1);
    match later {
        [] => text += &format!(" at all {along}"),
        later => {
            let changes: Vec<String> =
                later.iter().map(|(at, engine)| format!("{engine} from {at:.0} {unit} on")).collect();
            text += &format!(" of the smallest {along}, {}", changes.join(", then "));
        }
    }
    Some(text + ".")
}

/// How near the model's crossings are to those that were measured.
fn model_words<'p>(swept: &Swept, pairs: impl Iterator<Item = &'p Pair>) -> Option<String> {
    let (mut off, mut missed) = (Vec::new(), 0usize);
    for (measured, fitted) in pairs.flat_map(|pair| &pair.places) {
        match (measured, fitted) {
            (Some(Overtaking::At(measured)), Some(Overtaking::At(fitted))) => {
                off.push((fitted / measured).max(measured / fitted));
            }
            (Some(Overtaking::At(_)), _) => missed += 1,
            _ => {}
        }
    }
    let all = off.len() + missed;
    if all == 0 {
        return Some(format!("{}: no engine overtakes another within what was swept.", swept.suite));
    }
    let near = match off.is_empty() {
        true => String::new(),
        false => format!(" and is then off by a factor of {:.2} (geometric mean)", geometric_mean(off.iter().copied())),
    };
    Some(format!(
        "{}: of {all} crossings that were measured the linear model finds {} within the sweep{near}.",
        swept.suite,
        off.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swept(costs: &[(&'static str, Cost)]) -> Swept {
        let mut shapes = Vec::new();
        for len in [16usize, 64, 256, 1024] {
            for ops in [1usize, 4, 16, 64] {
                for (engine, cost) in costs {
                    let ns = cost.predict_ns(ops as u64, (ops * len) as u64);
                    shapes.push(Shape { engine, len, ops, ns, spread: 0.01 });
                }
            }
        }
        Swept { suite: "aes-128-cbc".parse().expect("a suite"), shapes }
    }

    #[test]
    fn measured_and_modelled_crossings_agree_where_costs_are_linear() {
        let swept = swept(&[("single", Cost::new(0.0, 100.0, 1.0)), ("lanes", Cost::new(1000.0, 20.0, 0.5))]);
        let held: Vec<Held> = [16, 64, 256, 1024].map(Held::Len).to_vec();
        let pairs = swept.pairs(&held);
        assert_eq!(pairs.len(), 1, "the other way round nobody overtakes");
        assert_eq!((pairs[0].incumbent, pairs[0].challenger), ("single", "lanes"));
        let (Some(Overtaking::At(measured)), Some(Overtaking::At(fitted))) = pairs[0].places[1] else {
            panic!("it overtakes at 64 B")
        };
        // 1000 + 52 n = 164 n at 8.9.
        assert!((measured / 8.93 - 1.0).abs() < 0.2, "{measured}");
        assert_eq!(fitted, 9.0);
        let words = model_words(&swept, pairs.iter()).expect("words");
        assert!(words.contains("of 4 crossings that were measured the linear model finds 4"), "{words}");
        let table = pair_table(&swept, &held, &pairs);
        assert!(table.rows[0][3].text.ends_with("(9.00)"), "{:?}", table.rows[0]);
    }

    #[test]
    fn who_is_fastest_is_said_with_its_sizes() {
        let swept = swept(&[("single", Cost::new(0.0, 100.0, 1.0)), ("lanes", Cost::new(1000.0, 20.0, 0.5))]);
        assert_eq!(swept.winners(Held::Len(64)), [(1.0, "single"), (16.0, "lanes")]);
        let words = winner_words(&swept, Held::Len(64)).expect("words");
        assert_eq!(
            words,
            "aes-128-cbc, 64 B: single is the fastest of the smallest batches, lanes from 16 operations on."
        );
        assert_eq!(swept.winners(Held::Ops(64)), [(16.0, "lanes")]);
        assert!(winner_words(&swept, Held::Ops(64)).expect("words").ends_with("lanes is the fastest at all lengths."));
        let plot = batch_plot(&swept, 64);
        assert_eq!((plot.series.len(), plot.crossings.len()), (4, 1));
        assert!(plot.crossings[0].x > 4.0 && plot.crossings[0].x < 16.0);
    }

    #[test]
    fn a_lead_within_the_spread_is_none() {
        let mut swept = swept(&[("a", Cost::new(0.0, 100.0, 0.0)), ("b", Cost::new(0.0, 102.0, 0.0))]);
        for shape in swept.shapes.iter_mut().filter(|shape| shape.engine == "b" && shape.ops > 4) {
            shape.ns *= 0.95;
        }
        assert_eq!(swept.winners(Held::Len(64)), [(1.0, "a"), (16.0, "b")]);
        swept.shapes.iter_mut().for_each(|shape| shape.spread = 0.2);
        assert_eq!(swept.winners(Held::Len(64)), [(1.0, "a")]);
    }

    #[test]
    fn the_slides_break_even_is_recovered_from_their_counts() {
        let Some(Overtaking::At(at)) = overtaking(&SOFTWARE.ns(), &ACCELERATOR.ns()) else { panic!("it overtakes") };
        assert!(at > 384.0 && at < 512.0, "{at}");
        assert!(paper_words().is_some_and(|words| words.contains("0.05 times its rate at 16 B")));
    }

    #[test]
    fn nobody_overtaking_is_said_too() {
        let swept = swept(&[("slow", Cost::new(0.0, 100.0, 1.0)), ("fast", Cost::new(0.0, 10.0, 0.5))]);
        assert!(swept.pairs(&[Held::Len(64)]).is_empty());
        assert!(model_words(&swept, [].iter()).is_some_and(|words| words.contains("no engine overtakes")));
    }
}
