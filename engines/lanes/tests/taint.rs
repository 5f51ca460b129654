//! Whether any branch or address of a kernel depends on keys or data: Valgrind's memcheck is told that they are undefined,
//! and reports each conditional jump and each memory access that depends on undefined bits (Langley's ctgrind).
//! `make ctgrind` runs it, on the release build: the checks for overflow of other builds branch on sums of secret words.
//! Valgrind 3.19 has AVX2 and no AVX-512, so kernels of 512 bits are left to `make timing`.
//!
//! What is public by design is not marked: additional data, IVs, lengths. Opening is left out for suites with a tag, for
//! whether a tag fits is told to everybody and memcheck cannot know that.
//!
//! Of key pairs the private numbers are marked, before the key is prepared. What the crates that parse keys do with them is not
//! counted; the operations are. Where their secrets end the engine says itself, with the feature `ctgrind`.
#![allow(unsafe_code, reason = "requests to Valgrind")]
#![cfg(target_arch = "x86_64")]
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use core::arch::asm;
use core::ops::Range;
use std::collections::BTreeSet;

use ciphermill_contract::columns::{AadColumn, ColumnData, Extents, IvColumn, PreparedColumn, TagColumn};
use ciphermill_contract::suite::{Agreement, Signature};
use ciphermill_contract::{
    Batch, ColumnBatch, ColumnStatus, Direction, Engine, KeyId, KeyMaterial, Op, OpStatus, QueueHint, Span, Suite,
};
use ciphermill_lanes::{Lanes, kernels};
use ciphermill_vectors::keys::{pair_name, pairs};

/// Operations of a batch and bytes of each: uneven, more than one vector's worth.
const OPS: usize = 9;
const LEN: usize = 64;

/// What of an operation is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Secret {
    KeyAndData,
    /// Whether the key's halves are equal is checked and told (NIST SP 800-38E; IEEE 1619): a branch on the key.
    Data,
    /// Whether every numeral is below the radix is checked and told: a branch on the data.
    Key,
}

const SUITES: [(&str, Secret); 19] = [
    ("des-cbc", Secret::KeyAndData),
    ("3des-cbc", Secret::KeyAndData),
    ("aes-128-ecb", Secret::KeyAndData),
    ("aes-256-cbc", Secret::KeyAndData),
    ("aes-128-ctr", Secret::KeyAndData),
    ("aes-256-xts", Secret::Data),
    ("aes-128-gcm", Secret::KeyAndData),
    ("aes-128-gmac", Secret::KeyAndData),
    ("aes-256-gcm-siv", Secret::KeyAndData),
    ("aes-256-siv", Secret::KeyAndData),
    ("aes-128-ccm", Secret::KeyAndData),
    ("aes-128-ocb", Secret::KeyAndData),
    ("aes-128-cmac", Secret::KeyAndData),
    ("chacha20", Secret::KeyAndData),
    ("chacha20-poly1305", Secret::KeyAndData),
    ("ff1-aes-256", Secret::Key),
    ("hmac-sha1", Secret::KeyAndData),
    ("hmac-sha256", Secret::KeyAndData),
    ("hmac-sha512", Secret::KeyAndData),
];

/// Suites of key pairs, whose private operations are run.
const PRIVATE: [&str; 13] = [
    "x25519",
    "x448",
    "ecdh-p256",
    "ecdh-p384",
    "ecdh-secp160r1",
    "dh-ffdhe2048",
    "rsa-2048-sign-pkcs1-sha256",
    "ed25519",
    "ecdsa-p256",
    "ecdsa-p521",
    "ecdh-sect163r2",
    "ecdsa-sect283r1",
    "ml-kem-768",
];

/// Requests to Valgrind (`valgrind.h`, `memcheck.h`).
const RUNNING_ON_VALGRIND: usize = 0x1001;
const COUNT_ERRORS: usize = 0x1201;
const MAKE_MEM_UNDEFINED: usize = 0x4d43_0001;
const MAKE_MEM_DEFINED: usize = 0x4d43_0002;
const CHECK_MEM_IS_DEFINED: usize = 0x4d43_0005;
const CHANGE_ERR_DISABLEMENT: usize = 0x1801;

/// Asks Valgrind; 0 where the program runs without it.
fn request(code: usize, address: *mut u8, len: usize) -> usize {
    let arguments = [code, address as usize, len, 0, 0, 0];
    let mut answer = 0usize;
    // SAFETY: the four rotations add up to 128 bits and the exchange is of a register with itself, so that on a processor
    // nothing happens; Valgrind recognises the sequence and reads the six words that `rax` points to.
    unsafe {
        asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") answer,
            options(nostack),
        );
    }
    answer
}

