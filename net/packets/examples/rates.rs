//! What packets cost on their way in and out, and how long a lone one takes: over a pair of virtual Ethernet interfaces in two network
//! namespaces (as root), over a TUN device, and in memory.
//!
//! Sending and receiving alternate on one thread, so that one core does everything, the kernel's part included. Of several rounds the best one is
//! printed, since other work on the machine only adds.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use ciphermill_packets::af_packet::{Layout, LinkSink, RingSource, SinkOptions, SourceOptions};
use ciphermill_packets::filter::Filter;
use ciphermill_packets::memory::{Discard, Repeat, queue};
use ciphermill_packets::namespace::{Builder, End, Lab};
use ciphermill_packets::takeover::Takeover;
use ciphermill_packets::{Sink, Source, ip, tun};

const LEFT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 78, 0, 1));
const RIGHT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 78, 0, 2));
const ROUNDS: usize = 40;
/// Packets of a round: fewer than a ring has frames.
const ROUND: usize = 8192;
const BURST: usize = 64;
const LONE_PACKETS: usize = 2000;

/// Packets as a sink takes them, all alike but for a number behind the UDP header.
struct Burst {
    buffer: Vec<u8>,
    pairs: Vec<[u32; 2]>,
}

fn burst(from: IpAddr, to: IpAddr, len: usize, packets: usize) -> io::Result<Burst> {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (from, to) else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
    packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend([0x0f, 0xa0, 0x11, 0x94]);
    packet.extend((len as u16 - 20).to_be_bytes());
    packet.extend([0, 0]);
    packet.resize(len, 0x5a);
    let sum = packet[..20].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    ip::complete_checksum(&mut packet);
    let pairs = (0..packets).map(|at| [(at * len) as u32, ((at + 1) * len) as u32]).collect();
    Ok(Burst { buffer: packet.repeat(packets), pairs })
}

/// What a packet costs, in nanoseconds.
#[derive(Clone, Copy)]
struct Costs {
    send: f64,
    receive: f64,
}

/// Sends and receives in turn on this thread, in runs of `run` packets. The best round of many.
fn alternate(source: &mut impl Source, sink: &mut impl Sink, burst: &Burst, run: usize) -> io::Result<Costs> {
    let mut best = Costs { send: f64::MAX, receive: f64::MAX };
    let mut taken = vec![0; run * burst.pairs[0][1] as usize];
    for _ in 0..ROUNDS {
        let (mut sending, mut receiving, mut received) = (Duration::ZERO, Duration::ZERO, 0);
        for _ in 0..ROUND / run {
            let begin = Instant::now();
            for _ in 0..run / BURST {
                sink.send(&burst.buffer, &burst.pairs)?;
            }
            let sent = Instant::now();
            received += drain(source, &mut taken)?;
            receiving += sent.elapsed();
            sending += sent - begin;
        }
        if received != ROUND {
            eprintln!("{received} of {ROUND} packets came: {:?} {:?}", source.counters(), sink.counters());
            continue;
        }
        let per_packet = |time: Duration| time.as_nanos() as f64 / ROUND as f64;
        if per_packet(sending + receiving) < best.send + best.receive {
            best = Costs { send: per_packet(sending), receive: per_packet(receiving) };
        }
    }
    Ok(best)
}

/// Copies all packets that are there into a buffer, as a caller would.
fn drain(source: &mut impl Source, buffer: &mut [u8]) -> io::Result<usize> {
    let mut received = 0;
    loop {
        let mut at = 0;
        let mut take = |packet: &[u8]| {
            let Some(place) = buffer.get_mut(at..at + packet.len()) else { return false };
            place.copy_from_slice(packet);
            at += packet.len();
            true
        };
        match source.receive(Duration::ZERO, &mut take)? {
            0 => return Ok(received),
            taken => received += taken,
        }
    }
}

fn print(what: &str, len: usize, costs: Costs) {
    let both = costs.send + costs.receive;
    println!(
        "{what:<34} {len:>5} octets: out {:>6.0} ns, in {:>5.0} ns, together {:>5.2} M packets/s",
        costs.send,
        costs.receive,
        1000.0 / both
    );
}

