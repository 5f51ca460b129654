//! Columns as batches of ops: how engines without columns of their own run them, and whatever needs an operation's record.

use core::convert::Infallible;

use zeroize::Zeroizing;

use super::checked::{CheckedColumns, DataBuffers, PreparedColumn, TagBuffer};
use super::form::KeyColumn;
use super::layout::{DataPlace, IvPlace, TagPlace};
use super::status::ColumnStatus;
use crate::batch::CheckedBatch;
use crate::key::{KeyId, PreparedKey};
use crate::limits::IV_LEN_MAX;
use crate::op::{Op, Span};
use crate::status::OpStatus;
use crate::suite::Direction;

/// Stands in for the name of a key that has none here, since it was attached prepared.
const ANY_KEY: KeyId = KeyId { slot: 0, generation: 1 };

/// Some operations of columns as ops, copied into an arena of their own, which is wiped.
#[derive(Clone, Default)]
pub struct ColumnOps<'k> {
    /// The operations.
    pub ops: Vec<Op>,
    /// The index of each among the columns.
    pub indices: Vec<usize>,
    /// What they work on.
    pub arena: Zeroizing<Vec<u8>>,
    /// The key of each; empty where none was attached.
    keys: Vec<Option<&'k PreparedKey>>,
}

/// How much is turned into ops at a time.
#[derive(Clone, Copy, Debug)]
pub struct ChunkLimits {
    /// Operations at most.
    pub ops: usize,
    /// Bytes from which on a chunk ends; one operation may reach past them.
    pub bytes: usize,
}

impl ChunkLimits {
    /// Chunks that stay in the cache with their data.
    pub const CACHED: ChunkLimits = ChunkLimits { ops: 512, bytes: 64 << 10 };
}

