//! `ciphermill.toml`: policy and places.

// By its path, so that the fuzz target of this file finds it as well.
#[path = "config/service.rs"]
mod service;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ciphermill::{Disabled, Policy, TrustPolicy};
use ciphermill_contract::{EngineKind, EngineKinds};
use ciphermill_token::TokenSection;
use serde::Deserialize;
use service::ServiceSection;

/// The file's name, in the working folder and in the user's configuration folder.
pub(crate) const FILE_NAME: &str = "ciphermill.toml";

/// What a configuration file may say. Anything else in it is an error, so that a misspelt rule never goes unnoticed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    pub policy: PolicySection,
    pub trust: TrustSection,
    pub keystore: KeystoreSection,
    pub service: ServiceSection,
    /// Tokens that are engines.
    #[serde(rename = "token")]
    pub tokens: Vec<TokenSection>,
    /// Where this came from; `None` when there is no file.
    #[serde(skip)]
    pub path: Option<PathBuf>,
    /// What `policy.disabled` says.
    #[serde(skip)]
    pub disabled: Disabled,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PolicySection {
    /// Enables legacy suites.
    pub legacy: bool,
    /// Kinds of engines that may be used; all when absent.
    pub engines: Option<Vec<String>>,
    /// Engines and suites that are disabled: `gpu`, `lanes:des-cbc`, `rc4`.
    pub disabled: Vec<String>,
}

/// How far engines are believed; what is absent is as the mill has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TrustSection {
    /// One of so many batches is recomputed on another engine; 0 for none.
    pub witness_every: Option<u32>,
    /// Operations of such a batch that are recomputed at most.
    pub witness_ops_max: Option<u32>,
    /// An engine that can fail stalls when it takes so many times the predicted time …
    pub stall_factor: Option<u32>,
    /// … and at least so many milliseconds.
    pub stall_min_ms: Option<u64>,
    /// The first quarantine in milliseconds; each further one is twice as long …
    pub quarantine_min_ms: Option<u64>,
    /// … up to so many milliseconds.
    pub quarantine_max_ms: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct KeystoreSection {
    /// The keystore file, relative to the configuration file.
    pub path: Option<PathBuf>,
    /// The key that `protect` uses when none is named.
    pub key: Option<String>,
}

impl Config {
    /// Reads the file named, else the one in the working folder, else the user's; without any, the defaults. `engines` are the names
    /// that rules may have besides those of tokens, also those of engines that this machine lacks.
    pub(crate) fn load(named: Option<&Path>, engines: &[&str]) -> Result<Config> {
        match named.map(Path::to_owned).or_else(found) {
            Some(path) => {
                let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
                Config::parse(&text, &path, engines)
            }
            None => Ok(Config::default()),
        }
    }

    /// Reads what stands in the file at `path`, or is to stand there.
    pub(crate) fn parse(text: &str, path: &Path, engines: &[&str]) -> Result<Config> {
        let mut config: Config =
            toml::from_str(text).with_context(|| format!("{} is not a valid configuration", path.display()))?;
        let checked = config.policy().and_then(|_| Ok(ciphermill_token::check(&config.tokens, engines)?));
        let checked = checked.and_then(|()| config.policy.rules(&config.names(engines)));
        config.disabled = checked.with_context(|| format!("in {}", path.display()))?;
        config.path = Some(path.to_owned());
        Ok(config)
    }

