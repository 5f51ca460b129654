//! Each rule by its name, with the first operation that breaks it; and what is refused before any rule is looked at.

use ciphermill_contract::columns::{ColumnData, Extents, IvColumn, TagColumn};
use ciphermill_contract::error::{KeyProblem, Refusal};
use ciphermill_contract::limits::SEAL_LEN_MAX;
use ciphermill_contract::suite::{AesSize, Ff1};
use ciphermill_contract::{ColumnBatch, ColumnStatus, Direction, Error, KeyId, Reason, Suite};

use crate::plain::{Aads, Form, Ivs, Keys, Lay, Tags, Told};
use crate::wish::{Wish, WishOp, noise};

const FORTH: Direction = Direction::Encrypt;
const BACK: Direction = Direction::Decrypt;

/// Changes a batch that keeps the rules and expects this refusal.
fn refused(wish: &Wish, op: usize, reason: Reason, change: impl FnOnce(&mut Told)) {
    let mut told = wish.told();
    assert_eq!(told.batch().check().err(), None, "{wish:?}");
    change(&mut told);
    let before = told.clone();
    assert_eq!(told.batch().check().err(), Some(Error::misuse(op, reason)), "{wish:?}");
    assert_eq!(told, before, "something was written");
}

/// Five operations of AES-GCM with all that there is: a nonce in front and a tag behind.
fn gcm(direction: Direction) -> Wish {
    Wish { iv: (2, 0), aad: 2, ..Wish::new("aes-128-gcm", direction, &[16, 5, 0, 40, 33]) }
}

fn small(lay: &mut Lay) -> &mut Vec<i32> {
    match lay {
        Lay::Small(offsets) => offsets,
        other => panic!("{other:?} has no small offsets"),
    }
}

fn large(lay: &mut Lay) -> &mut Vec<i64> {
    match lay {
        Lay::Large(offsets) => offsets,
        other => panic!("{other:?} has no large offsets"),
    }
}

#[test]
fn offsets_that_descend_are_named_at_the_first_operation() {
    let wish = gcm(FORTH);
    refused(&wish, 2, Reason::ExtentsDescend, |told| small(&mut told.inputs)[3] -= 1);
    refused(&wish, 0, Reason::ExtentsDescend, |told| small(&mut told.inputs)[0] = -1);
    refused(&wish, 1, Reason::ExtentsDescend, |told| small(&mut told.outputs)[2] = i32::MIN);
    refused(&wish, 4, Reason::ExtentsDescend, |told| small(&mut told.outputs)[5] = i32::MIN + 12);
    let large_offsets = Wish { lays: [1; 3], ..wish.clone() };
    refused(&large_offsets, 0, Reason::ExtentsDescend, |told| large(&mut told.inputs)[0] = i64::MIN);
    refused(&large_offsets, 3, Reason::ExtentsDescend, |told| large(&mut told.outputs)[4] = -1);
    // From near the top to below zero: the distance wraps to 16, which is a length.
    refused(&wish, 0, Reason::InputPastEnd, |told| {
        let offsets = small(&mut told.inputs);
        (offsets[1], offsets[2]) = (i32::MAX - 10, i32::MIN + 5);
    });
    refused(&large_offsets, 0, Reason::InputPastEnd, |told| {
        let offsets = large(&mut told.inputs);
        (offsets[1], offsets[2]) = (i64::MAX - 10, i64::MIN + 5);
    });
    // Once around: every distance is a length that the suite takes, the first and the last offset lie in the buffer.
    for suite in ["sha256", "aes-128-ctr", "aes-128-gcm"] {
        let around = Wish { in_place: true, tag: (2, 100), ..Wish::new(suite, FORTH, &[0, 0, 0, 0, 16]) };
        refused(&around, 0, Reason::InputPastEnd, |told| {
            *small(&mut told.inputs) = vec![0, 1 << 30, i32::MIN, -(1 << 30), 0, 16];
        });
    }
    let strided = Wish { lays: [2; 3], ..wish };
    refused(&strided, 0, Reason::ExtentsDescend, |told| told.inputs = Lay::Strided { len: 16, stride: 15 });
    refused(&strided, 0, Reason::ExtentsDescend, |told| told.outputs = Lay::Strided { len: usize::MAX, stride: 0 });
}

