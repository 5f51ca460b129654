//! Follows what the documents name: paths of the repository, links between the Markdown files, and the contents of the
//! manual, whose pages may link to each other only.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use crate::files;

/// The document in which every word that looks like a file's name has to be a file.
const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// The folder of the manual, from which mdBook makes a book: nothing outside of it can be linked to.
const MANUAL: &str = "docs/";

/// The manual's contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// The largest that the front page may be.
const FRONT_PAGE: (&str, usize) = ("README.md", 10_000);

/// Folders that exist only after a build; a path through one is not looked for.
const BUILT_FOLDERS: &[&str] = &["target"];

/// Folders at the root that the house has or plans, so that a path below one that is gone is still taken for a path.
const KNOWN_FOLDERS: &[&str] = &[
    ".ci", ".cargo", "apps", "core", "docs", "doors", "engines", "fuzz", "kernels", "lab", "tools", "vectors", "xtask",
];

/// Endings that make a word without a slash the name of a file.
const FILE_ENDINGS: &[&str] = &[".md", ".rs", ".toml", ".json", ".lock", ".sh"];

/// Checks the documents and returns what they name and does not exist.
pub(crate) fn run() -> Result<Vec<String>> {
    let root = files::root();
    let paths = files::project_files(&root)?;
    let findings = check(&root, &paths)?;
    if findings.is_empty() {
        println!("docs: every path and link leads somewhere");
    }
    Ok(findings)
}

fn check(root: &Path, paths: &[String]) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let known: BTreeSet<&str> = paths.iter().map(String::as_str).collect();
    for path in paths.iter().filter(|path| path.ends_with(".md")) {
        let text = read(root, path)?;
        for (line, named) in named_paths(&text) {
            // Elsewhere a name without a folder is as often a file of the reader's own.
            let is_meant = path == ARCHITECTURE || named.contains('/');
            for named in alternatives(&named).iter().filter(|named| is_meant && !is_known(&known, named)) {
                findings.push(format!("{path}:{line}: {named} does not exist"));
            }
        }
        for (line, target) in links(&text) {
            if let Some(finding) = broken(root, &known, path, &target)? {
                findings.push(format!("{path}:{line}: {finding}"));
            }
        }
        if path == FRONT_PAGE.0 && text.len() > FRONT_PAGE.1 {
            findings.push(format!("{path}: {} bytes are too many for a front page of {}", text.len(), FRONT_PAGE.1));
        }
    }
    if known.contains(SUMMARY) {
        let listed: BTreeSet<String> =
            links(&read(root, SUMMARY)?).into_iter().map(|(_, target)| relative(SUMMARY, &target)).collect();
        let pages = paths.iter().filter(|path| path.starts_with(MANUAL) && path.ends_with(".md") && *path != SUMMARY);
        let missing = pages.filter(|page| !listed.contains(*page));
        findings.extend(missing.map(|page| format!("{SUMMARY}: {page} is not in the contents")));
    }
    Ok(findings)
}

fn read(root: &Path, path: &str) -> Result<String> {
    std::fs::read_to_string(root.join(path)).with_context(|| path.to_owned())
}

/// What is wrong with a link of the document at `path`, if anything is.
fn broken(root: &Path, known: &BTreeSet<&str>, path: &str, target: &str) -> Result<Option<String>> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(None);
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = if file.is_empty() { path.to_owned() } else { relative(path, file) };
    if !is_known(known, &file) {
        return Ok(Some(format!("the link to {target} leads nowhere")));
    }
    if path.starts_with(MANUAL) && !file.starts_with(MANUAL) {
        return Ok(Some(format!("the link to {target} leads out of the manual, which a book does not have")));
    }
    if !anchor.is_empty() && file.ends_with(".md") && !anchors(&read(root, &file)?).contains(anchor) {
        return Ok(Some(format!("{file} has no heading #{anchor}")));
    }
    Ok(None)
}

/// Whether `path` is a file of the project or a folder that holds one.
fn is_known(known: &BTreeSet<&str>, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    let folder = format!("{path}/");
    known.contains(path) || known.range(folder.as_str()..).next().is_some_and(|next| next.starts_with(&folder))
}

/// A line of Markdown: its number from 1, whether it lies in a code block, and its text.
fn markdown_lines(text: &str) -> Vec<(usize, bool, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        let in_block = fenced || line.starts_with("    ");
        lines.push((index + 1, in_block, line));
    }
    lines
}

