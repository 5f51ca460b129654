//! What a handle refuses: at once, and operation by operation.

use ciphermill::{KeyPolicy, KeyTable, Mill, SelfTest};
use ciphermill_contract::error::{KeyProblem, Refusal};
use ciphermill_contract::{
    Direction, Directions, EngineKind, EngineKinds, Error, KeyId, KeyMaterial, Op, OpStatus, Reason, Span, Suite,
};
use ciphermill_fault::Script;

use crate::{Message, WAY_OPS, fast, faulty, gcm, import, mill, reference, seal, status};

fn suite(name: &str) -> Suite {
    name.parse().expect("a suite")
}

#[test]
fn what_can_be_refused_before_there_is_an_operation_is() {
    let mill = mill([reference()], 0);
    let bind = |suite: Suite, direction, key| mill.bind(suite, direction, key).map(|_| ());
    let key = import(&mill, KeyPolicy::default());
    let encrypt = Direction::Encrypt;
    assert_eq!(bind(gcm(), encrypt, key), Ok(()));
    assert_eq!(bind(gcm(), encrypt, KeyId::NONE), Err(Error::misuse(0, Reason::KeyMissing)));
    assert_eq!(bind(suite("sha256"), encrypt, key), Err(Error::misuse(0, Reason::KeyUnexpected)));
    let no_direction = Refusal::NoSuchDirection(suite("sha256"), Direction::Decrypt);
    assert_eq!(bind(suite("sha256"), Direction::Decrypt, KeyId::NONE), Err(Error::Refused(no_direction)));
    let unknown = KeyId { slot: 77, generation: 1 };
    assert_eq!(bind(gcm(), encrypt, unknown), Err(Error::Refused(Refusal::KeyUnknown)));
    assert_eq!(bind(suite("aes-256-gcm"), encrypt, key), Err(Error::key(suite("aes-256-gcm"), KeyProblem::Length)));
    let policies = [
        (KeyPolicy::only(suite("aes-128-cbc")), Reason::KeySuite),
        (KeyPolicy::default().directions(Directions::DECRYPT), Reason::KeyDirection),
        (KeyPolicy::default().expires_unix_s(1), Reason::KeyExpired),
        (KeyPolicy::default().engines(EngineKinds::only(EngineKind::Token)), Reason::KeyEngine),
    ];
    for (policy, reason) in policies {
        let key = import(&mill, policy);
        assert_eq!(bind(gcm(), encrypt, key), Err(Error::Refused(Refusal::KeyPolicy(reason))));
    }
    let empty = crate::mill([], 0);
    let key = import(&empty, KeyPolicy::default());
    let refused = empty.bind(gcm(), encrypt, key).map(|_| ());
    assert_eq!(refused, Err(Error::Refused(Refusal::NoEngine(gcm(), encrypt))));
}

#[test]
fn legacy_suites_need_the_mills_leave() {
    let des = suite("des-cbc");
    for legacy in [false, true] {
        let mill = Mill::builder().engine(reference()).legacy(legacy).workers(0).open().expect("opens");
        let key = mill.keys().import(KeyMaterial::secret(&[1; 8]), KeyPolicy::default()).expect("room");
        let bound = mill.bind(des, Direction::Encrypt, key).map(|bound| bound.suite());
        assert_eq!(bound, if legacy { Ok(des) } else { Err(Error::Refused(Refusal::LegacyDisabled(des))) });
    }
}

/// Operations that break a rule, each with that rule.
fn broken() -> Vec<(Message, Reason)> {
    let good = Message::gcm(3, 20);
    vec![
        (Message { iv: vec![1; 11], ..good.clone() }, Reason::IvLength),
        (Message { iv: vec![1; 300], ..good.clone() }, Reason::IvLength),
        (Message { tag: vec![9; 5], ..good.clone() }, Reason::TagLength),
        (Message { input_len: 21, ..good.clone() }, Reason::InputPastEnd),
        (Message { aad: vec![0; 1 << 16], ..good }, Reason::InputTooLong),
    ]
}

#[test]
fn an_operation_that_breaks_a_rule_touches_nothing() {
    let (engine, handle) = fast("fast", Script::healthy());
    let mill = mill([engine, reference()], 0);
    let key = import(&mill, KeyPolicy::default());
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    for round in 0..3 {
        let before = handle.batches();
        for (message, reason) in broken() {
            let mut own = message.clone();
            let done = own.run(&mut bound).expect("is told by the status");
            assert_eq!((done.status, done.output_len, done.tag_len), (OpStatus::BadInput(reason), 0, 0));
            assert!(own == message, "buffers are as they were: {reason:?}");
            assert_eq!(own.run_one(&mill, (gcm(), Direction::Encrypt), key), Ok(done));
        }
        assert_eq!(handle.batches(), before, "no engine has seen them");
        // Before anything is known of the way, and afterwards.
        (0..5).for_each(|number| seal(&mut bound, round * 5 + number));
    }
    let mut cbc = mill.bind(suite("aes-128-cbc"), Direction::Encrypt, key).expect("binds");
    for _ in 0..3 {
        for (len, expected) in [(16, OpStatus::Done), (17, OpStatus::BadInput(Reason::NotBlockMultiple))] {
            let mut message = Message { iv: vec![1; 16], aad: vec![], data: vec![7; len], input_len: len, tag: vec![] };
            assert_eq!(message.run(&mut cbc).expect("runs").status, expected);
            assert_eq!(message.data == vec![7; len], expected != OpStatus::Done);
        }
    }
}

