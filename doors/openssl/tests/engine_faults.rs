//! Engines that fail under applications: what these get is right, or an error of OpenSSL's, in time. Each kind of failure has a process
//! of its own, since a process opens one mill.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]
#![allow(unsafe_code, reason = "functions that the crate openssl does not have")]

mod support;

use std::env;
use std::ffi::{c_char, c_int, c_void};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use foreign_types::ForeignTypeRef;
use openssl::cipher::Cipher;
use openssl::cipher_ctx::CipherCtx;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::sign::{Signer, Verifier};
use openssl::ssl::{ErrorCode, SslContext, SslVersion};
use support::connection::{Connection, client, server};

const CONNECTIONS: usize = 24;

/// After this long a process is taken to hang.
const TIME_MAX: Duration = Duration::from_secs(240);

/// The environment in which a process does its work: what it may get of its engines.
const EXPECTED: &str = "CIPHERMILL_TEST_EXPECTED";

/// What an application may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// Its keys' operations, whatever the engines do; of ciphers, whose text may be gone by then, an error as well.
    All,
    /// As well wrong bits of an engine that says that all is well: the other end sees those of keys' operations.
    WrongBits,
}

/// Ciphers of a connection: one that is never in the mill, and one that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suites {
    ChaCha20,
    Aes,
}

unsafe extern "C" {
    fn SSL_set_cipher_list(ssl: *mut openssl_sys::SSL, suites: *const c_char) -> c_int;
    fn RAND_set_DRBG_type(
        context: *mut c_void,
        generator: *const c_char,
        properties: *const c_char,
        cipher: *const c_char,
        digest: *const c_char,
    ) -> c_int;
    fn SSL_set_ciphersuites(ssl: *mut openssl_sys::SSL, suites: *const c_char) -> c_int;
}

impl Suites {
    /// A connection that takes these alone.
    fn connection(self, server: &SslContext, client: &SslContext) -> Connection {
        let (before, since) = match self {
            Suites::ChaCha20 => (c"ECDHE+CHACHA20", c"TLS_CHACHA20_POLY1305_SHA256"),
            Suites::Aes => (c"ECDHE+AESGCM", c"TLS_AES_128_GCM_SHA256"),
        };
        let connection = Connection::new(server, client);
        // SAFETY: a connection that is alive, and strings.
        unsafe {
            let ssl = connection.client.ssl().as_ptr();
            assert_eq!(SSL_set_cipher_list(ssl, before.as_ptr()), 1);
            assert_eq!(SSL_set_ciphersuites(ssl, since.as_ptr()), 1);
        }
        connection
    }
}

/// The engine that fails: one that does public keys here.
fn engine() -> &'static str {
    if support::has_lanes() { "lanes" } else { "library" }
}

/// Runs applications in a process with these engines.
fn with_engines(engines: &str, expected: Expected) {
    let mut command = Command::new(env::current_exe().expect("the test's own path"));
    command.args(["--ignored", "--exact", "applications_in_a_process_of_their_own", "--nocapture"]);
    command.env("CIPHERMILL_OPENSSL_ENGINES", engines).env(EXPECTED, format!("{expected:?}"));
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("a process");
    let (status, errors) = ended(child, engines);
    assert!(status.success(), "{engines}: {status}\n{errors}");
    assert!(errors.contains("all done"), "{engines}: nothing was tried\n{errors}");
}

