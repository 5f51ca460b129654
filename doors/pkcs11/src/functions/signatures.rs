//! Signatures and MACs (PKCS#11 3.2, 5.13 to 5.15).

use cryptoki_sys::*;

use crate::access::{usable_key, usable_key_and_pin};
use crate::entry::functions;
use crate::library::Library;
use crate::mechanisms::Mechanism;
use crate::memory::{Output, bytes};
use crate::operations::{Signer, Step, Verifier};
use crate::rv::{Result, fail};
use crate::session::{Running, absorb, begin, step};

/// Begins a verification; a null mechanism ends it.
///
/// # Safety
/// As the functions that call it.
unsafe fn begin_verification(
    session: CK_SESSION_HANDLE,
    mechanism: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
    signature: Option<&[u8]>,
) -> Result<()> {
    let library = Library::current()?;
    library.with_session(session, |session| {
        let mut active = session.active();
        if mechanism.is_null() {
            active.verification = None;
            active.signature_to_verify = None;
            return Ok(());
        }
        begin(&mut active.verification, || {
            // SAFETY: by the caller.
            let mechanism = unsafe { Mechanism::read(mechanism, CKF_VERIFY) }?;
            let key = usable_key(library, session, key, CKA_VERIFY, &mechanism)?;
            Ok(Running::new(Verifier::init(&mechanism, &key)?))
        })?;
        active.signature_to_verify = signature.map(<[u8]>::to_vec);
        Ok(())
    })
}

/// The step of a verification by `C_Verify*` (`given` is false) or `C_VerifySignature*`: each wants the beginning of its own kind.
fn verify(
    session: CK_SESSION_HANDLE,
    kind: Step,
    given: bool,
    work: impl FnOnce(&mut Verifier, &[u8]) -> Result<()>,
) -> Result<()> {
    Library::current()?.with_session(session, |session| {
        let mut active = session.active();
        if active.signature_to_verify.is_some() != given {
            return fail(CKR_OPERATION_NOT_INITIALIZED);
        }
        let signature = active.signature_to_verify.take().unwrap_or_default();
        let done = absorb(&mut active.verification, kind, |verifier| work(verifier, &signature));
        if given && active.verification.is_some() {
            active.signature_to_verify = Some(signature);
        }
        done
    })
}

functions! {
    /// Begins a signature or MAC.
    fn C_SignInit(session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, key: CK_OBJECT_HANDLE) {
        let library = Library::current()?;
        library.with_session(session, |session| {
            let place = &mut session.active().signature;
            if mechanism.is_null() {
                *place = None;
                return Ok(());
            }
            begin(place, || {
                let mechanism = Mechanism::read(mechanism, CKF_SIGN)?;
                let (key, asks_for_pin) = usable_key_and_pin(library, session, key, CKA_SIGN, &mechanism)?;
                let mut running = Running::new(Signer::init(&mechanism, &key)?);
                running.awaits_pin = asks_for_pin;
                Ok(running)
            })
        })
    }

    /// Signs in one call.
    fn C_Sign(
        session: CK_SESSION_HANDLE,
        data: *mut CK_BYTE,
        data_len: CK_ULONG,
        signature: *mut CK_BYTE,
        signature_len: *mut CK_ULONG,
    ) {
        Library::current()?.with_session(session, |session| {
            let place = &mut session.active().signature;
            step(place, Step::OneShot, bytes(data, data_len), Output::new(signature, signature_len))
        })
    }

    /// Signs a part.
    fn C_SignUpdate(session: CK_SESSION_HANDLE, part: *mut CK_BYTE, part_len: CK_ULONG) {
        Library::current()?.with_session(session, |session| {
            absorb(&mut session.active().signature, Step::Update, |signer| signer.update(bytes(part, part_len)?))
        })
    }

    /// Ends a signature in parts.
    fn C_SignFinal(session: CK_SESSION_HANDLE, signature: *mut CK_BYTE, signature_len: *mut CK_ULONG) {
        Library::current()?.with_session(session, |session| {
            let place = &mut session.active().signature;
            step(place, Step::Final, Ok(&[]), Output::new(signature, signature_len))
        })
    }

    /// Begins a verification.
    fn C_VerifyInit(session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, key: CK_OBJECT_HANDLE) {
        begin_verification(session, mechanism, key, None)
    }

    /// Verifies in one call.
    fn C_Verify(
        session: CK_SESSION_HANDLE,
        data: *mut CK_BYTE,
        data_len: CK_ULONG,
        signature: *mut CK_BYTE,
        signature_len: CK_ULONG,
    ) {
        verify(session, Step::OneShot, false, |verifier, _| {
            verifier.one_shot(bytes(data, data_len)?, bytes(signature, signature_len)?)
        })
    }

    /// Verifies a part.
    fn C_VerifyUpdate(session: CK_SESSION_HANDLE, part: *mut CK_BYTE, part_len: CK_ULONG) {
        verify(session, Step::Update, false, |verifier, _| verifier.update(bytes(part, part_len)?))
    }

    /// Ends a verification in parts.
    fn C_VerifyFinal(session: CK_SESSION_HANDLE, signature: *mut CK_BYTE, signature_len: CK_ULONG) {
        verify(session, Step::Final, false, |verifier, _| verifier.finish(bytes(signature, signature_len)?))
    }

    /// Begins a verification of a signature that is known first (PKCS#11 3.2, 5.15).
    fn C_VerifySignatureInit(
        session: CK_SESSION_HANDLE,
        mechanism: *mut CK_MECHANISM,
        key: CK_OBJECT_HANDLE,
        signature: *mut CK_BYTE,
        signature_len: CK_ULONG,
    ) {
        begin_verification(session, mechanism, key, Some(bytes(signature, signature_len)?))
    }

    /// Verifies data in one call.
    fn C_VerifySignature(session: CK_SESSION_HANDLE, data: *mut CK_BYTE, data_len: CK_ULONG) {
        verify(session, Step::OneShot, true, |verifier, signature| verifier.one_shot(bytes(data, data_len)?, signature))
    }

    /// Verifies a part.
    fn C_VerifySignatureUpdate(session: CK_SESSION_HANDLE, part: *mut CK_BYTE, part_len: CK_ULONG) {
        verify(session, Step::Update, true, |verifier, _| verifier.update(bytes(part, part_len)?))
    }

    /// Ends a verification in parts.
    fn C_VerifySignatureFinal(session: CK_SESSION_HANDLE) {
        verify(session, Step::Final, true, |verifier, signature| verifier.finish(signature))
    }
}
