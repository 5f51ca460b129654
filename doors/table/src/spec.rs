//! What is to be done with a column, as it is written on a command line: `NAME=METHOD[:option[=value],…]`.
//!
//! `name=random`, `email=deterministic:as=mail`, `id=token:len=16`, `phone=ff1:alphabet=digits,keep=2`.
//! A backslash takes the meaning from the character after it, so that names and alphabets may hold `=`, `:` and `,`.

use std::fmt;

use crate::error::{Result, TableError};
use crate::ff1::Alphabet;

/// Bytes that a logical column name may have; it is authenticated with each value.
pub const LOGICAL_NAME_MAX: usize = 1024;

/// Bytes of a token when nobody says otherwise: all of HMAC-SHA-256.
pub const TOKEN_LEN_DEFAULT: u8 = 32;

/// How the values of a column are protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Method {
    /// AES-256-GCM-SIV (RFC 8452) under a fresh random nonce for each value: equal values look different.
    Random,
    /// AES-256-SIV (RFC 5297) without a nonce: equal values of a logical column look equal.
    Deterministic,
    /// HMAC-SHA-256 (FIPS 198-1), one way: equal values of a logical column give equal tokens.
    Token {
        /// Bytes of a token, 16 to 32.
        len: u8,
    },
    /// FF1 over AES-256 (NIST SP 800-38G): texts keep their length and form. There is no room for a tag, so a changed
    /// text is noticed by the manifest's hash of the file and not by itself.
    Ff1(Ff1Options),
}

/// The options of `ff1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ff1Options {
    /// The characters that are encrypted, and into which.
    pub alphabet: Alphabet,
    /// Characters of the alphabet at the start that stay in clear.
    pub keep_first: usize,
    /// Characters of the alphabet at the end that stay in clear.
    pub keep_last: usize,
    /// Whether characters outside the alphabet are an error; otherwise they are separators and stay in place.
    pub strict: bool,
}

/// What is to be done with one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// The column's name in the file.
    pub name: String,
    /// The stable name that is authenticated with each value; survives a rename of the column.
    pub logical: String,
    /// How its values are protected.
    pub method: Method,
}

impl Method {
    /// The method's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Method::Random => "random",
            Method::Deterministic => "deterministic",
            Method::Token { .. } => "token",
            Method::Ff1(_) => "ff1",
        }
    }

    /// Whether equal values give equal results, so that each distinct value needs to be processed once only.
    pub const fn is_deterministic(&self) -> bool {
        !matches!(self, Method::Random)
    }

    /// Whether values can be restored.
    pub const fn is_reversible(&self) -> bool {
        !matches!(self, Method::Token { .. })
    }

    /// The options in the form that [`ColumnSpec::parse`] reads, without `as`; empty when all are the default ones.
    pub fn options(&self) -> String {
        match self {
            Method::Random | Method::Deterministic => String::new(),
            Method::Token { len } if *len == TOKEN_LEN_DEFAULT => String::new(),
            Method::Token { len } => format!("len={len}"),
            Method::Ff1(options) => options.to_string(),
        }
    }

    /// Parses a method's name and options, as [`Method::name`] and [`Method::options`] write them.
    ///
    /// # Errors
    /// `Spec` with the rule that is broken.
    pub fn parse(name: &str, options: &str) -> Result<Method> {
        let (method, logical) = parse_method(name, options).map_err(|problem| spec_error(options, problem))?;
        match logical {
            None => Ok(method),
            Some(_) => Err(spec_error(options, "`as` does not belong here".to_owned())),
        }
    }
}

impl fmt::Display for Ff1Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "alphabet={}", escape(&self.alphabet.to_string()))?;
        if self.keep_first != 0 {
            write!(f, ",keep={}", self.keep_first)?;
        }
        if self.keep_last != 0 {
            write!(f, ",keep-last={}", self.keep_last)?;
        }
        if self.strict {
            f.write_str(",sep=error")?;
        }
        Ok(())
    }
}

impl ColumnSpec {
    /// Parses `NAME=METHOD[:option[=value],…]`.
    ///
    /// Options: `as=LOGICAL` for all methods; `len=16..32` for `token`; `alphabet=`, `keep=N`, `keep-last=N` and
    /// `sep=keep|error` for `ff1`. Alphabets are `digits`, `lower`, `upper`, `letters`, `alnum` or the characters
    /// themselves.
    ///
    /// # Errors
    /// `Spec` with what was given and the rule that it breaks.
    pub fn parse(text: &str) -> Result<ColumnSpec> {
        parse_spec(text).map_err(|problem| spec_error(text, problem))
    }
}

