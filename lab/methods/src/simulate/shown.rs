//! `lab simulate` as a section.

use ciphermill_report::{Axis, Better, Cell, Crossing, Emphasis, Look, Plot, Scale, Section, Series, Table};
use ciphermill_simulate::{Cores, Knee, Outcome, Scenario, Step, WorkOutcome};

use super::found::{Compared, Found, Simulation};
use crate::shown::{self, digits, grouped, path_part, times, verdict_cell};

const SOURCE: &str = "A. Law: Simulation Modeling and Analysis, chapter 1 (discrete-event simulation); L. Kleinrock: Queueing Systems, \
                      volume 1, whose closed forms the tests hold it to.";

/// What there is to learn, in paragraphs.
const LESSON: &[&str] = &[
    "The service is simulated on machines that are not there: cores, NUMA nodes, devices, clients. What is next, what shares a batch, how long \
     it waits for others and which engine runs it is decided by the service's own code. What batches cost is what the mill \
     knows of this machine's engines; what the service costs around them is given.",
    "A queue grows without end where more is asked for than answered, and long before that waiting grows faster than load. So a machine is \
     as large as the load at which its 99th percentile has grown by some factor, not as its rate when it is full.",
];

/// What came of a simulation, as a section.
pub(crate) fn section(simulation: &Simulation, found: &Found) -> Section {
    let title = "The service on another machine, simulated";
    let mut section = shown::section("simulate", title, SOURCE, LESSON);
    section.conclusions.push(scenario_in_words(&simulation.scenario));
    match found {
        Found::Once(outcome) => once(&mut section, &simulation.scenario, outcome),
        Found::Load(knee) => over_loads(&mut section, simulation, knee),
        Found::Cores(cores) => over_cores(&mut section, simulation, cores),
    }
    section
}

/// The machine and its clients, in a sentence.
fn scenario_in_words(scenario: &Scenario) -> String {
    let count = |number: u32, one: &str, many: &str| match number {
        1 => format!("one {one}"),
        _ => format!("{} {many}", grouped(number as usize)),
    };
    let clients: u32 = scenario.clients.iter().map(|group| group.count).sum();
    let devices: Vec<&str> = scenario.devices.iter().map(|device| device.name.as_str()).collect();
    let devices = if devices.is_empty() { String::new() } else { format!(", devices: {}", devices.join(", ")) };
    let works: Vec<&str> = scenario.works.iter().map(|work| work.name.as_str()).collect();
    let (cores, nodes) = (count(scenario.cores, "core", "cores"), count(scenario.nodes, "node", "nodes"));
    let clients = count(clients, "client", "clients");
    format!("Simulated: {cores} in {nodes}{devices}; {clients} that ask for {}.", works.join(", "))
}

fn once(section: &mut Section, scenario: &Scenario, outcome: &Outcome) {
    let all = &outcome.all;
    section.conclusions.push(format!(
        "{} requests a second are answered, 99 % of them within {}.",
        digits(all.rate),
        time(all.latency.p99_ns)
    ));
    if all.rate < 0.97 * all.offered {
        let full = outcome.engines.iter().max_by(|a, b| a.busy.total_cmp(&b.busy));
        let full =
            full.map_or_else(String::new, |engine| format!(" {} are busy for {}.", engine.name, percent(engine.busy)));
        let offered = digits(all.offered);
        section.conclusions.push(format!("It is overloaded: {offered} a second are asked for.{full}"));
    }
    section.tables.push(requests(outcome));
    section.tables.push(engines(outcome));
    section.tables.push(batches(outcome));
    for work in outcome.works.iter().chain([all]) {
        measured(section, work);
    }
    for engine in &outcome.engines {
        let name = format!("busy/{}", path_part(&engine.name));
        section.measured(name, 100.0 * engine.busy, "%", 0.0, Better::Neither);
    }
    if let Some(fill) = outcome.lanes.fill() {
        section.measured("lanes/fill", 100.0 * fill, "%", 0.0, Better::More);
    }
    if scenario.shares_cores {
        section.measured("busy/clients", 100.0 * outcome.clients_busy, "%", 0.0, Better::Neither);
    }
}

fn measured(section: &mut Section, work: &WorkOutcome) {
    let name = path_part(&work.name);
    section.measured(format!("rate/{name}"), work.rate, "req/s", 0.0, Better::More);
    for (share, ns) in [("p50", work.latency.p50_ns), ("p99", work.latency.p99_ns), ("p99.9", work.latency.p999_ns)] {
        section.measured(format!("{share}/{name}"), ns, "ns", 0.0, Better::Less);
    }
}

fn requests(outcome: &Outcome) -> Table {
    let heads = ["work", "asked/s", "answered/s", "mean", "p50", "p99", "p99.9"];
    let mut table = Table::new("Requests", &heads, 1);
    for work in outcome.works.iter().chain([&outcome.all]) {
        let latency = work.latency;
        table.row([
            Cell::from(work.name.clone()),
            digits(work.offered).into(),
            digits(work.rate).into(),
            time(latency.mean_ns).into(),
            time(latency.p50_ns).into(),
            time(latency.p99_ns).into(),
            time(latency.p999_ns).into(),
        ]);
    }
    table
}

