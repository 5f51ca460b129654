//! Requests and what becomes of them, as words in shared memory.

use ciphermill_contract::suite::Ff1;
use ciphermill_contract::{Direction, Error, Misuse, Reason, Suite};

use crate::Corrupt;
use crate::columns::ColumnShape;
use crate::layout::{DATA_AT, REQUEST_WORDS};
use crate::op::RECORD_LEN;

/// Operations of one request at most.
pub const OPS_MAX: u32 = 1 << 16;

/// Nanoseconds that a request may take at most, as the service predicts them: nobody else is served by whoever works on it. What is longer
/// is answered with [`Outcome::Exhausted`], unless it is one operation with no more than [`ONE_LEN_MAX`] bytes of data.
pub const REQUEST_NS_MAX: f64 = 50e6;

/// Bytes of data of a single operation that may take longer.
pub const ONE_LEN_MAX: u32 = 4 << 20;

/// Operations of one suite and direction, and where they and their data lie, in bytes from the start of the channel's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is done to every operation.
    pub suite: Suite,
    /// Which way.
    pub direction: Direction,
    /// How many operations there are.
    pub ops: u32,
    /// Whether their data are columns.
    pub columns: bool,
    /// Where they lie, one behind the other, and behind them their results; of columns the shape, and behind it the statuses. A multiple
    /// of eight.
    pub ops_at: u32,
    /// Where the arena lies that their offsets count from, or where columns begin.
    pub data_at: u32,
    /// Bytes of the arena.
    pub data_len: u32,
}

impl Request {
    pub(crate) fn to_words(self) -> [u32; REQUEST_WORDS] {
        let [ordinal, radix] = suite_words(self.suite);
        let what = ordinal | (self.direction as u32) << 16;
        [what, radix, self.ops, self.ops_at, self.data_at, self.data_len, self.columns.into(), 0]
    }

    /// A request from a copy of its words, every one of them checked.
    pub(crate) fn from_words(words: [u32; REQUEST_WORDS], region_len: usize) -> Result<Request, Corrupt> {
        let corrupt = |place, rule| Err(Corrupt { place, rule });
        let [what, radix, ops, ops_at, data_at, data_len, columns, rest] = words;
        if what >> 17 != 0 || columns > 1 || rest != 0 {
            return corrupt("the request's reserved bits", "must be zero");
        }
        let direction = if what >> 16 == 0 { Direction::Encrypt } else { Direction::Decrypt };
        let Some(suite) = suite_of_words([what & 0xffff, radix]) else {
            return corrupt("the request's suite", "must be one that there is");
        };
        if ops == 0 || ops > OPS_MAX {
            return corrupt("the request's number of operations", "must be 1 to 65,536");
        }
        let within = |at: u32, len: usize| at as usize >= DATA_AT && at as usize + len <= region_len;
        let columns = columns == 1;
        if !ops_at.is_multiple_of(8) || !within(ops_at, head_len(ops, columns)) {
            return corrupt(
                "the request's operations",
                "must lie within the channel's data, with their results, at a multiple of eight",
            );
        }
        if !within(data_at, data_len as usize) {
            return corrupt("the request's arena", "must lie within the channel's data");
        }
        Ok(Request { suite, direction, ops, columns, ops_at, data_at, data_len })
    }
}

/// Bytes of what is said of so many operations.
fn head_len(ops: u32, columns: bool) -> usize {
    if columns { ColumnShape::head_len(ops as usize) } else { ops as usize * RECORD_LEN }
}

/// A suite as its number and its radix, which is zero for all but FF1.
pub(crate) fn suite_words(suite: Suite) -> [u32; 2] {
    [suite.ordinal() as u32, if let Suite::Fpe(ff1) = suite { ff1.radix } else { 0 }]
}

/// The suite of these words, if there is one. A radix may be none that FF1 takes: whoever checks a batch says so.
pub(crate) fn suite_of_words([ordinal, radix]: [u32; 2]) -> Option<Suite> {
    match (Suite::of_ordinal(ordinal as usize)?, radix) {
        (Suite::Fpe(ff1), radix) => Some(Suite::Fpe(Ff1 { radix, ..ff1 })),
        (suite, 0) => Some(suite),
        _ => None,
    }
}

/// What became of a request as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every operation has its status.
    Ran,
    /// An operation breaks the contract; none was touched.
    Misuse(Misuse),
    /// A policy or an access rule says no, to all operations.
    Refused,
    /// A limit of the service is reached.
    Exhausted,
    /// The service failed, or ended before the request was done.
    Fault,
}

