//! Sizes that are too large already may only shrink.
//!
//! The ratchet file holds, for each file that is over a limit, by how many lines. A file that grows is a finding; so is
//! one that shrank while the ratchet still allows more, until the ratchet is lowered.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::rules::{FUNCTION_LINES_MAX, RustFile};

/// Where the ratchet is kept, relative to the repository.
pub(crate) const PATH: &str = "xtask/tidy-ratchet.json";

/// A file may have this many lines.
pub(crate) const FILE_LINES_MAX: usize = 800;

/// By how many lines files and functions are over their limits, and where, for the reader.
#[derive(Debug, Default)]
pub(crate) struct Excess {
    files: BTreeMap<String, usize>,
    functions: BTreeMap<String, usize>,
    places: BTreeMap<String, Vec<String>>,
}

impl Excess {
    /// Adds a file; what a program of ours has written, and nobody edits, may have any size.
    pub(crate) fn add(&mut self, path: &str, file: &RustFile<'_>) {
        if file.is_generated() {
            return;
        }
        let over = file.lines().saturating_sub(FILE_LINES_MAX);
        if over > 0 {
            self.files.insert(path.to_owned(), over);
        }
        for function in file.long_functions() {
            *self.functions.entry(path.to_owned()).or_default() += function.lines - FUNCTION_LINES_MAX;
            self.places
                .entry(path.to_owned())
                .or_default()
                .push(format!("{path}:{}: function {} has {} lines", function.line, function.name, function.lines));
        }
    }
}

/// What the ratchet file allows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ratchet {
    files: BTreeMap<String, usize>,
    functions: BTreeMap<String, usize>,
}

/// How the code compares with the ratchet.
pub(crate) struct Verdict {
    pub(crate) too_long: Vec<String>,
    pub(crate) too_loose: Vec<String>,
}

impl Ratchet {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        let Value::Object(map) = value else {
            bail!("not an object");
        };
        let mut ratchet = Self::default();
        for (name, value) in &map {
            match name.as_str() {
                "file_lines_over" => ratchet.files = counts(value)?,
                "function_lines_over" => ratchet.functions = counts(value)?,
                _ => bail!("unknown field {name}"),
            }
        }
        Ok(ratchet)
    }

    pub(crate) fn to_text(&self) -> Result<String> {
        let object = |counts: &BTreeMap<String, usize>| -> Value {
            let entries = counts.iter().map(|(k, &v)| (k.clone(), Value::from(v)));
            Value::Object(entries.collect())
        };
        let mut map = Map::new();
        map.insert("file_lines_over".to_owned(), object(&self.files));
        map.insert("function_lines_over".to_owned(), object(&self.functions));
        Ok(serde_json::to_string_pretty(&Value::Object(map))? + "\n")
    }

    pub(crate) fn compare(&self, excess: &Excess) -> Verdict {
        let mut verdict = Verdict { too_long: Vec::new(), too_loose: Vec::new() };
        for (path, &over) in &excess.files {
            let held = self.files.get(path).copied().unwrap_or(0);
            if over > held {
                verdict.too_long.push(format!(
                    "{path}: file has {} lines, {} allowed",
                    FILE_LINES_MAX + over,
                    FILE_LINES_MAX + held
                ));
            }
        }
        for (path, &over) in &excess.functions {
            let held = self.functions.get(path).copied().unwrap_or(0);
            if over > held {
                for place in excess.places.get(path).into_iter().flatten() {
                    verdict.too_long.push(format!(
                        "{place}, {FUNCTION_LINES_MAX} allowed{}",
                        if held > 0 { format!(" ({held} lines over in this file are known)") } else { String::new() }
                    ));
                }
            }
        }
        loose(&self.files, &excess.files, &mut verdict.too_loose);
        loose(&self.functions, &excess.functions, &mut verdict.too_loose);
        verdict
    }

    /// The ratchet that allows what it allowed, or what the code needs where that is less.
    pub(crate) fn lowered(&self, excess: &Excess) -> Self {
        let lower = |held: &BTreeMap<String, usize>, now: &BTreeMap<String, usize>| {
            held.iter()
                .filter_map(|(path, &held)| {
                    let needed = held.min(now.get(path).copied().unwrap_or(0));
                    (needed > 0).then(|| (path.clone(), needed))
                })
                .collect()
        };
        Self { files: lower(&self.files, &excess.files), functions: lower(&self.functions, &excess.functions) }
    }
}

