//! Encryption, decryption and digests (PKCS#11 3.2, 5.8, 5.10, 5.12), and two of them at once (5.16).

use ciphermill_contract::Direction;
use cryptoki_sys::*;

use crate::access::{asks_for_pin, usable_key};
use crate::entry::functions;
use crate::library::Library;
use crate::mechanisms::Mechanism;
use crate::memory::{Output, bytes, place};
use crate::operations::{Cipher, Hasher, Step};
use crate::rv::{Result, fail};
use crate::session::{Active, Running, absorb, begin, step};

/// Begins encryption or decryption; a null mechanism ends it (PKCS#11 3.0 and later).
///
/// # Safety
/// As the functions that call it.
unsafe fn begin_cipher(
    session: CK_SESSION_HANDLE,
    mechanism: *mut CK_MECHANISM,
    handle: CK_OBJECT_HANDLE,
    direction: Direction,
) -> Result<()> {
    let library = Library::current()?;
    library.with_session(session, |session| {
        let (may, flag) = match direction {
            Direction::Encrypt => (CKA_ENCRYPT, CKF_ENCRYPT),
            Direction::Decrypt => (CKA_DECRYPT, CKF_DECRYPT),
        };
        let mut active = session.active();
        let place = match direction {
            Direction::Encrypt => &mut active.encryption,
            Direction::Decrypt => &mut active.decryption,
        };
        if mechanism.is_null() {
            *place = None;
            return Ok(());
        }
        begin(place, || {
            // SAFETY: by the caller.
            let mechanism = unsafe { Mechanism::read(mechanism, flag) }?;
            let key = usable_key(library, session, handle, may, &mechanism)?;
            let mut running = Running::new(Cipher::init(&mechanism, direction, &key)?);
            running.awaits_pin = direction == Direction::Decrypt && asks_for_pin(library, session, handle);
            Ok(running)
        })
    })
}

/// Two operations over the same bytes: a part of the one's output is the other's input.
fn both<A, B>(first: &Option<A>, second: &Option<B>) -> Result<()> {
    if first.is_none() || second.is_none() { fail(CKR_OPERATION_NOT_INITIALIZED) } else { Ok(()) }
}

