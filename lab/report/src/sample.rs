//! A made-up record with something of everything, for tests: nothing in it was measured.

use crate::{
    Axis, Better, Cell, Crossing, Emphasis, Environment, Estimate, Look, Machine, Map, MapCell, MapGroup, Plot,
    RECORD_FORMAT, Record, Scale, Section, Series, Table,
};

/// Characters that break documents whose texts are not escaped.
const NASTY: &str = "<b>&amp; \"double\" 'single' </svg></style><script>alert(1)</script> 🦀 ]]> \u{1b}[31m \u{0}";

/// The record.
pub(crate) fn record() -> Record {
    let warnings = vec![
        "Another program took 12 % of the core's time: close what else runs, or pin with --core.".to_owned(),
        format!("Text that is not friendly: {NASTY}"),
    ];
    Record {
        format: RECORD_FORMAT,
        made: "2026-11-22T00:42:15Z".to_owned(),
        command: "ciphermill lab all --core 2".to_owned(),
        machine: Machine {
            cpu: "Example Processor 9000 @ 3.00GHz".to_owned(),
            cores: 8,
            features: ["aes", "avx2", "avx512f", "vaes", "gfni"].map(str::to_owned).to_vec(),
            os: "linux 6.1.0".to_owned(),
            ciphermill: "0.1.0".to_owned(),
            optimised: true,
        },
        environment: Environment {
            timer_resolution_ns: 1.0,
            timer_cost_ns: 25.0,
            ghz: Some([2.9, 3.1]),
            steal: Some(0.012),
            preemptions: Some(17),
            core: Some(2),
            warnings,
            disturbances: vec!["the core's clock drifted by 7 %, from 2.90 to 3.10 GHz".to_owned()],
        },
        sections: vec![ladder(), breakeven(), grid(), odd()],
    }
}

/// Ten measured lines with their models and the paper's points, on logarithmic axes.
fn ladder() -> Section {
    let mut section = Section::new("ladder", "Where the time of short operations goes", "Lindemann and Smith, 2001");
    section.lesson = vec![
        "A coprocessor that is fast on long data can be slow on short data, because every operation pays for its way to \
         the engine and back. The ladder starts with the slowest way and takes one cost away on each rung, so that the \
         distance between two rungs is the price of what was taken away."
            .to_owned(),
        "Each rung is a real configuration of this program. The model has three constants: what a batch costs, what an \
         operation costs, and what a byte costs."
            .to_owned(),
    ];
    section.conclusions = vec![
        "From the first rung to the last the rate grows 212-fold at 1,024 operations a batch.".to_owned(),
        "What a batch costs dominates up to 38 operations; from there on it is what an operation costs.".to_owned(),
    ];
    let mut plot = Plot::new(
        "Throughput against operations a batch",
        Axis::new("operations a batch", Scale::Log2),
        Axis::new("operations a second", Scale::Log10),
    );
    plot.caption =
        "The higher, the better. Lines that rise in parallel pay for each operation, flat ones for nothing else."
            .to_owned();
    let mut table =
        Table::new("The rungs", &["rung", "what changes", "operations a second", "constant of a batch, ns"], 2);
    for rung in 0..10_u32 {
        let per_batch = 40_000.0 / f64::from(1 + rung);
        let per_op = 3_000.0 / 2_f64.powi(rung as i32);
        let rate = |ops: f64| ops * 1e9 / (per_batch + ops * per_op);
        let name = format!("rung {} with a name", rung + 1);
        let points = |power: u32| 2_f64.powi(power as i32);
        let measured = (0..=10).map(|power| [points(power), rate(points(power)) * (1.0 + 0.04 * f64::from(power % 3))]);
        plot.series.push(Series::new(&name, Look::Measured, measured.collect()));
        let fitted =
            (0..=40).map(|power| [2_f64.powf(f64::from(power) / 4.0), rate(2_f64.powf(f64::from(power) / 4.0))]);
        plot.series.push(Series::new(format!("{name}, fitted"), Look::Fitted, fitted.collect()));
        if rung < 4 {
            let cited = (0..=5).map(|power| [points(2 * power), rate(points(2 * power)) / 9.0]);
            plot.series.push(Series::new(format!("figure 16: {name}"), Look::Cited, cited.collect()));
        }
        section.measured(format!("{name}/64"), rate(64.0), "op/s", 0.01 * f64::from(rung), Better::More);
        let emphasis = [Emphasis::Plain, Emphasis::Good, Emphasis::Bad, Emphasis::Doubtful][rung as usize % 4];
        let cell = Cell::from(format!("{:.0}", rate(64.0))).emphasis(emphasis);
        table.row([name.into(), "one cost less than the rung above it".into(), cell, format!("{per_batch:.0}").into()]);
    }
    plot.crossings = vec![
        Crossing { x: 13.0, label: "rung 5 overtakes rung 4".to_owned() },
        Crossing { x: 14.0, label: "rung 6 overtakes rung 4".to_owned() },
        Crossing { x: 300.0, label: "the engine is busier than its caller".to_owned() },
    ];
    table.note = "Medians of 31 rounds; a rate in italics spreads too much to be quoted.".to_owned();
    section.plots.push(plot);
    section.tables.push(table);
    section.lacks("the rung with a persistent ring", "it needs a kernel with io_uring");
    section
}

