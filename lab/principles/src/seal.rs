//! SEAL 3.0 (Rogaway and Coppersmith, Journal of Cryptology 11, 1998), as in section 4.2 of the paper.
//!
//! A step of the inner loop is eight reads of T, each at a place that the one before it has just changed: the chain is
//! all there is. The listing of the paper feeds back as SEAL 2.0 does, two words instead of four; this is 3.0, and the
//! set-up of the registers for each kilobyte is timed too, which the paper leaves out.
//!
//! Straight, it is the paper's loop. Unrolled, two steps stand in a row, so that the words that they feed back are known.
//! Hiding, what does not hang on the chain (the message, S) is read and joined before it. In lanes, several chains run.

use ciphermill_tables::seal::set_up;

use crate::family::{Family, Style, keep_rolled, shortest};
use crate::word::Word;

/// Bytes of a step's key stream.
const STEP_LEN: usize = 16;

/// Steps between settings of the registers.
const STEPS: usize = 64;

/// Settings of the registers that one position index has: 64 KB of key stream.
const SETTINGS_MAX: usize = 64;

/// Bytes of key stream that one position index yields.
pub(crate) const LEN_MAX: usize = SETTINGS_MAX * STEPS * STEP_LEN;

/// The bits of a register that choose a word of T, as an offset in bytes.
const MASK: u32 = 0x7fc;

type T = [u32; 512];

/// The tables that a key gives.
#[derive(Clone)]
pub(crate) struct Seal {
    t: T,
    s: [[u32; 4]; STEPS],
    r: [[u32; 4]; SETTINGS_MAX],
}

impl Seal {
    pub(crate) fn new(key: &[u8; 20]) -> Seal {
        let tables = set_up(key);
        let mut seal = Seal { t: tables.t, s: [[0; 4]; STEPS], r: [[0; 4]; SETTINGS_MAX] };
        seal.s.as_flattened_mut().copy_from_slice(&tables.s);
        seal.r.as_flattened_mut().copy_from_slice(&tables.r);
        seal
    }
}

/// Registers a to d of `N` messages, and the words that are fed back.
struct Registers<W, const N: usize> {
    x: [[W; N]; 4],
    n: [[W; N]; 4],
}

/// The word of T at an offset in bytes.
#[inline(always)]
fn look_up<W: Word>(t: &T, offset: W) -> W {
    W::read(t, offset.shift_right(2))
}

impl<W: Word, const N: usize> Registers<W, N> {
    /// The registers for one kilobyte.
    #[inline(always)]
    fn set(keys: [&Seal; N], numbers: [u32; N], setting: usize) -> Self {
        let mut x = [[W::new(0); N]; 4];
        let mut fed = [[W::new(0); N]; 4];
        for n in 0..N {
            for (i, (register, start)) in x.iter_mut().zip(&keys[n].r[setting]).enumerate() {
                register[n] = W::new(numbers[n]).rotate_right(8 * i as u32).xor(W::fetch(start));
            }
        }
        for round in 0..3 {
            for i in 0..4 {
                for n in 0..N {
                    let chosen = look_up(&keys[n].t, x[i][n].and(W::new(MASK)));
                    x[(i + 1) % 4][n] = x[(i + 1) % 4][n].add(chosen);
                    x[i][n] = x[i][n].rotate_right(9);
                }
            }
            if round == 1 {
                fed = [x[3], x[1], x[0], x[2]];
            }
        }
        Registers { x, n: fed }
    }

