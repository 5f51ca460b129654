//! Straight-line programs: what the generated functions do, one operation a line.
//!
//! A network of two-input gates has gates of any sign; here they become AND, OR, XOR and AND-NOT. Which of them fits
//! follows from the signs in which the inputs are at hand, and so does the sign of the result; a NOT is needed where an
//! output has the wrong sign in the end. Since all four operations give 0 for zeros, and no S-box does, a NOT there
//! must be; one in the right place turns many signs at once.

use anyhow::{Result, ensure};

use crate::network::{Family, Gate, Network};
use crate::tables::{self, INPUTS, OUTPUTS, Truth};

/// One operation on earlier signals: 0 to 5 are `a1..a6`, 6 is the result of the first operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Ternary(Gate),
    Xor(u8, u8),
    And(u8, u8),
    Or(u8, u8),
    /// The first and not the second.
    AndNot(u8, u8),
    Not(u8),
}

/// The operations of one S-box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Straight {
    pub(crate) ops: Vec<Op>,
    pub(crate) outputs: [u8; OUTPUTS],
}

impl Straight {
    /// The program of a network, with as few NOTs as are found.
    pub(crate) fn new(family: Family, network: &Network, index: usize) -> Self {
        match family {
            Family::Ternary => {
                Self { ops: network.gates.iter().copied().map(Op::Ternary).collect(), outputs: network.outputs }
            }
            Family::Binary => {
                let wrong = wrong_signs(network, index);
                signed(network, wrong, &fewest_nots(network, wrong, usize::MAX).1)
            }
        }
    }

    /// Checks all 64 entries of all four outputs.
    pub(crate) fn verify(&self, index: usize) -> Result<()> {
        let mut values: Vec<Truth> = tables::inputs().to_vec();
        for op in &self.ops {
            let of = |signal: u8| values[usize::from(signal)];
            values.push(match *op {
                Op::Ternary(gate) => gate.value(&values),
                Op::Xor(a, b) => of(a) ^ of(b),
                Op::And(a, b) => of(a) & of(b),
                Op::Or(a, b) => of(a) | of(b),
                Op::AndNot(a, b) => of(a) & !of(b),
                Op::Not(a) => !of(a),
            });
        }
        let outputs = self.outputs.map(|signal| values[usize::from(signal)]);
        ensure!(outputs == tables::outputs(index), "the program for S{} is wrong", index + 1);
        Ok(())
    }
}

/// How many operations the network costs: its gates, and for the two-input family the NOTs. From `enough` on the figure
/// may be too high: the search for fewer NOTs then is not worth its time.
pub(crate) fn cost(family: Family, network: &Network, index: usize, enough: usize) -> usize {
    let gates = network.gates.len();
    // No S-box gives 0 for zeros, so that a NOT there must be.
    match family {
        Family::Ternary => gates,
        Family::Binary if gates + 1 >= enough => gates + 1,
        Family::Binary => gates + fewest_nots(network, wrong_signs(network, index), enough - gates).0,
    }
}

/// Which outputs of a network are complemented.
fn wrong_signs(network: &Network, index: usize) -> [bool; OUTPUTS] {
    let values = network.values();
    let truths = tables::outputs(index);
    std::array::from_fn(|output| values[usize::from(network.outputs[output])] != truths[output])
}

/// A NOT behind a signal, for all gates that it feeds or for one of them (by number).
#[derive(Clone, Copy, Debug)]
struct Turn {
    signal: u8,
    gate: Option<usize>,
}

impl Turn {
    fn applies(self, signal: u8, gate: usize) -> bool {
        self.signal == signal && self.gate.is_none_or(|only| only == gate)
    }
}

/// What a two-input gate does with its inputs as they are at hand, and whether its result is then complemented.
#[derive(Clone, Copy)]
enum Form {
    Xor,
    And,
    Or,
    AndNot,
    NotAnd,
    First,
    Second,
    Constant,
}

fn form(table: u8, a_turned: bool, b_turned: bool) -> (Form, bool) {
    // The four entries for (a, b) = 00, 01, 10, 11; b stands in the lower two places of the index.
    let entry = |a: bool, b: bool| table >> (u8::from(a ^ a_turned) * 4 + u8::from(b ^ b_turned) * 3) & 1;
    let entries = entry(false, false) | entry(false, true) << 1 | entry(true, false) << 2 | entry(true, true) << 3;
    match entries {
        0b0110 => (Form::Xor, false),
        0b1001 => (Form::Xor, true),
        0b1000 => (Form::And, false),
        0b0111 => (Form::And, true),
        0b1110 => (Form::Or, false),
        0b0001 => (Form::Or, true),
        0b0100 => (Form::AndNot, false),
        0b1011 => (Form::AndNot, true),
        0b0010 => (Form::NotAnd, false),
        0b1101 => (Form::NotAnd, true),
        0b1100 => (Form::First, false),
        0b0011 => (Form::First, true),
        0b1010 => (Form::Second, false),
        0b0101 => (Form::Second, true),
        0b0000 => (Form::Constant, false),
        _ => (Form::Constant, true),
    }
}

