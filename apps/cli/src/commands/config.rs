//! `ciphermill config`: which settings are in force.

use std::process::ExitCode;

use crate::config::{Config, FILE_NAME};
use crate::output::say;

/// Prints the settings in the form of a configuration file, each with what it means.
pub(crate) fn run(config: &Config) -> anyhow::Result<ExitCode> {
    match &config.path {
        Some(path) => say(format!("# from {}", path.display()))?,
        None => say(format!("# defaults; there is no {FILE_NAME} here or in the user's configuration folder"))?,
    }
    let policy = config.policy()?;
    let kinds: Vec<String> = ciphermill_contract::EngineKind::ALL
        .iter()
        .filter(|kind| policy.engines.contains(**kind))
        .map(|kind| format!("\"{kind}\""))
        .collect();
    say("\n[policy]")?;
    say("# Broken, undersized or variable-time suites (DES, 3DES, RC4, Blowfish, MD5, RSA-1024 ...).")?;
    say(format!("legacy = {}", policy.legacy))?;
    say("# Kinds of engines that may be used.")?;
    say(format!("engines = [{}]", kinds.join(", ")))?;
    say("\n[keystore]")?;
    say("# Where keys are kept, wrapped under a master key.")?;
    say(format!("path = {:?}", config.keystore_path()?))?;
    say("# The key that `protect` uses when --key does not name one.")?;
    say(format!("key = {:?}", config.keystore.key.as_deref().unwrap_or("default")))?;
    Ok(ExitCode::SUCCESS)
}
