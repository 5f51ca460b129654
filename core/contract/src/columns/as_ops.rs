//! Columns as batches of ops: how engines without columns of their own run them, and whatever needs an operation's record.

use core::convert::Infallible;

use zeroize::Zeroizing;

use super::{CheckedColumns, ColumnStatus, DataBuffers, DataPlace, IvPlace, KeyColumn, TagBuffer, TagPlace};
use crate::batch::CheckedBatch;
use crate::key::{KeyId, PreparedKey};
use crate::limits::IV_LEN_MAX;
use crate::op::{Op, Span};
use crate::status::OpStatus;
use crate::suite::Direction;

/// Operations that are turned into ops at a time, at most: with their data they stay in the cache.
pub const CHUNK_OPS: usize = 512;

/// Bytes of arena from which on a chunk ends; one operation may reach past them.
pub const CHUNK_BYTES: usize = 64 << 10;

/// Stands in for the name of a key that has none here, since it was attached prepared.
const ANY_KEY: KeyId = KeyId { slot: 0, generation: 1 };

/// A chunk of columns as ops.
#[derive(Default)]
struct Chunk<'k> {
    ops: Vec<Op>,
    /// The index of each op among the columns.
    indices: Vec<usize>,
    keys: Vec<Option<&'k PreparedKey>>,
    arena: Zeroizing<Vec<u8>>,
}

impl CheckedColumns<'_> {
    /// Runs the pending operations as batches of ops, a chunk after the other, by `run`. What becomes of them is taken over;
    /// the buffers of those that an engine failed or left pending stay as they are, so that another may try.
    pub fn run_as_ops(&mut self, mut run: impl FnMut(&mut CheckedBatch<'_>)) {
        let done: Result<(), Infallible> = self.try_as_ops(CHUNK_OPS, |batch| {
            run(batch);
            Ok(())
        });
        match done {
            Ok(()) => {}
        }
    }

    /// The same in chunks of `chunk_ops` operations at most. Ends at the first error that `run` gives; the operations of that
    /// chunk and of those behind it are as they were.
    ///
    /// # Errors
    /// That of `run`.
    pub fn try_as_ops<E>(
        &mut self,
        chunk_ops: usize,
        mut run: impl FnMut(&mut CheckedBatch<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut chunk = Chunk::default();
        let prepared = self.prepared();
        let mut next = 0;
        loop {
            chunk.ops.clear();
            chunk.indices.clear();
            chunk.keys.clear();
            chunk.arena.clear();
            let shared = self.layout.shared_aad().unwrap_or_default();
            chunk.arena.extend_from_slice(shared);
            while next < self.len() && chunk.ops.len() < chunk_ops.max(1) && chunk.arena.len() < CHUNK_BYTES {
                if self.statuses[next].is_pending() {
                    self.put_op(&mut chunk, next);
                    chunk.keys.push(prepared.at(next));
                }
                next += 1;
            }
            if chunk.ops.is_empty() {
                return Ok(());
            }
            let keys: &[_] = if chunk.keys.iter().all(Option::is_none) { &[] } else { &chunk.keys };
            let arena = chunk.arena.as_mut_slice();
            run(&mut CheckedBatch::of_part(self.suite, self.direction, &mut chunk.ops, arena, keys))?;
            self.take_over(&chunk);
        }
    }

    /// The bytes at an offset of what is read.
    fn input_bytes_at(&self, at: usize, len: usize) -> &[u8] {
        match &self.buffers.data {
            DataBuffers::Separate(input, _) | DataBuffers::Input(input) => &input[at..at + len],
            DataBuffers::InPlace(data) => &data[at..at + len],
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
        let bytes = match (self.layout.iv(index), &self.buffers.data) {
            (IvPlace::Value(iv), _) => return (iv, len),
            (IvPlace::Input(at), _) => self.input_bytes_at(at, len),
            (IvPlace::Output(at), DataBuffers::Separate(_, output)) => &output[at..at + len],
            (IvPlace::Output(at), _) => self.input_bytes_at(at, len),
        };
        let mut iv = [0; IV_LEN_MAX];
        iv[..len].copy_from_slice(bytes);
        (iv, len)
    }

    /// Puts an operation into the chunk.
    fn put_op(&self, chunk: &mut Chunk<'_>, index: usize) {
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
    fn take_over(&mut self, chunk: &Chunk<'_>) {
        let (layout, tag_len) = (self.layout, self.layout.tag_len());
        for (op, index) in chunk.ops.iter().zip(&chunk.indices) {
            let data = layout.data(*index);
            self.statuses[*index] = ColumnStatus::from(op.status);
            match op.status {
                OpStatus::Done => {
                    self.write_output(data, &chunk.arena[op.input.range()]);
                    if self.direction == Direction::Encrypt {
                        let tag = &chunk.arena[op.tag_span().range()];
                        match (layout.tag(*index, data), &mut self.buffers.tags) {
                            (TagPlace::Column(at), TagBuffer::Written(tags)) => {
                                tags[at..at + tag_len].copy_from_slice(tag);
                            }
                            (TagPlace::Output(at), _) => self.output_bytes_at(at, tag_len).copy_from_slice(tag),
                            _ => {}
                        }
                    }
                }
                OpStatus::AuthFailed | OpStatus::BadInput(_) => {
                    let len = data.len;
                    self.output_bytes_at(data.output, len).fill(0);
                }
                OpStatus::Pending | OpStatus::EngineFault | OpStatus::Refused(_) => {}
            }
        }
    }

    fn write_output(&mut self, data: DataPlace, bytes: &[u8]) {
        if self.suite.transforms() {
            self.output_bytes_at(data.output, data.len).copy_from_slice(bytes);
        }
    }
}

impl Chunk<'_> {
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
            let mut larger = Zeroizing::new(Vec::with_capacity(len.max(2 * CHUNK_BYTES)));
            larger.extend_from_slice(&self.arena);
            self.arena = larger;
        }
    }
}
