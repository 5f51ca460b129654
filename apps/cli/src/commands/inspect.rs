//! `ciphermill inspect`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Context;
use ciphermill_table::{
    Check, ColumnSpec, FolderInspection, Inspection, ManifestColumn, NoProgress, Origin, ProtectJob, RowBinding,
    UnprotectJob,
};
use serde::Serialize;

use super::input::{Input, load_root};
use super::protect::KEY_NAME;
use crate::args::InspectArgs;
use crate::config::Config;
use crate::output::{self, say};
use crate::{interrupt, mills, secret};

/// `ciphermill inspect`.
pub(crate) fn run(args: &InspectArgs, config: &Config) -> anyhow::Result<ExitCode> {
    if args.rebuild {
        rebuild(args, config)?;
        return show(args, config).context("the new manifest is in effect, but the table could not be inspected");
    }
    show(args, config)
}

fn show(args: &InspectArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let job = UnprotectJob { manifest: args.manifest.clone(), ..UnprotectJob::new(&args.input, "") };
    let job = UnprotectJob { cancel: interrupt::watch()?, ..job };
    let protected = Input::open(&job)?;
    let mut key = None;
    if args.verify {
        let keystore = secret::open(&args.keystore, config)?;
        let mill = mills::open(None, config)?;
        let roots = protected.roots(&job, &keystore, &mill)?;
        key = Some((mill, roots));
    }
    let is_good = match protected {
        Input::Table(protected) => {
            let key = key.as_ref().map(|(mill, roots)| (mill, &roots[0]));
            let found = ciphermill_table::inspect(*protected, &job, key, &NoProgress)?;
            if args.json {
                output::json(&to_json(&found))?
            } else {
                print(args, &found)?
            }
            found.is_good()
        }
        Input::Folder(folder) => {
            let key = key.as_ref().map(|(mill, roots)| (mill, &roots[..]));
            let found = ciphermill_table::inspect_folder(&folder, &job, key, &NoProgress)?;
            if args.json {
                output::json(&folder_json(&found))?
            } else {
                print_folder(args, &found)?
            }
            found.is_good()
        }
    };
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Serialize)]
struct FolderJson<'a> {
    manifest: String,
    signature: CheckJson<'a>,
    unfinished: bool,
    tables: BTreeMap<&'a str, InspectionJson<'a>>,
}

fn folder_json(found: &FolderInspection) -> FolderJson<'_> {
    FolderJson {
        manifest: found.manifest.display().to_string(),
        signature: check_json(&found.signature),
        unfinished: found.journal.is_some(),
        tables: found.tables.iter().map(|(name, table)| (name.as_str(), to_json(table))).collect(),
    }
}

fn print_folder(args: &InspectArgs, found: &FolderInspection) -> anyhow::Result<()> {
    let mut table = output::table(&["table", "key", "hash", "signature", "values", "rows", "columns"], 5);
    for (name, of_table) in &found.tables {
        let key = &of_table.manifest.root_key;
        table.add_row([
            name.clone(),
            format!("{} version {}", key.name, key.version),
            check_json(&of_table.hash).result.to_owned(),
            check_json(&of_table.signature).result.to_owned(),
            check_json(&of_table.values).result.to_owned(),
            of_table.manifest.rows.to_string(),
            of_table.manifest.columns.len().to_string(),
        ]);
    }
    say(table)?;
    let rows: u64 = found.tables.iter().map(|(_, table)| table.manifest.rows).sum();
    say(format!("{}: {}, {rows} rows", args.input.display(), super::protect::tables(found.tables.len())))?;
    let signature = check_json(&found.signature);
    let reason = signature.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    say(format!("manifest: {}; signature: {}{reason}", found.manifest.display(), signature.result))?;
    if let Some(journal) = &found.journal {
        say(format!("unfinished: a run that replaces tables has not ended; its journal is {}", journal.display()))?;
    }
    for (name, of_table) in &found.tables {
        if let Some(problem) = of_table.problem() {
            say(format!("{name}: {problem}"))?;
        }
    }
    Ok(())
}

fn rebuild(args: &InspectArgs, config: &Config) -> anyhow::Result<()> {
    let mut job = ProtectJob::new(&args.input, "");
    for column in &args.columns {
        job = job.column(ColumnSpec::parse(column)?);
    }
    (job.delimiter, job.no_header, job.force) = (args.delimiter, args.no_header, args.force);
    job.bind_row =
        args.bind_row.as_ref().map(|column| RowBinding { column: column.clone(), table: args.bind_table.clone() });
    let name = args.key.as_deref().or(config.keystore.key.as_deref()).unwrap_or(KEY_NAME);
    let keystore = secret::open(&args.keystore, config)?;
    let version = args.key_version.map_or_else(|| keystore.current(name).map(|key| key.version), Ok)?;
    let mill = mills::open(None, config)?;
    let root = load_root(&keystore, &mill, name, version)?;
    drop(keystore);
    job.cancel = interrupt::watch()?;
    ciphermill_table::rebuild(&job, &mill, &root, &NoProgress)?;
    Ok(())
}

