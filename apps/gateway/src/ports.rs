//! Interfaces, devices and files as sources and sinks.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ciphermill_packets::af_packet::{LinkSink, RingSource, SinkOptions, SourceOptions};
use ciphermill_packets::filter::Filter;
use ciphermill_packets::interface::{self, prepare_interface};
use ciphermill_packets::pcap::{PcapSink, PcapSource};
use ciphermill_packets::takeover::Takeover;
use ciphermill_packets::{PACKET_LEN_MAX, Sent, Sink, Source, memory, tun};

use crate::configuration::Port;

/// How long a worker looks for the next packet before it sleeps: about what sleeping and a wake take, so that guessing wrong at most doubles
/// that.
const SPIN: Duration = Duration::from_micros(15);

/// A sink that several threads use, one at a time.
pub type SharedSink = Arc<Mutex<Box<dyn Sink>>>;

/// One side of a gateway, opened.
pub struct Opened {
    /// Where its packets come from.
    pub source: Box<dyn Source>,
    /// Where packets go.
    pub sink: SharedSink,
    hold: Option<Hold>,
}

/// What is ours of an interface as long as packets come.
pub(crate) struct Hold {
    /// Keeps the kernel from forwarding what is ours. Given back before the interface is.
    _takeover: Option<Takeover>,
    _claim: Claim,
}

/// An interface that is one gateway's: two would answer each packet twice, and the first that ends would give the kernel the packets of the
/// other one. A name in the abstract namespace, which is the network namespace's (`unix(7)`), and gone with the process whatever ends it.
struct Claim(#[expect(dead_code, reason = "it is there to be held")] UnixDatagram);

impl Claim {
    fn new(interface: &str) -> io::Result<Claim> {
        let address = SocketAddr::from_abstract_name(format!("ciphermill-gateway/{interface}"))?;
        let bound = UnixDatagram::bind_addr(&address).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => io::Error::new(error.kind(), "another gateway has it"),
            _ => error,
        });
        bound.map(Claim)
    }
}

impl Opened {
    /// A side made of what the caller has.
    pub fn of(source: Box<dyn Source>, sink: Box<dyn Sink>) -> Opened {
        Opened { source, sink: Arc::new(Mutex::new(sink)), hold: None }
    }

    /// What has to live as long as packets come.
    pub(crate) fn into_parts(self) -> (Box<dyn Source>, SharedSink, Option<Hold>) {
        (self.source, self.sink, self.hold)
    }
}

/// A file that is written to its end when the gateway stops.
struct Recording(Option<PcapSink<File>>);

/// Opens a side. `filter` says which packets are wanted, `spared` which of the host's own addresses the kernel goes on answering.
///
/// # Errors
/// What the system says, with the name.
pub fn open(port: &Port, filter: Filter, spared: &[IpAddr]) -> io::Result<Opened> {
    if let Some(name) = &port.interface {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("interface {name}: {error}"));
        interface::find(name)?;
        let claim = Claim::new(name).map_err(named)?;
        if let Err(error) = prepare_interface(name) {
            tracing::warn!(interface = name, %error, "offloads stay on: packets that are longer than the link's are dropped");
        }
        let options = SourceOptions { filter, spin: SPIN, ..SourceOptions::default() };
        let source = RingSource::open(name, &options).map_err(named)?;
        let sink = LinkSink::open(name, &SinkOptions::default()).map_err(named)?;
        let takeover = Takeover::new(name, filter, spared)
            .map_err(|error| tracing::warn!(interface = name, %error, "the kernel sees the packets too, and may answer them"))
            .ok();
        if (takeover.is_none() || filter != Filter::Ip) && !port.kernel_forwards && forwards(name) {
            return Err(named(io::Error::other(format!(
                "the kernel passes on what comes in there in clear, whatever the policies say (RFC 4301, 5.2): set \
                 net.ipv4.conf.{name}.forwarding and net.ipv6.conf.all.forwarding to 0, or say kernel_forwards = true where other rules \
                 keep such packets out"
            ))));
        }
        let hold = Some(Hold { _takeover: takeover, _claim: claim });
        return Ok(Opened { hold, ..Opened::of(Box::new(source), Box::new(sink)) });
    }
    if let Some(name) = &port.tun {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("TUN device {name}: {error}"));
        let (source, sink) = tun::open(name, port.mtu.into()).map_err(named)?;
        return Ok(Opened::of(Box::new(source), Box::new(sink)));
    }
    let source: Box<dyn Source> = match &port.pcap_in {
        Some(path) => Box::new(PcapSource::open(path).map_err(|error| at(path, &error))?),
        // A queue whose other end is gone: no packet will ever come.
        None => Box::new(memory::queue(1, PACKET_LEN_MAX)?.1),
    };
    let sink: Box<dyn Sink> = match &port.pcap_out {
        Some(path) => Box::new(Recording(Some(PcapSink::create(path).map_err(|error| at(path, &error))?))),
        None => Box::new(memory::Discard::default()),
    };
    Ok(Opened::of(source, sink))
}

/// Whether the kernel passes packets on that come in by an interface. For IPv6 one switch is for all of them, and newer kernels have another for
/// each.
fn forwards(interface: &str) -> bool {
    let switches = [
        format!("ipv4/conf/{interface}/forwarding"),
        "ipv6/conf/all/forwarding".to_owned(),
        format!("ipv6/conf/{interface}/force_forwarding"),
    ];
    let value = |switch: &String| std::fs::read_to_string(format!("/proc/sys/net/{switch}"));
    switches.iter().any(|switch| value(switch).is_ok_and(|value| value.trim() != "0"))
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

impl Sink for Recording {
    fn send(&mut self, buffer: &[u8], packets: &[[u32; 2]]) -> io::Result<usize> {
        self.0.as_mut().map_or(Ok(0), |sink| sink.send(buffer, packets))
    }

    fn counters(&self) -> Sent {
        self.0.as_ref().map(Sink::counters).unwrap_or_default()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.0.take().map(PcapSink::finish) {
            tracing::error!(%error, "the file of packets is not whole");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_one_gateways() {
        let name = format!("t{}", std::process::id());
        let first = Claim::new(&name).expect("free");
        let second = Claim::new(&name).map(drop).expect_err("taken");
        assert_eq!(second.to_string(), "another gateway has it");
        assert!(Claim::new("another").is_ok());
        drop(first);
        assert!(Claim::new(&name).is_ok(), "free again");
    }

    #[test]
    fn a_file_alone_is_a_side() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.pcap");
        let port = Port {
            interface: None,
            tun: None,
            pcap_in: None,
            pcap_out: Some(path.clone()),
            mtu: 1400,
            kernel_forwards: false,
        };
        let opened = open(&port, Filter::Ip, &[]).expect("opens");
        assert!(opened.source.is_ended(), "from nothing comes nothing");
        drop(opened);
        assert_eq!(std::fs::metadata(&path).expect("written").len(), 24, "a header alone");
    }
}
