//! Random batches that keep the rules, and the same with something amiss, against the rules in plain words.

use ciphermill_contract::columns::{IvPlace, TagPlace};
use ciphermill_contract::limits::INPUT_LEN_MAX;
use ciphermill_contract::{ColumnStatus, Direction, Error, KeyId, Suite};
use proptest::prelude::*;

use crate::plain::{Aads, Form, Ivs, Keys, Lay, Tags, Told};
use crate::wish::{Wish, WishOp, noise};

/// Every suite that columns can be run of, in each of its directions.
fn suites() -> Vec<(Suite, Direction)> {
    let both = |suite: Suite| [(suite, Direction::Encrypt), (suite, Direction::Decrypt)];
    Suite::all()
        .filter(|suite| suite.takes_columns())
        .flat_map(both)
        .filter(|(suite, direction)| suite.has_direction(*direction))
        .collect()
}

fn status() -> impl Strategy<Value = ColumnStatus> {
    prop_oneof![
        2 => Just(ColumnStatus::PENDING),
        1 => Just(ColumnStatus::LEFT_OUT),
    ]
}

prop_compose! {
    fn wish_op()(len in 0usize..40, aad_len in 0usize..7, status in status(), right in any::<bool>()) -> WishOp {
        WishOp { len, status, aad_len, right }
    }
}

prop_compose! {
    pub(crate) fn wish()(
        which in 0usize..4096,
        in_place in any::<bool>(),
        lays in [0u8..4, 0u8..4, 0u8..4],
        iv in (0u8..4, 0usize..20),
        aad in 0u8..3,
        tag in (0u8..3, 0usize..70),
        key_each in any::<bool>(),
        all_pending in any::<bool>(),
        gap in 0usize..9,
        mut ops in prop::collection::vec(wish_op(), 0..6),
    ) -> Wish {
        let all = suites();
        let (suite, direction) = all[which % all.len()];
        if all_pending {
            ops.iter_mut().for_each(|op| op.status = ColumnStatus::PENDING);
        }
        Wish { suite, direction, in_place, lays, iv, aad, tag, key_each, gap, ops }
    }
}

/// What is amiss: its kind, an operation or entry, and a number.
type Amiss = (u8, usize, i64);

/// Kinds of what may be amiss.
const KINDS: u8 = 30;

/// Statuses that no caller may give.
const FOREIGN: [ColumnStatus; 3] = [ColumnStatus::DONE, ColumnStatus::AUTH_FAILED, ColumnStatus::ENGINE_FAULT];

/// Numbers around everything that matters.
fn number() -> impl Strategy<Value = i64> {
    prop_oneof![
        6 => -40i64..300,
        4 => prop::sample::select(vec![
            i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 10, i32::MIN as i64, i32::MIN as i64 + 5, i32::MAX as i64,
            i32::MAX as i64 - 10, u32::MAX as i64, u32::MAX as i64 + 1, 1 << 32, -1, INPUT_LEN_MAX as i64,
            INPUT_LEN_MAX as i64 + 16, isize::MAX as i64 / 2 + 1,
        ]),
    ]
}

fn amiss_in_lay(lay: &mut Lay, what: u8, at: usize, number: i64) {
    let entries = match lay {
        Lay::Small(offsets) => offsets.len(),
        Lay::Large(offsets) => offsets.len(),
        Lay::Strided { .. } => 2,
        Lay::Spans(spans) => spans.len(),
    };
    if entries == 0 {
        return;
    }
    let (at, next) = (at % entries, (at + 1) % entries);
    match (lay, what) {
        (Lay::Small(offsets), 0) => offsets[at] = number as i32,
        (Lay::Large(offsets), 0) => offsets[at] = number,
        (Lay::Small(offsets), 1) => offsets[at] = offsets[at].wrapping_add((number % 3) as i32),
        (Lay::Large(offsets), 1) => offsets[at] = offsets[at].wrapping_add(number % 3),
        // Far up, then below zero: their distance wraps to a short length.
        (Lay::Small(offsets), 2) => (offsets[at], offsets[next]) = (i32::MAX - 10, i32::MIN + (number & 31) as i32),
        (Lay::Large(offsets), 2) => (offsets[at], offsets[next]) = (i64::MAX - 10, i64::MIN + (number & 31)),
        (Lay::Small(offsets), 3) => offsets.swap(at, next),
        (Lay::Large(offsets), 3) => offsets.swap(at, next),
        (Lay::Small(offsets), 4) => offsets.push(number as i32),
        (Lay::Large(offsets), 4) => offsets.push(number),
        (Lay::Small(offsets), 5) => offsets.truncate(at),
        (Lay::Large(offsets), 5) => offsets.truncate(at),
        // All of them, so that lengths stay.
        (Lay::Small(offsets), _) => offsets.iter_mut().for_each(|offset| *offset = offset.wrapping_add(number as i32)),
        (Lay::Large(offsets), _) => offsets.iter_mut().for_each(|offset| *offset = offset.wrapping_add(number)),
        (Lay::Spans(spans), 0) => spans[at][0] = number as u32,
        (Lay::Spans(spans), 1) => spans[at][1] = number as u32,
        (Lay::Spans(spans), 2) => spans[at] = [u32::MAX - 10, (number & 31) as u32],
        (Lay::Spans(spans), 3) => spans.swap(at, next),
        (Lay::Spans(spans), 4) => spans.push([number as u32; 2]),
        (Lay::Spans(spans), 5) => spans.truncate(at),
        (Lay::Spans(spans), _) => spans[at][1] = spans[at][1].wrapping_add((number % 3) as u32),
        (Lay::Strided { len, stride }, 2) => (*len, *stride) = (number as usize, usize::MAX),
        (Lay::Strided { len, stride }, 3) => (*len, *stride) = (*stride, *len),
        (Lay::Strided { len, .. }, 1) => *len = len.wrapping_add_signed((number % 3) as isize),
        (Lay::Strided { len, .. }, _) if at == 0 => *len = number as usize,
        (Lay::Strided { stride, .. }, _) => *stride = number as usize,
    }
}

