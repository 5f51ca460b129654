//! Keys that are brought to another token: from a token, wrapped all the way, or from the keystore.
//!
//! From one token to another: the target makes an RSA pair for this once, the source takes its public half, makes an AES key, and gives
//! out both the AES key under the public half (RSA-OAEP) and the key under the AES key (RFC 5649). What passes through this process is
//! the public half and what is wrapped. Whoever controls this process could hand over a public half of his own: clone where you trust
//! the machine.

use core::fmt;
use std::sync::{Arc, MutexGuard};

use ciphermill_contract::suite::{Digest, SignPadding, Signature};
use ciphermill_contract::{KeyMaterial, Suite};
use cryptoki_sys::{
    CK_ATTRIBUTE_TYPE, CK_FLAGS, CK_MECHANISM_TYPE, CK_OBJECT_HANDLE, CK_RV, CKA_CLASS, CKA_ENCRYPT, CKA_EXTRACTABLE,
    CKA_ID, CKA_KEY_TYPE, CKA_LABEL, CKA_MODULUS_BITS, CKA_PRIVATE, CKA_PUBLIC_EXPONENT, CKA_SENSITIVE, CKA_SIGN,
    CKA_TOKEN, CKA_UNWRAP, CKA_VALUE_LEN, CKA_VERIFY, CKA_WRAP, CKA_WRAP_WITH_TRUSTED, CKF_GENERATE,
    CKF_GENERATE_KEY_PAIR, CKF_UNWRAP, CKF_WRAP, CKK_AES, CKK_RSA, CKM_AES_KEY_GEN, CKM_AES_KEY_WRAP_KWP,
    CKM_AES_KEY_WRAP_PAD, CKM_RSA_PKCS_KEY_PAIR_GEN, CKM_RSA_PKCS_OAEP, CKO_PRIVATE_KEY, CKO_PUBLIC_KEY,
    CKO_SECRET_KEY, CKR_ATTRIBUTE_TYPE_INVALID, CKR_KEY_NOT_WRAPPABLE, CKR_KEY_UNEXTRACTABLE,
};

use crate::capabilities::{self, Offer};
use crate::failure::Failure;
use crate::key;
use crate::kind::{Kind, NO, YES};
use crate::module::Module;
use crate::objects::Wrapping;
use crate::public;
use crate::session::{Attribute, Session};
use crate::token::{Opening, Token, TokenError};

/// Bits of the pair that the wrapping key travels under, the first that the target makes. With fewer they would be the weakest link.
const EXCHANGE_BITS: [usize; 2] = [3072, 2048];

/// Bytes of the wrapping key.
const WRAPPING_KEY_LEN: usize = 32;

/// 65537.
const EXPONENT: &[u8] = &[1, 0, 1];

/// What keys are wrapped with, and how it is called; the first that both tokens have.
const WRAPPINGS: [(CK_MECHANISM_TYPE, &str); 2] =
    [(CKM_AES_KEY_WRAP_KWP, "CKM_AES_KEY_WRAP_KWP"), (CKM_AES_KEY_WRAP_PAD, "CKM_AES_KEY_WRAP_PAD")];

/// How wrapping keys travel, in the order in which that is tried.
const EXCHANGES: [(Wrapping, &str); 2] =
    [(Wrapping::OaepSha256, "RSA-OAEP with SHA-256"), (Wrapping::OaepSha1, "RSA-OAEP with SHA-1")];

