//! `ip xfrm` of iproute2 with the preloaded library, against a table in memory; and what the library makes of the calls that
//! programs make on such a socket (`net/xfrm-shim/examples/calls.rs`).

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::client::Running;
use ciphermill_xfrm::{Limits, Table};

/// The folder with the library and its program. They are built here, since a package's tests are built without the libraries of
/// others, and in a folder of their own, so that they do not wait for whoever builds in the usual one.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let test = env::current_exe().expect("the test's own path");
        let target = test.ancestors().nth(2).expect("the profile's folder").join("xfrm-shim");
        for what in [&["--lib"][..], &["--example", "calls"]] {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--quiet", "--locked", "--package", "ciphermill-xfrm-shim"]).args(what);
            let status = cargo.arg("--target-dir").arg(&target).status().expect("cargo runs");
            assert!(status.success(), "the library is built");
        }
        let triple = env::var_os("CARGO_BUILD_TARGET").unwrap_or_default();
        target.join(triple).join("debug")
    })
}

fn preloaded(server: &Path, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("CIPHERMILL_XFRM", server).env("LD_PRELOAD", built().join("libciphermill_xfrm_shim.so"));
    command
}

/// What `ip` says with these words, and whether it was content.
fn ip(server: &Path, words: &str) -> (bool, String) {
    let ran = preloaded(server, "ip").args(words.split_whitespace()).output();
    let ran = ran.expect("ip of iproute2 is there (apt-get install iproute2)");
    let said = [ran.stdout, ran.stderr].concat();
    (ran.status.success(), String::from_utf8(said).expect("text"))
}

fn ok(server: &Path, words: &str) -> String {
    let (content, said) = ip(server, words);
    assert!(content, "ip {words}: {said}");
    said
}

fn fails(server: &Path, words: &str, why: &str) {
    let (content, said) = ip(server, words);
    assert!(!content && said.contains(why), "ip {words}: {said}");
}

/// Whether all of these stand in a text, in this order.
fn has(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("no {part:?} after what stands before it in {text}"));
        rest = &rest[at + part.len()..];
    }
}

const GCM: &str = "xfrm state add src 10.0.0.1 dst 10.0.0.2 proto esp spi 0x1001 mode tunnel reqid 7 replay-window 32 \
    aead rfc4106(gcm(aes)) 0x000102030405060708090a0b0c0d0e0f10111213 128 sel src 10.1.0.0/16 dst 10.2.0.0/16";
const CBC: &str = "xfrm state add src 10.0.0.1 dst 10.0.0.2 proto esp spi 0x1002 mode tunnel \
    auth-trunc hmac(sha256) 0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f 128 \
    enc aes 0x000102030405060708090a0b0c0d0e0f encap espinudp 4500 4501 0.0.0.0 flag esn replay-window 128 \
    mark 5 mask 0xff output-mark 0x10 if_id 9 extra-flag dont-encap-dscp";
const SIX: &str = "xfrm state add src fd00::1 dst fd00::2 proto esp spi 0x1003 mode transport \
    auth sha1 0x000102030405060708090a0b0c0d0e0f10111213 enc cbc(des3_ede) 0x000102030405060708090a0b0c0d0e0f1011121314151617";

#[test]
fn associations() {
    let server = Running::new(Limits::default(), Table::new());
    let at = &*server.path;
    assert_eq!(ok(at, "xfrm state list"), "");
    for words in [GCM, CBC, SIX] {
        assert_eq!(ok(at, words), "");
    }
    fails(at, GCM, "an association with this SPI is there");
    fails(at, "xfrm state add src 10.0.0.1 dst 10.0.0.2 proto esp spi 9 aead magic 0x00 64", "that is not known");
    fails(at, "xfrm state add src 10.0.0.1 dst 10.0.0.2 proto ah spi 9 auth sha1 0x00", "other than ESP");
    let gcm = [
        "src 10.0.0.1 dst 10.0.0.2",
        "proto esp spi 0x00001001 reqid 7 mode tunnel",
        "replay-window 32",
        "aead rfc4106(gcm(aes)) 0x000102030405060708090a0b0c0d0e0f10111213 128",
        "sel src 10.1.0.0/16 dst 10.2.0.0/16",
    ];
    has(&ok(at, "xfrm state get src 10.0.0.1 dst 10.0.0.2 proto esp spi 0x1001"), &gcm);
    let cbc = [
        "proto esp spi 0x00001002 reqid 0 mode tunnel",
        "flag esn",
        "mark 0x5/0xff",
        "output-mark 0x10",
        "auth-trunc hmac(sha256) 0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f 128",
        "enc cbc(aes) 0x000102030405060708090a0b0c0d0e0f",
        "encap type espinudp sport 4500 dport 4501",
        "replay_window 128, bitmap-length 4",
        "if_id 0x9",
    ];
    let listed = ok(at, "xfrm state list");
    has(&listed, &gcm);
    has(&listed, &cbc);
    has(&listed, &["spi 0x00001003", "auth-trunc hmac(sha1)", " 96", "enc cbc(des3_ede)"]);
    has(&ok(at, "-s xfrm state list spi 0x1002"), &["flag esn", "extra_flag dont-encap-dscp"]);
    has(&ok(at, "-s xfrm state list spi 0x1001"), &["limit: soft (INF)(bytes)", "0(bytes), 0(packets)"]);
    assert_eq!(ok(at, "xfrm state list src 10.0.0.1").matches("proto esp").count(), 2);
    has(&ok(at, "xfrm state count"), &["SAD count 3"]);
    let allocated = ok(at, "xfrm state allocspi src 10.0.0.1 dst 10.0.0.2 proto esp min 0x100 max 0x100");
    has(&allocated, &["spi 0x00000100"]);
    fails(at, "xfrm state allocspi src 10.0.0.1 dst 10.0.0.2 proto esp min 0x100 max 0x100", "no SPI of the range");
    ok(at, &GCM.replace("add", "update").replace("0x1001", "0x100"));
    has(&ok(at, "xfrm state list spi 0x100"), &["reqid 7", "aead"]);
    ok(at, "xfrm state delete src 10.0.0.1 dst 10.0.0.2 proto esp spi 0x1001");
    fails(at, "xfrm state get src 10.0.0.1 dst 10.0.0.2 proto esp spi 0x1001", "no such association");
    ok(at, "xfrm state deleteall dst fd00::2");
    has(&ok(at, "xfrm state count"), &["SAD count 2"]);
    ok(at, "xfrm state flush");
    assert_eq!(ok(at, "xfrm state list"), "");
}

