//! Two gateways in one process, with queues in memory for interfaces: packets go from one inside to the other, in order, by several workers.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ciphermill::{Mill, SelfTest};
use ciphermill_contract::Engine;
use ciphermill_gateway::configuration::Configuration;
use ciphermill_gateway::ports::Opened;
use ciphermill_gateway::{Gateway, Status, metrics};
use ciphermill_packets::memory::{QueueSink, QueueSource, queue};
use ciphermill_packets::{Sink, Source};
use ciphermill_reference::Reference;

const ROOM: usize = 20_000;

fn mill() -> Mill {
    let engines = [Arc::new(Reference::new()) as Arc<dyn Engine>];
    Mill::builder().engines(engines).self_test(SelfTest::Never).open().expect("opens")
}

fn pipe() -> (QueueSink, QueueSource) {
    queue(ROOM, ROOM * 200).expect("a queue")
}

/// One end's file; the other's has everything the other way round.
fn configuration(folder: &Path, is_west: bool, workers: usize) -> Configuration {
    let (own, peer, local, remote) =
        if is_west { (1, 2, "10.1.0.0/16", "10.2.0.0/16") } else { (2, 1, "10.2.0.0/16", "10.1.0.0/16") };
    let text = format!(
        r#"
        inside = {{ interface = "unused0" }}
        outside = {{ interface = "unused1" }}
        own_addresses = ["10.{own}.0.1"]
        workers = {workers}
        burst = 32
        [[tunnel]]
        name = "pair"
        transform = "aes-128-gcm"
        local = "192.0.2.{own}"
        remote = "192.0.2.{peer}"
        local_networks = ["{local}"]
        remote_networks = ["{remote}"]
        spi_out = {}
        spi_in = {}
        replay_window = 4096
        keys = {{ secret_file = "{2}/secret", nonce_file = "{2}/nonce{own}", peer_nonce_file = "{2}/nonce{peer}" }}
        "#,
        1000 + own,
        1000 + peer,
        folder.display()
    );
    Configuration::parse(&text, Path::new("pair.toml")).expect("good")
}

/// A packet from one network to the other, with a number.
fn packet(from: u8, to: u8, ttl: u8, number: u32) -> Vec<u8> {
    let mut packet =
        vec![0x45, 0, 0, 32, 0, 0, 0x40, 0, ttl, 17, 0, 0, 10, from, 0, 9, 10, to, 0, 9, 1, 1, 2, 2, 0, 12, 0, 0];
    let sum: u32 = packet[..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    packet.extend(number.to_be_bytes());
    packet
}

fn send(sink: &mut QueueSink, packets: &[Vec<u8>]) {
    for packet in packets {
        assert_eq!(sink.send(packet, &[[0, packet.len() as u32]]).expect("sent"), 1, "room");
    }
}

/// What comes within some seconds, until as many as that.
fn receive(source: &mut QueueSource, count: usize) -> Vec<Vec<u8>> {
    let (mut packets, end) = (Vec::new(), Instant::now() + Duration::from_secs(20));
    while packets.len() < count && Instant::now() < end {
        let mut take = |packet: &[u8]| {
            packets.push(packet.to_vec());
            true
        };
        source.receive(Duration::from_millis(50), &mut take).expect("received");
    }
    packets
}

fn numbers(packets: &[Vec<u8>]) -> Vec<u32> {
    packets.iter().map(|packet| u32::from_be_bytes([packet[28], packet[29], packet[30], packet[31]])).collect()
}

/// Runs both gateways, has `talk` send and receive at their insides, and stops them.
fn between<R: Send>(
    workers: usize,
    talk: impl FnOnce(&mut QueueSink, &mut QueueSource, &mut QueueSink, &mut QueueSource, &dyn Fn()) -> R,
) -> (R, Status, Status) {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "c5".repeat(32)).expect("written");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).expect("set");
    let ((mut to_west, from_host), (to_host, mut from_west)) = (pipe(), pipe());
    let ((mut to_east, from_other), (to_other, mut from_east)) = (pipe(), pipe());
    let ((west_out, east_in), (east_out, west_in)) = (pipe(), pipe());
    let mill = mill();
    let opened = |source: QueueSource, sink: QueueSink| Opened::of(Box::new(source), Box::new(sink));
    let files = [true, false].map(|is_west| configuration(folder.path(), is_west, workers));
    let west = Gateway::with(&mill, &files[0], false, opened(from_host, to_host), opened(west_in, west_out));
    let east = Gateway::with(&mill, &files[1], false, opened(from_other, to_other), opened(east_in, east_out));
    let (west, east) = (west.expect("made"), east.expect("made"));
    // The first to start has not yet seen the other's start value.
    let reload = || {
        west.reload(&files[0]).expect("read");
        east.reload(&files[1]).expect("read");
    };
    reload();
    let stop = AtomicBool::new(false);
    let talked = std::thread::scope(|scope| {
        let runs = [&west, &east].map(|gateway| scope.spawn(|| gateway.run(&stop, |_, _| {})));
        let talked = talk(&mut to_west, &mut from_west, &mut to_east, &mut from_east, &reload);
        stop.store(true, Ordering::Relaxed);
        for run in runs {
            run.join().expect("no panic").expect("ends well");
        }
        talked
    });
    (talked, west.status(), east.status())
}

#[test]
fn packets_come_through_in_their_order_whatever_the_number_of_workers() {
    const COUNT: u32 = 6000;
    for workers in [1, 3] {
        let sent: Vec<Vec<u8>> = (0..COUNT).map(|number| packet(1, 2, 64, number)).collect();
        let (received, west, east) = between(workers, |to_west, _, _, from_east, reload| {
            send(to_west, &sent[..3000]);
            // Tunnels that stayed the same go on with their numbers.
            reload();
            send(to_west, &sent[3000..]);
            receive(from_east, COUNT as usize)
        });
        assert!(numbers(&received).into_iter().eq(0..COUNT), "{workers} workers: {} packets", received.len());
        assert!(received.iter().all(|packet| packet[8] == 62), "two gateways are two hops");
        assert_eq!((west.sent.done, east.received.done, east.received.dropped_all()), (6000, 6000, 0));
        let text = metrics::prometheus(&east);
        assert!(text.contains("ciphermill_gateway_done_total{way=\"in\"} 6000"), "{text}");
    }
}

#[test]
fn errors_go_back_to_whoever_sent_the_packet() {
    // One hop left: the near gateway says so. Two: the far one, through the tunnel.
    let (near, west, _) = between(1, |to_west, from_west, _, _, _| {
        send(to_west, &[packet(1, 2, 1, 7), packet(1, 2, 2, 8)]);
        receive(from_west, 2)
    });
    assert_eq!(near.len(), 2, "{near:?}");
    for (error, source) in near.iter().zip([1, 2]) {
        // ICMP, time exceeded, from the gateway, to the host.
        assert_eq!((error[9], error[20], &error[12..20]), (1, 11, &[10, source, 0, 1, 10, 1, 0, 9][..]));
    }
    assert_eq!((west.sent.icmp_sent, west.received.done), (1, 1));
}

#[test]
fn what_no_policy_names_does_not_pass() {
    let (received, west, east) = between(1, |to_west, _, _, from_east, _| {
        send(to_west, &[packet(1, 9, 64, 1), packet(1, 2, 64, 2)]);
        receive(from_east, 1)
    });
    assert_eq!(numbers(&received), [2]);
    assert_eq!((west.sent.dropped(ciphermill_esp::Drop::Policy), east.received.done), (1, 1));
}
