//! What a token keeps.

use std::fs;

use ciphermill_contract::Suite;
use ciphermill_keys::keystore::KeyKind;

use super::*;

const SO_PIN: &[u8] = b"officer's pin";
const PIN: &[u8] = b"1234";

fn mill() -> Mill {
    let engine = ciphermill_engines::open("library").expect("a name").expect("an engine");
    Mill::builder().engine(engine).workers(0).legacy(true).open().expect("a mill")
}

fn made(folder: &Path, mill: &Mill) -> Token {
    let token = Token::open(&folder.join("token"), mill);
    token.init(SO_PIN, b"label").expect("a token");
    token.login_so(SO_PIN).expect("the officer");
    token.init_user_pin(PIN).expect("a PIN");
    token.logout();
    token
}

fn data(label: &[u8], is_private: bool) -> Attributes {
    let mut attributes = Attributes::default();
    attributes.set_number(CKA_CLASS, CKO_DATA);
    attributes.set_flag(CKA_PRIVATE, is_private);
    attributes.set(CKA_LABEL, label);
    attributes
}

fn secret(mill: &Mill, label: &[u8]) -> (Attributes, Option<Key>) {
    let mut attributes = data(label, true);
    attributes.set_number(CKA_CLASS, CKO_SECRET_KEY);
    attributes.set_number(CKA_KEY_TYPE, CKK_AES);
    attributes.set(CKA_VALUE, &[7; 32]);
    material::key_of(mill, attributes).expect("a key")
}

#[test]
fn keys_may_have_one_label_of_which_the_first_gives_the_keystore_its_name() {
    let (folder, mill) = (tempfile::tempdir().expect("a folder"), mill());
    let token = made(folder.path(), &mill);
    token.login_user(PIN).expect("a login");
    let numbers = [0; 3].map(|_| {
        let (attributes, key) = secret(&mill, b"web");
        token.insert(&attributes, key.as_ref()).expect("a key")
    });
    let again = Token::open(token.path(), &mill);
    again.login_user(PIN).expect("a login");
    let stored = again.objects(true).expect("objects");
    let all: Vec<_> = stored.iter().map(|stored| (stored.id, stored.attributes.get(CKA_LABEL))).collect();
    assert_eq!(all, numbers.map(|number| (number, Some(&b"web"[..]))));
    assert!(stored.iter().all(|stored| stored.key.is_some()));
    again.remove(numbers[0]).expect("removed");
    assert_eq!(again.objects(true).expect("objects").len(), 2);
}

#[test]
fn what_is_kept_is_there_again_for_who_may_see_it() {
    let (folder, mill) = (tempfile::tempdir().expect("a folder"), mill());
    let token = made(folder.path(), &mill);
    assert_eq!(token.insert(&data(b"hidden", true), None), fail(CKR_USER_NOT_LOGGED_IN));
    token.insert(&data(b"open", false), None).expect("public data");
    token.login_user(PIN).expect("a login");
    token.insert(&data(b"hidden", true), None).expect("private data");
    let (attributes, key) = secret(&mill, b"a key");
    token.insert(&attributes, key.as_ref()).expect("a key");
    let again = Token::open(token.path(), &mill);
    let labels = |token: &Token, all| {
        let stored = token.objects(all).expect("objects");
        let label = |stored: &Stored| stored.attributes.get(CKA_LABEL).map(<[u8]>::to_vec);
        stored.iter().filter_map(label).collect::<Vec<_>>()
    };
    assert_eq!(labels(&again, true), [b"open"]);
    again.login_user(PIN).expect("a login");
    assert_eq!(labels(&again, true), [&b"open"[..], b"hidden", b"a key"]);
    let stored = again.objects(true).expect("objects");
    assert_eq!(stored[2].key.as_ref().map(|key| key.value.bytes()), Some(&[7; 32][..]));
    // The file says nothing of the key, nor of what is private.
    let file = fs::read(file::with_ending(token.path(), ".pkcs11")).expect("a file");
    assert!(!file.windows(6).any(|bytes| bytes == b"hidden"));
    again.remove(stored[2].id).expect("removed");
    again.remove(stored[0].id).expect("removed");
    assert_eq!(labels(&token, true), [b"hidden"]);
}

