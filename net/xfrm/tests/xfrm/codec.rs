//! The messages read and written: what is written is read as it was, and what is cut or lies about its length is refused.

use crate::strategies::{association, plain, request};
use ciphermill_xfrm::message::{HEADER_LEN, Request, encode_request, messages, parse_request};
use ciphermill_xfrm::{Errno, Refusal};
use proptest::prelude::*;

/// The only request of a datagram.
fn read(datagram: &[u8]) -> Result<Request, Refusal> {
    let mut all = messages(datagram);
    let (header, body) = all.next().expect("a message")?;
    assert!(all.next().is_none(), "one message");
    parse_request(&header, body)
}

/// A datagram with a length in its header that fits it.
fn with_length(datagram: &[u8]) -> Vec<u8> {
    let mut datagram = datagram.to_vec();
    let len = u32::try_from(datagram.len()).expect("short");
    datagram[..4].copy_from_slice(&len.to_ne_bytes());
    datagram
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn requests_are_read_as_they_were_written(request in request()) {
        let datagram = encode_request(&request, 7, true);
        prop_assert_eq!(read(&datagram), Ok(request));
    }

    #[test]
    fn associations_cut_at_any_byte_are_refused(association in association()) {
        let datagram = encode_request(&Request::Add(Box::new(association)), 7, true);
        for len in 0..datagram.len() {
            // As it came, the header says that there is more.
            let cut = messages(&datagram[..len]).collect::<Vec<_>>();
            prop_assert!(if len == 0 { cut.is_empty() } else { cut[0].is_err() }, "{} bytes", len);
            // With a header that agrees, half an attribute is an error, and so is an association without algorithms; others may
            // be missing, as what is cut between two attributes is whole.
            if len >= HEADER_LEN {
                let outcome = read(&with_length(&datagram[..len]));
                prop_assert!(outcome.is_err() || is_boundary(&datagram, len), "{} of {} bytes", len, datagram.len());
            }
        }
    }

    #[test]
    fn whatever_comes_is_read_or_refused(kind in 0x0eu16..0x30, flags: u16, body in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut datagram = vec![0; 4];
        datagram.extend(kind.to_ne_bytes());
        datagram.extend(flags.to_ne_bytes());
        datagram.extend([0; 8]);
        datagram.extend(body);
        let _ = read(&with_length(&datagram));
    }

    #[test]
    fn requests_with_other_bytes_are_read_or_refused(request in request(), at: prop::sample::Index, byte: u8) {
        let mut datagram = encode_request(&request, 7, true).to_vec();
        let at = HEADER_LEN + at.index(datagram.len() - HEADER_LEN + 1);
        if let Some(place) = datagram.get_mut(at) {
            *place = byte;
        }
        let _ = read(&datagram);
    }
}

/// Whether an attribute of an association ends there, or nothing but padding behind one follows.
fn is_boundary(datagram: &[u8], len: usize) -> bool {
    let mut at = HEADER_LEN + 224;
    while at < len {
        let attribute = usize::from(u16::from_ne_bytes([datagram[at], datagram[at + 1]]));
        if (at + attribute..=at + attribute.next_multiple_of(4)).contains(&len) {
            return true;
        }
        // Less than an attribute's header behind the last attribute, all zeros, is what padding may look like.
        if len - at < 4 && datagram[at..len].iter().all(|&byte| byte == 0) {
            return true;
        }
        at += attribute.next_multiple_of(4);
    }
    at == len
}

fn some_association() -> Vec<u8> {
    let association = plain(0x1001);
    encode_request(&Request::Add(Box::new(association)), 1, true).to_vec()
}

/// Where an attribute's value begins.
fn find(datagram: &[u8], kind: u16) -> usize {
    let mut at = HEADER_LEN + 224;
    while u16::from_ne_bytes([datagram[at + 2], datagram[at + 3]]) != kind {
        at += usize::from(u16::from_ne_bytes([datagram[at], datagram[at + 1]])).next_multiple_of(4);
    }
    at + 4
}

fn refused(datagram: &[u8], why: &str) {
    let refusal = read(datagram).expect_err(why);
    assert_eq!(refusal.errno, Errno::INVAL, "{refusal}");
    assert!(refusal.why.contains(why), "{refusal}");
}

