//! Control messages: what a client asks for over the socket, and what the service answers. Every message has an answer, but for
//! [`Ask::Forget`] and [`Ask::Close`].
//!
//! A message is a kind and a body of fixed fields in little endian; what is behind them is an error. [`crate::frame`] has its length.

use core::fmt;

use ciphermill_contract::limits::{KEY_LEN_MAX, SUITE_ORDINALS_MAX};
use ciphermill_contract::{KeyForm, Suite};
use zeroize::Zeroizing;

use crate::offer::{OFFER_LEN, Offer};
use crate::request::{suite_of_words, suite_words};

/// The version of the protocol. A client and a service of different ones do not talk to each other.
pub const VERSION: u32 = 2;

/// Bytes of a message from a client at most: a key, and what stands before it.
pub(crate) const ASK_LEN_MAX: usize = KEY_LEN_MAX + 64;

/// Bytes of a key's name.
pub const NAME_LEN: core::ops::RangeInclusive<usize> = 1..=255;

/// Bytes of a text in an answer at most.
pub const TEXT_LEN_MAX: usize = 4 << 20;

/// Bytes of a message from a service at most.
pub(crate) const ANSWER_LEN_MAX: usize = TEXT_LEN_MAX + 64;

const _: () = assert!(SUITE_ORDINALS_MAX * OFFER_LEN + 64 < ANSWER_LEN_MAX);

/// The name of a key within one connection. Another connection's keys have no name here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyHandle {
    /// Index in the connection's table.
    pub slot: u32,
    /// Generation of the slot; zero is never valid.
    pub generation: u32,
}

/// What a client asks for.
#[derive(Clone, PartialEq, Eq)]
pub enum Ask<'a> {
    /// The first message of every connection: the client's version. Answered with [`Answer::Welcome`].
    Hello {
        /// [`VERSION`].
        version: u32,
    },
    /// A channel with so many bytes for operations and data. Answered with [`Answer::Channel`], with which two descriptors come.
    Channel {
        /// Bytes.
        data_len: u32,
    },
    /// A key's bytes for a suite, to be kept by the service until this connection forgets it or ends. Answered with [`Answer::Key`].
    Import {
        /// The suite that it is for.
        suite: Suite,
        /// What the bytes are.
        form: KeyForm,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A key of the service's keystore for a suite, by its name. Answered with [`Answer::Key`].
    Key {
        /// The suite that it is for.
        suite: Suite,
        /// The name.
        name: &'a str,
    },
    /// That a key is not used any more. Not answered.
    Forget {
        /// The key.
        key: KeyHandle,
    },
    /// That a channel is not used any more. Not answered.
    Close {
        /// Its number in this connection.
        channel: u64,
    },
    /// How the service is. Answered with [`Answer::Text`]: JSON.
    Status,
    /// Who is connected. Answered with [`Answer::Text`]: JSON.
    Clients,
    /// What the service counts. Answered with [`Answer::Text`]: Prometheus's text.
    Metrics,
    /// Which keys of the service's keystore this client may use by their names. Answered with [`Answer::Text`]: JSON.
    Keys,
    /// That the service ends when its clients have gone or what they asked for is done. Answered with [`Answer::Done`].
    Drain,
}

/// What a service answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The service talks to this client.
    Welcome {
        /// [`VERSION`] of the service.
        version: u32,
        /// Bytes that a channel may have for operations and data.
        data_len_max: u32,
        /// What the service runs.
        offers: Vec<Offer>,
    },
    /// A channel; its memory and its bell come as descriptors.
    Channel {
        /// Its number in this connection.
        channel: u64,
    },
    /// A key.
    Key(KeyHandle),
    /// It is done.
    Done,
    /// What was asked for, as text.
    Text(String),
    /// It is not done, and why.
    Error {
        /// What kind of error it is.
        kind: ErrorKind,
        /// What happened.
        text: String,
    },
}

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ErrorKind {
    /// The client's message is none, or comes at the wrong time.
    Message = 1,
    /// The client's version is not the service's.
    Version = 2,
    /// A policy says no.
    Refused = 3,
    /// A limit is reached.
    Exhausted = 4,
    /// The service failed.
    Fault = 5,
    /// The service is about to end.
    Ending = 6,
}

/// A message that is none: the rule that it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMessage(pub &'static str);

impl fmt::Display for BadMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadMessage {}