    /// One step up to its output.
    #[inline(always)]
    fn step(&mut self, keys: [&Seal; N]) {
        let [a, b, c, d] = &mut self.x;
        let mask = W::new(MASK);
        let (mut p, mut q) = ([W::new(0); N], [W::new(0); N]);
        for n in 0..N {
            p[n] = a[n].and(mask);
            let read = look_up(&keys[n].t, p[n]);
            a[n] = a[n].rotate_right(9);
            b[n] = b[n].add(read).xor(a[n]);
        }
        for n in 0..N {
            q[n] = b[n].and(mask);
            let read = look_up(&keys[n].t, q[n]);
            b[n] = b[n].rotate_right(9);
            c[n] = c[n].xor(read).add(b[n]);
        }
        for n in 0..N {
            p[n] = p[n].add(c[n]).and(mask);
            let read = look_up(&keys[n].t, p[n]);
            c[n] = c[n].rotate_right(9);
            d[n] = d[n].add(read).xor(c[n]);
        }
        for n in 0..N {
            q[n] = q[n].add(d[n]).and(mask);
            let read = look_up(&keys[n].t, q[n]);
            d[n] = d[n].rotate_right(9);
            a[n] = a[n].xor(read).add(d[n]);
        }
        for n in 0..N {
            p[n] = p[n].add(a[n]).and(mask);
            b[n] = b[n].xor(look_up(&keys[n].t, p[n]));
            a[n] = a[n].rotate_right(9);
        }
        for n in 0..N {
            q[n] = q[n].add(b[n]).and(mask);
            c[n] = c[n].add(look_up(&keys[n].t, q[n]));
            b[n] = b[n].rotate_right(9);
        }
        for n in 0..N {
            p[n] = p[n].add(c[n]).and(mask);
            d[n] = d[n].xor(look_up(&keys[n].t, p[n]));
            c[n] = c[n].rotate_right(9);
        }
        for n in 0..N {
            q[n] = q[n].add(d[n]).and(mask);
            a[n] = a[n].add(look_up(&keys[n].t, q[n]));
            d[n] = d[n].rotate_right(9);
        }
    }

    /// The key stream of message `n` after a step.
    #[inline(always)]
    fn output(&self, n: usize, s: &[u32; 4]) -> [W; 4] {
        let [a, b, c, d] = &self.x;
        let [s0, s1, s2, s3] = s.each_ref().map(W::fetch);
        [b[n].add(s0), c[n].xor(s1), d[n].add(s2), a[n].xor(s3)]
    }

    /// The end of a step: words `first` and `first + 1` are fed back.
    #[inline(always)]
    fn feed(&mut self, first: usize) {
        let [a, b, c, d] = &mut self.x;
        let (one, two) = (self.n[first], self.n[first + 1]);
        for n in 0..N {
            a[n] = a[n].add(one[n]);
            b[n] = b[n].add(two[n]);
            c[n] = c[n].xor(one[n]);
            d[n] = d[n].xor(two[n]);
        }
    }
}

/// Adds a step's key stream to its part of the message.
#[inline(always)]
fn add_pad<W: Word>(pad: [W; 4], part: &mut [u8; STEP_LEN]) {
    for (word, bytes) in pad.into_iter().zip(part.as_chunks_mut::<4>().0) {
        W::load_be(bytes).xor(word).store_be(bytes);
    }
}

/// Adds the beginning of a step's key stream to what is left of a message.
fn add_rest<W: Word>(pad: [W; 4], rest: &mut [u8]) {
    let mut bytes = [0; STEP_LEN];
    add_pad(pad, &mut bytes);
    for (byte, pad) in rest.iter_mut().zip(bytes) {
        *byte ^= pad;
    }
}

/// A step that joins message and S before the chain is waited for.
#[inline(always)]
fn step_hiding<W: Word>(key: &Seal, registers: &mut Registers<W, 1>, s: &[u32; 4], part: &mut [u8; STEP_LEN]) {
    let words = part.as_chunks_mut::<4>().0;
    let text: [W; 4] = std::array::from_fn(|i| W::load_be(&words[i]));
    let [s0, s1, s2, s3] = s.each_ref().map(W::fetch);
    let (second, fourth) = (s1.xor(text[1]), s3.xor(text[3]));
    registers.step([key]);
    let [[a], [b], [c], [d]] = registers.x;
    let out = [b.add(s0).xor(text[0]), c.xor(second), d.add(s2).xor(text[2]), a.xor(fourth)];
    for (word, bytes) in out.into_iter().zip(words) {
        word.store_be(bytes);
    }
}

