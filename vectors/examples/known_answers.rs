//! Chooses one known answer for each suite from the published vectors and prints `vectors/data/known_answers.json`:
//!
//! ```text
//! cargo run -p ciphermill-vectors --features published --example known_answers > /tmp/known_answers.json
//! ```
//!
//! No engine takes part: an answer that came from an engine could not convict it.

use ciphermill_contract::suite::{BlockCipher, Mac, Signature};
use ciphermill_contract::{Direction, Directions, Suite};
use ciphermill_vectors::job::key_of;
use ciphermill_vectors::{Case, Outcome, cases, keys};

fn main() -> Result<(), String> {
    let suites = Suite::all().filter(|suite| keys::is_answered(*suite));
    let lines: Result<Vec<String>, String> = suites
        .map(|suite| {
            let usable = candidates(suite).into_iter().filter(is_usable);
            usable.min_by_key(rank).map(|case| line(&case)).ok_or(format!("{suite}: no vector will do"))
        })
        .collect();
    println!(
        "{{\"source\": \"chosen by vectors/examples/known_answers.rs\", \"cases\": [\n{}\n]}}",
        lines?.join(",\n")
    );
    Ok(())
}

/// The vectors to choose from. Both suites of Ed25519 make the same signatures.
fn candidates(suite: Suite) -> Vec<Case> {
    let of = match suite {
        Suite::Sign(Signature::Ed25519Cofactored) => Suite::Sign(Signature::Ed25519),
        other => other,
    };
    cases(of)
        .into_iter()
        .map(|case| Case { suite: if of == suite { case.suite } else { suite }, ..case.clone() })
        .collect()
}

/// Whether a vector tells about every direction of its suite.
fn is_usable(case: &Case) -> bool {
    let suite = case.suite;
    let directions = [Direction::Encrypt, Direction::Decrypt].into_iter().filter(|way| suite.has_direction(*way));
    suite.canonical() == suite
        && case.outcome == Outcome::Valid
        && (!case.input.is_empty() || matches!(suite, Suite::Kem(_)))
        && directions.into_iter().all(|direction| {
            (!suite.needs_key() || key_of(case, direction).is_some())
                && (case.ways.contains(direction) || suite.is_randomized(direction))
        })
}

/// Least is best: published before made, no key parts alike (single DES would pass for triple DES), full tags, additional data where there may be some, several blocks with a
/// tail, short.
fn rank(case: &Case) -> impl Ord + use<> {
    let made = case.source.contains("openssl_vectors.py")
        || case.source.contains("legacy_curves.py")
        || case.source.contains("ecdsa_digest.py");
    let tag_cut = case.tag.len() != case.suite.default_tag_len();
    let no_aad = case.aad.is_empty() && case.suite.aad_len().max > 0;
    let one_block = case.input.len() <= 16;
    let key = &case.keys.secret;
    let triple = matches!(case.suite, Suite::Cipher(BlockCipher::TripleDes, _) | Suite::Mac(Mac::TripleDesCmac));
    let parts_alike =
        triple && (key.len() < 24 || key[..8] == key[8..16] || key[..8] == key[16..] || key[8..16] == key[16..]);
    (made, parts_alike, tag_cut, no_aad, one_block, case.input.len() + case.aad.len() + case.tag.len(), case.id.clone())
}

fn line(case: &Case) -> String {
    let mut fields =
        vec![("id", case.id.clone()), ("suite", case.suite.to_string()), ("source", case.source.to_string())];
    if case.ways != Directions::BOTH {
        let way = if case.ways.contains(Direction::Encrypt) { "encrypt" } else { "decrypt" };
        fields.push(("way", way.to_owned()));
    }
    let name = keys::pair_name(case.suite);
    let stored = name.filter(|name| {
        keys::pairs(name)
            .first()
            .is_some_and(|pair| pair.private == case.keys.private && pair.public == case.keys.public)
    });
    // A stored pair goes by its name.
    let (private, public) = match stored {
        Some(name) => {
            fields.push(("pair", name));
            (Vec::new(), Vec::new())
        }
        None => (case.keys.private.clone(), case.keys.public.clone()),
    };
    for (name, bytes) in [
        ("key", &case.keys.secret),
        ("private", &private),
        ("public", &public),
        ("iv", &case.iv),
        ("aad", &case.aad),
        ("input", &case.input),
        ("output", &case.output),
        ("tag", &case.tag),
    ] {
        if !bytes.is_empty() {
            fields.push((name, hex::encode(bytes)));
        }
    }
    let quoted: Vec<String> = fields.iter().map(|(name, value)| format!("{name:?}: {value:?}")).collect();
    format!("  {{{}}}", quoted.join(", "))
}
