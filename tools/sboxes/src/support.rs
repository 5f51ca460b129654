//! Which few signals decide a function: all sets of up to three signals that tell its ones from its zeros.

use crate::network::SIGNALS_MAX;
use crate::tables::Truth;

/// A set of signals.
pub(crate) type Signals = u128;

/// The ones and the zeros of a partly specified function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Partial {
    pub(crate) on: Truth,
    pub(crate) off: Truth,
}

impl Partial {
    /// Whether the ones and the zeros still have to be told apart.
    pub(crate) fn is_mixed(self) -> bool {
        self.on != 0 && self.off != 0
    }

    pub(crate) fn within(self, part: Truth) -> Self {
        Self { on: self.on & part, off: self.off & part }
    }
}

/// What a new gate may be, so that together with one or two given signals it decides a function: in each of `mixed`, the
/// parts that the given signals leave mixed, it is the function or its complement, in the first of them the function.
fn inner_functions(mixed: &[Partial]) -> impl Iterator<Item = Partial> {
    let choices = if mixed.is_empty() { 0 } else { 1 << (mixed.len() - 1) };
    (0..choices).map(move |signs: usize| {
        let mut inner = Partial { on: 0, off: 0 };
        for (cell, part) in mixed.iter().enumerate() {
            let complement = (signs << 1) >> cell & 1 == 1;
            let (on, off) = if complement { (part.off, part.on) } else { (part.on, part.off) };
            inner.on |= on;
            inner.off |= off;
        }
        inner
    })
}

/// The cells of one signal (given twice) or two.
fn cells(d: Truth, e: Truth) -> [Truth; 4] {
    [d & e, d & !e, !d & e, !d & !e]
}

/// The signals by minterm: which of them are 1 there.
pub(crate) struct Columns([Signals; 64]);

impl Columns {
    pub(crate) fn new(values: &[Truth]) -> Self {
        let mut columns = [0; 64];
        for (half, values) in values.chunks(64).enumerate() {
            let mut block = [0; 64];
            block[..values.len()].copy_from_slice(values);
            transpose(&mut block);
            for (column, bits) in columns.iter_mut().zip(block) {
                *column |= Signals::from(bits) << (64 * half);
            }
        }
        Self(columns)
    }

    /// The signals that tell the first one of `part` from its first zero.
    fn telling_first(&self, part: Partial) -> Signals {
        self.0[part.on.trailing_zeros() as usize] ^ self.0[part.off.trailing_zeros() as usize]
    }

    /// The signals that tell its last one from its last zero.
    fn telling_last(&self, part: Partial) -> Signals {
        self.0[63 - part.on.leading_zeros() as usize] ^ self.0[63 - part.off.leading_zeros() as usize]
    }
}

/// Transposes 64 words of 64 bits: halves of ever smaller blocks change places.
fn transpose(block: &mut [u64; 64]) {
    let mut width = 32;
    let mut mask = u64::MAX >> 32;
    while width > 0 {
        for at in (0..64).filter(|at| at & width == 0) {
            let swapped = (block[at] >> width ^ block[at + width]) & mask;
            block[at] ^= swapped << width;
            block[at + width] ^= swapped;
        }
        width /= 2;
        mask ^= mask << width;
    }
}

/// A gate in front of another.
pub(crate) struct Inner {
    pub(crate) function: Partial,
    pub(crate) fan_in: [u8; 3],
}

/// Finds the sets of up to `size` signals (at most three) that decide a function.
///
/// The search branches on a pair of a one and a zero: one of the signals that tell these two apart belongs to the set.
pub(crate) struct Finder<'v> {
    pub(crate) values: &'v [Truth],
    pub(crate) columns: &'v Columns,
    pub(crate) size: usize,
    /// The sets found, short ones filled up with their last signal; all of them, or the first `limit`.
    pub(crate) found: Vec<[u8; 3]>,
    pub(crate) limit: usize,
}