/// A key's bytes are never printed.
impl fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ask::Hello { version } => write!(f, "Hello({version})"),
            Ask::Channel { data_len } => write!(f, "Channel({data_len})"),
            Ask::Import { suite, form, bytes } => write!(f, "Import({suite}, {form:?}, {} bytes)", bytes.len()),
            Ask::Key { suite, name } => write!(f, "Key({suite}, {name})"),
            Ask::Forget { key } => write!(f, "Forget({key:?})"),
            Ask::Close { channel } => write!(f, "Close({channel})"),
            Ask::Status => f.write_str("Status"),
            Ask::Clients => f.write_str("Clients"),
            Ask::Metrics => f.write_str("Metrics"),
            Ask::Keys => f.write_str("Keys"),
            Ask::Drain => f.write_str("Drain"),
        }
    }
}

impl<'a> Ask<'a> {
    /// The message, wiped when it is dropped.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::new());
        let mut put = |kind: u8, parts: &[&[u8]]| {
            // Once, so that nothing is left behind, and no more than is wiped.
            bytes.reserve_exact(1 + parts.iter().map(|part| part.len()).sum::<usize>());
            bytes.push(kind);
            parts.iter().for_each(|part| bytes.extend_from_slice(part));
        };
        match self {
            Ask::Hello { version } => put(1, &[b"ciphermill", &version.to_le_bytes()]),
            Ask::Channel { data_len } => put(2, &[&data_len.to_le_bytes()]),
            Ask::Import { suite, form, bytes } => {
                let [ordinal, radix] = suite_words(*suite);
                put(3, &[&ordinal.to_le_bytes(), &radix.to_le_bytes(), &[form_byte(*form)], bytes]);
            }
            Ask::Key { suite, name } => {
                let [ordinal, radix] = suite_words(*suite);
                put(4, &[&ordinal.to_le_bytes(), &radix.to_le_bytes(), name.as_bytes()]);
            }
            Ask::Forget { key } => put(5, &[&key.slot.to_le_bytes(), &key.generation.to_le_bytes()]),
            Ask::Status => put(6, &[]),
            Ask::Clients => put(7, &[]),
            Ask::Metrics => put(8, &[]),
            Ask::Drain => put(9, &[]),
            Ask::Close { channel } => put(10, &[&channel.to_le_bytes()]),
            Ask::Keys => put(11, &[]),
        }
        bytes
    }

    /// The message that these bytes are.
    ///
    /// # Errors
    /// [`BadMessage`] for anything that [`Ask::to_bytes`] does not write.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Ask<'a>, BadMessage> {
        let (kind, mut body) = split(bytes)?;
        let ask = match kind {
            1 => {
                if body.take(10)? != b"ciphermill" {
                    return Err(BadMessage("the first message must name the protocol"));
                }
                Ask::Hello { version: body.word()? }
            }
            2 => Ask::Channel { data_len: body.word()? },
            3 => {
                let suite = body.suite()?;
                let form = byte_form(body.byte()?)?;
                let bytes = body.rest();
                if bytes.is_empty() || bytes.len() > KEY_LEN_MAX {
                    return Err(BadMessage("a key must have 1 to 16,384 bytes"));
                }
                Ask::Import { suite, form, bytes }
            }
            4 => {
                let (suite, name) = (body.suite()?, body.rest());
                if !NAME_LEN.contains(&name.len()) {
                    return Err(BadMessage("a key's name must have 1 to 255 bytes"));
                }
                Ask::Key {
                    suite,
                    name: core::str::from_utf8(name).map_err(|_| BadMessage("a key's name must be UTF-8"))?,
                }
            }
            5 => Ask::Forget { key: body.key()? },
            6 => Ask::Status,
            7 => Ask::Clients,
            8 => Ask::Metrics,
            9 => Ask::Drain,
            10 => Ask::Close { channel: body.long()? },
            11 => Ask::Keys,
            _ => return Err(BadMessage("the message is of no kind that there is")),
        };
        body.end().map(|()| ask)
    }
}

