//! The gateway of a file with the reference engine alone: slow, but built in a minute, and right. What `ciphermill gateway run` does besides
//! (engines of the machine, metrics, its words) is the program's.
//!
//! Usage: `gateway FILE`. Keys of the file's are taken as they are, as with `--lab-static-keys`.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ciphermill::{Mill, SelfTest};
use ciphermill_gateway::Gateway;
use ciphermill_gateway::configuration::Configuration;
use ciphermill_reference::Reference;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

fn main() -> Result<(), Box<dyn Error>> {
    let path = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: gateway FILE")?);
    let (stop, hangup) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    for (signal, flag) in [(SIGTERM, &stop), (SIGINT, &stop), (SIGHUP, &hangup)] {
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    let configuration = Configuration::read(&path)?;
    let mill = Mill::builder().engine(Arc::new(Reference::new())).legacy(true).self_test(SelfTest::Never).open()?;
    let gateway = Gateway::open(&mill, &configuration, true)?;
    eprintln!("gateway: runs");
    gateway.run(&stop, |gateway, events| {
        events.iter().for_each(|event| eprintln!("gateway: {event:?}"));
        if hangup.swap(false, Ordering::Relaxed) {
            let read = Configuration::read(&path).map_err(|error| error.to_string());
            let reloaded =
                read.and_then(|configuration| gateway.reload(&configuration).map_err(|error| error.to_string()));
            eprintln!("gateway: read again: {reloaded:?}");
        }
    })?;
    let status = gateway.status();
    println!("{status:#?}");
    Ok(())
}
