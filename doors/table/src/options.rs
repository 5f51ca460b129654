//! The options of a column's method, `name=value` or `name` alone, separated by commas: one table says which method has
//! which, and everything else is an error.

use std::collections::BTreeMap;

use crate::bad::OnBad;
use crate::ff1::{Alphabet, Separators};
use crate::spec::{Ff1Options, Method, TOKEN_LEN_DEFAULT, TOKEN_LEN_MIN};

/// An option, and the methods that have it.
struct Definition {
    name: &'static str,
    methods: &'static [&'static str],
}

/// Options that are a column's rather than its method's.
const OF_COLUMNS: &[&str] = &["as", "bind", AS_TEXT, "on-bad"];

/// The one option that is said by its name alone.
const AS_TEXT: &str = "as-text";

const METHODS: &[&str] = &["random", "deterministic", "token", "ff1"];

const OPTIONS: &[Definition] = &[
    Definition { name: "as", methods: METHODS },
    Definition { name: "bind", methods: &["random", "deterministic"] },
    Definition { name: AS_TEXT, methods: &["deterministic", "token"] },
    Definition { name: "on-bad", methods: METHODS },
    Definition { name: "len", methods: &["token"] },
    Definition { name: "preset", methods: &["ff1"] },
    Definition { name: "alphabet", methods: &["ff1"] },
    Definition { name: "sep", methods: &["ff1"] },
    Definition { name: "keep", methods: &["ff1"] },
    Definition { name: "keep-last", methods: &["ff1"] },
];

/// Options of `ff1` under one name. Manifests hold what a preset stands for, so that a later change of one does not
/// reach files that exist.
struct Preset {
    name: &'static str,
    alphabet: &'static str,
    separators: &'static str,
    keep_first: usize,
    keep_last: usize,
}

const PRESETS: &[Preset] = &[
    // What people write around a telephone number's digits.
    Preset { name: "phone", alphabet: "digits", separators: "+-() ./", keep_first: 0, keep_last: 0 },
    // The last four digits are what PCI DSS 4.0 (requirement 3.4.1) lets be shown beside the issuer's number; keeping that
    // too would leave a domain of fewer than 10^6 values.
    Preset { name: "card", alphabet: "digits", separators: " -", keep_first: 0, keep_last: 4 },
    // ISO 13616: country and check digits, then digits and capital letters, printed in groups.
    Preset {
        name: "iban",
        alphabet: "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        separators: " ",
        keep_first: 4,
        keep_last: 0,
    },
];

/// Where options come from: what is asked for now, or what a manifest says was done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A command line, a policy file or a program.
    Request,
    /// A manifest. `ff1` without `sep` then has its old meaning: everything outside of the alphabet stays in clear.
    Manifest,
}

