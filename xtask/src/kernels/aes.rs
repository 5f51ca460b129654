//! The S-box of AES and its inverse as networks of gates over bit slices.
//!
//! The S-box is inversion in GF(2^8) and an affine map (FIPS 197, 5.1.1). Inversion is worked out in the tower
//! GF(((2^2)^2)^2), where it comes down to a few products of two-bit numbers; the maps into the tower and out of it are
//! linear and are merged with the affine map. Everything follows from the fields' polynomials: the tower's parameters and
//! the isomorphism are searched for, and the finished network is checked on all 256 values.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};

/// Eight bits as signals, the lowest first.
type Byte = [usize; 8];

/// One gate on earlier signals.
#[derive(Clone, Copy)]
enum Gate {
    Input(usize),
    Xor(usize, usize),
    And(usize, usize),
    Not(usize),
}

/// A straight-line program of gates.
#[derive(Default)]
struct Network {
    gates: Vec<Gate>,
}

impl Network {
    fn add(&mut self, gate: Gate) -> usize {
        self.gates.push(gate);
        self.gates.len() - 1
    }

    fn inputs(&mut self) -> Byte {
        std::array::from_fn(|bit| self.add(Gate::Input(bit)))
    }

    fn xor(&mut self, a: &[usize], b: &[usize]) -> Vec<usize> {
        a.iter().zip(b).map(|(a, b)| self.add(Gate::Xor(*a, *b))).collect()
    }

    /// Linear map: row `r` of the matrix says which inputs are summed up for output `r`. Sums that several rows share
    /// are worked out once: the pair that most rows have becomes an input of its own, again and again.
    fn linear(&mut self, rows: [u8; 8], inputs: &[usize]) -> Vec<usize> {
        let mut signals = inputs.to_vec();
        let mut rows: Vec<Vec<bool>> = rows.iter().map(|row| (0..8).map(|bit| row >> bit & 1 == 1).collect()).collect();
        loop {
            let count = signals.len();
            let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b)));
            let shared = |(a, b): (usize, usize)| rows.iter().filter(|row| row[a] && row[b]).count();
            let Some((a, b)) = pairs.rev().max_by_key(|pair| shared(*pair)).filter(|pair| shared(*pair) > 0) else {
                break;
            };
            signals.push(self.add(Gate::Xor(signals[a], signals[b])));
            for row in &mut rows {
                let both = row[a] && row[b];
                if both {
                    (row[a], row[b]) = (false, false);
                }
                row.push(both);
            }
        }
        let single = |row: &Vec<bool>| row.iter().position(|bit| *bit).map_or(signals[0], |at| signals[at]);
        rows.iter().map(single).collect()
    }

    /// A product in GF(4) over `w² = w + 1`; two bits each, the lower first.
    fn times_4(&mut self, a: &[usize], b: &[usize]) -> Vec<usize> {
        let high = self.add(Gate::And(a[1], b[1]));
        let low = self.add(Gate::And(a[0], b[0]));
        let (sum_a, sum_b) = (self.add(Gate::Xor(a[0], a[1])), self.add(Gate::Xor(b[0], b[1])));
        let cross = self.add(Gate::And(sum_a, sum_b));
        vec![self.add(Gate::Xor(low, high)), self.add(Gate::Xor(cross, low))]
    }

    /// Times `w`.
    fn times_w(&mut self, a: &[usize]) -> Vec<usize> {
        vec![a[1], self.add(Gate::Xor(a[0], a[1]))]
    }

    /// The square in GF(4), which is also the inverse.
    fn square_4(&mut self, a: &[usize]) -> Vec<usize> {
        vec![self.add(Gate::Xor(a[0], a[1])), a[1]]
    }

    /// A product in GF(16) over `y² = y + w`.
    fn times_16(&mut self, a: &[usize], b: &[usize]) -> Vec<usize> {
        let high = self.times_4(&a[2..], &b[2..]);
        let low = self.times_4(&a[..2], &b[..2]);
        let (sum_a, sum_b) = (self.xor(&a[..2], &a[2..]), self.xor(&b[..2], &b[2..]));
        let cross = self.times_4(&sum_a, &sum_b);
        let scaled = self.times_w(&high);
        [self.xor(&low, &scaled), self.xor(&cross, &low)].concat()
    }

    /// The inverse in GF(16): with `d = c²·w + c·b + b²` for `c·y + b`, it is `(c·y + b + c) / d`.
    fn inverse_16(&mut self, a: &[usize]) -> Vec<usize> {
        let (low, high) = (a[..2].to_vec(), a[2..].to_vec());
        let square_high = self.square_4(&high);
        let scaled = self.times_w(&square_high);
        let product = self.times_4(&high, &low);
        let square_low = self.square_4(&low);
        let sum = self.xor(&scaled, &product);
        let norm = self.xor(&sum, &square_low);
        let inverse = self.square_4(&norm);
        let both = self.xor(&low, &high);
        [self.times_4(&both, &inverse), self.times_4(&high, &inverse)].concat()
    }

    /// The inverse in the tower over `z² = z + m`, `m` being the constant of [`Tower`]; zero stays zero.
    fn inverse_256(&mut self, a: &[usize], m: u8) -> Vec<usize> {
        let (low, high) = (a[..4].to_vec(), a[4..].to_vec());
        // c²·m is linear in c.
        let rows = matrix(|c| if c < 16 { times_16(times_16(c, c), m) } else { 0 });
        let padded = [high.clone(), high.clone()].concat();
        let scaled = self.linear(rows, &padded)[..4].to_vec();
        let both = self.xor(&low, &high);
        let product = self.times_16(&both, &low);
        let norm = self.xor(&scaled, &product);
        let inverse = self.inverse_16(&norm);
        [self.times_16(&both, &inverse), self.times_16(&high, &inverse)].concat()
    }

    /// Complements the outputs whose bit is set.
    fn complement(&mut self, signals: &[usize], constant: u8) -> Vec<usize> {
        let turned = |(bit, signal): (usize, &usize)| match constant >> bit & 1 {
            1 => self.add(Gate::Not(*signal)),
            _ => *signal,
        };
        signals.iter().enumerate().map(turned).collect()
    }

    /// The value of the outputs for an input byte.
    fn value(&self, outputs: &[usize], input: u8) -> u8 {
        let mut values: Vec<bool> = Vec::with_capacity(self.gates.len());
        for gate in &self.gates {
            values.push(match *gate {
                Gate::Input(bit) => input >> bit & 1 == 1,
                Gate::Xor(a, b) => values[a] ^ values[b],
                Gate::And(a, b) => values[a] & values[b],
                Gate::Not(a) => !values[a],
            });
        }
        outputs.iter().enumerate().fold(0, |byte, (bit, signal)| byte | u8::from(values[*signal]) << bit)
    }

    fn function(&self, name: &str, outputs: &[usize]) -> String {
        let signal = |at: usize| match self.gates[at] {
            Gate::Input(bit) => format!("x{bit}"),
            _ => format!("g{at}"),
        };
        let mut text = format!("\nDEVICE void {name}(u32 *x)\n{{\n");
        for (at, gate) in self.gates.iter().enumerate() {
            let _ = match *gate {
                Gate::Input(bit) => writeln!(text, "    u32 x{bit} = x[{bit}];"),
                Gate::Xor(a, b) => writeln!(text, "    u32 g{at} = {} ^ {};", signal(a), signal(b)),
                Gate::And(a, b) => writeln!(text, "    u32 g{at} = {} & {};", signal(a), signal(b)),
                Gate::Not(a) => writeln!(text, "    u32 g{at} = ~{};", signal(a)),
            };
        }
        for (bit, at) in outputs.iter().enumerate() {
            let _ = writeln!(text, "    x[{bit}] = {};", signal(*at));
        }
        text + "}\n"
    }
}