impl Answer {
    /// The message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Answer::Welcome { version, data_len_max, offers } => {
                bytes.push(1);
                bytes.extend_from_slice(&version.to_le_bytes());
                bytes.extend_from_slice(&data_len_max.to_le_bytes());
                offers.iter().for_each(|offer| bytes.extend_from_slice(&offer.to_bytes()));
            }
            Answer::Channel { channel } => {
                bytes.push(2);
                bytes.extend_from_slice(&channel.to_le_bytes());
            }
            Answer::Key(key) => {
                bytes.push(3);
                bytes.extend_from_slice(&key.slot.to_le_bytes());
                bytes.extend_from_slice(&key.generation.to_le_bytes());
            }
            Answer::Done => bytes.push(4),
            Answer::Text(text) => {
                bytes.push(5);
                bytes.extend_from_slice(clip(text));
            }
            Answer::Error { kind, text } => {
                bytes.extend_from_slice(&[6, *kind as u8]);
                bytes.extend_from_slice(clip(text));
            }
        }
        bytes
    }

    /// The message that these bytes are.
    ///
    /// # Errors
    /// [`BadMessage`] for anything that [`Answer::to_bytes`] does not write.
    pub fn from_bytes(bytes: &[u8]) -> Result<Answer, BadMessage> {
        let (kind, mut body) = split(bytes)?;
        let answer = match kind {
            1 => {
                let (version, data_len_max) = (body.word()?, body.word()?);
                let (offers, rest) = body.rest().as_chunks::<OFFER_LEN>();
                if !rest.is_empty() {
                    return Err(BadMessage("the list of suites ends within one"));
                }
                Answer::Welcome { version, data_len_max, offers: offers.iter().filter_map(Offer::from_bytes).collect() }
            }
            2 => Answer::Channel { channel: body.long()? },
            3 => Answer::Key(body.key()?),
            4 => Answer::Done,
            5 => Answer::Text(text(body.rest())),
            6 => Answer::Error { kind: error_kind(body.byte()?)?, text: text(body.rest()) },
            _ => return Err(BadMessage("the message is of no kind that there is")),
        };
        body.end().map(|()| answer)
    }
}

/// Texts are for people: what is longer than a message may be is cut.
fn clip(text: &str) -> &[u8] {
    &text.as_bytes()[..text.floor_char_boundary(TEXT_LEN_MAX)]
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn form_byte(form: KeyForm) -> u8 {
    match form {
        KeyForm::Secret => 0,
        KeyForm::Private => 1,
        KeyForm::Public => 2,
        // Asked for by [`Ask::Key`]; as an import it is refused where it arrives.
        KeyForm::Reference => 3,
    }
}

fn byte_form(byte: u8) -> Result<KeyForm, BadMessage> {
    match byte {
        0 => Ok(KeyForm::Secret),
        1 => Ok(KeyForm::Private),
        2 => Ok(KeyForm::Public),
        _ => Err(BadMessage("a key must be secret, private or public")),
    }
}

fn error_kind(byte: u8) -> Result<ErrorKind, BadMessage> {
    use ErrorKind::{Ending, Exhausted, Fault, Message, Refused, Version};
    [Message, Version, Refused, Exhausted, Fault, Ending]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
        .ok_or(BadMessage("the error is of no kind that there is"))
}

fn split(bytes: &[u8]) -> Result<(u8, Body<'_>), BadMessage> {
    let (kind, body) = bytes.split_first().ok_or(BadMessage("the message is empty"))?;
    Ok((*kind, Body(body)))
}

/// What is left of a message.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], BadMessage> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(BadMessage("the message ends within a field"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, BadMessage> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn word(&mut self) -> Result<u32, BadMessage> {
        self.take(4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn long(&mut self) -> Result<u64, BadMessage> {
        Ok(u64::from(self.word()?) | u64::from(self.word()?) << 32)
    }

    fn suite(&mut self) -> Result<Suite, BadMessage> {
        let words = [self.word()?, self.word()?];
        suite_of_words(words).ok_or(BadMessage("the key's suite must be one that there is"))
    }

    fn key(&mut self) -> Result<KeyHandle, BadMessage> {
        Ok(KeyHandle { slot: self.word()?, generation: self.word()? })
    }

    fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }

    fn end(&self) -> Result<(), BadMessage> {
        if self.0.is_empty() { Ok(()) } else { Err(BadMessage("the message goes on behind its last field")) }
    }
}

