//! Public keys: a single operation alone, and many tasks that each want one, against the library called directly.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, available_parallelism};
use std::time::Duration;

use ciphermill::{KeyPolicy, Mill, One, OneDone};
use ciphermill_contract::{
    Batch, Direction, Engine, EngineQueue, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, Suite,
};
use ciphermill_tuning::{Effort, pairs, tune, wakeup_ns};
use ciphermill_vectors::job::{Job, key_of, pack};
use ciphermill_vectors::known_answer;

use super::threads::{THREADS, on_threads};
use super::{Figure, Goal, compare, mill_error, opened};
use crate::LabError;
use crate::engines::{open, suite};
use crate::timing::{Budget, Contestant, Samples};
use crate::workload::failed;

/// Single operations that are measured alone, and how many of them make a timing of some milliseconds.
const ALONE: [(&str, Direction, usize); 5] = [
    ("rsa-2048-sign-pkcs1-sha256", Direction::Encrypt, 16),
    ("rsa-2048-sign-pkcs1-sha256", Direction::Decrypt, 256),
    ("ecdsa-p256", Direction::Encrypt, 256),
    ("ed25519", Direction::Encrypt, 256),
    ("x25519", Direction::Encrypt, 128),
];

/// What an operation alone may take through the mill, in times of what the library takes.
const ALONE_MAX: f64 = 1.05;

const SIGNATURE: &str = "rsa-2048-sign-pkcs1-sha256";

/// Tasks, or threads.
const CALLERS: usize = THREADS;

/// Signatures of each in one timing.
const EACH: usize = 8;

/// How much faster tasks that share batches must be than each calling the library, and what is aimed at.
const TASKS_MUST: f64 = 1.9;
const TASKS_AIM: f64 = 3.5;

/// For measuring the costs of both engines that a mill is opened with.
const EFFORT: Effort = Effort { time: Duration::from_millis(400), rounds: 12 };

/// Operations of one suite and direction, as the suite's known answer has them; to be signed are messages that differ.
struct Messages {
    suite: Suite,
    direction: Direction,
    job: Job,
    key: KeyMaterial<'static>,
    /// Bytes of output.
    room: usize,
}

/// What became of an operation: output and tag.
type Answer = (Vec<u8>, Vec<u8>);

impl Messages {
    fn new(name: &str, direction: Direction) -> Result<Messages, LabError> {
        let suite = suite(name);
        let lacking = || LabError::Parameters(format!("there is no known answer to take {suite} {direction} from"));
        let case = known_answer(suite).ok_or_else(lacking)?;
        let key = key_of(case, direction).ok_or_else(lacking)?;
        let (mut job, _) = Job::of(case, direction);
        if direction == Direction::Encrypt {
            job.tag = vec![0; suite.default_tag_len()];
        }
        let room = job.output_room(suite, direction);
        Ok(Messages { suite, direction, job, key, room })
    }

    /// Makes an input that of the operation with this number.
    fn number(&self, n: usize, input: &mut [u8]) {
        if matches!(self.suite, Suite::Sign(_)) && self.direction == Direction::Encrypt {
            input.iter_mut().zip(n.to_le_bytes()).for_each(|(byte, of_number)| *byte ^= of_number);
        }
    }

    /// Whether the answers of two runs must be alike.
    fn is_deterministic(&self) -> bool {
        !self.suite.to_string().starts_with("ecdsa") || self.direction == Direction::Decrypt
    }

    fn wrong(&self, op: usize) -> LabError {
        LabError::WrongResult { engine: "mill".to_owned(), suite: self.suite, direction: self.direction, op }
    }
}

/// One thread's way of calling the library: a queue, and memory for one operation.
struct Call<'b> {
    bare: &'b Bare<'b>,
    queue: Box<dyn EngineQueue>,
    fresh: (Vec<u8>, Op),
    arena: Vec<u8>,
}

/// The library with the key at hand.
struct Bare<'m> {
    messages: &'m Messages,
    engine: Arc<dyn Engine>,
    prepared: PreparedKey,
    failed: AtomicUsize,
}

impl<'m> Bare<'m> {
    fn new(messages: &'m Messages) -> Result<Bare<'m>, LabError> {
        let engine = open("library")?;
        let prepared = engine.prepare(&messages.key, messages.suite);
        let prepared = prepared.map_err(|source| failed(engine.as_ref(), source))?;
        Ok(Bare { messages, engine, prepared, failed: AtomicUsize::new(0) })
    }

    fn begin(&self) -> Result<Call<'_>, LabError> {
        let queue = self.engine.queue(Default::default()).map_err(|source| failed(self.engine.as_ref(), source))?;
        let Messages { suite, direction, job, .. } = self.messages;
        let (arena, ops) = pack(*suite, *direction, std::slice::from_ref(job));
        Ok(Call { bare: self, queue, fresh: (arena.clone(), ops[0]), arena })
    }
}

