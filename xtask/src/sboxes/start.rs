//! First networks: a recursive search that splits on inputs, after Kwan, "Reducing the gate count of bitslice DES" (2000).
//!
//! A wanted function is taken from the signals that exist, or made of two or three of them by one gate, or chosen by an
//! input between two functions, each of which is wanted on half of the minterms only.

use super::network::{Family, Gate, Network, SIGNALS_MAX};
use super::rng::Rng;
use super::support::{Columns, Finder, Partial, first_signals};
use super::tables::{self, INPUTS, OUTPUTS, Truth};

/// Builds a network for S-box `index`; orders and ties are drawn from `rng`. None if it became too large.
pub(crate) fn build(family: Family, index: usize, rng: &mut Rng) -> Option<Network> {
    let mut builder = Builder { family, gates: Vec::new(), values: tables::inputs().to_vec(), rng };
    let truths = tables::outputs(index);
    let mut order: [usize; OUTPUTS] = std::array::from_fn(|output| output);
    builder.rng.shuffle(&mut order);
    let mut outputs = [0; OUTPUTS];
    for output in order {
        let mut inputs: [usize; INPUTS] = std::array::from_fn(|input| input);
        builder.rng.shuffle(&mut inputs);
        let truth = truths[output];
        outputs[output] = builder.want(Partial { on: truth, off: !truth }, &inputs)?;
    }
    Some(Network::ordered(&builder.gates, outputs, builder.rng))
}

struct Builder<'r> {
    family: Family,
    gates: Vec<Gate>,
    values: Vec<Truth>,
    rng: &'r mut Rng,
}

impl Builder<'_> {
    fn push(&mut self, gate: Gate) -> Option<u8> {
        if self.values.len() >= SIGNALS_MAX {
            return None;
        }
        self.values.push(gate.value(&self.values));
        self.gates.push(gate);
        Some((self.values.len() - 1) as u8)
    }

    /// A signal that is `function`; `inputs` are those that may still be split on, in the order to do so.
    fn want(&mut self, function: Partial, inputs: &[usize]) -> Option<u8> {
        let Partial { on, off } = function;
        if let Some(signal) = self.values.iter().position(|value| on & !value == 0 && off & value == 0) {
            return Some(signal as u8);
        }
        let columns = Columns::new(&self.values);
        let mut finder =
            Finder { values: &self.values, columns: &columns, size: self.family.arity(), found: Vec::new(), limit: 64 };
        finder.find(function, first_signals(self.values.len()));
        let found = finder.found;
        if !found.is_empty() {
            let fan_in = found[self.rng.below(found.len())];
            let gate = Gate::fitting(&self.values, fan_in, on, off, self.rng);
            return self.push(gate);
        }
        // Without an input left, one minterm is left: the first signal or its complement was that function.
        let (&input, rest) = inputs.split_first()?;
        let chooser = self.values[input];
        let low = self.want(Partial { on: on & !chooser, off: off & !chooser }, rest)?;
        match self.family {
            Family::Ternary => {
                let high = self.want(Partial { on: on & chooser, off: off & chooser }, rest)?;
                self.push(Gate { table: 0b1100_1010, fan_in: [input as u8, high, low] })
            }
            Family::Binary => {
                // low ^ (input & change): one gate less than choosing.
                let so_far = self.values[usize::from(low)];
                let (on, off) = ((on & !so_far) | (off & so_far), (on & so_far) | (off & !so_far));
                let change = self.want(Partial { on: on & chooser, off: off & chooser }, rest)?;
                let masked = self.push(Gate { table: 0b1100_0000, fan_in: [input as u8, change, change] })?;
                self.push(Gate { table: 0b0011_1100, fan_in: [low, masked, masked] })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables::BOXES;
    use super::*;

    #[test]
    fn first_networks_are_correct() {
        let mut rng = Rng::new(3);
        for family in Family::ALL {
            for index in 0..BOXES {
                let network = build(family, index, &mut rng).expect("fits");
                network.verify(family, index).expect("correct");
            }
        }
    }
}
