//! DES and triple DES in ECB and CBC (FIPS 46-3, NIST SP 800-67, SP 800-38A), bit-sliced: a word holds one bit of as many
//! blocks as it has bits, each block under its own key, so that a step is gates and nothing is looked up.
//!
//! [`isa`] are the instruction sets, [`slices`] transposes blocks, [`rounds`] is the cipher, [`group`] works on many
//! messages side by side. Whatever is secret is only ever worked on by gates and shuffles: running time depends on lengths
//! alone.

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
    order_by_length(lanes, &mut scratch.order);
    let DesScratch { order, memory, occupancy, .. } = scratch;
    // SAFETY: the caller's promise.
    unsafe { groups(kernel, job, lanes, order, memory, occupancy) };
}

des_kernels! {
    /// Runs messages in groups.
    ///
    /// # Safety
    /// As in [`cbc_messages`].
    unsafe fn groups(
        job: Job,
        lanes: &[DesLane<'_>],
        order: &[u32],
        memory: &mut Vec<Line>,
        occupancy: &mut Occupancy,
    ) = groups_on
}

#[inline(always)]
unsafe fn groups_on<I: Isa>(
    isa: I,
    job: Job,
    lanes: &[DesLane<'_>],
    order: &[u32],
    memory: &mut Vec<Line>,
    occupancy: &mut Occupancy,
) {
    let lines = size_of::<Memory<I::W>>().div_ceil(size_of::<Line>());
    if memory.len() < lines {
        memory.resize(lines, Line([0; 64]));
    }
    for order in order.chunks(I::LANES) {
        // SAFETY: the caller's promise; lines are initialised, aligned, as many as the memory needs.
        let got = unsafe { group(isa, job, lanes, order, memory.as_mut_ptr().cast()) };
        occupancy.add(got.busy as usize, got.idle as usize);
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
        self.memory.fill(Line([0; 64]));
        core::hint::black_box(self.memory.as_mut_ptr());
    }
}
