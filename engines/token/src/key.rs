//! A key on a token: by reference, or as a copy.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Mac, PublicEncryption};
use ciphermill_contract::{KeyForm, KeyMaterial, Suite};
use ciphermill_memory::SecretBytes;
use cryptoki_sys::{
    CK_ATTRIBUTE_TYPE, CK_OBJECT_HANDLE, CK_RV, CKA_CLASS, CKA_EC_PARAMS, CKA_EC_POINT, CKA_ID, CKA_KEY_TYPE,
    CKA_LABEL, CKA_MODULUS, CKA_PUBLIC_EXPONENT, CKA_VALUE_LEN, CKO_PUBLIC_KEY, CKR_ATTRIBUTE_SENSITIVE,
    CKR_ATTRIBUTE_TYPE_INVALID, CKR_HOST_MEMORY, CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_KEY_SIZE_RANGE,
    CKR_KEY_TYPE_INCONSISTENT,
};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::digest;
use crate::failure::Failure;
use crate::fingerprint::fingerprint;
use crate::kind::{EDWARDS_NAMES, Half, Kind, NO, own_uses};
use crate::material;
use crate::pool::Connection;
use crate::public;
use crate::session::{Attribute, Session};
use crate::token::Token;

/// Bytes of a reference's name, as the contract has it.
const NAME_LEN_MAX: usize = 255;

/// The name of a key on its token.
pub(crate) type Name = (CK_ATTRIBUTE_TYPE, Vec<u8>);

/// Where the private or secret key is.
enum Own {
    /// Nowhere: the key is a public one.
    None,
    /// On the token, under this name. A secret key is known again by its fingerprint, a private one by its public half.
    Reference { name: Name, fingerprint: Option<Zeroizing<Vec<u8>>> },
    /// Here: it is copied into each session.
    Copy(SecretBytes),
}

/// Part of a key in a connection.
#[derive(Clone, Copy)]
struct Held {
    number: u64,
    half: Half,
    handle: CK_OBJECT_HANDLE,
}

/// A key that a token holds for one suite.
pub(crate) struct TokenKey {
    token: Arc<Token>,
    suite: Suite,
    kind: Kind,
    own: Own,
    /// The public half in the contract's form, of a reference as the token said it when the key was looked up.
    public: Option<Vec<u8>>,
    held: Mutex<Vec<Held>>,
}

impl TokenKey {
    /// Looks a reference up, or copies a key.
    pub(crate) fn new(token: &Arc<Token>, key: &KeyMaterial<'_>, suite: Suite) -> Result<TokenKey, Failure> {
        let kind = Kind::of(suite).ok_or(Failure::Key(KeyProblem::Form))?;
        let of = |own, public| TokenKey { token: Arc::clone(token), suite, kind, own, public, held: Mutex::default() };
        match key.form {
            KeyForm::Reference => {
                let name = name(key.bytes).ok_or(Failure::Key(KeyProblem::Encoding))?;
                token.with(|connection| {
                    let found = look_up(&connection.session, suite, kind, &name)?;
                    let made = of(Own::Reference { name, fingerprint: found.fingerprint }, found.public);
                    made.hold(connection.number, Half::Own, found.handle);
                    Ok(made)
                })
            }
            _ if !token.takes_copies() => Err(Failure::Key(KeyProblem::Form)),
            KeyForm::Public => {
                kind.check_public(key).map_err(Failure::Key)?;
                let made = of(Own::None, Some(key.bytes.to_vec()));
                token.with(|connection| made.at(connection, Half::Public))?;
                Ok(made)
            }
            KeyForm::Private | KeyForm::Secret => {
                let public = kind.public_half(key).map_err(Failure::Key)?;
                let own = normal(suite, key.bytes);
                // A limit of locked memory; the mill goes on elsewhere.
                let own = SecretBytes::from_slice(&own).map_err(|_| Failure::Call(CKR_HOST_MEMORY))?;
                let made = of(Own::Copy(own), public);
                token.with(|connection| made.at(connection, Half::Own))?;
                Ok(made)
            }
        }
    }

    /// Whether there is this part.
    pub(crate) fn has(&self, half: Half) -> bool {
        match half {
            Half::Own => !matches!(self.own, Own::None),
            Half::Public => self.public.is_some(),
        }
    }

    /// The handle of a part in this connection. In a new one a reference is found by its name again, and is the same key only if its
    /// public half or its fingerprint is the same; else nothing is done with it.
    pub(crate) fn at(&self, connection: &Connection, half: Half) -> Result<CK_OBJECT_HANDLE, Failure> {
        let number = connection.number;
        if let Some(held) = self.held().iter().find(|held| held.number == number && held.half == half) {
            return Ok(held.handle);
        }
        let session = &connection.session;
        let handle = match (half, &self.own) {
            (Half::Public, _) => {
                let public = self.public.as_ref().ok_or(Failure::Key(KeyProblem::Form))?;
                self.kind.copy_public(session, self.suite, public)?
            }
            (Half::Own, Own::Reference { name, fingerprint }) => {
                let found = look_up(session, self.suite, self.kind, name)?;
                let is_known = match (fingerprint, &found.fingerprint) {
                    (Some(known), Some(found)) => bool::from(known.ct_eq(found)),
                    (None, None) => self.public == found.public,
                    _ => false,
                };
                if !is_known {
                    return Err(Failure::Key(KeyProblem::Parameters));
                }
                found.handle
            }
            (Half::Own, Own::Copy(bytes)) => self.kind.copy_own(session, self.suite, bytes)?,
            (Half::Own, Own::None) => return Err(Failure::Key(KeyProblem::Form)),
        };
        self.hold(number, half, handle);
        Ok(handle)
    }

