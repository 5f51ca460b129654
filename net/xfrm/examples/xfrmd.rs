//! Stands in for the kernel of IKE daemons without carrying a packet, and prints what they install: `xfrmd SOCKET [--keys]`.
//!
//! Daemons get it by the preloaded library of `net/xfrm-shim`, with `CIPHERMILL_XFRM=SOCKET`. Keys are printed only when asked
//! for. A line `acquire SOURCE DESTINATION` on the standard input is a packet that needs an association, `packets SPI COUNT` are
//! packets of 1000 bytes of all associations with that SPI, `mapping SPI ADDRESS PORT` is a peer whose packets come from there now. `RUST_LOG=debug` tells of each request.

use std::error::Error;
use std::io::{BufRead, stdin};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ciphermill_xfrm::{
    Algorithms, AssociationKey, AssociationState, Counts, Direction, Event, Kernel, KeyBytes, Limits, ListFilter,
    Policy, PolicyKey, PolicyState, Prefix, Refusal, ReplayUpdate, SecurityAssociation, Selector, Server, SpiRequest,
    Table,
};

/// A table that says what happens to it.
struct Printing {
    table: Table,
    keys: bool,
}

impl Printing {
    fn key(&self, key: &KeyBytes) -> String {
        if self.keys { hex::encode(key.expose()) } else { format!("{key:?}") }
    }

    fn print(&self, what: &str, state: &AssociationState) {
        let association = &state.association;
        let algorithms = match &association.algorithms {
            None => "larval".to_owned(),
            Some(Algorithms::Aead { name, key, icv_bits }) => format!("{name} {} {icv_bits}", self.key(key)),
            Some(Algorithms::Separate { encryption, integrity }) => {
                let integrity = integrity.as_ref().map_or_else(String::new, |integrity| {
                    format!(" {} {} {}", integrity.name, self.key(&integrity.key), integrity.icv_bits)
                });
                format!("{} {}{integrity}", encryption.name, self.key(&encryption.key))
            }
        };
        let encapsulation = association.encapsulation.map_or_else(
            || "raw".to_owned(),
            |encapsulation| format!("udp {} {}", encapsulation.source_port, encapsulation.destination_port),
        );
        println!(
            "{what} {:08x} {} {} {:?} reqid {} window {} {encapsulation} {algorithms}",
            association.id.spi,
            association.source,
            association.id.destination,
            association.mode,
            association.reqid,
            association.replay.window,
        );
    }

    fn said(&self, what: &str, state: Result<AssociationState, Refusal>) -> Result<AssociationState, Refusal> {
        match &state {
            Ok(state) => self.print(what, state),
            Err(refusal) => println!("{what} refused: {refusal}"),
        }
        state
    }
}

fn print_policy(what: &str, state: Result<PolicyState, Refusal>) -> Result<PolicyState, Refusal> {
    match &state {
        Ok(PolicyState { policy, .. }) => {
            let Prefix { address: source, len: source_len } = policy.selector.source;
            let Prefix { address: destination, len: destination_len } = policy.selector.destination;
            let templates = policy.templates.iter().map(|template| {
                format!(" [{} {} {:?} reqid {}]", template.source, template.destination, template.mode, template.reqid)
            });
            println!(
                "{what} {:?} {source}/{source_len} {destination}/{destination_len} priority {} {:?}{}",
                policy.direction,
                policy.priority,
                policy.action,
                templates.collect::<String>(),
            );
        }
        Err(refusal) => println!("{what} refused: {refusal}"),
    }
    state
}

impl Kernel for Printing {
    fn add(&mut self, association: SecurityAssociation) -> Result<AssociationState, Refusal> {
        let state = self.table.add(association);
        self.said("add", state)
    }

    fn update(&mut self, association: SecurityAssociation) -> Result<AssociationState, Refusal> {
        let state = self.table.update(association);
        self.said("update", state)
    }

    fn delete(&mut self, key: &AssociationKey) -> Result<AssociationState, Refusal> {
        let state = self.table.delete(key);
        self.said("delete", state)
    }

    fn query(&mut self, key: &AssociationKey) -> Result<AssociationState, Refusal> {
        self.table.query(key)
    }

    fn allocate_spi(&mut self, request: SpiRequest) -> Result<AssociationState, Refusal> {
        let state = self.table.allocate_spi(request);
        self.said("allocate", state)
    }

    fn flush(&mut self, protocol: u8) -> usize {
        println!("flush {protocol}");
        self.table.flush(protocol)
    }

