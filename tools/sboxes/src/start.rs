//! First networks: a recursive search that splits on inputs, after Kwan, "Reducing the gate count of bitslice DES" (2000).
//!
//! A wanted function is taken from the signals that exist, or made of them by one gate or two, or chosen by an input
//! between two functions, each of which is wanted on half of the minterms only.

use crate::network::{Family, Gate, Network, SIGNALS_MAX};
use crate::rng::Rng;
use crate::support::{Columns, Finder, Inner, Partial, first_signals};
use crate::tables::{self, INPUTS, OUTPUTS, Truth};
use crate::walk::{Pace, Walk};

/// How many inputs are tried for a split, from the outermost inwards.
const BREADTH: [usize; INPUTS] = [6, 3, 2, 1, 1, 1];

/// Gates to which more are added.
pub(crate) struct Builder<'r> {
    family: Family,
    pub(crate) gates: Vec<Gate>,
    values: Vec<Truth>,
    rng: &'r mut Rng,
}

impl<'r> Builder<'r> {
    pub(crate) fn new(family: Family, gates: &[Gate], rng: &'r mut Rng) -> Self {
        let mut builder = Self { family, gates: Vec::new(), values: tables::inputs().to_vec(), rng };
        for gate in gates {
            builder.push(*gate);
        }
        builder
    }

    /// Adds at most `budget` gates, few if possible, so that a signal is `truth`.
    pub(crate) fn add(&mut self, truth: Truth, budget: usize) -> Option<u8> {
        let budget = budget.min(SIGNALS_MAX - self.values.len());
        self.want(Partial { on: truth, off: !truth }, &[0, 1, 2, 3, 4, 5], budget)
    }

    fn push(&mut self, gate: Gate) -> u8 {
        self.values.push(gate.value(&self.values));
        self.gates.push(gate);
        (self.values.len() - 1) as u8
    }

    /// A signal that is `function`; `inputs` are those that may still be split on.
    fn want(&mut self, function: Partial, inputs: &[usize], budget: usize) -> Option<u8> {
        let Partial { on, off } = function;
        let serves = |value: &Truth| on & !value == 0 && off & value == 0;
        if let Some(signal) = self.values.iter().position(serves) {
            return Some(signal as u8);
        }
        if budget == 0 {
            return None;
        }
        let columns = Columns::new(&self.values);
        if let Some(fan_in) = self.one_gate(function, &columns) {
            let gate = Gate::fitting(&self.values, fan_in, on, off, self.rng);
            return Some(self.push(gate));
        }
        if budget == 1 {
            return None;
        }
        if let Some((inner, outer)) = self.two_gates(function, &columns) {
            self.push(inner);
            let gate = Gate::fitting(&self.values, outer, on, off, self.rng);
            return Some(self.push(gate));
        }
        if budget == 2 { None } else { self.split(function, inputs, budget) }
    }

    fn one_gate(&mut self, function: Partial, columns: &Columns) -> Option<[u8; 3]> {
        let (values, size) = (&self.values, self.family.arity());
        let mut finder = Finder { values, columns, size, found: Vec::new(), limit: 64 };
        finder.find(function, first_signals(self.values.len()));
        let found = finder.found;
        if found.is_empty() { None } else { Some(found[self.rng.below(found.len())]) }
    }

    /// An inner gate and the inputs of the outer one, of which the inner gate is the first.
    fn two_gates(&mut self, function: Partial, columns: &Columns) -> Option<(Gate, [u8; 3])> {
        let mut others: Vec<u8> = (0..self.values.len() as u8).collect();
        self.rng.shuffle(&mut others);
        let allowed = first_signals(self.values.len());
        let (values, size) = (&self.values, self.family.arity());
        let mut finder = Finder { values, columns, size, found: Vec::new(), limit: 64 };
        for (at, &d) in others.iter().enumerate() {
            let partners = if self.family == Family::Ternary { &others[..at] } else { &[d][..] };
            for &e in partners {
                let given = [d, e].map(|signal| self.values[usize::from(signal)]);
                let found = finder.find_inner(function, given, allowed);
                if !found.is_empty() {
                    let Inner { function: Partial { on, off }, fan_in } = found[self.rng.below(found.len())];
                    let gate = Gate::fitting(&self.values, fan_in, on, off, self.rng);
                    return Some((gate, [self.values.len() as u8, d, e]));
                }
            }
        }
        None
    }

