//! The command line: what can be said, with examples.

mod gateway;
mod inspect;
mod keys;
mod openssl;
mod pkcs11;
mod placement;
mod service;
mod tokens;
mod value;

use std::ffi::OsString;
use std::path::PathBuf;

use ciphermill_table::Codec;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
pub(crate) use gateway::{
    GatewayCommand, GatewayFileArgs, GatewayLabArgs, GatewayLabCommand, GatewayLabUpArgs, GatewayRunArgs,
};
pub(crate) use inspect::InspectArgs;
pub(crate) use keys::{BackupArgs, KeysCommand, KeystoreArgs, PublicForm};
pub(crate) use openssl::{InstallArgs, OpensslCommand};
pub(crate) use pkcs11::{ModuleArgs, Pkcs11Command};
pub(crate) use placement::{ExplainArgs, TuneArgs};
pub(crate) use service::{AskArgs, RunArgs, ServiceCommand, SocketArgs};
pub(crate) use tokens::{TokensAddArgs, TokensCloneArgs, TokensCommand, TokensListArgs, TokensTestArgs};
pub(crate) use value::ValueArgs;

/// The heading of the options that every command has, so that they do not stand among its own.
const GLOBAL: &str = "Options of every command";

/// What `disable` and `enable` take.
const RULES_HELP: &str = "\
Rules stand under [policy] in the file that --config names, else in ./ciphermill.toml if it is there, else in the user's \
configuration folder; the rest of the file stays as it is. Programs go by them when they next read the file. `ciphermill \
engines` lists what is disabled, `ciphermill explain` says what that changes for a batch.

Examples:
  ciphermill disable gpu
  ciphermill disable lanes:des-cbc rc4
  ciphermill disable 'gpu:rsa-*'
  ciphermill enable rc4";

/// Columns that help takes at most.
const WIDTH_MAX: usize = 100;

/// Runs cryptographic operations in batches, on whichever engine of this machine does them best.
#[derive(Debug, Parser)]
#[command(name = "ciphermill", version, max_term_width = WIDTH_MAX)]
#[command(after_help = "\
Examples:
  ciphermill keys generate customer-data
  ciphermill protect in.parquet safe.parquet --column name=deterministic
  ciphermill unprotect safe.parquet again.parquet
  ciphermill engines
  ciphermill tune
  ciphermill lab all --quick

Settings come from ciphermill.toml; `ciphermill config` prints those in force, in the form of that file.