fn loose(held: &BTreeMap<String, usize>, now: &BTreeMap<String, usize>, findings: &mut Vec<String>) {
    for (path, &held) in held {
        let needed = now.get(path).copied().unwrap_or(0);
        if needed < held {
            findings.push(format!(
                "{PATH}: allows {path} {held} lines over, {needed} are needed: run `cargo xtask tidy --update`"
            ));
        }
    }
}

fn counts(value: &Value) -> Result<BTreeMap<String, usize>> {
    let entries = value.as_object().context("not an object")?;
    entries
        .iter()
        .map(|(path, count)| {
            let count = count.as_u64().and_then(|n| usize::try_from(n).ok());
            Ok((path.clone(), count.with_context(|| format!("{path}: not a count"))?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long_function(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    x();\n".repeat(lines - 2))
    }

    fn excess(path: &str, text: &str) -> Excess {
        let mut excess = Excess::default();
        excess.add(path, &RustFile::new(path, text));
        excess
    }

    fn ratchet(functions: usize) -> Ratchet {
        let mut ratchet = Ratchet::default();
        ratchet.functions.insert("a.rs".to_owned(), functions);
        ratchet
    }

    #[test]
    fn sizes_at_the_limit_pass_and_one_line_more_does_not() {
        let none = Ratchet::default();
        let at = excess("a.rs", &long_function(FUNCTION_LINES_MAX));
        assert!(none.compare(&at).too_long.is_empty());
        let over = none.compare(&excess("a.rs", &long_function(FUNCTION_LINES_MAX + 1)));
        assert_eq!(over.too_long, ["a.rs:1: function f has 71 lines, 70 allowed"]);

        let at = excess("a.rs", &"x;\n".repeat(FILE_LINES_MAX));
        assert!(none.compare(&at).too_long.is_empty());
        let over = none.compare(&excess("a.rs", &"x;\n".repeat(FILE_LINES_MAX + 1)));
        assert_eq!(over.too_long, ["a.rs: file has 801 lines, 800 allowed"]);
    }

    #[test]
    fn generated_files_may_have_any_size() {
        let long = long_function(FILE_LINES_MAX + 1);
        let size = |head: &str| excess("a.rs", &format!("{head}{long}")).files.len();
        assert_eq!(size("//! Generated by `cargo xtask x`; do not edit.\n"), 0);
        assert_eq!(size("//! Words.\n//! Generated by `cargo xtask x`; do not edit.\n"), 1);
        assert_eq!(size("//! Generated by hand.\n"), 1);
    }

    #[test]
    fn the_ratchet_allows_what_is_known_and_no_more() {
        let now = excess("a.rs", &long_function(80));
        let verdict = ratchet(10).compare(&now);
        assert!(verdict.too_long.is_empty() && verdict.too_loose.is_empty());
        assert_eq!(ratchet(9).compare(&now).too_long.len(), 1);
    }

    #[test]
    fn a_ratchet_that_is_too_loose_must_go_down() {
        let now = excess("a.rs", &long_function(80));
        let loose = ratchet(11);
        assert_eq!(loose.compare(&now).too_loose.len(), 1);
        assert_eq!(loose.lowered(&now), ratchet(10));

        let gone = excess("a.rs", "fn f() {}\n");
        assert_eq!(ratchet(10).compare(&gone).too_loose.len(), 1);
        assert_eq!(ratchet(10).lowered(&gone), Ratchet::default());
    }

    #[test]
    fn lowering_never_raises() {
        let now = excess("a.rs", &long_function(90));
        assert_eq!(ratchet(10).lowered(&now), ratchet(10));
        assert_eq!(Ratchet::default().lowered(&now), Ratchet::default());
        assert_eq!(ratchet(10).compare(&now).too_long.len(), 1);
    }

    #[test]
    fn the_file_is_read_as_it_was_written() {
        let written = ratchet(10).to_text().unwrap();
        assert_eq!(Ratchet::parse(&written).unwrap(), ratchet(10));
        for bad in ["[]", "{\"other\": {}}", "{\"file_lines_over\": {\"a\": -1}}", "{"] {
            assert!(Ratchet::parse(bad).is_err(), "{bad}");
        }
    }
}
