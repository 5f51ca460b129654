//! Whether a public number is a square modulo a prime, by Legendre's symbol. For public numbers: the time tells what they are.
//!
//! The binary way to Jacobi's symbol halves `a`, or subtracts `b` from it, and exchanges both where `a` is smaller; each of these
//! changes the symbol's sign by rules on the lowest three bits. As in Lehmer's algorithm (1938), up to 31 such steps are taken on
//! the leading and the lowest words alone and then done to the long numbers at once. Where the leading words are too close to
//! tell which number is smaller, the steps end before, so that nothing is ever guessed.

/// Words of the longest prime.
const WORDS_MAX: usize = 128;

/// Steps that are taken on single words: what they do to the numbers fits 32 bits.
const STEPS_MAX: u32 = 31;

/// Leading words that differ by more belong to numbers that do in the same way: each step adds one to the error at most.
const APART: u64 = 64;

type Number = [u64; WORDS_MAX];

/// Two numbers, `b` odd, of which the symbol `(a / b)` is sought, and how its sign has changed.
struct Pair {
    a: Number,
    b: Number,
    /// Words that are not zero in both.
    len: usize,
    is_negative: bool,
}

/// Steps on words: `a` becomes `(own.0 a + own.1 b) / 2^count`, `b` likewise.
struct Steps {
    count: u32,
    of_a: (i64, i64),
    of_b: (i64, i64),
}

/// Whether a number is a square modulo a prime, other than zero; both big-endian, the number below the prime.
pub(super) fn is_square(number: &[u8], prime: &[u8]) -> bool {
    if prime.len() > 8 * WORDS_MAX || number.len() > prime.len() || prime.last().is_none_or(|last| last & 1 == 0) {
        return false;
    }
    let len = prime.len().div_ceil(8);
    let mut pair = Pair { a: words(number), b: words(prime), len, is_negative: false };
    loop {
        while pair.len > 1 && pair.a[pair.len - 1] | pair.b[pair.len - 1] == 0 {
            pair.len -= 1;
        }
        if pair.len == 1 {
            return pair.finish();
        }
        let steps = pair.steps();
        if steps.count == 0 { pair.subtract() } else { pair.apply(&steps) }
    }
}

