//! Messages in parts: what comes of them is what comes of whole ones, and what is refused between two parts.

use ciphermill::{KeyPolicy, Mill, MultiPart};
use ciphermill_contract::error::{FaultKind, Refusal};
use ciphermill_contract::{Direction, Error, KeyId, OpStatus, Reason, Suite};
use ciphermill_fault::{Fault, Script};

use crate::{Message, Random, fast, gcm, import, last_resort, mill, reference};

fn suite(name: &str) -> Suite {
    name.parse().expect("a suite")
}

/// A mill whose only engine takes messages in parts.
fn healthy() -> Mill {
    mill([fast("parts", Script::healthy()).0], 0)
}

fn misuse(reason: Reason) -> Error {
    Error::misuse(0, reason)
}

fn seal(parts: &mut MultiPart, message: &Message, cuts: &[usize]) -> Message {
    let mut sealed = message.clone();
    parts.begin(&message.iv).expect("begun");
    let (first, second) = message.aad.split_at(message.aad.len() / 2);
    parts.absorb(first).expect("taken");
    parts.absorb(second).expect("taken");
    let mut rest = &mut sealed.data[..];
    for cut in cuts {
        let part;
        (part, rest) = std::mem::take(&mut rest).split_at_mut(*cut);
        parts.transform_in_place(part).expect("taken");
    }
    let input = rest.to_vec();
    parts.transform(&input, rest).expect("taken");
    assert_eq!(parts.finish(&mut sealed.tag), Ok(OpStatus::Done));
    sealed
}

#[test]
fn a_message_in_parts_is_what_it_is_whole() {
    let mill = healthy();
    let key = import(&mill, KeyPolicy::default());
    let mut parts = mill.multi_part(gcm(), Direction::Encrypt, key).expect("open");
    for number in 0..70 {
        let message = Message::gcm(number, 100);
        assert_eq!(seal(&mut parts, &message, &[0, 7, 16, 1]), message.sealed(), "{number}");
    }
    drop(parts);
    let metrics = mill.metrics();
    let counted: u64 = metrics.engines[0].suites.iter().map(|entry| entry.operations.done).sum();
    assert_eq!(counted, 70, "messages are counted");
}

#[test]
fn digests_and_macs_take_parts() {
    let mill = healthy();
    let mut digest = mill.multi_part(suite("sha256"), Direction::Encrypt, KeyId::NONE).expect("open");
    digest.begin(b"").expect("begun");
    digest.absorb(b"ab").expect("taken");
    let mut copy = digest.duplicate().expect("a copy");
    digest.absorb(b"c").expect("taken");
    copy.absorb(b"d").expect("taken");
    let (mut abc, mut abd) = ([0; 32], [0; 32]);
    assert_eq!((digest.finish(&mut abc), copy.finish(&mut abd)), (Ok(OpStatus::Done), Ok(OpStatus::Done)));
    // FIPS 180-4's example.
    assert_eq!(abc[..4], [0xba, 0x78, 0x16, 0xbf]);
    assert_ne!(abc, abd);
    let hmac = suite("hmac-sha256");
    let key = import(&mill, KeyPolicy::default());
    let mut sign = mill.multi_part(hmac, Direction::Encrypt, key).expect("open");
    let mut check = mill.multi_part(hmac, Direction::Decrypt, key).expect("open");
    let mut tag = [0; 32];
    sign.begin(b"").and_then(|()| sign.absorb(b"a message")).expect("taken");
    assert_eq!(sign.finish(&mut tag), Ok(OpStatus::Done));
    for (text, status) in [(&b"a message"[..], OpStatus::Done), (b"another", OpStatus::AuthFailed)] {
        check.begin(b"").and_then(|()| check.absorb(text)).expect("taken");
        assert_eq!(check.finish(&mut tag), Ok(status));
    }
}

#[test]
fn text_that_is_not_verified_is_for_those_who_ask_for_it() {
    let mill = healthy();
    let key = import(&mill, KeyPolicy::default());
    let refused = mill.multi_part(gcm(), Direction::Decrypt, key).map(|_| ());
    assert_eq!(refused, Err(Error::Refused(Refusal::Unverified(gcm()))));
    let mut open = mill.multi_part_unverified(gcm(), Direction::Decrypt, key).expect("open");
    let message = Message::gcm(3, 50);
    let mut sealed = message.clone().sealed();
    for wrong in [false, true] {
        let mut text = sealed.data.clone();
        open.begin(&sealed.iv).and_then(|()| open.absorb(&sealed.aad)).expect("taken");
        open.transform_in_place(&mut text).expect("taken");
        assert_eq!(text, message.data);
        sealed.tag[0] ^= u8::from(wrong);
        let status = if wrong { OpStatus::AuthFailed } else { OpStatus::Done };
        assert_eq!(open.finish(&mut sealed.tag), Ok(status));
    }
}

