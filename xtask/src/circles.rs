//! Circles between the files of a crate: files that import each other, directly or by way of others.
//!
//! A file imports another when its code, tests left out, names something below the other's module by a path that begins
//! with `crate`, `self` or `super`. Circles that are older than the rule are counted in a file, and may only become fewer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use crate::{files, sources};

/// Where the known circles are kept, relative to the repository: for each crate, files that are in one.
const KNOWN: &str = "xtask/circles.json";

/// Files by module path, for example `crate::run::route`.
type Modules = BTreeMap<Vec<String>, String>;

/// What a file imports, by path.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The findings for every crate; `update` lowers the counts of known circles, and never raises them.
pub(crate) fn run(update: bool) -> Result<Vec<String>> {
    let root = files::root();
    let all = files::project_files(&root)?;
    let known_text = std::fs::read_to_string(root.join(KNOWN)).context(KNOWN)?;
    let mut known: BTreeMap<String, usize> = serde_json::from_str(&known_text).context(KNOWN)?;
    let mut findings = Vec::new();
    let crates: BTreeSet<&str> = all.iter().filter_map(|path| path.strip_suffix("/Cargo.toml")).collect();
    for folder in &crates {
        let circles = circles_of(&root, folder, &all)?;
        let count: usize = circles.iter().map(Vec::len).sum();
        let allowed = known.get(*folder).copied().unwrap_or(0);
        if count > allowed {
            let named: Vec<String> = circles.iter().map(|circle| circle.join(", ")).collect();
            findings.push(format!(
                "circles: {folder}: {count} files import each other in circles, {allowed} allowed: {}",
                named.join("; ")
            ));
        } else if count < allowed && update {
            known.insert((*folder).to_owned(), count);
        } else if count < allowed {
            findings.push(format!(
                "{KNOWN}: allows {folder} {allowed} files in circles, there are {count}: run `cargo xtask layers --update`"
            ));
        }
    }
    known.retain(|folder, count| *count != 0 && crates.contains(folder.as_str()));
    if update {
        std::fs::write(root.join(KNOWN), serde_json::to_string_pretty(&known)? + "\n").context(KNOWN)?;
    }
    Ok(findings)
}

/// The circles between the files below a crate's `src`, each as the files that are in it.
fn circles_of(root: &Path, folder: &str, all: &[String]) -> Result<Vec<Vec<String>>> {
    let sources = format!("{folder}/src/");
    let mut modules = Modules::new();
    for path in all {
        if let Some(module) = path.strip_prefix(&sources).and_then(module_of) {
            modules.insert(module, path.clone());
        }
    }
    let mut imports = Imports::new();
    for (module, path) in &modules {
        let text = std::fs::read_to_string(root.join(path)).with_context(|| path.to_owned())?;
        let code = sources::shipped_tokens(sources::parse(path, &text)?);
        let targets = paths(&code).into_iter().filter_map(|named| resolve(&modules, module, &named));
        imports.insert(path.clone(), targets.filter(|target| target != path).collect());
    }
    Ok(circles(&imports))
}

/// The module that a file below `src` is; none for what is no Rust file and for test files.
fn module_of(file: &str) -> Option<Vec<String>> {
    let stem = file.strip_suffix(".rs")?;
    let mut parts: Vec<String> = stem.split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("lib" | "main" | "mod")) {
        parts.pop();
    }
    (!parts.iter().any(|part| part == "tests" || part == "bin")).then_some(parts)
}

/// Every path in the code that begins with `crate`, `self` or `super`, with the groups of `use` taken apart.
fn paths(code: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, token) in code.iter().enumerate() {
        let begins = ["crate", "self", "super"].contains(&token.as_str());
        let is_inside = at != 0 && is_mark(code, at - 1, ":");
        // Not `pub(crate)`, and not `self.field`.
        if begins && !is_inside && is_separator(code, at + 1) {
            collect(code, at, Vec::new(), &mut found);
        }
    }
    found
}

fn is_mark(code: &[String], at: usize, mark: &str) -> bool {
    code.get(at).is_some_and(|token| token == mark)
}

