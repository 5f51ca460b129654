//! Keys at and beyond the edge of what the contract lets in, with its verdict on each.

use std::sync::OnceLock;

use ciphermill_contract::KeyForm;
use serde::Deserialize;

/// A key that is sound but unusual, or that is not sound.
#[derive(Clone, Debug)]
pub struct OddKey {
    /// What is odd about it.
    pub id: String,
    /// The kind of key pair, as in [`crate::keys::pair_name`].
    pub kind: String,
    /// Which half it is.
    pub form: KeyForm,
    /// Whether engines have to take it.
    pub taken: bool,
    /// PKCS#8, SubjectPublicKeyInfo or raw bytes.
    pub bytes: Vec<u8>,
}

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow)]
    keys: Vec<Entry<'a>>,
}

#[derive(Deserialize)]
struct Entry<'a> {
    id: &'a str,
    kind: &'a str,
    form: &'a str,
    taken: bool,
    bytes: &'a str,
}

/// The odd keys of one kind; empty for a kind without any.
///
/// # Panics
/// When the data file is damaged; it is compiled in.
pub fn odd_keys(kind: &str) -> Vec<&'static OddKey> {
    static KEYS: OnceLock<Vec<OddKey>> = OnceLock::new();
    let all = KEYS.get_or_init(|| match parse(include_str!("../../data/made/odd_keys.json")) {
        Ok(keys) => keys,
        Err(error) => panic!("vectors/data/made/odd_keys.json: {error}"),
    });
    all.iter().filter(|key| key.kind == kind).collect()
}

fn parse(text: &str) -> Result<Vec<OddKey>, String> {
    let file: File<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let key = |entry: &Entry<'_>| {
        let form = match entry.form {
            "private" => KeyForm::Private,
            "public" => KeyForm::Public,
            other => return Err(format!("{}: no form `{other}`", entry.id)),
        };
        let bytes = hex::decode(entry.bytes).map_err(|error| format!("{}: {error}", entry.id))?;
        Ok(OddKey { id: entry.id.to_owned(), kind: entry.kind.to_owned(), form, taken: entry.taken, bytes })
    };
    file.keys.iter().map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_keys_on_both_sides_of_the_edge() {
        for kind in [
            "rsa-2048",
            "p256",
            "p384",
            "p521",
            "p224",
            "secp256k1",
            "brainpoolp256r1",
            "brainpoolp384r1",
            "secp160r1",
            "sect163r1",
            "sect571k1",
            "ffdhe2048",
            "ffdhe3072",
            "ffdhe4096",
            "modp1024",
            "modp8192",
        ] {
            let keys = odd_keys(kind);
            assert!(keys.iter().any(|key| key.taken) && keys.iter().any(|key| !key.taken), "{kind}");
        }
    }

    #[test]
    fn a_damaged_file_is_refused() {
        assert!(
            parse(r#"{"keys": [{"id": "a", "kind": "p256", "form": "secret", "taken": true, "bytes": ""}]}"#).is_err()
        );
        assert!(
            parse(r#"{"keys": [{"id": "a", "kind": "p256", "form": "public", "taken": true, "bytes": "0"}]}"#).is_err()
        );
    }
}
