//! The replay window (RFC 4303, 3.4.3; RFC 6479 for windows of any size), and what the high half of an extended sequence number is
//! (RFC 4303, appendix A2.2).

use crate::limits::{REPLAY_WINDOW_MAX, REPLAY_WINDOW_MIN};

/// Which sequence numbers came, of the last ones.
///
/// Looked at twice: before a packet's ICV is verified, so that what is old costs nothing, and when it is accepted, so that of two equal
/// packets in a burst one is.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    /// Numbers that it looks back; none when the peer may repeat packets.
    size: u32,
    /// The highest number that was accepted; none was, when it is zero.
    top: u64,
    /// A bit a number, a word for 64 of them in a ring. One word more than the window has, so that words can be cleared as a whole.
    seen: Box<[u64]>,
}

/// What a replay window says of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has not been there.
    New,
    /// It has been there.
    Replayed,
    /// It is older than the window.
    Old,
}

impl ReplayWindow {
    /// A window of `size` numbers, a multiple of 64 between [`REPLAY_WINDOW_MIN`] and [`REPLAY_WINDOW_MAX`], that has seen nothing. With no
    /// size, nothing is ever refused.
    pub fn new(size: u32) -> Option<ReplayWindow> {
        let is_size = (REPLAY_WINDOW_MIN..=REPLAY_WINDOW_MAX).contains(&size) && size.is_multiple_of(64);
        if size != 0 && !is_size {
            return None;
        }
        let words = if size == 0 { 0 } else { (size as usize / 64 + 1).next_power_of_two() };
        Some(ReplayWindow { size, top: 0, seen: vec![0; words].into() })
    }

    /// A window that behaves as if everything up to `top` had been accepted.
    #[must_use]
    pub fn starting_at(mut self, top: u64) -> ReplayWindow {
        self.top = top;
        self.seen.fill(u64::MAX);
        if self.size != 0 {
            // Of the last word, those behind it are still to come.
            *self.word_mut(top) = u64::MAX >> (63 - top % 64);
        }
        self
    }

    /// The highest number that was accepted.
    pub fn top(&self) -> u64 {
        self.top
    }

    /// Numbers that it looks back.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// What it says of a number. Changes nothing.
    #[inline]
    pub fn look(&self, number: u64) -> Verdict {
        if self.size == 0 || number > self.top {
            return if number == 0 { Verdict::Old } else { Verdict::New };
        }
        // RFC 4303, 3.3.3: the first packet has number one.
        if number == 0 || self.top - number >= u64::from(self.size) {
            return Verdict::Old;
        }
        if self.word(number) >> (number % 64) & 1 == 1 { Verdict::Replayed } else { Verdict::New }
    }

    /// The same of a number whose packet was authentic; a new one has been there from now on.
    #[inline]
    pub fn accept(&mut self, number: u64) -> Verdict {
        let verdict = self.look(number);
        if verdict != Verdict::New || self.size == 0 {
            return verdict;
        }
        if number > self.top {
            let (from, to) = (self.top / 64, number / 64);
            let words = self.seen.len() as u64;
            // What the window leaves behind is cleared; a jump farther than the ring clears all of it.
            for word in from + 1..=to.min(from + words) {
                *self.word_mut(word * 64) = 0;
            }
            self.top = number;
        }
        *self.word_mut(number) |= 1 << (number % 64);
        verdict
    }

    /// The whole number whose low half is `low`: the one nearest to the window (RFC 4303, A2.2). `None` where that would lie before the first
    /// or behind the last number that there is.
    #[inline]
    pub fn extend(&self, low: u32) -> Option<u64> {
        let (top_low, top_high) = (self.top as u32, (self.top >> 32) as u32);
        // The window's lowest number; it may lie in the subspace before, below zero in the first.
        let bottom = self.top.wrapping_sub(u64::from(self.size.max(1)) - 1) as u32;
        let high = if top_low >= self.size.max(1) - 1 {
            if low >= bottom { Some(top_high) } else { top_high.checked_add(1) }
        } else if low >= bottom {
            top_high.checked_sub(1)
        } else {
            Some(top_high)
        };
        high.map(|high| u64::from(high) << 32 | u64::from(low))
    }

