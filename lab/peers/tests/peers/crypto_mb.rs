//! crypto_mb: how a library is loaded, with a double in C that has its functions, and where the machine has the library itself, the
//! contract and the published vectors.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use ciphermill_conformance::{Options, check_engine, differential};
use ciphermill_contract::suite::Agreement;
use ciphermill_contract::{
    Batch, Direction, Engine, KeyForm, KeyMaterial, Op, OpStatus, QueueHint, Reason, Suite, capability,
};
use ciphermill_peers::crypto_mb::{NAME, VARIABLE, native_at, open_at};
use ciphermill_peers::native::Task;
use ciphermill_peers::{Unavailable, open};
use ciphermill_reference::Reference;
use ciphermill_vectors::job::{Job, key_of, pack};
use ciphermill_vectors::{cases, known_answer, run_known_answer};

/// A library with the functions that the peer looks up. X25519 answers with the private key XOR the public value and refuses
/// values of zeros with "low order", so that order of arguments, lanes and statuses can be told; all else refuses.
const DOUBLE: &str = r#"
struct version { int major, minor, patch; char target[4]; const char *name, *built, *words; };
const struct version *mbx_getversion(void) {
    static const struct version own = { MAJOR, 2, 3, "k9", "double", "", "" };
    return &own;
}
unsigned long long mbx_get_algo_info(int algorithm) { return algorithm == 4 ? WIDTH : 0; }
unsigned mbx_x25519_mb8(unsigned char *const out[8], const unsigned char *const own[8], const unsigned char *const other[8]) {
    unsigned status = 0;
    for (int lane = 0; lane < 8; lane++) {
        unsigned char any = 0;
        for (int i = 0; i < 32; i++) {
            out[lane][i] = own[lane][i] ^ other[lane][i];
            any |= other[lane][i];
        }
        status |= (any ? 0u : 4u) << 4 * lane;
    }
    return status;
}
#define REFUSES(name) unsigned name(void) { return 0x22222222; }
REFUSES(mbx_rsa_public_mb8) REFUSES(mbx_rsa_private_mb8) REFUSES(mbx_rsa_private_crt_mb8)
REFUSES(mbx_ed25519_sign_mb8) REFUSES(mbx_ed25519_verify_mb8)
REFUSES(mbx_nistp256_ecdh_mb8) REFUSES(mbx_nistp256_ecdsa_sign_mb8) REFUSES(mbx_nistp256_ecdsa_verify_mb8)
REFUSES(mbx_nistp384_ecdh_mb8) REFUSES(mbx_nistp384_ecdsa_sign_mb8) REFUSES(mbx_nistp384_ecdsa_verify_mb8)
const void *mbx_RSA_pub65537_Method(int bits) { return 0; }
const void *mbx_RSA_private_Method(int bits) { return 0; }
const void *mbx_RSA_private_crt_Method(int bits) { return 0; }
int mbx_RSA_Method_BufSize(const void *method) { return 0; }
"#;

/// Compiles a shared library into a folder of this test run.
fn library(name: &str, text: &str, defines: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("crypto-mb-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (source, made) = (folder.join("double.c"), folder.join("libdouble.so"));
    std::fs::write(&source, text).expect("written");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-w", "-o"])
        .args([&made, &source])
        .args(defines)
        .status()
        .expect("a C compiler, which other peers need too");
    assert!(compiled.success(), "{name}");
    made
}

fn double() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| library("whole", DOUBLE, &["-DMAJOR=1", "-DWIDTH=8"]))
}

/// Why a path gives no peer, in words that name the variable and the path.
fn refused(path: &Path) -> String {
    let Unavailable { name, why, is_mistake } = open_at(path).err().expect("no peer");
    assert!(name == NAME && is_mistake && why.starts_with(&format!("{VARIABLE} is {}", path.display())), "{why}");
    why
}

#[test]
fn what_is_no_crypto_mb_is_refused_with_the_reason() {
    let missing = Path::new("/nowhere/libcrypto_mb.so");
    assert!(refused(missing).ends_with("but there is no such file"));
    assert!(refused(Path::new(env!("CARGO_TARGET_TMPDIR"))).ends_with("there is no such file"), "a folder");
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    assert!(refused(&text).contains("but it cannot be loaded: dlopen failed: "), "with what the loader says");
    let empty = library("empty", "int nothing;", &[]);
    assert!(refused(&empty).ends_with("it has no function `mbx_getversion`, so it is not crypto_mb"));
    let partly = DOUBLE.replace("REFUSES(mbx_nistp384_ecdsa_sign_mb8)", "");
    let partly = library("partly", &partly, &["-DMAJOR=1", "-DWIDTH=8"]);
    assert!(refused(&partly).ends_with("it has no function `mbx_nistp384_ecdsa_sign_mb8`, so it is not crypto_mb"));
    let other = library("other", DOUBLE, &["-DMAJOR=2", "-DWIDTH=8"]);
    assert!(refused(&other).ends_with("it is version 2.2.3 k9, and 1.x is needed"));
    let narrow = library("narrow", DOUBLE, &["-DMAJOR=1", "-DWIDTH=0"]);
    assert!(refused(&narrow).contains("need AVX-512 IFMA"));
}

