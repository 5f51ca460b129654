//! The search over all S-boxes: climbs from new networks and from the best ones, until time is up.

use std::time::Instant;

use anyhow::Result;

use crate::network::{Family, Network};
use crate::rng::Rng;
use crate::shelf::Shelf;
use crate::start::{Growth, grow};
use crate::tables::{BOXES, OUTPUTS};
use crate::walk::{Pace, Walk};

/// How often outputs are built anew in one climb, before another S-box has its turn.
const REBUILDS: usize = 150;

/// How many new networks compete to be the start of a climb.
const STARTS: usize = 10;

/// How much larger by gates a network may be, right after outputs were built anew, to be worth a walk.
const REGROWN_EXCESS: usize = 2;

/// Steps of the walk that follows.
const STEPS: usize = 6000;

/// After so many steps of a walk its network is offered, though it is not smaller: it may need fewer NOTs.
const OFFER: usize = 16;

/// How likely a climb begins with the best network known, not with a new one.
const FROM_BEST: f64 = 0.5;

/// How likely a climb goes on with a network that is larger by one gate.
const ACCEPT_LARGER: f64 = 0.1;

/// How likely two outputs are built anew, not one.
const TWO_OUTPUTS: f64 = 0.4;

/// Steps behind each output of a new network; where outputs are built anew the walk comes afterwards.
const GROWTH_STEPS: usize = 1000;

/// The pace of a climb; no pace has proved best for all S-boxes, so that two figures are drawn.
fn pace(family: Family, rng: &mut Rng) -> Pace {
    let up = [0.01, 0.02, 0.05, 0.1][rng.below(4)];
    let slack = 1 + rng.below(2);
    match family {
        Family::Ternary => Pace { two_gates: 0.4, up, slack },
        Family::Binary => Pace { two_gates: 0.9, up, slack },
    }
}

/// One thread of the search.
pub(crate) fn search(shelf: &Shelf, mut rng: Rng, deadline: Instant) -> Result<()> {
    let turns = BOXES * Family::ALL.len();
    let mut turn = rng.below(turns);
    while Instant::now() < deadline {
        turn = (turn + 1) % turns;
        let (family, index) = (Family::ALL[turn / BOXES], turn % BOXES);
        let climb = Climb { shelf, family, index, pace: pace(family, &mut rng) };
        climb.run(&mut rng, deadline)?;
    }
    Ok(())
}

/// A climb: again and again an output or two of the network are dropped and built anew on what the others leave.
struct Climb<'s> {
    shelf: &'s Shelf,
    family: Family,
    index: usize,
    pace: Pace,
}

impl Climb<'_> {
    fn run(&self, rng: &mut Rng, deadline: Instant) -> Result<()> {
        let known = rng.chance(FROM_BEST).then(|| self.shelf.network(self.family, self.index));
        let Some(mut network) = known.or_else(|| self.fresh(rng)) else {
            return Ok(());
        };
        for _ in 0..REBUILDS {
            if Instant::now() >= deadline {
                break;
            }
            let Some(next) = self.rebuilt(&network, rng)? else {
                continue;
            };
            let (before, after) = (network.gates.len(), next.gates.len());
            if after <= before || after == before + 1 && rng.chance(ACCEPT_LARGER) {
                network = next;
            }
        }
        Ok(())
    }

    /// The smallest of some new networks.
    fn fresh(&self, rng: &mut Rng) -> Option<Network> {
        let empty = Network { gates: Vec::new(), outputs: [0; OUTPUTS] };
        let growth = Growth { pace: self.pace, steps: GROWTH_STEPS };
        let starts =
            (0..STARTS).filter_map(|_| grow(self.family, self.index, empty.clone(), [false; OUTPUTS], growth, rng));
        starts.min_by_key(|network| network.gates.len())
    }

    fn rebuilt(&self, network: &Network, rng: &mut Rng) -> Result<Option<Network>> {
        let mut kept = [true; OUTPUTS];
        kept[rng.below(OUTPUTS)] = false;
        if rng.chance(TWO_OUTPUTS) {
            kept[rng.below(OUTPUTS)] = false;
        }
        let growth = Growth { pace: self.pace, steps: 0 };
        let grown = grow(self.family, self.index, network.clone(), kept, growth, rng);
        let Some(grown) = grown.filter(|grown| grown.gates.len() <= network.gates.len() + REGROWN_EXCESS) else {
            return Ok(None);
        };
        let mut walk = Walk::new(self.family, grown, self.pace, rng.next());
        let mut size = usize::MAX;
        for step in 0..STEPS {
            walk.step();
            if walk.network.gates.len() < size || step % OFFER == 0 {
                size = walk.network.gates.len();
                self.shelf.offer(self.family, self.index, &walk.network, rng)?;
            }
        }
        let last = walk.network.clone();
        let smallest = walk.into_smallest();
        // Of two networks of one size the later one has drifted further.
        Ok(Some(if last.gates.len() == smallest.gates.len() { last } else { smallest }))
    }
}
