//! Keys that the service alone has: used by name, under their own policies, by those who may.

#![allow(clippy::expect_used, reason = "tests")]

mod common;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ciphermill::{KeyPolicy, Mill};
use ciphermill_channel::{Answer, Ask};
use ciphermill_contract::{
    Batch, Direction, Directions, Error, KeyId, KeyMaterial, Op, OpStatus, Reason, Refusal, Span, Suite,
};
use ciphermill_keys::keystore::{KdfParameters, Keystore, MasterSecret};
use ciphermill_service::{Access, Options, Reload, Vault};
use ciphermill_service_engine::{Opening, ServiceEngine};
use common::Running;
use common::raw::Raw;

const KEY: [u8; 16] = [0xc5; 16];

fn suite() -> Suite {
    "aes-128-gcm".parse().expect("a suite")
}

/// A keystore with a key for both directions, and one that seals only.
fn keystore(folder: &Path) -> Keystore {
    let secret = MasterSecret::passphrase("a passphrase of some length");
    let parameters = KdfParameters::insecure_for_tests();
    let mut keystore = Keystore::create_with(folder.join("keystore"), &secret, parameters).expect("a keystore");
    let policy = KeyPolicy::only(suite());
    keystore.import("both", KeyMaterial::secret(&KEY), policy.clone()).expect("a key");
    let seals = policy.directions(Directions::ENCRYPT);
    keystore.import("seals", KeyMaterial::secret(&[0x5c; 16]), seals).expect("a key");
    keystore
}

fn client(running: &Running) -> Mill {
    let engine = ServiceEngine::open(&Opening::at(running.socket())).expect("connects");
    let library = ciphermill_library::Library::new().expect("opens everywhere");
    Mill::builder().engine(Arc::new(engine)).engine(Arc::new(library)).open().expect("a mill")
}

fn reference(mill: &Mill, name: &str) -> KeyId {
    mill.keys().import(KeyMaterial::reference(name), KeyPolicy::default()).expect("a name")
}

/// One operation in place over 80 bytes, the tag behind the data.
fn run(mill: &Mill, key: KeyId, direction: Direction, arena: &mut [u8; 80]) -> Result<OpStatus, Error> {
    let mut ops = [Op::in_place(key, Span::new(0, 64)).with_tag(64, 16).with_iv(&[9; 12])];
    mill.run(Batch::new(suite(), direction, &mut ops, arena)).map(|_| ops[0].status)
}

#[test]
fn a_key_by_its_name_does_what_the_key_does_and_its_policy_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let vault = Vault::new(keystore(folder.path()), HashMap::new());
    let running = Running::start_with(|_| {}, Some(vault));
    let mill = client(&running);
    let local = mill.keys().import(KeyMaterial::secret(&KEY), KeyPolicy::default()).expect("a key");
    let named = reference(&mill, "both");
    let (mut there, mut here) = ([1; 80], [1; 80]);
    assert_eq!(run(&mill, named, Direction::Encrypt, &mut there), Ok(OpStatus::Done));
    assert_eq!(run(&mill, local, Direction::Encrypt, &mut here), Ok(OpStatus::Done));
    assert_eq!(there, here);
    assert_eq!(run(&mill, named, Direction::Decrypt, &mut there), Ok(OpStatus::Done));
    assert_eq!(there[..64], [1; 64]);
    let seals = reference(&mill, "seals");
    assert_eq!(run(&mill, seals, Direction::Encrypt, &mut there), Ok(OpStatus::Done));
    for _ in 0..20 {
        let refused = run(&mill, seals, Direction::Decrypt, &mut there).expect("the engine is not to blame");
        assert_eq!(refused, OpStatus::Refused(Reason::KeyDirection));
    }
    assert_eq!(run(&mill, seals, Direction::Encrypt, &mut there), Ok(OpStatus::Done));
    drop(mill);
    running.wait_until("keys of clients have gone, those of the keystore stay", |mill| mill.keys().len() == 2);
}

