//! Columns over a channel: whatever their shape, the answers are the reference's and everything else is as it was; and what a client says of
//! them without manners gives it nothing of others.

#![allow(clippy::expect_used, reason = "tests")]

mod common;

use std::time::Duration;

use ciphermill_channel::{
    ColumnShape, DATA_AT, DATA_LEN_MIN, KeyHandle, Outcome, Port, Request, ShapeAad, ShapeBuffer, ShapeData, ShapeIvs,
    ShapeKeys, ShapeSteps, ShapeTags, get_statuses, put_statuses,
};
use ciphermill_contract::columns::{AadColumn, ColumnData, Extents, IvColumn, KeyColumn, PreparedColumn, TagColumn};
use ciphermill_contract::{
    ColumnBatch, ColumnStatus, Direction, Engine, EngineQueue, KeyId, KeyMaterial, OpStatus, PreparedKey, QueueHint,
    Reason, Suite,
};
use ciphermill_service_engine::{Opening, ServiceEngine};
use common::Running;
use common::campaign::Campaign;
use common::raw::{DATA, Raw, outcome, request, suite};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// What lies where nobody writes.
const ELSE: u8 = 0xa5;

const KEYS: usize = 5;

/// How the columns of a batch are laid out.
#[derive(Clone, Debug)]
struct Layout {
    which: usize,
    count: usize,
    /// Lengths: all the same, or from a list in turns.
    lens: Option<Vec<usize>>,
    gap: usize,
    /// Bytes before the first extent.
    lead: usize,
    wide: bool,
    in_place: bool,
    one_key: bool,
    ivs: u8,
    aad: u8,
    tags: u8,
    left_out: usize,
    wrong: usize,
}

/// Suites: bytes of a key, of an IV and of a tag; the length of inputs is a multiple of the last.
const SUITES: [(&str, usize, usize, usize, usize); 6] = [
    ("aes-128-gcm", 16, 12, 16, 1),
    ("aes-256-siv", 64, 0, 16, 1),
    ("aes-128-cbc", 16, 16, 0, 16),
    ("chacha20-poly1305", 32, 12, 16, 1),
    ("hmac-sha256", 32, 0, 32, 1),
    ("sha256", 0, 0, 32, 1),
];

fn layouts() -> impl Strategy<Value = Layout> {
    let counts = prop::sample::select(vec![1usize, 31, 32, 33, 100, 1000, 4000]);
    let shape =
        (0..SUITES.len(), counts, prop::option::of(prop::collection::vec(1usize..9, 1..7)), 0usize..9, 0usize..70);
    let bits = (any::<bool>(), any::<bool>(), any::<bool>(), 0u8..3, 0u8..3, 0u8..3, 0usize..12, 0usize..12);
    (shape, bits).prop_map(
        |((which, count, lens, gap, lead), (wide, in_place, one_key, ivs, aad, tags, left_out, wrong))| Layout {
            which,
            count,
            lens,
            gap,
            lead,
            wide,
            in_place,
            one_key,
            ivs,
            aad,
            tags,
            left_out,
            wrong,
        },
    )
}

/// Extents of one buffer, in any of the three forms.
struct Own {
    strided: Option<(usize, usize)>,
    offsets: Vec<i32>,
    large: Vec<i64>,
    wide: bool,
    /// Bytes of the buffer.
    len: usize,
}

impl Own {
    /// Extents that have `more` bytes beside the data.
    fn new(layout: &Layout, more: usize) -> Own {
        let step = SUITES[layout.which].4;
        let (count, wide) = (layout.count, layout.wide);
        match &layout.lens {
            None => {
                let len = 3 * step + more;
                let stride = len + layout.gap;
                Own { strided: Some((len, stride)), offsets: Vec::new(), large: Vec::new(), wide, len: stride * count }
            }
            Some(lens) => {
                let mut at = layout.lead;
                let mut offsets = vec![at as i32];
                for index in 0..count {
                    at += lens[index % lens.len()] * step + more;
                    offsets.push(at as i32);
                }
                let large = offsets.iter().map(|at| i64::from(*at)).collect();
                Own { strided: None, offsets, large, wide, len: at + layout.gap }
            }
        }
    }