/// As if it wrote them: what is known of the bytes in registers is not used afterwards.
fn mark(bytes: &mut [u8]) {
    request(MAKE_MEM_UNDEFINED, bytes.as_mut_ptr(), bytes.len());
}

fn clear(bytes: &mut [u8]) {
    request(MAKE_MEM_DEFINED, bytes.as_mut_ptr(), bytes.len());
}

/// Does something whose errors are not counted.
fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    request(CHANGE_ERR_DISABLEMENT, core::ptr::without_provenance_mut(1), 0);
    let out = work();
    request(CHANGE_ERR_DISABLEMENT, core::ptr::without_provenance_mut(usize::MAX), 0);
    out
}

/// Whether any of the bytes is marked, or comes of what was.
fn is_marked(bytes: &mut [u8]) -> bool {
    uncounted(|| request(CHECK_MEM_IS_DEFINED, bytes.as_mut_ptr(), bytes.len()) != 0)
}

/// Errors that Valgrind reported while `work` ran.
fn errors(work: impl FnOnce()) -> usize {
    let before = request(COUNT_ERRORS, core::ptr::null_mut(), 0);
    work();
    request(COUNT_ERRORS, core::ptr::null_mut(), 0) - before
}

/// Operations that lie one behind the other, each with its output, tag and additional data.
fn places(suite: Suite) -> (Vec<Op>, usize) {
    let output_len = suite.output_len(Direction::Encrypt, LEN, 0);
    let (tag_len, aad_len) = (suite.default_tag_len(), suite.aad_len().min.max(suite.aad_len().max.min(11)));
    let stride = LEN + output_len + tag_len + aad_len;
    let place = |index: usize| {
        let start = index * stride;
        let tag = start + LEN + output_len;
        Op::in_place(KeyId { slot: 0, generation: 1 }, Span::new(start as u32, LEN as u32))
            .with_output((start + LEN) as u32)
            .with_tag(if tag_len == 0 { 0 } else { tag as u32 }, tag_len as u16)
            .with_aad(if aad_len == 0 { 0 } else { (tag + tag_len) as u32 }, aad_len as u16)
            .with_iv(&vec![index as u8; suite.default_iv_len()])
    };
    ((0..OPS).map(place).collect(), stride * OPS)
}

/// Runs a suite in one form of a batch.
type Run = fn(&Lanes, Suite, Direction, Secret);

/// A key of the suite's, marked if it is to be.
fn key_of(suite: Suite, secret: Secret) -> Vec<u8> {
    let mut key: Vec<u8> = (0..suite.default_key_len()).map(|index| (index * 29 + 3) as u8).collect();
    if secret != Secret::Data {
        mark(&mut key);
    }
    key
}

/// The same operations as columns under one key: input and output apart, tags before the sealed data as AES-SIV has them.
fn run_columns(engine: &Lanes, suite: Suite, direction: Direction, secret: Secret) {
    let (iv_len, tag_len) = (suite.default_iv_len(), suite.default_tag_len());
    let aad = vec![1; suite.aad_len().min.max(suite.aad_len().max.min(11))];
    let (mut key, mut input, mut ivs) = (key_of(suite, secret), vec![0u8; OPS * LEN], vec![2; OPS * iv_len]);
    let sealed_len = LEN + tag_len;
    let (mut output, mut tags) = (vec![0u8; OPS * sealed_len], vec![0u8; OPS * tag_len]);
    if secret != Secret::Key {
        mark(&mut input);
    }
    let prepared = engine.prepare(&KeyMaterial::secret(&key), suite).expect("a fitting key");
    let mut queue = engine.queue(QueueHint::default()).expect("a queue");
    let mut statuses = [ColumnStatus::PENDING; OPS];
    let of_len = |len| Extents::Strided { len, stride: len };
    let inputs = of_len(LEN);
    let data = match suite.transforms() {
        true => ColumnData::Separate { input: &input, inputs, output: &mut output, outputs: of_len(sealed_len) },
        false => ColumnData::Input { input: &input, inputs },
    };
    let tags = match (tag_len, suite.transforms()) {
        (0, _) => TagColumn::None,
        (len, true) => TagColumn::Before { len },
        (len, false) => TagColumn::Written { bytes: &mut tags, len },
    };
    ivs.iter_mut().enumerate().for_each(|(index, byte)| *byte = index as u8);
    let ivs = if iv_len == 0 { IvColumn::None } else { IvColumn::Each { bytes: &ivs, len: iv_len } };
    let batch = ColumnBatch::new(suite, direction, data, &mut statuses).with_key(KeyId { slot: 0, generation: 1 });
    let batch = batch.with_ivs(ivs).with_tags(tags).with_aad(AadColumn::One(&aad));
    let mut checked = batch.check().expect("sound columns");
    queue.run_columns(&mut checked.attach_keys(PreparedColumn::One(&prepared)).expect("a key"));
    assert!(checked.done() == OPS, "{suite} {direction}");
    clear(&mut key);
    clear(&mut input);
    clear(&mut output);
    key.fill(0);
}