#[test]
fn a_name_that_is_none_or_for_others_is_refused_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    // The service's own user may use all of them: a grant adds to that.
    let vault = Vault::new(keystore(folder.path()), HashMap::from([("both".to_owned(), Access::default())]));
    let running = Running::start_with(|_| {}, Some(vault));
    let mill = client(&running);
    assert_eq!(run(&mill, reference(&mill, "both"), Direction::Encrypt, &mut [0; 80]), Ok(OpStatus::Done));
    let unknown = run(&mill, reference(&mill, "nothing"), Direction::Encrypt, &mut [0; 80]);
    let is_refused = matches!(&unknown, Ok(OpStatus::Refused(_)) | Err(Error::Refused(_)));
    assert!(is_refused, "{unknown:?}");
    // No engine of this process takes a name for a key, whatever it looks like.
    let alone =
        Mill::builder().engine(Arc::new(ciphermill_library::Library::new().expect("opens"))).open().expect("a mill");
    let name = reference(&alone, "sixteen letters!");
    let refused = run(&alone, name, Direction::Encrypt, &mut [0; 80]);
    let by_engine =
        matches!(&refused, Ok(OpStatus::Refused(Reason::KeyEngine)) | Err(Error::Refused(Refusal::NoEngine(..))));
    assert!(by_engine, "{refused:?}");
}

#[test]
fn operations_under_a_name_wait_for_a_service_that_is_restarted() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = MasterSecret::passphrase("a passphrase of some length");
    let vault = Vault::new(keystore(folder.path()), HashMap::new());
    let mut running = Running::start_with(|_| {}, Some(vault));
    let mill = client(&running);
    let named = reference(&mill, "both");
    let (mut before, mut after) = ([1; 80], [1; 80]);
    assert_eq!(run(&mill, named, Direction::Encrypt, &mut before), Ok(OpStatus::Done));
    running.stop();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| run(&mill, named, Direction::Encrypt, &mut after));
        std::thread::sleep(Duration::from_millis(300));
        let keystore = Keystore::open(folder.path().join("keystore"), &secret).expect("it is there");
        running.restart(Some(Vault::new(keystore, HashMap::new())));
        assert_eq!(waiting.join().expect("no panic"), Ok(OpStatus::Done));
    });
    assert!(begun.elapsed() >= Duration::from_millis(250), "it had to wait");
    assert_eq!(before, after);
}

/// Nobody is kept from anything by a log that cannot be written; that it cannot is to be seen.
#[test]
fn a_full_disk_stops_nothing_and_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let running = Running::start_with(|options| options.audit = Some("/dev/full".into()), None);
    for _ in 0..3 {
        drop(Raw::greeted(running.socket()));
    }
    let mut raw = Raw::greeted(running.socket());
    assert_eq!(raw.status()["audit_lost"].as_u64(), Some(4));
    let Answer::Text(metrics) = raw.ask(&Ask::Metrics) else { panic!("no text") };
    assert!(metrics.contains("\nciphermill_service_audit_lost_total 4\n"), "{metrics}");
    // Somebody names a file elsewhere: it goes on, and begins with what is missing.
    let path = folder.path().join("audit");
    let options = Options { audit: Some(path.clone()), ..Options::default() };
    let remote = running.service.as_ref().expect("it runs").remote();
    remote.reload(Reload { options, vault: None });
    raw.status();
    drop(Raw::greeted(running.socket()));
    let events = |path: &Path| -> Vec<String> {
        let text = std::fs::read_to_string(path).expect("a log");
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        lines.map(|line| line["event"].as_str().expect("an event").to_owned()).collect()
    };
    assert_eq!(events(&path), ["lines lost", "connected"]);
    // And it is moved away by whoever keeps logs.
    let moved = folder.path().join("moved");
    std::fs::rename(&path, &moved).expect("moved");
    remote.reopen_audit();
    raw.status();
    drop(Raw::greeted(running.socket()));
    assert_eq!((events(&moved).len(), events(&path)), (2, vec!["connected".to_owned()]));
    assert_eq!(raw.status()["audit_lost"].as_u64(), Some(4));
}

#[test]
fn control_operations_are_written_down_and_no_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, vault) = (folder.path().join("audit"), Vault::new(keystore(folder.path()), HashMap::new()));
    let running = Running::start_with(|options| options.audit = Some(path.clone()), Some(vault));
    let mill = client(&running);
    let local = mill.keys().import(KeyMaterial::secret(&[0xab; 16]), KeyPolicy::default()).expect("a key");
    assert_eq!(run(&mill, reference(&mill, "both"), Direction::Encrypt, &mut [0; 80]), Ok(OpStatus::Done));
    mill.prepare(suite(), &[local]);
    drop(mill);
    let text = std::fs::read_to_string(&path).expect("a log");
    let events: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let event = |what: &str| events.iter().find(|event| event["event"] == what);
    assert_eq!(event("connected").expect("written")["pid"], std::process::id());
    assert_eq!(event("key taken").expect("written")["detail"]["name"], "both");
    for bytes in ["abab", "AB, AB", "171, 171", "197, 197", "c5c5"] {
        assert!(!text.contains(bytes), "{text}");
    }
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).expect("there"));
    assert_eq!(mode & 0o777, 0o600);
}