/// Why a key was not brought to a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloneError {
    /// A token does not open.
    Open {
        /// Its name.
        token: &'static str,
        /// Why.
        error: TokenError,
    },
    /// A call failed.
    Call {
        /// The token that said no.
        token: &'static str,
        /// What it was to do.
        what: &'static str,
        /// The code (PKCS#11 3.1, 5.1.6).
        code: u64,
    },
    /// There is no private key of that name, or there are several.
    NotThere(&'static str),
    /// The key is none that engines sign with, or its public half is not there.
    Unsuitable(&'static str),
    /// The token does not give the key out.
    NotExtractable(&'static str),
    /// A token lacks a mechanism.
    Lacks {
        /// The token.
        token: &'static str,
        /// The mechanism and what it is needed for.
        what: &'static str,
    },
    /// The target has a key of that label or identifier already.
    IsThere(&'static str),
    /// The new key does not sign as the old one does; it was destroyed again.
    Differs(&'static str),
}

impl fmt::Display for CloneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloneError::Open { token, error } => write!(f, "token `{token}`: {error}"),
            CloneError::Call { token, what, code } => {
                write!(f, "token `{token}`: to {what} ended with code {code:#x}")
            }
            CloneError::NotThere(token) => {
                write!(f, "token `{token}`: there is no private key of that name, or more than one")
            }
            CloneError::Unsuitable(token) => {
                write!(
                    f,
                    "token `{token}`: the key is no RSA or ECDSA key of a known size, or its public half is not there"
                )
            }
            CloneError::NotExtractable(token) => {
                write!(
                    f,
                    "token `{token}`: the key is not extractable: it was made never to leave the token, wrapped or not"
                )
            }
            CloneError::Lacks { token, what } => write!(f, "token `{token}`: lacks {what}"),
            CloneError::IsThere(token) => {
                write!(f, "token `{token}`: has a key of that label or identifier already")
            }
            CloneError::Differs(token) => {
                write!(f, "token `{token}`: the new key does not sign as the old one does, and was destroyed")
            }
        }
    }
}

impl std::error::Error for CloneError {}

/// A key that is on another token now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cloned {
    /// Its label there.
    pub label: String,
    /// Its identifier there.
    pub id: Vec<u8>,
    /// Its kind and size.
    pub kind: String,
    /// The public half as SubjectPublicKeyInfo in DER.
    pub public: Vec<u8>,
    /// What it was wrapped with, and how the wrapping key travelled; none for a key of the keystore.
    pub wrapped: Option<(&'static str, &'static str)>,
}

/// A private key from outside, and what it is to be called.
#[derive(Clone, Copy)]
pub struct Outside<'a> {
    /// PKCS#8.
    pub key: KeyMaterial<'a>,
    /// Its public half as SubjectPublicKeyInfo in DER.
    pub public: &'a [u8],
    /// A suite that it is for.
    pub suite: Suite,
    /// The label.
    pub label: &'a str,
}

/// Brings a private key to another token, wrapped all the way. It gets the label and identifier that it has, and stays there: sensitive,
/// not extractable. `is_same` is asked whether both tokens sign alike: it gets a suite, the key's name for references, and its public half.
///
/// # Errors
/// [`CloneError`]; the target is as it was then.
pub fn clone_key(
    name: &str,
    from: &Opening,
    to: &Opening,
    is_same: &dyn Fn(Suite, &str, &[u8]) -> bool,
) -> Result<Cloned, CloneError> {
    let name = key::name(name.as_bytes()).ok_or(CloneError::NotThere(from.name))?;
    let modules = (load(from)?, load(to)?);
    let turns = turns(&modules.0, &modules.1);
    let source = Side::open(from, &modules.0)?;
    let target = Side::open(to, &modules.1)?;
    let found = source.find(&name)?;
    target.is_free(&found.label, &found.id)?;
    let (private, wrapped) = source.hand_over(found.handle, found.kind, &found.names(), &target)?;
    drop(source);
    let made = Made { private, public: None };
    finish(target, turns, made, &found, Some(wrapped), is_same)
}

/// Makes a private key from outside an object of a token that stays there: sensitive, not extractable. Its identifier follows from its
/// public half (RFC 7093, 2, method 1). `is_same` is as with [`clone_key`].
///
/// # Errors
/// [`CloneError`]; the target is as it was then.
pub fn install_key(
    outside: Outside<'_>,
    to: &Opening,
    is_same: &dyn Fn(Suite, &str, &[u8]) -> bool,
) -> Result<Cloned, CloneError> {
    let unsuitable = CloneError::Unsuitable(to.name);
    let kind = Kind::of(outside.suite).filter(|kind| matches!(kind, Kind::Rsa(_) | Kind::Ec(_)));
    let kind = kind.ok_or_else(|| unsuitable.clone())?;
    let public =
        kind.public_half(&outside.key).ok().flatten().filter(|half| half == outside.public).ok_or(unsuitable)?;
    let module = load(to)?;
    let turns = turns(&module, &module);
    let target = Side::open(to, &module)?;
    let (label, id) = (outside.label.as_bytes().to_vec(), public::identifier(&public));
    let found = Found { handle: 0, kind, label, id, public, suite: outside.suite };
    target.is_free(&found.label, &found.id)?;
    let names = found.names();
    let made = create(&target.session, kind, &outside.key, &names);
    let private = made.map_err(|failure| match failure {
        Failure::Call(code) => target.call("make the key", code),
        _ => CloneError::Unsuitable(to.name),
    })?;
    finish(target, turns, Made { private, public: None }, &found, None, is_same)
}

