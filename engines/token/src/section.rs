//! The sections `[[token]]` of configurations: PKCS#11 tokens that are engines. Nothing is opened here.

use core::fmt;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ciphermill_contract::Suite;
use ciphermill_memory::SecretBytes;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::token::{Host, Opening, Place};

/// Tokens that a configuration may have.
const TOKENS_MAX: usize = 64;

/// Bytes of a token's name here, and of its label (PKCS#11 3.1, 3.3: a field of 32 bytes).
const NAME_LEN_MAX: usize = 32;
const LABEL_LEN_MAX: usize = 32;

/// Sessions that a token may have.
const SESSIONS: RangeInclusive<usize> = 1..=256;

/// Milliseconds that a token may be given for a call.
const PATIENCE_MS: RangeInclusive<u64> = 10..=600_000;

/// What is wrong with a section, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionError(String);

impl fmt::Display for SectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SectionError {}

impl SectionError {
    fn within(self, place: &str) -> SectionError {
        SectionError(format!("{place}: {}", self.0))
    }
}

type Result<T> = core::result::Result<T, SectionError>;

fn fail<T>(words: impl Into<String>) -> Result<T> {
    Err(SectionError(words.into()))
}

fn ensure(holds: bool, words: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { fail(words()) }
}

/// A token as a configuration has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenSection {
    /// What the engine is called.
    pub name: String,
    /// The vendor's PKCS#11 module, relative to the configuration file.
    pub module: PathBuf,
    /// The slot that the token is in …
    pub slot: Option<u64>,
    /// … or its label, wherever it is.
    pub label: Option<String>,
    /// The file that the PIN is in, relative to the configuration file, …
    pub pin_file: Option<PathBuf>,
    /// … or the environment variable, …
    pub pin_env: Option<String>,
    /// … or the secret key of the keystore whose bytes are the PIN.
    pub pin_key: Option<String>,
    /// Whether keys of a mill may be copied to it as session objects.
    #[serde(default)]
    pub copies: bool,
    /// Calls that the token works on side by side.
    pub sessions: Option<usize>,
    /// Whether the module runs in a process of its own, one for each session.
    #[serde(default = "yes")]
    pub process: bool,
    /// How long the token has for a call in a process of its own, in milliseconds.
    pub patience_ms: Option<u64>,
}

/// Where a token is within its module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenPlace<'a> {
    /// In a slot.
    Slot(u64),
    /// Wherever its label is this one.
    Label(&'a str),
}