    #[inline]
    fn word(&self, number: u64) -> u64 {
        self.seen[(number / 64) as usize & (self.seen.len() - 1)]
    }

    #[inline]
    fn word_mut(&mut self, number: u64) -> &mut u64 {
        &mut self.seen[(number / 64) as usize & (self.seen.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// What the window promises, plainly.
    fn plain(seen: &BTreeSet<u64>, size: u32, number: u64) -> Verdict {
        let top = seen.last().copied().unwrap_or(0);
        match number {
            0 => Verdict::Old,
            _ if number <= top && top - number >= u64::from(size) => Verdict::Old,
            _ if seen.contains(&number) => Verdict::Replayed,
            _ => Verdict::New,
        }
    }

    proptest! {
        #[test]
        fn every_number_is_accepted_once_within_the_window(
            words in 1u32..=64,
            steps in prop::collection::vec((0u64..3, 0u64..6000), 1..400),
        ) {
            let size = words * 64;
            let mut window = ReplayWindow::new(size).expect("a size");
            let mut seen = BTreeSet::new();
            for (kind, step) in steps {
                let top = window.top();
                let number = match kind {
                    0 => top + step % 5,
                    1 => top.saturating_sub(step % (u64::from(size) + 10)),
                    _ => top + step,
                };
                let expected = plain(&seen, size, number);
                prop_assert_eq!(window.look(number), expected);
                prop_assert_eq!(window.accept(number), expected);
                if expected == Verdict::New {
                    seen.insert(number);
                }
            }
        }

        #[test]
        fn the_high_half_is_that_of_the_nearest_number(top in 0u64..1 << 40, words in 1u32..=64, by in -4000i64..1 << 20) {
            let size = words * 64;
            let window = ReplayWindow::new(size).expect("a size").starting_at(top);
            let Some(number) = top.checked_add_signed(by) else { return Ok(()) };
            if by > -i64::from(size) {
                prop_assert_eq!(window.extend(number as u32), Some(number));
            }
        }
    }

    #[test]
    fn a_window_that_starts_late_has_seen_what_lies_before_and_nothing_behind() {
        let mut window = ReplayWindow::new(64).expect("a size").starting_at(1000);
        assert_eq!(
            (window.look(1000), window.look(937), window.look(936)),
            (Verdict::Replayed, Verdict::Replayed, Verdict::Old)
        );
        assert_eq!(window.accept(1010), Verdict::New);
        assert_eq!((1001..1010).map(|number| window.accept(number)).collect::<Vec<_>>(), [Verdict::New; 9]);
        assert_eq!(window.accept(1010), Verdict::Replayed);
    }

    #[test]
    fn sizes_are_multiples_of_a_word_within_the_limits() {
        for size in [1, 32, 63, 65, 4160, u32::MAX] {
            assert!(ReplayWindow::new(size).is_none(), "{size}");
        }
        for size in [0, 64, 128, 4096] {
            assert_eq!(ReplayWindow::new(size).map(|window| window.size()), Some(size));
        }
    }

    #[test]
    fn before_the_first_subspace_there_is_nothing() {
        let window = ReplayWindow::new(64).expect("a size").starting_at(10);
        assert_eq!(window.extend(u32::MAX), None);
        assert_eq!(window.extend(5), Some(5));
        let end = ReplayWindow::new(64).expect("a size").starting_at(u64::MAX - 1);
        assert_eq!(end.extend(0), None, "the number of numbers is 2^64");
        assert_eq!(end.extend(u32::MAX), Some(u64::MAX));
    }

    #[test]
    fn without_a_window_all_is_new_but_the_number_zero() {
        let mut window = ReplayWindow::new(0).expect("none");
        assert_eq!((window.accept(5), window.accept(5), window.accept(0)), (Verdict::New, Verdict::New, Verdict::Old));
    }
}
