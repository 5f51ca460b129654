//! Queues over a device whose kernel is a function here.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ciphermill_contract::suite::{BlockCipher, Mode};
use ciphermill_contract::{Batch, Direction, KeyId, KeyMaterial, Op, PreparedKey, Span, Suite};

use super::*;
use crate::arena::Hold;
use crate::device::{Description, Launch, PinnedMemory, Ways};
use crate::keys::KeyTable;

/// What a device does at its n-th launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fails {
    #[default]
    Never,
    /// No way to the device can be opened.
    Link,
    /// No pinned memory can be had.
    Pinned,
    /// No stream can be had.
    Stream,
    /// The n-th launch is refused.
    Start(usize),
    /// The n-th launch ends badly.
    Finish(usize),
}

/// A device whose kernels do nothing: data come back as they went in.
pub(crate) struct Idle {
    description: Description,
    pub(crate) state: Arc<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) fails: Mutex<Fails>,
    links: AtomicUsize,
    pub(crate) starts: AtomicUsize,
    /// How many of them worked in the staging buffer, and how many copied from and to an arena.
    pub(crate) mapped: AtomicUsize,
    pub(crate) direct: AtomicUsize,
    wipes: AtomicUsize,
    /// Launches under way, and the most at a time.
    under_way: AtomicUsize,
    most: AtomicUsize,
    /// Places and lengths of keys that were wiped.
    wiped_keys: Mutex<Vec<(usize, usize)>>,
}

struct IdleLink(Arc<State>);

struct IdleStream {
    number: usize,
    busy: bool,
    staging: Vec<u8>,
    holds: Vec<Hold>,
    state: Arc<State>,
}

impl State {
    fn fails(&self) -> Fails {
        *self.fails.lock().expect("not poisoned")
    }
}

impl Device for Idle {
    fn description(&self) -> &Description {
        &self.description
    }
    fn link(&self) -> Result<Box<dyn Link>> {
        self.state.links.fetch_add(1, Ordering::SeqCst);
        if self.state.fails() == Fails::Link {
            Err(Trouble::Call(-4))
        } else {
            Ok(Box::new(IdleLink(self.state.clone())))
        }
    }
    fn pinned(&self, len: usize) -> Result<Box<dyn PinnedMemory>> {
        if self.state.fails() == Fails::Pinned { Err(Trouble::Call(-5)) } else { Ok(Box::new(vec![0; len])) }
    }
    fn write_keys(&self, _at: usize, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }
    fn wipe_keys(&self, at: usize, len: usize) -> Result<()> {
        self.state.wiped_keys.lock().expect("not poisoned").push((at, len));
        Ok(())
    }
}

impl Link for IdleLink {
    fn stream(&self) -> Result<Box<dyn Stream>> {
        if self.0.fails() == Fails::Stream {
            return Err(Trouble::Call(-1));
        }
        let state = Arc::clone(&self.0);
        Ok(Box::new(IdleStream { number: 0, busy: false, staging: Vec::new(), holds: Vec::new(), state }))
    }
    fn time_copies(&self, _ways: Ways, _len: usize, _copies: usize, turns: usize) -> Result<Vec<Duration>> {
        Ok(vec![Duration::from_millis(1); turns])
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
        self.number = self.state.starts.fetch_add(1, Ordering::SeqCst);
        if self.state.fails() == Fails::Start(self.number) {
            return Err(Trouble::Call(-2));
        }
        self.busy = true;
        let now = self.state.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.state.most.fetch_max(now, Ordering::SeqCst);
        Ok(())
    }
    fn start_direct(&mut self, launch: &Launch, copies: DirectCopies) -> Result<()> {
        assert!(copies.checked(launch).is_some(), "all bytes lie where they should");
        self.state.direct.fetch_add(1, Ordering::SeqCst);
        self.holds = copies.holds();
        self.start(launch)
    }
    fn start_mapped(&mut self, launch: &Launch) -> Result<()> {
        assert!(launch.memory_len <= self.staging.len());
        self.state.mapped.fetch_add(1, Ordering::SeqCst);
        self.start(launch)
    }
    fn finish(&mut self) -> Result<&[u8]> {
        if std::mem::take(&mut self.busy) {
            self.state.under_way.fetch_sub(1, Ordering::SeqCst);
        }
        self.holds.clear();
        if self.state.fails() == Fails::Finish(self.number) { Err(Trouble::Call(-3)) } else { Ok(&self.staging) }
    }
    fn wipe(&mut self) {
        self.state.wipes.fetch_add(1, Ordering::SeqCst);
        self.staging.fill(0);
    }
}

