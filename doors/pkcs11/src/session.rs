//! Sessions, and what is under way in each.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ciphermill_contract::Direction;
use cryptoki_sys::{
    CK_MECHANISM_TYPE, CK_OBJECT_HANDLE, CKR_BUFFER_TOO_SMALL, CKR_OPERATION_ACTIVE, CKR_OPERATION_NOT_INITIALIZED,
    CKR_USER_NOT_LOGGED_IN,
};

use crate::memory::Output;
use crate::objects::Epoch;
use crate::operations::{Cipher, Hasher, Message, Signer, Step, Verifier};
use crate::rv::{Result, Rv, fail};

/// A session: what never changes about it, and what is under way.
pub(crate) struct Session {
    pub(crate) slot: usize,
    pub(crate) may_write: bool,
    active: Mutex<Active>,
}

/// The operations of a session, at most one of each kind (PKCS#11 3.2, 5.8 to 5.17).
#[derive(Default)]
pub(crate) struct Active {
    /// Handles that a search has found and not given out.
    pub(crate) found: Option<Vec<CK_OBJECT_HANDLE>>,
    pub(crate) encryption: Option<Running<Box<Cipher>>>,
    pub(crate) decryption: Option<Running<Box<Cipher>>>,
    pub(crate) spares: Spares,
    pub(crate) digest: Option<Running<Hasher>>,
    pub(crate) signature: Option<Running<Signer>>,
    pub(crate) verification: Option<Running<Verifier>>,
    /// The signature that `C_VerifySignatureInit` was given.
    pub(crate) signature_to_verify: Option<Vec<u8>>,
    pub(crate) message_encryption: Option<Message>,
    pub(crate) message_decryption: Option<Message>,
}

/// What a cipher was begun with besides its parameter. One that is begun with the same again needs no look at the key's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) key: CK_OBJECT_HANDLE,
    pub(crate) mechanism: CK_MECHANISM_TYPE,
    /// As the objects were when the key was looked at.
    pub(crate) epoch: Epoch,
}

/// Ciphers that have done their messages and wait for the next ones with the same keys, one a direction. Keys that objects had are let go
/// of with these objects ([`Session::forget_spares`]).
#[derive(Default)]
pub(crate) struct Spares {
    encryption: Option<Box<Cipher>>,
    decryption: Option<Box<Cipher>>,
}

/// An operation, and how far it has come.
pub(crate) struct Running<T> {
    pub(crate) operation: T,
    /// It has been given a part.
    pub(crate) in_parts: bool,
    /// Its key asks for the PIN each time (`CKA_ALWAYS_AUTHENTICATE`), which has not been given yet.
    pub(crate) awaits_pin: bool,
}

impl<T> Running<T> {
    pub(crate) fn new(operation: T) -> Running<T> {
        Running { operation, in_parts: false, awaits_pin: false }
    }
}

/// Operations that take steps with an output.
pub(crate) trait Steps {
    /// Bytes of output at most.
    fn len(&self, step: Step, input_len: usize) -> usize;

    /// One step. With `CKR_BUFFER_TOO_SMALL` it is as if it had not been asked for; with any other error the operation has ended.
    fn step(&mut self, step: Step, input: &[u8], output: &mut [u8]) -> Result<usize>;
}

impl<T: Steps> Steps for Box<T> {
    fn len(&self, step: Step, input_len: usize) -> usize {
        (**self).len(step, input_len)
    }

    fn step(&mut self, step: Step, input: &[u8], output: &mut [u8]) -> Result<usize> {
        (**self).step(step, input, output)
    }
}

impl Session {
    pub(crate) fn new(slot: usize, may_write: bool) -> Session {
        Session { slot, may_write, active: Mutex::default() }
    }

    /// Lets go of ciphers that wait for another message. Waits for what is under way, so that nobody calls it who holds a session.
    pub(crate) fn forget_spares(&self) {
        self.active().spares = Spares::default();
    }

    /// What is under way. Another thread with the same session waits.
    #[inline(always)]
    pub(crate) fn active(&self) -> MutexGuard<'_, Active> {
        self.active.lock().unwrap_or_else(|poisoned| {
            // A step of ours panicked, and left an operation that nobody should go on with.
            self.active.clear_poison();
            let mut active = PoisonError::into_inner(poisoned);
            *active = Active::default();
            active
        })
    }
}

