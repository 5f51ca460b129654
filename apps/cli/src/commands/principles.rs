//! `ciphermill lab principles`: the paper's two tables for this machine.

use std::process::ExitCode;
use std::time::Duration;

use ciphermill_lab::principles::{self, AlgorithmRecord, Options, Record, Utilisation, VariantRecord};
use ciphermill_lab::timing::Budget;
use ciphermill_report::SPREAD_QUOTABLE_MAX;

use super::lab::write_json;
use crate::args::PrinciplesArgs;
use crate::interrupt;
use crate::output::{self, say};

/// `ciphermill lab principles`.
pub(crate) fn run(args: &PrinciplesArgs) -> anyhow::Result<ExitCode> {
    let stop = interrupt::watch()?;
    let options = Options {
        algorithms: principles::named(&args.algorithms)?,
        len: args.len,
        seed: args.seed,
        budget: Budget { time: Duration::from_millis(args.time), ..Budget::default() },
        stop: &stop,
    };
    let bar = output::bar(None, "", args.json.is_some());
    let record = principles::run(&options, |what| bar.set_message(what.to_owned()))?;
    bar.finish_and_clear();
    if !write_json(args.json.as_deref(), &record)? {
        print(&record)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(record: &Record) -> anyhow::Result<()> {
    let machine = &record.machine;
    say(format!("{}, {} cores, {}", machine.cpu, machine.cores, machine.os))?;
    say(format!(
        "{} messages of {} bytes, {} keys; variants in turns; every variant's output compared before it is timed",
        record.messages, record.len, record.keys
    ))?;
    say("\nTable 1. Instructions and memory accesses a round, counted (IXP1200: table 1 of the paper)\n")?;
    characteristics(record)?;
    say(
        "\nTable 2. Throughput, utilisation ρ, and gain over the unoptimised variant (IXP1200: table 2 of the paper)\n",
    )?;
    throughput(record)?;
    footnotes(record)
}

fn characteristics(record: &Record) -> anyhow::Result<()> {
    let head = [
        "",
        "\nrounds",
        "instructions\nunoptimised",
        "\ncomp.",
        "\nhiding",
        "\nlanes",
        "accesses\nunoptimised",
        "\ncomp.",
        "IXP1200\ninstr. space",
        "\nrounds",
        "\naccesses",
    ];
    let mut table = output::table(&head, 2);
    for algorithm in &record.algorithms {
        let of = |name: &str| algorithm.variants.iter().find(|variant| variant.variant == name);
        let cell = |name: &str, figure: fn(&VariantRecord) -> f64| {
            of(name).map_or_else(String::new, |variant| format!("{:.1}", figure(variant)))
        };
        let instructions = |variant: &VariantRecord| variant.instructions_per_round;
        let accesses = |variant: &VariantRecord| variant.accesses_per_round;
        table.add_row([
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
            algorithm.paper.accesses_per_round.to_string(),
        ]);
    }
    say(table)
}

fn throughput(record: &Record) -> anyhow::Result<()> {
    let head =
        ["", "\nvariant", "\nMb/s", "\nρ", "\ngain", "\ncycles/byte", "\nspread", "IXP1200\nMb/s", "\nρ", "\ngain"];
    let mut table = output::table(&head, 2);
    for algorithm in &record.algorithms {
        for (index, variant) in algorithm.variants.iter().enumerate() {
            let name = if index == 0 { algorithm.algorithm } else { "" };
            let noisy = if variant.spread > SPREAD_QUOTABLE_MAX { " noisy" } else { "" };
            let [mbps, utilisation, gain] = ixp1200(variant);
            table.add_row([
                name.to_owned(),
                label(algorithm, variant),
                format!("{:.0}", variant.mbps),
                format!("{:.1} %", variant.utilisation),
                format!("{:.2} ×", variant.gain),
                format!("{:.2}", variant.cycles_per_byte),
                format!("{:.1} %{noisy}", variant.spread * 100.0),
                mbps,
                utilisation,
                gain,
            ]);
        }
    }
    say(table)
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
        [
            format!("{}{star}", as_printed(paper.mbps)),
            format!("{:.1} %", paper.utilisation),
            format!("{:.2} ×", paper.gain),
        ]
    });
    cells.unwrap_or_else(|| ["/".to_owned(), "/".to_owned(), "/".to_owned()])
}

/// With as many decimals as the paper prints.
fn as_printed(mbps: f64) -> String {
    let tenths = mbps * 10.0;
    if (tenths - tenths.round()).abs() < 1e-6 { format!("{mbps:.1}") } else { format!("{mbps:.2}") }
}

/// What a reader has to know of the method.
fn footnotes(record: &Record) -> anyhow::Result<()> {
    let clocks = record.algorithms.iter().map(|algorithm| algorithm.clock_ghz);
    let (low, high) = clocks.fold((f64::MAX, 0.0f64), |(low, high), ghz| (low.min(ghz), high.max(ghz)));
    say(
        "\nInstructions and accesses are counted by running the same source over words that count: word operations, loop\n\
         control, reads and writes of tables, messages and buffers; moves, immediates and address arithmetic are free.\n\
         A helper's ring is not counted. In lanes a vector's instructions are shared by its messages.",
    )?;
    match &record.utilisation {
        Utilisation::Counters { issue_width } => say(format!(
            "ρ: instructions a cycle by the processor's counters, as a share of the {issue_width} that can begin in one."
        ))?,
        Utilisation::Floor { issue_width, why } => say(format!(
            "ρ: the floor (counted instructions at {issue_width} a cycle, those that compute with vectors at 3, AVX-512 2) \
             as a share of the\ncycles that all threads took; no counters to ask here ({why})."
        ))?,
    }
    say(format!("Cycles by a chain of dependent instructions timed in the same turns: {low:.2} to {high:.2} GHz."))?;
    say("* The paper gives the better of M1 and M2 (Blowfish: M2, Khufu/Khafre: M1); both rows have it.")?;
    if record.algorithms.iter().flat_map(|a| &a.variants).any(|variant| variant.spread > SPREAD_QUOTABLE_MAX) {
        say("Rows marked noisy should not be quoted: give a longer --time, a quieter machine.")?;
    }
    if !record.machine.optimised {
        say("This is a debug build; its figures mean nothing.")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::as_printed;

    #[test]
    fn the_papers_figures_keep_their_decimals() {
        assert_eq!([219.06, 775.87, 261.0, 1103.7].map(as_printed), ["219.06", "775.87", "261.0", "1103.7"]);
    }
}
