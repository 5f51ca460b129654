//! Which objects and keys a session may use, and for what.

use std::sync::Arc;

use cryptoki_sys::*;

use crate::attributes::{Attributes, rules};
use crate::key::Key;
use crate::library::Library;
use crate::mechanisms::Mechanism;
use crate::objects::{Home, Object};
use crate::operations::random;
use crate::rv::{Result, Rv, fail};
use crate::session::Session;
use crate::slot::{Login, Slot};

/// The slot of a session.
pub(crate) fn slot_of<'l>(library: &'l Library, session: &Session) -> Result<&'l Slot> {
    library.slot(session.slot as CK_SLOT_ID)
}

/// Whether a session may see an object.
#[inline]
fn sees(library: &Library, session: &Session, object: &Object) -> Result<bool> {
    let hidden = object.is_private() && slot_of(library, session)?.login() != Login::User;
    Ok(object.slot == session.slot && !hidden)
}

/// An object that a session may see.
///
/// # Errors
/// `CKR_OBJECT_HANDLE_INVALID`, also for objects of other slots, and for private ones while the user is not logged in.
pub(crate) fn visible(library: &Library, session: &Session, handle: CK_OBJECT_HANDLE) -> Result<Arc<Object>> {
    let object = library.objects.get(handle)?;
    if sees(library, session, &object)? { Ok(object) } else { fail(CKR_OBJECT_HANDLE_INVALID) }
}

/// A key object, by the key handle of an operation.
///
/// # Errors
/// `CKR_KEY_HANDLE_INVALID` for what is no visible key.
pub(crate) fn key_object(library: &Library, session: &Session, handle: CK_OBJECT_HANDLE) -> Result<Arc<Object>> {
    let object = visible(library, session, handle).map_err(|_| Rv(CKR_KEY_HANDLE_INVALID))?;
    if object.is_key() { Ok(object) } else { fail(CKR_KEY_HANDLE_INVALID) }
}

/// A key that may be used for something (`may` is the attribute that says so) with a mechanism.
///
/// # Errors
/// `CKR_KEY_HANDLE_INVALID`; `CKR_KEY_FUNCTION_NOT_PERMITTED` where the attribute is not true; `CKR_MECHANISM_INVALID` where
/// `CKA_ALLOWED_MECHANISMS` does not have the mechanism; `CKR_KEY_TYPE_INCONSISTENT` for keys that no operation takes.
pub(crate) fn usable_key(
    library: &Library,
    session: &Session,
    handle: CK_OBJECT_HANDLE,
    may: CK_ATTRIBUTE_TYPE,
    mechanism: &Mechanism,
) -> Result<Key> {
    usable_key_and_pin(library, session, handle, may, mechanism).map(|(key, _)| key)
}

/// The same, and whether operations with the key ask for the user's PIN each time.
///
/// # Errors
/// As [`usable_key`].
#[inline]
pub(crate) fn usable_key_and_pin(
    library: &Library,
    session: &Session,
    handle: CK_OBJECT_HANDLE,
    may: CK_ATTRIBUTE_TYPE,
    mechanism: &Mechanism,
) -> Result<(Key, bool)> {
    let found = library.objects.with(handle, |object| {
        let is_key = object.is_key() && sees(library, session, object)?;
        Ok(is_key.then(|| key_of(object, may, mechanism).map(|key| (key, object.asks_for_pin()))))
    });
    // Whatever is wrong with what the handle names, it names no key.
    found.unwrap_or(None).unwrap_or(fail(CKR_KEY_HANDLE_INVALID))
}

/// The key of an object, as [`usable_key`].
///
/// # Errors
/// As [`usable_key`], but the first.
#[inline]
pub(crate) fn key_of(object: &Object, may: CK_ATTRIBUTE_TYPE, mechanism: &Mechanism) -> Result<Key> {
    if !object.permits(may) {
        return fail(CKR_KEY_FUNCTION_NOT_PERMITTED);
    }
    if object.is_restricted() && !is_allowed(object, mechanism) {
        return fail(CKR_MECHANISM_INVALID);
    }
    object.key.clone().ok_or(Rv(CKR_KEY_TYPE_INCONSISTENT))
}

