//! One schedule of faults, and many of them. Tests of other packages run them with engines of their own beside the faulty ones.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use ciphermill::{Costs, Mill, OnFull, RunOptions, SelfTest, Session, SubmitOptions, TrustPolicy};
use ciphermill_contract::{Completed, Cost, Engine, EngineKind, Error, OpStatus};
use ciphermill_fault::{AfterStall, FaultEngine, FaultHandle, Script, Weights};

use crate::reference;
use crate::work::{self, Piece, Random};

/// What faulty engines do in one schedule.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// They run isolated, and may give wrong answers if there is an honest one.
    Isolated { lie: bool },
    /// They may run on the caller's thread, where what is in place can be lost. None lies, since they are witnesses too.
    Anywhere,
}

/// What one schedule is made of.
struct Schedule {
    mill: Mill,
    manner: Manner,
    /// Whether an engine that works is part of the mill all the time.
    has_honest: bool,
    handles: Vec<FaultHandle>,
    random: Random,
}

const NAMES: [&str; 4] = ["fault-a", "fault-b", "fault-c", "fault-d"];

fn faulty(random: &mut Random, name: &'static str, manner: Manner, handles: &mut Vec<FaultHandle>) -> Arc<dyn Engine> {
    let weights = Weights {
        healthy: 6,
        delay: 1,
        stall: 1,
        errors: 1,
        error_at: 1,
        // Without an engine to compare with nobody can tell.
        wrong_bit: if manner == (Manner::Isolated { lie: true }) { 2 } else { 0 },
        unfinished: 1,
        death: 1,
        panic: 1,
        delay_max: Duration::from_micros(300),
    };
    let after = if random.below(2) == 0 { AfterStall::Complete } else { AfterStall::Fail };
    let script = Script::random(random.next(), weights).stall_max(Duration::from_millis(8)).after_stall(after);
    let kinds = [EngineKind::Fault, EngineKind::Gpu, EngineKind::Token, EngineKind::Service, EngineKind::Library];
    let kind = kinds[random.below(if manner == Manner::Anywhere { 5 } else { 4 })];
    let calls = Weights { healthy: 20, delay: 1, stall: 1, errors: 1, panic: 2, ..weights };
    let calls = Weights { error_at: 0, wrong_bit: 0, unfinished: 0, death: 0, ..calls };
    let calls = Script::random(random.next(), calls).stall_max(Duration::from_millis(8)).after_stall(after);
    let engine = FaultEngine::new(name, reference(), script).with_kind(kind).with_call_script(calls);
    let engine = engine.with_prior(Cost::new(0.0, 1.0, 0.01));
    handles.push(engine.handle());
    Arc::new(engine)
}

impl Schedule {
    fn new(seed: u64, joined: &[Arc<dyn Engine>]) -> Schedule {
        let mut random = Random::new(seed);
        let has_honest = random.below(5) != 0;
        let manner = if random.below(3) == 0 { Manner::Anywhere } else { Manner::Isolated { lie: has_honest } };
        let count = 1 + random.below(3);
        let mut handles = Vec::new();
        let mut engines: Vec<_> =
            NAMES[..count].iter().map(|name| faulty(&mut random, name, manner, &mut handles)).collect();
        engines.extend(joined.iter().cloned());
        if has_honest {
            engines.push(reference());
        }
        let mut costs = Costs::new();
        // Handing over costs nothing, so that it is done all the time.
        costs.set_wakeup_ns(0.0);
        let trust = TrustPolicy {
            witness_every: 1,
            witness_ops_max: u32::MAX,
            stall_min: Duration::from_millis(2),
            quarantine_min: Duration::from_micros(100),
            quarantine_max: Duration::from_millis(2),
            ..TrustPolicy::default()
        };
        let self_test = if random.below(8) == 0 { SelfTest::OnFirstUse } else { SelfTest::Never };
        let mill = Mill::builder()
            .engines(engines)
            .costs(costs)
            .trust(trust)
            .legacy(true)
            .self_test(self_test)
            .workers(random.below(3))
            .open()
            .expect("opens");
        Schedule { mill, manner, has_honest, handles, random }
    }

