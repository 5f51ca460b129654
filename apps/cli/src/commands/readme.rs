//! `ciphermill lab readme`: the performance section of a README, from a record.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use ciphermill_report::{Align, Cell, Mood, Record, Section, Table, terminal};

use crate::args::ReadmeArgs;
use crate::output::say;
use crate::records;

/// The line before the section.
const BEGIN: &str = "<!-- performance: begin -->";

/// The line after it.
const END: &str = "<!-- performance: end -->";

/// Columns of a plot in text.
const PLOT_WIDTH: usize = 96;

/// Tables with more rows are left to the full report.
const ROWS_MAX: usize = 64;

/// Conclusions, and things that are missing, of one method; the full report has the others.
const SAID_MAX: usize = 4;

/// Methods whose first table is not the one to show.
const TABLES: [(&str, usize); 1] = [("principles", 1)];

/// `ciphermill lab readme`.
pub(crate) fn run(args: &ReadmeArgs) -> anyhow::Result<ExitCode> {
    let record = records::read(&args.record)?;
    let file = args.file.display();
    let text = std::fs::read_to_string(&args.file).with_context(|| format!("cannot read {file}"))?;
    let made = replaced(&text, &section(&record, &args.record)).with_context(|| file.to_string())?;
    if made == text {
        say(format!("{file} has what the record makes"))?;
    } else if args.check {
        bail!("{file} is not what {} makes; `ciphermill lab readme` writes it", args.record.display());
    } else {
        records::write(&args.file, &made)?;
        say(format!("wrote the performance section of {file}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The text with its section replaced.
fn replaced(text: &str, section: &str) -> anyhow::Result<String> {
    let missing = |marker: &str| format!("there is no line `{marker}`");
    let begin = text.find(BEGIN).with_context(|| missing(BEGIN))?;
    let end = begin + text[begin..].find(END).with_context(|| missing(END))?;
    Ok(format!("{}{BEGIN}\n{section}{}", &text[..begin], &text[end..]))
}

/// The record as Markdown: the machine, what forbids quoting, and of each method what it found, its first plot and its first
/// table.
fn section(record: &Record, path: &Path) -> String {
    let (machine, path) = (&record.machine, path.display());
    let date = record.made.get(..10).unwrap_or(&record.made);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Generated from [`{path}`]({path}) by `ciphermill lab readme`. Measured on {}, {} cores, {}, on {date}, with \
         ciphermill {}:\n\n    {}\n",
        machine.cpu, machine.cores, machine.os, machine.ciphermill, record.command
    );
    let _ = writeln!(
        out,
        "`ciphermill lab show {path} --html report.html` shows all of it, `ciphermill lab all` measures yours.\n"
    );
    let warnings = record.warnings();
    if !warnings.is_empty() {
        let _ = writeln!(out, "**Noisy: do not quote.** What disturbed this record:\n");
        warnings.iter().for_each(|warning| out.push_str(&format!("- {}\n", plain(warning))));
        out.push('\n');
    }
    record.sections.iter().for_each(|section| method(&mut out, section));
    out
}

fn method(out: &mut String, section: &Section) {
    let _ = writeln!(out, "### `{}`: {}\n", section.method, plain(&section.title));
    if !section.source.is_empty() {
        let _ = writeln!(out, "After {}\n", plain(&section.source));
    }
    let said = section.conclusions.iter().take(SAID_MAX);
    said.for_each(|conclusion| out.push_str(&format!("- {}\n", plain(conclusion))));
    if let Some(more) = section.conclusions.len().checked_sub(SAID_MAX + 1) {
        let _ = writeln!(out, "- … and {} more in the report.", more + 1);
    }
    if section.noisy() > 0 {
        let _ = writeln!(
            out,
            "- {} of {} figures are noisy and should not be quoted.",
            section.noisy(),
            section.measurements.len()
        );
    }
    out.push_str("\n<details><summary>Plot and table</summary>\n\n");
    if let Some(plot) = section.plots.first() {
        let alone = Section { plots: vec![plot.clone()], ..Section::default() };
        // What stands before the plot is the heading of an empty section.
        let empty = terminal(&Section::default(), PLOT_WIDTH, false);
        let drawn = terminal(&alone, PLOT_WIDTH, false);
        for line in drawn.strip_prefix(empty.as_str()).unwrap_or(&drawn).trim_end().lines() {
            out.push_str(format!("    {line}").trim_end());
            out.push('\n');
        }
        out.push('\n');
    }
    let number = TABLES.iter().find(|(method, _)| *method == section.method).map_or(0, |(_, number)| *number);
    if let Some(shown) = section.tables.get(number).filter(|table| table.rows.len() <= ROWS_MAX) {
        table(out, shown);
    }
    if !section.missing.is_empty() {
        let missing = section.missing.iter().take(SAID_MAX);
        let missing = missing.map(|missing| format!("{} ({})", plain(&missing.what), plain(&missing.why)));
        let more = match section.missing.len().checked_sub(SAID_MAX + 1) {
            Some(more) => format!("; and {} more", more + 1),
            None => String::new(),
        };
        let _ = writeln!(out, "Not measured: {}{more}.\n", missing.collect::<Vec<_>>().join("; "));
    }
    out.push_str("</details>\n\n");
}

fn table(out: &mut String, table: &Table) {
    let _ = writeln!(out, "{}\n", plain(&table.title));
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    out.push_str(&line(table.columns.iter().map(|column| plain(&column.name)).collect()));
    let rule = |align: Align| if align == Align::Right { "---:" } else { "---" };
    out.push_str(&format!(
        "|{}|\n",
        table.columns.iter().map(|column| rule(column.align)).collect::<Vec<_>>().join("|")
    ));
    table.rows.iter().for_each(|row| out.push_str(&line(row.iter().map(cell).collect())));
    out.push('\n');
    if !table.note.is_empty() {
        let _ = writeln!(out, "{}\n", plain(&table.note));
    }
}

fn cell(cell: &Cell) -> String {
    let text = plain(&cell.text);
    match cell.mood {
        Mood::Good if !text.is_empty() => format!("**{text}**"),
        Mood::Doubtful if !text.contains("noisy") => format!("{text} noisy"),
        _ => text,
    }
}

/// Text in which Markdown sees nothing but text, on one line.
fn plain(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut out = String::new();
    for (index, part) in words.join(" ").split('`').enumerate() {
        if index > 0 {
            out.push('`');
        }
        // Within back quotes nothing is special but a table's bar.
        let special: &[char] = if index % 2 == 1 { &['|'] } else { &['|', '*', '_', '<', '['] };
        for letter in part.chars() {
            if special.contains(&letter) {
                out.push('\\');
            }
            out.push(letter);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ciphermill_report::{Axis, Better, Environment, Look, Machine, Plot, RECORD_FORMAT, Scale, Series};

    fn record() -> Record {
        let mut section = Section::new("peaks", "Peaks of *everything*", "nobody, 1999");
        section.conclusions.push("Lanes win.".to_owned());
        section.measured("a", 1.0, "ns/op", 0.2, Better::Less);
        section.measured("b", 1.0, "ns/op", 0.0, Better::Less);
        section.lacks("ipsec-mb", "not installed");
        let mut plot = Plot::new("Rates", Axis::new("bytes", Scale::Log2), Axis::new("Mb/s", Scale::Log10));
        plot.series.push(Series::new("lanes", Look::Measured, vec![[16.0, 100.0], [1024.0, 9000.0]]));
        section.plots.push(plot);
        let mut shown = Table::new("Figures", &["what", "a|b"], 1);
        shown.row(["x".into(), Cell::from("1.5").mood(Mood::Doubtful)]);
        shown.row(["y".into(), Cell::from("2.5").mood(Mood::Good)]);
        section.tables.push(shown);
        Record {
            format: RECORD_FORMAT,
            made: "2026-01-31T10:20:30Z".to_owned(),
            command: "ciphermill lab all --core 1".to_owned(),
            machine: Machine { cpu: "A Processor".to_owned(), optimised: true, ..Machine::here() },
            environment: Environment { warnings: vec!["the clock drifted; wait".to_owned()], ..Environment::default() },
            sections: vec![section],
        }
    }

    #[test]
    fn a_section_has_what_a_reader_needs() {
        let made = section(&record(), Path::new("lab/records/a/2026-01-31.json"));
        for words in [
            "[`lab/records/a/2026-01-31.json`](lab/records/a/2026-01-31.json)",
            "A Processor",
            "on 2026-01-31",
            "    ciphermill lab all --core 1\n",
            "**Noisy: do not quote.**",
            "- the clock drifted; wait\n",
            "### `peaks`: Peaks of \\*everything\\*",
            "- Lanes win.\n- 1 of 2 figures are noisy",
            "| what | a\\|b |\n|---|---:|\n| x | 1.5 noisy |\n| y | **2.5** |\n",
            "Not measured: ipsec-mb (not installed).",
            "Rates",
        ] {
            assert!(made.contains(words), "`{words}` is missing in:\n{made}");
        }
        assert!(made.lines().all(|line| line.trim_end() == line), "no blanks at line ends:\n{made}");
        let quiet = Record { environment: Environment::default(), sections: Vec::new(), ..record() };
        assert!(!section(&quiet, Path::new("a.json")).contains("do not quote"));
    }

    #[test]
    fn only_what_stands_between_the_markers_is_replaced() {
        let text = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        assert_eq!(replaced(&text, "new\n").expect("markers"), format!("before\n{BEGIN}\nnew\n{END}\nafter\n"));
        assert!(replaced("no marker", "new").expect_err("none").to_string().contains("performance: begin"));
        let half = format!("{BEGIN}\nold");
        assert!(replaced(&half, "new").expect_err("half").to_string().contains("performance: end"));
    }

    /// The README shows what was measured: the record that it names, and nothing else.
    #[test]
    fn the_readme_is_what_its_record_makes() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join("README.md")).expect("the README");
        let from = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once("](")).map(|(_, rest)| rest);
        let path =
            from.and_then(|rest| rest.split_once(')')).map(|(path, _)| path).expect("the section names its record");
        let record = records::read(&root.join(path)).expect("the record");
        let made = replaced(&text, &section(&record, Path::new(path))).expect("markers");
        // Not compared by assert_eq, which would print both.
        assert!(made == text, "README.md differs: run `ciphermill lab readme {path}`");
    }
}