fn run(engine: &Lanes, suite: Suite, direction: Direction, secret: Secret) {
    let (mut ops, arena_len) = places(suite);
    let (mut key, mut arena) = (key_of(suite, secret), vec![0u8; arena_len]);
    if secret != Secret::Key {
        ops.iter().for_each(|op| mark(&mut arena[op.input.range()]));
    }
    let prepared = engine.prepare(&KeyMaterial::secret(&key), suite).expect("a fitting key");
    let keys = vec![Some(&prepared); ops.len()];
    let mut queue = engine.queue(QueueHint::default()).expect("a queue");
    let mut checked = Batch::new(suite, direction, &mut ops, &mut arena).check().expect("a sound batch");
    queue.run(&mut checked.attach_keys(&keys).expect("a key each"));
    assert!(ops.iter().all(|op| op.status == OpStatus::Done), "{suite} {direction}");
    // What is wiped and compared from here on is nobody's secret.
    clear(&mut key);
    clear(&mut arena);
    key.fill(0);
    arena.fill(0);
}

/// The numbers and octet strings of a key in DER: each one's tag and where it lies.
fn leaves(der: &[u8], from: usize, all: &mut Vec<(u8, Range<usize>)>) {
    let mut at = 0;
    while at < der.len() {
        let (tag, first) = (der[at], usize::from(der[at + 1]));
        let (len, head) = match first {
            ..0x80 => (first, 2),
            _ => (
                der[at + 2..at + 2 + (first & 0x7f)].iter().fold(0, |len, byte| len << 8 | usize::from(*byte)),
                first - 0x7e,
            ),
        };
        let content = at + head..at + head + len;
        // PKCS#8 has the key proper within an octet string.
        if tag == 0x30 || tag == 4 && der[content.start] == 0x30 {
            leaves(&der[content.clone()], from + content.start, all);
        } else {
            all.push((tag, from + content.start..from + content.end));
        }
        at = content.end;
    }
}

/// Where the secrets of a private key are: all of it, or `d` and what follows it (RFC 8017, A.1.2), or the scalar (RFC 5915, 3).
fn secrets(suite: Suite, key: &[u8]) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let tag = match suite {
        Suite::Sign(Signature::Rsa(..)) => 2,
        Suite::Sign(Signature::Ecdsa(_) | Signature::EcdsaDigest(_)) | Suite::Agree(Agreement::Ecdh(_)) => 4,
        _ => return std::iter::once(0..key.len()).collect(),
    };
    leaves(key, 0, &mut all);
    let numbers: Vec<Range<usize>> = all.into_iter().filter(|(own, _)| *own == tag).map(|(_, range)| range).collect();
    if tag == 2 { numbers[numbers.len() - 6..].to_vec() } else { numbers }
}

/// Runs private operations under a marked key, and gives the errors of the operations alone.
fn run_private(engine: &Lanes, suite: Suite) -> usize {
    let pair = pairs(&pair_name(suite).expect("a suite of key pairs"))[0];
    let agrees = matches!(suite, Suite::Agree(_));
    // A ciphertext of nobody's is decapsulated as any other is (FIPS 203, 6.3).
    let direction = if matches!(suite, Suite::Kem(_)) { Direction::Decrypt } else { Direction::Encrypt };
    let len = if matches!(suite, Suite::Sign(_)) { LEN } else { suite.input_len(direction).max };
    let (output_len, tag_len) = (suite.output_len(direction, len, 0), suite.default_tag_len());
    let stride = len + output_len + tag_len;
    let place = |index: usize| {
        let start = index * stride;
        Op::in_place(KeyId { slot: 0, generation: 1 }, Span::new(start as u32, len as u32))
            .with_output((start + len) as u32)
            .with_tag(if tag_len == 0 { 0 } else { (start + len + output_len) as u32 }, tag_len as u16)
    };
    let mut ops: Vec<Op> = (0..PRIVATE_OPS).map(place).collect();
    let mut arena = vec![7u8; stride * PRIVATE_OPS];
    if agrees {
        // The public value ends its encoding.
        let value = &pair.public[pair.public.len() - len..];
        ops.iter().for_each(|op| arena[op.input.range()].copy_from_slice(value));
    }
    let mut key = pair.private.clone();
    let ranges = secrets(suite, &key);
    assert!(!ranges.is_empty(), "{suite}");
    ranges.into_iter().for_each(|range| mark(&mut key[range]));
    let prepared = uncounted(|| engine.prepare(&KeyMaterial::private(&key), suite).expect("a good key"));
    let keys = vec![Some(&prepared); ops.len()];
    let mut queue = engine.queue(QueueHint::default()).expect("a queue");
    let mut checked = Batch::new(suite, direction, &mut ops, &mut arena).check().expect("a sound batch");
    let mut batch = checked.attach_keys(&keys).expect("a key each");
    let count = errors(|| queue.run(&mut batch));
    assert!(ops.iter().all(|op| op.status == OpStatus::Done), "{suite}");
    for op in &ops {
        // What comes out is known to nobody but those who have the key: else the marks got lost on the way.
        let start = op.input.range().end;
        assert!(is_marked(&mut arena[start..start + output_len + tag_len]), "{suite}: nothing came of the marks");
    }
    clear(&mut key);
    clear(&mut arena);
    uncounted(|| drop(prepared));
    count
}

