//! Public-key operations on their way over the device: in shares, several of which are in flight at a time, as those of the
//! other suites are (`pipeline`).

use std::collections::VecDeque;

use ciphermill_contract::key::SuiteName;
use ciphermill_contract::{CheckedBatch, Direction, Op, OpStatus};
use zeroize::Zeroizing;

use super::around::{Around, Out, Shape, View};
use crate::device::{GROUP, Launch, Stream, Trouble};
use crate::keys::Prepared;
use crate::pack::{self, HEAD_WORDS};
use crate::pipeline::{Pipeline, SLOTS_MAX};

/// Operations of a share at least, where there are as many: fewer leave a multiprocessor idle.
const SHARE_OPS_MIN: usize = GROUP;

/// Operations of a share at most, and bytes of the device's memory that it takes.
const SHARE_OPS_MAX: usize = 1 << 14;
const SHARE_MEMORY_MAX: usize = 128 << 20;

/// How often an operation may go to the device.
pub(super) const ROUNDS_MAX: usize = 64;

/// Nanoseconds of work that are worth a thread.
const THREAD_NS: usize = 250_000;

/// One operation on its way.
struct Work<'k, A: Around> {
    /// Its index in the batch.
    op: usize,
    /// Where the device's half of its key lies, in words, and the host's half.
    key_word: u32,
    key: &'k A::Key,
    kept: A::Kept,
}

/// A share in flight.
struct Flight<'k, A: Around> {
    stream: Box<dyn Stream>,
    works: Vec<Work<'k, A>>,
    places: Places,
}

/// How a share lies in the staging buffer and in the device's memory; in bytes.
struct Places {
    data_at: usize,
    stride: usize,
    /// Bytes of staging.
    len: usize,
    scratch_at: usize,
}

impl Shape {
    fn places(&self, count: usize) -> Places {
        let data_at = (4 * (HEAD_WORDS + count)).next_multiple_of(16);
        let stride = self.input_len.max(self.output_len).next_multiple_of(16);
        let len = data_at + stride * count;
        Places { data_at, stride, len, scratch_at: len.next_multiple_of(256) }
    }

    /// How many of `count` operations go into a share.
    fn share_ops(&self, count: usize) -> usize {
        let each = self.input_len.max(self.output_len) + 4 * self.scratch_words * self.items;
        let fitting = (SHARE_MEMORY_MAX / each.max(1)).clamp(1, SHARE_OPS_MAX);
        count.div_ceil(SLOTS_MAX).next_multiple_of(SHARE_OPS_MIN).min(fitting)
    }

    /// The head of a share, in the order of `kernels/batch.h`. There are no IVs: their place stays zero, and RSA's kernels
    /// count on that (`Prime::still`).
    fn head(&self, places: &Places, count: usize) -> [usize; 16] {
        let mut head = [0; 16];
        head[0] = count;
        head[1] = HEAD_WORDS;
        head[2] = HEAD_WORDS;
        head[4] = places.data_at / 4;
        head[6] = places.stride / 4;
        head[7] = self.input_len;
        head[14] = places.scratch_at / 4;
        head[15] = self.scratch_words;
        head
    }

    fn launch(&self, places: &Places, count: usize) -> Launch {
        let groups = (count * self.items).div_ceil(GROUP);
        let scratch_len = 4 * GROUP * self.scratch_words * groups;
        let len = places.data_at + places.stride * count;
        Launch {
            program: self.program,
            kernel: self.kernel,
            groups,
            input_len: len,
            output: places.data_at..len,
            column_groups: None,
            memory_len: if scratch_len == 0 { len } else { places.scratch_at + scratch_len },
        }
    }
}

