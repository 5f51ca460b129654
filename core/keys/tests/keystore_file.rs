//! The keystore's file: its format and the one before it, what is refused, who may open and change it at the same time.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests")]

use std::error::Error as _;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ciphermill_contract::{KeyForm, KeyMaterial};
use ciphermill_keys::keystore::{FORMAT_VERSION, KdfParameters, KeyKind, KeyState, ROOT_KEY_LEN, Restored, WaitPolicy};
use ciphermill_keys::{KeyPolicy, KeyTable, Keystore, KeystoreError, MasterSecret};
use tempfile::TempDir;

const PASSPHRASE: &str = "one passphrase for all these tests";

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("keys.store")
    }

    fn create(&self) -> Keystore {
        Keystore::create_with(self.path(), &secret(), cheap()).unwrap()
    }

    fn with_keys(&self, count: usize) -> Keystore {
        let mut store = self.create();
        for at in 0..count {
            generate(&mut store, &format!("key {at}"));
        }
        store
    }

    fn open(&self) -> Result<Keystore, KeystoreError> {
        Keystore::open(self.path(), &secret())
    }

    fn content(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }

    fn names(&self) -> Vec<String> {
        fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn secret() -> MasterSecret {
    MasterSecret::passphrase(PASSPHRASE)
}

fn cheap() -> KdfParameters {
    KdfParameters::insecure_for_tests()
}

fn generate(store: &mut Keystore, name: &str) {
    store.generate(name, KeyKind::Secret { len: 32 }, KeyPolicy::default()).unwrap();
}

fn load(store: &Keystore, name: &str, version: u32) -> Vec<u8> {
    store.with_key(name, Some(version), |_, key| key.bytes.to_vec()).unwrap()
}

/// A keystore of format 1, with the passphrase `short`, as the last program wrote it that knew no other format. The text
/// has a line for each run of equal bytes, and the others in hexadecimal.
fn format_1() -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in include_str!("data/format-1.txt").lines() {
        match line.split_once(" * ") {
            Some((count, byte)) => {
                let byte = u8::from_str_radix(byte, 16).unwrap();
                bytes.resize(bytes.len() + count.parse::<usize>().unwrap(), byte);
            }
            None => bytes.extend(hex::decode(line).unwrap()),
        }
    }
    bytes
}

#[test]
fn format_1_is_read_as_it_lies_and_rewritten_by_the_first_change() {
    let place = Place::new();
    let old = format_1();
    fs::write(place.path(), &old).unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o400)).unwrap();
    let short = MasterSecret::passphrase("short");
    let mut store = Keystore::open(place.path(), &short).unwrap();
    let list = store.list().unwrap();
    let found: Vec<(&str, u32, KeyState)> =
        list.iter().map(|record| (record.name.as_str(), record.version, record.state)).collect();
    let active = KeyState::Active;
    assert_eq!(
        found,
        [
            ("customers", 1, KeyState::Retired),
            ("customers", 2, active),
            ("gone", 1, KeyState::Destroyed),
            ("mistaken", 1, active),
            ("pair", 1, active),
            ("peer", 1, active),
            ("seed", 1, active),
            ("short-lived", 1, active),
            ("weak", 1, active),
        ]
    );
    let expected: [u8; 32] = core::array::from_fn(|at| at as u8);
    assert_eq!(load(&store, "customers", 1), expected);
    let destroyed = store.with_key("gone", Some(1), |_, _| ());
    assert!(matches!(destroyed, Err(KeystoreError::Destroyed { version: 1, .. })));
    assert_eq!((list[5].form, list[1].description.as_str()), (KeyForm::Public, "the customers' table"));
    // What is too weak for a new key still opens what it protected.
    assert!(store.load_for_derivation(&KeyTable::new(), "weak", 1).is_ok());
    assert!(matches!(store.root_for_protection("weak", None), Err(KeystoreError::BadParameter { .. })));
    assert_eq!(place.content(), old, "reading changes nothing");
    assert!(matches!(Keystore::open(place.path(), &secret()), Err(KeystoreError::WrongSecret)));

    // A file of DER that was taken for a secret key is not followed by random bytes.
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o600)).unwrap();
    for name in ["mistaken", "pair", "peer"] {
        assert!(matches!(store.rotate(name), Err(KeystoreError::CannotGenerate { .. })), "{name}");
    }
    assert_eq!(place.content(), old);
    let followed = store.rotate("weak").unwrap();
    assert_eq!((followed.version, followed.key_len), (2, ROOT_KEY_LEN));
    let new = place.content();
    assert!(new.starts_with(b"ciphermill keys\n") && new.len() < 8 * 1024, "{} bytes", new.len());
    let again = Keystore::open(place.path(), &short).unwrap();
    assert_eq!(again.list().unwrap(), store.list().unwrap());
    assert_eq!(again.list().unwrap().len(), list.len() + 1);
    assert_eq!(load(&again, "customers", 1), expected);
}

