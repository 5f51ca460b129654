//! Native loops: a peer as its users call it, without the adapter that makes an engine of it.
//!
//! An adapter reads our operations and writes our statuses; a program that is written for the library has neither. So a
//! native loop is given the operations beforehand, makes ready whatever such a program could, and has several ways of going
//! through them. Which of them is the fastest is for whoever measures to find out.

use ciphermill_contract::{Direction, KeyForm, Op, OpStatus, Span, Suite};

/// The operations of one workload.
#[derive(Clone, Copy, Debug)]
pub struct Task<'t> {
    /// The suite.
    pub suite: Suite,
    /// The direction.
    pub direction: Direction,
    /// The operations; their statuses and keys' names are not looked at.
    pub ops: &'t [Op],
    /// What they lie in.
    pub arena: &'t [u8],
    /// What the keys are.
    pub form: KeyForm,
    /// The keys.
    pub keys: &'t [&'t [u8]],
    /// Each operation's key, by its place in `keys`.
    pub key_of: &'t [usize],
}

/// A peer's own loop over a task.
pub trait NativeLoop {
    /// The ways in which the loop can run, in words.
    fn ways(&self) -> Vec<String>;

    /// What would let it run faster and is not there, with what to do about it.
    fn missing(&self) -> Option<&str> {
        None
    }

    /// Restores what a run changed of the inputs; whether that went well. To be called before a run whose answers are
    /// compared.
    fn restart(&mut self) -> bool;

    /// Runs all operations in the way of this number; whether all of them were done and every tag was right.
    fn run(&mut self, way: usize) -> bool;

    /// Operations and arena as an engine would leave them after the last run, if that went well.
    fn answers(&mut self) -> (Vec<Op>, Vec<u8>);
}

impl Task<'_> {
    /// Whether the task is sound for a library that has one call for each message, from input to output: each operation
    /// has a key, an IV that [`Op`] holds, a tag of `tag_len` bytes, and an output apart from its input.
    pub(crate) fn is_sound_apart(&self, tag_len: usize) -> bool {
        let has_key = self.key_of.len() == self.ops.len() && self.key_of.iter().all(|key| *key < self.keys.len());
        let fits = |op: &Op| usize::from(op.tag_len) == tag_len && usize::from(op.iv_len) <= op.iv.len();
        let apart = |op: &Op| {
            let (input, output) = (op.input.range(), op.output as usize..op.output as usize + op.input.len as usize);
            input.end <= output.start || output.end <= input.start
        };
        has_key && self.is_sound() && self.ops.iter().all(|op| fits(op) && apart(op))
    }

    /// Whether every operation has lengths that the suite takes, and every span of it lies within the arena. The loops
    /// rest on both: what is left unchecked by a library may be read or written as it stands here.
    pub(crate) fn is_sound(&self) -> bool {
        let (suite, direction) = (self.suite, self.direction);
        let within = |offset: u32, len: u32| u64::from(offset) + u64::from(len) <= self.arena.len() as u64;
        let span = |span: Span| within(span.offset, span.len);
        self.ops.iter().all(|op| {
            let lengths = suite.iv_len().contains(usize::from(op.iv_len))
                && suite.tag_len(direction).contains(usize::from(op.tag_len))
                && suite.aad_len().contains(op.aad.span().len as usize)
                && suite.input_len(direction).contains(op.input.len as usize);
            let output = if suite.transforms() { op.input.len } else { 0 };
            lengths && span(op.input) && within(op.output, output) && span(op.aad.span()) && span(op.tag_span())
        })
    }
}

/// The operations as they are when all went well.
pub(crate) fn all_done(ops: &[Op]) -> Vec<Op> {
    let done = |op: &Op| {
        let mut op = *op;
        (op.status, op.output_len) = (OpStatus::Done, op.input.len);
        op
    };
    ops.iter().map(done).collect()
}
