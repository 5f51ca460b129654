//! Keys of public-key suites in DER and raw: two engines take the same ones, whatever the bytes.

use std::sync::{Arc, LazyLock};

use ciphermill_contract::{Engine, KeyForm, KeyMaterial, Suite};
use ciphermill_library::Library;
use ciphermill_reference::Reference;
use ciphermill_vectors::keys::{pair_name, pairs};

use crate::reader::Reader;

static ENGINES: LazyLock<[Arc<dyn Engine>; 2]> =
    LazyLock::new(|| [Arc::new(Reference::new()), Arc::new(Library::new().expect("opens"))]);

/// Suites with key pairs that both engines run.
static SUITES: LazyLock<Vec<Suite>> = LazyLock::new(|| {
    let claimed = |engine: &Arc<dyn Engine>, suite: Suite| {
        engine.capabilities().iter().any(|claim| claim.suites.contains(&suite.canonical()))
    };
    Suite::all().filter(|suite| suite.is_public_key() && ENGINES.iter().all(|engine| claimed(engine, *suite))).collect()
});

/// # Panics
/// When one engine takes a key that the other refuses.
pub fn run(bytes: &[u8]) {
    let mut from = Reader(bytes);
    let suite = from.pick(&SUITES);
    let form = from.pick(&[KeyForm::Private, KeyForm::Public]);
    let key = KeyMaterial { form, bytes: from.0 };
    let taken = ENGINES.each_ref().map(|engine| engine.prepare(&key, suite).map(drop));
    assert_eq!(taken[0].is_ok(), taken[1].is_ok(), "{suite}, {form:?}: {taken:?}");
}

/// Inputs to begin with: the test keys, each under the suites that take it.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (number, suite) in SUITES.iter().enumerate() {
        let Some(pair) = pair_name(*suite).and_then(|name| pairs(&name).first().copied()) else { continue };
        for (form, bytes) in [&pair.private, &pair.public].into_iter().enumerate() {
            let mut seed = (number as u16).to_le_bytes().to_vec();
            seed.extend_from_slice(&(form as u16).to_le_bytes());
            seed.extend_from_slice(bytes);
            seeds.push(seed);
        }
    }
    seeds
}