/// Does something to every job, on as many threads as it is worth; `each_ns` is what one job takes.
fn spread<T: Send>(jobs: &mut [T], each_ns: usize, work: impl Fn(&mut T) + Sync) {
    let worth = jobs.len() * each_ns / THREAD_NS;
    let threads = if worth < 2 { 1 } else { std::thread::available_parallelism().map_or(1, usize::from).min(worth) };
    if threads == 1 {
        return jobs.iter_mut().for_each(work);
    }
    let each = jobs.len().div_ceil(threads);
    std::thread::scope(|scope| {
        for part in jobs.chunks_mut(each) {
            scope.spawn(|| part.iter_mut().for_each(&work));
        }
    });
}

fn view<'b>(batch: &'b CheckedBatch<'_>, op: &Op) -> View<'b> {
    let arena = batch.arena();
    View {
        direction: batch.direction(),
        input: &arena[op.input.range()],
        aad: &arena[op.aad.span().range()],
        tag: &arena[op.tag_span().range()],
    }
}

/// The pending operations with keys of this engine; the others are settled.
fn works<'k, A: Around>(batch: &mut CheckedBatch<'k>) -> Vec<Work<'k, A>> {
    let (name, keys) = (SuiteName::from(batch.suite()), batch.keys());
    let mut works = Vec::with_capacity(batch.len());
    for index in 0..batch.len() {
        if !batch.ops()[index].status.is_pending() {
            continue;
        }
        let prepared = keys.get(index).copied().flatten().and_then(|key| key.state_for::<Prepared>(name));
        let key = prepared.and_then(|prepared| Some((prepared, prepared.host.as_ref()?.downcast_ref::<A::Key>()?)));
        match key {
            Some((prepared, key)) => {
                works.push(Work { op: index, key_word: prepared.resident.word(), key, kept: A::Kept::default() });
            }
            None => pack::settle(batch, index, OpStatus::EngineFault),
        }
    }
    works
}

/// Runs the pending operations of a batch. All of them are settled on return.
pub(super) fn fly<A: Around>(queue: &mut Pipeline, batch: &mut CheckedBatch<'_>, around: &A) {
    let mut works = works::<A>(batch);
    for _ in 0..ROUNDS_MAX {
        if works.is_empty() {
            return;
        }
        works = round(queue, batch, around, works);
    }
    works.iter().for_each(|work| pack::settle(batch, work.op, OpStatus::EngineFault));
}

/// Sends operations once; gives those that want to go again. On trouble what is left of the round has failed.
fn round<'k, A: Around>(
    queue: &mut Pipeline,
    batch: &mut CheckedBatch<'_>,
    around: &A,
    works: Vec<Work<'k, A>>,
) -> Vec<Work<'k, A>> {
    let share_ops = around.shape().share_ops(works.len());
    let mut flights: VecDeque<Flight<'k, A>> = VecDeque::with_capacity(SLOTS_MAX);
    let (mut waiting, mut again) = (works.into_iter(), Vec::new());
    let mut lost = None;
    loop {
        while lost.is_none() && waiting.len() > 0 && flights.len() < SLOTS_MAX {
            let own: Vec<_> = waiting.by_ref().take(share_ops).collect();
            match set_off(queue, batch, around, own) {
                Ok(flight) => flights.extend(flight),
                Err((trouble, works)) => lost = Some(fail(batch, &works, trouble)),
            }
        }
        let Some(flight) = flights.pop_front() else { break };
        match land(queue, batch, around, flight) {
            Ok(unfinished) => again.extend(unfinished),
            Err((trouble, works)) => lost = Some(fail(batch, &works, trouble)),
        }
    }
    waiting.for_each(|work| pack::settle(batch, work.op, OpStatus::EngineFault));
    if let Some(trouble) = lost {
        queue.give_up(trouble);
        again.drain(..).for_each(|work: Work<'_, A>| pack::settle(batch, work.op, OpStatus::EngineFault));
    }
    again
}

/// A share that did not come back.
fn fail<A: Around>(batch: &mut CheckedBatch<'_>, works: &[Work<'_, A>], trouble: Trouble) -> Trouble {
    works.iter().for_each(|work| pack::settle(batch, work.op, OpStatus::EngineFault));
    trouble
}