impl Call<'_> {
    /// Runs the operation with that number.
    fn run(&mut self, n: usize) -> Op {
        let Messages { suite, direction, .. } = *self.bare.messages;
        let mut op = self.fresh.1;
        self.arena.copy_from_slice(&self.fresh.0);
        self.bare.messages.number(n, &mut self.arena[op.input.range()]);
        let keys = [Some(&self.bare.prepared)];
        let ran = Batch::new(suite, direction, std::slice::from_mut(&mut op), &mut self.arena)
            .check()
            .and_then(|mut batch| batch.attach_keys(&keys).map(|mut batch| self.queue.run(&mut batch)));
        let is_done = ran.is_ok() && op.status.is_done();
        self.bare.failed.fetch_add(usize::from(!is_done), Ordering::Relaxed);
        op
    }

    fn answer(&mut self, n: usize) -> Answer {
        let op = self.run(n);
        (
            self.arena[op.output as usize..][..op.output_len as usize].to_vec(),
            self.arena[op.tag_span().range()].to_vec(),
        )
    }
}

/// A mill over lanes and library, by their costs as they were just measured, without threads of its own.
struct Milled<'m> {
    messages: &'m Messages,
    mill: Mill,
    key: KeyId,
    failed: AtomicUsize,
}

impl<'m> Milled<'m> {
    fn new(messages: &'m Messages) -> Result<Milled<'m>, LabError> {
        let engines = [open("lanes")?, open("library")?];
        let mut costs = tune(&pairs(&engines, |suite| suite == messages.suite), EFFORT, |_, _| ()).into_costs();
        costs.set_wakeup_ns(wakeup_ns());
        let mill = opened(Mill::builder().legacy(true).engines(engines).costs(costs).workers(0))?;
        let key = mill.keys().import(messages.key, KeyPolicy::default()).map_err(mill_error)?;
        Ok(Milled { messages, mill, key, failed: AtomicUsize::new(0) })
    }

    fn begin(&self) -> MillCall<'_> {
        let Messages { job, room, .. } = self.messages;
        let mut data = job.input.clone();
        data.resize(data.len().max(*room), 0);
        MillCall { milled: self, data, tag: job.tag.clone() }
    }

    fn count(&self, done: ciphermill_contract::Result<OneDone>) -> OneDone {
        let nothing = OneDone { status: OpStatus::EngineFault, output_len: 0, tag_len: 0 };
        let done = done.unwrap_or(nothing);
        self.failed.fetch_add(usize::from(!done.status.is_done()), Ordering::Relaxed);
        done
    }

    /// Compares answers with the library's, or has the library verify them where no two are alike.
    fn check(&self, bare: &Bare<'_>, mut answers: impl Iterator<Item = (usize, Answer)>) -> Result<(), LabError> {
        let mut call = bare.begin()?;
        if self.messages.is_deterministic() {
            return answers.try_for_each(
                |(n, answer)| {
                    if call.answer(n) == answer { Ok(()) } else { Err(self.messages.wrong(n)) }
                },
            );
        }
        let back = Messages::new(&self.messages.suite.to_string(), Direction::Decrypt)?;
        answers.try_for_each(|(n, (_, tag))| {
            let mut job = Job { input: self.messages.job.input.clone(), tag, ..back.job.clone() };
            self.messages.number(n, &mut job.input);
            let verifying = Messages { job, ..Messages::new(&back.suite.to_string(), Direction::Decrypt)? };
            let library = Bare::new(&verifying)?;
            let is_valid = library.begin()?.run(0).status.is_done();
            if is_valid { Ok(()) } else { Err(self.messages.wrong(n)) }
        })
    }

    fn none_failed(&self, bare: &Bare<'_>) -> Result<(), LabError> {
        match self.failed.load(Ordering::Relaxed) + bare.failed.load(Ordering::Relaxed) {
            0 => Ok(()),
            failed => Err(LabError::Parameters(format!("{failed} single operations failed"))),
        }
    }

    /// How full shared batches were, in words.
    fn sharing(&self) -> String {
        let all = self.mill.metrics().shared;
        let Some(shared) = all.iter().find(|shared| shared.direction == self.messages.direction) else {
            return "none shared a batch".to_owned();
        };
        let each = |value: u64, of: u64| value as f64 / of.max(1) as f64;
        format!(
            "{:.1} a batch; {} windows of {:.0} µs, {} of them filled",
            each(shared.operations, shared.batches),
            shared.windows,
            each(shared.window_ns, shared.windows) / 1000.0,
            shared.filled,
        )
    }
}

