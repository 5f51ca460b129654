//! DES and triple DES in ECB and CBC (FIPS 46-3, NIST SP 800-67, SP 800-38A), bit-sliced: a word holds one bit of as many
//! blocks as it has bits, each block under its own key, so that a step is gates and nothing is looked up.
//!
//! [`isa`] are the instruction sets, [`slices`] transposes blocks, [`rounds`] is the cipher, [`group`] works on many
//! messages side by side. Whatever can go on independently (ECB, and CBC when deciphering) is cut into as many parts as
//! fill the lanes. Where messages are too few, [`few`] takes them in another way. Whatever is secret is only ever worked on
//! by gates and shuffles: running time depends on lengths alone.

#[cfg(target_arch = "x86_64")]
mod few;
mod group;
pub(crate) mod isa;
mod key;
mod rounds;
mod sboxes;
mod slices;
mod tables;
#[cfg(target_arch = "x86_64")]
mod w256;
#[cfg(target_arch = "x86_64")]
mod w512;
mod w64;
mod word;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{BlockCipher, Mode, lists};
use ciphermill_contract::{Capability, Cost, Direction, Directions, PreparedKey, Suite};

use crate::processor::{For, prefetch};
use crate::work::{KeysAhead, Occupancy, Scratch, Taken, Work};
use group::{Memory, group};
use isa::{DesKernel, Isa, des_kernels};
pub(crate) use key::DesKey;
use rounds::PASSES_MAX;

/// Blocks of the longest messages that wait by length for others like them, and of the parts that longer ones are cut
/// into where they can be.
const CLASSES: usize = 16;

/// Longer messages that wait for the end of the run at most.
const LONG_MAX: usize = 16_384;

/// One message for [`triple_cbc_messages`].
#[derive(Clone, Copy)]
pub(crate) struct DesLane<'k> {
    /// The keys of its passes; see [`DesKey`].
    pub(crate) key: &'k [u64; PASSES_MAX],
    /// Its IV.
    pub(crate) iv: [u8; 8],
    /// First byte of the input.
    pub(crate) input: *const u8,
    /// First byte of the output: the same place, or apart.
    pub(crate) output: *mut u8,
    /// Bytes, whole blocks.
    pub(crate) len: usize,
}

/// The networks that were found stay at 24 gates of three inputs a box, on average, or below; with the two-input gates of
/// processors without them, below what Kwan (2000) found, 51 to 56.
const _: () = assert!(mean_is_at_most(&sboxes::TERNARY_GATES, 24) && mean_is_at_most(&sboxes::BINARY_GATES, 51));

const fn mean_is_at_most(gates: &[u32; 8], limit: u32) -> bool {
    let (mut sum, mut at) = (0, 0);
    while at < gates.len() {
        sum += gates[at];
        at += 1;
    }
    sum <= 8 * limit
}

/// What is done to all messages of a run.
#[derive(Clone, Copy)]
struct Job<'a> {
    cbc: bool,
    encrypt: bool,
    /// Passes of the cipher: 1 or 3.
    passes: usize,
    /// Keys to fetch on the way.
    ahead: &'a KeysAhead<'a>,
}

/// A cache line of working memory.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "only its place is used, as a group's memory")] [u8; 64]);

/// What a queue keeps for this family between batches.
#[derive(Default)]
pub(crate) struct DesScratch {
    waiting: Waiting,
    /// A group's memory.
    memory: Vec<Line>,
    /// How the lanes were filled.
    pub(crate) occupancy: Occupancy,
}