/// Whether `::` stands here.
fn is_separator(code: &[String], at: usize) -> bool {
    is_mark(code, at, ":") && is_mark(code, at + 1, ":")
}

/// Follows one path from `at`, which begins with `path`; returns where it ends.
fn collect(code: &[String], mut at: usize, mut path: Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    while let Some(token) = code.get(at) {
        if token == "{" {
            at += 1;
            while code.get(at).is_some_and(|token| token != "}") {
                let end = collect(code, at, path.clone(), found);
                at = if end == at || is_mark(code, end, ",") { end + 1 } else { end };
            }
            return at + 1;
        }
        if !token.starts_with(|first: char| first.is_alphabetic() || first == '_') {
            break;
        }
        path.push(token.clone());
        at += 1;
        if !is_separator(code, at) {
            break;
        }
        at += 2;
    }
    // `as name`
    if is_mark(code, at, "as") {
        at += 2;
    }
    found.push(path);
    at
}

/// The file whose module a path leads into, from within `module`.
fn resolve(modules: &Modules, module: &[String], path: &[String]) -> Option<String> {
    let mut base: Vec<String> = match path.first()?.as_str() {
        "crate" => Vec::new(),
        _ => module.to_vec(),
    };
    for part in path {
        match part.as_str() {
            "crate" | "self" => {}
            "super" => {
                base.pop()?;
            }
            part => base.push(part.to_owned()),
        }
    }
    loop {
        if let Some(path) = modules.get(&base) {
            return Some(path.clone());
        }
        base.pop()?;
    }
}

/// Sets of files of which each can be reached from each other.
fn circles(imports: &Imports) -> Vec<Vec<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|path| (path.as_str(), reachable(imports, path))).collect();
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for (path, targets) in &reached {
        let circle: Vec<String> =
            targets.iter().filter(|target| reached[*target].contains(path)).map(|path| (*path).to_owned()).collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

/// What can be reached from a file by one import or more.
fn reachable<'i>(imports: &'i Imports, from: &'i str) -> BTreeSet<&'i str> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(path) = waiting.pop() {
        for target in &imports[path] {
            if found.insert(target.as_str()) {
                waiting.push(target);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(files: &[&str]) -> Modules {
        files.iter().filter_map(|file| Some((module_of(file)?, (*file).to_owned()))).collect()
    }

    fn named(source: &str) -> Vec<String> {
        let code = sources::shipped_tokens(sources::parse("a.rs", source).unwrap());
        paths(&code).iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn groups_are_taken_apart_and_other_crates_left_out() {
        assert_eq!(
            named(
                "use crate::{a::{B, c::D}, e as f}; use super::g::*; use std::fmt; fn f() { self::h::i(self.x) } pub(crate) struct S;"
            ),
            ["crate::a::B", "crate::a::c::D", "crate::e", "super::g", "self::h::i"]
        );
    }

    #[test]
    fn a_path_leads_to_the_file_of_its_longest_module() {
        let modules = modules(&["lib.rs", "run/mod.rs", "run/route.rs", "state.rs"]);
        let from = |path: &str| {
            let parts: Vec<String> = path.split("::").map(str::to_owned).collect();
            resolve(&modules, &["run".to_owned(), "route".to_owned()], &parts)
        };
        assert_eq!(from("crate::state::State").as_deref(), Some("state.rs"));
        assert_eq!(from("super::Runner").as_deref(), Some("run/mod.rs"));
        assert_eq!(from("self::x").as_deref(), Some("run/route.rs"));
        assert_eq!(from("super::super::state").as_deref(), Some("state.rs"));
        assert_eq!(from("crate::Mill").as_deref(), Some("lib.rs"));
    }

    #[test]
    fn a_circle_is_found_and_a_line_is_not() {
        let imports = |arrows: &[(&str, &str)]| {
            let mut imports = Imports::new();
            for (from, to) in arrows {
                imports.entry((*from).to_owned()).or_default().insert((*to).to_owned());
                imports.entry((*to).to_owned()).or_default();
            }
            imports
        };
        assert!(circles(&imports(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
        let found = circles(&imports(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "a")]));
        assert_eq!(found, [["a", "b", "c"]]);
    }
}
