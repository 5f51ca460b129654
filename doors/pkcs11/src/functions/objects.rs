//! Object management (PKCS#11 3.2, 5.7).

use std::sync::Arc;

use cryptoki_sys::*;

use crate::access::{keep, may_write, slot_of, visible};
use crate::attributes::Attributes;
use crate::attributes::rules::{self, Origin};
use crate::entry::functions;
use crate::library::Library;
use crate::material;
use crate::memory::{many, place, template};
use crate::objects::{Home, Object};
use crate::rv::{Result, Rv, fail};
use crate::session::Session;
use crate::slot::Login;

/// Gives one attribute's value as `C_GetAttributeValue` has it; what cannot be given has the length -1.
///
/// # Safety
/// There are as many bytes at the attribute's value as it says, unless that is null.
unsafe fn give_value(object: &Object, attribute: &mut CK_ATTRIBUTE) -> Result<()> {
    let room = std::mem::replace(&mut attribute.ulValueLen, CK_UNAVAILABLE_INFORMATION);
    let value = rules::readable(&object.attributes, object.key.as_ref(), attribute.type_)?;
    let len = value.len() as CK_ULONG;
    if attribute.pValue.is_null() {
        attribute.ulValueLen = len;
        return Ok(());
    }
    if room < len {
        return fail(CKR_BUFFER_TOO_SMALL);
    }
    // SAFETY: by the caller; there is at least as much room.
    unsafe { many(attribute.pValue.cast::<u8>(), len) }?.copy_from_slice(&value);
    attribute.ulValueLen = len;
    Ok(())
}

/// Which of two errors of attributes a call reports, as the standard leaves open: that a buffer is too small last, since it can be mended.
fn worse(first: Result<()>, second: Result<()>) -> Result<()> {
    match first {
        Ok(()) | Err(Rv(CKR_BUFFER_TOO_SMALL)) if second.is_err() => second,
        _ => first,
    }
}

/// Puts changed attributes into the place of an object's.
fn put_back(
    library: &Library,
    session: &Session,
    handle: CK_OBJECT_HANDLE,
    object: &Object,
    attributes: Attributes,
) -> Result<()> {
    if let Home::Token(number) = object.home {
        slot_of(library, session)?.token.update(number, &attributes, object.key.as_ref())?;
    }
    library.objects.replace(handle, Object::new(object.slot, object.home, attributes, object.key.clone()));
    Ok(())
}

