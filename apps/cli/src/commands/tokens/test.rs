//! `ciphermill tokens test`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use ciphermill::SelfTestState;
use ciphermill_contract::suite::{Digest, Signature};
use ciphermill_contract::{Direction, Engine, Suite};
use ciphermill_token::{KeyClass, KeyReport, TokenSection};
use serde::Serialize;

use super::{section, signing};
use crate::args::TokensTestArgs;
use crate::config::Config;
use crate::mills;
use crate::output::{self, chain, printable, say};
use crate::tokens::Tokens;

#[derive(Serialize)]
struct TokenJson {
    name: String,
    /// Why it does not open.
    why: Option<String>,
    signatures: Vec<SignatureJson>,
    /// Private keys that no engine signs with.
    left_out: usize,
    /// Known answers that passed and failed, where keys may be copied.
    known_answers: Option<(usize, usize)>,
}

#[derive(Serialize)]
struct SignatureJson {
    label: String,
    id: String,
    suite: String,
    micros: Option<f64>,
    /// Nothing where the signature is verified.
    why: Option<String>,
}

impl TokenJson {
    fn has_failed(&self) -> bool {
        self.why.is_some()
            || self.signatures.iter().any(|signature| signature.why.is_some())
            || self.known_answers.is_some_and(|(_, failed)| failed > 0)
    }
}

/// Tests tokens; fails when anything of one failed.
pub(super) fn run(args: &TokensTestArgs, config: &Config) -> Result<ExitCode> {
    let sections: Vec<&TokenSection> = match &args.names[..] {
        [] => config.tokens.iter().filter(|section| config.disabled.engine(&section.name).is_none()).collect(),
        names => names.iter().map(|name| section(config, name)).collect::<Result<_>>()?,
    };
    if sections.is_empty() {
        bail!("there is no token to test; `ciphermill tokens add` configures one");
    }
    let mut tokens = Tokens::new(config);
    let rows: Vec<TokenJson> = sections
        .into_iter()
        .map(|section| {
            let tested = test(section, config, &mut tokens);
            tested.unwrap_or_else(|error| TokenJson {
                name: section.name.clone(),
                why: Some(chain(&error)),
                signatures: Vec::new(),
                left_out: 0,
                known_answers: None,
            })
        })
        .collect();
    if args.json {
        output::json(&rows)?;
    } else {
        rows.iter().try_for_each(print)?;
    }
    Ok(if rows.iter().any(TokenJson::has_failed) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn test(section: &TokenSection, config: &Config, tokens: &mut Tokens<'_>) -> Result<TokenJson> {
    let token = tokens.open(section)?;
    let (engine, keys) = (token.engine(), token.inventory()?.keys);
    let private = keys.iter().filter(|key| key.class == KeyClass::Private);
    let (mut signatures, mut left_out) = (Vec::new(), 0);
    for key in private {
        let suites: Vec<Suite> = key.suites.iter().copied().filter(|suite| is_tried(engine.as_ref(), *suite)).collect();
        left_out += usize::from(suites.is_empty());
        signatures.extend(suites.into_iter().map(|suite| signature(engine.as_ref(), key, suite)));
    }
    let known_answers = if section.copies { Some(known_answers(engine, config)?) } else { None };
    Ok(TokenJson { name: section.name.clone(), why: None, signatures, left_out, known_answers })
}

/// One digest stands for the others: they are all made here.
fn is_tried(engine: &dyn Engine, suite: Suite) -> bool {
    let stands_for_others = matches!(suite, Suite::Sign(Signature::Rsa(_, _, Digest::Sha256) | Signature::Ecdsa(_)));
    stands_for_others && engine.capabilities().iter().any(|one| one.covers(suite, Direction::Encrypt))
}

fn signature(engine: &dyn Engine, key: &KeyReport, suite: Suite) -> SignatureJson {
    let tried = || -> Result<f64> {
        let name = key.reference().context("it has neither label nor identifier")?;
        let public = key.public.as_ref().context("the token does not have its public half")?;
        let (signature, took) = signing::sign(engine, suite, &name)?;
        signing::verify(suite, public, &signature)?;
        Ok(took.as_secs_f64() * 1e6)
    };
    let tried = tried();
    SignatureJson {
        label: printable(&key.label),
        id: hex::encode(&key.id),
        suite: suite.to_string(),
        micros: tried.as_ref().ok().copied(),
        why: tried.err().map(|error| chain(&error)),
    }
}

/// Known answers of the token's suites with copied keys: how many passed, and how many failed.
fn known_answers(engine: Arc<dyn Engine>, config: &Config) -> Result<(usize, usize)> {
    let mill = mills::builder([engine], config)?.open()?;
    let mut passed = 0;
    let failed = mill.self_test(|_, _, state| passed += usize::from(state == SelfTestState::Passed));
    Ok((passed, failed))
}

fn print(token: &TokenJson) -> Result<()> {
    if let Some(why) = &token.why {
        return say(format!("{}: {why}", token.name));
    }
    say(&token.name)?;
    if !token.signatures.is_empty() {
        let mut table = output::table(&["key", "id", "suite", "result", "µs"], 4);
        for signature in &token.signatures {
            table.add_row([
                signature.label.clone(),
                signature.id.clone(),
                signature.suite.clone(),
                signature.why.clone().unwrap_or_else(|| "verified".to_owned()),
                signature.micros.map_or_else(String::new, |micros| format!("{micros:.0}")),
            ]);
        }
        say(table)?;
    }
    if token.left_out > 0 {
        say(format!("{} private keys are none that this token's engine signs with", token.left_out))?;
    }
    match token.known_answers {
        Some((passed, failed)) => say(format!("known answers: {passed} passed, {failed} failed")),
        None => say("known answers: left out, since no keys are copied to it (copies = false)"),
    }
}
