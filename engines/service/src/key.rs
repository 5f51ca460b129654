//! A key that the service holds for this process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ciphermill_channel::{Answer, Ask, ErrorKind, KeyHandle, NAME_LEN};
use ciphermill_contract::error::{FaultKind, KeyProblem};
use ciphermill_contract::{Error, KeyForm, KeyId, KeyMaterial, Result, Suite};
use ciphermill_memory::SecretBytes;

use crate::link::{Link, LinkError, NAME, fault};

/// Handed over once a connection. The bytes are kept, in locked memory, so that they can be handed over again when the service has been
/// restarted.
pub(crate) struct RemoteKey {
    suite: Suite,
    form: KeyForm,
    bytes: SecretBytes,
    /// Where the service has it: the connection, and the handle there.
    held: Mutex<Option<(Arc<Link>, KeyHandle)>>,
    /// The connection's number and the handle's words, for a look without the lock; zero for none.
    number: AtomicU64,
    words: AtomicU64,
}

impl RemoteKey {
    /// Hands a key over.
    pub(crate) fn new(key: &KeyMaterial<'_>, suite: Suite, link: &Arc<Link>) -> Result<RemoteKey> {
        let memory = |_| Error::exhausted("locked memory", 0, key.bytes.len());
        let bytes = SecretBytes::from_slice(key.bytes).map_err(memory)?;
        let (number, words) = (AtomicU64::new(0), AtomicU64::new(0));
        let remote = RemoteKey { suite, form: key.form, bytes, held: Mutex::new(None), number, words };
        remote.at(link)?;
        Ok(remote)
    }

    /// The key's name in operations that go over this connection.
    pub(crate) fn at(&self, link: &Arc<Link>) -> Result<KeyId> {
        // Acquire: the words are of that connection, or of a later one, which is seen below.
        if self.number.load(Ordering::Acquire) == link.number() {
            let words = self.words.load(Ordering::Relaxed);
            return Ok(KeyId { slot: words as u32, generation: (words >> 32) as u32 });
        }
        self.hand_over(link)
    }

    /// Whether the service alone has the key, and this process its name.
    pub(crate) fn is_reference(&self) -> bool {
        self.form == KeyForm::Reference
    }

    fn name(&self) -> Option<Result<&str>> {
        let name = || core::str::from_utf8(&self.bytes).ok().filter(|name| NAME_LEN.contains(&name.len()));
        self.is_reference().then(|| name().ok_or(Error::key(self.suite, KeyProblem::Encoding)))
    }

    #[cold]
    fn hand_over(&self, link: &Arc<Link>) -> Result<KeyId> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = match &*held {
            Some((at, handle)) if at.number() == link.number() => *handle,
            Some((at, _)) if at.number() > link.number() => return Err(Error::fault(NAME, FaultKind::Unavailable)),
            _ => {
                let answer = match self.name() {
                    Some(name) => link.ask(&Ask::Key { suite: self.suite, name: name? }),
                    None => link.ask(&Ask::Import { suite: self.suite, form: self.form, bytes: &self.bytes }),
                };
                let refused = |error| match error {
                    // Which rule it breaks is in the service's words; here it is one that the encoding breaks.
                    LinkError::Answered { kind: ErrorKind::Refused, .. } => {
                        Error::key(self.suite, KeyProblem::Encoding)
                    }
                    error => fault(&error),
                };
                let Answer::Key(handle) = answer.map_err(refused)? else {
                    link.give_up();
                    return Err(Error::fault(NAME, FaultKind::Call(0)));
                };
                handle
            }
        };
        *held = Some((Arc::clone(link), handle));
        self.words.store(u64::from(handle.slot) | u64::from(handle.generation) << 32, Ordering::Relaxed);
        // Release: the words.
        self.number.store(link.number(), Ordering::Release);
        Ok(KeyId { slot: handle.slot, generation: handle.generation })
    }
}

impl Drop for RemoteKey {
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((link, handle)) = held.take() {
            link.forget(handle);
        }
    }
}
