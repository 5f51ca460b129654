//! `ciphermill tokens`: the PKCS#11 tokens that are engines.

mod add;
mod clone;
mod list;
mod signing;
mod test;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use ciphermill_token::TokenSection;

use crate::args::TokensCommand;
use crate::config::Config;

/// Runs a command.
pub(crate) fn run(
    command: &TokensCommand,
    named: Option<&Path>,
    config: impl FnOnce() -> anyhow::Result<Config>,
) -> anyhow::Result<ExitCode> {
    match command {
        TokensCommand::List(args) => list::run(args, config),
        TokensCommand::Add(args) => add::run(args, named),
        TokensCommand::Test(args) => test::run(args, &config()?),
        TokensCommand::Clone(args) => clone::run(args, &config()?),
    }
}

/// The section of a configured token that no rule disables.
fn section<'c>(config: &'c Config, name: &str) -> anyhow::Result<&'c TokenSection> {
    let found = config.tokens.iter().find(|section| section.name == name);
    let section = found.with_context(|| match &config.tokens[..] {
        [] => format!("no token is called `{name}`; none is configured, `ciphermill tokens add` does that"),
        tokens => {
            let names: Vec<&str> = tokens.iter().map(|section| section.name.as_str()).collect();
            format!("no token is called `{name}`; there are {}", names.join(", "))
        }
    })?;
    if let Some(rule) = config.disabled.engine(name) {
        bail!("the token `{name}` may not be used; {}", config.reason(rule));
    }
    Ok(section)
}
