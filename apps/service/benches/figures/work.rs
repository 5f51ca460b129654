//! Operations to be measured, and who runs them: an engine's queue, with keys that were prepared before.

use std::sync::Arc;
use std::time::Instant;

use ciphermill::Mill;
use ciphermill_contract::columns::{ColumnData, Extents, PreparedColumn, TagColumn};
use ciphermill_contract::{
    Batch, ColumnBatch, ColumnStatus, Direction, Engine, EngineQueue, KeyForm, KeyId, KeyMaterial, Op, OpStatus,
    PreparedKey, QueueHint, Span, Suite,
};

/// Operations of one suite, each with a key of its own, in an arena.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) suite: Suite,
    ops: Vec<Op>,
    arena: Vec<u8>,
    pub(crate) keys: Vec<(KeyForm, Vec<u8>)>,
}

impl Work {
    /// `count` operations of `len` bytes, or of what the suite takes.
    pub(crate) fn new(suite: &str, count: usize, len: usize) -> Work {
        let suite: Suite = suite.parse().expect("a suite");
        let mut work = Work { suite, ops: Vec::new(), arena: Vec::new(), keys: Vec::new() };
        let direction = Direction::Encrypt;
        let pair = suite.key_pair().map(|pair| crate::mill().generate_pair(pair).expect("a pair"));
        for index in 0..count {
            let input_len = suite.input_len(direction).round_up(len).min(suite.input_len(direction).max);
            let input = work.place(input_len);
            let mut op = Op::in_place(KeyId { slot: index as u32, generation: 1 }, input);
            op = op.with_iv(&vec![index as u8; suite.default_iv_len()]);
            if !suite.transforms() {
                op = op.with_output(work.place(suite.output_len(direction, input_len, 0)).offset);
            }
            let tag = work.place(suite.default_tag_len());
            op = op.with_tag(tag.offset, tag.len as u16);
            if let (Suite::Agree(_), Some(pair)) = (suite, &pair) {
                work.arena[input.range()].copy_from_slice(&pair.public()[..input_len]);
            }
            work.ops.push(op);
            work.keys.push(match &pair {
                Some(pair) => (KeyForm::Private, pair.private().bytes.to_vec()),
                None => (KeyForm::Secret, (0..suite.default_key_len()).map(|at| (at * 7 + index) as u8).collect()),
            });
        }
        work
    }

    fn place(&mut self, len: usize) -> Span {
        let at = self.arena.len().next_multiple_of(16);
        self.arena.resize(at + len, 0x5a);
        Span::new(at as u32, len as u32)
    }

    pub(crate) fn len(&self) -> usize {
        self.ops.len()
    }

    /// A mill with these keys, and the operations under their names there.
    pub(crate) fn on_mill(&self, mill: &Mill) -> Vec<Op> {
        let keys = self.keys.iter().map(|(form, bytes)| {
            mill.keys().import(KeyMaterial { form: *form, bytes }, ciphermill::KeyPolicy::default()).expect("a key")
        });
        self.ops.iter().zip(keys).map(|(op, key)| Op { key, ..*op }).collect()
    }

    /// Runs operations that are named for `mill` there.
    pub(crate) fn run_on_mill(&mut self, mill: &Mill, ops: &mut [Op]) {
        ops.iter_mut().for_each(|op| op.status = OpStatus::Pending);
        mill.run(Batch::new(self.suite, Direction::Encrypt, ops, &mut self.arena)).expect("runs");
        assert!(ops.iter().all(|op| op.status.is_done()));
    }
}

/// An engine with the keys of some work.
pub(crate) struct Runner {
    queue: Box<dyn EngineQueue>,
    keys: Vec<PreparedKey>,
    work: Work,
}

impl Runner {
    pub(crate) fn new(engine: &Arc<dyn Engine>, work: Work) -> Runner {
        let prepare = |(form, bytes): &(KeyForm, Vec<u8>)| {
            engine.prepare(&KeyMaterial { form: *form, bytes }, work.suite).expect("a key")
        };
        let keys = work.keys.iter().map(prepare).collect();
        Runner { queue: engine.queue(QueueHint::default()).expect("a queue"), keys, work }
    }

