//! Columns in parts give what the whole gives, byte for byte, in whatever order the parts are run.

use std::ops::Range;

use ciphermill_contract::columns::{
    DataBuffers, Extents, IvPlace, KeyColumn, PartBuffer, PartLayout, SpanSide, Steps, TagBuffer, TagPlace,
};
use ciphermill_contract::{CheckedColumns, ColumnStatus, Direction, OpStatus};
use proptest::prelude::*;

use crate::hostile::wish;
use crate::plain::{Form, Keys, Told};
use crate::run::{ENDS, many, with_keys};
use crate::toy::Toy;
use crate::wish::Wish;

/// How many operations lie between cuts, of which there may be several at a place.
fn counts(len: usize, cuts: &[usize]) -> Vec<usize> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (len + 1)).collect();
    cuts.extend([0, len]);
    cuts.sort_unstable();
    cuts.windows(2).map(|cut| cut[1] - cut[0]).collect()
}

/// Where engines with lookups of their own find the part of an operation.
fn looked_up<'a>(part: &PartLayout<'a>, index: usize) -> (PartBuffer<'a>, usize) {
    let steps = match part.steps {
        Steps::Offsets(offsets) => offsets[index] as isize,
        Steps::LargeOffsets(offsets) => offsets[index] as isize,
        Steps::Stride(stride) => (index * stride) as isize,
        Steps::Spans(spans, side) => spans[index][usize::from(side == SpanSide::End)] as isize,
    };
    (part.buffer, usize::try_from(steps + part.offset).expect("within the buffer"))
}

/// Whether the lookups of a pending operation find what its places say.
fn lookups_agree(columns: &CheckedColumns<'_>, index: usize) {
    let layout = columns.layout();
    let data = layout.data(index);
    assert_eq!(looked_up(&layout.input_part(), index), (PartBuffer::Input, data.input));
    if columns.suite().transforms() {
        assert_eq!(looked_up(&layout.output_part(), index), (PartBuffer::Output, data.output));
    }
    let tag = layout.tag_part().map(|part| looked_up(&part, index));
    let told = match layout.tag(index, data) {
        TagPlace::None => None,
        TagPlace::Input(at) => Some((PartBuffer::Input, at)),
        TagPlace::Output(at) => Some((PartBuffer::Output, at)),
        TagPlace::Column(at) => Some((PartBuffer::Tags, at)),
    };
    assert_eq!(tag, told);
    let iv = layout.iv_part().map(|part| looked_up(&part, index));
    match (layout.iv(index), iv) {
        (IvPlace::Value(_), None) => {}
        (IvPlace::Input(at), found) => assert_eq!(found, Some((PartBuffer::Input, at))),
        (IvPlace::Output(at), found) => assert_eq!(found, Some((PartBuffer::Output, at))),
        (IvPlace::Column(bytes), Some((PartBuffer::Column(column), at))) => {
            assert_eq!(column[at..at + bytes.len()].as_ptr_range(), bytes.as_ptr_range());
        }
        (_, found) => panic!("an IV in {found:?}"),
    }
    let (start, end) = layout.input_lens().at(index);
    assert_eq!((layout.input_extent(index).len(), data.len), (end - start, end - start - layout.input_more()));
}

/// Whether a part says of itself what the whole says of these operations, and has their stretches of the buffers alone.
fn is_part(told: &Told, part: &mut CheckedColumns<'_>, here: &Range<usize>) {
    assert_eq!((part.suite(), part.direction(), part.len()), (told.suite, told.direction, here.len()));
    assert_eq!(part.statuses(), &told.statuses[here.clone()]);
    let pending: Vec<usize> = here.clone().filter(|index| told.statuses[*index].is_pending()).collect();
    let bytes: usize = pending.iter().map(|index| told.place(*index).input.len()).sum();
    assert_eq!((part.pending(), part.input_bytes()), (pending.len(), bytes as u64));
    match (part.keys(), &told.keys) {
        (KeyColumn::Each(own), Keys::Each(keys)) => assert_eq!(own, &keys[here.clone()]),
        (KeyColumn::One(own), Keys::One(key)) => assert_eq!(own, *key),
        (own, keys) => assert!(matches!((own, keys), (KeyColumn::None, Keys::None))),
    }
    for index in &pending {
        lookups_agree(part, index - here.start);
        assert_eq!(part.layout().aad(index - here.start), told.aad(*index));
    }
    let stretch = |extents: Extents<'_>| match here.is_empty() {
        true => 0,
        false => extents.at(here.end - 1).1 - extents.at(here.start).0,
    };
    let lens = match &part.parts().0.data {
        DataBuffers::Separate(input, output) => (input.len(), Some(output.len())),
        DataBuffers::InPlace(data) => (data.len(), None),
        DataBuffers::Input(input) => (input.len(), None),
    };
    let output = (told.form == Form::Separate).then(|| stretch(told.outputs.extents()));
    assert_eq!(lens, (stretch(told.inputs.extents()), output));
    let tags = match &part.parts().0.tags {
        TagBuffer::None => 0,
        TagBuffer::Written(bytes) => bytes.len(),
        TagBuffer::Expected(bytes) => bytes.len(),
    };
    assert!(tags == 0 || tags == here.len() * told.tags.len());
}