#[test]
fn parts_out_of_order_and_of_wrong_lengths_are_refused() {
    let mill = healthy();
    let key = import(&mill, KeyPolicy::default());
    let mut parts = mill.multi_part(gcm(), Direction::Encrypt, key).expect("open");
    let (early, mut tag, mut data) = (Err(misuse(Reason::PartOutOfOrder)), [0; 16], [0; 20]);
    assert_eq!(parts.absorb(b"aad"), early.clone());
    assert_eq!(parts.transform_in_place(&mut data), early.clone());
    assert_eq!(parts.finish(&mut tag), Err(misuse(Reason::PartOutOfOrder)));
    assert_eq!(parts.begin(&[0; 11]), Err(misuse(Reason::IvLength)));
    parts.begin(&[0; 12]).expect("begun");
    assert_eq!(parts.transform(&[0; 3], &mut data), Err(misuse(Reason::OutputLength)));
    parts.transform_in_place(&mut data).expect("taken");
    assert_eq!(parts.absorb(b"late"), early);
    assert_eq!(parts.finish(&mut tag[..3]), Err(misuse(Reason::TagLength)));
    assert_eq!(parts.finish(&mut tag), Ok(OpStatus::Done));
    let mut digest = mill.multi_part(suite("sha256"), Direction::Encrypt, KeyId::NONE).expect("open");
    digest.begin(b"").expect("begun");
    assert_eq!(digest.transform_in_place(&mut data), Err(misuse(Reason::InputUnexpected)));
    let mut ctr = mill.multi_part(suite("aes-128-ctr"), Direction::Encrypt, key).expect("open");
    ctr.begin(&[0; 16]).expect("begun");
    assert_eq!(ctr.absorb(b"aad"), Err(misuse(Reason::AadUnexpected)));
}

#[test]
fn suites_that_are_taken_whole_and_engines_that_take_no_parts_are_refused() {
    let mill = healthy();
    let key = import(&mill, KeyPolicy::default());
    let open = |mill: &Mill, suite: Suite, key| mill.multi_part(suite, Direction::Encrypt, key).map(|_| ());
    let none = |suite| Err(Error::Refused(Refusal::NoEngine(suite, Direction::Encrypt)));
    assert_eq!(open(&mill, suite("aes-128-ccm"), key), none(suite("aes-128-ccm")));
    assert_eq!(open(&mill, gcm(), KeyId::NONE), Err(misuse(Reason::KeyMissing)));
    assert_eq!(open(&mill, suite("sha256"), key), Err(misuse(Reason::KeyUnexpected)));
    let whole_only = crate::mill([reference()], 0);
    let key = import(&whole_only, KeyPolicy::default());
    assert_eq!(open(&whole_only, gcm(), key), none(gcm()));
}

#[test]
fn a_key_is_asked_for_at_each_part_and_its_policy_with_each_message() {
    let mill = healthy();
    let key = import(&mill, KeyPolicy::default());
    let mut parts = mill.multi_part(gcm(), Direction::Encrypt, key).expect("open");
    parts.begin(&[0; 12]).expect("begun");
    mill.keys().destroy(key).expect("there");
    assert_eq!(parts.transform_in_place(&mut [0; 5]), Err(Error::Refused(Refusal::KeyUnknown)));
    // The message is lost with it.
    assert_eq!(parts.finish(&mut [0; 16]), Err(misuse(Reason::PartOutOfOrder)));
    let key = import(&mill, KeyPolicy::default().operations_max(2));
    let mut parts = mill.multi_part(gcm(), Direction::Encrypt, key).expect("open");
    let mut message = || parts.begin(&[0; 12]).and_then(|()| parts.finish(&mut [0; 16]));
    assert_eq!((message(), message()), (Ok(OpStatus::Done), Ok(OpStatus::Done)));
    assert_eq!(message(), Err(Error::Refused(Refusal::KeyPolicy(Reason::KeyBudget))));
}

#[test]
fn a_message_on_an_engine_that_fails_is_lost_and_the_next_one_goes_on() {
    let (engine, handle) = fast("parts", Script::healthy());
    let (second, _) = fast("second", Script::healthy());
    let mill = mill([engine, second, last_resort()], 0);
    let key = import(&mill, KeyPolicy::default());
    let mut parts = mill.multi_part(gcm(), Direction::Encrypt, key).expect("open");
    let mut random = Random(9);
    for fault in [Fault::Errors, Fault::Panic] {
        parts.begin(&[0; 12]).expect("begun");
        handle.set_script(Script::always(fault));
        let failed = parts.transform_in_place(&mut random.bytes(40));
        handle.set_script(Script::healthy());
        let kind = if fault == Fault::Panic { FaultKind::Panicked } else { FaultKind::Unfinished };
        assert_eq!(failed, Err(Error::fault("parts", kind)));
        assert_eq!(parts.finish(&mut [0; 16]), Err(misuse(Reason::PartOutOfOrder)));
        let message = Message::gcm(5, 64);
        assert_eq!(seal(&mut parts, &message, &[10]), message.sealed());
    }
}