/// The paper's loop over one setting's part of a message.
#[inline(always)]
fn straight<W: Word>(key: &Seal, registers: &mut Registers<W, 1>, data: &mut [u8]) {
    let (parts, rest) = data.as_chunks_mut::<STEP_LEN>();
    let whole = parts.len();
    for (j, part) in parts.iter_mut().enumerate() {
        W::iteration();
        keep_rolled();
        registers.step([key]);
        add_pad(registers.output(0, &key.s[j % STEPS]), part);
        // The paper's N[2 * (j & 1)]: which words are fed back is worked out, and their place is memory.
        let first = W::new(j as u32).and(W::new(1)).shift_left(1).index() & 2;
        registers.feed(first);
    }
    finish(key, registers, whole, rest);
}

/// What is left after the last whole step.
#[inline(always)]
fn finish<W: Word>(key: &Seal, registers: &mut Registers<W, 1>, whole: usize, rest: &mut [u8]) {
    if !rest.is_empty() {
        registers.step([key]);
        add_rest(registers.output(0, &key.s[whole % STEPS]), rest);
    }
}

/// One setting's part of a message, two steps in a row.
#[inline(always)]
fn unrolled<W: Word>(key: &Seal, registers: &mut Registers<W, 1>, data: &mut [u8], hiding: bool) {
    let (pairs, rest) = data.as_chunks_mut::<{ 2 * STEP_LEN }>();
    let mut whole = 2 * pairs.len();
    for (pair, s) in pairs.iter_mut().zip(key.s.as_chunks::<2>().0) {
        W::iteration();
        if let [first, second] = pair.as_chunks_mut::<STEP_LEN>().0 {
            one_step(key, registers, &s[0], first, hiding);
            registers.feed(0);
            one_step(key, registers, &s[1], second, hiding);
            registers.feed(2);
        }
    }
    let (last, rest) = rest.as_chunks_mut::<STEP_LEN>();
    for part in last {
        one_step(key, registers, &key.s[whole], part, hiding);
        registers.feed(0);
        whole += 1;
    }
    finish(key, registers, whole, rest);
}

#[inline(always)]
fn one_step<W: Word>(
    key: &Seal,
    registers: &mut Registers<W, 1>,
    s: &[u32; 4],
    part: &mut [u8; STEP_LEN],
    hiding: bool,
) {
    if hiding {
        step_hiding(key, registers, s, part);
    } else {
        registers.step([key]);
        add_pad(registers.output(0, s), part);
    }
}

impl Family for Seal {
    const LANES: usize = 8;

    #[inline(always)]
    fn message<W: Word>(&self, style: Style, number: u32, data: &mut [u8]) {
        for (setting, data) in data.chunks_mut(STEPS * STEP_LEN).enumerate() {
            let mut registers = Registers::<W, 1>::set([self], [number], setting);
            match style {
                Style::Straight => straight(self, &mut registers, data),
                Style::Unrolled => unrolled(self, &mut registers, data, false),
                Style::Hiding => unrolled(self, &mut registers, data, true),
            }
        }
    }

    #[inline(always)]
    fn lanes<W: Word, const L: usize>(keys: [&Seal; L], numbers: [u32; L], data: [&mut [u8]; L]) {
        let len = shortest(&data);
        let mut data = data.map(|data| data.chunks_mut(STEPS * STEP_LEN));
        for setting in 0..len.div_ceil(STEPS * STEP_LEN) {
            let mut registers = Registers::<W, L>::set(keys, numbers, setting);
            let parts = data.each_mut().map(|data| data.next().unwrap_or_default().as_chunks_mut::<STEP_LEN>());
            let whole = parts.iter().map(|(parts, _)| parts.len()).min().unwrap_or(0);
            for j in 0..whole {
                W::iteration();
                registers.step(keys);
                for l in 0..L {
                    add_pad(registers.output(l, &keys[l].s[j % STEPS]), &mut parts[l].0[j]);
                }
                registers.feed(2 * (j % 2));
            }
            if parts.iter().any(|(_, rest)| !rest.is_empty()) {
                registers.step(keys);
                for l in 0..L {
                    add_rest(registers.output(l, &keys[l].s[whole % STEPS]), parts[l].1);
                }
            }
        }
    }
}