impl Active {
    /// Where encryption or decryption is under way, and where a cipher waits for it.
    pub(crate) fn cipher(
        &mut self,
        direction: Direction,
    ) -> (&mut Option<Running<Box<Cipher>>>, &mut Option<Box<Cipher>>) {
        match direction {
            Direction::Encrypt => (&mut self.encryption, &mut self.spares.encryption),
            Direction::Decrypt => (&mut self.decryption, &mut self.spares.decryption),
        }
    }

    /// Whether an operation waits for the user's PIN.
    pub(crate) fn awaits_pin(&self) -> bool {
        self.signature.as_ref().is_some_and(|running| running.awaits_pin)
            || self.decryption.as_ref().is_some_and(|running| running.awaits_pin)
    }

    /// The PIN was given.
    pub(crate) fn pin_given(&mut self) {
        if let Some(running) = &mut self.signature {
            running.awaits_pin = false;
        }
        if let Some(running) = &mut self.decryption {
            running.awaits_pin = false;
        }
    }
}

/// Begins an operation.
///
/// # Errors
/// `CKR_OPERATION_ACTIVE` where there is one of this kind; those of `begin`.
#[inline(always)]
pub(crate) fn begin<T>(place: &mut Option<T>, begin: impl FnOnce() -> Result<T>) -> Result<()> {
    if place.is_some() {
        return fail(CKR_OPERATION_ACTIVE);
    }
    *place = Some(begin()?);
    Ok(())
}

/// Takes one step of an operation, and ends it where the standard says: after its last step, and at any error but a buffer that is too small
/// (PKCS#11 3.2, 5.2 and the chapters of the functions).
///
/// # Errors
/// `CKR_OPERATION_NOT_INITIALIZED`; `CKR_OPERATION_ACTIVE` for an operation in parts that is asked for everything in one call, and goes on;
/// `CKR_USER_NOT_LOGGED_IN` where the PIN has yet to be given; those of the input, the output and the step.
#[inline]
pub(crate) fn step<T: Steps>(
    place: &mut Option<Running<T>>,
    step: Step,
    input: Result<&[u8]>,
    output: Result<Output<'_>>,
) -> Result<()> {
    step_to_end(place, step, input, output, drop)
}

/// The same, and hands over what has ended well.
///
/// # Errors
/// As [`step`].
#[inline]
pub(crate) fn step_to_end<T: Steps>(
    place: &mut Option<Running<T>>,
    step: Step,
    input: Result<&[u8]>,
    output: Result<Output<'_>>,
    ended: impl FnOnce(T),
) -> Result<()> {
    let Some(running) = place else { return fail(CKR_OPERATION_NOT_INITIALIZED) };
    if step == Step::OneShot && running.in_parts {
        return fail(CKR_OPERATION_ACTIVE);
    }
    if running.awaits_pin {
        return end_or_go_on(place, step, fail(CKR_USER_NOT_LOGGED_IN));
    }
    let done = match (input, output) {
        (Ok(input), Ok(mut output)) => {
            let bound = running.operation.len(step, input.len());
            if output.is_query() {
                output.tell(bound);
                return Ok(());
            }
            let done = output.write(input, bound, |input, output| running.operation.step(step, input, output));
            if done == fail(CKR_BUFFER_TOO_SMALL) {
                return done;
            }
            done
        }
        (Err(rv), _) | (_, Err(rv)) => Err(rv),
    };
    if step == Step::Update || done.is_err() {
        return end_or_go_on(place, step, done);
    }
    if let Some(running) = place.take() {
        ended(running.operation);
    }
    Ok(())
}

/// Takes a step without an output.
///
/// # Errors
/// As [`step`].
#[inline]
pub(crate) fn absorb<T>(
    place: &mut Option<Running<T>>,
    kind: Step,
    work: impl FnOnce(&mut T) -> Result<()>,
) -> Result<()> {
    let Some(running) = place else { return fail(CKR_OPERATION_NOT_INITIALIZED) };
    if kind == Step::OneShot && running.in_parts {
        return fail(CKR_OPERATION_ACTIVE);
    }
    if running.awaits_pin {
        return end_or_go_on(place, kind, fail(CKR_USER_NOT_LOGGED_IN));
    }
    let done = work(&mut running.operation);
    end_or_go_on(place, kind, done)
}

fn end_or_go_on<T>(place: &mut Option<Running<T>>, step: Step, done: Result<(), Rv>) -> Result<()> {
    match (place.as_mut(), &done, step) {
        (Some(running), Ok(()), Step::Update) => running.in_parts = true,
        _ => *place = None,
    }
    done
}