#[test]
fn wrong_pins_are_counted_over_restarts_and_lock_at_last() {
    let (folder, mill) = (tempfile::tempdir().expect("a folder"), mill());
    let token = made(folder.path(), &mill);
    for number in 1..TRIES_MAX {
        let again = Token::open(token.path(), &mill);
        assert_eq!(again.login_user(b"wrong"), fail(CKR_PIN_INCORRECT));
        let flags = again.info().expect("what it is").flags;
        assert_ne!(flags & CKF_USER_PIN_COUNT_LOW, 0);
        assert_eq!(flags & CKF_USER_PIN_FINAL_TRY != 0, number + 1 == TRIES_MAX);
    }
    assert_eq!(token.login_user(PIN), Ok(()));
    assert_eq!(token.info().expect("what it is").flags & CKF_USER_PIN_COUNT_LOW, 0);
    for _ in 0..TRIES_MAX {
        assert_eq!(token.login_user(b"wrong"), fail(CKR_PIN_INCORRECT));
    }
    assert_eq!(token.login_user(PIN), fail(CKR_PIN_LOCKED));
    assert_ne!(token.info().expect("what it is").flags & CKF_USER_PIN_LOCKED, 0);
    // The officer sets another.
    token.login_so(SO_PIN).expect("the officer");
    token.init_user_pin(b"5678").expect("a PIN");
    assert_eq!(token.login_user(b"5678"), Ok(()));
}

#[test]
fn pins_change_and_old_ones_open_nothing() {
    let (folder, mill) = (tempfile::tempdir().expect("a folder"), mill());
    let token = made(folder.path(), &mill);
    assert_eq!(token.set_user_pin(PIN, b"abc"), fail(CKR_PIN_LEN_RANGE));
    assert_eq!(token.set_user_pin(b"wrong", b"abcd"), fail(CKR_PIN_INCORRECT));
    assert_eq!(token.set_user_pin(PIN, b"abcd"), Ok(()));
    assert_eq!(token.login_user(PIN), fail(CKR_PIN_INCORRECT));
    assert_eq!(token.login_user(b"abcd"), Ok(()));
    assert_eq!(token.set_so_pin(SO_PIN, b"another pin"), Ok(()));
    assert_eq!(token.login_so(SO_PIN), fail(CKR_PIN_INCORRECT));
    assert_eq!(token.init(b"wrong", b"label"), fail(CKR_PIN_INCORRECT));
}

#[test]
fn a_keystore_of_other_programs_is_a_token_with_its_passphrase() {
    let (folder, mill) = (tempfile::tempdir().expect("a folder"), mill());
    let path = folder.path().join("keystore");
    let phrase = "seven odd words of somebody";
    let cheap = KdfParameters::insecure_for_tests();
    let mut keystore = Keystore::create_with(&path, &MasterSecret::passphrase(phrase), cheap).expect("a keystore");
    let suite: Suite = "aes-256-gcm".parse().expect("a suite");
    keystore.generate("column", KeyKind::for_suite(suite).expect("a kind"), KeyPolicy::default()).expect("a key");
    let token = Token::open(&path, &mill);
    assert!(token.is_initialized());
    assert_eq!(token.login_user(b"no such phrase at all"), fail(CKR_PIN_INCORRECT));
    token.login_user(phrase.as_bytes()).expect("a login");
    let stored = token.objects(true).expect("objects");
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].attributes.get(CKA_LABEL), Some(&b"column"[..]));
    assert_eq!(stored[0].attributes.flag(CKA_EXTRACTABLE), Some(false));
    // Its number stays, and what is said of it is kept.
    let mut attributes = stored[0].attributes.clone();
    attributes.set(CKA_ID, b"7");
    token.update(stored[0].id, &attributes, stored[0].key.as_ref()).expect("a change");
    let again = token.objects(true).expect("objects");
    assert_eq!(again.iter().map(|stored| stored.attributes.get(CKA_ID)).collect::<Vec<_>>(), [Some(&b"7"[..])]);
    assert_eq!(token.init(b"pin of anybody", b"label"), fail(CKR_PIN_INCORRECT));
}

#[test]
fn damage_is_noticed_and_nothing_is_lost() {
    let (folder, mill) = (tempfile::tempdir().expect("a folder"), mill());
    let token = made(folder.path(), &mill);
    token.login_user(PIN).expect("a login");
    token.insert(&data(b"hidden", true), None).expect("data");
    let path = file::with_ending(token.path(), ".pkcs11");
    let good = fs::read(&path).expect("a file");
    for bytes in [&good[..good.len() - 1], b"", b"{}", &[good.as_slice(), b"x"].concat()] {
        fs::write(&path, bytes).expect("written");
        assert_eq!(token.objects(true).map(|objects| objects.len()), fail(CKR_DEVICE_ERROR));
        assert_eq!(token.insert(&data(b"more", false), None), fail(CKR_DEVICE_ERROR));
        assert_eq!(fs::read(&path).expect("a file"), bytes);
    }
    fs::write(&path, &good).expect("written");
    assert_eq!(token.objects(true).map(|objects| objects.len()), Ok(1));
}