/// Times from before a lone packet is sent until it is in the receiver's hands, on another thread; median and 99th percentile in microseconds.
fn latency(lab: &Lab, options: &SourceOptions) -> io::Result<(f64, f64)> {
    let mut source = lab.within("right", || RingSource::open("link0", options))??;
    let mut sink = lab.within("left", || LinkSink::open("link0", &SinkOptions::default()))??;
    let origin = Instant::now();
    let mut times = std::thread::scope(|scope| -> io::Result<Vec<u64>> {
        scope.spawn(move || {
            let Ok(mut lone) = burst(LEFT, RIGHT, 64, 1) else { return };
            for _ in 0..LONE_PACKETS {
                std::thread::sleep(Duration::from_micros(500));
                let now = origin.elapsed().as_nanos() as u64;
                lone.buffer[32..40].copy_from_slice(&now.to_be_bytes());
                if let Err(error) = sink.send(&lone.buffer, &lone.pairs) {
                    eprintln!("{error}");
                }
            }
        });
        let mut times = Vec::with_capacity(LONE_PACKETS);
        while times.len() < LONE_PACKETS && origin.elapsed() < Duration::from_secs(20) {
            let mut take = |packet: &[u8]| {
                if let Some(sent) = packet.get(32..40).and_then(|sent| sent.first_chunk::<8>()) {
                    times.push(origin.elapsed().as_nanos() as u64 - u64::from_be_bytes(*sent));
                }
                true
            };
            source.receive(Duration::from_millis(100), &mut take)?;
        }
        Ok(times)
    })?;
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).map_or(f64::NAN, |time| *time as f64 / 1000.0);
    Ok((at(50), at(99)))
}

fn over_links() -> io::Result<()> {
    let end = |namespace, address| End::new(namespace, "link0").address(address, 24);
    let name = format!("rates{}", std::process::id());
    let builder = Builder::new(&name)?.namespace("left").namespace("right");
    let lab = builder.pair(end("left", LEFT), end("right", RIGHT), 1500).up()?;
    let mut sink = lab.within("left", || LinkSink::open("link0", &SinkOptions::default()))??;
    let first = burst(LEFT, RIGHT, 64, 1)?;
    while sink.send(&first.buffer, &first.pairs)? == 0 {
        std::thread::sleep(Duration::from_millis(2));
    }
    for len in [64, 1400] {
        let burst = burst(LEFT, RIGHT, len, BURST)?;
        let options = SourceOptions { filter: Filter::EspOrUdp(4500), ..SourceOptions::default() };
        let mut source = lab.within("right", || RingSource::open("link0", &options))??;
        print("veth, the kernel looks at them too", len, alternate(&mut source, &mut sink, &burst, BURST)?);
        drop(source);
        let _taken = lab.within("right", || Takeover::new("link0", Filter::EspOrUdp(4500), &[]))??;
        // Without a ring on the other side: what is left is the way through both interfaces.
        let costs = send_alone(&mut sink, &burst)?;
        println!("{:<34} {len:>5} octets: out {costs:>6.0} ns", "veth, nobody receives");
        for layout in [Layout::Frames, Layout::Blocks] {
            let options = SourceOptions { filter: Filter::EspOrUdp(4500), layout, ..SourceOptions::default() };
            let mut source = lab.within("right", || RingSource::open("link0", &options))??;
            if layout == Layout::Frames {
                let costs = alternate(&mut source, &mut sink, &burst, BURST)?;
                print("veth, frames, 64 in turn", len, costs);
                let costs = alternate(&mut source, &mut sink, &burst, ROUND)?;
                print("veth, frames, 8192 in turn", len, costs);
            } else {
                // Blocks are handed over by a timer: what one round leaves, another one receives.
                println!(
                    "{:<34} {len:>5} octets: in  {:>6.0} ns",
                    "veth, blocks",
                    blocks(&mut source, &mut sink, &burst)?
                );
            }
        }
    }
    let _taken = lab.within("right", || Takeover::new("link0", Filter::EspOrUdp(4500), &[]))??;
    for (what, layout, spin) in [
        ("frames", Layout::Frames, Duration::ZERO),
        ("frames, looking for 50 us first", Layout::Frames, Duration::from_micros(50)),
        ("frames, looking all the time", Layout::Frames, Duration::from_secs(1)),
        ("blocks", Layout::Blocks, Duration::ZERO),
    ] {
        let options = SourceOptions { filter: Filter::EspOrUdp(4500), layout, spin, ..SourceOptions::default() };
        let (median, high) = latency(&lab, &options)?;
        println!("a lone packet, {what:<32}: p50 {median:>6.1} us, p99 {high:>6.1} us");
    }
    Ok(())
}

