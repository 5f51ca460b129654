//! Single operations: of many tasks at a time, and one alone.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use ciphermill::{Bound, BoundOp, KeyPolicy, Mill, One, RunOptions};
use ciphermill_contract::{Batch, Direction, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, Span, Suite};

use super::{Figure, Goal, compare, mill, mill_error, opened};
use crate::LabError;
use crate::engines::{open, suite};
use crate::timing::{Budget, Contestant, Samples};
use crate::workload::failed;

const TASKS: usize = 64;

/// Operations that each task submits in one timing.
const EACH: usize = 16;

/// Bytes of an operation.
const LEN: usize = 64;

/// Suites, and how much faster tasks that share batches must be than each calling the library.
const SUITES: [(&str, f64); 2] = [("3des-cbc", 5.0), ("aes-128-gcm", 1.5)];

type Task<'t> = Pin<Box<dyn Future<Output = ()> + 't>>;

/// Tasks in turns on one thread, in the order in which they were woken.
fn run_tasks(tasks: &mut [Option<Task<'_>>], wakers: &[Waker], ready: &Mutex<VecDeque<usize>>) {
    let lock = || ready.lock().unwrap_or_else(PoisonError::into_inner);
    lock().extend(0..tasks.len());
    let mut turns = VecDeque::new();
    loop {
        std::mem::swap(&mut turns, &mut *lock());
        if turns.is_empty() {
            return;
        }
        for next in turns.drain(..) {
            let Some(task) = &mut tasks[next] else { continue };
            if task.as_mut().poll(&mut Context::from_waker(&wakers[next])).is_ready() {
                tasks[next] = None;
            }
        }
    }
}

struct Turn(usize, Arc<Mutex<VecDeque<usize>>>);

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.0);
    }
}

/// Single operations of one suite, under its keys in turns.
struct Messages {
    suite: Suite,
    keys: Vec<Vec<u8>>,
}

impl Messages {
    fn new(name: &str, keys: usize) -> Messages {
        let suite = suite(name);
        let key = |key: usize| (0..suite.default_key_len()).map(|n| (key * 31 + n * 7 + 1) as u8).collect();
        Messages { suite, keys: (0..keys).map(key).collect() }
    }

    /// The operation with that number, whose data and tag lie one behind the other in an arena.
    fn op(&self, n: usize) -> Op {
        let iv = self.iv(n);
        // Engines look at prepared keys only, and handles have their own.
        let name = KeyId { slot: 1, generation: 1 };
        let op = Op::in_place(name, Span::new(0, LEN as u32)).with_iv(&iv[..self.suite.default_iv_len()]);
        let tag_len = self.suite.default_tag_len() as u16;
        if tag_len == 0 { op } else { op.with_tag(LEN as u32, tag_len) }
    }

    fn iv(&self, n: usize) -> [u8; 16] {
        [n as u8; 16].map(|byte| byte.wrapping_mul(29))
    }
}

/// Each operation by itself on a bare engine.
struct Bare<'m> {
    messages: &'m Messages,
    queue: Box<dyn ciphermill_contract::EngineQueue>,
    prepared: Vec<PreparedKey>,
    failed: usize,
}

impl<'m> Bare<'m> {
    fn new(messages: &'m Messages, engine: &str) -> Result<Bare<'m>, LabError> {
        let engine = open(engine)?;
        let refused = |source| failed(engine.as_ref(), source);
        let prepare = |key: &Vec<u8>| engine.prepare(&KeyMaterial::secret(key), messages.suite);
        let prepared = messages.keys.iter().map(prepare).collect::<Result<_, _>>().map_err(refused)?;
        let queue = engine.queue(Default::default()).map_err(refused)?;
        Ok(Bare { messages, queue, prepared, failed: 0 })
    }

    fn call(&mut self, n: usize) -> ([u8; LEN], [u8; 16]) {
        let suite = self.messages.suite;
        let mut arena = [0u8; LEN + 16];
        let mut ops = [self.messages.op(n)];
        let keys = [self.prepared.get(n % self.prepared.len())];
        let ran = Batch::new(suite, Direction::Encrypt, &mut ops, &mut arena)
            .check()
            .and_then(|mut batch| batch.attach_keys(&keys).map(|mut batch| self.queue.run(&mut batch)));
        self.failed += usize::from(ran.is_err() || ops[0].status != OpStatus::Done);
        taken_apart(&arena)
    }
}

impl Contestant for Bare<'_> {
    fn reset(&mut self) {}

