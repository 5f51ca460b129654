//! `ciphermill protect` and `ciphermill unprotect`.

use std::collections::BTreeMap;
use std::io::{Write, stderr, stdout};
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use ciphermill_table::{
    BadValues, ColumnSpec, ColumnSummary, Format, InClear, OnBad, Origin, Position, ProtectJob, RootKey, RowBinding,
    STANDARD_STREAM, Summary, UnprotectJob, is_folder, manifest_path,
};
use indicatif::ProgressBar;
use serde::Serialize;

use super::input::{Input, load_root};
use crate::args::{FormatArg, ProtectArgs, TableArgs, UnprotectArgs};
use crate::config::Config;
use crate::output::{self, short};
use crate::policy::TablePolicy;
use crate::{interrupt, metrics_socket, mills, secret};

/// The key that is used when none is named anywhere.
pub(crate) const KEY_NAME: &str = "default";

/// `ciphermill protect`.
pub(crate) fn protect(args: &ProtectArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let mut job = ProtectJob::new(&args.input, &args.output);
    let policy = args.policy.as_deref().map(TablePolicy::read).transpose()?;
    for column in &args.columns {
        job = job.column(ColumnSpec::parse(column)?);
    }
    job.bind_row =
        args.bind_row.as_ref().map(|column| RowBinding { column: column.clone(), table: args.bind_table.clone() });
    let mut policy_key = None;
    if let Some(policy) = policy {
        job.columns.extend(policy.columns);
        job.bind_row = job.bind_row.or(policy.bind_row);
        job.no_header = policy.no_header;
        policy_key = policy.key;
    }
    job.dry_run = args.dry_run;
    job.reject_file.clone_from(&args.reject_file);
    job.manifest = args.manifest.clone();
    job.format = args.format.map(format);
    job.delimiter = args.delimiter;
    job.no_header |= args.no_header;
    job.codec = args.codec;
    job.force = args.common.force;
    job.threads = args.common.threads.map(usize::from);
    let name = key_name(args.key.as_deref().or(policy_key.as_deref()), config);
    let keystore = secret::open(&args.keystore, config)?;
    let version = keystore.root_for_protection(name, args.key_version)?.version;
    let mill = mills::open_for_tables(args.common.engine.as_deref(), config)?;
    let root = load_root(&keystore, &mill, name, version)?;
    drop(keystore);
    job.cancel = interrupt::watch()?;
    let _served = metrics_socket::serve(args.common.metrics.metrics_socket.as_deref(), &mill)?;
    let bar = output::bar(Some(0), "rows", args.common.quiet || args.common.json).with_message("protect");
    let watch = |position: &Position| show(&bar, position);
    let summary = match is_folder(&job.input) {
        true => ciphermill_table::protect_folder(&job, &mill, &root, &watch),
        false => ciphermill_table::protect(&job, &mill, &root, &watch),
    };
    bar.finish_and_clear();
    let summary = summary?;
    say_converted(&summary);
    let would_fail = |column: &ColumnSummary| column.on_bad == OnBad::Error && !column.bad.is_empty();
    if job.dry_run {
        report("dry run", &summary, &root, &args.common, &args.output)?;
    } else {
        output::after_change(report("protect", &summary, &root, &args.common, &args.output))?;
    }
    Ok(if summary.columns.iter().any(would_fail) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The key to use: the one that was named, else the configuration's.
pub(crate) fn key_name<'a>(named: Option<&'a str>, config: &'a Config) -> &'a str {
    named.or(config.keystore.key.as_deref()).unwrap_or(KEY_NAME)
}

/// `ciphermill unprotect`.
pub(crate) fn unprotect(args: &UnprotectArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let mut job = UnprotectJob::new(&args.input, &args.output);
    job.manifest = args.manifest.clone();
    for renamed in &args.rename {
        let Some((logical, now)) = renamed.split_once('=') else {
            bail!("--rename {renamed}: say it as LOGICAL=NAME");
        };
        job.renamed.push((now.to_owned(), logical.to_owned()));
    }
    job.columns = args.columns.clone();
    job.format = args.format.map(format);
    job.allow_changed = args.allow_changed;
    job.force = args.common.force;
    job.threads = args.common.threads.map(usize::from);
    let protected = Input::open(&job)?;
    let keystore = secret::open(&args.keystore, config)?;
    let mill = mills::open_for_tables(args.common.engine.as_deref(), config)?;
    let roots = protected.roots(&job, &keystore, &mill)?;
    drop(keystore);
    job.cancel = interrupt::watch()?;
    let _served = metrics_socket::serve(args.common.metrics.metrics_socket.as_deref(), &mill)?;
    let quiet = args.common.quiet || args.common.json;
    let bar = output::bar(Some(protected.rows()), "rows", quiet).with_message("unprotect");
    let watch = |position: &Position| show(&bar, position);
    let summary = match protected {
        Input::Table(protected) => ciphermill_table::restore(*protected, &job, &mill, &roots[0], &watch),
        Input::Folder(folder) => ciphermill_table::restore_folder(*folder, &job, &mill, &roots, &watch),
    };
    bar.finish_and_clear();
    if let Ok(summary) = &summary {
        say_findings(summary);
    }
    output::after_change(report("unprotect", &summary?, &roots[0], &args.common, &args.output))
}

/// Columns that are named when their types are lost.
const TYPES_NAMED: usize = 20;

/// Says on standard error that the table has another format now, and what got lost.
fn say_converted(summary: &Summary) {
    let Some(converted) = &summary.converted else { return };
    let (from, to) = (converted.from.name(), converted.to.name());
    let lost = converted.types_lost.iter().take(TYPES_NAMED).map(|(name, data_type)| format!("{name} ({data_type})"));
    let lost: Vec<String> = lost.collect();
    let more = if converted.types_lost.len() > lost.len() { " …" } else { "" };
    let types = match lost.is_empty() {
        true => String::new(),
        false => format!("; types that are lost: {}{more}", lost.join(", ")),
    };
    output::tell(format_args!("ciphermill: converted from {from} to {to}: all values are texts{types}"));
}

/// Says on standard error what is not as usual with what was restored.
pub(super) fn say_findings(summary: &Summary) {
    say_converted(summary);
    if !summary.missing.is_empty() {
        let missing = summary.missing.join(", ");
        output::tell(format_args!("ciphermill: protected columns that are not there any more: {missing}"));
    }
    match summary.manifest_origin {
        Origin::Beside => {}
        Origin::Previous => output::tell(format_args!(
            "ciphermill: replacing this table was cut short: it is the one that was there before; its manifest is kept in {}",
            summary.manifest.display()
        )),
        Origin::Footer => output::tell(format_args!(
            "ciphermill: {} was missing, damaged or another table's; the manifest in the table's own footer was used",
            manifest_path(&summary.manifest).display()
        )),
    }
}

fn format(format: FormatArg) -> Format {
    match format {
        FormatArg::Csv => Format::Csv,
        FormatArg::Parquet => Format::Parquet,
    }
}

pub(super) fn show(bar: &ProgressBar, position: &Position) {
    match (position.rows_total, position.bytes_total) {
        (Some(rows), _) => bar.set_length(rows),
        (None, Some(bytes)) if position.bytes > 0 => {
            // CSV does not say how many rows there are; the bytes read so far tell about how many.
            let share = bytes as f64 / position.bytes as f64;
            bar.set_length((position.rows as f64 * share) as u64);
        }
        _ => {}
    }
    bar.set_position(position.rows);
}

#[derive(Serialize)]
struct SummaryJson {
    command: &'static str,
    key: String,
    key_version: u32,
    rows: u64,
    rejected_rows: u64,
    values: u64,
    nulls: u64,
    processed: u64,
    bytes: u64,
    seconds: f64,
    seconds_in_mill: f64,
    values_per_s: f64,
    engines: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tables: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tables_done_before: Option<usize>,
    manifest: String,
    still_protected: Vec<String>,
    missing: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    converted_from: Option<Format>,
    columns: Vec<ColumnJson>,
}

#[derive(Serialize)]
struct ColumnJson {
    name: String,
    logical: String,
    method: &'static str,
    suite: String,
    engines: Vec<&'static str>,
    values: u64,
    nulls: u64,
    processed: u64,
    bytes: u64,
    seconds_in_mill: f64,
    values_per_s: f64,
    left_as_tokens: bool,
    values_left_as_tokens: u64,
    on_bad: &'static str,
    bad: Vec<BadJson>,
    bound_to_row: Option<String>,
    in_clear: Option<InClearJson>,
}

/// Values of a column that its method could not take, for one reason.
#[derive(Serialize)]
struct BadJson {
    rule: &'static str,
    count: u64,
    first_rows: Vec<u64>,
}

/// What `ff1` left in clear within a column's values.
#[derive(Serialize)]
struct InClearJson {
    keep_first: usize,
    keep_last: usize,
    kept: u64,
    separators: BTreeMap<char, u64>,
}

/// Prints the summary: on standard output, or on standard error where that carries the table.
pub(super) fn report(
    command: &'static str,
    summary: &Summary,
    root: &RootKey,
    args: &TableArgs,
    table: &Path,
) -> anyhow::Result<ExitCode> {
    let mut out: Box<dyn Write> =
        if table == Path::new(STANDARD_STREAM) { Box::new(stderr().lock()) } else { Box::new(stdout().lock()) };
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&to_json(command, summary, root))?)?;
    } else if !args.quiet {
        print(&mut out, command, summary, root)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn to_json(command: &'static str, summary: &Summary, root: &RootKey) -> SummaryJson {
    let columns = summary.columns.iter().map(|column| ColumnJson {
        name: column.name.clone(),
        logical: column.logical.clone(),
        method: column.method,
        suite: column.suite.to_string(),
        engines: column.engines.clone(),
        values: column.values,
        nulls: column.nulls,
        processed: column.processed,
        bytes: column.bytes,
        seconds_in_mill: column.in_mill.as_secs_f64(),
        values_per_s: column.processed as f64 / column.in_mill.as_secs_f64().max(1e-9),
        left_as_tokens: column.left_as_tokens,
        values_left_as_tokens: column.values_left_as_tokens,
        on_bad: column.on_bad.name(),
        bad: column
            .bad
            .iter()
            .map(|values| BadJson { rule: values.rule, count: values.count, first_rows: values.rows.clone() })
            .collect(),
        bound_to_row: column.bound_to_row.clone(),
        in_clear: column.in_clear.as_ref().map(|in_clear| InClearJson {
            keep_first: in_clear.keep_first,
            keep_last: in_clear.keep_last,
            kept: in_clear.kept,
            separators: in_clear.separators.iter().copied().collect(),
        }),
    });
    SummaryJson {
        command,
        key: root.name.clone(),
        key_version: root.version,
        rows: summary.rows,
        rejected_rows: summary.rejected_rows,
        values: summary.values,
        nulls: summary.nulls,
        processed: summary.processed,
        bytes: summary.bytes,
        seconds: summary.total.as_secs_f64(),
        seconds_in_mill: summary.in_mill.as_secs_f64(),
        values_per_s: summary.processed_per_s(),
        engines: summary.engines(),
        tables: summary.files.map(|files| files.done),
        tables_done_before: summary.files.map(|files| files.before),
        manifest: summary.manifest.display().to_string(),
        still_protected: summary.still_protected.clone(),
        missing: summary.missing.clone(),
        converted_from: summary.converted.as_ref().map(|converted| converted.from),
        columns: columns.collect(),
    }
}

fn print(out: &mut dyn Write, command: &str, summary: &Summary, root: &RootKey) -> anyhow::Result<()> {
    let head = ["column", "method", "suite", "engine", "values", "nulls", "operations", "values/s"];
    let mut table = output::table(&head, 4);
    for column in &summary.columns {
        let rate = column.processed as f64 / column.in_mill.as_secs_f64().max(1e-9);
        table.add_row([
            column.name.clone(),
            column.method.to_owned(),
            column.suite.to_string(),
            if column.left_as_tokens { "left as tokens".to_owned() } else { column.engines.join(", ") },
            column.values.to_string(),
            column.nulls.to_string(),
            column.processed.to_string(),
            if column.processed == 0 { "-".to_owned() } else { short(rate) },
        ]);
    }
    if let Some(files) = summary.files.filter(|files| files.done == 0) {
        writeln!(out, "{command}: nothing to do, {} done before", tables(files.before))?;
        return Ok(());
    }
    writeln!(out, "{table}")?;
    if !summary.still_protected.is_empty() {
        let (names, manifest) = (summary.still_protected.join(", "), summary.manifest.display());
        writeln!(out, "still protected: {names}; their manifest is {manifest}")?;
    }
    for column in &summary.columns {
        for bad in &column.bad {
            writeln!(out, "{}: {}", column.name, bad_values(bad, column.on_bad))?;
        }
        if column.values_left_as_tokens != 0 {
            writeln!(out, "{}: {} values left as tokens", column.name, column.values_left_as_tokens)?;
        }
        if let Some(row_id) = &column.bound_to_row {
            writeln!(out, "{}: bound to the rows by `{row_id}`", column.name)?;
        }
        if let Some(text) = column.in_clear.as_ref().and_then(in_clear) {
            writeln!(out, "{}: in clear: {text}", column.name)?;
        }
    }
    let files = summary.files.map(|files| match files.before {
        0 => format!("{}, ", tables(files.done)),
        before => format!("{} ({before} done before), ", tables(files.done)),
    });
    writeln!(
        out,
        "{command}: {}{} rows in {:.2} s, {:.2} s of it in the mill ({} values/s); key {} version {}",
        files.unwrap_or_default(),
        summary.rows,
        summary.total.as_secs_f64(),
        summary.in_mill.as_secs_f64(),
        short(summary.processed_per_s()),
        root.name,
        root.version
    )?;
    Ok(())
}

pub(super) fn tables(count: usize) -> String {
    if count == 1 { "1 table".to_owned() } else { format!("{count} tables") }
}

/// Values that a method could not take, in words.
fn bad_values(bad: &BadValues, on_bad: OnBad) -> String {
    let rows: Vec<String> = bad.rows.iter().map(u64::to_string).collect();
    let more = if bad.count > bad.rows.len() as u64 { " …" } else { "" };
    let fate = match on_bad {
        OnBad::Error => "errors",
        OnBad::Null => "left out",
        OnBad::Token => "tokens instead",
        OnBad::Reject => "rejected with their rows",
    };
    let places = if rows.is_empty() { String::new() } else { format!(" (rows {}{more})", rows.join(", ")) };
    format!("{}: {} values{places}, {fate}", bad.rule, bad.count)
}

/// What stayed in clear within a column's values, in words.
fn in_clear(in_clear: &InClear) -> Option<String> {
    let ends = match (in_clear.keep_first, in_clear.keep_last) {
        (0, 0) => None,
        (first, 0) => Some(format!("the first {first}")),
        (0, last) => Some(format!("the last {last}")),
        (first, last) => Some(format!("the first {first} and the last {last}")),
    };
    let kept = ends.map(|ends| format!("{ends} characters of each value ({} characters)", in_clear.kept));
    let separators = in_clear.separators.iter().map(|(character, count)| format!("`{character}` ({count} times)"));
    let parts: Vec<String> = kept.into_iter().chain(separators).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