Exit codes: 0 done, 1 failed, 2 wrong usage, 129, 130 or 143 ended by SIGHUP, SIGINT (Ctrl-C) or SIGTERM. With --json, an \
error is one line of JSON on standard error: {\"error\": \"...\", \"exit_code\": 1}.")]
pub(crate) struct Cli {
    /// Read settings from this file instead of ./ciphermill.toml or the one in the user's configuration folder.
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL,
        value_name = "FILE",
        env = "CIPHERMILL_CONFIG",
        value_hint = ValueHint::FilePath
    )]
    pub config: Option<PathBuf>,

    /// Log what is done on standard error; twice for every detail.
    #[arg(short, long, global = true, help_heading = GLOBAL, action = clap::ArgAction::Count)]
    pub verbose: u8,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Protect columns of a table: encrypt their values, or replace them by tokens.
    Protect(ProtectArgs),
    /// Restore the columns that `protect` encrypted.
    Unprotect(UnprotectArgs),
    /// Protect a protected table under another key, version or method, never in clear.
    Rekey(RekeyArgs),
    /// Show how a table was protected, and verify it.
    Inspect(InspectArgs),
    /// Protect or restore single values as a column's, for a query's WHERE.
    Value(ValueArgs),
    /// Show the engines found on this machine, their kernels and suites.
    Engines(EnginesArgs),
    /// Disable engines, suites, or suites of an engine, in the configuration file.
    #[command(after_help = RULES_HELP)]
    Disable(RulesArgs),
    /// Take rules of `disable` out of the configuration file.
    #[command(after_help = RULES_HELP)]
    Enable(RulesArgs),
    /// Keep keys: make, import, list, rotate, back up and destroy them.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Have programs that use OpenSSL load the provider.
    #[command(subcommand)]
    Openssl(OpensslCommand),
    /// Have programs that speak PKCS#11 load the module, whose tokens are keystores.
    #[command(subcommand)]
    Pkcs11(Pkcs11Command),
    /// Use PKCS#11 tokens and HSMs as engines: list, configure and test them, and bring keys to them.
    #[command(subcommand)]
    Tokens(TokensCommand),
    /// One mill for all processes of this machine: run it, ask how it is, end it.
    #[command(subcommand)]
    Service(ServiceCommand),
    /// ESP tunnels between networks: run a gateway, check its file, make namespaces to try it in.
    #[command(subcommand)]
    Gateway(GatewayCommand),
    /// Serve a token to the program that has started this one, over standard input.
    #[command(hide = true)]
    TokenHost,
    /// Run the known-answer test of every suite on every engine.
    Selftest(SelftestArgs),
    /// Measure what batches cost on each engine, for all commands to go by.
    Tune(TuneArgs),
    /// Show which engine a batch would run on, and why.
    Explain(ExplainArgs),
    /// Measure the engines of this machine, beside OpenSSL and other libraries (starts ciphermill-lab).
    #[command(disable_help_flag = true)]
    Lab {
        /// What ciphermill-lab is told; --help lists it.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        args: Vec<OsString>,
    },
    /// Show which settings are in force and where they come from.
    #[command(after_help = "\
Settings are read from the file that --config names, else from ./ciphermill.toml, else from \
ciphermill/ciphermill.toml in the user's configuration folder ($XDG_CONFIG_HOME, else ~/.config). The output is \
such a file, with every setting explained.

Examples:
  ciphermill config
  ciphermill config > ciphermill.toml
  ciphermill config --policy customers.policy.toml")]
    Config {
        /// Check this policy file of `protect` instead, and show what it says.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        policy: Option<PathBuf>,
    },
    /// Protect a generated customer table, bring it back, compare, and report speed.
    Demo(DemoArgs),
    /// Watch the service, or a program that was started with --metrics-socket: rates, times and predictions, live.
    Top(TopArgs),
    /// Print a completion script for a shell.
    #[command(after_help = "\