/// The rows of a linear map's matrix: which inputs each output sums up.
fn matrix(map: impl Fn(u8) -> u8) -> [u8; 8] {
    std::array::from_fn(|row| (0..8).fold(0, |bits, column| bits | (map(1 << column) >> row & 1) << column))
}

/// A product in AES's own field (FIPS 197, 4.2).
fn times(a: u8, b: u8) -> u8 {
    (0..8).rev().fold(0u8, |sum, bit| {
        let doubled = sum << 1 ^ if sum & 0x80 != 0 { 0x1b } else { 0 };
        doubled ^ if b >> bit & 1 == 1 { a } else { 0 }
    })
}

fn times_4(a: u8, b: u8) -> u8 {
    let (high, low) = (a >> 1 & b >> 1, a & b & 1);
    let cross = (a ^ a >> 1) & (b ^ b >> 1) & 1;
    (low ^ high) | (cross ^ low) << 1
}

fn times_16(a: u8, b: u8) -> u8 {
    let (high, low) = (times_4(a >> 2, b >> 2), times_4(a & 3, b & 3));
    let cross = times_4((a ^ a >> 2) & 3, (b ^ b >> 2) & 3);
    (low ^ times_4(high, 2)) | (cross ^ low) << 2
}

/// The tower: its last constant, and the map from AES's field, which takes `x` to `root`.
#[derive(Clone, Copy)]
struct Tower {
    m: u8,
    root: u8,
}