#[cold]
fn is_allowed(object: &Object, mechanism: &Mechanism) -> bool {
    let allowed = object.attributes.get(CKA_ALLOWED_MECHANISMS).unwrap_or_default();
    let wanted = mechanism.kind().to_ne_bytes();
    allowed.chunks_exact(size_of::<CK_MECHANISM_TYPE>()).any(|one| one == wanted)
}

/// A secret key whose bytes may be digested: one that could be read as well.
///
/// # Errors
/// `CKR_KEY_HANDLE_INVALID`; `CKR_KEY_INDIGESTIBLE`.
pub(crate) fn digestible_key(library: &Library, session: &Session, handle: CK_OBJECT_HANDLE) -> Result<Key> {
    let object = key_object(library, session, handle)?;
    let is_secret = object.attributes.number(CKA_CLASS) == Some(CKO_SECRET_KEY);
    let readable = object.attributes.is_set(CKA_EXTRACTABLE) && !object.attributes.is_set(CKA_SENSITIVE);
    match &object.key {
        Some(key) if is_secret && readable => Ok(key.clone()),
        _ => fail(CKR_KEY_INDIGESTIBLE),
    }
}

/// Whether a session may make, change or destroy an object.
///
/// # Errors
/// `CKR_SESSION_READ_ONLY` for the token's objects in a session that may only read; `CKR_USER_NOT_LOGGED_IN` for private ones.
pub(crate) fn may_write(library: &Library, session: &Session, on_token: bool, is_private: bool) -> Result<()> {
    if on_token && !session.may_write {
        return fail(CKR_SESSION_READ_ONLY);
    }
    if is_private {
        slot_of(library, session)?.needs_user()?;
    }
    Ok(())
}

/// Random bytes of an object's `CKA_UNIQUE_ID`, which nobody draws twice.
const UNIQUE_ID_LEN: usize = 16;

/// Keeps a new object, under a name of its own (`CKA_UNIQUE_ID`): in the token or for the session, as its attributes say.
///
/// # Errors
/// Those of [`rules::check_check_value`], of [`may_write`] and of [`crate::store::Token::insert`].
pub(crate) fn keep(
    library: &Library,
    session: &Session,
    handle: CK_SESSION_HANDLE,
    mut attributes: Attributes,
    key: Option<Key>,
) -> Result<CK_OBJECT_HANDLE> {
    let on_token = attributes.is_set(CKA_TOKEN);
    may_write(library, session, on_token, attributes.is_set(CKA_PRIVATE))?;
    rules::check_check_value(&attributes, key.as_ref())?;
    let mut number = [0; UNIQUE_ID_LEN];
    random(&library.mill, &mut number)?;
    let digits: String = number.iter().map(|byte| format!("{byte:02x}")).collect();
    attributes.set(CKA_UNIQUE_ID, digits.as_bytes());
    let home = if on_token {
        Home::Token(slot_of(library, session)?.token.insert(&attributes, key.as_ref())?)
    } else {
        Home::Session(handle)
    };
    Ok(library.objects.add(Object::new(session.slot, home, attributes, key)))
}

/// Takes back an object that was just made, since what belongs to it could not be.
pub(crate) fn discard(library: &Library, session: &Session, handle: CK_OBJECT_HANDLE) {
    if let Ok(object) = library.objects.get(handle)
        && let (Home::Token(number), Ok(slot)) = (object.home, slot_of(library, session))
    {
        // If the token cannot be written any more, the public half stays: it says nothing that is secret.
        let _ = slot.token.remove(number);
    }
    library.objects.remove(handle);
}
