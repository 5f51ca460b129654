//! The one place where commands open engines and mills: with the policy of the configuration and the costs measured on this machine.

use std::sync::Arc;

use anyhow::{Context, bail};
use ciphermill::{Mill, MillBuilder};
use ciphermill_contract::Engine;
use ciphermill_engines::DEVICES;

use crate::config::Config;
use crate::costs;
use crate::output::{chain, tell};
use crate::tokens::Tokens;
use ciphermill_token::engine_name;

/// Why a token is left out where keys are brought along.
pub(crate) const NO_COPIES: &str = "it takes no copies of keys (copies = false)";

/// The engines of this machine and the configured tokens.
pub(crate) struct Found {
    /// What has opened.
    pub engines: Vec<Arc<dyn Engine>>,
    /// What has not, and why.
    pub unavailable: Vec<(&'static str, String)>,
}

/// A mill with these engines, to be opened.
pub(crate) fn builder(
    engines: impl IntoIterator<Item = Arc<dyn Engine>>,
    config: &Config,
) -> anyhow::Result<MillBuilder> {
    let builder = Mill::builder().engines(engines).policy(config.policy()?).disabled(config.disabled.clone());
    Ok(builder.costs(costs::in_force()))
}

/// A mill with the engines of this machine, or with the one named.
pub(crate) fn open(engine: Option<&str>, config: &Config) -> anyhow::Result<Mill> {
    Ok(builder(engines(engine, config)?, config)?.open()?)
}

/// The same for tables, which keep all cores busy themselves: batches are not split over them.
pub(crate) fn open_for_tables(engine: Option<&str>, config: &Config) -> anyhow::Result<Mill> {
    Ok(builder(engines(engine, config)?, config)?.workers(0).open()?)
}

fn engines(named: Option<&str>, config: &Config) -> anyhow::Result<Vec<Arc<dyn Engine>>> {
    match named {
        None => Ok(all(config)),
        Some(name) => Ok(vec![engine_named(name, config)?]),
    }
}

/// The engines of this machine and the configured tokens, for commands that do not list them: somebody has asked for each token, so that
/// the log says which of them is not there.
pub(crate) fn all(config: &Config) -> Vec<Arc<dyn Engine>> {
    let found = probe(config);
    for (name, why) in &found.unavailable {
        if config.tokens.iter().any(|token| token.name == *name) {
            tracing::warn!("{name} is not available: {why}");
        }
    }
    found.engines
}

/// The same without tokens that take no copies of keys: for commands that bring keys of their own. It is said which those are.
pub(crate) fn with_copies(config: &Config) -> Vec<Arc<dyn Engine>> {
    let mut engines = all(config);
    engines.retain(|engine| {
        let takes = takes_copies(engine.info().name, config);
        if !takes {
            tell(format_args!("ciphermill: {} is left out: {NO_COPIES}", engine.info().name));
        }
        takes
    });
    engines
}

/// Whether keys may be copied to an engine; a token takes those that its section permits.
pub(crate) fn takes_copies(engine: &str, config: &Config) -> bool {
    config.tokens.iter().all(|section| section.name != engine || section.copies)
}

/// The engines of this machine and the configured tokens. A device or token that is disabled is not opened: its driver may be why.
pub(crate) fn probe(config: &Config) -> Found {
    let is_left = |name: &str| unopened(config).any(|left| left == name);
    let probed = ciphermill_engines::probe_where(|name| !is_left(name));
    let unavailable = probed.unavailable.into_iter().map(|(name, error)| (name, error.to_string())).collect();
    let mut found = Found { engines: probed.engines, unavailable };
    let mut tokens = Tokens::new(config);
    for section in config.tokens.iter().filter(|section| !is_left(&section.name)) {
        match tokens.open(section) {
            Ok(token) => found.engines.push(token.engine()),
            Err(error) => found.unavailable.push((engine_name(&section.name), chain(&error))),
        }
    }
    found
}

/// Devices and tokens that are not opened, since rules disable them whatever they run.
pub(crate) fn unopened(config: &Config) -> impl Iterator<Item = &'static str> {
    let tokens = config.tokens.iter().map(|section| engine_name(&section.name));
    DEVICES.into_iter().chain(tokens).filter(|name| config.disabled.engine(name).is_some())
}

/// The engine of this name, opened.
pub(crate) fn engine_named(name: &str, config: &Config) -> anyhow::Result<Arc<dyn Engine>> {
    let (engine, _) = name.split_once(':').unwrap_or((name, ""));
    if let Some(rule) = config.disabled.engine(engine) {
        bail!("the engine `{engine}` may not be used; {}", config.reason(rule));
    }
    if let Some(section) = config.tokens.iter().find(|section| section.name == name) {
        let opened = Tokens::new(config).open(section).with_context(|| format!("token `{name}`"))?;
        return Ok(opened.engine());
    }
    let opened = ciphermill_engines::open(name)
        .with_context(|| format!("no engine is called `{name}`; there are {}", config.names(&names()).join(", ")))?;
    Ok(opened?)
}

/// The names that engines have, also those of engines that this machine lacks; tokens are named by the configuration.
pub(crate) fn names() -> Vec<&'static str> {
    ciphermill_engines::names().collect()
}
