//! A copy of columns, run and written back, gives what the columns give, byte for byte.

use ciphermill_contract::columns::{ColumnData, DataBuffers, Extents, IvColumn, TagBuffer, TagColumn};
use ciphermill_contract::error::{Error, FaultKind};
use ciphermill_contract::{
    ArenaBuffer, CheckedColumns, ColumnBatch, ColumnStatus, Direction, KeyId, OpStatus, Result, Suite,
};
use proptest::prelude::*;

use crate::hostile::wish;
use crate::plain::Told;
use crate::run::{ENDS, many, with_keys};
use crate::toy::Toy;
use crate::wish::Wish;

/// Memory of other contents than what is copied.
fn memory(len: usize) -> Result<Box<dyn ArenaBuffer>> {
    Ok(Box::new(vec![0xee; len]))
}

/// Runs a copy by the toy on another thread and writes it back. Returns how many operations are left.
fn run_copy(columns: &mut CheckedColumns<'_>, plan: &[OpStatus], seen: usize) -> usize {
    let mut copy = columns.to_owned_in(memory).expect("memory");
    let prepared = columns.prepared();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut own = copy.as_checked();
            let mut toy = Toy { plan, seen };
            own.attach_keys(prepared).expect("one each").run_as_ops(|batch| toy.run(batch));
        });
    });
    copy.write_back(columns)
}

/// What columns are after a copy of them was run: what was failed or not ended is as it was.
fn after(told: &Told, plan: &[OpStatus]) -> Told {
    let mut after = told.clone().after(plan);
    for status in &mut after.statuses {
        if *status == ColumnStatus::ENGINE_FAULT {
            *status = ColumnStatus::PENDING;
        }
    }
    after
}

/// Runs copies of the parts before and behind `cut`.
fn runs_as_the_whole(told: &Told, cut: usize, plan: &[OpStatus]) {
    let (mut ran, expected) = (told.clone(), after(told, plan));
    let cut = cut % (told.len() + 1);
    let pending = told.statuses[..cut].iter().filter(|status| status.is_pending()).count();
    let left = with_keys(&mut ran, |columns| {
        columns.in_parts(&[cut, told.len() - cut], |mut parts| {
            let behind = run_copy(&mut parts[1], plan, pending);
            run_copy(&mut parts[0], plan, 0) + behind
        })
    });
    assert!(ran == expected, "{} {}: {cut}", told.suite, told.direction);
    let expected = expected.statuses.iter().filter(|status| status.is_pending()).count();
    assert_eq!(left, Some(expected));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_copy_gives_what_its_columns_give(
        wish in wish(),
        cut in 0usize..8,
        ends in prop::collection::vec(0..ENDS.len(), 0..6),
    ) {
        // Drawn IVs are inline ones once they are drawn.
        let inline = if wish.iv.0 == 3 { (2, wish.iv.1) } else { wish.iv };
        let told = Wish { iv: inline, ..wish }.told();
        let plan: Vec<OpStatus> = ends.into_iter().map(|end| ENDS[end]).collect();
        runs_as_the_whole(&told, cut, &plan);
    }
}

#[test]
fn copies_of_many_operations() {
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        for in_place in [false, true] {
            let (told, plan) = many(3000, direction, in_place);
            for cut in [0, 1, 1500, 3000] {
                runs_as_the_whole(&told, cut, &plan);
                runs_as_the_whole(&told, cut, &[]);
            }
        }
    }
}

#[test]
fn without_memory_there_is_no_copy() {
    let (mut told, _) = many(10, Direction::Encrypt, false);
    let refused = || Error::fault("memory", FaultKind::Entropy);
    let copy = with_keys(&mut told, |columns| columns.to_owned_in(|_| Err(refused())).map(|_| ()));
    assert_eq!(copy, Err(refused()));
}

