//! `ciphermill gateway`: ESP between an inside and an outside.

mod lab;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use ciphermill_esp::Event;
use ciphermill_gateway::configuration::{Configuration, Port};
use ciphermill_gateway::{Gateway, metrics};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::{GatewayCommand, GatewayFileArgs, GatewayLabCommand, GatewayRunArgs};
use crate::config::Config;
use crate::output::{say, tell};
use crate::{metrics_socket, mills};

pub(crate) fn run(
    command: &GatewayCommand,
    config: impl FnOnce() -> anyhow::Result<Config>,
) -> anyhow::Result<ExitCode> {
    match command {
        GatewayCommand::Run(args) => serve(args, &config()?),
        GatewayCommand::Check(args) => check(args),
        GatewayCommand::Lab(GatewayLabCommand::Up(args)) => lab::up(args),
        GatewayCommand::Lab(GatewayLabCommand::Down(args)) => lab::down(args),
    }
}

fn serve(args: &GatewayRunArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let path = &args.file.file;
    let configuration = Configuration::read(path)?;
    let (stop, hangup) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal finds the flag not set, and sets it; a second one ends the program at once.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
            .context("cannot watch for signals")?;
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot watch for signals")?;
    }
    signal_hook::flag::register(SIGHUP, Arc::clone(&hangup)).context("cannot watch for signals")?;
    if args.lab_static_keys {
        tell(
            "ciphermill: --lab-static-keys: nonces are used again after a start, which gives keys and packets away. \
             Not for packets that matter.",
        );
    }
    let mill = mills::open(args.engine.as_deref(), config)?;
    let gateway = Arc::new(Gateway::open(&mill, &configuration, args.lab_static_keys)?);
    let counted = Arc::clone(&gateway);
    let text = move || mill.metrics().prometheus() + &metrics::prometheus(&counted.status());
    let served = metrics_socket::serve_text(args.metrics_socket.as_deref(), Arc::new(text))?;
    tell(format_args!(
        "ciphermill: the gateway runs between {} and {}, {}",
        side(&configuration.inside),
        side(&configuration.outside),
        tunnels(&configuration)
    ));
    gateway.run(&stop, |gateway, events| {
        events.iter().for_each(log);
        if hangup.swap(false, Ordering::Relaxed) {
            reload(gateway, path);
        }
    })?;
    drop(served);
    let status = gateway.status();
    say(format_args!(
        "out: {} packets protected, {} passed, {} dropped; in: {} opened, {} passed, {} dropped",
        status.sent.done,
        status.sent.bypassed,
        status.sent.dropped_all(),
        status.received.done,
        status.received.bypassed,
        status.received.dropped_all()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// What is wrong with the new file is said, and the old one stays in force.
fn reload(gateway: &Gateway, path: &std::path::Path) {
    let reloaded = Configuration::read(path)
        .map_err(anyhow::Error::from)
        .and_then(|configuration| gateway.reload(&configuration).map_err(anyhow::Error::from));
    match reloaded {
        Ok(()) => tell(format_args!("ciphermill: {} was read again", path.display())),
        Err(error) => tell(format_args!("ciphermill: {} stays as it was: {error:#}", path.display())),
    }
}

fn log(event: &Event) {
    match event {
        Event::Acquire { tunnel, flow } => {
            let (source, destination) = (flow.source_address(), flow.destination_address());
            tracing::warn!(tunnel, %source, %destination, "a packet wants a tunnel that has no association");
        }
        Event::Ending(id) => tracing::info!(?id, "an association is near its end"),
        Event::Over(id) => tracing::warn!(?id, "an association is over"),
        Event::Moved { source, port, .. } => tracing::info!(%source, port, "a peer has another address now"),
    }
}

fn tunnels(configuration: &Configuration) -> String {
    match (&configuration.ike, configuration.tunnel.len()) {
        (Some(ike), _) => format!("IKE daemons at {}", ike.socket.display()),
        (None, 1) => "1 tunnel".to_owned(),
        (None, count) => format!("{count} tunnels"),
    }
}

fn side(port: &Port) -> String {
    match (&port.interface, &port.tun) {
        (Some(name), _) => format!("interface {name}"),
        (None, Some(name)) => format!("TUN device {name}"),
        (None, None) => "files".to_owned(),
    }
}

fn check(args: &GatewayFileArgs) -> anyhow::Result<ExitCode> {
    let configuration = Configuration::read(&args.file)?;
    let sides = (side(&configuration.inside), side(&configuration.outside));
    say(format_args!("inside {}, outside {}, {} threads each way", sides.0, sides.1, configuration.workers))?;
    if configuration.ike.is_some() {
        say(tunnels(&configuration))?;
    }
    for tunnel in &configuration.tunnel {
        say(format_args!(
            "tunnel {}: {} to {}, {}, SPI {:#x} out and {:#x} in",
            tunnel.name, tunnel.local, tunnel.remote, tunnel.transform, tunnel.spi_out, tunnel.spi_in
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
