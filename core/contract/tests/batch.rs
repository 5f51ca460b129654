//! Batches as callers fill them and as engines get them.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use ciphermill_contract::limits::BATCH_OPS_MAX;
use ciphermill_contract::{
    ArenaBuffer, Batch, CheckedBatch, Direction, Error, KeyId, Op, OpStatus, OwnedBatch, PreparedKey, Reason, Span,
    Suite,
};

const KEY: KeyId = KeyId { slot: 3, generation: 1 };

fn suite(name: &str) -> Suite {
    name.parse().expect("a suite")
}

/// Three operations of 16, 32 and 48 bytes, in place and one behind the other from offset 8 on.
fn ops() -> [Op; 3] {
    [(8, 16), (24, 32), (56, 48)].map(|(offset, len)| Op::in_place(KEY, Span::new(offset, len)).with_iv(&[1; 16]))
}

fn check<'a>(name: &str, ops: &'a mut [Op], arena: &'a mut [u8]) -> CheckedBatch<'a> {
    Batch::new(suite(name), Direction::Encrypt, ops, arena).check().expect("a batch that keeps the rules")
}

#[test]
fn a_batch_tells_what_it_holds() {
    let (mut ops, mut arena) = (ops(), [0xA5; 120]);
    let before = ops;
    let batch = Batch::new(suite("aes-128-cbc"), Direction::Decrypt, &mut ops, &mut arena);
    assert_eq!((batch.suite(), batch.direction()), (suite("aes-128-cbc"), Direction::Decrypt));
    assert!(batch.len() == 3 && !batch.is_empty());
    let batch = batch.check().expect("right");
    assert_eq!((batch.suite(), batch.direction()), (suite("aes-128-cbc"), Direction::Decrypt));
    assert!(batch.len() == 3 && !batch.is_empty());
    assert_eq!((batch.ops(), batch.arena(), batch.keys().len()), (&before[..], &[0xA5; 120][..], 0));
    assert_eq!(batch.input_bytes(), 96);
    assert!(Batch::new(suite("random"), Direction::Encrypt, &mut [], &mut []).is_empty());
    assert!(check("random", &mut [], &mut []).is_empty());
}

#[test]
fn input_is_counted_whether_or_not_operations_are_alike() {
    for swapped in [false, true] {
        let (mut ops, mut arena) = (ops(), [0; 120]);
        if swapped {
            ops.swap(0, 2);
        }
        assert_eq!(check("aes-128-ctr", &mut ops, &mut arena).input_bytes(), 96);
    }
    let mut one = [ops()[1]];
    assert_eq!(check("aes-128-ctr", &mut one, &mut [0; 120]).input_bytes(), 32);
}

#[test]
fn a_batch_holds_as_many_operations_as_its_limit_says() {
    let mut ops = vec![Op::default(); BATCH_OPS_MAX];
    assert_eq!(check("random", &mut ops, &mut []).len(), BATCH_OPS_MAX);
}

#[test]
fn keys_are_attached_one_an_operation_or_not_at_all() {
    let (mut ops, mut arena) = (ops(), [0; 120]);
    let mut batch = check("aes-128-cbc", &mut ops, &mut arena);
    let made = [7u32, 8, 9].map(PreparedKey::new);
    let keys: Vec<Option<&PreparedKey>> = made.iter().map(Some).collect();
    for wrong in [1, 2] {
        assert_eq!(batch.attach_keys(&keys[..wrong]).err(), Some(Error::misuse(wrong, Reason::KeyMissing)));
    }
    let more = [keys.clone(), keys.clone()].concat();
    assert_eq!(batch.attach_keys(&more).err(), Some(Error::misuse(3, Reason::KeyMissing)));
    assert!(batch.attach_keys(&[]).expect("none").keys().is_empty());
    let mut attached = batch.attach_keys(&keys).expect("one each");
    assert_eq!((attached.len(), attached.input_bytes(), attached.keys().len()), (3, 96, 3));
    let mut seen = Vec::new();
    attached.process(|buffers| {
        seen.push(buffers.key.and_then(|key| key.state::<u32>().copied()));
        OpStatus::Done
    });
    assert_eq!(seen, [Some(7), Some(8), Some(9)]);
}

#[test]
fn parts_get_the_keys_of_their_own_operations() {
    let (mut ops, mut arena) = (ops(), [0; 120]);
    let mut batch = check("aes-128-cbc", &mut ops, &mut arena);
    let made = [7u32, 8, 9].map(PreparedKey::new);
    let keys: Vec<Option<&PreparedKey>> = made.iter().map(Some).collect();
    let mut attached = batch.attach_keys(&keys).expect("one each");
    let seen = attached.in_parts(&[1, 1, 1], |parts| {
        let state = |part: &CheckedBatch<'_>| part.keys()[0].and_then(|key| key.state::<u32>().copied());
        parts.iter().map(|part| (part.keys().len(), state(part))).collect::<Vec<_>>()
    });
    assert_eq!(seen, Some(vec![(1, Some(7)), (1, Some(8)), (1, Some(9))]));
}