#[test]
fn format_1_is_left_alone_while_another_program_has_it_open() {
    let place = Place::new();
    fs::write(place.path(), format_1()).unwrap();
    let short = MasterSecret::passphrase("short");
    let other = File::open(place.path()).unwrap();
    other.lock().unwrap();
    assert!(matches!(Keystore::open(place.path(), &short), Err(KeystoreError::Locked { .. })));
    drop(other);
    assert!(Keystore::open(place.path(), &short).is_ok());
}

#[test]
fn format_1_that_is_damaged_is_not_taken() {
    let place = Place::new();
    let old = format_1();
    let short = MasterSecret::passphrase("short");
    for len in [4, 9, 320, 4096, 20_000, old.len() / 2, old.len() - 1] {
        fs::write(place.path(), &old[..len]).unwrap();
        let outcome = Keystore::open(place.path(), &short);
        assert!(matches!(outcome, Err(KeystoreError::Damaged { .. })), "{len} bytes: {outcome:?}");
    }
    let used: Vec<usize> = (0..old.len()).filter(|at| !matches!(old[*at], 0 | 0xFF)).collect();
    let expected = {
        fs::write(place.path(), &old).unwrap();
        Keystore::open(place.path(), &short).unwrap().list().unwrap()
    };
    for at in used.iter().copied().step_by(used.len() / 40) {
        let mut altered = old.clone();
        altered[at] ^= 1 << (at % 8);
        fs::write(place.path(), &altered).unwrap();
        match Keystore::open(place.path(), &short).and_then(|store| store.list()) {
            Ok(list) => assert_eq!(list, expected, "byte {at}"),
            Err(KeystoreError::Damaged { .. } | KeystoreError::UnsupportedVersion { .. }) => {}
            Err(other) => panic!("byte {at}: {other}"),
        }
    }
    let db = redb::Database::create(place.0.path().join("other")).unwrap();
    let head = redb::TableDefinition::<&str, &[u8]>::new("head");
    let records = redb::TableDefinition::<(&str, u32), &[u8]>::new("records");
    let transaction = db.begin_write().unwrap();
    transaction.open_table(head).unwrap().insert("format", 7u32.to_le_bytes().as_slice()).unwrap();
    transaction.open_table(records).unwrap();
    transaction.commit().unwrap();
    drop(db);
    let outcome = Keystore::open(place.0.path().join("other"), &short);
    assert!(matches!(outcome, Err(KeystoreError::UnsupportedVersion { found: 7, known: FORMAT_VERSION })));
}

#[test]
fn an_empty_keystore_is_small() {
    let place = Place::new();
    drop(place.create());
    assert!(place.content().len() < 512, "{} bytes", place.content().len());
    assert_eq!(fs::metadata(place.path()).unwrap().permissions().mode() & 0o7777, 0o600);
}

/// Opens a copy that was altered. Only clean refusals count.
fn refused(place: &Place, altered: &[u8], what: &str) {
    let path = place.0.path().join("altered.store");
    fs::write(&path, altered).unwrap();
    match Keystore::open(&path, &secret()) {
        Err(KeystoreError::Damaged { .. } | KeystoreError::UnsupportedVersion { .. }) => {}
        Ok(_) => panic!("{what}: opened"),
        Err(other) => panic!("{what}: {other}"),
    }
}

#[test]
fn no_bit_may_change_and_no_byte_be_lacking() {
    let place = Place::new();
    drop(place.with_keys(1));
    let content = place.content();
    assert!(place.open().is_ok());
    for at in 0..content.len() {
        let mut altered = content.clone();
        altered[at] ^= 1 << (at % 8);
        refused(&place, &altered, &format!("byte {at}"));
    }
    for len in (0..content.len()).step_by(5) {
        refused(&place, &content[..len], &format!("{len} bytes"));
    }
    refused(&place, &[&content[..], b"\0"].concat(), "a byte more");
    for other in [&b"redb"[..], b"#!/bin/sh\n", b"ciphermill keys\n", &[0; 4096], &[0xFF; 100_000]] {
        refused(&place, other, "no keystore at all");
    }
    let mut newer = content;
    newer[16..20].copy_from_slice(&7u32.to_le_bytes());
    fs::write(place.path(), &newer).unwrap();
    assert!(matches!(place.open(), Err(KeystoreError::UnsupportedVersion { found: 7, known: FORMAT_VERSION })));
}