type Lost<'k, A> = (Trouble, Vec<Work<'k, A>>);

/// The host's work before, and the launch. Nothing flies when no operation is left.
fn set_off<'k, A: Around>(
    queue: &mut Pipeline,
    batch: &mut CheckedBatch<'_>,
    around: &A,
    works: Vec<Work<'k, A>>,
) -> std::result::Result<Option<Flight<'k, A>>, Lost<'k, A>> {
    let mut stream = match queue.take_stream() {
        Ok(stream) => stream,
        Err(trouble) => return Err((trouble, works)),
    };
    let shape = around.shape();
    let places = shape.places(works.len());
    let packed = match stream.staging(places.len) {
        Ok(staging) => pack_share(batch, around, &places, works, staging),
        Err(trouble) => return Err((trouble, works)),
    };
    let mut sent = Vec::with_capacity(packed.len());
    for (work, outcome) in packed {
        match outcome {
            Ok(()) => sent.push(work),
            Err(status) => pack::settle(batch, work.op, status),
        }
    }
    if sent.is_empty() {
        stream.wipe();
        queue.give_stream(stream);
        return Ok(None);
    }
    match stream.start(&shape.launch(&places, sent.len())) {
        Ok(()) => Ok(Some(Flight { stream, works: sent, places })),
        Err(trouble) => Err((trouble, sent)),
    }
}

/// What `before` says of an operation.
type Outcome = std::result::Result<(), OpStatus>;

/// Packs a share. Operations that ended leave no gap: the others' data move together.
fn pack_share<'k, A: Around>(
    batch: &CheckedBatch<'_>,
    around: &A,
    places: &Places,
    works: Vec<Work<'k, A>>,
    staging: &mut [u8],
) -> Vec<(Work<'k, A>, Outcome)> {
    let shape = around.shape();
    let (head, data) = staging.split_at_mut(places.data_at);
    let mut packed: Vec<(Work<'k, A>, Outcome)> = works.into_iter().map(|work| (work, Ok(()))).collect();
    let mut jobs: Vec<_> = packed.iter_mut().zip(data.chunks_exact_mut(places.stride)).collect();
    spread(&mut jobs, shape.host_ns / 2, |((work, outcome), place)| {
        place.fill(0);
        let op = view(batch, &batch.ops()[work.op]);
        *outcome = around.before(&op, work.key, &mut work.kept, &mut place[..shape.input_len]);
    });
    head.fill(0);
    let mut count = 0;
    for (number, (work, outcome)) in packed.iter().enumerate() {
        if outcome.is_ok() {
            if number != count {
                data.copy_within(number * places.stride..(number + 1) * places.stride, count * places.stride);
            }
            head[4 * (HEAD_WORDS + count)..][..4].copy_from_slice(&work.key_word.to_le_bytes());
            count += 1;
        }
    }
    for (word, place) in shape.head(places, count).into_iter().zip(head.chunks_exact_mut(4)) {
        // Everything that is in it fits the staging buffer, whose length is 32 bits wide.
        place.copy_from_slice(&(word as u32).to_le_bytes());
    }
    packed
}

/// An operation's results, before they go to the arena.
struct Landed {
    status: OpStatus,
    data_len: usize,
    tag_len: usize,
}

/// Waits for a share, does the host's work behind it and settles its operations; gives those that want to go again. The
/// stream is idle again; one that failed is given up.
fn land<'k, A: Around>(
    queue: &mut Pipeline,
    batch: &mut CheckedBatch<'_>,
    around: &A,
    flight: Flight<'k, A>,
) -> std::result::Result<Vec<Work<'k, A>>, Lost<'k, A>> {
    let Flight { mut stream, mut works, places } = flight;
    let staging = match stream.finish() {
        Ok(staging) => staging,
        Err(trouble) => return Err((trouble, works)),
    };
    let room = Room::of(batch, &works);
    let mut results = Zeroizing::new(vec![0u8; room.each() * works.len()]);
    let landed = conclude(batch, around, &places, &room, &mut works, staging, &mut results);
    stream.wipe();
    queue.give_stream(stream);
    let mut again = Vec::new();
    for ((work, landed), result) in works.into_iter().zip(landed).zip(results.chunks_exact(room.each())) {
        match landed.status {
            OpStatus::Pending => again.push(work),
            OpStatus::Done => deliver(batch, work.op, &landed, &room, result),
            status => pack::settle(batch, work.op, status),
        }
    }
    Ok(again)
}

