//! Ciphers whose keys are in the mill when their process forks: parent and child go on from the same place.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]
#![allow(unsafe_code, reason = "forks")]

mod support;

use support::pair::{Pair, Random};

const CIPHERS: [(&str, usize, usize); 5] = [
    ("AES-128-CTR", 16, 16),
    ("AES-128-GCM", 16, 12),
    ("AES-256-CBC", 32, 16),
    ("AES-256-ECB", 32, 0),
    ("AES-128-XTS", 32, 16),
];

/// Two parts of each message. Of GCM the second belongs to a message of its own: what is authenticated so far lies in the mill of
/// the parent, so that a child is refused.
fn go_on(pairs: &mut [Pair], random: &mut Random) {
    for (pair, (name, _, iv_len)) in pairs.iter_mut().zip(CIPHERS) {
        for _ in 0..2 {
            if name.ends_with("GCM") {
                pair.begin(false, None, Some(&random.bytes(iv_len)));
            }
            assert!(pair.update(&random.bytes(5000)).is_some(), "{name}");
        }
    }
}

// One test only, since no other thread may hold a lock when the process forks.
#[test]
fn a_child_goes_on_with_every_cipher() {
    support::load();
    let mut random = Random(21);
    let mut pairs = CIPHERS.map(|(name, key_len, iv_len)| {
        let (key, iv) = (random.bytes(key_len), random.bytes(iv_len));
        Pair::new(name, false, Some(&key), (iv_len != 0).then_some(&iv[..]))
    });
    go_on(&mut pairs, &mut random);
    let before = support::count(c"ciphermill-messages");
    assert!(before >= CIPHERS.len() as u64, "all are in the mill");
    // SAFETY: no other thread of this process holds a lock of what the child uses; it ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let went_on = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            go_on(&mut pairs, &mut random);
            assert!(support::count(c"ciphermill-messages") > before, "in a mill of its own");
            // Contexts that were begun by the parent are ended here too.
            drop(pairs);
        }));
        // SAFETY: nothing of the test's harness is to run here.
        unsafe { libc::_exit(i32::from(went_on.is_err())) };
    }
    let mut status = -1;
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child ended with {status:#x}");
    go_on(&mut pairs, &mut random);
}
