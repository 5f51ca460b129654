//! What is to be done with a column, as it is written on a command line: `NAME=METHOD[:option[=value],…]`.
//!
//! `name=random`, `email=deterministic:as=mail`, `id=token:len=16`, `phone=ff1:sep=-() +,keep=2`.
//! A backslash takes the meaning from the character after it, so that names and alphabets may hold `=`, `:` and `,`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bad::OnBad;
use crate::error::{Result, TableError};
use crate::ff1::{Alphabet, Separators};
use crate::options::{Options, Origin, escape, split_once, unescape};

/// Bytes that a logical column name may have; it is authenticated with each value.
pub const LOGICAL_NAME_MAX: usize = 1024;

/// Bytes of a token when nobody says otherwise: all of HMAC-SHA-256.
pub const TOKEN_LEN_DEFAULT: u8 = 32;

/// Bytes that a token has at least.
pub const TOKEN_LEN_MIN: u8 = 16;

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
    /// The characters outside of the alphabet that stay in place; all others are an error.
    pub separators: Separators,
}

/// What values are bound to beside their column: the row that they stand in.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowBinding {
    /// The column whose value identifies a row. It stays in clear.
    pub column: String,
    /// The table's name, so that rows of one table are not taken for rows of another; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub table: String,
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
    /// Whether its values are bound to their rows when the job binds rows. `token` and `ff1`, which do not authenticate,
    /// never do.
    pub bind: bool,
    /// Whether integers are protected as their decimal text, so that equal values of int32, int64 and text columns become
    /// equal. For `deterministic` and `token`.
    pub as_text: bool,
    /// What becomes of values that the method cannot take.
    pub on_bad: OnBad,
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

    /// Whether each value is authenticated, so that it can be bound to its row.
    pub const fn is_authenticated(&self) -> bool {
        matches!(self, Method::Random | Method::Deterministic)
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

    /// Reads a method's name and options as a manifest holds them, those of earlier versions of this program included.
    ///
    /// # Errors
    /// `Spec` with the rule that is broken.
    pub(crate) fn of_manifest(name: &str, options: &str) -> Result<Method> {
        let parse = || {
            let parsed = Options::parse(name, options)?;
            match parsed.of_column() {
                None => parsed.method(name, Origin::Manifest),
                Some(option) => Err(format!("`{option}` does not belong here")),
            }
        };
        parse().map_err(|problem| spec_error(options, problem))
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
        // Written even when there are none: a manifest without it is one of the time when everything was a separator.
        match self.separators.characters() {
            Some(characters) => write!(f, ",sep={}", escape(&characters.iter().collect::<String>())),
            None => Ok(()),
        }
    }
}

impl ColumnSpec {
    /// Parses `NAME=METHOD[:option[=value],…]`.
    ///
    /// Options: `as=LOGICAL` for all methods; `on-bad=error|null|token|reject` likewise, `token` for `ff1`
    /// alone; `bind=no` for `random` and `deterministic`;
    /// `as-text` for `deterministic` and `token`; `len=16..32` for `token`; `preset=phone|card|iban`, `alphabet=`, `sep=`,
    /// `keep=N` and `keep-last=N` for `ff1`. Alphabets are `digits`, `lower`, `upper`, `letters`, `alnum` or the
    /// characters themselves; `sep` lists the characters outside of the alphabet that may occur and stay as they are.
    ///
    /// # Errors
    /// `Spec` with what was given and the rule that it breaks.
    pub fn parse(text: &str) -> Result<ColumnSpec> {
        parse_spec(text).map_err(|problem| spec_error(text, problem))
    }

    /// A column, by its name as it is, with `METHOD[:option[=value],…]` as in [`ColumnSpec::parse`].
    ///
    /// # Errors
    /// `Spec` with what was given and the rule that it breaks.
    pub fn named(name: &str, method: &str) -> Result<ColumnSpec> {
        let (method_name, options) = split_once(method, ':').unwrap_or((method, ""));
        Options::parse(method_name, options)
            .and_then(|options| of_options(name.to_owned(), method_name, &options))
            .map_err(|problem| spec_error(&format!("{name}={method}"), problem))
    }

    /// A column with a method and its options one by one, each a name and a value, or no value for `as-text`. Nothing is
    /// escaped here.
    ///
    /// # Errors
    /// `Spec` with the rule that is broken.
    pub fn of_options(name: &str, method: &str, options: &[(&str, Option<String>)]) -> Result<ColumnSpec> {
        Options::of_pairs(method, options)
            .and_then(|options| of_options(name.to_owned(), method, &options))
            .map_err(|problem| spec_error(name, problem))
    }
}