/// What sending alone costs a packet.
fn send_alone(sink: &mut impl Sink, burst: &Burst) -> io::Result<f64> {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for _ in 0..ROUND / BURST {
            sink.send(&burst.buffer, &burst.pairs)?;
        }
        best = best.min(begin.elapsed().as_nanos() as f64 / ROUND as f64);
    }
    Ok(best)
}

/// What receiving from blocks costs a packet.
fn blocks(source: &mut impl Source, sink: &mut impl Sink, burst: &Burst) -> io::Result<f64> {
    let mut best = f64::MAX;
    let mut taken = vec![0; ROUND * burst.pairs[0][1] as usize];
    for _ in 0..ROUNDS {
        for _ in 0..ROUND / BURST {
            sink.send(&burst.buffer, &burst.pairs)?;
        }
        std::thread::sleep(Duration::from_millis(10));
        let begin = Instant::now();
        let received = drain(source, &mut taken)?;
        if received > ROUND / 2 {
            best = best.min(begin.elapsed().as_nanos() as f64 / received as f64);
        }
    }
    Ok(best)
}

fn over_tun() -> io::Result<()> {
    let lab = Builder::new(&format!("tun{}", std::process::id()))?.namespace("host").up()?;
    let mut ends = lab.within("host", || tun::open("tun0", 1500, 1))??;
    let mut forwarding = lab.within("host", || tun::open("tun1", 1500, 1))??;
    for (name, address) in [("tun0", LEFT), ("tun1", IpAddr::from([10, 79, 0, 1]))] {
        let address = format!("{address}/24");
        lab.command("host", "ip").args(["address", "add", &address, "dev", name]).status()?;
    }
    lab.within("host", || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))??;
    let (Some((_, mut sink)), Some((mut source, _))) = (ends.pop(), forwarding.pop()) else { return Ok(()) };
    for len in [64, 1400] {
        // The host forwards from one device to the other, which is part of what sending costs.
        let burst = burst(RIGHT, IpAddr::from([10, 79, 0, 2]), len, BURST)?;
        print("TUN to TUN, forwarded, 64 in turn", len, alternate(&mut source, &mut sink, &burst, BURST)?);
    }
    Ok(())
}

fn in_memory() -> io::Result<()> {
    for len in [64, 1400] {
        let burst = burst(LEFT, RIGHT, len, BURST)?;
        let packets = burst.pairs.iter().filter_map(|[start, end]| burst.buffer.get(*start as usize..*end as usize));
        let mut source = Repeat::new(packets, None)?;
        let mut buffer = vec![0; ROUND * len];
        let (mut receive, mut send) = (f64::MAX, f64::MAX);
        let mut discard = Discard::default();
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            let (mut at, mut received) = (0, 0);
            while received < ROUND {
                received += source.receive(Duration::ZERO, &mut |packet| {
                    let Some(place) = buffer.get_mut(at..at + packet.len()) else { return false };
                    place.copy_from_slice(packet);
                    at += packet.len();
                    true
                })?;
            }
            receive = receive.min(begin.elapsed().as_nanos() as f64 / ROUND as f64);
            let begin = Instant::now();
            for _ in 0..ROUND / BURST {
                discard.send(&burst.buffer, &burst.pairs)?;
            }
            send = send.min(begin.elapsed().as_nanos() as f64 / ROUND as f64);
        }
        println!("{:<34} {len:>5} octets: out {send:>6.1} ns, in {receive:>5.1} ns", "memory, repeated and discarded");
        let (mut sink, mut source) = queue(ROUND, ROUND * len)?;
        print("memory, queue, 64 in turn", len, alternate(&mut source, &mut sink, &burst, BURST)?);
    }
    Ok(())
}

fn main() -> io::Result<()> {
    in_memory()?;
    over_links()?;
    over_tun()
}