#[test]
fn extents_past_the_end_are_named_by_their_buffer() {
    let wish = gcm(FORTH);
    refused(&wish, 4, Reason::InputPastEnd, |told| told.input.truncate(96));
    refused(&wish, 4, Reason::OutputPastEnd, |told| told.output.truncate(3 + 94 + 5 * 28 - 1));
    refused(&wish, 3, Reason::OutputPastEnd, |told| told.output.truncate(3 + 94 + 5 * 28 - 62));
    refused(&wish, 4, Reason::AadPastEnd, |told| match &mut told.aad {
        Aads::Each(bytes, _) => bytes.truncate(6),
        other => panic!("{other:?} has no buffer"),
    });
    let strided = Wish { lays: [2; 3], ..wish };
    refused(&strided, 0, Reason::InputPastEnd, |told| told.input.truncate(16 + 4 * 19 - 1));
    refused(&strided, 0, Reason::InputPastEnd, |told| told.inputs = Lay::Strided { len: 16, stride: usize::MAX });
    refused(&strided, 0, Reason::InputPastEnd, |told| {
        told.inputs = Lay::Strided { len: usize::MAX, stride: usize::MAX };
    });
    // Four times this is zero in 64 bits.
    refused(&strided, 0, Reason::OutputPastEnd, |told| told.outputs = Lay::Strided { len: 44, stride: 1 << 62 });
    let one = Wish { lays: [2; 3], ..Wish::new("aes-128-gcm", FORTH, &[16]) };
    refused(&one, 0, Reason::InputPastEnd, |told| {
        told.inputs = Lay::Strided { len: usize::MAX, stride: usize::MAX };
    });
    // The last operation's stride may be as wide as it likes: nothing lies behind.
    let mut told = one.told();
    told.inputs = Lay::Strided { len: 16, stride: usize::MAX };
    assert_eq!(told.batch().check().err(), None);
}

#[test]
fn lengths_are_named_by_the_suite_and_the_direction() {
    let wish = gcm(BACK);
    // The first tag and nonce no longer fit: 16 + 28 bytes became 27.
    refused(&wish, 0, Reason::InputTooShort, |told| small(&mut told.inputs)[1] -= 17);
    refused(&wish, 2, Reason::OutputLength, |told| small(&mut told.outputs)[3] += 1);
    refused(&gcm(FORTH), 3, Reason::OutputLength, |told| {
        let offsets = small(&mut told.outputs);
        offsets[4] += 1;
    });
    let mixed = Wish { lays: [1, 0, 2], ..gcm(FORTH) };
    refused(&mixed, 4, Reason::OutputLength, |told| small(&mut told.outputs)[5] -= 1);
    let cbc = Wish::new("aes-128-cbc", FORTH, &[2, 1, 3]);
    refused(&cbc, 1, Reason::NotBlockMultiple, |told| {
        small(&mut told.inputs)[2] += 8;
        small(&mut told.outputs)[2] += 8;
    });
    let xts = Wish::new("aes-128-xts", FORTH, &[2, 1, 3]);
    refused(&xts, 2, Reason::InputTooShort, |told| {
        small(&mut told.inputs)[3] -= 4;
        small(&mut told.outputs)[3] -= 4;
    });
    let long = Wish { in_place: true, ..Wish::new("seal-3.0", FORTH, &[2, 1, 3]) };
    refused(&long, 2, Reason::InputTooLong, |told| {
        told.inputs = Lay::Large(vec![0, 2, 3, 4 + SEAL_LEN_MAX as i64]);
        told.input = noise(4 + SEAL_LEN_MAX, 0);
    });
}

