//! Columns run as ops by a toy, against the same work done operation by operation.

use ciphermill_contract::columns::{ChunkLimits, PreparedColumn};
use ciphermill_contract::limits::AAD_LEN_MAX;
use ciphermill_contract::{
    Batch, CheckedBatch, CheckedColumns, ColumnStatus, Direction, Error, OpStatus, PreparedKey, Reason,
    error::FaultKind,
};
use proptest::prelude::*;

use crate::hostile::wish;
use crate::plain::{Aads, Ivs, Keys, Told};
use crate::toy::{Toy, key_of};
use crate::wish::{Wish, WishOp};

/// Every way in which an operation may end.
pub(crate) const ENDS: [OpStatus; 8] = [
    OpStatus::Done,
    OpStatus::AuthFailed,
    OpStatus::Done,
    OpStatus::BadInput(Reason::NumeralOutOfRange),
    OpStatus::EngineFault,
    OpStatus::Done,
    OpStatus::Refused(Reason::KeyExpired),
    OpStatus::Pending,
];

/// Checks the columns, attaches the keys that the toy expects, and hands all to `work`.
pub(crate) fn with_keys<R>(told: &mut Told, work: impl FnOnce(&mut CheckedColumns<'_>) -> R) -> R {
    let made: Vec<PreparedKey> = (0..told.len()).map(|index| PreparedKey::new(key_of(index, told))).collect();
    let each: Vec<Option<&PreparedKey>> = made.iter().map(Some).collect();
    let prepared = match (&told.keys, made.first()) {
        (Keys::One(_), Some(key)) => PreparedColumn::One(key),
        (Keys::Each(_), _) => PreparedColumn::Each(&each),
        _ => PreparedColumn::None,
    };
    let mut checked = told.batch().check().expect("keeps the rules");
    work(&mut checked.attach_keys(prepared).expect("one each"))
}

/// Has the columns run by `run`.
fn run_with<E>(
    told: &mut Told,
    chunk_ops: Option<usize>,
    mut run: impl FnMut(&mut CheckedBatch<'_>) -> Result<(), E>,
) -> Result<(), E> {
    with_keys(told, |columns| match chunk_ops {
        Some(chunk_ops) => columns.try_as_ops(ChunkLimits { ops: chunk_ops, ..ChunkLimits::CACHED }, run),
        None => {
            let mut result = Ok(());
            columns.run_as_ops(|batch| {
                if result.is_ok() {
                    result = run(batch);
                }
            });
            result
        }
    })
}

/// Runs by the toy, in which every chunk has to be a batch that keeps the rules of ops. Returns the sizes of the chunks.
fn run(told: &mut Told, chunk_ops: Option<usize>, plan: &[OpStatus]) -> Vec<usize> {
    let mut toy = Toy { plan, seen: 0 };
    let mut chunks = Vec::new();
    let done: Result<(), Error> = run_with(told, chunk_ops, |batch| {
        chunks.push(batch.len());
        let (mut ops, mut arena) = (batch.ops().to_vec(), batch.arena().to_vec());
        let bytes = Batch::new(batch.suite(), batch.direction(), &mut ops, &mut arena).check()?.input_bytes();
        assert_eq!(bytes, batch.input_bytes());
        toy.run(batch);
        Ok(())
    });
    assert_eq!(done, Ok(()));
    chunks
}

/// Runs the batch and compares every byte and status. Returns the sizes of the chunks.
fn runs_as_it_has_to(told: &Told, chunk_ops: Option<usize>, plan: &[OpStatus]) -> Vec<usize> {
    let mut ran = told.clone();
    let chunks = run(&mut ran, chunk_ops, plan);
    assert!(ran == told.after(plan), "{} {}: {chunks:?}", told.suite, told.direction);
    let pending = told.statuses.iter().filter(|status| status.is_pending()).count();
    assert_eq!(chunks.iter().sum::<usize>(), pending);
    assert!(chunks.iter().all(|len| (1..=chunk_ops.unwrap_or(ChunkLimits::CACHED.ops).max(1)).contains(len)));
    chunks
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn columns_give_what_their_operations_give(
        wish in wish(),
        chunk_ops in prop::option::of(0usize..4),
        ends in prop::collection::vec(0..ENDS.len(), 0..6),
    ) {
        // Drawn IVs are inline ones once they are drawn.
        let inline = if wish.iv.0 == 3 { (2, wish.iv.1) } else { wish.iv };
        let told = Wish { iv: inline, ..wish }.told();
        let plan: Vec<OpStatus> = ends.into_iter().map(|end| ENDS[end]).collect();
        runs_as_it_has_to(&told, chunk_ops, &plan);
    }
}

/// Operations of unequal lengths, every seventh left out, of which some end badly.
pub(crate) fn many(count: usize, direction: Direction, in_place: bool) -> (Told, Vec<OpStatus>) {
    let lens: Vec<usize> = (0..count).map(|index| index * 37 % 90).collect();
    let wish = Wish { in_place, iv: (2, 0), aad: 2, key_each: true, ..Wish::new("aes-128-gcm", direction, &lens) };
    let mut wish = Wish { lays: [0, 1, 0], ..wish };
    for (index, op) in wish.ops.iter_mut().enumerate() {
        let status = if index % 7 == 3 { ColumnStatus::LEFT_OUT } else { op.status };
        *op = WishOp { status, right: index % 5 != 0, ..*op };
    }
    (wish.told(), (0..count).map(|index| if index % 11 == 0 { ENDS[index / 11 % 8] } else { OpStatus::Done }).collect())
}

#[test]
fn chunks_meet_at_their_borders() {
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        for in_place in [false, true] {
            for count in [0, 1, 511, 512, 513, 1023, 1024, 1025, 3000] {
                let (told, plan) = many(count, direction, in_place);
                for chunk_ops in [None, Some(512), Some(511), Some(1)] {
                    runs_as_it_has_to(&told, chunk_ops, &plan);
                }
            }
        }
    }
    let (mut told, plan) = many(1024, Direction::Encrypt, true);
    told.statuses.fill(ColumnStatus::LEFT_OUT);
    assert!(runs_as_it_has_to(&told, None, &plan).is_empty());
    let all = Wish::new("sha256", Direction::Encrypt, &[9; 1025]).told();
    assert_eq!(runs_as_it_has_to(&all, None, &[]), [512, 512, 1]);
    assert_eq!(runs_as_it_has_to(&all, Some(0), &[]).len(), 1025);
}

#[test]
fn chunks_hold_so_many_bytes_and_one_operation_more() {
    let mut lens = vec![5; 40];
    (lens[7], lens[8], lens[39]) = (3 * ChunkLimits::CACHED.bytes, 0, ChunkLimits::CACHED.bytes - 1);
    for in_place in [false, true] {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let told = Wish { in_place, iv: (2, 0), ..Wish::new("chacha20-poly1305", direction, &lens) }.told();
            assert_eq!(runs_as_it_has_to(&told, None, &[]), [8, 32]);
            let huge = Wish { in_place, ..Wish::new("aes-128-ctr", direction, &[40_000; 9]) }.told();
            assert_eq!(runs_as_it_has_to(&huge, None, &[]), [2, 2, 2, 2, 1]);
        }
    }
}