Examples:
  ciphermill completions bash > /etc/bash_completion.d/ciphermill
  ciphermill completions zsh > ~/.zfunc/_ciphermill")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for each command into a folder.
    Man {
        /// Write ciphermill.1, ciphermill-protect.1 and so on into this folder.
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        out: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Methods:
  random          AES-256-GCM-SIV under a fresh nonce; equal values look different
  deterministic   AES-256-SIV; equal values stay equal, so that joins and indexes work
  token           HMAC-SHA-256; one way, for comparing only
  ff1             FF1-AES256; digits stay digits, letters letters, the length stays

Options follow the method, after a colon and separated by commas:
  as=NAME         all methods: the name that values are bound to, so that a renamed column can
                  still be decrypted and columns of one name can be joined [default: the column's]
  bind=no         random, deterministic: not bound to rows in spite of --bind-row
  as-text         deterministic, token: integers are protected as their decimal text, so that they
                  join with columns of other widths and of text
  on-bad=ACTION   what becomes of a value that the method cannot take: error, null (left out),
                  token (ff1 only: its token stays instead), reject (the row goes to
                  --reject-file) [default: error]
  len=16..32      token: its bytes [default: 32]
  alphabet=CHARS  ff1: the characters that are encrypted, or digits, lower, upper, letters, alnum
                  [default: digits]
  sep=CHARS       ff1: other characters that may occur; they stay in clear, in their places. Any
                  character that is neither here nor in the alphabet is an error [default: none]
  keep=N          ff1: the first N characters of the alphabet stay in clear
  keep-last=N     ff1: the last N characters of the alphabet stay in clear
  preset=NAME     ff1: phone (sep=+-() ./), card (sep= -,keep-last=4) or iban (digits and capital
                  letters, a space as separator, keep=4); other options change a part of it
A backslash takes the meaning from a comma, colon, equals sign or backslash after it.

Examples:
  ciphermill protect in.csv safe.csv --column name=deterministic --column phone=ff1:preset=phone
  ciphermill protect in.csv safe.csv --column 'ref=ff1:alphabet=alnum,sep=-/,keep=2'
  ciphermill protect in.csv safe.parquet --column name=deterministic
  ciphermill protect rows.csv safe.csv --no-header --column column_2=random
  ciphermill protect in.parquet safe.parquet --key data --column balance=random --json
  ciphermill protect orders orders.safe --column name=deterministic
  ciphermill protect 'orders/year=2026/*.parquet' safe --column name=deterministic")]
pub(crate) struct ProtectArgs {
    /// The table to read: CSV (plain, gzip or zstd) or Parquet; `-` for standard input. Or a folder of tables, or a pattern for
    /// them like 'orders/*.parquet', in quotes.
    #[arg(value_hint = ValueHint::AnyPath)]
    pub input: PathBuf,
    /// The table to write, in the format that its name tells, converted if that is another; `.csv.gz` and `.csv.zst` are
    /// compressed; `-` for standard output, in the input's format. For many tables a new folder, which gets all of them under
    /// their names and one manifest, _ciphermill.json; a run that was cut short is gone on with by the same command.
    #[arg(value_hint = ValueHint::AnyPath)]
    pub output: PathBuf,
    /// Where the manifest goes [default: OUTPUT.ciphermill.json; needed for standard output].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub manifest: Option<PathBuf>,
    /// A column and its method; may be given many times.
    #[arg(long = "column", value_name = "NAME=METHOD[:OPTIONS]", required_unless_present = "policy")]
    pub columns: Vec<String>,
    /// Columns, their methods and options, the key and the row binding from this file (TOML); --key and --bind-row go
    /// before it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub policy: Option<PathBuf>,
    /// Write nothing, and count all values that a method cannot take, by column and rule. Fails when a run would.
    #[arg(long)]
    pub dry_run: bool,
    /// Rows go here that have a value in an `on-bad=reject` column which its method cannot take; in the input's format.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub reject_file: Option<PathBuf>,
    /// Bind values of random and deterministic columns to their rows: this column identifies a row, and stays in clear.
    #[arg(long, value_name = "COLUMN")]
    pub bind_row: Option<String>,
    /// A name of the table that is bound with --bind-row, so that rows of another table are not taken for its rows.
    #[arg(long, value_name = "NAME", requires = "bind_row", default_value = "", hide_default_value = true)]
    pub bind_table: String,
    /// The key in the keystore [default: from ciphermill.toml, else `default`].
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    /// The version of that key, for example so that joins with tables of an older version work [default: the current one].
    #[arg(long, value_name = "VERSION")]
    pub key_version: Option<u32>,
    /// The character between CSV fields [default: a comma, for .tsv a tabulator].
    #[arg(long, value_name = "CHAR", value_parser = parse_delimiter)]
    pub delimiter: Option<u8>,
    /// The CSV table has no header: its columns are called column_1, column_2 and so on. The manifest keeps it in mind.
    #[arg(long)]
    pub no_header: bool,
    /// The codec of protected Parquet columns: uncompressed, snappy, gzip, brotli, zstd, lz4_raw or lz4 [default: each
    /// column's own, and none for random].
    #[arg(long, value_name = "CODEC")]
    pub codec: Option<Codec>,
    /// The input's format [default: by its extension].
    #[arg(long, value_enum)]
    pub format: Option<FormatArg>,
    #[command(flatten)]
    pub common: TableArgs,
    #[command(flatten)]
    pub keystore: KeystoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The manifest beside the input says which key and version, which columns and which methods were used.

Examples:
  ciphermill unprotect safe.parquet customers.parquet
  ciphermill unprotect moved.csv again.csv --manifest safe.csv.ciphermill.json
  ciphermill unprotect safe.parquet part.parquet --column c_phone
  ciphermill unprotect safe.parquet customers.csv
  ciphermill unprotect orders.safe orders
  ciphermill unprotect renamed.csv again.csv --manifest safe.csv.ciphermill.json \\
      --rename name=full_name --allow-changed")]
pub(crate) struct UnprotectArgs {
    /// The protected table, `-` for standard input; or a folder of such tables, or a pattern for them.
    #[arg(value_hint = ValueHint::AnyPath)]
    pub input: PathBuf,
    /// The table to write, `-` for standard output, which gets nothing until all of it is verified; for many tables, a new
    /// folder.
    #[arg(value_hint = ValueHint::AnyPath)]
    pub output: PathBuf,
    /// The format of that table, converted if the protected one has another [default: by the output's extension, else the
    /// input's].
    #[arg(long, value_enum)]
    pub format: Option<FormatArg>,
    /// The manifest [default: the input's name with .ciphermill.json].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub manifest: Option<PathBuf>,
    /// Restore this column only; may be given many times. The others stay protected, and the output gets a manifest.
    #[arg(long = "column", value_name = "NAME")]
    pub columns: Vec<String>,
    /// A protected column that has been renamed since, which takes --allow-changed too; may be given many times.
    #[arg(long, value_name = "LOGICAL=NAME")]
    pub rename: Vec<String>,
    /// Accept a file that was changed since. Then values of random and deterministic columns are still authenticated, each
    /// by itself; which rows there are, nulls, and columns of ff1 and token are not, nor those that were never protected.
    #[arg(long)]
    pub allow_changed: bool,
    #[command(flatten)]
    pub common: TableArgs,
    #[command(flatten)]
    pub keystore: KeystoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ciphermill keys rotate customer-data
  ciphermill rekey safe.parquet safer.parquet
  ciphermill rekey safe.parquet safer.parquet --key customers-2027 --verify
  ciphermill rekey safe.parquet safer.parquet --column c_name=deterministic
  ciphermill rekey orders.safe --in-place")]
pub(crate) struct RekeyArgs {
    /// The protected table, `-` for standard input; or a folder of such tables, or a pattern for them.
    #[arg(value_hint = ValueHint::AnyPath)]
    pub input: PathBuf,
    /// The table to write, whose manifest lies beside it; for many tables, a new folder.
    #[arg(value_hint = ValueHint::AnyPath, required_unless_present = "in_place")]
    pub output: Option<PathBuf>,
    /// Replace the tables of a folder one by one. A run that is cut short is gone on with by the same command.
    #[arg(long, conflicts_with = "output")]
    pub in_place: bool,
    /// The manifest [default: the input's name with .ciphermill.json].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub manifest: Option<PathBuf>,
    /// The key to protect under [default: the one that the table is protected under].
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    /// The version of that key [default: the current one].
    #[arg(long, value_name = "VERSION")]
    pub key_version: Option<u32>,
    /// Protect this column by another method; may be given many times. All other columns keep theirs.
    #[arg(long = "column", value_name = "NAME=METHOD[:OPTIONS]")]
    pub columns: Vec<String>,
    /// Read the new table afterwards and authenticate every value of it.
    #[arg(long)]
    pub verify: bool,
    /// Accept a file that was changed since it was protected; see `unprotect`.
    #[arg(long)]
    pub allow_changed: bool,
    #[command(flatten)]
    pub common: TableArgs,
    #[command(flatten)]
    pub keystore: KeystoreArgs,
}

/// What `protect`, `unprotect` and `rekey` have in common.
#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// Replace an output that exists.
    #[arg(long)]
    pub force: bool,
    /// Run on this engine instead of the one that the router chooses.
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<String>,
    /// How many threads work on the table; with 1 everything is done by one thread. The output does not depend on it
    /// [default: one a core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// Print the summary as JSON on standard output.
    #[arg(long)]
    pub json: bool,
    /// No progress bar and no summary.
    #[arg(short, long)]
    pub quiet: bool,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

/// For commands that run for long.
#[derive(Debug, Args)]
pub(crate) struct MetricsArgs {
    /// Serve what is counted while this runs on a Unix socket at this path, for `ciphermill top` and Prometheus.
    #[arg(long, value_name = "PATH", env = "CIPHERMILL_METRICS_SOCKET", value_hint = ValueHint::FilePath)]
    pub metrics_socket: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    Csv,
    Parquet,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ciphermill engines
  ciphermill engines --suites
  ciphermill engines --test --json")]
pub(crate) struct EnginesArgs {
    /// List every suite of every engine.
    #[arg(long)]
    pub suites: bool,
    /// Run every known-answer test first.
    #[arg(long)]
    pub test: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// For `disable` and `enable`.
#[derive(Debug, Args)]
pub(crate) struct RulesArgs {
    /// ENGINE, ENGINE:SUITE or SUITE; a suite's name may end in * for all that begin so.
    #[arg(required = true, value_name = "RULE")]
    pub rules: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ciphermill selftest
  ciphermill selftest --engine lanes --all")]
pub(crate) struct SelftestArgs {
    /// Only these engines; may be given many times.
    #[arg(long = "engine", value_name = "ENGINE")]
    pub engines: Vec<String>,
    /// List every test, not only failures.
    #[arg(long)]
    pub all: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The key is made for the demonstration and thrown away; no keystore is needed. The tables stay in the folder.

Examples:
  ciphermill demo
  ciphermill demo --scale 0.1 --dir /tmp/demo")]
pub(crate) struct DemoArgs {
    /// TPC-H scale factor: 1 makes 150,000 customers.
    #[arg(long, default_value_t = 1.0, value_name = "SCALE")]
    pub scale: f64,
    /// The folder for the tables, which is made where it does not exist.
    #[arg(long, default_value = "target/demo", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Print JSON instead of the table.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal it redraws in place until `q` or Ctrl-C; elsewhere it prints one table after the other. Of a service there is a row a \
client besides: users see their own, root and the service's own user see all, and its engines.

Examples:
  ciphermill demo --scale 10 --metrics-socket mill.sock &
  ciphermill top --socket mill.sock
  ciphermill top --socket mill.sock --once --json
  ciphermill top --service
  ciphermill top --service /run/ciphermill/socket --once
  curl --unix-socket mill.sock http://localhost/metrics")]
pub(crate) struct TopArgs {
    /// The socket that a program serves its metrics on [default: CIPHERMILL_METRICS_SOCKET of the environment].
    #[arg(long, value_name = "PATH", conflicts_with = "service", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Watch the service of this machine instead [default PATH: as `ciphermill service` has it].
    #[arg(long, value_name = "PATH", num_args = 0..=1, value_hint = ValueHint::FilePath)]
    #[expect(clippy::option_option, reason = "clap's form of an option whose value may be left out")]
    pub service: Option<Option<PathBuf>>,
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub interval: f64,
    /// Print one table, with the rates of one interval, and end.
    #[arg(long)]
    pub once: bool,
    /// Print JSON, one line for each interval.
    #[arg(long)]
    pub json: bool,
}

fn parse_interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.05 to 3600".to_owned()),
    }
}

fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text {
        "\\t" => Ok(b'\t'),
        _ => match text.as_bytes() {
            [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n') => Ok(*byte),
            _ => Err("a single ASCII character other than quotes and line ends".to_owned()),
        },
    }
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
    fn the_help_keeps_its_rules() {
        crate::help_rules::check(Cli::command(), WIDTH_MAX);
    }
}
