//! Finds the parts of a file that the checks need: attributes, functions, and code that only tests compile.

use std::ops::Range;

use super::lexer::Token;

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function<'s> {
    pub(crate) name: &'s str,
    /// The line of the word `fn`, from 1.
    pub(crate) line: usize,
    /// Lines from the word `fn` to the closing brace, both included.
    pub(crate) lines: usize,
}

/// All functions of a file, nested ones too, in the order of the source.
pub(crate) fn functions<'s>(code: &[Token<'s>]) -> Vec<Function<'s>> {
    let mut found = Vec::new();
    for (at, token) in code.iter().enumerate() {
        // `fn(u8)` is a type, not a function.
        let Some(name) = code.get(at + 1) else {
            break;
        };
        if !token.is_word("fn") || name.is_mark("(") {
            continue;
        }
        let Some(open) = body_start(code, at + 1) else {
            continue;
        };
        let close = closing(code, open);
        let last_line = code.get(close).or(code.last()).map_or(token.line, |t| t.line);
        found.push(Function { name: name.text, line: token.line, lines: last_line + 1 - token.line });
    }
    found
}

/// The index of the brace that opens the body of a function whose name is at `at`; none for a declaration.
///
/// Braces inside brackets, parentheses and angle brackets belong to constant arguments, as in `[u8; { N }]`.
fn body_start(code: &[Token<'_>], at: usize) -> Option<usize> {
    let mut depth = 0i32;
    let mut angles = 0i32;
    for (index, token) in code.iter().enumerate().skip(at) {
        match token.text {
            "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            "<" => angles += 1,
            ">" if !code[index - 1].is_mark("-") => angles -= 1,
            "{" if depth <= 0 && angles <= 0 => return Some(index),
            ";" if depth <= 0 => return None,
            _ => {}
        }
        if depth < 0 {
            return None;
        }
    }
    None
}

/// The index of the brace, bracket or parenthesis that closes the one at `open`, or the length of `code`.
pub(crate) fn closing(code: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0usize;
    for (index, token) in code.iter().enumerate().skip(open) {
        if token.is_mark("{") || token.is_mark("[") || token.is_mark("(") {
            depth += 1;
        } else if token.is_mark("}") || token.is_mark("]") || token.is_mark(")") {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return index;
            }
        }
    }
    code.len()
}

/// An attribute: the index of its `#`, the tokens between its brackets, and whether it is an inner one (`#![…]`).
pub(crate) struct Attribute {
    pub(crate) at: usize,
    pub(crate) body: Range<usize>,
    pub(crate) inner: bool,
}

