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
use ciphermill_contract::{Capability, Cost, Direction, PreparedKey, Suite};

use crate::engine::Prepared;
use crate::work::{Occupancy, Scratch, Work};
use group::{Memory, group};
use isa::{DesKernel, Isa, des_kernels};
pub(crate) use key::DesKey;

/// Operations that are ordered and run together. Many more than there are lanes, so that most groups hold messages of
/// one length and few lanes idle.
const WINDOW_OPS: usize = 16_384;

/// Length classes that are told apart by counting; from the last on, lengths are sorted.
const CLASSES: usize = 128;

/// Blocks that parts of long messages have at most, unless the message is so long that it had more than [`WINDOW_OPS`]
/// parts.
const PART_BLOCKS_MAX: usize = 64;

/// One message for [`cbc_messages`].
#[derive(Clone, Copy)]
pub(crate) struct DesLane<'k> {
    /// Its key.
    pub(crate) key: &'k DesKey,
    /// Its IV.
    pub(crate) iv: [u8; 8],
    /// First byte of the input.
    pub(crate) input: *const u8,
    /// First byte of the output: the same place, or apart.
    pub(crate) output: *mut u8,
    /// Bytes, whole blocks.
    pub(crate) len: usize,
}

/// What is done to all messages of a run.
#[derive(Clone, Copy)]
struct Job {
    cbc: bool,
    encrypt: bool,
    /// Passes of the cipher: 1 or 3.
    passes: usize,
}

/// A cache line of working memory.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u8; 64]);

/// What a queue keeps for this family between batches.
#[derive(Default)]
pub(crate) struct DesScratch {
    /// The window's messages. Emptied before a run ends.
    lanes: Vec<DesLane<'static>>,
    /// Messages that were cut into parts. Emptied before a run ends.
    parts: Vec<DesLane<'static>>,
    /// Their indices, the longest first.
    order: Vec<u32>,
    /// A group's memory.
    memory: Vec<Line>,
    /// How the lanes were filled.
    pub(crate) occupancy: Occupancy,
}

pub(crate) fn capabilities(kernel: DesKernel) -> Vec<Capability> {
    let lanes = kernel.lanes() as u16;
    vec![
        Capability::new(&lists::DES, Cost::new(2000.0, 3.0, 0.3)).lanes(lanes),
        Capability::new(&lists::TRIPLE_DES, Cost::new(4000.0, 3.0, 0.8)).lanes(lanes),
    ]
}

pub(crate) fn prepare(key: &[u8], suite: Suite) -> Result<PreparedKey, KeyProblem> {
    let key = match suite {
        Suite::Cipher(BlockCipher::Des, _) => DesKey::single(key)?,
        _ => DesKey::triple(key)?,
    };
    Ok(Prepared::key(suite, key))
}

/// Runs a batch.
pub(crate) fn run(kernel: DesKernel, work: &mut Work<'_>, scratch: &mut Scratch) {
    let Suite::Cipher(cipher, mode @ (Mode::Ecb | Mode::Cbc)) = work.suite() else { return };
    let job = Job {
        cbc: mode == Mode::Cbc,
        encrypt: work.direction() == Direction::Encrypt,
        passes: if cipher == BlockCipher::Des { 1 } else { rounds::PASSES_MAX },
    };
    let scratch_des = &mut scratch.des;
    let mut lanes = core::mem::take(&mut scratch_des.lanes);
    let mut next = 0;
    loop {
        let start = next;
        lanes.clear();
        while lanes.len() < WINDOW_OPS {
            let Some(item) = work.take::<DesKey>(&mut next) else { break };
            let op = work.op(item.op as usize);
            lanes.push(DesLane {
                // SAFETY: taken with this type. The key outlives the run, and `lanes` is emptied before the run ends.
                key: unsafe { item.key::<DesKey>() },
                iv: *op.iv.first_chunk().unwrap_or(&[0; 8]),
                input: item.input,
                output: item.output,
                len: item.len as usize,
            });
        }
        if lanes.is_empty() {
            break;
        }
        // SAFETY: the batch's check: each span lies in the arena, outputs are their inputs' places or apart from all else.
        unsafe { messages(kernel, job, &lanes, scratch_des) };
        for index in start..next {
            if work.op(index).status.is_pending() {
                work.done(index);
            }
        }
    }
    scratch_des.lanes = lanes;
    scratch_des.wipe();
    let occupancy = core::mem::take(&mut scratch_des.occupancy);
    scratch.occupancy.add(occupancy.busy as usize, occupancy.idle as usize);
}