/// Messages that wait for their group. None waits between runs.
#[derive(Default)]
struct Waiting {
    /// By length: those of one block first.
    classes: [Vec<DesLane<'static>>; CLASSES],
    /// Longer than the last class.
    long: Vec<DesLane<'static>>,
    /// What is left at the end, the longest first.
    rest: Vec<DesLane<'static>>,
}

pub(crate) fn capabilities(kernel: DesKernel) -> Vec<Capability> {
    let of = |suites, prior| Capability::new(suites, prior).lanes(kernel.lanes() as u16);
    let encrypting = |suites, prior| of(suites, prior).directions(Directions::ENCRYPT);
    let decrypting = |suites, prior| of(suites, prior).directions(Directions::DECRYPT);
    vec![
        encrypting(&lists::DES, Cost::new(2000.0, 3.0, 0.33)).narrow(Cost::new(50.0, 10.0, 1.2), 8),
        decrypting(&lists::DES, Cost::new(1300.0, 3.0, 0.26)).little(Cost::new(95.0, 0.0, 4.3)),
        encrypting(&lists::TRIPLE_DES, Cost::new(4000.0, 3.0, 0.65)).narrow(Cost::new(100.0, 10.0, 2.4), 14),
        decrypting(&lists::TRIPLE_DES, Cost::new(2700.0, 3.0, 0.5)).little(Cost::new(180.0, 0.0, 10.5)),
    ]
}

pub(crate) fn prepare(key: &[u8], suite: Suite) -> Result<PreparedKey, KeyProblem> {
    let key = match suite {
        Suite::Cipher(BlockCipher::Des, _) => DesKey::single(key)?,
        _ => DesKey::triple(key)?,
    };
    Ok(PreparedKey::of_words(suite, key.words))
}

/// Runs a batch.
pub(crate) fn run(kernel: DesKernel, work: &mut Work<'_>, scratch: &mut Scratch) {
    let Suite::Cipher(cipher, mode @ (Mode::Ecb | Mode::Cbc)) = work.suite() else { return };
    let ahead = &work.keys_ahead();
    let job = Job {
        cbc: mode == Mode::Cbc,
        encrypt: work.direction() == Direction::Encrypt,
        passes: if cipher == BlockCipher::Des { 1 } else { PASSES_MAX },
        ahead,
    };
    let mut next = 0;
    while let Some(taken) = work.take_done::<_, false>(&mut next, |keys, index| {
        ahead.reach(index);
        keys.words(index)
    }) {
        let Taken { key, input, output, len, .. } = taken;
        let iv = *taken.iv.first_chunk().unwrap_or(&[0; 8]);
        // SAFETY: the batch's check: each span lies in the arena, outputs are their inputs' places or apart from all else;
        // arena and keys are borrowed until `finish`.
        unsafe { scratch.des.add(kernel, job, &DesLane { key, iv, input, output, len }) };
    }
    // SAFETY: as above.
    unsafe { scratch.des.finish(kernel, job) };
    scratch.des.wipe();
    let occupancy = core::mem::take(&mut scratch.des.occupancy);
    scratch.occupancy.add(occupancy.busy as usize, occupancy.idle as usize);
}

/// Triple DES in CBC over many messages, each under its own key. Whoever is done calls [`DesScratch::wipe`].
///
/// # Safety
/// `len` bytes may be read at each input and written at each output. An output is its input's place, or touches neither
/// input nor output of any message.
pub(crate) unsafe fn triple_cbc_messages(
    kernel: DesKernel,
    direction: Direction,
    lanes: &[DesLane<'_>],
    scratch: &mut DesScratch,
) {
    let ahead = &KeysAhead::none();
    let job = Job { cbc: true, encrypt: direction == Direction::Encrypt, passes: PASSES_MAX, ahead };
    for lane in lanes {
        // SAFETY: the caller's promise; keys are borrowed until `finish`.
        unsafe { scratch.add(kernel, job, lane) };
    }
    // SAFETY: the caller's promise.
    unsafe { scratch.finish(kernel, job) };
}

impl DesScratch {
    /// Has a message wait for others of its length, and runs them when they fill the lanes. Messages whose blocks do not
    /// wait for each other are cut into parts if they are long.
    ///
    /// # Safety
    /// As in [`triple_cbc_messages`], from now until [`DesScratch::finish`], with the same `kernel` and `job`.
    #[inline(always)]
    unsafe fn add(&mut self, kernel: DesKernel, job: Job<'_>, lane: &DesLane<'_>) {
        // SAFETY: `finish` forgets the reference, and is called before the borrow ends.
        let mut part = unsafe { DesLane { key: &*core::ptr::from_ref(lane.key), ..*lane } };
        prefetch_places(&part);
        if part.len <= 8 * CLASSES {
            // SAFETY: the caller's promise.
            unsafe { self.add_short(kernel, job, part) };
            return;
        }
        if job.is_serial() {
            self.waiting.long.push(part);
            if self.waiting.long.len() == LONG_MAX {
                // SAFETY: the caller's promise.
                unsafe { self.finish(kernel, job) };
            }
            return;
        }
        let mut left = part.len;
        while left > 0 {
            part.len = left.min(8 * CLASSES);
            // Once the part is added, it may be gone.
            // SAFETY: the message has this block.
            let last = unsafe { part.input.add(part.len - 8).cast::<[u8; 8]>().read() };
            // SAFETY: the caller's promise.
            unsafe { self.add_short(kernel, job, part) };
            part.iv = last;
            part.input = part.input.wrapping_add(part.len);
            part.output = part.output.wrapping_add(part.len);
            left -= part.len;
        }
    }

    /// Adds a message of at most [`CLASSES`] blocks.
    ///
    /// # Safety
    /// As in [`DesScratch::add`].
    #[inline(always)]
    unsafe fn add_short(&mut self, kernel: DesKernel, job: Job<'_>, lane: DesLane<'static>) {
        let Some(class) = (lane.len / 8).checked_sub(1) else { return };
        let class = &mut self.waiting.classes[class];
        class.push(lane);
        if class.len() == kernel.lanes() {
            // SAFETY: the caller's promise; all are of one length.
            unsafe { side_by_side(kernel, job, class, &mut self.memory, &mut self.occupancy) };
            class.clear();
        }
    }

    /// Runs what is waiting.
    ///
    /// # Safety
    /// As in [`DesScratch::add`].
    unsafe fn finish(&mut self, kernel: DesKernel, job: Job) {
        let Waiting { classes, long, rest } = &mut self.waiting;
        long.sort_unstable_by_key(|lane| core::cmp::Reverse(lane.len));
        rest.append(long);
        for class in classes.iter_mut().rev() {
            rest.append(class);
        }
        if !job.is_serial() {
            // SAFETY: the caller's promise.
            unsafe { cut_to_fill(kernel.lanes(), rest) };
        }
        for lanes in rest.chunks(kernel.lanes()) {
            // SAFETY: the caller's promise; the longest come first, none is empty.
            unsafe { side_by_side(kernel, job, lanes, &mut self.memory, &mut self.occupancy) };
        }
        rest.clear();
    }
}

/// Fetches a short message's places into the cache: operations come in their order in memory, groups go through them in
/// another.
#[inline(always)]
fn prefetch_places(lane: &DesLane<'_>) {
    let last = lane.len.saturating_sub(1);
    prefetch(lane.output, For::Writing);
    prefetch(lane.output.wrapping_add(last), For::Writing);
    if !core::ptr::eq(lane.input, lane.output) {
        prefetch(lane.input, For::Reading);
        prefetch(lane.input.wrapping_add(last), For::Reading);
    }
}

/// Cuts the messages that have more blocks than are needed to fill the lanes with all of them, and orders them by length.
///
/// # Safety
/// As in [`triple_cbc_messages`], for messages whose blocks do not wait for each other.
unsafe fn cut_to_fill(lanes: usize, messages: &mut Vec<DesLane<'static>>) {
    let blocks: usize = messages.iter().map(|lane| lane.len / 8).sum();
    let part_len = 8 * blocks.div_ceil(lanes).max(1);
    if messages.first().is_none_or(|longest| longest.len <= part_len) {
        return;
    }
    for index in 0..messages.len() {
        let whole = messages[index];
        for at in (part_len..whole.len).step_by(part_len) {
            messages.push(DesLane {
                // SAFETY: the message has this block; nothing of it has been written yet.
                iv: unsafe { whole.input.add(at - 8).cast::<[u8; 8]>().read() },
                input: whole.input.wrapping_add(at),
                output: whole.output.wrapping_add(at),
                len: part_len.min(whole.len - at),
                ..whole
            });
        }
        messages[index].len = whole.len.min(part_len);
    }
    messages.sort_unstable_by_key(|lane| core::cmp::Reverse(lane.len));
}

/// Runs messages that fit the lanes in the way that takes the least time.
///
/// # Safety
/// As in [`group::group`].
unsafe fn side_by_side(
    kernel: DesKernel,
    job: Job<'_>,
    lanes: &[DesLane<'_>],
    memory: &mut Vec<Line>,
    occupancy: &mut Occupancy,
) {
    #[cfg(target_arch = "x86_64")]
    if let DesKernel::Vbmi(isa) = kernel {
        if few::is_faster(job, lanes) {
            // SAFETY: the caller's promise; a `Vbmi` exists only where the features were found.
            unsafe { few::few(isa, job, lanes) };
            occupancy.add(lanes.iter().map(|lane| lane.len / 8).sum(), 0);
            return;
        }
        let mut done = 0;
        let few = if job.is_serial() { few::LANES_MAX } else { 0 };
        // SAFETY: the caller's promise.
        unsafe { run_group(kernel, job, lanes, few, memory, occupancy, &mut done) };
        // SAFETY: the caller's promise; the group is through with as many blocks of each message.
        unsafe { few::go_on(isa, job, lanes, done) };
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { run_group(kernel, job, lanes, 0, memory, occupancy, &mut 0) };
}

des_kernels! {
    /// Runs a group.
    ///
    /// # Safety
    /// As in [`group::group`].
    unsafe fn run_group(
        job: Job<'_>,
        lanes: &[DesLane<'_>],
        few: usize,
        memory: &mut Vec<Line>,
        occupancy: &mut Occupancy,
        done: &mut usize,
    ) = run_group_on
}

#[inline(always)]
unsafe fn run_group_on<I: Isa>(
    isa: I,
    job: Job<'_>,
    lanes: &[DesLane<'_>],
    few: usize,
    memory: &mut Vec<Line>,
    occupancy: &mut Occupancy,
    done: &mut usize,
) {
    let lines = size_of::<Memory<I::W>>().div_ceil(size_of::<Line>());
    if memory.len() < lines {
        memory.resize(lines, Line([0; 64]));
    }
    // SAFETY: the caller's promise; lines are initialised, aligned, and as many as the memory needs.
    *done = unsafe { group(isa, job, lanes, few, memory.as_mut_ptr().cast(), occupancy) };
}

impl Job<'_> {
    /// Whether a block waits for the one before it.
    fn is_serial(self) -> bool {
        self.cbc && self.encrypt
    }
}

impl DesScratch {
    /// Wipes what was made of keys and data.
    pub(crate) fn wipe(&mut self) {
        self.memory.fill(Line([0; 64]));
        core::hint::black_box(self.memory.as_mut_ptr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The central workload: lengths of 8 to 80 bytes, rounded up to blocks.
    #[test]
    fn few_lanes_idle_when_many_short_messages_come() {
        let keys: Vec<DesKey> = (0..64u8).map(|n| DesKey::triple(&[n; 24]).expect("24 bytes")).collect();
        let mut state = 1u64;
        let mut arena = vec![[0u8; 80]; 50_000];
        let lanes: Vec<DesLane<'_>> = arena
            .iter_mut()
            .enumerate()
            .map(|(n, place)| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let len = (8 + (state >> 33) as usize % 73).next_multiple_of(8);
                let at = place.as_mut_ptr();
                DesLane { key: &keys[n % 64].words, iv: [n as u8; 8], input: at.cast_const(), output: at, len }
            })
            .collect();
        let blocks: usize = lanes.iter().map(|lane| lane.len / 8).sum();
        for kernel in DesKernel::NAMES.iter().filter_map(|name| DesKernel::detect(name)) {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                let mut scratch = DesScratch::default();
                // SAFETY: each message has a place of 80 bytes of its own, and goes there and back in place.
                unsafe { triple_cbc_messages(kernel, direction, &lanes, &mut scratch) };
                let Occupancy { busy, idle } = scratch.occupancy;
                assert_eq!(busy, blocks as u64, "{}", kernel.name());
                assert!(idle * 50 < busy, "{}: {idle} of {} lane steps idle", kernel.name(), busy + idle);
            }
        }
        assert!(arena.iter().all(|place| place == &[0; 80]), "there and back is where it began");
    }
}
