//! What can be said to `lab`: every method of the registry, and what is done with their records.

use std::path::PathBuf;
use std::time::Duration;

use ciphermill_cli::program;
use ciphermill_contract::{Direction, Suite};
use ciphermill_lab::gateway::live::Frame;
use ciphermill_lab::method::{METHODS, Method, Options};
use ciphermill_lab::timing::Budget;
use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint};

/// Columns that help takes at most.
const WIDTH_MAX: usize = 100;

/// Measures the engines of this machine, beside OpenSSL and other libraries.
#[derive(Debug, Parser)]
#[command(name = "ciphermill-lab", bin_name = "ciphermill lab", version, max_term_width = WIDTH_MAX)]
pub(crate) struct Cli {
    /// Log what is done on standard error; twice for every detail.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,

    #[command(subcommand)]
    pub command: LabCommand,
}

/// Methods with arguments of their own.
const OWN_ARGUMENTS: [&str; 6] = ["router", "cases", "short", "principles", "simulate", "gateway"];

/// What is told below the options of a method: the source, what the options mean to it, examples.
const HELP: &[(&str, &str)] = &[
    (
        "driver",
        "\
Measured: chunks handed over one at a time (the next when the last is done) against all at once; polled \
against woken; the same chunk again and again against unique ones; one key or many; checking off, after the \
timer, or inside it. Says which of these moves the result, and by what factor. Source: Understanding Crypto \
Performance in Embedded Systems (Freescale), part 2.",
    ),
    (
        "ladder",
        "\
Measured: the paper's eight experiments through the service, which the lab starts for it (`ciphermill`, beside \
this program): from one request an operation to one for a batch, then lanes and many channels; what the \
service always does is said instead. Throughput against operations a batch, beside the paper's points, with the \
overhead of each rung as C1, C2 and C3. With --core the services run on the next core. --engine names the engine \
for single messages, of those that a service has. Source: Lindemann and Smith, Improving DES Coprocessor \
Throughput for Short Operations, experiments 1 to 8.",
    ),
    (
        "breakeven",
        "\
Measured: every engine over sizes of blocks and batches; where one overtakes another; a table in the style of \
`openssl speed`. Source: Schuba, Transparent Multi-core Cryptographic Support on Niagara CMT Processors.",
    ),
    (
        "peaks",
        "\
Measured: the highest rate of every algorithm on one and on all threads, beside the paper's table and beside \
the peers. Source: Schuba, Transparent Multi-core Cryptographic Support on Niagara CMT Processors.",
    ),
    (
        "overhead",
        "\
Measured: the mill against its engine called directly; many applications at once; what is left to an unrelated \
program. Source: Keromytis, Wright and de Raadt, The Design of the OpenBSD Cryptographic Framework.",
    ),
];

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    #[command(flatten)]
    Method(MethodCommand),
    #[command(about = about_of("short"))]
    Short(ShortArgs),
    #[command(about = about_of("principles"))]
    Principles(PrinciplesArgs),
    #[command(about = about_of("gateway"))]
    Gateway(GatewayArgs),
    /// Run every method, one after the other, and make one record of all.
    All(AllArgs),
    /// Show a record that --json or --save wrote.
    Show(ShowArgs),
    /// Tell what changed from one record to another.
    Compare(CompareArgs),
    /// Write what may be quoted of a record into the documents.
    Readme(ReadmeArgs),
    #[command(about = about_of("cases"))]
    Cases(CasesArgs),
    #[command(about = about_of("router"))]
    Router(RouterArgs),
    #[command(about = about_of("simulate"))]
    Simulate(SimulateArgs),
    /// Measure a peer on the values that standard input has, each behind its length in four bytes, little-endian.
    #[command(hide = true)]
    Values(ValuesArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for each command into a folder.
    Man {
        /// Write ciphermill-lab.1, ciphermill-lab-short.1 and so on into this folder.
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        out: Option<PathBuf>,
    },
}

/// What `ciphermill demo` asks.
#[derive(Debug, Args)]
pub(crate) struct ValuesArgs {
    /// The suite.
    pub suite: Suite,
    /// The peer, as `lab short` knows them.
    pub engine: String,
    /// Additional data of every operation, where the suite takes any.
    pub aad: String,
}

/// A method of the registry that has no arguments of its own.
#[derive(Debug)]
pub(crate) struct MethodCommand {
    pub method: &'static Method,
    pub args: MethodArgs,
}