    fn run(&mut self) {
        for n in 0..TASKS * EACH {
            std::hint::black_box(self.call(n));
        }
    }
}

/// What lies in an arena after an operation.
fn taken_apart(arena: &[u8; LEN + 16]) -> ([u8; LEN], [u8; 16]) {
    let (mut data, mut tag) = ([0; LEN], [0; 16]);
    data.copy_from_slice(&arena[..LEN]);
    tag.copy_from_slice(&arena[LEN..]);
    (data, tag)
}

/// The same operations, each submitted by a task of its own.
struct Shared<'m> {
    messages: &'m Messages,
    mill: Mill,
    keys: Vec<KeyId>,
    wakers: Vec<Waker>,
    ready: Arc<Mutex<VecDeque<usize>>>,
    failed: RefCell<usize>,
    tasks: usize,
}

impl<'m> Shared<'m> {
    fn new(messages: &'m Messages, tasks: usize) -> Result<Shared<'m>, LabError> {
        let mill = opened(mill()?.workers(0))?;
        let import = |key: &Vec<u8>| mill.keys().import(KeyMaterial::secret(key), KeyPolicy::default());
        let keys = messages.keys.iter().map(import).collect::<Result<_, _>>();
        let keys = keys.map_err(mill_error)?;
        let ready = Arc::new(Mutex::new(VecDeque::new()));
        let wakers = (0..tasks).map(|task| Waker::from(Arc::new(Turn(task, Arc::clone(&ready))))).collect();
        Ok(Shared { messages, mill, keys, wakers, ready, failed: RefCell::new(0), tasks })
    }

    fn one<'d>(&self, n: usize, iv: &'d [u8], data: &'d mut [u8], tag: &'d mut [u8]) -> One<'d> {
        One { key: self.keys[n % self.keys.len()], iv, aad: &[], data, input_len: LEN, tag }
    }

    async fn task(&self, first: usize, step: usize, count: usize) {
        let suite = self.messages.suite;
        for n in (0..count).map(|round| first + round * step) {
            let (mut data, mut tag, iv) = ([0u8; LEN], [0u8; 16], self.messages.iv(n));
            let (iv, tag) = (&iv[..suite.default_iv_len()], &mut tag[..suite.default_tag_len()]);
            let done = self.mill.submit_one(suite, Direction::Encrypt, self.one(n, iv, &mut data, tag)).await;
            *self.failed.borrow_mut() += usize::from(!done.is_ok_and(|done| done.status.is_done()));
            std::hint::black_box(&data);
        }
    }

    /// Whether every operation's outcome is the bare engine's.
    fn agrees_with(&self, bare: &mut Bare<'_>) -> Result<(), LabError> {
        let suite = self.messages.suite;
        for n in 0..TASKS {
            let (mut data, mut tag, iv) = ([0u8; LEN], [0u8; 16], self.messages.iv(n));
            let (iv, used) = (&iv[..suite.default_iv_len()], &mut tag[..suite.default_tag_len()]);
            let done = self.mill.run_one(suite, Direction::Encrypt, self.one(n, iv, &mut data, used));
            if !done.is_ok_and(|done| done.status.is_done()) || (data, tag) != bare.call(n) {
                let (engine, direction) = ("mill".to_owned(), Direction::Encrypt);
                return Err(LabError::WrongResult { engine, suite, direction, op: n });
            }
        }
        Ok(())
    }
}