/// The file's parts: what lies before the number of records, the records, the MAC.
fn split(content: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>, Vec<u8>) {
    let number = |at: usize| u32::from_le_bytes(content[at..at + 4].try_into().unwrap()) as usize;
    let mut at = 24 + number(20);
    let (head, count) = (content[..at].to_vec(), number(at));
    at += 4;
    let mut records = Vec::new();
    for _ in 0..count {
        let begin = at;
        at += 1 + content[at] as usize + 4;
        at += 4 + number(at);
        records.push(content[begin..at].to_vec());
    }
    (head, records, content[at..].to_vec())
}

fn join(head: &[u8], records: &[Vec<u8>], tag: &[u8]) -> Vec<u8> {
    [head, &(records.len() as u32).to_le_bytes(), &records.concat(), tag].concat()
}

#[test]
fn no_record_can_be_dropped_added_moved_or_put_back() {
    let place = Place::new();
    let mut store = place.with_keys(3);
    let (head, before, _) = split(&place.content());
    store.retire("key 1", 1).unwrap();
    let content = place.content();
    let (_, records, tag) = split(&content);
    assert_eq!(join(&head, &records, &tag), content);
    for at in 0..records.len() {
        let mut fewer = records.clone();
        fewer.remove(at);
        refused(&place, &join(&head, &fewer, &tag), "a record dropped");
    }
    // Authentic by itself, but not what the keystore holds now.
    let rolled_back = [records[0].clone(), before[1].clone(), records[2].clone()];
    refused(&place, &join(&head, &rolled_back, &tag), "a record put back");
    let swapped = [records[1].clone(), records[0].clone(), records[2].clone()];
    refused(&place, &join(&head, &swapped, &tag), "records in another order");
    let doubled = [records[0].clone(), records[0].clone(), records[1].clone(), records[2].clone()];
    refused(&place, &join(&head, &doubled, &tag), "a record twice");
    refused(&place, &join(&head, &[], &tag), "no records");
}