/// The signs of all signals under some turns: true where the program has the complement at hand.
fn signs(network: &Network, turns: &[Turn]) -> Vec<bool> {
    let mut signs = vec![false; INPUTS];
    for (at, gate) in network.gates.iter().enumerate() {
        let sign = |signal: u8| signs[usize::from(signal)] ^ turns.iter().any(|turn| turn.applies(signal, at));
        let (_, complemented) = form(gate.table, sign(gate.fan_in[0]), sign(gate.fan_in[1]));
        signs.push(complemented);
    }
    signs
}

/// How many NOTs stand in front of outputs, those left out that a turn provides anyway.
fn nots_at_outputs(network: &Network, wrong: [bool; OUTPUTS], turns: &[Turn]) -> usize {
    let signs = signs(network, turns);
    let needs = |&output: &usize| {
        let signal = network.outputs[output];
        signs[usize::from(signal)] != wrong[output] && !turns.iter().any(|turn| turn.signal == signal)
    };
    (0..OUTPUTS).filter(needs).count()
}

/// The least number of NOTs found, and the turns that give it: none, one, or two, as long as the number may come out
/// below `enough`.
fn fewest_nots(network: &Network, wrong: [bool; OUTPUTS], enough: usize) -> (usize, Vec<Turn>) {
    let mut best = (nots_at_outputs(network, wrong, &[]), Vec::new());
    let mut all: Vec<Turn> = (0..network.signals()).map(|signal| Turn { signal: signal as u8, gate: None }).collect();
    for (at, gate) in network.gates.iter().enumerate() {
        all.extend(gate.fan_in[..2].iter().map(|&signal| Turn { signal, gate: Some(at) }));
    }
    for &turn in &all {
        if best.0 <= 1 || enough <= 1 {
            return best;
        }
        let nots = 1 + nots_at_outputs(network, wrong, &[turn]);
        if nots < best.0 {
            best = (nots, vec![turn]);
        }
    }
    for (at, &first) in all.iter().enumerate() {
        for &second in &all[..at] {
            if best.0 <= 2 || enough <= 2 {
                return best;
            }
            let nots = 2 + nots_at_outputs(network, wrong, &[first, second]);
            if nots < best.0 && first.signal != second.signal {
                best = (nots, vec![first, second]);
            }
        }
    }
    best
}

/// The program of a two-input network with NOTs at `turns` and in front of outputs that need one.
fn signed(network: &Network, wrong: [bool; OUTPUTS], turns: &[Turn]) -> Straight {
    let signs = signs(network, turns);
    let mut ops = Vec::new();
    // Where each signal of the network is at hand, plain and turned.
    let mut places: Vec<u8> = (0..INPUTS as u8).collect();
    let mut turned: Vec<Option<u8>> = vec![None; network.signals()];
    let push = |ops: &mut Vec<Op>, op: Op| {
        ops.push(op);
        (INPUTS + ops.len() - 1) as u8
    };
    for (at, gate) in network.gates.iter().enumerate() {
        let mut inputs = [(0, false); 2];
        for (input, &signal) in inputs.iter_mut().zip(&gate.fan_in) {
            let is_turned = turns.iter().any(|turn| turn.applies(signal, at));
            let plain = places[usize::from(signal)];
            let place = if is_turned {
                *turned[usize::from(signal)].get_or_insert_with(|| push(&mut ops, Op::Not(plain)))
            } else {
                plain
            };
            *input = (place, signs[usize::from(signal)] ^ is_turned);
        }
        let [(a, a_sign), (b, b_sign)] = inputs;
        let place = match form(gate.table, a_sign, b_sign).0 {
            Form::Xor => push(&mut ops, Op::Xor(a, b)),
            Form::And => push(&mut ops, Op::And(a, b)),
            Form::Or => push(&mut ops, Op::Or(a, b)),
            Form::AndNot => push(&mut ops, Op::AndNot(a, b)),
            Form::NotAnd => push(&mut ops, Op::AndNot(b, a)),
            Form::First => a,
            Form::Second => b,
            Form::Constant => push(&mut ops, Op::Xor(a, a)),
        };
        places.push(place);
    }
    let outputs = std::array::from_fn(|output| {
        let signal = usize::from(network.outputs[output]);
        if signs[signal] == wrong[output] {
            return places[signal];
        }
        let plain = places[signal];
        *turned[signal].get_or_insert_with(|| push(&mut ops, Op::Not(plain)))
    });
    Straight { ops, outputs }
}
