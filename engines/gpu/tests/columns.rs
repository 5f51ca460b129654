//! Columns in arenas that the device copies from and to by itself: as the reference has them, in several shares, forward and
//! back. Layouts are for the conformance suite, which has them all in other memory.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod common;

use ciphermill_contract::columns::{AadColumn, ColumnData, Extents, IvColumn, KeyColumn, PreparedColumn, TagColumn};
use ciphermill_contract::suite::{Aead, AesSize, BlockCipher, Digest, Mac, Mode, StreamCipher};
use ciphermill_contract::{
    ArenaBuffer, ColumnBatch, ColumnStatus, Direction, Engine, KeyId, KeyMaterial, QueueHint, Suite,
};
use ciphermill_gpu::Gpu;
use ciphermill_reference::Reference;

const CBC: Suite = Suite::Cipher(BlockCipher::Aes(AesSize::Aes128), Mode::Cbc);
const GCM: Suite = Suite::Aead(Aead::AesGcm(AesSize::Aes256));
const NAME: KeyId = KeyId { slot: 0, generation: 1 };

/// Values: enough for several shares.
const COUNT: usize = 18_000;

/// How values lie.
#[derive(Clone, Copy, Debug)]
struct Lie {
    suite: Suite,
    in_place: bool,
    /// Lengths differ; else all have 48 bytes.
    is_ragged: bool,
    /// Tags before the ciphertext with the IV before them, else a column of each.
    is_inline: bool,
    /// What makes it hard: 64-bit offsets that do not begin at zero, lengths of any number of bytes where the suite takes
    /// them, additional data of each operation's own, every seventh value left out, and the columns cut in two.
    is_odd: bool,
}

impl Lie {
    fn iv_len(&self) -> usize {
        self.suite.default_iv_len()
    }

    fn tag_len(&self) -> usize {
        self.suite.default_tag_len()
    }

    /// Bytes beside the data in a sealed extent.
    fn more(&self) -> usize {
        if self.is_inline { self.iv_len() + self.tag_len() } else { 0 }
    }

    fn len_of(&self, index: usize) -> usize {
        match (self.is_ragged, self.is_odd && !matches!(self.suite, Suite::Cipher(..))) {
            (true, true) => index * index % 83,
            (true, false) => 16 * (1 + index * index % 5),
            (false, true) => 51,
            (false, false) => 48,
        }
    }

    /// From one value to the next where all have one length.
    fn stride(&self, more: usize) -> usize {
        self.len_of(0) + more + if self.is_odd { 5 } else { 0 }
    }

    /// Where extents with so much more than data begin and end.
    fn offsets(&self, more: usize) -> Vec<i64> {
        let mut at = if self.is_odd { 13 } else { 0 };
        let ends = (0..COUNT).map(|index| {
            at += (self.len_of(index) + more) as i64;
            at
        });
        core::iter::once(if self.is_odd { 13 } else { 0 }).chain(ends).collect()
    }
}

/// Columns in some memory.
struct Table {
    lie: Lie,
    clear: Vec<i64>,
    sealed: Vec<i64>,
    /// The same in 32 bits.
    small: [Vec<i32>; 2],
    input: Box<dyn ArenaBuffer>,
    output: Box<dyn ArenaBuffer>,
    ivs: Vec<u8>,
    tags: Vec<u8>,
    statuses: Vec<ColumnStatus>,
}