/// One caller's memory for an operation.
struct MillCall<'b> {
    milled: &'b Milled<'b>,
    data: Vec<u8>,
    tag: Vec<u8>,
}

impl MillCall<'_> {
    /// The operation with that number.
    fn one(&mut self, n: usize) -> One<'_> {
        let Messages { job, .. } = self.milled.messages;
        let input = &mut self.data[..job.input.len()];
        input.copy_from_slice(&job.input);
        self.milled.messages.number(n, input);
        self.tag.copy_from_slice(&job.tag);
        let (data, tag) = (&mut self.data, &mut self.tag);
        One { key: self.milled.key, iv: &job.iv, aad: &job.aad, data, input_len: job.input.len(), tag }
    }

    /// Runs it for a thread that blocks.
    fn run(&mut self, n: usize) -> OneDone {
        let milled = self.milled;
        let done = milled.mill.run_one(milled.messages.suite, milled.messages.direction, self.one(n));
        milled.count(done)
    }

    /// Runs it as a task.
    async fn submit(&mut self, n: usize) -> OneDone {
        let milled = self.milled;
        let done = milled.mill.submit_one(milled.messages.suite, milled.messages.direction, self.one(n)).await;
        milled.count(done)
    }

    fn answer(&self, done: OneDone) -> Answer {
        (self.data[..done.output_len].to_vec(), self.tag[..done.tag_len].to_vec())
    }
}

/// Runs something so often, as a contestant.
struct Often<F>(usize, F);

impl<F: FnMut(usize)> Contestant for Often<F> {
    fn reset(&mut self) {}

    fn run(&mut self) {
        (0..self.0).for_each(&mut self.1);
    }
}

/// What a lone public-key operation takes through the mill, against the library called directly.
pub(super) fn alone(budget: Budget) -> Result<Vec<Figure>, LabError> {
    let mut figures = Vec::new();
    for (name, direction, count) in ALONE {
        let messages = Messages::new(name, direction)?;
        let (bare, milled) = (Bare::new(&messages)?, Milled::new(&messages)?);
        let (mut call, mut own) = (bare.begin()?, milled.begin());
        let answer = |n| {
            let done = own.run(n);
            (n, own.answer(done))
        };
        milled.check(&bare, (0..8).map(answer))?;
        let mut direct = Often(count, |n| {
            std::hint::black_box(call.run(n));
        });
        let mut called = Often(count, |n| {
            std::hint::black_box(own.run(n));
        });
        let (bare_ns, mill_ns) = compare(&mut direct, &mut called, budget);
        milled.none_failed(&bare)?;
        let ratio = mill_ns.ratio(&bare_ns);
        let each = |ns: f64| ns / count as f64 / 1000.0;
        figures.push(Figure {
            name: "a public-key operation alone".to_owned(),
            of: format!("{name} {direction}"),
            value: ratio.value,
            unit: "×",
            goal: Goal::AtMost(ALONE_MAX),
            detail: format!(
                "{:.2} µs by the library, {:.2} through the mill",
                each(bare_ns.median_ns()),
                each(mill_ns.median_ns())
            ),
            spread: ratio.spread(),
            interval: Some(ratio.interval),
        });
    }
    Ok(figures)
}

type Task<'t> = Pin<Box<dyn Future<Output = ()> + Send + 't>>;

/// Tasks that are ready.
#[derive(Default)]
struct Ready(Mutex<VecDeque<usize>>);

impl Ready {
    fn lock(&self) -> MutexGuard<'_, VecDeque<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Turn(usize, Arc<Ready>);

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        self.1.lock().push_back(self.0);
    }
}

/// An executor of so many threads, which take tasks in the order in which they were woken.
fn execute<'t>(threads: usize, tasks: impl Iterator<Item = Task<'t>>) {
    let tasks: Vec<Mutex<Option<Task<'t>>>> = tasks.map(|task| Mutex::new(Some(task))).collect();
    let ready = Arc::new(Ready(Mutex::new((0..tasks.len()).collect())));
    let wakers: Vec<Waker> = (0..tasks.len()).map(|own| Waker::from(Arc::new(Turn(own, Arc::clone(&ready))))).collect();
    let left = AtomicUsize::new(tasks.len());
    let work = || {
        while left.load(Ordering::Acquire) != 0 {
            let next = ready.lock().pop_front();
            let Some(next) = next else {
                thread::yield_now();
                continue;
            };
            let mut task = match tasks[next].try_lock() {
                Ok(task) => task,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                // Woken while it is polled elsewhere: its turn comes again.
                Err(TryLockError::WouldBlock) => {
                    ready.lock().push_back(next);
                    continue;
                }
            };
            let Some(own) = task.as_mut() else { continue };
            if let Poll::Ready(()) = own.as_mut().poll(&mut Context::from_waker(&wakers[next])) {
                *task = None;
                left.fetch_sub(1, Ordering::Release);
            }
        }
    };
    thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(work)));
        work();
    });
}

