//! `ciphermill gateway lab`: namespaces in a row, and files for the gateways in them.

use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use ciphermill_esp::Transform;
use ciphermill_packets::namespace::{self, Builder, End};

use crate::args::{GatewayLabArgs, GatewayLabUpArgs};
use crate::output::say;

/// Networks behind the gateways, and what lies between them.
const LEFT: [u8; 4] = [10, 77, 1, 0];
const RIGHT: [u8; 4] = [10, 77, 2, 0];
const BETWEEN: [u8; 4] = [192, 0, 2, 0];

/// Bytes that hosts may send, so that packets fit the path within their tunnel.
const MTU_INSIDE: usize = 1400;
const MTU_OUTSIDE: usize = 1500;

fn host(network: [u8; 4], last: u8) -> IpAddr {
    IpAddr::from([network[0], network[1], network[2], last])
}

pub(super) fn up(args: &GatewayLabUpArgs) -> anyhow::Result<ExitCode> {
    let transform: Transform = args.transform.parse()?;
    let name = &args.lab.name;
    fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    write_files(&args.out, transform)?;
    let end = |namespace: &str, interface: &str, network, last| {
        End::new(namespace, interface).address(host(network, last), 24)
    };
    let lab = Builder::new(name)?
        .namespace("left")
        .namespace("west")
        .namespace("east")
        .namespace("right")
        .pair(end("left", "in", LEFT, 2), end("west", "in", LEFT, 1), MTU_INSIDE)
        .pair(end("west", "out", BETWEEN, 1), end("east", "out", BETWEEN, 2), MTU_OUTSIDE)
        .pair(end("east", "in", RIGHT, 1), end("right", "in", RIGHT, 2), MTU_INSIDE)
        .route("left", "default", host(LEFT, 1))
        .route("right", "default", host(RIGHT, 1))
        .up()
        .context("no namespaces")?;
    for namespace in ["left", "west", "east", "right"] {
        say(lab.full_name(namespace))?;
    }
    lab.keep();
    say(format_args!("files: {0}/west.toml and {0}/east.toml", args.out.display()))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn down(args: &GatewayLabArgs) -> anyhow::Result<ExitCode> {
    let removed = namespace::remove(&args.name)?;
    say(format_args!("{removed} namespaces removed"))?;
    Ok(ExitCode::SUCCESS)
}

/// Both gateways' files, and keys that the next `lab up` replaces.
fn write_files(folder: &Path, transform: Transform) -> anyhow::Result<()> {
    let mut keys = [String::new(), String::new()];
    for key in &mut keys {
        let mut bytes = zeroize::Zeroizing::new(vec![0; transform.key_len() + transform.salt_len()]);
        getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random bytes: {error}"))?;
        *key = hex::encode(&*bytes);
    }
    let ends = [("west", BETWEEN, (1, 2), (LEFT, RIGHT), [0, 1]), ("east", BETWEEN, (2, 1), (RIGHT, LEFT), [1, 0])];
    for (name, between, (own, peer), (local, remote), order) in ends {
        let network = |network: [u8; 4]| format!("{}/24", host(network, 0));
        let text = format!(
            "inside = {{ interface = \"in\" }}\n\
             outside = {{ interface = \"out\" }}\n\
             own_addresses = [\"{}\"]\n\n\
             [[tunnel]]\n\
             name = \"lab\"\n\
             transform = \"{transform}\"\n\
             local = \"{}\"\n\
             remote = \"{}\"\n\
             local_networks = [\"{}\"]\n\
             remote_networks = [\"{}\"]\n\
             spi_out = {:#x}\n\
             spi_in = {:#x}\n\
             keys = {{ static_file = \"{name}.keys\" }}\n",
            host(local, 1),
            host(between, own),
            host(between, peer),
            network(local),
            network(remote),
            0x1000 + u32::from(own),
            0x1000 + u32::from(peer),
        );
        let path = folder.join(format!("{name}.toml"));
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        let path = folder.join(format!("{name}.keys"));
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        writeln!(file, "{}\n{}", keys[order[0]], keys[order[1]])
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