impl Table {
    /// Noise to be sealed; IVs that are inline are where they should be.
    fn new(lie: Lie, mut memory: impl FnMut(usize) -> Box<dyn ArenaBuffer>) -> Table {
        let (clear, sealed) = (lie.offsets(0), lie.offsets(lie.more()));
        let len = if lie.is_ragged { sealed[COUNT] as usize } else { COUNT * lie.stride(lie.more()) };
        let small = [&clear, &sealed].map(|offsets| offsets.iter().map(|at| *at as i32).collect());
        let (mut input, mut output) = (memory(len), memory(len));
        let noise = |at: usize| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8;
        input.bytes_mut().iter_mut().enumerate().for_each(|(at, byte)| *byte = noise(at));
        output.bytes_mut().iter_mut().enumerate().for_each(|(at, byte)| *byte = noise(at + 7));
        let ivs = (0..lie.iv_len() * COUNT).map(|at| noise(at + 3)).collect();
        let tags = vec![0; lie.tag_len() * COUNT];
        Table { lie, clear, sealed, small, input, output, ivs, tags, statuses: vec![ColumnStatus::PENDING; COUNT] }
    }

    fn run(&mut self, engine: &dyn Engine, direction: Direction) {
        let (lie, suite) = (self.lie, self.lie.suite);
        for (index, status) in self.statuses.iter_mut().enumerate() {
            *status = if lie.is_odd && index % 7 == 3 { ColumnStatus::LEFT_OUT } else { ColumnStatus::PENDING };
        }
        let extents = |large, small, more: usize| match (lie.is_ragged, lie.is_odd) {
            (true, true) => Extents::LargeOffsets(large),
            (true, false) => Extents::Offsets(small),
            (false, _) => Extents::Strided { len: lie.len_of(0) + more, stride: lie.stride(more) },
        };
        let clear = extents(&self.clear, &self.small[0], 0);
        let sealed = extents(&self.sealed, &self.small[1], lie.more());
        let (aads, aad_offsets) = own_aads();
        let (inputs, outputs) = if direction == Direction::Encrypt { (clear, sealed) } else { (sealed, clear) };
        let data = if !suite.transforms() {
            ColumnData::Input { input: self.input.bytes(), inputs: clear }
        } else if lie.in_place {
            ColumnData::InPlace { data: self.input.bytes_mut(), extents: sealed }
        } else {
            ColumnData::Separate { input: self.input.bytes(), inputs, output: self.output.bytes_mut(), outputs }
        };
        let ivs = match lie.iv_len() {
            0 => IvColumn::None,
            len if lie.is_inline => IvColumn::Inline { len },
            len => IvColumn::Each { bytes: &self.ivs, len },
        };
        let tags = match lie.tag_len() {
            0 => TagColumn::None,
            len if lie.is_inline => TagColumn::Before { len },
            len if direction == Direction::Encrypt => TagColumn::Written { bytes: &mut self.tags, len },
            len => TagColumn::Expected { bytes: &self.tags, len },
        };
        let aad = match suite {
            Suite::Aead(_) if lie.is_odd => AadColumn::Each { bytes: &aads, extents: Extents::Offsets(&aad_offsets) },
            Suite::Aead(_) => AadColumn::One(b"a table's column"),
            _ => AadColumn::None,
        };
        let batch = ColumnBatch::new(suite, direction, data, &mut self.statuses);
        let batch = if suite.needs_key() { batch.with_key(NAME) } else { batch };
        let mut columns = batch.with_ivs(ivs).with_tags(tags).with_aad(aad).check().expect("good columns");
        let mut queue = engine.queue(QueueHint::default()).expect("a queue");
        let material: Vec<u8> = (0..suite.default_key_len() as u8).collect();
        let key =
            suite.needs_key().then(|| engine.prepare(&KeyMaterial::secret(&material), suite).expect("a good key"));
        let prepared = key.as_ref().map_or(PreparedColumn::None, PreparedColumn::One);
        let mut columns = columns.attach_keys(prepared).expect("one key");
        if !lie.is_odd {
            return queue.run_columns(&mut columns);
        }
        let cut = columns
            .in_parts(&[7, COUNT - 7], |parts| parts.into_iter().for_each(|mut part| queue.run_columns(&mut part)));
        assert_eq!(cut, Some(()));
    }

    /// Turns what is sealed into what is to be opened.
    fn turn(&mut self) {
        if self.lie.suite.transforms() && !self.lie.in_place {
            core::mem::swap(&mut self.input, &mut self.output);
        }
    }

