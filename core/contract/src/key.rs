//! Keys as engines and callers see them: names for callers, bytes for `prepare`, prepared state for the data path.

use core::any::Any;
use core::fmt;

/// The name of a key in a key table: slot and generation. Callers hold names, never bytes.
///
/// A destroyed key's slot is used again under a higher generation, so an old name never reaches a new key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(C)]
pub struct KeyId {
    /// Index in the table.
    pub slot: u32,
    /// Generation of that slot; zero is never valid.
    pub generation: u32,
}

impl KeyId {
    /// No key: digests and random bytes.
    pub const NONE: KeyId = KeyId { slot: 0, generation: 0 };

    /// Whether this names no key at all.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.generation == 0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.generation)
    }
}

/// What the bytes of a key are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyForm {
    /// A symmetric key's raw bytes; for chains the cipher's key followed by the MAC's.
    Secret,
    /// A private key: PKCS#8 DER for RSA, ECDH and ECDSA; for DH the big-endian exponent; for X25519 and Ed25519 the
    /// 32-byte scalar or seed; for ML-KEM the 64-byte seed `d ‖ z`; for ML-DSA the 32-byte seed (FIPS 203, FIPS 204).
    Private,
    /// A public key: SubjectPublicKeyInfo DER for RSA, ECDH and ECDSA; raw bytes for DH, X25519, Ed25519, ML-KEM, ML-DSA.
    Public,
}

/// A key's bytes on their way into [`crate::Engine::prepare`]. Never printed.
#[derive(Clone, Copy)]
pub struct KeyMaterial<'a> {
    /// What the bytes are.
    pub form: KeyForm,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl<'a> KeyMaterial<'a> {
    /// A symmetric key.
    pub const fn secret(bytes: &'a [u8]) -> Self {
        KeyMaterial { form: KeyForm::Secret, bytes }
    }

    /// A private key.
    pub const fn private(bytes: &'a [u8]) -> Self {
        KeyMaterial { form: KeyForm::Private, bytes }
    }

    /// A public key.
    pub const fn public(bytes: &'a [u8]) -> Self {
        KeyMaterial { form: KeyForm::Public, bytes }
    }
}

impl fmt::Debug for KeyMaterial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyMaterial({:?}, {} bytes)", self.form, self.bytes.len())
    }
}

/// What an engine made of a key: schedules, hash powers, midstates. Opaque to everyone but its engine.
///
/// The state's own `Drop` wipes it.
pub struct PreparedKey(Box<dyn Any + Send + Sync>);

impl PreparedKey {
    /// Wraps an engine's state.
    pub fn new<T: Any + Send + Sync>(state: T) -> PreparedKey {
        PreparedKey(Box::new(state))
    }

    /// The state, when it is a `T`; anything else was prepared by another engine or for another suite.
    #[inline]
    pub fn state<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for PreparedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PreparedKey")
    }
}
