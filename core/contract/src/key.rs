//! Keys as engines and callers see them: names for callers, bytes for `prepare`, prepared state for the data path.

use core::any::Any;
use core::fmt;

use ciphermill_erased::Erased;
pub use ciphermill_erased::Known;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::limits::SUITE_ORDINALS_MAX;
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
    /// A private key: PKCS#8 DER for RSA, ECDH and ECDSA; for DH the big-endian exponent; for X25519, X448 and Ed25519 the
    /// scalar or seed of 32, 56 and 32 bytes; for ML-KEM the 64-byte seed `d ‖ z`; for ML-DSA the 32-byte seed (FIPS 203, FIPS 204).
    Private,
    /// A public key: SubjectPublicKeyInfo DER for RSA, ECDH and ECDSA; raw bytes for DH, X25519, X448, Ed25519, ML-KEM,
    /// ML-DSA.
    Public,
    /// The name of a key that another process or a device has, 1 to 255 bytes of UTF-8, without any secret. Engines of the kinds
    /// [`EngineKinds::KEEPERS`](crate::EngineKinds::KEEPERS) look it up there; for all others it suits no suite.
    Reference,
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

    /// A key that is elsewhere, by its name.
    pub const fn reference(name: &'a str) -> Self {
        KeyMaterial { form: KeyForm::Reference, bytes: name.as_bytes() }
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
pub struct PreparedKey(State);

/// What a state was made for stands beside the pointer to it, so that the check need not follow that.
enum State {
    Boxed {
        suite: SuiteName,
        state: Erased,
    },
    /// A suite's ordinal and radix apart, so that all fits half a cache line.
    Words {
        ordinal: u16,
        radix: u32,
        words: KeyWords,
    },
}

/// Words of a key that is kept where its name is found; wiped when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
struct KeyWords([u64; KEY_WORDS]);

/// Words that a prepared key holds without memory of its own.
pub const KEY_WORDS: usize = 3;

const _: () = assert!(size_of::<PreparedKey>() == 32);

/// A suite as a number, radix included, for a comparison in one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuiteName(u64);

impl SuiteName {
    /// What stands for no suite.
    const NONE: SuiteName = SuiteName(0);

    #[inline]
    const fn new(ordinal: u16, radix: u32) -> SuiteName {
        // No suite is zero.
        SuiteName((ordinal as u64 + 1) << 32 | radix as u64)
    }
}

impl From<Suite> for SuiteName {
    fn from(suite: Suite) -> SuiteName {
        let (ordinal, radix) = ordinal_and_radix(suite);
        SuiteName::new(ordinal, radix)
    }
}

fn ordinal_and_radix(suite: Suite) -> (u16, u32) {
    const { assert!(SUITE_ORDINALS_MAX < 1 << 16) };
    let radix = if let Suite::Fpe(ff1) = suite { ff1.radix } else { 0 };
    (suite.ordinal() as u16, radix)
}

impl PreparedKey {
    /// Wraps an engine's state that knows itself what it was made for.
    pub fn new<T: Any + Send + Sync>(state: T) -> PreparedKey {
        PreparedKey(State::Boxed { suite: SuiteName::NONE, state: Erased::new(state) })
    }

    /// Wraps an engine's state that serves one suite only.
    pub fn for_suite<T: Any + Send + Sync>(suite: Suite, state: T) -> PreparedKey {
        PreparedKey(State::Boxed { suite: suite.into(), state: Erased::new(state) })
    }

    /// Keeps a state that is nothing but a few words, for one suite only. It lies where its name is found: with
    /// thousands of keys, a cache line less for each operation.
    pub fn of_words(suite: Suite, words: [u64; KEY_WORDS]) -> PreparedKey {
        let (ordinal, radix) = ordinal_and_radix(suite);
        PreparedKey(State::Words { ordinal, radix, words: KeyWords(words) })
    }

    /// The state, when it is a `T`; anything else was prepared by another engine or for another suite.
    #[inline]
    pub fn state<T: Any>(&self) -> Option<&T> {
        match &self.0 {
            State::Boxed { state, .. } => state.get(),
            State::Words { .. } => None,
        }
    }

    /// The state, when it is a `T` that was made for this suite by [`PreparedKey::for_suite`]. The state's own memory is
    /// not touched.
    #[inline]
    pub fn state_for<T: Any>(&self, name: SuiteName) -> Option<&T> {
        match &self.0 {
            State::Boxed { suite, state } if *suite == name => state.get(),
            _ => None,
        }
    }

    /// As [`PreparedKey::state_for`], for a type whose states were mostly seen before.
    #[inline(always)]
    pub fn state_known<T: Any>(&self, name: SuiteName, known: &mut Known<T>) -> Option<&T> {
        match &self.0 {
            State::Boxed { suite, state } if *suite == name => state.get_known(known),
            _ => None,
        }
    }

    /// The state, when it is words that were made for this suite by [`PreparedKey::of_words`].
    #[inline]
    pub fn words_for(&self, name: SuiteName) -> Option<&[u64; KEY_WORDS]> {
        match &self.0 {
            State::Words { ordinal, radix, words } if SuiteName::new(*ordinal, *radix) == name => Some(&words.0),
            _ => None,
        }
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
        assert_eq!(key.words_for(suite.into()), None);
    }

    #[test]
    fn words_are_reached_by_their_own_suite_only() {
        let suite = Suite::Fpe(Ff1 { size: AesSize::Aes256, radix: 10 });
        let other = Suite::Fpe(Ff1 { size: AesSize::Aes256, radix: 11 });
        let key = PreparedKey::of_words(suite, [1, 2, 3]);
        assert_eq!(key.words_for(suite.into()), Some(&[1, 2, 3]));
        assert_eq!(key.words_for(other.into()), None);
        assert_eq!(key.state::<[u64; KEY_WORDS]>(), None);
        assert_eq!(key.state_for::<[u64; KEY_WORDS]>(suite.into()), None);
    }
}
