//! `ciphermill service run`, and `ciphermilld`.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use ciphermill_contract::Engine;
use ciphermill_service::{Listener, Service};
use ciphermill_service_engine::socket_to_make;
use listenfd::ListenFd;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::args::RunArgs;
use crate::config::Config;
use crate::mills;
use crate::output::tell;

pub(crate) fn run(args: &RunArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let mut options = config.service.options().context("in the section [service]")?;
    if let Some(workers) = args.workers {
        options.workers = workers.into();
    }
    let (listener, place) = listener(args, config)?;
    let engines: Vec<Arc<dyn Engine>> = match &args.engine {
        Some(name) if name == ciphermill_engines::SERVICE => bail!("a service cannot run on a service"),
        Some(name) => vec![mills::engine_named(name)?],
        // A service that is named in its own environment would run on itself.
        None => ciphermill_engines::all()
            .into_iter()
            .filter(|engine| engine.info().name != ciphermill_engines::SERVICE)
            .collect(),
    };
    let mill = mills::builder(engines, config)?.open()?;
    let workers = options.workers;
    let mut service = Service::start(mill, listener, options).context("the service cannot start")?;
    let again = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal finds the flag not set, and sets it.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&again))
            .context("cannot watch for signals")?;
        signal_hook::flag::register(signal, Arc::clone(&again)).context("cannot watch for signals")?;
        signal_hook::low_level::pipe::register(signal, service.end()?).context("cannot watch for signals")?;
    }
    tell(format_args!("ciphermill: serves {place} with {workers} workers"));
    notify("READY=1");
    service.wait();
    notify("STOPPING=1");
    Ok(ExitCode::SUCCESS)
}

/// The socket that systemd has made, or one of our own; and how it is called.
fn listener(args: &RunArgs, config: &Config) -> anyhow::Result<(Listener, String)> {
    if let Some(socket) = ListenFd::from_env().take_unix_listener(0).context("what was inherited is no socket")? {
        return Ok((Listener::inherited(socket), "the socket that was inherited".to_owned()));
    }
    let named: Option<PathBuf> = args.socket.clone().or_else(|| config.service.socket.clone());
    let Some(path) = named.or_else(socket_to_make) else {
        bail!("there is no XDG_RUNTIME_DIR for the socket; name one with --socket");
    };
    let place = path.display().to_string();
    let mode = config.service.mode();
    let listener = Listener::at(&path, mode).with_context(|| format!("cannot serve {place}"))?;
    Ok((listener, place))
}

/// Tells systemd, if that has started the service (sd_notify(3)). A service that cannot say so runs all the same.
fn notify(state: &str) {
    let Some(place) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let sent = UnixDatagram::unbound().and_then(|socket| match place.as_bytes().strip_prefix(b"@") {
        Some(name) => socket.send_to_addr(state.as_bytes(), &SocketAddr::from_abstract_name(name)?),
        None => socket.send_to(state.as_bytes(), &place),
    });
    if let Err(error) = sent {
        tracing::warn!("systemd could not be told `{state}`: {error}");
    }
}
