//! `ciphermill tokens`: listing, configuring, testing and cloning, on tokens of SoftHSM.

use std::fs;

use crate::json;
use crate::token_tool::ask;
use crate::tokens::{EC, MODULE, RSA, Store};

const PIN: &str = "pin_file = \"pin\"";

/// Two tokens of one module, of which the first takes copies.
fn pair() -> Store {
    let store = Store::new(&["one", "two"]);
    store.configure(&(Store::section("one", &format!("{PIN}\ncopies = true")) + &Store::section("two", PIN)));
    store
}

/// The line of a table that has this word.
fn line<'t>(text: &'t str, word: &str) -> &'t str {
    let found = text.lines().find(|line| line.split_whitespace().any(|own| own == word));
    found.unwrap_or_else(|| panic!("`{word}` is missing in: {text}"))
}

#[test]
fn list_shows_configured_tokens_and_their_keys() {
    let store = pair();
    store.import("one", "web", "0a01", EC);
    let sections = Store::section("one", PIN) + &Store::section("gone", "");
    store.configure(&(sections + "[policy]\ndisabled = [\"one\"]\n"));
    let said = store.ok(&["tokens", "list"]);
    assert!(line(&said, "one").contains("disabled: one in ciphermill.toml"), "{said}");
    assert!(line(&said, "gone").contains("unavailable: there is no such token"), "{said}");
    store.fails(1, &["the token `one` may not be used; disabled: one in"], &["tokens", "test", "one"]);
    store.configure(&(Store::section("one", PIN) + &Store::section("two", "")));
    let listed = json(&store.ok(&["tokens", "list", "--keys", "--json"]));
    assert_eq!((&listed[0]["state"], &listed[0]["place"]), (&"open".into(), &"label one".into()));
    let keys = listed[0]["keys"].as_array().expect("a list");
    let private = keys.iter().find(|key| key["class"] == "private").expect("the private key");
    assert_eq!(
        (&private["label"], &private["id"], &private["kind"]),
        (&"web".into(), &"0a01".into(), &"ec-p256".into())
    );
    assert_eq!((&private["extractable"], &private["sensitive"]), (&false.into(), &true.into()));
    assert_eq!(listed[1]["keys"].as_array().map(Vec::len), Some(0), "without a PIN public objects are seen");
    let said = store.ok(&["tokens", "list", "--keys"]);
    assert!(said.contains("0a01") && said.contains("ec-p256"), "{said}");
    store.configure("");
    assert!(store.ok(&["tokens", "list"]).contains("no token is configured"));
}

#[test]
fn list_shows_the_slots_and_keys_of_any_module() {
    let store = pair();
    store.import("two", "mail", "02", RSA);
    store.configure("");
    let said = store.ok(&["tokens", "list", "--module", MODULE]);
    for word in ["SoftHSM v2", "login-required", "one", "two"] {
        assert!(said.contains(word), "`{word}` is missing in: {said}");
    }
    let words = ["tokens", "list", "--module", MODULE, "--label", "two", "--keys", "--json"];
    let found = json(&store.ok(&[&words[..], &["--pin-file", "pin"]].concat()));
    let slots = found["slots"].as_array().expect("a list");
    let slot = slots.iter().find(|slot| slot["label"] == "two").expect("the token");
    assert_eq!(slot["model"], "SoftHSM v2");
    assert!(slot["serial"].as_str().is_some_and(|serial| serial.len() == 16), "{slot}");
    let kinds: Vec<_> = found["keys"].as_array().expect("a list").iter().map(|key| &key["kind"]).collect();
    assert_eq!(kinds, ["rsa-2048", "rsa-2048"], "both halves");
    // Without a login the private one is not seen.
    let found = json(&store.ok(&words));
    assert_eq!(found["keys"].as_array().map(Vec::len), Some(1));
    store.fails(1, &["of which token?"], &["tokens", "list", "--module", MODULE, "--keys"]);
    store.fails(1, &["absent.so", "does not load"], &["tokens", "list", "--module", "absent.so"]);
    store.fails(2, &["--module"], &["tokens", "list", "--label", "two"]);
    store.fails(2, &["cannot be used with"], &[&words[..6], &["--slot", "1"]].concat());
}