/// All attributes of a file, in the order of the source.
pub(crate) fn attributes(code: &[Token<'_>]) -> Vec<Attribute> {
    let mut found = Vec::new();
    for (at, token) in code.iter().enumerate() {
        if !token.is_mark("#") {
            continue;
        }
        let inner = code.get(at + 1).is_some_and(|t| t.is_mark("!"));
        let open = at + 1 + usize::from(inner);
        if code.get(open).is_some_and(|t| t.is_mark("[")) {
            let close = closing(code, open);
            found.push(Attribute { at, body: open + 1..close, inner });
        }
    }
    found
}

/// Whether an attribute keeps its item for tests: `cfg(test)`, `cfg(all(test, …))`, `test`, `tokio::test`.
pub(crate) fn is_test_attribute(body: &[Token<'_>]) -> bool {
    let texts: Vec<&str> = body.iter().map(|token| token.text).collect();
    match texts.as_slice() {
        ["cfg", "(", "test", ")"] => true,
        ["cfg", "(", "all", "(", rest @ ..] => {
            // Only a bare `test` among the conditions counts, not one inside `not(…)` or `any(…)`.
            let mut depth = 0i32;
            rest.iter().any(|text| {
                match *text {
                    "(" => depth += 1,
                    ")" => depth -= 1,
                    _ => {}
                }
                depth == 0 && *text == "test"
            })
        }
        [.., "test"] => texts.iter().all(|text| *text != "(" && *text != "="),
        _ => false,
    }
}

/// For every token, whether only tests compile it.
pub(crate) fn test_code(code: &[Token<'_>]) -> Vec<bool> {
    let mut marked = vec![false; code.len()];
    for attribute in attributes(code) {
        if !code.get(attribute.body.clone()).is_some_and(is_test_attribute) {
            continue;
        }
        let end = if attribute.inner { code.len() } else { item_end(code, attribute.body.end + 1) };
        let start = if attribute.inner { 0 } else { attribute.at };
        for mark in &mut marked[start..end] {
            *mark = true;
        }
    }
    marked
}

/// The index behind the item that begins at `at`, after any further attributes.
fn item_end(code: &[Token<'_>], at: usize) -> usize {
    let mut at = at;
    while code.get(at).is_some_and(|t| t.is_mark("#")) {
        at = closing(code, at + 1) + 1;
    }
    // A field, an argument or an arm ends at its comma; in an item a comma separates generics.
    let ends_at_comma = !code.get(at).is_some_and(|t| {
        matches!(
            t.text,
            "pub"
                | "fn"
                | "mod"
                | "impl"
                | "struct"
                | "enum"
                | "union"
                | "trait"
                | "const"
                | "static"
                | "type"
                | "use"
                | "async"
                | "unsafe"
                | "extern"
                | "macro_rules"
        )
    });
    let mut index = at;
    while let Some(token) = code.get(index) {
        match token.text {
            "{" => return closing(code, index) + 1,
            "(" | "[" => index = closing(code, index),
            ";" => return index + 1,
            "}" | ")" | "]" => return index,
            "," if ends_at_comma => return index + 1,
            _ => {}
        }
        index += 1;
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::super::lexer::cut;
    use super::*;

    fn lengths(source: &str) -> Vec<(String, usize, usize)> {
        functions(&cut(source).code).iter().map(|f| (f.name.to_owned(), f.line, f.lines)).collect()
    }

    #[test]
    fn a_function_reaches_from_its_word_to_its_brace() {
        let source = "#[inline]\npub fn one(\n    a: u8,\n) -> u8 {\n    a\n}\nfn two() {}\n";
        assert_eq!(lengths(source), [("one".to_owned(), 2, 5), ("two".to_owned(), 7, 1)]);
    }

    #[test]
    fn braces_in_literals_and_comments_do_not_end_a_function() {
        let source =
            "fn f<'a>(x: &'a str) {\n  // }\n  let _ = \"}\";\n  let _ = '}';\n  let _ = r#\"}\"#;\n  /* } */\n}\n";
        assert_eq!(lengths(source), [("f".to_owned(), 1, 7)]);
    }

    #[test]
    fn nested_functions_count_in_both() {
        let source = "fn outer() {\n    fn inner() {\n    }\n}\n";
        assert_eq!(lengths(source), [("outer".to_owned(), 1, 4), ("inner".to_owned(), 2, 2)]);
    }

    #[test]
    fn declarations_and_function_types_have_no_body() {
        let source = "trait T { fn a(&self) -> u8; }\ntype F = fn(u8) -> u8;\nstruct S { f: fn() }\n";
        assert_eq!(lengths(source), []);
    }

    #[test]
    fn constant_arguments_do_not_open_a_body() {
        let source = "fn f<F: Fn() -> u8>(x: [u8; { 1 + 1 }]) -> A<{ 2 }>\nwhere\n    F: Send,\n{\n}\n";
        assert_eq!(lengths(source), [("f".to_owned(), 1, 5)]);
    }

    #[test]
    fn functions_of_macros_are_seen() {
        let source = "macro_rules! m {\n  ($n:ident) => {\n    fn $n() {\n    }\n  };\n}\n";
        assert_eq!(lengths(source), [("$".to_owned(), 3, 2)]);
    }

    fn words_in_tests(source: &str) -> Vec<String> {
        let tokens = cut(source);
        let marked = test_code(&tokens.code);
        tokens
            .code
            .iter()
            .zip(marked)
            .filter(|(token, marked)| *marked && token.text.starts_with("t_"))
            .map(|(token, _)| token.text.to_owned())
            .collect()
    }

    #[test]
    fn test_items_are_marked_and_nothing_behind_them() {
        let source = "a(); #[cfg(test)] mod tests { t_1(); #[test] fn x() { t_2() } }\nt_no();";
        assert_eq!(words_in_tests(source), ["t_1", "t_2"]);
        let source = "#[cfg(test)]\n#[allow(dead_code)]\nuse t_1;\nt_no();";
        assert_eq!(words_in_tests(source), ["t_1"]);
        let source = "#[cfg(all(test, unix))] fn f<A, B>(t_1: A) { t_2() } fn g() { t_no() }";
        assert_eq!(words_in_tests(source), ["t_1", "t_2"]);
        let source = "struct S { #[cfg(test)] t_1: u8, t_no: u8 }\nfn g() { t_no() }";
        assert_eq!(words_in_tests(source), ["t_1"]);
        assert_eq!(words_in_tests("#![cfg(test)] t_1(); fn x() { t_2 }"), ["t_1", "t_2"]);
    }

    #[test]
    fn other_conditions_are_not_tests() {
        for attribute in [
            "cfg(not(test))",
            "cfg(any(test, feature = \"x\"))",
            "cfg(all(unix, not(test)))",
            "cfg(feature = \"test\")",
            "doc = \"test\"",
            "allow(test)",
        ] {
            let source = format!("#[{attribute}] fn f() {{ t_no() }}");
            assert_eq!(words_in_tests(&source), Vec::<String>::new(), "{attribute}");
        }
        assert_eq!(words_in_tests("#[tokio::test] async fn f() { t_1() }"), ["t_1"]);
    }
}
