//! TLS connections between two ends in this process, over memory.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;

use foreign_types::ForeignTypeRef;
use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::hash::MessageDigest;
use openssl::pkey::{Id, PKey, Private};
use openssl::ssl::{
    ErrorCode, Ssl, SslContext, SslContextBuilder, SslMethod, SslMode, SslRef, SslStream, SslVerifyMode, SslVersion,
};
use openssl::x509::{X509, X509NameBuilder};

/// `SSL_MODE_ASYNC` and `SSL_ERROR_WANT_ASYNC` of `openssl/ssl.h`.
const MODE_ASYNC: u32 = 0x100;
const WANT_ASYNC: c_int = 9;

unsafe extern "C" {
    fn SSL_get_all_async_fds(ssl: *mut openssl_sys::SSL, fds: *mut c_int, count: *mut usize) -> c_int;
}

type Pipe = Rc<RefCell<VecDeque<u8>>>;

/// One end of a connection over memory.
pub(crate) struct End {
    from: Pipe,
    to: Pipe,
}

impl Read for End {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self.from.borrow_mut().read(room)? {
            0 => Err(ErrorKind::WouldBlock.into()),
            len => Ok(len),
        }
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How far an end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It waits for the other end.
    Waits,
    /// Its job is paused.
    Paused,
    Done,
}

/// A connection, its ends driven in turns.
pub(crate) struct Connection {
    pub(crate) server: SslStream<End>,
    pub(crate) client: SslStream<End>,
    pub(crate) server_done: bool,
    pub(crate) server_paused: bool,
    pub(crate) client_done: bool,
}

impl Connection {
    pub(crate) fn new(server: &SslContext, client: &SslContext) -> Connection {
        let (one, other) = (Pipe::default(), Pipe::default());
        let stream = |context: &SslContext, from: &Pipe, to: &Pipe| {
            let end = End { from: Rc::clone(from), to: Rc::clone(to) };
            SslStream::new(Ssl::new(context).expect("a connection"), end).expect("a stream")
        };
        Connection {
            server: stream(server, &one, &other),
            client: stream(client, &other, &one),
            server_done: false,
            server_paused: false,
            client_done: false,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.server_done && self.client_done
    }

    /// Lets the server go on.
    pub(crate) fn step_server(&mut self) -> Step {
        let step = result(self.server.accept());
        self.server_done = step == Step::Done;
        self.server_paused = step == Step::Paused;
        step
    }

    /// Lets the client go on.
    pub(crate) fn step_client(&mut self) -> Step {
        let step = result(self.client.connect());
        self.client_done = step == Step::Done;
        step
    }

    /// Sends a message each way, and compares it.
    pub(crate) fn exchange(&mut self, message: &[u8]) {
        let pass = |from: &mut SslStream<End>, to: &mut SslStream<End>| {
            from.write_all(message).expect("sent");
            let mut received = vec![0; message.len()];
            to.read_exact(&mut received).expect("received");
            assert_eq!(received, message);
        };
        pass(&mut self.server, &mut self.client);
        pass(&mut self.client, &mut self.server);
    }
}

fn result(step: Result<(), openssl::ssl::Error>) -> Step {
    match step {
        Ok(()) => Step::Done,
        Err(error) if error.code().as_raw() == WANT_ASYNC => Step::Paused,
        Err(error) if [ErrorCode::WANT_READ, ErrorCode::WANT_WRITE].contains(&error.code()) => Step::Waits,
        Err(error) => panic!("a handshake failed: {error:?}"),
    }
}

/// The descriptors that a paused end is waited for with.
pub(crate) fn async_fds(ssl: &SslRef) -> Vec<c_int> {
    let (mut fds, mut count) = ([-1; 8], 8);
    // SAFETY: the connection is alive, and there is room for so many.
    let found = unsafe { SSL_get_all_async_fds(ssl.as_ptr(), fds.as_mut_ptr(), &mut count) };
    // Before the first job there is nothing to ask.
    if found == 1 { fds[..count].to_vec() } else { Vec::new() }
}

/// A private key and a certificate that it has signed.
pub(crate) fn certificate(key: &PKey<Private>) -> X509 {
    let mut name = X509NameBuilder::new().expect("a name");
    name.append_entry_by_text("CN", "localhost").expect("an entry");
    let name = name.build();
    let mut builder = X509::builder().expect("a certificate");
    builder.set_version(2).expect("its version");
    builder.set_serial_number(&BigNum::from_u32(1).and_then(|n| n.to_asn1_integer()).expect("a number")).expect("set");
    builder.set_subject_name(&name).expect("set");
    builder.set_issuer_name(&name).expect("set");
    builder.set_not_before(&Asn1Time::days_from_now(0).expect("a time")).expect("set");
    builder.set_not_after(&Asn1Time::days_from_now(30).expect("a time")).expect("set");
    builder.set_pubkey(key).expect("set");
    let digest = if key.id() == Id::ED25519 { MessageDigest::null() } else { MessageDigest::sha256() };
    builder.sign(key, digest).expect("signed");
    builder.build()
}

/// A server's context.
pub(crate) fn server(key: &PKey<Private>, version: SslVersion, is_async: bool) -> SslContext {
    let mut context = SslContext::builder(SslMethod::tls_server()).expect("a context");
    context.set_private_key(key).expect("a key");
    context.set_certificate(&certificate(key)).expect("its certificate");
    context.check_private_key().expect("they belong together");
    set(&mut context, version, is_async);
    context.build()
}

/// A client's context.
pub(crate) fn client(version: SslVersion, is_async: bool) -> SslContext {
    let mut context = SslContext::builder(SslMethod::tls_client()).expect("a context");
    context.set_verify(SslVerifyMode::NONE);
    set(&mut context, version, is_async);
    context.build()
}

fn set(context: &mut SslContextBuilder, version: SslVersion, is_async: bool) {
    context.set_min_proto_version(Some(version)).expect("a version");
    context.set_max_proto_version(Some(version)).expect("a version");
    if is_async {
        context.set_mode(SslMode::from_bits_retain(MODE_ASYNC.into()));
    }
}