/// Operations of a batch of [`run_private`]: one more than the portable kernel's lanes.
const PRIVATE_OPS: usize = 3;

fn is_under_valgrind() {
    assert_ne!(
        request(RUNNING_ON_VALGRIND, core::ptr::null_mut(), 0),
        0,
        "this is no test without Valgrind: make ctgrind"
    );
}

#[test]
#[ignore = "runs under Valgrind: make ctgrind"]
fn no_branch_and_no_address_depends_on_private_keys() {
    is_under_valgrind();
    let mut found = Vec::new();
    let mut ran = BTreeSet::new();
    let families = ["public", "binary", "lattice"];
    for kernel in kernels().iter().filter(|kernel| families.contains(&kernel.family) && kernel.capable) {
        let name = format!("{}={}", kernel.family, kernel.name);
        let engine = Lanes::with_kernels(&[&name]).expect("it is capable");
        let all = PRIVATE.map(|name| name.parse::<Suite>().expect("a suite"));
        for suite in all.into_iter().filter(|suite| suite.kernel_family() == kernel.family) {
            ran.insert(suite.to_string());
            let count = run_private(&engine, suite);
            println!("{name} {suite}: {count} errors");
            if count != 0 {
                found.push(format!("{name} {suite}: {count}"));
            }
        }
    }
    assert_eq!(ran, PRIVATE.map(str::to_owned).into());
    assert!(found.is_empty(), "branches or addresses depend on private keys: {found:#?}");
}

#[test]
#[ignore = "runs under Valgrind: make ctgrind"]
fn no_branch_and_no_address_depends_on_keys_or_data() {
    is_under_valgrind();
    let leaks = |work: fn(usize) -> usize| {
        errors(|| {
            let mut secret = std::hint::black_box([5u8]);
            mark(&mut secret);
            std::hint::black_box(work(usize::from(std::hint::black_box(secret[0]))));
        })
    };
    assert_ne!(leaks(|secret| if secret & 1 == 0 { std::hint::black_box(3) } else { 4 }), 0, "a branch has to be seen");
    assert_ne!(leaks(|secret| usize::from(std::hint::black_box([7u8; 256])[secret])), 0, "an address has to be seen");

    let mut found = Vec::new();
    let mut runs = 0;
    for kernel in kernels().iter().filter(|kernel| kernel.family != "legacy") {
        let name = format!("{}={}", kernel.family, kernel.name);
        if !kernel.capable {
            println!("{name}: not run, Valgrind or this processor lacks its instructions");
            continue;
        }
        let engine = Lanes::with_kernels(&[&name]).expect("it is capable");
        for (suite, secret) in SUITES {
            let suite: Suite = suite.parse().expect("a suite");
            let claimed = engine.capabilities().iter().any(|claim| claim.suites.contains(&suite.canonical()));
            if suite.kernel_family() != kernel.family || !claimed {
                continue;
            }
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                let opens = direction == Direction::Decrypt
                    && (suite.default_tag_len() != 0 || suite.tag_len(direction).max != 0);
                if opens || !suite.has_direction(direction) {
                    continue;
                }
                let forms: [(&str, Run); 2] = [("ops", run), ("columns", run_columns)];
                for (form, run) in forms {
                    runs += 1;
                    let count = errors(|| run(&engine, suite, direction, secret));
                    println!("{name} {suite} {direction}, {form}: {count} errors");
                    if count != 0 {
                        found.push(format!("{name} {suite} {direction}, {form}: {count}"));
                    }
                }
            }
        }
    }
    assert!(runs > 60, "only {runs} were run");
    assert!(found.is_empty(), "branches or addresses depend on secrets: {found:#?}");
}