#[test]
fn policies() {
    const OUT: &str = "src 10.1.0.0/16 dst 10.2.0.0/16 dir out";
    let server = Running::new(Limits::default(), Table::new());
    let at = &*server.path;
    let template = "tmpl src 10.0.0.1 dst 10.0.0.2 proto esp reqid 7 mode tunnel";
    ok(at, &format!("xfrm policy add {OUT} priority 100 {template}"));
    fails(at, &format!("xfrm policy add {OUT} priority 100 {template}"), "a policy with this selector is there");
    ok(at, &format!("xfrm policy update {OUT} priority 101 {template}"));
    ok(at, "xfrm policy add src fd00::/64 dst ::/0 dir in action block mark 3 mask 0xf if_id 4");
    let out = [
        "src 10.1.0.0/16 dst 10.2.0.0/16",
        "dir out priority 101",
        "tmpl src 10.0.0.1 dst 10.0.0.2",
        "reqid 7 mode tunnel",
    ];
    has(&ok(at, "xfrm policy list"), &out);
    has(&ok(at, &format!("xfrm policy get {OUT}")), &out);
    has(&ok(at, "xfrm policy list"), &["src fd00::/64 dst ::/0", "dir in action block", "mark 0x3/0xf", "if_id 0x4"]);
    has(&ok(at, "-s xfrm policy list"), &["dir out", "index ", "limit: soft"]);
    has(&ok(at, "-s xfrm policy count"), &["SPD IN  1 OUT 1 FWD 0"]);
    ok(at, "xfrm policy set hthresh4 24 20");
    has(&ok(at, "-s -s xfrm policy count"), &["SPD IPv4 thresholds: local 24 remote 20", "128"]);
    ok(at, &format!("xfrm policy delete {OUT}"));
    fails(at, &format!("xfrm policy get {OUT}"), "no such policy");
    ok(at, "xfrm policy flush");
    assert_eq!(ok(at, "xfrm policy list"), "");
}

#[test]
fn monitor() {
    let server = Running::new(Limits::default(), Table::new());
    let at = &*server.path;
    let mut monitor = preloaded(at, "stdbuf");
    monitor.args(["-oL", "ip", "xfrm", "monitor"]).stdout(Stdio::piped());
    let mut monitor = monitor.spawn().expect("stdbuf of coreutils is there");
    let lines = BufReader::new(monitor.stdout.take().expect("a pipe")).lines();
    // It hears nothing of what happens before it is there, so that the first is repeated until it says something.
    let (sender, heard) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let next = || heard.recv_timeout(std::time::Duration::from_millis(100)).ok();
    let begun = (0..100).any(|_| {
        ok(at, "xfrm policy flush");
        next().is_some_and(|line| line.contains("Flushed policy"))
    });
    assert!(begun, "it begins to hear within ten seconds");
    ok(at, GCM);
    ok(at, "xfrm state delete src 10.0.0.1 dst 10.0.0.2 proto esp spi 0x1001");
    ok(at, "xfrm policy add src 10.1.0.0/16 dst 10.2.0.0/16 dir out");
    ok(at, "xfrm policy delete src 10.1.0.0/16 dst 10.2.0.0/16 dir out");
    let mut said = String::new();
    while let Some(line) = next() {
        said += &line;
        said.push('\n');
    }
    let zeros = format!("aead rfc4106(gcm(aes)) 0x{} 128", "0".repeat(40));
    has(&said, &["spi 0x00001001", &zeros, "Deleted src 10.0.0.1", "dir out", "Deleted src 10.1.0.0/16"]);
    // With the server the connection ends, which is an error to it, and no endless loop.
    drop(server);
    assert!(!monitor.wait().expect("it ends").success());
    assert!(reader.join().is_ok());
}

#[test]
fn calls_of_programs() {
    let server = Running::new(Limits::default(), Table::new());
    let ran = preloaded(&server.path, built().join("examples/calls")).output().expect("the program runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "as netlink\n");
}

#[test]
fn without_a_server_there_is_no_kernel_either() {
    let nobody = Path::new("/nonexistent/xfrm");
    fails(nobody, "xfrm state list", "Connection refused");
    assert!(ip(nobody, "link show lo").0, "sockets of other protocols are the kernel's");
    fails(Path::new(&"x".repeat(200)), "xfrm state list", "Connection refused");
    fails(Path::new(""), "xfrm state list", "Connection refused");
}
