//! What the tests do to tokens without the program: in processes of their own, since a module reads where its store is but once.

use std::env;
use std::process::Command;

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::mechanism::Mechanism;
use cryptoki::object::{Attribute, AttributeType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::types::AuthPin;

use crate::Ran;
use crate::tokens::{MODULE, PIN, Store};

/// The variable that says what is to be done.
const VARIABLE: &str = "TOKEN_TOOL";

/// DER of the object identifier of P-384 (RFC 5480, 2.1.1.1).
const P384: [u8; 7] = [0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22];

/// What stands before an answer.
const MARK: &str = "answer: ";

/// Has another process do `words` with a token; its answer.
pub(crate) fn ask(store: &Store, token: &str, words: &[&str]) -> String {
    let mut command = Command::new(env::current_exe().expect("the test's own path"));
    command.args(["--exact", "token_tool::does_what_it_is_asked", "--nocapture"]);
    command
        .env(VARIABLE, format!("{token} {}", words.join(" ")))
        .env("SOFTHSM2_CONF", store.place.path("softhsm2.conf"));
    let ran = Ran::from(command.output().expect("runs"));
    assert!(ran.code == Some(0) && ran.out.contains("1 passed"), "{words:?}: {}{}", ran.out, ran.err);
    let (_, answer) = ran.out.split_once(MARK).expect("an answer");
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn does_what_it_is_asked() {
    let Ok(asked) = env::var(VARIABLE) else { return };
    let module = Pkcs11::new(MODULE).expect("loads");
    module.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)).expect("initialised");
    let words: Vec<&str> = asked.split(' ').collect();
    let [token, words @ ..] = &words[..] else { panic!("{asked}") };
    let slots = module.get_slots_with_initialized_token().expect("slots");
    let is_meant =
        |slot: &cryptoki::slot::Slot| module.get_token_info(*slot).expect("info").label().trim_end() == *token;
    let slot = slots.into_iter().find(is_meant).expect("the token");
    let session = module.open_rw_session(slot).expect("a session");
    session.login(UserType::User, Some(&AuthPin::from(PIN))).expect("logs in");
    let answer = match words {
        ["generate", kind, label, id] => {
            generate(&session, kind, label, id);
            String::new()
        }
        // Another public key of the same names in the place of the pair's own.
        ["swap", kind, label, id] => {
            let old = public_keys(&session, id);
            let [own] = old[..] else { panic!("{old:?}") };
            session.destroy_object(own).expect("destroyed");
            orphan(&session, kind, label, id);
            String::new()
        }
        ["orphan", kind, label, id] => {
            orphan(&session, kind, label, id);
            String::new()
        }
        ["public", id] => {
            let keys = public_keys(&session, id);
            let [key] = keys[..] else { panic!("{keys:?}") };
            let kinds = [AttributeType::Label, AttributeType::Id, AttributeType::Modulus, AttributeType::EcPoint];
            format!("{:?}", session.get_attributes(key, &kinds).expect("attributes"))
        }
        _ => panic!("{asked}"),
    };
    println!("{MARK}{answer}");
}

/// A pair whose private half may leave wrapped; its handle.
fn generate(session: &Session, kind: &str, label: &str, id: &str) -> ObjectHandle {
    let id = hex::decode(id).expect("digits");
    let names = [Attribute::Token(true), Attribute::Label(label.into()), Attribute::Id(id)];
    let (mechanism, size) = match kind {
        "ec" => (Mechanism::EccKeyPairGen, Attribute::EcParams(P384.to_vec())),
        _ => (Mechanism::RsaPkcsKeyPairGen, Attribute::ModulusBits(2048.into())),
    };
    let public = [&names[..], &[size, Attribute::Verify(true)]].concat();
    let uses =
        [Attribute::Sign(true), Attribute::Private(true), Attribute::Sensitive(true), Attribute::Extractable(true)];
    let private = [&names[..], &uses].concat();
    session.generate_key_pair(&mechanism, &public, &private).expect("a pair").1
}

/// A public key without its private half.
fn orphan(session: &Session, kind: &str, label: &str, id: &str) {
    let private = generate(session, kind, label, id);
    session.destroy_object(private).expect("destroyed");
}

fn public_keys(session: &Session, id: &str) -> Vec<ObjectHandle> {
    let id = hex::decode(id).expect("digits");
    session.find_objects(&[Attribute::Class(ObjectClass::PUBLIC_KEY), Attribute::Id(id)]).expect("found")
}
