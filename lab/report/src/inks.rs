//! Which lines of a plot belong together, and so share a colour and a marker.

use crate::plot::{Look, Plot, Series};

/// For each line of the plot the group that it belongs to, counted from zero.
///
/// What was measured has a group of its own. A model or a cited line joins the measured line whose name it carries
/// (`lanes` and `lanes, fitted`, or `paper: lanes`); the longest such name wins. Others with the same name share a group.
pub(crate) fn groups(plot: &Plot) -> Vec<usize> {
    let measured: Vec<usize> = (0..plot.series.len()).filter(|&at| plot.series[at].look == Look::Measured).collect();
    let mut alone: Vec<&str> = Vec::new();
    let mut group_of = |series: &'_ Series, at: usize| {
        if let Some(own) = measured.iter().position(|other| *other == at) {
            return own;
        }
        let carried =
            measured.iter().enumerate().filter(|(_, other)| carries(&series.name, &plot.series[**other].name));
        if let Some((group, _)) = carried.max_by_key(|(_, other)| plot.series[**other].name.len()) {
            return group;
        }
        let name = plot.series[at].name.as_str();
        let place = alone.iter().position(|other| *other == name).unwrap_or_else(|| {
            alone.push(name);
            alone.len() - 1
        });
        measured.len() + place
    };
    plot.series.iter().enumerate().map(|(at, series)| group_of(series, at)).collect()
}

/// The lines of each group, what was measured first: as a legend lists them. Groups stand in the order of their lines.
pub(crate) fn families(plot: &Plot) -> Vec<(usize, Vec<&Series>)> {
    let mut families: Vec<(usize, Vec<&Series>)> = Vec::new();
    for (series, group) in plot.series.iter().zip(groups(plot)) {
        match families.iter_mut().find(|(other, _)| *other == group) {
            Some((_, members)) => members.push(series),
            None => families.push((group, vec![series])),
        }
    }
    for (_, members) in &mut families {
        members.sort_by_key(|series| match series.look {
            Look::Measured => 0,
            Look::Fitted => 1,
            Look::Cited => 2,
        });
    }
    families
}

/// What a legend says of each line of a family: its name, and how it came about where that is not plain; a model beside
/// what it is fitted to is just that.
pub(crate) fn legend_text(series: &Series, index: usize, plain: bool) -> (&str, &'static str) {
    match (series.look, index) {
        (Look::Fitted, 1..) => ("", "fitted"),
        (Look::Measured, _) if plain => (&series.name, ""),
        (look, _) => (&series.name, look_word(look)),
    }
}

/// How a line came about, in a word.
pub(crate) fn look_word(look: Look) -> &'static str {
    match look {
        Look::Measured => "measured",
        Look::Fitted => "fitted",
        Look::Cited => "cited",
    }
}

/// Whether the name is the other or has it at its beginning or end, as words of their own.
fn carries(name: &str, other: &str) -> bool {
    let ends_word = |rest: &str, next: Option<char>| rest.is_empty() || next.is_some_and(|c| !c.is_alphanumeric());
    let begins = name.strip_prefix(other).is_some_and(|rest| ends_word(rest, rest.chars().next()));
    let ends = name.strip_suffix(other).is_some_and(|rest| ends_word(rest, rest.chars().next_back()));
    !other.is_empty() && (begins || ends)
}

/// Names for labels with little room. Where one is longer than `characters_max`, the words that all begin or end with are
/// left out, as `…`, since what tells names apart lies between them; what is too long then loses its end.
pub(crate) fn short_names(names: &[&str], characters_max: usize) -> Vec<String> {
    let too_long = names.iter().any(|name| name.chars().count() > characters_max);
    let (mut begin, mut end) = (0, 0);
    if let (true, [first, rest @ ..]) = (too_long && names.len() > 1, names) {
        let common = |length: usize, other: &str| {
            first.bytes().take(length).zip(other.bytes()).take_while(|(a, b)| a == b).count()
        };
        let shared = rest.iter().fold(first.len(), |length, other| common(length, other));
        begin = word_end(first, shared);
        let tails: Vec<String> = names.iter().map(|name| name[begin..].chars().rev().collect()).collect();
        let shared = tails[1..].iter().fold(tails[0].len(), |length, other| {
            tails[0].as_bytes()[..length].iter().zip(other.as_bytes()).take_while(|(a, b)| a == b).count()
        });
        end = word_end(&tails[0], shared);
    }
    let short = |name: &&str| {
        let middle = &name[begin..name.len() - end];
        let mark = |cut: usize| if cut > 0 { "…" } else { "" };
        crate::words::shortened(&format!("{}{middle}{}", mark(begin), mark(end)), characters_max)
    };
    names.iter().map(short).collect()
}

/// The end of the last whole word and its separator within the first `length` bytes.
fn word_end(text: &str, length: usize) -> usize {
    let within = text.char_indices().take_while(|(at, c)| at + c.len_utf8() <= length);
    // Not hyphens: they hold names like aes-128-cbc together.
    within.filter(|(_, c)| matches!(c, ' ' | '/' | ',' | ':')).map(|(at, c)| at + c.len_utf8()).last().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Scale};

    #[test]
    fn models_and_citations_join_what_was_measured() {
        let mut plot = Plot::new("t", Axis::new("x", Scale::Log2), Axis::new("y", Scale::Log10));
        let lines = [
            ("paper: lanes", Look::Cited),
            ("lanes", Look::Measured),
            ("lanes wide", Look::Measured),
            ("lanes wide, fitted", Look::Fitted),
            ("lanes, fitted", Look::Fitted),
            ("goal", Look::Cited),
            ("lanesque", Look::Fitted),
            ("goal", Look::Cited),
        ];
        plot.series = lines.into_iter().map(|(name, look)| Series::new(name, look, Vec::new())).collect();
        assert_eq!(groups(&plot), [0, 0, 1, 1, 0, 2, 3, 2]);
        let families = families(&plot);
        let names: Vec<&str> = families[0].1.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["lanes", "lanes, fitted", "paper: lanes"]);
        assert_eq!(families.iter().map(|(group, _)| *group).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn short_names_keep_what_tells_them_apart() {
        let names = ["aes-128-cbc encrypt/lanes one by one", "aes-128-cbc encrypt/library one by one"];
        assert_eq!(short_names(&names, 26), ["…lanes…", "…library…"]);
        assert_eq!(short_names(&["a b", "a c"], 26), ["a b", "a c"], "where there is room nothing is left out");
        assert_eq!(short_names(&["same long name here", "same long name here"], 10), ["…here", "…here"]);
        assert_eq!(short_names(&["abcdefghijkl"], 5), ["abcd…"]);
        assert_eq!(short_names(&["ä ö ü lang", "ä ö x lang"], 4), ["…ü…", "…x…"]);
        assert_eq!(short_names(&["", "abcdefgh"], 4), ["", "abc…"]);
        assert!(short_names(&[], 4).is_empty());
    }
}
