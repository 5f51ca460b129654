//! `ciphermill disable` and `ciphermill enable`: rules in the configuration file.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use ciphermill::DisabledRule;
use ciphermill_cli::whole;

use crate::args::RulesArgs;
use crate::config::Config;
use crate::output::{after_change, say};
use crate::{mills, rules};

/// The configuration file while it is changed.
pub(super) struct File {
    pub(super) path: PathBuf,
    /// What stands there, nothing where there is no file.
    old: String,
    pub(super) new: String,
}

impl File {
    pub(super) fn read(named: Option<&Path>) -> Result<File> {
        let path = Config::place(named)?;
        let old = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        Ok(File { path, new: old.clone(), old })
    }

    /// The rules as they would be now.
    fn rules(&self) -> Result<Vec<DisabledRule>> {
        Ok(Config::parse(&self.new, &self.path, &mills::names())?.disabled.rules().to_vec())
    }

    /// Rules that are asked for, which may name the file's tokens.
    fn parsed(&self, args: &RulesArgs) -> Result<Vec<DisabledRule>> {
        let config = Config::parse(&self.old, &self.path, &mills::names())?;
        args.rules.iter().map(|rule| parse(rule, &config)).collect()
    }

    pub(super) fn change(&mut self, change: impl FnOnce(&str) -> Result<String>) -> Result<()> {
        self.new = change(&self.new).with_context(|| format!("in {}", self.path.display()))?;
        Ok(())
    }

    /// Replaces the file, unless nothing is new, and says what was done.
    pub(super) fn write(&self, said: &[String]) -> Result<ExitCode> {
        self.rules()?;
        if self.new != self.old {
            let folder = whole::folder_of(&self.path);
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            whole::replace(&self.path, self.new.as_bytes())?;
        }
        after_change(said.iter().try_for_each(say))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Adds rules.
pub(crate) fn disable(args: &RulesArgs, named: Option<&Path>) -> Result<ExitCode> {
    let mut file = File::read(named)?;
    let mut said = Vec::new();
    for rule in file.parsed(args)? {
        let is_there = file.rules()?.contains(&rule);
        if !is_there {
            file.change(|text| rules::with(text, &rule.to_string()))?;
        }
        let already = if is_there { ", as before" } else { "" };
        said.push(format!("disabled: {rule} in {}{already}", file.path.display()));
    }
    file.write(&said)
}

/// Takes rules out.
pub(crate) fn enable(args: &RulesArgs, named: Option<&Path>) -> Result<ExitCode> {
    let mut file = File::read(named)?;
    let mut said = Vec::new();
    let config = Config::parse(&file.old, &file.path, &mills::names())?;
    for rule in file.parsed(args)? {
        let before = file.rules()?;
        if !before.contains(&rule) {
            let place = file.path.display();
            match before.iter().find(|other| other.covers(&rule)) {
                Some(wider) => {
                    bail!("{place}: `{rule}` is disabled by the rule `{wider}`, which is what can be taken out")
                }
                None => bail!("{place}: there is no rule `{rule}`"),
            }
        }
        file.change(|text| rules::without(text, |own| parse(own, &config).is_ok_and(|own| own == rule)))?;
        said.push(format!("enabled: {rule}, no longer in {}", file.path.display()));
        for other in file.rules()?.iter().filter(|other| other.covers(&rule)) {
            said.push(format!("{rule} is still disabled by the rule `{other}`"));
        }
    }
    file.write(&said)
}

fn parse(rule: &str, config: &Config) -> Result<DisabledRule> {
    Ok(DisabledRule::parse(rule, &config.names(&mills::names()))?)
}
