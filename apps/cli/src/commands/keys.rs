//! `ciphermill keys`: what is kept in the keystore.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use ciphermill::KeyPolicy;
use ciphermill_contract::limits::KEY_LEN_MAX;
use ciphermill_contract::suite::{Digest, Mac};
use ciphermill_contract::{KeyMaterial, Suite};
use ciphermill_keys::keystore::{KdfParameters, KeyKind, KeyRecord, KeyState, Keystore};
use serde::Serialize;
use zeroize::Zeroizing;

use crate::args::{KeysCommand, KeystoreArgs};
use crate::config::Config;
use crate::output::{self, say};
use crate::secret;

/// Bytes of a key that column keys are derived from.
const ROOT_LEN: usize = 32;

/// The suite that column keys are derived with.
const DERIVATION: Suite = Suite::Mac(Mac::Hmac(Digest::Sha256));

/// Runs a command of the keystore.
pub(crate) fn run(command: KeysCommand, config: &Config) -> anyhow::Result<ExitCode> {
    match command {
        KeysCommand::Generate { name, suite, description, keystore } => {
            generate(&name, suite, &description, &keystore, config)?;
        }
        KeysCommand::Import { name, file, hex, suite, description, keystore } => {
            import(&name, &file, hex, suite, &description, &keystore, config)?;
        }
        KeysCommand::List { json, keystore } => list(json, &keystore, config)?,
        KeysCommand::Rotate { name, keystore } => {
            let record = secret::open(&keystore, config)?.rotate(&name)?;
            say(format!("{name}: version {} is current; older versions still decrypt", record.version))?;
        }
        KeysCommand::Destroy { name, version, yes, keystore } => {
            if !yes {
                bail!("what version {version} of {name} protected would be lost for good; say --yes to do it");
            }
            secret::open(&keystore, config)?.destroy(&name, version)?;
            say(format!("{name}: version {version} is destroyed"))?;
        }
        KeysCommand::Passwd { new_master_key_file, keystore } => {
            let mut store = secret::open(&keystore, config)?;
            let secret = secret::new_secret(new_master_key_file.as_deref())?;
            store.change_secret(&secret, KdfParameters::default())?;
            say(format!("{} opens with the new secret only", store.path().display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a key that `protect` derives column keys from.
pub(crate) fn generate_root(keystore: &mut Keystore, name: &str, description: &str) -> anyhow::Result<KeyRecord> {
    let record = keystore.generate(name, KeyKind::Secret { len: ROOT_LEN }, KeyPolicy::only(DERIVATION))?;
    if !description.is_empty() {
        keystore.describe(name, record.version, description)?;
    }
    Ok(record)
}

fn generate(
    name: &str,
    suite: Option<Suite>,
    description: &str,
    args: &KeystoreArgs,
    config: &Config,
) -> anyhow::Result<()> {
    let kind = match suite {
        None => None,
        Some(suite) => Some(KeyKind::for_suite(suite).with_context(|| {
            format!("{suite}: keys of this kind are not made here; make the pair elsewhere and import it")
        })?),
    };
    let mut keystore = open_or_create(args, config)?;
    let record = match (kind, suite) {
        (Some(kind), Some(suite)) => {
            let record = keystore.generate(name, kind, KeyPolicy::only(suite))?;
            if !description.is_empty() {
                keystore.describe(name, record.version, description)?;
            }
            record
        }
        _ => generate_root(&mut keystore, name, description)?,
    };
    say(format!("{name}: version {} of {} bits is current", record.version, record.key_len * 8))
}

fn import(
    name: &str,
    file: &Path,
    is_hex: bool,
    suite: Option<Suite>,
    description: &str,
    args: &KeystoreArgs,
    config: &Config,
) -> anyhow::Result<()> {
    let key = read_key(file, is_hex)?;
    let suite = suite.unwrap_or(DERIVATION);
    if !suite.key_len().contains(key.len()) {
        bail!("{suite} takes no key of {} bytes", key.len());
    }
    let mut keystore = open_or_create(args, config)?;
    let record = keystore.import(name, KeyMaterial::secret(&key), KeyPolicy::only(suite))?;
    if !description.is_empty() {
        keystore.describe(name, record.version, description)?;
    }
    say(format!("{name}: version {} of {} bits is current", record.version, record.key_len * 8))
}

/// Reads a key from a file or standard input. What was read is wiped, whatever becomes of it.
fn read_key(file: &Path, is_hex: bool) -> anyhow::Result<Zeroizing<Vec<u8>>> {
    // Room for everything at once, so that no copy is left behind by growing.
    let mut bytes = Zeroizing::new(Vec::with_capacity(2 * KEY_LEN_MAX + 2));
    let mut reader: Box<dyn Read> = if file == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(std::fs::File::open(file).with_context(|| format!("cannot read {}", file.display()))?)
    };
    reader
        .by_ref()
        .take(2 * KEY_LEN_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {}", file.display()))?;
    if bytes.len() > 2 * KEY_LEN_MAX {
        bail!("{} holds more than a key may have ({KEY_LEN_MAX} bytes)", file.display());
    }
    if is_hex {
        let digits = bytes.trim_ascii();
        let mut key = Zeroizing::new(vec![0u8; digits.len() / 2]);
        hex::decode_to_slice(digits, &mut key)
            .map_err(|_| anyhow::anyhow!("{} does not hold hexadecimal digits alone", file.display()))?;
        return Ok(key);
    }
    Ok(bytes)
}

fn open_or_create(args: &KeystoreArgs, config: &Config) -> anyhow::Result<Keystore> {
    let (keystore, created) = secret::open_or_create(args, config)?;
    if created {
        eprintln!("made a new keystore, {}", keystore.path().display());
    }
    Ok(keystore)
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