    fn extents(&self) -> Extents<'_> {
        match self.strided {
            Some((len, stride)) => Extents::Strided { len, stride },
            None if self.wide => Extents::LargeOffsets(&self.large),
            None => Extents::Offsets(&self.offsets),
        }
    }
}

/// The bytes of a batch, before it or after.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bytes {
    input: Vec<u8>,
    output: Vec<u8>,
    tags: Vec<u8>,
    statuses: Vec<ColumnStatus>,
}

impl Layout {
    fn suite(&self) -> Suite {
        suite(SUITES[self.which].0)
    }

    fn iv_inline(&self) -> bool {
        self.ivs == 2 && self.suite().transforms()
    }

    /// Bytes of IV and tag within sealed extents.
    fn more(&self) -> usize {
        let (_, _, iv_len, tag_len, _) = SUITES[self.which];
        let tags = if self.tags > 0 && self.suite().transforms() { tag_len } else { 0 };
        tags + if self.iv_inline() { iv_len } else { 0 }
    }

    fn buffers(&self, direction: Direction) -> (Own, Own) {
        let (clear, sealed) = (Own::new(self, 0), Own::new(self, self.more()));
        match (self.in_place, direction) {
            (true, _) => (Own::new(self, self.more()), sealed),
            (_, Direction::Encrypt) => (clear, sealed),
            (_, Direction::Decrypt) => (sealed, clear),
        }
    }

    fn fresh(&self, direction: Direction) -> Bytes {
        let (input, output) = self.buffers(direction);
        let left_out = |index: usize| self.left_out > 0 && index % (self.left_out + 1) == self.left_out;
        let status = |index| if left_out(index) { ColumnStatus::LEFT_OUT } else { ColumnStatus::PENDING };
        Bytes {
            input: (0..input.len).map(|at| (at * 11 + at / 250) as u8).collect(),
            output: vec![ELSE; if self.in_place || !self.suite().transforms() { 0 } else { output.len }],
            tags: vec![ELSE; self.count * SUITES[self.which].3],
            statuses: (0..self.count).map(status).collect(),
        }
    }
}

/// An engine by itself: a mill would lay out anew what it hands over.
struct Side {
    queue: Box<dyn EngineQueue>,
    keys: Vec<Vec<PreparedKey>>,
}

impl Side {
    fn new(engine: &dyn Engine) -> Side {
        let prepare = |(name, len, ..): &(&str, usize, usize, usize, usize)| {
            let key = |byte: usize| {
                let bytes: Vec<u8> = (0..*len).map(|at| (at * 3 + byte) as u8).collect();
                engine.prepare(&KeyMaterial::secret(&bytes), suite(name)).expect("a key")
            };
            (0..if *len == 0 { 0 } else { KEYS }).map(key).collect()
        };
        let keys = SUITES.iter().map(prepare).collect();
        Side { queue: engine.queue(QueueHint::default()).expect("a queue"), keys }
    }