functions! {
    /// Begins encryption.
    fn C_EncryptInit(session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, key: CK_OBJECT_HANDLE) {
        begin_cipher(session, mechanism, key, Direction::Encrypt)
    }

    /// Encrypts in one call.
    fn C_Encrypt(
        session: CK_SESSION_HANDLE,
        data: *mut CK_BYTE,
        data_len: CK_ULONG,
        encrypted: *mut CK_BYTE,
        encrypted_len: *mut CK_ULONG,
    ) {
        Library::current()?.with_session(session, |session| {
            let place = &mut session.active().encryption;
            step(place, Step::OneShot, bytes(data, data_len), Output::new(encrypted, encrypted_len))
        })
    }

    /// Encrypts a part.
    fn C_EncryptUpdate(
        session: CK_SESSION_HANDLE,
        part: *mut CK_BYTE,
        part_len: CK_ULONG,
        encrypted: *mut CK_BYTE,
        encrypted_len: *mut CK_ULONG,
    ) {
        Library::current()?.with_session(session, |session| {
            let place = &mut session.active().encryption;
            step(place, Step::Update, bytes(part, part_len), Output::new(encrypted, encrypted_len))
        })
    }

    /// Ends encryption in parts.
    fn C_EncryptFinal(session: CK_SESSION_HANDLE, last: *mut CK_BYTE, last_len: *mut CK_ULONG) {
        Library::current()?.with_session(session, |session| {
            step(&mut session.active().encryption, Step::Final, Ok(&[]), Output::new(last, last_len))
        })
    }

    /// Begins decryption.
    fn C_DecryptInit(session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, key: CK_OBJECT_HANDLE) {
        begin_cipher(session, mechanism, key, Direction::Decrypt)
    }

    /// Decrypts in one call.
    fn C_Decrypt(
        session: CK_SESSION_HANDLE,
        encrypted: *mut CK_BYTE,
        encrypted_len: CK_ULONG,
        data: *mut CK_BYTE,
        data_len: *mut CK_ULONG,
    ) {
        Library::current()?.with_session(session, |session| {
            let place = &mut session.active().decryption;
            step(place, Step::OneShot, bytes(encrypted, encrypted_len), Output::new(data, data_len))
        })
    }

    /// Decrypts a part.
    fn C_DecryptUpdate(
        session: CK_SESSION_HANDLE,
        encrypted: *mut CK_BYTE,
        encrypted_len: CK_ULONG,
        part: *mut CK_BYTE,
        part_len: *mut CK_ULONG,
    ) {
        Library::current()?.with_session(session, |session| {
            let place = &mut session.active().decryption;
            step(place, Step::Update, bytes(encrypted, encrypted_len), Output::new(part, part_len))
        })
    }

    /// Ends decryption in parts.
    fn C_DecryptFinal(session: CK_SESSION_HANDLE, last: *mut CK_BYTE, last_len: *mut CK_ULONG) {
        Library::current()?.with_session(session, |session| {
            step(&mut session.active().decryption, Step::Final, Ok(&[]), Output::new(last, last_len))
        })
    }

    /// Begins a digest.
    fn C_DigestInit(session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM) {
        let library = Library::current()?;
        library.with_session(session, |session| {
            let place = &mut session.active().digest;
            if mechanism.is_null() {
                *place = None;
                return Ok(());
            }
            begin(place, || Ok(Running::new(Hasher::init(&library.mill, &Mechanism::read(mechanism, CKF_DIGEST)?)?)))
        })
    }

    /// Digests in one call.
    fn C_Digest(
        session: CK_SESSION_HANDLE,
        data: *mut CK_BYTE,
        data_len: CK_ULONG,
        digest: *mut CK_BYTE,
        digest_len: *mut CK_ULONG,
    ) {
        Library::current()?.with_session(session, |session| {
            let place = &mut session.active().digest;
            step(place, Step::OneShot, bytes(data, data_len), Output::new(digest, digest_len))
        })
    }

    /// Digests a part.
    fn C_DigestUpdate(session: CK_SESSION_HANDLE, part: *mut CK_BYTE, part_len: CK_ULONG) {
        Library::current()?.with_session(session, |session| {
            absorb(&mut session.active().digest, Step::Update, |hasher| hasher.update(bytes(part, part_len)?))
        })
    }

    /// Digests the bytes of a secret key, which must be one that may be read.
    fn C_DigestKey(session: CK_SESSION_HANDLE, key: CK_OBJECT_HANDLE) {
        let library = Library::current()?;
        library.with_session(session, |session| {
            let key = crate::access::digestible_key(library, session, key);
            absorb(&mut session.active().digest, Step::Update, |hasher| hasher.update(key?.value.bytes()))
        })
    }

    /// Ends a digest in parts.
    fn C_DigestFinal(session: CK_SESSION_HANDLE, digest: *mut CK_BYTE, digest_len: *mut CK_ULONG) {
        Library::current()?.with_session(session, |session| {
            step(&mut session.active().digest, Step::Final, Ok(&[]), Output::new(digest, digest_len))
        })
    }

    /// Digests a part, and encrypts it.
    fn C_DigestEncryptUpdate(
        session: CK_SESSION_HANDLE,
        part: *mut CK_BYTE,
        part_len: CK_ULONG,
        encrypted: *mut CK_BYTE,
        encrypted_len: *mut CK_ULONG,
    ) {
        Library::current()?.with_session(session, |session| {
            let mut active = session.active();
            let Active { digest, encryption, .. } = &mut *active;
            both(digest, encryption)?;
            // The application may overwrite the one by the other.
            let part = bytes(part, part_len)?.to_vec();
            step(encryption, Step::Update, Ok(&part), Output::new(encrypted, encrypted_len))?;
            if encrypted.is_null() {
                return Ok(());
            }
            absorb(digest, Step::Update, |hasher| hasher.update(&part))
        })
    }

    /// Decrypts a part, and digests what comes out.
    fn C_DecryptDigestUpdate(
        session: CK_SESSION_HANDLE,
        encrypted: *mut CK_BYTE,
        encrypted_len: CK_ULONG,
        part: *mut CK_BYTE,
        part_len: *mut CK_ULONG,
    ) {
        Library::current()?.with_session(session, |session| {
            let mut active = session.active();
            let Active { digest, decryption, .. } = &mut *active;
            both(digest, decryption)?;
            step(decryption, Step::Update, bytes(encrypted, encrypted_len), Output::new(part, part_len))?;
            if part.is_null() {
                return Ok(());
            }
            let written = *place(part_len)?;
            absorb(digest, Step::Update, |hasher| hasher.update(bytes(part, written)?))
        })
    }

    /// Signs a part, and encrypts it.
    fn C_SignEncryptUpdate(
        session: CK_SESSION_HANDLE,
        part: *mut CK_BYTE,
        part_len: CK_ULONG,
        encrypted: *mut CK_BYTE,
        encrypted_len: *mut CK_ULONG,
    ) {
        Library::current()?.with_session(session, |session| {
            let mut active = session.active();
            let Active { signature, encryption, .. } = &mut *active;
            both(signature, encryption)?;
            let part = bytes(part, part_len)?.to_vec();
            step(encryption, Step::Update, Ok(&part), Output::new(encrypted, encrypted_len))?;
            if encrypted.is_null() {
                return Ok(());
            }
            absorb(signature, Step::Update, |signer| signer.update(&part))
        })
    }

    /// Decrypts a part, and verifies what comes out.
    fn C_DecryptVerifyUpdate(
        session: CK_SESSION_HANDLE,
        encrypted: *mut CK_BYTE,
        encrypted_len: CK_ULONG,
        part: *mut CK_BYTE,
        part_len: *mut CK_ULONG,
    ) {
        Library::current()?.with_session(session, |session| {
            let mut active = session.active();
            let Active { verification, decryption, .. } = &mut *active;
            both(verification, decryption)?;
            step(decryption, Step::Update, bytes(encrypted, encrypted_len), Output::new(part, part_len))?;
            if part.is_null() {
                return Ok(());
            }
            let written = *place(part_len)?;
            absorb(verification, Step::Update, |verifier| verifier.update(bytes(part, written)?))
        })
    }
}
