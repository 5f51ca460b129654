//! What is sealed in a token's file: AES-256-SIV (RFC 5297), which needs no nonce that a copied file could repeat, under keys that PINs or
//! the keystore's secret give.

use aes_siv::siv::Aes256Siv;
use argon2::{Algorithm, Argon2, Params, Version};
use ciphermill::Mill;
use cryptoki_sys::{CKR_DEVICE_ERROR, CKR_DEVICE_MEMORY, CKR_PIN_INCORRECT};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha512;
use zeroize::Zeroizing;

use super::text;
use crate::operations::random;
use crate::rv::{Result, Rv, fail};

/// Bytes of a key of AES-256-SIV.
const KEY_LEN: usize = 64;
const IV_LEN: usize = 16;
const SALT_LEN: usize = 16;

/// Bytes of the secret that opens a keystore which the module has made.
pub(super) const SECRET_LEN: usize = 32;

/// What PINs are stretched with (RFC 9106, 4, second recommendation): 64 MiB, three passes.
const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;

/// What the key of objects is derived over.
const OBJECTS_LABEL: &[u8] = b"ciphermill pkcs11 objects key v1";

/// A key that seals.
pub(super) struct Sealer(Zeroizing<[u8; KEY_LEN]>);

impl Sealer {
    /// The key of a token's objects, from what opens its keystore.
    pub(super) fn of_secret(secret: &[u8]) -> Result<Sealer> {
        let mut mac = Hmac::<Sha512>::new_from_slice(secret).map_err(|_| Rv(CKR_DEVICE_ERROR))?;
        mac.update(OBJECTS_LABEL);
        let mut key = Zeroizing::new([0; KEY_LEN]);
        key.copy_from_slice(&mac.finalize().into_bytes());
        Ok(Sealer(key))
    }

    fn of_pin(pin: &[u8], salt: &[u8]) -> Result<Sealer> {
        let mut key = Zeroizing::new([0; KEY_LEN]);
        let parameters = Params::new(MEMORY_KIB, PASSES, 1, Some(KEY_LEN)).map_err(|_| Rv(CKR_DEVICE_ERROR))?;
        let stretcher = Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters);
        stretcher.hash_password_into(pin, salt, &mut *key).map_err(|_| Rv(CKR_DEVICE_MEMORY))?;
        Ok(Sealer(key))
    }

    fn siv(&self) -> Result<Aes256Siv> {
        Aes256Siv::new_from_slice(&*self.0).map_err(|_| Rv(CKR_DEVICE_ERROR))
    }

    /// Seals bytes for a place, which opening must name too.
    ///
    /// # Errors
    /// `CKR_DEVICE_ERROR`, which does not happen.
    pub(super) fn seal(&self, place: &[u8], plain: &[u8]) -> Result<Vec<u8>> {
        let mut sealed = vec![0; IV_LEN];
        sealed.extend_from_slice(plain);
        let (iv, body) = sealed.split_at_mut(IV_LEN);
        let tag = self.siv()?.encrypt_inout_detached([place], body.into()).map_err(|_| Rv(CKR_DEVICE_ERROR))?;
        iv.copy_from_slice(&tag);
        Ok(sealed)
    }

    /// Opens what was sealed for a place; `None` for anything else.
    pub(super) fn open(&self, place: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (iv, body) = sealed.split_at_checked(IV_LEN)?;
        let mut plain = Zeroizing::new(body.to_vec());
        let iv: &[u8; IV_LEN] = iv.try_into().ok()?;
        self.siv().ok()?.decrypt_inout_detached([place], plain.as_mut_slice().into(), &(*iv).into()).ok()?;
        Some(plain)
    }
}

/// A PIN as a token keeps it: the keystore's secret under it, and how often it was given wrong.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pin {
    #[serde(with = "text")]
    salt: Vec<u8>,
    #[serde(with = "text")]
    wrapped: Vec<u8>,
    /// Tries that failed since the last one that did not.
    pub(super) failed: u32,
}

/// Who has a PIN: part of what it is sealed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    User,
    SecurityOfficer,
}

impl Owner {
    fn place(self) -> &'static [u8] {
        match self {
            Owner::User => b"user",
            Owner::SecurityOfficer => b"so",
        }
    }
}

impl Pin {
    /// # Errors
    /// `CKR_DEVICE_MEMORY` where there is not enough to stretch it; those of the mill.
    pub(super) fn new(mill: &Mill, owner: Owner, pin: &[u8], secret: &[u8]) -> Result<Pin> {
        let mut salt = vec![0; SALT_LEN];
        random(mill, &mut salt)?;
        let wrapped = Sealer::of_pin(pin, &salt)?.seal(owner.place(), secret)?;
        Ok(Pin { salt, wrapped, failed: 0 })
    }

    /// The keystore's secret.
    ///
    /// # Errors
    /// `CKR_PIN_INCORRECT`, and as [`Pin::new`].
    pub(super) fn open(&self, owner: Owner, pin: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
        match Sealer::of_pin(pin, &self.salt)?.open(owner.place(), &self.wrapped) {
            Some(secret) if secret.len() == SECRET_LEN => Ok(secret),
            _ => fail(CKR_PIN_INCORRECT),
        }
    }
}
