//! What can be said to `gateway`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// Run the ESP gateway of a file, in the foreground.
    #[command(after_help = "\
Packets from the inside go through the tunnels of the file to the outside, and back: ESP (RFC 4303) in tunnel mode. Interfaces want \
CAP_NET_RAW and CAP_NET_ADMIN; files of packets want nothing. `ciphermill gateway check` explains what is wrong with a file.

SIGHUP reads the file again: tunnels that stayed the same go on as they are. SIGTERM and Ctrl-C end the gateway; what was received \
leaves first.

Examples:
  ciphermill gateway run gateway.toml
  ciphermill gateway run gateway.toml --metrics-socket /run/gateway/metrics
  ciphermill top --socket /run/gateway/metrics")]
    Run(GatewayRunArgs),
    /// Check a gateway's file, and say what it asks for.
    #[command(after_help = "\
Nothing is opened but the file, and no keys are read.

Examples:
  ciphermill gateway check gateway.toml")]
    Check(GatewayFileArgs),
    /// Make or remove network namespaces to try gateways in.
    #[command(subcommand)]
    Lab(GatewayLabCommand),
}

#[derive(Debug, Args)]
pub(crate) struct GatewayFileArgs {
    /// The gateway's file.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct GatewayRunArgs {
    #[command(flatten)]
    pub(crate) file: GatewayFileArgs,
    /// Use one engine alone, by name.
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine: Option<String>,
    /// Serve what is counted at this path, for `ciphermill top` and Prometheus.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) metrics_socket: Option<PathBuf>,
    /// Take keys of the file's as they are, though the next start uses their nonces again. In a laboratory alone.
    #[arg(long)]
    pub(crate) lab_static_keys: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GatewayLabCommand {
    /// Make four namespaces in a row: a host, two gateways, a host.
    #[command(after_help = "\
The namespaces are ciphermill-NAME-left, -west, -east and -right. Hosts have 10.77.1.2 and 10.77.2.2, gateways 10.77.1.1 and \
10.77.2.1 inside, 192.0.2.1 and 192.0.2.2 outside. Files for both gateways and their keys lie in --out. Wants root.

Examples:
  ciphermill gateway lab up --out /tmp/lab
  ip netns exec ciphermill-lab-west ciphermill gateway run /tmp/lab/west.toml --lab-static-keys &
  ip netns exec ciphermill-lab-east ciphermill gateway run /tmp/lab/east.toml --lab-static-keys &
  ip netns exec ciphermill-lab-left ping 10.77.2.2")]
    Up(GatewayLabUpArgs),
    /// Remove them, and whatever runs in them.
    #[command(after_help = "\
Examples:
  ciphermill gateway lab down")]
    Down(GatewayLabArgs),
}

#[derive(Debug, Args)]
pub(crate) struct GatewayLabArgs {
    /// What the namespaces are called.
    #[arg(long, value_name = "NAME", default_value = "lab")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct GatewayLabUpArgs {
    #[command(flatten)]
    pub(crate) lab: GatewayLabArgs,
    /// The folder for both gateways' files, which is made.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
    /// What the tunnel is protected by.
    #[arg(long, value_name = "TRANSFORM", default_value = "aes-128-gcm")]
    pub(crate) transform: String,
}
