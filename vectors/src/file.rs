//! Reading the data files.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use ciphermill_contract::{Directions, Suite};
use serde::Deserialize;

use crate::case::{Case, CaseKeys, Outcome};
use crate::keys;

/// A data file is not what it should be; says where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DataError(pub(crate) String);

#[derive(Deserialize)]
struct File<'a> {
    source: &'a str,
    #[serde(borrow)]
    cases: Vec<Entry<'a>>,
}

/// One line of a file; byte strings in hexadecimal. `pair` names a key pair of `keys.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry<'a> {
    id: &'a str,
    suite: &'a str,
    /// Overrides the file's source.
    source: Option<&'a str>,
    way: Option<&'a str>,
    pair: Option<&'a str>,
    #[serde(default)]
    key: &'a str,
    #[serde(default)]
    private: &'a str,
    #[serde(default)]
    public: &'a str,
    #[serde(default)]
    iv: &'a str,
    #[serde(default)]
    aad: &'a str,
    #[serde(default)]
    input: &'a str,
    #[serde(default)]
    output: &'a str,
    #[serde(default)]
    tag: &'a str,
    invalid: Option<&'a str>,
    acceptable: Option<&'a str>,
}

/// The cases of a data file.
pub(crate) fn parse(text: &str) -> Result<Vec<Case>, DataError> {
    let file: File<'_> = serde_json::from_str(text).map_err(|error| DataError(error.to_string()))?;
    let source: Arc<str> = file.source.into();
    file.cases.iter().map(|entry| to_case(entry, &source)).collect()
}

fn to_case(entry: &Entry<'_>, source: &Arc<str>) -> Result<Case, DataError> {
    let wrong = |what: String| DataError(format!("{}: {what}", entry.id));
    let bytes = |name: &str, text: &str| hex::decode(text).map_err(|error| wrong(format!("{name}: {error}")));
    let suite = suite_named(entry.suite).ok_or_else(|| wrong(format!("no suite `{}`", entry.suite)))?;
    let ways = match entry.way {
        None => Directions::BOTH,
        Some("encrypt") => Directions::ENCRYPT,
        Some("decrypt") => Directions::DECRYPT,
        Some(other) => return Err(wrong(format!("no way `{other}`"))),
    };
    let mut keys = CaseKeys {
        secret: bytes("key", entry.key)?,
        private: bytes("private", entry.private)?,
        public: bytes("public", entry.public)?,
    };
    if let Some(name) = entry.pair {
        let pair = keys::pairs(name).into_iter().next().ok_or_else(|| wrong(format!("no key pair `{name}`")))?;
        keys.private = pair.private.clone();
        keys.public = pair.public.clone();
    }
    Ok(Case {
        id: entry.id.to_owned(),
        source: entry.source.map_or_else(|| Arc::clone(source), Arc::from),
        suite,
        ways,
        keys,
        iv: bytes("iv", entry.iv)?,
        aad: bytes("aad", entry.aad)?,
        input: bytes("input", entry.input)?,
        output: bytes("output", entry.output)?,
        tag: bytes("tag", entry.tag)?,
        outcome: match (entry.invalid, entry.acceptable) {
            (None, None) => Outcome::Valid,
            (Some(why), None) => Outcome::Invalid(why.to_owned()),
            (None, Some(why)) => Outcome::Acceptable(why.to_owned()),
            (Some(_), Some(_)) => return Err(wrong("both invalid and acceptable".to_owned())),
        },
    })
}

/// [`str::parse`] for suites, with a table in front: files name the same few suites thousands of times.
fn suite_named(name: &str) -> Option<Suite> {
    static NAMES: OnceLock<HashMap<String, Suite>> = OnceLock::new();
    let names = NAMES.get_or_init(|| Suite::all().map(|suite| (suite.to_string(), suite)).collect());
    names.get(name).copied().or_else(|| name.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_refused_with_the_place() {
        let file = |entry: &str| format!(r#"{{"source": "s", "cases": [{entry}]}}"#);
        assert_eq!(parse(&file(r#"{"id": "a", "suite": "md5", "tag": "00"}"#)).map(|cases| cases.len()), Ok(1));
        for (entry, place) in [
            (r#"{"id": "a", "suite": "md6"}"#, "md6"),
            (r#"{"id": "a", "suite": "md5", "tag": "0"}"#, "a: tag"),
            (r#"{"id": "a", "suite": "md5", "way": "up"}"#, "up"),
            (r#"{"id": "a", "suite": "md5", "pair": "rsa-7"}"#, "rsa-7"),
            (r#"{"id": "a", "suite": "md5", "tagg": "00"}"#, "tagg"),
        ] {
            let error = parse(&file(entry)).unwrap_err();
            assert!(error.0.contains(place), "{error:?} does not name {place}");
        }
    }
}
