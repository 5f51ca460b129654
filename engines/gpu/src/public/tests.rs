//! Operations that the host and a device share, over a device whose kernel is a function here.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ciphermill_contract::suite::{PublicEncryption, RsaSize, SignPadding, Signature};
use ciphermill_contract::{Batch, Direction, KeyId, Op, OpStatus, PreparedKey, Reason, Span, Suite};
use zeroize::Zeroizing;

use super::around::{Around, Out, Shape, View};
use super::flight::fly;
use crate::arena::Arenas;
use crate::device::{Description, Device, DirectCopies, Launch, Link, PinnedMemory, Result, Stream, Trouble, Ways};
use crate::keys::{self, KeyTable};
use crate::pipeline::Pipeline;
use crate::program::Program;

/// What the device makes of a launch's memory.
pub(super) type Kernel = dyn Fn(&Launch, &mut [u8]) -> Result<()> + Send + Sync;

/// A device that runs a function, and keeps what it was asked for.
pub(super) struct Fake {
    description: Description,
    kernel: Arc<Kernel>,
    launches: Arc<Mutex<Vec<Launch>>>,
    links: AtomicUsize,
}

struct FakeLink {
    kernel: Arc<Kernel>,
    launches: Arc<Mutex<Vec<Launch>>>,
}

struct FakeStream {
    kernel: Arc<Kernel>,
    launches: Arc<Mutex<Vec<Launch>>>,
    staging: Vec<u8>,
    outcome: Result<()>,
}

impl Fake {
    pub(super) fn new(kernel: impl Fn(&Launch, &mut [u8]) -> Result<()> + Send + Sync + 'static) -> Arc<Fake> {
        let description = Description { runtime: "none", words: "a device for tests".to_owned() };
        Arc::new(Fake { description, kernel: Arc::new(kernel), launches: Arc::default(), links: AtomicUsize::new(0) })
    }
}

impl Device for Fake {
    fn description(&self) -> &Description {
        &self.description
    }
    fn link(&self) -> Result<Box<dyn Link>> {
        self.links.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(FakeLink { kernel: Arc::clone(&self.kernel), launches: Arc::clone(&self.launches) }))
    }
    fn pinned(&self, len: usize) -> Result<Box<dyn PinnedMemory>> {
        Ok(Box::new(vec![0; len]))
    }
    fn write_keys(&self, _at: usize, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }
    fn wipe_keys(&self, _at: usize, _len: usize) -> Result<()> {
        Ok(())
    }
}

impl Link for FakeLink {
    fn stream(&self) -> Result<Box<dyn Stream>> {
        let (kernel, launches) = (Arc::clone(&self.kernel), Arc::clone(&self.launches));
        Ok(Box::new(FakeStream { kernel, launches, staging: Vec::new(), outcome: Ok(()) }))
    }
    fn time_copies(&self, _ways: Ways, _len: usize, _copies: usize, turns: usize) -> Result<Vec<Duration>> {
        Ok(vec![Duration::from_millis(1); turns])
    }
}

impl Stream for FakeStream {
    fn start_direct(&mut self, _launch: &Launch, _copies: DirectCopies) -> Result<()> {
        unreachable!("data of public-key suites are packed")
    }
    fn start_mapped(&mut self, launch: &Launch) -> Result<()> {
        self.start(launch)
    }
    fn staging(&mut self, len: usize) -> Result<&mut [u8]> {
        self.staging = vec![0xee; len];
        Ok(&mut self.staging)
    }
    fn start(&mut self, launch: &Launch) -> Result<()> {
        self.launches.lock().expect("not poisoned").push(launch.clone());
        let mut memory = self.staging.clone();
        memory.resize(launch.memory_len.max(memory.len()), 0xee);
        self.outcome = (self.kernel)(launch, &mut memory);
        self.staging[launch.output.clone()].copy_from_slice(&memory[launch.output.clone()]);
        Ok(())
    }
    fn finish(&mut self) -> Result<&[u8]> {
        self.outcome?;
        Ok(&self.staging)
    }
    fn wipe(&mut self) {
        self.staging.fill(0);
    }
}

/// A queue on the device.
pub(super) fn queue(device: Arc<Fake>) -> Pipeline {
    let source = device.clone();
    Pipeline::new(device, Arc::new(Arenas::new(move |len| source.pinned(len))))
}

/// The word at an index of a launch's memory.
pub(super) fn word(memory: &[u8], index: usize) -> usize {
    let bytes = memory[4 * index..4 * index + 4].try_into().expect("four bytes");
    u32::from_le_bytes(bytes) as usize
}

/// A suite that lets the device add one to a message's first byte: messages that begin with 0 are refused by the host, those
/// that end with 1 go twice.
struct Toy;

struct ToyKey(u8);

