//! Faults that tests inject into what kernels compute, to see that no result with one leaves. Other builds have none of it.

use curve25519_dalek::scalar::Scalar;

use super::room::Place;
use super::vectors::Vectors;

/// Numbers of all lanes, at a stage of an operation.
#[cfg(test)]
pub(super) fn spoil<I: Vectors>(numbers: Place<I>) {
    inject(|fault| {
        if fault.lane < I::LANES {
            let limb = fault.limb % numbers.limbs();
            numbers.set_lane(fault.lane, limb, numbers.lane(fault.lane, limb) ^ fault.bits);
        }
    });
}

#[cfg(not(test))]
#[inline(always)]
pub(super) fn spoil<I: Vectors>(_: Place<I>) {}

/// Scalars of Ed25519, one behind the other, at a stage of an operation; limbs are their bytes.
#[cfg(test)]
pub(super) fn spoil_scalars(scalars: &mut [Scalar]) {
    inject(|fault| {
        if let Some(scalar) = scalars.get_mut(fault.lane) {
            let mut bytes = scalar.to_bytes();
            bytes[fault.limb % 32] ^= fault.bits as u8;
            *scalar = Scalar::from_bytes_mod_order(bytes);
        }
    });
}

#[cfg(not(test))]
#[inline(always)]
pub(super) fn spoil_scalars(_: &mut [Scalar]) {}

#[cfg(test)]
pub(super) use injected::*;

#[cfg(test)]
mod injected {
    use core::cell::Cell;

    /// The stage that is spoiled, the lane, the limb, and the bits that flip in it.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Fault {
        pub(in super::super) stage: usize,
        pub(in super::super) lane: usize,
        pub(in super::super) limb: usize,
        pub(in super::super) bits: u64,
    }

    thread_local! {
        /// What is to be spoiled, and how many stages have passed.
        static NEXT: Cell<Option<(Fault, usize)>> = const { Cell::new(None) };
    }

    /// Does something with a fault, and says through how many stages it went.
    pub(in super::super) fn with_fault<T>(fault: Fault, run: impl FnOnce() -> T) -> (T, usize) {
        NEXT.set(Some((fault, 0)));
        let out = run();
        (out, NEXT.take().map_or(0, |(_, passed)| passed))
    }

    /// Passes a stage; `spoil` is called if it is the fault's.
    pub(in super::super) fn inject(spoil: impl FnOnce(&Fault)) {
        let Some((fault, stage)) = NEXT.get() else { return };
        if fault.stage == stage {
            spoil(&fault);
        }
        NEXT.set(Some((fault, stage + 1)));
    }
}
