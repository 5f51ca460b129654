//! A keystore's file with anything in it: it opens, or says why not; what it lists is what was in it.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::LazyLock;

use ciphermill_keys::KeyPolicy;
use ciphermill_keys::keystore::{KeyKind, Keystore, MasterSecret};
use sha2::{Digest, Sha256};

use crate::reader::Reader;

const DIGEST_LEN: usize = 32;

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

/// The first byte decides what the rest is: the whole file; a list of places and values in a sound one; or the text of the
/// header, whose digest is right, before the records of a sound one.
///
/// # Panics
/// When a changed file lists a key that was not in it, and when opening panics.
pub fn run(bytes: &[u8]) {
    let base = &*BASE;
    let mut from = Reader(bytes);
    let path = base.folder.path().join("input");
    let changed = match from.byte() % 3 {
        0 => from.0.to_vec(),
        1 => changed(&base.bytes, from),
        _ => with_header(&base.bytes, from.0),
    };
    std::fs::write(&path, changed).expect("written");
    if let Ok(keystore) = Keystore::open(&path, &secret())
        && let Ok(records) = keystore.list()
    {
        for record in records {
            assert!(matches!((record.name.as_str(), record.version), ("one", 1 | 2) | ("two", 1)), "{record:?}");
        }
    }
}

fn changed(sound: &[u8], mut from: Reader<'_>) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    while !from.is_empty() {
        let at = usize::from(from.word()) % bytes.len();
        bytes[at] = from.byte();
    }
    bytes
}

/// Magic, version, length of the header; its digest and text; the rest.
fn with_header(sound: &[u8], text: &[u8]) -> Vec<u8> {
    let header = header(sound);
    let len = (DIGEST_LEN + text.len()) as u32;
    let mut bytes = sound[..header.start - 4].to_vec();
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(&Sha256::digest(text));
    bytes.extend_from_slice(text);
    bytes.extend_from_slice(&sound[header.end..]);
    bytes
}

/// Where the header lies.
fn header(sound: &[u8]) -> Range<usize> {
    let text = sound.windows(2).position(|bytes| bytes == b"{\"").expect("a header in JSON");
    let start = text - DIGEST_LEN;
    let len = sound[start - 4..start].try_into().map(u32::from_le_bytes).expect("four bytes");
    start..start + len as usize
}

/// Inputs to begin with: a sound file, a change to it, and its header.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let sound = &BASE.bytes;
    let text = header(sound).start + DIGEST_LEN..header(sound).end;
    vec![[&[0], &sound[..]].concat(), vec![1, 40, 0, 7], [&[2], &sound[text]].concat()]
}
