//! Interfaces, devices and files as sources and sinks.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use ciphermill_packets::af_packet::{LinkSink, RingSource, SinkOptions, SourceOptions};
use ciphermill_packets::filter::Filter;
use ciphermill_packets::interface::prepare_interface;
use ciphermill_packets::pcap::{PcapSink, PcapSource};
use ciphermill_packets::takeover::Takeover;
use ciphermill_packets::{Sent, Sink, Source, memory, tun};

use crate::configuration::Port;

/// A sink that several threads use, one at a time.
pub type SharedSink = Arc<Mutex<Box<dyn Sink>>>;

/// One side of a gateway, opened.
pub struct Opened {
    /// Where its packets come from, one for each worker that is asked for.
    pub sources: Vec<Box<dyn Source>>,
    /// Where packets go.
    pub sink: SharedSink,
    /// Keeps the kernel from forwarding what is ours.
    takeover: Option<Takeover>,
}

impl Opened {
    /// A side made of what the caller has.
    pub fn of(sources: Vec<Box<dyn Source>>, sink: Box<dyn Sink>) -> Opened {
        Opened { sources, sink: Arc::new(Mutex::new(sink)), takeover: None }
    }

    /// What has to live as long as packets come.
    pub(crate) fn into_parts(self) -> (Vec<Box<dyn Source>>, SharedSink, Option<Takeover>) {
        (self.sources, self.sink, self.takeover)
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
        if let Err(error) = prepare_interface(name) {
            tracing::warn!(interface = name, %error, "offloads stay on: packets that are longer than the link's are dropped");
        }
        let options = SourceOptions { filter, ..SourceOptions::default() };
        let source = RingSource::open(name, &options).map_err(named)?;
        let sink = LinkSink::open(name, &SinkOptions::default()).map_err(named)?;
        let takeover = Takeover::new(name, filter, spared)
            .map_err(|error| tracing::warn!(interface = name, %error, "the kernel sees the packets too, and may answer them"))
            .ok();
        return Ok(Opened { takeover, ..Opened::of(vec![Box::new(source)], Box::new(sink)) });
    }
    if let Some(name) = &port.tun {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("TUN device {name}: {error}"));
        let mut pairs = tun::open(name, port.mtu.into(), 1).map_err(named)?;
        let (source, sink) = pairs.pop().ok_or_else(|| named(io::Error::other("no queue")))?;
        return Ok(Opened::of(vec![Box::new(source)], Box::new(sink)));
    }
    let source: Box<dyn Source> = match &port.pcap_in {
        Some(path) => Box::new(PcapSource::open(path).map_err(|error| at(path, &error))?),
        // One whose other end is gone.
        None => Box::new(memory::queue(1, 20)?.1),
    };
    let sink: Box<dyn Sink> = match &port.pcap_out {
        Some(path) => Box::new(Recording(Some(PcapSink::create(path).map_err(|error| at(path, &error))?))),
        None => Box::new(memory::Discard::default()),
    };
    Ok(Opened::of(vec![source], sink))
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
