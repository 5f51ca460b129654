//! A record as one HTML file that needs nothing else: no script, no picture, no font from elsewhere.

mod maps;
mod parts;
mod tables;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::model::{Record, Section};
use crate::svg;
use crate::words::{date, is_printable};

const STYLE: &str = include_str!("html/page.css");

/// The record as a self-contained HTML document, for light and dark, wide and narrow screens, and paper.
///
/// Every text of the record is escaped; control characters become U+FFFD. The page forbids itself scripts and anything
/// from elsewhere.
pub fn html(record: &Record) -> String {
    let anchors = anchors(&record.sections);
    let mut numbers = Numbers::default();
    let heading = format!("Measured on {}", record.machine.cpu);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                meta name="generator" content=(format!("ciphermill {}", record.machine.ciphermill));
                title { (heading) ", " (date(&record.made)) " · Ciphermill lab" }
                style { (PreEscaped(svg::STYLE)) (PreEscaped(STYLE)) }
            }
            body {
                a class="skip" href="#content" { "To the measurements" }
                header {
                    p class="kicker" { "Ciphermill lab" }
                    h1 { (heading) }
                    p class="made" { (parts::time(&record.made)) " · " code { (record.command) } }
                }
                nav aria-labelledby="contents" {
                    h2 id="contents" { "Contents" }
                    p class="unnumbered" { a href="#machine" { "The machine" } }
                    ol {
                        @for (section, anchor) in record.sections.iter().zip(&anchors) {
                            li {
                                a href=(format!("#{anchor}")) { (section.title) }
                                @if let Some(first) = section.conclusions.first() { p class="glance" { (first) } }
                            }
                        }
                    }
                }
                main id="content" {
                    (parts::warnings(record))
                    (parts::machine(record))
                    @for (index, (section, anchor)) in record.sections.iter().zip(&anchors).enumerate() {
                        (section_markup(section, index + 1, anchor, &mut numbers))
                    }
                    @if record.sections.is_empty() { p { "This record holds no measurements." } }
                }
                footer {
                    p { "Made by ciphermill " (record.machine.ciphermill) ". To measure again: " code { (record.command) } }
                }
            }
        }
    };
    page.into_string().chars().map(|character| if is_printable(character) { character } else { '\u{fffd}' }).collect()
}

/// Counts figures and tables through the document.
#[derive(Default)]
struct Numbers {
    figures: usize,
    tables: usize,
}

impl Numbers {
    fn figure(&mut self) -> usize {
        self.figures += 1;
        self.figures
    }

    fn table(&mut self) -> usize {
        self.tables += 1;
        self.tables
    }
}

/// For each section the name that links lead to: its method, made unique.
fn anchors(sections: &[Section]) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = section.method.chars().map(plain).collect();
        let anchor = format!("method-{name}");
        let taken = name.is_empty() || anchors.contains(&anchor);
        anchors.push(if taken { format!("section-{}", index + 1) } else { anchor });
    }
    anchors
}

fn section_markup(section: &Section, number: usize, anchor: &str, numbers: &mut Numbers) -> Markup {
    html! {
        section aria-labelledby=(anchor) {
            h2 id=(anchor) { span class="number" { (number) } " " (section.title) }
            p class="source" { code { (section.method) } @if !section.source.is_empty() { " · after " (section.source) } }
            @for paragraph in &section.lesson { p class="lesson" { (paragraph) } }
            (parts::conclusions(section))
            @for (index, plot) in section.plots.iter().enumerate() {
                (parts::figure(plot, &format!("{anchor}-plot-{index}"), numbers))
            }
            @for map in &section.maps { (maps::map(map, numbers)) }
            @for table in &section.tables { (tables::table(table, numbers)) }
            (parts::missing(section))
            (tables::measurements(section))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coloured_texts_stand_out_from_what_lies_behind_them() {
        use crate::svg::sight::{colours, contrast};
        let behind = [(svg::STYLE, "paper"), (STYLE, "panel"), (STYLE, "warnbg")];
        let texts = [
            (STYLE, "good"),
            (STYLE, "bad"),
            (STYLE, "doubt"),
            (STYLE, "link"),
            (svg::STYLE, "ink"),
            (svg::STYLE, "soft"),
        ];
        for (style, name) in texts {
            for (ground, ground_name) in behind {
                for (one, other) in colours(style, name).into_iter().zip(colours(ground, ground_name)) {
                    let contrast = contrast(one, other);
                    assert!(contrast >= 4.5, "{name} on {ground_name}: {contrast:.2}");
                }
            }
        }
    }

    #[test]
    fn a_map_is_legible_and_its_steps_are_told_apart() {
        use crate::svg::sight::{apart, colours, contrast};
        let names: Vec<String> =
            ["behind4", "behind3", "behind2", "behind1", "level", "ahead1", "ahead2", "ahead3", "ahead4"]
                .map(str::to_owned)
                .to_vec();
        let grounds: Vec<_> = names.iter().map(|name| colours(STYLE, name)).collect();
        let inks = colours(svg::STYLE, "ink");
        for mode in [0, 1] {
            for (ground, name) in grounds.iter().zip(&names) {
                let contrast = contrast(inks[mode], ground[mode]);
                assert!(contrast >= 4.5, "ink on {name} in mode {mode}: {contrast:.2}");
            }
            for (index, (one, name)) in grounds.iter().zip(&names).enumerate() {
                for (other, other_name) in grounds.iter().zip(&names).skip(index + 1) {
                    let apart = apart(one[mode], other[mode]);
                    assert!(apart >= 6.0, "{name} and {other_name} in mode {mode}: {apart:.1}");
                }
            }
        }
    }

    #[test]
    fn anchors_are_unique_and_fit_for_links() {
        let sections: Vec<Section> =
            ["ladder", "ladder", "", "a b\"<"].into_iter().map(|method| Section::new(method, "t", "s")).collect();
        assert_eq!(anchors(&sections), ["method-ladder", "section-2", "section-3", "method-a-b--"]);
    }
}
