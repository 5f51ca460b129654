//! A store of tokens of SoftHSM for one test, keys for it, and what checks its work.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ciphermill_contract::suite::{Curve, KeyPair, Signature};
use ciphermill_contract::{Batch, Direction, Engine, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span, Suite};
use ciphermill_memory::SecretBytes;
use ciphermill_reference::Reference;
use ciphermill_token::{Opening, Place, TokenEngine};

pub(crate) const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";
pub(crate) const PIN: &str = "48151623";
pub(crate) const MESSAGE: &[u8] = b"a message of some length, which is not a digest";

/// Runs a test of this name in a process of its own, with an empty store of tokens.
pub(crate) fn alone(name: &str, test: impl FnOnce(&Store)) {
    if let Some(folder) = std::env::var_os("TOKEN_TEST_FOLDER") {
        return test(&Store { folder: folder.into() });
    }
    assert!(Path::new(MODULE).exists(), "these tests need SoftHSM: install the package softhsm2");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("tokens")).expect("a folder");
    let config = format!("directories.tokendir = {}\nlog.level = ERROR\n", folder.path().join("tokens").display());
    std::fs::write(folder.path().join("softhsm2.conf"), config).expect("a file");
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args(["--exact", name, "--nocapture"]).env("TOKEN_TEST_FOLDER", folder.path());
    let output = command.env("SOFTHSM2_CONF", folder.path().join("softhsm2.conf")).output().expect("runs");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// The store of tokens of this process.
pub(crate) struct Store {
    pub(crate) folder: PathBuf,
}

impl Store {
    pub(crate) fn util(&self, arguments: &[&str]) {
        let output = Command::new("softhsm2-util").args(arguments).output().expect("softhsm2-util is installed");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn token(&self, label: &str) {
        self.util(&["--init-token", "--free", "--label", label, "--so-pin", "11223344", "--pin", PIN]);
    }

    pub(crate) fn import(&self, token: &str, label: &str, id: &str, pair: &Pair) {
        let path = self.folder.join("key.pem");
        std::fs::write(&path, pem(&pair.private)).expect("a file");
        let file = path.to_str().expect("a path");
        self.util(&["--import", file, "--token", token, "--label", label, "--id", id, "--pin", PIN]);
    }
}

pub(crate) fn opening(name: &'static str, label: &str, pin: &str, copies: bool) -> Opening {
    let pin = Some(SecretBytes::from_slice(pin.as_bytes()).expect("memory"));
    Opening { pin, copies, ..Opening::new(name, Path::new(MODULE), Place::Label(label.to_owned())) }
}

pub(crate) fn open(name: &'static str, label: &str, copies: bool) -> TokenEngine {
    TokenEngine::open(opening(name, label, PIN, copies)).expect("opens")
}

/// A key pair in the contract's form.
pub(crate) struct Pair {
    pub(crate) private: Vec<u8>,
    pub(crate) public: Vec<u8>,
}

pub(crate) fn generate(pair: KeyPair) -> Pair {
    let room = pair.private_len_max();
    let mut arena = vec![0; room + 1024];
    let mut ops = [Op { output: 0, ..Op::default() }.with_tag(room as u32, 1024)];
    let mut batch = Batch::new(Suite::Generate(pair), Direction::Encrypt, &mut ops, &mut arena).check().expect("sound");
    Reference::new().queue(QueueHint::default()).expect("opens").run(&mut batch);
    assert_eq!(ops[0].status, OpStatus::Done);
    let public = arena[room..room + usize::from(ops[0].tag_len)].to_vec();
    arena.truncate(ops[0].output_len as usize);
    Pair { private: arena, public }
}

pub(crate) fn pem(der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::from("-----BEGIN PRIVATE KEY-----");
    for (index, three) in der.chunks(3).enumerate() {
        if index % 16 == 0 {
            text.push('\n');
        }
        let bits = (0..3).fold(0_usize, |bits, at| bits << 8 | usize::from(three.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let digit = char::from(DIGITS[bits >> (18 - 6 * at) & 63]);
            text.write_char(if at <= three.len() { digit } else { '=' }).expect("memory");
        }
    }
    text + "\n-----END PRIVATE KEY-----\n"
}

/// One operation by an engine; the signature, and what became of it.
pub(crate) fn run(
    engine: &dyn Engine,
    key: &PreparedKey,
    suite: Suite,
    way: Direction,
    input: &[u8],
    tag: &[u8],
) -> (OpStatus, Vec<u8>) {
    let mut arena = [input, tag].concat();
    let mut ops = [op_of(input.len(), tag.len())];
    let mut batch = Batch::new(suite, way, &mut ops, &mut arena).check().expect("sound");
    let keys = [Some(key)];
    engine.queue(QueueHint::default()).expect("opens").run(&mut batch.attach_keys(&keys).expect("one key"));
    (ops[0].status, arena[input.len()..].to_vec())
}

pub(crate) fn op_of(input_len: usize, tag_len: usize) -> Op {
    let key = ciphermill_contract::KeyId { slot: 1, generation: 1 };
    Op::in_place(key, Span::new(0, input_len as u32)).with_output(0).with_tag(input_len as u32, tag_len as u16)
}

pub(crate) fn is_valid(suite: Suite, public: &[u8], input: &[u8], signature: &[u8]) -> bool {
    let key = Reference::new().prepare(&KeyMaterial::public(public), suite).expect("a public key");
    run(&Reference::new(), &key, suite, Direction::Decrypt, input, signature).0.is_done()
}

pub(crate) fn signature_len(suite: Suite) -> usize {
    suite.tag_len(Direction::Decrypt).max
}

pub(crate) fn p256() -> Suite {
    Suite::Sign(Signature::Ecdsa(Curve::P256))
}
