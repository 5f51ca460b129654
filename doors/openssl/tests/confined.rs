//! A process that confines itself after the provider was loaded goes on with `default`, and opens no mill.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]
#![allow(unsafe_code, reason = "system calls")]

mod support;

use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::PKey;
use openssl::sign::{Signer, Verifier};

/// A filter of this thread's system calls, which lets all of them pass.
fn confine() {
    let mut allow =
        libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
    let program = libc::sock_fprog { len: 1, filter: &mut allow };
    // SAFETY: a program of one instruction, which lives while the calls last.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program), 0);
    }
}

#[test]
fn who_has_confined_himself_opens_no_mill() {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("proc");
    if !status.contains("Seccomp:\t0") {
        eprintln!("not looked at: this machine filters system calls already, so that another filter is not seen");
        return;
    }
    support::load();
    confine();
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("a curve");
    let key = PKey::from_ec_key(EcKey::generate(&group).expect("a key")).expect("a key");
    let mut signer = Signer::new(MessageDigest::sha256(), &key).expect("a signer");
    let signature = signer.sign_oneshot_to_vec(b"a message").expect("a signature");
    let mut verifier = Verifier::new(MessageDigest::sha256(), &key).expect("a verifier");
    assert!(verifier.verify_oneshot(&signature, b"a message").expect("verified"));
    assert_eq!(support::operations().0, 0, "nothing was done in a mill");
}
