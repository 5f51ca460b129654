//! What is checked in one file.

use super::lexer::{Kind, Token, Tokens, cut};
use super::regions::{Function, attributes, functions, test_code};

/// A function may have this many lines, from the word `fn` to its closing brace.
pub(crate) const FUNCTION_LINES_MAX: usize = 70;

/// Macros that leave work for later or print it.
const LEFTOVER_MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Marks of unfinished work in comments.
const LEFTOVER_WORDS: [&str; 2] = ["FIXME", "XXX"];

/// What a comment says that permits an `expect`.
const INVARIANT: &str = "INVARIANT:";

/// What a file is allowed because of the crate that it belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// `unwrap` and `expect`, as tests, benchmarks and build scripts use them.
    pub(crate) panics: bool,
    pub(crate) unsafe_code: bool,
}

/// A Rust file, cut into tokens.
pub(crate) struct RustFile<'s> {
    path: &'s str,
    text: &'s str,
    tokens: Tokens<'s>,
    in_tests: Vec<bool>,
}

impl<'s> RustFile<'s> {
    pub(crate) fn new(path: &'s str, text: &'s str) -> Self {
        let tokens = cut(text);
        let in_tests = test_code(&tokens.code);
        Self { path, text, tokens, in_tests }
    }

    pub(crate) fn lines(&self) -> usize {
        self.text.lines().count()
    }

    /// The words of the code.
    pub(crate) fn words(&self) -> impl Iterator<Item = &'s str> {
        let words = self.tokens.code.iter().filter(|token| token.kind == Kind::Word);
        words.map(|token| token.text)
    }

    pub(crate) fn long_functions(&self) -> Vec<Function<'s>> {
        let mut found = functions(&self.tokens.code);
        found.retain(|function| function.lines > FUNCTION_LINES_MAX);
        found
    }

    /// Whether unsafe code stands outside the parts that only tests compile.
    pub(crate) fn has_unsafe_code(&self) -> bool {
        let code = self.tokens.code.iter().zip(&self.in_tests);
        code.into_iter().any(|(token, in_tests)| token.is_word("unsafe") && !in_tests)
    }

    /// Everything but sizes, one line each.
    pub(crate) fn findings(&self, allowance: Allowance) -> Vec<String> {
        let mut findings = white_space(self.path, self.text);
        for (index, line) in self.text.lines().enumerate() {
            if line.contains('\t') {
                findings.push(self.at(index + 1, "tab"));
            }
        }
        self.leftovers(&mut findings);
        self.ignored_tests(&mut findings);
        if !allowance.panics {
            self.panics(&mut findings);
        }
        if !allowance.unsafe_code {
            self.unsafe_code(&mut findings);
        }
        findings
    }

    fn at(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }

    fn leftovers(&self, findings: &mut Vec<String>) {
        for pair in self.tokens.code.windows(2) {
            let is_leftover = LEFTOVER_MACROS.contains(&pair[0].text) && pair[1].is_mark("!");
            if pair[0].kind == Kind::Word && is_leftover {
                findings.push(self.at(pair[0].line, &format!("leftover {}!", pair[0].text)));
            }
        }
        for comment in &self.tokens.comments {
            for (index, line) in comment.text.lines().enumerate() {
                let mut words = line.split(|c: char| !c.is_alphanumeric());
                if let Some(word) = words.find(|word| LEFTOVER_WORDS.contains(word)) {
                    findings.push(self.at(comment.line + index, &format!("leftover {word}")));
                }
            }
        }
    }

    fn ignored_tests(&self, findings: &mut Vec<String>) {
        let code = &self.tokens.code;
        for attribute in attributes(code) {
            if let [only] = &code[attribute.body.clone()]
                && only.is_word("ignore")
            {
                let what = "an ignored test says why: #[ignore = \"reason\"]";
                findings.push(self.at(only.line, what));
            }
        }
    }

    fn panics(&self, findings: &mut Vec<String>) {
        let code = &self.tokens.code;
        for (at, calls) in code.windows(3).enumerate() {
            let [dot, name, open] = calls else {
                continue;
            };
            if !dot.is_mark(".") || !open.is_mark("(") || self.in_tests[at] {
                continue;
            }
            if name.is_word("unwrap") {
                findings.push(self.at(name.line, "unwrap() outside tests"));
            } else if name.is_word("expect") && !self.is_invariant(at) {
                let what = "expect() outside tests, without a comment `// INVARIANT: why`";
                findings.push(self.at(name.line, what));
            }
        }
    }

    /// Whether a comment on the line of the call whose dot is at `at`, or above it, or above its statement, states the
    /// invariant.
    fn is_invariant(&self, at: usize) -> bool {
        let code = &self.tokens.code;
        let call_line = code[at + 1].line;
        let ends_statement = |t: &Token<'_>| t.is_mark(";") || t.is_mark("{") || t.is_mark("}");
        let before = code[..at].iter().rposition(ends_statement);
        let statement = before.map_or(0, |index| index + 1);
        let statement_line = code[statement].line;
        let stated_on = |line: usize| {
            let comment = self.tokens.comments.iter().find(|c| c.line == line);
            comment.map(|c| c.text.contains(INVARIANT))
        };
        let stated_above = |line: usize| {
            let mut above = line;
            // Up through a comment of several lines.
            while above > 1 {
                above -= 1;
                match stated_on(above) {
                    Some(true) => return true,
                    Some(false) => {}
                    None => return false,
                }
            }
            false
        };
        stated_on(call_line) == Some(true) || stated_above(call_line) || stated_above(statement_line)
    }

    fn unsafe_code(&self, findings: &mut Vec<String>) {
        for (token, in_tests) in self.tokens.code.iter().zip(&self.in_tests) {
            if token.is_word("unsafe") && !in_tests {
                let what = "unsafe code in a crate that is not listed for it (UNSAFE_CRATES)";
                findings.push(self.at(token.line, what));
            }
        }
    }
}