    fn run(&mut self, layout: &Layout, direction: Direction, bytes: &mut Bytes) {
        let (own_suite, count) = (layout.suite(), layout.count);
        let (_, _, iv_len, tag_len, _) = SUITES[layout.which];
        let (inputs, outputs) = layout.buffers(direction);
        let data = match (own_suite.transforms(), layout.in_place) {
            (false, _) => ColumnData::Input { input: &bytes.input, inputs: inputs.extents() },
            (true, true) => ColumnData::InPlace { data: &mut bytes.input, extents: inputs.extents() },
            (true, false) => ColumnData::Separate {
                input: &bytes.input,
                inputs: inputs.extents(),
                output: &mut bytes.output,
                outputs: outputs.extents(),
            },
        };
        let ivs: Vec<u8> = (0..count * iv_len).map(|at| (at * 5 + at / 256) as u8).collect();
        let aads: Vec<u8> = (0..count * 7).map(|at| at as u8).collect();
        let has_aad = matches!(own_suite, Suite::Aead(_)) && iv_len > 0;
        let names = vec![KeyId { slot: 0, generation: 1 }; count];
        let mut batch = ColumnBatch::new(own_suite, direction, data, &mut bytes.statuses)
            .with_ivs(match layout.ivs {
                _ if iv_len == 0 => IvColumn::None,
                1 => IvColumn::Counter(&ivs[..iv_len]),
                2 if layout.iv_inline() => IvColumn::Inline { len: iv_len },
                _ => IvColumn::Each { bytes: &ivs, len: iv_len },
            })
            .with_aad(match layout.aad {
                1 if has_aad => AadColumn::One(&aads[..5]),
                2 if has_aad => AadColumn::Each { bytes: &aads, extents: Extents::Strided { len: 6, stride: 7 } },
                _ => AadColumn::None,
            })
            .with_tags(match (layout.tags, direction) {
                _ if tag_len == 0 => TagColumn::None,
                (1, _) if own_suite.transforms() => TagColumn::Before { len: tag_len },
                (2, _) if own_suite.transforms() => TagColumn::After { len: tag_len },
                (_, Direction::Encrypt) => TagColumn::Written { bytes: &mut bytes.tags, len: tag_len },
                (_, Direction::Decrypt) => TagColumn::Expected { bytes: &bytes.tags, len: tag_len },
            });
        let own = &self.keys[layout.which];
        let each: Vec<Option<&PreparedKey>> = own.iter().cycle().take(count).map(Some).collect();
        let prepared = match own.first() {
            None => PreparedColumn::None,
            Some(first) if layout.one_key => PreparedColumn::One(first),
            Some(_) => PreparedColumn::Each(&each),
        };
        batch = batch.with_keys(match prepared {
            PreparedColumn::None => KeyColumn::None,
            PreparedColumn::One(_) => KeyColumn::One(names[0]),
            PreparedColumn::Each(_) => KeyColumn::Each(&names),
        });
        let mut checked = batch.check().expect("well formed");
        self.queue.run_columns(&mut checked.attach_keys(prepared).expect("as many keys"));
    }
}

/// What decrypts what was made.
fn turned(layout: &Layout, made: &Bytes) -> Bytes {
    let mut back = layout.fresh(Direction::Decrypt);
    back.tags.clone_from(&made.tags);
    if layout.suite().transforms() {
        let sealed = if layout.in_place { &made.input } else { &made.output };
        back.input.clone_from(sealed);
    } else {
        back.input.clone_from(&made.input);
    }
    if layout.wrong > 0 {
        // Somewhere in the data or in a tag.
        back.input.iter_mut().step_by(layout.wrong * 97).for_each(|byte| *byte ^= 1);
        back.tags.iter_mut().step_by(layout.wrong * 61).for_each(|byte| *byte ^= 1);
    }
    back
}

#[test]
fn columns_of_any_shape_come_back_as_the_references() {
    let cases = std::env::var("CIPHERMILL_SERVICE_CASES").map_or(300, |cases| cases.parse().expect("a number"));
    let running = Running::start(|_| {});
    let opening = |channel_len| Opening { channel_len, ..Opening::at(running.socket()) };
    let lens = [DATA_LEN_MIN, 4 << 20];
    let sides = lens.map(|len| Side::new(&ServiceEngine::open(&opening(len)).expect("connects")));
    let reference = Side::new(&ciphermill_reference::Reference::new());
    let sides = std::cell::RefCell::new((sides, reference));
    let (done, failed) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&layouts(), |layout| {
        let (services, reference) = &mut *sides.borrow_mut();
        for service in services {
            let mut expected = layout.fresh(Direction::Encrypt);
            let mut found = expected.clone();
            reference.run(&layout, Direction::Encrypt, &mut expected);
            service.run(&layout, Direction::Encrypt, &mut found);
            prop_assert!(found == expected, "encrypting");
            if !layout.suite().has_direction(Direction::Decrypt) {
                continue;
            }
            let mut expected = turned(&layout, &expected);
            let mut found = expected.clone();
            reference.run(&layout, Direction::Decrypt, &mut expected);
            service.run(&layout, Direction::Decrypt, &mut found);
            prop_assert!(found == expected, "decrypting");
            let is = |wanted: ColumnStatus| expected.statuses.iter().filter(|status| **status == wanted).count();
            done.set(done.get() + is(ColumnStatus::DONE));
            failed.set(failed.get() + is(ColumnStatus::AUTH_FAILED));
        }
        Ok(())
    });
    assert!(result.is_ok(), "{result:?}");
    assert!(done.get() > 1000 && failed.get() > 100, "{done:?} done, {failed:?} not authentic");
}

