//! `ciphermill lab`: methods of the registry, alone or all, and what is done with their records.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ciphermill_contract::Suite;
use ciphermill_lab::LabError;
use ciphermill_lab::cases;
use ciphermill_lab::method::{METHODS, Options, Progress};
use ciphermill_lab::rules::{Listener, Recorded, Work, machine, record};
use ciphermill_lab::short::Short;
use ciphermill_lab::workload::Parameters;
use ciphermill_lab::{gateway, principles, router};
use ciphermill_report::{
    Machine, Record, Section, compare as differences, html, terminal, terminal_head, terminal_warnings,
};
use indicatif::ProgressBar;

use crate::args::{
    AllArgs, CasesArgs, CompareArgs, GatewayArgs, GatewayHalf, MethodCommand, OutputArgs, PrinciplesArgs, RouterArgs,
    ShortArgs, ShowArgs,
};
use crate::output::{self, say};
use crate::{interrupt, records};

/// Milliseconds for each thing that is compared when nothing else is said.
const TIME_MS: u64 = 600;

/// The same for the variants of `lab principles`, of which there are many.
const PRINCIPLES_TIME_MS: u64 = 300;

/// Columns of what is printed where there is no terminal to ask.
const WIDTH: usize = 120;

/// A method of the registry.
pub(crate) fn method(command: &MethodCommand) -> anyhow::Result<ExitCode> {
    let args = &command.args;
    let options = args.measure.options(TIME_MS, &args.engines, &args.suites);
    measure(vec![Work::of(command.method, &options)], &options, &args.output, interrupt::watch()?)
}

/// `ciphermill lab all`.
pub(crate) fn all(args: &AllArgs) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    let options = common.measure.options(TIME_MS, &common.engines, &common.suites);
    let chosen = |name: &str| args.methods.is_empty() || args.methods.iter().any(|method| method.name == name);
    let works = METHODS.iter().filter(|method| chosen(method.name)).map(|method| Work::of(method, &options)).collect();
    measure(works, &options, &common.output, interrupt::watch()?)
}

/// `ciphermill lab short`.
pub(crate) fn short(args: &ShortArgs) -> anyhow::Result<ExitCode> {
    let options = args.measure.options(TIME_MS, &args.engines, &args.suites);
    let usual = Parameters::default();
    let parameters = Parameters {
        ops: args.ops.unwrap_or(if options.quick { Short::QUICK_OPS } else { usual.ops }),
        keys: args.keys,
        len_min: args.len.0,
        len_max: args.len.1,
        aad_len: args.aad,
        shared_aad: args.shared_aad,
        seed: options.seed,
    };
    let short = Short {
        suites: args.suites.clone(),
        directions: args.directions.clone(),
        engines: args.engines.clone(),
        kernels: args.kernel.clone(),
        parameters,
        core: options.core,
        budget: options.budget,
    };
    let work = Work { name: "short", run: Box::new(|progress| short.section(progress)) };
    measure(vec![work], &options, &args.output, interrupt::watch()?)
}

/// `ciphermill lab principles`.
pub(crate) fn principles(args: &PrinciplesArgs) -> anyhow::Result<ExitCode> {
    let none: &[Suite] = &[];
    let options = args.measure.options(PRINCIPLES_TIME_MS, &[], none);
    let stop = interrupt::watch()?;
    let own = principles::Options {
        algorithms: principles::named(&args.algorithms)?,
        len: args.len,
        seed: options.seed,
        budget: options.budget,
        stop: &stop,
    };
    let core = options.core;
    let work = Work { name: "principles", run: Box::new(|progress| principles::section(&own, core, progress)) };
    measure(vec![work], &options, &args.output, Arc::clone(&stop))
}

/// `ciphermill lab gateway`.
pub(crate) fn gateway(args: &GatewayArgs) -> anyhow::Result<ExitCode> {
    let none: &[Suite] = &[];
    let options = args.measure.options(TIME_MS, &args.engines, none);
    let half = args.half.map(|half| match half {
        GatewayHalf::Memory => gateway::Half::Memory,
        GatewayHalf::Live => gateway::Half::Live,
    });
    let (stacks, suites, frames) = (args.stacks.clone(), args.suites.clone(), args.frames.clone());
    let choice = gateway::Choice { half, stacks, suites, frames };
    choice.check()?;
    let run = |progress: Progress<'_>| gateway::section(&options, &choice, progress);
    measure(vec![Work { name: "gateway", run: Box::new(run) }], &options, &args.output, interrupt::watch()?)
}