/// Many callers that each want signatures, one after the other, by the library or by a mill.
struct Signing<'m> {
    bare: Bare<'m>,
    milled: Milled<'m>,
    /// What each was given last by the mill.
    kept: Vec<Mutex<Answer>>,
    cores: usize,
}

impl<'m> Signing<'m> {
    fn new(messages: &'m Messages) -> Result<Signing<'m>, LabError> {
        let kept = (0..CALLERS).map(|_| Mutex::default()).collect();
        let cores = available_parallelism().map_or(1, usize::from);
        Ok(Signing { bare: Bare::new(messages)?, milled: Milled::new(messages)?, kept, cores })
    }

    /// The signatures of one caller by the library.
    fn direct(&self, caller: usize) {
        match self.bare.begin() {
            Ok(mut call) => (0..EACH).for_each(|round| {
                std::hint::black_box(call.run(number(caller, round)));
            }),
            Err(_) => drop(self.bare.failed.fetch_add(EACH, Ordering::Relaxed)),
        }
    }

    /// The same by the mill, as a task.
    async fn shared(&self, caller: usize) {
        let mut call = self.milled.begin();
        for round in 0..EACH {
            let done = call.submit(number(caller, round)).await;
            if round == EACH - 1 {
                self.keep(caller, call.answer(done));
            }
        }
    }

    /// The same by a thread that blocks.
    fn blocking(&self, caller: usize) {
        let mut call = self.milled.begin();
        for round in 0..EACH {
            let done = call.run(number(caller, round));
            if round == EACH - 1 {
                self.keep(caller, call.answer(done));
            }
        }
    }

    fn keep(&self, caller: usize, answer: Answer) {
        *self.kept[caller].lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }

    fn tasks<'t>(&self, task: impl Fn(usize) -> Task<'t>) {
        execute(self.cores, (0..CALLERS).map(task));
    }

    /// Times both sides in turns, as tasks of an executor with a thread a core, or as threads.
    fn time(&self, as_tasks: bool, budget: Budget) -> Result<(Samples, Samples), LabError> {
        let mut direct = Often(1, |_| match as_tasks {
            true => self.tasks(|caller| Box::pin(async move { self.direct(caller) })),
            false => on_threads(|caller| self.direct(caller)),
        });
        let mut milled = Often(1, |_| match as_tasks {
            true => self.tasks(|caller| Box::pin(self.shared(caller))),
            false => on_threads(|caller| self.blocking(caller)),
        });
        milled.run();
        self.check()?;
        let times = compare(&mut direct, &mut milled, budget);
        self.check()?;
        Ok(times)
    }

    /// Compares the last answer to each caller with the library's.
    fn check(&self) -> Result<(), LabError> {
        let take = |answer: &Mutex<Answer>| std::mem::take(&mut *answer.lock().unwrap_or_else(PoisonError::into_inner));
        let answers = self.kept.iter().enumerate().map(|(caller, answer)| (number(caller, EACH - 1), take(answer)));
        self.milled.check(&self.bare, answers)?;
        self.milled.none_failed(&self.bare)
    }
}

/// The number of a caller's operation.
fn number(caller: usize, round: usize) -> usize {
    caller + CALLERS * round
}

/// Many tasks that each want a signature, and many threads, against each calling the library on the same cores.
pub(super) fn signatures(budget: Budget) -> Result<Vec<Figure>, LabError> {
    let messages = Messages::new(SIGNATURE, Direction::Encrypt)?;
    let mut figures = Vec::new();
    for (what, as_tasks, goal) in [("tasks", true, Goal::AtLeast(TASKS_MUST)), ("threads", false, Goal::None)] {
        let signing = Signing::new(&messages)?;
        let (bare_ns, mill_ns) = signing.time(as_tasks, budget)?;
        let ratio = bare_ns.ratio(&mill_ns);
        let rate = |times: &Samples| (CALLERS * EACH) as f64 * 1e9 / times.median_ns();
        figures.push(Figure {
            name: format!("{CALLERS} {what} that each want a signature"),
            of: format!("{SIGNATURE}, {} cores", signing.cores),
            value: ratio.value,
            unit: "×",
            goal,
            detail: format!(
                "{:.0} a second by the library, {:.0} by the mill, {} (aim {TASKS_AIM} ×)",
                rate(&bare_ns),
                rate(&mill_ns),
                signing.milled.sharing(),
            ),
            spread: ratio.spread(),
            interval: Some(ratio.interval),
        });
    }
    Ok(figures)
}