/// The peer without a variable; set, it has to be what it says.
#[test]
fn the_variable_decides() {
    match (std::env::var_os(VARIABLE).filter(|path| !path.is_empty()), open(NAME)) {
        (Some(_), opened) => drop(opened.expect("the variable names a build of crypto_mb")),
        (None, opened) => {
            let Unavailable { why, is_mistake, .. } = opened.err().expect("nobody named one");
            assert!(!is_mistake && why.contains(VARIABLE) && why.contains("not set"), "{why}");
        }
    }
}

fn x25519() -> Suite {
    Suite::Agree(Agreement::X25519)
}

/// Public values that differ, the one of zeros in between; as many as leave the last call partly filled.
fn values(count: usize) -> Vec<Job> {
    let value = |index: usize| if index == 9 { vec![0; 32] } else { vec![index as u8 + 1; 32] };
    (0..count).map(|index| Job { input: value(index), ..Job::default() }).collect()
}

fn wanted(index: usize, private: &[u8; 32]) -> [u8; 32] {
    if index == 9 { [0; 32] } else { private.map(|byte| byte ^ (index as u8 + 1)) }
}

#[test]
fn lanes_keys_and_statuses_reach_their_operations() {
    let peer = open_at(double()).expect("whole");
    assert_eq!(peer.info().version, "1.2.3 k9");
    let keys = [[0x40; 32], [0x80; 32]];
    for count in [1, 7, 8, 9, 21] {
        let (mut arena, mut ops) = pack(x25519(), Direction::Encrypt, &values(count));
        let prepare = |key: &[u8; 32]| peer.prepare(&KeyMaterial::private(key), x25519()).expect("a scalar");
        let prepared = keys.each_ref().map(prepare);
        let of_ops: Vec<_> = (0..count).map(|index| Some(&prepared[index % 2])).collect();
        let mut checked = Batch::new(x25519(), Direction::Encrypt, &mut ops, &mut arena).check().expect("sound");
        let mut queue = peer.queue(QueueHint::default()).expect("a queue");
        queue.run(&mut checked.attach_keys(&of_ops).expect("as many keys as operations"));
        for (index, op) in ops.iter().enumerate() {
            let output = &arena[op.output as usize..op.output as usize + 32];
            let (status, bytes) = match index {
                9 => (OpStatus::BadInput(Reason::BadPublicValue), [0; 32]),
                _ => (OpStatus::Done, wanted(index, &keys[index % 2])),
            };
            assert_eq!((op.status, output), (status, &bytes[..]), "operation {index} of {count}");
            assert_eq!(op.output_len, if status.is_done() { 32 } else { 0 });
        }
    }
}

/// A status that is no verdict about the request is the library's failure.
#[test]
fn a_refused_call_is_an_engine_fault() {
    let peer = open_at(double()).expect("whole");
    for name in ["rsa-2048-sign-pkcs1-sha256", "ed25519", "ecdsa-p256", "ecdh-p384"] {
        let suite: Suite = name.parse().expect("a suite");
        let (mut ops, mut arena, key) = of_known_answer(suite, Direction::Encrypt, 3);
        run(&*peer, suite, Direction::Encrypt, &mut ops, &mut arena, &key);
        assert!(ops.iter().all(|op| op.status == OpStatus::EngineFault), "{name}: {:?}", ops[0].status);
    }
}

#[test]
fn the_native_loop_reaches_the_same_lanes() {
    let (arena, ops) = pack(x25519(), Direction::Encrypt, &values(9));
    let (keys, key_of) = ([&[0x40; 32][..], &[0x80; 32]], [0, 1, 0, 1, 0, 1, 0, 1, 0]);
    let form = KeyForm::Private;
    let task = Task {
        suite: x25519(),
        direction: Direction::Encrypt,
        ops: &ops,
        arena: &arena,
        form,
        keys: &keys,
        key_of: &key_of,
    };
    let mut own = native_at(double(), &task).expect("a loop");
    assert!(own.restart() && own.run(0) && own.run(0));
    let (ops, arena) = own.answers();
    for (index, op) in ops.iter().enumerate() {
        let key = if index % 2 == 0 { [0x40; 32] } else { [0x80; 32] };
        assert_eq!(op.status, OpStatus::Done);
        assert_eq!(arena[op.output as usize..op.output as usize + 32], wanted(index, &key), "operation {index}");
    }
    let (arena, ops) = pack(x25519(), Direction::Encrypt, &values(10));
    let task = Task { ops: &ops, arena: &arena, key_of: &[0; 10], ..task };
    assert!(!native_at(double(), &task).expect("a loop").run(0), "the tenth value is refused");
    assert!(native_at(double(), &Task { form: KeyForm::Secret, ..task }).is_none(), "no key of the suite's");
}

/// The library itself; `None` where nobody named one, which the test's output says.
fn peer() -> Option<Arc<dyn Engine>> {
    match open(NAME) {
        Ok(peer) => Some(peer),
        Err(missing) => {
            assert!(!missing.is_mistake, "{missing}");
            eprintln!("{missing}");
            None
        }
    }
}

