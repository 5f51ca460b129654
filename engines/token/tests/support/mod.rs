//! A store of tokens of SoftHSM for one test.
#![allow(unsafe_code, reason = "a module is shut down and started again under an engine")]
#![allow(dead_code, reason = "each program of tests uses some")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ciphermill_contract::suite::KeyPair;
use ciphermill_contract::{Batch, Direction, Engine as _, Op, OpStatus, QueueHint, Suite};
use ciphermill_memory::SecretBytes;
use ciphermill_reference::Reference;
use ciphermill_token::{Opening, Place, TokenEngine};
use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use cryptoki::types::AuthPin;

pub(crate) const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";
pub(crate) const PIN: &str = "48151623";

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
}

pub(crate) fn opening(name: &'static str, label: &str, pin: &str, copies: bool) -> Opening {
    let pin = Some(SecretBytes::from_slice(pin.as_bytes()).expect("memory"));
    Opening { pin, copies, ..Opening::new(name, Path::new(MODULE), Place::Label(label.to_owned())) }
}

pub(crate) fn open(name: &'static str, label: &str, copies: bool) -> TokenEngine {
    TokenEngine::open(opening(name, label, PIN, copies)).expect("opens")
}

/// Puts a key pair into a token.
pub(crate) fn import(store: &Store, token: &str, label: &str, id: &str, pair: &Pair) {
    let path = store.folder.join("key.pem");
    std::fs::write(&path, pem(&pair.private)).expect("a file");
    let file = path.to_str().expect("a path");
    store.util(&["--import", file, "--token", token, "--label", label, "--id", id, "--pin", PIN]);
}

pub(crate) fn import_aes(store: &Store, label: &str, key: &[u8]) {
    let path = store.folder.join("key.bin");
    std::fs::write(&path, key).expect("a file");
    let file = path.to_str().expect("a path");
    store.util(&["--import", file, "--aes", "--token", "one", "--label", label, "--id", "01", "--pin", PIN]);
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

fn pem(der: &[u8]) -> String {
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

/// What a restart of a token looks like from within: all sessions and handles are gone.
pub(crate) fn restart_module(between: impl FnOnce()) {
    type Call = unsafe extern "C" fn(*mut std::ffi::c_void) -> std::ffi::c_ulong;
    // SAFETY: the module is loaded already, and the two functions have this type (PKCS#11 3.1, 5.4.1 and 5.4.2).
    let codes = unsafe {
        let library = libloading::Library::new(MODULE).expect("loads");
        let end = library.get::<Call>(b"C_Finalize\0").expect("is there")(std::ptr::null_mut());
        between();
        [end, library.get::<Call>(b"C_Initialize\0").expect("is there")(std::ptr::null_mut())]
    };
    assert_eq!(codes, [0, 0]);
}

/// Does something with a token as another application would, in a session that may write. The module is as before then: initialised by an
/// engine that has been opened, or not.
pub(crate) fn as_application(label: &str, work: impl FnOnce(&Session)) {
    let module = Pkcs11::new(MODULE).expect("loads");
    // An engine's module is initialised already.
    let _ = module.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK));
    let slots = module.get_slots_with_token().expect("there are slots");
    let is_here = |slot: &Slot| module.get_token_info(*slot).is_ok_and(|info| info.label() == label);
    let session = module.open_rw_session(slots.into_iter().find(is_here).expect("is there")).expect("opens");
    let _ = session.login(UserType::User, Some(&AuthPin::new(PIN.into())));
    work(&session);
    drop(session);
    // Else the module would be shut down.
    core::mem::forget(module);
}
