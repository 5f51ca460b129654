//! A queue: batches cut into shares, several of which are in flight at a time, each on a stream of its own: while one is
//! packed, others are copied in, worked on and copied out.

use std::collections::VecDeque;
use std::sync::Arc;

use ciphermill_contract::{CheckedBatch, Completed, EngineQueue, NotSubmitted, OpStatus, OwnedBatch, Ticket};

use crate::capabilities::INPUT_LEN_MAX;
use crate::device::{Device, Result, Stream, Trouble};
use crate::pack::{self, Layout, Piece};
use crate::public;
use crate::select::{Plan, plan};

/// Shares and submitted batches in flight at most.
pub(crate) const SLOTS_MAX: usize = 4;

/// Bytes of staging of a share: enough that a launch is small beside it, and few enough that slots overlap.
const SHARE_LEN_MIN: usize = 1 << 20;
const SHARE_LEN_MAX: usize = 16 << 20;

const _: () = assert!(SHARE_LEN_MAX + INPUT_LEN_MAX < u32::MAX as usize);

/// A queue on a device.
pub(crate) struct Queue {
    device: Arc<dyn Device>,
    idle: Vec<Box<dyn Stream>>,
    submitted: VecDeque<Submitted>,
    next_ticket: u64,
}

/// A share in flight.
struct Flight {
    stream: Box<dyn Stream>,
    /// Its pieces, as a range of the batch's.
    pieces: core::ops::Range<usize>,
    layout: Layout,
}

/// A batch that was handed over.
struct Submitted {
    ticket: Ticket,
    batch: OwnedBatch,
    plan: Plan,
    pieces: Vec<Piece>,
    /// What is in flight; `None` when there was nothing to do or it could not be set off.
    flight: Option<Flight>,
    result: ciphermill_contract::Result<()>,
}

impl Queue {
    pub(crate) fn new(device: Arc<dyn Device>) -> Queue {
        Queue { device, idle: Vec::new(), submitted: VecDeque::new(), next_ticket: 0 }
    }

    /// A stream with nothing under way.
    pub(crate) fn take_stream(&mut self) -> Result<Box<dyn Stream>> {
        match self.idle.pop() {
            Some(stream) => Ok(stream),
            None => self.device.stream(),
        }
    }

    /// Takes a stream back, wiped.
    pub(crate) fn give_stream(&mut self, stream: Box<dyn Stream>) {
        self.idle.push(stream);
    }

    /// Packs a share and sets it off.
    fn set_off(
        &mut self,
        batch: &CheckedBatch<'_>,
        plan: &Plan,
        pieces: &[Piece],
        range: core::ops::Range<usize>,
    ) -> Result<Flight> {
        let own = &pieces[range.clone()];
        let layout = plan.layout(own, batch.suite().needs_key());
        let mut stream = self.take_stream()?;
        pack::pack(batch, plan, own, &layout, stream.staging(layout.len)?);
        stream.start(&plan.launch(&layout, own.len()))?;
        Ok(Flight { stream, pieces: range, layout })
    }

    /// Waits for a share and takes its results. The stream is idle again; one that failed is given up.
    fn land(&mut self, batch: &mut CheckedBatch<'_>, plan: &Plan, pieces: &[Piece], flight: Flight) -> Result<()> {
        let Flight { mut stream, pieces: range, layout } = flight;
        let outcome = stream.finish().map(|staging| pack::unpack(batch, plan, &pieces[range], &layout, staging));
        stream.wipe();
        if outcome.is_ok() {
            self.give_stream(stream);
        }
        outcome
    }

    /// Runs all pieces through the slots. On trouble, what was in flight is waited for, and the pieces from the returned
    /// one on have not been worked on.
    fn fly(&mut self, batch: &mut CheckedBatch<'_>, plan: &Plan, pieces: &[Piece]) -> core::result::Result<(), usize> {
        let bytes: usize = pieces.iter().map(|piece| piece.len as usize).sum();
        let share_len = (bytes / (2 * SLOTS_MAX)).clamp(SHARE_LEN_MIN, SHARE_LEN_MAX);
        let mut flights: VecDeque<Flight> = VecDeque::with_capacity(SLOTS_MAX);
        let (mut next, mut landed) = (0, 0);
        let mut trouble = None;
        while next < pieces.len() || !flights.is_empty() {
            while trouble.is_none() && next < pieces.len() && flights.len() < SLOTS_MAX {
                let end = next + plan.fitting(&pieces[next..], share_len);
                match self.set_off(batch, plan, pieces, next..end) {
                    Ok(flight) => flights.push_back(flight),
                    Err(error) => trouble = Some(error),
                }
                next = end;
            }
            let Some(flight) = flights.pop_front() else { break };
            let end = flight.pieces.end;
            match self.land(batch, plan, pieces, flight) {
                Ok(()) => landed = end,
                Err(error) => {
                    trouble = Some(error);
                    // What is in flight behind it is waited for and forgotten.
                    flights.clear();
                }
            }
        }
        match trouble {
            None => Ok(()),
            Some(trouble) => {
                log(trouble);
                Err(landed)
            }
        }
    }
}

