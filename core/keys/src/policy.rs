//! What a key may be used for.

use core::fmt;

use ciphermill_contract::limits::SUITE_ORDINALS_MAX;
use ciphermill_contract::{Direction, Directions, EngineKind, EngineKinds, Suite};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a key may be used for, by whom, how often and how long. Fixed when the key is imported.
///
/// The default allows every suite in both directions on every kind of engine, without a budget and for ever, but
/// neither wrapping other keys nor being exported.
///
/// As text (JSON, TOML) suites are `"any"` or a list of suite names, engines `"all"` or a list of kinds, directions
/// `"both"`, `"encrypt"`, `"decrypt"` or `"none"`; what is left out has its default, and an unknown field is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeyPolicy {
    /// The suites that the key may be used with.
    pub suites: SuiteSet,
    /// The directions. Verifying and deriving count as they do in [`Suite::has_direction`].
    #[serde(with = "directions_text")]
    pub directions: Directions,
    /// The kinds of engines that may hold the key.
    #[serde(with = "engines_text")]
    pub engines: EngineKinds,
    /// Operations that the key may be used for in all, counted from its import; without a number any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations_max: Option<u64>,
    /// The second (Unix time) from which on the key is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_unix_s: Option<u64>,
    /// Whether the key may leave the table wrapped under another.
    pub exportable: bool,
    /// Whether the key may wrap and unwrap other keys. Keys that do should do nothing else: whoever may decrypt with a
    /// wrapping key gets at the keys under it (Clulow 2003). [`KeyPolicy::wrapping`] is such a policy.
    pub wraps: bool,
    /// The group of keys that values may be moved between without being shown: [`KeyPolicy::allows_transform_to`]. It has at
    /// most [`TRANSFORM_GROUP_LEN_MAX`] bytes.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "transform_group")]
    pub transform: Option<Box<str>>,
}

/// What a key is used for at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUsage {
    /// Operations whose results their caller gets.
    Plain,
    /// A half of a transform, which [`KeyPolicy::allows_transform_to`] has allowed.
    Transform,
}

/// Bytes that the name of a group of keys may have.
pub const TRANSFORM_GROUP_LEN_MAX: usize = 255;

impl Default for KeyPolicy {
    fn default() -> KeyPolicy {
        KeyPolicy {
            suites: SuiteSet::any(),
            directions: Directions::BOTH,
            engines: EngineKinds::ALL,
            operations_max: None,
            expires_unix_s: None,
            exportable: false,
            wraps: false,
            transform: None,
        }
    }
}

impl KeyPolicy {
    /// The policy of a key-wrapping key: it wraps and unwraps keys and takes part in no suite.
    pub fn wrapping() -> KeyPolicy {
        KeyPolicy { suites: SuiteSet::none(), wraps: true, ..KeyPolicy::default() }
    }

    /// The policy of a key for one suite.
    pub fn only(suite: Suite) -> KeyPolicy {
        KeyPolicy::default().suites(SuiteSet::of([suite]))
    }

    /// The same, for these suites.
    #[must_use]
    pub fn suites(mut self, suites: SuiteSet) -> KeyPolicy {
        self.suites = suites;
        self
    }

    /// The same, in these directions.
    #[must_use]
    pub fn directions(mut self, directions: Directions) -> KeyPolicy {
        self.directions = directions;
        self
    }

    /// The same, on these kinds of engines.
    #[must_use]
    pub fn engines(mut self, engines: EngineKinds) -> KeyPolicy {
        self.engines = engines;
        self
    }

    /// The same, for this many operations in all.
    #[must_use]
    pub fn operations_max(mut self, operations: u64) -> KeyPolicy {
        self.operations_max = Some(operations);
        self
    }

    /// The same, refused from this second (Unix time) on.
    #[must_use]
    pub fn expires_unix_s(mut self, second: u64) -> KeyPolicy {
        self.expires_unix_s = Some(second);
        self
    }

    /// The same, with or without leave to be exported under another key.
    #[must_use]
    pub fn exportable(mut self, exportable: bool) -> KeyPolicy {
        self.exportable = exportable;
        self
    }

    /// The same, with or without leave to wrap other keys.
    #[must_use]
    pub fn wraps(mut self, wraps: bool) -> KeyPolicy {
        self.wraps = wraps;
        self
    }