#[derive(Serialize)]
struct InspectionJson<'a> {
    manifest: String,
    found: &'static str,
    format: ciphermill_table::Format,
    #[serde(skip_serializing_if = "Option::is_none")]
    unnamed_columns: Option<u32>,
    created: &'a str,
    tool_version: &'a str,
    key: &'a str,
    key_version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    converted_from: Option<ciphermill_table::Format>,
    rows: u64,
    bytes: u64,
    hash: CheckJson<'a>,
    signature: CheckJson<'a>,
    values: CheckJson<'a>,
    columns: Vec<ColumnJson<'a>>,
}

#[derive(Serialize)]
struct CheckJson<'a> {
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct ColumnJson<'a> {
    name: &'a str,
    logical: &'a str,
    method: &'a str,
    options: &'a str,
    data_type: &'a str,
    encoding: &'a str,
    values: u64,
    nulls: u64,
    bound: Vec<String>,
}

/// What each value of a column is bound to by itself, without the file's hash.
fn bound(column: &ManifestColumn) -> Vec<String> {
    let mut bound = Vec::new();
    if matches!(column.method.as_str(), "random" | "deterministic") {
        bound.push("column".to_owned());
        if let Some(RowBinding { column, table }) = &column.bound_to {
            bound.push(format!("row, by {column}"));
            if !table.is_empty() {
                bound.push(format!("table {table}"));
            }
        }
    }
    bound
}

fn to_json(found: &Inspection) -> InspectionJson<'_> {
    let manifest = &found.manifest;
    let columns = manifest.columns.iter().map(|column| ColumnJson {
        name: &column.name,
        logical: &column.logical,
        method: &column.method,
        options: &column.options,
        data_type: &column.data_type,
        encoding: &column.encoding,
        values: column.values,
        nulls: column.nulls,
        bound: bound(column),
    });
    InspectionJson {
        manifest: found.manifest_path.display().to_string(),
        found: match found.origin {
            Origin::Beside => "beside",
            Origin::Previous => "previous",
            Origin::Footer => "footer",
        },
        format: manifest.format,
        unnamed_columns: manifest.unnamed_columns,
        created: &manifest.created,
        tool_version: &manifest.tool_version,
        key: &manifest.root_key.name,
        key_version: manifest.root_key.version,
        converted_from: manifest.converted_from.as_ref().map(|from| from.format),
        rows: manifest.rows,
        bytes: manifest.bytes,
        hash: check_json(&found.hash),
        signature: check_json(&found.signature),
        values: check_json(&found.values),
        columns: columns.collect(),
    }
}

fn check_json(check: &Check) -> CheckJson<'_> {
    let (result, reason) = match check {
        Check::Verified => ("verified", None),
        Check::Failed(reason) => ("failed", Some(reason.as_str())),
        Check::NotChecked(reason) => ("not checked", Some(*reason)),
    };
    CheckJson { result, reason }
}

fn print(args: &InspectArgs, found: &Inspection) -> anyhow::Result<()> {
    let manifest = &found.manifest;
    let mut table =
        output::table(&["column", "method", "options", "type", "values", "nulls", "each value bound to"], 4);
    for column in &manifest.columns {
        let bound = bound(column);
        table.add_row([
            column.name.clone(),
            column.method.clone(),
            column.options.clone(),
            column.data_type.clone(),
            column.values.to_string(),
            column.nulls.to_string(),
            if bound.is_empty() { "nothing".to_owned() } else { bound.join(", ") },
        ]);
    }
    say(table)?;
    say(format!(
        "{}: {} rows under key {} version {}, protected at {} by version {}",
        args.input.display(),
        manifest.rows,
        manifest.root_key.name,
        manifest.root_key.version,
        manifest.created,
        manifest.tool_version
    ))?;
    if let Some(columns) = manifest.unnamed_columns {
        say(format!("no header: {columns} columns, called by their places"))?;
    }
    if let Some(from) = &manifest.converted_from {
        say(format!("converted: from {} to {}", from.format.name(), manifest.format.name()))?;
    }
    let place = match found.origin {
        Origin::Beside => "",
        Origin::Previous => ", the previous one: replacing the table was cut short",
        Origin::Footer => ", in the footer",
    };
    say(format!("manifest: {}{place}", found.manifest_path.display()))?;
    for (what, check) in [
        ("file, by the hash in the manifest", &found.hash),
        ("manifest, by its signature", &found.signature),
        ("values of random and deterministic", &found.values),
    ] {
        let CheckJson { result, reason } = check_json(check);
        let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        say(format!("{what}: {result}{reason}"))?;
    }
    Ok(())
}
