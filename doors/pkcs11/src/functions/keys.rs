//! Key management and random numbers (PKCS#11 3.2, 5.18, 5.19).

use std::io::Write;

use ciphermill_contract::KeyForm;
use cryptoki_sys::*;
use zeroize::Zeroizing;

use crate::access::{keep, key_object, key_of, may_write, usable_key};
use crate::attributes::rules::{self, Origin};
use crate::attributes::{Attributes, Template};
use crate::entry::functions;
use crate::key::{Key, KeyShape};
use crate::library::Library;
use crate::mechanisms::{KeyBlock, Mechanism, Parameter};
use crate::memory::{Output, bytes, many, place, template};
use crate::objects::Object;
use crate::operations::{derive, keys, random};
use crate::rv::{Result, Rv, fail};
use crate::session::Session;
use crate::{material, mechanisms};

/// Makes a secret key object of bytes that came from somewhere: generated, unwrapped, derived, encapsulated.
fn keep_secret(
    library: &Library,
    session: (&Session, CK_SESSION_HANDLE),
    template: &Template,
    origin: Origin,
    mut implied: Attributes,
    value: &[u8],
) -> Result<CK_OBJECT_HANDLE> {
    implied.set_number(CKA_CLASS, CKO_SECRET_KEY);
    implied.set(CKA_VALUE, value);
    let complete = rules::complete(template, origin, &implied)?;
    let (attributes, key) = material::key_of(&library.mill, complete)?;
    keep(library, session.0, session.1, attributes, key)
}

/// The number of an attribute that a template may have.
fn number_in(template: &Template, kind: CK_ATTRIBUTE_TYPE) -> Result<Option<CK_ULONG>> {
    match template.get(kind) {
        None => Ok(None),
        Some(value) => match value.try_into() {
            Ok(value) => Ok(Some(CK_ULONG::from_ne_bytes(value))),
            Err(_) => fail(CKR_ATTRIBUTE_VALUE_INVALID),
        },
    }
}

/// The same, as a length.
fn length_in(template: &Template, kind: CK_ATTRIBUTE_TYPE) -> Result<Option<usize>> {
    Ok(number_in(template, kind)?.map(|len| usize::try_from(len).unwrap_or(usize::MAX)))
}

/// How many bytes the secret key of a template has, if it says or its type does.
fn wanted_len(template: &Template, kind: CK_KEY_TYPE) -> Result<Option<usize>> {
    let said = length_in(template, CKA_VALUE_LEN)?;
    let fixed = mechanisms::fixed_len(kind);
    match (said, fixed) {
        (Some(said), Some(fixed)) if said != fixed => fail(CKR_KEY_SIZE_RANGE),
        (said, fixed) => Ok(said.or(fixed)),
    }
}

/// The type of the secret key that a template wants, and its length if it says one.
fn wanted(template: &Template) -> Result<(CK_KEY_TYPE, Option<usize>)> {
    let kind = number_in(template, CKA_KEY_TYPE)?.unwrap_or(CKK_GENERIC_SECRET);
    Ok((kind, wanted_len(template, kind)?))
}

/// Makes a secret key object of the first bytes of a shared secret, as many as are wanted.
fn keep_shared(
    library: &Library,
    session: (&Session, CK_SESSION_HANDLE),
    template: &Template,
    secret: &[u8],
) -> Result<CK_OBJECT_HANDLE> {
    let (kind, len) = wanted(template)?;
    let value = secret.get(..len.unwrap_or(secret.len())).ok_or(Rv(CKR_KEY_SIZE_RANGE))?;
    let mut implied = Attributes::default();
    implied.set_number(CKA_KEY_TYPE, kind);
    keep_secret(library, session, template, Origin::Other, implied, value)
}

/// Makes a data object of what was derived. The template says how long it is, which data objects themselves do not.
fn keep_data(
    library: &Library,
    session: (&Session, CK_SESSION_HANDLE),
    template: &Template,
    value: &[u8],
) -> Result<CK_OBJECT_HANDLE> {
    let mut implied = Attributes::default();
    implied.set_number(CKA_CLASS, CKO_DATA);
    implied.set(CKA_VALUE, value);
    let attributes = rules::complete(&template.without(&[CKA_VALUE_LEN]), Origin::Other, &implied)?;
    keep(library, session.0, session.1, attributes, None)
}

