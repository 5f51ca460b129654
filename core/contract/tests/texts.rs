//! What is printed: errors say what happened and to what, and whatever holds a key says no more than its length.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use ciphermill_contract::error::{FaultKind, KeyProblem};
use ciphermill_contract::{
    Direction, Error, KeyForm, KeyId, KeyMaterial, Misuse, Op, OpStatus, OwnedBatch, PreparedKey, Reason, Refusal,
    Suite,
};

fn suite(name: &str) -> Suite {
    name.parse().expect("a suite")
}

#[test]
fn errors_say_what_happened_and_to_what() {
    let gcm = || suite("aes-128-gcm");
    let refusals = [
        (Refusal::LegacyDisabled(suite("des-cbc")), "des-cbc is a legacy suite; the policy must say `legacy = true`"),
        (
            Refusal::NoColumns(suite("ed25519")),
            "ed25519 does not run as columns; its outputs have other lengths than its inputs",
        ),
        (Refusal::NoSuchDirection(suite("sha256"), Direction::Decrypt), "sha256 has no direction `decrypt`"),
        (Refusal::NoEngine(gcm(), Direction::Encrypt), "no engine of this mill may run aes-128-gcm encrypt"),
        (
            Refusal::Disabled(suite("rc4"), Direction::Decrypt),
            "rc4 decrypt is disabled on every engine of this mill that could run it",
        ),
        (Refusal::EngineUnavailable("gpu".to_owned()), "engine `gpu` is not available for this"),
        (Refusal::KernelUnavailable("vaes".to_owned()), "kernel `vaes` is not available on this machine"),
        (Refusal::KeyUnknown, "the key is unknown or has been destroyed"),
        (Refusal::KeyPolicy(Reason::KeyExpired), "the key has expired"),
        (Refusal::UnwrapFailed, "the wrapped key does not unwrap: wrong wrapping key or damaged bytes"),
        (Refusal::Cancelled, "the batch was cancelled before it was begun"),
        (Refusal::SelfTestFailed(gcm()), "the known-answer test of aes-128-gcm failed"),
        (Refusal::InQuarantine(gcm()), "every engine that could run aes-128-gcm is in quarantine"),
        (
            Refusal::Unverified(gcm()),
            "decrypting aes-128-gcm in parts gives out text that is not verified, which was not asked for",
        ),
    ];
    for (refusal, text) in refusals {
        assert_eq!(Error::Refused(refusal).to_string(), format!("refused: {text}"));
    }
    let problems = [
        (KeyProblem::Length, "wrong length"),
        (KeyProblem::Form, "wrong form (secret, private or public)"),
        (KeyProblem::Encoding, "the encoding does not parse"),
        (KeyProblem::Parameters, "the parameters are not those of the suite"),
        (KeyProblem::Weak, "weak key"),
    ];
    for (problem, text) in problems {
        let expected = format!("refused: the key does not suit aes-128-gcm: {text}");
        assert_eq!(Error::key(gcm(), problem).to_string(), expected);
    }
    let faults = [
        (FaultKind::Unavailable, "not available on this machine"),
        (FaultKind::Call(-5), "a call failed with code -5"),
        (FaultKind::Unfinished, "returned operations that it had not ended"),
        (FaultKind::WrongResult, "gave a wrong result"),
        (FaultKind::Stalled, "did not answer in time"),
        (FaultKind::Panicked, "panicked"),
        (FaultKind::Entropy, "the operating system gave no random bytes"),
    ];
    for (kind, text) in faults {
        assert_eq!(Error::fault("gpu", kind).to_string(), format!("engine gpu: {text}"));
    }
    let misuse = Misuse { op: 7, reason: Reason::TagLength };
    assert_eq!(Error::from(misuse).to_string(), format!("operation 7: {}", Reason::TagLength.text()));
    assert_eq!(Error::exhausted("KEYS_MAX", 2, 3).to_string(), "KEYS_MAX is 2, asked for 3");
}

#[test]
fn outcomes_say_why() {
    let texts = [
        (OpStatus::Pending, "pending"),
        (OpStatus::Done, "done"),
        (OpStatus::AuthFailed, "authentication failed"),
        (OpStatus::BadInput(Reason::NumeralOutOfRange), "bad input: a numeral is not below the radix"),
        (OpStatus::Refused(Reason::KeyBudget), "refused: the key's operation budget is spent"),
        (OpStatus::EngineFault, "engine fault"),
    ];
    for (status, text) in texts {
        assert_eq!(status.to_string(), text);
    }
}

#[test]
fn unknown_names_come_with_the_nearest() {
    let text = |name: &str| name.parse::<Suite>().expect_err("no suite").to_string();
    assert_eq!(text("aes-128-gcn"), "`aes-128-gcn` is not a known name; did you mean `aes-128-gcm`?");
    assert_eq!(text("rot13"), "`rot13` is not a known name");
}

#[test]
fn keys_are_printed_by_name_and_length_alone() {
    assert_eq!(KeyId { slot: 3, generation: 7 }.to_string(), "3.7");
    let key = KeyMaterial::secret(b"do not print me!");
    assert_eq!(format!("{key:?}"), "KeyMaterial(Secret, 16 bytes)");
    assert_eq!(KeyMaterial::private(&[]).form, KeyForm::Private);
    assert_eq!(format!("{:?}", PreparedKey::new(*b"do not print me!")), "PreparedKey");
    let batch = OwnedBatch {
        suite: suite("aes-128-gcm"),
        direction: Direction::Decrypt,
        ops: vec![Op::default(); 3],
        arena: Box::new(b"do not print me!".to_vec()),
    };
    assert_eq!(format!("{batch:?}"), "OwnedBatch(aes-128-gcm decrypt, 3 ops)");
}