/// The registry's description of a method, as a sentence of the help.
fn about_of(name: &str) -> String {
    let about = METHODS.iter().find(|method| method.name == name).map_or("", |method| method.about);
    let mut chars = about.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn methods() -> impl Iterator<Item = &'static Method> {
    METHODS.iter().filter(|method| !OWN_ARGUMENTS.contains(&method.name))
}

impl MethodCommand {
    fn command(method: &Method) -> Command {
        let details = HELP.iter().find(|(name, _)| *name == method.name).map_or("", |(_, text)| text);
        let gap = if details.is_empty() { "" } else { "\n\n" };
        let name = method.name;
        let examples = format!(
            "{details}{gap}\
Examples:
  ciphermill lab {name} --quick
  ciphermill lab {name} --core 1 --html {name}.html
  ciphermill lab {name} --engine lanes --engine openssl-context --time 1000 --json -"
        );
        // The description comes last: arguments bring the doc comment of their own struct as one.
        MethodArgs::augment_args(Command::new(name)).about(about_of(name)).after_help(examples)
    }
}

impl FromArgMatches for MethodCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<MethodCommand, clap::Error> {
        let unknown = || clap::Error::raw(ErrorKind::InvalidSubcommand, "no such method of the lab\n");
        let (name, own) = matches.subcommand().ok_or_else(unknown)?;
        let method = methods().find(|method| method.name == name).ok_or_else(unknown)?;
        Ok(MethodCommand { method, args: MethodArgs::from_arg_matches(own)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = MethodCommand::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for MethodCommand {
    fn augment_subcommands(command: Command) -> Command {
        methods().fold(command, |command, method| command.subcommand(MethodCommand::command(method)))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        MethodCommand::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        methods().any(|method| method.name == name)
    }
}

/// How to measure, for every method.
#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    /// Fewer sizes and shorter timings: to see what comes, not to quote.
    #[arg(long)]
    pub quick: bool,
    /// Pin the measuring thread to this core.
    #[arg(long, value_name = "CORE")]
    pub core: Option<usize>,
    /// Where the random workload starts.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Milliseconds of measuring for each thing that is compared [default: the method's own, with --quick a tenth].
    #[arg(long, value_name = "MS")]
    pub time: Option<u64>,
}

/// Where the record goes besides the terminal.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Write the record as JSON to this file; `-`, or no file, for standard output, which then carries nothing else.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
    /// Write a report to look at to this file: plots, tables, conclusions.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Keep the record in this folder, as MACHINE/DATE.json [without a folder: lab/records].
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "lab/records", value_hint = ValueHint::DirPath)]
    pub save: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct MethodArgs {
    /// An engine or peer, as `lab short` knows them; may be given many times [default: the method's own choice].
    #[arg(long = "engine", value_name = "ENGINE")]
    pub engines: Vec<String>,
    /// A suite; may be given many times [default: the method's own choice].
    #[arg(long = "suite", value_name = "SUITE")]
    pub suites: Vec<Suite>,
    #[command(flatten)]
    pub measure: MeasureArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A method that fails does not take the others' results with it: the record says what failed, and the exit code \
is 1. Ctrl-C ends the measuring; what was measured until then is shown, written and kept all the same.

Examples:
  ciphermill lab all --quick
  ciphermill lab all --core 1 --save --html report.html
  ciphermill lab all --method short --method principles --json before.json")]
pub(crate) struct AllArgs {
    /// Only this method; may be given many times [default: all].
    #[arg(long = "method", value_name = "METHOD", value_parser = parse_method)]
    pub methods: Vec<&'static Method>,
    #[command(flatten)]
    pub common: MethodArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ciphermill lab show record.json
  ciphermill lab show record.json --html report.html")]
pub(crate) struct ShowArgs {
    /// The record, as --json or --save wrote it.
    #[arg(value_hint = ValueHint::FilePath)]
    pub record: PathBuf,
    /// Write a report to look at to this file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Differences within the spread of either figure are no differences. Figures of different machines are \
compared too, and it is said that the machines differ.

Examples:
  ciphermill lab all --method short --json before.json
  ciphermill lab all --method short --json after.json
  ciphermill lab compare before.json after.json --html changes.html")]
pub(crate) struct CompareArgs {
    /// The record before.
    #[arg(value_hint = ValueHint::FilePath)]
    pub before: PathBuf,
    /// The record after.
    #[arg(value_hint = ValueHint::FilePath)]
    pub after: PathBuf,
    /// Write the comparison as JSON to this file; `-`, or no file, for standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
    /// Write the comparison as a report to look at to this file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Figures that the record calls noisy are left out, and the documents say so. Plots become SVG files in the folder \
`plots` beside the document.

Examples:
  ciphermill lab all --core 1 --save
  ciphermill lab readme lab/records/my-machine/2026-01-31.json
  ciphermill lab readme lab/records/my-machine/2026-01-31.json --check")]
pub(crate) struct ReadmeArgs {
    /// The record, as --save wrote it. Its path is named in the documents as it is given here.
    #[arg(value_hint = ValueHint::FilePath)]
    pub record: PathBuf,
    /// A document with a place between `<!-- performance: begin -->` and `<!-- performance: end -->`, or the same with
    /// `ratios`; may be given many times.
    #[arg(
        long = "file",
        default_values = ["docs/performance.md", "README.md"],
        value_name = "FILE",
        value_hint = ValueHint::FilePath
    )]
    pub files: Vec<PathBuf>,
    /// Write nothing; fail when the documents or their plots are not what the record makes.
    #[arg(long)]
    pub check: bool,
}

impl MeasureArgs {
    /// What methods are asked; `usual_ms` is the time for each thing that is compared when none is given.
    pub(crate) fn options(&self, usual_ms: u64, engines: &[String], suites: &[Suite]) -> Options {
        Options {
            quick: self.quick,
            core: self.core,
            seed: self.seed,
            engines: engines.to_vec(),
            suites: suites.to_vec(),
            budget: self.budget(usual_ms),
            program: Some(program::beside("ciphermill")),
        }
    }

    /// The time for each thing that is compared.
    pub(crate) fn budget(&self, usual_ms: u64) -> Budget {
        let usual = Budget::default();
        let (default_ms, rounds_min) = if self.quick { (usual_ms / 10, 5) } else { (usual_ms, usual.rounds_min) };
        Budget { time: Duration::from_millis(self.time.unwrap_or(default_ms)), rounds_min, ..usual }
    }
}

fn parse_method(name: &str) -> Result<&'static Method, String> {
    METHODS.iter().find(|method| method.name == name).ok_or_else(|| {
        let known: Vec<&str> = METHODS.iter().map(|method| method.name).collect();
        format!("there are {}", known.join(", "))
    })
}

#[derive(Debug, Args)]
#[command(after_help = "\
Measured: the mill's asynchronous path against its engine called directly; a stream of batches over two cores; single \
operations of many tasks and of one; how fast routes follow an engine that becomes slower; what is left to another \
program. Method: Keromytis, Wright and de Raadt, The Design of the OpenBSD Cryptographic Framework.

Examples:
  ciphermill lab router
  ciphermill lab router tasks alone --time 1000 --json -")]
pub(crate) struct RouterArgs {
    /// What is measured: decide, engine, cores, tasks, threads, alone, public, signatures, following, share [default: all].
    #[arg(value_name = "WHAT")]
    pub names: Vec<String>,
    #[command(flatten)]
    pub measure: MeasureArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A mix has works apart by commas, each SUITE[.decrypt][/BYTES][*OPS][@hsm]:SHARE, as `aes-256-gcm/64*8:0.5`: requests of \
eight operations of 64 bytes, half of all. `@hsm`: with keys that only an HSM has. Arrivals: closed[:THINK], \
poisson:RATE, bursts:RATE:ON:OFF, or a trace, a CSV file of time_us,client,suite,direction,ops,bytes. A scenario as TOML \
says all of it and more; docs/lab.md has one.

Examples:
  ciphermill lab simulate --cores 16 --mix x25519:0.5,aes-256-gcm/64:0.5 --arrivals poisson:50000
  ciphermill lab simulate --cores 16 --mix ecdsa-p256 --sweep load --html report.html
  ciphermill lab simulate --mix x25519 --arrivals poisson:100000 --sweep cores
  ciphermill lab simulate --cores 8 --devices hsm:2 --mix ecdsa-p256@hsm --sweep load
  ciphermill lab simulate --check")]
pub(crate) struct SimulateArgs {
    /// Cores of all nodes, 1 to 256.
    #[arg(long, default_value_t = 16, value_name = "N")]
    pub cores: u32,
    /// NUMA nodes, each with a service of its own.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub nodes: u32,
    /// Devices, as `gpu:2,hsm:1`. An HSM has 1 ms there and back and does 2,000 operations a second; a GPU costs what was
    /// measured of it, or else what its engine declares.
    #[arg(long, value_name = "DEVICES")]
    pub devices: Option<String>,
    /// Clients, 1 to 100,000.
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub clients: u32,
    /// When they ask: closed[:THINK], poisson:RATE, bursts:RATE:ON:OFF, or a trace's file.
    #[arg(long, default_value = "poisson:20000", value_name = "ARRIVALS")]
    pub arrivals: String,
    /// What for, with shares of requests.
    #[arg(long, default_value = "rsa-2048-sign-pkcs1-sha256:0.5,aes-256-gcm/64:0.5", value_name = "MIX")]
    pub mix: String,
    /// Clients run on the same cores as the service.
    #[arg(long)]
    pub shares_cores: bool,
    /// Take all of this from a TOML file.
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["cores", "nodes", "devices", "clients", "arrivals", "mix", "shares_cores", "seconds", "seed"]
    )]
    pub scenario: Option<PathBuf>,
    /// Take costs from a file that `ciphermill tune` wrote, on this machine or another, instead of this machine's engines.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub costs: Option<PathBuf>,
    /// Seconds that are simulated, with --check measured.
    #[arg(long, default_value_t = 2.0, value_name = "S")]
    pub seconds: f64,
    /// Where chance begins: the same seed has the same outcome.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Repeat it over loads, to find where it saturates, or over cores, to find how many the load needs.
    #[arg(long, value_enum, value_name = "OVER")]
    pub sweep: Option<Over>,
    /// How many times as long as without load the 99th percentile may be in a sweep.
    #[arg(long, default_value_t = 5.0, value_name = "TIMES")]
    pub knee: f64,
    /// Compare the simulation with the service on one and two cores of this machine, instead.
    #[arg(long, conflicts_with_all = ["cores", "nodes", "devices", "clients", "arrivals", "mix", "scenario", "sweep", "costs"])]
    pub check: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What a sweep goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Over {
    /// Requests a second.
    Load,
    /// Cores.
    Cores,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Measured in memory: ESP out and in, at 64, 512 and 1424 bytes: AES-GCM, AES-CBC and triple DES with HMAC-SHA-1 beside DPDK's \
ipsec-secgw, where xtask/gateway/secgw.sh can run it (Debian's dpdk and libdpdk-dev, root, the repository's root as working \
folder); each engine alone; 1 to 10,000 associations; two cores by one. Measured over veth pairs: what two gateways carry, \
how long packets take and what a gigabit costs, by MLRsearch, beside the other stacks that are installed; wants root and two \
cores. Everything over veth takes most of a day; a suite and a frame of a stack take ten minutes. Source: Freescale's articles on \
measuring security gateways, part 2; RFC 2544; draft-ietf-bmwg-mlrsearch.

Examples:
  ciphermill lab gateway --quick
  ciphermill lab gateway --half memory --core 1 --html gateway.html
  ciphermill lab gateway --half live --stack forwarder --stack ciphermill --frame 64 --frame imix")]
pub(crate) struct GatewayArgs {
    /// One half alone: in memory, or over veth pairs.
    #[arg(long, value_enum, value_name = "HALF")]
    pub half: Option<GatewayHalf>,
    /// A stack over veth pairs; may be given many times [default: all, with --quick three].
    #[arg(long = "stack", value_name = "STACK")]
    pub stacks: Vec<String>,
    /// A suite over veth pairs, one way; may be given many times [default: those of the method].
    #[arg(long = "suite", value_name = "SUITE")]
    pub suites: Vec<String>,
    /// Octets of frames over veth pairs, one way, or `imix`; may be given many times [default: those of the method].
    #[arg(long = "frame", value_name = "OCTETS")]
    pub frames: Vec<Frame>,
    /// An engine in memory; may be given many times [default: all that there are].
    #[arg(long = "engine", value_name = "ENGINE")]
    pub engines: Vec<String>,
    #[command(flatten)]
    pub measure: MeasureArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Halves of `lab gateway`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum GatewayHalf {
    /// ESP in memory.
    Memory,
    /// Gateways over veth pairs.
    Live,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Algorithms: blowfish, khufu, khafre, rc4, seal, md5. Each is written in the paper's variants (unoptimised, \
computation oriented, latency hiding, thread parallel M1 and M2, helper thread) and with many messages in one \
thread (lanes). The variants are interleaved, and must agree before they are timed. Paper: Tan et al., \
Optimization and Benchmark of Cryptographic Algorithms on Network Processors (Intel IXP1200).

Examples:
  ciphermill lab principles
  ciphermill lab principles --algorithm rc4 --algorithm md5 --len 64
  ciphermill lab principles --time 1000 --json")]
pub(crate) struct PrinciplesArgs {
    /// An algorithm; may be given many times [default: all].
    #[arg(long = "algorithm", value_name = "NAME")]
    pub algorithms: Vec<String>,
    /// Bytes of each message.
    #[arg(long, default_value_t = 1024, value_name = "BYTES")]
    pub len: usize,
    #[command(flatten)]
    pub measure: MeasureArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ciphermill lab cases --list
  ciphermill lab cases
  ciphermill lab cases 3des-cbc-short ff1-column --core 1
  ciphermill lab cases aes-128-cbc-short-encrypt --kernel aes=vaes256 --json -")]
pub(crate) struct CasesArgs {
    /// The cases' names [default: all].
    #[arg(value_name = "CASE")]
    pub names: Vec<String>,
    /// List the cases instead of measuring them.
    #[arg(long, conflicts_with_all = ["kernel", "core", "time", "quick", "html", "save"])]
    pub list: bool,
    /// A kernel that the lanes engine must run: `avx2` in every family that has it, `des=avx2` in one; may be given many
    /// times.
    #[arg(long, value_name = "KERNEL")]
    pub kernel: Vec<String>,
    #[command(flatten)]
    pub measure: MeasureArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Engines: lanes (lanes:des=avx2 forces a kernel), library, reference; peers: openssl (key set for every \
operation), openssl-context (a context kept for every key), openssl-public and crypto-mb (public keys, for cases), \
ipsec-mb (bursts), rustcrypto (aes-siv and fpe). Every output is compared with the reference before it is timed.

Examples:
  ciphermill lab short
  ciphermill lab short --suite 3des-cbc --suite aes-128-gcm --len 16..64 --json -
  ciphermill lab short --suite 3des-cbc --engine lanes --engine lanes:des=avx2 --engine ipsec-mb
  ciphermill lab short --suite hmac-sha1 --engine library --engine ipsec-mb --keys 1000 --core 1")]
pub(crate) struct ShortArgs {
    /// A suite; may be given many times [default: des-cbc, 3des-cbc, aes-128-cbc].
    #[arg(long = "suite", value_name = "SUITE")]
    pub suites: Vec<Suite>,
    /// A direction; may be given many times [default: both].
    #[arg(long = "direction", value_name = "DIRECTION")]
    pub directions: Vec<Direction>,
    /// An engine or peer; may be given many times [default: all].
    #[arg(long = "engine", value_name = "ENGINE")]
    pub engines: Vec<String>,
    /// A kernel that engines with a choice must run: `avx2` in every family that has it, `des=avx2` in one; may be given
    /// many times.
    #[arg(long, value_name = "KERNEL")]
    pub kernel: Vec<String>,
    /// Operations in a run [default: 50000, with --quick 10000].
    #[arg(long, value_name = "N")]
    pub ops: Option<usize>,
    /// Keys that operations draw from.
    #[arg(long, default_value_t = 64, value_name = "N")]
    pub keys: usize,
    /// Input lengths in bytes, uniform between both, rounded up to whole blocks.
    #[arg(long, default_value = "8..80", value_name = "MIN..MAX", value_parser = parse_range)]
    pub len: (usize, usize),
    /// Bytes of additional data where a suite takes any number.
    #[arg(long, default_value_t = 12, value_name = "BYTES")]
    pub aad: usize,
    /// All operations share one place of additional data, as a column's values share its name.
    #[arg(long)]
    pub shared_aad: bool,
    #[command(flatten)]
    pub measure: MeasureArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

fn parse_range(text: &str) -> Result<(usize, usize), String> {
    let wrong = || format!("`{text}` is not a range like 8..80");
    let number = |part: &str| part.trim().parse::<usize>().map_err(|_| wrong());
    let (min, max) = match text.split_once("..") {
        Some((min, max)) => (number(min)?, number(max.trim_start_matches('='))?),
        None => (number(text)?, number(text)?),
    };
    if min > max { Err(format!("{min}..{max} ends before it begins")) } else { Ok((min, max)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_keeps_its_rules_and_the_registrys_words() {
        let described = crate::help_rules::check(Cli::command(), WIDTH_MAX);
        for method in METHODS {
            let words = method.about.to_lowercase();
            let found = described.iter().any(|about| about.to_lowercase().contains(&words));
            assert!(found, "`lab {}` is not described by the registry's words", method.name);
        }
    }

    #[test]
    fn ranges_parse_or_say_what_is_wrong() {
        assert_eq!(parse_range("8..80"), Ok((8, 80)));
        assert_eq!(parse_range("64"), Ok((64, 64)));
        assert!(parse_range("80..8").is_err());
        assert!(parse_range("8-80").is_err());
    }
}
