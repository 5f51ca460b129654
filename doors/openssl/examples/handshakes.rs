//! Full TLS handshakes of many clients at once against a server: how many a second, and how long one takes.
//!
//! `handshakes ADDRESS CLIENTS SECONDS [PATH]`: each client connects, shakes hands, fetches PATH if one is given, and begins anew. One
//! thread drives them all. The clients are those of rustls, and of one signature in 64 alone they look whether it is right,
//! so that they take less of the machine than the server does.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a measuring program ends where anything goes wrong")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, io, process};

use rustix::event::epoll;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};

/// Takes any certificate: servers here sign their own.
#[derive(Debug)]
struct AnyServer {
    provider: Arc<CryptoProvider>,
    signatures: AtomicU32,
}

impl AnyServer {
    /// Whether a signature is one of those that are looked at.
    fn looks(&self) -> bool {
        self.signatures.fetch_add(1, Ordering::Relaxed).is_multiple_of(64)
    }
}

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if !self.looks() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if !self.looks() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// What all clients do.
struct Job {
    config: Arc<ClientConfig>,
    address: SocketAddr,
    path: Option<String>,
}

/// A client, between its connection's beginning and end.
struct Client {
    tls: ClientConnection,
    tcp: TcpStream,
    begun: Instant,
    /// How long the handshake took, once it is done.
    taken: Option<Duration>,
}

impl Client {
    fn new(job: &Job) -> Client {
        let begun = Instant::now();
        let tcp = TcpStream::connect(job.address).expect("a connection");
        tcp.set_nodelay(true).expect("set");
        tcp.set_nonblocking(true).expect("set");
        let name = ServerName::try_from("localhost").expect("a name");
        let mut tls = ClientConnection::new(Arc::clone(&job.config), name).expect("a connection");
        if let Some(path) = &job.path {
            write!(tls.writer(), "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("kept until it is sent");
        }
        Client { tls, tcp, begun, taken: None }
    }

    /// Goes on as far as it can; whether it is done.
    fn step(&mut self, job: &Job) -> io::Result<bool> {
        loop {
            while self.tls.wants_write() {
                match self.tls.write_tls(&mut self.tcp) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    written => written?,
                };
            }
            if !self.tls.is_handshaking() && self.taken.is_none() {
                self.taken = Some(self.begun.elapsed());
            }
            if self.taken.is_some() && job.path.is_none() && !self.tls.wants_write() {
                return Ok(true);
            }
            match self.tls.read_tls(&mut self.tcp) {
                Ok(0) if self.taken.is_some() => return Ok(true),
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                read => read?,
            };
            let state = self.tls.process_new_packets().map_err(io::Error::other)?;
            let mut received = vec![0; state.plaintext_bytes_to_read()];
            self.tls.reader().read_exact(&mut received)?;
        }
    }
}

fn main() {
    let arguments: Vec<_> = env::args().collect();
    let [_, address, clients, seconds, path @ ..] = arguments.as_slice() else {
        eprintln!("usage: handshakes ADDRESS CLIENTS SECONDS [PATH]");
        process::exit(2);
    };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = AnyServer { provider: Arc::clone(&provider), signatures: AtomicU32::new(0) };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    let address = address.parse().expect("an address and a port");
    let job = Job { config: Arc::new(config), address, path: path.first().cloned() };
    let seconds: f64 = seconds.parse().expect("a number of seconds");
    drive(&job, clients.parse().expect("a number of clients"), Duration::from_secs_f64(seconds));
}

fn drive(job: &Job, clients: usize, time: Duration) {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
    let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
    let begin = |at: usize| {
        let mut client = Client::new(job);
        epoll::add(&poll, client.tcp.as_fd(), epoll::EventData::new_u64(at as u64), flags).expect("a descriptor");
        client.step(job).expect("a greeting");
        client
    };
    let mut slots: Vec<Client> = (0..clients).map(begin).collect();
    let (begun, mut taken, mut failed) = (Instant::now(), Vec::new(), 0_u64);
    let mut events: Vec<epoll::Event> = Vec::with_capacity(clients);
    let wait = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
    while begun.elapsed() < time {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&wait)).expect("events");
        for event in &events {
            let at = event.data.u64() as usize;
            match slots[at].step(job) {
                Ok(false) => continue,
                Ok(true) => taken.extend(slots[at].taken),
                Err(error) => {
                    failed += 1;
                    if failed < 4 {
                        eprintln!("a handshake failed: {error}");
                    }
                }
            }
            slots[at] = begin(at);
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    taken.sort_unstable();
    let at = |share: f64| taken.get((taken.len() as f64 * share) as usize).copied().unwrap_or_default();
    let rate = taken.len() as f64 / seconds;
    println!(
        "{rate:.0} handshakes a second, {failed} failed; half took at most {:?}, 99 of 100 {:?}",
        at(0.5),
        at(0.99)
    );
}
