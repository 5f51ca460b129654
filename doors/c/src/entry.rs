//! The one way into the library.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ciphermill::panics::let_go;

use crate::failure::{CIPHERMILL_OK, CIPHERMILL_PANICKED, Failure, ciphermill_status, remember};

/// Runs the body of an entry. A failure is remembered for `ciphermill_last_error`, a panic becomes one.
#[inline(always)]
pub(crate) fn entry(work: impl FnOnce() -> Result<(), Failure>) -> ciphermill_status {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => CIPHERMILL_OK,
        Ok(Err(failure)) => remember(failure),
        Err(payload) => panicked(payload),
    }
}

#[cold]
fn panicked(payload: Box<dyn std::any::Any + Send>) -> ciphermill_status {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
    let_go(payload);
    remember(Failure::new(CIPHERMILL_PANICKED, format!("a bug of the library, caught: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_a_number() {
        assert_eq!(entry(|| panic!("with {}", "words")), CIPHERMILL_PANICKED);
        assert_eq!(entry(|| std::panic::panic_any(7_u8)), CIPHERMILL_PANICKED);
        assert_eq!(entry(|| Ok(())), CIPHERMILL_OK);
    }
}
