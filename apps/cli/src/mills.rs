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
    Ok(builder(engines(engine)?, config)?.open()?)
}

/// The same for tables, which keep all cores busy themselves: batches are not split over them.
pub(crate) fn open_for_tables(engine: Option<&str>, config: &Config) -> anyhow::Result<Mill> {
    Ok(builder(engines(engine)?, config)?.workers(0).open()?)
}

fn engines(named: Option<&str>) -> anyhow::Result<Vec<Arc<dyn Engine>>> {
    match named {
        None => Ok(ciphermill_engines::all()),
        Some(name) => Ok(vec![engine_named(name)?]),
    }
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
