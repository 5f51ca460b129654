//! Two equal tokens by one, and a token that is killed while many sign.
//!
//! `cargo bench -p ciphermill-token --bench failover`, on a quiet machine with two cores or more and SoftHSM (Debian's `softhsm2`). Each
//! token has a process of its own. Every signature is verified by the mill before it counts.
#![allow(unsafe_code, reason = "the environment is set before there are threads")]
#![allow(clippy::expect_used, reason = "a benchmark stops at once")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ciphermill::{KeyPolicy, Mill, One};
use ciphermill_contract::suite::{Curve, Digest, RsaSize, SignPadding, Signature};
use ciphermill_contract::{Direction, Engine, KeyMaterial, Suite};
use ciphermill_library::Library;
use ciphermill_memory::SecretBytes;
use ciphermill_token::{Host, Opening, Place};

const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";
const PIN: &str = "48151623";
const ROUNDS: usize = 7;
const TURN: Duration = Duration::from_millis(1500);
const CALLERS: usize = 64;

const LABELS: [&str; 2] = ["one", "two"];

fn util(arguments: &[&str]) {
    let output = Command::new("softhsm2-util").args(arguments).output().expect("softhsm2-util");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Makes both tokens, with the same keys.
fn make_tokens(folder: &Path) {
    std::fs::write(
        folder.join("softhsm2.conf"),
        format!("directories.tokendir = {}\nlog.level = ERROR\n", folder.display()),
    )
    .expect("a file");
    // SAFETY: there are no other threads yet.
    unsafe { std::env::set_var("SOFTHSM2_CONF", folder.join("softhsm2.conf")) };
    for (label, kind) in [
        ("rsa", &["RSA", "-pkeyopt", "rsa_keygen_bits:2048"][..]),
        ("ec", &["EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
    ] {
        let path = folder.join(label);
        let output = Command::new("openssl").args(["genpkey", "-algorithm"]).args(kind).arg("-out").arg(&path).output();
        assert!(output.expect("openssl").status.success());
    }
    for token in LABELS {
        util(&["--init-token", "--free", "--label", token, "--so-pin", "11223344", "--pin", PIN]);
        for (label, id) in [("rsa", "01"), ("ec", "02")] {
            let file = folder.join(label);
            let file = file.to_str().expect("a path");
            util(&["--import", file, "--token", token, "--label", label, "--id", id, "--pin", PIN]);
        }
    }
}

fn mill(tokens: usize) -> Mill {
    let open = |label: &'static str| {
        let program = env!("CARGO_BIN_EXE_ciphermill-token-host").into();
        let host = Some(Host { program, arguments: Vec::new() });
        let pin = Some(SecretBytes::from_slice(PIN.as_bytes()).expect("memory"));
        let opening = Opening { pin, host, ..Opening::new(label, Path::new(MODULE), Place::Label(label.to_owned())) };
        ciphermill_token::open(opening).expect("a token").engine()
    };
    let engines: Vec<Arc<dyn Engine>> = LABELS.into_iter().take(tokens).map(open).collect();
    let library = Arc::new(Library::new().expect("the library"));
    Mill::builder().engines(engines).engine(library).workers(0).open().expect("a mill")
}

/// Signatures a second by so many callers, the longest that one took, and whether any was lost.
fn load(mill: &Mill, suite: Suite, key: &str, disturb: impl FnOnce()) -> (f64, Duration, u64) {
    let key = mill.keys().import(KeyMaterial::reference(key), KeyPolicy::default()).expect("room");
    let (stop, done, longest_us, lost) =
        (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let (mut data, mut tag, begun) = ([7; 32], [0; 512], Instant::now());
                    let tag = &mut tag[..suite.default_tag_len()];
                    let one = One { key, iv: &[], aad: &[], data: &mut data, input_len: 32, tag };
                    let is_done = mill.run_one(suite, Direction::Encrypt, one).is_ok_and(|one| one.status.is_done());
                    longest_us.fetch_max(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
                    if is_done { &done } else { &lost }.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(TURN / 2);
        disturb();
        thread::sleep(TURN / 2);
        stop.store(true, Ordering::Relaxed);
    });
    let rate = done.into_inner() as f64 / begun.elapsed().as_secs_f64();
    (rate, Duration::from_micros(longest_us.into_inner()), lost.into_inner())
}

/// The median, the least and the most.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

/// Ends one of the processes that this one has started.
fn kill_a_token() {
    let threads = std::fs::read_dir("/proc/self/task").expect("proc").flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let pid = lists.flat_map(|list| list.split_whitespace().next().map(str::to_owned)).next().expect("a child");
    assert!(Command::new("kill").args(["-KILL", &pid]).status().expect("kill").success());
}

fn main() {
    if !Path::new(MODULE).exists() {
        eprintln!("no SoftHSM at {MODULE}: apt-get install softhsm2");
        std::process::exit(77);
    }
    let folder = tempfile::tempdir().expect("a folder");
    make_tokens(folder.path());
    let rsa = Suite::Sign(Signature::Rsa(RsaSize::Rsa2048, SignPadding::Pkcs1, Digest::Sha256));
    let mills = [mill(1), mill(2)];
    println!("| {CALLERS} callers | one token a second | two | factor |\n|---|---|---|---|");
    for (name, suite, key) in
        [("RSA-2048", rsa, "rsa"), ("ECDSA P-256", Suite::Sign(Signature::Ecdsa(Curve::P256)), "ec")]
    {
        let (mut rates, mut factors) = ([Vec::new(), Vec::new()], Vec::new());
        for _ in 0..ROUNDS {
            let [one, two] = [0, 1].map(|at| {
                let (rate, _, lost) = load(&mills[at], suite, key, || ());
                assert_eq!(lost, 0);
                rates[at].push(rate);
                rate
            });
            factors.push(two / one);
        }
        let [(one, ..), (two, ..)] = rates.map(spread);
        let (factor, least, most) = spread(factors);
        println!("| {name} | {one:.0} | {two:.0} | {factor:.2} ({least:.2} to {most:.2}) |");
    }
    println!("\n| a token of two is killed | longest wait in ms | without | lost |\n|---|---|---|---|");
    for (name, suite, key) in [("RSA-2048", rsa, "rsa")] {
        let (mut waits, mut without, mut all_lost) = (Vec::new(), Vec::new(), 0);
        for _ in 0..ROUNDS {
            let (_, wait, lost) = load(&mills[1], suite, key, || ());
            without.push(wait.as_secs_f64() * 1e3);
            all_lost += lost;
            let (_, wait, lost) = load(&mills[1], suite, key, kill_a_token);
            waits.push(wait.as_secs_f64() * 1e3);
            all_lost += lost;
        }
        let ((wait, least, most), (without, ..)) = (spread(waits), spread(without));
        println!("| {name} | {wait:.0} ({least:.0} to {most:.0}) | {without:.0} | {all_lost} |");
    }
}