#[test]
fn columns_that_do_not_fit_are_named() {
    let wish = gcm(FORTH);
    refused(&wish, 0, Reason::ColumnLength, |told| told.statuses.truncate(4));
    refused(&wish, 0, Reason::ColumnLength, |told| told.statuses.push(ColumnStatus::PENDING));
    refused(&wish, 0, Reason::ColumnLength, |told| small(&mut told.outputs).truncate(5));
    refused(&wish, 0, Reason::ColumnLength, |told| small(&mut told.inputs).clear());
    refused(&wish, 0, Reason::IvLength, |told| told.ivs = Ivs::Inline(11));
    refused(&wish, 0, Reason::IvLength, |told| told.ivs = Ivs::Inline(usize::MAX));
    refused(&wish, 0, Reason::ColumnLength, |told| told.ivs = Ivs::Each(noise(59, 0), 12));
    refused(&wish, 0, Reason::IvLength, |told| told.ivs = Ivs::Counter(noise(16, 0)));
    refused(&wish, 0, Reason::IvDrawn, |told| told.ivs = Ivs::Drawn(12));
    refused(&wish, 0, Reason::TagLength, |told| told.tags = Tags::After(11));
    refused(&wish, 0, Reason::TagLength, |told| told.tags = Tags::Before(usize::MAX));
    refused(&wish, 0, Reason::TagLength, |told| told.tags = Tags::None);
    refused(&wish, 0, Reason::TagDirection, |told| told.tags = Tags::Expected(noise(80, 0), 16));
    refused(&wish, 0, Reason::ColumnLength, |told| told.tags = Tags::Written(noise(79, 0), 16));
    refused(&gcm(BACK), 0, Reason::TagDirection, |told| told.tags = Tags::Written(noise(80, 0), 16));
    refused(&wish, 0, Reason::AadUnexpected, |told| told.aad = Aads::One(vec![0; 65_536]));
    refused(&wish, 3, Reason::AadUnexpected, |told| {
        told.aad = Aads::Each(vec![0; 65_536], Lay::Large(vec![0, 0, 0, 0, 65_536, 65_536]));
    });
    refused(&wish, 0, Reason::KeyMissing, |told| told.keys = Keys::None);
    refused(&wish, 0, Reason::KeyMissing, |told| told.keys = Keys::One(KeyId::NONE));
    let each = Wish { key_each: true, ..wish.clone() };
    refused(&each, 3, Reason::KeyMissing, |told| match &mut told.keys {
        Keys::Each(keys) => keys[3] = KeyId::NONE,
        other => panic!("{other:?} are not one each"),
    });
    refused(&each, 0, Reason::ColumnLength, |told| told.keys = Keys::Each(vec![crate::wish::KEY; 4]));
    refused(&wish, 0, Reason::ColumnBuffers, |told| told.form = Form::Input);
    let digest = Wish::new("sha256", FORTH, &[1, 2]);
    refused(&digest, 0, Reason::ColumnBuffers, |told| told.form = Form::InPlace);
    refused(&digest, 0, Reason::KeyUnexpected, |told| told.keys = Keys::One(crate::wish::KEY));
    refused(&digest, 0, Reason::TagLength, |told| told.tags = Tags::After(32));
    refused(&digest, 0, Reason::AadUnexpected, |told| told.aad = Aads::One(vec![0]));
    refused(&digest, 0, Reason::IvLength, |told| told.ivs = Ivs::Each(vec![0; 24], 12));
}

#[test]
fn counters_may_reach_the_last_number_and_not_wrap() {
    let wish = Wish { iv: (1, 0), ..Wish::new("aes-128-gcm", FORTH, &[4; 3]) };
    let counter = |last: u32| Ivs::Counter([vec![7; 8], last.to_be_bytes().to_vec()].concat());
    let mut told = wish.told();
    told.ivs = counter(u32::MAX - 2);
    assert_eq!(told.batch().check().err(), None);
    refused(&wish, 0, Reason::CounterWraps, |told| told.ivs = counter(u32::MAX - 1));
    refused(&wish, 0, Reason::CounterWraps, |told| told.ivs = counter(u32::MAX));
    // None are drawn from it.
    let mut none = Wish { ops: Vec::new(), ..wish }.told();
    none.ivs = counter(u32::MAX);
    assert_eq!(none.batch().check().err(), None);
}

#[test]
fn what_is_left_out_may_have_any_length_but_not_any_place() {
    let mut wish = gcm(BACK);
    let left_out = WishOp { status: ColumnStatus::LEFT_OUT, ..WishOp::pending(3) };
    (wish.ops[1], wish.ops[3]) = (left_out, left_out);
    let mut told = wish.told();
    let mut checked = told.batch().check().expect("keeps the rules");
    assert_eq!((checked.len(), checked.pending(), checked.input_bytes()), (5, 3, 16 + 33));
    checked.set_status(1, ColumnStatus::PENDING);
    checked.set_status(2, ColumnStatus::DONE);
    assert_eq!(checked.replace_status(|_| true, ColumnStatus::PENDING), 3, "nobody has checked those left out");
    assert_eq!([1, 2, 3].map(|at| checked.statuses()[at].is_pending()), [false, true, false]);
    refused(&wish, 1, Reason::ExtentsDescend, |told| {
        let offsets = small(&mut told.inputs);
        offsets[2] = offsets[1] - 1;
    });
    refused(&wish, 3, Reason::OutputPastEnd, |told| small(&mut told.outputs)[4] = i32::MAX);
    refused(&wish, 2, Reason::OutputLength, |told| small(&mut told.outputs)[3] += 1);
    for status in [ColumnStatus::DONE, ColumnStatus::AUTH_FAILED, ColumnStatus::ENGINE_FAULT] {
        refused(&wish, 4, Reason::NotPending, |told| told.statuses[4] = status);
    }
}

