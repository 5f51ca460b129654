//! What became of one operation.

use core::fmt;

/// The outcome of one operation, written by whoever ended it.
///
/// Two bytes, so that it fits an [`crate::Op`]. `Pending` is the only state in which an engine touches an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OpStatus {
    /// Not yet processed.
    #[default]
    Pending = 0,
    /// Processed; output and tag are valid.
    Done = 1,
    /// The tag, padding or signature did not verify. The output has been zeroed.
    AuthFailed = 2,
    /// The data itself breaks a rule of the suite that only an engine can see; nothing useful was written.
    BadInput(Reason) = 3,
    /// A policy or the key table refused this operation.
    Refused(Reason) = 4,
    /// The engine failed at this operation; it may be tried on another.
    EngineFault = 5,
}

impl OpStatus {
    /// Whether the operation ended well.
    #[inline]
    pub const fn is_done(self) -> bool {
        matches!(self, OpStatus::Done)
    }

    /// Whether the operation still waits for an engine.
    #[inline]
    pub const fn is_pending(self) -> bool {
        matches!(self, OpStatus::Pending)
    }
}

impl fmt::Display for OpStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpStatus::Pending => f.write_str("pending"),
            OpStatus::Done => f.write_str("done"),
            OpStatus::AuthFailed => f.write_str("authentication failed"),
            OpStatus::BadInput(reason) => write!(f, "bad input: {reason}"),
            OpStatus::Refused(reason) => write!(f, "refused: {reason}"),
            OpStatus::EngineFault => f.write_str("engine fault"),
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The rule that an operation broke.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Reason { $($(#[$doc])* $name,)* }

        impl Reason {
            /// Every reason, for exhaustive tests and documentation.
            pub const ALL: &'static [Reason] = &[$(Reason::$name,)*];

            /// The rule in words.
            pub const fn text(self) -> &'static str {
                match self { $(Reason::$name => $text,)* }
            }
        }
    };
}

reasons! {
    /// The input span ends past the arena.
    InputPastEnd = "the input ends past the arena",
    /// The output ends past the arena.
    OutputPastEnd = "the output ends past the arena",
    /// The tag ends past the arena.
    TagPastEnd = "the tag ends past the arena",
    /// The additional data end past the arena.
    AadPastEnd = "the additional data end past the arena",
    /// Output and input overlap without being the same place.
    PartialOverlap = "output and input overlap without starting at the same offset",
    /// The tag overlaps the input or output.
    TagOverlap = "the tag overlaps the input, the output or the additional data",
    /// The additional data overlap what is written.
    AadOverlap = "the additional data overlap the output",
    /// One operation writes where another reads or writes.
    OpsOverlap = "the operation writes where another operation of the batch reads or writes",
    /// The extents of a columnar batch descend or overlap.
    ExtentsDescend = "the extents descend or overlap",
    /// An output's extent is not as long as the input's data with what is inline.
    OutputLength = "the output's extent is not as long as the suite's output with what is inline",
    /// A column has another number of entries than the batch has operations.
    ColumnLength = "a column does not have as many entries as there are operations",
    /// The buffers are not of the kind that the suite works on.
    ColumnBuffers = "the suite needs other buffers: digests and MACs an input alone, all others an output or one in place",
    /// The counter that IVs come from would wrap around.
    CounterWraps = "the counter of the initialisation vectors wraps around within the batch",
    /// Tags that are to be written lie in a column that is only compared, or the other way round.
    TagDirection = "the column of tags is for the other direction",
    /// The mill draws initialisation vectors; an engine does not.
    IvDrawn = "only a mill draws initialisation vectors",
    /// The input is not a whole number of cipher blocks.
    NotBlockMultiple = "the input length is not a multiple of the block length",
    /// The input is shorter than the suite allows.
    InputTooShort = "the input is shorter than the suite allows",
    /// The input is longer than the suite allows.
    InputTooLong = "the input is longer than the suite allows",
    /// The suite takes no input of this kind.
    InputUnexpected = "the suite takes no input in this direction",
    /// The initialisation vector has a length that the suite does not take.
    IvLength = "the initialisation vector has a length that the suite does not take",
    /// The tag has a length that the suite does not take.
    TagLength = "the tag has a length that the suite does not take",
    /// Additional data for a suite that authenticates none, or of a length it does not take.
    AadUnexpected = "the suite takes no additional data of this length",
    /// The suite needs a key and the operation names none.
    KeyMissing = "the suite needs a key and the operation names none",
    /// The suite takes no key and the operation names one.
    KeyUnexpected = "the suite takes no key and the operation names one",
    /// The operation was not pending when it was submitted.
    NotPending = "the operation was not pending when it was submitted",
    /// A numeral of an FF1 value is not below the radix.
    NumeralOutOfRange = "a numeral is not below the radix",
    /// A number that RSA works on without padding is not below the modulus.
    NotBelowModulus = "the number is not below the modulus",
    /// A peer's public key, point or ciphertext is malformed or not in the group.
    BadPublicValue = "the peer's public value is malformed or not in the group",
    /// The key slot is empty or belongs to another generation.
    KeyUnknown = "the key is unknown or has been destroyed",
    /// The key's policy does not list this suite.
    KeySuite = "the key may not be used with this suite",
    /// The key's policy does not list this direction.
    KeyDirection = "the key may not be used in this direction",
    /// The key's operation budget is spent.
    KeyBudget = "the key's operation budget is spent",
    /// The key has expired.
    KeyExpired = "the key has expired",
    /// The key may not be held by any engine that could run the operation.
    KeyEngine = "the key may not be held by any engine that can run the operation",
    /// The key's bytes do not suit the suite.
    KeyUnsuitable = "the key's bytes do not suit the suite",
    /// A message in parts has not been begun, has ended, or has text already when additional data come.
    PartOutOfOrder = "the part comes before its message was begun, after it has ended, or in the wrong order",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_two_bytes_and_pending_is_zero() {
        assert_eq!(core::mem::size_of::<OpStatus>(), 2);
        assert_eq!(OpStatus::default(), OpStatus::Pending);
    }

    #[test]
    fn every_reason_has_its_own_words() {
        let mut texts: Vec<_> = Reason::ALL.iter().map(|reason| reason.text()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), Reason::ALL.len());
        assert!(texts.iter().all(|text| text.len() > 10));
    }
}