    fn same_as(&self, other: &Table) -> bool {
        self.input.bytes() == other.input.bytes()
            && self.output.bytes() == other.output.bytes()
            && self.tags == other.tags
            && self.statuses == other.statuses
    }
}

/// Additional data of each operation, and where they lie.
fn own_aads() -> (Vec<u8>, Vec<i32>) {
    let ends = (0..COUNT).scan(2, |at, index| {
        *at += (index % 23) as i32;
        Some(*at)
    });
    let offsets: Vec<i32> = core::iter::once(2).chain(ends).collect();
    ((0..offsets[COUNT]).map(|at| at as u8).collect(), offsets)
}

/// Seals and opens in the device's arenas and by the reference in other memory.
fn agrees(gpu: &Gpu, lie: Lie) {
    let mut own = Table::new(lie, |len| gpu.pinned_arena(len).expect("memory"));
    let mut expected = Table::new(lie, |len| Box::new(vec![0; len]));
    let both = |own: &mut Table, expected: &mut Table, direction| {
        own.run(gpu, direction);
        expected.run(&Reference::new(), direction);
        assert!(own.same_as(expected), "{direction}: {lie:?}");
    };
    both(&mut own, &mut expected, Direction::Encrypt);
    assert!(own.statuses.iter().all(|status| status.is_done() || *status == ColumnStatus::LEFT_OUT), "{lie:?}");
    if !lie.suite.has_direction(Direction::Decrypt) {
        return;
    }
    // One value in the middle of the last share is damaged where it has a tag to tell.
    let damaged = COUNT - 11;
    for table in [&mut own, &mut expected] {
        table.turn();
        match (lie.tag_len(), lie.is_inline) {
            (0, _) => {}
            (_, true) => {
                let start =
                    if lie.is_ragged { table.sealed[damaged] as usize } else { damaged * lie.stride(lie.more()) };
                table.input.bytes_mut()[start + lie.iv_len()] ^= 1;
            }
            (len, false) => table.tags[damaged * len + len - 1] ^= 0x80,
        }
    }
    both(&mut own, &mut expected, Direction::Decrypt);
    let failed = own.statuses.iter().filter(|status| **status == ColumnStatus::AUTH_FAILED).count();
    assert_eq!(failed, usize::from(lie.tag_len() > 0), "{lie:?}");
}

#[test]
fn columns_that_the_device_copies_by_itself_agree_with_the_reference() {
    let Some(gpu) = common::device() else { return };
    for (number, suite) in [
        CBC,
        GCM,
        Suite::Aead(Aead::ChaCha20Poly1305),
        Suite::Stream(StreamCipher::ChaCha20),
        Suite::Digest(Digest::Sha256),
        Suite::Mac(Mac::Hmac(Digest::Sha1)),
    ]
    .into_iter()
    .enumerate()
    {
        for in_place in [false, true] {
            for is_ragged in [false, true] {
                let is_inline =
                    suite.transforms() && (number + usize::from(in_place) + usize::from(is_ragged)) % 2 == 0;
                for is_odd in [false, true] {
                    agrees(gpu, Lie { suite, in_place, is_ragged, is_inline, is_odd });
                }
            }
        }
    }
}

#[test]
fn long_values_become_operations_and_agree_as_well() {
    let Some(gpu) = common::device() else { return };
    let len = 40_000;
    for count in [1usize, 3] {
        let run = |engine: &dyn Engine| {
            let key = engine.prepare(&KeyMaterial::secret(&[5; 16]), CBC).expect("a good key");
            let (input, mut output) = (vec![0x33; count * len], vec![0; count * len]);
            let mut statuses = vec![ColumnStatus::PENDING; count];
            let extents = Extents::Strided { len, stride: len };
            let data = ColumnData::Separate { input: &input, inputs: extents, output: &mut output, outputs: extents };
            let ivs = vec![9; 16 * count];
            let batch = ColumnBatch::new(CBC, Direction::Decrypt, data, &mut statuses);
            let batch = batch.with_key(NAME).with_ivs(IvColumn::Each { bytes: &ivs, len: 16 });
            let mut columns = batch.check().expect("good columns");
            let mut queue = engine.queue(QueueHint::default()).expect("a queue");
            queue.run_columns(&mut columns.attach_keys(PreparedColumn::One(&key)).expect("one key"));
            (output, statuses)
        };
        assert!(run(gpu.as_ref()) == run(&Reference::new()));
    }
}

