//! Single operations of many threads that block, against each thread calling the library.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use ciphermill::{KeyPolicy, Mill, One};
use ciphermill_contract::{Batch, Direction, Engine, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, Span, Suite};

use super::{Figure, Goal, compare, mill, mill_error, opened};
use crate::LabError;
use crate::engines::{open, suite};
use crate::timing::{Budget, Contestant};
use crate::workload::failed;

pub(super) const THREADS: usize = 64;

/// Operations of each thread in one timing.
const EACH: usize = 32;

/// Suites and bytes of an operation: one that takes less than a change of threads, and one that takes more.
const CASES: [(&str, usize); 2] = [("3des-cbc", 64), ("3des-cbc", 1024)];

/// Operations of one suite, a key a thread.
struct Messages {
    suite: Suite,
    len: usize,
    keys: Vec<Vec<u8>>,
}

impl Messages {
    fn new(name: &str, len: usize) -> Messages {
        let suite = suite(name);
        let key = |thread: usize| (0..suite.default_key_len()).map(|n| (thread * 31 + n * 7 + 1) as u8).collect();
        Messages { suite, len, keys: (0..THREADS).map(key).collect() }
    }

    fn iv(&self, n: usize) -> Vec<u8> {
        vec![(n as u8).wrapping_mul(29); self.suite.default_iv_len()]
    }
}

/// Runs `work` on [`THREADS`] threads at the same time.
pub(super) fn on_threads(work: impl Fn(usize) + Sync) {
    let work = &work;
    thread::scope(|scope| (0..THREADS).for_each(|thread| drop(scope.spawn(move || work(thread)))));
}

/// Each thread with a queue of its own on the bare library.
struct Bare<'m> {
    messages: &'m Messages,
    engine: std::sync::Arc<dyn Engine>,
    prepared: Vec<PreparedKey>,
    failed: AtomicUsize,
}

impl<'m> Bare<'m> {
    fn new(messages: &'m Messages) -> Result<Bare<'m>, LabError> {
        let engine = open("library")?;
        let prepare = |key: &Vec<u8>| engine.prepare(&KeyMaterial::secret(key), messages.suite);
        let prepared = messages.keys.iter().map(prepare).collect::<Result<_, _>>();
        let prepared = prepared.map_err(|source| failed(engine.as_ref(), source))?;
        Ok(Bare { messages, engine, prepared, failed: AtomicUsize::new(0) })
    }

    /// The operations of one thread; what the last became.
    fn operations(&self, thread: usize, count: usize) -> Vec<u8> {
        let Messages { suite, len, .. } = *self.messages;
        let mut arena = vec![0u8; len];
        let Ok(mut queue) = self.engine.queue(Default::default()) else {
            self.failed.fetch_add(count, Ordering::Relaxed);
            return arena;
        };
        // The engine looks at prepared keys only.
        let name = KeyId { slot: 1, generation: 1 };
        let keys = [self.prepared.get(thread)];
        for n in 0..count {
            arena.fill(0);
            let mut ops = [Op::in_place(name, Span::new(0, len as u32)).with_iv(&self.messages.iv(n))];
            let ran = Batch::new(suite, Direction::Encrypt, &mut ops, &mut arena)
                .check()
                .and_then(|mut batch| batch.attach_keys(&keys).map(|mut batch| queue.run(&mut batch)));
            let is_done = ran.is_ok() && ops[0].status == OpStatus::Done;
            self.failed.fetch_add(usize::from(!is_done), Ordering::Relaxed);
        }
        arena
    }
}

impl Contestant for &Bare<'_> {
    fn reset(&mut self) {}

    fn run(&mut self) {
        on_threads(|thread| drop(std::hint::black_box(self.operations(thread, EACH))));
    }
}

/// Each thread through [`Mill::run_one`].
struct Blocking<'m> {
    messages: &'m Messages,
    mill: Mill,
    keys: Vec<KeyId>,
    failed: AtomicUsize,
}

impl<'m> Blocking<'m> {
    fn new(messages: &'m Messages) -> Result<Blocking<'m>, LabError> {
        let mill = opened(mill()?.workers(0))?;
        let import = |key: &Vec<u8>| mill.keys().import(KeyMaterial::secret(key), KeyPolicy::default());
        let keys = messages.keys.iter().map(import).collect::<Result<_, _>>();
        let keys = keys.map_err(mill_error)?;
        Ok(Blocking { messages, mill, keys, failed: AtomicUsize::new(0) })
    }

    fn operations(&self, thread: usize, count: usize) -> Vec<u8> {
        let Messages { suite, len, .. } = *self.messages;
        let mut data = vec![0u8; len];
        for n in 0..count {
            data.fill(0);
            let iv = self.messages.iv(n);
            let one = One { key: self.keys[thread], iv: &iv, aad: &[], data: &mut data, input_len: len, tag: &mut [] };
            let done = self.mill.run_one(suite, Direction::Encrypt, one);
            let is_done = done.is_ok_and(|done| done.status.is_done());
            self.failed.fetch_add(usize::from(!is_done), Ordering::Relaxed);
        }
        data
    }
}

impl Contestant for &Blocking<'_> {
    fn reset(&mut self) {}

    fn run(&mut self) {
        on_threads(|thread| drop(std::hint::black_box(self.operations(thread, EACH))));
    }
}

/// Many threads that block for one operation at a time, against each calling the library.
pub(super) fn threads(budget: Budget) -> Result<Vec<Figure>, LabError> {
    let mut figures = Vec::new();
    for (name, len) in CASES {
        let messages = Messages::new(name, len);
        let (bare, blocking) = (Bare::new(&messages)?, Blocking::new(&messages)?);
        let (engine, suite, direction) = ("mill".to_owned(), messages.suite, Direction::Encrypt);
        if let Some(op) = (0..THREADS).find(|thread| bare.operations(*thread, 2) != blocking.operations(*thread, 2)) {
            return Err(LabError::WrongResult { engine, suite, direction, op });
        }
        let (bare_ns, shared_ns) = compare(&mut &bare, &mut &blocking, budget);
        let ratio = bare_ns.ratio(&shared_ns);
        let failed = bare.failed.load(Ordering::Relaxed) + blocking.failed.load(Ordering::Relaxed);
        if failed != 0 {
            return Err(LabError::Parameters(format!("{failed} operations of threads failed")));
        }
        let each = |ns: f64| ns / (THREADS * EACH) as f64;
        let (bare_each, shared_each) = (each(bare_ns.median_ns()), each(shared_ns.median_ns()));
        figures.push(Figure {
            name: format!("{THREADS} threads that block"),
            of: format!("{name}, {len} B"),
            value: ratio.value,
            unit: "×",
            goal: Goal::None,
            detail: format!("{bare_each:.0} ns an operation by the library, {shared_each:.0} through the mill"),
            spread: ratio.spread(),
            interval: Some(ratio.interval),
        });
    }
    Ok(figures)
}