impl Finder<'_> {
    pub(crate) fn find(&mut self, function: Partial, allowed: Signals) {
        self.found.clear();
        let parts: &[Partial] = if function.is_mixed() { &[function] } else { &[] };
        self.search(parts, &mut [0; 3], 0, allowed);
    }

    /// Finds the gates that, together with the signals of values `d` and `e`, decide `function`: what each has to be,
    /// and its inputs. None if `d` and `e` decide alone.
    pub(crate) fn find_inner(&mut self, function: Partial, [d, e]: [Truth; 2], allowed: Signals) -> Vec<Inner> {
        let mut mixed = [function; 4];
        let mut count = 0;
        for part in cells(d, e).map(|cell| function.within(cell)).into_iter().filter(|part| part.is_mixed()) {
            mixed[count] = part;
            count += 1;
        }
        let mixed = &mixed[..count];
        let mut gates = Vec::new();
        if mixed.is_empty() {
            return gates;
        }
        self.found.clear();
        // The inputs must tell apart each part, whatever the gate is there; few sets do.
        self.search(mixed, &mut [0; 3], 0, allowed);
        for &fan_in in &self.found {
            let decided = inner_functions(mixed).filter(|inner| self.decides(fan_in, *inner));
            gates.extend(decided.map(|function| Inner { function, fan_in }));
        }
        gates
    }

    fn decides(&self, fan_in: [u8; 3], function: Partial) -> bool {
        let [a, b, c] = fan_in.map(|signal| self.values[usize::from(signal)]);
        let [with_c, without_c] = [function.within(c), function.within(!c)];
        let parts = [with_c.within(a), with_c.within(!a), without_c.within(a), without_c.within(!a)];
        parts.into_iter().all(|part| !part.within(b).is_mixed() && !part.within(!b).is_mixed())
    }

    fn search(&mut self, parts: &[Partial], chosen: &mut [u8; 3], depth: usize, mut allowed: Signals) {
        let Some(&first) = parts.first() else {
            let last = chosen[depth.saturating_sub(1)];
            chosen[depth..].fill(last);
            self.found.push(*chosen);
            return;
        };
        if depth + 1 == self.size {
            self.complete(parts, *chosen, depth, allowed);
            return;
        }
        let mut telling = self.columns.telling_first(first) & allowed;
        for part in parts {
            for other in [self.columns.telling_first(*part) & allowed, self.columns.telling_last(*part) & allowed] {
                if other.count_ones() < telling.count_ones() {
                    telling = other;
                }
            }
        }
        let mut split = [first; 16];
        while telling != 0 && self.found.len() < self.limit {
            let signal = telling.trailing_zeros() as usize;
            telling &= telling - 1;
            allowed &= !(1 << signal);
            chosen[depth] = signal as u8;
            let mut count = 0;
            for part in parts {
                for half in [part.within(self.values[signal]), part.within(!self.values[signal])] {
                    if half.is_mixed() {
                        split[count] = half;
                        count += 1;
                    }
                }
            }
            self.search(&split[..count], chosen, depth + 1, allowed);
        }
    }

    /// The last signal has to tell everything apart.
    fn complete(&mut self, parts: &[Partial], mut chosen: [u8; 3], depth: usize, allowed: Signals) {
        let mut telling = allowed;
        for part in parts {
            telling &= self.columns.telling_first(*part) & self.columns.telling_last(*part);
        }
        while telling != 0 && self.found.len() < self.limit {
            let signal = telling.trailing_zeros() as usize;
            telling &= telling - 1;
            let value = self.values[signal];
            if !parts.iter().any(|part| part.within(value).is_mixed() || part.within(!value).is_mixed()) {
                chosen[depth..].fill(signal as u8);
                self.found.push(chosen);
            }
        }
    }
}

/// The set of the first `count` signals.
pub(crate) fn first_signals(count: usize) -> Signals {
    if count >= SIGNALS_MAX { Signals::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn columns_are_the_transposed_values() {
        let mut rng = Rng::new(1);
        let values: Vec<Truth> = (0..100).map(|_| rng.next()).collect();
        let columns = Columns::new(&values);
        for (signal, value) in values.iter().enumerate() {
            for minterm in 0..64 {
                assert_eq!(columns.0[minterm] >> signal & 1, u128::from(value >> minterm & 1));
            }
        }
    }

    #[test]
    fn every_deciding_set_is_found_once() {
        let mut rng = Rng::new(2);
        let values: Vec<Truth> = (0..14).map(|_| rng.next()).collect();
        let columns = Columns::new(&values);
        for _ in 0..50 {
            let care = rng.next() & rng.next() & rng.next();
            let [a, b, c] = [rng.below(14), rng.below(14), rng.below(14)].map(|signal| values[signal]);
            let truth = a ^ (b & c);
            let function = Partial { on: truth & care, off: !truth & care };
            if !function.is_mixed() {
                continue;
            }
            let mut finder = Finder { values: &values, columns: &columns, size: 3, found: Vec::new(), limit: 10_000 };
            finder.find(function, first_signals(14));
            let mut found: Vec<Signals> =
                finder.found.iter().map(|set| set.iter().fold(0, |s, &signal| s | 1 << signal)).collect();
            let total = found.len();
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len(), total);
            for set in (0..1u128 << 14).filter(|set| set.count_ones() == 3) {
                let members: Vec<Truth> = (0..14).filter(|s| set >> s & 1 == 1).map(|s| values[s]).collect();
                let cells = (0..8).map(|cell| {
                    (0..3).fold(u64::MAX, |part, i| part & if cell >> i & 1 == 1 { members[i] } else { !members[i] })
                });
                let decides = cells.into_iter().all(|part| !function.within(part).is_mixed());
                assert_eq!(decides, found.iter().any(|smaller| smaller & set == *smaller), "{set:014b}");
            }
        }
    }
}