/// Waits for a process, and kills one that hangs.
fn ended(mut child: Child, engines: &str) -> (std::process::ExitStatus, String) {
    let mut pipe = child.stderr.take().expect("a pipe");
    let reader = thread::spawn(move || std::io::read_to_string(&mut pipe).unwrap_or_default());
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return (status, reader.join().expect("what it said"));
        }
        if start.elapsed() > TIME_MAX {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{engines}: still there after {TIME_MAX:?}\n{}", reader.join().expect("what it said"));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The engine alone, so that `default` is what is left; then with another one behind it, which the mill turns to; then posing as a
/// device, which has threads of its own.
fn fails_and_nobody_notices(what: &str) {
    for every in [4, 9] {
        with_engines(&format!("fault:{what}:{every}:{}", engine()), Expected::All);
    }
    with_engines(&format!("fault:{what}:5:{},library", engine()), Expected::All);
    with_engines(&format!("fault:{what}:5:{}:gpu", engine()), Expected::All);
    with_engines(&format!("fault:{what}:5:{}:gpu,library", engine()), Expected::All);
}

#[test]
fn an_engine_that_takes_no_keys_is_not_noticed() {
    for every in [1, 2] {
        with_engines(&format!("fault:refuse:{every}:{}", engine()), Expected::All);
        with_engines(&format!("fault:refuse:{every}:{},library", engine()), Expected::All);
    }
}

#[test]
fn an_engine_that_fails_batches_is_not_noticed() {
    fails_and_nobody_notices("errors");
}

#[test]
fn an_engine_that_fails_one_connection_of_a_batch_is_not_noticed() {
    fails_and_nobody_notices("error");
}

#[test]
fn an_engine_that_stops_in_the_middle_of_a_batch_is_not_noticed() {
    fails_and_nobody_notices("unfinished");
}

#[test]
fn an_engine_that_panics_in_the_middle_of_a_batch_is_not_noticed() {
    fails_and_nobody_notices("panic");
}

#[test]
fn an_engine_that_dies_is_not_noticed() {
    fails_and_nobody_notices("death");
}

#[test]
fn a_slow_engine_is_waited_for() {
    with_engines(&format!("fault:slow:1:{}", engine()), Expected::All);
    with_engines(&format!("fault:slow:1:{}:gpu,library", engine()), Expected::All);
}

/// Only of devices: whoever computes on the caller's thread has it.
#[test]
fn a_device_that_never_answers_is_given_up() {
    for every in [2, 9] {
        with_engines(&format!("fault:hang:{every}:{}:gpu", engine()), Expected::All);
        with_engines(&format!("fault:hang:{every}:{}:gpu,library", engine()), Expected::All);
    }
}

#[test]
fn wrong_bits_are_seen_by_the_other_end() {
    for every in [5, 9] {
        with_engines(&format!("fault:wrong:{every}:{}", engine()), Expected::WrongBits);
        with_engines(&format!("fault:wrong:{every}:{}:gpu,library", engine()), Expected::WrongBits);
    }
}

/// A known answer that is wrong keeps an engine from all work.
#[test]
fn an_engine_that_is_always_wrong_does_nothing() {
    with_engines(&format!("fault:wrong:1:{}", engine()), Expected::All);
}

#[test]
#[ignore = "the other tests run it in processes of its own"]
fn applications_in_a_process_of_their_own() {
    let expected = match env::var(EXPECTED).as_deref() {
        Ok("All") => Expected::All,
        Ok("WrongBits") => Expected::WrongBits,
        _ => panic!("to be run by the other tests"),
    };
    random_by_default();
    support::load();
    let (rsa, ec) = (rsa(), ec());
    let mut wrong = 0;
    for round in 0..2 {
        for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
            for key in [&rsa, &ec] {
                wrong += handshakes(key, version, Suites::ChaCha20, round % 2 == 1, expected);
                wrong += handshakes(key, version, Suites::Aes, false, expected);
            }
        }
        wrong += lone_operations(&[&rsa, &ec], expected);
        wrong += messages(expected);
    }
    wrong += threads(&rsa, &ec, expected);
    let engines = env::var("CIPHERMILL_OPENSSL_ENGINES").unwrap_or_default();
    assert!(injected() > 0, "{engines}: no fault was met");
    let (done, left) = support::operations();
    eprintln!("all done: {} faults, {done} operations in the mill, {left} by default, {wrong} errors", injected());
}