/// Additional data that all share come into each chunk once; with the longest there are, a chunk holds one operation.
#[test]
fn shared_additional_data_reach_every_operation() {
    for len in [0, 1, 1000, AAD_LEN_MAX - 1, AAD_LEN_MAX] {
        let mut told = Wish { aad: 1, ..Wish::new("aes-128-gcm", Direction::Encrypt, &[8; 600]) }.told();
        told.aad = Aads::One(crate::wish::noise(len, 6));
        told.ivs = Ivs::Counter(vec![0; 12]);
        runs_as_it_has_to(&told, None, &[]);
    }
}

#[test]
fn an_error_leaves_its_chunk_and_those_behind_it_as_they_were() {
    for in_place in [false, true] {
        for fails_at in 0..4 {
            let (told, _) = many(200, Direction::Encrypt, in_place);
            let mut ran = told.clone();
            let (mut toy, mut number) = (Toy { plan: &[], seen: 0 }, 0);
            let fault = Error::fault("toy", FaultKind::Stalled);
            let result = run_with(&mut ran, Some(50), |batch| {
                toy.run(batch);
                number += 1;
                if number == fails_at + 1 { Err(fault.clone()) } else { Ok(()) }
            });
            assert_eq!(result, Err(fault));
            assert_eq!(number, fails_at + 1);
            // As if all from there on had been left pending.
            let plan: Vec<OpStatus> =
                (0..200).map(|index| if index < 50 * fails_at { OpStatus::Done } else { OpStatus::Pending }).collect();
            assert!(ran == told.after(&plan), "chunk {fails_at}");
        }
    }
}

/// What one engine left, another finishes.
#[test]
fn what_is_left_pending_can_be_run_again() {
    let (told, _) = many(600, Direction::Encrypt, true);
    let plan: Vec<OpStatus> =
        (0..600).map(|index| if index % 2 == 0 { OpStatus::Pending } else { OpStatus::Done }).collect();
    let mut twice = told.clone();
    run(&mut twice, None, &plan);
    assert!(twice != told.after(&[]));
    let first = twice.statuses.clone();
    twice.statuses.iter_mut().filter(|status| status.is_done()).for_each(|status| *status = ColumnStatus::LEFT_OUT);
    run(&mut twice, None, &[]);
    let second = twice.statuses.iter_mut().zip(first).filter(|(_, first)| first.is_done());
    second.for_each(|(status, first)| *status = first);
    assert!(twice == told.after(&[]));
}

#[test]
fn keys_are_attached_one_an_operation() {
    let mut told = Wish { key_each: true, ..Wish::new("aes-128-gcm", Direction::Encrypt, &[8; 3]) }.told();
    let mut checked = told.batch().check().expect("keeps the rules");
    let made = [1u8, 2, 3, 4].map(PreparedKey::new);
    let keys: Vec<Option<&PreparedKey>> = made.iter().map(Some).collect();
    for (count, op) in [(0, 0), (2, 2), (4, 3)] {
        let error = checked.attach_keys(PreparedColumn::Each(&keys[..count])).err();
        assert_eq!(error, Some(Error::misuse(op, Reason::KeyMissing)));
    }
    assert!(checked.prepared().at(0).is_none());
    checked.set_status(1, ColumnStatus::ENGINE_FAULT);
    let attached = checked.attach_keys(PreparedColumn::Each(&keys[..3])).expect("one each");
    let state = |index| attached.prepared().at(index).and_then(|key| key.state::<u8>().copied());
    assert_eq!([0, 1, 2, 3].map(state), [Some(1), Some(2), Some(3), None]);
    assert_eq!((attached.len(), attached.pending(), attached.input_bytes()), (3, 3, 24));
    assert_eq!(attached.statuses()[1], ColumnStatus::ENGINE_FAULT);
}