    /// The same, in a group of keys that values may be moved between.
    #[must_use]
    pub fn transform(mut self, group: &str) -> KeyPolicy {
        self.transform = Some(group.into());
        self
    }

    /// Whether values under this key may be opened and sealed under `target` as one operation.
    ///
    /// Whoever may decrypt under this key and encrypt under the target may do so anyway. Whoever may not needs both keys to be of
    /// one group, and must not get on this way what the policies withhold: if this key does not decrypt, values must not come out
    /// by the target, which then neither decrypts nor leaves the table; if the target does not encrypt, values must not be forged
    /// by this key, which then neither encrypts nor leaves the table. Who may encrypt under a target whose suite is deterministic or
    /// a MAC can still compare guesses with what comes out: give such a target no direction. (What parameters an operation may select has to be policy
    /// too: Clulow 2003.)
    pub fn allows_transform_to(&self, target: &KeyPolicy) -> bool {
        let opens = self.directions.contains(Direction::Decrypt);
        let seals = target.directions.contains(Direction::Encrypt);
        if opens && seals {
            return true;
        }
        let is_group = self.transform.is_some() && self.transform == target.transform;
        let shows = !opens && (target.directions.contains(Direction::Decrypt) || target.exportable);
        let forges = !seals && (self.directions.contains(Direction::Encrypt) || self.exportable);
        is_group && !shows && !forges
    }

    /// Whether the key is refused at this second.
    #[inline]
    pub fn is_expired(&self, now_unix_s: u64) -> bool {
        self.expires_unix_s.is_some_and(|end| now_unix_s >= end)
    }
}

const WORDS: usize = SUITE_ORDINALS_MAX.div_ceil(64);

/// A set of suites: any at all, or those that were put in.
///
/// An open parameter does not count: with `ff1-aes-128` every radix is in. Only suites that
/// [`Suite::all`] lists can be put in.
#[derive(Clone, PartialEq, Eq)]
pub struct SuiteSet(Option<Box<[u64; WORDS]>>);

impl SuiteSet {
    /// Every suite there is or will be.
    pub const fn any() -> SuiteSet {
        SuiteSet(None)
    }

    /// No suite.
    pub fn none() -> SuiteSet {
        SuiteSet(Some(Box::new([0; WORDS])))
    }

    /// These suites. What [`Suite::all`] does not list (a combination that no engine could run) is left out.
    pub fn of(suites: impl IntoIterator<Item = Suite>) -> SuiteSet {
        let mut bits = Box::new([0u64; WORDS]);
        for suite in suites {
            let suite = suite.canonical();
            if suite.is_listed() {
                bits[suite.ordinal() / 64] |= 1 << (suite.ordinal() % 64);
            }
        }
        SuiteSet(Some(bits))
    }

    /// Whether every suite is in.
    pub const fn is_any(&self) -> bool {
        self.0.is_none()
    }

    /// Whether no suite is in.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_some_and(|bits| bits.iter().all(|word| *word == 0))
    }

    /// Whether `suite` is in.
    #[inline]
    pub fn contains(&self, suite: Suite) -> bool {
        self.has_ordinal(suite.ordinal())
    }

    /// The ordinal of the only suite that is in; none where there are more, or none.
    pub(crate) fn only_ordinal(&self) -> Option<usize> {
        let mut ordinals = (0..SUITE_ORDINALS_MAX).filter(|ordinal| self.has_ordinal(*ordinal));
        let first = ordinals.next()?;
        ordinals.next().is_none().then_some(first)
    }

    #[inline]
    fn has_ordinal(&self, ordinal: usize) -> bool {
        self.0.as_ref().is_none_or(|bits| bits[ordinal / 64] & (1 << (ordinal % 64)) != 0)
    }

    /// The listed suites that are in.
    pub fn iter(&self) -> impl Iterator<Item = Suite> {
        Suite::all().filter(|suite| self.contains(*suite))
    }
}

impl Default for SuiteSet {
    fn default() -> SuiteSet {
        SuiteSet::any()
    }
}

impl FromIterator<Suite> for SuiteSet {
    fn from_iter<I: IntoIterator<Item = Suite>>(suites: I) -> SuiteSet {
        SuiteSet::of(suites)
    }
}

