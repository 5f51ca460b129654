//! Overwriting that the compiler may not leave out.

/// Overwrites `bytes` with zeros, even when nothing reads them afterwards.
///
/// Runs at the speed of `memset`; `explicit_bzero(3)` is the C library's promise that the stores stay.
pub fn wipe(bytes: &mut [u8]) {
    // SAFETY: the pointer and the length come from one exclusive slice, so the whole range is writable.
    unsafe { libc::explicit_bzero(bytes.as_mut_ptr().cast(), bytes.len()) }
}

/// Makes room for so many more things in a vector of things with secrets in them. Where they lay before they moved is wiped, which `Vec` does not do.
#[inline]
pub fn reserve_wiped<T>(things: &mut Vec<T>, more: usize) {
    if things.capacity() - things.len() < more {
        grow_wiped(things, more);
    }
}

#[cold]
fn grow_wiped<T>(things: &mut Vec<T>, more: usize) {
    let room = things.len().saturating_add(more).max(2 * things.capacity()).max(4);
    let mut before = core::mem::replace(things, Vec::with_capacity(room));
    things.append(&mut before);
    let left = before.spare_capacity_mut();
    // SAFETY: the room of a vector that has nothing in it any more, which may hold any bytes.
    unsafe { libc::explicit_bzero(left.as_mut_ptr().cast(), size_of_val(left)) };
}

/// Takes a thing with secrets in it out of its place, which is wiped: a move alone leaves its bytes there.
pub fn take_wiped<T>(place: &mut Option<T>) -> Option<T> {
    let taken = place.take();
    let place = core::ptr::from_mut(place);
    // SAFETY: the exclusive place of a `None`, which has nothing to drop, and is one again when anybody sees it.
    unsafe {
        libc::explicit_bzero(place.cast(), size_of::<Option<T>>());
        place.write(None);
    }
    taken
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn things_move_to_more_room_in_their_order() {
        let mut things = Vec::new();
        for number in 0..100 {
            let more = number % 3 + 1;
            reserve_wiped(&mut things, more);
            let (room, first) = (things.capacity(), things.as_ptr());
            assert!(room >= things.len() + more);
            things.push(Some(Box::new(number)));
            // They have not moved where nobody wiped.
            assert_eq!((things.capacity(), things.as_ptr()), (room, first));
        }
        assert!(things.into_iter().flatten().map(|number| *number).eq(0..100));
    }

    #[test]
    fn nothing_of_what_was_taken_is_left_in_its_place() {
        let mut place = Some([0xa5_u8; 40]);
        assert_eq!(take_wiped(&mut place), Some([0xa5; 40]));
        let first = core::ptr::from_ref(&place).cast::<u8>();
        // SAFETY: within the place, all of whose bytes were overwritten.
        let left = |at: usize| unsafe { first.add(at).read_volatile() };
        assert!((0..size_of_val(&place)).all(|at| left(at) != 0xa5));
        assert_eq!(take_wiped(&mut place), None);
    }

    #[test]
    fn every_byte_is_zero_afterwards_and_no_neighbour_is() {
        let mut bytes = [0xa5_u8; 67];
        wipe(&mut bytes[1..66]);
        assert_eq!(bytes[0], 0xa5);
        assert_eq!(bytes[66], 0xa5);
        assert_eq!(bytes[1..66], [0; 65]);
        wipe(&mut []);
    }
}
