//! Batches that go in several pieces at a time: whatever their shape, the answers are the reference's and everything else in the arena is
//! as it was.

#![allow(clippy::expect_used, reason = "tests")]

mod common;

use ciphermill_channel::DATA_LEN_MIN;
use ciphermill_contract::{
    Batch, Direction, Engine, EngineQueue, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span,
};
use ciphermill_service_engine::{Opening, ServiceEngine};
use common::Running;
use common::raw::suite;

/// Operations, and bytes of each: short ones are gathered before they go to the channel, long ones are not.
const SIZES: [(usize, usize); 9] =
    [(1, 40), (2, 40), (63, 40), (256, 40), (1001, 40), (6000, 40), (1, 700), (33, 700), (90, 700)];
const TAG: usize = 16;

/// What lies between the data.
const ELSE: u8 = 0xa5;

/// Where the input, the output and the tag of an operation lie, by its index, their number and their length.
type Shape = fn(usize, usize, usize) -> [usize; 3];

const SHAPES: [Shape; 6] = [
    // In place, each with its tag.
    |index, _, len| [index * (len + 24), index * (len + 24), index * (len + 24) + len],
    // All inputs, all outputs, all tags.
    |index, count, len| [index * len, (count + index) * len, 2 * count * len + index * TAG],
    // Outputs in the opposite order, with room between them.
    |index, count, len| [index * len, (count + 2 * (count - 1 - index)) * len, 3 * count * len + index * TAG],
    // Outputs of early and late operations in turns: each piece writes around what others write.
    |index, count, len| {
        let place = if index % 2 == 0 { index } else { count - count % 2 - index };
        [index * len, (count + 1 + place) * len, (2 * count + 2) * len + place * (TAG + 3)]
    },
    // Outputs of neighbours change places, across the ends of pieces, too.
    |index, count, len| [index * len, (count + (index ^ 32)) * len, (2 * count + 64) * len + (index ^ 32) * TAG],
    // Tags before everything.
    |index, count, len| {
        [count * TAG + index * (2 * len + 20), count * TAG + index * (2 * len + 20) + len + 10, index * TAG]
    },
];

/// An engine by itself: a mill would lay out anew what it hands over.
struct Side {
    queue: Box<dyn EngineQueue>,
    keys: Vec<PreparedKey>,
}

impl Side {
    fn new(engine: &dyn Engine) -> Side {
        let prepare =
            |byte: u8| engine.prepare(&KeyMaterial::secret(&[byte; 16]), suite("aes-128-gcm")).expect("a key");
        let keys = (0..50).map(prepare).collect();
        Side { queue: engine.queue(QueueHint::default()).expect("a queue"), keys }
    }

    /// Runs the operations, and gives their outcomes.
    fn run(&mut self, direction: Direction, ops: &[Op], arena: &mut [u8]) -> Vec<(OpStatus, u32, u16)> {
        let mut ops = ops.to_vec();
        let keys: Vec<Option<&PreparedKey>> = self.keys.iter().cycle().take(ops.len()).map(Some).collect();
        let mut batch = Batch::new(suite("aes-128-gcm"), direction, &mut ops, arena).check().expect("well formed");
        self.queue.run(&mut batch.attach_keys(&keys).expect("as many keys"));
        ops.iter().map(|op| (op.status, op.output_len, op.tag_len)).collect()
    }
}

#[test]
fn batches_of_any_shape_come_back_as_they_should() {
    let running = Running::start(|_| {});
    let mut reference = Side::new(&ciphermill_reference::Reference::new());
    for channel_len in [DATA_LEN_MIN, 200_000, 4 << 20] {
        let opening = Opening { channel_len, ..Opening::at(running.socket()) };
        let mut service = Side::new(&ServiceEngine::open(&opening).expect("connects"));
        for (shape, places) in SHAPES.iter().enumerate() {
            for (count, len) in SIZES {
                let op = |index: usize| {
                    let [input, output, tag] = places(index, count, len).map(|place| place as u32);
                    let op = Op::in_place(KeyId { slot: 0, generation: 1 }, Span::new(input, len as u32))
                        .with_output(output);
                    op.with_tag(tag, TAG as u16).with_iv(&[index as u8; 12])
                };
                let ops: Vec<Op> = (0..count).map(op).collect();
                let mut arena = vec![ELSE; count * (len + 40) * 4 + 70 * len + 8000];
                for op in &ops {
                    arena[op.input.range()].fill(op.input.offset as u8);
                }
                compare(&mut service, &mut reference, Direction::Encrypt, &ops, &mut arena, (shape, count));
                // Back again, some of them with a wrong tag.
                let inputs: Vec<u8> = arena.clone();
                for op in &ops {
                    let (from, to) = (op.output as usize, op.input.offset as usize);
                    arena[to..to + len].copy_from_slice(&inputs[from..from + len]);
                }
                ops.iter().step_by(7).for_each(|op| arena[op.tag as usize] ^= 1);
                let statuses =
                    compare(&mut service, &mut reference, Direction::Decrypt, &ops, &mut arena, (shape, count));
                assert_eq!(statuses.iter().filter(|(status, ..)| !status.is_done()).count(), count.div_ceil(7));
            }
        }
    }
}

/// Runs both sides on the same bytes; what the service has made stays in `arena`.
fn compare(
    service: &mut Side,
    reference: &mut Side,
    direction: Direction,
    ops: &[Op],
    arena: &mut [u8],
    what: (usize, usize),
) -> Vec<(OpStatus, u32, u16)> {
    let mut expected = arena.to_vec();
    let outcomes = reference.run(direction, ops, &mut expected);
    assert_eq!(service.run(direction, ops, arena), outcomes, "{what:?}, {direction:?}");
    let wrong = arena.iter().zip(&expected).position(|(found, expected)| found != expected);
    assert_eq!(wrong, None, "{what:?}, {direction:?}: the arena differs from this byte on");
    outcomes
}
