//! [`Erased`]: a value on the heap whose type is known only to whoever asks for it.
//!
//! `Box<dyn Any>` does the same, but asks by a call through the type's table, in a kernel's loop, where every vector register
//! is saved before: with a key of its own for each operation that took 2 to 4 ns, a fifth of AES-CBC on 8 to 80 bytes. Here
//! the type's number is compared as it lies.
//!
//! Values lie in a pool of their own, in few pages.
//!
//! A crate of its own, so that the contract above it stays without unsafe code.
#![allow(unsafe_code, reason = "a pointer whose type was compared becomes a reference; memory for values")]

mod pool;

use core::alloc::Layout;
use core::any::{Any, TypeId};
use core::marker::PhantomData;
use core::ptr::NonNull;

/// A value of any type that threads may share.
pub struct Erased {
    /// A value of the type that `of` tells, in the pool, or a box that was let go of.
    value: NonNull<()>,
    of: &'static Type,
    /// What a box would say of itself: not that a panic leaves the value in order.
    owned: PhantomData<Box<dyn Any + Send + Sync>>,
}

/// What is known of a type.
struct Type {
    id: TypeId,
    /// Drops a value of it.
    drop: unsafe fn(NonNull<()>),
}

/// Where each type's own [`Type`] is.
struct Of<T>(PhantomData<T>);

impl<T: Any> Of<T> {
    const TYPE: Type = Type { id: TypeId::of::<T>(), drop: end::<T> };
}

/// Brings a value to where it stays.
fn begin<T>(value: T) -> NonNull<T> {
    if const { !pool::holds(Layout::new::<T>()) } {
        return NonNull::from(Box::leak(Box::new(value)));
    }
    let place = pool::take(Layout::new::<T>()).cast::<T>();
    // SAFETY: memory of the type's layout that nobody else has.
    unsafe { place.write(value) };
    place
}

/// # Safety
/// `value` was made by [`begin`], and is not used afterwards.
unsafe fn end<T>(value: NonNull<()>) {
    /// Gives the memory back, even if dropping panics.
    struct GivesBack<T>(NonNull<T>);
    impl<T> Drop for GivesBack<T> {
        fn drop(&mut self) {
            // SAFETY: it came from the pool, and its value is gone.
            unsafe { pool::give_back(self.0.cast(), Layout::new::<T>()) };
        }
    }
    let value = value.cast::<T>();
    // SAFETY: the caller's promise.
    unsafe {
        if const { !pool::holds(Layout::new::<T>()) } {
            drop(Box::from_raw(value.as_ptr()));
        } else {
            let _gives_back = GivesBack(value);
            value.drop_in_place();
        }
    }
}

// SAFETY: a value is taken in only when its type may be sent to other threads and shared by them.
unsafe impl Send for Erased {}
// SAFETY: as above.
unsafe impl Sync for Erased {}

impl Erased {
    /// Takes a value in.
    pub fn new<T: Any + Send + Sync>(value: T) -> Erased {
        let value = begin(value).cast();
        Erased { value, of: &Of::<T>::TYPE, owned: PhantomData }
    }

    /// The value, when it is a `T`.
    #[inline(always)]
    pub fn get<T: Any>(&self) -> Option<&T> {
        // SAFETY: its type is `T`; it lives as long as this does, and nobody changes it.
        (self.of.id == TypeId::of::<T>()).then(|| unsafe { self.value.cast::<T>().as_ref() })
    }
}

impl Erased {
    /// As [`Erased::get`], by a comparison less where values of the type were seen before.
    #[inline(always)]
    pub fn get_known<T: Any>(&self, known: &mut Known<T>) -> Option<&T> {
        let of = core::ptr::from_ref(self.of);
        if known.of == of {
            // SAFETY: as in `get`: a value that was told to be a `T` had this type.
            return Some(unsafe { self.value.cast::<T>().as_ref() });
        }
        let value = self.get::<T>()?;
        known.of = of;
        Some(value)
    }
}

/// The type `T` as values had it that were seen before. It stays where it is until the program ends.
pub struct Known<T> {
    of: *const Type,
    is: PhantomData<fn() -> T>,
}

impl<T> Default for Known<T> {
    fn default() -> Known<T> {
        Known { of: core::ptr::null(), is: PhantomData }
    }
}

impl Drop for Erased {
    fn drop(&mut self) {
        // SAFETY: made by `begin`, and `end` is told the same type.
        unsafe { (self.of.drop)(self.value) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[repr(align(64))]
    struct Wide(u8);

    #[test]
    fn a_value_is_reached_by_its_own_type_only() {
        let word = Erased::new(7u32);
        assert_eq!(word.get::<u32>(), Some(&7));
        assert_eq!((word.get::<i32>(), word.get::<u64>(), word.get::<Erased>().is_none()), (None, None, true));
        assert_eq!(Erased::new(String::from("text")).get::<String>().map(String::as_str), Some("text"));
        assert_eq!(
            Erased::new(Wide(3)).get::<Wide>().map(|wide| (wide.0, core::ptr::from_ref(wide).addr() % 64)),
            Some((3, 0))
        );
        assert_eq!(Erased::new(()).get::<()>(), Some(&()));
    }

    #[test]
    fn what_is_known_of_one_type_says_nothing_of_others() {
        let (first, second, other) = (Erased::new(7u32), Erased::new(8u32), Erased::new(9i32));
        let (mut numbers, mut others) = (Known::<u32>::default(), Known::<i32>::default());
        for _ in 0..2 {
            assert_eq!((first.get_known(&mut numbers), second.get_known(&mut numbers)), (Some(&7), Some(&8)));
            assert_eq!((other.get_known(&mut numbers), first.get_known(&mut others)), (None, None));
            assert_eq!(other.get_known(&mut others), Some(&9));
        }
    }

    #[test]
    fn a_value_is_dropped_once_and_on_any_thread() {
        let count = Arc::new(());
        let erased = Erased::new((count.clone(), [0u64; 9]));
        assert_eq!(Arc::strong_count(&count), 2);
        std::thread::spawn(move || assert!(erased.get::<(Arc<()>, [u64; 9])>().is_some())).join().unwrap();
        assert_eq!(Arc::strong_count(&count), 1);
    }
}