impl fmt::Display for ColumnSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", escape(&self.name), self.method.name())?;
        let mut options = self.method.options();
        if self.logical != self.name {
            let comma = if options.is_empty() { "" } else { "," };
            options = format!("as={}{comma}{options}", escape(&self.logical));
        }
        if options.is_empty() { Ok(()) } else { write!(f, ":{options}") }
    }
}

fn spec_error(text: &str, problem: String) -> TableError {
    TableError::Spec { text: text.to_owned(), problem }
}

fn parse_spec(text: &str) -> Result<ColumnSpec, String> {
    let (name, rest) = split_once(text, '=').ok_or("write NAME=METHOD, for example `email=deterministic`")?;
    let name = unescape(name)?;
    if name.is_empty() {
        return Err("the column's name is empty".to_owned());
    }
    let (method, options) = split_once(rest, ':').unwrap_or((rest, ""));
    let (method, logical) = parse_method(method, options)?;
    let logical = logical.unwrap_or_else(|| name.clone());
    if logical.is_empty() || logical.len() > LOGICAL_NAME_MAX {
        return Err(format!("a logical name has 1 to {LOGICAL_NAME_MAX} bytes"));
    }
    Ok(ColumnSpec { name, logical, method })
}

/// The options of all methods, as given.
#[derive(Default)]
struct Options {
    logical: Option<String>,
    len: Option<String>,
    alphabet: Option<String>,
    keep_first: Option<String>,
    keep_last: Option<String>,
    separators: Option<String>,
}

impl Options {
    fn parse(text: &str) -> Result<Options, String> {
        let mut options = Options::default();
        let mut rest = if text.is_empty() { None } else { Some(text) };
        while let Some(current) = rest {
            let (option, after) = match split_once(current, ',') {
                Some((option, after)) => (option, Some(after)),
                None => (current, None),
            };
            let (name, value) =
                split_once(option, '=').ok_or_else(|| format!("the option `{option}` needs a value: {option}=…"))?;
            let place = match name {
                "as" => &mut options.logical,
                "len" => &mut options.len,
                "alphabet" => &mut options.alphabet,
                "keep" => &mut options.keep_first,
                "keep-last" => &mut options.keep_last,
                "sep" => &mut options.separators,
                _ => {
                    return Err(format!(
                        "unknown option `{name}`; there are as, len (token), alphabet, keep, keep-last and sep (ff1)"
                    ));
                }
            };
            if place.replace(unescape(value)?).is_some() {
                return Err(format!("the option `{name}` is given twice"));
            }
            rest = after;
        }
        Ok(options)
    }

    /// Refuses the options that `method` does not have.
    fn refuse_foreign(&self, method: &str) -> Result<(), String> {
        let ff1 = method == "ff1";
        let foreign = [
            ("len", self.len.is_some() && method != "token"),
            ("alphabet", self.alphabet.is_some() && !ff1),
            ("keep", self.keep_first.is_some() && !ff1),
            ("keep-last", self.keep_last.is_some() && !ff1),
            ("sep", self.separators.is_some() && !ff1),
        ];
        match foreign.iter().find(|(_, is_foreign)| *is_foreign) {
            Some((name, _)) => Err(format!("the method `{method}` has no option `{name}`")),
            None => Ok(()),
        }
    }
}

fn parse_method(name: &str, options: &str) -> Result<(Method, Option<String>), String> {
    if !["random", "deterministic", "token", "ff1"].contains(&name) {
        return Err(format!("unknown method `{name}`; there are random, deterministic, token and ff1"));
    }
    let options = Options::parse(options)?;
    options.refuse_foreign(name)?;
    let method = match name {
        "random" => Method::Random,
        "deterministic" => Method::Deterministic,
        "token" => Method::Token { len: parse_token_len(options.len.as_deref())? },
        _ => Method::Ff1(Ff1Options {
            alphabet: Alphabet::parse(options.alphabet.as_deref().unwrap_or("digits"))?,
            keep_first: parse_count("keep", options.keep_first.as_deref())?,
            keep_last: parse_count("keep-last", options.keep_last.as_deref())?,
            strict: match options.separators.as_deref() {
                None | Some("keep") => false,
                Some("error") => true,
                Some(other) => return Err(format!("`sep={other}`: sep is `keep` or `error`")),
            },
        }),
    };
    Ok((method, options.logical))
}