/// A null with room for megabytes, which may stand in any column, is not sent along.
#[test]
fn a_wide_gap_becomes_operations_and_agrees_as_well() {
    let Some(gpu) = common::device() else { return };
    let offsets: Vec<i64> = (0..=20_000).map(|index| 64 * index + if index > 9 { 3 << 20 } else { 0 }).collect();
    let count = offsets.len() - 1;
    let run = |engine: &dyn Engine| {
        let key = engine.prepare(&KeyMaterial::secret(&[5; 16]), CBC).expect("a good key");
        let mut data = vec![0x33; offsets[count] as usize];
        let mut statuses = vec![ColumnStatus::PENDING; count];
        statuses[9] = ColumnStatus::LEFT_OUT;
        let data_of = ColumnData::InPlace { data: &mut data, extents: Extents::LargeOffsets(&offsets) };
        let batch = ColumnBatch::new(CBC, Direction::Encrypt, data_of, &mut statuses).with_key(NAME);
        let mut columns = batch.with_ivs(IvColumn::Counter(&[0; 16])).check().expect("good columns");
        let mut queue = engine.queue(QueueHint::default()).expect("a queue");
        queue.run_columns(&mut columns.attach_keys(PreparedColumn::One(&key)).expect("one key"));
        (data, statuses)
    };
    assert!(run(gpu.as_ref()) == run(&Reference::new()));
}

/// Kernels that take two messages at a time mix their keys' words: a message that is left out must not bring those of another
/// suite, which lie where the device's keys begin.
#[test]
fn the_neighbours_of_values_that_are_left_out_have_their_own_keys_alone() {
    if common::device().is_none() {
        return;
    }
    // A device of its own, whose first key is known.
    let gpu = Gpu::open(&common::device_name()).expect("it opened before");
    let first = KeyMaterial::secret(&[0xff; 32]);
    let _first = gpu.prepare(&first, Suite::Stream(StreamCipher::ChaCha20)).expect("a good key");
    let run = |engine: &dyn Engine| {
        let materials: Vec<[u8; 16]> = (0..64).map(|byte| [byte; 16]).collect();
        let key = |bytes: &[u8; 16]| engine.prepare(&KeyMaterial::secret(bytes), CBC).expect("a good key");
        let keys: Vec<_> = materials.iter().map(key).collect();
        let mut data = vec![0x33; 64 * keys.len()];
        let mut statuses = vec![ColumnStatus::PENDING; keys.len()];
        statuses.iter_mut().step_by(5).for_each(|status| *status = ColumnStatus::LEFT_OUT);
        let data_of = ColumnData::InPlace { data: &mut data, extents: Extents::Strided { len: 64, stride: 64 } };
        let names = vec![NAME; keys.len()];
        let batch =
            ColumnBatch::new(CBC, Direction::Encrypt, data_of, &mut statuses).with_keys(KeyColumn::Each(&names));
        let mut columns = batch.with_ivs(IvColumn::Counter(&[0; 16])).check().expect("good columns");
        let mut queue = engine.queue(QueueHint::default()).expect("a queue");
        let each: Vec<_> =
            columns.statuses().iter().zip(&keys).map(|(status, key)| status.is_pending().then_some(key)).collect();
        queue.run_columns(&mut columns.attach_keys(PreparedColumn::Each(&each)).expect("a key each"));
        (data, statuses)
    };
    assert!(run(&gpu) == run(&Reference::new()));
}
