//! Where operations lie that share an arena, for every suite, direction and combination of small lengths: each part inside
//! of what was laid out, none over another but an output over its own input, contents there and back, and nothing that
//! [`Batch::check`] refuses for its place. Unsafe code of engines works on what is laid out here.

use std::collections::BTreeSet;

use super::*;

/// Lengths of data: around blocks of 8 and 16 bytes.
const DATA_LENS: [usize; 9] = [0, 1, 2, 7, 8, 15, 16, 17, 32];
const AAD_LENS: [usize; 3] = [0, 1, 16];
const TAG_LENS: [usize; 4] = [0, 1, 16, 20];

/// Where operations begin in an arena: the coalescer aligns them to 16, a lone one begins at 0.
const STARTS: [usize; 2] = [0, 48];

/// What the arena holds where nothing was put.
const UNTOUCHED: u8 = 0xee;

/// The lengths of an operation's buffers.
#[derive(Clone, Copy, Debug)]
struct Shape {
    data: usize,
    input: usize,
    aad: usize,
    tag: usize,
}

/// An operation's own buffers, each byte of which says whose it is.
struct Buffers {
    data: Vec<u8>,
    aad: Vec<u8>,
    tag: Vec<u8>,
}

impl Buffers {
    fn new(shape: Shape, salt: u8) -> Buffers {
        let filled = |kind: u8, len: usize| (0..len).map(|at| salt ^ kind ^ at as u8).collect();
        Buffers { data: filled(0x40, shape.data), aad: filled(0x80, shape.aad), tag: filled(0xc0, shape.tag) }
    }

    fn one<'d>(&'d mut self, suite: Suite, iv: &'d [u8], input_len: usize) -> One<'d> {
        let key = if suite.needs_key() { KeyId { slot: 1, generation: 1 } } else { KeyId::NONE };
        One { key, iv, aad: &self.aad, data: &mut self.data, input_len, tag: &mut self.tag }
    }
}

/// Every combination of lengths; inputs longer than the data too.
fn shapes(data: &[usize], aad: &[usize], tag: &[usize]) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for &data in data {
        for input in (0..=data + 1).filter(|input| data < 4 || DATA_LENS.contains(input) || *input > data) {
            for &aad in aad {
                shapes.extend(tag.iter().map(|&tag| Shape { data, input, aad, tag }));
            }
        }
    }
    shapes
}

/// The parts that are read or written, as ranges of the arena: input, output, additional data, tag.
fn parts(op: &Op, data_len: usize) -> [std::ops::Range<usize>; 4] {
    let output = op.output as usize..op.output as usize + data_len;
    [op.input.range(), output, op.aad.span().range(), op.tag_span().range()]
}

fn touch(a: &std::ops::Range<usize>, b: &std::ops::Range<usize>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}

/// Checks the places of an operation that was laid out from `start` to `end`.
fn check_places(op: &Op, suite: Suite, shape: Shape, start: usize, end: usize) {
    let parts = parts(op, shape.data);
    let named = format!("{suite} {shape:?} from {start}: {op:?}");
    assert!(parts.iter().all(|part| start <= part.start && part.end <= end), "outside of it: {named}");
    let aad = op.iv_rest_len() + shape.aad;
    assert_eq!(parts.each_ref().map(|part| part.len()), [shape.input, shape.data, aad, shape.tag], "{named}");
    let last = parts.iter().map(|part| part.end).max();
    assert!(last == Some(end), "room that nobody has: {named}");
    for (index, part) in parts.iter().enumerate() {
        for (other, earlier) in parts[..index].iter().enumerate() {
            let in_place = suite.transforms() && (other, index) == (0, 1);
            assert!(!touch(part, earlier) || (in_place && part.start == earlier.start), "parts overlap: {named}");
        }
    }
}

/// Reasons that speak of an operation's place, not of its lengths.
fn is_of_place(reason: Reason) -> bool {
    use Reason::*;
    matches!(
        reason,
        InputPastEnd | OutputPastEnd | TagPastEnd | AadPastEnd | TagOverlap | AadOverlap | PartialOverlap | OpsOverlap
    )
}

