//! A file that is read again while packets go on: what was edited changes, and nothing else does.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ciphermill::{Mill, SelfTest};
use ciphermill_contract::{Direction, Engine};
use ciphermill_esp::{Action, Burst, Keys, Parameters, Policy, Prefix, Selector, Tunnels};
use ciphermill_gateway::Gateway;
use ciphermill_gateway::configuration::Configuration;
use ciphermill_gateway::ports::Opened;
use ciphermill_packets::memory::{QueueSink, QueueSource, queue};
use ciphermill_packets::{Sink, Source};
use ciphermill_reference::Reference;
use zeroize::Zeroizing;

const ROOM: usize = 1000;

/// A file with a tunnel to each of these numbers, in this order. `more` goes into every tunnel, and `last` behind all of them.
fn file(folder: &Path, numbers: &[u8], more: &str, last: &str) -> String {
    let tunnel = |number: &u8| {
        format!(
            r#"
            [[tunnel]]
            name = "to {number}"
            transform = "aes-128-gcm"
            local = "192.0.2.1"
            remote = "192.0.2.{number}"
            local_networks = ["10.1.0.0/16"]
            remote_networks = ["10.{number}.0.0/16"]
            spi_out = {}
            spi_in = {}
            keys = {{ static_file = "{}/keys{number}" }}
            {more}
            "#,
            1000 + u32::from(*number),
            2000 + u32::from(*number),
            folder.display()
        )
    };
    let tunnels: String = numbers.iter().map(tunnel).collect();
    format!("inside = {{ interface = \"unused0\" }}\noutside = {{ interface = \"unused1\" }}\n{tunnels}{last}")
}

fn parse(text: &str) -> Configuration {
    Configuration::parse(text, Path::new("reload.toml")).expect("good")
}

struct Ends {
    folder: tempfile::TempDir,
    mill: Mill,
    inside: QueueSink,
    outside: QueueSource,
    from_outside: QueueSink,
    at_inside: QueueSource,
}

impl Ends {
    /// A packet to the network of this number; where it leaves to (the other end's number, the SPI, the sequence number), if it does.
    fn send(&mut self, number: u8) -> Option<(u8, u32, u32)> {
        let packet = packet([10, 1, 0, 9], [10, number, 0, 9]);
        assert_eq!(self.inside.send(&packet, &[[0, packet.len() as u32]]).expect("sent"), 1, "room");
        let (mut left, end) = (None, Instant::now() + Duration::from_secs(2));
        while left.is_none() && Instant::now() < end {
            let mut take = |packet: &[u8]| {
                let word = |at: usize| u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]);
                left = Some((packet[19], word(20), word(24)));
                true
            };
            self.outside.receive(Duration::from_millis(20), &mut take).expect("received");
        }
        left
    }
}

impl Ends {
    /// What the other end of the tunnel to 2 sends: as many packets, from the first number on, under the key that the file has for what comes.
    fn sealed_by_the_other_end(&self, count: usize) -> Vec<Vec<u8>> {
        let mut tunnels = Tunnels::new(&self.mill);
        let transform = "aes-128-gcm".parse().expect("known");
        let parameters = Parameters::new(2002, transform, [192, 0, 2, 2].into(), [192, 0, 2, 1].into());
        let bytes = [0x21; 20];
        let keys = Keys { key: Zeroizing::new(bytes[..16].to_vec()), salt: Zeroizing::new(bytes[16..].to_vec()) };
        tunnels.add_outbound(parameters, &keys, Duration::ZERO).expect("added");
        let network = |second: u8| Prefix::new([10, second, 0, 0].into(), 16).expect("a network");
        let selector = Selector::between(network(2), network(1)).expect("one family");
        let policy = Policy { selector, action: Action::Protect(0), priority: 1 };
        tunnels.add_policy(Direction::Encrypt, policy).expect("room");
        let mut burst = Burst::new(count, 1 << 16, 0);
        for _ in 0..count {
            assert!(burst.push(&packet([10, 2, 0, 9], [10, 1, 0, 9])));
        }
        tunnels.begin_outbound(&mut burst, Duration::ZERO);
        burst.crypt(&mut self.mill.session()).expect("runs");
        tunnels.commit_outbound(&mut burst);
        let (data, spans) = burst.leaving();
        spans.iter().map(|[start, end]| data[*start as usize..*end as usize].to_vec()).collect()
    }

    /// Whether a packet from the outside arrives at the inside.
    fn arrives(&mut self, packet: &[u8]) -> bool {
        assert_eq!(self.from_outside.send(packet, &[[0, packet.len() as u32]]).expect("sent"), 1, "room");
        let (mut count, end) = (0, Instant::now() + Duration::from_secs(1));
        while count == 0 && Instant::now() < end {
            let mut take = |_: &[u8]| {
                count += 1;
                true
            };
            self.at_inside.receive(Duration::from_millis(20), &mut take).expect("received");
        }
        count == 1
    }
}