fn engines(outcome: &Outcome) -> Table {
    let mut table = Table::new("Engines", &["engine", "operations/s", "busy"], 1);
    for engine in &outcome.engines {
        let emphasis = if engine.busy > 0.95 { Emphasis::Bad } else { Emphasis::Plain };
        let busy = Cell::from(percent(engine.busy)).emphasis(emphasis);
        table.row([engine.name.clone().into(), digits(engine.rate).into(), busy]);
    }
    if outcome.clients_busy > 0.0 {
        table.row(["clients, on the cores".into(), "".into(), percent(outcome.clients_busy).into()]);
    }
    table
}

fn batches(outcome: &Outcome) -> Table {
    let mut table = Table::new("Batches", &["", "value"], 1);
    let lanes = outcome.lanes;
    table.row(["batches a second".into(), digits(lanes.batches as f64 / outcome.seconds).into()]);
    table.row(["requests a batch".into(), digits(lanes.requests_a_batch()).into()]);
    let stepped = lanes.stepped as f64 / lanes.ops.max(1) as f64;
    table.row(["operations that went in steps".into(), percent(stepped).into()]);
    let fill = lanes.fill().map_or_else(|| "–".to_owned(), percent);
    table.row(["lanes of those steps that had an operation".into(), fill.into()]);
    table
}

fn over_loads(section: &mut Section, simulation: &Simulation, knee: &Knee) {
    let bound = format!("{} times the {} without load", digits(simulation.knee), time(knee.unloaded_p99_ns));
    section.conclusions.push(match knee.load {
        Some(load) => format!("Up to {} requests a second 99 % are answered within {bound}.", digits(load)),
        None => format!("At no load that was tried 99 % are answered within {bound}."),
    });
    section.conclusions.extend(knee.saturated.as_ref().map(|(name, busy)| {
        let what = if *busy > 0.95 { "is what saturates" } else { "has the least time left" };
        format!("Beyond that {name} {what}: busy for {} at the highest load.", percent(*busy))
    }));
    section.tables.push(steps("Loads", &knee.steps));
    let mut plot = plot(simulation, "requests a second", Scale::Linear, &knee.steps, |step| step.load);
    plot.crossings.extend(knee.load.map(|x| Crossing { x, label: "knee".to_owned() }));
    section.plots.push(plot);
    section.measured("unloaded/p99", knee.unloaded_p99_ns, "ns", 0.0, Better::Less);
    if let Some(load) = knee.load {
        section.measured("knee", load, "req/s", 0.0, Better::More);
    }
}

fn over_cores(section: &mut Section, simulation: &Simulation, cores: &Cores) {
    let load = digits(simulation.scenario.rate().unwrap_or_default());
    let bound = format!("{} times the {} without load", digits(simulation.knee), time(cores.unloaded_p99_ns));
    section.conclusions.push(match cores.needed {
        Some(needed) => format!("{load} requests a second need {needed} cores to be answered, 99 % within {bound}."),
        None => {
            let most = cores.steps.last().and_then(Step::busiest);
            let most = most.map_or_else(String::new, |(name, busy)| {
                format!(" With most cores {name} is busy for {}.", percent(busy))
            });
            format!("With no number of cores {load} requests a second are answered, 99 % within {bound}.{most}")
        }
    });
    section.tables.push(steps("Cores", &cores.steps));
    section.plots.push(plot(simulation, "cores", Scale::Log2, &cores.steps, |step| f64::from(step.cores)));
    section.measured("unloaded/p99", cores.unloaded_p99_ns, "ns", 0.0, Better::Less);
    if let Some(needed) = cores.needed {
        section.measured("cores", f64::from(needed), "cores", 0.0, Better::Less);
    }
}

fn steps(title: &str, steps: &[Step]) -> Table {
    let heads = ["cores", "asked/s", "answered/s", "p50", "p99", "p99.9", "fill", "busiest", "within"];
    let mut table = Table::new(title, &heads, 0);
    for step in steps {
        let all = &step.outcome.all;
        let (name, busy) = step.busiest().unwrap_or(("", 0.0));
        let emphasis = if step.is_saturated() { Emphasis::Bad } else { Emphasis::Plain };
        let within = Cell::from(if step.is_below { "yes" } else { "no" });
        table.row([
            step.cores.to_string().into(),
            digits(step.load).into(),
            digits(all.rate).into(),
            time(all.latency.p50_ns).into(),
            time(all.latency.p99_ns).into(),
            time(all.latency.p999_ns).into(),
            step.outcome.lanes.fill().map_or_else(|| "–".to_owned(), percent).into(),
            Cell::from(format!("{name} {}", percent(busy))).emphasis(emphasis),
            within.emphasis(if step.is_below { Emphasis::Good } else { Emphasis::Bad }),
        ]);
    }
    table
}

