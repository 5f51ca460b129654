//! Keeps from the kernel's own network code what a ring takes.
//!
//! A ring gets copies: the kernel goes on with each packet, looks for a route or a listener, answers that there is none, or forwards it in
//! clear. A filter at the interface's ingress, which lies behind the rings, drops it instead. That is also what a packet costs least by: on one
//! machine 0.6 microseconds less, of 1.8.
//!
//! The filter is set by the program `tc` (iproute2), as a program of the classic BPF that says by itself what becomes of a packet (`tc-bpf(8)`).

use std::fs::File;
use std::io;
use std::net::IpAddr;

use crate::filter::{Filter, SPARED_MAX};
use crate::interface;
use crate::namespace::{enter, run};

/// The preference of our filter among those of an interface: what another program has there is not ours to replace.
const PREFERENCE: &str = "19070";
/// Its handle, by which a filter that a killed process left is replaced.
const HANDLE: &str = "0x1";

/// Packets of an interface that the kernel's own code does not see while this value lives.
///
/// What a killed process leaves is replaced by the next one, or removed by `tc filter delete dev INTERFACE ingress pref 19070`.
#[derive(Debug)]
pub struct Takeover {
    interface: String,
    /// The network namespace of the interface.
    namespace: File,
}

impl Takeover {
    /// Drops, behind the rings, what `filter` passes and is sent to this station alone, but for what goes to the addresses in `spared`: those
    /// of the host itself, whose neighbours and daemons expect answers. Of the interface of this name in the thread's network namespace.
    ///
    /// # Errors
    /// More than eight addresses; no such interface; no `tc`, or what it says, as where the kernel has no such filters.
    pub fn new(name: &str, filter: Filter, spared: &[IpAddr]) -> io::Result<Takeover> {
        if spared.len() > SPARED_MAX {
            let message = format!("at most {SPARED_MAX} addresses can be left to the kernel");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        interface::find(name)?;
        let namespace = File::open("/proc/thread-self/ns/net")?;
        // It may be there already, with filters of others, and stays.
        let queue = run("tc", &["qdisc", "add", "dev", name, "clsact"]);
        let program = filter.ingress_program(spared);
        let lines = program.iter().map(|line| format!(",{} {} {} {}", line.code, line.jt, line.jf, line.k));
        let text = format!("{}{}", program.len(), lines.collect::<String>());
        let place = ["dev", name, "ingress", "pref", PREFERENCE, "protocol", "all", "handle", HANDLE];
        let set =
            run("tc", &[&["filter", "replace"], &place[..], &["bpf", "direct-action", "bytecode", &text]].concat());
        match (queue, set) {
            (_, Ok(())) => Ok(Takeover { interface: name.to_owned(), namespace }),
            (Err(queue), Err(set)) => Err(io::Error::new(set.kind(), format!("{set} (before that, {queue})"))),
            (Ok(()), Err(set)) => Err(set),
        }
    }
}

impl Drop for Takeover {
    fn drop(&mut self) {
        let arguments = ["filter", "delete", "dev", &self.interface, "ingress", "pref", PREFERENCE];
        // An interface that is gone has taken its filters along.
        let _deleted = enter(&self.namespace, || run("tc", &arguments));
    }
}