#[test]
fn lengths_that_lie_are_refused() {
    let good = some_association();
    assert!(read(&good).is_ok());
    let aead = find(&good, 18);
    let with = |at: usize, bytes: &[u8]| {
        let mut datagram = good.clone();
        datagram[at..at + bytes.len()].copy_from_slice(bytes);
        datagram
    };
    // The key's bits: one byte more than there is, the most that can be said, and more than any key has.
    refused(&with(aead + 64, &168u32.to_ne_bytes()), "a key shorter than it says");
    refused(&with(aead + 64, &u32::MAX.to_ne_bytes()), "a key longer than any algorithm's");
    // The attribute's own length: less than its header, and more than the message.
    refused(&with(aead - 4, &3u16.to_ne_bytes()), "an attribute is cut off");
    refused(&with(aead - 4, &u16::MAX.to_ne_bytes()), "an attribute is cut off");
    refused(&with(aead, &[b'x'; 64]), "a name without an end");
    for len in [0, 15, 17, 239] {
        let datagram = with(0, &u32::to_ne_bytes(len));
        let whole =
            messages(&datagram).next().expect("a message").and_then(|(header, body)| parse_request(&header, body));
        assert!(whole.is_err(), "{len}");
    }
    refused_message(&with(0, &u32::MAX.to_ne_bytes()));
    refused_message(&with(0, &(good.len() as u32 + 1).to_ne_bytes()));
}

fn refused_message(datagram: &[u8]) {
    let all = messages(datagram).collect::<Vec<_>>();
    assert!(matches!(all[..], [Err(_)]), "an error, and nothing behind it");
}

#[test]
fn a_window_with_a_bitmap_that_is_too_long_is_refused() {
    let mut association = plain(1);
    (association.replay.window, association.replay.bitmap) = (64, vec![0, 0]);
    let datagram = encode_request(&Request::Add(Box::new(association)), 1, true).to_vec();
    let esn = find(&datagram, 23);
    let with = |at: usize, value: u32| {
        let mut datagram = datagram.clone();
        datagram[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        datagram
    };
    refused(&with(esn, 129), "a replay window of more than 4096 packets");
    refused(&with(esn, u32::MAX), "a replay window of more than 4096 packets");
    refused(&with(esn, 3), "a structure is shorter");
    refused(&with(esn + 20, 65), "a replay window longer than its bitmap");
}

#[test]
fn unknown_attributes_are_ignored() {
    let mut datagram = some_association();
    for kind in [27u16, 35, 0x3ff, 0xffff] {
        datagram.extend(8u16.to_ne_bytes());
        datagram.extend(kind.to_ne_bytes());
        datagram.extend([0xff; 4]);
    }
    assert_eq!(read(&with_length(&datagram)), read(&some_association()));
}

#[test]
fn several_requests_in_a_datagram() {
    let [one, two] = [1, 2].map(|spi| Request::Add(Box::new(plain(spi))));
    let mut datagram = encode_request(&one, 1, true).to_vec();
    datagram.extend_from_slice(&encode_request(&Request::Flush(50), 2, false));
    datagram.extend_from_slice(&encode_request(&two, 3, true));
    let all = messages(&datagram).map(|message| {
        let (header, body) = message.expect("a message");
        (header.sequence, parse_request(&header, body).expect("a request"))
    });
    assert_eq!(all.collect::<Vec<_>>(), [(1, one), (2, Request::Flush(50)), (3, two)]);
}

#[test]
fn keys_are_not_shown() {
    let association = plain(1);
    let shown = format!("{association:?}");
    assert!(shown.contains("<20 bytes>"), "{shown}");
    assert!(!shown.contains("171, 171"), "{shown}");
}

/// Bytes that a kernel's own tool sends, made by `ip xfrm state add` of iproute2 6.1.
#[test]
fn what_ip_xfrm_sends() {
    let sent = hex::decode(concat!(
        "6c010000100005007d210a6b0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
        "000000000000000000000000000000000a00000200000000000000000000000000001002320000000a000001000000000000000000000000",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
        "0000000002000100800000000000000060001200726663343130362867636d28616573292900000000000000000000000000000000000000",
        "00000000000000000000000000000000000000000000000000000000a000000080000000000102030405060708090a0b0c0d0e0f10111213",
        "1c001700040000000000000000000000000000000000000080000000",
    ))
    .expect("digits");
    let Ok(Request::Add(association)) = read(&sent) else { panic!("an association: {:?}", read(&sent)) };
    assert_eq!(association.id.spi, 0x1002);
    assert_eq!(association.id.destination.to_string(), "10.0.0.2");
    assert_eq!(association.source.to_string(), "10.0.0.1");
    assert!(association.esn());
    assert_eq!((association.replay.window, association.replay.bitmap.len()), (128, 4));
    let Some(ciphermill_xfrm::Algorithms::Aead { name, key, icv_bits }) = &association.algorithms else {
        panic!("AEAD")
    };
    assert_eq!(
        (name.as_str(), key.expose(), *icv_bits),
        ("rfc4106(gcm(aes))", &(0u8..20).collect::<Vec<_>>()[..], 128)
    );
}
