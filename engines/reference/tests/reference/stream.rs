//! Stream ciphers.

use ciphermill_contract::{Direction, OpStatus, Reason};

use crate::run::{Parts, agrees, bytes, hex, run, suite};

/// The text of RFC 8439, 2.4.2.
pub(crate) const SUNSCREEN: &[u8] = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for \
the future, sunscreen would be it.";

/// RFC 8439, 2.4.2: the counter starts at one.
#[test]
fn chacha20_gives_the_vector_of_rfc_8439() {
    let parts = Parts {
        key: (0..32).collect(),
        iv: hex("01000000 000000000000004a00000000"),
        input: SUNSCREEN.to_vec(),
        ..Parts::default()
    };
    let output = hex("6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b
        f91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d8
        07ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736
        5af90bbf74a35be6b40b8eedf2785e42874d");
    agrees(suite("chacha20"), &parts, &output, &[]);
}

#[test]
fn chacha20_without_a_counter_starts_at_zero() {
    let parts = Parts { key: bytes(1, 32), iv: bytes(2, 12), input: bytes(3, 200), ..Parts::default() };
    let short = run(suite("chacha20"), Direction::Encrypt, &parts);
    let long = Parts { iv: [vec![0; 4], bytes(2, 12)].concat(), ..parts };
    assert_eq!(short.output, run(suite("chacha20"), Direction::Encrypt, &long).output);
}

#[test]
fn chacha20_runs_to_its_last_block_and_no_further() {
    let mut parts =
        Parts { key: bytes(1, 32), iv: [vec![0xff; 4], bytes(2, 12)].concat(), input: vec![0; 64], ..Parts::default() };
    assert_eq!(run(suite("chacha20"), Direction::Encrypt, &parts).status, OpStatus::Done);
    parts.input.push(0);
    let outcome = run(suite("chacha20"), Direction::Encrypt, &parts);
    assert_eq!(outcome.status, OpStatus::BadInput(Reason::InputTooLong));
    assert_eq!(outcome.room, vec![0; 65]);
}

/// RFC 6229: key streams from their start for keys of 40 and 128 bits.
#[test]
fn rc4_gives_the_key_streams_of_rfc_6229() {
    let vectors = [
        (5, "b2396305f03dc027ccc3524a0a1118a8 6982944f18fc82d589c403a47a0d0919"),
        (16, "9ac7cc9a609d1ef7b2932899cde41b97 5248c4959014126a6e8a84f11d1a9e1c"),
    ];
    for (key_len, output) in vectors {
        let parts = Parts { key: (1..=key_len).collect(), input: vec![0; 32], ..Parts::default() };
        agrees(suite("rc4"), &parts, &hex(output), &[]);
    }
}

/// The key stream itself is checked where the cipher is; here, that the IV leads to it.
#[test]
fn seal_takes_the_position_from_the_iv() {
    let suite = suite("seal-3.0");
    let at = |position: u32, len: usize| {
        let parts =
            Parts { key: bytes(5, 20), iv: position.to_be_bytes().to_vec(), input: vec![0; len], ..Parts::default() };
        run(suite, Direction::Encrypt, &parts).output
    };
    assert_eq!(at(7, 100), at(7, 4096)[..100]);
    assert_ne!(at(7, 100), at(8, 100));
    assert_ne!(at(7, 100), vec![0; 100]);
}