/// Makes objects of the keys of a TLS connection, all or none, and gives out its IVs. MAC keys are generic secrets; what the template says
/// of type and length is of the others. All are as sensitive and as extractable as the master secret, whatever that is (PKCS#11 3.2, TLS 1.2,
/// key and MAC derivation).
///
/// # Safety
/// As [`KeyBlock::give`].
unsafe fn keep_key_block(
    library: &Library,
    session: (&Session, CK_SESSION_HANDLE),
    template: &Template,
    master: (&Object, &Key),
    block: &KeyBlock,
) -> Result<()> {
    let pieces = derive::key_block(master.1, block)?;
    let of_macs = template.without(&[CKA_KEY_TYPE, CKA_VALUE_LEN]);
    let (of_key, _) = wanted(template)?;
    let kinds = [CKK_GENERIC_SECRET, CKK_GENERIC_SECRET, of_key, of_key];
    let mut made = [CK_INVALID_HANDLE; 4];
    let mut done = Ok(());
    for (at, ((piece, kind), place)) in pieces.iter().zip(kinds).zip(&mut made).enumerate() {
        if done.is_err() || piece.is_empty() {
            continue;
        }
        let mut implied = Attributes::default();
        implied.set_number(CKA_KEY_TYPE, kind);
        for inherited in [CKA_SENSITIVE, CKA_EXTRACTABLE, CKA_ALWAYS_SENSITIVE, CKA_NEVER_EXTRACTABLE] {
            implied.set_flag(inherited, master.0.attributes.is_set(inherited));
        }
        let template = if at < 2 { &of_macs } else { template };
        done = keep_secret(library, session, template, Origin::Other, implied, piece).map(|handle| *place = handle);
    }
    let [.., client, server] = &pieces;
    // SAFETY: by the caller.
    let done = done.and_then(|()| unsafe { block.give(made, [client, server]) });
    if done.is_err() {
        made.iter().for_each(|handle| crate::access::discard(library, session.0, *handle));
    }
    done
}

/// What is wrapped of a key: a secret key's bytes, or a private key in PKCS#8.
fn wrappable(object: &Object, by: &Object) -> Result<Zeroizing<Vec<u8>>> {
    if !object.attributes.is_set(CKA_EXTRACTABLE) {
        return fail(CKR_KEY_UNEXTRACTABLE);
    }
    if object.attributes.is_set(CKA_WRAP_WITH_TRUSTED) && !by.attributes.is_set(CKA_TRUSTED) {
        return fail(CKR_KEY_NOT_WRAPPABLE);
    }
    let key = object.key.as_ref().ok_or(Rv(CKR_KEY_NOT_WRAPPABLE))?;
    match key.value.form() {
        KeyForm::Secret => Ok(Zeroizing::new(key.value.bytes().to_vec())),
        KeyForm::Private => material::to_pkcs8(key),
        _ => fail(CKR_KEY_NOT_WRAPPABLE),
    }
}

/// Makes an object of what was unwrapped, as its template says.
fn keep_unwrapped(
    library: &Library,
    session: (&Session, CK_SESSION_HANDLE),
    template: &Template,
    plain: &[u8],
) -> Result<CK_OBJECT_HANDLE> {
    match number_in(template, CKA_CLASS)? {
        Some(CKO_SECRET_KEY) => keep_secret(library, session, template, Origin::Other, Attributes::default(), plain),
        Some(CKO_PRIVATE_KEY) => {
            let (implied, key) = material::from_pkcs8(&library.mill, plain)?;
            let attributes = rules::complete(template, Origin::Other, &implied)?;
            keep(library, session.0, session.1, attributes, Some(key))
        }
        Some(_) => fail(CKR_ATTRIBUTE_VALUE_INVALID),
        None => fail(CKR_TEMPLATE_INCOMPLETE),
    }
}