/// Where a PIN comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinSource<'a> {
    /// None: the token asks for none.
    Nowhere,
    /// A file, relative to the configuration file.
    File(&'a PathBuf),
    /// A variable of the environment.
    Variable(&'a str),
    /// A secret key of the keystore.
    Key(&'a str),
}

fn yes() -> bool {
    true
}

/// Checks all sections. `engines` are the names that are taken already.
///
/// # Errors
/// The place of the first rule that is broken, and the rule.
pub fn check(sections: &[TokenSection], engines: &[&str]) -> Result<()> {
    ensure(sections.len() <= TOKENS_MAX, || format!("token: there are more than {TOKENS_MAX} sections [[token]]"))?;
    let mut names = BTreeSet::new();
    for (index, section) in sections.iter().enumerate() {
        let name = section.name.as_str();
        is_name(name, engines).map_err(|error| error.within(&format!("token {}: name", index + 1)))?;
        ensure(names.insert(name), || format!("token `{name}`: another section has the same name"))?;
        section.check().map_err(|error| error.within(&format!("token `{name}`")))?;
    }
    Ok(())
}

/// A name of an engine is part of rules (`hsm:ecdsa-p256`) and of command lines, and must not mean a suite as well.
fn is_name(name: &str, engines: &[&str]) -> Result<()> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    let is_well_formed = (1..=NAME_LEN_MAX).contains(&name.len())
        && name.bytes().all(is_letter)
        && name.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    ensure(is_well_formed, || {
        format!("{name:?} is none: 1 to {NAME_LEN_MAX} of a-z, 0-9, `-` and `_`, of which the first is a letter")
    })?;
    ensure(!engines.contains(&name), || format!("`{name}` is another engine's"))?;
    ensure(name.parse::<Suite>().is_err(), || format!("`{name}` is a suite's"))
}

impl TokenSection {
    fn check(&self) -> Result<()> {
        ensure(!self.module.as_os_str().is_empty(), || {
            "module: must name the PKCS#11 module of the token's vendor".to_owned()
        })?;
        self.place()?;
        self.pin()?;
        self.sessions()?;
        self.patience()?;
        Ok(())
    }

    /// Where the token is.
    ///
    /// # Errors
    /// The section says both or neither, or the label is none.
    pub fn place(&self) -> Result<TokenPlace<'_>> {
        match (self.slot, &self.label) {
            (Some(slot), None) => Ok(TokenPlace::Slot(slot)),
            (None, Some(label)) => {
                let is_one = (1..=LABEL_LEN_MAX).contains(&label.len()) && !label.ends_with(' ');
                ensure(is_one, || format!("label: has 1 to {LABEL_LEN_MAX} bytes, of which the last is no blank"))?;
                Ok(TokenPlace::Label(label))
            }
            (Some(_), Some(_)) => fail("of slot and label there must be one, not both"),
            (None, None) => fail("of slot and label there must be one"),
        }
    }

    /// Where the PIN comes from.
    ///
    /// # Errors
    /// The section says so more than once, or what it says cannot be.
    pub fn pin(&self) -> Result<PinSource<'_>> {
        match (&self.pin_file, &self.pin_env, &self.pin_key) {
            (None, None, None) => Ok(PinSource::Nowhere),
            (Some(file), None, None) => {
                ensure(!file.as_os_str().is_empty(), || "pin_file: must name a file".to_owned())?;
                Ok(PinSource::File(file))
            }
            (None, Some(variable), None) => {
                let is_one = !variable.is_empty() && !variable.contains(['=', '\0']);
                ensure(is_one, || format!("pin_env: {variable:?} is no name of an environment variable"))?;
                Ok(PinSource::Variable(variable))
            }
            (None, None, Some(key)) => {
                ensure(!key.is_empty(), || "pin_key: must name a key of the keystore".to_owned())?;
                Ok(PinSource::Key(key))
            }
            _ => fail("of pin_file, pin_env and pin_key there must be one, or none"),
        }
    }

    /// Calls that the token works on side by side; `None` for as many as tokens do.
    ///
    /// # Errors
    /// It is out of range.
    pub fn sessions(&self) -> Result<Option<usize>> {
        let (min, max) = (SESSIONS.start(), SESSIONS.end());
        let fits = self.sessions.is_none_or(|count| SESSIONS.contains(&count));
        ensure(fits, || format!("sessions: must be from {min} to {max}"))?;
        Ok(self.sessions)
    }

    /// How long the token has for a call; `None` for as long as tokens have.
    ///
    /// # Errors
    /// It is out of range.
    pub fn patience(&self) -> Result<Option<Duration>> {
        let Some(ms) = self.patience_ms else { return Ok(None) };
        let (min, max) = (PATIENCE_MS.start(), PATIENCE_MS.end());
        ensure(PATIENCE_MS.contains(&ms), || format!("patience_ms: must be from {min} to {max}"))?;
        Ok(Some(Duration::from_millis(ms)))
    }

    /// What the token is opened with: its module is looked for from `folder` on, and runs in a process that `host` names where the section
    /// wants one.
    ///
    /// # Errors
    /// What is wrong with the section; those of `host`.
    pub fn opening<E: From<SectionError>>(
        &self,
        folder: &Path,
        pin: Option<SecretBytes>,
        host: impl FnOnce() -> core::result::Result<Host, E>,
    ) -> core::result::Result<Opening, E> {
        let place = match self.place()? {
            TokenPlace::Slot(slot) => Place::Slot(slot),
            TokenPlace::Label(label) => Place::Label(label.to_owned()),
        };
        let plain = Opening::new(engine_name(&self.name), &folder.join(&self.module), place);
        let host = if self.process { Some(host()?) } else { None };
        let patience = self.patience()?.unwrap_or(plain.patience);
        let sessions = self.sessions()?.unwrap_or(plain.sessions);
        Ok(Opening { pin, copies: self.copies, sessions, host, patience, ..plain })
    }
}

/// An engine's name lives as long as the program: of each name there is one.
pub fn engine_name(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = names.get(name) {
        return kept;
    }
    let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(kept);
    kept
}

/// The PIN in an environment variable.
///
/// # Errors
/// It is not set, or no PIN.
pub fn pin_from_variable(variable: &str) -> Result<SecretBytes> {
    let Some(text) = std::env::var_os(variable) else { return fail(format!("pin_env: {variable} is not set")) };
    let bytes = Zeroizing::new(OsString::into_vec(text));
    pin_of(&bytes).map_err(|error| error.within(&format!("pin_env: {variable}")))
}

