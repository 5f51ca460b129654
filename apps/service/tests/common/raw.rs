//! A client without manners: the socket and the shared memory as they are.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use ciphermill_channel::{
    Answer, Ask, DATA_AT, ErrorKind, KeyHandle, Outcome, Port, RECORD_LEN, Request, Spin, VERSION, put_ops, read_frame,
    read_results, write_frame,
};
use ciphermill_contract::{Direction, KeyForm, KeyId, Op, OpStatus, Span, Suite};

/// How long a service has for anything at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Where the data of requests with up to 64 operations begin.
pub(crate) const DATA: u32 = DATA_AT as u32 + 4096;

pub(crate) fn suite(name: &str) -> Suite {
    name.parse().expect("a suite")
}

/// A connection.
pub(crate) struct Raw {
    pub(crate) socket: UnixStream,
}

impl Raw {
    /// Connects and says nothing.
    pub(crate) fn connect(path: &Path) -> Raw {
        let socket = UnixStream::connect(path).expect("connects");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time");
        socket.set_write_timeout(Some(PATIENCE)).expect("a time");
        Raw { socket }
    }

    pub(crate) fn greeted(path: &Path) -> Raw {
        Raw::admitted(path).expect("taken in")
    }

    /// Connects and greets; `None` for being turned away.
    pub(crate) fn admitted(path: &Path) -> Option<Raw> {
        let mut raw = Raw::connect(path);
        // The service may have hung up already.
        let _ = write_frame(&raw.socket, &Ask::Hello { version: VERSION }.to_bytes(), &[]);
        match raw.hear() {
            Some((Answer::Welcome { version: VERSION, .. }, _)) => Some(raw),
            Some((Answer::Error { kind: ErrorKind::Exhausted, .. }, _)) | None => None,
            Some((answer, _)) => panic!("{answer:?}"),
        }
    }

    pub(crate) fn say(&self, ask: &Ask<'_>) {
        write_frame(&self.socket, &ask.to_bytes(), &[]).expect("sent");
    }

    /// The next answer, and what came with it; `None` when the service has hung up.
    pub(crate) fn hear(&mut self) -> Option<(Answer, Vec<OwnedFd>)> {
        let (message, descriptors) = read_frame(&mut self.socket).ok()?;
        Some((Answer::from_bytes(&message).expect("an answer"), descriptors))
    }

    pub(crate) fn ask(&mut self, ask: &Ask<'_>) -> Answer {
        self.say(ask);
        self.hear().expect("an answer").0
    }

    pub(crate) fn descriptors(&mut self, data_len: u32) -> (u64, [OwnedFd; 2]) {
        self.say(&Ask::Channel { data_len });
        let (answer, descriptors) = self.hear().expect("an answer");
        let Answer::Channel { channel } = answer else { panic!("{answer:?}") };
        (channel, descriptors.try_into().expect("two"))
    }

    pub(crate) fn port(&mut self, data_len: u32) -> (u64, Port) {
        let (channel, [memory, bell]) = self.descriptors(data_len);
        (channel, Port::new(memory, bell).expect("a channel"))
    }

    pub(crate) fn import(&mut self, suite: Suite, bytes: &[u8]) -> KeyHandle {
        match self.ask(&Ask::Import { suite, form: KeyForm::Secret, bytes }) {
            Answer::Key(handle) => handle,
            answer => panic!("{answer:?}"),
        }
    }

    /// What the service says of itself.
    pub(crate) fn status(&mut self) -> serde_json::Value {
        match self.ask(&Ask::Status) {
            Answer::Text(text) => serde_json::from_str(&text).expect("JSON"),
            answer => panic!("{answer:?}"),
        }
    }

    /// Sends bytes as far as they go: the service may hang up meanwhile.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    /// Reads until the service hangs up.
    pub(crate) fn wait_for_end(&mut self) {
        let mut rest = Vec::new();
        match self.socket.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "not hung up: {error}"),
        }
    }
}

/// One operation of AES-128-GCM over `text`, in place, at the start of the arena; the tag is behind it.
pub(crate) fn seal_op(key: KeyHandle, iv: &[u8; 12], len: u32) -> Op {
    let id = KeyId { slot: key.slot, generation: key.generation };
    Op::in_place(id, Span::new(0, len)).with_tag(len, 16).with_iv(iv)
}

/// A request of one suite whose operations are at [`DATA_AT`] and whose arena is at [`DATA`].
pub(crate) fn request(suite: Suite, ops: u32, data_len: u32) -> Request {
    Request {
        suite,
        direction: Direction::Encrypt,
        ops,
        columns: false,
        ops_at: DATA_AT as u32,
        data_at: DATA,
        data_len,
    }
}

/// Puts operations and data where [`request`] has them.
pub(crate) fn fill(port: &Port, ops: &[Op], data: &[u8]) {
    assert!(ops.len() * RECORD_LEN <= 4096);
    put_ops(port.memory(), DATA_AT, ops.iter().copied()).expect("fits");
    assert!(port.memory().write(DATA as usize, data));
}

/// Waits for an outcome.
pub(crate) fn outcome(port: &Port, number: u32) -> Outcome {
    let begun = Instant::now();
    port.wait(number, (&mut Spin::new(), Duration::from_micros(50)), || begun.elapsed() < PATIENCE)
        .expect("answered in time")
}

/// The first operation's status.
pub(crate) fn status_of(port: &Port) -> OpStatus {
    let mut first = OpStatus::Pending;
    read_results(port.memory(), DATA_AT, 1, |_, status, _, _| first = status).expect("within");
    first
}

/// Seals a text with AES-128-GCM: what became of the request and of the operation, and text and tag.
pub(crate) fn seal(port: &mut Port, key: KeyHandle, iv: &[u8; 12], text: &[u8]) -> (Outcome, OpStatus, Vec<u8>) {
    let mut data = text.to_vec();
    data.resize(text.len() + 16, 0);
    fill(port, &[seal_op(key, iv, text.len() as u32)], &data);
    let number = port.submit(request(suite("aes-128-gcm"), 1, data.len() as u32)).expect("a slot");
    let outcome = outcome(port, number);
    assert!(port.memory().read(DATA as usize, &mut data));
    (outcome, status_of(port), data)
}
