//! Rules that are added to a configuration file and taken out of it: the text around them, comments included, stays as it is.

use std::ops::Range;

use anyhow::{Result, ensure};
use serde::Deserialize;
use toml::{Spanned, Table, Value};

/// Where the rules stand.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Places {
    policy: PolicyPlaces,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PolicyPlaces {
    disabled: Option<Spanned<Vec<Spanned<String>>>>,
}

/// The text with a rule more, behind the others.
///
/// # Errors
/// The text is written so that the rule finds no place in it; the words say what to write instead.
pub(crate) fn with(text: &str, rule: &str) -> Result<String> {
    let mut rules = rules_of(text)?;
    rules.push(rule.to_owned());
    let places: Places = toml::from_str(text)?;
    let new = match places.policy.disabled {
        Some(array) => appended(text, &array, rule),
        None => begun(text, rule),
    };
    checked(text, new, &rules)
}

/// The text without a rule, wherever it stands. A comment behind it on a line of its own goes with it.
///
/// # Errors
/// As [`with`].
pub(crate) fn without(text: &str, is_meant: impl Fn(&str) -> bool) -> Result<String> {
    let mut rules = rules_of(text)?;
    rules.retain(|rule| !is_meant(rule));
    let places: Places = toml::from_str(text)?;
    let mut new = text.to_owned();
    if let Some(array) = places.policy.disabled {
        let elements = array.get_ref();
        for (index, element) in elements.iter().enumerate().rev().filter(|(_, element)| is_meant(element.get_ref())) {
            let before = index.checked_sub(1).map(|index| elements[index].span().end);
            new.replace_range(around(text, element.span(), before), "");
        }
    }
    checked(text, new, &rules)
}

fn rules_of(text: &str) -> Result<Vec<String>> {
    let places: Places = toml::from_str(text)?;
    let array = places.policy.disabled.map(Spanned::into_inner).unwrap_or_default();
    Ok(array.into_iter().map(Spanned::into_inner).collect())
}

/// A rule as an element of an array.
fn quoted(rule: &str) -> String {
    Value::from(rule).to_string()
}

/// A rule behind those that an array has.
fn appended(text: &str, array: &Spanned<Vec<Spanned<String>>>, rule: &str) -> String {
    let close = array.span().end - 1;
    let line = text[..close].rfind('\n').map_or(0, |at| at + 1);
    let last = array.get_ref().last().map(Spanned::span);
    let mut new = text.to_owned();
    let is_alone = line > array.span().start && text[line..close].trim().is_empty();
    match last {
        // The bracket has a line for itself, so that the rule gets one as well.
        last if is_alone => {
            let indent = last.as_ref().map_or("    ", |last| indent_of(text, last.start));
            new.insert_str(line, &format!("{indent}{},\n", quoted(rule)));
            if let Some(last) = last.filter(|last| comma_after(text, last.end).is_none()) {
                new.insert(last.end, ',');
            }
        }
        Some(last) => new.insert_str(last.end, &format!(", {}", quoted(rule))),
        None => new.insert_str(close, &quoted(rule)),
    }
    new
}

/// A rule as the first one of a text that has none.
fn begun(text: &str, rule: &str) -> String {
    let entry = format!("disabled = [{}]\n", quoted(rule));
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        end += line.len();
        let header = line.split('#').next().unwrap_or_default().trim();
        if header == "[policy]" {
            let gap = if line.ends_with('\n') { "" } else { "\n" };
            return format!("{}{gap}{entry}{}", &text[..end], &text[end..]);
        }
    }
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    format!("{text}{gap}[policy]\n{entry}")
}

