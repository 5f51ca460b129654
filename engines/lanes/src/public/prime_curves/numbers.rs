//! Numbers of one size in a queue's memory, which is wiped behind each batch.

use super::super::isa::Vectors;
use super::super::room::{Open, Place};
use super::super::unrolled::{filled, unrolled};

/// Groups of operations, one a lane, that share inversions.
pub(super) const GROUPS_MAX: usize = 4;

/// A number a lane: limb `i` of all lanes is one vector.
pub(super) type Number<I, const L: usize> = [<I as Vectors>::V; L];

/// Numbers of `L` limbs, one a lane, one behind the other.
pub(super) struct Numbers<I: Vectors, const L: usize>(Place<I>);

impl<I: Vectors, const L: usize> Clone for Numbers<I, L> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<I: Vectors, const L: usize> Copy for Numbers<I, L> {}

impl<I: Vectors, const L: usize> Numbers<I, L> {
    /// Takes `count` numbers of a room, all zero.
    pub(super) fn take(room: &mut Open<'_, I>, count: usize) -> Numbers<I, L> {
        Numbers(room.number(count * L))
    }

    /// The numbers from `first` on, `count` of them.
    #[inline(always)]
    pub(super) fn part(self, first: usize, count: usize) -> Numbers<I, L> {
        Numbers(self.0.part(first * L, count * L))
    }

    /// A number.
    #[inline(always)]
    pub(super) fn get(self, isa: I, index: usize) -> Number<I, L> {
        filled!(i < L, isa.splat(0), self.0.get(isa, index * L + i))
    }

    /// One limb of a number.
    #[inline(always)]
    pub(super) fn limb(self, isa: I, index: usize, limb: usize) -> I::V {
        self.0.get(isa, index * L + limb)
    }

    /// Sets a number.
    #[inline(always)]
    pub(super) fn set(self, isa: I, index: usize, number: &Number<I, L>) {
        unrolled!(i < L => {
            self.0.set(isa, index * L + i, number[i]);
        });
    }

    /// One lane's number.
    #[inline(always)]
    pub(super) fn lane(self, index: usize, lane: usize) -> [u64; L] {
        core::array::from_fn(|i| self.0.lane(lane, index * L + i))
    }

    /// Sets one lane's number.
    #[inline(always)]
    pub(super) fn set_lane(self, index: usize, lane: usize, limbs: &[u64; L]) {
        self.0.part(index * L, L).set_number(lane, limbs);
    }
}

/// Group, lane and operation of every lane of the groups that a few operations fill. Lanes without an operation repeat the
/// first one.
pub(super) fn slots<I: Vectors, T>(jobs: &[T]) -> impl Iterator<Item = (usize, usize, &T)> {
    let slot = |at| (at / I::LANES, at % I::LANES, jobs.get(at).unwrap_or(&jobs[0]));
    (0..jobs.len().next_multiple_of(I::LANES)).map(slot)
}
