//! What people and machines get to see.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::Context;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::{Layer, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// Sends log lines to standard error: warnings only, unless `-v` asks for more or `RUST_LOG` says what.
pub fn init_log(verbose: u8) {
    let default = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    let asked = std::env::var("RUST_LOG").ok().filter(|asked| !asked.is_empty());
    let (filter, not_read) = match asked.map(|asked| asked.parse::<Targets>()).transpose() {
        Ok(filter) => (filter, None),
        Err(error) => (None, Some(error)),
    };
    let filter = filter.unwrap_or(Targets::new().with_default(default));
    // https://no-color.org: any value but the empty one.
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colours = io::stderr().is_terminal() && !no_color;
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(colours).log_internal_errors(false).with_target(false);
    // Spans are at trace level, which `RUST_LOG` alone asks for: a line when each ends, with its times.
    let lines = lines.with_span_events(FmtSpan::CLOSE);
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
    if let Some(error) = not_read {
        tracing::warn!("RUST_LOG is left out of account: {error}");
    }
}

/// An error and what lies under it, without saying anything twice.
pub fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause);
        }
    }
    text
}

/// Whether the error is a reader that went away (`ciphermill … | head`).
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes text and a line end to standard output.
pub fn say(text: impl std::fmt::Display) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(())
}

/// Writes a line to standard error. A standard error that takes nothing is no reason to fail, and `eprintln!` would panic.
pub fn tell(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Says of a failure to print that what was to be printed about has been done all the same.
pub fn after_change<T>(printed: anyhow::Result<T>) -> anyhow::Result<T> {
    printed.context("the change is in effect, but this could not be printed")
}

/// Writes a value as JSON to standard output.
pub fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    say(serde_json::to_string_pretty(value)?)
}

/// A line under the head and no others.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// A table with this head, no wider than the terminal; columns from `numbers_from` on are aligned to the right.
pub fn table(head: &[&str], numbers_from: usize) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic).set_header(head);
    for index in numbers_from..head.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A text that somebody else has chosen, without what a terminal would obey.
pub fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter }).collect()
}

/// A progress bar on a terminal; hidden elsewhere.
pub fn bar(total: Option<u64>, unit: &str, quiet: bool) -> ProgressBar {
    if quiet || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(total),
            format!("{{msg}} [{{bar:32}}] {{human_pos}}/{{human_len}} {unit}, {{rate}}, {{eta}} left"),
        ),
        None => (ProgressBar::new_spinner(), format!("{{spinner}} {{msg}} {{human_pos}} {unit}, {{rate}}")),
    };
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style.with_key("rate", write_rate).progress_chars("━╸ "));
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// The rate of a bar in whole numbers; indicatif's own has four decimals.
fn write_rate(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    // A bar has no place for a failure, and its text takes everything.
    let _ = write!(out, "{}", rate(state.per_sec()));
}

fn rate(per_s: f64) -> String {
    format!("{}/s", HumanCount(per_s.round() as u64))
}

/// A bar over a number of steps whose messages say what goes on; hidden where there is no terminal.
pub fn steps(total: usize, quiet: bool) -> ProgressBar {
    if quiet || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(total as u64);
    if let Ok(style) = ProgressStyle::with_template("{spinner} [{bar:20}] {pos}/{len} {elapsed} {wide_msg}") {
        bar.set_style(style.progress_chars("━╸ "));
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// A rate or count in three or four digits: `3.41 M`.
pub fn short(number: f64) -> String {
    let (scaled, unit) = match number.abs() {
        n if n >= 1e9 => (number / 1e9, " G"),
        n if n >= 1e6 => (number / 1e6, " M"),
        n if n >= 1e4 => (number / 1e3, " k"),
        _ => (number, ""),
    };
    let decimals = match scaled.abs() {
        n if n >= 100.0 || (unit.is_empty() && n.fract() == 0.0) => 0,
        n if n >= 10.0 => 1,
        _ => 2,
    };
    format!("{scaled:.decimals$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        assert_eq!(short(3_412_000.0), "3.41 M");
        assert_eq!(short(24_100_000.0), "24.1 M");
        assert_eq!(short(357_000.0), "357 k");
        assert_eq!(short(999.0), "999");
        assert_eq!(short(0.5), "0.50");
    }

    #[test]
    fn rates_are_whole_numbers() {
        assert_eq!(rate(418_618.730_9), "418,619/s");
        assert_eq!(rate(0.0), "0/s");
    }

    #[test]
    fn a_terminal_is_told_nothing_by_others() {
        assert_eq!(printable("/bin/é\x1b[2J\n"), "/bin/é\u{fffd}[2J\u{fffd}");
    }

    #[test]
    fn causes_are_not_repeated() {
        let error = anyhow::anyhow!("no such file").context("cannot read x: no such file");
        assert_eq!(chain(&error), "cannot read x: no such file");
    }
}
