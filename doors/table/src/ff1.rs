//! Alphabets of FF1, and the way between a text and the numerals that are encrypted.
//!
//! A text is split into a *template*, which stays in clear, and numerals. The template is the text's UTF-8 bytes with
//! one byte [`HOLE`] for each character that is encrypted; that byte never occurs in UTF-8, so the template says without
//! ambiguity where holes are. Encryption changes the numerals only, so a ciphertext has the plaintext's template.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use ciphermill_contract::Suite;
use ciphermill_contract::limits::FF1_NUMERALS_MAX;
use ciphermill_contract::suite::{AesSize, Ff1};

use crate::spec::Ff1Options;

/// What stands in a template for a character that is encrypted.
pub(crate) const HOLE: u8 = 0xff;

/// Characters that an alphabet may have: the largest radix of FF1.
pub const ALPHABET_LEN_MAX: usize = 1 << 16;

const NO_NUMERAL: u32 = u32::MAX;

/// Has a bit that no numeral of an alphabet of ASCII has.
const NO_BYTE: u8 = 0x80;

/// The characters that FF1 encrypts, in the order of their numerals.
#[derive(Clone, PartialEq, Eq)]
pub struct Alphabet {
    characters: Vec<char>,
    /// The same where all are ASCII.
    ascii_characters: Option<Vec<u8>>,
    /// The numeral of each byte where all are ASCII; [`NO_BYTE`] for others.
    bytes: Box<[u8; 256]>,
    ascii: Box<[u32; 128]>,
    others: HashMap<char, u32>,
}

/// The characters outside of an alphabet that may occur in a text. They stay in clear, in their places; every other
/// character is an error, so that nothing passes that nobody named: no letter between digits, no digit of another script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Separators {
    characters: Vec<char>,
    any: bool,
    /// A bit for each ASCII character that is one.
    ascii: u128,
}

/// Why a text cannot be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitProblem {
    /// Too few characters to encrypt; so many were found.
    TooShort(usize),
    /// More characters than [`FF1_NUMERALS_MAX`]; so many were found.
    TooLong(usize),
    /// A character that is neither in the alphabet nor a separator.
    NotInAlphabet,
}

/// What a split text is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Characters that are encrypted.
    pub(crate) holes: usize,
    /// Whether anything stays in clear: separators, a kept start or end.
    pub(crate) keeps_some: bool,
}

impl Alphabet {
    /// Reads a name (`digits`, `lower`, `upper`, `letters`, `alnum`) or the characters themselves.
    ///
    /// # Errors
    /// In words: fewer than two characters, more than [`ALPHABET_LEN_MAX`], or one of them twice.
    pub fn parse(text: &str) -> Result<Alphabet, String> {
        match NAMED.iter().find(|(name, _)| *name == text) {
            Some((_, characters)) => Alphabet::new(characters.chars().collect()),
            None => Alphabet::new(text.chars().collect()),
        }
    }

    fn new(characters: Vec<char>) -> Result<Alphabet, String> {
        if characters.len() < 2 {
            return Err("an alphabet has at least two characters".to_owned());
        }
        if characters.len() > ALPHABET_LEN_MAX {
            return Err(format!("an alphabet has at most {ALPHABET_LEN_MAX} characters"));
        }
        let mut ascii = Box::new([NO_NUMERAL; 128]);
        let mut others = HashMap::new();
        for (numeral, character) in (0u32..).zip(&characters) {
            let before = match ascii.get_mut(*character as usize) {
                Some(place) => std::mem::replace(place, numeral),
                None => others.insert(*character, numeral).unwrap_or(NO_NUMERAL),
            };
            if before != NO_NUMERAL {
                return Err(format!("the alphabet holds `{character}` twice"));
            }
        }
        let ascii_characters = characters.iter().map(|character| u8::try_from(*character).ok().filter(u8::is_ascii));
        let mut bytes = Box::new([NO_BYTE; 256]);
        for (byte, numeral) in bytes.iter_mut().zip(&*ascii) {
            *byte = u8::try_from(*numeral).unwrap_or(NO_BYTE);
        }
        Ok(Alphabet { ascii_characters: ascii_characters.collect(), bytes, characters, ascii, others })
    }

    /// How many characters there are.
    pub fn radix(&self) -> usize {
        self.characters.len()
    }

