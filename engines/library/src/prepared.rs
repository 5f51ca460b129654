//! What keys became, between the engine and its families.

use core::any::Any;

use ciphermill_contract::{OpBuffers, PreparedKey, Suite};

/// What a key became for one suite.
pub(crate) struct Prepared<T> {
    suite: Suite,
    state: T,
}

impl<T: Any + Send + Sync> Prepared<T> {
    /// Wraps a family's state as a prepared key.
    pub(crate) fn key(suite: Suite, state: T) -> PreparedKey {
        PreparedKey::new(Prepared { suite, state })
    }
}

impl<T: Any> Prepared<T> {
    /// The state of a key; `None` when it was prepared by another engine or for another suite.
    #[inline]
    pub(crate) fn of(key: &PreparedKey, suite: Suite) -> Option<&T> {
        let prepared = key.state::<Prepared<T>>()?;
        (prepared.suite == suite).then_some(&prepared.state)
    }
}

/// The state of an operation's key; `None` when it was prepared by another engine or for another suite.
#[inline]
pub(crate) fn state<'b, T: Any>(op: &OpBuffers<'b>, suite: Suite) -> Option<&'b T> {
    Prepared::of(op.key?, suite)
}