/// The parts of a line between back quotes, and the parts outside.
fn spans(line: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for (index, part) in line.split('`').enumerate() {
        if index % 2 == 1 {
            inside.push(part);
        } else {
            outside.push(part);
        }
    }
    (inside, outside)
}

/// The words of code spans and code blocks that look like paths of the repository, with their line.
fn named_paths(text: &str) -> Vec<(usize, String)> {
    let mut named = Vec::new();
    for (number, in_block, line) in markdown_lines(text) {
        let codes = if in_block { vec![line] } else { spans(line).0 };
        for word in codes.iter().flat_map(|code| code.split_whitespace()) {
            if let Some(path) = as_path(word) {
                named.push((number, path));
            }
        }
    }
    named
}

/// The path in a word, without a Rust item or line number behind it.
fn as_path(word: &str) -> Option<String> {
    let word = word.split("::").next().unwrap_or(word);
    let word = word
        .split(".rs:")
        .next()
        .map_or(word, |head| if head.len() < word.len() { &word[..head.len() + 3] } else { word });
    let word = word
        .trim_start_matches(['(', '"'])
        .trim_end_matches([',', ';', ':', ')', '"', '*', '…'])
        .trim_end_matches("/.");
    let word = word.strip_prefix("./").unwrap_or(word);
    // Of a pattern the folder has to exist.
    let word = word.split_once('*').map_or(word, |(head, _)| head.rfind('/').map_or("", |at| &head[..=at]));
    if word.is_empty() || word.contains(['<', '>', '$', '=', '|', '(', '+']) {
        return None;
    }
    match word.split_once('/') {
        Some(_) if word.split('/').any(|part| BUILT_FOLDERS.contains(&part)) => None,
        Some((first, _)) => KNOWN_FOLDERS.contains(&first).then(|| word.to_owned()),
        None => FILE_ENDINGS
            .iter()
            .any(|ending| word.len() > ending.len() && word.ends_with(ending))
            .then(|| word.to_owned()),
    }
}

/// The paths that a pattern `a/{b,c}.rs` stands for.
fn alternatives(word: &str) -> Vec<String> {
    let parts =
        word.split_once('{').and_then(|(head, rest)| rest.split_once('}').map(|(middle, tail)| (head, middle, tail)));
    let Some((head, middle, tail)) = parts else {
        return vec![word.to_owned()];
    };
    middle.split(',').flat_map(|choice| alternatives(&format!("{head}{}{tail}", choice.trim()))).collect()
}

/// The targets of the links of a document, `[text](target)` and `[name]: target`, with their line.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, in_block, line) in markdown_lines(text) {
        if in_block {
            continue;
        }
        // Code spans may stand inside a link's text, so they are cut out before links are looked for.
        let plain = spans(line).1.join("");
        let mut rest = plain.as_str();
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            let target = rest.split([')', ' ']).next().unwrap_or("");
            found.push((number, target.trim_matches(['<', '>']).to_owned()));
        }
        if plain.starts_with('[')
            && let Some((_, target)) = plain.split_once("]: ")
        {
            let target = target.split_whitespace().next().unwrap_or("");
            found.push((number, target.trim_matches(['<', '>']).to_owned()));
        }
    }
    found.retain(|(_, target)| !target.is_empty());
    found
}

/// The anchors that a renderer gives to the headings of a document.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, in_block, line) in markdown_lines(text) {
        if in_block || !line.starts_with('#') {
            continue;
        }
        let title = line.trim_start_matches('#').trim();
        let anchor: String = title
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                '-' | '_' => Some(c),
                _ if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
                _ => None,
            })
            .collect();
        found.insert(anchor);
    }
    found
}

