//! What can be said to `tune` and `explain`.

use ciphermill_contract::{Direction, Suite};
use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Measures what a batch costs on each engine: C1 + C2 x operations + C3 x bytes. The figures are kept in \
ciphermill/costs.json in the user's cache folder ($XDG_CACHE_HOME, else ~/.cache), and every command that \
runs batches goes by them, as long as processor, engines and kernels stay the same. Without the file, engines \
are believed what they say of themselves, and corrected while they work.

Examples:
  ciphermill tune
  ciphermill tune --suite aes-128-gcm --suite 3des-cbc
  ciphermill tune --engine lanes --kernels
  ciphermill tune --print")]
pub(crate) struct TuneArgs {
    /// A suite; may be given many times [default: all but legacy ones].
    #[arg(long = "suite", value_name = "SUITE")]
    pub suites: Vec<Suite>,
    /// An engine; may be given many times [default: all].
    #[arg(long = "engine", value_name = "ENGINE")]
    pub engines: Vec<String>,
    /// Measure legacy suites too.
    #[arg(long)]
    pub legacy: bool,
    /// A first impression in a third of the time.
    #[arg(long)]
    pub quick: bool,
    /// Measure every kernel that this processor can run, not only those that are chosen.
    #[arg(long)]
    pub kernels: bool,
    /// Seconds that measuring may take in all [default: 17, with --quick 5].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub time: Option<u64>,
    /// Print the figures as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print the figures that are there instead of measuring.
    #[arg(long, conflicts_with_all = ["quick", "kernels", "time"])]
    pub print: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ciphermill explain --suite aes-128-gcm --ops 32 --len 64
  ciphermill explain --suite hmac-sha256 --ops 1 --len 1024 --direction decrypt --engine lanes")]
pub(crate) struct ExplainArgs {
    /// The suite.
    #[arg(long, value_name = "SUITE")]
    pub suite: Suite,
    /// Operations in the batch.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=ciphermill_contract::limits::BATCH_OPS_MAX as u64))]
    pub ops: u64,
    /// Bytes of input of each operation.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(0..=ciphermill_contract::limits::INPUT_LEN_MAX as u64))]
    pub len: u64,
    /// The direction.
    #[arg(long, value_name = "DIRECTION", default_value = "encrypt")]
    pub direction: Direction,
    /// The engine that a caller would insist on.
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
