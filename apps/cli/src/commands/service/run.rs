//! `ciphermill service run`, and `ciphermilld`.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::Builder;

use anyhow::{Context, bail};
use ciphermill::Mill;
use ciphermill_contract::Engine;
use ciphermill_service::{Listener, Reload, Remote, Service, Vault};
use ciphermill_service_engine::socket_to_make;
use listenfd::ListenFd;
use rustix::process::{Resource, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::RunArgs;
use crate::config::Config;
use crate::mills;
use crate::output::{chain, tell};

pub(crate) fn run(args: &RunArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let mut options = config.service.options(config.folder()).context("in the section [service]")?;
    let vault = vault(config)?;
    if let Some(workers) = args.workers {
        options.workers = workers.into();
    }
    more_descriptors();
    let (listener, place) = listener(args, config)?;
    let engines: Vec<Arc<dyn Engine>> = match &args.engine {
        Some(name) if name == ciphermill_engines::SERVICE => bail!("a service cannot run on a service"),
        Some(name) => vec![mills::engine_named(name, config)?],
        // A service that is named in its own environment would run on itself.
        None => {
            let found = mills::all(config).into_iter();
            found.filter(|engine| engine.info().name != ciphermill_engines::SERVICE).collect()
        }
    };
    let mill = mills::builder(engines, config)?.open()?;
    let workers = options.workers;
    let mut service =
        Service::start_with(mill.clone(), listener, options, vault).context("the service cannot start")?;
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
    let (remote, named) = (service.remote(), config.path.clone());
    let mut hangups = Signals::new([SIGHUP]).context("cannot watch for signals")?;
    let ends = hangups.handle();
    let watch = move || hangups.forever().for_each(|_| reload(&remote, &mill, named.as_deref()));
    let watcher = Builder::new().name("reload".to_owned()).spawn(watch).context("cannot start a thread")?;
    service.wait();
    ends.close();
    // It has nothing to say.
    let _ = watcher.join();
    notify("STOPPING=1");
    Ok(ExitCode::SUCCESS)
}

/// Takes as many descriptors as the process may have: each client needs one, and two for each channel.
fn more_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!("the limit of descriptors stays as it is: {error}");
    }
}

/// The keystore, if the configuration says what opens it.
fn vault(config: &Config) -> anyhow::Result<Option<Vault>> {
    config.service.vault(|| config.keystore_path(), config.folder()).context("in the section [service]")
}

/// Reads the configuration and the keystore again. What is wrong with them is said, and what was in force stays.
fn reload(remote: &Remote, mill: &Mill, path: Option<&Path>) {
    notify("RELOADING=1");
    // Also with a configuration that is wrong: whoever moves logs away does not wait for it.
    remote.reopen_audit();
    let read = || {
        let config = Config::load(path, &mills::names())?;
        let options = config.service.options(config.folder())?;
        Ok::<_, anyhow::Error>((config.disabled.clone(), Reload { options, vault: vault(&config)? }))
    };
    match read() {
        Ok((disabled, reload)) => {
            mill.set_disabled(disabled);
            remote.reload(reload);
            tell("ciphermill: the configuration was read again");
        }
        Err(error) => tell(format_args!("ciphermill: the configuration stays as it was: {}", chain(&error))),
    }
    notify("READY=1");
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