    /// Whether all characters are ASCII, so that texts keep their length in bytes.
    pub(crate) fn is_ascii(&self) -> bool {
        self.ascii_characters.is_some()
    }

    /// Whether the alphabet holds `character`.
    pub fn contains(&self, character: char) -> bool {
        self.numeral(character).is_some()
    }

    /// The suite that encrypts over this alphabet.
    pub(crate) fn suite(&self) -> Suite {
        Suite::Fpe(self.ff1())
    }

    /// The fewest characters that make a domain of 10^6.
    pub(crate) fn numerals_min(&self) -> usize {
        self.ff1().numerals_min()
    }

    fn ff1(&self) -> Ff1 {
        // The radix is at most 2^16.
        Ff1 { size: AesSize::Aes256, radix: u32::try_from(self.radix()).unwrap_or(u32::MAX) }
    }

    #[inline]
    fn numeral(&self, character: char) -> Option<u32> {
        match self.ascii.get(character as usize) {
            Some(&NO_NUMERAL) => None,
            Some(&numeral) => Some(numeral),
            None => self.others.get(&character).copied(),
        }
    }
}

impl Separators {
    /// None: every character has to be in the alphabet.
    pub const NONE: Separators = Separators { characters: Vec::new(), any: false, ascii: 0 };

    /// Every character outside of the alphabet, as `ff1` had it before separators were named. Only files that were
    /// protected then are restored so.
    pub(crate) const ANY: Separators = Separators { characters: Vec::new(), any: true, ascii: u128::MAX };

    /// The characters of `text`.
    ///
    /// # Errors
    /// In words: one of them is in the alphabet, or stands there twice.
    pub fn named(text: &str, alphabet: &Alphabet) -> Result<Separators, String> {
        let characters: Vec<char> = text.chars().collect();
        for (at, character) in characters.iter().enumerate() {
            if alphabet.contains(*character) {
                return Err(format!("the separator `{character}` is in the alphabet"));
            }
            if characters[..at].contains(character) {
                return Err(format!("the separators hold `{character}` twice"));
            }
        }
        let bits = characters.iter().filter(|character| character.is_ascii());
        let ascii = bits.fold(0, |bits, character| bits | 1 << u32::from(*character));
        Ok(Separators { characters, any: false, ascii })
    }

    /// The characters; nothing when all outside of the alphabet are meant.
    pub fn characters(&self) -> Option<&[char]> {
        (!self.any).then_some(&self.characters)
    }

    #[inline]
    fn allow(&self, character: char) -> bool {
        match u32::from(character) {
            ascii @ 0..128 => self.ascii >> ascii & 1 == 1,
            _ => self.any || self.characters.contains(&character),
        }
    }
}

const NAMED: [(&str, &str); 5] = [
    ("digits", "0123456789"),
    ("lower", "abcdefghijklmnopqrstuvwxyz"),
    ("upper", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    ("letters", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
    ("alnum", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
];

impl fmt::Display for Alphabet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let literal: String = self.characters.iter().collect();
        match NAMED.iter().find(|(_, characters)| *characters == literal) {
            Some((name, _)) => f.write_str(name),
            None => f.write_str(&literal),
        }
    }
}

impl fmt::Debug for Alphabet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Alphabet({self})")
    }
}

impl Ff1Options {
    /// Whether a text may hold `character`.
    pub(crate) fn holds(&self, character: char) -> bool {
        self.alphabet.contains(character) || self.separators.allow(character)
    }

    /// How many characters of `text` are encrypted.
    ///
    /// # Errors
    /// `SplitProblem`.
    pub(crate) fn holes(&self, text: &str) -> Result<usize, SplitProblem> {
        let members = if text.is_ascii() { self.members_of_ascii(text.as_bytes()) } else { self.members(text) };
        let members = members.ok_or(SplitProblem::NotInAlphabet)?;
        let holes = members.saturating_sub(self.keep_first).saturating_sub(self.keep_last);
        if holes < self.alphabet.numerals_min() {
            return Err(SplitProblem::TooShort(holes));
        }
        if holes > FF1_NUMERALS_MAX {
            return Err(SplitProblem::TooLong(holes));
        }
        Ok(holes)
    }

    /// Characters of the alphabet; `None` where another stands that is no separator.
    fn members(&self, text: &str) -> Option<usize> {
        let is_member = |character: char| match self.alphabet.contains(character) {
            true => Some(1),
            false => self.separators.allow(character).then_some(0),
        };
        text.chars().map(is_member).sum()
    }

