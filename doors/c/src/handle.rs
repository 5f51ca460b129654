//! Handles: what C programs hold instead of values.

use std::cell::UnsafeCell;
use std::collections::BTreeSet;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::failure::{CIPHERMILL_BUSY, CIPHERMILL_FORKED, Failure};
use crate::process;

/// A value behind a handle, with the process that it belongs to.
pub(crate) struct Handle<T> {
    process: u64,
    is_busy: AtomicBool,
    /// Dropped by [`close`] alone: never in another process.
    value: ManuallyDrop<UnsafeCell<T>>,
}

/// A type that C knows by pointers only.
pub(crate) trait Opaque: Sized {
    /// What is behind it.
    type Value;
    /// What it is called in errors.
    const WHAT: &'static str;
    fn of(handle: Handle<Self::Value>) -> Self;
    fn handle(&self) -> &Handle<Self::Value>;
    fn handle_mut(&mut self) -> &mut Handle<Self::Value>;
}

/// Makes a structure of one field, a handle, opaque.
macro_rules! opaque {
    ($name:ident, $value:ty, $what:literal) => {
        impl crate::handle::Opaque for $name {
            type Value = $value;
            const WHAT: &'static str = $what;
            fn of(handle: crate::handle::Handle<$value>) -> $name {
                $name(handle)
            }
            fn handle(&self) -> &crate::handle::Handle<$value> {
                &self.0
            }
            fn handle_mut(&mut self) -> &mut crate::handle::Handle<$value> {
                &mut self.0
            }
        }
    };
}
pub(crate) use opaque;

/// The handles that one process has open.
struct Open {
    process: u64,
    at: Mutex<BTreeSet<usize>>,
}

/// Those of this process. A child makes its own: it may have inherited a lock that nobody will ever let go of.
static OPEN: AtomicPtr<Open> = AtomicPtr::new(null_mut());

impl Open {
    fn here() -> &'static Open {
        let process = process::number();
        let first = OPEN.load(Ordering::Acquire);
        // SAFETY: whatever is there stays for ever.
        if let Some(open) = unsafe { first.as_ref() }.filter(|open| open.process == process) {
            return open;
        }
        // What a parent or a thread that was second leaves behind is a few bytes.
        let new = Box::into_raw(Box::new(Open { process, at: Mutex::default() }));
        let there = match OPEN.compare_exchange(first, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => new,
            Err(other) => other,
        };
        // SAFETY: as above, and not null.
        unsafe { &*there }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts a value behind a new handle.
pub(crate) fn open<H: Opaque>(value: H::Value) -> *mut H {
    let handle =
        Handle { process: process::number(), is_busy: AtomicBool::new(false), value: ManuallyDrop::new(value.into()) };
    let at = Box::into_raw(Box::new(H::of(handle)));
    Open::here().lock().insert(at as usize);
    at
}

fn not_here(what: &str) -> Failure {
    Failure::new(
        CIPHERMILL_FORKED,
        format!("the {what} belongs to the process that this one was forked from; open one of your own"),
    )
}

/// # Safety
/// If the pointer is not null, it is an open handle of its type.
unsafe fn of<'a, H: Opaque + 'a>(at: *const H) -> Result<&'a Handle<H::Value>, Failure> {
    if at.is_null() || !at.is_aligned() {
        return Err(Failure::misuse(format!("the {} is no handle", H::WHAT)));
    }
    // SAFETY: neither null nor unaligned, and open by the caller. Nobody has it exclusively but `close`.
    let handle = unsafe { &*at }.handle();
    if handle.process == process::number() { Ok(handle) } else { Err(not_here(H::WHAT)) }
}

/// The value of a handle that any number of threads may use at the same time.
///
/// # Errors
/// `MISUSE` for a null pointer, `FORKED` in another process.
///
/// # Safety
/// If the pointer is not null, it is an open handle of its type, and stays so while the result is in use.
#[inline]
pub(crate) unsafe fn shared<'a, H: Opaque<Value: Sync> + 'a>(at: *const H) -> Result<&'a H::Value, Failure> {
    // SAFETY: by the caller.
    let handle = unsafe { of(at) }?;
    // SAFETY: handles that are shared are never used exclusively, but by `close`.
    Ok(unsafe { &*handle.value.get() })
}

