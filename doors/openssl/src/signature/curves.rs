//! Signatures on curves.

use ciphermill_contract::suite::Signature;
use ciphermill_contract::{Direction, Suite};
use zeroize::Zeroizing;

use crate::backend::Backend;
use crate::key::Key;
use crate::material::Usable;
use crate::run::Operation;

/// Signs a digest by ECDSA (FIPS 186-5, 6.4.1). `None` when `default` is to do it.
pub(super) fn ecdsa(_backend: &'static Backend, _key: &Key, _digest: &[u8]) -> Option<Vec<u8>> {
    None
}

/// Signs a message by Ed25519 (RFC 8032, 5.1.6). `None` when `default` is to do it.
pub(super) fn ed25519(backend: &'static Backend, key: &Key, message: &[u8]) -> Option<Vec<u8>> {
    let (id, Usable::Ed25519) = key.usable(backend)? else { return None };
    signed(backend, Suite::Sign(Signature::Ed25519), id, message)
}

fn signed(backend: &'static Backend, suite: Suite, key: ciphermill_contract::KeyId, input: &[u8]) -> Option<Vec<u8>> {
    let tag = vec![0; suite.tag_len(Direction::Encrypt).min];
    let data = Zeroizing::new(input.to_vec());
    let operation = Operation { suite, direction: Direction::Encrypt, key, data, input_len: input.len(), tag };
    operation.run(backend).map(|done| done.tag)
}
