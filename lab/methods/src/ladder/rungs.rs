//! The rungs: ways to use the service, each with one thing changed from the one before.

use ciphermill_channel::SLOTS;

/// A rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rung {
    /// Its number, as measurements are named.
    pub(crate) id: &'static str,
    /// What it is, in a few words.
    pub(crate) name: &'static str,
    /// What it changes, for the table.
    pub(crate) change: &'static str,
    pub(crate) way: Way,
    pub(crate) place: Place,
    /// Whether each operation's key is handed over for it, and forgotten afterwards.
    pub(crate) hands_keys_over: bool,
    /// Whether all are one operation under one key.
    pub(crate) is_one_op: bool,
    /// Whether each batch carries an operation whose answer is published, and is believed only with the right one.
    pub(crate) known_answer: bool,
}

/// How batches come to the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A request for each operation, over one channel, so many of them on their way at a time.
    Ops(usize),
    /// A request for a batch, by the queue of the service's engine: what a mill does.
    Queue,
    /// A request for a batch, written straight into a channel; [`CHANNELS`] of them, with one on its way in each.
    Channels,
}

/// The services, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Place {
    /// With the engine for single messages alone.
    Plain = 0,
    /// With the reference beside it, which recomputes some answers.
    Checked = 1,
    /// With the lanes besides.
    Lanes = 2,
}

impl Place {
    /// Every service, in the order in which they are started.
    pub(crate) const ALL: [Place; 3] = [Place::Plain, Place::Checked, Place::Lanes];
}

/// Channels of the last rung: programs that a service has at a time.
pub(crate) const CHANNELS: usize = 16;

const fn rung(id: &'static str, name: &'static str, change: &'static str, way: Way) -> Rung {
    let (hands_keys_over, is_one_op, known_answer) = (false, false, false);
    Rung { id, name, change, way, place: Place::Plain, hands_keys_over, is_one_op, known_answer }
}

const fn checked(rung: Rung, place: Place) -> Rung {
    Rung { place, known_answer: true, ..rung }
}

/// All rungs, from the ground up.
pub(crate) const RUNGS: [Rung; 8] = [
    Rung {
        hands_keys_over: true,
        ..rung(
            "1",
            "a request per op",
            "each operation is a request, answered before the next; its key is handed over for it and forgotten",
            Way::Ops(1),
        )
    },
    Rung {
        hands_keys_over: true,
        ..rung(
            "2a",
            "a batch at a time",
            "a batch's requests are on their way together, up to 64; the service works through them op by op",
            Way::Ops(SLOTS as usize),
        )
    },
    rung(
        "2b",
        "keys stay",
        "each key was handed over once, and operations name it by its handle",
        Way::Ops(SLOTS as usize),
    ),
    Rung {
        is_one_op: true,
        ..rung(
            "3",
            "one engine operation",
            "one key, and one operation in one request for all, its chaining broken by XOR",
            Way::Queue,
        )
    },
    rung(
        "4",
        "one engine call",
        "own keys and IVs again; one request has the batch, the engine gets it in one call",
        Way::Queue,
    ),
    checked(
        rung(
            "8",
            "known answers checked",
            "a second engine is there, which recomputes some answers; each batch carries an op whose answer is published",
            Way::Queue,
        ),
        Place::Checked,
    ),
    checked(
        rung(
            "9",
            "lanes",
            "an engine that works on many messages side by side joins; the router chooses for each batch",
            Way::Queue,
        ),
        Place::Lanes,
    ),
    checked(
        rung(
            "10",
            "many channels",
            "16 batches on their way, each written straight into a channel of its own; short ones that wait are joined",
            Way::Channels,
        ),
        Place::Lanes,
    ),
];
