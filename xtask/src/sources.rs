//! Rust source files: what tests alone compile, and which files a crate is made of.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use quote::ToTokens as _;
use syn::punctuated::Punctuated;
use syn::visit_mut::VisitMut;
use syn::{Attribute, Expr, ExprLit, ImplItem, Item, Lit, Meta, Token};

/// A parsed file.
pub(crate) fn parse(path: &str, text: &str) -> Result<syn::File> {
    syn::parse_file(text).with_context(|| path.to_owned())
}

/// The attributes of an item.
fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether attributes keep what they stand at for tests: `cfg(test)`, `cfg(all(test, …))`.
fn is_tested(attributes: &[Attribute]) -> bool {
    let conditions = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    conditions.filter_map(|attribute| attribute.parse_args::<Meta>().ok()).any(|condition| needs_test(&condition))
}

fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => {
            let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            parts.is_ok_and(|parts| parts.iter().any(needs_test))
        }
        _ => false,
    }
}

/// Takes away what only tests compile.
struct WithoutTests;

impl VisitMut for WithoutTests {
    fn visit_file_mut(&mut self, file: &mut syn::File) {
        file.items.retain(|item| !is_tested(attributes(item)));
        syn::visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        if let Some((_, items)) = &mut module.content {
            items.retain(|item| !is_tested(attributes(item)));
        }
        syn::visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, block: &mut syn::ItemImpl) {
        block.items.retain(|item| !matches!(item, ImplItem::Fn(function) if is_tested(&function.attrs)));
        syn::visit_mut::visit_item_impl_mut(self, block);
    }
}

/// The tokens of a file without its tests, brackets among them.
pub(crate) fn shipped_tokens(mut file: syn::File) -> Vec<String> {
    WithoutTests.visit_file_mut(&mut file);
    let mut tokens = Vec::new();
    flatten(file.to_token_stream(), &mut tokens);
    tokens
}

fn flatten(stream: proc_macro2::TokenStream, tokens: &mut Vec<String>) {
    use proc_macro2::{Delimiter, TokenTree};
    for tree in stream {
        let TokenTree::Group(group) = tree else {
            tokens.push(tree.to_string());
            continue;
        };
        let (open, close) = match group.delimiter() {
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::None => ("", ""),
        };
        tokens.push(open.to_owned());
        flatten(group.stream(), tokens);
        tokens.push(close.to_owned());
    }
}

/// Every file that is compiled from `roots`, by way of `mod` declarations (The Rust Reference, "Modules").
///
/// `read` gives the text of a file, or none where there is none.
///
/// # Errors
/// A file that is not Rust.
pub(crate) fn reachable(roots: &[String], read: &dyn Fn(&str) -> Option<String>) -> Result<BTreeSet<String>> {
    // A file that is a module in two ways, one of them by `#[path]`, has its own modules in two places.
    let mut reached = BTreeSet::new();
    // Whether a file's modules lie beside it (a root, `mod.rs`, a file named by `#[path]`), not in a folder with its name.
    let mut waiting: Vec<(String, bool)> = roots.iter().map(|root| (root.clone(), true)).collect();
    while let Some((path, owns_folder)) = waiting.pop() {
        let place = (path, owns_folder);
        let Some(text) = read(&place.0).filter(|_| !reached.contains(&place)) else {
            continue;
        };
        let path = &place.0;
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let modules = if owns_folder { folder } else { path.trim_end_matches(".rs") };
        modules_of(&parse(path, &text)?.items, folder, modules, &mut waiting);
        reached.insert(place);
    }
    Ok(reached.into_iter().map(|(path, _)| path).collect())
}

/// The files that modules may be in; those that do not exist are left to the reader.
fn modules_of(items: &[Item], path_folder: &str, folder: &str, found: &mut Vec<(String, bool)>) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        let inside = join(folder, &module.ident.to_string());
        match &module.content {
            Some((_, items)) => modules_of(items, &inside, &inside, found),
            None => {
                let named = module.attrs.iter().filter_map(path_of);
                found.extend(named.map(|path| (join(path_folder, &path), true)));
                found.extend([(format!("{inside}.rs"), false), (format!("{inside}/mod.rs"), true)]);
            }
        }
    }
}

/// The value of `#[path = "…"]`.
fn path_of(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    }
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

    fn reach(files: &[(&str, &str)], roots: &[&str]) -> Vec<String> {
        let read = |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned());
        let roots: Vec<String> = roots.iter().map(|root| (*root).to_owned()).collect();
        reachable(&roots, &read).unwrap().into_iter().collect()
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
            ("a/src/dead.rs", "// mod a;\nconst X: &str = \"mod b;\";"),
        ];
        let found = reach(&files, &["a/src/lib.rs"]);
        let wanted = ["a/src/b.rs", "a/src/b/f.rs", "a/src/c/g.rs", "a/src/c/mod.rs", "a/src/d/e.rs", "a/src/lib.rs"];
        assert_eq!(found, wanted);
    }

    #[test]
    fn paths_are_followed() {
        let files = [
            ("a/src/lib.rs", "#[cfg(unix)]\n#[path = \"../other/x.rs\"]\nmod x;"),
            ("a/other/x.rs", "mod z;"),
            ("a/other/z.rs", ""),
            ("a/src/y.rs", ""),
        ];
        assert_eq!(reach(&files, &["a/src/lib.rs"]), ["a/other/x.rs", "a/other/z.rs", "a/src/lib.rs"]);
    }

    #[test]
    fn what_only_tests_compile_is_left_out() {
        let source = "fn a() {} #[cfg(test)] mod t { fn b() {} } #[cfg(all(test, unix))] fn c() {} \
            #[cfg(any(test, unix))] fn d() {} mod m { #[cfg(test)] use e::f; } impl G { #[cfg(test)] fn h() {} fn i() {} }";
        let tokens = shipped_tokens(parse("a.rs", source).unwrap());
        let names: Vec<&str> = tokens.iter().map(String::as_str).filter(|token| token.len() == 1).collect();
        let names: String = names.into_iter().filter(|name| name.chars().all(char::is_alphabetic)).collect();
        assert_eq!(names, "admGi");
    }
}
