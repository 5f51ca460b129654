//! `ciphermill keys`: what is kept in the keystore.

mod forms;
mod import;
pub(crate) mod public;

use std::fmt;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use ciphermill::{GeneratedPair, KeyPolicy};
use ciphermill_contract::suite::{Digest, KeyPair, Mac};
use ciphermill_contract::{KeyForm, Suite};
use ciphermill_keys::keystore::{KdfParameters, KeyKind, KeyRecord, KeyState, Keystore, ROOT_KEY_LEN};
use serde::Serialize;

use crate::args::{BackupArgs, KeysCommand, KeystoreArgs, PublicForm};
use crate::config::Config;
use crate::mills;
use crate::output::{self, say};
use crate::secret;

/// The suite that column keys are derived with.
const DERIVATION: Suite = Suite::Mac(Mac::Hmac(Digest::Sha256));

/// Runs a command of the keystore.
pub(crate) fn run(command: KeysCommand, config: &Config) -> anyhow::Result<ExitCode> {
    match command {
        KeysCommand::Generate { name, suite, exportable, description, keystore } => {
            generate(&name, suite.map(|suite| KeyUse { suite, exportable }), &description, &keystore, config)?;
        }
        KeysCommand::Import { name, file, hex, suite, exportable, description, keystore } => {
            let key_use = KeyUse { suite: suite.unwrap_or(DERIVATION), exportable };
            import(&name, &file, hex, key_use, &description, &keystore, config)?;
        }
        KeysCommand::List { json, keystore } => list(json, &keystore, config)?,
        KeysCommand::Rotate { name, file, hex, keystore } => {
            rotate(&name, file.as_deref(), hex, &keystore, config)?;
        }
        KeysCommand::Destroy { name, version, yes, keystore } => {
            if !yes {
                bail!("what version {version} of {name} protected would be lost for good; say --yes to do it");
            }
            secret::open(&keystore, config)?.destroy(&name, version)?;
            say_done(format!("{name}: version {version} is destroyed"))?;
        }
        KeysCommand::Public { name, version, suite, format, keystore } => {
            public_half(&secret::open(&keystore, config)?, &name, version, suite, format)?;
        }
        KeysCommand::Backup { file, backup, keystore } => back_up(&file, &backup, &keystore, config)?,
        KeysCommand::Restore { file, backup, keystore } => restore(&file, &backup, &keystore, config)?,
        KeysCommand::Passwd { new_passphrase_file, new_master_key_file, keystore } => {
            let mut store = secret::open(&keystore, config)?;
            let secret = secret::new_secret(new_passphrase_file.as_deref(), new_master_key_file.as_deref())?;
            store.change_secret(&secret, KdfParameters::default())?;
            say_done(format!("{} opens with the new secret only", store.path().display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a key that `protect` derives column keys from.
pub(crate) fn generate_root(keystore: &mut Keystore, name: &str, description: &str) -> anyhow::Result<KeyRecord> {
    let kind = KeyKind::Secret { len: ROOT_KEY_LEN };
    Ok(keystore.generate_described(name, kind, KeyPolicy::only(DERIVATION), description)?)
}

/// What a key may be used for.
#[derive(Clone, Copy)]
struct KeyUse {
    suite: Suite,
    exportable: bool,
}

impl KeyUse {
    fn policy(self) -> KeyPolicy {
        KeyPolicy::only(self.suite).exportable(self.exportable)
    }
}

fn generate(
    name: &str,
    key_use: Option<KeyUse>,
    description: &str,
    args: &KeystoreArgs,
    config: &Config,
) -> anyhow::Result<()> {
    let Some(key_use) = key_use else {
        let mut keystore = open_or_create(args, config)?;
        return say_current(&generate_root(&mut keystore, name, description)?);
    };
    let (suite, policy) = (key_use.suite, key_use.policy());
    let record = match (KeyKind::for_suite(suite), suite.key_pair()) {
        (Some(kind), _) => open_or_create(args, config)?.generate_described(name, kind, policy, description)?,
        (None, Some(pair)) => {
            // Before a keystore is made: a pair that cannot be generated leaves none behind.
            let pair = generate_pair(pair, config)?;
            open_or_create(args, config)?.import_described(name, pair.private(), policy, description)?
        }
        (None, None) => bail!("{suite} takes no key"),
    };
    say_current(&record)
}

fn generate_pair(pair: KeyPair, config: &Config) -> anyhow::Result<GeneratedPair> {
    Ok(mills::open(None, config)?.generate_pair(pair)?)
}

/// The kind of pairs that a version follows which is none of random bytes alone.
fn pair_of(record: &KeyRecord) -> Option<KeyPair> {
    let is_pair = record.kind.is_none() && record.form == KeyForm::Private && !record.policy.suites.is_any();
    record.policy.suites.iter().next().filter(|_| is_pair)?.key_pair()
}

fn import(
    name: &str,
    file: &Path,
    is_hex: bool,
    key_use: KeyUse,
    description: &str,
    args: &KeystoreArgs,
    config: &Config,
) -> anyhow::Result<()> {
    let key = import::read(file, is_hex, key_use.suite)?;
    let mut keystore = open_or_create(args, config)?;
    let record = keystore.import_described(name, key.material(), key_use.policy(), description)?;
    warn_of_short_root(&record);
    say_current(&record)
}

fn rotate(name: &str, file: Option<&Path>, is_hex: bool, args: &KeystoreArgs, config: &Config) -> anyhow::Result<()> {
    let mut keystore = secret::open(args, config)?;
    let record = match file {
        None => match pair_of(&keystore.current(name)?) {
            Some(pair) => keystore.rotate_to(name, generate_pair(pair, config)?.private())?,
            None => keystore.rotate(name)?,
        },
        Some(file) => {
            let old = keystore.current(name)?;
            let suites = &old.policy.suites;
            let suite = if suites.is_any() { None } else { suites.iter().next() };
            let suite = suite.with_context(|| format!("{name} is for any suite, so that a file cannot be checked"))?;
            keystore.rotate_to(name, import::read(file, is_hex, suite)?.material())?
        }
    };
    warn_of_short_root(&record);
    say_done(format!("{name}: version {} is current; older versions still decrypt", record.version))
}

/// Tells of a change that is in effect. That it cannot be told must not look as if it had failed.
fn say_done(text: impl fmt::Display) -> anyhow::Result<()> {
    output::after_change(say(text))
}

fn say_current(record: &KeyRecord) -> anyhow::Result<()> {
    say_done(format!("{}: version {} of {} bits is current", record.name, record.version, record.key_len * 8))
}

fn warn_of_short_root(record: &KeyRecord) {
    if record.form == KeyForm::Secret && record.policy.suites.contains(DERIVATION) && record.key_len < ROOT_KEY_LEN {
        output::tell(format_args!(
            "{}: {} bits; 256 are recommended for a key that others are derived from",
            record.name,
            record.key_len * 8
        ));
    }
}

fn public_half(
    keystore: &Keystore,
    name: &str,
    version: Option<u32>,
    suite: Option<Suite>,
    format: PublicForm,
) -> anyhow::Result<()> {
    let (suite, der) = keystore.with_key(name, version, |record, key| {
        if key.form == KeyForm::Secret {
            bail!("{name} is a secret key; it has no public half");
        }
        let suites = &record.policy.suites;
        let suite = match suite {
            Some(suite) if suites.contains(suite) => suite,
            Some(suite) => bail!("{name} is not for {suite}"),
            None if suites.is_any() => bail!("{name} is for any suite; say which with --suite"),
            None => suites.iter().next().with_context(|| format!("{name} is for no suite"))?,
        };
        anyhow::Ok((suite, public::info(suite, key)?))
    })??;
    match format {
        PublicForm::Pem => return say(public::pem(&der)?.trim_end()),
        PublicForm::Ssh => return say(forms::ssh(suite, &der, name)?),
        PublicForm::Jwk => return say(forms::jwk(suite, &der)?),
        PublicForm::Der => {}
    }
    let mut out = std::io::stdout().lock();
    if out.is_terminal() {
        bail!("DER is not for a terminal; redirect it into a file");
    }
    Ok(out.write_all(&der).and_then(|()| out.flush())?)
}

fn back_up(file: &Path, backup: &BackupArgs, args: &KeystoreArgs, config: &Config) -> anyhow::Result<()> {
    let opened = secret::open_with_secret(args, config)?;
    let own = secret::of_backup(backup)?;
    opened.keystore.back_up(file, own.as_ref().unwrap_or(&opened.secret), KdfParameters::default())?;
    say_done(format!("{}: {} versions of keys", file.display(), opened.keystore.list()?.len()))
}

fn restore(file: &Path, backup: &BackupArgs, args: &KeystoreArgs, config: &Config) -> anyhow::Result<()> {
    let own = secret::of_backup(backup)?;
    // What opens the backup need not be typed twice.
    let secret = secret::ask(args, config, own.is_some())?;
    // Before a keystore is made: a backup that does not open leaves none behind.
    let stored = secret::open_at(file, own.as_ref().unwrap_or(&secret))
        .with_context(|| format!("the backup {} does not open", file.display()))?;
    let mut opened = secret::open_or_create_under(args, config, secret)?;
    if opened.is_new {
        say_new(&opened.keystore);
    }
    let restored = opened.keystore.restore(&stored)?;
    say_done(format!("{} versions of keys were restored; {} were there already", restored.added, restored.present))?;
    if restored.left_destroyed > 0 {
        say_done(format!("{} have been destroyed since, and stay so", restored.left_destroyed))?;
    }
    Ok(())
}

fn open_or_create(args: &KeystoreArgs, config: &Config) -> anyhow::Result<Keystore> {
    let opened = secret::open_or_create(args, config)?;
    if opened.is_new {
        say_new(&opened.keystore);
    }
    Ok(opened.keystore)
}

fn say_new(keystore: &Keystore) {
    output::tell(format_args!("made a new keystore, {}", keystore.path().display()));
}

#[derive(Serialize)]
struct KeyJson {
    name: String,
    version: u32,
    state: &'static str,
    bits: usize,
    suites: Vec<String>,
    created_unix_s: u64,
    check_value: String,
    description: String,
}

fn list(json: bool, args: &KeystoreArgs, config: &Config) -> anyhow::Result<()> {
    let records = secret::open(args, config)?.list()?;
    let rows: Vec<KeyJson> = records.iter().map(to_json).collect();
    if json {
        return output::json(&rows);
    }
    let mut table = output::table(&["key", "version", "state", "bits", "for", "check value", "description"], 7);
    for row in rows {
        table.add_row([
            row.name,
            row.version.to_string(),
            row.state.to_owned(),
            row.bits.to_string(),
            if row.suites.is_empty() { "any suite".to_owned() } else { row.suites.join(", ") },
            row.check_value,
            row.description,
        ]);
    }
    say(table)
}

fn to_json(record: &KeyRecord) -> KeyJson {
    // A policy without a list of suites allows all of them.
    let suites = &record.policy.suites;
    let unlimited = Suite::all().all(|suite| suites.contains(suite));
    let suites = if unlimited { Vec::new() } else { suites.iter().map(|suite| suite.to_string()).collect() };
    KeyJson {
        name: record.name.clone(),
        version: record.version,
        state: match record.state {
            KeyState::Active => "active",
            KeyState::Retired => "retired",
            KeyState::Destroyed => "destroyed",
        },
        bits: record.key_len * 8,
        suites,
        created_unix_s: record.created_unix_s,
        check_value: hex::encode(record.key_check_value.0),
        description: record.description.clone(),
    }
}