impl fmt::Display for ColumnSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", escape(&self.name), self.method.name())?;
        let mut options = Vec::new();
        if self.logical != self.name {
            options.push(format!("as={}", escape(&self.logical)));
        }
        if !self.bind {
            options.push("bind=no".to_owned());
        }
        if self.as_text {
            options.push("as-text".to_owned());
        }
        if self.on_bad != OnBad::Error {
            options.push(format!("on-bad={}", self.on_bad.name()));
        }
        options.push(self.method.options());
        options.retain(|option| !option.is_empty());
        if options.is_empty() { Ok(()) } else { write!(f, ":{}", options.join(",")) }
    }
}

fn spec_error(text: &str, problem: String) -> TableError {
    TableError::Spec { text: text.to_owned(), problem }
}

fn parse_spec(text: &str) -> Result<ColumnSpec, String> {
    let (name, rest) = split_once(text, '=').ok_or("write NAME=METHOD, for example `email=deterministic`")?;
    let name = unescape(name)?;
    let (method, options) = split_once(rest, ':').unwrap_or((rest, ""));
    if split_once(method, '=').is_some() {
        return Err("several `=`; one within the column's name is written `\\=`".to_owned());
    }
    of_options(name, method, &Options::parse(method, options)?)
}

fn of_options(name: String, method: &str, options: &Options) -> Result<ColumnSpec, String> {
    if name.is_empty() {
        return Err("the column's name is empty".to_owned());
    }
    let method = options.method(method, Origin::Request)?;
    let logical = options.logical().unwrap_or(&name).to_owned();
    if logical.is_empty() || logical.len() > LOGICAL_NAME_MAX {
        return Err(format!("a logical name has 1 to {LOGICAL_NAME_MAX} bytes"));
    }
    let (bind, as_text, on_bad) = (options.bind()?, options.as_text(), options.on_bad(&method)?);
    Ok(ColumnSpec { name, logical, method, bind, as_text, on_bad })
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
        let spec = ColumnSpec::parse("k=deterministic:as-text,bind=no").unwrap();
        assert!(spec.as_text && !spec.bind);
        assert_eq!(ColumnSpec::parse(&spec.to_string()).unwrap(), spec);
        let spec = ColumnSpec::parse("mail=deterministic:as=email").unwrap();
        assert_eq!((spec.logical.as_str(), spec.method), ("email", Method::Deterministic));
        assert_eq!(ColumnSpec::parse("a=token").unwrap().method, Method::Token { len: 32 });
        assert_eq!(ColumnSpec::parse("a=token:len=16").unwrap().method, Method::Token { len: 16 });
        let Method::Ff1(options) =
            ColumnSpec::parse(r"p=ff1:alphabet=alnum,keep=2,keep-last=1,sep=-\,\=").unwrap().method
        else {
            panic!("not ff1")
        };
        assert_eq!((options.keep_first, options.keep_last), (2, 1));
        assert_eq!(options.separators.characters(), Some(&['-', ',', '='][..]));
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
            ("a=ff1:sep=keep", "names the characters"),
            ("a=ff1:sep=--", "twice"),
            ("a=ff1:sep=-5", "in the alphabet"),
            ("a=ff1:alphabet=upper,preset=ssn", "phone, card, iban"),
            ("a=ff1:colour=red", "unknown option `colour`"),
            ("a=ff1:keep", "needs a value"),
            ("a=random:as=", "1 to 1024"),
            ("a=random:on-bad=token", "is for ff1"),
            ("a=ff1:sep=:-,on-bad=token", "by a colon"),
            ("a=ff1:on-bad=drop", "error, null, token, reject"),
            ("a=random:as-text", "has no option `as-text`"),
            ("a=token:as-text=yes", "has no value"),
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
            separators in "[-+() .,=]{0,1}[/€]{0,1}",
        ) {
            let mut letters: Vec<char> = letters.chars().collect();
            letters.sort_unstable();
            letters.dedup();
            proptest::prop_assume!(letters.len() >= 2);
            let letters: String = letters.into_iter().collect();
            let alphabet = Alphabet::parse(&letters).unwrap();
            let Ok(separators) = Separators::named(&separators, &alphabet) else { return Ok(()) };
            let method = Method::Ff1(Ff1Options { alphabet, keep_first: keep, keep_last: keep / 2, separators });
            proptest::prop_assert_eq!(&Method::of_manifest("ff1", &method.options()).unwrap(), &method);
            let spec = ColumnSpec { name, logical, method, bind: true, as_text: false, on_bad: OnBad::Null };
            proptest::prop_assert_eq!(ColumnSpec::parse(&spec.to_string()).unwrap(), spec);
        }

        #[test]
        fn hostile_text_never_panics(text in ".*") {
            let _ = ColumnSpec::parse(&text);
        }
    }
}
