//! The tokens of other modules behind the metaslot: what they have, as objects of ours whose keys are names.
//!
//! A key that several tokens have by one name is one object; the mill takes the token that is the best for each operation, and another
//! when that fails. Nothing is made or changed on these tokens.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ciphermill::Mill;
use ciphermill_contract::suite::{BlockCipher, Mac, PublicEncryption, Signature};
use ciphermill_contract::{Direction, Suite};
use ciphermill_token::{CertificateReport, Inventory, KeyClass, KeyReport, OpenToken};
use cryptoki_sys::*;

use crate::attributes::rules::{self, Origin};
use crate::attributes::{Attributes, Template};
use crate::key::{Key, KeyShape, KeyValue};
use crate::material;
use crate::rv::Result;
use crate::store::{Stored, number_of};

/// How long what a token has is believed. Searches ask again after that.
const LISTING_LASTS: Duration = Duration::from_secs(5);

/// How long a token that did not answer is not asked again.
const SILENCE_LASTS: Duration = Duration::from_secs(60);

/// The numbers of objects of attached tokens begin here: a hash of what they are called.
const ATTACHED_FROM: u64 = 1 << 62;

/// The tokens that a metaslot shows.
pub(crate) struct Attached {
    tokens: Vec<OpenToken>,
    listed: Mutex<Listed>,
}

/// What the tokens had when they were asked last.
#[derive(Default)]
struct Listed {
    /// When each is to be asked again; at once where there is none.
    again: Vec<Option<Instant>>,
    inventories: Vec<Inventory>,
    /// Counts changes.
    changes: u64,
}

impl Attached {
    pub(crate) fn new(tokens: Vec<OpenToken>) -> Attached {
        Attached { tokens, listed: Mutex::default() }
    }

    /// Closes the tokens.
    pub(crate) fn close(&self) {
        self.tokens.iter().for_each(OpenToken::close);
    }

    /// What tells one state of the tokens from another. They are asked if it is long ago that they were; one that does not answer has what
    /// it had, since its keys may be on others too.
    pub(crate) fn state(&self) -> u64 {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let Listed { again, inventories, changes } = &mut *listed;
        inventories.resize_with(self.tokens.len(), Inventory::default);
        again.resize(self.tokens.len(), None);
        for ((token, known), again) in self.tokens.iter().zip(inventories).zip(again) {
            if again.is_some_and(|again| Instant::now() < again) {
                continue;
            }
            let found = token.inventory();
            *again = Some(Instant::now() + if found.is_ok() { LISTING_LASTS } else { SILENCE_LASTS });
            if let Ok(found) = found
                && found != *known
            {
                *known = found;
                *changes += 1;
            }
        }
        *changes
    }

    /// Whether all tokens offer RSA without padding for such keys.
    fn raises(&self, shape: KeyShape) -> bool {
        let KeyShape::Rsa(size) = shape else { return false };
        let suite = Suite::PublicEncrypt(PublicEncryption::RsaRaw(size));
        let offers = |token: &OpenToken| {
            token.engine().capabilities().iter().any(|claim| claim.covers(suite, Direction::Decrypt))
        };
        self.tokens.iter().all(offers)
    }

    /// The objects of all tokens in the order of their numbers: public ones, and with `with_private` all of them. What a token tells that
    /// makes no object is left out.
    pub(crate) fn objects(&self, mill: &Mill, with_private: bool) -> Vec<Stored> {
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found: BTreeMap<u64, Stored> = BTreeMap::new();
        for key in listed.inventories.iter().flat_map(|inventory| &inventory.keys) {
            let is_private = key.private || key.class != KeyClass::Public;
            // Nobody could give the token the PIN that some want before each use.
            let is_shown = !key.always_authenticates && (with_private || !is_private);
            let Some(name) = key.reference().filter(|_| is_shown) else { continue };
            let number = numbered(&format!("{:?} {} {name}", key.class, key.kind));
            // On several tokens, or another key of the same name: the first token's is meant, and the mill uses no other.
            if let (Entry::Vacant(place), Ok(Some((attributes, key)))) =
                (found.entry(number), of_key(mill, key, &name, number, |shape| self.raises(shape)))
            {
                place.insert(Stored { id: number, attributes, key: Some(key) });
            }
        }
        for certificate in listed.inventories.iter().flat_map(|inventory| &inventory.certificates) {
            let id: String = certificate.id.iter().map(|byte| format!("{byte:02x}")).collect();
            let number = numbered(&format!("Certificate {id} {}", certificate.label));
            if certificate.private && !with_private {
                continue;
            }
            if let (Entry::Vacant(place), Ok(attributes)) = (found.entry(number), of_certificate(certificate, number)) {
                place.insert(Stored { id: number, attributes, key: None });
            }
        }
        found.into_values().collect()
    }
}