/// The path that `target` names in a link of the document at `from`.
fn relative(from: &str, target: &str) -> String {
    let folder = from.rfind('/').map_or("", |at| &from[..at]);
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                // A path that leaves the repository matches no file of it.
                if parts.pop().is_none() {
                    return target.to_owned();
                }
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_name_what_exists() {
        let root = files::root();
        let paths = files::project_files(&root).unwrap();
        assert!(!named_paths(&std::fs::read_to_string(root.join(ARCHITECTURE)).unwrap()).is_empty());
        assert_eq!(check(&root, &paths).unwrap(), Vec::<String>::new());
    }

    fn named(text: &str) -> Vec<String> {
        named_paths(text).into_iter().map(|(_, path)| path).collect()
    }

    #[test]
    fn paths_are_taken_from_code_only() {
        assert_eq!(named("see core/mill and `core/keys`"), ["core/keys"]);
        assert_eq!(named("```\ncore/mill  the mill\n```\ncore/no"), ["core/mill"]);
        assert_eq!(named("    core/mill/src/lib.rs   step"), ["core/mill/src/lib.rs"]);
        assert_eq!(named("`deny.toml`, `Mill::run`, `a/b`"), ["deny.toml"]);
    }

    #[test]
    fn items_line_numbers_and_marks_are_cut_off() {
        assert_eq!(named("`core/mill/src/mill.rs::Mill`"), ["core/mill/src/mill.rs"]);
        assert_eq!(named("`core/mill/src/mill.rs:12`,"), ["core/mill/src/mill.rs"]);
        assert_eq!(named("`engines/…` `engines/*`"), ["engines/", "engines/"]);
        assert_eq!(named("`xtask/src/tidy/*.rs` `core/*/src` `*.rs`"), ["xtask/src/tidy/", "core/"]);
        assert_eq!(named("`target/demo/x.csv` `fuzz/target/x` `core/<name>/x`"), Vec::<String>::new());
        assert_eq!(
            alternatives("core/mill/src/{mill,session}.rs"),
            ["core/mill/src/mill.rs", "core/mill/src/session.rs"]
        );
    }

    #[test]
    fn files_and_folders_of_the_project_are_known() {
        let known: BTreeSet<&str> = ["core/mill/src/lib.rs", "core/mill-x", "a.md"].into();
        for path in ["core", "core/", "core/mill", "core/mill/src/lib.rs", "a.md"] {
            assert!(is_known(&known, path), "{path}");
        }
        for path in ["cor", "core/mil", "core/mill/src/lib", "b.md"] {
            assert!(!is_known(&known, path), "{path}");
        }
    }

    #[test]
    fn links_of_both_forms_are_found_outside_code() {
        let text = "[a](x.md) and [`b`](y.md#z \"title\")\n[c]: w.md\n`[d](no.md)`\n    [e](no.md)\n";
        let found: Vec<String> = links(text).into_iter().map(|(_, target)| target).collect();
        assert_eq!(found, ["x.md", "y.md#z", "w.md"]);
    }

    #[test]
    fn links_count_from_their_document() {
        assert_eq!(relative("README.md", "core/mill"), "core/mill");
        assert_eq!(relative("vectors/README.md", "../LICENSE"), "LICENSE");
        assert_eq!(relative("README.md", "../x"), "../x");
    }

    #[test]
    fn headings_become_anchors() {
        let found = anchors("# The `way` of a batch\n```\n# no\n```\n## Not-this_one!\n");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["not-this_one", "the-way-of-a-batch"]);
    }

    #[test]
    fn what_leads_nowhere_is_found() {
        let root = std::env::temp_dir().join(format!("ciphermill-docs-{}", std::process::id()));
        let files = [
            (ARCHITECTURE, "`core/gone.rs` `gone.toml` [x](core/there.rs)\n".to_owned()),
            ("core/there.rs", String::new()),
            ("a.md", "# One\n[x](gone.md) [y](#one) [z](#two) `core/gone.rs` `yours.toml`\n".to_owned()),
            ("README.md", "x".repeat(FRONT_PAGE.1 + 1)),
            (SUMMARY, "- [A](a.md)\n".to_owned()),
            ("docs/a.md", "![x](a.svg) [y](../a.md)\n".to_owned()),
            ("docs/a.svg", String::new()),
            ("docs/b.md", "# B\n".to_owned()),
        ];
        for (path, text) in &files {
            std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            std::fs::write(root.join(path), text).unwrap();
        }
        let mut paths: Vec<String> = files.iter().map(|(path, _)| (*path).to_owned()).collect();
        paths.sort();
        let found = check(&root, &paths).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(
            found,
            [
                "ARCHITECTURE.md:1: core/gone.rs does not exist",
                "ARCHITECTURE.md:1: gone.toml does not exist",
                "README.md: 10001 bytes are too many for a front page of 10000",
                "a.md:2: core/gone.rs does not exist",
                "a.md:2: the link to gone.md leads nowhere",
                "a.md:2: a.md has no heading #two",
                "docs/a.md:1: the link to ../a.md leads out of the manual, which a book does not have",
                "docs/SUMMARY.md: docs/b.md is not in the contents",
            ]
        );
    }
}
