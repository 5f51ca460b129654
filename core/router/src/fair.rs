//! `FairClock`: whose work comes next, so that each client gets its share of the time however large its pieces are.
//!
//! Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996). Each piece of work has a start on a virtual clock: when the
//! client's piece before it ended there, or now, whichever is later. The piece with the earliest start is next, and the clock stands at
//! its start. A client that was idle begins now: it has saved nothing up. Work is nanoseconds as predicted, divided by the client's
//! weight.

/// Where a client stands on the virtual clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Turn {
    finish: f64,
}

impl Turn {
    /// The turn as bits, to be kept elsewhere; zero at first.
    #[inline]
    pub fn to_bits(self) -> u64 {
        self.finish.to_bits()
    }

    /// When the client's piece before ends on the virtual clock.
    #[inline]
    pub(crate) fn finish(self) -> f64 {
        self.finish
    }

    /// The turn of these bits.
    #[inline]
    pub fn from_bits(bits: u64) -> Turn {
        Turn { finish: f64::from_bits(bits) }
    }
}

/// The virtual clock of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FairClock {
    now: f64,
}

impl FairClock {
    /// When a client's next piece starts.
    #[inline]
    pub fn start(&self, turn: &Turn) -> f64 {
        turn.finish.max(self.now)
    }

    /// Serves a client's next piece, which is predicted to take `work_ns`. The weight is above zero.
    #[inline]
    pub fn serve(&mut self, turn: &mut Turn, work_ns: f64, weight: f64) {
        let start = self.start(turn);
        // A piece that rides along with another client's is served before its start: the clock does not wait for it.
        turn.finish = start + work_ns.max(1.0) / weight;
    }

    /// Moves the clock to the start of the piece that was chosen as the next.
    #[inline]
    pub fn advance(&mut self, start: f64) {
        self.now = self.now.max(start);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Serves clients that always have work, and returns the work that each has got.
    fn serve(pieces: &[f64], weights: &[f64], rounds: usize) -> Vec<f64> {
        let mut clock = FairClock::default();
        let mut turns = vec![Turn::default(); pieces.len()];
        let mut got = vec![0.0; pieces.len()];
        for _ in 0..rounds {
            let starts = turns.iter().map(|turn| clock.start(turn)).enumerate();
            let (next, start) = starts.min_by(|a, b| a.1.total_cmp(&b.1)).expect("a client");
            clock.advance(start);
            clock.serve(&mut turns[next], pieces[next], weights[next]);
            got[next] += pieces[next];
        }
        got
    }

    #[test]
    fn small_pieces_get_as_much_as_large_ones() {
        let got = serve(&[100_000.0, 100.0], &[1.0, 1.0], 100_100);
        assert!((got[0] / got[1] - 1.0).abs() < 0.02, "{got:?}");
    }

    #[test]
    fn weights_are_shares() {
        let got = serve(&[700.0, 300.0, 50.0], &[1.0, 2.0, 4.0], 100_000);
        assert!((got[1] / got[0] - 2.0).abs() < 0.05 && (got[2] / got[0] - 4.0).abs() < 0.05, "{got:?}");
    }

    #[test]
    fn who_was_idle_is_next_and_has_saved_nothing_up() {
        let mut clock = FairClock::default();
        let (mut busy, mut idle) = (Turn::default(), Turn::default());
        for _ in 0..1000 {
            clock.advance(clock.start(&busy));
            clock.serve(&mut busy, 1000.0, 1.0);
        }
        assert!(clock.start(&idle) < clock.start(&busy), "it is next");
        clock.advance(clock.start(&idle));
        clock.serve(&mut idle, 1000.0, 1.0);
        clock.advance(clock.start(&busy));
        clock.serve(&mut busy, 1000.0, 1.0);
        assert!(clock.start(&idle) + 1000.0 >= clock.start(&busy), "from then on in turns");
    }

    proptest! {
        /// Between clients that always have work, shares differ by no more than their largest pieces (theorem 1 of the paper).
        #[test]
        fn shares_differ_by_two_pieces(
            pieces in prop::collection::vec(1.0f64..1e6, 2..8),
            weights in prop::collection::vec(0.25f64..8.0, 8),
            rounds in 1usize..2000,
        ) {
            let got = serve(&pieces, &weights, rounds);
            for a in 0..pieces.len() {
                for b in 0..pieces.len() {
                    let apart = (got[a] / weights[a] - got[b] / weights[b]).abs();
                    let bound = pieces[a] / weights[a] + pieces[b] / weights[b];
                    prop_assert!(apart <= bound * (1.0 + 1e-9), "{} and {}: {} > {}", a, b, apart, bound);
                }
            }
        }
    }
}
