//! Where the keystore is and what opens it: from the provider's section in the configuration, the environment, or whoever is asked.

use std::ffi::{CStr, c_char, c_void};
use std::path::PathBuf;
use std::ptr;

use ciphermill_keys::keystore::{Keystore, MasterSecret, PASSPHRASE_LEN_MAX};
use zeroize::Zeroizing;

use super::Problem;
use crate::backend::environment;
use crate::dispatch::{Object, Passphrase};
use crate::ffi::{Param, UTF8_PTR};
use crate::params::{END, tell_text};
use crate::stack::with_room;
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

/// Where the keystore is, and who may be asked.
pub(super) struct Settings {
    /// Of the library context that has loaded the provider.
    handle: Object,
    asking: Asking,
}

impl Settings {
    /// # Safety
    /// The handle must be the core's, and whoever asks must be callable as long as this value is used.
    pub(super) unsafe fn new(handle: Object, asking: Asking) -> Settings {
        Settings { handle, asking }
    }

    /// Opens the keystore.
    pub(super) fn open(&self) -> Result<Keystore, Problem> {
        let path = self.path(c"keystore").or_else(|| environment(c"CIPHERMILL_KEYSTORE").map(PathBuf::from));
        let path = path.ok_or_else(|| {
            Problem(
                "no keystore is named: `keystore` in the provider's section of the configuration, or the environment \
                     variable CIPHERMILL_KEYSTORE, does that"
                    .to_owned(),
            )
        })?;
        let secret = self.secret()?;
        // Stretching a passphrase takes more stack than a job may have.
        with_room(|| Keystore::open(path, &secret))
            .ok_or_else(|| Problem("there is no memory for a stack".to_owned()))?
            .map_err(Problem::from)
    }

    fn secret(&self) -> Result<MasterSecret, Problem> {
        if let Some(path) = self.path(c"master-key-file") {
            return Ok(MasterSecret::KeyFile(path));
        }
        if let Some(path) = self.path(c"passphrase-file") {
            return Ok(MasterSecret::passphrase_file(path)?);
        }
        if let Some(passphrase) = environment(c"CIPHERMILL_PASSPHRASE") {
            return Ok(MasterSecret::passphrase(passphrase));
        }
        self.ask().ok_or_else(|| {
            Problem("nothing opens the keystore: `master-key-file` or `passphrase-file` in the provider's section of the \
                     configuration, the environment variable CIPHERMILL_PASSPHRASE, or whoever asks for passphrases, does that".to_owned())
        })
    }

    /// A path of the provider's section.
    fn path(&self, key: &'static CStr) -> Option<PathBuf> {
        let mut value = ptr::null::<c_char>();
        let data = ptr::from_mut(&mut value).cast::<c_void>();
        let mut params =
            [Param { key: key.as_ptr(), data_type: UTF8_PTR, data, data_size: 0, return_size: usize::MAX }, END];
        // SAFETY: the core's handle, and a place for a pointer; what it points to lives as long as the configuration.
        unsafe {
            (core().get_params?(self.handle, params.as_mut_ptr()) == 1 && !value.is_null())
                .then(|| PathBuf::from(CStr::from_ptr(value).to_string_lossy().into_owned()))
        }
    }

    fn ask(&self) -> Option<MasterSecret> {
        let Asking { function, argument } = self.asking;
        let mut typed = Zeroizing::new(vec![0_u8; TYPED_LEN_MAX]);
        let mut len = 0;
        let params = [tell_text(c"info", c"keystore"), END];
        // SAFETY: the promise of `new`; there is room for what is typed.
        let told = unsafe { function?(typed.as_mut_ptr().cast(), typed.len(), &mut len, params.as_ptr(), argument) };
        let text = typed.get(..len).filter(|text| told == 1 && !text.is_empty())?;
        std::str::from_utf8(text).ok().map(MasterSecret::passphrase)
    }
}