/// A PIN's bytes, without a line end behind them.
///
/// # Errors
/// There are none, or no locked memory for them.
pub fn pin_of(bytes: &[u8]) -> Result<SecretBytes> {
    let bytes = bytes.strip_suffix(b"\n").map_or(bytes, |line| line.strip_suffix(b"\r").unwrap_or(line));
    ensure(!bytes.is_empty(), || "the PIN is empty".to_owned())?;
    SecretBytes::from_slice(bytes).or(fail("there is no locked memory for the PIN"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct File {
        token: Vec<TokenSection>,
    }

    fn read(text: &str) -> core::result::Result<Vec<TokenSection>, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        check(&file.token, &["lanes", "gpu"]).map_err(|error| error.to_string())?;
        Ok(file.token)
    }

    fn problem(text: &str) -> String {
        read(text).unwrap_err()
    }

    /// A section with these lines besides.
    fn section(lines: &str) -> String {
        format!("[[token]]\nname = \"hsm\"\nmodule = \"hsm.so\"\n{lines}\n")
    }

    #[test]
    fn sections_are_read() {
        let text = section("label = \"web keys\"\npin_env = \"PIN\"\ncopies = true\nprocess = false\npatience_ms = 50")
            + "[[token]]\nname = \"hsm-2\"\nmodule = \"/lib/hsm.so\"\nslot = 3\n";
        let sections = read(&text).unwrap();
        let [first, second] = &sections[..] else { panic!("{sections:?}") };
        assert_eq!(first.place().unwrap(), TokenPlace::Label("web keys"));
        assert_eq!(first.pin().unwrap(), PinSource::Variable("PIN"));
        assert_eq!(first.patience().unwrap(), Some(Duration::from_millis(50)));
        assert_eq!((first.copies, first.process), (true, false));
        assert_eq!((second.place().unwrap(), second.pin().unwrap()), (TokenPlace::Slot(3), PinSource::Nowhere));
        assert_eq!((second.copies, second.process, second.patience().unwrap()), (false, true, None));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (lines, words) in [
            ("", "token `hsm`: of slot and label there must be one"),
            ("slot = 1\nlabel = \"a\"", "token `hsm`: of slot and label there must be one, not both"),
            ("label = \"\"", "token `hsm`: label: has 1 to 32 bytes"),
            ("label = \"a \"", "token `hsm`: label: has 1 to 32 bytes"),
            ("slot = 1\nsessions = 0", "token `hsm`: sessions: must be from 1 to 256"),
            ("slot = 1\npatience_ms = 1", "token `hsm`: patience_ms: must be from 10 to 600000"),
            (
                "slot = 1\npin_file = \"a\"\npin_env = \"b\"",
                "token `hsm`: of pin_file, pin_env and pin_key there must be",
            ),
            ("slot = 1\npin_env = \"a=b\"", "token `hsm`: pin_env: \"a=b\" is no name"),
            ("slot = 1\npin_key = \"\"", "token `hsm`: pin_key: must name a key"),
            ("slot = 1\npin_file = \"\"", "token `hsm`: pin_file: must name a file"),
            ("slot = 1\npin = \"1234\"", "unknown field `pin`"),
            ("slot = -1", "slot = -1"),
        ] {
            let said = problem(&section(lines));
            assert!(said.contains(words), "{lines}: {said}");
        }
        assert!(problem("[[token]]\nname = \"a\"\nslot = 1\n").contains("missing field `module`"));
        assert!(problem("[[token]]\nname = \"a\"\nslot = 1\nmodule = \"\"\n").contains("module: must name"));
        let twice = section("slot = 1") + &section("slot = 2");
        assert!(problem(&twice).contains("token `hsm`: another section has the same name"));
        assert!(problem(&section("slot = 1").repeat(65)).contains("more than 64"));
    }

    #[test]
    fn names_are_an_engines_own() {
        for name in ["", "Hsm", "1a", "-a", "a:b", "a*", "a b", "ä", &"a".repeat(33)] {
            let said = problem(&section("slot = 1").replace("\"hsm\"", &format!("\"{name}\"")));
            assert!(said.contains("token 1: name: ") && said.contains("is none"), "{name}: {said}");
        }
        assert!(problem(&section("slot = 1").replace("hsm\"\n", "gpu\"\n")).contains("`gpu` is another engine's"));
        assert!(problem(&section("slot = 1").replace("hsm\"\n", "rc4\"\n")).contains("`rc4` is a suite's"));
        assert!(read(&section("slot = 1").replace("\"hsm\"", &format!("\"{}\"", "a".repeat(32)))).is_ok());
    }

    #[test]
    fn a_name_is_kept_once() {
        let first = engine_name("a token of this test");
        let again = ["a token", "of this test"].join(" ");
        assert!(std::ptr::eq(first, engine_name(&again)));
        assert_ne!(first, engine_name("another token of this test"));
    }

    #[test]
    fn a_line_end_is_no_part_of_a_pin() {
        for (text, pin) in [("1234\n", "1234"), ("1234\r\n", "1234"), (" 12\n34", " 12\n34")] {
            assert_eq!(&pin_of(text.as_bytes()).unwrap()[..], pin.as_bytes());
        }
        assert!(pin_of(b"").is_err() && pin_of(b"\n").is_err());
    }
}