/// A linear plot with two lines.
fn breakeven() -> Section {
    let mut section = Section::new("breakeven", "From which size on an engine pays", "Johnson and others, 2007");
    section.lesson =
        vec!["Two engines, one with a high start and a low slope, the other the other way round.".to_owned()];
    let mut plot =
        Plot::new("Time an operation", Axis::new("bytes", Scale::Linear), Axis::new("µs an operation", Scale::Linear));
    let line = |start: f64, slope: f64| (0..=16).map(|step| f64::from(step * 256)).map(move |x| [x, start + slope * x]);
    plot.series.push(Series::new("library", Look::Measured, line(0.2, 0.0021).collect()));
    plot.series.push(Series::new("lanes", Look::Measured, line(1.9, 0.0008).collect()));
    plot.crossings.push(Crossing { x: 1307.7, label: "lanes overtakes library".to_owned() });
    section.plots.push(plot);
    section.measured("crossing/library/lanes", 1307.7, "bytes", 0.0, Better::Neither);
    section.ratio("lanes/by/library", Estimate { value: 2.0, interval: [1.95, 2.06] }, Better::More);
    section
}

/// A wide heat map with ratios of every size.
fn grid() -> Section {
    let mut section = Section::new("grid", "Where we are ahead, and where behind", "nobody");
    section.lesson = vec!["For each suite the rate of our best engine over that of the best other one.".to_owned()];
    let sizes = ["16 B", "64 B", "256 B", "1 KB", "4 KB", "16 KB"];
    let columns = || sizes.map(str::to_owned).to_vec();
    let groups = ["1 operation a batch", "8 operations a batch", "64 operations a batch"];
    let groups: Vec<MapGroup> = groups.map(|name| MapGroup::new(name, columns())).to_vec();
    let mut map = Map::new("Our best engine by the best other one", "suite and direction", groups);
    let suites =
        ["aes-128-cbc", "aes-256-gcm", "des-cbc", "3des-cbc+hmac-sha1", "chacha20-poly1305", "sha512", "blake2b"];
    for (index, suite) in suites.into_iter().enumerate() {
        for direction in ["encrypt", "decrypt"] {
            let cells = (0..map.width()).map(|column| {
                // From 0.2 to 13, the larger the more operations and the shorter they are.
                let power =
                    0.22 * index as f64 - 0.9 + 0.5 * (column / sizes.len()) as f64 - 0.13 * (column % 6) as f64;
                let value = (power * if direction == "encrypt" { 1.0 } else { 1.6 }).exp();
                let half = value * if (index + column).is_multiple_of(7) { 0.08 } else { 0.012 };
                let detail = format!("lanes {:.1} ns, ipsec-mb {:.1} ns", 100.0 / value, 100.0);
                let ratio = Estimate { value, interval: [value - half, value + half] };
                (index != 5 || column < 12).then(|| MapCell::new(ratio, detail))
            });
            map.row(format!("{suite} {direction}"), cells);
        }
    }
    map.note = "The best other engine is another one in each cell; its name stands with the times.".to_owned();
    section.maps.push(map);
    section
}

/// Texts, plots and tables at the edge of what is allowed.
fn odd() -> Section {
    let mut section = Section::new("odd", &format!("Odd: {NASTY}"), NASTY);
    section.lesson = vec![NASTY.to_owned()];
    section.conclusions = vec![NASTY.to_owned()];
    let axes = || (Axis::new(NASTY, Scale::Log10), Axis::new(NASTY, Scale::Log2));
    let (x, y) = axes();
    let empty = Plot::new("A plot without lines", x, y);
    let (x, y) = axes();
    let mut single = Plot::new("A plot with one point", x, y);
    single.series.push(Series::new(NASTY, Look::Measured, vec![[1000.0, 64.0]]));
    single.series.push(Series::new("left out", Look::Cited, vec![[0.0, 1.0], [-1.0, 5.0]]));
    single.series.push(Series::new("without points", Look::Fitted, vec![]));
    single.crossings.push(Crossing { x: -3.0, label: "in no place".to_owned() });
    single.caption = NASTY.to_owned();
    section.plots = vec![empty, single];
    let mut table = Table::new(NASTY, &[NASTY, "number"], 1);
    table.row([Cell::from(NASTY), "1".into()]);
    table.note = NASTY.to_owned();
    section.tables = vec![Table::new("A table without rows", &["nothing"], 0), table];
    let groups = vec![MapGroup::new(NASTY, vec![NASTY.to_owned()]), MapGroup::new("", vec![String::new(); 9])];
    let mut map = Map::new(NASTY, NASTY, groups);
    let ratio = |value: f64| Estimate { value, interval: [value, value] };
    let cells = [1e-9, 0.5, 1.0, 2.0, 1e9].map(|value| Some(MapCell::new(ratio(value), NASTY)));
    map.row(NASTY, cells.into_iter().chain([const { None }; 5]));
    map.note = NASTY.to_owned();
    section.maps.push(map);
    section.measured(NASTY, 1.5, NASTY, 0.3, Better::Less);
    section.lacks(NASTY, NASTY);
    section
}