/// A method's options, as given.
pub(crate) struct Options(BTreeMap<&'static str, String>);

impl Options {
    /// Reads the options of `method`.
    ///
    /// # Errors
    /// In words: an unknown option, one of another method, one without its value, or one given twice.
    pub(crate) fn parse(method: &str, text: &str) -> Result<Options, String> {
        check_method(method)?;
        let mut options = Options(BTreeMap::new());
        let mut rest = if text.is_empty() { None } else { Some(text) };
        while let Some(current) = rest {
            let (option, after) = match split_once(current, ',') {
                Some((option, after)) => (option, Some(after)),
                None => (current, None),
            };
            let (name, value) = match split_once(option, '=') {
                Some((name, value)) => (name, Some(value)),
                None => (option, None),
            };
            let value = value.map(unescape).transpose()?;
            options.put(method, name, value)?;
            rest = after;
        }
        Ok(options)
    }

    /// The options of `method`, one by one: a name, and a value unless the option has none.
    ///
    /// # Errors
    /// As for [`Options::parse`].
    pub(crate) fn of_pairs(method: &str, pairs: &[(&str, Option<String>)]) -> Result<Options, String> {
        check_method(method)?;
        let mut options = Options(BTreeMap::new());
        for (name, value) in pairs {
            options.put(method, name, value.clone())?;
        }
        Ok(options)
    }

    fn put(&mut self, method: &str, name: &str, value: Option<String>) -> Result<(), String> {
        let definition = OPTIONS.iter().find(|definition| definition.name == name).ok_or_else(|| unknown(name))?;
        if !definition.methods.contains(&method) {
            return Err(format!("the method `{method}` has no option `{name}`"));
        }
        let value = match (value, name == AS_TEXT) {
            (Some(value), false) => value,
            (None, true) => String::new(),
            (Some(_), true) => return Err(format!("the option `{name}` has no value")),
            (None, false) => return Err(format!("the option `{name}` needs a value: {name}=…")),
        };
        match self.0.insert(definition.name, value) {
            None => Ok(()),
            Some(_) => Err(format!("the option `{name}` is given twice")),
        }
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The first of the options that say something about a column rather than the method.
    pub(crate) fn of_column(&self) -> Option<&'static str> {
        OF_COLUMNS.iter().find(|name| self.0.contains_key(**name)).copied()
    }

    /// What becomes of values that the method cannot take.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn on_bad(&self, method: &Method) -> Result<OnBad, String> {
        let Some(name) = self.value("on-bad") else { return Ok(OnBad::Error) };
        let on_bad = OnBad::parse(name)?;
        match (on_bad, method) {
            (OnBad::Token, Method::Ff1(options)) if options.holds(':') => {
                Err("`on-bad=token` marks tokens by a colon, which is in the alphabet or a separator".to_owned())
            }
            (OnBad::Token, Method::Ff1(_)) => Ok(on_bad),
            (OnBad::Token, _) => Err(format!("`on-bad=token` is for ff1, not for {}", method.name())),
            _ => Ok(on_bad),
        }
    }

    /// Whether integers are protected as their decimal text.
    pub(crate) fn as_text(&self) -> bool {
        self.value(AS_TEXT).is_some()
    }

    /// Whether values are bound to their rows when the job binds rows.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn bind(&self) -> Result<bool, String> {
        match self.value("bind") {
            None => Ok(true),
            Some("no") => Ok(false),
            Some(other) => Err(format!("`bind={other}`: only `bind=no` can be said; values are bound with --bind-row")),
        }
    }

    /// The logical name.
    pub(crate) fn logical(&self) -> Option<&str> {
        self.value("as")
    }

    /// The method called `name` with these options.
    ///
    /// # Errors
    /// In words, the rule that a value breaks.
    pub(crate) fn method(&self, name: &str, origin: Origin) -> Result<Method, String> {
        match name {
            "random" => Ok(Method::Random),
            "deterministic" => Ok(Method::Deterministic),
            "token" => Ok(Method::Token { len: self.token_len()? }),
            _ => Ok(Method::Ff1(self.ff1(origin)?)),
        }
    }

    fn token_len(&self) -> Result<u8, String> {
        let Some(text) = self.value("len") else { return Ok(TOKEN_LEN_DEFAULT) };
        match text.parse() {
            Ok(len) if (TOKEN_LEN_MIN..=TOKEN_LEN_DEFAULT).contains(&len) => Ok(len),
            _ => Err(format!("`len={text}`: a token has {TOKEN_LEN_MIN} to {TOKEN_LEN_DEFAULT} bytes")),
        }
    }

    fn ff1(&self, origin: Origin) -> Result<Ff1Options, String> {
        let preset = match self.value("preset") {
            None => None,
            Some(name) => Some(PRESETS.iter().find(|preset| preset.name == name).ok_or_else(|| {
                let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
                format!("`preset={name}`: there are {}", names.join(", "))
            })?),
        };
        let alphabet = self.value("alphabet").or(preset.map(|preset| preset.alphabet)).unwrap_or("digits");
        let alphabet = Alphabet::parse(alphabet)?;
        let separators = match (self.value("sep").or(preset.map(|preset| preset.separators)), origin) {
            (None, Origin::Manifest) => Separators::ANY,
            (Some("error"), Origin::Manifest) | (None, Origin::Request) => Separators::NONE,
            (Some("keep" | "error"), Origin::Request) => {
                return Err("`sep` names the characters that may stay in clear, for example sep=-() and a space; \
                            without it every character outside of the alphabet is an error"
                    .to_owned());
            }
            (Some(text), _) => Separators::named(text, &alphabet)?,
        };
        Ok(Ff1Options {
            alphabet,
            separators,
            keep_first: self.count("keep")?.or(preset.map(|preset| preset.keep_first)).unwrap_or(0),
            keep_last: self.count("keep-last")?.or(preset.map(|preset| preset.keep_last)).unwrap_or(0),
        })
    }

    fn count(&self, name: &str) -> Result<Option<usize>, String> {
        let Some(text) = self.value(name) else { return Ok(None) };
        match text.parse::<u16>() {
            Ok(count) => Ok(Some(usize::from(count))),
            Err(_) => Err(format!("`{name}={text}`: a number of characters is meant")),
        }
    }
}

fn check_method(method: &str) -> Result<(), String> {
    match METHODS.contains(&method) {
        true => Ok(()),
        false => Err(format!("unknown method `{method}`; there are {}", METHODS.join(", "))),
    }
}

fn unknown(name: &str) -> String {
    let known: Vec<String> = OPTIONS
        .iter()
        .map(|definition| match definition.methods.len() == METHODS.len() {
            true => definition.name.to_owned(),
            false => format!("{} ({})", definition.name, definition.methods.join(", ")),
        })
        .collect();
    format!("unknown option `{name}`; there are {}", known.join(", "))
}

/// Splits at the first `separator` that no backslash precedes.
pub(crate) fn split_once(text: &str, separator: char) -> Option<(&str, &str)> {
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

/// Takes the meaning from what a backslash precedes.
pub(crate) fn unescape(text: &str) -> Result<String, String> {
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

/// Puts a backslash before every character that has a meaning in a specification.
pub(crate) fn escape(text: &str) -> String {
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

    fn ff1(text: &str, origin: Origin) -> Result<Ff1Options, String> {
        Options::parse("ff1", text)?.ff1(origin)
    }

    #[test]
    fn presets_stand_for_options_and_give_way_to_them() {
        for (preset, options) in [
            ("preset=phone", "sep=+-() ./"),
            ("preset=card", "sep= -,keep-last=4"),
            ("preset=card,keep-last=0,sep=", "alphabet=digits"),
            ("preset=iban", "alphabet=0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ,sep= ,keep=4"),
        ] {
            assert_eq!(ff1(preset, Origin::Request), ff1(options, Origin::Request), "{preset}");
        }
        assert!(ff1("preset=ssn", Origin::Request).unwrap_err().contains("phone, card, iban"));
    }

    #[test]
    fn the_old_meaning_of_sep_is_read_from_manifests_only() {
        assert_eq!(ff1("", Origin::Request).unwrap().separators, Separators::NONE);
        assert_eq!(ff1("alphabet=digits", Origin::Manifest).unwrap().separators, Separators::ANY);
        assert_eq!(ff1("sep=error", Origin::Manifest).unwrap().separators, Separators::NONE);
        assert_eq!(ff1("sep=", Origin::Manifest).unwrap().separators, Separators::NONE);
        for old in ["sep=keep", "sep=error"] {
            assert!(ff1(old, Origin::Request).unwrap_err().contains("names the characters"), "{old}");
        }
    }
}
