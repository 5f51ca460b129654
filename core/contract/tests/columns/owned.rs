//! A copy of columns, run and written back, gives what the columns give, byte for byte.

use ciphermill_contract::error::{Error, FaultKind};
use ciphermill_contract::{ArenaBuffer, CheckedColumns, ColumnStatus, Direction, OpStatus, Result};
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