fn claimed(peer: &dyn Engine) -> Vec<Suite> {
    let mut all: Vec<Suite> = peer.capabilities().iter().flat_map(|group| group.suites.iter().copied()).collect();
    all.sort();
    all.dedup();
    all
}

/// Whether a public value of X25519 lies so close below the prime, 2^255 - 19, that version 1.1 of the library computes wrongly
/// with it: by less than 2^16. Nobody meets one by chance.
fn is_near_prime(value: &[u8]) -> bool {
    value.len() == 32 && value[2..31].iter().all(|byte| *byte == 0xff) && value[31] & 0x7f == 0x7f
}

#[test]
fn it_keeps_the_contract() {
    let Some(peer) = peer() else { return };
    let options = Options { public_cases_max: 40, ..Options::default() };
    let mut report = check_engine(&*peer, Some(&Reference::new()), &options);
    let odd: Vec<String> = cases(x25519())
        .iter()
        .filter(|case| is_near_prime(&case.input))
        .map(|case| format!("{} {}: output differs", case.source, case.id))
        .collect();
    report
        .failures
        .retain(|failure| failure.suite != Some(x25519()) || !odd.iter().any(|what| failure.what.starts_with(what)));
    report.assert_clean();
}

#[test]
fn it_agrees_with_the_reference_on_random_batches() {
    let Some(peer) = peer() else { return };
    differential(&*peer, &Reference::new(), 0x0dd5_eed5, 60).assert_clean();
}

#[test]
fn every_suite_gives_its_known_answer() {
    let Some(peer) = peer() else { return };
    for suite in claimed(&*peer) {
        assert_eq!(run_known_answer(&*peer, suite), Ok(()), "{suite}");
    }
}

/// Copies of a suite's known answer, and its key.
fn of_known_answer(suite: Suite, direction: Direction, count: usize) -> (Vec<Op>, Vec<u8>, (KeyForm, Vec<u8>)) {
    let case = known_answer(suite).expect("a known answer");
    let key = key_of(case, direction).expect("a key");
    let (mut job, _) = Job::of(case, direction);
    if direction == Direction::Encrypt {
        job.tag = vec![0; suite.default_tag_len()];
    }
    let (arena, ops) = pack(suite, direction, &vec![job; count]);
    (ops, arena.to_vec(), (key.form, key.bytes.to_vec()))
}

fn run(
    engine: &dyn Engine,
    suite: Suite,
    direction: Direction,
    ops: &mut [Op],
    arena: &mut [u8],
    (form, bytes): &(KeyForm, Vec<u8>),
) {
    let key = engine.prepare(&KeyMaterial { form: *form, bytes }, suite).expect("a sound key");
    let keys = vec![Some(&key); ops.len()];
    let mut queue = engine.queue(QueueHint::default()).expect("a queue");
    let mut checked = Batch::new(suite, direction, ops, arena).check().expect("sound");
    queue.run(&mut checked.attach_keys(&keys).expect("as many keys as operations"));
}

/// The native loop signs what the reference verifies, and answers the rest as the reference does.
#[test]
fn the_librarys_native_loop_is_right() {
    let Some(peer) = peer() else { return };
    let path = PathBuf::from(std::env::var_os(VARIABLE).expect("it names the peer"));
    let reference = Reference::new();
    for suite in claimed(&*peer) {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            if capability::find(peer.capabilities(), suite, direction).is_none() {
                continue;
            }
            let (mut ops, mut arena, key) = of_known_answer(suite, direction, 11);
            let (keys, key_of) = ([&key.1[..]], [0; 11]);
            let task = Task { suite, direction, ops: &ops, arena: &arena, form: key.0, keys: &keys, key_of: &key_of };
            let mut own = native_at(&path, &task).expect("a loop");
            assert!(own.restart() && own.run(0), "{suite} {direction}");
            let (own_ops, own_arena) = own.answers();
            assert!(own_ops.iter().all(|op| op.status.is_done()), "{suite} {direction}");
            match (suite, direction) {
                (Suite::Sign(_), Direction::Encrypt) => {
                    let job = |op: &Op| Job {
                        input: own_arena[op.input.range()].to_vec(),
                        tag: own_arena[op.tag_span().range()].to_vec(),
                        ..Job::default()
                    };
                    let jobs: Vec<Job> = own_ops.iter().map(job).collect();
                    let (mut arena, mut ops) = pack(suite, Direction::Decrypt, &jobs);
                    let (_, _, key) = of_known_answer(suite, Direction::Decrypt, 1);
                    run(&reference, suite, Direction::Decrypt, &mut ops, &mut arena, &key);
                    assert!(ops.iter().all(|op| op.status.is_done()), "{suite} {direction}");
                }
                _ => {
                    run(&reference, suite, direction, &mut ops, &mut arena, &key);
                    assert!(ops == own_ops && arena[..] == own_arena[..], "{suite} {direction}");
                }
            }
        }
    }
}