/// Some operations are so much longer than others that a part of the columns does not fit into a channel.
#[test]
fn columns_of_very_different_lengths_are_no_engines_fault() {
    let running = Running::start(|_| {});
    let opening = Opening { channel_len: DATA_LEN_MIN, ..Opening::at(running.socket()) };
    let mut service = Side::new(&ServiceEngine::open(&opening).expect("connects"));
    let mut reference = Side::new(&ciphermill_reference::Reference::new());
    let lens = (0..100).map(|index| if index < 4 { 30_000 } else { 7 }).collect();
    for (tags, in_place) in [(0, false), (2, false), (2, true)] {
        let (which, count, lens) = (0, 100, Some(Vec::clone(&lens)));
        let (gap, lead, wide, one_key, ivs, aad, left_out, wrong) = (0, 0, false, true, 0, 1, 0, 0);
        let layout = Layout { which, count, lens, gap, lead, wide, in_place, one_key, ivs, aad, tags, left_out, wrong };
        let mut expected = layout.fresh(Direction::Encrypt);
        let mut found = expected.clone();
        reference.run(&layout, Direction::Encrypt, &mut expected);
        service.run(&layout, Direction::Encrypt, &mut found);
        assert!(expected.statuses.iter().all(|status| status.is_done()) && found == expected, "{tags}, {in_place}");
    }
}

/// A client whose columns are as it likes.
struct Rude {
    raw: Raw,
    port: Port,
}

/// What the other client's data are made of: long stretches of it are seen wherever they turn up.
const SECRET: u8 = 0xc5;

impl Rude {
    fn new(campaign: &Campaign) -> Rude {
        let mut raw = Raw::greeted(campaign.socket());
        let (_, port) = raw.port(0);
        Rude { raw, port }
    }

    /// Sends columns of GCM, with these statuses and these bytes at the start of the data, and says what became of them.
    fn send(
        &mut self,
        shape: ColumnShape,
        direction: Direction,
        statuses: &[ColumnStatus],
        data: &[u8],
    ) -> Option<Outcome> {
        let count = statuses.len();
        let len = shape.places(count, direction)?.len;
        let memory = self.port.memory();
        assert!(memory.write(DATA_AT, &vec![0; DATA_LEN_MIN]));
        shape.put(memory, DATA_AT).expect("fits");
        put_statuses(memory, DATA_AT, statuses).expect("fit");
        assert!(memory.write(DATA as usize, data));
        let asked = Request { direction, columns: true, ..request(suite("aes-128-gcm"), count as u32, len as u32) };
        let number = self.port.submit(asked).expect("a slot");
        Some(outcome(&self.port, number))
    }

    fn sees(&self) -> bool {
        let mut all = vec![0; DATA_LEN_MIN];
        assert!(self.port.memory().read(DATA_AT, &mut all));
        all.windows(8).any(|bytes| bytes == [SECRET; 8])
    }
}

fn strided(count: u32, len: u32, stride: u32) -> ShapeBuffer {
    ShapeBuffer { len: (count - 1) * stride + len, steps: ShapeSteps::Strided { len, stride } }
}