/// `ciphermill lab router`.
pub(crate) fn router(args: &RouterArgs) -> anyhow::Result<ExitCode> {
    let none: &[Suite] = &[];
    let options = args.measure.options(TIME_MS, &[], none);
    router::check(&args.names)?;
    let run = |progress: Progress<'_>| router::section(&args.names, options.budget, progress);
    measure(vec![Work { name: "router", run: Box::new(run) }], &options, &args.output, interrupt::watch()?)
}

/// `ciphermill lab cases`.
pub(crate) fn cases(args: &CasesArgs) -> anyhow::Result<ExitCode> {
    let chosen = cases::named(&args.names)?;
    if args.list {
        return crate::cases::list(&chosen, args.output.json.as_deref()).map(|()| ExitCode::SUCCESS);
    }
    let none: &[Suite] = &[];
    let options = args.measure.options(TIME_MS, &[], none);
    let run = |progress: Progress<'_>| cases::section(&chosen, &args.kernel, &options, progress);
    measure(vec![Work { name: "cases", run: Box::new(run) }], &options, &args.output, interrupt::watch()?)
}

/// `ciphermill lab show`.
pub(crate) fn show(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let record = records::read(&args.record)?;
    let report = args.html.as_deref();
    if let Some(path) = report {
        records::write(path, &html(&record))?;
    }
    if report.is_some_and(records::is_stdout) {
        return Ok(ExitCode::SUCCESS);
    }
    let told = say(format!("{}\n", head(&record)));
    let told = told.and_then(|()| record.sections.iter().try_for_each(|section| say(shown(section))));
    if report.is_some() { output::after_change(told) } else { told }?;
    Ok(ExitCode::SUCCESS)
}

