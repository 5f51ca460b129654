//! `ciphermill.toml`: policy and places.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ciphermill::Policy;
use ciphermill_contract::{EngineKind, EngineKinds};
use serde::Deserialize;

/// The file's name, in the working folder and in the user's configuration folder.
pub(crate) const FILE_NAME: &str = "ciphermill.toml";

/// What a configuration file may say. Anything else in it is an error, so that a misspelt rule never goes unnoticed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    pub policy: PolicySection,
    pub keystore: KeystoreSection,
    /// Where this came from; `None` when there is no file.
    #[serde(skip)]
    pub path: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PolicySection {
    /// Enables legacy suites.
    pub legacy: bool,
    /// Kinds of engines that may be used; all when absent.
    pub engines: Option<Vec<String>>,
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
    /// Reads the file named, else the one in the working folder, else the user's; without any, the defaults.
    pub(crate) fn load(named: Option<&Path>) -> Result<Config> {
        if let Some(path) = named {
            return Config::read(path);
        }
        let user = user_folder("XDG_CONFIG_HOME", ".config").map(|folder| folder.join(FILE_NAME));
        for path in [Some(PathBuf::from(FILE_NAME)), user].into_iter().flatten() {
            if path.is_file() {
                return Config::read(&path);
            }
        }
        Ok(Config::default())
    }

    fn read(path: &Path) -> Result<Config> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut config: Config =
            toml::from_str(&text).with_context(|| format!("{} is not a valid configuration", path.display()))?;
        config.policy.kinds().with_context(|| format!("in {}", path.display()))?;
        config.path = Some(path.to_owned());
        Ok(config)
    }

    /// The mill's policy.
    pub(crate) fn policy(&self) -> Result<Policy> {
        Ok(Policy { legacy: self.policy.legacy, engines: self.policy.kinds()?, ..Policy::default() })
    }

    /// The keystore file when none is named on the command line.
    pub(crate) fn keystore_path(&self) -> Result<PathBuf> {
        if let Some(path) = &self.keystore.path {
            let base = self.path.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
            return Ok(base.join(path));
        }
        match user_folder("XDG_DATA_HOME", ".local/share") {
            Some(folder) => Ok(folder.join("keystore.redb")),
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
    fn misspelt_rules_are_errors() {
        assert!(parse("[policy]\nlegaci = true").is_err());
        assert!(parse("[policy]\nengines = [\"libary\"]").unwrap().policy().is_err());
    }

    #[test]
    fn engine_kinds_are_read() {
        let policy = parse("[policy]\nengines = [\"library\"]").unwrap().policy().unwrap();
        assert!(policy.engines.contains(EngineKind::Library));
        assert!(!policy.engines.contains(EngineKind::Reference));
    }
}