/// Trailing white space and a missing or doubled end of the last line.
pub(crate) fn white_space(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (index, line) in text.split('\n').enumerate() {
        if line.ends_with([' ', '\t', '\r']) {
            findings.push(format!("{path}:{}: trailing white space", index + 1));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        findings.push(format!("{path}: no newline at the end"));
    }
    if text.ends_with("\n\n") {
        findings.push(format!("{path}: empty line at the end"));
    }
    findings
}

/// Whether the root of a crate has `#![forbid(unsafe_code)]`.
pub(crate) fn forbids_unsafe_code(text: &str) -> bool {
    let tokens = cut(text);
    attributes(&tokens.code).iter().any(|attribute| {
        let body = &tokens.code[attribute.body.clone()];
        attribute.inner
            && body.first().is_some_and(|t| t.is_word("forbid"))
            && body.iter().any(|t| t.is_word("unsafe_code"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: Allowance = Allowance { panics: false, unsafe_code: false };

    fn found(text: &str) -> Vec<String> {
        RustFile::new("a.rs", text).findings(STRICT)
    }

    #[test]
    fn clean_code_has_no_findings() {
        let text = "//! Words.\n\nfn f(x: Option<u8>) -> u8 {\n    x.unwrap_or(0)\n}\n";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn white_space_is_checked() {
        assert_eq!(found("a(); \n"), ["a.rs:1: trailing white space"]);
        assert_eq!(found("a();\r\n"), ["a.rs:1: trailing white space"]);
        assert_eq!(found("a();\n\tb();\n"), ["a.rs:2: tab"]);
        assert_eq!(found("a();"), ["a.rs: no newline at the end"]);
        assert_eq!(found("a();\n\n"), ["a.rs: empty line at the end"]);
        assert_eq!(found(""), Vec::<String>::new());
    }

    #[test]
    fn leftovers_are_found_in_code_and_comments_only() {
        assert_eq!(found("fn f() { todo!() }\n"), ["a.rs:1: leftover todo!"]);
        assert_eq!(found("\ndbg!(x);\n"), ["a.rs:2: leftover dbg!"]);
        assert_eq!(found("unimplemented!();\n"), ["a.rs:1: leftover unimplemented!"]);
        assert_eq!(found("// FIXME: later\n"), ["a.rs:1: leftover FIXME"]);
        assert_eq!(found("/* a\n XXX */\n"), ["a.rs:2: leftover XXX"]);
        let clean = "// \\xXXXX, todo!()\nlet a = \"todo!() FIXME\";\nlet todo = 1;\n";
        assert_eq!(found(clean), Vec::<String>::new());
    }

    #[test]
    fn unwrap_is_for_tests() {
        assert_eq!(found("fn f() {\n    x\n        .unwrap();\n}\n"), ["a.rs:3: unwrap() outside tests"]);
        assert_eq!(found("#[cfg(test)]\nmod t { f() { x.unwrap() } }\n").len(), 0);
        assert_eq!(found("/// x.unwrap()\nfn f() { \".unwrap()\"; }\n").len(), 0);
        let loose = Allowance { panics: true, unsafe_code: false };
        let file = RustFile::new("a.rs", "x.unwrap();\n");
        assert_eq!(file.findings(loose).len(), 0);
    }

    #[test]
    fn expect_needs_its_invariant_in_words() {
        assert_eq!(found("let a = x.expect(\"y\");\n").len(), 1);
        assert_eq!(found("let a = x.expect(\"y\"); // INVARIANT: z\n").len(), 0);
        assert_eq!(found("// INVARIANT: z\nlet a = x.expect(\"y\");\n").len(), 0);
        assert_eq!(found("// INVARIANT: z\n// and more.\nlet a = x\n    .b()\n    .expect(\"y\");\n").len(), 0);
        assert_eq!(found("let a = x\n    .b()\n    // INVARIANT: z\n    .expect(\"y\");\n").len(), 0);
        assert_eq!(found("// INVARIANT: z\n\nlet a = x.expect(\"y\");\n").len(), 1);
        assert_eq!(found("// because\nlet a = x.expect(\"y\");\n").len(), 1);
        assert_eq!(found("// INVARIANT: z\nlet b = 1;\nlet a = x.expect(\"y\");\n").len(), 1);
    }

    #[test]
    fn ignored_tests_give_a_reason() {
        let bare = "#[cfg(test)]\nmod t {\n    #[test]\n    #[ignore]\n    fn f() {}\n}\n";
        let found_bare = found(bare);
        assert_eq!(found_bare.len(), 1);
        assert!(found_bare[0].starts_with("a.rs:4: "));
        assert_eq!(found("#[ignore = \"needs a GPU\"]\nfn f() {}\n").len(), 0);
    }

    #[test]
    fn unsafe_code_needs_a_listed_crate() {
        assert_eq!(found("fn f() { unsafe { g() } }\n").len(), 1);
        assert_eq!(found("#[unsafe(no_mangle)]\nfn f() {}\n").len(), 1);
        assert_eq!(found("#[cfg(test)]\nmod t { fn f() { unsafe { g() } } }\n").len(), 0);
        assert_eq!(found("// unsafe\n#![forbid(unsafe_code)]\n").len(), 0);
        let listed = Allowance { panics: false, unsafe_code: true };
        let file = RustFile::new("a.rs", "unsafe { g() }\n");
        assert_eq!(file.findings(listed).len(), 0);
        assert!(file.has_unsafe_code());
    }

    #[test]
    fn the_root_attribute_is_recognised() {
        assert!(forbids_unsafe_code("//! A.\n#![forbid(unsafe_code)]\n"));
        assert!(forbids_unsafe_code("#![forbid(missing_docs, unsafe_code)]\n"));
        assert!(!forbids_unsafe_code("// #![forbid(unsafe_code)]\n"));
        assert!(!forbids_unsafe_code("#![deny(unsafe_code)]\n"));
        assert!(!forbids_unsafe_code("#[forbid(unsafe_code)]\nmod a;\n"));
    }
}