/// `ciphermill lab compare`.
pub(crate) fn compare(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let (before, after) = (records::read(&args.before)?, records::read(&args.after)?);
    let record = differences(&before, &after).record(&command_line());
    let outputs = Outputs { json: args.json.clone(), html: args.html.clone(), save: None };
    outputs.write(&record)?;
    if !outputs.takes_stdout() {
        let told = record.sections.iter().try_for_each(|section| say(shown(section)));
        if outputs.any() { output::after_change(told) } else { told }?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the work and does with the record what was asked.
pub(crate) fn measure(
    works: Vec<Work<'_>>,
    options: &Options,
    output: &OutputArgs,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<ExitCode> {
    let outputs = Outputs { json: output.json.clone(), html: output.html.clone(), save: output.save.clone() };
    outputs.probe()?;
    let alone = works.len() == 1;
    let quiet = outputs.takes_stdout();
    let bar = output::steps(works.len(), quiet);
    if !quiet {
        say(format!("{}\n", heading(&machine())))?;
    }
    let mut screen = Screen { bar, stop, quiet, alone, error: None };
    let recorded = record(works, options, command_line(), &mut screen);
    screen.bar.finish_and_clear();
    if let Some(error) = screen.error.take() {
        outputs.write(&recorded.record)?;
        return if outputs.any() { output::after_change(Err(error)) } else { Err(error) };
    }
    conclude(recorded, &outputs, alone)
}

/// Shows the end, writes the record, and finds the exit code.
fn conclude(recorded: Recorded, outputs: &Outputs, alone: bool) -> anyhow::Result<ExitCode> {
    let Recorded { record, mut failed, interrupted } = recorded;
    if alone && !failed.is_empty() {
        return Err(failed.remove(0).1.into());
    }
    if interrupted && record.sections.iter().all(|section| section.measurements.is_empty()) {
        anyhow::bail!("interrupted before anything was measured; nothing is written");
    }
    // The result stands last: the machine's description is in the record.
    let (width, colours) = paper();
    let warnings = terminal_warnings(&record, width, colours);
    if !outputs.takes_stdout() && !warnings.is_empty() {
        say(warnings.trim_end())?;
    }
    outputs.write(&record)?;
    for (name, error) in &failed {
        output::tell(format_args!("ciphermill: {name}: {error}"));
    }
    if interrupted {
        let kept = if outputs.any() { "what was measured until then is written" } else { "nothing was to be written" };
        anyhow::bail!("interrupted; {kept}");
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What goes on while methods measure: a bar on the terminal, and each section as soon as it is there.
struct Screen {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
    quiet: bool,
    /// The only method that runs; its failure is told once, at the end.
    alone: bool,
    /// Why nothing can be printed any more.
    error: Option<anyhow::Error>,
}

impl Listener for Screen {
    fn measuring(&mut self, method: &str, what: &str) -> Result<(), LabError> {
        self.bar.set_message(format!("{method}: {what}"));
        if self.stop.load(Ordering::Relaxed) || self.error.is_some() { Err(LabError::Interrupted) } else { Ok(()) }
    }

    fn ended(&mut self, section: &Section) {
        self.bar.inc(1);
        let told = self.quiet || (self.alone && section.measurements.is_empty());
        if !told && self.error.is_none() {
            self.error = self.bar.suspend(|| say(shown(section))).err();
        }
    }
}

/// Where a record goes besides the terminal.
struct Outputs {
    json: Option<PathBuf>,
    html: Option<PathBuf>,
    save: Option<PathBuf>,
}

impl Outputs {
    fn any(&self) -> bool {
        self.json.is_some() || self.html.is_some() || self.save.is_some()
    }

    /// Whether standard output carries a file, and therefore nothing else.
    fn takes_stdout(&self) -> bool {
        [&self.json, &self.html].into_iter().flatten().any(|path| records::is_stdout(path))
    }

    /// Finds out that everything can be written before anything is measured.
    fn probe(&self) -> anyhow::Result<()> {
        let both = [&self.json, &self.html].into_iter().flatten().filter(|path| records::is_stdout(path)).count();
        anyhow::ensure!(both < 2, "--json and --html cannot both go to standard output");
        for path in [&self.json, &self.html].into_iter().flatten() {
            records::probe(path)?;
        }
        if let Some(folder) = &self.save {
            records::probe(&records::machine_folder(folder, &machine())?.join("record"))?;
        }
        Ok(())
    }

    /// Writes the record. When one of the files fails the others are written all the same.
    fn write(&self, record: &Record) -> anyhow::Result<()> {
        let text = record.to_json()?;
        let kept = self.save.as_ref().map(|folder| records::save(folder, record, &text));
        let json = self.json.as_ref().map(|path| records::write(path, &text));
        let report = self.html.as_ref().map(|path| records::write(path, &html(record)));
        let written = [json, report].into_iter().flatten().collect::<anyhow::Result<Vec<()>>>();
        if let Some(path) = kept.transpose()? {
            output::tell(format_args!("kept in {}", path.display()));
        }
        written.map(drop)
    }
}

/// The machine, in a line.
fn heading(machine: &Machine) -> String {
    format!("{}, {} cores, {}; ciphermill {}", machine.cpu, machine.cores, machine.os, machine.ciphermill)
}

/// A section for this terminal.
fn shown(section: &Section) -> String {
    let (width, colours) = paper();
    terminal(section, width, colours)
}

/// The record's head for this terminal: the machine, what happened to it, and whether the figures may be quoted.
fn head(record: &Record) -> String {
    let (width, colours) = paper();
    terminal_head(record, width, colours).trim_end().to_owned()
}

/// Columns of standard output, and whether it shows colours.
fn paper() -> (usize, bool) {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    match io::stdout().is_terminal() {
        true => (crossterm::terminal::size().map_or(WIDTH, |(columns, _)| usize::from(columns)), !plain),
        false => (WIDTH, false),
    }
}

/// The command line that measures the same again.
fn command_line() -> String {
    let words = without_places(std::env::args().skip(1)).into_iter().map(|word| quoted(&word));
    ["ciphermill".to_owned(), "lab".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// The words without the places that one user's record went to.
fn without_places(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut words = words.peekable();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        let is_place = |option: &str| word == option || word.starts_with(&format!("{option}="));
        if !["--html", "--json", "--save"].into_iter().any(is_place) {
            kept.push(word);
        } else if !word.contains('=') {
            // What follows is the place, unless it is an option itself.
            words.next_if(|next| next == "-" || !next.starts_with('-'));
        }
    }
    kept
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_left_out_of_a_command_line() {
        let of = |line: &str| without_places(line.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(of("lab all --html a/b.html --core 1 --save"), "lab all --core 1");
        assert_eq!(of("lab all --save lab/records --quick --json -"), "lab all --quick");
        assert_eq!(of("lab all --json=x --time 300"), "lab all --time 300");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("--suite=aes-128-cbc+hmac-sha1"), "--suite=aes-128-cbc+hmac-sha1");
        assert_eq!(quoted("my file"), "'my file'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
