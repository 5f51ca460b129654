//! Methods with options of their own, as sections of a record.

pub(crate) mod cases;
pub(crate) mod principles;
pub(crate) mod router;
pub(crate) mod short;
