//! What a module has: its slots and tokens, and the keys and certificates of one of them. For administrators, and for doors that show their
//! applications what there is; engines look for single keys.

use std::path::Path;

use ciphermill_contract::Suite;
use cryptoki_sys::{
    CK_FLAGS, CK_OBJECT_CLASS, CK_OBJECT_HANDLE, CK_RV, CKA_CLASS, CKA_EC_PARAMS, CKA_EXTRACTABLE, CKA_ID,
    CKA_KEY_TYPE, CKA_LABEL, CKA_MODULUS, CKA_SENSITIVE, CKA_VALUE_LEN, CKF_LOGIN_REQUIRED,
    CKF_PROTECTED_AUTHENTICATION_PATH, CKF_RNG, CKF_TOKEN_INITIALIZED, CKF_USER_PIN_COUNT_LOW, CKF_USER_PIN_FINAL_TRY,
    CKF_USER_PIN_INITIALIZED, CKF_USER_PIN_LOCKED, CKF_USER_PIN_TO_BE_CHANGED, CKF_WRITE_PROTECTED, CKK_AES, CKK_EC,
    CKK_GENERIC_SECRET, CKK_RSA, CKO_PRIVATE_KEY, CKO_PUBLIC_KEY, CKO_SECRET_KEY,
};
use cryptoki_sys::{
    CKA_ALWAYS_AUTHENTICATE, CKA_CERTIFICATE_TYPE, CKA_DECRYPT, CKA_DERIVE, CKA_ENCRYPT, CKA_PRIVATE, CKA_SIGN,
    CKA_SUBJECT, CKA_VALUE, CKC_X_509, CKO_CERTIFICATE,
};
use serde::{Deserialize, Serialize};

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

/// Keys and certificates of a token that are listed at most.
pub(crate) const OBJECTS_MAX: usize = 1024;

/// Bytes of a label and of an identifier: longer ones are cut.
const LABEL_LEN_MAX: usize = 255;

/// Bytes of a certificate and of its subject: longer ones are left out.
const VALUE_LEN_MAX: usize = 1 << 16;

/// Bytes of all that is listed at most.
const LIST_LEN_MAX: usize = 2 << 20;

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyClass {
    /// The private half of a pair.
    Private,
    /// The public half of a pair.
    Public,
    /// A secret key.
    Secret,
}

/// What the token lets a private or secret key do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uses {
    /// `CKA_SIGN`.
    pub sign: bool,
    /// `CKA_ENCRYPT`.
    pub encrypt: bool,
    /// `CKA_DECRYPT`.
    pub decrypt: bool,
    /// `CKA_DERIVE`.
    pub derive: bool,
}

/// A key on a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Whether only who is logged in may see it.
    pub private: bool,
    /// Whether the token asks for the PIN before each use (`CKA_ALWAYS_AUTHENTICATE`), which no engine can give it.
    pub always_authenticates: bool,
    /// What the token lets it do.
    pub uses: Uses,
    /// Suites of this kind of key; which of them the token offers is not asked.
    #[serde(with = "ordinals")]
    pub suites: Vec<Suite>,
    /// The key, or the public half of a private one, in the contract's form ([`ciphermill_contract::KeyForm::Public`]), where the token has it.
    pub public: Option<Vec<u8>>,
}

/// A certificate on a token (X.509).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateReport {
    /// `CKA_LABEL`.
    pub label: String,
    /// `CKA_ID`, that of its private key.
    pub id: Vec<u8>,
    /// Whether only who is logged in may see it.
    pub private: bool,
    /// `CKA_SUBJECT`: a distinguished name in DER.
    pub subject: Vec<u8>,
    /// `CKA_VALUE`: the certificate in DER.
    pub value: Vec<u8>,
}

/// What a token has that is shown to applications.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// Private keys, then public, then secret ones.
    pub keys: Vec<KeyReport>,
    /// Certificates.
    pub certificates: Vec<CertificateReport>,
}

