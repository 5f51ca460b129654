//! Columns over a device whose kernels do nothing: what is copied how, and what it costs the host.

use std::sync::Arc;
use std::time::Instant;

use ciphermill_contract::columns::{ColumnBatch, ColumnData, Extents, IvColumn, PreparedColumn};
use ciphermill_contract::{ArenaBuffer, ColumnStatus, Direction, KeyId};

use super::*;
use crate::arena::Arenas;
use crate::pipeline::Cargo;
use crate::pipeline::tests::{AES, Fails, Idle, count, device, key_on};

const COUNT: usize = 1 << 15;
const LEN: usize = 64;
const NAME: KeyId = KeyId { slot: 0, generation: 1 };

/// Values of 64 bytes, in memory of the device's or of anybody's.
struct Table {
    input: Box<dyn ArenaBuffer>,
    output: Box<dyn ArenaBuffer>,
    offsets: Vec<i32>,
    ivs: Vec<u8>,
    statuses: Vec<ColumnStatus>,
}

impl Table {
    fn new(count: usize, mut memory: impl FnMut(usize) -> Box<dyn ArenaBuffer>) -> Table {
        let mut input = memory(count * LEN);
        let mut output = memory(count * LEN);
        input.bytes_mut().fill(0x11);
        output.bytes_mut().fill(0x5a);
        let offsets = (0..=count).map(|index| (index * LEN) as i32).collect();
        let statuses = vec![ColumnStatus::PENDING; count];
        Table { input, output, offsets, ivs: vec![7; 16 * count], statuses }
    }

    fn batch(&mut self, has_offsets: bool) -> ColumnBatch<'_> {
        let strided = Extents::Strided { len: LEN, stride: LEN };
        let extents = if has_offsets { Extents::Offsets(&self.offsets) } else { strided };
        let (input, output) = (self.input.bytes(), self.output.bytes_mut());
        let data = ColumnData::Separate { input, inputs: extents, output, outputs: extents };
        let ivs = IvColumn::Each { bytes: &self.ivs, len: 16 };
        ColumnBatch::new(AES, Direction::Encrypt, data, &mut self.statuses).with_key(NAME).with_ivs(ivs)
    }
}

fn heap(len: usize) -> Box<dyn ArenaBuffer> {
    Box::new(vec![0; len])
}

/// Runs a table; gives how many shares there were, and how many copied from and to arenas.
fn run_table(device: &Arc<Idle>, pipeline: &mut Pipeline, table: &mut Table, has_offsets: bool) -> (usize, usize) {
    let before = (count(&device.state.starts), count(&device.state.direct));
    let key = key_on(device, AES);
    let mut columns = table.batch(has_offsets).check().expect("good columns");
    let mut columns = columns.attach_keys(PreparedColumn::One(&key)).expect("a key");
    run(pipeline, &mut columns, |_, _| panic!("columns go as they are"));
    (count(&device.state.starts) - before.0, count(&device.state.direct) - before.1)
}

#[test]
fn columns_in_the_devices_arenas_are_not_packed() {
    let (device, mut pipeline) = device(Fails::Never);
    let arenas = Arc::clone(pipeline.arenas());
    for has_offsets in [false, true] {
        let mut table = Table::new(COUNT, |len| arenas.take(len).expect("memory"));
        let (shares, direct) = run_table(&device, &mut pipeline, &mut table, has_offsets);
        assert!(shares > 2 && shares == direct, "{direct} of {shares} shares");
        assert!(table.statuses.iter().all(|status| status.is_done()));
        assert!(table.output.bytes().iter().all(|byte| *byte == 0x5a), "no copy but the device's");
        let mut table = Table::new(COUNT, heap);
        let (shares, direct) = run_table(&device, &mut pipeline, &mut table, has_offsets);
        assert!(shares > 2 && direct == 0, "{direct} of {shares} shares");
        assert!(table.statuses.iter().all(|status| status.is_done()));
    }
}

#[test]
fn few_values_are_worked_on_where_they_were_packed() {
    let (device, mut pipeline) = device(Fails::Never);
    let mut table = Table::new(20, heap);
    assert_eq!(run_table(&device, &mut pipeline, &mut table, true), (1, 0));
    assert_eq!(count(&device.state.mapped), 1);
}

#[test]
fn what_the_device_fails_is_a_fault_and_zero() {
    for fails in [Fails::Link, Fails::Start(0), Fails::Start(2), Fails::Finish(0), Fails::Finish(1)] {
        let (device, mut pipeline) = device(fails);
        let arenas = Arc::clone(pipeline.arenas());
        let mut table = Table::new(COUNT, |len| arenas.take(len).expect("memory"));
        run_table(&device, &mut pipeline, &mut table, true);
        let faults = table.statuses.iter().filter(|status| **status == ColumnStatus::ENGINE_FAULT).count();
        let done = table.statuses.iter().filter(|status| status.is_done()).count();
        assert!(faults > 0 && faults + done == COUNT, "{fails:?}: nothing stays pending");
        for (status, output) in table.statuses.iter().zip(table.output.bytes().chunks(LEN)) {
            let expected = if status.is_done() { 0x5a } else { 0 };
            assert!(output.iter().all(|byte| *byte == expected), "{fails:?}");
        }
    }
}

/// What one core does for a value that the device works on: a figure to look at (`cargo test --release -- --ignored
/// --nocapture columns_cost`).
#[test]
#[ignore = "a measurement"]
fn columns_cost_a_core() {
    use std::io::Write as _;

    const OPS: usize = 1 << 18;
    let (device, _) = device(Fails::Never);
    let arenas = Arc::new(Arenas::new(|len| Ok(Box::new(vec![0; len]))));
    let key = key_on(&device, AES);
    let pinned = |len| arenas.take(len).expect("memory");
    for (what, mut table, has_offsets) in [
        ("stride, arenas", Table::new(OPS, pinned), false),
        ("offsets, arenas", Table::new(OPS, pinned), true),
        ("stride, any memory", Table::new(OPS, heap), false),
        ("offsets, any memory", Table::new(OPS, heap), true),
    ] {
        let mut staging = vec![0; OPS * 200];
        let mut best = f64::MAX;
        // The fastest of many rounds: none but this thread computes then.
        for _ in 0..50 {
            table.statuses.fill(ColumnStatus::PENDING);
            let mut columns = table.batch(has_offsets).check().expect("good columns");
            let mut columns = columns.attach_keys(PreparedColumn::One(&key)).expect("a key");
            let begun = Instant::now();
            let plan = ColumnPlan::of(&columns).expect("these go as they are");
            let mut cargo = Columns::new(&mut columns, &plan);
            let mut from = 0;
            while from < OPS {
                let share = from..cargo.end_of_share(from, 2 << 20);
                from = share.end;
                let (places, ..) = cargo.lay_out(share.clone(), &arenas);
                cargo.pack(share.clone(), &places, &mut staging);
                cargo.unpack(share, &places, &staging);
            }
            best = best.min(begun.elapsed().as_nanos() as f64 / OPS as f64);
        }
        let _ = writeln!(std::io::stderr(), "{what}: {best:.2} ns a value of 64 bytes with its IV");
    }
}
