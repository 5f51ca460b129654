//! The rungs: configurations of this project, each with one thing changed from the one before.

use super::wire::How;

/// A rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rung {
    /// Its number, as measurements are named.
    pub(crate) id: &'static str,
    /// What it is, in a few words.
    pub(crate) name: &'static str,
    /// What it changes, for the table.
    pub(crate) change: &'static str,
    pub(crate) how: How,
    pub(crate) way: Way,
    pub(crate) place: Place,
    /// Whether all operations are under one key.
    pub(crate) one_key: bool,
    /// Whether each batch carries an operation whose answer is published, and is believed only with the right one.
    pub(crate) known_answer: bool,
}

/// How batches come to the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A message through the socket for each operation.
    Singles,
    /// A message for a batch.
    Socket,
    /// In shared memory, with a message without a body to say so.
    Cells,
    /// In shared memory, with nothing said: both sides look.
    Ring,
}

/// The child's mills, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Place {
    /// The engine for single messages, believed without a test.
    Plain = 0,
    /// The same, with known-answer tests and a witness.
    Checked = 1,
    /// The lanes, checked.
    Lanes = 2,
}

impl Place {
    /// Every mill, in the order in which they are opened.
    pub(crate) const ALL: [Place; 3] = [Place::Plain, Place::Checked, Place::Lanes];
}

const fn rung(id: &'static str, name: &'static str, change: &'static str, how: How, way: Way) -> Rung {
    Rung { id, name, change, how, way, place: Place::Plain, one_key: false, known_answer: false }
}

const fn checked(rung: Rung, place: Place) -> Rung {
    Rung { place, known_answer: true, ..rung }
}

/// All rungs, from the ground up.
pub(crate) const RUNGS: [Rung; 11] = [
    rung(
        "1",
        "a request per op",
        "each operation is a request to another process, and its key is unwrapped",
        How::Unwrapped,
        Way::Singles,
    ),
    rung(
        "2a",
        "a batch per request",
        "one request holds the batch; the child works through it op by op",
        How::Unwrapped,
        Way::Socket,
    ),
    rung(
        "2b",
        "keys cached",
        "a key that was unwrapped before is found again by its wrapped form",
        How::Cached,
        Way::Socket,
    ),
    Rung {
        one_key: true,
        ..rung(
            "3",
            "one engine operation",
            "one key and one engine operation for all, its chaining broken by XOR",
            How::Chained,
            Way::Socket,
        )
    },
    rung(
        "4",
        "one engine call",
        "own keys and IVs again; the engine gets the batch in one call",
        How::Whole,
        Way::Socket,
    ),
    rung(
        "5",
        "in place",
        "keys by index into the child's table; data are worked on where they arrived",
        How::InPlace,
        Way::Socket,
    ),
    rung(
        "6",
        "shared memory",
        "the batch lies in memory of both processes; the socket says only that it is there",
        How::InPlace,
        Way::Cells,
    ),
    rung(
        "7",
        "parameters grouped",
        "all parameters ahead of all data instead of between them",
        How::Grouped,
        Way::Cells,
    ),
    checked(
        rung(
            "8",
            "known answers checked",
            "engines are tested and witnessed, and each batch carries an op whose answer is published",
            How::Grouped,
            Way::Cells,
        ),
        Place::Checked,
    ),
    checked(
        rung("9", "lanes", "an engine that works on many messages side by side", How::Grouped, Way::Cells),
        Place::Lanes,
    ),
    checked(
        rung(
            "10",
            "a persistent ring",
            "no message at all: both sides look at shared memory, and batches that wait are joined",
            How::Grouped,
            Way::Ring,
        ),
        Place::Lanes,
    ),
];