/// Has random numbers made without the mill. OpenSSL's generator takes AES-256-CTR of whoever is preferred, so that it would fail, with an
/// error of its own, when an engine does.
fn random_by_default() {
    let (generator, cipher) = (c"CTR-DRBG".as_ptr(), c"AES-256-CTR".as_ptr());
    // SAFETY: the default library context, in which no generator was made so far, and strings.
    let set =
        unsafe { RAND_set_DRBG_type(ptr::null_mut(), generator, c"provider=default".as_ptr(), cipher, ptr::null()) };
    assert_eq!(set, 1);
}

/// Faults that the engines of this process have met.
fn injected() -> u64 {
    let library = std::ffi::CString::new(support::library().to_str().expect("a path")).expect("a path");
    // SAFETY: the library is loaded already, and its function takes nothing.
    unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOW);
        assert!(!handle.is_null(), "the provider's library");
        let function = libc::dlsym(handle, c"ciphermill_openssl_faults".as_ptr());
        assert!(!function.is_null(), "the provider was built without its feature `faults`");
        std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> u64>(function)()
    }
}

fn rsa() -> PKey<Private> {
    PKey::from_rsa(Rsa::generate(2048).expect("a key")).expect("a key")
}

fn ec() -> PKey<Private> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("a curve");
    PKey::from_ec_key(EcKey::generate(&group).expect("a key")).expect("a key")
}

/// How an end of a connection fares.
enum End {
    /// A job is not done.
    Paused,
    /// There is nothing to be read from the other end, or no room for what it is to read.
    Waits,
    Done,
    Failed(openssl::ssl::Error),
}

/// Turns after which nothing more will come where no job is paused: each moves all that there is.
const IDLE_MAX: usize = 100;

/// Connections that are not done by then are taken for stuck.
const STUCK_AFTER: Duration = Duration::from_secs(120);

/// `SSL_ERROR_WANT_ASYNC` of `openssl/ssl.h`.
const WANT_ASYNC: i32 = 9;

fn fares(step: Result<(), openssl::ssl::Error>) -> End {
    match step {
        Ok(()) => End::Done,
        Err(error) if error.code().as_raw() == WANT_ASYNC => End::Paused,
        Err(error) if [ErrorCode::WANT_READ, ErrorCode::WANT_WRITE].contains(&error.code()) => End::Waits,
        Err(error) => {
            // An error that says what it is.
            let says = error.ssl_error().is_some_and(|stack| stack.errors().iter().all(|error| error.code() != 0));
            assert!(says, "an error without a reason: {error:?}");
            End::Failed(error)
        }
    }
}

/// Handshakes of many connections in turns, and a message each way. Returns how many connections failed.
fn handshakes(key: &PKey<Private>, version: SslVersion, suites: Suites, both: bool, expected: Expected) -> u64 {
    let (server, client) = (server(key, version, true), client(version, both));
    let mut failed = 0;
    let may_fail = |error: openssl::ssl::Error| {
        assert!(expected == Expected::WrongBits || suites == Suites::Aes, "a handshake failed: {error:?}");
    };
    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| suites.connection(&server, &client)).collect();
    let begun = Instant::now();
    let mut idle = 0;
    while !connections.iter().all(Connection::is_done) {
        // An engine on another thread may need seconds to answer its known-answer tests, where everything is instrumented.
        assert!(begun.elapsed() < STUCK_AFTER, "{} connections are stuck", connections.len());
        let mut any_paused = false;
        connections.retain_mut(|connection| {
            let ends = [fares_server(connection), fares_client(connection)];
            any_paused |= ends.iter().any(|end| matches!(end, End::Paused));
            let has_failed = ends.into_iter().any(|end| match end {
                End::Failed(error) => {
                    may_fail(error);
                    true
                }
                End::Paused | End::Waits | End::Done => false,
            });
            failed += u64::from(has_failed);
            !has_failed
        });
        idle = if any_paused { 0 } else { idle + 1 };
        if idle > IDLE_MAX {
            // A wrong bit in what was decrypted may be one of a length: that end waits for more than the other will send.
            assert!(expected == Expected::WrongBits, "ends of {} connections wait for each other", connections.len());
            let before = connections.len();
            connections.retain(Connection::is_done);
            failed += (before - connections.len()) as u64;
        }
    }
    for connection in &mut connections {
        match exchange(connection) {
            Some(is_right) => assert!(is_right || expected == Expected::WrongBits, "a message is not right"),
            None if suites == Suites::Aes => failed += 1,
            None => panic!("a message was not sent"),
        }
    }
    failed
}

