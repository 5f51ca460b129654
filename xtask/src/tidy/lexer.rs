//! Cuts Rust source text into words, marks, literals and comments.
//!
//! Just enough of the language for the checks: a brace in a string, a quote that begins a lifetime and an `unwrap` in
//! a comment must not be mistaken for code. Source: The Rust Reference, chapter "Lexical structure".

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An identifier or keyword; `r#name` keeps its prefix.
    Word,
    /// One mark of punctuation, always a single character.
    Mark,
    /// A string, character or number, with its quotes and prefix.
    Literal,
    /// `'name`.
    Lifetime,
}

/// One token of code, and the line (from 1) that it begins on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'s> {
    pub(crate) kind: Kind,
    pub(crate) text: &'s str,
    pub(crate) line: usize,
}

impl Token<'_> {
    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text == word
    }

    pub(crate) fn is_mark(&self, mark: &str) -> bool {
        self.kind == Kind::Mark && self.text == mark
    }

    /// The text between the quotes of a plain or raw string without escapes.
    pub(crate) fn string(&self) -> Option<&str> {
        if self.kind != Kind::Literal {
            return None;
        }
        let start = self.text.find('"')?;
        let end = self.text.rfind('"')?;
        self.text.get(start + 1..end)
    }
}

/// A comment, and the line (from 1) that it begins on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comment<'s> {
    pub(crate) text: &'s str,
    pub(crate) line: usize,
}

/// The tokens of one file.
#[derive(Debug, Default)]
pub(crate) struct Tokens<'s> {
    pub(crate) code: Vec<Token<'s>>,
    pub(crate) comments: Vec<Comment<'s>>,
}

/// Cuts `source`. Text that is not Rust yields some tokens too; an unfinished string or comment ends with the text.
pub(crate) fn cut(source: &str) -> Tokens<'_> {
    let mut cutter = Cutter { source, at: 0, line: 1 };
    let mut tokens = Tokens::default();
    while let Some(first) = cutter.peek(0) {
        if first.is_whitespace() {
            cutter.take(first.len_utf8());
            continue;
        }
        let line = cutter.line;
        let rest = cutter.rest();
        let (kind, len) = if let Some(len) = comment_len(rest) {
            let text = cutter.take(len);
            tokens.comments.push(Comment { text, line });
            continue;
        } else {
            token_len(rest, first)
        };
        let text = cutter.take(len);
        tokens.code.push(Token { kind, text, line });
    }
    tokens
}

struct Cutter<'s> {
    source: &'s str,
    at: usize,
    line: usize,
}

impl<'s> Cutter<'s> {
    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest().chars().nth(ahead)
    }

    fn take(&mut self, len: usize) -> &'s str {
        let text = &self.source[self.at..self.at + len];
        self.line += text.bytes().filter(|&byte| byte == b'\n').count();
        self.at += len;
        text
    }
}

fn comment_len(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if !rest.starts_with("/*") {
        return None;
    }
    // Block comments nest.
    let bytes = rest.as_bytes();
    let mut depth = 0usize;
    let mut at = 0;
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => {
                depth += 1;
                at += 2;
            }
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
    Some(rest.len())
}

fn token_len(rest: &str, first: char) -> (Kind, usize) {
    if first == '"' {
        return (Kind::Literal, quoted_len(rest, '"'));
    }
    if first == '\'' {
        return quote_len(rest);
    }
    if first.is_ascii_digit() {
        return (Kind::Literal, word_len(rest));
    }
    if first == '_' || first.is_alphabetic() {
        let word = word_len(rest);
        return match literal_after_prefix(rest, word) {
            Some(len) => (Kind::Literal, len),
            None if rest.starts_with("r#") => (Kind::Word, 2 + word_len(&rest[2..])),
            None => (Kind::Word, word),
        };
    }
    (Kind::Mark, first.len_utf8())
}

fn word_len(rest: &str) -> usize {
    rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len())
}

/// The length of a literal that begins with a prefix of `prefix_len` bytes: `b"…"`, `b'…'`, `c"…"`, `r"…"`, `br#"…"#`.
fn literal_after_prefix(rest: &str, prefix_len: usize) -> Option<usize> {
    let (prefix, tail) = rest.split_at(prefix_len);
    match prefix {
        "b" if tail.starts_with('\'') => Some(prefix_len + quoted_len(tail, '\'')),
        "b" | "c" if tail.starts_with('"') => Some(prefix_len + quoted_len(tail, '"')),
        "r" | "br" | "cr" => {
            let hashes = tail.bytes().take_while(|&byte| byte == b'#').count();
            let body = tail[hashes..].strip_prefix('"')?;
            let end = format!("\"{}", "#".repeat(hashes));
            let body_len = body.find(&end).map_or(body.len(), |at| at + end.len());
            Some(prefix_len + hashes + 1 + body_len)
        }
        _ => None,
    }
}

/// The length of a literal from its opening to its closing `quote`, both included.
fn quoted_len(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + c.len_utf8();
        }
    }
    rest.len()
}