/// The wrapping key, and its object.
fn wrapping_key(
    library: &Library,
    session: &Session,
    handle: CK_OBJECT_HANDLE,
    may: CK_ATTRIBUTE_TYPE,
    mechanism: &Mechanism,
) -> Result<(Key, std::sync::Arc<Object>)> {
    let wrong = |rv: Rv, handle_rv, type_rv| match rv {
        Rv(CKR_KEY_HANDLE_INVALID) => Rv(handle_rv),
        Rv(CKR_KEY_TYPE_INCONSISTENT) => Rv(type_rv),
        rv => rv,
    };
    let (handle_rv, type_rv) = match may {
        CKA_WRAP => (CKR_WRAPPING_KEY_HANDLE_INVALID, CKR_WRAPPING_KEY_TYPE_INCONSISTENT),
        _ => (CKR_UNWRAPPING_KEY_HANDLE_INVALID, CKR_UNWRAPPING_KEY_TYPE_INCONSISTENT),
    };
    let object = key_object(library, session, handle).map_err(|rv| wrong(rv, handle_rv, type_rv))?;
    let key = key_of(&object, may, mechanism).map_err(|rv| wrong(rv, handle_rv, type_rv))?;
    Ok((key, object))
}

functions! {
    /// Generates a secret key.
    fn C_GenerateKey(
        session: CK_SESSION_HANDLE,
        mechanism: *mut CK_MECHANISM,
        attributes: *mut CK_ATTRIBUTE,
        count: CK_ULONG,
        key: *mut CK_OBJECT_HANDLE,
    ) {
        let library = Library::current()?;
        library.with_session(session, |held| {
            let out = place(key)?;
            let mechanism = Mechanism::read(mechanism, CKF_GENERATE)?;
            let template = template(attributes, count)?;
            let kind = mechanisms::generated_key_type(mechanism.kind())
                .map_or_else(|| number_in(&template, CKA_KEY_TYPE), |kind| Ok(Some(kind)))?
                .ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))?;
            let len = wanted_len(&template, kind)?.ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))?;
            let value = keys::generate_secret(&library.mill, len)?;
            let mut implied = Attributes::default();
            implied.set_number(CKA_KEY_TYPE, kind);
            let origin = Origin::Generate(mechanism.kind());
            *out = keep_secret(library, (held, session), &template, origin, implied, &value)?;
            Ok(())
        })
    }

    /// Generates a public and a private key.
    fn C_GenerateKeyPair(
        session: CK_SESSION_HANDLE,
        mechanism: *mut CK_MECHANISM,
        public_attributes: *mut CK_ATTRIBUTE,
        public_count: CK_ULONG,
        private_attributes: *mut CK_ATTRIBUTE,
        private_count: CK_ULONG,
        public_key: *mut CK_OBJECT_HANDLE,
        private_key: *mut CK_OBJECT_HANDLE,
    ) {
        let library = Library::current()?;
        library.with_session(session, |held| {
            // One place for both would lose a key.
            if public_key == private_key {
                return fail(CKR_ARGUMENTS_BAD);
            }
            let (public_out, private_out) = (place(public_key)?, place(private_key)?);
            let mechanism = Mechanism::read(mechanism, CKF_GENERATE_KEY_PAIR)?;
            let of_public = template(public_attributes, public_count)?;
            let of_private = template(private_attributes, private_count)?;
            let shape = material::pair_of(mechanism.kind(), &of_public)?;
            let value_bits = match shape {
                KeyShape::Dh(group) => keys::value_bits(group, length_in(&of_private, CKA_VALUE_BITS)?)?,
                _ => 0,
            };
            let mill = &library.mill;
            let [(mut public_implied, public), (mut private_implied, private)] =
                keys::generate_pair(mill, shape, value_bits, |private, public| {
                    material::of_pair(mill, shape, private, public)
                })?;
            if value_bits != 0 {
                private_implied.set_number(CKA_VALUE_BITS, value_bits as CK_ULONG);
            }
            if let Some(said) = of_public.get(CKA_EC_PARAMS) {
                // A curve has several names; the application's own stays.
                public_implied.set(CKA_EC_PARAMS, said);
                private_implied.set(CKA_EC_PARAMS, said);
            }
            let origin = Origin::Generate(mechanism.kind());
            let of_private = rules::complete(&of_private, origin, &private_implied)?;
            let of_public = rules::complete(&of_public, origin, &public_implied)?;
            // Whether both may be kept is asked before either is.
            may_write(library, held, of_private.is_set(CKA_TOKEN), of_private.is_set(CKA_PRIVATE))?;
            let public_handle = keep(library, held, session, of_public, public)?;
            let kept = keep(library, held, session, of_private, private);
            let Ok(private_handle) = kept else {
                // A pair is there whole or not at all.
                crate::access::discard(library, held, public_handle);
                return kept.map(drop);
            };
            (*public_out, *private_out) = (public_handle, private_handle);
            Ok(())
        })
    }

    /// Encrypts a key by another.
    fn C_WrapKey(
        session: CK_SESSION_HANDLE,
        mechanism: *mut CK_MECHANISM,
        wrapping: CK_OBJECT_HANDLE,
        key: CK_OBJECT_HANDLE,
        wrapped: *mut CK_BYTE,
        wrapped_len: *mut CK_ULONG,
    ) {
        let library = Library::current()?;
        library.with_session(session, |held| {
            let mut output = Output::new(wrapped, wrapped_len)?;
            let mechanism = Mechanism::read(mechanism, CKF_WRAP)?;
            let (wrapping, by) = wrapping_key(library, held, wrapping, CKA_WRAP, &mechanism)?;
            let plain = wrappable(&*key_object(library, held, key)?, &by)?;
            output.give(&keys::wrap(&mechanism, &wrapping, &plain)?)
        })
    }

    /// Decrypts a key by another, and makes an object of it.
    fn C_UnwrapKey(
        session: CK_SESSION_HANDLE,
        mechanism: *mut CK_MECHANISM,
        unwrapping: CK_OBJECT_HANDLE,
        wrapped: *mut CK_BYTE,
        wrapped_len: CK_ULONG,
        attributes: *mut CK_ATTRIBUTE,
        count: CK_ULONG,
        key: *mut CK_OBJECT_HANDLE,
    ) {
        let library = Library::current()?;
        library.with_session(session, |held| {
            let out = place(key)?;
            let mechanism = Mechanism::read(mechanism, CKF_UNWRAP)?;
            let (unwrapping, _) = wrapping_key(library, held, unwrapping, CKA_UNWRAP, &mechanism)?;
            let template = template(attributes, count)?;
            let plain = keys::unwrap(&mechanism, &unwrapping, bytes(wrapped, wrapped_len)?)?;
            *out = keep_unwrapped(library, (held, session), &template, &plain)?;
            Ok(())
        })
    }

    /// Derives a key from another.
    fn C_DeriveKey(
        session: CK_SESSION_HANDLE,
        mechanism: *mut CK_MECHANISM,
        base: CK_OBJECT_HANDLE,
        attributes: *mut CK_ATTRIBUTE,
        count: CK_ULONG,
        key: *mut CK_OBJECT_HANDLE,
    ) {
        let library = Library::current()?;
        library.with_session(session, |held| {
            let mechanism = Mechanism::read(mechanism, CKF_DERIVE)?;
            let object = key_object(library, held, base)?;
            let base = key_of(&object, CKA_DERIVE, &mechanism)?;
            let other = match mechanism.other_key() {
                Some(handle) => Some(key_object(library, held, handle)?),
                None => None,
            };
            let template = template(attributes, count)?;
            if let Parameter::KeyBlock(block) = &mechanism.parameter {
                // SAFETY: by the application, the parameter leads to places for all that it asks for.
                return unsafe { keep_key_block(library, (held, session), &template, (&object, &base), block) };
            }
            let out = place(key)?;
            let other_key = other.as_ref().map(|object| key_of(object, CKA_DERIVE, &mechanism)).transpose()?;
            let mut implied = Attributes::default();
            if mechanism.gives_parts_of_the_key() {
                for object in [Some(&object), other.as_ref()].into_iter().flatten() {
                    rules::inherit(&template, &object.attributes, &mut implied)?;
                }
            }
            let (kind, len) = wanted(&template)?;
            let value = derive::derive(&mechanism, &base, len, other_key.as_ref())?;
            *out = if mechanism.kind() == CKM_HKDF_DATA {
                keep_data(library, (held, session), &template, &value)?
            } else {
                implied.set_number(CKA_KEY_TYPE, kind);
                keep_secret(library, (held, session), &template, Origin::Other, implied, &value)?
            };
            match &mechanism.parameter {
                // SAFETY: by the application, the parameter leads to a place for the version if it leads anywhere.
                Parameter::Prf(prf) => unsafe { prf.tell_version(base.value.bytes()) },
                _ => Ok(()),
            }
        })
    }

    /// Makes a secret key and what only the owner of a private key can make it of (PKCS#11 3.2, 5.18.8).
    fn C_EncapsulateKey(
        session: CK_SESSION_HANDLE,
        mechanism: *mut CK_MECHANISM,
        public_key: CK_OBJECT_HANDLE,
        attributes: *mut CK_ATTRIBUTE,
        count: CK_ULONG,
        encapsulated: *mut CK_BYTE,
        encapsulated_len: *mut CK_ULONG,
        key: *mut CK_OBJECT_HANDLE,
    ) {
        let library = Library::current()?;
        library.with_session(session, |held| {
            let mut output = Output::new(encapsulated, encapsulated_len)?;
            let mechanism = Mechanism::read(mechanism, CKF_ENCAPSULATE)?;
            let public = usable_key(library, held, public_key, CKA_ENCAPSULATE, &mechanism)?;
            let template = template(attributes, count)?;
            let len = keys::encapsulated_len(&public)?;
            if output.is_query() {
                output.tell(len);
                return Ok(());
            }
            let out = place(key)?;
            let mut secret = None;
            output.write(&[], len, |_, to| {
                if to.len() < len {
                    return fail(CKR_BUFFER_TOO_SMALL);
                }
                secret = Some(keys::encapsulate(&public, to)?);
                Ok(len)
            })?;
            let secret = secret.ok_or(Rv(CKR_GENERAL_ERROR))?;
            *out = keep_shared(library, (held, session), &template, &secret)?;
            Ok(())
        })
    }

    /// Makes the secret key that another has encapsulated.
    fn C_DecapsulateKey(
        session: CK_SESSION_HANDLE,
        mechanism: *mut CK_MECHANISM,
        private_key: CK_OBJECT_HANDLE,
        attributes: *mut CK_ATTRIBUTE,
        count: CK_ULONG,
        encapsulated: *mut CK_BYTE,
        encapsulated_len: CK_ULONG,
        key: *mut CK_OBJECT_HANDLE,
    ) {
        let library = Library::current()?;
        library.with_session(session, |held| {
            let out = place(key)?;
            let mechanism = Mechanism::read(mechanism, CKF_DECAPSULATE)?;
            let private = usable_key(library, held, private_key, CKA_DECAPSULATE, &mechanism)?;
            let template = template(attributes, count)?;
            let secret = keys::decapsulate(&private, bytes(encapsulated, encapsulated_len)?)?;
            *out = keep_shared(library, (held, session), &template, &secret)?;
            Ok(())
        })
    }

    /// Stirs a seed into the system's generator, which counts it for nothing: it can only help.
    fn C_SeedRandom(session: CK_SESSION_HANDLE, seed: *mut CK_BYTE, len: CK_ULONG) {
        let library = Library::current()?;
        let seed = bytes(seed, len)?;
        library.with_session(session, |_| {
            let pool = std::fs::OpenOptions::new().write(true).open("/dev/urandom");
            pool.and_then(|mut pool| pool.write_all(seed)).map_err(|_| Rv(CKR_RANDOM_SEED_NOT_SUPPORTED))
        })
    }

    /// Gives random bytes.
    fn C_GenerateRandom(session: CK_SESSION_HANDLE, to: *mut CK_BYTE, len: CK_ULONG) {
        let library = Library::current()?;
        library.with_session(session, |_| random(&library.mill, many(to, len)?))
    }
}