/// The value of a handle that one thread at a time may use.
///
/// # Errors
/// `MISUSE` for a null pointer, `FORKED` in another process, `BUSY` while another thread uses it.
///
/// # Safety
/// As for [`shared`].
#[inline]
pub(crate) unsafe fn exclusive<'a, H: Opaque<Value: Send> + 'a>(
    at: *const H,
) -> Result<Exclusive<'a, H::Value>, Failure> {
    // SAFETY: by the caller.
    let handle = unsafe { of(at) }?;
    if handle.is_busy.swap(true, Ordering::Acquire) {
        return Err(Failure::new(CIPHERMILL_BUSY, format!("another thread is using the {}", H::WHAT)));
    }
    Ok(Exclusive(handle))
}

/// A value that the caller has alone, until this is dropped.
pub(crate) struct Exclusive<'a, T>(&'a Handle<T>);

impl<T> Deref for Exclusive<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `is_busy` was false, so that nobody else has it.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Exclusive<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Exclusive<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.is_busy.store(false, Ordering::Release);
    }
}

/// Closes a handle. Null is none, and closing it does nothing.
///
/// # Errors
/// `MISUSE` for what is not open (any more), `FORKED` in another process, `BUSY` while another thread uses it; nothing is
/// closed then.
///
/// # Safety
/// If the pointer is an open handle, it is one of its type, and nobody uses a shared one meanwhile or later.
pub(crate) unsafe fn close<H: Opaque>(at: *mut H) -> Result<(), Failure> {
    if at.is_null() {
        return Ok(());
    }
    let is_parents = {
        let open = OPEN.load(Ordering::Acquire);
        // SAFETY: whatever is there stays for ever.
        unsafe { open.as_ref() }.is_some_and(|open| open.process != process::number())
    };
    if is_parents {
        return Err(not_here(H::WHAT));
    }
    let mut open = Open::here().lock();
    if !open.contains(&(at as usize)) {
        let text = format!("the {} is not open in this process; it has been closed before, or by the parent", H::WHAT);
        return Err(Failure::misuse(text));
    }
    // SAFETY: it is open, so that it is there.
    if unsafe { &*at }.handle().is_busy.swap(true, Ordering::Acquire) {
        return Err(Failure::new(CIPHERMILL_BUSY, format!("another thread is using the {}", H::WHAT)));
    }
    open.remove(&(at as usize));
    drop(open);
    // SAFETY: `open` has made it, nobody else has taken it out of the set, and nobody uses it any more.
    let mut closed = unsafe { Box::from_raw(at) };
    // SAFETY: dropped once, here.
    unsafe { ManuallyDrop::drop(&mut closed.handle_mut().value) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::CIPHERMILL_MISUSE;

    struct Number(Handle<u32>);

    opaque!(Number, u32, "number");

    fn status<T>(result: Result<T, Failure>) -> Option<i32> {
        result.err().map(|failure| failure.status)
    }

    #[test]
    fn a_handle_in_use_is_neither_used_twice_nor_closed() {
        let at = open::<Number>(7);
        // SAFETY: open until it is closed below.
        unsafe {
            let mut first = exclusive(at).unwrap();
            *first += 1;
            assert_eq!(status(exclusive(at)), Some(CIPHERMILL_BUSY));
            assert_eq!(status(close(at)), Some(CIPHERMILL_BUSY));
            drop(first);
            assert_eq!(*exclusive(at).unwrap(), 8);
            close(at).unwrap();
            assert_eq!(status(close(at)), Some(CIPHERMILL_MISUSE));
            assert_eq!(status(exclusive(null_mut::<Number>())), Some(CIPHERMILL_MISUSE));
        }
    }

    #[test]
    fn a_handle_is_let_go_of_when_its_user_panics() {
        let at = open::<Number>(7);
        let panicked = crate::entry::entry(|| {
            // SAFETY: open until it is closed below.
            let _held = unsafe { exclusive(at) }?;
            panic!("while it is held");
        });
        assert_eq!(panicked, crate::failure::CIPHERMILL_PANICKED);
        // SAFETY: open, and used by nobody.
        unsafe { close(at) }.unwrap();
    }
}