/// What a fault was, for whoever reads logs; the caller sees statuses.
fn log(trouble: Trouble) {
    tracing::error!(?trouble, "gpu: a share of a batch failed");
}

/// Settles what the device has done, and what it has not: the pieces from `landed` on.
fn settle_all(batch: &mut CheckedBatch<'_>, pieces: &[Piece], landed: usize) {
    for piece in &pieces[landed..] {
        let index = piece.op as usize;
        if batch.ops()[index].status != OpStatus::EngineFault {
            pack::settle(batch, index, OpStatus::EngineFault);
        }
    }
    for piece in &pieces[..landed] {
        let index = piece.op as usize;
        if batch.ops()[index].status.is_pending() {
            pack::settle(batch, index, OpStatus::Done);
        }
    }
}

impl EngineQueue for Queue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        if let Some(plan) = plan(batch.suite(), batch.direction()) {
            let pieces = pack::pieces(batch, &plan);
            let landed = match self.fly(batch, &plan, &pieces) {
                Ok(()) => pieces.len(),
                Err(landed) => landed,
            };
            settle_all(batch, &pieces, landed);
        }
        public::run(self, batch);
        // Suites that this engine does not claim end here.
        for index in 0..batch.len() {
            if batch.ops()[index].status.is_pending() {
                pack::settle(batch, index, OpStatus::EngineFault);
            }
        }
    }

    /// Takes batches of suites without keys that fit one share. An owned batch carries the names of its keys only; those
    /// with keys come through [`EngineQueue::run`], which keeps as many shares in flight.
    fn submit(&mut self, mut batch: OwnedBatch) -> core::result::Result<Ticket, Box<NotSubmitted>> {
        let plan = plan(batch.suite, batch.direction).filter(|_| !batch.suite.needs_key());
        let len: usize = batch.ops.iter().map(|op| op.input.len as usize).sum();
        let Some(plan) = plan.filter(|_| len <= SHARE_LEN_MAX) else {
            return Err(Box::new(NotSubmitted { batch, full: false }));
        };
        if self.submitted.len() >= SLOTS_MAX {
            return Err(Box::new(NotSubmitted { batch, full: true }));
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let (mut pieces, mut flight, mut result) = (Vec::new(), None, Ok(()));
        match batch.as_batch().check() {
            Ok(mut checked) => {
                pieces = pack::pieces(&mut checked, &plan);
                if !pieces.is_empty() {
                    match self.set_off(&checked, &plan, &pieces, 0..pieces.len()) {
                        Ok(own) => flight = Some(own),
                        Err(trouble) => {
                            log(trouble);
                            settle_all(&mut checked, &pieces, 0);
                            result = Err(trouble.into());
                        }
                    }
                }
            }
            Err(error) => result = Err(error),
        }
        self.submitted.push_back(Submitted { ticket, batch, plan, pieces, flight, result });
        Ok(ticket)
    }

    fn poll(&mut self, done: &mut Vec<Completed>) -> usize {
        let before = done.len();
        for _ in 0..self.submitted.len() {
            let Some(mut one) = self.submitted.pop_front() else { break };
            if one.flight.as_mut().is_some_and(|flight| !flight.stream.is_done()) {
                self.submitted.push_back(one);
                continue;
            }
            let Submitted { ticket, mut batch, plan, pieces, flight, mut result } = one;
            if let Some(flight) = flight {
                // It passed its check when it was taken, and has not been seen by anybody since.
                match batch.as_batch().check() {
                    Ok(mut checked) => {
                        let outcome = self.land(&mut checked, &plan, &pieces, flight);
                        settle_all(&mut checked, &pieces, if outcome.is_ok() { pieces.len() } else { 0 });
                        result = outcome.map_err(|trouble| {
                            log(trouble);
                            trouble.into()
                        });
                    }
                    Err(error) => result = Err(error),
                }
            }
            done.push(Completed { ticket, batch, result });
        }
        done.len() - before
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ciphermill_contract::suite::{BlockCipher, Digest, Mode};
    use ciphermill_contract::{Batch, Direction, KeyId, KeyMaterial, Op, Span, Suite};

    use super::*;
    use crate::device::{Description, Launch};
    use crate::keys::KeyTable;

    /// What a device does at its n-th launch.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Fails {
        Never,
        /// No stream can be had.
        Stream,
        /// The n-th launch is refused.
        Start(usize),
        /// The n-th launch ends badly.
        Finish(usize),
    }

    /// A device whose kernels do nothing: data come back as they went in.
    struct Idle {
        description: Description,
        fails: Mutex<Fails>,
        counts: Arc<Counts>,
    }

    #[derive(Default)]
    struct Counts {
        starts: AtomicUsize,
        wipes: AtomicUsize,
        /// Streams that are open, and the most that had something under way at a time.
        under_way: AtomicUsize,
        most: AtomicUsize,
        /// Places and lengths of keys that were wiped.
        wiped_keys: Mutex<Vec<(usize, usize)>>,
    }

    struct IdleStream {
        fails: Fails,
        number: usize,
        busy: bool,
        staging: Vec<u8>,
        counts: Arc<Counts>,
    }

    impl Device for Idle {
        fn description(&self) -> &Description {
            &self.description
        }
        fn stream(&self) -> Result<Box<dyn Stream>> {
            let fails = *self.fails.lock().expect("not poisoned");
            if fails == Fails::Stream {
                return Err(Trouble::Call(-1));
            }
            let counts = Arc::clone(&self.counts);
            Ok(Box::new(IdleStream { fails, number: 0, busy: false, staging: Vec::new(), counts }))
        }
        fn write_keys(&self, _at: usize, _bytes: &[u8]) -> Result<()> {
            Ok(())
        }
        fn wipe_keys(&self, at: usize, len: usize) -> Result<()> {
            self.counts.wiped_keys.lock().expect("not poisoned").push((at, len));
            Ok(())
        }
    }

    impl Stream for IdleStream {
        fn staging(&mut self, len: usize) -> Result<&mut [u8]> {
            self.staging.resize(len.max(self.staging.len()), 0);
            Ok(&mut self.staging[..len])
        }
        fn start(&mut self, launch: &Launch) -> Result<()> {
            assert!(!self.busy && launch.output.end <= self.staging.len() && launch.input_len <= self.staging.len());
            assert!(launch.memory_len >= launch.output.end.max(launch.input_len));
            self.number = self.counts.starts.fetch_add(1, Ordering::SeqCst);
            if self.fails == Fails::Start(self.number) {
                return Err(Trouble::Call(-2));
            }
            self.busy = true;
            let now = self.counts.under_way.fetch_add(1, Ordering::SeqCst) + 1;
            self.counts.most.fetch_max(now, Ordering::SeqCst);
            Ok(())
        }
        fn is_done(&mut self) -> bool {
            true
        }
        fn finish(&mut self) -> Result<&[u8]> {
            if std::mem::take(&mut self.busy) {
                self.counts.under_way.fetch_sub(1, Ordering::SeqCst);
            }
            if self.fails == Fails::Finish(self.number) { Err(Trouble::Call(-3)) } else { Ok(&self.staging) }
        }
        fn wipe(&mut self) {
            self.counts.wipes.fetch_add(1, Ordering::SeqCst);
            self.staging.fill(0);
        }
    }

    impl Drop for IdleStream {
        fn drop(&mut self) {
            if self.busy {
                self.counts.under_way.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    fn device(fails: Fails) -> (Arc<Idle>, Queue) {
        let description = Description { runtime: "none", words: "a device for tests".to_owned() };
        let device = Arc::new(Idle { description, fails: Mutex::new(fails), counts: Arc::default() });
        (Arc::clone(&device), Queue::new(device))
    }

    const AES: Suite = Suite::Cipher(BlockCipher::Aes(ciphermill_contract::suite::AesSize::Aes128), Mode::Cbc);

    /// Messages of half a megabyte: more shares than slots.
    const COUNT: usize = 14;
    const LEN: usize = 512 << 10;

    fn run(device: &Arc<Idle>, queue: &mut Queue) -> (Vec<Op>, Vec<u8>) {
        let table = Arc::new(KeyTable::new(Arc::clone(device) as Arc<dyn Device>));
        let key = crate::prepare::prepare_many(&table, &[KeyMaterial::secret(&[7; 16])], AES).pop();
        let key = key.expect("one key, one outcome").expect("a good key");
        let keys = vec![Some(&key); COUNT];
        let name = KeyId { slot: 0, generation: 1 };
        let op = |at: usize| Op::in_place(name, Span::new((at * LEN) as u32, LEN as u32)).with_iv(&[0; 16]);
        let mut ops: Vec<Op> = (0..COUNT).map(op).collect();
        let mut arena = vec![0x5a; COUNT * LEN];
        let mut batch = Batch::new(AES, Direction::Encrypt, &mut ops, &mut arena).check().expect("a good batch");
        queue.run(&mut batch.attach_keys(&keys).expect("as many keys as operations"));
        (ops, arena)
    }

    #[test]
    fn shares_overlap_and_every_operation_ends() {
        let (device, mut queue) = device(Fails::Never);
        let (ops, arena) = run(&device, &mut queue);
        assert!(ops.iter().all(|op| op.status.is_done() && op.output_len as usize == LEN));
        assert!(arena.iter().all(|byte| *byte == 0x5a), "what came back is what went in");
        let counts = &device.counts;
        assert_eq!(counts.most.load(Ordering::SeqCst), SLOTS_MAX);
        assert!(counts.starts.load(Ordering::SeqCst) > SLOTS_MAX);
        assert_eq!(counts.wipes.load(Ordering::SeqCst), counts.starts.load(Ordering::SeqCst), "each share is wiped");
        assert_eq!(counts.wiped_keys.lock().expect("not poisoned").len(), 1, "the key was wiped when it was dropped");
    }

    #[test]
    fn a_failing_device_fails_operations_and_nothing_else() {
        for fails in [Fails::Stream, Fails::Start(0), Fails::Start(5), Fails::Finish(0), Fails::Finish(3)] {
            let (device, mut queue) = device(fails);
            let (ops, arena) = run(&device, &mut queue);
            let failed = ops.iter().filter(|op| op.status == OpStatus::EngineFault).count();
            let done = ops.iter().filter(|op| op.status.is_done()).count();
            assert_eq!(failed + done, COUNT, "{fails:?}: nothing stays pending");
            assert!(failed > 0, "{fails:?}");
            for (op, output) in ops.iter().zip(arena.chunks(LEN)) {
                let expected = if op.status.is_done() { 0x5a } else { 0 };
                assert!(output.iter().all(|byte| *byte == expected), "{fails:?}: the output of a failed one is zeroed");
            }
            assert_eq!(device.counts.under_way.load(Ordering::SeqCst), 0, "{fails:?}: nothing is left under way");
            // A device that has recovered is used again.
            *device.fails.lock().expect("not poisoned") = Fails::Never;
            queue.idle.clear();
            let (ops, _) = run(&device, &mut queue);
            assert!(ops.iter().all(|op| op.status.is_done()), "{fails:?}: and then it works");
        }
    }

    #[test]
    fn batches_are_taken_up_to_the_slots_and_come_back() {
        let (_device, mut queue) = device(Fails::Never);
        let digests = |suite| OwnedBatch {
            suite,
            direction: Direction::Encrypt,
            ops: vec![Op::in_place(KeyId::NONE, Span::new(0, 8)).with_tag(8, 32)],
            arena: Box::new(vec![1u8; 40]),
        };
        let sha256 = Suite::Digest(Digest::Sha256);
        for number in 0..SLOTS_MAX {
            assert_eq!(queue.submit(digests(sha256)).expect("a free slot"), Ticket(number as u64));
        }
        assert!(queue.submit(digests(sha256)).expect_err("no slot is free").full);
        let mut done = Vec::new();
        assert_eq!(queue.poll(&mut done), SLOTS_MAX);
        assert!(done.iter().all(|one| one.result.is_ok() && one.batch.ops[0].status.is_done()));
        assert_eq!(queue.poll(&mut done), 0);
        // Batches with keys come through `run`.
        let keyed = OwnedBatch { suite: AES, ..digests(sha256) };
        assert!(!queue.submit(keyed).expect_err("not taken").full);
    }

    #[test]
    fn a_batch_that_breaks_the_contract_comes_back_as_it_was() {
        let (_device, mut queue) = device(Fails::Never);
        let batch = OwnedBatch {
            suite: Suite::Digest(Digest::Sha256),
            direction: Direction::Encrypt,
            ops: vec![Op::in_place(KeyId::NONE, Span::new(0, 8)).with_tag(8, 31)],
            arena: Box::new(vec![1u8; 40]),
        };
        queue.submit(batch).expect("taken");
        let mut done = Vec::new();
        assert_eq!(queue.poll(&mut done), 1);
        assert!(matches!(done[0].result, Err(ciphermill_contract::Error::Misuse(_))));
        assert!(done[0].batch.ops[0].status.is_pending());
    }
}
