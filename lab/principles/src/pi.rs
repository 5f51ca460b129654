//! The fraction of pi, from which Blowfish takes its first tables, worked out by Machin's formula.

/// Words beyond those that are asked for, to take the rounding of some ten thousand divisions.
const GUARD_WORDS: usize = 2;

/// The first `count` words of pi's fraction, highest first: pi = 16 arctan(1/5) - 4 arctan(1/239).
pub(crate) fn fraction(count: usize) -> Vec<u32> {
    let mut sum = vec![0; 1 + count + GUARD_WORDS];
    add_arctan(&mut sum, 16, 5, false);
    add_arctan(&mut sum, 4, 239, true);
    sum[1..=count].to_vec()
}

/// Adds `factor` times arctan(1/`x`), or takes it away. Numbers are words, highest first, the first one whole.
fn add_arctan(sum: &mut [u32], factor: u32, x: u32, negative: bool) {
    let mut power = vec![0; sum.len()];
    power[0] = factor;
    divide(&mut power, 0, x);
    let mut term = vec![0; sum.len()];
    let mut first = 0;
    for odd in (1..).step_by(2) {
        while first < power.len() && power[first] == 0 {
            first += 1;
        }
        if first == power.len() {
            return;
        }
        term[first..].copy_from_slice(&power[first..]);
        divide(&mut term, first, odd);
        if negative == (odd % 4 == 1) {
            subtract(sum, &term, first);
        } else {
            add(sum, &term, first);
        }
        term[first] = 0;
        divide(&mut power, first, x * x);
    }
}

/// Divides a number whose words before `first` are zero.
fn divide(number: &mut [u32], first: usize, divisor: u32) {
    let mut rest = 0;
    for word in &mut number[first..] {
        let part = rest << 32 | u64::from(*word);
        *word = (part / u64::from(divisor)) as u32;
        rest = part % u64::from(divisor);
    }
}

/// Adds a number whose words before `first` are zero.
fn add(sum: &mut [u32], term: &[u32], first: usize) {
    let mut carry = false;
    for (place, (word, more)) in sum.iter_mut().zip(term).enumerate().rev() {
        if place < first && !carry {
            return;
        }
        let total = u64::from(*word) + if place < first { 0 } else { u64::from(*more) } + u64::from(carry);
        *word = total as u32;
        carry = total >> 32 != 0;
    }
}

/// Takes away a number whose words before `first` are zero.
fn subtract(sum: &mut [u32], term: &[u32], first: usize) {
    let mut borrow = false;
    for (place, (word, less)) in sum.iter_mut().zip(term).enumerate().rev() {
        if place < first && !borrow {
            return;
        }
        let less = if place < first { 0 } else { u64::from(*less) } + u64::from(borrow);
        let total = u64::from(*word).wrapping_sub(less);
        *word = total as u32;
        borrow = total >> 32 != 0;
    }
}

#[cfg(test)]
mod tests {
    use super::fraction;

    #[test]
    fn begins_like_pi() {
        // 3.14159265358979323846..., as the fraction of a double and beyond it.
        let words = fraction(4);
        assert_eq!(words, [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344]);
        let value = 3.0 + f64::from(words[0]) / 2f64.powi(32) + f64::from(words[1]) / 2f64.powi(64);
        assert_eq!(value, std::f64::consts::PI);
    }

    #[test]
    fn more_words_do_not_change_the_first() {
        assert_eq!(fraction(100)[..50], fraction(50));
    }
}