    /// The same of bytes below 128, without a branch for each.
    fn members_of_ascii(&self, text: &[u8]) -> Option<usize> {
        let (mut members, mut strangers) = (0, 0u32);
        for byte in text {
            let is_member = self.alphabet.ascii[usize::from(*byte & 0x7f)] != NO_NUMERAL;
            members += usize::from(is_member);
            strangers |= u32::from(!is_member) & !((self.separators.ascii >> (*byte & 0x7f)) as u32);
        }
        (strangers & 1 == 0).then_some(members)
    }

    /// Splits `text`: its template is appended to `template`, its numerals (two little-endian bytes each) to `numerals`.
    ///
    /// # Errors
    /// `SplitProblem`; both vectors may then hold a part.
    pub(crate) fn split(
        &self,
        text: &str,
        template: &mut Vec<u8>,
        numerals: &mut Vec<u8>,
    ) -> Result<Shape, SplitProblem> {
        let holes = self.holes(text)?;
        let encrypted = self.keep_first..self.keep_first + holes;
        if text.is_ascii() {
            self.split_ascii(text.as_bytes(), encrypted, template, numerals);
            return Ok(Shape { holes, keeps_some: holes < text.len() });
        }
        let mut member = 0;
        let mut keeps_some = false;
        for character in text.chars() {
            let numeral = self.alphabet.numeral(character);
            let index = member;
            member += usize::from(numeral.is_some());
            match numeral {
                Some(numeral) if encrypted.contains(&index) => {
                    template.push(HOLE);
                    // Below the radix, so it fits sixteen bits.
                    numerals.extend_from_slice(&(numeral as u16).to_le_bytes());
                }
                _ => {
                    keeps_some = true;
                    template.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
        Ok(Shape { holes, keeps_some })
    }

    /// The same of bytes below 128, of which the members of the alphabet with these numbers are encrypted.
    fn split_ascii(&self, text: &[u8], encrypted: Range<usize>, template: &mut Vec<u8>, numerals: &mut Vec<u8>) {
        let mut member = 0;
        let first = numerals.len();
        // One place more: the numeral of a character that is kept is written there, and written over or cut off.
        numerals.resize(first + 2 * encrypted.len() + 2, 0);
        let (places, _) = numerals[first..].as_chunks_mut::<2>();
        let mut taken = 0;
        template.extend(text.iter().map(|byte| {
            let numeral = self.alphabet.ascii[usize::from(*byte & 0x7f)];
            let is_member = numeral != NO_NUMERAL;
            let is_hole = is_member && encrypted.contains(&member);
            member += usize::from(is_member);
            // Below the radix, so it fits sixteen bits.
            places[taken] = (numeral as u16).to_le_bytes();
            taken += usize::from(is_hole);
            if is_hole { HOLE } else { *byte }
        }));
        numerals.truncate(first + 2 * taken);
    }

    /// Appends the numerals of a text all of which is encrypted. Says whether it is such a text, with characters of an
    /// alphabet of ASCII alone and enough of them; else appends nothing.
    pub(crate) fn push_plain(&self, text: &[u8], numerals: &mut Vec<u8>) -> bool {
        let lens = self.alphabet.numerals_min()..=FF1_NUMERALS_MAX;
        if !self.alphabet.is_ascii() || self.keep_first + self.keep_last > 0 || !lens.contains(&text.len()) {
            return false;
        }
        let first = numerals.len();
        let mut strangers = 0;
        numerals.extend(text.iter().flat_map(|byte| {
            let numeral = self.alphabet.bytes[usize::from(*byte)];
            strangers |= numeral;
            [numeral, 0]
        }));
        let is_plain = strangers & NO_BYTE == 0;
        if !is_plain {
            numerals.truncate(first);
        }
        is_plain
    }

    /// Writes the text of numerals that [`Ff1Options::push_plain`] has made. Says whether each is in the alphabet.
    #[must_use]
    pub(crate) fn write_plain(&self, numerals: &[u8], text: &mut [u8]) -> bool {
        let (numerals, rest) = numerals.as_chunks::<2>();
        let characters = self.alphabet.ascii_characters.as_deref().unwrap_or_default();
        let mut is_good = rest.is_empty() && numerals.len() == text.len();
        for (byte, numeral) in text.iter_mut().zip(numerals) {
            match characters.get(usize::from(u16::from_le_bytes(*numeral))) {
                Some(character) => *byte = *character,
                None => is_good = false,
            }
        }
        is_good
    }

    /// Fills a template's holes with `numerals` and appends the text to `text`. Returns whether each hole found a
    /// numeral of the alphabet and none was left over.
    #[must_use]
    pub(crate) fn join(&self, template: &[u8], numerals: &[u8], text: &mut Vec<u8>) -> bool {
        let (numerals, rest) = numerals.as_chunks::<2>();
        if let (Some(ascii), []) = (&self.alphabet.ascii_characters, rest) {
            return join_ascii(ascii, template, numerals, text);
        }
        let mut numerals = numerals.iter();
        for byte in template {
            if *byte != HOLE {
                text.push(*byte);
                continue;
            }
            let numeral = numerals.next().map(|bytes| usize::from(u16::from_le_bytes(*bytes)));
            match numeral.and_then(|numeral| self.alphabet.characters.get(numeral)) {
                Some(character) => text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
                None => return false,
            }
        }
        rest.is_empty() && numerals.next().is_none()
    }
}

/// The same with an alphabet of ASCII alone.
fn join_ascii(alphabet: &[u8], template: &[u8], numerals: &[[u8; 2]], text: &mut Vec<u8>) -> bool {
    let (mut taken, mut is_good) = (0, true);
    text.extend(template.iter().map(|byte| {
        if *byte != HOLE {
            return *byte;
        }
        let numeral = numerals.get(taken).map(|bytes| usize::from(u16::from_le_bytes(*bytes)));
        taken += 1;
        let character = numeral.and_then(|numeral| alphabet.get(numeral));
        is_good &= character.is_some();
        character.copied().unwrap_or_default()
    }));
    is_good && taken == numerals.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn options(alphabet: &str, keep_first: usize, keep_last: usize) -> Ff1Options {
        let alphabet = Alphabet::parse(alphabet).unwrap();
        Ff1Options { alphabet, keep_first, keep_last, separators: Separators::ANY }
    }

    fn split(options: &Ff1Options, text: &str) -> Result<(Vec<u8>, Vec<u8>, Shape), SplitProblem> {
        let (mut template, mut numerals) = (Vec::new(), Vec::new());
        let shape = options.split(text, &mut template, &mut numerals)?;
        Ok((template, numerals, shape))
    }

    #[test]
    fn separators_and_kept_ends_stay_in_the_template() {
        let (template, numerals, shape) = split(&options("digits", 2, 1), "25-989-741-2988").unwrap();
        assert_eq!(template, b"25-\xff\xff\xff-\xff\xff\xff-\xff\xff\xff8");
        assert_eq!(numerals, [9, 0, 8, 0, 9, 0, 7, 0, 4, 0, 1, 0, 2, 0, 9, 0, 8, 0]);
        assert_eq!(shape, Shape { holes: 9, keeps_some: true });
        let (template, _, shape) = split(&options("digits", 0, 0), "123456").unwrap();
        assert_eq!((template.as_slice(), shape.keeps_some), (&[HOLE; 6][..], false));
    }

    #[test]
    fn small_domains_are_errors() {
        assert_eq!(split(&options("digits", 0, 0), "12345"), Err(SplitProblem::TooShort(5)));
        assert_eq!(split(&options("digits", 3, 0), "12345678"), Err(SplitProblem::TooShort(5)));
        assert_eq!(split(&options("digits", 9, 9), "12345678"), Err(SplitProblem::TooShort(0)));
        assert_eq!(split(&options("lower", 0, 0), "abcd"), Err(SplitProblem::TooShort(4)));
        assert!(split(&options("lower", 0, 0), "abcde").is_ok());
        assert_eq!(split(&options("digits", 0, 0), "n/a"), Err(SplitProblem::TooShort(0)));
        let long = "7".repeat(FF1_NUMERALS_MAX + 1);
        assert_eq!(split(&options("digits", 0, 0), &long), Err(SplitProblem::TooLong(FF1_NUMERALS_MAX + 1)));
    }

    #[test]
    fn characters_that_nobody_named_are_refused() {
        let mut named = options("digits", 0, 0);
        named.separators = Separators::named("-() +", &named.alphabet).unwrap();
        assert!(split(&named, "+41 (44) 123-4567").is_ok());
        for text in [
            "John Smith 1234567",
            "1234567x",
            "1234567\u{a0}",  // a space, though not the one that was named
            "123456٧",        // a digit, though not of this alphabet
            "\u{ff11}234567", // full width
            "1234567\u{301}", // a combining accent
            "1234567\u{200b}",
            "n/a",
        ] {
            assert_eq!(split(&named, text), Err(SplitProblem::NotInAlphabet), "{text}");
        }
        named.separators = Separators::NONE;
        assert_eq!(split(&named, "123-4567"), Err(SplitProblem::NotInAlphabet));
        assert_eq!(split(&named, "").unwrap_err(), SplitProblem::TooShort(0));
        let (template, ..) = split(&named, "0001234567").unwrap();
        assert_eq!(template, [HOLE; 10], "leading zeros are digits like others");
    }

    #[test]
    fn joining_refuses_what_does_not_fit() {
        let digits = options("digits", 0, 0);
        let mut text = Vec::new();
        assert!(!digits.join(&[HOLE, HOLE], &[1, 0], &mut text), "a hole without a numeral");
        assert!(!digits.join(&[HOLE], &[1, 0, 2, 0], &mut text), "a numeral without a hole");
        assert!(!digits.join(&[HOLE], &[10, 0], &mut text), "a numeral that is not below the radix");
        assert!(!digits.join(&[HOLE], &[1, 0, 2], &mut text), "half a numeral");
    }

    proptest! {
        #[test]
        fn a_split_text_joins_again(
            text in "[0-9a-fA-F€é .-]{0,40}",
            alphabet in prop_oneof![Just("digits"), Just("lower"), Just("alnum"), Just("0a€é")],
            keep_first in 0usize..4,
            keep_last in 0usize..4,
        ) {
            let options = options(alphabet, keep_first, keep_last);
            let Ok((template, numerals, shape)) = split(&options, &text) else { return Ok(()) };
            prop_assert_eq!(numerals.len(), 2 * shape.holes);
            let mut joined = Vec::new();
            prop_assert!(options.join(&template, &numerals, &mut joined));
            prop_assert_eq!(joined, text.as_bytes());
        }

        /// The way of ASCII texts is that of all others.
        #[test]
        fn a_separator_that_is_not_ascii_changes_nothing_else(
            text in "[0-9a .-]{0,30}",
            any in any::<bool>(),
            keep_first in 0usize..4,
            keep_last in 0usize..4,
        ) {
            let mut options = options("digits", keep_first, keep_last);
            if !any {
                options.separators = Separators::named(".-é", &options.alphabet).unwrap();
            }
            let other = split(&options, &(text.clone() + "é")).map(|(template, numerals, shape)| {
                (template[..template.len() - 2].to_vec(), numerals, shape.holes)
            });
            let own = split(&options, &text).map(|(template, numerals, shape)| (template, numerals, shape.holes));
            prop_assert_eq!(own, other);
        }

        #[test]
        fn other_numerals_keep_length_separators_and_ends(
            text in "[0-9]{2}-[0-9]{3,6}/[0-9]{4,8}",
            seed in any::<u64>(),
            keep in 0usize..3,
        ) {
            let options = options("digits", keep, keep);
            let Ok((template, mut numerals, _)) = split(&options, &text) else { return Ok(()) };
            for (index, numeral) in numerals.chunks_mut(2).enumerate() {
                numeral[0] = ((u64::from(numeral[0]) + (seed >> (index % 60))) % 10) as u8;
            }
            let mut joined = Vec::new();
            prop_assert!(options.join(&template, &numerals, &mut joined));
            let joined = String::from_utf8(joined).unwrap();
            prop_assert_eq!(joined.chars().count(), text.chars().count());
            for (before, after) in text.chars().zip(joined.chars()) {
                prop_assert_eq!(before.is_ascii_digit(), after.is_ascii_digit());
                prop_assert!(before.is_ascii_digit() || before == after);
            }
            let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
            let (before, after) = (digits(&text), digits(&joined));
            prop_assert_eq!(&before[..keep], &after[..keep]);
            prop_assert_eq!(&before[before.len() - keep..], &after[after.len() - keep..]);
            prop_assert_eq!(split(&options, &joined).unwrap().0, template);
        }
    }
}
