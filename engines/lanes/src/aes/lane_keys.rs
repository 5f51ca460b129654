//! A key for each lane: round keys of up to sixteen messages, transposed, so that one load brings those of a whole
//! vector of lanes.

use core::arch::x86_64::*;

use super::isa::{Blocks, Isa};
use super::schedule::{ROUND_KEYS_MAX, Schedule};

/// Lanes of a table. With 512-bit vectors four of them keep the AES unit busy: a latency of three cycles at one a cycle.
pub(crate) const LANES: usize = 16;

/// Round keys by round, then by lane. Sixty cache lines.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct LaneKeys {
    rows: [[[u8; 16]; LANES]; ROUND_KEYS_MAX],
}

impl Default for LaneKeys {
    fn default() -> LaneKeys {
        LaneKeys { rows: [[[0; 16]; LANES]; ROUND_KEYS_MAX] }
    }
}

impl LaneKeys {
    /// Gives a lane its key; `ROUNDS` is the schedule's number of rounds.
    #[inline(always)]
    pub(crate) fn set<const ROUNDS: usize>(&mut self, lane: usize, schedule: &Schedule) {
        debug_assert_eq!(ROUNDS, schedule.rounds());
        debug_assert!(lane < LANES);
        let first = self.rows.as_mut_ptr().cast::<[u8; 16]>();
        // An inclusive range would not be unrolled.
        for round in 0..ROUNDS + 1 {
            // SAFETY: `round` is below the number of rows, and callers' lanes are below `LANES` (masked to be sure).
            unsafe { _mm_store_si128(first.add(round * LANES + lane % LANES).cast(), schedule.key(round)) };
        }
    }

    /// Gives lane `to` the key of lane `from`.
    #[inline(always)]
    pub(crate) fn copy<const ROUNDS: usize>(&mut self, from: usize, to: usize) {
        for row in &mut self.rows[..=ROUNDS] {
            row[to % LANES] = row[from % LANES];
        }
    }

    /// The round keys of the lanes of one vector: `vector` counts vectors, not lanes.
    #[inline(always)]
    pub(crate) fn load<I: Isa>(&self, isa: I, round: usize, vector: usize) -> I::V {
        assert!(round < ROUND_KEYS_MAX && (vector + 1) * I::LEN <= LANES);
        // SAFETY: within the row, as just checked; with constant arguments the check costs nothing.
        unsafe { isa.load(self.rows.as_ptr().cast::<[u8; 16]>().add(round * LANES + vector * I::LEN).cast()) }
    }

    /// The same; `ALIKE`: all lanes have one key, and the first vector's row serves all.
    #[inline(always)]
    pub(crate) fn load_of<I: Isa, const ALIKE: bool>(&self, isa: I, round: usize, vector: usize) -> I::V {
        self.load(isa, round, if ALIKE { 0 } else { vector })
    }

    /// Encrypts `N` vectors of blocks, each lane under its own key, or all under one (`ALIKE`); the first round key has been added already.
    #[inline(always)]
    pub(crate) fn encrypt_whitened<I: Isa, const N: usize, const ROUNDS: usize, const ALIKE: bool>(
        &self,
        isa: I,
        blocks: &mut [I::V; N],
    ) {
        for round in 1..ROUNDS {
            for (i, block) in blocks.iter_mut().enumerate() {
                *block = block.aes_enc(self.load_of::<I, ALIKE>(isa, round, i));
            }
        }
        for (i, block) in blocks.iter_mut().enumerate() {
            *block = block.aes_enc_last(self.load_of::<I, ALIKE>(isa, ROUNDS, i));
        }
    }

    /// Forgets the keys of all lanes, as far as schedules of `rounds` rounds reach.
    pub(crate) fn wipe(&mut self, rounds: usize) {
        for key in self.rows[..=rounds.min(ROUND_KEYS_MAX - 1)].as_flattened_mut() {
            // SAFETY: a place of our own, 16 bytes, aligned to them; SSE2 is part of x86-64. Volatile writes are not
            // dropped.
            unsafe { core::ptr::write_volatile(core::ptr::from_mut(key).cast::<__m128i>(), _mm_setzero_si128()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::isa::{AesKernel, aes_kernels};
    use super::*;

    aes_kernels! {
        fn check(schedules: &[Schedule], out: &mut [[u8; 16]; LANES]) = check_on
    }

    #[inline(always)]
    fn check_on<I: Isa>(isa: I, schedules: &[Schedule], out: &mut [[u8; 16]; LANES]) {
        let mut keys = LaneKeys::default();
        for (lane, schedule) in schedules.iter().enumerate() {
            keys.set::<10>(lane, schedule);
        }
        keys.copy::<10>(1, 3);
        let mut blocks = [isa.splat_bytes(&[0x33; 16]); 4];
        for (vector, block) in blocks.iter_mut().enumerate() {
            *block = block.xor(keys.load(isa, 0, vector));
        }
        keys.encrypt_whitened::<I, 4, 10, false>(isa, &mut blocks);
        for (i, block) in blocks.iter().enumerate() {
            // SAFETY: four vectors have at most sixteen blocks.
            unsafe { block.store(out.as_mut_ptr().add(i * I::LEN).cast()) };
        }
        keys.wipe(10);
        assert!(keys.rows.iter().flatten().flatten().all(|byte| *byte == 0));
    }

    #[test]
    fn every_lane_has_its_own_key() {
        for name in AesKernel::NAMES {
            let Some(kernel) = AesKernel::detect(name) else { continue };
            let schedules: Vec<Schedule> =
                (0..LANES).map(|lane| Schedule::new(kernel, &[lane as u8; 16]).expect("a key")).collect();
            let mut got = [[0; 16]; LANES];
            check(kernel, &schedules, &mut got);
            let lanes = if *name == "aesni" {
                4
            } else if *name == "vaes256" {
                8
            } else {
                16
            };
            for (lane, block) in got.iter().enumerate().take(lanes) {
                let mut expected = [[0; 16]; 4];
                one(kernel, &schedules[if lane == 3 { 1 } else { lane }], &mut expected);
                assert_eq!(*block, expected[0], "{name} lane {lane}");
            }
        }
    }

    aes_kernels! {
        fn one(schedule: &Schedule, out: &mut [[u8; 16]; 4]) = one_on
    }

    #[inline(always)]
    fn one_on<I: Isa>(isa: I, schedule: &Schedule, out: &mut [[u8; 16]; 4]) {
        let mut blocks = [isa.splat_bytes(&[0x33; 16])];
        schedule.encrypt(isa, &mut blocks);
        // SAFETY: a vector has at most four blocks.
        unsafe { blocks[0].store(out.as_mut_ptr().cast()) };
    }
}