/// What goes with an element: its line where it has one for itself, else its comma and the blanks around.
fn around(text: &str, element: Range<usize>, before: Option<usize>) -> Range<usize> {
    let line = element.start - indent_of(text, element.start).len();
    let comma = comma_after(text, element.end);
    let end = comma.map_or(element.end, |comma| comma + 1);
    let rest = text[end..].split_inclusive('\n').next().unwrap_or_default();
    let is_first = line == 0 || text.as_bytes()[line - 1] == b'\n';
    if is_first && rest.ends_with('\n') && rest.split('#').next().unwrap_or_default().trim().is_empty() {
        return line..end + rest.len();
    }
    match (comma, before) {
        (Some(_), _) => element.start..end + (rest.len() - rest.trim_start_matches([' ', '\t']).len()),
        // The comma in front, which nothing follows any more.
        (None, Some(before)) if !text[before..element.start].contains('\n') => before..end,
        (None, _) => element.start..end,
    }
}

/// The blanks in front of a place.
fn indent_of(text: &str, place: usize) -> &str {
    let line = &text[..place];
    &line[line.trim_end_matches([' ', '\t']).len()..]
}

/// Where the comma behind an element is, on its line or, behind comments, on another.
fn comma_after(text: &str, end: usize) -> Option<usize> {
    let mut in_comment = false;
    for (at, character) in text[end..].char_indices() {
        match character {
            '\n' => in_comment = false,
            _ if in_comment => {}
            '#' => in_comment = true,
            ',' => return Some(end + at),
            _ if character.is_whitespace() => {}
            _ => return None,
        }
    }
    None
}