impl Drop for IdleStream {
    fn drop(&mut self) {
        if self.busy {
            self.state.under_way.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

pub(crate) fn device(fails: Fails) -> (Arc<Idle>, Pipeline) {
    let description = Description { runtime: "none", words: "a device for tests".to_owned() };
    let state = State { fails: Mutex::new(fails), ..State::default() };
    let device = Arc::new(Idle { description, state: Arc::new(state) });
    let source = device.clone();
    let arenas = Arc::new(Arenas::new(move |len| source.pinned(len)));
    (Arc::clone(&device), Pipeline::new(device, arenas))
}

pub(crate) const AES: Suite = Suite::Cipher(BlockCipher::Aes(ciphermill_contract::suite::AesSize::Aes128), Mode::Cbc);

/// A key for a suite that takes 16 bytes.
pub(crate) fn key_on(device: &Arc<Idle>, suite: Suite) -> PreparedKey {
    let table = Arc::new(KeyTable::new(Arc::clone(device) as Arc<dyn Device>));
    let key = crate::prepare::prepare_many(&table, &[KeyMaterial::secret(&[7; 16])], suite).pop();
    key.expect("one key, one outcome").expect("a good key")
}

/// Messages of half a megabyte: more shares than slots.
const COUNT: usize = 14;
const LEN: usize = 512 << 10;

fn run(device: &Arc<Idle>, queue: &mut Pipeline) -> (Vec<Op>, Vec<u8>) {
    let mut arena = vec![0x5a; COUNT * LEN];
    let ops = run_in(device, queue, &mut arena, AES, LEN);
    (ops, arena)
}

/// Messages of `len` bytes, one behind the other, as many as the arena holds.
fn run_in(device: &Arc<Idle>, queue: &mut Pipeline, arena: &mut [u8], suite: Suite, len: usize) -> Vec<Op> {
    let key = key_on(device, suite);
    let keys = vec![Some(&key); arena.len() / len];
    let name = KeyId { slot: 0, generation: 1 };
    let op = |at: usize| Op::in_place(name, Span::new((at * len) as u32, len as u32)).with_iv(&[0; 16]);
    let mut ops: Vec<Op> = (0..arena.len() / len).map(op).collect();
    let mut batch = Batch::new(suite, Direction::Encrypt, &mut ops, arena).check().expect("a good batch");
    queue.run(&mut batch.attach_keys(&keys).expect("as many keys as operations"));
    ops
}

#[test]
fn shares_overlap_and_every_operation_ends() {
    let (device, mut queue) = device(Fails::Never);
    let (ops, arena) = run(&device, &mut queue);
    assert!(ops.iter().all(|op| op.status.is_done() && op.output_len as usize == LEN));
    assert!(arena.iter().all(|byte| *byte == 0x5a), "what came back is what went in");
    let state = &device.state;
    assert_eq!(state.most.load(Ordering::SeqCst), SLOTS_MAX);
    assert!(state.starts.load(Ordering::SeqCst) > SLOTS_MAX);
    assert_eq!(state.wipes.load(Ordering::SeqCst), state.starts.load(Ordering::SeqCst), "each share is wiped");
    assert_eq!(state.wiped_keys.lock().expect("not poisoned").len(), 1, "the key was wiped when it was dropped");
}

#[test]
fn a_failing_device_fails_operations_and_nothing_else() {
    for fails in [Fails::Link, Fails::Stream, Fails::Start(0), Fails::Start(5), Fails::Finish(0), Fails::Finish(3)] {
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
        assert_eq!(device.state.under_way.load(Ordering::SeqCst), 0, "{fails:?}: nothing is left under way");
        // A device that has recovered is used again.
        *device.state.fails.lock().expect("not poisoned") = Fails::Never;
        let (ops, _) = run(&device, &mut queue);
        assert!(ops.iter().all(|op| op.status.is_done()), "{fails:?}: and then it works");
    }
}

pub(crate) fn count(of: &AtomicUsize) -> usize {
    of.load(Ordering::SeqCst)
}

#[test]
fn small_batches_are_worked_on_where_they_were_packed() {
    for (ops, len, mapped) in [(100, 64, 1), (1, 256, 1), (1, 272, 0), (190, 64, 1), (200, 64, 0)] {
        let (device, mut queue) = device(Fails::Never);
        let done = run_in(&device, &mut queue, &mut vec![0x5a; ops * len], AES, len);
        assert!(done.iter().all(|op| op.status.is_done()));
        assert_eq!(count(&device.state.mapped), mapped, "{ops} messages of {len} bytes");
    }
}

#[test]
fn data_in_the_devices_arenas_are_not_packed() {
    let (device, mut queue) = device(Fails::Never);
    let arenas = Arc::clone(&queue.arenas);
    let mut arena = arenas.take(4 << 20).expect("memory");
    arena.bytes_mut().fill(0x5a);
    let mut direct = |bytes: &mut [u8], len: usize| {
        let before = (count(&device.state.direct), count(&device.state.starts));
        let ops = run_in(&device, &mut queue, bytes, AES, len);
        assert!(ops.iter().all(|op| op.status.is_done()) && bytes.iter().all(|byte| *byte == 0x5a));
        (count(&device.state.direct) - before.0, count(&device.state.starts) - before.1)
    };
    let (shares, starts) = direct(arena.bytes_mut(), 64);
    assert!(shares > 2 && shares == starts, "{shares} of {starts} shares");
    assert_eq!(direct(&mut arena.bytes_mut()[4..][..1 << 16], 64), (1, 1), "a part of it, at a whole word");
    assert_eq!(direct(&mut arena.bytes_mut()[3..][..1 << 16], 64), (0, 1), "within a word");
    assert_eq!(direct(&mut arena.bytes_mut()[..1 << 15], 64), (0, 1), "a few only");
    assert_eq!(direct(&mut vec![0x5a; 1 << 16], 64), (0, 1), "memory of somebody else's");
}

#[test]
fn faults_while_arenas_are_copied_are_faults_of_operations() {
    for fails in [Fails::Start(0), Fails::Start(3), Fails::Finish(0), Fails::Finish(2)] {
        let (device, mut queue) = device(fails);
        let arenas = Arc::clone(&queue.arenas);
        let mut arena = arenas.take(4 << 20).expect("memory");
        arena.bytes_mut().fill(0x5a);
        let ops = run_in(&device, &mut queue, arena.bytes_mut(), AES, 64);
        assert!(ops.iter().any(|op| op.status == OpStatus::EngineFault), "{fails:?}");
        for (op, output) in ops.iter().zip(arena.bytes().chunks(64)) {
            let expected = if op.status.is_done() { 0x5a } else { 0 };
            assert!(output.iter().all(|byte| *byte == expected), "{fails:?}: the output of a failed one is zeroed");
        }
        assert_eq!(count(&device.state.under_way), 0, "{fails:?}: nothing is left under way");
        assert!(arenas.hold(arena.bytes()).is_some());
    }
}

#[test]
fn a_device_is_reached_anew_after_trouble() {
    let (device, mut queue) = device(Fails::Finish(1));
    run(&device, &mut queue);
    assert_eq!(count(&device.state.links), 1);
    run(&device, &mut queue);
    run(&device, &mut queue);
    assert_eq!(count(&device.state.links), 2, "one more after the trouble, and then no more");
}

#[test]
fn arenas_come_back_wiped_and_are_made_when_somebody_may_wait() {
    let (device, mut queue) = device(Fails::Never);
    let arenas = Arc::clone(&queue.arenas);
    assert!(arenas.at_hand(100).is_none(), "too small to be worth it");
    assert!(arenas.at_hand(1 << 20).is_none(), "nothing is at hand yet");
    queue.make_arenas();
    let mut arena = arenas.at_hand((1 << 20) - 5).expect("it was made meanwhile");
    assert_eq!(arena.bytes().len(), (1 << 20) - 5);
    arena.bytes_mut().fill(7);
    let address = arena.bytes().as_ptr().addr();
    drop(arena);
    assert!(arenas.at_hand(1 << 19).is_none(), "one that is much too long is not given away");
    let arena = arenas.at_hand(1 << 20).expect("the same again");
    assert_eq!(arena.bytes().as_ptr().addr(), address);
    assert!(arena.bytes().iter().all(|byte| *byte == 0));
    // A device that has no memory to give fails nobody's batch.
    *device.state.fails.lock().expect("not poisoned") = Fails::Pinned;
    assert!(arenas.take(1 << 22).is_err() && arenas.at_hand(1 << 22).is_none());
    queue.make_arenas();
    let ops = run_in(&device, &mut queue, &mut [0; 64], AES, 64);
    assert!(ops.iter().all(|op| op.status.is_done()));
}

#[test]
fn memory_that_is_held_is_not_given_to_others() {
    let (_device, queue) = device(Fails::Never);
    let arena = queue.arenas.take(1 << 20).expect("memory");
    let (hold, at) = queue.arenas.hold(&arena.bytes()[8..]).expect("it is known");
    assert_eq!(at, 8);
    assert!(hold.address(8, (1 << 20) - 8).is_some() && hold.address(9, (1 << 20) - 8).is_none());
    drop(arena);
    assert!(queue.arenas.at_hand(1 << 20).is_none(), "the device may still write to it");
    drop(hold);
}

/// Nanoseconds that this thread has run: what else the machine does is not counted.
fn thread_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number")
}

/// What one core packs: a figure to look at, not to hold to (`cargo test --release -- --ignored --nocapture packing`).
#[test]
#[ignore = "a measurement"]
fn packing_costs_a_core() {
    use std::io::Write as _;

    const OPS: usize = 1 << 20;
    let (device, mut queue) = device(Fails::Never);
    let plan = plan(AES, Direction::Encrypt).expect("a plan");
    let key = key_on(&device, AES);
    let keys = vec![Some(&key); OPS];
    let name = KeyId { slot: 0, generation: 1 };
    let op = |at: usize| Op::in_place(name, Span::new((at * 64) as u32, 64)).with_iv(&[0; 16]);
    let fresh: Vec<Op> = (0..OPS).map(op).collect();
    let (mut ops, mut arena) = (fresh.clone(), vec![0x5a; OPS * 64]);
    let mut staging = vec![0u8; OPS * 100];
    let mut pieces = Vec::new();
    for turn in 0..4 {
        ops.copy_from_slice(&fresh);
        let mut batch = Batch::new(AES, Direction::Encrypt, &mut ops, &mut arena).check().expect("a good batch");
        let mut batch = batch.attach_keys(&keys).expect("as many keys as operations");
        let mut lines = Vec::new();
        let mut line = |what: &str, begun: u64| {
            lines.push(format!("{what} {:.1}", (thread_ns() - begun) as f64 / OPS as f64));
        };
        let begun = thread_ns();
        pieces = pack::pieces(&mut batch, &plan, pieces);
        line("pieces", begun);
        let begun = thread_ns();
        let layout = plan.layout(&pieces, true, false);
        line("layout", begun);
        let begun = thread_ns();
        pack::pack(&batch, &plan, &pieces, &layout, &mut staging);
        line("pack", begun);
        let begun = thread_ns();
        pack::unpack(&mut batch, &plan, &pieces, &layout, &staging);
        line("unpack", begun);
        let begun = thread_ns();
        settle_all(&mut batch, &pieces, pieces.len());
        line("settle", begun);
        ops.copy_from_slice(&fresh);
        let mut batch = Batch::new(AES, Direction::Encrypt, &mut ops, &mut arena).check().expect("a good batch");
        let begun = thread_ns();
        queue.run(&mut batch.attach_keys(&keys).expect("as many keys as operations"));
        line("all", begun);
        if turn > 0 {
            let _ = writeln!(std::io::stderr(), "ns an operation of 64 bytes: {}", lines.join(", "));
        }
    }
}
