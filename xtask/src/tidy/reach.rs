//! Follows `mod` declarations from the roots of the crates, to find files that nothing compiles.
//!
//! Source: The Rust Reference, chapter "Modules".

use std::collections::BTreeMap;

use super::lexer::{Token, cut};
use super::regions::{closing, is_test_attribute, test_code};
use crate::workspace::Root;

/// Every file that is compiled from `roots`, with whether only tests (or other exempt roots) compile it.
///
/// `read` gives the text of a file, or none where there is none.
pub(crate) fn reachable(roots: &[Root], read: &dyn Fn(&str) -> Option<String>) -> BTreeMap<String, bool> {
    let mut reached: BTreeMap<String, bool> = BTreeMap::new();
    let mut waiting: Vec<Visit> =
        roots.iter().map(|root| Visit { path: root.path.clone(), exempt: root.exempt, owns_folder: true }).collect();
    while let Some(visit) = waiting.pop() {
        // A file that was reached by tests only is visited again when other code reaches it too.
        match reached.get(&visit.path) {
            Some(&exempt) if visit.exempt || !exempt => continue,
            _ => {}
        }
        let Some(text) = read(&visit.path) else {
            continue;
        };
        reached.insert(visit.path.clone(), visit.exempt);
        let tokens = cut(&text);
        for candidate in children(&visit, &tokens.code) {
            waiting.push(candidate);
        }
    }
    reached
}

struct Visit {
    path: String,
    exempt: bool,
    /// Whether the file's modules lie beside it (a root, `mod.rs`, a file named by `#[path]`) and not in a folder with
    /// its name.
    owns_folder: bool,
}