fn fares_server(connection: &mut Connection) -> End {
    if connection.server_done {
        return End::Done;
    }
    let end = fares(connection.server.accept());
    connection.server_done = matches!(end, End::Done);
    end
}

fn fares_client(connection: &mut Connection) -> End {
    if connection.client_done {
        return End::Done;
    }
    let end = fares(connection.client.connect());
    connection.client_done = matches!(end, End::Done);
    end
}

/// Whether a message came as it was sent. `None` when an end failed.
fn exchange(connection: &mut Connection) -> Option<bool> {
    let message = b"a message in clear";
    let mut received = [0; 18];
    connection.server.write_all(message).ok()?;
    connection.client.read_exact(&mut received).ok()?;
    Some(received == *message)
}

/// Signatures outside of jobs, verified. Returns how many are wrong or were refused.
fn lone_operations(keys: &[&PKey<Private>], expected: Expected) -> u64 {
    let mut wrong = 0;
    for (number, key) in keys.iter().cycle().take(40).enumerate() {
        let message = number.to_le_bytes();
        let mut signer = Signer::new(MessageDigest::sha256(), key).expect("a signer");
        let is_right = match signer.sign_oneshot_to_vec(&message) {
            Ok(signature) => {
                let mut verifier = Verifier::new(MessageDigest::sha256(), key).expect("a verifier");
                verifier.verify_oneshot(&signature, &message).unwrap_or(false)
            }
            Err(error) => {
                assert!(!error.errors().is_empty(), "an error without a reason");
                false
            }
        };
        assert!(is_right || expected == Expected::WrongBits, "signature {number} is not right");
        wrong += u64::from(!is_right);
    }
    wrong
}

/// A message in parts: what was answered for each, and the tag. `None` once a call was refused.
fn message(provider: &str, name: &str, iv: &[u8], parts: &[Vec<u8>]) -> Option<(Vec<u8>, Vec<u8>)> {
    let cipher = Cipher::fetch(None, name, Some(&format!("provider={provider}"))).expect("a cipher");
    let mut context = CipherCtx::new().expect("a context");
    context.encrypt_init(Some(&cipher), Some(&[5; 16]), Some(iv)).expect("begun");
    let mut all = Vec::new();
    for part in parts {
        context.cipher_update_vec(part, &mut all).ok()?;
    }
    context.cipher_final_vec(&mut all).ok()?;
    let mut tag = vec![0; 16];
    if name.ends_with("GCM") {
        context.tag(&mut tag).ok()?;
    }
    Some((all, tag))
}

/// Messages of ciphers beside those of `default`. Returns how many were refused.
fn messages(expected: Expected) -> u64 {
    let mut refused = 0;
    for number in 0..60_u8 {
        let (name, iv_len) = [("AES-128-CTR", 16), ("AES-128-GCM", 12)][usize::from(number % 2)];
        let iv = vec![number; iv_len];
        let parts: Vec<_> = (0..number % 5).map(|part| vec![part; 500 * usize::from(part + number)]).collect();
        let theirs = message("default", name, &iv, &parts).expect("a message");
        match message("ciphermill", name, &iv, &parts) {
            Some(ours) => assert!(ours == theirs || expected == Expected::WrongBits, "{name} {number} is not right"),
            // OpenSSL's own answer to a call that failed in the middle of a message.
            None => refused += 1,
        }
    }
    refused
}

/// The same key in several threads.
fn threads(rsa: &PKey<Private>, ec: &PKey<Private>, expected: Expected) -> u64 {
    thread::scope(|scope| {
        let work = || {
            handshakes(rsa, SslVersion::TLS1_3, Suites::ChaCha20, true, expected)
                + lone_operations(&[rsa, ec], expected)
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).sum()
    })
}