/// CBC over many messages, each under its own key, single or triple. Whoever is done calls [`DesScratch::wipe`].
///
/// # Safety
/// `len` bytes may be read at each input and written at each output. An output is its input's place, or touches neither
/// input nor output of any message.
pub(crate) unsafe fn cbc_messages(
    kernel: DesKernel,
    direction: Direction,
    lanes: &[DesLane<'_>],
    scratch: &mut DesScratch,
) {
    // A single key stands for three equal ones, so that it may stand among triple keys.
    let passes = lanes.iter().map(|lane| lane.key.passes).max().unwrap_or(1) as usize;
    let job = Job { cbc: true, encrypt: direction == Direction::Encrypt, passes };
    // SAFETY: the caller's promise.
    unsafe { messages(kernel, job, lanes, scratch) };
}

/// Orders messages by length and runs them group by group.
///
/// # Safety
/// As in [`cbc_messages`].
unsafe fn messages(kernel: DesKernel, job: Job, lanes: &[DesLane<'_>], scratch: &mut DesScratch) {
    let DesScratch { parts, order, memory, occupancy, .. } = scratch;
    let part = if job.is_serial() { usize::MAX } else { part_blocks(kernel.lanes(), lanes) };
    let lanes = if lanes.iter().any(|lane| lane.len / 8 > part) {
        // SAFETY: the caller's promise.
        unsafe { cut(job, part, lanes, parts) };
        parts.as_slice()
    } else {
        lanes
    };
    order_by_length(lanes, order);
    for order in order.chunks(kernel.lanes()) {
        // SAFETY: the caller's promise; `order` are indices of messages that are not empty, the longest first.
        unsafe { side_by_side(kernel, job, lanes, order, memory, occupancy) };
    }
    parts.clear();
}

/// Runs messages that fit the lanes in the way that takes the least time.
///
/// # Safety
/// As in [`group::group`].
unsafe fn side_by_side(
    kernel: DesKernel,
    job: Job,
    lanes: &[DesLane<'_>],
    order: &[u32],
    memory: &mut Vec<Line>,
    occupancy: &mut Occupancy,
) {
    #[cfg(target_arch = "x86_64")]
    if let DesKernel::Vbmi(isa) = kernel {
        let blocks: usize = order.iter().map(|index| lanes[*index as usize].len / 8).sum();
        let most = lanes[order[0] as usize].len / 8;
        if few::is_faster(job, order.len(), blocks, most) {
            // SAFETY: the caller's promise; a `Vbmi` exists only where the features were found.
            unsafe { few::few(isa, job, lanes, order) };
            occupancy.add(blocks, 0);
            return;
        }
        let mut done = 0;
        let few = if job.is_serial() { few::LANES_MAX } else { 0 };
        // SAFETY: the caller's promise.
        unsafe { run_group(kernel, job, lanes, order, few, memory, occupancy, &mut done) };
        // SAFETY: the caller's promise; the group is through with as many blocks of each message.
        unsafe { few::go_on(isa, job, lanes, order, done) };
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { run_group(kernel, job, lanes, order, 0, memory, occupancy, &mut 0) };
}

des_kernels! {
    /// Runs a group.
    ///
    /// # Safety
    /// As in [`group::group`].
    unsafe fn run_group(
        job: Job,
        lanes: &[DesLane<'_>],
        order: &[u32],
        few: usize,
        memory: &mut Vec<Line>,
        occupancy: &mut Occupancy,
        done: &mut usize,
    ) = run_group_on
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn run_group_on<I: Isa>(
    isa: I,
    job: Job,
    lanes: &[DesLane<'_>],
    order: &[u32],
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
    *done = unsafe { group(isa, job, lanes, order, few, memory.as_mut_ptr().cast(), occupancy) };
}

/// Blocks of the parts that fill `lanes` lanes with these messages.
fn part_blocks(lanes: usize, messages: &[DesLane<'_>]) -> usize {
    let blocks: usize = messages.iter().map(|lane| lane.len / 8).sum();
    let part = blocks.div_ceil(lanes).clamp(1, PART_BLOCKS_MAX);
    // Lanes take whole rows.
    if part > isa::ROW_MAX { part.next_multiple_of(isa::ROW_MAX) } else { part }
}

/// Cuts messages into parts of `part` blocks that may be worked on in any order: each knows its IV.
///
/// # Safety
/// As in [`cbc_messages`].
unsafe fn cut(job: Job, part: usize, lanes: &[DesLane<'_>], parts: &mut Vec<DesLane<'static>>) {
    parts.clear();
    for lane in lanes {
        let step = 8 * part.max((lane.len / 8).div_ceil(WINDOW_OPS));
        for at in (0..lane.len).step_by(step) {
            let mut iv = lane.iv;
            if job.cbc && at > 0 {
                // SAFETY: the message has this block of ciphertext; nothing has been written yet.
                iv = unsafe { lane.input.add(at - 8).cast::<[u8; 8]>().read() };
            }
            parts.push(DesLane {
                // SAFETY: `parts` are emptied before the keys' borrow ends.
                key: unsafe { &*core::ptr::from_ref(lane.key) },
                iv,
                input: lane.input.wrapping_add(at),
                output: lane.output.wrapping_add(at),
                len: step.min(lane.len - at),
            });
        }
    }
}

impl Job {
    /// Whether a block waits for the one before it.
    fn is_serial(self) -> bool {
        self.cbc && self.encrypt
    }
}

/// The indices of messages, the longest first, without those of no blocks.
fn order_by_length(lanes: &[DesLane<'_>], order: &mut Vec<u32>) {
    let class = |lane: &DesLane<'_>| CLASSES - 1 - (lane.len / 8).min(CLASSES - 1);
    let mut starts = [0u32; CLASSES];
    for lane in lanes {
        starts[class(lane)] += 1;
    }
    let (longest, empty) = (starts[0] as usize, starts[CLASSES - 1] as usize);
    let mut sum = 0;
    for start in &mut starts {
        sum += core::mem::replace(start, sum);
    }
    order.resize(lanes.len(), 0);
    for (index, lane) in lanes.iter().enumerate() {
        let place = &mut starts[class(lane)];
        // A batch has fewer operations than 2^32.
        order[*place as usize] = index as u32;
        *place += 1;
    }
    order.truncate(lanes.len() - empty);
    order[..longest].sort_unstable_by_key(|index| core::cmp::Reverse(lanes[*index as usize].len));
}

impl DesScratch {
    /// Wipes what was made of keys and data.
    pub(crate) fn wipe(&mut self) {
        self.lanes.clear();
        self.parts.clear();
        self.memory.fill(Line([0; 64]));
        core::hint::black_box(self.memory.as_mut_ptr());
    }
}