    /// These names of engines, and those of the tokens.
    pub(crate) fn names<'n>(&'n self, engines: &[&'n str]) -> Vec<&'n str> {
        engines.iter().copied().chain(self.tokens.iter().map(|token| token.name.as_str())).collect()
    }

    /// The file to write settings into: that which they are read from, else the user's, which need not be there.
    pub(crate) fn place(named: Option<&Path>) -> Result<PathBuf> {
        let place = named.map(Path::to_owned).or_else(found).or_else(user_file);
        place.context("there is no home folder for a configuration; name a file with --config")
    }

    /// The defaults, but for what is disabled.
    pub(crate) fn only_disabled(&self) -> Config {
        Config { disabled: self.disabled.clone(), path: self.path.clone(), ..Config::default() }
    }

    /// Why something is disabled: the rule and where it stands.
    pub(crate) fn reason(&self, rule: impl std::fmt::Display) -> String {
        match &self.path {
            Some(path) => format!("disabled: {rule} in {}", path.display()),
            None => format!("disabled: {rule}"),
        }
    }

    /// The mill's policy.
    pub(crate) fn policy(&self) -> Result<Policy> {
        let (legacy, engines, trust) = (self.policy.legacy, self.policy.kinds()?, self.trust.policy()?);
        Ok(Policy { legacy, engines, trust, ..Policy::default() })
    }

    /// The folder that files in it are named from.
    pub(crate) fn folder(&self) -> &Path {
        self.path.as_deref().and_then(Path::parent).unwrap_or(Path::new(""))
    }

    /// The keystore file when none is named on the command line.
    pub(crate) fn keystore_path(&self) -> Result<PathBuf> {
        if let Some(path) = &self.keystore.path {
            return Ok(self.folder().join(path));
        }
        match user_folder("XDG_DATA_HOME", ".local/share") {
            Some(folder) => {
                // Its name before the format changed.
                let (path, old) = (folder.join("keystore"), folder.join("keystore.redb"));
                Ok(if old.exists() && !path.exists() { old } else { path })
            }
            None => bail!("there is no home folder for a keystore; name one with --keystore"),
        }
    }
}

impl PolicySection {
    fn kinds(&self) -> Result<EngineKinds> {
        let Some(names) = &self.engines else { return Ok(EngineKinds::ALL) };
        let mut kinds = EngineKinds::NONE;
        for name in names {
            let kind: EngineKind =
                name.parse().with_context(|| format!("policy.engines: `{name}` is no kind of engine"))?;
            kinds = kinds.with(kind);
        }
        Ok(kinds)
    }