fn packet(from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0];
    packet.extend(from);
    packet.extend(to);
    let sum: u32 = packet.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    packet[10..12].copy_from_slice(&(!(((sum & 0xffff) + (sum >> 16)) as u16)).to_be_bytes());
    packet.extend([1, 1, 2, 2, 0, 12, 0, 0, 1, 2, 3, 4]);
    packet
}

/// Runs a gateway with tunnels to 2 and 3, and has `talk` send through it.
fn running(talk: impl FnOnce(&Gateway, &mut Ends)) {
    let folder = tempfile::tempdir().expect("a folder");
    for number in [2, 3] {
        let path = folder.path().join(format!("keys{number}"));
        // Both ways under one key: its numbers are each way's own all the same.
        let line = format!("{:02x}", number << 4 | 1).repeat(20);
        std::fs::write(&path, format!("{line}\n{line}\n")).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("set");
    }
    let mill = Mill::builder().engines([Arc::new(Reference::new()) as Arc<dyn Engine>]).self_test(SelfTest::Never);
    let mill = mill.open().expect("opens");
    let pipe = || queue(ROOM, ROOM * 200).expect("a queue");
    let ((inside, from_inside), (to_inside, at_inside)) = (pipe(), pipe());
    let ((from_outside, arriving), (to_outside, outside)) = (pipe(), pipe());
    let opened = |source: QueueSource, sink: QueueSink| Opened::of(Box::new(source), Box::new(sink));
    let configuration = parse(&file(folder.path(), &[2, 3], "", ""));
    let sides = (opened(from_inside, to_inside), opened(arriving, to_outside));
    let gateway = Gateway::with(&mill, &configuration, true, sides.0, sides.1).expect("opens");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let runs = scope.spawn(|| gateway.run(&stop, |_, _| {}));
        let mut ends = Ends { folder, mill: mill.clone(), inside, outside, from_outside, at_inside };
        let talked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| talk(&gateway, &mut ends)));
        stop.store(true, Ordering::Relaxed);
        runs.join().expect("ends").expect("runs");
        talked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn an_edited_tunnel_goes_on_with_its_numbers() {
    running(|gateway, ends| {
        assert_eq!(
            [ends.send(2), ends.send(2), ends.send(3)],
            [Some((2, 1002, 1)), Some((2, 1002, 2)), Some((3, 1003, 1))]
        );
        let edited = file(ends.folder.path(), &[2, 3], "path_mtu = 1400", "");
        gateway.reload(&parse(&edited)).expect("read");
        assert_eq!([ends.send(2), ends.send(3)], [Some((2, 1002, 3)), Some((3, 1003, 2))], "nonces do not come again");
        // Without the tunnel, and with it again.
        gateway.reload(&parse(&file(ends.folder.path(), &[3], "", ""))).expect("read");
        assert_eq!(ends.send(2), None);
        gateway.reload(&parse(&file(ends.folder.path(), &[2, 3], "", ""))).expect("read");
        assert_eq!(ends.send(2), Some((2, 1002, 4)));
    });
}

#[test]
fn an_edited_tunnel_knows_what_it_has_seen() {
    running(|gateway, ends| {
        // More has left than has come.
        assert_eq!((0..9).filter_map(|_| ends.send(2)).count(), 9);
        let sealed = ends.sealed_by_the_other_end(4);
        assert!(ends.arrives(&sealed[0]) && ends.arrives(&sealed[1]));
        gateway.reload(&parse(&file(ends.folder.path(), &[2, 3], "path_mtu = 1400", ""))).expect("read");
        assert!(!ends.arrives(&sealed[1]), "a replay");
        assert!(ends.arrives(&sealed[2]) && ends.arrives(&sealed[3]));
        // The key of what came sends behind all of that, too.
        assert_eq!(ends.send(2), Some((2, 1002, 10)));
    });
}

#[test]
fn where_a_tunnel_stands_in_the_file_means_nothing() {
    running(|gateway, ends| {
        assert_eq!([ends.send(2), ends.send(3)], [Some((2, 1002, 1)), Some((3, 1003, 1))]);
        gateway.reload(&parse(&file(ends.folder.path(), &[3, 2], "", ""))).expect("read");
        assert_eq!([ends.send(2), ends.send(3)], [Some((2, 1002, 2)), Some((3, 1003, 2))]);
        gateway.reload(&parse(&file(ends.folder.path(), &[3], "", ""))).expect("read");
        assert_eq!([ends.send(2), ends.send(3)], [None, Some((3, 1003, 3))]);
    });
}

#[test]
fn a_file_that_cannot_be_had_changes_nothing() {
    running(|gateway, ends| {
        let folder = ends.folder.path().to_owned();
        let padded = parse(&file(&folder, &[3], "pad_to = 1000", ""));
        assert!(gateway.reload(&padded).expect_err("no room").to_string().contains("another start"));
        // No file has the keys of this one.
        let unknown = parse(&file(&folder, &[2, 3, 4], "path_mtu = 1400", ""));
        assert!(gateway.reload(&unknown).expect_err("no keys").to_string().contains("keys4"));
        assert_eq!([ends.send(2), ends.send(3)], [Some((2, 1002, 1)), Some((3, 1003, 1))]);
    });
}