    /// Remembers a handle. Those in connections before the last ones, as many as there may be, are closed as a rule, and their objects
    /// are gone.
    fn hold(&self, number: u64, half: Half, handle: CK_OBJECT_HANDLE) {
        let mut held = self.held();
        let mut old = Vec::new();
        if held.len() >= 2 * self.token.sessions()
            && let Some(least) = held.iter().map(|held| held.number).min()
        {
            old.extend(held.extract_if(.., |held| held.number == least));
        }
        held.push(Held { number, half, handle });
        drop(held);
        self.destroy(&old);
    }

    /// Destroys what was made, of these.
    fn destroy(&self, held: &[Held]) {
        for held in held {
            if held.half == Half::Public || matches!(self.own, Own::Copy(_)) {
                self.token.destroy(held.number, held.handle);
            }
        }
    }

    fn held(&self) -> MutexGuard<'_, Vec<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The public half of a reference as [`KeyForm::Public`] has it, as the token said it when the key was looked up; none for secret
    /// keys, and for copies, whose owner has it.
    pub(crate) fn public_half(&self) -> Option<&[u8]> {
        self.public.as_deref().filter(|_| matches!(self.own, Own::Reference { .. }))
    }

    /// The public half, of a copy too.
    pub(crate) fn public(&self) -> Option<&[u8]> {
        self.public.as_deref()
    }

    /// What a secret key that the token alone has is known again by.
    pub(crate) fn fingerprint(&self) -> Option<&[u8]> {
        match &self.own {
            Own::Reference { fingerprint: Some(fingerprint), .. } => Some(fingerprint),
            _ => None,
        }
    }

    /// The token that has it.
    pub(crate) fn token(&self) -> &Arc<Token> {
        &self.token
    }
}

impl Drop for TokenKey {
    fn drop(&mut self) {
        let held = core::mem::take(self.held.get_mut().unwrap_or_else(PoisonError::into_inner));
        self.destroy(&held);
    }
}

/// A key as a copy has it. That of an HMAC is as long as a block of its digest: a longer one is digested, and what is missing is zeros
/// (FIPS 198-1, 4), so that lengths do not matter that tokens refuse.
fn normal(suite: Suite, bytes: &[u8]) -> Zeroizing<Vec<u8>> {
    let Suite::Mac(Mac::Hmac(name)) = suite else { return Zeroizing::new(bytes.to_vec()) };
    let digested = if bytes.len() > name.block_len() { digest::of(name, bytes) } else { None };
    let digested = Zeroizing::new(digested.unwrap_or_default());
    let bytes = if digested.is_empty() { bytes } else { &digested };
    let mut key = Zeroizing::new(vec![0; name.block_len()]);
    key.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    key
}

/// A reference's name as an attribute: `id:` and hexadecimal digits are a `CKA_ID`, anything else is a `CKA_LABEL`.
pub(crate) fn name(bytes: &[u8]) -> Option<Name> {
    let name = core::str::from_utf8(bytes).ok().filter(|name| (1..=NAME_LEN_MAX).contains(&name.len()))?;
    let Some(digits) = name.strip_prefix("id:") else { return Some((CKA_LABEL, bytes.to_vec())) };
    let digits: Option<Vec<u8>> = digits.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let pairs = digits?;
    let id: Vec<u8> = pairs.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
    (!id.is_empty() && pairs.len() % 2 == 0).then_some((CKA_ID, id))
}

/// What a name stands for.
struct Found {
    handle: CK_OBJECT_HANDLE,
    public: Option<Vec<u8>>,
    fingerprint: Option<Zeroizing<Vec<u8>>>,
}

/// The one private or secret key of that name and kind, and what it is known by. None, and one of several, is no key: what is signed with
/// must not depend on the order that a token lists its objects in.
fn look_up(session: &Session, suite: Suite, kind: Kind, name: &Name) -> Result<Found, Failure> {
    let class = kind.class();
    let mut found = Vec::new();
    for key_type in kind.key_types() {
        let key_type = key_type.to_ne_bytes();
        found.extend(session.find(&[(CKA_CLASS, &class), (CKA_KEY_TYPE, &key_type), (name.0, &name.1)])?);
    }
    let [handle] = found[..] else { return Err(Failure::Key(KeyProblem::Encoding)) };
    if let Kind::Aes(_) | Kind::Generic = kind {
        return secret(session, suite, kind, handle);
    }
    let refuses = |used_for: &CK_ATTRIBUTE_TYPE| session.attribute(handle, *used_for).is_ok_and(|said| *said == NO);
    let mut uses = own_uses(suite).iter();
    let is_refused = match suite {
        Suite::PublicEncrypt(PublicEncryption::RsaRaw(_)) => uses.all(refuses),
        _ => uses.any(refuses),
    };
    if is_refused {
        return Err(Failure::Key(KeyProblem::Form));
    }
    Ok(Found { handle, public: Some(public_half(session, kind, handle)?), fingerprint: None })
}