impl fmt::Debug for SuiteSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_any() {
            return f.write_str("any");
        }
        f.debug_set().entries(self.iter().map(|suite| suite.to_string())).finish()
    }
}

/// A word that stands for everything, or names.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Names {
    Word(String),
    List(Vec<String>),
}

impl Serialize for SuiteSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let names = match self.is_any() {
            true => Names::Word("any".to_owned()),
            false => Names::List(self.iter().map(|suite| suite.to_string()).collect()),
        };
        names.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SuiteSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SuiteSet, D::Error> {
        match Names::deserialize(deserializer)? {
            Names::Word(word) if word == "any" => Ok(SuiteSet::any()),
            Names::Word(word) => Err(D::Error::custom(format!("suites are `any` or a list of names, not `{word}`"))),
            Names::List(names) => {
                let suites: Result<Vec<Suite>, D::Error> =
                    names.iter().map(|name| name.parse().map_err(D::Error::custom)).collect();
                Ok(SuiteSet::of(suites?))
            }
        }
    }
}

fn transform_group<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<str>>, D::Error> {
    let group = Option::<Box<str>>::deserialize(deserializer)?;
    match &group {
        Some(group) if group.is_empty() || group.len() > TRANSFORM_GROUP_LEN_MAX => {
            Err(D::Error::custom(format!("a group of keys has a name of 1 to {TRANSFORM_GROUP_LEN_MAX} bytes")))
        }
        _ => Ok(group),
    }
}

mod directions_text {
    use super::*;

    pub(super) fn serialize<S: Serializer>(directions: &Directions, serializer: S) -> Result<S::Ok, S::Error> {
        let both = [Direction::Encrypt, Direction::Decrypt].map(|direction| directions.contains(direction));
        serializer.serialize_str(match both {
            [true, false] => "encrypt",
            [false, true] => "decrypt",
            [true, true] => "both",
            [false, false] => "none",
        })
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Directions, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "both" => Ok(Directions::BOTH),
            "encrypt" => Ok(Directions::ENCRYPT),
            "decrypt" => Ok(Directions::DECRYPT),
            "none" => Ok(Directions::NONE),
            other => {
                Err(D::Error::custom(format!("directions are `both`, `encrypt`, `decrypt` or `none`, not `{other}`")))
            }
        }
    }
}

mod engines_text {
    use super::*;

