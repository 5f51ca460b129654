//! Whole packets of RFCs and drafts, byte for byte.
//!
//! What can be compared: every packet is opened, and what is within must be the document's. Packets that leave carry their sequence number
//! as IV, or an IV that was drawn, which no document's IV equals; so no packet of theirs is made here (`scapy.rs` compares what is made).
//! Most packets of draft-mcgrew-gcm-test-01 say next header 1, which no tunnel carries: they are dropped for that, behind the ICV and the
//! padding, and what was decrypted is looked at in the buffer. Those of RFC 3602 have no ICV, since they are older than the demand for one: an
//! HMAC of ours is put behind them. RFC 4309 has no packets (section 8 refers to RFC 3610's vectors of CCM), RFC 4868 only HMACs of
//! texts that are no packets; the suites' own vectors have both. Case 4 of the draft has SPI 0, which no association may have (RFC 4303, 2.1).

use ciphermill_contract::Direction;
use ciphermill_esp::{AddError, Drop, Keys, Sequence};
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::ends::{Ends, NOW, Shape, hopped};
use crate::forge::{envelope, hmac_sha1};

#[derive(Deserialize)]
struct File {
    packets: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    id: String,
    transform: String,
    #[serde(with = "hex")]
    key: Vec<u8>,
    #[serde(with = "hex")]
    salt: Vec<u8>,
    is_extended: bool,
    number: String,
    #[serde(with = "hex")]
    packet: Vec<u8>,
    /// With trailer.
    #[serde(with = "hex")]
    payload: Vec<u8>,
}

/// A key of our own for what the RFC has none for.
const MAC_KEY: [u8; 20] = [0x5a; 20];

/// What happened to a packet of a document.
fn check(vector: &Vector) -> &'static str {
    let (mut packet, mut key) = (vector.packet.clone(), vector.key.clone());
    let mut transform = vector.transform.clone();
    if transform == "aes-128-cbc" {
        transform += "+hmac-sha1-96";
        let icv = hmac_sha1(&MAC_KEY, &packet);
        packet.extend(&icv[..12]);
        key.extend(MAC_KEY);
    }
    let number = u64::from_str_radix(&vector.number, 16).expect("hexadecimal");
    let sequence = if vector.is_extended { Sequence::Extended } else { Sequence::Short };
    let shape = Shape { sequence, last: number - 1, ..Shape::new(&transform) };
    let mut ends = Ends::new(&shape);
    let mut parameters = shape.parameters();
    let spi = packet.first_chunk::<4>().expect("an SPI");
    parameters.spi = u32::from_be_bytes(*spi);
    let keys = Keys { key: Zeroizing::new(key), salt: Zeroizing::new(vector.salt.clone()) };
    let into = ends.receiver.add_inbound(parameters, &keys, NOW).expect("added");
    let opened = ends.open(&[envelope(&packet)]);
    assert_eq!(ends.receiver.last_number(Direction::Decrypt, into), Some(number), "{}: authentic", vector.id);
    let (data, _) = ends.burst.leaving();
    let (padding, next_header) = (vector.payload[vector.payload.len() - 2], vector.payload[vector.payload.len() - 1]);
    let inner = &vector.payload[..vector.payload.len() - 2 - usize::from(padding)];
    let (_, received) = ends.receiver.counters();
    if next_header == 4 {
        // The router behind the tunnel has counted its time down.
        assert_eq!(opened, [hopped(inner, 1)], "{}", vector.id);
        assert_eq!((received.done, received.dropped_all()), (1, 0));
        "opened"
    } else {
        assert_eq!(
            (opened.len(), received.dropped(Drop::NextHeader), received.dropped_all()),
            (0, 1, 1),
            "{}",
            vector.id
        );
        assert!(data.windows(vector.payload.len()).any(|window| window == vector.payload), "{}", vector.id);
        "decrypted"
    }
}

#[test]
fn packets_of_rfcs_are_opened_byte_for_byte() {
    let file: File = serde_json::from_str(include_str!("../data/packets.json")).expect("as it is read");
    let mut counts = [0, 0];
    for vector in &file.packets {
        counts[usize::from(check(vector) == "opened")] += 1;
    }
    assert_eq!(counts, [16, 3]);
    let has = |part: &str| file.packets.iter().filter(|vector| vector.id.contains(part)).count();
    assert_eq!(["RFC 3602", "RFC 7634", "draft-mcgrew"].map(has), [4, 1, 14]);
}

#[test]
fn a_damaged_vector_is_not_opened() {
    let file: File = serde_json::from_str(include_str!("../data/packets.json")).expect("as it is read");
    for vector in file.packets.iter().filter(|vector| vector.transform != "aes-128-cbc") {
        let mut packet = vector.packet.clone();
        let last = packet.len() - 1;
        packet[last] ^= 1;
        let number = u64::from_str_radix(&vector.number, 16).expect("hexadecimal");
        let sequence = if vector.is_extended { Sequence::Extended } else { Sequence::Short };
        let shape = Shape { sequence, last: number - 1, ..Shape::new(&vector.transform) };
        let mut ends = Ends::new(&shape);
        let mut parameters = shape.parameters();
        parameters.spi = u32::from_be_bytes(*packet.first_chunk::<4>().expect("an SPI"));
        let keys = Keys { key: Zeroizing::new(vector.key.clone()), salt: Zeroizing::new(vector.salt.clone()) };
        ends.receiver.add_inbound(parameters, &keys, NOW).expect("added");
        assert!(ends.open(&[envelope(&packet)]).is_empty());
        assert_eq!(ends.receiver.counters().1.dropped(Drop::Integrity), 1, "{}", vector.id);
    }
}

#[test]
fn reserved_spis_have_no_association() {
    let shape = Shape::new("aes-128-gcm");
    let mut ends = Ends::new(&shape);
    for spi in 0..256 {
        let mut parameters = shape.parameters();
        parameters.spi = spi;
        assert_eq!(ends.receiver.add_inbound(parameters.clone(), &shape.keys(), NOW), Err(AddError::Spi(spi)));
        assert_eq!(ends.sender.add_outbound(parameters, &shape.keys(), NOW), Err(AddError::Spi(spi)));
    }
}