#[test]
fn what_is_no_keystore_file_is_refused_at_once() {
    let place = Place::new();
    let started = Instant::now();
    let fifo = place.0.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let huge = place.0.path().join("huge");
    File::create(&huge).unwrap().set_len(1 << 40).unwrap();
    let empty = place.0.path().join("empty");
    File::create(&empty).unwrap();
    for path in [&fifo, &huge, &empty, Path::new("/dev/zero"), Path::new("/dev/null"), place.0.path()] {
        let outcome = Keystore::open(path, &secret());
        assert!(matches!(outcome, Err(KeystoreError::Damaged { .. })), "{}: {outcome:?}", path.display());
    }
    for path in [&fifo, &huge, place.0.path(), Path::new("/dev/zero")] {
        let key_file = MasterSecret::KeyFile(path.to_owned());
        let new = place.0.path().join("new");
        assert!(Keystore::create_with(&new, &key_file, cheap()).is_err(), "{}", path.display());
        assert!(MasterSecret::passphrase_file(path).is_err(), "{}", path.display());
    }
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn readers_share_and_writers_wait() {
    static NOTICES: AtomicUsize = AtomicUsize::new(0);
    let place = Place::new();
    let mut store = place.with_keys(1);
    // A writer in the middle of its work.
    let draft = place.0.path().join(".keys.store.new");
    let writer = File::create(&draft).unwrap();
    writer.lock().unwrap();
    for _ in 0..3 {
        assert_eq!(place.open().unwrap().list().unwrap().len(), 1);
    }
    let limit = Duration::from_millis(700);
    store.set_wait(WaitPolicy { limit, notice: Some(|_, _| _ = NOTICES.fetch_add(1, Ordering::Relaxed)) });
    match store.rotate("key 0") {
        Err(KeystoreError::Locked { waited, .. }) => assert!(waited >= limit),
        other => panic!("{other:?}"),
    }
    assert_eq!(NOTICES.load(Ordering::Relaxed), 1);
    assert_eq!(store.current("key 0").unwrap().version, 1);
    // It dies, and what it left is out of the way.
    drop(writer);
    assert_eq!(store.rotate("key 0").unwrap().version, 2);
    assert_eq!(place.names(), ["keys.store"]);
}

#[test]
fn many_writers_lose_nothing() {
    let place = Place::new();
    drop(place.create());
    thread::scope(|scope| {
        for writer in 0..4 {
            let place = &place;
            scope.spawn(move || {
                let mut store = place.open().unwrap();
                for at in 0..8 {
                    generate(&mut store, &format!("key {writer} {at}"));
                    assert!(place.open().unwrap().current(&format!("key {writer} {at}")).is_ok());
                }
            });
        }
    });
    assert_eq!(place.open().unwrap().list().unwrap().len(), 32);
    assert_eq!(place.names(), ["keys.store"]);
}

#[test]
fn a_change_begins_from_what_the_file_holds() {
    let place = Place::new();
    let mut first = place.create();
    let mut second = place.open().unwrap();
    generate(&mut first, "a");
    generate(&mut second, "b");
    assert!(second.current("a").is_ok());
    assert!(matches!(
        first.generate("b", KeyKind::Secret { len: 32 }, KeyPolicy::default()),
        Err(KeystoreError::Exists { .. })
    ));
    // Under another secret the old snapshot reads on, and changes nothing.
    second.change_secret(&MasterSecret::passphrase("quite another passphrase"), cheap()).unwrap();
    let content = place.content();
    assert!(matches!(first.rotate("a"), Err(KeystoreError::Changed { .. })));
    assert!(matches!(first.rotate_master(), Err(KeystoreError::Changed { .. })));
    assert!(first.current("a").is_ok());
    assert_eq!(place.content(), content);
    fs::remove_file(place.path()).unwrap();
    assert!(second.rotate("a").is_err());
    assert!(place.names().is_empty(), "{:?}", place.names());
}

#[test]
fn a_link_leads_to_the_file_that_is_replaced() {
    let place = Place::new();
    let mut store = place.create();
    let link = place.0.path().join("link");
    symlink(place.path(), &link).unwrap();
    assert!(matches!(Keystore::create_with(&link, &secret(), cheap()), Err(KeystoreError::Exists { .. })));
    generate(&mut Keystore::open(&link, &secret()).unwrap(), "k");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    store.rotate("k").unwrap();
    assert_eq!(Keystore::open(&link, &secret()).unwrap().current("k").unwrap().version, 2);
}

#[test]
fn weak_passphrases_protect_nothing_new() {
    let place = Place::new();
    for weak in ["", "k", "fourteen chars", "aaaaaaaaaaaaaaaaaaaaaaa", "abababababababababab"] {
        let secret = MasterSecret::passphrase(weak);
        let made = Keystore::create_with(place.path(), &secret, cheap());
        assert!(matches!(made, Err(KeystoreError::BadParameter { what: "passphrase", .. })), "{weak}");
    }
    assert!(place.names().is_empty());
    let mut store = place.create();
    let before = place.content();
    assert!(store.change_secret(&MasterSecret::passphrase("short"), cheap()).is_err());
    assert!(store.back_up(place.0.path().join("backup"), &MasterSecret::passphrase("short"), cheap()).is_err());
    assert_eq!((place.content(), place.names()), (before, vec!["keys.store".to_owned()]));
    assert!(MasterSecret::passphrase("fifteen letters").check_new().is_ok());
    assert!(MasterSecret::passphrase("schöne Grüße ab").check_new().is_ok(), "characters, not bytes");
}

#[test]
fn passphrases_come_from_files() {
    let place = Place::new();
    drop(place.create());
    let file = place.0.path().join("passphrase");
    let write = |content: &[u8], mode| {
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        MasterSecret::passphrase_file(&file)
    };
    for end in ["", "\n", "\r\n"] {
        let secret = write(format!("{PASSPHRASE}{end}").as_bytes(), 0o600).unwrap();
        assert!(Keystore::open(place.path(), &secret).is_ok(), "{end:?}");
    }
    for end in [" ", "\n\n", "\nmore"] {
        let secret = write(format!("{PASSPHRASE}{end}").as_bytes(), 0o600).unwrap();
        assert!(matches!(Keystore::open(place.path(), &secret), Err(KeystoreError::WrongSecret)), "{end:?}");
    }
    for content in [&b""[..], b"\n", &[0xFF; 20], &[b'x'; 70_000]] {
        assert!(matches!(write(content, 0o600), Err(KeystoreError::BadSecret { .. })), "{} bytes", content.len());
    }
    assert!(matches!(write(b"\n", 0o600), Err(KeystoreError::BadSecret { rule: "it is empty", .. })));
    assert!(matches!(write(PASSPHRASE.as_bytes(), 0o644), Err(KeystoreError::InsecureKeyFile { .. })));
    fs::remove_file(&file).unwrap();
    assert!(matches!(MasterSecret::passphrase_file(&file), Err(KeystoreError::Io { .. })));
}

#[test]
fn backups_are_keystores_that_merge() {
    let place = Place::new();
    let mut store = place.with_keys(2);
    store.rotate("key 0").unwrap();
    let path = place.0.path().join("backup");
    let own = MasterSecret::passphrase("the passphrase of the backup");
    store.back_up(&path, &own, cheap()).unwrap();
    assert!(matches!(store.back_up(&path, &own, cheap()), Err(KeystoreError::Exists { .. })));
    assert!(matches!(Keystore::open(&path, &secret()), Err(KeystoreError::WrongSecret)));
    let backup = Keystore::open(&path, &own).unwrap();
    assert_eq!(backup.list().unwrap(), store.list().unwrap());
    assert_eq!(load(&backup, "key 0", 1), load(&store, "key 0", 1));
    let (_, ours, _) = split(&place.content());
    let (_, theirs, _) = split(&fs::read(&path).unwrap());
    assert!(ours.iter().all(|record| !theirs.contains(record)), "another master key");

    // Into a keystore that lost everything.
    let empty = Place::new();
    let mut restored = empty.create();
    assert_eq!(restored.restore(&backup).unwrap(), Restored { added: 3, present: 0, left_destroyed: 0 });
    assert_eq!(empty.open().unwrap().list().unwrap(), store.list().unwrap());
    let unchanged = empty.content();
    assert_eq!(restored.restore(&backup).unwrap(), Restored { added: 0, present: 3, left_destroyed: 0 });
    assert_eq!(empty.content(), unchanged);
    let inode = || fs::metadata(empty.path()).unwrap().ino();
    let before = inode();
    restored.restore(&backup).unwrap();
    assert_eq!(inode(), before, "a file that would stay the same is not written");

    // What has happened since stays: a destroyed version, a newer one, a retired one.
    store.destroy("key 0", 1).unwrap();
    store.rotate("key 1").unwrap();
    assert_eq!(store.restore(&backup).unwrap(), Restored { added: 0, present: 2, left_destroyed: 1 });
    assert_eq!(store.version("key 0", 1).unwrap().state, KeyState::Destroyed);
    assert_eq!(store.version("key 1", 1).unwrap().state, KeyState::Retired);

    // A newer backup retires what it follows.
    let newer = place.0.path().join("newer");
    store.back_up(&newer, &own, cheap()).unwrap();
    restored.restore(&Keystore::open(&newer, &own).unwrap()).unwrap();
    let states: Vec<KeyState> = restored.versions("key 1").unwrap().iter().map(|record| record.state).collect();
    assert_eq!(states, [KeyState::Retired, KeyState::Active]);
    // Destroyed on both sides, the version is as it is there.
    let newer = Keystore::open(&newer, &own).unwrap();
    assert_eq!(store.restore(&newer).unwrap(), Restored { added: 0, present: 4, left_destroyed: 0 });
}

#[test]
fn a_backup_that_contradicts_changes_nothing() {
    let place = Place::new();
    let mut store = place.with_keys(2);
    let path = place.0.path().join("backup");
    let other = Place::new();
    let mut stranger = other.create();
    generate(&mut stranger, "aaa");
    stranger.import("key 1", KeyMaterial::secret(&[9; 32]), KeyPolicy::default()).unwrap();
    stranger.back_up(&path, &secret(), cheap()).unwrap();
    let before = place.content();
    let contradicts = |store: &mut Keystore, path: &Path| match store.restore(&Keystore::open(path, &secret()).unwrap())
    {
        Err(KeystoreError::Conflict { name, version }) => assert_eq!((name.as_str(), version), ("key 1", 1)),
        other => panic!("{other:?}"),
    };
    contradicts(&mut store, &path);
    assert_eq!(place.content(), before);
    assert!(matches!(store.current("aaa"), Err(KeystoreError::NotFound { .. })));
    // The same bytes are another key in another form.
    let third = Place::new();
    let path = third.0.path().join("backup");
    let mut third = third.create();
    third.import("key 1", KeyMaterial::private(&[9; 32]), KeyPolicy::default()).unwrap();
    third.back_up(&path, &secret(), cheap()).unwrap();
    contradicts(&mut stranger, &path);
}

#[test]
fn errors_name_what_caused_them() {
    let place = Place::new();
    let missing = place.open().unwrap_err();
    assert!(missing.source().is_some_and(|source| source.is::<std::io::Error>()), "{missing:?}");
    let store = place.with_keys(1);
    let full = store.load_into(&KeyTable::with_limit(0), "key 0", None).unwrap_err();
    assert!(full.source().is_some_and(|source| source.is::<ciphermill_contract::Error>()), "{full:?}");
    assert!(KeystoreError::WrongSecret.source().is_none());
}