/// Bytes that an operation's results take at most, the same for all operations of a share.
struct Room {
    data: usize,
    tag: usize,
    /// Whether the suite writes tags in this direction.
    writes_tag: bool,
}

impl Room {
    fn of<A: Around>(batch: &CheckedBatch<'_>, works: &[Work<'_, A>]) -> Room {
        let ops = || works.iter().map(|work| &batch.ops()[work.op]);
        let writes_tag = batch.direction() == Direction::Encrypt;
        Room {
            data: ops().map(|op| output_len(batch, op)).max().unwrap_or(0),
            tag: if writes_tag { ops().map(|op| usize::from(op.tag_len)).max().unwrap_or(0) } else { 0 },
            writes_tag,
        }
    }

    /// At least one, so that it can be a step.
    fn each(&self) -> usize {
        (self.data + self.tag).max(1)
    }
}

fn output_len(batch: &CheckedBatch<'_>, op: &Op) -> usize {
    batch.suite().output_len(batch.direction(), op.input.len as usize, op.output_len as usize)
}

/// The host's work behind a share.
fn conclude<A: Around>(
    batch: &CheckedBatch<'_>,
    around: &A,
    places: &Places,
    room: &Room,
    works: &mut [Work<'_, A>],
    staging: &[u8],
    results: &mut [u8],
) -> Vec<Landed> {
    let shape = around.shape();
    let count = works.len();
    let mut landed: Vec<Landed> =
        (0..count).map(|_| Landed { status: OpStatus::EngineFault, data_len: 0, tag_len: 0 }).collect();
    let data = staging[places.data_at..].chunks_exact(places.stride);
    let own = results.chunks_exact_mut(room.each()).zip(landed.iter_mut());
    let mut jobs: Vec<_> = works.iter_mut().zip(data).zip(own).collect();
    spread(&mut jobs, shape.host_ns / 2, |((work, result), (own, landed))| {
        let op = &batch.ops()[work.op];
        let (data, tag) = own.split_at_mut(room.data);
        let tag_room = if room.writes_tag { usize::from(op.tag_len) } else { 0 };
        let (data, tag) = (&mut data[..output_len(batch, op)], &mut tag[..tag_room]);
        let (data_len, tag_len) = (data.len(), batch.suite().default_tag_len().min(tag_room));
        let mut out = Out { data, data_len, tag, tag_len };
        landed.status = around.after(&view(batch, op), work.key, &mut work.kept, &result[..shape.output_len], &mut out);
        landed.data_len = out.data_len.min(out.data.len());
        landed.tag_len = out.tag_len.min(out.tag.len());
    });
    landed
}

/// Copies an operation's results to where they belong, and settles it.
fn deliver(batch: &mut CheckedBatch<'_>, index: usize, landed: &Landed, room: &Room, result: &[u8]) {
    let data_room = output_len(batch, &batch.ops()[index]);
    let (ops, arena, _) = batch.parts();
    let op = &mut ops[index];
    let data = &mut arena[op.output as usize..op.output as usize + data_room];
    let (written, rest) = data.split_at_mut(landed.data_len);
    written.copy_from_slice(&result[..landed.data_len]);
    rest.fill(0);
    if room.writes_tag {
        arena[op.tag as usize..op.tag as usize + landed.tag_len]
            .copy_from_slice(&result[room.data..][..landed.tag_len]);
        op.tag_len = landed.tag_len as u16;
    }
    op.output_len = landed.data_len as u32;
    op.status = OpStatus::Done;
}
