//! Changes that take effect and are reported as not durable: memory and disk agree afterwards. Limits of files, and new
//! versions of keys that were made in the past.

use std::fs::File;

use super::draft::tests::FOLDER_SYNC_FAILS;
use super::file::{open_regular, read_at_most};
use super::*;

const PASSPHRASE: &str = "one passphrase for all these tests";

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("keys")
    }

    fn create(&self) -> Keystore {
        Keystore::create_with(self.path(), &secret(), KdfParameters::insecure_for_tests()).unwrap()
    }
}

fn secret() -> MasterSecret {
    MasterSecret::passphrase(PASSPHRASE)
}

/// Runs a change whose last step fails, and checks what it says.
fn not_durable<T: fmt::Debug>(change: impl FnOnce() -> Result<T, KeystoreError>) {
    FOLDER_SYNC_FAILS.set(true);
    let outcome = change();
    FOLDER_SYNC_FAILS.set(false);
    let error = outcome.unwrap_err();
    assert!(matches!(error, KeystoreError::NotDurable { .. }), "{error}");
    assert!(error.to_string().contains("the change is in effect"), "{error}");
}

fn generate(store: &mut Keystore, name: &str) -> Result<KeyRecord, KeystoreError> {
    store.generate(name, KeyKind::Secret { len: 32 }, KeyPolicy::default())
}

/// The file, opened with `secret`, holds what `store` believes.
fn assert_agrees(store: &Keystore, secret: &MasterSecret) {
    let opened = Keystore::open(store.path(), secret).unwrap();
    assert_eq!(opened.list().unwrap(), store.list().unwrap());
    assert_eq!(opened.header, store.header);
}

#[test]
fn memory_follows_a_change_that_is_in_effect_but_not_durable() {
    let place = Place::new();
    not_durable(|| Keystore::create_with(place.path(), &secret(), KdfParameters::insecure_for_tests()));
    let mut store = Keystore::open(place.path(), &secret()).unwrap();
    not_durable(|| generate(&mut store, "k"));
    assert_agrees(&store, &secret());
    not_durable(|| store.rotate("k"));
    not_durable(|| store.destroy("k", 1));
    assert_eq!(store.current("k").unwrap().version, 2);
    assert_agrees(&store, &secret());

    // The case that lost keys: the new passphrase was in the file, the old one in memory.
    let next = MasterSecret::passphrase("another passphrase for them");
    not_durable(|| store.change_secret(&next, KdfParameters::insecure_for_tests()));
    generate(&mut store, "after the passphrase").unwrap();
    assert_agrees(&store, &next);
    assert!(matches!(Keystore::open(place.path(), &secret()), Err(KeystoreError::WrongSecret)));
    not_durable(|| store.rotate_master());
    generate(&mut store, "after the master key").unwrap();
    assert_agrees(&store, &next);

    let backup = place.0.path().join("backup");
    not_durable(|| store.back_up(&backup, &secret(), KdfParameters::insecure_for_tests()));
    let backup = Keystore::open(&backup, &secret()).unwrap();
    let other = Place::new();
    let mut restored = other.create();
    not_durable(|| restored.restore(&backup));
    assert_agrees(&restored, &secret());
    assert_eq!(restored.list().unwrap(), store.list().unwrap());
}

#[test]
fn a_change_that_fails_leaves_memory_and_file_as_they_were() {
    let place = Place::new();
    let mut store = place.create();
    generate(&mut store, "k").unwrap();
    let (before, file) = (store.list().unwrap(), std::fs::read(place.path()).unwrap());
    // A draft that cannot be made.
    let draft = place.0.path().join(".keys.new");
    std::fs::create_dir(&draft).unwrap();
    let next = MasterSecret::passphrase("another passphrase for them");
    let failed = [
        generate(&mut store, "other").err(),
        store.rotate("k").err(),
        store.destroy("k", 1).err(),
        store.retire("k", 1).err(),
        store.describe("k", 1, "what for").err(),
        store.change_secret(&next, KdfParameters::insecure_for_tests()).err(),
        store.rotate_master().err(),
    ];
    for error in failed {
        assert!(matches!(&error, Some(KeystoreError::NotChanged { .. })), "{error:?}");
    }
    assert_eq!(store.list().unwrap(), before);
    assert_eq!(std::fs::read(place.path()).unwrap(), file);
    std::fs::remove_dir(&draft).unwrap();
    generate(&mut store, "other").unwrap();
    assert_agrees(&store, &secret());
}

#[test]
fn a_new_version_counts_its_life_from_its_own_making() {
    let place = Place::new();
    let mut store = place.create();
    generate(&mut store, "k").unwrap();
    let age = |record: &mut KeyRecord| (record.created_unix_s, record.policy.expires_unix_s) = (1_000, Some(6_000));
    store.rewrite("k", 1, age).unwrap();
    let before = now_unix_s();
    let made = store.rotate("k").unwrap();
    assert!(made.created_unix_s >= before);
    assert_eq!(made.policy.expires_unix_s, Some(made.created_unix_s + 5_000));
    let made = store.rotate_to("k", KeyMaterial::secret(&[7; 24])).unwrap();
    assert_eq!(made.kind, Some(KeyKind::Secret { len: 24 }), "what the next version will be made like");
}

#[test]
fn a_file_is_read_whole_or_not_at_all() {
    let place = Place::new();
    std::fs::write(place.path(), [7; 10]).unwrap();
    let (file, metadata) = open_regular(&place.path()).unwrap().unwrap();
    assert_eq!(read_at_most(&file, &metadata, 9).unwrap(), None);
    assert_eq!(read_at_most(&file, &metadata, 10).unwrap(), Some(vec![7; 10]));
    // Longer by the time that it is read.
    std::fs::write(place.path(), [7; 15]).unwrap();
    let longer = |len_max| read_at_most(&File::open(place.path()).unwrap(), &metadata, len_max).unwrap();
    assert_eq!((longer(14), longer(15)), (None, Some(vec![7; 15])));
}

#[test]
fn a_keystore_file_has_a_limit_up_to_which_it_comes_back() {
    let place = Place::new();
    let store = place.create();
    let encoded =
        |len: usize| encode(&store.header, &Records::from([(("k".to_owned(), 1), vec![0; len])]), &store.sealer);
    let room = FILE_LEN_MAX - encoded(0).unwrap().len();
    assert!(matches!(encoded(room + 1), Err(KeystoreError::BadParameter { .. })));
    let mut longest = encoded(room).unwrap();
    std::fs::write(place.path(), &longest).unwrap();
    assert!(Keystore::open(place.path(), &secret()).is_ok());
    longest.push(0);
    std::fs::write(place.path(), &longest).unwrap();
    let refused = Keystore::open(place.path(), &secret()).unwrap_err();
    assert!(refused.to_string().contains("too large"), "{refused}");
}
