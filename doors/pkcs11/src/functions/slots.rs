//! Slot and token management (PKCS#11 3.2, 5.5).

use std::ffi::c_void;

use cryptoki_sys::*;

use crate::entry::functions;
use crate::functions::general::{MANUFACTURER, version};
use crate::library::Library;
use crate::memory::{bytes, give_many, pad, place};
use crate::rv::{Result, fail};
use crate::slot::{Login, given};
use crate::{mechanisms, store};

/// What the slot is called that unites the first keystore and the tokens of other modules, and its token.
const METASLOT: &str = "Ciphermill metaslot";

/// A token's label: 32 bytes, padded with blanks, without a zero at its end.
///
/// # Safety
/// There are 32 bytes at `label`, unless it is null.
unsafe fn label<'a>(label: *const u8) -> Result<&'a [u8]> {
    // SAFETY: by the caller.
    unsafe { bytes(label, 32) }
}

functions! {
    /// Lists the slots: one for each keystore of the configuration, and the metaslot where that has tokens. With `token_present` those whose token is there, which all are but
    /// keystores that are damaged.
    fn C_GetSlotList(token_present: CK_BBOOL, slots: *mut CK_SLOT_ID, count: *mut CK_ULONG) {
        let library = Library::current()?;
        let count = place(count)?;
        let wanted = |at: &usize| token_present == CK_FALSE || library.slots.get(*at).is_some_and(|slot| slot.token.is_present());
        let found: Vec<CK_SLOT_ID> = (0..library.slots.len()).filter(wanted).map(|at| at as CK_SLOT_ID).collect();
        let len = found.len();
        give_many(found.into_iter(), len, slots, count)
    }

    /// Describes a slot by the path of its keystore, the metaslot by its name.
    fn C_GetSlotInfo(slot: CK_SLOT_ID, info: *mut CK_SLOT_INFO) {
        let slot = Library::current()?.slot(slot)?;
        let present = if slot.token.is_present() { CKF_TOKEN_PRESENT } else { 0 };
        *place(info)? = CK_SLOT_INFO {
            slotDescription: if slot.is_metaslot() { pad(METASLOT) } else { pad(&slot.token.path().to_string_lossy()) },
            manufacturerID: pad(MANUFACTURER),
            flags: present | CKF_REMOVABLE_DEVICE,
            hardwareVersion: version(),
            firmwareVersion: version(),
        };
        Ok(())
    }

    /// Describes a token: its label, what its PINs are like, and how many sessions this application has.
    fn C_GetTokenInfo(slot: CK_SLOT_ID, info: *mut CK_TOKEN_INFO) {
        let library = Library::current()?;
        let out = place(info)?;
        let held = library.slot(slot)?;
        let token = held.token.info()?;
        let is_metaslot = held.is_metaslot();
        let sessions = library.sessions_of(slot as usize);
        *out = CK_TOKEN_INFO {
            label: if is_metaslot { pad(METASLOT) } else { token.label },
            manufacturerID: pad(MANUFACTURER),
            model: pad(if is_metaslot { "metaslot" } else { "keystore" }),
            serialNumber: token.serial,
            flags: token.flags,
            ulMaxSessionCount: CK_EFFECTIVELY_INFINITE,
            ulSessionCount: sessions.len() as CK_ULONG,
            ulMaxRwSessionCount: CK_EFFECTIVELY_INFINITE,
            ulRwSessionCount: sessions.iter().filter(|(_, may_write)| *may_write).count() as CK_ULONG,
            ulMaxPinLen: store::PIN_LEN_MAX as CK_ULONG,
            ulMinPinLen: store::PIN_LEN_MIN as CK_ULONG,
            ulTotalPublicMemory: CK_UNAVAILABLE_INFORMATION,
            ulFreePublicMemory: CK_UNAVAILABLE_INFORMATION,
            ulTotalPrivateMemory: CK_UNAVAILABLE_INFORMATION,
            ulFreePrivateMemory: CK_UNAVAILABLE_INFORMATION,
            hardwareVersion: version(),
            firmwareVersion: version(),
            utcTime: [b'0'; 16],
        };
        Ok(())
    }

    /// Waits for a token to come or go: none does while the library is open, so that only asking is answered (`CKR_NO_EVENT`).
    fn C_WaitForSlotEvent(flags: CK_FLAGS, slot: *mut CK_SLOT_ID, reserved: *mut c_void) {
        Library::current()?;
        if !reserved.is_null() || slot.is_null() {
            return fail(CKR_ARGUMENTS_BAD);
        }
        fail(if flags & CKF_DONT_BLOCK != 0 { CKR_NO_EVENT } else { CKR_FUNCTION_NOT_SUPPORTED })
    }

    /// Lists the mechanisms, which are the same for every token.
    fn C_GetMechanismList(slot: CK_SLOT_ID, mechanisms: *mut CK_MECHANISM_TYPE, count: *mut CK_ULONG) {
        Library::current()?.slot(slot)?;
        let all = mechanisms::list();
        let len = all.len();
        give_many(all, len, mechanisms, place(count)?)
    }

    /// Tells what a mechanism does, and its key sizes.
    fn C_GetMechanismInfo(slot: CK_SLOT_ID, mechanism: CK_MECHANISM_TYPE, info: *mut CK_MECHANISM_INFO) {
        Library::current()?.slot(slot)?;
        let out = place(info)?;
        match mechanisms::info(mechanism) {
            Some(info) => *out = info,
            None => return fail(CKR_MECHANISM_INVALID),
        }
        Ok(())
    }

    /// Makes a token: a new keystore, or, with the security officer's PIN, an empty one in the place of the old. Not in the metaslot
    /// (`CKR_TOKEN_WRITE_PROTECTED`).
    fn C_InitToken(slot: CK_SLOT_ID, pin: *mut CK_UTF8CHAR, pin_len: CK_ULONG, token_label: *mut CK_UTF8CHAR) {
        let library = Library::current()?;
        let at = slot as usize;
        let slot = library.slot(slot)?;
        let pin = given(pin, bytes(pin, pin_len))?;
        let label = label(token_label)?;
        if slot.is_metaslot() {
            // Its keystore has a slot of its own.
            return fail(CKR_TOKEN_WRITE_PROTECTED);
        }
        if !library.sessions_of(at).is_empty() {
            return fail(CKR_SESSION_EXISTS);
        }
        slot.token.init(pin, label)?;
        slot.forget();
        library.refresh(at)
    }

    /// Sets the user's PIN, for the security officer.
    fn C_InitPIN(session: CK_SESSION_HANDLE, pin: *mut CK_UTF8CHAR, pin_len: CK_ULONG) {
        let library = Library::current()?;
        let slot = library.with_session(session, |session| Ok(session.slot))?;
        let slot = library.slot(slot as CK_SLOT_ID)?;
        if slot.login() != Login::SecurityOfficer {
            return fail(CKR_USER_NOT_LOGGED_IN);
        }
        slot.token.init_user_pin(given(pin, bytes(pin, pin_len))?)
    }

    /// Changes the PIN of who is logged in, or the user's where nobody is.
    fn C_SetPIN(
        session: CK_SESSION_HANDLE,
        old: *mut CK_UTF8CHAR,
        old_len: CK_ULONG,
        new: *mut CK_UTF8CHAR,
        new_len: CK_ULONG,
    ) {
        let library = Library::current()?;
        let (slot, may_write) = library.with_session(session, |session| Ok((session.slot, session.may_write)))?;
        let slot = library.slot(slot as CK_SLOT_ID)?;
        let old = given(old, bytes(old, old_len))?;
        let new = given(new, bytes(new, new_len))?;
        match (may_write, slot.login()) {
            (false, _) => fail(CKR_SESSION_READ_ONLY),
            (true, Login::SecurityOfficer) => slot.token.set_so_pin(old, new),
            (true, Login::User | Login::Nobody) => slot.token.set_user_pin(old, new),
        }
    }
}
