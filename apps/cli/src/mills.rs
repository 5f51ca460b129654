//! The one place where commands open mills: with the policy of the configuration and the costs measured on this machine.

use std::sync::Arc;

use anyhow::bail;
use ciphermill::{Mill, MillBuilder};
use ciphermill_contract::Engine;

use crate::config::Config;
use crate::costs;

/// A mill with these engines, to be opened.
pub(crate) fn builder(
    engines: impl IntoIterator<Item = Arc<dyn Engine>>,
    config: &Config,
) -> anyhow::Result<MillBuilder> {
    Ok(Mill::builder().engines(engines).policy(config.policy()?).costs(costs::in_force()))
}

/// A mill with the engines of this machine, or with the one named.
pub(crate) fn open(engine: Option<&str>, config: &Config) -> anyhow::Result<Mill> {
    open_beside(engine, config, None)
}

/// The same for a job on so many threads: the mill has as many as the calling one leaves.
pub(crate) fn open_beside(engine: Option<&str>, config: &Config, threads: Option<u16>) -> anyhow::Result<Mill> {
    let engines: Vec<Arc<dyn Engine>> = match engine {
        None => ciphermill_engines::all(),
        Some(name) => vec![engine_named(name)?],
    };
    let builder = builder(engines, config)?;
    let builder = match threads {
        Some(threads) => builder.workers(usize::from(threads).saturating_sub(1)),
        None => builder,
    };
    Ok(builder.open()?)
}

/// The engine of this name, opened.
pub(crate) fn engine_named(name: &str) -> anyhow::Result<Arc<dyn Engine>> {
    match ciphermill_engines::open(name) {
        Some(opened) => Ok(opened?),
        None => {
            let known: Vec<&str> = ciphermill_engines::names().collect();
            bail!("no engine is called `{name}`; there are {}", known.join(", "))
        }
    }
}