#[test]
fn no_operations_break_no_rule_of_operations() {
    for lays in [[0; 3], [1; 3], [2; 3]] {
        let mut told = Wish { lays, ops: Vec::new(), ..gcm(FORTH) }.told();
        if lays == [0; 3] {
            (told.inputs, told.outputs) = (Lay::Small(vec![-5]), Lay::Small(vec![i32::MAX]));
        }
        if lays == [2; 3] {
            told.inputs = Lay::Strided { len: usize::MAX, stride: 0 };
        }
        let checked = told.batch().check().expect("there is nothing to break a rule");
        assert!(checked.is_empty() && checked.pending() == 0 && checked.input_bytes() == 0);
    }
}

#[test]
fn suites_and_directions_without_columns_are_refused() {
    for suite in Suite::all() {
        for direction in [FORTH, BACK] {
            let data = ColumnData::Input { input: &[], inputs: Extents::Strided { len: 0, stride: 0 } };
            let error = ColumnBatch::new(suite, direction, data, &mut []).check().err();
            let refusal = if !suite.takes_columns() {
                Some(Error::Refused(Refusal::NoColumns(suite)))
            } else if !suite.has_direction(direction) {
                Some(Error::Refused(Refusal::NoSuchDirection(suite, direction)))
            } else {
                None
            };
            assert!(refusal.is_none() || error == refusal, "{suite} {direction}: {error:?}");
            assert!(refusal.is_some() || !matches!(error, Some(Error::Refused(_))), "{suite} {direction}: {error:?}");
        }
    }
    for radix in [0, 1, 65_537] {
        let suite = Suite::Fpe(Ff1 { size: AesSize::Aes128, radix });
        let data = ColumnData::InPlace { data: &mut [], extents: Extents::Strided { len: 0, stride: 0 } };
        let error = ColumnBatch::new(suite, FORTH, data, &mut []).with_key(crate::wish::KEY).check().err();
        assert_eq!(error, Some(Error::key(suite, KeyProblem::Parameters)));
    }
}

#[test]
fn nothing_of_the_data_is_shown() {
    let (mut data, mut statuses) = (*b"secret nonce and secret data....................", [ColumnStatus::PENDING; 1]);
    let suite: Suite = "aes-128-gcm".parse().expect("a suite");
    let data = ColumnData::InPlace { data: &mut data, extents: Extents::Strided { len: 48, stride: 48 } };
    let batch = ColumnBatch::new(suite, FORTH, data, &mut statuses)
        .with_key(crate::wish::KEY)
        .with_ivs(IvColumn::Inline { len: 12 })
        .with_tags(TagColumn::After { len: 16 });
    assert_eq!(format!("{batch:?}"), "ColumnBatch(aes-128-gcm, Encrypt, 1 operations)");
    assert_eq!(format!("{batch:#?}"), "ColumnBatch(aes-128-gcm, Encrypt, 1 operations)");
    assert_eq!((batch.suite(), batch.direction(), batch.len(), batch.is_empty()), (suite, FORTH, 1, false));
    let checked = batch.check().expect("keeps the rules");
    assert_eq!(format!("{checked:?}"), "CheckedColumns(aes-128-gcm, Encrypt, 1 operations)");
    assert_eq!(format!("{checked:#?}"), "CheckedColumns(aes-128-gcm, Encrypt, 1 operations)");
    assert_eq!((checked.suite(), checked.direction()), (suite, FORTH));
}

#[test]
fn spans_that_touch_are_columns_and_those_that_overlap_are_named() {
    let spans = |told: &mut Told| match &mut told.inputs {
        Lay::Spans(spans) => std::mem::take(spans),
        other => panic!("{other:?} has no spans"),
    };
    let wish = Wish { lays: [3; 3], gap: 4, ..gcm(FORTH) };
    let change = |op, reason, change: fn(&mut Vec<[u32; 2]>)| {
        refused(&wish, op, reason, |told| {
            let mut changed = spans(told);
            change(&mut changed);
            told.inputs = Lay::Spans(changed);
        });
    };
    // One byte into the operation before, and as long as it was.
    change(1, Reason::ExtentsDescend, |spans| spans[1] = [spans[0][1] - 1, spans[1][1] - 1]);
    change(3, Reason::ExtentsDescend, |spans| spans[3].swap(0, 1));
    change(4, Reason::InputPastEnd, |spans| spans[4] = spans[4].map(|at| at + 1000));
    change(3, Reason::ExtentsDescend, |spans| spans[3] = [u32::MAX, 15]);
    change(0, Reason::ColumnLength, |spans| spans.truncate(4));
}
