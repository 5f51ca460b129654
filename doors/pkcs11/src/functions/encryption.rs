//! Encryption, decryption and digests (PKCS#11 3.2, 5.8, 5.10, 5.12), and two of them at once (5.16).

use ciphermill_contract::Direction;
use cryptoki_sys::*;
use zeroize::Zeroizing;

use crate::access::usable_key_and_pin;
use crate::entry::functions;
use crate::library::Library;
use crate::mechanisms::Mechanism;
use crate::memory::{Output, bytes, place};
use crate::operations::{Cipher, Hasher, Step};
use crate::rv::{Result, fail};
use crate::session::{Active, Begun, Running, absorb, begin, step, step_to_end};

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
        let (place, spare) = active.cipher(direction);
        if mechanism.is_null() {
            *place = None;
            return Ok(());
        }
        begin(place, || {
            // Before anything is looked at: what changes from here on is noticed.
            let epoch = library.objects.epoch();
            // SAFETY: by the caller.
            let mechanism = unsafe { Mechanism::read(mechanism, flag) }?;
            let begun = Begun { key: handle, mechanism: mechanism.kind(), epoch };
            if let Some(mut cipher) = spare.take()
                && cipher.begun == Some(begun)
                && cipher.init_again(&mechanism)
            {
                return Ok(Running::new(cipher));
            }
            let (key, asks_for_pin) = usable_key_and_pin(library, session, handle, may, &mechanism)?;
            let mut cipher = Box::new(Cipher::init(&mechanism, direction, key)?);
            let awaits_pin = direction == Direction::Decrypt && asks_for_pin;
            cipher.begun = (!awaits_pin).then_some(begun);
            Ok(Running { awaits_pin, ..Running::new(cipher) })
        })
    })
}

/// Encrypts or decrypts in one call. A cipher that others can follow is kept for them, if its key's object is as it was.
fn whole(
    session: CK_SESSION_HANDLE,
    direction: Direction,
    input: Result<&[u8]>,
    output: Result<Output<'_>>,
) -> Result<()> {
    let library = Library::current()?;
    library.with_session(session, |session| {
        let mut active = session.active();
        let (place, spare) = active.cipher(direction);
        step_to_end(place, Step::OneShot, input, output, |cipher| {
            let is_as_it_was = cipher.begun.is_some_and(|begun| begun.epoch == library.objects.epoch());
            *spare = Some(cipher).filter(|cipher| is_as_it_was && cipher.can_go_again());
        })
    })
}

/// Encrypts a part, and has another operation take it.
fn encrypt_and<T>(
    encryption: &mut Option<Running<Box<Cipher>>>,
    other: &mut Option<Running<T>>,
    part: Result<&[u8]>,
    output: Result<Output<'_>>,
    take: impl FnOnce(&mut T, &[u8]) -> Result<()>,
) -> Result<()> {
    if encryption.is_none() || other.is_none() {
        return fail(CKR_OPERATION_NOT_INITIALIZED);
    }
    // The application may have the output overwrite the part.
    let part = Zeroizing::new(part?.to_vec());
    let output = output?;
    let is_query = output.is_query();
    step(encryption, Step::Update, Ok(&part), Ok(output))?;
    if is_query { Ok(()) } else { absorb(other, Step::Update, |operation| take(operation, &part)) }
}

/// Decrypts a part, and has another operation take what comes out.
///
/// # Safety
/// As the functions that call it: `part` and `part_len` are the places of the output.
unsafe fn decrypt_and<T>(
    decryption: &mut Option<Running<Box<Cipher>>>,
    other: &mut Option<Running<T>>,
    encrypted: Result<&[u8]>,
    (part, part_len): (*mut CK_BYTE, *mut CK_ULONG),
    take: impl FnOnce(&mut T, &[u8]) -> Result<()>,
) -> Result<()> {
    if decryption.is_none() || other.is_none() {
        return fail(CKR_OPERATION_NOT_INITIALIZED);
    }
    // SAFETY: by the caller.
    step(decryption, Step::Update, encrypted, unsafe { Output::new(part, part_len) })?;
    if part.is_null() {
        return Ok(());
    }
    // SAFETY: as many bytes as were just written there.
    let written = unsafe { bytes(part, *place(part_len)?) }?;
    absorb(other, Step::Update, |operation| take(operation, written))
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
        whole(session, Direction::Encrypt, bytes(data, data_len), Output::new(encrypted, encrypted_len))
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
        whole(session, Direction::Decrypt, bytes(encrypted, encrypted_len), Output::new(data, data_len))
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
            let (part, output) = (bytes(part, part_len), Output::new(encrypted, encrypted_len));
            encrypt_and(encryption, digest, part, output, |hasher, part| hasher.update(part))
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
            let encrypted = bytes(encrypted, encrypted_len);
            decrypt_and(decryption, digest, encrypted, (part, part_len), |hasher, part| hasher.update(part))
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
            let (part, output) = (bytes(part, part_len), Output::new(encrypted, encrypted_len));
            encrypt_and(encryption, signature, part, output, |signer, part| signer.update(part))
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
            let encrypted = bytes(encrypted, encrypted_len);
            decrypt_and(decryption, verification, encrypted, (part, part_len), |verifier, part| verifier.update(part))
        })
    }
}