/// What was made on the target, and goes again if something fails.
struct Made {
    private: CK_OBJECT_HANDLE,
    public: Option<CK_OBJECT_HANDLE>,
}

/// Puts the public key beside a private one, and has both tried; what was made goes again if that fails.
fn finish(
    target: Side<'_>,
    turns: Turns<'_>,
    mut made: Made,
    found: &Found,
    wrapped: Option<(&'static str, &'static str)>,
    is_same: &dyn Fn(Suite, &str, &[u8]) -> bool,
) -> Result<Cloned, CloneError> {
    let beside = target.put_public(found).map(|public| made.public = Some(public));
    // Whoever tries the key needs the module's turn. The session stays, and with it the login.
    drop(turns);
    let tried = beside.and_then(|()| {
        if is_same(found.suite, &found.reference(), &found.public) {
            Ok(())
        } else {
            Err(CloneError::Differs(target.name))
        }
    });
    let turn = target.module.turn();
    let cloned = match tried {
        Ok(()) => Ok(Cloned {
            label: String::from_utf8_lossy(&found.label).into_owned(),
            id: found.id.clone(),
            kind: found.kind.to_string(),
            public: found.public.clone(),
            wrapped,
        }),
        Err(error) => {
            let made = [Some(made.private), made.public];
            let gone = made.into_iter().flatten().try_for_each(|object| target.session.destroy(object));
            Err(gone.map_or_else(|code| target.call("destroy a key that was not to stay", code), |()| error))
        }
    };
    // The session is closed in the module's turn.
    drop(target);
    drop(turn);
    cloned
}

/// The turns of one or two modules.
type Turns<'a> = (MutexGuard<'a, ()>, Option<MutexGuard<'a, ()>>);

fn turns<'a>(first: &'a Arc<Module>, second: &'a Arc<Module>) -> Turns<'a> {
    let others = !Arc::ptr_eq(first, second);
    (first.turn(), others.then(|| second.turn()))
}

fn load(opening: &Opening) -> Result<Arc<Module>, CloneError> {
    Module::load(&opening.module).map_err(|error| CloneError::Open { token: opening.name, error: error.into() })
}

/// A private key that was found, or is to be made.
struct Found {
    handle: CK_OBJECT_HANDLE,
    kind: Kind,
    label: Vec<u8>,
    id: Vec<u8>,
    /// In the contract's form.
    public: Vec<u8>,
    /// What it is tried with.
    suite: Suite,
}

impl Found {
    /// What both tokens call it.
    fn names(&self) -> [Attribute<'_>; 2] {
        [(CKA_LABEL, &self.label), (CKA_ID, &self.id)]
    }

    fn reference(&self) -> String {
        match &self.id[..] {
            [] => String::from_utf8_lossy(&self.label).into_owned(),
            id => id.iter().fold("id:".to_owned(), |text, byte| text + &format!("{byte:02x}")),
        }
    }
}

/// One of the two tokens, with a session in which objects can be made.
struct Side<'a> {
    name: &'static str,
    module: &'a Arc<Module>,
    session: Session,
    offers: Vec<Offer>,
}