    /// Runs the schedule; returns how many faults there were.
    fn run(mut self) -> u64 {
        let count = 1 + self.random.below(6);
        let mut session = self.mill.session();
        if self.random.below(2) == 0 {
            session = session.in_order();
        }
        let mut submitted = Vec::new();
        for _ in 0..count {
            let piece = Piece::new(&mut self.random, self.mill.keys());
            let pin = (self.random.below(10) == 0).then_some(NAMES[0]);
            match self.random.below(5) {
                0 => self.run_here(&mut session, piece, pin),
                1 => self.run_as_future(piece, pin),
                2 => self.run_with_callback(piece, pin),
                _ => {
                    let options = SubmitOptions { run: options(pin), on_full: OnFull::Wait };
                    match session.submit_with(piece.owned(), &options) {
                        Ok(ticket) => submitted.push((ticket, piece, pin)),
                        Err(refused) => assert!(pin.is_some(), "{}", refused.1),
                    }
                }
            }
            self.change_engines();
        }
        let mut done = Vec::new();
        session.wait_all(&mut done);
        assert_eq!(done.len(), submitted.len(), "every batch comes back once");
        for completed in done {
            let at = submitted.iter().position(|(ticket, ..)| *ticket == completed.ticket);
            let (_, piece, pin) = submitted.swap_remove(at.expect("a ticket that was given, once"));
            self.judge(&piece, pin, completed);
        }
        assert!(session.wait().is_none());
        self.handles.iter().map(FaultHandle::injected).sum()
    }

    fn run_here(&self, session: &mut Session, piece: Piece, pin: Option<&str>) {
        let mut owned = piece.owned();
        let result = session.run_with(owned.as_batch(), &options(pin)).map(|_| ());
        self.judge(&piece, pin, Completed { ticket: ciphermill_contract::Ticket(0), batch: owned, result });
    }

    fn run_as_future(&self, piece: Piece, pin: Option<&str>) {
        let options = SubmitOptions { run: options(pin), on_full: OnFull::Wait };
        match self.mill.submit(piece.owned(), &options) {
            Ok(future) => self.judge(&piece, pin, work::block_on(future)),
            Err(refused) => assert!(pin.is_some(), "{}", refused.1),
        }
    }

    fn run_with_callback(&mut self, piece: Piece, pin: Option<&str>) {
        let options = SubmitOptions { run: options(pin), on_full: OnFull::Wait };
        let (sender, receiver) = sync_channel(2);
        let panics = self.random.below(2) == 0;
        let send = move |completed| {
            sender.send(completed).expect("somebody waits");
            if panics {
                std::panic::resume_unwind(Box::new("a callback by script"));
            }
        };
        match self.mill.submit_with_callback(piece.owned(), &options, send) {
            Ok(()) => self.judge(&piece, pin, receiver.recv().expect("an answer")),
            Err(refused) => assert!(pin.is_some(), "{}", refused.1),
        }
        assert!(receiver.try_recv().is_err(), "one answer only");
    }

    /// Now and then an engine leaves, and another joins.
    fn change_engines(&mut self) {
        match self.random.below(10) {
            0 => drop(self.mill.remove_engine(NAMES[self.random.below(3)])),
            1 => {
                let engine = faulty(&mut self.random, NAMES[3], self.manner, &mut self.handles);
                // There may be one of that name already.
                drop(self.mill.add_engine(engine));
            }
            _ => {}
        }
    }

    fn judge(&self, piece: &Piece, pin: Option<&str>, completed: Completed) {
        let may_fail = !self.has_honest || pin.is_some();
        if let Err(error) = &completed.result {
            let is_clear = matches!(error, Error::EngineFault(_) | Error::Refused(_));
            assert!(may_fail && is_clear, "{error} although an engine could have done it");
        }
        for (index, op) in completed.batch.ops.iter().enumerate() {
            match op.status {
                OpStatus::EngineFault => {
                    let may_be_lost = self.manner == Manner::Anywhere && piece.is_in_place(index);
                    assert!(may_fail || may_be_lost, "operation {index} of {piece:?} was given up");
                    piece.check_given_up(index, &completed.batch);
                }
                // Nobody took the batch: it is as it was.
                OpStatus::Pending => {
                    assert!(may_fail && completed.result.is_err(), "operation {index} of {piece:?} was left out");
                }
                _ => piece.check(index, &completed.batch),
            }
        }
    }
}

fn options(pin: Option<&str>) -> RunOptions<'_> {
    RunOptions { engine: pin, ..RunOptions::default() }
}

/// Runs random schedules with these engines beside the faulty ones: `FAULT_SCHEDULES`, or as many as `usual`. `FAULT_SEED` runs a single
/// one.
pub(crate) fn run_all(usual: u64, joined: &[Arc<dyn Engine>]) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    if let Some(seed) = number("FAULT_SEED") {
        Schedule::new(seed, joined).run();
        return;
    }
    let count = number("FAULT_SCHEDULES").unwrap_or(usual);
    let (next, injected) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= count {
                        return;
                    }
                    let ran = catch_unwind(AssertUnwindSafe(|| Schedule::new(seed, joined).run()));
                    match ran {
                        Ok(faults) => injected.fetch_add(faults, Ordering::Relaxed),
                        Err(panic) => {
                            eprintln!("schedule {seed} failed; FAULT_SEED={seed} runs it alone");
                            next.store(count, Ordering::Relaxed);
                            std::panic::resume_unwind(panic);
                        }
                    };
                }
            });
        }
    });
    let injected = injected.into_inner();
    assert!(injected > count / 2, "{injected} faults in {count} schedules");
}