/// A column of entries of `len` bytes, within reason.
fn column(len: usize, count: usize) -> Vec<u8> {
    noise(len.min(100) * count, 9)
}

/// Bytes that a cut buffer keeps.
fn cut(len: usize, number: i64) -> usize {
    len.saturating_sub(1 + (number as usize) % 20)
}

fn some_key(number: i64) -> KeyId {
    KeyId { slot: 1, generation: u32::from(number % 2 == 0) }
}

fn amiss(told: &mut Told, (kind, at, number): Amiss) {
    let count = told.len();
    match kind {
        0..=6 => amiss_in_lay(&mut told.inputs, kind, at, number),
        7..=13 => amiss_in_lay(&mut told.outputs, kind - 7, at, number),
        14..=20 => {
            if let Aads::Each(_, lay) = &mut told.aad {
                amiss_in_lay(lay, kind - 14, at, number);
            }
        }
        21 => told.input.truncate(cut(told.input.len(), number)),
        22 => told.output.truncate(cut(told.output.len(), number)),
        23 => match (&mut told.statuses, at % 4) {
            (statuses, 0) => statuses.push(ColumnStatus::PENDING),
            (statuses, 1) => statuses.clear(),
            (statuses, 2) if count > 0 => statuses[number as usize % count] = ColumnStatus::LEFT_OUT,
            (statuses, _) if count > 0 => statuses[number as usize % count] = FOREIGN[at / 4 % FOREIGN.len()],
            _ => {}
        },
        24 => {
            told.keys = match at % 4 {
                0 => Keys::None,
                1 => Keys::One(some_key(number)),
                2 => Keys::Each(vec![some_key(number); count]),
                _ => Keys::Each(vec![some_key(0); count + at / 4 % 2]),
            };
        }
        25 => {
            let len =
                if number < 64 { told.ivs.len().wrapping_add_signed((number % 3) as isize) } else { number as usize };
            told.ivs = match at % 6 {
                0 => Ivs::None,
                1 => Ivs::Each(column(told.ivs.len(), count), len),
                2 => Ivs::Each(column(told.ivs.len(), count + 1), told.ivs.len()),
                3 => Ivs::Inline(len),
                4 => Ivs::Drawn(told.ivs.len()),
                _ => Ivs::Counter(vec![0xff; len.min(17)]),
            };
        }
        26 => match &mut told.aad {
            Aads::Each(bytes, _) => bytes.truncate(cut(bytes.len(), number)),
            aad => *aad = Aads::One(noise(if at % 2 == 0 { 65_535 } else { 65_536 }, 9)),
        },
        27 => {
            let len =
                if number < 64 { told.tags.len().wrapping_add_signed((number % 3) as isize) } else { number as usize };
            told.tags = match at % 6 {
                0 => Tags::None,
                1 => Tags::Before(len),
                2 => Tags::After(len),
                3 => Tags::Written(column(told.tags.len(), count), len),
                4 => Tags::Expected(column(told.tags.len(), count), len),
                _ => Tags::Written(column(told.tags.len(), count + 1), told.tags.len()),
            };
        }
        28 => told.form = [Form::Separate, Form::InPlace, Form::Input][at % 3],
        _ => match &mut told.ivs {
            Ivs::Counter(first) if first.len() > 3 => {
                let last = u32::MAX - (at % 6) as u32;
                let head = first.len() - 4;
                first[head..].copy_from_slice(&last.to_be_bytes());
            }
            _ => {}
        },
    }
}