#[test]
fn add_writes_what_has_opened() {
    let store = pair();
    let before = "# mine\n[policy]\nlegacy = false";
    store.configure(before);
    let add = ["tokens", "add", "hsm", "--module", MODULE, "--in-process", "--pin-file", "pin", "--label"];
    store.fails(1, &["token `hsm`; nothing was written", "there is no such token"], &[&add[..], &["gone"]].concat());
    store.fails(1, &["of slot and label there must be one"], &add[..8]);
    let wrong = [&add[..2], &["lanes"], &add[3..], &["one"]].concat();
    store.fails(1, &["token 1: name: `lanes` is another engine's"], &wrong);
    store.fails(2, &["cannot be used with"], &[&add[..], &["one", "--pin-env", "PIN"]].concat());
    store.fails(2, &["--pin"], &["tokens", "add", "hsm", "--module", MODULE, "--label", "one", "--pin", "1234"]);
    let text = || fs::read_to_string(store.place.path("ciphermill.toml")).expect("a file");
    assert_eq!(text(), before);
    let said = store.ok(&[&add[..], &["one", "--copies", "--patience-ms", "500"]].concat());
    assert!(said.contains("the token `hsm` is SoftHSM v2"), "{said}");
    assert!(text().starts_with(&format!("{before}\n\n[[token]]\nname = \"hsm\"\n")), "{}", text());
    let said = store.ok(&["config"]);
    for words in ["copies = true", "process = false", "patience_ms = 500", "label = \"one\""] {
        assert!(said.contains(words), "`{words}` is missing in: {said}");
    }
    assert!(store.ok(&["selftest", "--engine", "hsm"]).contains(" 0 failed"));
    let twice = [&add[..], &["two"]].concat();
    store.fails(1, &["another section has the same name"], &twice);
}

#[test]
fn test_signs_with_every_key_and_verifies_elsewhere() {
    let store = pair();
    store.import("one", "web", "01", EC);
    store.import("one", "mail", "02", RSA);
    ask(&store, "one", &["generate", "ec", "other", "03"]);
    let rows = json(&store.ok(&["tokens", "test", "--json"]));
    let signatures = rows[0]["signatures"].as_array().expect("a list");
    let mut suites: Vec<_> = signatures.iter().map(|one| one["suite"].as_str().expect("a name")).collect();
    suites.sort_unstable();
    assert_eq!(suites, ["ecdsa-p256", "ecdsa-p384", "rsa-2048-sign-pkcs1-sha256", "rsa-2048-sign-pss-sha256"]);
    assert!(signatures.iter().all(|one| one["why"].is_null() && one["micros"].as_f64() > Some(0.0)), "{rows}");
    assert!(rows[0]["known_answers"][0].as_u64() >= Some(20) && rows[0]["known_answers"][1] == 0, "{rows}");
    assert!(rows[1]["known_answers"].is_null(), "it takes no copies");
    let said = store.ok(&["tokens", "test", "one"]);
    assert!(line(&said, "web").contains("verified"), "{said}");

    // A public key of the same identifier that is another's: the signature is not one by that.
    ask(&store, "one", &["swap", "ec", "other", "03"]);
    let ran = store.run(&["tokens", "test", "one"]);
    assert_eq!(ran.code, Some(1), "{}", ran.out);
    assert!(line(&ran.out, "other").contains("does not take the signature"), "{}", ran.out);
    assert!(line(&ran.out, "mail").contains("verified"), "{}", ran.out);
    store.fails(1, &["no token is called `three`; there are one, two"], &["tokens", "test", "three"]);
}