#[test]
fn an_operation_in_an_arena_that_breaks_a_rule_is_misuse() {
    let mill = mill([reference()], 0);
    let key = import(&mill, KeyPolicy::default());
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    for _ in 0..3 {
        let mut arena = [3u8; 48];
        let op = Op::in_place(KeyId::NONE, Span::new(0, 32)).with_iv(&[1; 12]);
        let misuse = [
            (op, Reason::TagLength),
            (op.with_tag(40, 16), Reason::TagPastEnd),
            (op.with_tag(31, 16), Reason::TagOverlap),
            (op.with_tag(32, 16).with_output(8), Reason::PartialOverlap),
            (Op { status: OpStatus::Done, ..op.with_tag(32, 16) }, Reason::NotPending),
        ];
        for (mut op, reason) in misuse {
            // A tag that overlaps the output is named after the tag.
            let refused = bound.run_op(&mut op, &mut arena).expect_err("misuse");
            let Error::Misuse(misuse) = refused else { panic!("{refused}") };
            assert!(misuse.reason == reason || reason == Reason::PartialOverlap, "{:?}", misuse.reason);
            assert_eq!(arena, [3; 48]);
        }
        let mut good = op.with_tag(32, 16);
        assert_eq!(bound.run_op(&mut good, &mut arena), Ok(()));
        assert_eq!((good.status, good.key), (OpStatus::Done, key));
    }
}

#[test]
fn a_key_stays_with_the_engines_that_may_hold_it() {
    let (library, handle) = fast("fast", Script::healthy());
    let mill = mill([library, reference()], 0);
    let policy = KeyPolicy::only(gcm()).engines(EngineKinds::only(EngineKind::Reference));
    let key = import(&mill, policy);
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    (0..3 * WAY_OPS).for_each(|number| seal(&mut bound, number));
    assert_eq!(handle.batches(), 0);
    let free = import(&mill, KeyPolicy::default());
    let mut bound = mill.bind(gcm(), Direction::Encrypt, free).expect("binds");
    (0..WAY_OPS).for_each(|number| seal(&mut bound, number));
    assert!(handle.batches() > WAY_OPS as u64 / 2, "others are run there");
}

#[test]
fn offload_engines_are_used_the_ordinary_way() {
    let (device, handle) = faulty("device", Script::healthy(), EngineKind::Gpu);
    let mill = mill([device], 0);
    let key = import(&mill, KeyPolicy::default());
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    (0..100).for_each(|number| seal(&mut bound, number));
    assert_eq!(handle.batches(), 100);
}

#[test]
fn engines_answer_their_known_answers_before_the_first_operation() {
    let (engine, handle) = fast("fast", Script::healthy());
    let mill = Mill::builder().engine(engine).workers(0).open().expect("opens");
    let key = import(&mill, KeyPolicy::default());
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    assert!(handle.batches() > 0, "asked when bound");
    seal(&mut bound, 1);
    let (liar, _) = fast("liar", Script::always(ciphermill_fault::Fault::WrongBit { op: 0, bit: 0 }));
    let mill = Mill::builder().engine(liar).workers(0).open().expect("opens");
    let key = import(&mill, KeyPolicy::default());
    let refused = mill.bind(gcm(), Direction::Encrypt, key).map(|_| ());
    assert_eq!(refused, Err(Error::Refused(Refusal::SelfTestFailed(gcm()))));
}

#[test]
fn a_handle_moves_between_threads_and_outlives_the_mill() {
    let (mut bound, keys) = {
        let mill = Mill::builder().engine(reference()).keys(KeyTable::new()).self_test(SelfTest::Never);
        let mill = mill.workers(0).open().expect("opens");
        let key = import(&mill, KeyPolicy::default());
        (mill.bind(gcm(), Direction::Encrypt, key).expect("binds"), key)
    };
    assert_eq!((bound.suite(), bound.direction(), bound.key()), (gcm(), Direction::Encrypt, keys));
    seal(&mut bound, 1);
    for round in 0..4 {
        let moved = std::thread::spawn(move || {
            (0..50).for_each(|number| seal(&mut bound, round * 50 + number));
            bound
        });
        bound = moved.join().expect("no panic");
    }
    assert_eq!(status(&mut bound), OpStatus::Done);
}

#[test]
fn nothing_of_keys_and_messages_is_printed() {
    let mill = mill([reference()], 0);
    let key = mill.keys().import(KeyMaterial::secret(&[0xab; 16]), KeyPolicy::default()).expect("room");
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    let mut message = Message { data: vec![0xcd; 40], input_len: 40, ..Message::gcm(0, 0) };
    message.run(&mut bound).expect("runs");
    let printed = format!("{bound:?} {bound:#?}");
    assert!(printed.contains("Aes128") && printed.contains("Encrypt"), "{printed}");
    for secret in ["171", "205", "ab", "cd"] {
        let words = printed.split(|letter: char| !letter.is_ascii_alphanumeric());
        assert!(words.clone().all(|word| !word.eq_ignore_ascii_case(secret)), "{printed}");
    }
    assert!(printed.len() < 600, "what it is, not what it holds: {printed}");
}