/// A quote begins a character when a backslash follows or when the next character but one is a quote too, as in `'a'`;
/// otherwise it begins a lifetime, as in `'a`.
fn quote_len(rest: &str) -> (Kind, usize) {
    let mut following = rest.chars().skip(1);
    let (inside, after) = (following.next(), following.next());
    if inside == Some('\\') || after == Some('\'') {
        return (Kind::Literal, quoted_len(rest, '\''));
    }
    (Kind::Lifetime, 1 + word_len(&rest[1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(source: &str) -> Vec<&str> {
        cut(source).code.iter().map(|token| token.text).collect()
    }

    fn kinds(source: &str) -> Vec<Kind> {
        cut(source).code.iter().map(|token| token.kind).collect()
    }

    #[test]
    fn words_marks_and_numbers() {
        assert_eq!(code("let x_1 = 0xff_u8;"), ["let", "x_1", "=", "0xff_u8", ";"]);
        assert_eq!(code("a.0.unwrap()"), ["a", ".", "0", ".", "unwrap", "(", ")"]);
        assert_eq!(code("r#type"), ["r#type"]);
    }

    #[test]
    fn a_brace_in_a_string_is_not_a_mark() {
        assert_eq!(code(r#""{" }"#), [r#""{""#, "}"]);
        assert_eq!(code(r#""\"{" }"#), [r#""\"{""#, "}"]);
        assert_eq!(code(r#""\\" }"#), [r#""\\""#, "}"]);
        assert_eq!(code(r#"b"{" c"{" }"#), [r#"b"{""#, r#"c"{""#, "}"]);
    }

    #[test]
    fn raw_strings_end_at_their_own_hashes() {
        assert_eq!(code(r##"r"\" }"##), [r##"r"\""##, "}"]);
        assert_eq!(code(r###"r#"a "quoted" {"# }"###), [r###"r#"a "quoted" {"#"###, "}"]);
        assert_eq!(code("br##\"{ \"# \"## }"), ["br##\"{ \"# \"##", "}"]);
    }

    #[test]
    fn characters_and_lifetimes_are_told_apart() {
        assert_eq!(code("'{' }"), ["'{'", "}"]);
        assert_eq!(code(r"'\'' }"), [r"'\''", "}"]);
        assert_eq!(code(r"'\u{7b}' }"), [r"'\u{7b}'", "}"]);
        assert_eq!(code("b'{' }"), ["b'{'", "}"]);
        assert_eq!(code("b'\\'' }"), ["b'\\''", "}"]);
        assert_eq!(code("'é' }"), ["'é'", "}"]);
        assert_eq!(code("'\"' }"), ["'\"'", "}"]);
        assert_eq!(code("&'a str"), ["&", "'a", "str"]);
        assert_eq!(code("<'a, 'b>"), ["<", "'a", ",", "'b", ">"]);
        assert_eq!(kinds("'a"), [Kind::Lifetime]);
        assert_eq!(kinds("'a'"), [Kind::Literal]);
    }

    #[test]
    fn comments_are_kept_apart_and_nest() {
        let tokens = cut("a // { \"\nb /* { /* } */ \" */ c /// doc {\n");
        let words: Vec<&str> = tokens.code.iter().map(|token| token.text).collect();
        assert_eq!(words, ["a", "b", "c"]);
        let comments: Vec<&str> = tokens.comments.iter().map(|c| c.text).collect();
        assert_eq!(comments, ["// { \"", "/* { /* } */ \" */", "/// doc {"]);
        assert_eq!(code("\"// not a comment\" x"), ["\"// not a comment\"", "x"]);
    }

    #[test]
    fn lines_are_counted_through_long_tokens() {
        let tokens = cut("a\n\"one\ntwo\"\n/* one\ntwo */ b\n'x' c");
        let lines: Vec<(&str, usize)> = tokens.code.iter().map(|t| (t.text, t.line)).collect();
        assert_eq!(lines, [("a", 1), ("\"one\ntwo\"", 2), ("b", 5), ("'x'", 6), ("c", 6)]);
        assert_eq!(tokens.comments[0].line, 4);
    }

    #[test]
    fn unfinished_text_ends_with_the_text() {
        for source in ["\"abc", "r#\"abc\"", "/* /* */", "'\\", "'", "b'", "r#", "\"\\"] {
            let tokens = cut(source);
            let len: usize = tokens.code.iter().map(|t| t.text.len()).sum::<usize>()
                + tokens.comments.iter().map(|c| c.text.len()).sum::<usize>();
            assert_eq!(len, source.len(), "{source}");
        }
    }

    #[test]
    fn the_text_of_a_string() {
        assert_eq!(cut("\"a/b.rs\"").code[0].string(), Some("a/b.rs"));
        assert_eq!(cut("r#\"a\"#").code[0].string(), Some("a"));
        assert_eq!(cut("17").code[0].string(), None);
    }
}
