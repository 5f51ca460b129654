//! General-purpose functions (PKCS#11 3.2, 5.4), and the older ones of 5.20.

use std::ffi::{CStr, c_void};

use cryptoki_sys::{
    CK_C_INITIALIZE_ARGS, CK_FLAGS, CK_FUNCTION_LIST_PTR, CK_INFO, CK_INTERFACE, CK_SESSION_HANDLE, CK_ULONG,
    CK_UTF8CHAR, CK_VERSION, CKF_LIBRARY_CANT_CREATE_OS_THREADS, CKF_OS_LOCKING_OK, CKR_ARGUMENTS_BAD, CKR_CANT_LOCK,
    CKR_FUNCTION_FAILED, CKR_FUNCTION_NOT_PARALLEL,
};

use crate::entry::functions;
use crate::library::Library;
use crate::lists::{self, Interface};
use crate::memory::{give_many, pad, place};
use crate::rv::{Result, Rv, fail};

/// Who made all this.
pub(crate) const MANUFACTURER: &str = "Ciphermill";

/// The version of PKCS#11 that the module is written to.
pub(crate) const CRYPTOKI: CK_VERSION = CK_VERSION { major: 3, minor: 2 };

/// The module's own version.
pub(crate) const fn version() -> CK_VERSION {
    CK_VERSION { major: number(env!("CARGO_PKG_VERSION_MAJOR")), minor: number(env!("CARGO_PKG_VERSION_MINOR")) }
}

const fn number(text: &str) -> u8 {
    let mut value = 0_u8;
    let mut at = 0;
    while at < text.len() {
        value = value.wrapping_mul(10).wrapping_add(text.as_bytes()[at] - b'0');
        at += 1;
    }
    value
}

/// What an application says about threads: the module needs locks of the system's kind. Returns whether it may make threads, which it does
/// for attached tokens alone.
///
/// # Safety
/// There are arguments at `at`, unless it is null.
unsafe fn check_arguments(at: *mut c_void) -> Result<bool> {
    if at.is_null() {
        return Ok(true);
    }
    // SAFETY: by the caller.
    let arguments = unsafe { place(at.cast::<CK_C_INITIALIZE_ARGS>()) }?;
    if !arguments.pReserved.is_null()
        || arguments.flags & !(CKF_OS_LOCKING_OK | CKF_LIBRARY_CANT_CREATE_OS_THREADS) != 0
    {
        return fail(CKR_ARGUMENTS_BAD);
    }
    let given = [
        arguments.CreateMutex.is_some(),
        arguments.DestroyMutex.is_some(),
        arguments.LockMutex.is_some(),
        arguments.UnlockMutex.is_some(),
    ];
    match (given, arguments.flags & CKF_OS_LOCKING_OK != 0) {
        // One thread, or locks as we like them.
        ([false, false, false, false], _) | ([true, true, true, true], true) => {
            Ok(arguments.flags & CKF_LIBRARY_CANT_CREATE_OS_THREADS == 0)
        }
        ([true, true, true, true], false) => fail(CKR_CANT_LOCK),
        _ => fail(CKR_ARGUMENTS_BAD),
    }
}

functions! {
    /// Opens the mill and the tokens. Locks are those of the operating system; an application that allows only its own is refused
    /// (`CKR_CANT_LOCK`), and one that allows no threads where tokens are attached (`CKR_NEED_TO_CREATE_THREADS`). A child of a process calls it
    /// again.
    fn C_Initialize(arguments: *mut c_void) {
        Library::initialize(check_arguments(arguments)?)
    }

    /// Closes all sessions and logs out. Calls of other threads that are under way end as they would have.
    fn C_Finalize(reserved: *mut c_void) {
        if !reserved.is_null() {
            return fail(CKR_ARGUMENTS_BAD);
        }
        Library::finalize()
    }

    /// Tells which version of PKCS#11 the module speaks, and its own.
    fn C_GetInfo(info: *mut CK_INFO) {
        Library::current()?;
        *place(info)? = CK_INFO {
            cryptokiVersion: CRYPTOKI,
            manufacturerID: pad(MANUFACTURER),
            flags: 0,
            libraryDescription: pad("Ciphermill for PKCS#11"),
            libraryVersion: version(),
        };
        Ok(())
    }

    /// Gives the functions of 2.40, before or after `C_Initialize`.
    fn C_GetFunctionList(list: *mut CK_FUNCTION_LIST_PTR) {
        *place(list)? = lists::of_2_40().cast_mut();
        Ok(())
    }

    /// Lists the interfaces (PKCS#11 3.2, 5.4.5): `PKCS 11` of 3.2, 3.0 and 2.40, and our own functions.
    fn C_GetInterfaceList(interfaces: *mut CK_INTERFACE, count: *mut CK_ULONG) {
        let count = place(count)?;
        let all = lists::interfaces();
        give_many(all.iter().map(Interface::described), all.len(), interfaces, count)
    }

    /// Gives an interface by name and version; without a name the newest `PKCS 11`.
    fn C_GetInterface(
        name: *mut CK_UTF8CHAR,
        version: *mut CK_VERSION,
        interface: *mut *mut CK_INTERFACE,
        flags: CK_FLAGS,
    ) {
        let out = place(interface)?;
        let wanted = if version.is_null() { None } else { Some(*place(version)?) };
        // A name ends with a zero, as the standard has it; none of ours is longer.
        let name = if name.is_null() { None } else { Some(CStr::from_ptr(name.cast())) };
        let found = lists::interfaces().iter().find(|interface| interface.is(name, wanted, flags));
        *out = found.ok_or(Rv(CKR_FUNCTION_FAILED))?.as_ptr();
        Ok(())
    }

    /// Of 2.40, for operations that ran in parallel: none does.
    fn C_GetFunctionStatus(session: CK_SESSION_HANDLE) {
        Library::current()?.with_session(session, |_| fail(CKR_FUNCTION_NOT_PARALLEL))
    }

    /// Of 2.40, as [`C_GetFunctionStatus`].
    fn C_CancelFunction(session: CK_SESSION_HANDLE) {
        Library::current()?.with_session(session, |_| fail(CKR_FUNCTION_NOT_PARALLEL))
    }
}