impl<'a> CheckedColumns<'a> {
    /// Runs the pending operations as batches of ops, a chunk after the other, by `run`. What becomes of them is taken over;
    /// the buffers of those that an engine failed or left pending stay as they are, so that another may try.
    pub fn run_as_ops(&mut self, mut run: impl FnMut(&mut CheckedBatch<'_>)) {
        let Ok(()) = self.try_as_ops(ChunkLimits::CACHED, |batch| {
            run(batch);
            Ok::<(), Infallible>(())
        });
    }

    /// The same in chunks of other sizes. Ends at the first error that `run` gives; the operations of that chunk and of those
    /// behind it are as they were.
    ///
    /// # Errors
    /// That of `run`.
    pub fn try_as_ops<E>(
        &mut self,
        limits: ChunkLimits,
        mut run: impl FnMut(&mut CheckedBatch<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut chunk = ColumnOps::default();
        let mut next = 0;
        loop {
            self.copy_ops(&mut chunk, &mut next, limits, |_| true);
            if chunk.ops.is_empty() {
                return Ok(());
            }
            let (suite, direction) = (self.suite, self.direction);
            run(&mut CheckedBatch::of_part(suite, direction, &mut chunk.ops, &mut chunk.arena, &chunk.keys))?;
            self.take_over(&chunk);
        }
    }

    /// Copies pending operations that `wanted` takes by their index, from `*next` on, which moves behind the last one that was
    /// looked at. There are none in `chunk` when no more are left.
    pub fn copy_ops(
        &self,
        chunk: &mut ColumnOps<'a>,
        next: &mut usize,
        limits: ChunkLimits,
        wanted: impl Fn(usize) -> bool,
    ) {
        chunk.ops.clear();
        chunk.indices.clear();
        chunk.keys.clear();
        chunk.arena.clear();
        chunk.put(self.layout.shared_aad().unwrap_or_default());
        // However long shared additional data are, a chunk has an operation.
        let has_room = |chunk: &ColumnOps<'_>| {
            chunk.ops.is_empty() || chunk.ops.len() < limits.ops && chunk.arena.len() < limits.bytes
        };
        while *next < self.len() && has_room(chunk) {
            if self.statuses[*next].is_pending() && wanted(*next) {
                self.put_op(chunk, *next);
                if !matches!(self.prepared, PreparedColumn::None) {
                    chunk.keys.push(self.prepared.at(*next));
                }
            }
            *next += 1;
        }
    }

    /// Whether the operation that was copied at `at` of a chunk, which another engine has run meanwhile, has become there what
    /// it is here. `None` when it did not end on both.
    pub fn is_same(&self, chunk: &ColumnOps<'_>, at: usize) -> Option<bool> {
        let (op, index) = (&chunk.ops[at], chunk.indices[at]);
        let ended = |status: OpStatus| !matches!(status, OpStatus::Pending | OpStatus::EngineFault);
        let own = self.statuses[index].status().filter(|own| ended(*own) && ended(op.status))?;
        if !own.is_done() || !op.status.is_done() {
            return Some(own.is_done() == op.status.is_done());
        }
        let (data, tag_len) = (self.layout.data(index), self.layout.tag_len());
        let same_data =
            !self.suite.transforms() || self.written_at(data.output, data.len) == &chunk.arena[op.input.range()];
        let tag = match (self.layout.tag(index, data), &self.buffers.tags) {
            (TagPlace::Output(at), _) => self.written_at(at, tag_len),
            (TagPlace::Column(at), TagBuffer::Written(tags)) => &tags[at..at + tag_len],
            // Verified, and so compared already.
            _ => return Some(same_data),
        };
        Some(same_data && tag == &chunk.arena[op.tag_span().range()])
    }

    /// The bytes at an offset of what is read.
    fn input_bytes_at(&self, at: usize, len: usize) -> &[u8] {
        match &self.buffers.data {
            DataBuffers::Separate(input, _) | DataBuffers::Input(input) => &input[at..at + len],
            DataBuffers::InPlace(data) => &data[at..at + len],
        }
    }

    /// The bytes at an offset of what was written.
    fn written_at(&self, at: usize, len: usize) -> &[u8] {
        match &self.buffers.data {
            DataBuffers::Separate(_, output) => &output[at..at + len],
            DataBuffers::InPlace(data) => &data[at..at + len],
            DataBuffers::Input(_) => &[],
        }
    }

    /// The bytes at an offset of what is written.
    fn output_bytes_at(&mut self, at: usize, len: usize) -> &mut [u8] {
        match &mut self.buffers.data {
            DataBuffers::Separate(_, output) => &mut output[at..at + len],
            DataBuffers::InPlace(data) => &mut data[at..at + len],
            DataBuffers::Input(_) => &mut [],
        }
    }

    /// The IV of an operation.
    fn iv_bytes(&self, index: usize) -> ([u8; IV_LEN_MAX], usize) {
        let len = self.layout.iv_len();
        let bytes = match self.layout.iv(index) {
            IvPlace::Value(iv) => return (iv, len),
            IvPlace::Column(bytes) => bytes,
            IvPlace::Input(at) => self.input_bytes_at(at, len),
            IvPlace::Output(at) => self.written_at(at, len),
        };
        let mut iv = [0; IV_LEN_MAX];
        iv[..len].copy_from_slice(bytes);
        (iv, len)
    }

    /// Puts an operation into the chunk.
    fn put_op(&self, chunk: &mut ColumnOps<'_>, index: usize) {
        let layout = &self.layout;
        let data = layout.data(index);
        let key = match self.keys {
            KeyColumn::None => KeyId::NONE,
            KeyColumn::One(key) => key,
            KeyColumn::Each(keys) => keys[index],
        };
        let key = if key.is_none() && self.suite.needs_key() { ANY_KEY } else { key };
        let aad = layout.aad(index);
        let own_aad = layout.shared_aad().is_none() && !aad.is_empty();
        let aad_at = if own_aad { chunk.put(aad) } else { 0 };
        let input = chunk.put(self.input_bytes_at(data.input, data.len));
        let (iv, iv_len) = self.iv_bytes(index);
        let tag_len = layout.tag_len();
        let tag = match layout.tag(index, data) {
            TagPlace::None => 0,
            TagPlace::Input(at) => chunk.put(self.input_bytes_at(at, tag_len)),
            TagPlace::Column(at) => match &self.buffers.tags {
                TagBuffer::Expected(tags) => chunk.put(&tags[at..at + tag_len]),
                _ => chunk.put_zeros(tag_len),
            },
            TagPlace::Output(_) => chunk.put_zeros(tag_len),
        };
        // Lengths were checked, and a chunk has less than 2^32 bytes.
        let op = Op::in_place(key, Span::new(input, data.len as u32)).with_iv(&iv[..iv_len]);
        let op = if aad.is_empty() { op } else { op.with_aad(aad_at, aad.len() as u16) };
        chunk.ops.push(if tag_len == 0 { op } else { op.with_tag(tag, tag_len as u16) });
        chunk.indices.push(index);
    }

    /// Copies what has become of a chunk's operations to where they come from.
    fn take_over(&mut self, chunk: &ColumnOps<'_>) {
        for (op, index) in chunk.ops.iter().zip(&chunk.indices) {
            self.end(*index, op.status, &chunk.arena[op.input.range()], &chunk.arena[op.tag_span().range()]);
        }
    }

    /// Ends an operation as it ended elsewhere, with the data and the tag that it has there. What an engine failed, or did
    /// not end, leaves the buffers as they are.
    pub fn end(&mut self, index: usize, status: OpStatus, output: &[u8], tag: &[u8]) {
        let (data, tag_len) = (self.layout.data(index), self.layout.tag_len());
        self.statuses[index] = ColumnStatus::from(status);
        match status {
            OpStatus::Done => {
                self.write_output(data, output);
                if self.direction == Direction::Encrypt {
                    match (self.layout.tag(index, data), &mut self.buffers.tags) {
                        (TagPlace::Column(at), TagBuffer::Written(tags)) => tags[at..at + tag_len].copy_from_slice(tag),
                        (TagPlace::Output(at), _) => self.output_bytes_at(at, tag_len).copy_from_slice(tag),
                        _ => {}
                    }
                }
            }
            OpStatus::AuthFailed | OpStatus::BadInput(_) => self.output_bytes_at(data.output, data.len).fill(0),
            OpStatus::Pending | OpStatus::EngineFault | OpStatus::Refused(_) => {}
        }
    }

    /// Ends every operation that is pending or that an engine failed as a fault, and zeroes its output: perhaps half a
    /// plaintext that nobody has authenticated.
    pub fn give_up(&mut self) {
        for index in 0..self.len() {
            if self.statuses[index].is_pending() || self.statuses[index] == ColumnStatus::ENGINE_FAULT {
                let data = self.layout.data(index);
                self.output_bytes_at(data.output, data.len).fill(0);
                self.statuses[index] = ColumnStatus::ENGINE_FAULT;
            }
        }
    }

    fn write_output(&mut self, data: DataPlace, bytes: &[u8]) {
        if self.suite.transforms() {
            self.output_bytes_at(data.output, data.len).copy_from_slice(bytes);
        }
    }
}

impl ColumnOps<'_> {
    /// Puts bytes into the arena; returns where.
    fn put(&mut self, bytes: &[u8]) -> u32 {
        let at = self.arena.len();
        self.grow(at + bytes.len());
        self.arena.extend_from_slice(bytes);
        at as u32
    }

    fn put_zeros(&mut self, len: usize) -> u32 {
        let at = self.arena.len();
        self.grow(at + len);
        self.arena.resize(at + len, 0);
        at as u32
    }

    /// Makes room without leaving bytes behind in memory that is given back.
    fn grow(&mut self, len: usize) {
        if self.arena.capacity() < len {
            let mut larger = Zeroizing::new(Vec::with_capacity(len.max(2 * self.arena.capacity())));
            larger.extend_from_slice(&self.arena);
            self.arena = larger;
        }
    }
}
