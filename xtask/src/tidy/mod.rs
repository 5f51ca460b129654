//! The habits that a compiler does not enforce: sizes, leftovers, unsafe code in its place, no dead files.

mod lexer;
mod ratchet;
mod reach;
mod regions;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use crate::files;
use crate::workspace::{self, Package, Root};
pub(crate) use lexer::{Kind, Token, cut};
use ratchet::{Excess, Ratchet};
pub(crate) use regions::test_code;
use rules::{Allowance, RustFile};

/// Crates that may hold unsafe code, by folder, each with the reason. Every other crate forbids it at its root, and an
/// entry whose crate holds none is a finding.
const UNSAFE_CRATES: &[(&str, &str)] = &[
    ("core/memory", "locked, guarded and mapped memory"),
    ("engines/gpu", "calls into OpenCL and CUDA"),
    ("engines/lanes", "vector instructions, and lanes that lie scattered over an arena"),
    ("engines/library", "calls into AWS-LC"),
    ("lab/peers", "calls into OpenSSL and ipsec-mb"),
    ("lab/principles", "the calls of MD5's lanes that are compiled for an instruction set"),
];

/// Crates that are tests through and through: they may panic, and only tests depend on them.
const TEST_CRATES: &[&str] = &["engines/conformance"];

/// Dependencies that no source names, by folder and name, each with the reason why they are there nevertheless.
const SILENT_DEPENDENCIES: &[(&str, &str, &str)] = &[];

/// Kinds of text files, besides Rust, whose white space is checked; vector data stay as their source has them.
const TEXT_ENDINGS: &[&str] = &[".toml", ".md", ".c", ".cpp", ".h", ".cl", ".sh", ".py", "Makefile", ".ci/run"];

/// What to do with a ratchet that stands higher than the code needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ratcheting {
    /// Report it.
    Check,
    /// Lower it to what the code needs.
    Lower,
}

/// Checks every file of the project and returns what is wrong, one line each.
pub(crate) fn run(ratcheting: Ratcheting) -> Result<Vec<String>> {
    let root = files::root();
    let paths = files::project_files(&root)?;
    let mut findings = Vec::new();
    let mut excess = Excess::default();

    let crates = crates(&root)?;
    let roots: Vec<Root> = crates.iter().flat_map(|c| c.roots.clone()).collect();
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let reached = reach::reachable(&roots, &read);
    let mut unsafe_seen = BTreeSet::new();
    let mut named = BTreeSet::new();

    for path in &paths {
        if !path.ends_with(".rs") {
            if TEXT_ENDINGS.iter().any(|ending| path.ends_with(ending)) {
                let text = read(path).with_context(|| format!("{path} is not text"))?;
                findings.extend(rules::white_space(path, &text));
            }
            continue;
        }
        let text = read(path).with_context(|| format!("{path} is not text"))?;
        let Some(&exempt) = reached.get(path) else {
            findings.push(format!("{path}: dead file: no module declaration or target leads to it"));
            continue;
        };
        let owner = crates.iter().find(|c| is_below(path, &c.folder));
        let folder = owner.map_or("", |c| c.folder.as_str());
        let allowance = Allowance {
            panics: exempt || TEST_CRATES.contains(&folder),
            unsafe_code: exempt || UNSAFE_CRATES.iter().any(|(name, _)| *name == folder),
        };
        let file = RustFile::new(path, &text);
        named.extend(file.words().map(|word| (folder.to_owned(), word.to_owned())));
        if !exempt && file.has_unsafe_code() {
            unsafe_seen.insert(folder.to_owned());
        }
        findings.extend(file.findings(allowance));
        excess.add(path, &file);
    }
    findings.extend(unsafe_findings(&crates, &unsafe_seen, &read));
    findings.extend(dependency_findings(&crates, &named, SILENT_DEPENDENCIES));
    findings.extend(settle(&root, &excess, ratcheting)?);
    findings.sort();
    if findings.is_empty() {
        println!("tidy: {} files, nothing to report", paths.len());
    }
    Ok(findings)
}