/// The public half of a private key that a token has, in the contract's form. What the private key does not say (6.1.3, 6.3.4), the public
/// key with its identifier, or without one with its label, does.
///
/// # Errors
/// `Key` where no such key is there, several are, or what they say is no public half of this kind; `Call`.
pub(crate) fn public_half(session: &Session, kind: Kind, handle: CK_OBJECT_HANDLE) -> Result<Vec<u8>, Failure> {
    let public = match kind {
        Kind::Rsa(size) => {
            let modulus = session.attribute(handle, CKA_MODULUS)?;
            let exponent = match session.attribute(handle, CKA_PUBLIC_EXPONENT) {
                // Private keys should say it and need not (6.1.3).
                Err(CKR_ATTRIBUTE_TYPE_INVALID | CKR_ATTRIBUTE_SENSITIVE) => {
                    session.attribute(beside(session, handle, kind)?, CKA_PUBLIC_EXPONENT)?
                }
                said => said?,
            };
            public::rsa(size, &modulus, &exponent)
        }
        Kind::Ec(curve) => {
            if *session.attribute(handle, CKA_EC_PARAMS)? != material::curve_parameters(curve) {
                return Err(Failure::Key(KeyProblem::Parameters));
            }
            // Private keys on curves do not say their point (6.3.4).
            let point = session.attribute(beside(session, handle, kind)?, CKA_EC_POINT)?;
            public::curve(curve, &point)
        }
        Kind::Edwards => {
            let parameters = session.attribute(handle, CKA_EC_PARAMS)?;
            if !EDWARDS_NAMES.contains(&parameters.as_slice()) {
                return Err(Failure::Key(KeyProblem::Parameters));
            }
            let point = session.attribute(beside(session, handle, kind)?, CKA_EC_POINT)?;
            public::edwards(&point)
        }
        Kind::Aes(_) | Kind::Generic => None,
    };
    public.ok_or(Failure::Key(KeyProblem::Parameters))
}

/// A secret key of the kind's length. One that may not do what its fingerprint takes is none: nothing would tell it from another.
fn secret(session: &Session, suite: Suite, kind: Kind, handle: CK_OBJECT_HANDLE) -> Result<Found, Failure> {
    if let Kind::Aes(size) = kind {
        let len = session.attribute(handle, CKA_VALUE_LEN)?;
        if *len != (size.key_len() as cryptoki_sys::CK_ULONG).to_ne_bytes() {
            return Err(Failure::Key(KeyProblem::Length));
        }
    }
    let fingerprint = fingerprint(session, suite, handle).map_err(|code: CK_RV| match code {
        CKR_KEY_FUNCTION_NOT_PERMITTED | CKR_KEY_TYPE_INCONSISTENT => Failure::Key(KeyProblem::Form),
        CKR_KEY_SIZE_RANGE => Failure::Key(KeyProblem::Length),
        code => Failure::Call(code),
    })?;
    Ok(Found { handle, public: None, fingerprint: Some(fingerprint) })
}

/// The public key beside a private one: of the same identifier, or where it has none of the same label.
fn beside(session: &Session, private: CK_OBJECT_HANDLE, kind: Kind) -> Result<CK_OBJECT_HANDLE, Failure> {
    let class = CKO_PUBLIC_KEY.to_ne_bytes();
    let id = session.attribute(private, CKA_ID)?;
    let label = session.attribute(private, CKA_LABEL)?;
    let by: Attribute<'_> = if id.is_empty() { (CKA_LABEL, &label) } else { (CKA_ID, &id) };
    let mut found = Vec::new();
    for key_type in kind.key_types() {
        found.extend(session.find(&[(CKA_CLASS, &class), (CKA_KEY_TYPE, &key_type.to_ne_bytes()), by])?);
    }
    let [public] = found[..] else { return Err(Failure::Key(KeyProblem::Encoding)) };
    Ok(public)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_labels_or_identifiers() {
        assert_eq!(name(b"signer"), Some((CKA_LABEL, b"signer".to_vec())));
        assert_eq!(name(b"id:0aFF"), Some((CKA_ID, vec![0x0a, 0xff])));
        for wrong in [&b""[..], b"id:", b"id:abc", b"id:zz", b"\xff", &[b'a'; 256]] {
            assert_eq!(name(wrong), None, "{wrong:?}");
        }
    }
}