fn numbered(name: &str) -> u64 {
    number_of(name, false) & (ATTACHED_FROM - 1) | ATTACHED_FROM
}

/// What kind of key runs such suites; none that no operation here takes.
fn shape_of(suites: &[Suite]) -> Option<KeyShape> {
    suites.iter().find_map(|suite| match suite {
        Suite::Sign(Signature::Rsa(size, ..)) => Some(KeyShape::Rsa(*size)),
        Suite::Sign(Signature::Ecdsa(curve)) => Some(KeyShape::Ec(*curve)),
        Suite::Sign(Signature::Ed25519) => Some(KeyShape::Ed25519),
        Suite::Cipher(BlockCipher::Aes(size), _) => Some(KeyShape::Aes(*size)),
        Suite::Mac(Mac::Hmac(_)) => Some(KeyShape::Bytes),
        _ => None,
    })
}

/// The object of a key; none for what operations here do not take, and for pairs whose public half the token does not tell: nothing that
/// such a key signs could be verified.
fn of_key(
    mill: &Mill,
    report: &KeyReport,
    name: &str,
    number: u64,
    raises: impl FnOnce(KeyShape) -> bool,
) -> Result<Option<(Attributes, Key)>> {
    let Some(shape) = shape_of(&report.suites) else { return Ok(None) };
    let (mut implied, key) = match (report.class, &report.public) {
        (KeyClass::Secret, _) => {
            let value = KeyValue::by_name(mill, name, None, false)?;
            (material::of_secret(shape), Some(Key { shape, value }))
        }
        (_, None) => return Ok(None),
        (KeyClass::Public, Some(public)) => material::of_public(mill, shape, public)?,
        (KeyClass::Private, Some(public)) => {
            let attributes = material::of_private(shape, public)?;
            (attributes, Some(Key { shape, value: KeyValue::by_name(mill, name, Some(public), raises(shape))? }))
        }
    };
    let Some(key) = key else { return Ok(None) };
    implied.set(CKA_LABEL, report.label.as_bytes());
    implied.set(CKA_ID, &report.id);
    implied.set_flag(CKA_PRIVATE, report.private || report.class != KeyClass::Public);
    if report.class != KeyClass::Public {
        keep_in(&mut implied, report);
    }
    complete(implied, number).map(|attributes| Some((attributes, key)))
}

/// What a key that stays on its token may do, and what it keeps to itself.
fn keep_in(implied: &mut Attributes, report: &KeyReport) {
    let is_secret = report.class == KeyClass::Secret;
    for (kind, value) in [
        (CKA_SENSITIVE, true),
        (CKA_EXTRACTABLE, false),
        (CKA_SIGN, report.uses.sign),
        (CKA_DECRYPT, report.uses.decrypt),
        // A secret key here is a name: what is derived of its bytes is nothing that a token does for us.
        (CKA_DERIVE, report.uses.derive && !is_secret),
        (CKA_UNWRAP, false),
    ] {
        implied.set_flag(kind, value);
    }
    if is_secret {
        implied.set_flag(CKA_ENCRYPT, report.uses.encrypt);
        // A MAC is verified by being made.
        implied.set_flag(CKA_VERIFY, report.uses.sign);
        implied.set_flag(CKA_WRAP, false);
    } else {
        implied.set_flag(CKA_SIGN_RECOVER, false);
    }
}

fn of_certificate(report: &CertificateReport, number: u64) -> Result<Attributes> {
    let mut implied = Attributes::default();
    implied.set_number(CKA_CLASS, CKO_CERTIFICATE);
    implied.set_number(CKA_CERTIFICATE_TYPE, CKC_X_509);
    implied.set(CKA_LABEL, report.label.as_bytes());
    implied.set(CKA_ID, &report.id);
    implied.set_flag(CKA_PRIVATE, report.private);
    implied.set(CKA_SUBJECT, &report.subject);
    implied.set(CKA_VALUE, &report.value);
    complete(implied, number)
}

/// With what every object of a token has that is not ours to change.
fn complete(mut implied: Attributes, number: u64) -> Result<Attributes> {
    implied.set(CKA_UNIQUE_ID, format!("{number:016x}").as_bytes());
    implied.set_flag(CKA_TOKEN, true);
    implied.set_flag(CKA_COPYABLE, false);
    implied.set_flag(CKA_MODIFIABLE, false);
    implied.set_flag(CKA_DESTROYABLE, false);
    rules::complete(&Template::default(), Origin::Other, &implied)
}