/// The crates, deepest folder first, so that the first that a path lies below is its owner.
fn crates(root: &Path) -> Result<Vec<Package>> {
    let mut crates = workspace::packages(root)?;
    crates.sort_by_key(|c| std::cmp::Reverse(c.folder.len()));
    Ok(crates)
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Crates that neither need unsafe code nor forbid it, and entries of the list that nothing needs.
fn unsafe_findings(crates: &[Package], seen: &BTreeSet<String>, read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut findings = Vec::new();
    let allowed: BTreeMap<&str, &str> = UNSAFE_CRATES.iter().copied().collect();
    for owner in crates {
        if allowed.contains_key(owner.folder.as_str()) {
            continue;
        }
        for Root { path, .. } in owner.roots.iter().filter(|root| !root.exempt) {
            let text = read(path).unwrap_or_default();
            if !rules::forbids_unsafe_code(&text) {
                findings.push(format!(
                    "{path}: the root of a crate without unsafe code begins with #![forbid(unsafe_code)]"
                ));
            }
        }
    }
    for (folder, reason) in UNSAFE_CRATES {
        if !seen.contains(*folder) {
            findings.push(format!(
                "{folder}: holds no unsafe code any more ({reason}): remove it from UNSAFE_CRATES and forbid it"
            ));
        }
    }
    findings
}

/// Dependencies that no source of their crate names, and entries of the list of `silent` ones that nothing needs.
///
/// `named` holds the words of all sources, each with the folder of its crate.
fn dependency_findings(
    crates: &[Package],
    named: &BTreeSet<(String, String)>,
    silent: &[(&str, &str, &str)],
) -> Vec<String> {
    let mut findings = Vec::new();
    let mut used = vec![false; silent.len()];
    for owner in crates {
        for name in &owner.names {
            if named.contains(&(owner.folder.clone(), name.clone())) {
                continue;
            }
            let listed = silent.iter().position(|(folder, silent, _)| *folder == owner.folder && silent == name);
            match listed {
                Some(index) => used[index] = true,
                None => findings.push(format!("{}/Cargo.toml: no source names the dependency {name}", owner.folder)),
            }
        }
    }
    for ((folder, name, reason), used) in silent.iter().zip(used) {
        if !used {
            findings.push(format!("{folder}: remove {name} ({reason}) from SILENT_DEPENDENCIES: it is named or gone"));
        }
    }
    findings
}

/// Holds the sizes against the ratchet file.
fn settle(root: &Path, excess: &Excess, ratcheting: Ratcheting) -> Result<Vec<String>> {
    let path = root.join(ratchet::PATH);
    let text = std::fs::read_to_string(&path).with_context(|| ratchet::PATH.to_owned())?;
    let held = Ratchet::parse(&text).with_context(|| ratchet::PATH.to_owned())?;
    let verdict = held.compare(excess);
    let mut findings = verdict.too_long;
    match ratcheting {
        Ratcheting::Check => findings.extend(verdict.too_loose),
        Ratcheting::Lower if verdict.too_loose.is_empty() => {}
        Ratcheting::Lower => {
            std::fs::write(&path, held.lowered(excess).to_text()?)?;
            println!("tidy: {} lowered", ratchet::PATH);
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_a_longer_name_is_not_below() {
        assert!(is_below("xtask/src/tidy/mod.rs", "xtask"));
        assert!(!is_below("xtask2/src/lib.rs", "xtask"));
    }

    #[test]
    fn a_crate_neither_listed_nor_forbidding_is_found() {
        let crates = [Package {
            folder: "core/contract".to_owned(),
            needs: Vec::new(),
            names: Vec::new(),
            roots: vec![Root { path: "core/contract/src/lib.rs".to_owned(), exempt: false }],
        }];
        let seen: BTreeSet<String> = UNSAFE_CRATES.iter().map(|(f, _)| (*f).to_owned()).collect();
        let open = |_: &str| Some("//! Words.\n".to_owned());
        let found = unsafe_findings(&crates, &seen, &open);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("core/contract/src/lib.rs: "));

        let closed = |_: &str| Some("//! Words.\n#![forbid(unsafe_code)]\n".to_owned());
        assert_eq!(unsafe_findings(&crates, &seen, &closed), Vec::<String>::new());

        let found = unsafe_findings(&crates, &BTreeSet::new(), &closed);
        assert_eq!(found.len(), UNSAFE_CRATES.len());
    }

    #[test]
    fn a_dependency_that_no_source_names_is_found() {
        let crates = [Package {
            folder: "core/keys".to_owned(),
            needs: Vec::new(),
            names: vec!["aes_kw".to_owned(), "redb".to_owned(), "links".to_owned()],
            roots: Vec::new(),
        }];
        let named = [("core/keys", "aes_kw"), ("core/mill", "redb")]
            .map(|(folder, word)| (folder.to_owned(), word.to_owned()))
            .into();
        let silent = [("core/keys", "links", "links a library")];
        assert_eq!(
            dependency_findings(&crates, &named, &silent),
            ["core/keys/Cargo.toml: no source names the dependency redb"]
        );
        let stale = [silent[0], ("core/keys", "aes_kw", "once")];
        assert_eq!(dependency_findings(&crates, &named, &stale).len(), 2);
    }

    #[test]
    fn crates_of_the_lists_exist() {
        for folder in UNSAFE_CRATES.iter().map(|(f, _)| f).chain(TEST_CRATES) {
            assert!(files::root().join(folder).is_dir(), "{folder}");
        }
    }
}
