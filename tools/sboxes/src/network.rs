//! Networks of gates, their values and their text form.

use anyhow::{Context, Result, ensure};

use crate::rng::Rng;
use crate::tables::{self, INPUTS, OUTPUTS, Truth};

/// A network may have this many signals, inputs included: sets of signals are `u128`.
pub(crate) const SIGNALS_MAX: usize = 128;

/// How many orders of the gates are tried for the one with the lowest pressure on registers.
const SCHEDULES: usize = 2000;

/// The two kinds of gates that are searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Any function of three inputs.
    Ternary,
    /// Any function of two inputs; `polarity` turns these into AND, OR, XOR, AND-NOT and a few NOTs.
    Binary,
}

impl Family {
    pub(crate) const ALL: [Self; 2] = [Self::Ternary, Self::Binary];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ternary => "ternary",
            Self::Binary => "binary",
        }
    }

    /// How many inputs a gate has.
    pub(crate) fn arity(self) -> usize {
        match self {
            Self::Ternary => 3,
            Self::Binary => 2,
        }
    }
}

/// A gate: bit `a*4 + b*2 + c` of the table is its value for inputs `a, b, c`. A gate of two inputs has `c == b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    pub(crate) table: u8,
    pub(crate) fan_in: [u8; 3],
}

impl Gate {
    pub(crate) fn value(&self, values: &[Truth]) -> Truth {
        let [a, b, c] = self.fan_in.map(|signal| values[usize::from(signal)]);
        let bit = |at: u32| 0u64.wrapping_sub(u64::from(self.table) >> at & 1);
        let by_c = |at: u32| bit(at) ^ (c & (bit(at) ^ bit(at + 1)));
        let by_b = |at: u32| {
            let low = by_c(at);
            low ^ (b & (low ^ by_c(at + 2)))
        };
        let low = by_b(0);
        low ^ (a & (low ^ by_b(4)))
    }

    /// The gate of up to three inputs that is 1 on `on` and 0 on `off`; what neither decides is drawn at random.
    pub(crate) fn fitting(values: &[Truth], fan_in: [u8; 3], on: Truth, off: Truth, rng: &mut Rng) -> Self {
        let [a, b, c] = fan_in.map(|signal| values[usize::from(signal)]);
        let phase = |value: Truth, bit: u8| if bit == 1 { value } else { !value };
        let mut table = rng.next() as u8;
        for at in 0..8u8 {
            let cell = phase(a, at >> 2) & phase(b, at >> 1 & 1) & phase(c, at & 1);
            if cell & on != 0 {
                table |= 1 << at;
            } else if cell & off != 0 {
                table &= !(1 << at);
            }
        }
        Self { table, fan_in }
    }
}

/// Gates in an order in which each stands after its inputs. Signals 0 to 5 are `a1..a6`, 6 is the first gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) gates: Vec<Gate>,
    pub(crate) outputs: [u8; OUTPUTS],
}

impl Network {
    pub(crate) fn signals(&self) -> usize {
        INPUTS + self.gates.len()
    }

    pub(crate) fn values(&self) -> Vec<Truth> {
        let mut values = Vec::with_capacity(self.signals());
        values.extend(tables::inputs());
        for gate in &self.gates {
            values.push(gate.value(&values));
        }
        values
    }

    /// Checks all 64 entries of all four outputs. Outputs of the binary family may come out complemented.
    pub(crate) fn verify(&self, family: Family, index: usize) -> Result<()> {
        for (at, gate) in self.gates.iter().enumerate() {
            ensure!(gate.fan_in.iter().all(|&from| usize::from(from) < INPUTS + at), "gate {at} is used before it is");
            ensure!(family == Family::Ternary || gate.fan_in[1] == gate.fan_in[2], "gate {at} has three inputs");
        }
        let values = self.values();
        for (signal, truth) in self.outputs.iter().zip(tables::outputs(index)) {
            let value = *values.get(usize::from(*signal)).context("an output without a gate")?;
            let complemented = family == Family::Binary && value == !truth;
            ensure!(value == truth || complemented, "S{} of the {} family is wrong", index + 1, family.name());
        }
        Ok(())
    }

