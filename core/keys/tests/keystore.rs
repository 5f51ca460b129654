//! Keystore files: what comes back, what is refused, and what never lies on disk.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ciphermill_contract::{
    Direction, Directions, EngineKinds, KeyForm, KeyId, KeyMaterial, PreparedKey, Reason, Suite,
};
use ciphermill_keys::keystore::{KdfParameters, KeyKind, KeyState};
use ciphermill_keys::{KeyCheckValue, KeyPolicy, KeyTable, KeyUsage, Keystore, KeystoreError, MasterSecret};
use tempfile::TempDir;

const PASSPHRASE: &str = "one passphrase for all these tests";

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("keys.store")
    }

    fn create(&self) -> Keystore {
        Keystore::create_with(self.path(), &secret(), KdfParameters::insecure_for_tests()).unwrap()
    }

    fn open(&self) -> Result<Keystore, KeystoreError> {
        Keystore::open(self.path(), &secret())
    }

    fn file_names(&self) -> BTreeSet<String> {
        fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    fn content(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }
}

fn secret() -> MasterSecret {
    MasterSecret::passphrase(PASSPHRASE)
}

fn suite(name: &str) -> Suite {
    name.parse().unwrap()
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

/// The bytes of a table's key, as an engine gets them.
fn bytes_of(table: &KeyTable, key: KeyId) -> Vec<u8> {
    let lease = table.lease();
    let prepared =
        lease.entry(key).unwrap().prepared(0, suite("random"), |key| Ok(PreparedKey::new(key.bytes.to_vec())));
    prepared.unwrap().state::<Vec<u8>>().unwrap().clone()
}

fn load(store: &Keystore, name: &str, version: Option<u32>) -> Vec<u8> {
    let table = KeyTable::new();
    let key = store.load_into(&table, name, version).unwrap();
    bytes_of(&table, key)
}

fn write_key_file(folder: &Path, content: &[u8], mode: u32) -> PathBuf {
    let path = folder.join("master.key");
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn keys_come_back_after_closing() {
    let place = Place::new();
    let policy = KeyPolicy::only(suite("aes-256-gcm")).operations_max(9).exportable(true);
    let imported = b"an imported key of 32 bytes, raw";
    let generated = {
        let mut store = place.create();
        store.import("cards", KeyMaterial::secret(imported), policy.clone()).unwrap();
        store.describe("cards", 1, "column pan of table cards").unwrap();
        store.import("peer", KeyMaterial::public(&[4; 65]), KeyPolicy::default()).unwrap();
        store.generate("ed", KeyKind::Seed { len: 32 }, KeyPolicy::default()).unwrap();
        store.generate("mac", KeyKind::for_suite(suite("hmac-sha256")).unwrap(), KeyPolicy::default()).unwrap();
        load(&store, "mac", None)
    };
    let store = place.open().unwrap();
    let list = store.list().unwrap();
    let names: Vec<&str> = list.iter().map(|record| record.name.as_str()).collect();
    assert_eq!(names, ["cards", "ed", "mac", "peer"]);
    let cards = store.current("cards").unwrap();
    assert_eq!(cards, list[0]);
    assert_eq!((cards.version, cards.form, cards.key_len, cards.state), (1, KeyForm::Secret, 32, KeyState::Active));
    assert_eq!(cards.policy, policy);
    assert_eq!(cards.description, "column pan of table cards");
    assert_eq!(cards.key_check_value, KeyCheckValue::of(imported));
    assert!(cards.created_unix_s >= store.created_unix_s() && store.created_unix_s() > 1_600_000_000);
    assert_eq!(load(&store, "cards", Some(1)), imported);
    assert_eq!(load(&store, "mac", None), generated);
    assert_eq!(generated.len(), 32);
    assert_eq!(store.version("peer", 1).unwrap().form, KeyForm::Public);
    assert_eq!(store.version("ed", 1).unwrap().form, KeyForm::Private);

    let table = KeyTable::new();
    let key = store.load_into(&table, "cards", None).unwrap();
    assert_eq!(table.policy(key), Ok(policy));
    assert_eq!(table.key_check_value(key), Ok(cards.key_check_value));
}

#[test]
fn generated_keys_differ() {
    let place = Place::new();
    let mut store = place.create();
    let keys: BTreeSet<Vec<u8>> = (0..20)
        .map(|at| {
            let name = format!("key {at}");
            store.generate(&name, KeyKind::Secret { len: 16 }, KeyPolicy::default()).unwrap();
            load(&store, &name, None)
        })
        .collect();
    assert_eq!(keys.len(), 20);
    assert!(keys.iter().all(|key| key.len() == 16 && key.iter().any(|byte| *byte != 0)));
}

#[test]
fn key_bytes_never_lie_in_the_file() {
    let place = Place::new();
    let mut store = place.create();
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for round in 0..10u8 {
        let imported: Vec<u8> =
            (0..24).map(|at: u8| at.wrapping_mul(7).wrapping_add(round.wrapping_mul(31)) ^ 0x5A).collect();
        store.import(&format!("imported {round}"), KeyMaterial::secret(&imported), KeyPolicy::default()).unwrap();
        store.generate(&format!("made {round}"), KeyKind::Secret { len: 32 }, KeyPolicy::default()).unwrap();
        keys.extend([imported, load(&store, &format!("made {round}"), None)]);
        store.rotate("made 0").unwrap();
        keys.push(load(&store, "made 0", None));
    }
    store.rotate_master().unwrap();
    store.destroy("imported 3", 1).unwrap();
    drop(store);
    let content = place.content();
    assert!(contains(&content, b"imported 3"), "the search finds what is there");
    for key in keys {
        // Eight bytes of a key are enough to be found.
        for part in key.chunks_exact(8) {
            assert!(!contains(&content, part));
        }
        let check = KeyCheckValue::of(&key);
        assert!(!contains(&content, &check.0) && !contains(&content, check.to_string().as_bytes()));
    }
    assert!(!contains(&content, PASSPHRASE.as_bytes()));
    assert_eq!(place.file_names(), BTreeSet::from(["keys.store".to_owned()]), "no drafts stay behind");
    assert_eq!(fs::metadata(place.path()).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn a_destroyed_version_leaves_nothing_but_its_record() {
    let place = Place::new();
    let mut store = place.create();
    store.import("short-lived", KeyMaterial::secret(&[0x77; 16]), KeyPolicy::default()).unwrap();
    let check = store.current("short-lived").unwrap().key_check_value;
    drop(store);
    // The sealed record ends with check value and key: 24 bytes that are as good as random.
    let before = place.content();
    let mut store = place.open().unwrap();
    store.destroy("short-lived", 1).unwrap();
    store.destroy("short-lived", 1).unwrap();
    let record = store.version("short-lived", 1).unwrap();
    assert_eq!((record.state, record.key_len, record.key_check_value), (KeyState::Destroyed, 16, check));
    let table = KeyTable::new();
    assert!(matches!(
        store.load_into(&table, "short-lived", Some(1)),
        Err(KeystoreError::Destroyed { version: 1, .. })
    ));
    assert!(matches!(store.load_into(&table, "short-lived", None), Err(KeystoreError::NotFound { version: None, .. })));
    assert!(matches!(store.retire("short-lived", 1), Err(KeystoreError::Destroyed { .. })));
    assert!(matches!(store.describe("short-lived", 1, ""), Err(KeystoreError::Destroyed { .. })));
    let again = store.import("short-lived", KeyMaterial::secret(&[1; 16]), KeyPolicy::default());
    assert!(matches!(again, Err(KeystoreError::Exists { .. })), "names are not used twice");
    assert!(table.is_empty());
    drop(store);
    let end = br#""kind":{"secret":{"len":16}}}"#;
    let at = before.windows(end.len()).position(|window| window == end).unwrap() + end.len();
    let sealed = &before[at..at + 16 + 8 + 16];
    assert!(sealed.iter().any(|byte| *byte != 0));
    assert!(!contains(&place.content(), &sealed[16..]), "free pages do not keep the wrapped key");
}

#[test]
fn rotation_keeps_old_versions_for_decryption() {
    let place = Place::new();
    let mut store = place.create();
    store.generate("db", KeyKind::Secret { len: 32 }, KeyPolicy::default().operations_max(10)).unwrap();
    store.describe("db", 1, "the table").unwrap();
    let first = load(&store, "db", None);
    let record = store.rotate("db").unwrap();
    assert_eq!((record.version, record.state, record.key_len), (2, KeyState::Active, 32));
    assert_eq!((record.description.as_str(), record.policy.operations_max), ("the table", Some(10)));
    assert_eq!(store.current("db").unwrap(), record);
    let second = load(&store, "db", None);
    assert_ne!(first, second);
    assert_eq!(load(&store, "db", Some(1)), first);

    let table = KeyTable::new();
    let old = store.load_into(&table, "db", Some(1)).unwrap();
    let gcm = suite("aes-256-gcm");
    let lease = table.lease();
    assert_eq!(lease.entry(old).unwrap().check(gcm, Direction::Decrypt, KeyUsage::Plain, 0), Ok(EngineKinds::ALL));
    assert_eq!(lease.entry(old).unwrap().check(gcm, Direction::Encrypt, KeyUsage::Plain, 0), Err(Reason::KeyDirection));

    store.rotate_to("db", KeyMaterial::secret(&[3; 24])).unwrap();
    assert_eq!(load(&store, "db", None), [3; 24]);
    assert!(matches!(store.rotate_to("db", KeyMaterial::public(&[3; 24])), Err(KeystoreError::BadParameter { .. })));
    let states: Vec<(u32, KeyState)> =
        store.versions("db").unwrap().iter().map(|record| (record.version, record.state)).collect();
    assert_eq!(states, [(1, KeyState::Retired), (2, KeyState::Retired), (3, KeyState::Active)]);

    store.retire("db", 3).unwrap();
    assert!(matches!(store.current("db"), Err(KeystoreError::NotFound { .. })));
    assert!(matches!(store.rotate("db"), Err(KeystoreError::NotFound { .. })));
    assert_eq!(load(&store, "db", Some(3)), [3; 24]);

    let encrypt_only = KeyPolicy::default().directions(Directions::ENCRYPT);
    store.import("out", KeyMaterial::secret(&[1; 16]), encrypt_only).unwrap();
    store.rotate("out").unwrap();
    assert!(matches!(store.load_into(&table, "out", Some(1)), Err(KeystoreError::Retired { version: 1, .. })));

    store.import("pair", KeyMaterial::private(&[1; 100]), KeyPolicy::default()).unwrap();
    assert!(matches!(store.rotate("pair"), Err(KeystoreError::CannotGenerate { .. })));
    store.rotate_to("pair", KeyMaterial::private(&[2; 101])).unwrap();
    assert_eq!(store.current("pair").unwrap().version, 2);
}

#[test]
fn a_rotated_key_lives_as_long_as_the_old_one_did() {
    let place = Place::new();
    let mut store = place.create();
    let made = store.generate("day", KeyKind::Secret { len: 16 }, KeyPolicy::default()).unwrap().created_unix_s;
    store.generate("short", KeyKind::Secret { len: 16 }, KeyPolicy::default().expires_unix_s(made + 5000)).unwrap();
    let rotated = store.rotate("short").unwrap();
    let end = rotated.policy.expires_unix_s.unwrap();
    assert!((4990..=5000).contains(&(end - rotated.created_unix_s)), "{end}");
    let table = KeyTable::new();
    let key = store.load_into(&table, "short", None).unwrap();
    assert!(table.any_expiry());
    let check =
        |now| table.lease().entry(key).unwrap().check(suite("aes-128-ecb"), Direction::Encrypt, KeyUsage::Plain, now);
    assert_eq!(check(end - 1), Ok(EngineKinds::ALL));
    assert_eq!(check(end), Err(Reason::KeyExpired));
    assert_eq!(store.rotate("day").unwrap().policy.expires_unix_s, None);
}

#[test]
fn keys_are_derived_from_keys_that_allow_it() {
    let place = Place::new();
    let mut store = place.create();
    let hmac = suite("hmac-sha256");
    store.import("root", KeyMaterial::secret(&[5; 16]), KeyPolicy::default()).unwrap();
    assert_eq!(store.root_for_protection("root", None).unwrap().key_len, 16);
    store.import("short", KeyMaterial::secret(&[5; 15]), KeyPolicy::only(suite("blowfish-cbc"))).unwrap();
    assert!(matches!(store.root_for_protection("short", None), Err(KeystoreError::BadParameter { .. })));

    let table = KeyTable::new();
    let key = store.load_for_derivation(&table, "root", 1).unwrap();
    assert_eq!(bytes_of(&table, key), [5; 16]);
    let lease = table.lease();
    let check = |suite| lease.entry(key).unwrap().check(suite, Direction::Encrypt, KeyUsage::Plain, 0);
    assert_eq!((check(hmac), check(suite("aes-128-gcm"))), (Ok(EngineKinds::ALL), Err(Reason::KeySuite)));
    let refused = [
        ("other suite", KeyPolicy::only(suite("aes-128-gcm"))),
        ("other way", KeyPolicy::only(hmac).directions(Directions::DECRYPT)),
    ];
    for (name, policy) in refused {
        store.import(name, KeyMaterial::secret(&[5; 16]), policy).unwrap();
        let error = store.load_for_derivation(&table, name, 1);
        assert!(matches!(error, Err(KeystoreError::BadParameter { .. })), "{name}");
    }
}

#[test]
fn only_the_right_secret_opens() {
    let place = Place::new();
    drop(place.create());
    for wrong in ["", "one passphrase for all these test", "One passphrase for all these tests"] {
        let error = Keystore::open(place.path(), &MasterSecret::passphrase(wrong)).unwrap_err();
        match wrong {
            "" => assert!(matches!(error, KeystoreError::BadParameter { .. })),
            _ => assert!(matches!(error, KeystoreError::WrongSecret), "{error}"),
        }
        assert!(!format!("{error} {error:?}").contains("passphrase for all"));
    }
    let key_file = write_key_file(place.folder.path(), &[1; 32], 0o600);
    let error = Keystore::open(place.path(), &MasterSecret::KeyFile(key_file)).unwrap_err();
    assert!(matches!(error, KeystoreError::WrongSecretKind { needs: "a passphrase" }));
    assert!(place.open().is_ok());
    let secrets = [secret(), MasterSecret::KeyFile("k".into()), MasterSecret::Environment("V".to_owned())];
    assert_eq!(format!("{secrets:?}"), "[Passphrase(…), KeyFile(k), Environment(V)]");
    let store = place.open().unwrap();
    assert_eq!(format!("{store:?}"), format!("Keystore {{ path: {:?}, .. }}", store.path()));
}

#[test]
fn key_files_open_keystores() {
    let place = Place::new();
    let folder = place.folder.path();
    let raw: [u8; 32] = core::array::from_fn(|at| at as u8 ^ 0x3C);
    let path = write_key_file(folder, &raw, 0o600);
    let key_file = MasterSecret::KeyFile(path.clone());
    let mut store = Keystore::create(place.path(), &key_file).unwrap();
    store.import("k", KeyMaterial::secret(&[8; 16]), KeyPolicy::default()).unwrap();
    drop(store);
    assert!(!contains(&place.content(), &raw[..8]));
    assert_eq!(load(&Keystore::open(place.path(), &key_file).unwrap(), "k", None), [8; 16]);

    write_key_file(folder, format!("{}\n", hex::encode(raw)).as_bytes(), 0o400);
    assert!(Keystore::open(place.path(), &key_file).is_ok(), "hexadecimal digits and a line end");
    for (end, opens) in [("\r\n", true), ("   ", false), ("\r\nx", false), ("   and what comes behind", false)] {
        fs::remove_file(&path).unwrap();
        write_key_file(folder, format!("{}{end}", hex::encode(raw)).as_bytes(), 0o600);
        match Keystore::open(place.path(), &key_file) {
            Err(KeystoreError::BadSecret { .. }) => assert!(!opens, "{end:?}"),
            opened => assert!(opens && opened.is_ok(), "{end:?}"),
        }
    }
    fs::remove_file(&path).unwrap();
    write_key_file(folder, &[9; 32], 0o600);
    assert!(matches!(Keystore::open(place.path(), &key_file), Err(KeystoreError::WrongSecret)));
    for content in [&raw[..31], &[0; 33], b"", &[b'g'; 64], &[b'0'; 200]] {
        write_key_file(folder, content, 0o600);
        let error = Keystore::open(place.path(), &key_file).unwrap_err();
        assert!(matches!(error, KeystoreError::BadSecret { .. }), "{} bytes: {error}", content.len());
    }
    let is_roots = fs::metadata(&path).unwrap().uid() == 0;
    for mode in [0o640, 0o440] {
        write_key_file(folder, &raw, mode);
        let opened = Keystore::open(place.path(), &key_file);
        assert_eq!(opened.is_ok(), is_roots, "a group may read what root owns: {mode:o}");
    }
    for mode in [0o604, 0o620, 0o602, 0o644, 0o666, 0o601] {
        write_key_file(folder, &raw, mode);
        match Keystore::open(place.path(), &key_file).unwrap_err() {
            KeystoreError::InsecureKeyFile { path: told, mode: found } => {
                assert_eq!((told, found), (path.clone(), mode))
            }
            other => panic!("{mode:o}: {other}"),
        }
    }
    assert!(matches!(
        Keystore::open(place.path(), &MasterSecret::KeyFile(folder.join("none"))),
        Err(KeystoreError::Io { .. })
    ));
    assert!(matches!(
        Keystore::open(place.path(), &MasterSecret::KeyFile(folder.to_owned())),
        Err(KeystoreError::BadSecret { .. })
    ));
}

/// The environment is not changed here (that is unsafe while other threads read it): cargo sets these variables.
#[test]
fn variables_that_hold_no_key_are_refused() {
    let place = Place::new();
    for (variable, rule) in
        [("CIPHERMILL_NO_SUCH_VARIABLE", "it is not set"), ("CARGO_MANIFEST_DIR", "it holds 32 bytes")]
    {
        let error = Keystore::create(place.path(), &MasterSecret::Environment(variable.to_owned())).unwrap_err();
        assert!(error.to_string().contains(rule) && error.to_string().contains(variable), "{error}");
        assert!(!error.to_string().contains(env!("CARGO_MANIFEST_DIR")), "{error}");
        assert!(!place.path().exists());
    }
}

/// Runs this very program again with the variable set.
#[test]
fn a_variable_opens_keystores() {
    const NAME: &str = "CIPHERMILL_TEST_MASTER_KEY";
    let place_name = "CIPHERMILL_TEST_STORE";
    if let Some(path) = std::env::var_os(place_name) {
        let secret = MasterSecret::Environment(NAME.to_owned());
        let store = match Path::new(&path).exists() {
            true => Keystore::open(&path, &secret).unwrap(),
            false => {
                let mut store = Keystore::create(&path, &secret).unwrap();
                store.import("k", KeyMaterial::secret(&[6; 16]), KeyPolicy::default()).unwrap();
                store
            }
        };
        assert_eq!(load(&store, "k", None), [6; 16]);
        return;
    }
    let place = Place::new();
    let run = |value: &str| {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "a_variable_opens_keystores"]).env(NAME, value).env(place_name, place.path());
        child.output().unwrap()
    };
    let made = run("000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let opened = run("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    assert!(opened.status.success(), "{}", String::from_utf8_lossy(&opened.stderr));
    let wrong = run("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh4=");
    assert!(!wrong.status.success());
    let told = [wrong.stdout, wrong.stderr].concat();
    assert!(contains(&told, b"WrongSecret"), "{}", String::from_utf8_lossy(&told));
}

#[test]
fn secrets_and_master_keys_can_be_changed() {
    let place = Place::new();
    let mut store = place.create();
    store.import("k", KeyMaterial::secret(&[5; 16]), KeyPolicy::default()).unwrap();
    store.generate("gone", KeyKind::Secret { len: 16 }, KeyPolicy::default()).unwrap();
    store.destroy("gone", 1).unwrap();
    let list = store.list().unwrap();

    let next = MasterSecret::passphrase("the next one of them");
    store.change_secret(&next, KdfParameters::insecure_for_tests()).unwrap();
    drop(store);
    assert!(matches!(place.open(), Err(KeystoreError::WrongSecret)));
    let mut store = Keystore::open(place.path(), &next).unwrap();
    assert_eq!(store.list().unwrap(), list);

    let old = place.content();
    store.rotate_master().unwrap();
    assert_eq!(store.list().unwrap(), list);
    store.import("after", KeyMaterial::secret(&[4; 16]), KeyPolicy::default()).unwrap();
    drop(store);
    let mut store = Keystore::open(place.path(), &next).unwrap();
    assert_eq!(store.list().unwrap().len(), 3);
    assert_eq!(load(&store, "k", None), [5; 16]);
    // No ciphertext of the old master key is left.
    let at = old.windows(10).position(|window| window == br#""len":16}}"#.as_slice()).unwrap() + 11;
    assert!(!contains(&place.content(), &old[at..at + 40]));

    let key_file = MasterSecret::KeyFile(write_key_file(place.folder.path(), &[0x21; 32], 0o600));
    store.change_secret(&key_file, KdfParameters::default()).unwrap();
    let failing = MasterSecret::KeyFile(place.folder.path().join("none"));
    assert!(matches!(store.change_secret(&failing, KdfParameters::default()), Err(KeystoreError::Io { .. })));
    drop(store);
    assert_eq!(load(&Keystore::open(place.path(), &key_file).unwrap(), "after", None), [4; 16]);
    assert_eq!(fs::metadata(place.path()).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn nothing_is_overwritten() {
    let place = Place::new();
    drop(place.create());
    let before = place.content();
    assert!(matches!(Keystore::create(place.path(), &secret()), Err(KeystoreError::Exists { .. })));
    assert_eq!(place.content(), before);
    let mut store = place.open().unwrap();
    store.generate("k", KeyKind::Secret { len: 16 }, KeyPolicy::default()).unwrap();
    let again = store.generate("k", KeyKind::Secret { len: 16 }, KeyPolicy::default());
    assert!(matches!(again, Err(KeystoreError::Exists { .. })));
    assert!(matches!(
        Keystore::create(place.folder.path().join("no/such/folder"), &secret()),
        Err(KeystoreError::Io { .. })
    ));
    assert!(matches!(Keystore::open(place.folder.path().join("none"), &secret()), Err(KeystoreError::Io { .. })));
    assert!(matches!(
        Keystore::open(place.folder.path(), &secret()),
        Err(KeystoreError::Io { .. } | KeystoreError::Damaged { .. })
    ));
}

#[test]
fn names_and_lengths_have_rules() {
    let place = Place::new();
    let mut store = place.create();
    let long = "n".repeat(256);
    for name in ["", " k", "k ", "a\nb", "a\0b", long.as_str()] {
        let refused = store.generate(name, KeyKind::Secret { len: 16 }, KeyPolicy::default());
        assert!(matches!(refused, Err(KeystoreError::BadParameter { what: "key name", .. })), "{name:?}");
    }
    for len in [0, 16 * 1024 + 1, usize::MAX] {
        let refused = store.generate("k", KeyKind::Secret { len }, KeyPolicy::default());
        assert!(matches!(refused, Err(KeystoreError::BadParameter { what: "key", .. })), "{len}");
    }
    store.generate(&long[1..], KeyKind::Secret { len: 16 * 1024 }, KeyPolicy::default()).unwrap();
    store.describe(&long[1..], 1, &"d".repeat(4096)).unwrap();
    assert!(matches!(store.describe(&long[1..], 1, &"d".repeat(4097)), Err(KeystoreError::BadParameter { .. })));
    for missing in [store.version("k", 1).err(), store.current("k").err(), store.versions("k").err()] {
        assert!(matches!(missing, Some(KeystoreError::NotFound { .. })));
    }
    assert!(matches!(store.version(&long[1..], 2), Err(KeystoreError::NotFound { version: Some(2), .. })));
}
