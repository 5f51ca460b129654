//! Contexts that are kept with a key although they are used by queues, without a lock.
//!
//! Every queue holds a token, a small number that no other queue of the process holds at the same time. A key has one
//! cell for each token and direction; only the queue with that token touches it. So a queue finds its context with one
//! index, and the contexts die with the key.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

use ciphermill_contract::{Direction, Error, Result};

/// Queues of all peers with kept contexts together that may be open at the same time.
pub const QUEUES_MAX: usize = 32;

const _: () = assert!(QUEUES_MAX == u32::BITS as usize);

static TAKEN: AtomicU32 = AtomicU32::new(0);

/// A number below [`QUEUES_MAX`] that its holder has alone.
#[derive(Debug)]
pub(crate) struct Token(usize);

impl Token {
    /// Takes the lowest free token.
    pub(crate) fn take() -> Result<Token> {
        let mut taken = TAKEN.load(Ordering::Relaxed);
        loop {
            let free = taken.trailing_ones();
            if free == u32::BITS {
                return Err(Error::exhausted("QUEUES_MAX", QUEUES_MAX, QUEUES_MAX + 1));
            }
            // Acquire pairs with the release in `drop`: what the last holder did to its cells is seen by the next.
            match TAKEN.compare_exchange_weak(taken, taken | 1 << free, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(Token(free as usize)),
                Err(now) => taken = now,
            }
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        TAKEN.fetch_and(!(1 << self.0), Ordering::Release);
    }
}

type Cell<T> = UnsafeCell<Option<Box<T>>>;

/// One place for each token and direction.
pub(crate) struct Cells<T>(Box<[[Cell<T>; 2]; QUEUES_MAX]>);

// SAFETY: a cell is reached through `&mut Token` only, and each token has one holder at a time, in the whole process;
// the token's release and acquire order one holder's accesses before the next one's. `T: Send` lets the contents move
// between those holders' threads and to the thread that drops the key.
unsafe impl<T: Send> Sync for Cells<T> {}

impl<T> Cells<T> {
    /// Empty cells.
    pub(crate) fn new() -> Cells<T> {
        Cells(Box::new(std::array::from_fn(|_| [const { UnsafeCell::new(None) }, const { UnsafeCell::new(None) }])))
    }

    /// The contents of the token's cell, made by `make` when there are none yet.
    #[inline]
    pub(crate) fn reach<'c>(
        &'c self,
        token: &'c mut Token,
        direction: Direction,
        make: impl FnOnce() -> Option<T>,
    ) -> Option<&'c mut T> {
        let cell = self.0[token.0][direction as usize].get();
        // SAFETY: the token is held exclusively for as long as the result lives, and no other token leads to this cell.
        let cell = unsafe { &mut *cell };
        if cell.is_none() {
            *cell = Some(Box::new(make()?));
        }
        cell.as_deref_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_distinct_and_come_back() {
        let a = Token::take().unwrap();
        let b = Token::take().unwrap();
        assert_ne!(a.0, b.0);
        let place = b.0;
        assert_eq!(TAKEN.load(Ordering::Relaxed) >> place & 1, 1);
        drop(b);
        // Other tests take tokens too, so only the own one is looked at.
        drop(a);
    }

    #[test]
    fn a_cell_is_filled_once_for_each_direction() {
        let cells = Cells::new();
        let mut token = Token::take().unwrap();
        *cells.reach(&mut token, Direction::Encrypt, || Some(1)).unwrap() += 1;
        assert_eq!(cells.reach(&mut token, Direction::Encrypt, || Some(7)), Some(&mut 2));
        assert_eq!(cells.reach(&mut token, Direction::Decrypt, || Some(7)), Some(&mut 7));
        let mut other = Token::take().unwrap();
        assert_eq!(cells.reach(&mut other, Direction::Encrypt, || None), None);
    }
}
