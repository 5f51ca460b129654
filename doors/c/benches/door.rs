//! What the way through the C interface costs: the same batch of 256 operations of 64 bytes on the same mill, by turns from
//! Rust and from C, by `ciphermill_run`. The ratio must be below 1.02.
//!
//! `cargo bench -p ciphermill-c`, on a quiet machine.
#![allow(unsafe_code, reason = "calls of the C interface")]
#![allow(clippy::expect_used, reason = "a benchmark stops at once")]

use std::ffi::CString;
use std::ptr::{null, null_mut};
use std::time::Instant;

use ciphermill::Mill;
use ciphermill::contract::{Batch, Direction, KeyMaterial, Op, OpStatus, Span, Suite};
use ciphermill_c::{
    CIPHERMILL_ENCRYPT, CIPHERMILL_KEY_SECRET, CIPHERMILL_OK, ciphermill_batch, ciphermill_key, ciphermill_key_import,
    ciphermill_mill_open, ciphermill_op, ciphermill_run, ciphermill_suite_by_name,
};

const OPS: usize = 256;
const LEN: usize = 64;
/// Room for a message and its tag.
const STRIDE: usize = 128;
/// Batches of each side.
const ROUNDS: usize = 20_000;

/// The median of times in nanoseconds.
fn median(times: &mut [u64]) -> u64 {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ops(key: Option<ciphermill::contract::KeyId>, suite: Suite) -> Vec<Op> {
    let op = |at: usize| {
        let op = Op::in_place(key.unwrap_or_default(), Span::new(at as u32, LEN as u32));
        let iv = (at as u128).to_le_bytes();
        op.with_iv(&iv[..suite.default_iv_len()]).with_tag((at + LEN) as u32, suite.default_tag_len() as u16)
    };
    (0..OPS).map(|index| op(index * STRIDE)).collect()
}

fn compare(name: &str) {
    let suite: Suite = name.parse().expect("a suite");
    let rust = Mill::builder().engines(ciphermill_engines::all()).open().expect("a mill");
    let (mut c, mut number) = (null_mut(), 0);
    let (mut c_key, bytes) = (ciphermill_key { slot: 0, generation: 0 }, [7; 16]);
    let name = CString::new(name).expect("a name");
    // SAFETY: valid pointers.
    unsafe {
        assert_eq!(ciphermill_mill_open(&mut c, null()), CIPHERMILL_OK);
        assert_eq!(ciphermill_suite_by_name(&mut number, name.as_ptr()), CIPHERMILL_OK);
        let imported = ciphermill_key_import(c, &mut c_key, CIPHERMILL_KEY_SECRET, bytes.as_ptr(), 16, null());
        assert_eq!(imported, CIPHERMILL_OK);
    }
    let key = rust.keys().import(KeyMaterial::secret(&bytes), ciphermill::KeyPolicy::default()).expect("a key");
    let key = suite.needs_key().then_some(key);
    // One key each, so that the names are the same in both tables.
    assert!(key.is_none_or(|key| (key.slot, key.generation) == (c_key.slot, c_key.generation)));

    let template = ops(key, suite);
    let mut arenas = [[1_u8; OPS * STRIDE]; 2];
    let (mut ops, mut times) = (template.clone(), [vec![], vec![]]);
    for round in 0..2 * ROUNDS {
        // Who comes first changes from pair to pair.
        let is_c = (round ^ round >> 1) & 1 == 1;
        ops.copy_from_slice(&template);
        let arena = &mut arenas[usize::from(is_c)];
        let start = Instant::now();
        if is_c {
            let batch = ciphermill_batch {
                suite: number,
                ops: ops.as_mut_ptr().cast::<ciphermill_op>(),
                ops_len: OPS,
                arena: arena.as_mut_ptr(),
                arena_len: arena.len(),
                direction: CIPHERMILL_ENCRYPT,
                reserved: 0,
            };
            // SAFETY: an open handle, and valid pointers with their lengths.
            assert_eq!(unsafe { ciphermill_run(c, null_mut(), &batch, null()) }, CIPHERMILL_OK);
        } else {
            rust.run(Batch::new(suite, Direction::Encrypt, &mut ops, arena)).expect("runs");
        }
        times[usize::from(is_c)].push(start.elapsed().as_nanos() as u64);
        assert!(ops.iter().all(|op| op.status == OpStatus::Done));
    }
    assert_eq!(arenas[0], arenas[1], "both ways give the same");
    let [rust_ns, c_ns] = times.each_mut().map(|times| median(times));
    let ratio = c_ns as f64 / rust_ns as f64;
    println!("{:14} {rust_ns:7} ns from Rust, {c_ns:7} ns from C, ratio {ratio:.3}", suite.to_string());
}

fn main() {
    for name in ["aes-128-ctr", "aes-128-gcm", "sha256"] {
        compare(name);
    }
}