#[test]
fn a_key_is_cloned_from_token_to_token_and_both_sign() {
    let store = pair();
    store.import("one", "fixed", "0f", EC);
    ask(&store, "one", &["generate", "ec", "web", "0a01"]);
    ask(&store, "one", &["generate", "rsa", "mail", "0a02"]);
    let said = store.ok(&["tokens", "clone", "web", "--from", "one", "--to", "two"]);
    assert!(said.contains("identifier 0a01 (ec-p384)") && said.contains("both sign with one public half"), "{said}");
    let cloned = json(&store.ok(&["tokens", "clone", "id:0a02", "--from", "one", "--to", "two", "--json"]));
    assert_eq!((&cloned["label"], &cloned["kind"]), (&"mail".into(), &"rsa-2048".into()));
    assert_eq!(cloned["wrapped_with"], "CKM_AES_KEY_WRAP_PAD");
    let listed = json(&store.ok(&["tokens", "list", "--keys", "--json"]));
    let keys = listed[1]["keys"].as_array().expect("a list");
    assert_eq!(keys.len(), 4, "both halves of both, and nothing of the exchange: {keys:?}");
    for key in keys.iter().filter(|key| key["class"] == "private") {
        assert_eq!((&key["extractable"], &key["sensitive"]), (&false.into(), &true.into()), "{key}");
    }
    for id in ["0a01", "0a02"] {
        let public = ask(&store, "one", &["public", id]);
        assert!(public.contains("Label") && public.len() > 100, "{public}");
        assert_eq!(public, ask(&store, "two", &["public", id]));
    }
    assert!(store.ok(&["tokens", "test", "two"]).contains("verified"));

    store.fails(1, &["`two`: has a key of that label"], &["tokens", "clone", "web", "--from", "one", "--to", "two"]);
    store.fails(
        1,
        &["`one`: the key is not extractable"],
        &["tokens", "clone", "fixed", "--from", "one", "--to", "two"],
    );
    store.fails(
        1,
        &["`one`: there is no private key of that name"],
        &["tokens", "clone", "no", "--from", "one", "--to", "two"],
    );
    store.fails(1, &["not extractable"], &["tokens", "clone", "web", "--from", "two", "--to", "one"]);
    let conf = fs::read_to_string(store.place.path("softhsm2.conf")).expect("a file");
    for (id, lacking, words) in [
        ("0b00", "CKM_AES_KEY_WRAP_PAD", "`one`: lacks a mechanism of AES key wrap"),
        ("0b01", "CKM_RSA_PKCS_OAEP", "`two`: lacks CKM_RSA_PKCS_OAEP to unwrap"),
        ("0b02", "CKM_RSA_PKCS_KEY_PAIR_GEN", "`two`: lacks CKM_RSA_PKCS_KEY_PAIR_GEN"),
        ("0b03", "CKM_AES_KEY_GEN", "`one`: lacks CKM_AES_KEY_GEN"),
    ] {
        ask(&store, "one", &["generate", "ec", lacking, id]);
        let all =
            ["CKM_ECDSA", "CKM_RSA_PKCS_KEY_PAIR_GEN", "CKM_RSA_PKCS_OAEP", "CKM_AES_KEY_GEN", "CKM_AES_KEY_WRAP_PAD"];
        let left: Vec<&str> = all.into_iter().filter(|name| *name != lacking).collect();
        store.place.write("softhsm2.conf", format!("{conf}slots.mechanisms = {}\n", left.join(",")));
        store.fails(1, &[words], &["tokens", "clone", lacking, "--from", "one", "--to", "two"]);
        store.place.write("softhsm2.conf", &conf);
    }
    // A public key of that name would be taken for the copy's.
    ask(&store, "two", &["orphan", "ec", "other", "0c"]);
    ask(&store, "one", &["generate", "ec", "next", "0c"]);
    store.fails(
        1,
        &["`two`: has a key of that label or identifier"],
        &["tokens", "clone", "next", "--from", "one", "--to", "two"],
    );
    store.fails(1, &["to itself"], &["tokens", "clone", "web", "--from", "one", "--to", "one"]);
    store.fails(1, &["no token is called `x`"], &["tokens", "clone", "web", "--from", "x", "--to", "one"]);
    store.fails(2, &["--from"], &["tokens", "clone", "web", "--to", "one"]);
    store.fails(
        2,
        &["cannot be used with"],
        &["tokens", "clone", "web", "--from", "one", "--from-keystore", "a", "--to", "two"],
    );
}

#[test]
fn a_key_of_the_keystore_goes_to_a_token_if_its_policy_says_so() {
    let store = pair();
    for (name, suite, more) in [
        ("signer", "ecdsa-p256", &["--exportable"][..]),
        ("mail", "rsa-2048-sign-pss-sha256", &["--exportable"]),
        ("fixed", "ecdsa-p256", &[]),
        ("edwards", "ed25519", &["--exportable"]),
        ("secret", "hmac-sha256", &["--exportable"]),
    ] {
        store.ok(&[&["keys", "generate", name, "--suite", suite], more].concat());
    }
    for name in ["signer", "mail"] {
        let said = store.ok(&["tokens", "clone", "--from-keystore", name, "--to", "two"]);
        assert!(said.contains("of the keystore's") && said.contains("both sign"), "{said}");
    }
    let rows = json(&store.ok(&["tokens", "test", "two", "--json"]));
    let signatures = rows[0]["signatures"].as_array().expect("a list");
    assert_eq!(signatures.len(), 3);
    assert!(signatures.iter().all(|one| one["id"].as_str().is_some_and(|id| id.len() == 40)), "{rows}");
    // What the token signs is a signature by the keystore's public half; the token has that under the same identifier.
    let id = signatures.iter().find(|one| one["label"] == "signer").and_then(|one| one["id"].as_str()).expect("signer");
    let held = ask(&store, "two", &["public", id]);
    store.place.write("own.pem", store.ok(&["keys", "public", "signer"]));
    store.program("openssl", &["pkey", "-pubin", "-in", "own.pem", "-outform", "DER", "-out", "own.der"]);
    let own = fs::read(store.place.path("own.der")).expect("a file");
    // The last 65 bytes are the point (RFC 5480, 2.2), in the token behind the head of an octet string.
    let point = [&[4, 65], &own[own.len() - 65..]].concat();
    assert!(held.contains(&format!("{:?}", cryptoki::object::Attribute::EcPoint(point))), "{held}");

    let refused = |name: &str, words: &str| {
        store.fails(
            1,
            &[&format!("`{name}` is not copied"), words],
            &["tokens", "clone", "--from-keystore", name, "--to", "two"],
        );
    };
    refused("fixed", "its policy does not let it be exported");
    refused("edwards", "no signatures with RSA or ECDSA");
    refused("secret", "no private key");
    store.fails(1, &["absent"], &["tokens", "clone", "--from-keystore", "absent", "--to", "two"]);
    store.fails(
        1,
        &["`two`: has a key of that label"],
        &["tokens", "clone", "--from-keystore", "signer", "--to", "two"],
    );
}
