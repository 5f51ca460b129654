//! Where the keystore is and what opens it: from the provider's section in the configuration, the environment, or whoever is asked.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::OnceLock;

use ciphermill_keys::keystore::{Keystore, MasterSecret, PASSPHRASE_LEN_MAX};
use zeroize::Zeroizing;

use crate::backend::environment;
use crate::dispatch::Passphrase;
use crate::ffi::{Param, UTF8_PTR};
use crate::params::{END, tell_text};
use crate::stack::with_room;
use crate::stored::Problem;
use crate::upcalls::core;

/// What a passphrase is asked for with, and how long one may be that is typed.
const TYPED_LEN_MAX: usize = 1024;
const _: () = assert!(TYPED_LEN_MAX <= PASSPHRASE_LEN_MAX);

/// Who asks for a passphrase on behalf of an application.
#[derive(Clone, Copy)]
pub(super) struct Asking {
    pub(super) function: Option<Passphrase>,
    pub(super) argument: *mut c_void,
}

/// What the provider's section says, by which key. One keystore a process: of several library contexts the first that says
/// something counts.
static CONFIGURED: OnceLock<[Option<PathBuf>; KEYS.len()]> = OnceLock::new();

const KEYS: [&CStr; 3] = [c"keystore", c"master-key-file", c"passphrase-file"];

/// Reads the provider's section.
///
/// # Safety
/// The handle must be the core's.
pub(crate) unsafe fn configure(handle: *const c_void) {
    let mut values = [ptr::null::<c_char>(); KEYS.len()];
    let asked = |at: usize, value: &mut *const c_char| {
        let data = ptr::from_mut(value).cast::<c_void>();
        Param { key: KEYS[at].as_ptr(), data_type: UTF8_PTR, data, data_size: 0, return_size: usize::MAX }
    };
    let [keystore, master_key, passphrase] = &mut values;
    let mut params = [asked(0, keystore), asked(1, master_key), asked(2, passphrase), END];
    // SAFETY: the core's handle, and places for pointers.
    let told = core().get_params.map_or(0, |get| unsafe { get(handle.cast_mut(), params.as_mut_ptr()) });
    if told != 1 || values.iter().all(|value| value.is_null()) {
        return;
    }
    // SAFETY: null, or a string that lives as long as the configuration.
    let path = |value: *const c_char| unsafe {
        (!value.is_null()).then(|| PathBuf::from(OsStr::from_bytes(CStr::from_ptr(value).to_bytes())))
    };
    CONFIGURED.get_or_init(|| values.map(path));
}

fn configured(at: usize) -> Option<PathBuf> {
    CONFIGURED.get()?[at].clone()
}

/// Opens the keystore.
///
/// # Safety
/// Whoever asks must be callable.
pub(super) unsafe fn open(asking: Asking) -> Result<Keystore, Problem> {
    let path = configured(0).or_else(|| environment(c"CIPHERMILL_KEYSTORE").map(PathBuf::from));
    let path = path.ok_or_else(|| {
        Problem(
            "no keystore is named: `keystore` in the provider's section of the configuration, or the environment variable \
             CIPHERMILL_KEYSTORE, does that"
                .to_owned(),
        )
    })?;
    // SAFETY: the caller's promise.
    let secret = unsafe { secret(asking) }?;
    // Stretching a passphrase takes more stack than a job may have.
    let opened = with_room(|| Keystore::open(path, &secret));
    Ok(opened.ok_or_else(|| Problem("there is no memory for a stack".to_owned()))??)
}

/// # Safety
/// As [`open`].
unsafe fn secret(asking: Asking) -> Result<MasterSecret, Problem> {
    if let Some(path) = configured(1) {
        return Ok(MasterSecret::KeyFile(path));
    }
    if let Some(path) = configured(2) {
        return Ok(MasterSecret::passphrase_file(path)?);
    }
    if let Some(passphrase) = environment(c"CIPHERMILL_PASSPHRASE") {
        return Ok(MasterSecret::passphrase(passphrase));
    }
    // SAFETY: the caller's promise.
    unsafe { ask(asking) }.ok_or_else(|| {
        Problem(
            "nothing opens the keystore: `master-key-file` or `passphrase-file` in the provider's section of the configuration, \
             the environment variable CIPHERMILL_PASSPHRASE, or whoever asks for passphrases, does that"
                .to_owned(),
        )
    })
}

/// # Safety
/// As [`open`].
unsafe fn ask(Asking { function, argument }: Asking) -> Option<MasterSecret> {
    let mut typed = Zeroizing::new(vec![0_u8; TYPED_LEN_MAX]);
    let mut len = 0;
    let params = [tell_text(c"info", c"keystore"), END];
    // SAFETY: the caller's promise; there is room for what is typed.
    let told = unsafe { function?(typed.as_mut_ptr().cast(), typed.len(), &mut len, params.as_ptr(), argument) };
    let text = typed.get(..len).filter(|text| told == 1 && !text.is_empty())?;
    std::str::from_utf8(text).ok().map(MasterSecret::passphrase)
}
