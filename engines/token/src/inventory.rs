//! What a module has: its slots and tokens, and the keys of one of them. For administrators; engines look for single keys.

use std::path::Path;

use ciphermill_contract::Suite;
use cryptoki_sys::{
    CK_FLAGS, CK_OBJECT_CLASS, CK_OBJECT_HANDLE, CK_RV, CKA_CLASS, CKA_EC_PARAMS, CKA_EXTRACTABLE, CKA_ID,
    CKA_KEY_TYPE, CKA_LABEL, CKA_MODULUS, CKA_SENSITIVE, CKA_VALUE_LEN, CKF_LOGIN_REQUIRED,
    CKF_PROTECTED_AUTHENTICATION_PATH, CKF_RNG, CKF_TOKEN_INITIALIZED, CKF_USER_PIN_COUNT_LOW, CKF_USER_PIN_FINAL_TRY,
    CKF_USER_PIN_INITIALIZED, CKF_USER_PIN_LOCKED, CKF_USER_PIN_TO_BE_CHANGED, CKF_WRITE_PROTECTED, CKK_AES, CKK_EC,
    CKK_GENERIC_SECRET, CKK_RSA, CKO_PRIVATE_KEY, CKO_PUBLIC_KEY, CKO_SECRET_KEY,
};

use crate::capabilities;
use crate::key;
use crate::kind::Kind;
use crate::module::Module;
use crate::session::Session;
use crate::token::{Opening, Token, TokenError, padded};

/// What a flag of a token's says (PKCS#11 3.1, 3.3, table 6).
const FLAGS: [(CK_FLAGS, &str); 10] = [
    (CKF_RNG, "rng"),
    (CKF_WRITE_PROTECTED, "write-protected"),
    (CKF_LOGIN_REQUIRED, "login-required"),
    (CKF_TOKEN_INITIALIZED, "initialised"),
    (CKF_USER_PIN_INITIALIZED, "pin-set"),
    (CKF_PROTECTED_AUTHENTICATION_PATH, "pin-pad"),
    (CKF_USER_PIN_COUNT_LOW, "pin-wrong-once"),
    (CKF_USER_PIN_FINAL_TRY, "pin-last-try"),
    (CKF_USER_PIN_LOCKED, "pin-locked"),
    (CKF_USER_PIN_TO_BE_CHANGED, "pin-to-be-changed"),
];

/// A slot with a token in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotReport {
    /// The slot's number, which a module may give anew when it is loaded again.
    pub slot: u64,
    /// The token's label.
    pub label: String,
    /// Who made it.
    pub manufacturer: String,
    /// Its model.
    pub model: String,
    /// Its serial number.
    pub serial: String,
    /// Mechanisms that it has.
    pub mechanisms: usize,
    /// What its flags say.
    pub flags: Vec<&'static str>,
}

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyClass {
    /// The private half of a pair.
    Private,
    /// The public half of a pair.
    Public,
    /// A secret key.
    Secret,
}

/// A key on a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyReport {
    /// What it is for.
    pub class: KeyClass,
    /// `CKA_LABEL`.
    pub label: String,
    /// `CKA_ID`.
    pub id: Vec<u8>,
    /// Its kind and size: `rsa-2048`, `ec-p256`, `aes-256`.
    pub kind: String,
    /// Whether it may be given out wrapped; none where the token does not say.
    pub extractable: Option<bool>,
    /// Whether it may be given out in clear.
    pub sensitive: Option<bool>,
    /// Suites that an engine could sign with it.
    pub suites: Vec<Suite>,
    /// The public half of a private key as SubjectPublicKeyInfo in DER, where the token has it.
    pub public: Option<Vec<u8>>,
}

impl KeyReport {
    /// The name by which a reference leads to this key; none for a key without label and identifier.
    pub fn reference(&self) -> Option<String> {
        match (&self.id[..], self.label.as_str()) {
            ([], "") => None,
            ([], label) => Some(label.to_owned()),
            (id, _) => Some(id.iter().fold("id:".to_owned(), |text, byte| text + &format!("{byte:02x}"))),
        }
    }
}