/// Looks at parts that begin with the operation at `first`, and hands them to `run`, from the last to the first if `backwards`.
fn each_part(
    told: &Told,
    parts: Vec<CheckedColumns<'_>>,
    mut first: usize,
    backwards: bool,
    mut run: impl FnMut(CheckedColumns<'_>, Range<usize>),
) {
    let mut all: Vec<_> = parts
        .into_iter()
        .map(|mut part| {
            let here = first..first + part.len();
            first = here.end;
            is_part(told, &mut part, &here);
            (part, here)
        })
        .collect();
    if backwards {
        all.reverse();
    }
    all.into_iter().for_each(|(part, here)| run(part, here));
}

/// Runs the batch in parts between `cuts`, and these in turn in parts between `again`, and compares every byte and status.
fn runs_as_the_whole(told: &Told, cuts: &[usize], again: &[usize], backwards: bool, plan: &[OpStatus]) {
    let mut ran = told.clone();
    let run = |mut part: CheckedColumns<'_>, here: Range<usize>| {
        let pending_before = told.statuses[..here.start].iter().filter(|status| status.is_pending()).count();
        let mut toy = Toy { plan, seen: pending_before };
        part.run_as_ops(|batch| toy.run(batch));
    };
    let counts_of_all = counts(told.len(), cuts);
    let done = with_keys(&mut ran, |columns| {
        columns.in_parts(&counts_of_all, |parts| {
            assert_eq!(parts.len(), counts_of_all.len());
            each_part(told, parts, 0, backwards, |mut part, here| {
                let counts = counts(part.len(), again);
                let done = part.in_parts(&counts, |parts| each_part(told, parts, here.start, backwards, run));
                assert_eq!(done, Some(()));
            });
        })
    });
    assert_eq!(done, Some(()));
    assert!(ran == told.after(plan), "{} {}: {cuts:?} {again:?}", told.suite, told.direction);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parts_give_what_the_whole_gives(
        wish in wish(),
        cuts in prop::collection::vec(0usize..8, 0..4),
        again in prop::collection::vec(0usize..8, 0..3),
        backwards in any::<bool>(),
        ends in prop::collection::vec(0..ENDS.len(), 0..6),
    ) {
        // Drawn IVs are inline ones once they are drawn.
        let inline = if wish.iv.0 == 3 { (2, wish.iv.1) } else { wish.iv };
        let told = Wish { iv: inline, ..wish }.told();
        let plan: Vec<OpStatus> = ends.into_iter().map(|end| ENDS[end]).collect();
        runs_as_the_whole(&told, &cuts, &again, backwards, &plan);
    }
}

#[test]
fn many_operations_in_parts() {
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        for in_place in [false, true] {
            let (told, plan) = many(3000, direction, in_place);
            for cuts in [&[][..], &[0], &[3000], &[1, 2999], &[1500], &[512, 1024, 1024, 2048]] {
                runs_as_the_whole(&told, cuts, &[100], false, &plan);
            }
        }
    }
}

#[test]
fn parts_run_at_the_same_time() {
    for in_place in [false, true] {
        let (told, _) = many(3000, Direction::Encrypt, in_place);
        let mut ran = told.clone();
        let done = with_keys(&mut ran, |columns| {
            columns.in_parts(&[700, 0, 2000, 300], |parts| {
                std::thread::scope(|scope| {
                    for mut part in parts {
                        scope.spawn(move || part.run_as_ops(|batch| Toy { plan: &[], seen: 0 }.run(batch)));
                    }
                });
            })
        });
        assert_eq!(done, Some(()));
        assert!(ran == told.after(&[]));
    }
}

/// What has ended when columns are cut is not pending in a part.
#[test]
fn what_has_ended_is_not_counted() {
    let (told, _) = many(100, Direction::Encrypt, true);
    let mut ran = told.clone();
    let counted = with_keys(&mut ran, |columns| {
        columns.replace_status(|_| true, ColumnStatus::DONE);
        columns.set_status(60, ColumnStatus::PENDING);
        let count = |part: &CheckedColumns<'_>| (part.pending(), part.input_bytes());
        columns.in_parts(&[50, 50], |parts| parts.iter().map(count).collect::<Vec<_>>())
    });
    assert_eq!(counted, Some(vec![(0, 0), (1, told.place(60).input.len() as u64)]));
}

#[test]
fn counts_have_to_add_up() {
    let (mut told, _) = many(4, Direction::Encrypt, false);
    let mut parts = |counts: &[usize]| with_keys(&mut told, |columns| columns.in_parts(counts, |parts| parts.len()));
    assert_eq!((parts(&[1, 3]), parts(&[0, 4, 0])), (Some(2), Some(3)));
    for counts in [&[][..], &[3], &[5], &[4, 1], &[usize::MAX, 5], &[2, usize::MAX, 3]] {
        assert_eq!(parts(counts), None, "{counts:?}");
    }
    let mut none = many(0, Direction::Encrypt, false).0;
    let parts = with_keys(&mut none, |columns| columns.in_parts(&[0, 0], |parts| parts.len()));
    assert_eq!(parts, Some(2));
}