impl<'a> Side<'a> {
    fn open(opening: &Opening, module: &'a Arc<Module>) -> Result<Side<'a>, CloneError> {
        let open = || {
            let slot = Token::slot_of(module, &opening.place)?;
            let session = Session::open_to_write(module, slot)?;
            if let Some(pin) = &opening.pin {
                session.login(pin)?;
            }
            Ok((session, capabilities::offers(module, slot)?))
        };
        let failed = |code| CloneError::Open { token: opening.name, error: TokenError::Call(code) };
        let (session, offers) = open().map_err(failed)?;
        Ok(Side { name: opening.name, module, session, offers })
    }

    fn call(&self, what: &'static str, code: CK_RV) -> CloneError {
        CloneError::Call { token: self.name, what, code }
    }

    /// Whether the token has a mechanism for this use, whatever the size of keys.
    fn has(&self, mechanism: CK_MECHANISM_TYPE, flag: CK_FLAGS) -> bool {
        self.offers.iter().any(|offer| offer.mechanism == mechanism && offer.info.flags & flag != 0)
    }

    fn needs(&self, mechanism: CK_MECHANISM_TYPE, flag: CK_FLAGS, what: &'static str) -> Result<(), CloneError> {
        if self.has(mechanism, flag) { Ok(()) } else { Err(CloneError::Lacks { token: self.name, what }) }
    }

    /// The one private key of a name, which has to be extractable.
    fn find(&self, name: &(CK_ATTRIBUTE_TYPE, Vec<u8>)) -> Result<Found, CloneError> {
        let session = &self.session;
        let found = session.find(&[(CKA_CLASS, &CKO_PRIVATE_KEY.to_ne_bytes()), (name.0, &name.1)]);
        let found = found.map_err(|code| self.call("look for the key", code))?;
        let [handle] = found[..] else { return Err(CloneError::NotThere(self.name)) };
        let kind = Kind::of_object(session, handle).ok_or(CloneError::Unsuitable(self.name))?;
        let suite = Suite::Sign(match kind {
            Kind::Rsa(size) => Signature::Rsa(size, SignPadding::Pkcs1, Digest::Sha256),
            Kind::Ec(curve) => Signature::Ecdsa(curve),
            _ => return Err(CloneError::Unsuitable(self.name)),
        });
        let public = key::public_half(session, kind, handle).map_err(|_| CloneError::Unsuitable(self.name))?;
        let is_bound = session.says(handle, CKA_WRAP_WITH_TRUSTED) == Some(true);
        if is_bound || session.says(handle, CKA_EXTRACTABLE) != Some(true) {
            return Err(CloneError::NotExtractable(self.name));
        }
        // A name that it lacks is an empty one; one that cannot be read must not be lost.
        let text = |kind| match session.attribute(handle, kind) {
            Err(CKR_ATTRIBUTE_TYPE_INVALID) => Ok(Vec::new()),
            read => read.map(|text| text.to_vec()).map_err(|code| self.call("read the key's names", code)),
        };
        Ok(Found { handle, kind, label: text(CKA_LABEL)?, id: text(CKA_ID)?, public, suite })
    }

    /// No key pair here may have the label or identifier already: references would lead to two keys, or to another's public half.
    fn is_free(&self, label: &[u8], id: &[u8]) -> Result<(), CloneError> {
        for class in [CKO_PRIVATE_KEY, CKO_PUBLIC_KEY] {
            for (kind, name) in [(CKA_LABEL, label), (CKA_ID, id)].into_iter().filter(|(_, name)| !name.is_empty()) {
                let found = self.session.find(&[(CKA_CLASS, &class.to_ne_bytes()), (kind, name)]);
                if !found.map_err(|code| self.call("look for the key", code))?.is_empty() {
                    return Err(CloneError::IsThere(self.name));
                }
            }
        }
        Ok(())
    }

    /// Wraps a key so that the target alone can unwrap it, and has it do that; the new key, and what was used.
    fn hand_over(
        &self,
        key: CK_OBJECT_HANDLE,
        kind: Kind,
        names: &[Attribute<'_>; 2],
        target: &Side<'_>,
    ) -> Result<(CK_OBJECT_HANDLE, (&'static str, &'static str)), CloneError> {
        let (wrapping, wrapped_with) = self.wrapping(target)?;
        let exchange = target.exchange_pair()?;
        let (kek, exported, exchange_name) = self.export_wrapping_key(&exchange, target)?;
        let bytes = self.session.wrap(wrapping, kek, key).map_err(|code| match code {
            CKR_KEY_UNEXTRACTABLE | CKR_KEY_NOT_WRAPPABLE => CloneError::NotExtractable(self.name),
            code => self.call("wrap the key", code),
        })?;
        let (class, key_type) = (CKO_PRIVATE_KEY.to_ne_bytes(), kind.key_type());
        let mut template = signer(&class, &key_type);
        template.extend_from_slice(names);
        let private = target.session.unwrap(wrapping, exported, &bytes, &template);
        Ok((private.map_err(|code| target.call("unwrap the key", code))?, (wrapped_with, exchange_name)))
    }

    /// The mechanism for the key itself, which both have; all that the exchange needs is there too.
    fn wrapping(&self, target: &Side<'_>) -> Result<(Wrapping, &'static str), CloneError> {
        target.needs(
            CKM_RSA_PKCS_KEY_PAIR_GEN,
            CKF_GENERATE_KEY_PAIR,
            "CKM_RSA_PKCS_KEY_PAIR_GEN for a pair that the wrapping key travels under",
        )?;
        target.needs(CKM_RSA_PKCS_OAEP, CKF_UNWRAP, "CKM_RSA_PKCS_OAEP to unwrap")?;
        self.needs(CKM_RSA_PKCS_OAEP, CKF_WRAP, "CKM_RSA_PKCS_OAEP to wrap")?;
        self.needs(CKM_AES_KEY_GEN, CKF_GENERATE, "CKM_AES_KEY_GEN for the wrapping key")?;
        let wraps = |name: CK_MECHANISM_TYPE| self.has(name, CKF_WRAP);
        let both = |name: CK_MECHANISM_TYPE| wraps(name) && target.has(name, CKF_UNWRAP);
        match WRAPPINGS.into_iter().find(|(name, _)| both(*name)) {
            Some((mechanism, name)) => Ok((Wrapping::Plain(mechanism), name)),
            None => {
                let token = if WRAPPINGS.into_iter().any(|(name, _)| wraps(name)) { target.name } else { self.name };
                Err(CloneError::Lacks { token, what: "a mechanism of AES key wrap with padding that both tokens have" })
            }
        }
    }

    /// Makes a pair whose private half unwraps, for this session.
    fn exchange_pair(&self) -> Result<Exchange, CloneError> {
        let fits =
            |bits: usize| capabilities::has(&self.offers, CKM_RSA_PKCS_KEY_PAIR_GEN, CKF_GENERATE_KEY_PAIR, bits);
        let bits = EXCHANGE_BITS.into_iter().find(|bits| fits(*bits));
        let bits = bits.ok_or(CloneError::Lacks { token: self.name, what: "RSA pairs of 2,048 bits or more" })?;
        let bits = (bits as cryptoki_sys::CK_ULONG).to_ne_bytes();
        let public = [
            (CKA_TOKEN, NO),
            (CKA_MODULUS_BITS, &bits[..]),
            (CKA_PUBLIC_EXPONENT, EXPONENT),
            (CKA_WRAP, YES),
            (CKA_ENCRYPT, NO),
        ];
        let private =
            [(CKA_TOKEN, NO), (CKA_PRIVATE, YES), (CKA_SENSITIVE, YES), (CKA_EXTRACTABLE, NO), (CKA_UNWRAP, YES)];
        let made = self.session.generate_pair(CKM_RSA_PKCS_KEY_PAIR_GEN, &public, &private);
        let (public, private) = made.map_err(|code| self.call("make a pair for the exchange", code))?;
        let read =
            |kind| self.session.attribute(public, kind).map_err(|code| self.call("read the pair's public half", code));
        Ok(Exchange {
            private,
            modulus: read(cryptoki_sys::CKA_MODULUS)?.to_vec(),
            exponent: read(CKA_PUBLIC_EXPONENT)?.to_vec(),
        })
    }

    /// Makes an AES key and brings it to the target; its handles here and there, and how it went.
    fn export_wrapping_key(
        &self,
        exchange: &Exchange,
        target: &Side<'_>,
    ) -> Result<(CK_OBJECT_HANDLE, CK_OBJECT_HANDLE, &'static str), CloneError> {
        let (class, key_type) = (CKO_PUBLIC_KEY.to_ne_bytes(), CKK_RSA.to_ne_bytes());
        let public = self.session.create(&[
            (CKA_CLASS, &class),
            (CKA_KEY_TYPE, &key_type),
            (CKA_TOKEN, NO),
            (CKA_WRAP, YES),
            (cryptoki_sys::CKA_MODULUS, &exchange.modulus),
            (CKA_PUBLIC_EXPONENT, &exchange.exponent),
        ]);
        let public = public.map_err(|code| self.call("take the public half of the other token", code))?;
        let len = (WRAPPING_KEY_LEN as cryptoki_sys::CK_ULONG).to_ne_bytes();
        let template = [
            (CKA_TOKEN, NO),
            (CKA_PRIVATE, YES),
            (CKA_SENSITIVE, YES),
            (CKA_EXTRACTABLE, YES),
            (CKA_WRAP, YES),
            (CKA_VALUE_LEN, &len[..]),
        ];
        let kek = self.session.generate(CKM_AES_KEY_GEN, &template);
        let kek = kek.map_err(|code| self.call("make a wrapping key", code))?;
        let (class, key_type) = (CKO_SECRET_KEY.to_ne_bytes(), CKK_AES.to_ne_bytes());
        let template = [
            (CKA_CLASS, &class[..]),
            (CKA_KEY_TYPE, &key_type),
            (CKA_TOKEN, NO),
            (CKA_PRIVATE, YES),
            (CKA_SENSITIVE, YES),
            (CKA_EXTRACTABLE, NO),
            (CKA_UNWRAP, YES),
        ];
        let mut refused = CloneError::Lacks { token: self.name, what: "RSA-OAEP with SHA-256 or SHA-1" };
        for (way, name) in EXCHANGES {
            let wrapped = self.session.wrap(way, public, kek).map_err(|code| self.call("wrap the wrapping key", code));
            let unwrapped = wrapped.and_then(|bytes| {
                let there = target.session.unwrap(way, exchange.private, &bytes, &template);
                there.map_err(|code| target.call("unwrap the wrapping key", code))
            });
            match unwrapped {
                Ok(there) => return Ok((kek, there, name)),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// Puts the public key beside the private one.
    fn put_public(&self, found: &Found) -> Result<CK_OBJECT_HANDLE, CloneError> {
        let (class, key_type) = (CKO_PUBLIC_KEY.to_ne_bytes(), found.kind.key_type());
        let made = found.kind.with_public_attributes(&found.public, |parts| {
            let mut template = vec![
                (CKA_CLASS, &class[..]),
                (CKA_KEY_TYPE, &key_type),
                (CKA_TOKEN, YES),
                (CKA_PRIVATE, NO),
                (CKA_VERIFY, YES),
            ];
            template.extend_from_slice(&found.names());
            template.extend_from_slice(parts);
            Ok(self.session.create(&template)?)
        });
        made.map_err(|failure| match failure {
            Failure::Call(code) => self.call("make the public key", code),
            _ => CloneError::Unsuitable(self.name),
        })
    }
}

/// The pair that a wrapping key travels under: the handle of its private half at the target, and its public half.
struct Exchange {
    private: CK_OBJECT_HANDLE,
    modulus: Vec<u8>,
    exponent: Vec<u8>,
}

/// What a private key has that signs and is not given out again.
fn signer<'a>(class: &'a [u8], key_type: &'a [u8]) -> Vec<Attribute<'a>> {
    vec![
        (CKA_CLASS, class),
        (CKA_KEY_TYPE, key_type),
        (CKA_TOKEN, YES),
        (CKA_PRIVATE, YES),
        (CKA_SENSITIVE, YES),
        (CKA_EXTRACTABLE, NO),
        (CKA_SIGN, YES),
    ]
}

/// Makes an object of a private key that signs, with these names.
fn create(
    session: &Session,
    kind: Kind,
    key: &KeyMaterial<'_>,
    names: &[Attribute<'_>],
) -> Result<CK_OBJECT_HANDLE, Failure> {
    let (class, key_type) = (CKO_PRIVATE_KEY.to_ne_bytes(), kind.key_type());
    let mut template = signer(&class, &key_type);
    template.extend_from_slice(names);
    kind.with_own_attributes(key, |parts| Ok(session.create(&[&template[..], parts].concat())?))
}