/// Suites by their ordinals; those that this program does not know are left out.
mod ordinals {
    use ciphermill_contract::Suite;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(suites: &[Suite], serializer: S) -> Result<S::Ok, S::Error> {
        suites.iter().map(|suite| suite.ordinal() as u16).collect::<Vec<u16>>().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Suite>, D::Error> {
        let ordinals = Vec::<u16>::deserialize(deserializer)?;
        Ok(ordinals.into_iter().filter_map(|ordinal| Suite::of_ordinal(ordinal.into())).collect())
    }
}

impl KeyReport {
    /// The name by which a reference leads to this key; none for a key without label and identifier, or with ones that are no names.
    pub fn reference(&self) -> Option<String> {
        let name = match (&self.id[..], self.label.as_str()) {
            // A label that reads as an identifier would name another key.
            ([], label) => Some(label.to_owned()).filter(|label| !label.starts_with("id:")),
            (id, _) => Some(id.iter().fold("id:".to_owned(), |text, byte| text + &format!("{byte:02x}"))),
        };
        name.filter(|name| key::name(name.as_bytes()).is_some())
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

/// What a token has, after a login where there is a PIN. Its module is loaded into this process, whatever the opening says.
///
/// # Errors
/// [`TokenError`] when the module does not load, the token is not there, says no, or a call fails.
pub fn inventory(opening: &Opening) -> Result<Inventory, TokenError> {
    let (module, token) = (Module::load(&opening.module)?, &opening.place);
    let _turn = module.turn();
    let list = || {
        let session = Session::open(&module, Token::slot_of(&module, token)?)?;
        if let Some(pin) = &opening.pin {
            session.login(pin)?;
        }
        list(&session)
    };
    list().map_err(TokenError::Call)
}

/// What a token shows in a session, as much of it as may be listed.
pub(crate) fn list(session: &Session) -> Result<Inventory, CK_RV> {
    let mut inventory = Inventory::default();
    let mut room = LIST_LEN_MAX;
    for (class, name) in
        [(KeyClass::Private, CKO_PRIVATE_KEY), (KeyClass::Public, CKO_PUBLIC_KEY), (KeyClass::Secret, CKO_SECRET_KEY)]
    {
        for object in of_class(session, name)? {
            if inventory.keys.len() == OBJECTS_MAX {
                break;
            }
            let key = report(session, class, object);
            if take(&mut room, key.len_max()) {
                inventory.keys.push(key);
            }
        }
    }
    for object in of_class(session, CKO_CERTIFICATE)?.into_iter().take(OBJECTS_MAX) {
        if let Some(certificate) = certificate(session, object)
            && take(&mut room, certificate.len_max())
        {
            inventory.certificates.push(certificate);
        }
    }
    Ok(inventory)
}

fn take(room: &mut usize, len: usize) -> bool {
    let left = room.checked_sub(len);
    *room = left.unwrap_or(*room);
    left.is_some()
}

fn of_class(session: &Session, name: CK_OBJECT_CLASS) -> Result<Vec<CK_OBJECT_HANDLE>, CK_RV> {
    session.find_all(&[(CKA_CLASS, &name.to_ne_bytes())])
}

fn label_of(session: &Session, object: CK_OBJECT_HANDLE) -> String {
    let bytes = session.attribute(object, CKA_LABEL).unwrap_or_default();
    String::from_utf8_lossy(bytes.get(..LABEL_LEN_MAX).unwrap_or(&bytes)).into_owned()
}

fn id_of(session: &Session, object: CK_OBJECT_HANDLE) -> Vec<u8> {
    let id = session.attribute(object, CKA_ID).unwrap_or_default();
    id.get(..LABEL_LEN_MAX).unwrap_or(&id).to_vec()
}

fn report(session: &Session, class: KeyClass, object: CK_OBJECT_HANDLE) -> KeyReport {
    let kind = Kind::of_object(session, object);
    let suites = kind.map(|kind| Suite::all().filter(|suite| Kind::of(*suite) == Some(kind)).collect());
    let pair = kind.filter(|_| class != KeyClass::Secret);
    let may = |kind| session.says(object, kind) == Some(true);
    KeyReport {
        class,
        label: label_of(session, object),
        id: id_of(session, object),
        kind: kind.map_or_else(|| other_kind(session, object), |kind| kind.to_string()),
        extractable: session.says(object, CKA_EXTRACTABLE),
        sensitive: session.says(object, CKA_SENSITIVE),
        private: session.says(object, CKA_PRIVATE) != Some(false),
        always_authenticates: may(CKA_ALWAYS_AUTHENTICATE),
        uses: Uses {
            sign: may(CKA_SIGN),
            encrypt: may(CKA_ENCRYPT),
            decrypt: may(CKA_DECRYPT),
            derive: may(CKA_DERIVE),
        },
        suites: suites.unwrap_or_default(),
        public: pair.and_then(|kind| key::public_half(session, kind, object).ok()),
    }
}

fn certificate(session: &Session, object: CK_OBJECT_HANDLE) -> Option<CertificateReport> {
    let is_x509 = session.number(object, CKA_CERTIFICATE_TYPE) == Some(CKC_X_509);
    let read = |kind| session.attribute_up_to(object, kind, VALUE_LEN_MAX);
    let value = read(CKA_VALUE).ok().filter(|value| is_x509 && !value.is_empty())?.to_vec();
    let subject = read(CKA_SUBJECT).ok()?.to_vec();
    let (label, id) = (label_of(session, object), id_of(session, object));
    let private = session.says(object, CKA_PRIVATE) != Some(false);
    Some(CertificateReport { label, id, private, subject, value })
}

impl KeyReport {
    /// Bytes that it takes in a message at most.
    fn len_max(&self) -> usize {
        let public = self.public.as_ref().map_or(0, Vec::len);
        64 + self.label.len() + self.id.len() + self.kind.len() + 3 * self.suites.len() + public
    }
}

impl CertificateReport {
    fn len_max(&self) -> usize {
        32 + self.label.len() + self.id.len() + self.subject.len() + self.value.len()
    }
}

impl Inventory {
    /// Bytes that it takes in a message at most.
    pub(crate) fn len_max(&self) -> usize {
        let keys: usize = self.keys.iter().map(KeyReport::len_max).sum();
        16 + keys + self.certificates.iter().map(CertificateReport::len_max).sum::<usize>()
    }
}

/// What a key is that no engine works with.
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
