//! Control messages of the service: what is read as one is written as it was read, and a stream in pieces gives the messages that it has
//! as a whole.

use std::io::{ErrorKind, Write as _};
use std::os::unix::net::UnixStream;

use ciphermill_channel::{Answer, Ask, FrameError, Frames, KeyHandle, VERSION};
use ciphermill_contract::{KeyForm, Suite};

/// # Panics
/// When a promise is broken.
pub fn run(bytes: &[u8]) {
    let Some((what, rest)) = bytes.split_first() else { return };
    match what % 3 {
        0 => {
            if let Ok(ask) = Ask::from_bytes(rest) {
                assert_eq!(ask.to_bytes()[..], *rest, "{ask:?}");
            }
        }
        1 => {
            // Texts are made UTF-8, and suites that are not known are left out: what is left comes through.
            if let Ok(answer) = Answer::from_bytes(rest) {
                assert_eq!(Answer::from_bytes(&answer.to_bytes()), Ok(answer));
            }
        }
        _ => stream(usize::from(*what / 3) + 1, rest),
    }
}

/// Sends a stream in pieces of so many bytes.
fn stream(piece: usize, bytes: &[u8]) {
    let (mut client, service) = UnixStream::pair().expect("a pair");
    service.set_nonblocking(true).expect("a flag");
    let mut frames = Frames::new();
    let mut got = Vec::new();
    let mut refused = None;
    for piece in bytes.chunks(piece) {
        client.write_all(piece).expect("there is room");
        match frames.fill(&service) {
            Ok(goes_on) => assert!(goes_on, "the other side is there"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        loop {
            match frames.next(<[u8]>::to_vec) {
                Ok(Some(message)) => got.push(message),
                Ok(None) => break,
                Err(FrameError::TooLong { len, max }) => {
                    assert!(len > max);
                    refused = Some(len);
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        if refused.is_some() {
            break;
        }
    }
    let mut rest = bytes;
    for message in &got {
        assert_eq!(head(rest), Some(message.len()));
        assert_eq!(rest[4..4 + message.len()], **message);
        rest = &rest[4 + message.len()..];
    }
    match (refused, head(rest)) {
        (Some(len), head) => assert_eq!(head, Some(len)),
        (None, Some(len)) => assert!(rest.len() < 4 + len, "a whole message was not handed over"),
        (None, None) => {}
    }
}

/// The length that stands first in a stream.
fn head(stream: &[u8]) -> Option<usize> {
    stream.first_chunk().map(|head| u32::from_le_bytes(*head) as usize)
}

/// Inputs to begin with: a message of each kind, alone and in a stream.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let asks = [
        Ask::Hello { version: VERSION },
        Ask::Channel { data_len: 1 << 16 },
        Ask::Import { suite: Suite::Random, form: KeyForm::Secret, bytes: &[7; 16] },
        Ask::Key { suite: Suite::Random, name: "payments" },
        Ask::Forget { key: KeyHandle { slot: 1, generation: 2 } },
        Ask::Close { channel: 3 },
        Ask::Status,
        Ask::Keys,
        Ask::Drain,
    ];
    let answers = [
        Answer::Welcome { version: VERSION, data_len_max: 1 << 20, offers: Vec::new() },
        Answer::Channel { channel: 7 },
        Answer::Key(KeyHandle { slot: 1, generation: 2 }),
        Answer::Done,
        Answer::Text("{}".to_owned()),
    ];
    let asks = asks.map(|ask| ask.to_bytes().to_vec());
    let streams = [2u8, 5, 32].map(|what| {
        let framed = asks.iter().flat_map(|ask| [&(ask.len() as u32).to_le_bytes()[..], ask].concat());
        core::iter::once(what).chain(framed).collect()
    });
    let asks = asks.iter().map(|ask| [&[0], &ask[..]].concat());
    let answers = answers.iter().map(|answer| [&[1], &answer.to_bytes()[..]].concat());
    asks.chain(answers).chain(streams).collect()
}