/// The files that a file may name; those that do not exist are left to the reader.
fn children(visit: &Visit, code: &[Token<'_>]) -> Vec<Visit> {
    let folder = parent(&visit.path);
    let module_folder =
        if visit.owns_folder { folder.to_owned() } else { visit.path.trim_end_matches(".rs").to_owned() };
    let in_tests = test_code(code);
    let mut found = Vec::new();
    // The inline modules around the current token: their folder and the index of their closing brace.
    let mut inline: Vec<(String, usize)> = Vec::new();
    for (at, token) in code.iter().enumerate() {
        inline.retain(|(_, end)| at < *end);
        let exempt = visit.exempt || in_tests[at];
        let here = inline.last().map_or(&module_folder, |(place, _)| place);
        if token.is_word("include") {
            if let Some(path) = included(code, at) {
                found.push(Visit { path: join(folder, path), exempt, owns_folder: true });
            }
            continue;
        }
        let (Some(name), Some(after)) = (code.get(at + 1), code.get(at + 2)) else {
            continue;
        };
        if !token.is_word("mod") {
            continue;
        }
        let (paths, tested) = module_attributes(code, at);
        let exempt = exempt || tested;
        if after.is_mark("{") {
            inline.push((join(here, name.text), closing(code, at + 2)));
        } else if after.is_mark(";") {
            // In the file itself `#[path]` counts from the file's folder, in an inline module from the module's.
            let path_folder = if inline.is_empty() { folder } else { here };
            for path in paths {
                found.push(Visit { path: join(path_folder, &path), exempt, owns_folder: true });
            }
            for (path, owns_folder) in [
                (join(here, &format!("{}.rs", name.text)), false),
                (join(here, &format!("{}/mod.rs", name.text)), true),
            ] {
                found.push(Visit { path, exempt, owns_folder });
            }
        }
    }
    found
}

/// The argument of `include!("…")`, where it is a plain string.
fn included<'s>(code: &'s [Token<'_>], at: usize) -> Option<&'s str> {
    let is_macro = code.get(at + 1)?.is_mark("!");
    if is_macro { code.get(at + 3)?.string() } else { None }
}

/// The paths given by attributes in front of the `mod` at `at`, and whether one of them keeps it for tests.
fn module_attributes(code: &[Token<'_>], at: usize) -> (Vec<String>, bool) {
    let mut start = at;
    // Back over the visibility: `pub`, `pub(crate)`, `pub(in a::b)`.
    while start > 0 {
        let token = &code[start - 1];
        if matches!(token.text, "pub" | "(" | ")" | "crate" | "super" | "self" | "in") {
            start -= 1;
        } else {
            break;
        }
    }
    let mut paths = Vec::new();
    let mut tested = false;
    while start > 0 && code[start - 1].is_mark("]") {
        let end = start - 1;
        let Some(open) = opening(code, end) else {
            break;
        };
        let body = &code[open + 1..end];
        tested |= is_test_attribute(body);
        for window in body.windows(3) {
            if window[0].is_word("path") && window[1].is_mark("=") {
                paths.extend(window[2].string().map(str::to_owned));
            }
        }
        start = open.saturating_sub(1);
    }
    (paths, tested)
}

/// The index of the bracket that the one at `close` closes.
fn opening(code: &[Token<'_>], close: usize) -> Option<usize> {
    let mut depth = 0usize;
    for index in (0..=close).rev() {
        if code[index].is_mark("]") {
            depth += 1;
        } else if code[index].is_mark("[") {
            depth -= 1;
            if depth == 0 {
                return Some(index);
            }
        }
    }
    None
}

fn parent(path: &str) -> &str {
    path.rfind('/').map_or("", |at| &path[..at])
}

/// Joins two paths and resolves `.` and `..`.
fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(files: &[(&str, &str)], roots: &[(&str, bool)]) -> Vec<(String, bool)> {
        let roots: Vec<Root> = roots.iter().map(|&(path, exempt)| Root { path: path.to_owned(), exempt }).collect();
        let read = |path: &str| {
            let file = files.iter().find(|(name, _)| *name == path);
            file.map(|(_, text)| (*text).to_owned())
        };
        reachable(&roots, &read).into_iter().collect()
    }

    fn expect(found: &[(String, bool)], expected: &[(&str, bool)]) {
        let found: Vec<(&str, bool)> = found.iter().map(|(p, e)| (p.as_str(), *e)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn modules_are_found_beside_and_below() {
        let files = [
            ("a/src/lib.rs", "mod b; pub mod c; pub(crate) mod d { mod e; }"),
            ("a/src/b.rs", "mod f;"),
            ("a/src/b/f.rs", ""),
            ("a/src/c/mod.rs", "mod g;"),
            ("a/src/c/g.rs", ""),
            ("a/src/d/e.rs", ""),
            ("a/src/dead.rs", ""),
        ];
        expect(
            &reach(&files, &[("a/src/lib.rs", false)]),
            &[
                ("a/src/b.rs", false),
                ("a/src/b/f.rs", false),
                ("a/src/c/g.rs", false),
                ("a/src/c/mod.rs", false),
                ("a/src/d/e.rs", false),
                ("a/src/lib.rs", false),
            ],
        );
    }

    #[test]
    fn a_module_in_a_comment_or_string_is_not_reached() {
        let files =
            [("lib.rs", "// mod a;\nconst X: &str = \"mod b;\";\nmod c {}"), ("a.rs", ""), ("b.rs", ""), ("c.rs", "")];
        expect(&reach(&files, &[("lib.rs", false)]), &[("lib.rs", false)]);
    }

    #[test]
    fn paths_and_includes_are_followed() {
        let files = [
            ("a/src/lib.rs", "#[cfg(unix)]\n#[path = \"../other/x.rs\"]\nmod x;\ninclude!(\"y.rs\");"),
            ("a/other/x.rs", "mod z;"),
            ("a/other/z.rs", ""),
            ("a/src/y.rs", ""),
        ];
        expect(
            &reach(&files, &[("a/src/lib.rs", false)]),
            &[("a/other/x.rs", false), ("a/other/z.rs", false), ("a/src/lib.rs", false), ("a/src/y.rs", false)],
        );
    }

    #[test]
    fn test_modules_are_exempt_unless_other_code_uses_them() {
        let files = [
            ("src/lib.rs", "#[cfg(test)] mod tests; mod shared;"),
            ("src/tests.rs", "mod deep;"),
            ("src/tests/deep.rs", ""),
            ("src/shared.rs", ""),
            ("tests/all.rs", "#[path = \"../src/shared.rs\"] mod shared; mod common;"),
            ("tests/common/mod.rs", ""),
        ];
        expect(
            &reach(&files, &[("src/lib.rs", false), ("tests/all.rs", true)]),
            &[
                ("src/lib.rs", false),
                ("src/shared.rs", false),
                ("src/tests.rs", true),
                ("src/tests/deep.rs", true),
                ("tests/all.rs", true),
                ("tests/common/mod.rs", true),
            ],
        );
    }
}