/// The new text, if it has these rules and otherwise what the old one has.
fn checked(old: &str, new: String, rules: &[String]) -> Result<String> {
    let apart = |text: &str| -> Option<(Table, Option<Value>)> {
        let mut table: Table = toml::from_str(text).ok()?;
        let policy = table.entry("policy").or_insert_with(|| Value::Table(Table::new()));
        let disabled = policy.as_table_mut()?.remove("disabled");
        Some((table, disabled))
    };
    let wanted = Value::from(rules.to_vec());
    let is_right = match (apart(old), apart(&new)) {
        (Some((before, _)), Some((after, disabled))) => before == after && disabled.as_ref() == Some(&wanted),
        _ => false,
    };
    ensure!(
        is_right,
        "its text cannot be changed without changing more; write `disabled = {wanted}` under [policy] yourself"
    );
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remove(text: &str, rule: &str) -> Result<String> {
        without(text, |own| own == rule)
    }

    #[test]
    fn a_rule_is_added_and_nothing_else_changes() {
        for (before, after) in [
            ("", "[policy]\ndisabled = [\"x\"]\n"),
            ("# mine", "# mine\n\n[policy]\ndisabled = [\"x\"]\n"),
            ("[trust]\nstall_factor = 3\n", "[trust]\nstall_factor = 3\n\n[policy]\ndisabled = [\"x\"]\n"),
            ("[policy]", "[policy]\ndisabled = [\"x\"]\n"),
            (
                "[policy] # why\nlegacy = true\n\n[trust]\n",
                "[policy] # why\ndisabled = [\"x\"]\nlegacy = true\n\n[trust]\n",
            ),
            ("[policy]\ndisabled = []", "[policy]\ndisabled = [\"x\"]"),
            ("policy.disabled = [ 'a' ] # why\n", "policy.disabled = [ 'a', \"x\" ] # why\n"),
            (
                "policy = { disabled = [\"a\",], legacy = true }",
                "policy = { disabled = [\"a\", \"x\",], legacy = true }",
            ),
            (
                "[policy]\ndisabled = [\n  # broken\n  \"a\", # since May\n  \"b\" # too\n] # end\n",
                "[policy]\ndisabled = [\n  # broken\n  \"a\", # since May\n  \"b\", # too\n  \"x\",\n] # end\n",
            ),
            ("[policy]\ndisabled = [\n\t\"a\",\n]\n", "[policy]\ndisabled = [\n\t\"a\",\n\t\"x\",\n]\n"),
            ("[policy]\ndisabled = [ # none\n]\n", "[policy]\ndisabled = [ # none\n    \"x\",\n]\n"),
            ("[policy]\ndisabled = [\"a\",\n  \"b\"]\n", "[policy]\ndisabled = [\"a\",\n  \"b\", \"x\"]\n"),
            ("[policy]\r\nlegacy = true\r\n", "[policy]\r\ndisabled = [\"x\"]\nlegacy = true\r\n"),
        ] {
            assert_eq!(with(before, "x").unwrap(), after, "{before}");
            if before.contains("disabled") {
                assert_eq!(rules_of(&remove(after, "x").unwrap()).unwrap(), rules_of(before).unwrap(), "{before}");
            }
        }
    }

    #[test]
    fn a_rule_is_taken_out_and_nothing_else_changes() {
        for (before, after) in [
            ("[\"x\"]", "[]"),
            ("[ \"x\", \"a\" ]", "[ \"a\" ]"),
            ("[\"a\", 'x']", "[\"a\"]"),
            ("[\"a\" , \"x\" , \"b\"]", "[\"a\" , \"b\"]"),
            ("[\"a\", \"x\",]", "[\"a\", ]"),
            ("[\"x\", \"a\", \"x\"]", "[\"a\"]"),
            (
                "[\n  \"a\", # first\n  \"x\", # second\n  # of its own\n  \"b\",\n]",
                "[\n  \"a\", # first\n  # of its own\n  \"b\",\n]",
            ),
            ("[\n  \"a\", # first\n  \"x\"\n]", "[\n  \"a\", # first\n]"),
            ("[\"a\", # first\n  \"x\"]", "[\"a\", # first\n  ]"),
            ("[\n  \"x\" # no comma, here\n  , \"a\"]", "[\n  \"a\"]"),
        ] {
            let text =
                |array: &str| format!("# top\n[policy]\nlegacy = true\ndisabled = {array} # end\n\n[keystore]\n");
            assert_eq!(remove(&text(before), "x").unwrap(), text(after), "{before}");
        }
    }

    /// Arrays of up to three rules in thousands of layouts: blanks, line ends and comments wherever there may be some.
    #[test]
    fn no_layout_is_in_the_way() {
        const GAPS: [&str; 5] = ["", " ", "\n", "\n\t", " # [\"x\", ] = #\n  "];

        let comments = |text: &str| text.matches("= #").count();
        for number in 0..5000_u64 {
            // Digits of a number that is multiplied by the golden ratio, as Knuth's multiplicative hashing does.
            let (count, mut rest) = (number as usize % 4, (number * 0x9e37_79b9) as usize);
            let mut draw = |of: usize| (rest % of, rest /= of).0;
            let ends_with_comma = draw(2) == 1 && count > 0;
            let mut array = "[".to_owned();
            for (index, rule) in ["\"a\"", "'b'", "\"c\""].iter().take(count).enumerate() {
                let last = index + 1 == count && !ends_with_comma;
                array += &format!("{}{rule}{}{}", GAPS[draw(5)], GAPS[draw(5)], if last { "" } else { "," });
            }
            let text = format!("[policy]\ndisabled = {array}{}] # end\nlegacy = true\n", GAPS[draw(5)]);
            let before = rules_of(&text).unwrap();
            let added = with(&text, "x").unwrap();
            assert_eq!(comments(&added), comments(&text), "{text:?} {added:?}");
            assert_eq!(rules_of(&remove(&added, "x").unwrap()).unwrap(), before, "{text:?}");
            for rule in &before {
                let others: Vec<_> = before.iter().filter(|other| *other != rule).cloned().collect();
                assert_eq!(rules_of(&remove(&text, rule).unwrap()).unwrap(), others, "{text:?} without {rule}");
            }
        }
    }

    #[test]
    fn what_cannot_be_changed_alone_is_said() {
        for text in [
            // The header lies in a text.
            "[keystore]\nkey = '''\n[policy]\n'''\n",
            // One that is spelled in another way.
            "[ policy ]\nlegacy = true\n",
            "policy = { legacy = true }\n",
            "policy.legacy = true\n",
        ] {
            let error = with(text, "x").unwrap_err().to_string();
            assert!(error.contains("write `disabled = [\"x\"]` under [policy] yourself"), "{text}: {error}");
        }
        assert!(with("[policy]\ndisabled = 3\n", "x").is_err());
        assert!(remove("[policy]\n", "x").is_err(), "there is nothing to take out");
    }
}
