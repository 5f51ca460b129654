//! Changes that take effect and are reported as not durable: memory and disk agree afterwards.

use super::draft::tests::FOLDER_SYNC_FAILS;
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