fn plot(simulation: &Simulation, label: &str, scale: Scale, steps: &[Step], x: impl Fn(&Step) -> f64) -> Plot {
    let y = Axis::new("microseconds", Scale::Log10);
    let mut plot = Plot::new("How long requests take", Axis::new(label, scale), y);
    let line = |name: &str, of: fn(&Step) -> f64| {
        Series::new(name, Look::Fitted, steps.iter().map(|step| [x(step), of(step) / 1e3]).collect())
    };
    plot.series.push(line("p50", |step| step.outcome.all.latency.p50_ns));
    plot.series.push(line("p99", |step| step.outcome.all.latency.p99_ns));
    plot.series.push(line("p99.9", |step| step.outcome.all.latency.p999_ns));
    let bound = digits(simulation.knee);
    plot.caption = format!("Simulated. The knee is where the 99th percentile is {bound} times that without load.");
    plot
}

/// What was measured on this machine beside what is simulated for it, as a section.
pub fn compared(all: &[Compared], calibrated: &[(&'static str, f64)]) -> Section {
    let mut section = shown::section("simulate", "The simulation beside this machine", SOURCE, LESSON);
    let near = all.iter().flat_map(Compared::are_near);
    let (kept, count) = (near.clone().filter(|near| *near).count(), near.count());
    section.conclusions.push(format!(
        "{kept} of {count} figures are as near as they should be to the median of what was measured: rates within {}, 99th percentiles \
         within {}.",
        percent(Compared::RATE_OFF_MAX),
        percent(Compared::P99_OFF_MAX)
    ));
    let steady = all.iter().flat_map(Compared::are_steady).filter(|steady| *steady).count();
    section.conclusions.push(format!("Of {steady} of them all that was measured is as near to its own median."));
    let heads = ["mix", "cores", "figure", "measured", "least to greatest", "simulated", "ratio", "verdict"];
    let mut table = Table::new("Measured and simulated", &heads, 3);
    table.note =
        "What the service costs around engines was measured with other work; nothing was fitted to these mixes."
            .to_owned();
    for one in all {
        let figures = [("rate", &one.rate, "req/s"), ("p99", &one.p99_ns, "ns")];
        for ((figure, found, unit), near) in figures.into_iter().zip(one.are_near()) {
            let text = |value: f64| if unit == "ns" { time(value) } else { digits(value) };
            let [least, greatest] = found.range().map(text);
            table.row([
                one.mix.clone().into(),
                one.cores.to_string().into(),
                figure.into(),
                text(found.measured()).into(),
                format!("{least} – {greatest}").into(),
                text(found.simulated).into(),
                times(found.ratio()).into(),
                verdict_cell(near, false),
            ]);
            let name = format!("{}/{}/{figure}", path_part(&one.mix), one.cores);
            section.measured(format!("{name}/measured"), found.measured(), unit, found.spread(), Better::Neither);
            section.measured(format!("{name}/simulated"), found.simulated, unit, 0.0, Better::Neither);
            section.measured(format!("{name}/ratio"), found.ratio(), "×", found.spread(), Better::Neither);
        }
    }
    section.tables.push(table);
    let mut overheads = Table::new("What the service costs around engines", &["what", "nanoseconds"], 1);
    for (name, ns) in calibrated {
        overheads.row([(*name).into(), digits(*ns).into()]);
        section.measured(format!("overhead/{name}"), *ns, "ns", 0.0, Better::Neither);
    }
    section.tables.push(overheads);
    section
}

/// A time in the unit that people read.
fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{} s", digits(ns / 1e9)),
        ns if ns >= 1e6 => format!("{} ms", digits(ns / 1e6)),
        ns if ns >= 1e3 => format!("{} µs", digits(ns / 1e3)),
        ns => format!("{ns:.0} ns"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::Figure;

    #[test]
    fn what_is_far_from_what_was_measured_is_marked() {
        let figure = |measured: [f64; 3], simulated| Figure::new(measured.to_vec(), simulated);
        let near = Compared {
            mix: "near".to_owned(),
            cores: 1,
            rate: figure([101.0, 99.0, 100.0], 114.0),
            p99_ns: figure([100.0, 90.0, 124.0], 76.0),
        };
        let far = Compared {
            mix: "far".to_owned(),
            cores: 2,
            rate: figure([100.0, 80.0, 101.0], 84.0),
            p99_ns: figure([100.0, 100.0, 126.0], 126.0),
        };
        assert_eq!((near.are_near(), far.are_near()), ([true, true], [false, false]));
        assert_eq!((near.are_steady(), far.are_steady()), ([true, true], [false, false]));
        assert_eq!((near.p99_ns.measured(), near.p99_ns.spread()), (100.0, 0.17));
        let section = compared(&[near, far], &[("request_ns", 300.0)]);
        section.check().expect("sound");
        assert!(section.conclusions[0].starts_with("2 of 4 figures"));
        let verdicts: Vec<Emphasis> = section.tables[0].rows.iter().map(|row| row[7].emphasis).collect();
        assert_eq!(verdicts, [Emphasis::Good, Emphasis::Good, Emphasis::Bad, Emphasis::Bad]);
    }
}
