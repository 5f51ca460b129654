//! What became of one operation of a columnar batch, in a byte.

use core::fmt;

use crate::status::{OpStatus, Reason};

/// The status of an operation of a columnar batch: [`OpStatus`] in one byte, so that statuses are a column like the others.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct ColumnStatus(u8);

/// Reasons stand in the low six bits.
const REASON: u8 = 0x3f;
const BAD_INPUT: u8 = 0x40;
const REFUSED: u8 = 0x80;

const _: () = assert!(Reason::ALL.len() <= REASON as usize);

impl ColumnStatus {
    /// Not yet processed; the only status in which an operation is touched.
    pub const PENDING: ColumnStatus = ColumnStatus(0);
    /// Processed; output and tag are valid.
    pub const DONE: ColumnStatus = ColumnStatus(1);
    /// The tag did not verify. The output has been zeroed.
    pub const AUTH_FAILED: ColumnStatus = ColumnStatus(2);
    /// The engine failed at this operation.
    pub const ENGINE_FAULT: ColumnStatus = ColumnStatus(5);
    /// Set by the caller: there is no such operation, as for the null of a table.
    pub const LEFT_OUT: ColumnStatus = ColumnStatus(0xff);

    /// Whether the operation ended well.
    #[inline]
    pub const fn is_done(self) -> bool {
        self.0 == Self::DONE.0
    }

    /// Whether the operation still waits for an engine.
    #[inline]
    pub const fn is_pending(self) -> bool {
        self.0 == Self::PENDING.0
    }

    /// The byte.
    #[inline]
    pub const fn byte(self) -> u8 {
        self.0
    }

    /// The status with this byte, if there is one.
    pub fn of_byte(byte: u8) -> Option<ColumnStatus> {
        let status = ColumnStatus(byte);
        (status == ColumnStatus::LEFT_OUT || status.status().is_some()).then_some(status)
    }

    /// The status in words; `None` for an operation that was left out.
    pub fn status(self) -> Option<OpStatus> {
        let reason = || Reason::ALL.get(usize::from(self.0 & REASON)).copied();
        match (self, self.0 & !REASON) {
            (ColumnStatus::PENDING, _) => Some(OpStatus::Pending),
            (ColumnStatus::DONE, _) => Some(OpStatus::Done),
            (ColumnStatus::AUTH_FAILED, _) => Some(OpStatus::AuthFailed),
            (ColumnStatus::ENGINE_FAULT, _) => Some(OpStatus::EngineFault),
            (_, BAD_INPUT) => reason().map(OpStatus::BadInput),
            (_, REFUSED) => reason().map(OpStatus::Refused),
            _ => None,
        }
    }
}

impl From<OpStatus> for ColumnStatus {
    #[inline]
    fn from(status: OpStatus) -> ColumnStatus {
        match status {
            OpStatus::Pending => ColumnStatus::PENDING,
            OpStatus::Done => ColumnStatus::DONE,
            OpStatus::AuthFailed => ColumnStatus::AUTH_FAILED,
            OpStatus::EngineFault => ColumnStatus::ENGINE_FAULT,
            OpStatus::BadInput(reason) => ColumnStatus(BAD_INPUT | reason as u8),
            OpStatus::Refused(reason) => ColumnStatus(REFUSED | reason as u8),
        }
    }
}

impl fmt::Debug for ColumnStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status() {
            Some(status) => fmt::Debug::fmt(&status, f),
            None => f.write_str("LeftOut"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_comes_back_from_its_byte() {
        let plain = [OpStatus::Pending, OpStatus::Done, OpStatus::AuthFailed, OpStatus::EngineFault];
        let reasons = Reason::ALL.iter().flat_map(|reason| [OpStatus::BadInput(*reason), OpStatus::Refused(*reason)]);
        let mut bytes = std::collections::HashSet::new();
        for status in plain.into_iter().chain(reasons) {
            let column = ColumnStatus::from(status);
            assert_eq!(column.status(), Some(status));
            assert_eq!((column.is_done(), column.is_pending()), (status.is_done(), status.is_pending()));
            assert!(bytes.insert(column.byte()), "{status} has a byte of its own");
        }
        assert!(bytes.insert(ColumnStatus::LEFT_OUT.byte()));
        for byte in 0..=u8::MAX {
            assert_eq!(ColumnStatus::of_byte(byte).map(ColumnStatus::byte), bytes.get(&byte).copied());
        }
        assert_eq!(ColumnStatus::LEFT_OUT.status(), None);
        assert_eq!(size_of::<ColumnStatus>(), 1);
    }
}