fn words(bytes: &[u8]) -> Number {
    let mut number = [0; WORDS_MAX];
    for (word, chunk) in number.iter_mut().zip(bytes.rchunks(8)) {
        *word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    number
}

/// Whether halving changes the sign: `(2 / b)` is negative for 3 and 5 modulo 8.
fn halving_turns(b: u64) -> bool {
    matches!(b & 7, 3 | 5)
}

/// Whether exchanging odd numbers does: where both are 3 modulo 4.
fn exchange_turns(a: u64, b: u64) -> bool {
    a & b & 3 == 3
}

impl Pair {
    /// The leading words, both from the same bit on.
    fn leading(&self) -> (u64, u64) {
        let top = self.len - 1;
        let shift = (self.a[top] | self.b[top]).leading_zeros();
        let word = |number: &Number| number[top] << shift | number[top - 1] >> 1 >> (63 - shift);
        (word(&self.a), word(&self.b))
    }

    /// Steps as far as the leading words tell.
    fn steps(&mut self) -> Steps {
        let (mut leading_a, mut leading_b) = self.leading();
        let (mut low_a, mut low_b) = (self.a[0], self.b[0]);
        let mut steps = Steps { count: 0, of_a: (1, 0), of_b: (0, 1) };
        while steps.count < STEPS_MAX {
            if low_a & 1 == 1 {
                if leading_a.abs_diff(leading_b) <= APART {
                    break;
                }
                if leading_a < leading_b {
                    self.is_negative ^= exchange_turns(low_a, low_b);
                    core::mem::swap(&mut leading_a, &mut leading_b);
                    core::mem::swap(&mut low_a, &mut low_b);
                    core::mem::swap(&mut steps.of_a, &mut steps.of_b);
                }
                low_a = low_a.wrapping_sub(low_b);
                leading_a -= leading_b;
                steps.of_a = (steps.of_a.0 - steps.of_b.0, steps.of_a.1 - steps.of_b.1);
            }
            self.is_negative ^= halving_turns(low_b);
            low_a >>= 1;
            leading_a >>= 1;
            steps.of_b = (steps.of_b.0 << 1, steps.of_b.1 << 1);
            steps.count += 1;
        }
        steps
    }

    /// Does steps to the numbers. What comes of them is not negative, for smaller numbers alone were subtracted.
    fn apply(&mut self, steps: &Steps) {
        let (mut sums, mut before) = ([0i128; 2], [0u64; 2]);
        for index in 0..self.len {
            let words = [self.a[index], self.b[index]].map(i128::from);
            for (which, (of_a, of_b)) in [steps.of_a, steps.of_b].into_iter().enumerate() {
                sums[which] += i128::from(of_a) * words[0] + i128::from(of_b) * words[1];
                let word = sums[which] as u64;
                sums[which] >>= 64;
                let number = if which == 0 { &mut self.a } else { &mut self.b };
                if index > 0 {
                    number[index - 1] = before[which] >> steps.count | word << (64 - steps.count);
                }
                before[which] = word;
            }
        }
        self.a[self.len - 1] = before[0] >> steps.count | (sums[0] as u64) << (64 - steps.count);
        self.b[self.len - 1] = before[1] >> steps.count | (sums[1] as u64) << (64 - steps.count);
    }

    /// One step on the whole numbers, of which `a` is odd.
    fn subtract(&mut self) {
        if self.a[..self.len].iter().rev().lt(self.b[..self.len].iter().rev()) {
            self.is_negative ^= exchange_turns(self.a[0], self.b[0]);
            core::mem::swap(&mut self.a, &mut self.b);
        }
        let mut borrow = false;
        for index in 0..self.len {
            (self.a[index], borrow) = self.a[index].borrowing_sub(self.b[index], borrow);
        }
    }

    /// The symbol of numbers of a word.
    fn finish(mut self) -> bool {
        let [mut a, mut b] = [self.a[0], self.b[0]];
        while a != 0 {
            let zeros = a.trailing_zeros();
            a >>= zeros;
            self.is_negative ^= zeros % 2 == 1 && halving_turns(b);
            if a < b {
                self.is_negative ^= exchange_turns(a, b);
                core::mem::swap(&mut a, &mut b);
            }
            a -= b;
        }
        b == 1 && !self.is_negative
    }
}

#[cfg(test)]
mod tests {
    use ciphermill_contract::suite::DhGroup;
    use ciphermill_pairs::dh::prime;
    use crypto_bigint::{Odd, Uint};

    use super::super::samples::Random;
    use super::is_square;

    fn expected<const L: usize>(number: &[u8], modulus: &[u8]) -> bool {
        let modulus = Odd::new(Uint::<L>::from_be_slice(modulus)).expect("odd");
        Uint::<L>::from_be_slice(number).jacobi_symbol_vartime(&modulus).is_one().into()
    }

    #[test]
    fn symbols_are_those_of_a_library() {
        compare::<32>(prime(DhGroup::Ffdhe2048), 300);
        compare::<128>(prime(DhGroup::Modp8192), 60);
    }

    fn compare<const L: usize>(prime: &[u8], rounds: usize) {
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        let (mut squares, mut count) = (0, 0);
        for round in 0..rounds {
            let mut number = prime.to_vec();
            // Random, short, and close to the prime: the last ones keep the leading words together.
            let from = prime.len() - [256, 256, 6, 128, 1, 56][round % 6];
            if round % 6 != 5 {
                number[..from].fill(0);
            }
            number[from..].fill_with(|| random.next() as u8);
            number[0] &= if round % 6 == 5 { 0xff } else { 0x7f };
            if number >= prime.to_vec() {
                continue;
            }
            count += 1;
            let is_one = is_square(&number, prime);
            squares += usize::from(is_one);
            assert_eq!(is_one, expected::<L>(&number, prime), "{number:02x?}");
        }
        assert!(count > rounds * 2 / 3 && squares > count / 4 && squares < 3 * count / 4, "{squares} of {count}");
    }

    #[test]
    fn small_numbers_are_told_apart() {
        // Modulo 23, the squares are 1, 2, 3, 4, 6, 8, 9, 12, 13, 16 and 18; modulo 257, whose word is longer than a byte, powers of two are.
        let squares: Vec<u8> = (0..23).filter(|number| is_square(&[*number], &[23])).collect();
        assert_eq!(squares, [1, 2, 3, 4, 6, 8, 9, 12, 13, 16, 18]);
        assert!((0..8).all(|bit| is_square(&[0, 1 << bit], &[1, 1])) && !is_square(&[0, 3], &[1, 1]));
        assert!(!is_square(&[0], &[23]) && !is_square(&[1], &[22]) && !is_square(&[1], &[]));
    }
}
