//! Scapy as an independent implementation: it opens what is sent, we open what it sends, and with the same numbers and IVs both send the
//! same bytes. `xtask/gateway/scapy.sh` makes its environment and runs this.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use ciphermill_esp::{Sequence, Transform};
use serde::{Deserialize, Serialize};

use crate::ends::{Ends, Inner, Shape, hopped};

/// What is asked: see `oracle.py`.
#[derive(Serialize)]
struct Request {
    r#do: &'static str,
    transform: String,
    key: String,
    salt: String,
    spi: u32,
    extended: bool,
    udp: bool,
    source: String,
    destination: String,
    packets: Vec<Packet>,
}

#[derive(Serialize)]
struct Packet {
    number: u64,
    iv: String,
    packet: String,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    packets: Vec<String>,
    error: Option<String>,
}

struct Oracle {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    fn start() -> Oracle {
        let python = std::env::var_os("CIPHERMILL_SCAPY").expect("CIPHERMILL_SCAPY names a Python with scapy");
        let mut child = Command::new(python)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle.py"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let (asks, answers) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        Oracle { child, asks, answers: BufReader::new(answers) }
    }

    fn ask(&mut self, shape: &Shape, r#do: &'static str, packets: Vec<Packet>) -> Result<Vec<Vec<u8>>, String> {
        let (keys, parameters) = (shape.keys(), shape.parameters());
        let request = Request {
            r#do,
            transform: shape.transform.to_string(),
            key: hex::encode(&*keys.key),
            salt: hex::encode(&*keys.salt),
            spi: parameters.spi,
            extended: shape.sequence == Sequence::Extended,
            udp: shape.has_udp,
            source: parameters.source.to_string(),
            destination: parameters.destination.to_string(),
            packets,
        };
        writeln!(self.asks, "{}", serde_json::to_string(&request).expect("is written")).expect("it listens");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        let answer: Answer = serde_json::from_str(&line).expect("an answer");
        match answer.error {
            Some(error) => Err(error),
            None => Ok(answer.packets.iter().map(|packet| hex::decode(packet).expect("hexadecimal")).collect()),
        }
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // It is of no more use, whether the test has ended well or not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every way that a tunnel looks from outside.
fn shapes(transform: Transform) -> impl Iterator<Item = Shape> {
    (0..8u8).map(move |bits| Shape {
        sequence: if bits & 1 == 0 { Sequence::Short } else { Sequence::Extended },
        outer_is_v6: bits & 2 != 0,
        has_udp: bits & 4 != 0,
        last: if bits & 1 == 0 { 77 } else { 0x3_ffff_fff8 },
        ..Shape::new(&transform.to_string())
    })
}

fn compare(oracle: &mut Oracle, shape: &Shape) {
    let mut ends = Ends::new(shape);
    // All residues modulo a block, and a long one.
    let packets: Vec<Vec<u8>> =
        (48..64).chain([1300]).map(|len| Inner { is_v6: len % 3 == 0, ..Inner::V4 }.packet(len, len as u8)).collect();
    let within: Vec<Vec<u8>> = packets.iter().map(|packet| hopped(packet, 1)).collect();
    let sealed = ends.seal(&packets);
    assert_eq!(sealed.len(), packets.len());
    let esp = if shape.outer_is_v6 { 40 } else { 20 } + if shape.has_udp { 8 } else { 0 };
    let of = |iv_from: &[Vec<u8>], packets: &[Vec<u8>]| -> Vec<Packet> {
        let iv = |packet: &Vec<u8>| hex::encode(&packet[esp + 8..esp + 8 + shape.transform.iv_len()]);
        let all = iv_from.iter().zip(packets).zip(shape.last + 1..);
        all.map(|((from, packet), number)| Packet { number, iv: iv(from), packet: hex::encode(packet) }).collect()
    };
    assert_eq!(oracle.ask(shape, "open", of(&sealed, &sealed)), Ok(within.clone()), "{shape:?}: what it opens");
    let theirs = oracle.ask(shape, "seal", of(&sealed, &within)).expect("it seals");
    for (ours, theirs) in sealed.iter().zip(&theirs) {
        assert_eq!(ours[esp..], theirs[esp..], "{shape:?}: from the SPI on");
    }
    let opened: Vec<Vec<u8>> = within.iter().map(|packet| hopped(packet, 1)).collect();
    assert_eq!(ends.open(&theirs), opened, "{shape:?}: what we open");
}

#[test]
#[ignore = "wants Python with scapy: xtask/gateway/scapy.sh"]
fn scapy_opens_what_is_sent_and_sends_the_same_bytes() {
    let mut oracle = Oracle::start();
    let mut count = 0;
    for shape in Transform::all().flat_map(shapes) {
        compare(&mut oracle, &shape);
        count += 1;
    }
    assert_eq!(count, Transform::all().count() * 8);
}

#[test]
#[ignore = "wants Python with scapy: xtask/gateway/scapy.sh"]
fn scapy_refuses_what_is_damaged() {
    let mut oracle = Oracle::start();
    for name in ["aes-128-gcm-64", "aes-256-ccm", "aes-128-cbc+hmac-sha256-128", "null+aes-128-gmac"] {
        let shape = Shape::new(name);
        let mut sealed = Ends::new(&shape).seal(&[Inner::V4.packet(60, 1)]).remove(0);
        *sealed.last_mut().expect("bytes") ^= 1;
        let packet = Packet { number: 1, iv: String::new(), packet: hex::encode(&sealed) };
        let error =
            oracle.ask(&shape, "open", vec![packet]).expect_err("an oracle that says yes to everything is none");
        assert!(error.contains("IPSecIntegrityError"), "{name}: {error}");
    }
}