impl Outcome {
    /// The outcome of a batch that the mill did not carry out.
    pub fn of_error(error: &Error) -> Outcome {
        match error {
            Error::Misuse(misuse) => Outcome::Misuse(*misuse),
            Error::Refused(_) => Outcome::Refused,
            Error::Exhausted(_) => Outcome::Exhausted,
            _ => Outcome::Fault,
        }
    }

    pub(crate) fn to_words(self) -> [u32; 2] {
        match self {
            Outcome::Ran => [1, 0],
            Outcome::Misuse(Misuse { op, reason }) => [2 | (reason as u32) << 8, op],
            Outcome::Refused => [3, 0],
            Outcome::Exhausted => [4, 0],
            Outcome::Fault => [5, 0],
        }
    }

    /// What is no outcome is a fault of whoever wrote it.
    pub(crate) fn from_words([what, op]: [u32; 2]) -> Outcome {
        match (what & 0xff, Reason::ALL.get((what >> 8) as usize)) {
            (1, _) => Outcome::Ran,
            (2, Some(reason)) => Outcome::Misuse(Misuse { op, reason: *reason }),
            (3, _) => Outcome::Refused,
            (4, _) => Outcome::Exhausted,
            _ => Outcome::Fault,
        }
    }
}

#[cfg(test)]
mod tests {
    use ciphermill_contract::suite::AesSize;
    use proptest::prelude::*;

    use super::*;

    const LEN: usize = DATA_AT + (1 << 20);

    fn request(suite: Suite) -> Request {
        Request {
            suite,
            direction: Direction::Decrypt,
            ops: 3,
            columns: false,
            ops_at: DATA_AT as u32,
            data_at: DATA_AT as u32 + 216,
            data_len: 100,
        }
    }

    #[test]
    fn every_suite_comes_through() {
        let ff1 = [2, 10, 65_536].map(|radix| Suite::Fpe(Ff1 { size: AesSize::Aes256, radix }));
        for suite in Suite::all().chain(ff1) {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                for columns in [false, true] {
                    let request = Request { direction, columns, ..request(suite) };
                    assert_eq!(Request::from_words(request.to_words(), LEN), Ok(request));
                }
            }
        }
    }

    #[test]
    fn what_lies_outside_or_is_nothing_is_refused() {
        let good = request("aes-128-gcm".parse().expect("a suite"));
        let bad = [
            (Request { ops: 0, ..good }, "number"),
            (Request { ops: OPS_MAX + 1, ..good }, "number"),
            (Request { ops_at: 4, ..good }, "operations"),
            (Request { ops_at: DATA_AT as u32 + 4, ..good }, "operations"),
            (Request { ops_at: LEN as u32 - 208, ..good }, "operations"),
            (Request { ops_at: u32::MAX - 7, ..good }, "operations"),
            (Request { data_at: 0, ..good }, "arena"),
            (Request { data_at: LEN as u32 - 99, ..good }, "arena"),
            (Request { data_len: u32::MAX, ..good }, "arena"),
        ];
        for (request, place) in bad {
            let refused = Request::from_words(request.to_words(), LEN).expect_err("refused");
            assert!(refused.place.contains(place), "{refused}");
        }
        for (word, value) in [(0, 639), (0, 1 << 17), (1, 10), (6, 2), (7, 1), (7, 1 << 31)] {
            let mut words = good.to_words();
            words[word] = value;
            assert!(Request::from_words(words, LEN).is_err(), "{word}");
        }
    }

    #[test]
    fn outcomes_come_through() {
        let misuse = Reason::ALL.iter().map(|reason| Outcome::Misuse(Misuse { op: 7, reason: *reason }));
        for outcome in [Outcome::Ran, Outcome::Refused, Outcome::Exhausted, Outcome::Fault].into_iter().chain(misuse) {
            assert_eq!(Outcome::from_words(outcome.to_words()), outcome);
        }
        assert_eq!(Outcome::from_words([0, 0]), Outcome::Fault);
        assert_eq!(Outcome::from_words([2 | 0xffff << 8, 0]), Outcome::Fault);
    }

    proptest! {
        /// What is accepted lies within the data, whatever the words say.
        #[test]
        fn any_words_are_refused_or_within(words: [u32; REQUEST_WORDS], known in 0u32..640, small in any::<bool>()) {
            let mut words = words;
            if small {
                words = [known, 0, words[2] % 100 + 1, (words[3] % LEN as u32) & !7, words[4] % LEN as u32, words[5] % LEN as u32, words[6] & 1, 0];
            }
            if let Ok(request) = Request::from_words(words, LEN) {
                prop_assert!(request.ops_at as usize >= DATA_AT && request.data_at as usize >= DATA_AT);
                prop_assert!(request.ops_at as usize + head_len(request.ops, request.columns) <= LEN);
                prop_assert!(request.data_at as usize + request.data_len as usize <= LEN);
            }
        }
    }
}
