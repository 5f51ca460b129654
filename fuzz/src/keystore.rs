//! A keystore's file with anything in it: it opens, or says why not; what it lists is what was in it.

use std::path::PathBuf;
use std::sync::LazyLock;

use ciphermill_keys::KeyPolicy;
use ciphermill_keys::keystore::{KeyKind, Keystore, MasterSecret};

use crate::reader::Reader;

struct Base {
    folder: tempfile::TempDir,
    /// A sound keystore with three keys.
    bytes: Vec<u8>,
}

/// In memory where the system has such a folder: each input is a file.
pub(crate) fn folder() -> tempfile::TempDir {
    let memory = PathBuf::from("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a folder")
}

static BASE: LazyLock<Base> = LazyLock::new(|| {
    // The keystore catches the database's panics over damaged pages; libFuzzer's own hook would end the process before.
    // A panic that leaves `run` still ends it.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    let folder = folder();
    let path = folder.path().join("base");
    let mut keystore = Keystore::create(&path, &secret()).expect("made");
    for name in ["one", "two"] {
        keystore.generate(name, KeyKind::Secret { len: 32 }, KeyPolicy::default()).expect("made");
    }
    keystore.rotate("one").expect("rotated");
    drop(keystore);
    Base { bytes: std::fs::read(&path).expect("read"), folder }
});

fn secret() -> MasterSecret {
    // Set by `fuzz/run.sh`: unlike a passphrase it costs no time.
    MasterSecret::Environment("CIPHERMILL_FUZZ_MASTER".to_owned())
}

/// The first byte decides whether the rest is the whole file or a list of places and values in a sound one.
///
/// # Panics
/// When a changed file lists a key that was not in it, and when opening panics.
pub fn run(bytes: &[u8]) {
    let base = &*BASE;
    let mut from = Reader(bytes);
    let path = base.folder.path().join("input");
    if from.byte() & 1 == 0 {
        std::fs::write(&path, from.0).expect("written");
    } else {
        let mut changed = base.bytes.clone();
        while !from.is_empty() {
            let at = usize::from(from.word()) % changed.len();
            changed[at] = from.byte();
        }
        std::fs::write(&path, &changed).expect("written");
    }
    if let Ok(keystore) = Keystore::open(&path, &secret())
        && let Ok(records) = keystore.list()
    {
        for record in records {
            assert!(matches!((record.name.as_str(), record.version), ("one", 1 | 2) | ("two", 1)), "{record:?}");
        }
    }
}
