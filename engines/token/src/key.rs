//! A key on a token: by reference, or as a copy.

use std::sync::{Arc, Mutex, PoisonError};

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Curve, RsaSize, Signature};
use ciphermill_contract::{KeyForm, KeyMaterial, Suite};
use ciphermill_memory::SecretBytes;
use ciphermill_pairs::der::trimmed;
use cryptoki_sys::{
    CK_ATTRIBUTE_TYPE, CK_OBJECT_HANDLE, CK_ULONG, CKA_CLASS, CKA_EC_PARAMS, CKA_EC_POINT, CKA_EXTRACTABLE, CKA_ID,
    CKA_KEY_TYPE, CKA_LABEL, CKA_MODULUS, CKA_PRIVATE, CKA_SENSITIVE, CKA_SIGN, CKA_TOKEN, CKA_VALUE, CKK_EC, CKK_RSA,
    CKO_PRIVATE_KEY, CKO_PUBLIC_KEY,
};

use crate::material;
use crate::session::{Attribute, Session};
use crate::token::{Connection, Failure, Token};

/// Bytes of a reference's name, as the contract has it.
const NAME_LEN_MAX: usize = 255;

const YES: &[u8] = &[1];
const NO: &[u8] = &[0];

/// The kind of a key, as far as its attributes follow from it.
#[derive(Clone, Copy)]
enum Kind {
    Rsa(RsaSize),
    Ec(Curve),
}

impl Kind {
    fn of(suite: Suite) -> Option<Kind> {
        match suite {
            Suite::Sign(Signature::Rsa(size, ..)) => Some(Kind::Rsa(size)),
            Suite::Sign(Signature::Ecdsa(curve) | Signature::EcdsaDigest(curve)) => Some(Kind::Ec(curve)),
            _ => None,
        }
    }

    fn key_type(self) -> [u8; size_of::<CK_ULONG>()] {
        match self {
            Kind::Rsa(_) => CKK_RSA.to_ne_bytes(),
            Kind::Ec(_) => CKK_EC.to_ne_bytes(),
        }
    }
}

enum Source {
    /// The token's own: how it is called there, and the public half that it had when it was first found.
    Reference { name: (CK_ATTRIBUTE_TYPE, Vec<u8>), public: Vec<u8> },
    /// The mill's: made again in each session.
    Copy(SecretBytes),
}

/// A key that a token holds for one suite.
pub(crate) struct TokenKey {
    token: Arc<Token>,
    kind: Kind,
    source: Source,
    /// The connection's number and the key's handle in it.
    held: Mutex<Option<(u64, CK_OBJECT_HANDLE)>>,
}

impl TokenKey {
    /// Looks a reference up, or copies a key.
    pub(crate) fn new(token: &Arc<Token>, key: &KeyMaterial<'_>, suite: Suite) -> Result<TokenKey, Failure> {
        let kind = Kind::of(suite).ok_or(Failure::Key(KeyProblem::Form))?;
        let (source, held) = match key.form {
            KeyForm::Reference => {
                let name = name(key.bytes).ok_or(Failure::Key(KeyProblem::Encoding))?;
                let (number, handle, public) = token.with(|connection| {
                    let (handle, public) = look_up(&connection.session, kind, &name)?;
                    Ok((connection.number, handle, public))
                })?;
                (Source::Reference { name, public }, Some((number, handle)))
            }
            KeyForm::Private if token.takes_copies() => {
                // A limit of locked memory; the mill goes on elsewhere.
                let bytes =
                    SecretBytes::from_slice(key.bytes).map_err(|_| Failure::Call(cryptoki_sys::CKR_HOST_MEMORY))?;
                (Source::Copy(bytes), None)
            }
            _ => return Err(Failure::Key(KeyProblem::Form)),
        };
        let key = TokenKey { token: Arc::clone(token), kind, source, held: Mutex::new(held) };
        key.token.with(|connection| key.at(connection).map(|_| ()))?;
        Ok(key)
    }

    /// The key's handle in this connection. In a new one it is found by its name again, and is the same key only if its public half is
    /// the same; else nothing is signed.
    pub(crate) fn at(&self, connection: &Connection) -> Result<CK_OBJECT_HANDLE, Failure> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, handle)) = held.filter(|(number, _)| *number == connection.number) {
            return Ok(handle);
        }
        let handle = match &self.source {
            Source::Reference { name, public } => {
                let (handle, found) = look_up(&connection.session, self.kind, name)?;
                if found != *public {
                    return Err(Failure::Key(KeyProblem::Parameters));
                }
                handle
            }
            Source::Copy(bytes) => copy(&connection.session, self.kind, &KeyMaterial::private(bytes))?,
        };
        *held = Some((connection.number, handle));
        Ok(handle)
    }

    /// The token that has it.
    pub(crate) fn token(&self) -> &Arc<Token> {
        &self.token
    }
}