impl Tower {
    fn times(self, a: u8, b: u8) -> u8 {
        let (high, low) = (times_16(a >> 4, b >> 4), times_16(a & 15, b & 15));
        let cross = times_16((a ^ a >> 4) & 15, (b ^ b >> 4) & 15);
        (low ^ times_16(high, self.m)) | (cross ^ low) << 4
    }

    /// Where a number of AES's field goes.
    fn of(self, number: u8) -> u8 {
        (0..8).rev().fold(0, |sum, bit| self.times(sum, self.root) ^ (number >> bit & 1))
    }

    /// The tower and the root whose maps have the fewest ones, of all that are isomorphic.
    fn best() -> Result<Tower> {
        let all = (1..16).flat_map(|m| (2..=255).map(move |root| Tower { m, root }));
        let isomorphic = |tower: &Tower| {
            (0..8).all(|bit| {
                (0..=255u8).all(|b| tower.of(times(1 << bit, b)) == tower.times(tower.of(1 << bit), tower.of(b)))
            }) && (1..=255u8).all(|number| tower.of(number) != 0)
        };
        let ones = |tower: &Tower| matrix(|number| tower.of(number)).iter().map(|row| row.count_ones()).sum::<u32>();
        all.filter(isomorphic).min_by_key(ones).context("no tower is isomorphic to the field of AES")
    }

    fn back(self, number: u8) -> u8 {
        (0..=255u8).find(|candidate| self.of(*candidate) == number).unwrap_or_default()
    }
}

/// The affine map's linear part (FIPS 197, 5.1.1) and its inverse.
fn spread(byte: u8) -> u8 {
    [1, 2, 3, 4].into_iter().fold(byte, |sum, by| sum ^ byte.rotate_left(by))
}

fn gather(byte: u8) -> u8 {
    [1, 3, 6].into_iter().fold(0, |sum, by| sum ^ byte.rotate_left(by))
}

/// The affine map's constant.
const CONSTANT: u8 = 0x63;

/// The S-box as the standard defines it.
fn sub_byte(byte: u8) -> u8 {
    let inverse = (1..=255u8).find(|candidate| times(*candidate, byte) == 1).unwrap_or(0);
    spread(inverse) ^ CONSTANT
}

/// The header with both networks.
pub(crate) fn render() -> Result<String> {
    let tower = Tower::best()?;
    let mut text = super::head(
        " * The S-box of AES and its inverse (FIPS 197, 5.1.1 and 5.3.2) as networks of gates: word i of `x` holds bit i of\n\
         \x20* every byte.\n",
    );
    let mut forward = Network::default();
    let inputs = forward.inputs();
    let into = forward.linear(matrix(|number| tower.of(number)), &inputs);
    let inverse = forward.inverse_256(&into, tower.m);
    let out = forward.linear(matrix(|number| spread(tower.back(number))), &inverse);
    let out = forward.complement(&out, CONSTANT);
    ensure!((0..=255u8).all(|byte| forward.value(&out, byte) == sub_byte(byte)), "the network of the S-box is wrong");

    let mut backward = Network::default();
    let inputs = backward.inputs();
    let turned = backward.complement(&inputs, CONSTANT);
    let into = backward.linear(matrix(|number| tower.of(gather(number))), &turned);
    let inverse = backward.inverse_256(&into, tower.m);
    let back = backward.linear(matrix(|number| tower.back(number)), &inverse);
    ensure!(
        (0..=255u8).all(|byte| backward.value(&back, sub_byte(byte)) == byte),
        "the network of the inverse S-box is wrong"
    );
    text += &forward.function("aes_sub_bytes", &out);
    text += &backward.function("aes_sub_bytes_back", &back);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_gives_the_printed_table() {
        // FIPS 197, figure 7: the first and last entries, and 0x53.
        assert_eq!([0x00, 0x53, 0xff].map(sub_byte), [0x63, 0xed, 0x16]);
    }

    #[test]
    fn a_wrong_gate_is_found() {
        let tower = Tower::best().expect("there is one");
        let mut network = Network::default();
        let inputs = network.inputs();
        let into = network.linear(matrix(|number| tower.of(number)), &inputs);
        let out = network.inverse_256(&into, tower.m);
        let right =
            |network: &Network| (0..=255u8).all(|byte| network.value(&out, byte) == tower.of(sub_byte_inverse(byte)));
        assert!(right(&network));
        let and = network.gates.iter().position(|gate| matches!(gate, Gate::And(..))).expect("products");
        network.gates[and] = Gate::Xor(0, 1);
        assert!(!right(&network));
    }

    fn sub_byte_inverse(byte: u8) -> u8 {
        (1..=255u8).find(|candidate| times(*candidate, byte) == 1).unwrap_or(0)
    }
}