impl Contestant for Shared<'_> {
    fn reset(&mut self) {}

    fn run(&mut self) {
        let this = &*self;
        let step = this.tasks;
        let task = |first| -> Option<Task<'_>> { Some(Box::pin(this.task(first, step, TASKS * EACH / step))) };
        let mut tasks: Vec<_> = (0..this.tasks).map(task).collect();
        run_tasks(&mut tasks, &this.wakers, &this.ready);
    }
}

/// One operation after the other through [`Mill::run_one`].
struct Alone<'s, 'm>(&'s Shared<'m>);

impl Contestant for Alone<'_, '_> {
    fn reset(&mut self) {}

    fn run(&mut self) {
        let suite = self.0.messages.suite;
        for n in 0..TASKS * EACH {
            let (mut data, mut tag, iv) = ([0u8; LEN], [0u8; 16], self.0.messages.iv(n));
            let (iv, tag) = (&iv[..suite.default_iv_len()], &mut tag[..suite.default_tag_len()]);
            let done = self.0.mill.run_one(suite, Direction::Encrypt, self.0.one(n, iv, &mut data, tag));
            *self.0.failed.borrow_mut() += usize::from(!done.is_ok_and(|done| done.status.is_done()));
            std::hint::black_box(&data);
        }
    }
}

/// One operation after the other through a handle, [`Bound::run`] or [`Bound::run_op`].
struct ByHandle<'m> {
    messages: &'m Messages,
    bound: Bound,
    in_arena: bool,
    failed: usize,
}

impl<'m> ByHandle<'m> {
    fn new(shared: &Shared<'m>, in_arena: bool) -> Result<ByHandle<'m>, LabError> {
        let messages = shared.messages;
        let bound = shared.mill.bind(messages.suite, Direction::Encrypt, shared.keys[0]).map_err(mill_error)?;
        Ok(ByHandle { messages, bound, in_arena, failed: 0 })
    }

    fn call(&mut self, n: usize) -> ([u8; LEN], [u8; 16]) {
        if self.in_arena {
            let (mut arena, mut op) = ([0u8; LEN + 16], self.messages.op(n));
            let ran = self.bound.run_op(&mut op, &mut arena);
            self.failed += usize::from(ran.is_err() || op.status != OpStatus::Done);
            return taken_apart(&arena);
        }
        let suite = self.messages.suite;
        let (mut data, mut tag, iv) = ([0u8; LEN], [0u8; 16], self.messages.iv(n));
        let (iv, used) = (&iv[..suite.default_iv_len()], &mut tag[..suite.default_tag_len()]);
        let done = self.bound.run(BoundOp { iv, aad: &[], data: &mut data, input_len: LEN, tag: used });
        self.failed += usize::from(!done.is_ok_and(|done| done.status.is_done()));
        (data, tag)
    }

    fn agrees_with(&mut self, bare: &mut Bare<'_>) -> Result<(), LabError> {
        match (0..TASKS).find(|n| self.call(*n) != bare.call(*n)) {
            None => Ok(()),
            Some(op) => {
                let (engine, suite, direction) = ("mill".to_owned(), self.messages.suite, Direction::Encrypt);
                Err(LabError::WrongResult { engine, suite, direction, op })
            }
        }
    }
}

impl Contestant for ByHandle<'_> {
    fn reset(&mut self) {}

    fn run(&mut self) {
        for n in 0..TASKS * EACH {
            std::hint::black_box(self.call(n));
        }
    }
}

fn none_failed(failed: usize) -> Result<(), LabError> {
    match failed {
        0 => Ok(()),
        failed => Err(LabError::Parameters(format!("{failed} single operations failed"))),
    }
}

