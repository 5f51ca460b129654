//! The one place where commands open engines and mills: with the policy of the configuration and the costs measured on this machine.

use std::sync::Arc;

use anyhow::{Context, bail};
use ciphermill::{Disabled, Mill, MillBuilder};
use ciphermill_contract::Engine;
use ciphermill_engines::{DEVICES, Found};

use crate::config::Config;
use crate::costs;

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
        None => Ok(probe(config).engines),
        Some(name) => Ok(vec![engine_named(name, config)?]),
    }
}

/// The engines of this machine. A device that is disabled is not opened: its driver may be why.
pub(crate) fn probe(config: &Config) -> Found {
    ciphermill_engines::probe_where(|name| !unopened(&config.disabled).any(|device| device == name))
}

/// Devices that are not opened, since rules disable them whatever they run.
pub(crate) fn unopened(disabled: &Disabled) -> impl Iterator<Item = &'static str> {
    DEVICES.into_iter().filter(|device| disabled.engine(device).is_some())
}

/// The engine of this name, opened.
pub(crate) fn engine_named(name: &str, config: &Config) -> anyhow::Result<Arc<dyn Engine>> {
    let (engine, _) = name.split_once(':').unwrap_or((name, ""));
    if let Some(rule) = config.disabled.engine(engine) {
        bail!("the engine `{engine}` may not be used; {}", config.reason(rule));
    }
    let opened = ciphermill_engines::open(name)
        .with_context(|| format!("no engine is called `{name}`; there are {}", names().join(", ")))?;
    Ok(opened?)
}

/// The names that engines have, also those of engines that this machine lacks.
pub(crate) fn names() -> Vec<&'static str> {
    ciphermill_engines::names().collect()
}