    /// The same function with the gates that no output needs left out, each gate straight before its first use as far
    /// as `rng` orders the inputs. `gates` need not be in order.
    pub(crate) fn ordered(gates: &[Gate], outputs: [u8; OUTPUTS], rng: &mut Rng) -> Self {
        let mut ordering = Ordering { gates, places: [None; SIGNALS_MAX], ordered: Vec::with_capacity(gates.len()) };
        for input in 0..INPUTS {
            ordering.places[input] = Some(input as u8);
        }
        let mut first_to_last: [usize; OUTPUTS] = std::array::from_fn(|output| output);
        rng.shuffle(&mut first_to_last);
        for output in first_to_last {
            ordering.place(outputs[output], rng);
        }
        let outputs = outputs.map(|signal| ordering.places[usize::from(signal)].unwrap_or_default());
        Self { gates: ordering.ordered, outputs }
    }

    /// The same network in the order, of many, that keeps the fewest values alive at once: a mild help for registers.
    pub(crate) fn scheduled(&self, rng: &mut Rng) -> Self {
        let orders = (0..SCHEDULES).map(|_| Self::ordered(&self.gates, self.outputs, rng));
        orders.min_by_key(Self::alive_at_once).unwrap_or_else(|| self.clone())
    }

    /// The largest number of signals that are still needed behind some gate.
    fn alive_at_once(&self) -> usize {
        let mut last_use = vec![0; self.signals()];
        for (at, gate) in self.gates.iter().enumerate() {
            for from in gate.fan_in {
                last_use[usize::from(from)] = at;
            }
        }
        for output in self.outputs {
            last_use[usize::from(output)] = self.gates.len();
        }
        let alive = |at: usize| last_use[..=INPUTS + at].iter().filter(|&&last| last > at).count();
        (0..self.gates.len()).map(alive).max().unwrap_or(0)
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = self.outputs.map(|output| output.to_string()).join(",");
        for Gate { table, fan_in: [a, b, c] } in &self.gates {
            text += &format!(" {table:02x}:{a},{b},{c}");
        }
        text
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut words = text.split(' ');
        let numbers =
            |text: &str| -> Result<Vec<u8>> { Ok(text.split(',').map(str::parse).collect::<Result<_, _>>()?) };
        let outputs = numbers(words.next().context("no outputs")?)?;
        let outputs = outputs.try_into().map_err(|_| anyhow::anyhow!("not four outputs"))?;
        let gate = |word: &str| -> Result<Gate> {
            let (table, fan_in) = word.split_once(':').context("a gate without a table")?;
            let fan_in = numbers(fan_in)?.try_into().map_err(|_| anyhow::anyhow!("not three inputs"))?;
            Ok(Gate { table: u8::from_str_radix(table, 16)?, fan_in })
        };
        let gates = words.map(gate).collect::<Result<Vec<Gate>>>()?;
        ensure!(gates.len() <= SIGNALS_MAX - INPUTS, "too many gates");
        Ok(Self { gates, outputs })
    }
}

/// A walk over the gates that the outputs need, inputs first.
struct Ordering<'g> {
    gates: &'g [Gate],
    places: [Option<u8>; SIGNALS_MAX],
    ordered: Vec<Gate>,
}

impl Ordering<'_> {
    fn place(&mut self, signal: u8, rng: &mut Rng) -> u8 {
        if let Some(place) = self.places[usize::from(signal)] {
            return place;
        }
        let mut gate = self.gates[usize::from(signal) - INPUTS];
        let mut first_to_last = [0, 1, 2];
        rng.shuffle(&mut first_to_last);
        for input in first_to_last {
            gate.fan_in[input] = self.place(gate.fan_in[input], rng);
        }
        self.ordered.push(gate);
        let place = (INPUTS + self.ordered.len() - 1) as u8;
        self.places[usize::from(signal)] = Some(place);
        place
    }
}