/// Many tasks that submit one operation at a time, against each calling the library.
pub(super) fn tasks(budget: Budget) -> Result<Vec<Figure>, LabError> {
    let mut figures = Vec::new();
    for (name, must) in SUITES {
        let messages = Messages::new(name, TASKS);
        let mut bare = Bare::new(&messages, "library")?;
        let mut shared = Shared::new(&messages, TASKS)?;
        shared.agrees_with(&mut bare)?;
        let (bare_ns, shared_ns) = compare(&mut bare, &mut shared, budget);
        let ratio = bare_ns.ratio(&shared_ns);
        none_failed(*shared.failed.borrow() + bare.failed)?;
        let each = |ns: f64| ns / (TASKS * EACH) as f64;
        let (bare_each, shared_each) = (each(bare_ns.median_ns()), each(shared_ns.median_ns()));
        figures.push(Figure {
            name: format!("{TASKS} tasks, one operation at a time"),
            of: format!("{name}, {LEN} B"),
            value: ratio.value,
            unit: "×",
            goal: Goal::AtLeast(must),
            detail: format!(
                "{bare_each:.0} ns an operation by the library, {shared_each:.0} by tasks that share batches"
            ),
            spread: ratio.spread(),
            interval: Some(ratio.interval),
        });
    }
    Ok(figures)
}

/// What a lone operation may take through the mill, in times of the engine's own.
const CALLED_MAX: f64 = 1.1;

/// The same through a handle.
const BOUND_MAX: f64 = 1.2;

/// What a lone operation takes through the mill, against the engine that the mill chooses called directly.
pub(super) fn alone(budget: Budget) -> Result<Vec<Figure>, LabError> {
    let mut figures = Vec::new();
    for (name, _) in SUITES {
        let messages = Messages::new(name, TASKS);
        let mut shared = Shared::new(&messages, 1)?;
        let options = RunOptions::default();
        let explained = shared.mill.explain(messages.suite, Direction::Encrypt, 1, LEN as u64, &options);
        let engine = explained.ok().and_then(|explained| explained.route).map_or("library", |route| route.name);
        let mut bare = Bare::new(&messages, engine)?;
        shared.agrees_with(&mut bare)?;
        let each = |ns: f64| ns / (TASKS * EACH) as f64;
        let mut figure = |what: &str, most: f64, mill_ns: &Samples, bare_ns: &Samples| {
            let ratio = mill_ns.ratio(bare_ns);
            let (mill_each, bare_each) = (each(mill_ns.median_ns()), each(bare_ns.median_ns()));
            figures.push(Figure {
                name: format!("an operation alone, {what}"),
                of: format!("{name}, {LEN} B"),
                value: ratio.value,
                unit: "×",
                goal: Goal::AtMost(most),
                detail: format!("{bare_each:.0} ns by {engine}, {mill_each:.0} through the mill"),
                spread: ratio.spread(),
                interval: Some(ratio.interval),
            });
        };
        let (bare_ns, called_ns) = compare(&mut bare, &mut Alone(&shared), budget);
        figure("called", CALLED_MAX, &called_ns, &bare_ns);
        let (bare_ns, task_ns) = compare(&mut bare, &mut shared, budget);
        figure("as a task", CALLED_MAX, &task_ns, &bare_ns);
        none_failed(*shared.failed.borrow() + bare.failed)?;
        // A handle has one key.
        let messages = Messages::new(name, 1);
        let shared = Shared::new(&messages, 1)?;
        let mut bare = Bare::new(&messages, engine)?;
        for (what, in_arena) in [("bound", false), ("bound, in an arena", true)] {
            let mut by_handle = ByHandle::new(&shared, in_arena)?;
            by_handle.agrees_with(&mut bare)?;
            let (bare_ns, bound_ns) = compare(&mut bare, &mut by_handle, budget);
            figure(what, BOUND_MAX, &bound_ns, &bare_ns);
            none_failed(by_handle.failed + bare.failed)?;
        }
    }
    Ok(figures)
}
