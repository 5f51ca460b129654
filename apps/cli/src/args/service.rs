//! What can be said to `service`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Serve the processes of this machine, in the foreground.
    #[command(after_help = "\
Who may connect, how many workers there are and what clients may have is said in ciphermill.toml, in the section [service]; \
`ciphermill config` explains it. Started as `ciphermilld`, the program does the same.

SIGTERM and SIGINT let clients have what they have asked for and end the service; a second one ends it at once. systemd is told \
when clients can connect, and may have made the socket (Type=notify, socket activation).

Examples:
  ciphermill service run
  ciphermilld --socket /tmp/mill/socket
  CIPHERMILL_SERVICE=/tmp/mill/socket ciphermill engines")]
    Run(RunArgs),
    /// Show how the service is.
    #[command(after_help = "\
Exits with 1 when there is none, so that it serves as a health check.

Examples:
  ciphermill service status
  ciphermill service status --json")]
    Status(AskArgs),
    /// Show who is connected to the service, and what was done for them.
    #[command(after_help = "\
Users see their own processes, root and the service's own user all. The unit is systemd's. The program is the file that a process \
runs, or in parentheses what it calls itself, where the service may not see that.

Examples:
  ciphermill service clients
  ciphermill service clients --json")]
    Clients(AskArgs),
    /// Show which keys of the service's keystore you may use by name, and for what.
    #[command(after_help = "\
Root and the service's own user see all keys, and who else may use each, as [service.keys.NAME] in the service's configuration \
says. Bytes of keys never leave the service. A budget counts from when the key was first used since the service has started.

Examples:
  ciphermill service keys
  ciphermill service keys --json")]
    Keys(AskArgs),
    /// Print what the service counts, as Prometheus reads it.
    #[command(after_help = "\
Examples:
  ciphermill service metrics | grep client")]
    Metrics(SocketArgs),
    /// Have the service end: nobody is taken in any more, and clients get what they have asked for.
    #[command(after_help = "\
Examples:
  ciphermill service drain")]
    Drain(SocketArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The socket that clients connect to [default: from ciphermill.toml, else ciphermill/socket in $XDG_RUNTIME_DIR, for root
    /// /run/ciphermill/socket].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Threads that run requests [default: from ciphermill.toml, else one a core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,
    /// Run everything on this engine.
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SocketArgs {
    /// The service's socket [default: the user's own if it is there, else /run/ciphermill/socket].
    #[arg(long, value_name = "PATH", env = "CIPHERMILL_SERVICE", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    #[command(flatten)]
    pub socket: SocketArgs,
    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
}
