//! `ciphermill tokens clone`.

use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use ciphermill_contract::suite::Signature;
use ciphermill_contract::{Direction, Engine, EngineKind, KeyForm, KeyMaterial, Suite};
use ciphermill_keys::keystore::{KeyRecord, KeyState};
use ciphermill_token::{Cloned, Outside};
use serde::Serialize;

use super::{section, signing};
use crate::args::TokensCloneArgs;
use crate::commands::keys::public;
use crate::config::Config;
use crate::output::{self, after_change, printable, say};
use crate::secret;
use crate::tokens::Tokens;

#[derive(Serialize)]
struct ClonedJson {
    label: String,
    id: String,
    kind: String,
    from: String,
    to: String,
    wrapped_with: Option<&'static str>,
    wrapping_key_by: Option<&'static str>,
}

pub(super) fn run(args: &TokensCloneArgs, config: &Config) -> Result<ExitCode> {
    let (cloned, from) = match (&args.key, &args.from, &args.from_keystore) {
        (Some(key), Some(from), None) => (between(key, from, &args.to, config)?, format!("token `{from}`")),
        (None, None, Some(name)) => (from_keystore(name, args, config)?, format!("the keystore's `{name}`")),
        _ => bail!("say KEY --from TOKEN, or --from-keystore NAME"),
    };
    let (wrapped_with, wrapping_key_by) = cloned.wrapped.unzip();
    let json = ClonedJson {
        label: printable(&cloned.label),
        id: hex::encode(&cloned.id),
        kind: cloned.kind,
        from,
        to: args.to.clone(),
        wrapped_with,
        wrapping_key_by,
    };
    after_change(if args.json { output::json(&json) } else { print(&json) })?;
    Ok(ExitCode::SUCCESS)
}

fn print(cloned: &ClonedJson) -> Result<()> {
    let ClonedJson { label, id, kind, from, to, .. } = cloned;
    say(format!(
        "`{label}` with identifier {id} ({kind}) of {from} is on token `{to}`; both sign with one public half"
    ))?;
    match (cloned.wrapped_with, cloned.wrapping_key_by) {
        (Some(with), Some(by)) => say(format!("wrapped with {with}, whose key travelled by {by}")),
        _ => Ok(()),
    }
}

/// From one token to another.
fn between(key: &str, from: &str, to: &str, config: &Config) -> Result<Cloned> {
    ensure!(from != to, "`{from}` is to give the key to itself");
    let (from, to) = (section(config, from)?, section(config, to)?);
    let mut tokens = Tokens::new(config);
    // As engines, for the trial: they open before anything is made.
    let [source, target] = [tokens.open(from), tokens.open(to)];
    let source = source.with_context(|| format!("token `{}`", from.name))?.engine();
    let target = target.with_context(|| format!("token `{}`", to.name))?.engine();
    let openings = (tokens.opening(from)?, tokens.opening(to)?);
    let is_same = |suite: Suite, name: &str, public: &[u8]| {
        [&source, &target].into_iter().all(|engine| signs(engine.as_ref(), suite, name, public))
    };
    Ok(ciphermill_token::clone_key(key, &openings.0, &openings.1, &is_same)?)
}

fn signs(engine: &dyn Engine, suite: Suite, name: &str, public: &[u8]) -> bool {
    let signed = signing::sign(engine, suite, name);
    match signed.and_then(|(signature, _)| signing::verify(suite, public, &signature)) {
        Ok(()) => true,
        Err(error) => {
            tracing::error!("{}: {}", engine.info().name, output::chain(&error));
            false
        }
    }
}

/// From the keystore.
fn from_keystore(name: &str, args: &TokensCloneArgs, config: &Config) -> Result<Cloned> {
    let to = section(config, &args.to)?;
    let mut tokens = Tokens::new(config);
    let target = tokens.open(to).with_context(|| format!("token `{}`", to.name))?.engine();
    let opening = tokens.opening(to)?;
    let is_same = |suite: Suite, name: &str, public: &[u8]| signs(target.as_ref(), suite, name, public);
    let keystore = secret::open(&args.keystore, config)?;
    keystore.with_key(name, None, |record, key| {
        let suite = may_leave(record, &key).with_context(|| format!("`{name}` is not copied"))?;
        let public = public::info(suite, KeyMaterial { form: key.form, bytes: key.bytes })?;
        let outside = Outside { key, public: &public, suite, label: name };
        Ok(ciphermill_token::install_key(outside, &opening, &is_same)?)
    })?
}

/// The suite of a key that may be on a token for good; a token keeps to no policy of ours.
fn may_leave(record: &KeyRecord, key: &KeyMaterial<'_>) -> Result<Suite> {
    let policy = &record.policy;
    ensure!(record.state == KeyState::Active, "its current version is not active");
    ensure!(key.form == KeyForm::Private, "it is no private key");
    ensure!(
        policy.exportable,
        "its policy does not let it be exported; `keys generate --exportable` makes one that may"
    );
    ensure!(policy.engines.contains(EngineKind::Token), "its policy does not let tokens have it");
    ensure!(
        policy.operations_max.is_none() && policy.expires_unix_s.is_none(),
        "its policy counts operations or ends, which a token would not keep to"
    );
    ensure!(policy.directions.contains(Direction::Encrypt), "its policy does not let it sign");
    let signs = |suite: &Suite| matches!(suite, Suite::Sign(Signature::Rsa(..) | Signature::Ecdsa(_)));
    ensure!(!policy.suites.is_any(), "it is for any suite, so that its kind is not known");
    policy.suites.iter().find(signs).context("it is for no signatures with RSA or ECDSA")
}