    fn list(&mut self, filter: &ListFilter, position: u64, most: usize) -> Vec<(u64, AssociationState)> {
        self.table.list(filter, position, most)
    }

    fn set_replay(&mut self, update: ReplayUpdate) -> Result<AssociationState, Refusal> {
        let state = self.table.set_replay(update);
        self.said("replay", state)
    }

    fn add_policy(&mut self, policy: Policy) -> Result<PolicyState, Refusal> {
        print_policy("policy add", self.table.add_policy(policy))
    }

    fn update_policy(&mut self, policy: Policy) -> Result<PolicyState, Refusal> {
        print_policy("policy update", self.table.update_policy(policy))
    }

    fn delete_policy(&mut self, key: &PolicyKey) -> Result<PolicyState, Refusal> {
        print_policy("policy delete", self.table.delete_policy(key))
    }

    fn query_policy(&mut self, key: &PolicyKey) -> Result<PolicyState, Refusal> {
        self.table.query_policy(key)
    }

    fn flush_policies(&mut self, kind: u8) {
        println!("policy flush {kind}");
        self.table.flush_policies(kind);
    }

    fn list_policies(&mut self, position: u64, most: usize) -> Vec<(u64, PolicyState)> {
        self.table.list_policies(position, most)
    }

    fn counts(&mut self) -> Counts {
        self.table.counts()
    }

    fn take_events(&mut self) -> Vec<Event> {
        let events = self.table.take_events();
        for event in &events {
            match event {
                Event::Acquire(acquire) => println!("acquire {} {}", acquire.source, acquire.destination),
                Event::Expire { state, hard } => self.print(if *hard { "expire hard" } else { "expire soft" }, state),
                Event::Mapping(mapping) => println!("mapping {:?} {:?}", mapping.old, mapping.new),
            }
        }
        events
    }
}

/// The lines of the standard input, read by a thread of its own.
fn lines() -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || stdin().lock().lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    receiver
}

fn obey(table: &mut Table, line: &str) -> Result<(), Box<dyn Error>> {
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["acquire", source, destination] => {
            let host = |text: &str| {
                let address = text.parse::<IpAddr>()?;
                Ok::<_, Box<dyn Error>>(Prefix { address, len: if address.is_ipv4() { 32 } else { 128 } })
            };
            let packet = Selector {
                any_family: false,
                source: host(source)?,
                destination: host(destination)?,
                protocol: 1,
                ..Selector::ALL
            };
            let falls_under = |policy: &Policy| {
                policy.direction == Direction::Out
                    && policy.selector.source.contains(packet.source.address)
                    && policy.selector.destination.contains(packet.destination.address)
            };
            let all = table.list_policies(0, usize::MAX).into_iter().map(|(_, state)| state.policy);
            let first = all.filter(falls_under).min_by_key(|policy| policy.priority);
            if !first.is_some_and(|policy| table.acquire(&policy.key(), packet)) {
                println!("acquire: no policy protects that");
            }
        }
        ["packets", spi, count] => {
            let (spi, count) = (u32::from_str_radix(spi, 16)?, count.parse::<u64>()?);
            let all = table.list(&ListFilter::default(), 0, usize::MAX).into_iter();
            for (_, state) in all.filter(|(_, state)| state.association.id.spi == spi) {
                table.count(&state.association.id.into(), count, count * 1000)?;
            }
        }
        ["mapping", spi, address, port] => {
            let (spi, new) = (u32::from_str_radix(spi, 16)?, (address.parse::<IpAddr>()?, port.parse::<u16>()?));
            let all = table.list(&ListFilter::default(), 0, usize::MAX).into_iter();
            for (_, state) in all.filter(|(_, state)| state.association.id.spi == spi) {
                table.moved(&state.association.id.into(), new);
            }
        }
        _ => println!("not understood: {line}"),
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_max_level(match std::env::var("RUST_LOG").as_deref() {
            Ok("debug") => tracing::Level::DEBUG,
            _ => tracing::Level::INFO,
        })
        .with_writer(std::io::stderr)
        .init();
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let (path, keys) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [path] => (path, false),
        [path, "--keys"] => (path, true),
        _ => return Err("xfrmd SOCKET [--keys]".into()),
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut server = Server::bind(Path::new(path), Limits::default())?;
    let mut kernel = Printing { table: Table::new(), keys };
    let lines = lines();
    while !stop.load(Ordering::Acquire) {
        kernel.table.set_time(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs());
        for line in lines.try_iter() {
            obey(&mut kernel.table, &line)?;
        }
        server.round(&mut kernel, Duration::from_millis(50))?;
    }
    Ok(())
}
