//! `ciphermill tokens list`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use ciphermill_token::{
    Inventory, KeyClass, KeyReport, Opening, Place, SlotReport, TokenSection, engine_name, pin_from_variable,
};
use serde::Serialize;

use crate::args::TokensListArgs;
use crate::config::Config;
use crate::output::{self, chain, printable, say};
use crate::tokens::{self, Tokens};

/// The state of a token that does not open.
const UNAVAILABLE: &str = "unavailable";

#[derive(Serialize)]
struct TokenJson {
    name: String,
    /// `open`, `disabled` or `unavailable`.
    state: &'static str,
    why: Option<String>,
    module: String,
    place: String,
    version: Option<String>,
    suites: Option<usize>,
    copies: bool,
    process: bool,
    keys: Option<Vec<KeyJson>>,
}

#[derive(Serialize)]
struct KeyJson {
    class: &'static str,
    label: String,
    id: String,
    kind: String,
    extractable: Option<bool>,
    sensitive: Option<bool>,
}

#[derive(Serialize)]
struct ModuleJson {
    module: String,
    slots: Vec<SlotJson>,
    keys: Option<Vec<KeyJson>>,
}

#[derive(Serialize)]
struct SlotJson {
    slot: u64,
    label: String,
    manufacturer: String,
    model: String,
    serial: String,
    mechanisms: usize,
    flags: Vec<&'static str>,
}

pub(super) fn run(args: &TokensListArgs, config: impl FnOnce() -> Result<Config>) -> Result<ExitCode> {
    match &args.module {
        Some(module) => of_module(module, args)?,
        None => configured(args, &config()?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn configured(args: &TokensListArgs, config: &Config) -> Result<()> {
    let mut tokens = Tokens::new(config);
    let sections = config.tokens.iter();
    let rows: Vec<TokenJson> = sections.map(|section| row(section, args.keys, config, &mut tokens)).collect();
    if args.json {
        return output::json(&rows);
    }
    if rows.is_empty() {
        return say("no token is configured; `ciphermill tokens add` does that");
    }
    let mut table = output::table(&["token", "state", "version", "place", "module", "suites"], 5);
    for row in &rows {
        table.add_row([
            row.name.clone(),
            match &row.why {
                Some(why) if row.state == UNAVAILABLE => format!("{UNAVAILABLE}: {why}"),
                // The rule says so itself.
                Some(why) => why.clone(),
                None => row.state.to_owned(),
            },
            row.version.clone().unwrap_or_default(),
            row.place.clone(),
            row.module.clone(),
            row.suites.map_or_else(String::new, |suites| suites.to_string()),
        ]);
    }
    say(table)?;
    for row in &rows {
        if let Some(keys) = &row.keys {
            say(format!("\n{}", row.name))?;
            say(key_table(keys))?;
        }
    }
    Ok(())
}

fn row(section: &TokenSection, with_keys: bool, config: &Config, tokens: &mut Tokens<'_>) -> TokenJson {
    let place = match (section.slot, &section.label) {
        (Some(slot), _) => format!("slot {slot}"),
        (None, label) => format!("label {}", label.as_deref().unwrap_or_default()),
    };
    let mut row = TokenJson {
        name: section.name.clone(),
        state: "open",
        why: None,
        module: section.module.display().to_string(),
        place,
        version: None,
        suites: None,
        copies: section.copies,
        process: section.process,
        keys: None,
    };
    if let Some(rule) = config.disabled.engine(&section.name) {
        (row.state, row.why) = ("disabled", Some(config.reason(rule)));
        return row;
    }
    let opened = tokens.open(section).and_then(|token| {
        let keys = if with_keys { Some(keys(&token.inventory()?)) } else { None };
        Ok((token.engine(), keys))
    });
    match opened {
        Ok((engine, keys)) => {
            row.version = Some(printable(&engine.info().version));
            row.suites = Some(engine.capabilities().iter().map(|one| one.suites.len()).sum());
            row.keys = keys;
        }
        Err(error) => (row.state, row.why) = (UNAVAILABLE, Some(chain(&error))),
    }
    row
}

/// The slots of a module, and the keys of one of its tokens.
fn of_module(module: &Path, args: &TokensListArgs) -> Result<()> {
    let slots = ciphermill_token::slots(module).with_context(|| module.display().to_string())?;
    let slots: Vec<SlotJson> = slots.into_iter().map(slot_json).collect();
    let keys = if args.keys { Some(keys(&ciphermill_token::inventory(&opening(module, args)?)?)) } else { None };
    if args.json {
        return output::json(&ModuleJson { module: module.display().to_string(), slots, keys });
    }
    let mut table = output::table(&["slot", "label", "manufacturer", "model", "serial", "flags", "mechanisms"], 6);
    for slot in slots {
        table.add_row([
            slot.slot.to_string(),
            slot.label,
            slot.manufacturer,
            slot.model,
            slot.serial,
            slot.flags.join(", "),
            slot.mechanisms.to_string(),
        ]);
    }
    say(table)?;
    keys.map_or(Ok(()), |keys| say(format!("\n{}", key_table(&keys))))
}

fn opening(module: &Path, args: &TokensListArgs) -> Result<Opening> {
    let place = match (args.place.slot, &args.place.label) {
        (Some(slot), _) => Place::Slot(slot),
        (None, Some(label)) => Place::Label(label.clone()),
        (None, None) => bail!("--keys of a module needs --slot or --label: of which token?"),
    };
    let pin = match (&args.pin_file, &args.pin_env) {
        (Some(file), _) => Some(tokens::from_file(file)?),
        (None, Some(variable)) => Some(pin_from_variable(variable)?),
        (None, None) => None,
    };
    Ok(Opening { pin, ..Opening::new(engine_name("module"), module, place) })
}

fn keys(inventory: &Inventory) -> Vec<KeyJson> {
    inventory.keys.iter().map(key_json).collect()
}

fn slot_json(report: SlotReport) -> SlotJson {
    let SlotReport { slot, label, manufacturer, model, serial, mechanisms, flags } = report;
    let [label, manufacturer, model, serial] = [label, manufacturer, model, serial].map(|text| printable(&text));
    SlotJson { slot, label, manufacturer, model, serial, mechanisms, flags }
}

fn key_json(report: &KeyReport) -> KeyJson {
    KeyJson {
        class: match report.class {
            KeyClass::Private => "private",
            KeyClass::Public => "public",
            KeyClass::Secret => "secret",
        },
        label: printable(&report.label),
        id: hex::encode(&report.id),
        kind: report.kind.clone(),
        extractable: report.extractable,
        sensitive: report.sensitive,
    }
}

fn key_table(keys: &[KeyJson]) -> comfy_table::Table {
    let word = |value: Option<bool>| match value {
        Some(true) => "yes",
        Some(false) => "no",
        None => "-",
    };
    let mut table = output::table(&["key", "id", "class", "kind", "extractable", "sensitive"], 6);
    for key in keys {
        let words = [key.class, &key.kind, word(key.extractable), word(key.sensitive)];
        let names = [key.label.clone(), key.id.clone()];
        table.add_row(names.into_iter().chain(words.map(str::to_owned)));
    }
    table
}