    /// Tries some inputs to split on and keeps what takes the fewest gates.
    fn split(&mut self, function: Partial, inputs: &[usize], mut budget: usize) -> Option<u8> {
        let start = self.gates.len();
        let mut best: Option<Vec<Gate>> = None;
        let mut order: Vec<usize> = inputs.to_vec();
        self.rng.shuffle(&mut order);
        order.truncate(BREADTH[INPUTS - inputs.len()]);
        for input in order {
            let rest: Vec<usize> = inputs.iter().copied().filter(|&other| other != input).collect();
            if self.choose_by(function, input, &rest, budget).is_some() {
                budget = self.gates.len() - start - 1;
                best = Some(self.gates[start..].to_vec());
            }
            self.gates.truncate(start);
            self.values.truncate(INPUTS + start);
        }
        // The chosen signal is the last gate: a split always ends with one.
        best?.into_iter().map(|gate| self.push(gate)).last()
    }

    fn choose_by(&mut self, function: Partial, input: usize, rest: &[usize], budget: usize) -> Option<u8> {
        let chooser = self.values[input];
        let start = self.gates.len();
        let Partial { on, off } = function;
        let turned = self.rng.chance(0.5);
        let first_part = if turned { chooser } else { !chooser };
        let own = if self.family == Family::Ternary { 1 } else { 2 };
        let first = self.want(function.within(first_part), rest, budget.checked_sub(own)?)?;
        let left = budget.checked_sub(own + self.gates.len() - start)?;
        let input = input as u8;
        match self.family {
            Family::Ternary => {
                let second = self.want(function.within(!first_part), rest, left)?;
                let [high, low] = if turned { [first, second] } else { [second, first] };
                Some(self.push(Gate { table: 0b1100_1010, fan_in: [input, high, low] }))
            }
            Family::Binary => {
                // first ^ (input & change): one gate less than choosing.
                let so_far = self.values[usize::from(first)];
                let change = Partial { on: (on & !so_far) | (off & so_far), off: (on & so_far) | (off & !so_far) };
                let change = self.want(change.within(!first_part), rest, left)?;
                let table = if turned { 0b0000_1100 } else { 0b1100_0000 };
                let masked = self.push(Gate { table, fan_in: [input, change, change] });
                Some(self.push(Gate { table: 0b0011_1100, fan_in: [first, masked, masked] }))
            }
        }
    }
}

/// How a first network grows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    pub(crate) pace: Pace,
    /// Steps of the walk behind each output.
    pub(crate) steps: usize,
}

/// Builds a network for S-box `index`, output after output in a random order, each followed by a walk that shrinks what
/// is there. `kept` are outputs that `network` already has.
pub(crate) fn grow(
    family: Family,
    index: usize,
    mut network: Network,
    kept: [bool; OUTPUTS],
    growth: Growth,
    rng: &mut Rng,
) -> Option<Network> {
    let truths = tables::outputs(index);
    let mut missing: Vec<usize> = (0..OUTPUTS).filter(|&output| !kept[output]).collect();
    rng.shuffle(&mut missing);
    for &output in &missing {
        // An output that is still missing stands for an input, so that it asks for no gate.
        network.outputs[output] = 0;
    }
    network = Network::ordered(&network.gates, network.outputs, rng);
    for &output in &missing {
        let mut builder = Builder::new(family, &network.gates, rng);
        let signal = builder.add(truths[output], SIGNALS_MAX)?;
        let gates = builder.gates;
        let mut outputs = network.outputs;
        outputs[output] = signal;
        network = Network::ordered(&gates, outputs, rng);
        let mut walk = Walk::new(family, network, growth.pace, rng.next());
        for _ in 0..growth.steps {
            walk.step();
        }
        network = walk.into_smallest();
    }
    Some(network)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::BOXES;

    #[test]
    fn first_networks_are_correct() {
        let growth = Growth { pace: Pace { two_gates: 0.3, up: 0.02, slack: 1 }, steps: 20 };
        let empty = Network { gates: Vec::new(), outputs: [0; OUTPUTS] };
        let mut rng = Rng::new(3);
        for family in Family::ALL {
            for index in [0, BOXES - 1] {
                let network = grow(family, index, empty.clone(), [false; OUTPUTS], growth, &mut rng).expect("fits");
                network.verify(family, index).expect("correct");
                let kept = [true, false, true, true];
                let again = grow(family, index, network, kept, growth, &mut rng).expect("fits");
                again.verify(family, index).expect("correct");
            }
        }
    }
}