    fn rules(&self, engines: &[&str]) -> Result<Disabled> {
        Disabled::parse(self.disabled.iter().map(String::as_str), engines).context("policy.disabled")
    }
}

impl TrustSection {
    fn policy(&self) -> Result<TrustPolicy> {
        let default = TrustPolicy::default();
        let time = |ms: Option<u64>, default| ms.map_or(default, Duration::from_millis);
        let trust = TrustPolicy {
            witness_every: self.witness_every.unwrap_or(default.witness_every),
            witness_ops_max: self.witness_ops_max.unwrap_or(default.witness_ops_max),
            stall_factor: self.stall_factor.unwrap_or(default.stall_factor),
            stall_min: time(self.stall_min_ms, default.stall_min),
            quarantine_min: time(self.quarantine_min_ms, default.quarantine_min),
            quarantine_max: time(self.quarantine_max_ms, default.quarantine_max),
        };
        if trust.stall_factor == 0 {
            bail!("trust.stall_factor: must be at least 1; the router would leave every engine at once");
        }
        if trust.witness_every != 0 && trust.witness_ops_max == 0 {
            bail!("trust.witness_ops_max: must be at least 1; for no witnesses set witness_every = 0");
        }
        if trust.quarantine_min > trust.quarantine_max {
            bail!("trust.quarantine_min_ms: must not be above quarantine_max_ms");
        }
        Ok(trust)
    }
}

/// The file that settings are read from when none is named, if there is one.
fn found() -> Option<PathBuf> {
    [Some(PathBuf::from(FILE_NAME)), user_file()].into_iter().flatten().find(|path| path.is_file())
}

fn user_file() -> Option<PathBuf> {
    user_folder("XDG_CONFIG_HOME", ".config").map(|folder| folder.join(FILE_NAME))
}

/// This program's folder below an XDG base folder.
pub(crate) fn user_folder(variable: &str, fallback: &str) -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set(variable).or_else(|| set("HOME").map(|home| home.join(fallback)))?;
    Some(base.join("ciphermill"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn legacy_is_off_unless_said() {
        assert!(!parse("").unwrap().policy().unwrap().legacy);
        assert!(parse("[policy]\nlegacy = true").unwrap().policy().unwrap().legacy);
    }

    #[test]
    fn rules_may_name_tokens_and_what_is_wrong_is_said_with_its_place() {
        let read = |text: &str| Config::parse(text, Path::new("place"), &["lanes", "gpu"]);
        let token = "[[token]]\nname = \"hsm\"\nmodule = \"hsm.so\"\nslot = 1\n";
        let config = read(&format!("{token}[policy]\ndisabled = [\"hsm\", \"hsm:ecdsa-p256\"]\n")).unwrap();
        assert!(config.disabled.engine("hsm").is_some());
        let problem = |text: &str| crate::output::chain(&read(text).unwrap_err());
        let twice = problem(&token.replace("slot = 1", "slot = 1\nlabel = \"a\""));
        assert!(twice.contains("in place: token `hsm`: of slot and label there must be one, not both"), "{twice}");
        assert!(problem("[policy]\ndisabled = [\"hsm\"]\n").contains("neither an engine nor a suite"));
    }

    #[test]
    fn misspelt_rules_are_errors() {
        assert!(parse("[policy]\nlegaci = true").is_err());
        assert!(parse("[policy]\nengines = [\"libary\"]").unwrap().policy().is_err());
    }

    #[test]
    fn trust_is_read_and_checked() {
        let trust = |text: &str| parse(&format!("[trust]\n{text}")).unwrap().policy().map(|policy| policy.trust);
        assert_eq!(trust("").unwrap(), TrustPolicy::default());
        let read = trust("witness_every = 64\nstall_factor = 3\nquarantine_max_ms = 5000").unwrap();
        assert_eq!((read.witness_every, read.stall_factor), (64, 3));
        assert_eq!(read.quarantine_max, Duration::from_secs(5));
        assert!(trust("stall_factor = 0").is_err());
        assert!(trust("witness_ops_max = 0").is_err());
        assert!(trust("witness_ops_max = 0\nwitness_every = 0").is_ok());
        assert!(trust("quarantine_min_ms = 10\nquarantine_max_ms = 5").is_err());
        assert!(parse("[trust]\nwitnes_every = 1").is_err());
    }

    #[test]
    fn what_is_disabled_is_read_and_checked() {
        let engines = ["lanes", "library", "gpu"];
        let read = |rules: &str| Config::parse(&format!("[policy]\ndisabled = {rules}"), Path::new("place"), &engines);
        assert!(Config::parse("", Path::new("place"), &engines).unwrap().disabled.is_empty());
        let config = read(r#"["lanes:des-cbc", "gpu", "rc4"]"#).unwrap();
        let rule = config.disabled.find("library", "rc4".parse().unwrap()).unwrap();
        assert_eq!(config.reason(rule), "disabled: rc4 in place");
        assert_eq!(config.disabled.engine("gpu").unwrap().to_string(), "gpu");
        let problem = |rules: &str| crate::output::chain(&read(rules).unwrap_err());
        assert!(problem(r#"["lane:des-cbc"]"#).starts_with("in place: policy.disabled: rule `lane:des-cbc`"));
        assert!(problem(r#"["reference"]"#).contains("neither an engine nor a suite"), "it is none of the names");
        assert!(problem(r#"["gpu", "gpu"]"#).contains("twice"));
        assert!(read("\"gpu\"").is_err());
    }

    #[test]
    fn engine_kinds_are_read() {
        let policy = parse("[policy]\nengines = [\"library\"]").unwrap().policy().unwrap();
        assert!(policy.engines.contains(EngineKind::Library));
        assert!(!policy.engines.contains(EngineKind::Reference));
    }
}