/// What a checked batch says of its operations, against where they lie in plain words.
fn is_told_rightly(told: &Told) -> Result<(), TestCaseError> {
    let mut checked_told = told.clone();
    let checked = checked_told.batch().check().expect("keeps the rules");
    let layout = checked.layout();
    let pending: Vec<usize> = (0..told.len()).filter(|index| told.statuses[*index].is_pending()).collect();
    let bytes: usize = pending.iter().map(|index| told.place(*index).input.len()).sum();
    prop_assert_eq!((checked.len(), checked.pending()), (told.len(), pending.len()));
    prop_assert_eq!((checked.input_bytes(), checked.is_empty()), (bytes as u64, told.len() == 0));
    prop_assert_eq!((layout.iv_len(), layout.tag_len()), (told.ivs.len(), told.tags.len()));
    let encrypts = told.direction == Direction::Encrypt;
    for index in pending {
        let place = told.place(index);
        let data = layout.data(index);
        prop_assert_eq!((data.input, data.len), (place.input.start, place.input.len()));
        if told.form != Form::Input {
            prop_assert_eq!(data.output..data.output + data.len, place.output);
        }
        let tag = match (&told.tags, place.tag) {
            (_, Some(tag)) if tag.is_empty() => TagPlace::None,
            (_, Some(tag)) if encrypts => TagPlace::Output(tag.start),
            (_, Some(tag)) => TagPlace::Input(tag.start),
            (tags, None) if tags.len() == 0 => TagPlace::None,
            (tags, None) => TagPlace::Column(index * tags.len()),
        };
        prop_assert_eq!(layout.tag(index, data), tag);
        let inline = |start| if encrypts { IvPlace::Output(start) } else { IvPlace::Input(start) };
        match (layout.iv(index), place.iv) {
            (found, Some(iv)) => prop_assert!(found == inline(iv.start)),
            (IvPlace::Column(found), None) => prop_assert_eq!(found, &told.iv(index)[..]),
            (IvPlace::Value(found), None) => prop_assert_eq!(&found[..told.ivs.len()], &told.iv(index)[..]),
            // An inline IV of no bytes lies anywhere.
            (_, None) => prop_assert_eq!(told.ivs.len(), 0),
        }
        prop_assert_eq!(layout.aad(index), told.aad(index));
    }
    Ok(())
}

/// Nothing that one operation writes is read or written by another, whichever are pending.
fn is_apart(told: &Told) -> Result<(), TestCaseError> {
    let lays = if told.form == Form::Separate { vec![&told.inputs, &told.outputs] } else { vec![&told.inputs] };
    for lay in lays {
        for one in 0..told.len() {
            for other in 0..one {
                let ((start, end), (other_start, other_end)) = (lay.at(one), lay.at(other));
                prop_assert!(start >= other_end || other_start >= end || start == end || other_start == other_end);
            }
        }
    }
    Ok(())
}

/// The check against the rules in plain words.
fn is_judged_rightly(told: &Told) -> Result<(), TestCaseError> {
    let broken = told.broken();
    let mut checked = told.clone();
    let result = checked.batch().check().map(|_| ());
    prop_assert_eq!(&checked, told, "something was written");
    match result {
        Ok(()) => {
            prop_assert_eq!(broken, vec![]);
            is_apart(told)?;
            is_told_rightly(told)
        }
        Err(Error::Misuse(misuse)) => {
            let found = (misuse.op as usize, misuse.reason);
            prop_assert!(broken.contains(&found), "{found:?} of {broken:?}");
            if told.broken_as_a_whole().is_empty() {
                prop_assert_eq!(Some(found.0), broken.iter().map(|(op, _)| *op).min());
            }
            Ok(())
        }
        Err(other) => {
            prop_assert!(false, "{other}");
            Ok(())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_keeps_the_rules_is_taken(wish in wish()) {
        let told = wish.told();
        let drawn = matches!(told.ivs, Ivs::Drawn(_)) && told.direction == Direction::Encrypt;
        prop_assert_eq!(told.broken().is_empty(), !drawn);
        is_judged_rightly(&told)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_breaks_a_rule_is_refused_by_it(
        wish in wish(),
        first in (0..KINDS, 0usize..64, number()),
        second in prop::option::of((0..KINDS, 0usize..64, number())),
    ) {
        let mut told = wish.told();
        amiss(&mut told, first);
        if let Some(second) = second {
            amiss(&mut told, second);
        }
        is_judged_rightly(&told)?;
    }
}