impl Drop for TokenKey {
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let (Source::Copy(_), Some((number, handle))) = (&self.source, held) {
            // An object that cannot be destroyed goes with its session.
            self.token.within(number, |session| {
                let _ = session.destroy(handle);
            });
        }
    }
}

/// A reference's name as an attribute: `id:` and hexadecimal digits are a `CKA_ID`, anything else is a `CKA_LABEL`.
fn name(bytes: &[u8]) -> Option<(CK_ATTRIBUTE_TYPE, Vec<u8>)> {
    let name = core::str::from_utf8(bytes).ok().filter(|name| (1..=NAME_LEN_MAX).contains(&name.len()))?;
    let Some(digits) = name.strip_prefix("id:") else { return Some((CKA_LABEL, bytes.to_vec())) };
    let digits: Option<Vec<u8>> = digits.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let pairs = digits?;
    let id: Vec<u8> = pairs.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
    (!id.is_empty() && pairs.len() % 2 == 0).then_some((CKA_ID, id))
}

/// The one private key of that name and kind, and its public half. None, and one of several, is no key: what is signed with must not
/// depend on the order that a token lists its objects in.
fn look_up(
    session: &Session,
    kind: Kind,
    name: &(CK_ATTRIBUTE_TYPE, Vec<u8>),
) -> Result<(CK_OBJECT_HANDLE, Vec<u8>), Failure> {
    let (class, key_type) = (CKO_PRIVATE_KEY.to_ne_bytes(), kind.key_type());
    let found = session.find(&[(CKA_CLASS, &class), (CKA_KEY_TYPE, &key_type), (name.0, &name.1)])?;
    let [handle] = found[..] else { return Err(Failure::Key(KeyProblem::Encoding)) };
    match kind {
        Kind::Rsa(size) => {
            let modulus = session.attribute(handle, CKA_MODULUS)?;
            let modulus = trimmed(&modulus);
            if modulus.len() != size.len() {
                return Err(Failure::Key(KeyProblem::Parameters));
            }
            Ok((handle, modulus.to_vec()))
        }
        Kind::Ec(curve) => {
            if session.attribute(handle, CKA_EC_PARAMS)? != material::curve_parameters(curve) {
                return Err(Failure::Key(KeyProblem::Parameters));
            }
            // Private keys on curves need not say their point (6.3.4): the public key beside them does.
            let class = CKO_PUBLIC_KEY.to_ne_bytes();
            let id = session.attribute(handle, CKA_ID)?;
            let by: Attribute<'_> = if id.is_empty() { (name.0, &name.1) } else { (CKA_ID, &id) };
            let found = session.find(&[(CKA_CLASS, &class), (CKA_KEY_TYPE, &key_type), by])?;
            let [public] = found[..] else { return Err(Failure::Key(KeyProblem::Encoding)) };
            Ok((handle, session.attribute(public, CKA_EC_POINT)?))
        }
    }
}

/// Makes a session object that signs and is not given out again.
fn copy(session: &Session, kind: Kind, key: &KeyMaterial<'_>) -> Result<CK_OBJECT_HANDLE, Failure> {
    let (class, key_type) = (CKO_PRIVATE_KEY.to_ne_bytes(), kind.key_type());
    let mut template: Vec<Attribute<'_>> = vec![
        (CKA_CLASS, &class),
        (CKA_KEY_TYPE, &key_type),
        (CKA_TOKEN, NO),
        (CKA_PRIVATE, YES),
        (CKA_SENSITIVE, YES),
        (CKA_EXTRACTABLE, NO),
        (CKA_SIGN, YES),
    ];
    let parameters;
    match kind {
        Kind::Rsa(_) => template.extend(material::rsa_numbers(key).map_err(Failure::Key)?),
        Kind::Ec(curve) => {
            parameters = material::curve_parameters(curve);
            template.push((CKA_EC_PARAMS, &parameters));
            template.push((CKA_VALUE, material::scalar(curve, key).map_err(Failure::Key)?));
        }
    }
    Ok(session.create(&template)?)
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