impl Around for Toy {
    type Key = ToyKey;
    type Kept = u8;

    fn shape(&self) -> Shape {
        let kernel = "toy";
        Shape {
            program: Program::Rc4,
            kernel,
            items: 2,
            input_len: 4,
            output_len: 8,
            scratch_words: 3,
            host_ns: 50_000,
        }
    }

    fn before(
        &self,
        op: &View<'_>,
        key: &ToyKey,
        kept: &mut u8,
        place: &mut [u8],
    ) -> std::result::Result<(), OpStatus> {
        assert_eq!(place, [0; 4]);
        if op.input[0] == 0 {
            return Err(OpStatus::Refused(Reason::KeyUnsuitable));
        }
        place[..2].copy_from_slice(&[op.input[0], key.0]);
        *kept += 1;
        Ok(())
    }

    fn after(&self, op: &View<'_>, _key: &ToyKey, kept: &mut u8, result: &[u8], out: &mut Out<'_>) -> OpStatus {
        if op.input.last() == Some(&1) && *kept < 2 {
            return OpStatus::Pending;
        }
        if op.direction == Direction::Encrypt {
            out.tag[..3].copy_from_slice(&[result[0], result[1], *kept]);
        } else {
            out.data[..3].copy_from_slice(&[result[0], result[1], *kept]);
            out.data_len = 3;
        }
        OpStatus::Done
    }
}

/// Adds one to the first byte of every message, after looking at the head.
fn add_one(launch: &Launch, memory: &mut [u8]) -> Result<()> {
    let (count, data_at, stride) = (word(memory, 0), 4 * word(memory, 4), 4 * word(memory, 6));
    assert_eq!((launch.groups, word(memory, 7)), ((2 * count).div_ceil(64), 4));
    let scratch = 4 * word(memory, 14);
    assert_eq!(launch.memory_len - scratch, launch.groups * 64 * 4 * word(memory, 15));
    assert!(scratch >= launch.output.end && launch.output.end == data_at + count * stride);
    memory[scratch..launch.memory_len].fill(0xaa);
    (0..count).for_each(|number| memory[data_at + number * stride] += 1);
    Ok(())
}

const SIGN: Suite =
    Suite::Sign(Signature::Rsa(RsaSize::Rsa1024, SignPadding::Pss, ciphermill_contract::suite::Digest::Sha256));
const OPEN: Suite = Suite::PublicEncrypt(PublicEncryption::RsaPkcs1(RsaSize::Rsa1024));

fn toy_key(device: &Arc<Fake>, suite: Suite, number: u8) -> PreparedKey {
    let table = Arc::new(KeyTable::new(Arc::clone(device) as Arc<dyn Device>));
    let mut resident = table.insert(&[&[number; 64]]).expect("room");
    keys::prepared(suite, resident.remove(0), Some(Box::new(ToyKey(number))))
}

/// Runs messages of 128 bytes that begin and end so, and gives the operations and the arena of 256 bytes each.
fn run(device: &Arc<Fake>, suite: Suite, direction: Direction, messages: &[(u8, u8)]) -> (Vec<Op>, Vec<u8>) {
    run_on(&mut queue(Arc::clone(device)), device, suite, direction, messages)
}

/// The same on a queue of the device's.
fn run_on(
    queue: &mut Pipeline,
    device: &Arc<Fake>,
    suite: Suite,
    direction: Direction,
    messages: &[(u8, u8)],
) -> (Vec<Op>, Vec<u8>) {
    let keys = [toy_key(device, suite, 5), toy_key(device, suite, 6)];
    let own: Vec<_> = (0..messages.len()).map(|index| Some(&keys[index % 2])).collect();
    let mut arena = Zeroizing::new(vec![0x77; 256 * messages.len()]);
    let mut ops = Vec::new();
    for (index, (first, last)) in messages.iter().enumerate() {
        let at = 256 * index;
        (arena[at], arena[at + 127]) = (*first, *last);
        let op = Op::in_place(KeyId { slot: 0, generation: 1 }, Span::new(at as u32, 128));
        ops.push(if suite == SIGN { op.with_output(0).with_tag(at as u32 + 128, 128) } else { op });
    }
    let mut batch = Batch::new(suite, direction, &mut ops, &mut arena).check().expect("a good batch");
    fly(queue, &mut batch.attach_keys(&own).expect("as many keys"), &Toy);
    (ops, arena.to_vec())
}

