//! The improvement of a network by a random walk among networks of the same function.
//!
//! A step takes one gate and the minterms on which the outputs depend on it, and expresses the gate anew there: by
//! another signal, by one gate of other signals, or by two gates, whatever the change does to the minterms that no
//! output depends on. Gates that nothing needs any more vanish. Steps that keep the size are always taken: they lead to
//! networks in which a gate can be saved. Larger networks are entered with a small probability, as in annealing.

use crate::network::{Family, Gate, Network, SIGNALS_MAX};
use crate::rng::Rng;
use crate::support::{Columns, Finder, Inner, Partial, Signals, first_signals};
use crate::tables::{INPUTS, Truth};

/// How a walk moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The share of the steps that try two gates for one.
    pub(crate) two_gates: f64,
    /// The probability of accepting a network that is larger by one gate.
    pub(crate) up: f64,
    /// How much larger than the smallest network of the walk it may become.
    pub(crate) slack: usize,
}

/// A way to express a gate anew: through these signals, of which signal `n` (one past the last) is a new gate.
struct Change {
    gate: Gate,
    extra: Option<Gate>,
    size: usize,
}

pub(crate) struct Walk {
    family: Family,
    pub(crate) network: Network,
    rng: Rng,
    pace: Pace,
    smallest: Network,
    values: Vec<Truth>,
    columns: Columns,
}

impl Walk {
    pub(crate) fn new(family: Family, network: Network, pace: Pace, seed: u64) -> Self {
        let values = network.values();
        let columns = Columns::new(&values);
        let smallest = network.clone();
        Self { family, network, rng: Rng::new(seed), pace, smallest, values, columns }
    }

    /// The smallest network that the walk has seen.
    pub(crate) fn into_smallest(self) -> Network {
        self.smallest
    }

    /// Takes one step.
    pub(crate) fn step(&mut self) {
        if self.network.gates.is_empty() {
            return;
        }
        let at = self.rng.below(self.network.gates.len());
        let (care, behind) = self.observed(at);
        let value = self.values[INPUTS + at];
        let function = Partial { on: value & care, off: !value & care };
        let allowed = first_signals(self.network.signals()) & !behind;
        if self.replace(at, function, allowed) {
            return;
        }
        let changes = if self.network.signals() < SIGNALS_MAX && self.rng.chance(self.pace.two_gates) {
            self.two_gates(at, function, allowed)
        } else {
            self.one_gate(at, function, allowed)
        };
        self.choose(at, changes);
    }

    /// The minterms where an output depends on gate `at`, and the signals behind it, itself included.
    fn observed(&self, at: usize) -> (Truth, Signals) {
        let signal = INPUTS + at;
        let mut behind: Signals = 1 << signal;
        let mut flipped = [0; SIGNALS_MAX];
        flipped[..self.values.len()].copy_from_slice(&self.values);
        flipped[signal] = !flipped[signal];
        for (later, gate) in self.network.gates.iter().enumerate().skip(at + 1) {
            if gate.fan_in.iter().any(|&from| behind >> from & 1 == 1) {
                behind |= 1 << (INPUTS + later);
                flipped[INPUTS + later] = gate.value(&flipped);
            }
        }
        let changed = |&output: &u8| flipped[usize::from(output)] ^ self.values[usize::from(output)];
        (self.network.outputs.iter().map(changed).fold(0, |care, change| care | change), behind)
    }

    /// Puts another signal, or its complement, in the place of a gate where one serves.
    fn replace(&mut self, at: usize, function: Partial, allowed: Signals) -> bool {
        let old = (INPUTS + at) as u8;
        let is_output = self.network.outputs.contains(&old);
        let serves = |&signal: &usize| {
            let value = self.values[signal];
            let same = function.on & !value == 0 && function.off & value == 0;
            let complement = function.on & value == 0 && function.off & !value == 0;
            // The complement goes into the tables of the gates behind; outputs of two-input networks have any sign.
            allowed >> signal & 1 == 1 && (same || complement && (!is_output || self.family == Family::Binary))
        };
        let found: Vec<usize> = (0..self.values.len()).filter(serves).collect();
        if found.is_empty() {
            return false;
        }
        let signal = found[self.rng.below(found.len())];
        let complement = function.on & !self.values[signal] != 0 || function.off & self.values[signal] != 0;
        for gate in &mut self.network.gates {
            for input in 0..3 {
                if gate.fan_in[input] == old {
                    gate.fan_in[input] = signal as u8;
                    if complement {
                        gate.table = negated(gate.table, input);
                    }
                }
            }
        }
        for output in &mut self.network.outputs {
            if *output == old {
                *output = signal as u8;
            }
        }
        self.settle(None);
        true
    }

    fn one_gate(&mut self, at: usize, function: Partial, allowed: Signals) -> Vec<Change> {
        let mut finder = self.finder(256);
        finder.find(function, allowed);
        let found = finder.found;
        let mut changes = Vec::with_capacity(found.len());
        for fan_in in found {
            let gate = Gate::fitting(&self.values, fan_in, function.on, function.off, &mut self.rng);
            changes.push(Change { gate, extra: None, size: self.size_with(at, fan_in, None) });
        }
        changes
    }

