//! Keys behind objects: bytes in locked memory, and their place in the mill.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ciphermill::{Bound, KeyPolicy, Mill};
use ciphermill_contract::suite::{AesSize, Curve, DhGroup, Kem, MlDsaSet, RsaSize};
use ciphermill_contract::{Direction, KeyForm, KeyId, KeyMaterial, Suite};
use ciphermill_memory::SecretBytes;
use crossbeam_utils::atomic::AtomicCell;
use cryptoki_sys::CKR_DEVICE_MEMORY;

use crate::rv::{Result, Rv};

/// What a key is, as far as mechanisms ask: the key type with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyShape {
    /// `CKK_AES`.
    Aes(AesSize),
    /// `CKK_AES_XTS`: two keys of this size.
    AesXts(AesSize),
    /// `CKK_DES`.
    Des,
    /// `CKK_DES2`, `CKK_DES3`: stored as three keys.
    TripleDes,
    /// `CKK_CHACHA20`.
    ChaCha20,
    /// `CKK_POLY1305`.
    Poly1305,
    /// `CKK_GENERIC_SECRET`, `CKK_HKDF`, the `CKK_*_HMAC` of digests: bytes of any length.
    Bytes,
    /// `CKK_RSA`.
    Rsa(RsaSize),
    /// `CKK_EC` on a curve.
    Ec(Curve),
    /// `CKK_EC_EDWARDS` on edwards25519.
    Ed25519,
    /// `CKK_EC_MONTGOMERY` on curve25519.
    X25519,
    /// `CKK_EC_MONTGOMERY` on curve448.
    X448,
    /// `CKK_DH` in a named group.
    Dh(DhGroup),
    /// `CKK_ML_KEM`.
    MlKem(Kem),
    /// `CKK_ML_DSA`.
    MlDsa(MlDsaSet),
}

/// The bytes of a key in the contract's form ([`KeyForm`]), and its name in the mill once an operation has needed one. Objects that are
/// copies of each other share it. The mill forgets the key when the last of them goes.
pub(crate) struct KeyValue {
    mill: Mill,
    form: KeyForm,
    bytes: SecretBytes,
    /// What is known of a key that is a name.
    named: Option<Named>,
    id: OnceLock<KeyId>,
    /// Handles that operations have left for the next ones: opening one costs more than a short operation.
    bounds: Bounds,
}

/// What is known of a key that tokens have.
struct Named {
    /// The public half of a pair.
    half: Option<Box<[u8]>>,
    /// Whether tokens raise numbers with it: then messages are hashed and padded here, as with keys that are here.
    raises: bool,
}

/// Handles that nobody uses at the moment.
#[derive(Default)]
struct Bounds {
    /// The one that was used last in each direction, for a key that one thread uses in one way.
    last: [AtomicCell<Option<Box<Bound>>>; 2],
    others: Mutex<Vec<Bound>>,
}

/// Handles that a key keeps.
const BOUNDS_MAX: usize = 16;

/// A key as operations take it.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) shape: KeyShape,
    pub(crate) value: Arc<KeyValue>,
}

impl KeyValue {
    /// # Errors
    /// `CKR_DEVICE_MEMORY` where no locked memory is left.
    pub(crate) fn new(mill: &Mill, form: KeyForm, bytes: &[u8]) -> Result<Arc<KeyValue>> {
        KeyValue::of(mill, form, bytes, None)
    }

    /// A key of this name on tokens of the mill: of a pair that with this public half. `raises` says whether they offer RSA without padding.
    ///
    /// # Errors
    /// As [`KeyValue::new`].
    pub(crate) fn by_name(mill: &Mill, name: &str, half: Option<&[u8]>, raises: bool) -> Result<Arc<KeyValue>> {
        KeyValue::of(mill, KeyForm::Reference, name.as_bytes(), Some(Named { half: half.map(Box::from), raises }))
    }

    fn of(mill: &Mill, form: KeyForm, bytes: &[u8], named: Option<Named>) -> Result<Arc<KeyValue>> {
        let bytes = SecretBytes::from_slice(bytes).map_err(|_| Rv(CKR_DEVICE_MEMORY))?;
        let (id, bounds) = (OnceLock::new(), Bounds::default());
        Ok(Arc::new(KeyValue { mill: mill.clone(), form, bytes, named, id, bounds }))
    }

    pub(crate) fn form(&self) -> KeyForm {
        self.form
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The public half of a key that is a name.
    pub(crate) fn half(&self) -> Option<&[u8]> {
        self.named.as_ref()?.half.as_deref()
    }

    /// Whether RSA is padded where the key is, since that raises no numbers.
    pub(crate) fn is_padded_elsewhere(&self) -> bool {
        self.named.as_ref().is_some_and(|named| !named.raises)
    }

    pub(crate) fn mill(&self) -> &Mill {
        &self.mill
    }

    /// The key's name in the mill, which is given the bytes at the first call. What the key may be used for is this door's business, by
    /// its object's attributes.
    ///
    /// # Errors
    /// Those of [`ciphermill::KeyTable::import`].
    pub(crate) fn id(&self) -> Result<KeyId> {
        if let Some(id) = self.id.get() {
            return Ok(*id);
        }
        let material = KeyMaterial { form: self.form, bytes: &self.bytes };
        let id = self.mill.keys().import(material, KeyPolicy::default())?;
        if let Some(half) = self.half() {
            self.mill.keys().tell_public_half(id, half)?;
        }
        let kept = *self.id.get_or_init(|| id);
        if kept != id {
            // Another thread was faster.
            self.mill.keys().destroy(id)?;
        }
        Ok(kept)
    }

    /// A handle for operations of the key, which nobody else has until it is given back.
    ///
    /// # Errors
    /// Those of [`KeyValue::id`] and [`Mill::bind`].
    #[inline]
    pub(crate) fn bound(&self, suite: Suite, direction: Direction) -> Result<Box<Bound>> {
        match self.bounds.last[direction as usize].take() {
            Some(bound) if bound.suite() == suite => Ok(bound),
            other => {
                other.into_iter().for_each(|bound| self.bounds.put_aside(*bound));
                self.another_bound(suite, direction)
            }
        }
    }

    #[cold]
    fn another_bound(&self, suite: Suite, direction: Direction) -> Result<Box<Bound>> {
        let mut others = self.bounds.others.lock().unwrap_or_else(PoisonError::into_inner);
        match others.iter().rposition(|bound| bound.suite() == suite && bound.direction() == direction) {
            Some(at) => Ok(Box::new(others.swap_remove(at))),
            None => Ok(Box::new(self.mill.bind(suite, direction, self.id()?)?)),
        }
    }

    /// Gives a handle back.
    #[inline]
    pub(crate) fn keep_bound(&self, bound: Box<Bound>) {
        if let Some(earlier) = self.bounds.last[bound.direction() as usize].swap(Some(bound)) {
            self.bounds.put_aside(*earlier);
        }
    }
}

impl Bounds {
    #[cold]
    fn put_aside(&self, bound: Bound) {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if others.len() < BOUNDS_MAX {
            others.push(bound);
        }
    }
}

impl Drop for KeyValue {
    fn drop(&mut self) {
        if let Some(id) = self.id.get() {
            // Nobody else knows the name: it cannot be gone already.
            let _ = self.mill.keys().destroy(*id);
        }
    }
}

impl fmt::Debug for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyValue({:?}, {} bytes)", self.form, self.bytes.len())
    }
}
