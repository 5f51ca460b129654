//! The S-boxes of DES for the device, from the networks of the lanes engine, and the wiring around them.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};

use crate::files;

/// The S-boxes as functions in Rust, an operation a line.
const NETWORKS: &str = "engines/lanes/src/des/sboxes.rs";

/// FIPS 46-3, permuted choice 2; its inputs 1 to 28 are C, 29 to 56 are D.
#[rustfmt::skip]
const PC2: [usize; 48] = [
    14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10,
    23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13, 2,
    41, 52, 31, 37, 47, 55, 30, 40, 51, 45, 33, 48,
    44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
];

/// FIPS 46-3, permutation P.
#[rustfmt::skip]
const P: [usize; 32] = [
    16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10,
    2, 8, 24, 14, 32, 27, 3, 9, 19, 13, 30, 6, 22, 11, 4, 25,
];

/// How far C and D are rotated to the left in each round, summed up.
const ROTATIONS: [usize; 16] = [1, 2, 4, 6, 8, 10, 12, 14, 15, 17, 19, 21, 23, 25, 27, 28];

/// The block's bit, from 1, that the initial permutation puts at `to`, from 0: columns of even bits from below, then
/// those of odd bits (FIPS 46-3, IP).
fn initial(to: usize) -> usize {
    let (row, column) = (to / 8, to % 8);
    let first = if row < 4 { 58 + 2 * row } else { 57 + 2 * (row - 4) };
    first - 8 * column
}

/// Where a bit of the block, counted from 1 as the standard does, lies in the little-endian words in memory.
fn slice(bit: usize) -> usize {
    let bit = bit - 1;
    bit / 8 * 8 + 7 - bit % 8
}

/// The header.
pub(crate) fn render() -> Result<String> {
    let mut text = super::head(
        " * DES (FIPS 46-3): the S-boxes as networks of gates, which `tools/sboxes` found, and the wiring around them.\n\
         \x20* Inputs and outputs of an S-box stand the most significant bit first. A word of a half block holds one of its bits.\n",
    );
    text += &sboxes()?;
    text += &key_bits();
    text += &permutations();
    text += &round();
    Ok(text)
}

/// The networks of the lanes engine, whose tests ask them for every entry, in the device's language.
fn sboxes() -> Result<String> {
    let networks = std::fs::read_to_string(files::root().join(NETWORKS)).context(NETWORKS)?;
    let text = networks.lines().map(translated).collect::<Result<String>>().context(NETWORKS)?;
    Ok(text + "\n#endif\n")
}

/// A line of the generated networks; nothing for a line that has no counterpart on the device.
fn translated(line: &str) -> Result<String> {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    Ok(match words.collect::<Vec<&str>>()[..] {
        ["pub", "crate", "mod", "ternary"] => {
            "\n#if defined(__CUDACC__) || defined(__CUDACC_RTC__) || defined(DES_GATES_OF_THREE)\n".to_owned()
        }
        ["pub", "crate", "mod", "binary"] => "\n#else\n".to_owned(),
        ["pub", "crate", "fn", name, ..] => format!(
            "\nDEVICE void des_{name}(u32 a1, u32 a2, u32 a3, u32 a4, u32 a5, u32 a6, u32 *o1, u32 *o2, u32 *o3, u32 *o4)\n{{\n"
        ),
        ["let", gate, a, operation, ref others @ ..] => {
            let value = match (operation, others) {
                ("ternary", [table, b, c]) => format!("GATE_3({table}, {a}, {b}, {c})"),
                ("xor", [b]) => format!("{a} ^ {b}"),
                ("and", [b]) => format!("{a} & {b}"),
                ("or", [b]) => format!("{a} | {b}"),
                ("and_not", [b]) => format!("{a} & ~{b}"),
                ("not", []) => format!("~{a}"),
                _ => bail!("{line} is no gate"),
            };
            format!("    u32 {gate} = {value};\n")
        }
        [o1, o2, o3, o4] if line.ends_with(']') => {
            format!("    *o1 ^= {o1};\n    *o2 ^= {o2};\n    *o3 ^= {o3};\n    *o4 ^= {o4};\n}}\n")
        }
        _ => String::new(),
    })
}

/// Which of a key's 56 words each bit of a round key is: the rotated C, then the rotated D.
fn key_bits() -> String {
    let mut text = String::from(
        "\n/* Which of the key's words each bit of a round key is. */\nCONSTANT u8 des_key_bits[16][48] = {\n",
    );
    for rotation in ROTATIONS {
        let bit = |choice: usize| {
            let (half, at) = ((choice - 1) / 28, (choice - 1) % 28);
            (28 * half + (at + rotation) % 28).to_string()
        };
        let bits: Vec<String> = PC2.into_iter().map(bit).collect();
        let _ = writeln!(text, "    {{{},\n     {}}},", bits[..24].join(", "), bits[24..].join(", "));
    }
    text + "};\n"
}

/// The initial permutation, added to what is in both halves, from the block's lower and higher word; and the final one.
fn permutations() -> String {
    let mut text = String::new();
    for (word, name) in ["low", "high"].into_iter().enumerate() {
        let places = (0..64).filter(|to| slice(initial(*to)) / 32 == word);
        let half = |to: usize| format!("{}[{}]", if to < 32 { "left" } else { "right" }, to % 32);
        let _ = write!(text, "\nDEVICE void des_initial_{name}(u32 *left, u32 *right, const u32 *x)\n{{\n");
        for to in places.clone() {
            let _ = writeln!(text, "    {} ^= x[{}];", half(to), slice(initial(to)) % 32);
        }
        let _ = write!(text, "}}\n\nDEVICE void des_final_{name}(u32 *x, const u32 *left, const u32 *right)\n{{\n");
        for to in places {
            let _ = writeln!(text, "    x[{}] = {};", slice(initial(to)) % 32, half(to));
        }
        text += "}\n";
    }
    text
}

/// One round: expansion, key, S-boxes and P, added to the left half.
fn round() -> String {
    let mut text = String::from(
        "\nDEVICE void des_round(u32 *left, const u32 *right, LOCAL_POINTER const u32 *key, u32 round)\n{\n\
         #define KEY(bit) key[des_key_bits[round][bit] * DES_GROUP_MAX]\n",
    );
    for index in 0..8 {
        let input = |at: usize| {
            let from = (4 * index + at + 31) % 32;
            format!("right[{from}] ^ KEY({})", 6 * index + at)
        };
        let output = |at: usize| {
            let to = P.iter().position(|from| *from == 4 * index + at + 1).unwrap_or_default();
            format!("&left[{to}]")
        };
        let inputs: Vec<String> = (0..6).map(input).collect();
        let outputs: Vec<String> = (0..4).map(output).collect();
        let _ = writeln!(
            text,
            "    des_s{}({},\n           {},\n           {});",
            index + 1,
            inputs[..3].join(", "),
            inputs[3..].join(", "),
            outputs.join(", ")
        );
    }
    text + "#undef KEY\n}\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_permutation_is_the_printed_one() {
        assert_eq!([0, 1, 7, 8, 31, 32, 63].map(initial), [58, 50, 2, 60, 8, 57, 7]);
        let mut all: Vec<usize> = (0..64).map(initial).collect();
        all.sort_unstable();
        assert_eq!(all, (1..=64).collect::<Vec<_>>());
    }
}