    fn finder(&self, limit: usize) -> Finder<'_> {
        let (values, columns) = (&self.values, &self.columns);
        Finder { values, columns, size: self.family.arity(), found: Vec::new(), limit }
    }

    /// The gate as a function of a new gate and one (two-input family) or two signals drawn at random.
    fn two_gates(&mut self, at: usize, function: Partial, allowed: Signals) -> Vec<Change> {
        let [d, e] = [self.draw(allowed), self.draw(allowed)];
        let e = if self.family == Family::Ternary { e } else { d };
        let given = [d, e].map(|signal| self.values[usize::from(signal)]);
        let mut changes = Vec::new();
        let inners = self.finder(256).find_inner(function, given, allowed);
        for Inner { function: inner, fan_in } in inners {
            let extra = Gate::fitting(&self.values, fan_in, inner.on, inner.off, &mut self.rng);
            self.values.push(extra.value(&self.values));
            let new = (self.values.len() - 1) as u8;
            let outer = [new, d, e];
            let gate = Gate::fitting(&self.values, outer, function.on, function.off, &mut self.rng);
            self.values.pop();
            changes.push(Change { gate, extra: Some(extra), size: self.size_with(at, outer, Some(fan_in)) });
        }
        changes
    }

    fn draw(&mut self, allowed: Signals) -> u8 {
        loop {
            let signal = self.rng.below(self.values.len());
            if allowed >> signal & 1 == 1 {
                return signal as u8;
            }
        }
    }

    /// How many gates the network has if gate `at` gets other inputs; signal `signals()` is the `extra` gate.
    fn size_with(&self, at: usize, fan_in: [u8; 3], extra: Option<[u8; 3]>) -> usize {
        let mut needed: Signals = 0;
        let mut open: Signals = self.network.outputs.iter().fold(0, |open, &output| open | 1 << output);
        let inputs = first_signals(INPUTS);
        while open & !inputs != 0 {
            let signal = (open & !inputs).trailing_zeros() as usize;
            open &= !(1 << signal);
            needed |= 1 << signal;
            let from = if signal == INPUTS + at {
                fan_in
            } else if signal == self.network.signals() {
                extra.unwrap_or_default()
            } else {
                self.network.gates[signal - INPUTS].fan_in
            };
            for input in from {
                open |= 1 << input & !needed;
            }
        }
        needed.count_ones() as usize
    }

    /// Takes the change that saves most, or one that keeps the size, or with luck one that adds a gate.
    fn choose(&mut self, at: usize, mut changes: Vec<Change>) {
        let Some(size) = changes.iter().map(|change| change.size).min() else {
            return;
        };
        let now = self.network.gates.len();
        let limit = self.smallest.gates.len() + self.pace.slack;
        let grow = now < limit && self.rng.chance(self.pace.up) && changes.iter().any(|change| change.size == now + 1);
        let size = if size >= now && grow { now + 1 } else { size };
        if size > now && !grow {
            return;
        }
        changes.retain(|change| change.size == size);
        let change = changes.swap_remove(self.rng.below(changes.len()));
        self.network.gates[at] = change.gate;
        self.settle(change.extra);
    }

    /// Orders the network again and computes its values.
    fn settle(&mut self, extra: Option<Gate>) {
        self.network.gates.extend(extra);
        self.network = Network::ordered(&self.network.gates, self.network.outputs, &mut self.rng);
        if self.network.gates.len() < self.smallest.gates.len() {
            self.smallest = self.network.clone();
        }
        self.values = self.network.values();
        self.columns = Columns::new(&self.values);
    }
}

/// The table for an input that comes complemented.
fn negated(table: u8, input: usize) -> u8 {
    match input {
        0 => table.rotate_left(4),
        1 => (table & 0x33) << 2 | table >> 2 & 0x33,
        _ => (table & 0x55) << 1 | table >> 1 & 0x55,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::Builder;
    use crate::tables;

    /// A network whose outputs are built each by itself.
    fn wasteful(family: Family, index: usize) -> Network {
        let mut gates = Vec::new();
        let mut rng = Rng::new(5);
        let outputs = tables::outputs(index).map(|truth| {
            let mut builder = Builder::new(family, &[], &mut rng);
            let signal = builder.add(truth, SIGNALS_MAX).expect("fits");
            let shift = gates.len() as u8;
            let moved = |from: u8| if usize::from(from) < INPUTS { from } else { from + shift };
            gates.extend(builder.gates.iter().map(|gate| Gate { fan_in: gate.fan_in.map(moved), ..*gate }));
            moved(signal)
        });
        Network::ordered(&gates, outputs, &mut rng)
    }

    #[test]
    fn every_step_keeps_the_function_and_the_walk_saves_gates() {
        let pace = Pace { two_gates: 0.3, up: 0.05, slack: 2 };
        for family in Family::ALL {
            let network = wasteful(family, 4);
            let before = network.gates.len();
            let mut walk = Walk::new(family, network, pace, 6);
            for _ in 0..300 {
                walk.step();
                walk.network.verify(family, 4).expect("correct");
            }
            assert!(walk.into_smallest().gates.len() < before);
        }
    }
}