/// Places of outputs that no operation writes hold nothing of what others have left with the worker.
#[test]
fn what_is_not_written_is_nobody_elses() {
    // One worker, whose memory all share, and who never sleeps: it would wipe that before.
    let campaign = Campaign::begin(|options| {
        options.workers = 1;
        options.spin = Duration::from_secs(3600);
    });
    let mut other = Rude::new(&campaign);
    let mut rude = Rude::new(&campaign);
    let (count, len) = (8u32, 1024u32);
    let each = |client: &mut Rude| client.raw.import(suite("aes-128-gcm"), &[7; 16]);
    let (others, own) = (each(&mut other), each(&mut rude));
    let gcm = |key: KeyHandle, tags, data| ColumnShape {
        keys: ShapeKeys::One(KeyId { slot: key.slot, generation: key.generation }),
        ivs: ShapeIvs::Counter(12),
        aad: ShapeAad::None,
        tags,
        data,
    };
    let input = strided(count, len, len);
    let mut leave = || {
        // Decrypting nothing authentic: the worker's memory has the input as it was sent, and the output with its tags behind.
        let shape = gcm(others, ShapeTags::Column(16), ShapeData::Separate(input, strided(count, len, len)));
        let data = vec![SECRET; shape.places(count as usize, Direction::Decrypt).expect("places").copied];
        let statuses = [ColumnStatus::LEFT_OUT; 8];
        assert_eq!(other.send(shape, Direction::Decrypt, &statuses, &data), Some(Outcome::Ran));
    };
    let pending = [ColumnStatus::PENDING; 8];
    let mut some = pending;
    some[3] = ColumnStatus::LEFT_OUT;
    // An output that is longer than its extents reach, before them and behind.
    let offsets = ShapeBuffer { len: 9000, steps: ShapeSteps::Offsets };
    let short = ShapeBuffer { len: 8 * 16, steps: ShapeSteps::Strided { len: 16, stride: 16 } };
    let unknown = KeyHandle { slot: 99, generation: 1 };
    for (key, statuses) in [(own, pending), (own, some), (unknown, pending)] {
        for (tags, output) in [
            (ShapeTags::Column(16), offsets),
            (ShapeTags::Column(16), ShapeBuffer { len: 9000, steps: short.steps }),
            (ShapeTags::Column(16), ShapeBuffer { len: 9000, steps: ShapeSteps::Strided { len: 16, stride: 1100 } }),
            (ShapeTags::Before(16), ShapeBuffer { len: 9000, steps: ShapeSteps::Strided { len: 32, stride: 32 } }),
        ] {
            leave();
            let shape = gcm(key, tags, ShapeData::Separate(short, output));
            let places = shape.places(8, Direction::Encrypt).expect("places");
            let mut data = vec![0; places.copied];
            let offsets = data[places.output_offsets.clone()].as_chunks_mut::<4>().0;
            for (index, offset) in offsets.iter_mut().enumerate() {
                *offset = (4000 + 16 * index as u32).to_le_bytes();
            }
            let outcome = rude.send(shape, Direction::Encrypt, &statuses, &data);
            assert_eq!(outcome, Some(Outcome::Ran), "{tags:?}, {output:?}");
            assert!(!rude.sees(), "{tags:?}, {output:?}, {statuses:?}");
            let mut found = Vec::new();
            get_statuses(rude.port.memory(), DATA_AT, 8, &mut found).expect("within");
            let expected = match (key == own, statuses[3]) {
                (true, status) => [ColumnStatus::DONE, if status.is_pending() { ColumnStatus::DONE } else { status }],
                (false, _) => [ColumnStatus::from(OpStatus::Refused(Reason::KeyUnknown)); 2],
            };
            assert_eq!([found[0], found[3]], expected);
        }
    }
    drop((other, rude));
    campaign.end();
}