/// What an engine makes of operations that are none of its business goes nowhere.
#[test]
fn what_is_left_out_stays_so_whatever_the_engine_says() {
    let (told, _) = many(100, Direction::Encrypt, false);
    let mut ran = told.clone();
    with_keys(&mut ran, |columns| {
        let mut copy = columns.to_owned_in(memory).expect("memory");
        let mut own = copy.as_checked();
        own.parts().1.fill(ColumnStatus::DONE);
        own.parts().1[0] = ColumnStatus::LEFT_OUT;
        assert_eq!(copy.write_back(columns), 1);
    });
    assert!(ran.statuses[0].is_pending());
    let left_out = |told: &Told| told.statuses.iter().filter(|status| **status == ColumnStatus::LEFT_OUT).count();
    assert_eq!((left_out(&ran), left_out(&told)), (14, 14));
}

/// Bytes between operations, IVs, and tags that are verified are the caller's, whatever an engine does with its copy of them.
#[test]
fn what_is_no_output_is_not_written_back() {
    let extents = Extents::Strided { len: 12 + 20 + 16, stride: 64 };
    let suite: Suite = "aes-128-gcm".parse().expect("a suite");
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        let (mut data, mut statuses) = (vec![0x11; 64 * 9], [ColumnStatus::PENDING; 9]);
        let batch = ColumnBatch::new(suite, direction, ColumnData::InPlace { data: &mut data, extents }, &mut statuses);
        let batch = batch.with_key(KeyId { slot: 0, generation: 1 });
        let batch = batch.with_ivs(IvColumn::Inline { len: 12 }).with_tags(TagColumn::After { len: 16 });
        let mut columns = batch.check().expect("good columns");
        assert_eq!((columns.stretches_len(), columns.is_sparse()), (8 * 64 + 48, false));
        let mut copy = columns.to_owned_in(memory).expect("memory");
        let mut own = copy.as_checked();
        let (buffers, own_statuses) = own.parts();
        let DataBuffers::InPlace(bytes) = &mut buffers.data else { panic!("in place") };
        bytes.fill(0x22);
        own_statuses.fill(ColumnStatus::DONE);
        assert_eq!(copy.write_back(&mut columns), 0);
        for row in data.chunks(64) {
            assert!(row[..12].iter().all(|byte| *byte == 0x11), "{direction}: IVs");
            assert!(row[12..32].iter().all(|byte| *byte == 0x22), "{direction}: data");
            let tag = if direction == Direction::Encrypt { 0x22 } else { 0x11 };
            assert!(row[32..48].iter().all(|byte| *byte == tag), "{direction}: tags");
            assert!(row[48..].iter().all(|byte| *byte == 0x11), "{direction}: what lies between");
        }
    }
}

#[test]
fn operations_that_lie_far_apart_are_sparse() {
    let suite: Suite = "aes-128-ctr".parse().expect("a suite");
    for (stride, is_sparse) in [(16, false), (300, false), (400, true), (4096, true)] {
        let (mut data, mut statuses) = (vec![0; 4096 * 50], [ColumnStatus::PENDING; 50]);
        let data = ColumnData::InPlace { data: &mut data, extents: Extents::Strided { len: 16, stride } };
        let batch = ColumnBatch::new(suite, Direction::Encrypt, data, &mut statuses);
        let batch = batch.with_key(KeyId { slot: 0, generation: 1 }).with_ivs(IvColumn::Counter(&[0; 16]));
        assert_eq!(batch.check().expect("good columns").is_sparse(), is_sparse, "{stride}");
    }
}

/// A column of tags of no bytes is none, so that no engine has to think of it.
#[test]
fn tags_of_no_bytes_are_none() {
    let suite: Suite = "aes-128-ctr".parse().expect("a suite");
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        let (mut data, mut statuses) = (vec![0; 64], [ColumnStatus::PENDING; 4]);
        let data = ColumnData::InPlace { data: &mut data, extents: Extents::Strided { len: 16, stride: 16 } };
        let batch = ColumnBatch::new(suite, direction, data, &mut statuses).with_ivs(IvColumn::Counter(&[0; 16]));
        let tags = match direction {
            Direction::Encrypt => TagColumn::Written { bytes: &mut [], len: 0 },
            Direction::Decrypt => TagColumn::Expected { bytes: &[], len: 0 },
        };
        let mut columns =
            batch.with_key(KeyId { slot: 0, generation: 1 }).with_tags(tags).check().expect("good columns");
        assert!(matches!(columns.parts().0.tags, TagBuffer::None));
        assert!(columns.layout().tag_part().is_none());
    }
}