/// Lays out one operation behind the other as a shared round does, copies in, lets an engine write over all that it may write,
/// copies out, and compares. `None` when lengths were refused.
fn there_and_back(suite: Suite, direction: Direction, shapes: &[Shape], first: usize) -> Option<()> {
    let iv = vec![0x11; if suite.iv_len().max > 16 { 24 } else { suite.default_iv_len() }];
    let mut arena = vec![UNTOUCHED; first];
    let mut buffers: Vec<Buffers> = shapes.iter().zip(1..).map(|(shape, salt)| Buffers::new(*shape, salt)).collect();
    let mut ops = Vec::new();
    for (own, shape) in buffers.iter_mut().zip(shapes) {
        let start = if ops.is_empty() { first } else { arena.len().next_multiple_of(16) };
        let one = own.one(suite, &iv, shape.input);
        let needed = suite.output_len(direction, shape.input, shape.data);
        let (op, end) = match lay_out(&one, suite, direction, start) {
            Ok(place) => place,
            Err(Reason::InputPastEnd) if shape.input > shape.data => return None,
            Err(Reason::OutputPastEnd) if needed > shape.data => return None,
            Err(reason) => panic!("{suite} {shape:?}: {reason:?}"),
        };
        assert!(shape.input <= shape.data && needed <= shape.data, "{suite} {shape:?}: there is no room");
        check_places(&op, suite, *shape, start, end);
        arena.resize(start, UNTOUCHED);
        arena.resize(end, 0);
        copy_in(&one, &op, &mut arena);
        ops.push(op);
    }
    for (op, (own, shape)) in ops.iter().zip(buffers.iter().zip(shapes)) {
        assert_eq!(arena[op.input.range()], own.data[..shape.input], "{suite} {shape:?}");
        let aad = [iv_rest(&iv), &own.aad].concat();
        assert_eq!((&arena[op.aad.span().range()], &arena[op.tag_span().range()]), (&aad[..], &own.tag[..]));
    }
    let mut asked = ops.clone();
    if let Err(Error::Misuse(misuse)) = Batch::new(suite, direction, &mut asked, &mut arena).check() {
        assert!(!is_of_place(misuse.reason), "{suite} {shapes:?}: {:?}", misuse.reason);
    }
    // What an engine may write: every output and, when it encrypts, every tag.
    for (op, (shape, salt)) in ops.iter().zip(shapes.iter().zip(0x21u8..)) {
        let [_, output, _, tag] = parts(op, shape.data);
        arena[output].fill(salt);
        if direction == Direction::Encrypt {
            arena[tag].fill(salt | 0x80);
        }
    }
    for (op, (own, (shape, salt))) in ops.iter().zip(buffers.iter_mut().zip(shapes.iter().zip(0x21u8..))) {
        let before = (own.data.clone(), own.tag.clone());
        let done = copy_out(&mut own.one(suite, &iv, shape.input), direction, suite, op, &arena);
        let has_output = suite.output_len(direction, shape.input, shape.data) != 0;
        assert_eq!(own.data, if has_output { vec![salt; shape.data] } else { before.0 }, "{suite} {shape:?}");
        let tag = if direction == Direction::Encrypt { vec![salt | 0x80; shape.tag] } else { before.1 };
        assert_eq!((&own.tag, done.tag_len), (&tag, shape.tag), "{suite} {shape:?}");
    }
    Some(())
}

const DIRECTIONS: [Direction; 2] = [Direction::Encrypt, Direction::Decrypt];

#[test]
fn an_operation_of_any_lengths_lies_apart_and_comes_back() {
    let shapes = shapes(&DATA_LENS, &AAD_LENS, &TAG_LENS);
    let mut tried = 0;
    for suite in Suite::all() {
        for direction in DIRECTIONS {
            for shape in &shapes {
                let all = STARTS.map(|start| there_and_back(suite, direction, &[*shape], start).is_some());
                tried += all.into_iter().filter(|is_laid_out| *is_laid_out).count();
            }
        }
    }
    assert!(tried > 100_000, "{tried}");
}

/// Suites that lay out and write in every way that there is: in place, apart, tags alone, by the room there is.
const KINDS: [&str; 8] =
    ["aes-128-ctr", "aes-128-gcm", "ff1-aes-128", "sha256", "hmac-sha256", "random", "x25519", "ml-kem-512"];

#[test]
fn operations_that_share_an_arena_lie_apart_and_come_back() {
    let shapes: Vec<Shape> =
        shapes(&[0, 1, 2, 3], &[0, 1, 2], &[0, 1, 2]).into_iter().filter(|shape| shape.input <= shape.data).collect();
    for suite in KINDS.map(|name| name.parse::<Suite>().expect("a suite")) {
        for direction in DIRECTIONS {
            for first in &shapes {
                for second in &shapes {
                    there_and_back(suite, direction, &[*first, *second], 0);
                }
            }
        }
    }
}

/// Every kind of place is among them, so that no rule is vacuous.
#[test]
fn the_kinds_are_all_kinds() {
    let suites: Vec<Suite> = KINDS.iter().map(|name| name.parse().expect("a suite")).collect();
    let kind = |suite: &Suite, direction: Direction| {
        (suite.transforms(), suite.output_len(direction, 1, 1 << 16) != 0, suite.tag_len(direction).max != 0)
    };
    let kinds = |suites: &[Suite]| -> BTreeSet<_> {
        suites.iter().flat_map(|suite| DIRECTIONS.map(|direction| kind(suite, direction))).collect()
    };
    assert_eq!(kinds(&suites), kinds(&Suite::all().collect::<Vec<_>>()));
}

/// Offsets are 32 bits wide: what reaches beyond is refused, wherever it begins.
#[test]
fn nothing_is_laid_out_beyond_the_offsets() {
    let limit = u32::MAX as usize;
    for suite in KINDS.map(|name| name.parse::<Suite>().expect("a suite")) {
        for shape in shapes(&[0, 1, 2, 3], &[0, 1, 2], &[0, 1, 2]) {
            let mut own = Buffers::new(shape, 1);
            let one = own.one(suite, &[], shape.input);
            let Ok((_, len)) = lay_out(&one, suite, Direction::Encrypt, 0) else { continue };
            for start in limit - 16..=limit + 16 {
                match lay_out(&one, suite, Direction::Encrypt, start) {
                    Ok((op, end)) => {
                        assert!(start + len <= limit, "{suite} {shape:?} from {start}");
                        check_places(&op, suite, shape, start, end);
                    }
                    Err(reason) => {
                        assert_eq!(reason, Reason::InputTooLong);
                        assert!(start + len > limit, "{suite} {shape:?} from {start}");
                    }
                }
            }
        }
    }
    // Lengths that an operation has no room for.
    let long = vec![0; usize::from(u16::MAX) + 1];
    let suite: Suite = "aes-128-gcm".parse().expect("a suite");
    let one = One { key: KeyId::NONE, iv: &[], aad: &long, data: &mut [], input_len: 0, tag: &mut [] };
    assert_eq!(lay_out(&one, suite, Direction::Encrypt, 0).err(), Some(Reason::InputTooLong));
}