/// Any words as a shape, any bytes as columns.
#[test]
fn shapes_of_any_words_are_answered() {
    let cases = std::env::var("CIPHERMILL_SERVICE_CASES").map_or(2000, |cases| cases.parse().expect("a number"));
    let campaign = Campaign::begin(|_| {});
    let rude = std::cell::RefCell::new(Rude::new(&campaign));
    let key = rude.borrow_mut().raw.import(suite("aes-128-gcm"), &[7; 16]);
    // Most parts of most shapes are right.
    let small = || prop_oneof![4 => 0u32..80, 1 => any::<u32>()];
    let buffer = move || {
        (small(), prop::option::of((small(), small()))).prop_map(|(len, steps)| {
            let steps = steps.map(|(len, stride)| ShapeSteps::Strided { len, stride });
            ShapeBuffer { len, steps: steps.unwrap_or(ShapeSteps::Offsets) }
        })
    };
    let right = ShapeBuffer { len: 20 * 16, steps: ShapeSteps::Strided { len: 16, stride: 16 } };
    let handle = ShapeKeys::One(KeyId { slot: key.slot, generation: key.generation });
    let keys = prop_oneof![
        6 => Just(handle),
        1 => prop::sample::select(vec![ShapeKeys::None, ShapeKeys::Each, ShapeKeys::One(KeyId::NONE)]),
    ];
    let ivs = prop_oneof![
        6 => prop::sample::select(vec![ShapeIvs::Each(12), ShapeIvs::Counter(12)]),
        1 => small().prop_map(ShapeIvs::Each),
        1 => small().prop_map(ShapeIvs::Counter),
        1 => small().prop_map(ShapeIvs::Inline),
    ];
    let aad = prop_oneof![
        6 => Just(ShapeAad::None),
        1 => small().prop_map(ShapeAad::One),
        1 => buffer().prop_map(ShapeAad::Each),
    ];
    let tags = prop_oneof![
        6 => Just(ShapeTags::Column(16)),
        1 => small().prop_map(ShapeTags::Column),
        1 => small().prop_map(ShapeTags::Before),
        1 => small().prop_map(ShapeTags::After),
    ];
    let data = prop_oneof![
        3 => Just(ShapeData::InPlace(right)),
        3 => Just(ShapeData::Separate(right, right)),
        1 => buffer().prop_map(ShapeData::InPlace),
        1 => (buffer(), buffer()).prop_map(|(input, output)| ShapeData::Separate(input, output)),
        1 => buffer().prop_map(ShapeData::Input),
    ];
    let status = prop::sample::select(vec![ColumnStatus::PENDING, ColumnStatus::LEFT_OUT]);
    let status = prop_oneof![50 => status, 1 => Just(ColumnStatus::DONE)];
    let statuses = prop::collection::vec(status, 1..20);
    let shapes = (keys, ivs, aad, tags, data).prop_map(|(keys, ivs, aad, tags, data)| ColumnShape {
        keys,
        ivs,
        aad,
        tags,
        data,
    });
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let inputs = (shapes, any::<bool>(), statuses, prop::collection::vec(0u8..60, 0..400));
    let ran = std::cell::Cell::new(0);
    let result = TestRunner::new(config).run(&inputs, |(shape, encrypts, statuses, data)| {
        let direction = if encrypts { Direction::Encrypt } else { Direction::Decrypt };
        let room = DATA_LEN_MIN - (DATA as usize - DATA_AT);
        if shape.places(statuses.len(), direction).is_some_and(|places| places.len <= room) {
            let outcome = rude.borrow_mut().send(shape, direction, &statuses, &data);
            ran.set(ran.get() + usize::from(outcome == Some(Outcome::Ran)));
            prop_assert!(outcome != Some(Outcome::Fault), "a well-formed shape is refused for what it breaks");
        }
        Ok(())
    });
    assert!(result.is_ok(), "{result:?}");
    assert!(ran.get() * 10 > cases as usize, "{ran:?} broke no rule");
    drop(rude);
    campaign.end();
}
