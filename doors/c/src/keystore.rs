//! Keystores: named keys in an encrypted file.

use std::ffi::c_char;

use ciphermill_keys::keystore::{Keystore, MasterSecret};

use crate::entry::entry;
use crate::failure::{Failure, ciphermill_status};
use crate::foreign;
use crate::handle::{self, Handle, opaque};
use crate::keys::ciphermill_key;
use crate::mill::ciphermill_mill;

/// An open keystore. One thread at a time may use it.
pub struct ciphermill_keystore(Handle<Keystore>);

opaque!(ciphermill_keystore, Keystore, "keystore");

/// The secret is the path of a file of 32 bytes, or of 64 hexadecimal digits, that nobody but its owner may read.
pub const CIPHERMILL_SECRET_KEY_FILE: u32 = 0;
/// The secret is the path of a file with a passphrase, that nobody but its owner may read.
pub const CIPHERMILL_SECRET_PASSPHRASE_FILE: u32 = 1;
/// The secret is a passphrase. The caller wipes its own copy.
pub const CIPHERMILL_SECRET_PASSPHRASE: u32 = 2;
/// The secret is the name of an environment variable with 32 bytes in hexadecimal or base64.
pub const CIPHERMILL_SECRET_ENVIRONMENT: u32 = 3;

/// Opens a keystore to read keys from it, to be closed by ciphermill_keystore_close. The program
/// `ciphermill keys` makes keystores and keys. Nothing is written. With a passphrase it takes a second and much memory.
///
/// `secret_kind` is CIPHERMILL_SECRET_KEY_FILE, _PASSPHRASE_FILE, _PASSPHRASE or _ENVIRONMENT, and says what `secret` is.
///
/// # Errors
/// CIPHERMILL_REFUSED for a wrong secret, a damaged file, a key file that others may read; CIPHERMILL_SYSTEM for a file that
/// cannot be read; CIPHERMILL_MISUSE.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_keystore_open(
    keystore: *mut *mut ciphermill_keystore,
    path: *const c_char,
    secret_kind: u32,
    secret: *const c_char,
) -> ciphermill_status {
    entry(|| {
        let place = foreign::place(keystore, "keystore")?;
        // SAFETY: texts of the caller's.
        let (path, secret) = unsafe { (foreign::text(path, "path")?, foreign::text(secret, "secret")?) };
        let secret = match secret_kind {
            CIPHERMILL_SECRET_KEY_FILE => MasterSecret::KeyFile(secret.into()),
            CIPHERMILL_SECRET_PASSPHRASE_FILE => MasterSecret::passphrase_file(secret)?,
            CIPHERMILL_SECRET_PASSPHRASE => MasterSecret::passphrase(secret),
            CIPHERMILL_SECRET_ENVIRONMENT => MasterSecret::Environment(secret.to_owned()),
            _ => return Err(Failure::misuse(format!("there is no kind {secret_kind} of secrets"))),
        };
        let opened = Keystore::open(path, &secret)?;
        // SAFETY: the caller's to be written.
        unsafe { place.put(handle::open(opened)) };
        Ok(())
    })
}

/// Takes a key of a keystore into the mill's table, under the policy that it has there, and tells its name.
///
/// `version` is zero for the current one. A retired version may decrypt only.
///
/// # Errors
/// CIPHERMILL_REFUSED for a key or version that there is not, or that was destroyed; CIPHERMILL_BUSY, CIPHERMILL_MISUSE,
/// CIPHERMILL_EXHAUSTED, CIPHERMILL_FORKED.
///
/// # Threads
/// One at a time for a keystore.
///
/// # Safety
/// Pointers are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_key_load(
    mill: *const ciphermill_mill,
    key: *mut ciphermill_key,
    keystore: *mut ciphermill_keystore,
    name: *const c_char,
    version: u32,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: open handles of the caller's.
        let (mill, keystore) = unsafe { (handle::shared(mill)?, handle::exclusive(keystore)?) };
        let place = foreign::place(key, "key")?;
        // SAFETY: a text of the caller's.
        let name = unsafe { foreign::text(name, "name") }?;
        let loaded = keystore.load_into(mill.keys(), name, Some(version).filter(|version| *version != 0))?;
        // SAFETY: the caller's to be written.
        unsafe { place.put(loaded.into()) };
        Ok(())
    })
}

/// Closes a keystore; NULL is none. Keys that were loaded stay in their mills.
///
/// # Errors
/// CIPHERMILL_MISUSE for what is not open (any more); CIPHERMILL_BUSY, CIPHERMILL_FORKED.
///
/// # Threads
/// No other thread may use it later.
///
/// # Safety
/// As said there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_keystore_close(keystore: *mut ciphermill_keystore) -> ciphermill_status {
    // SAFETY: nobody uses it any more, by the caller.
    entry(|| unsafe { handle::close(keystore) })
}