fn parse_token_len(text: Option<&str>) -> Result<u8, String> {
    let Some(text) = text else { return Ok(TOKEN_LEN_DEFAULT) };
    match text.parse() {
        Ok(len) if (16..=TOKEN_LEN_DEFAULT).contains(&len) => Ok(len),
        _ => Err(format!("`len={text}`: a token has 16 to {TOKEN_LEN_DEFAULT} bytes")),
    }
}

fn parse_count(name: &str, text: Option<&str>) -> Result<usize, String> {
    let Some(text) = text else { return Ok(0) };
    match text.parse::<u16>() {
        Ok(count) => Ok(usize::from(count)),
        Err(_) => Err(format!("`{name}={text}`: a number of characters is meant")),
    }
}

/// Splits at the first `separator` that no backslash precedes.
fn split_once(text: &str, separator: char) -> Option<(&str, &str)> {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if character == separator {
            return Some((&text[..at], &text[at + separator.len_utf8()..]));
        }
    }
    None
}

fn unescape(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => plain.push(characters.next().ok_or("a backslash stands at the end")?),
            other => plain.push(other),
        }
    }
    Ok(plain)
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '\\' | '=' | ':' | ',') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        match ColumnSpec::parse(text) {
            Err(TableError::Spec { text: given, problem }) => {
                assert_eq!(given, text);
                problem
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn methods_and_options_are_read() {
        let spec = ColumnSpec::parse("c_name=random").unwrap();
        assert_eq!((spec.name.as_str(), spec.logical.as_str(), spec.method), ("c_name", "c_name", Method::Random));
        let spec = ColumnSpec::parse("mail=deterministic:as=email").unwrap();
        assert_eq!((spec.logical.as_str(), spec.method), ("email", Method::Deterministic));
        assert_eq!(ColumnSpec::parse("a=token").unwrap().method, Method::Token { len: 32 });
        assert_eq!(ColumnSpec::parse("a=token:len=16").unwrap().method, Method::Token { len: 16 });
        let Method::Ff1(options) =
            ColumnSpec::parse("p=ff1:alphabet=alnum,keep=2,keep-last=1,sep=error").unwrap().method
        else {
            panic!("not ff1")
        };
        assert_eq!((options.keep_first, options.keep_last, options.strict), (2, 1, true));
        assert_eq!(options.alphabet.radix(), 62);
    }

    #[test]
    fn names_may_hold_every_character() {
        let spec = ColumnSpec::parse(r"a\=b\:c\\=random:as=x\,y").unwrap();
        assert_eq!((spec.name.as_str(), spec.logical.as_str()), (r"a=b:c\", "x,y"));
        assert_eq!(ColumnSpec::parse(&spec.to_string()).unwrap(), spec);
    }

    #[test]
    fn errors_name_the_rule() {
        for (text, words) in [
            ("name", "NAME=METHOD"),
            ("=random", "name is empty"),
            ("a=rot13", "unknown method `rot13`"),
            ("a=random:len=16", "has no option `len`"),
            ("a=token:keep=1", "has no option `keep`"),
            ("a=token:len=8", "16 to 32"),
            ("a=token:len=x", "16 to 32"),
            ("a=ff1:alphabet=0", "at least two"),
            ("a=ff1:alphabet=00", "twice"),
            ("a=ff1:keep=-1", "number of characters"),
            ("a=ff1:keep=1,keep=2", "given twice"),
            ("a=ff1:sep=drop", "`keep` or `error`"),
            ("a=ff1:colour=red", "unknown option `colour`"),
            ("a=ff1:keep", "needs a value"),
            ("a=random:as=", "1 to 1024"),
            ("a=random:as=x\\", "backslash"),
        ] {
            let problem = problem(text);
            assert!(problem.contains(words), "{text}: {problem}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_again(
            name in ".{1,12}",
            logical in ".{1,12}",
            letters in "[a-z:=,\\\\é€]{2,9}",
            keep in 0usize..9,
            strict in proptest::bool::ANY,
        ) {
            let mut letters: Vec<char> = letters.chars().collect();
            letters.sort_unstable();
            letters.dedup();
            proptest::prop_assume!(letters.len() >= 2);
            let letters: String = letters.into_iter().collect();
            let method = Method::Ff1(Ff1Options {
                alphabet: Alphabet::parse(&letters).unwrap(),
                keep_first: keep,
                keep_last: keep / 2,
                strict,
            });
            let spec = ColumnSpec { name, logical, method };
            proptest::prop_assert_eq!(ColumnSpec::parse(&spec.to_string()).unwrap(), spec);
        }

        #[test]
        fn hostile_text_never_panics(text in ".*") {
            let _ = ColumnSpec::parse(&text);
        }
    }
}