/// The slots of a module that have a token, without any login.
///
/// # Errors
/// [`TokenError`] when the module does not load, or a call fails.
pub fn slots(module: &Path) -> Result<Vec<SlotReport>, TokenError> {
    let module = Module::load(module)?;
    let _turn = module.turn();
    let report = |slot| {
        let info = module.token_info(slot)?;
        let text = |field: &[u8]| String::from_utf8_lossy(padded(field)).into_owned();
        let flags = info.flags;
        Ok(SlotReport {
            slot,
            label: text(&info.label),
            manufacturer: text(&info.manufacturerID),
            model: text(&info.model),
            serial: text(&info.serialNumber),
            mechanisms: capabilities::offers(&module, slot)?.len(),
            flags: FLAGS.into_iter().filter(|(flag, _)| flags & flag != 0).map(|(_, word)| word).collect(),
        })
    };
    let reports: Result<Vec<SlotReport>, CK_RV> =
        module.slots().and_then(|slots| slots.into_iter().map(report).collect());
    reports.map_err(TokenError::Call)
}

/// The keys of a token, after a login where there is a PIN: private keys, then public, then secret ones.
///
/// # Errors
/// [`TokenError`] when the module does not load, the token is not there, says no, or a call fails.
pub fn keys(opening: &Opening) -> Result<Vec<KeyReport>, TokenError> {
    let (module, token) = (Module::load(&opening.module)?, &opening.place);
    let _turn = module.turn();
    let list = || {
        let session = Session::open(&module, Token::slot_of(&module, token)?)?;
        if let Some(pin) = &opening.pin {
            session.login(pin)?;
        }
        let mut keys = Vec::new();
        for (class, name) in [
            (KeyClass::Private, CKO_PRIVATE_KEY),
            (KeyClass::Public, CKO_PUBLIC_KEY),
            (KeyClass::Secret, CKO_SECRET_KEY),
        ] {
            keys.extend(of_class(&session, class, name)?);
        }
        Ok(keys)
    };
    list().map_err(TokenError::Call)
}

fn of_class(session: &Session, class: KeyClass, name: CK_OBJECT_CLASS) -> Result<Vec<KeyReport>, CK_RV> {
    let found = session.find_all(&[(CKA_CLASS, &name.to_ne_bytes())])?;
    Ok(found.into_iter().map(|object| report(session, class, object)).collect())
}

fn report(session: &Session, class: KeyClass, object: CK_OBJECT_HANDLE) -> KeyReport {
    let kind = Kind::of_object(session, object);
    let is_private = class == KeyClass::Private;
    let signing = kind.filter(|_| is_private);
    let suites = signing.map(|kind| Suite::all().filter(|suite| Kind::of(*suite) == Some(kind)).collect());
    KeyReport {
        class,
        label: String::from_utf8_lossy(&session.attribute(object, CKA_LABEL).unwrap_or_default()).into_owned(),
        id: session.attribute(object, CKA_ID).unwrap_or_default().to_vec(),
        kind: kind.map_or_else(|| other_kind(session, object), |kind| kind.to_string()),
        extractable: session.says(object, CKA_EXTRACTABLE),
        sensitive: session.says(object, CKA_SENSITIVE),
        suites: suites.unwrap_or_default(),
        public: signing.and_then(|kind| key::public_half(session, kind, object).ok()),
    }
}

/// What a key is that no engine signs with.
fn other_kind(session: &Session, object: CK_OBJECT_HANDLE) -> String {
    let bits = || session.number(object, CKA_VALUE_LEN).map_or_else(String::new, |len| format!("-{}", 8 * len));
    match session.number(object, CKA_KEY_TYPE) {
        Some(CKK_RSA) => {
            let len = session.attribute(object, CKA_MODULUS).map_or(0, |modulus| modulus.len());
            format!("rsa-{}", 8 * len)
        }
        Some(CKK_EC) => {
            let parameters = session.attribute(object, CKA_EC_PARAMS).unwrap_or_default();
            parameters.iter().fold("ec-".to_owned(), |text, byte| text + &format!("{byte:02x}"))
        }
        Some(CKK_AES) => format!("aes{}", bits()),
        Some(CKK_GENERIC_SECRET) => format!("generic{}", bits()),
        Some(other) => format!("type-{other:#x}"),
        None => "unknown".to_owned(),
    }
}
