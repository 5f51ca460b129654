//! Keys as engines and callers see them: names for callers, bytes for `prepare`, prepared state for the data path.

use core::any::Any;
use core::fmt;

use crate::suite::Suite;

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
pub struct PreparedKey {
    state: Box<dyn Any + Send + Sync>,
    /// What the state was made for, as [`SuiteName`]; beside the pointer, so that the check need not follow it.
    suite: SuiteName,
}

/// A suite as a number, radix included, for a comparison in one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuiteName(u64);

impl From<Suite> for SuiteName {
    fn from(suite: Suite) -> SuiteName {
        let radix = if let Suite::Fpe(ff1) = suite { ff1.radix } else { 0 };
        // No suite is zero, which stands for none.
        SuiteName((suite.ordinal() as u64 + 1) << 32 | u64::from(radix))
    }
}

impl PreparedKey {
    /// Wraps an engine's state that knows itself what it was made for.
    pub fn new<T: Any + Send + Sync>(state: T) -> PreparedKey {
        PreparedKey { state: Box::new(state), suite: SuiteName(0) }
    }

    /// Wraps an engine's state that serves one suite only.
    pub fn for_suite<T: Any + Send + Sync>(suite: Suite, state: T) -> PreparedKey {
        PreparedKey { state: Box::new(state), suite: suite.into() }
    }

    /// The state, when it is a `T`; anything else was prepared by another engine or for another suite.
    #[inline]
    pub fn state<T: Any>(&self) -> Option<&T> {
        self.state.downcast_ref()
    }

    /// The state, when it is a `T` that was made for this suite by [`PreparedKey::for_suite`]. The state's own memory is
    /// not touched.
    #[inline]
    pub fn state_for<T: Any>(&self, suite: SuiteName) -> Option<&T> {
        if self.suite == suite { self.state.downcast_ref() } else { None }
    }
}

impl fmt::Debug for PreparedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PreparedKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{AesSize, Ff1};

    #[test]
    fn suites_have_names_of_their_own() {
        let radices = [2, 10, 65_536].map(|radix| Suite::Fpe(Ff1 { size: AesSize::Aes256, radix }));
        let mut names: Vec<u64> = Suite::all().chain(radices).map(|suite| SuiteName::from(suite).0).collect();
        let count = Suite::all().chain(radices).collect::<std::collections::BTreeSet<_>>().len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), names.contains(&0)), (count, false));
    }

    #[test]
    fn a_state_is_reached_by_its_own_suite_and_type_only() {
        let suite = Suite::Fpe(Ff1 { size: AesSize::Aes256, radix: 10 });
        let other = Suite::Fpe(Ff1 { size: AesSize::Aes256, radix: 11 });
        let key = PreparedKey::for_suite(suite, 7u32);
        assert_eq!(key.state_for::<u32>(suite.into()), Some(&7));
        assert_eq!(key.state_for::<u32>(other.into()), None);
        assert_eq!(key.state_for::<u64>(suite.into()), None);
        assert_eq!(PreparedKey::new(7u32).state_for::<u32>(suite.into()), None);
    }
}