    /// The same, whose answers were compared with the reference's, where there is one right answer.
    pub(crate) fn verified(engine: &Arc<dyn Engine>, work: &Work) -> Runner {
        let mut runner = Runner::new(engine, work.clone());
        if !work.suite.is_randomized(Direction::Encrypt) {
            let mut reference = Runner::new(&crate::named("reference"), work.clone());
            runner.run();
            reference.run();
            assert!(runner.work.arena == reference.work.arena, "{}: wrong answers", work.suite);
        }
        Runner::new(engine, work.clone())
    }

    /// Runs the work once.
    pub(crate) fn run(&mut self) {
        let Work { suite, ops, arena, .. } = &mut self.work;
        ops.iter_mut().for_each(|op| op.status = OpStatus::Pending);
        let keys: Vec<Option<&PreparedKey>> = self.keys.iter().map(Some).collect();
        let mut checked = Batch::new(*suite, Direction::Encrypt, ops, arena).check().expect("well formed");
        self.queue.run(&mut checked.attach_keys(&keys).expect("as many keys"));
        assert!(ops.iter().all(|op| op.status.is_done()), "{:?}", ops[0].status);
    }

    /// Nanoseconds of each of `rounds` runs, after some that are not counted.
    pub(crate) fn times(&mut self, rounds: usize) -> Vec<u64> {
        (0..rounds / 10 + 1).for_each(|_| self.run());
        times(rounds, || self.run())
    }
}

/// Values of one length as a column under one key, sealed into another with their tags before them, as tables have them.
pub(crate) struct ColumnWork {
    suite: Suite,
    len: usize,
    key: Vec<u8>,
    clear: Vec<u8>,
    pub(crate) sealed: Vec<u8>,
    statuses: Vec<ColumnStatus>,
}

impl ColumnWork {
    pub(crate) fn new(suite: &str, count: usize, len: usize) -> ColumnWork {
        let suite: Suite = suite.parse().expect("a suite");
        ColumnWork {
            suite,
            len,
            key: (0..suite.default_key_len()).map(|at| at as u8).collect(),
            clear: (0..count * len).map(|at| (at * 7) as u8).collect(),
            sealed: vec![0; count * (len + suite.default_tag_len())],
            statuses: vec![ColumnStatus::PENDING; count],
        }
    }

    pub(crate) fn import(&self, mill: &Mill) -> KeyId {
        mill.keys().import(KeyMaterial::secret(&self.key), ciphermill::KeyPolicy::default()).expect("a key")
    }

    pub(crate) fn prepare(&self, engine: &Arc<dyn Engine>) -> PreparedKey {
        engine.prepare(&KeyMaterial::secret(&self.key), self.suite).expect("a key")
    }

    fn batch(&mut self) -> ColumnBatch<'_> {
        self.statuses.fill(ColumnStatus::PENDING);
        let (len, tag_len) = (self.len, self.suite.default_tag_len());
        let data = ColumnData::Separate {
            input: &self.clear,
            inputs: Extents::Strided { len, stride: len },
            output: &mut self.sealed,
            outputs: Extents::Strided { len: len + tag_len, stride: len + tag_len },
        };
        ColumnBatch::new(self.suite, Direction::Encrypt, data, &mut self.statuses)
            .with_tags(TagColumn::Before { len: tag_len })
    }

    pub(crate) fn run_on_mill(&mut self, mill: &Mill, key: KeyId) {
        mill.run_columns(self.batch().with_key(key)).expect("runs");
        assert!(self.statuses.iter().all(|status| status.is_done()));
    }

    pub(crate) fn run_on(&mut self, queue: &mut dyn EngineQueue, key: &PreparedKey) {
        let batch = self.batch().with_key(KeyId { slot: 0, generation: 1 });
        let mut checked = batch.check().expect("well formed");
        queue.run_columns(&mut checked.attach_keys(PreparedColumn::One(key)).expect("a key"));
        assert!(self.statuses.iter().all(|status| status.is_done()), "{:?}", self.statuses[0]);
    }
}

pub(crate) fn times(rounds: usize, mut run: impl FnMut()) -> Vec<u64> {
    let time = |_| {
        let begun = Instant::now();
        run();
        begun.elapsed().as_nanos() as u64
    };
    (0..rounds).map(time).collect()
}

/// The value below which this share of all lies.
pub(crate) fn quantile(times: &mut [u64], share: f64) -> u64 {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * share) as usize]
}