    pub(super) fn serialize<S: Serializer>(engines: &EngineKinds, serializer: S) -> Result<S::Ok, S::Error> {
        let names = match *engines == EngineKinds::ALL {
            true => Names::Word("all".to_owned()),
            false => {
                let kinds = EngineKind::ALL.iter().filter(|kind| engines.contains(**kind));
                Names::List(kinds.map(|kind| kind.to_string()).collect())
            }
        };
        names.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<EngineKinds, D::Error> {
        match Names::deserialize(deserializer)? {
            Names::Word(word) if word == "all" => Ok(EngineKinds::ALL),
            Names::Word(word) => Err(D::Error::custom(format!("engines are `all` or a list of kinds, not `{word}`"))),
            Names::List(names) => names.iter().try_fold(EngineKinds::NONE, |engines, name| {
                let kind: EngineKind = name.parse().map_err(D::Error::custom)?;
                Ok(engines.with(kind))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use ciphermill_contract::suite::{Digest, Mac};
    use proptest::prelude::*;

    use super::*;

    fn suite(name: &str) -> Suite {
        name.parse().unwrap()
    }

    #[test]
    fn the_default_allows_all_but_wrapping_and_export() {
        let policy = KeyPolicy::default();
        assert!(Suite::all().all(|suite| policy.suites.contains(suite)));
        assert_eq!(policy.directions, Directions::BOTH);
        assert_eq!(policy.engines, EngineKinds::ALL);
        assert_eq!((policy.operations_max, policy.expires_unix_s), (None, None));
        assert!(!policy.exportable && !policy.wraps);
        let wrapping = KeyPolicy::wrapping();
        assert!(wrapping.wraps && wrapping.suites.is_empty());
    }

    #[test]
    fn a_radix_does_not_count() {
        let policy = KeyPolicy::only(suite("ff1-aes-128-radix-36"));
        assert!(policy.suites.contains(suite("ff1-aes-128")));
        assert!(policy.suites.contains(suite("ff1-aes-128-radix-2")));
        assert!(!policy.suites.contains(suite("ff1-aes-256")));
    }

    #[test]
    fn a_set_takes_listed_suites_however_often_they_are_named() {
        let gcm = suite("aes-128-gcm");
        assert!(SuiteSet::of([gcm, gcm]).contains(gcm));
        assert!(SuiteSet::of([Suite::Mac(Mac::Hmac(Digest::Shake128))]).is_empty(), "there is no such HMAC");
    }

    /// Who may sign messages may not sign digests, of which nobody knows the message, and the other way round.
    #[test]
    fn messages_and_given_digests_are_allowed_apart() {
        let [messages, digests] = ["ecdsa-p256", "ecdsa-p256-digest"].map(|name| name.parse::<Suite>().unwrap());
        for (one, other) in [(messages, digests), (digests, messages)] {
            let suites = KeyPolicy::only(one).suites;
            assert_eq!((suites.contains(one), suites.contains(other)), (true, false), "{one}");
        }
    }

    #[test]
    fn text_names_everything() {
        let policy = KeyPolicy::default()
            .suites(SuiteSet::of([suite("aes-256-gcm"), suite("aes-128-cbc+hmac-sha1")]))
            .directions(Directions::DECRYPT)
            .engines(EngineKinds::only(EngineKind::Library).with(EngineKind::Lanes))
            .operations_max(7)
            .expires_unix_s(1_900_000_000)
            .exportable(true);
        let text = serde_json::to_string(&policy).unwrap();
        assert_eq!(
            text,
            r#"{"suites":["aes-256-gcm","aes-128-cbc+hmac-sha1"],"directions":"decrypt","engines":["library","lanes"],"operations_max":7,"expires_unix_s":1900000000,"exportable":true,"wraps":false}"#
        );
        assert_eq!(serde_json::from_str::<KeyPolicy>(&text).unwrap(), policy);
        assert_eq!(serde_json::from_str::<KeyPolicy>("{}").unwrap(), KeyPolicy::default());
    }

    #[test]
    fn groups_and_no_directions_are_written_and_policies_without_are_as_they_were() {
        let policy = KeyPolicy::default().directions(Directions::NONE).transform("customers");
        let text = serde_json::to_string(&policy).unwrap();
        assert!(text.contains(r#""directions":"none""#) && text.contains(r#""transform":"customers""#), "{text}");
        assert_eq!(serde_json::from_str::<KeyPolicy>(&text).unwrap(), policy);
        assert!(!serde_json::to_string(&KeyPolicy::default()).unwrap().contains("transform"));
    }

    #[test]
    fn text_that_is_no_policy_is_refused() {
        for text in [
            r#"{"suites":"all"}"#,
            r#"{"suites":["aes-256-gcn"]}"#,
            r#"{"directions":"neither"}"#,
            r#"{"transform":""}"#,
            r#"{"engines":["abacus"]}"#,
            r#"{"engines":"any"}"#,
            r#"{"expires":1}"#,
            r#"{"operations_max":-1}"#,
        ] {
            assert!(serde_json::from_str::<KeyPolicy>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn expiry_begins_with_its_second() {
        let policy = KeyPolicy::default().expires_unix_s(100);
        assert!(!policy.is_expired(99) && policy.is_expired(100) && policy.is_expired(u64::MAX));
        assert!(!KeyPolicy::default().is_expired(u64::MAX));
    }

    proptest! {
        /// A set behaves as a hash set of the listed suites does, and survives being written and read.
        #[test]
        fn suite_sets_are_sets(picks in proptest::collection::vec(0usize..235, 0..40)) {
            let listed: Vec<Suite> = Suite::all().collect();
            let model: HashSet<Suite> = picks.iter().map(|pick| listed[*pick]).collect();
            let set: SuiteSet = model.iter().copied().collect();
            for suite in &listed {
                prop_assert_eq!(set.contains(*suite), model.contains(suite));
            }
            prop_assert_eq!(set.iter().count(), model.len());
            prop_assert_eq!(set.is_empty(), model.is_empty());
            prop_assert!(!set.is_any());
            let text = serde_json::to_string(&set).unwrap();
            prop_assert_eq!(serde_json::from_str::<SuiteSet>(&text).unwrap(), set);
        }
    }
}