#[test]
fn states_are_set_one_by_one_and_by_what_they_are() {
    let (mut ops, mut arena) = (ops(), [0; 120]);
    let mut batch = check("aes-128-cbc", &mut ops, &mut arena);
    batch.set_status(1, OpStatus::AuthFailed);
    assert_eq!(batch.replace_status(OpStatus::is_pending, OpStatus::EngineFault), 2);
    assert_eq!(batch.replace_status(OpStatus::is_pending, OpStatus::Done), 0);
    let states: Vec<OpStatus> = batch.ops().iter().map(|op| op.status).collect();
    assert_eq!(states, [OpStatus::EngineFault, OpStatus::AuthFailed, OpStatus::EngineFault]);
}

/// Work is given a long initialisation vector whole, and additional data without it.
#[test]
fn work_finds_a_long_iv_whole() {
    let iv: Vec<u8> = (0..128).collect();
    for (len, aad_len) in [(16, 5), (17, 0), (17, 3), (128, 0), (128, 9)] {
        let mut arena = vec![0xEE; 300];
        arena[100..][..len - 16].copy_from_slice(&iv[16..len]);
        let mut ops = [Op::in_place(KEY, Span::new(10, 20)).with_iv(&iv[..len]).with_tag(40, 16)];
        ops[0].aad = ciphermill_contract::Aad::new(100, (len - 16 + aad_len) as u16);
        check("aes-128-gcm-any-iv", &mut ops, &mut arena).process(|buffers| {
            assert_eq!((buffers.iv, buffers.aad), (&iv[..len], &[0xEE; 9][..aad_len]));
            OpStatus::Done
        });
        assert!(ops[0].status.is_done());
    }
}

/// What an operation's work is given: the input where the suite says that it is, and the operation's own IV, additional
/// data and tag, behind whatever lay at the output before.
#[test]
fn work_finds_its_input_where_the_suite_says() {
    for (name, output, transforms) in
        [("aes-128-gcm", 10, true), ("aes-128-gcm", 70, true), ("hmac-sha256", 70, false), ("x25519", 70, false)]
    {
        let suite = suite(name);
        let message: Vec<u8> = (0..32).collect();
        let mut arena = vec![0xEE; 200];
        arena[10..42].copy_from_slice(&message);
        arena[150..155].copy_from_slice(b"label");
        let aad_len = if suite.aad_len().max > 0 { 5 } else { 0 };
        let tag_len = suite.default_tag_len();
        let mut ops = [Op::in_place(KEY, Span::new(10, 32))
            .with_output(output)
            .with_iv(&[9; 16][..suite.default_iv_len()])
            .with_tag(110, tag_len as u16)
            .with_aad(150, aad_len)];
        check(name, &mut ops, &mut arena).process(|buffers| {
            let output_len = suite.output_len(Direction::Encrypt, 32, 0);
            assert_eq!(buffers.input, if transforms { &[][..] } else { &message[..] }, "{name}");
            assert_eq!((buffers.data.len(), buffers.output_len, buffers.input_len), (output_len, output_len, 32));
            if transforms {
                assert_eq!(buffers.data, message, "{name} to {output}");
            }
            assert_eq!((buffers.iv, buffers.aad), (&[9; 16][..suite.default_iv_len()], &b"label"[..aad_len.into()]));
            assert_eq!((buffers.tag.len(), buffers.tag_written), (tag_len, tag_len));
            OpStatus::Done
        });
        if suite.output_len(Direction::Encrypt, 32, 0) == 0 {
            assert!(arena[42..110].iter().all(|byte| *byte == 0xEE), "{name} has nothing to write there");
        }
    }
}

/// Room for a signature may be larger than it: what was not said to be written is the suite's own length, and of the
/// output what was not written is zeroed.
#[test]
fn lengths_come_back_in_the_operation() {
    let mut arena = vec![0xEE; 600];
    let mut ops = [Op::in_place(KEY, Span::new(0, 20)).with_tag(100, 100)];
    check("ed25519", &mut ops, &mut arena).process(|buffers| {
        assert_eq!((buffers.tag.len(), buffers.tag_written), (100, 64));
        OpStatus::Done
    });
    assert_eq!(ops[0].tag_len, 64);

    let mut ops = [Op { output_len: 300, ..Op::default() }];
    check("random", &mut ops, &mut arena).process(|buffers| {
        assert_eq!(buffers.data.len(), 300);
        buffers.output_len = 200;
        OpStatus::Done
    });
    assert_eq!(ops[0].output_len, 200);
    assert!(arena[..200].iter().all(|byte| *byte == 0xEE) && arena[200..300].iter().all(|byte| *byte == 0));
}

#[test]
fn owned_batches_are_batches_over_their_own_arena() {
    let mut arena: Box<dyn ArenaBuffer> = Box::new(vec![0; 120]);
    arena.bytes_mut()[5] = 77;
    assert_eq!((arena.bytes().len(), arena.bytes()[5]), (120, 77));
    let mut owned =
        OwnedBatch { suite: suite("aes-128-cbc"), direction: Direction::Decrypt, ops: ops().to_vec(), arena };
    let batch = owned.as_batch().check().expect("right");
    assert_eq!((batch.suite(), batch.direction(), batch.len()), (suite("aes-128-cbc"), Direction::Decrypt, 3));
    assert_eq!((batch.arena().len(), batch.arena()[5]), (120, 77));
}