functions! {
    /// Makes an object of attributes: a key of its bytes, a certificate, data.
    fn C_CreateObject(
        session: CK_SESSION_HANDLE,
        attributes: *mut CK_ATTRIBUTE,
        count: CK_ULONG,
        object: *mut CK_OBJECT_HANDLE,
    ) {
        let library = Library::current()?;
        let out = place(object)?;
        let template = template(attributes, count)?;
        library.with_session(session, |held| {
            let complete = rules::complete(&template, Origin::Create, &Attributes::default())?;
            if complete.is_set(CKA_TRUSTED) && slot_of(library, held)?.login() != Login::SecurityOfficer {
                return fail(CKR_ATTRIBUTE_READ_ONLY);
            }
            let (attributes, key) = material::key_of(&library.mill, complete)?;
            *out = keep(library, held, session, attributes, key)?;
            Ok(())
        })
    }

    /// Copies an object, with changes.
    fn C_CopyObject(
        session: CK_SESSION_HANDLE,
        object: CK_OBJECT_HANDLE,
        attributes: *mut CK_ATTRIBUTE,
        count: CK_ULONG,
        copy: *mut CK_OBJECT_HANDLE,
    ) {
        let library = Library::current()?;
        let out = place(copy)?;
        let changes = template(attributes, count)?;
        library.with_session(session, |held| {
            let object = visible(library, held, object)?;
            let attributes = rules::copied(&object.attributes, &changes)?;
            *out = keep(library, held, session, attributes, object.key.clone())?;
            Ok(())
        })
    }

    /// Destroys an object; a key of the token is destroyed in the keystore.
    fn C_DestroyObject(session: CK_SESSION_HANDLE, object: CK_OBJECT_HANDLE) {
        let library = Library::current()?;
        library.with_session(session, |held| {
            let found = visible(library, held, object)?;
            may_write(library, held, matches!(found.home, Home::Token(_)), found.is_private())?;
            if found.attributes.flag(CKA_DESTROYABLE) == Some(false) {
                return fail(CKR_ACTION_PROHIBITED);
            }
            if let Home::Token(number) = found.home {
                slot_of(library, held)?.token.remove(number)?;
            }
            library.objects.remove(object);
            library.forget_spares(held.slot);
            Ok(())
        })
    }

    /// Tells how much room an object takes, in bytes.
    fn C_GetObjectSize(session: CK_SESSION_HANDLE, object: CK_OBJECT_HANDLE, size: *mut CK_ULONG) {
        let library = Library::current()?;
        let out = place(size)?;
        library.with_session(session, |held| {
            let object = visible(library, held, object)?;
            *out = rules::size(&object.attributes, object.key.as_ref()) as CK_ULONG;
            Ok(())
        })
    }

    /// Reads attributes. Every attribute that can be given is, whatever is wrong with its neighbours.
    fn C_GetAttributeValue(
        session: CK_SESSION_HANDLE,
        object: CK_OBJECT_HANDLE,
        attributes: *mut CK_ATTRIBUTE,
        count: CK_ULONG,
    ) {
        let library = Library::current()?;
        let attributes = many(attributes, count)?;
        library.with_session(session, |held| {
            let object: Arc<Object> = visible(library, held, object)?;
            let mut done = Ok(());
            for attribute in attributes {
                // SAFETY: values are as long as they say (see above).
                done = worse(done, unsafe { give_value(&object, attribute) });
            }
            done
        })
    }

    /// Changes attributes, all or none.
    fn C_SetAttributeValue(
        session: CK_SESSION_HANDLE,
        object: CK_OBJECT_HANDLE,
        attributes: *mut CK_ATTRIBUTE,
        count: CK_ULONG,
    ) {
        let library = Library::current()?;
        let changes = template(attributes, count)?;
        library.with_session(session, |held| {
            let found = visible(library, held, object)?;
            may_write(library, held, matches!(found.home, Home::Token(_)), found.is_private())?;
            let by_officer = slot_of(library, held)?.login() == Login::SecurityOfficer;
            let attributes = rules::changed(&found.attributes, &changes, by_officer)?;
            put_back(library, held, object, &found, attributes)
        })
    }

    /// Begins a search for objects with all of the attributes given.
    fn C_FindObjectsInit(session: CK_SESSION_HANDLE, attributes: *mut CK_ATTRIBUTE, count: CK_ULONG) {
        let library = Library::current()?;
        let wanted = template(attributes, count)?;
        library.with_session(session, |held| {
            // Not while this session is held: what has gone from the token is let go of in all sessions.
            library.refresh(held.slot)?;
            let place = &mut held.active().found;
            if place.is_some() {
                return fail(CKR_OPERATION_ACTIVE);
            }
            let slot = slot_of(library, held)?;
            let sees_private = slot.login() == Login::User;
            let mut found = library.objects.find(held.slot, |object| {
                (sees_private || !object.is_private()) && rules::matches(&object.attributes, object.key.as_ref(), &wanted)
            });
            // Given out from the end.
            found.reverse();
            *place = Some(found);
            Ok(())
        })
    }

    /// Gives the next objects of a search.
    fn C_FindObjects(
        session: CK_SESSION_HANDLE,
        objects: *mut CK_OBJECT_HANDLE,
        max: CK_ULONG,
        count: *mut CK_ULONG,
    ) {
        let library = Library::current()?;
        let count = place(count)?;
        library.with_session(session, |held| {
            let mut active = held.active();
            let Some(found) = &mut active.found else { return fail(CKR_OPERATION_NOT_INITIALIZED) };
            let len = max.min(found.len() as CK_ULONG);
            for place in many(objects, len)? {
                *place = found.pop().ok_or(Rv(CKR_GENERAL_ERROR))?;
            }
            *count = len;
            Ok(())
        })
    }

    /// Ends a search.
    fn C_FindObjectsFinal(session: CK_SESSION_HANDLE) {
        Library::current()?.with_session(session, |held| match held.active().found.take() {
            Some(_) => Ok(()),
            None => fail(CKR_OPERATION_NOT_INITIALIZED),
        })
    }
}
