//! `ciphermill tokens add`.

use std::path::{Path, absolute};
use std::process::ExitCode;

use anyhow::{Context, Result};
use toml::{Table, Value};

use super::section;
use crate::args::TokensAddArgs;
use crate::commands::disable::File;
use crate::config::Config;
use crate::mills;
use crate::tokens::Tokens;

pub(super) fn run(args: &TokensAddArgs, named: Option<&Path>) -> Result<ExitCode> {
    let mut file = File::read(named)?;
    let text = text(args)?;
    file.change(|old| Ok(appended(old, &text)))?;
    let config = Config::parse(&file.new, &file.path, &mills::names())?;
    // What does not open is not written.
    let opened = Tokens::new(&config).open(section(&config, &args.name)?);
    let engine = opened.with_context(|| format!("token `{}`; nothing was written", args.name))?.engine();
    let suites = engine.capabilities().iter().map(|one| one.suites.len()).sum::<usize>();
    let version = crate::output::printable(&engine.info().version);
    file.write(&[format!("{}: the token `{}` is {version}, with {suites} suites", file.path.display(), args.name)])
}

/// The section, in the form of the file.
fn text(args: &TokensAddArgs) -> Result<String> {
    // Files are named from the configuration's folder there, and from this one here.
    let path = |path: &Path| -> Result<Value> {
        let whole = absolute(path).with_context(|| format!("{}: is no path", path.display()))?;
        let text = whole.to_str().with_context(|| format!("{}: a path that is no text", path.display()))?;
        Ok(Value::from(text))
    };
    let number = |number: u64| i64::try_from(number).map(Value::from).context("the number is too large for the file");
    let mut lines: Vec<(&str, Value)> = vec![("name", args.name.as_str().into()), ("module", path(&args.module)?)];
    if let Some(slot) = args.place.slot {
        lines.push(("slot", number(slot)?));
    }
    if let Some(label) = &args.place.label {
        lines.push(("label", label.as_str().into()));
    }
    if let Some(file) = &args.pin_file {
        lines.push(("pin_file", path(file)?));
    }
    for (name, value) in [("pin_env", &args.pin_env), ("pin_key", &args.pin_key)] {
        if let Some(value) = value {
            lines.push((name, value.as_str().into()));
        }
    }
    if args.copies {
        lines.push(("copies", true.into()));
    }
    if args.in_process {
        lines.push(("process", false.into()));
    }
    if let Some(ms) = args.patience_ms {
        lines.push(("patience_ms", number(ms)?));
    }
    let mut text = "[[token]]\n".to_owned();
    for (name, value) in lines {
        text += &toml::to_string(&Table::from_iter([(name.to_owned(), value)]))?;
    }
    Ok(text)
}

/// The section behind what there is.
fn appended(old: &str, section: &str) -> String {
    let gap = match old {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    format!("{old}{gap}{section}")
}
