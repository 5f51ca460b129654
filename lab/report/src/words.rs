//! Numbers and texts as people read them.

use crate::model::Measurement;

/// A number with four significant digits, thousands apart: `12,345`, `1.235`, `0.0123`, `1.2e-7`.
pub(crate) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "—".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let size = value.abs();
    if !(1e-4..1e15).contains(&size) {
        return format!("{value:.3e}");
    }
    let whole = value.fract() == 0.0;
    let digits_before = size.log10().floor() as i32;
    let decimals = if whole { 0 } else { (3 - digits_before).clamp(0, 7) as usize };
    grouped(&format!("{value:.decimals$}"))
}

/// The number, in decimal digits, with commas between thousands.
pub fn grouped(number: &str) -> String {
    let (sign, rest) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (whole, fraction) = rest.split_once('.').map_or((rest, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut out = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// A ratio around one in at most five characters: `0.76`, `12.3`, `123`, `>999`, `<0.01`.
pub(crate) fn ratio(value: f64) -> String {
    match value {
        value if value.is_nan() => "—".to_owned(),
        value if value < 0.005 => "<0.01".to_owned(),
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value if value < 999.5 => format!("{value:.0}"),
        _ => ">999".to_owned(),
    }
}

/// A share as a percentage: `4.2 %`, with a blank that does not break.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    if !value.is_finite() {
        "—".to_owned()
    } else if value.abs() < 9.95 {
        format!("{value:.1}\u{a0}%")
    } else {
        format!("{}\u{a0}%", grouped(&format!("{value:.0}")))
    }
}

/// How sure a figure is: the ends of its interval, or its spread where it has none.
pub(crate) fn certainty(measurement: &Measurement) -> String {
    match measurement.interval {
        Some([low, high]) => format!("{} to {}", figure(low), figure(high)),
        None if measurement.spread == 0.0 => String::new(),
        None => format!("±\u{a0}{}", percent(measurement.spread)),
    }
}

/// A share that was chosen, not measured, as a percentage: `5 %`.
pub(crate) fn whole_percent(share: f64) -> String {
    format!("{:.0}\u{a0}%", share * 100.0)
}

/// `1 figure`, `2 figures`.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(&number.to_string()), if number == 1 { one } else { many })
}

/// A date of RFC 3339 for people, `2026-11-22 00:42 UTC`; anything else as it is.
pub(crate) fn date(made: &str) -> String {
    let looks_right = made.len() >= 17
        && made.is_ascii()
        && made.bytes().zip("0000-00-00T00:00".bytes()).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        });
    match (looks_right, made.ends_with('Z') || made.ends_with("+00:00")) {
        (true, true) => format!("{} {} UTC", &made[..10], &made[11..16]),
        _ => made.to_owned(),
    }
}

/// Whether a document may hold the character: no control characters but line ends and tabs.
pub(crate) fn is_printable(character: char) -> bool {
    match character {
        '\n' | '\t' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        other => !other.is_control(),
    }
}

/// A text for one line of a terminal: white space becomes single blanks, and nothing in it can steer the terminal.
pub(crate) fn one_line(text: &str) -> String {
    let visible = |character: char| match character {
        // Marks that turn the direction of the rest of a line.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        character if character.is_whitespace() || is_printable(character) => character,
        _ => '\u{fffd}',
    };
    let text: String = text.chars().map(visible).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text, or its beginning with an ellipsis: not more than `characters_max` characters.
pub(crate) fn shortened(text: &str, characters_max: usize) -> String {
    if text.chars().count() <= characters_max {
        return text.to_owned();
    }
    let begin: String = text.chars().take(characters_max.saturating_sub(1)).collect();
    format!("{}…", begin.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits() {
        let cases = [
            (0.0, "0"),
            (16.0, "16"),
            (1.23456, "1.235"),
            (12.3456, "12.35"),
            (1234.56, "1,235"),
            (-1_234_567.0, "-1,234,567"),
            (0.012345, "0.01235"),
            (1.5e-7, "1.500e-7"),
            (2e18, "2.000e18"),
            (f64::NAN, "—"),
        ];
        for (value, text) in cases {
            assert_eq!(figure(value), text);
        }
    }

    #[test]
    fn ratios_are_short() {
        let cases = [
            (f64::NAN, "—"),
            (-1.0, "<0.01"),
            (0.0049, "<0.01"),
            (0.005, "0.01"),
            (0.756, "0.76"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (99.94, "99.9"),
            (99.96, "100"),
            (999.4, "999"),
            (f64::INFINITY, ">999"),
        ];
        for (value, text) in cases {
            assert_eq!(ratio(value), text, "{value}");
        }
    }

    #[test]
    fn certainty_is_an_interval_or_a_spread() {
        let mut section = crate::Section::new("m", "t", "s");
        let ratio = crate::Estimate { value: 2.0, interval: [1.95, 2.0634] };
        section.ratio("a", ratio, crate::Better::More);
        section.measured("b", 1.0, "ns", 0.012, crate::Better::Less);
        section.measured("c", 3.0, "ops", 0.0, crate::Better::Neither);
        let shown: Vec<String> = section.measurements.iter().map(certainty).collect();
        assert_eq!(shown, ["1.950 to 2.063", "±\u{a0}1.2\u{a0}%", ""]);
    }

    #[test]
    fn percentages_dates_and_counts() {
        assert_eq!(percent(0.0421), "4.2\u{a0}%");
        assert_eq!(percent(0.25), "25\u{a0}%");
        assert_eq!(percent(-12.0), "-1,200\u{a0}%");
        assert_eq!(date("2026-11-22T00:42:15Z"), "2026-11-22 00:42 UTC");
        assert_eq!(date("2026-11-22T00:42:15+01:00"), "2026-11-22T00:42:15+01:00");
        assert_eq!(date("yesterday, I think"), "yesterday, I think");
        assert_eq!(count(1, "figure", "figures"), "1 figure");
        assert_eq!(count(1200, "figure", "figures"), "1,200 figures");
    }

    #[test]
    fn texts_cannot_steer_a_terminal() {
        assert_eq!(one_line("a\u{1b}[31m\nb\t c\u{202e}"), "a\u{fffd}[31m b c\u{fffd}");
        assert_eq!(shortened("abcdef", 6), "abcdef");
        assert_eq!(shortened("abcdefg", 6), "abcde…");
    }
}