#[cfg(test)]
mod tests {
    use ciphermill_contract::suite::{AesSize, Ff1};
    use ciphermill_contract::{Cost, Directions};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_asked_comes_through() {
        let key = KeyHandle { slot: 7, generation: 9 };
        let asks = [
            Ask::Hello { version: VERSION },
            Ask::Channel { data_len: 1 << 20 },
            Ask::Import { suite: Suite::Random, form: KeyForm::Private, bytes: &[5; KEY_LEN_MAX] },
            Ask::Import {
                suite: Suite::Fpe(Ff1 { size: AesSize::Aes128, radix: 36 }),
                form: KeyForm::Secret,
                bytes: &[5; 16],
            },
            Ask::Key { suite: "aes-256-gcm".parse().expect("a suite"), name: "payments" },
            Ask::Forget { key },
            Ask::Close { channel: 1 << 40 },
            Ask::Status,
            Ask::Clients,
            Ask::Metrics,
            Ask::Keys,
            Ask::Drain,
        ];
        for ask in asks {
            let bytes = ask.to_bytes();
            assert!(bytes.len() <= ASK_LEN_MAX);
            assert_eq!(Ask::from_bytes(&bytes), Ok(ask.clone()));
            // Every message cut short is another one or none.
            for len in 0..bytes.len().min(40) {
                assert_ne!(Ask::from_bytes(&bytes[..len]), Ok(ask.clone()));
            }
        }
    }

    #[test]
    fn what_is_answered_comes_through() {
        let (many, alone) = (Cost::new(100.0, 2.5, 0.25), Cost::new(10.0, 20.0, 0.5));
        let offers = Suite::all().map(|suite| Offer { suite, directions: Directions::BOTH, step: 8, many, alone });
        let offers = offers.collect();
        let answers = [
            Answer::Welcome { version: VERSION, data_len_max: 1 << 24, offers },
            Answer::Channel { channel: u64::MAX - 1 },
            Answer::Key(KeyHandle { slot: 1, generation: 2 }),
            Answer::Done,
            Answer::Text("{}".to_owned()),
            Answer::Error { kind: ErrorKind::Exhausted, text: "too many".to_owned() },
        ];
        for answer in answers {
            let bytes = answer.to_bytes();
            assert!(bytes.len() <= ANSWER_LEN_MAX);
            assert_eq!(Answer::from_bytes(&bytes), Ok(answer));
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let answer = Answer::Text("é".repeat(TEXT_LEN_MAX / 2 + 1));
        let bytes = answer.to_bytes();
        assert!(bytes.len() <= ANSWER_LEN_MAX);
        assert_eq!(Answer::from_bytes(&bytes), Ok(Answer::Text("é".repeat(TEXT_LEN_MAX / 2))));
    }

    #[test]
    fn keys_are_not_printed() {
        let shown = format!("{:?}", Ask::Import { suite: Suite::Random, form: KeyForm::Secret, bytes: &[0xab; 16] });
        assert_eq!(shown, format!("Import({}, Secret, 16 bytes)", Suite::Random));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let import = |form, len| [3, 0, 0, 0, 0, 0, 0, 0, 0, form].into_iter().chain(vec![1; len]).collect::<Vec<u8>>();
        let (long, empty, form) = (import(0, KEY_LEN_MAX + 1), import(0, 0), import(3, 16));
        assert!(Ask::from_bytes(&import(0, KEY_LEN_MAX)).is_ok());
        let no_suite = [&[3, 0x7f, 2, 0, 0, 0, 0, 0, 0, 0][..], &[1; 16]].concat();
        let no_text = [&[4, 0, 0, 0, 0, 0, 0, 0, 0][..], &[0xff]].concat();
        let bad: [&[u8]; 10] = [&[], &[0], &[12], &[6, 0], &no_text[..9], &no_text, &long, &empty, &form, &no_suite];
        for bytes in bad {
            assert!(Ask::from_bytes(bytes).is_err(), "{:?}", &bytes[..bytes.len().min(4)]);
        }
        assert!(Ask::from_bytes(b"\x01openssl...\x01\0\0\0").is_err());
    }

    proptest! {
        /// Whatever is read as a message is written as it was read.
        #[test]
        fn any_bytes_are_refused_or_a_message(kind in 0u8..14, body: Vec<u8>) {
            let bytes: Vec<u8> = core::iter::once(kind).chain(body).collect();
            if let Ok(ask) = Ask::from_bytes(&bytes) {
                prop_assert_eq!(&ask.to_bytes()[..], &bytes[..]);
            }
            let _ = Answer::from_bytes(&bytes);
        }
    }
}