#[test]
fn results_reach_their_operations() {
    let device = Fake::new(add_one);
    // Some are refused by the host, some go twice; more than a share.
    let message = |index: usize| ((index % 5) as u8, if index.is_multiple_of(7) { 1 } else { 2 });
    let messages: Vec<(u8, u8)> = (0..1000).map(message).collect();
    for (suite, direction) in [(SIGN, Direction::Encrypt), (OPEN, Direction::Decrypt)] {
        let (ops, arena) = run(&device, suite, direction, &messages);
        for (index, (op, (first, last))) in ops.iter().zip(&messages).enumerate() {
            let arena = &arena[256 * index..256 * (index + 1)];
            if *first == 0 {
                assert_eq!((op.status, op.output_len), (OpStatus::Refused(Reason::KeyUnsuitable), 0));
                continue;
            }
            assert_eq!(op.status, OpStatus::Done);
            let expected = [first + 1, 5 + (index % 2) as u8, 3 - last];
            if suite == SIGN {
                assert_eq!((arena[0], arena[127], op.tag_len), (*first, *last, 128));
                assert_eq!(arena[128..], [&expected[..], &[0; 125]].concat());
            } else {
                assert_eq!(op.output_len, 3);
                assert_eq!(arena[..117], [&expected[..], &[0; 114]].concat(), "nothing is left behind the message");
                assert!(arena[128..].iter().all(|byte| *byte == 0x77));
            }
        }
    }
    assert!(device.launches.lock().expect("not poisoned").len() > 8, "several shares, several rounds");
}

#[test]
fn what_never_ends_fails() {
    let device = Fake::new(add_one);
    struct Endless;
    impl Around for Endless {
        type Key = ToyKey;
        type Kept = ();
        fn shape(&self) -> Shape {
            Toy.shape()
        }
        fn before(&self, _: &View<'_>, _: &ToyKey, (): &mut (), _: &mut [u8]) -> std::result::Result<(), OpStatus> {
            Ok(())
        }
        fn after(&self, _: &View<'_>, _: &ToyKey, (): &mut (), _: &[u8], _: &mut Out<'_>) -> OpStatus {
            OpStatus::Pending
        }
    }
    let key = toy_key(&device, OPEN, 1);
    let mut ops = [Op::in_place(KeyId { slot: 0, generation: 1 }, Span::new(0, 128))];
    let mut arena = [0x77; 128];
    let mut queue = queue(Arc::clone(&device));
    let mut batch = Batch::new(OPEN, Direction::Decrypt, &mut ops, &mut arena).check().expect("a good batch");
    fly(&mut queue, &mut batch.attach_keys(&[Some(&key)]).expect("one key"), &Endless);
    assert_eq!((ops[0].status, ops[0].output_len), (OpStatus::EngineFault, 0));
    assert_eq!(device.launches.lock().expect("not poisoned").len(), super::flight::ROUNDS_MAX);
}

#[test]
fn a_failing_device_fails_operations_and_nothing_else() {
    let device = Fake::new(|_, _| Err(Trouble::Call(-5)));
    let (ops, arena) = run(&device, OPEN, Direction::Decrypt, &[(1, 2); 300]);
    assert!(ops.iter().all(|op| op.status == OpStatus::EngineFault && op.output_len == 0));
    for arena in arena.chunks_exact(256) {
        assert!(arena[..117].iter().all(|byte| *byte == 0) && arena[128..].iter().all(|byte| *byte == 0x77));
    }
    // A key of another engine is a fault as well.
    let key = PreparedKey::for_suite(OPEN, 7u32);
    let mut ops = [Op::in_place(KeyId { slot: 0, generation: 1 }, Span::new(0, 128))];
    let mut arena = [0x77; 128];
    let mut queue = queue(Fake::new(add_one));
    let mut batch = Batch::new(OPEN, Direction::Decrypt, &mut ops, &mut arena).check().expect("a good batch");
    fly(&mut queue, &mut batch.attach_keys(&[Some(&key)]).expect("one key"), &Toy);
    assert_eq!(ops[0].status, OpStatus::EngineFault);
}

#[test]
fn the_way_to_a_device_is_opened_anew_after_trouble() {
    let launches = AtomicUsize::new(0);
    // The third launch fails, with others in flight around it.
    let device = Fake::new(move |launch, memory| match launches.fetch_add(1, Ordering::SeqCst) {
        2 => Err(Trouble::Call(-5)),
        _ => add_one(launch, memory),
    });
    let mut queue = queue(Arc::clone(&device));
    let links = || device.links.load(Ordering::SeqCst);
    let mut done = || {
        let (ops, _) = run_on(&mut queue, &device, OPEN, Direction::Decrypt, &[(1, 2); 1000]);
        assert!(ops.iter().all(|op| !op.status.is_pending()));
        ops.iter().filter(|op| op.status.is_done()).count()
    };
    assert!((1..1000).contains(&done()));
    assert_eq!(links(), 1);
    assert_eq!((done(), links()), (1000, 2), "what was left of the way is not used again");
    assert_eq!((done(), links()), (1000, 2));
}
