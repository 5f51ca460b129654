//! One test vector.

use std::sync::Arc;

use ciphermill_contract::{Directions, Suite};

/// A test vector in the contract's words.
///
/// What `input`, `output` and `tag` hold is what the operation's spans hold when the suite runs forward; backwards the
/// output is the input (or, for tags, signatures and encapsulations, the tag is given). Empty means absent.
#[derive(Clone, Debug)]
pub struct Case {
    /// The source's own name for it.
    pub id: String,
    /// Document and section, or project and file.
    pub source: Arc<str>,
    /// What is done; FF1 with its own radix.
    pub suite: Suite,
    /// The ways in which the outcome is defined. Vectors that are invalid, randomised or lack a key run one way only.
    pub ways: Directions,
    /// The keys.
    pub keys: CaseKeys,
    /// Initialisation vector, nonce, tweak or counter block.
    pub iv: Vec<u8>,
    /// Additional data, or FF1's tweak.
    pub aad: Vec<u8>,
    /// Plaintext, message, numerals, or the peer's public value.
    pub input: Vec<u8>,
    /// Ciphertext or secret.
    pub output: Vec<u8>,
    /// Tag, digest, signature or encapsulated secret.
    pub tag: Vec<u8>,
    /// What an engine has to make of it.
    pub outcome: Outcome,
}

/// The keys of a vector, in the forms of [`ciphermill_contract::KeyForm`]; empty where there is none.
#[derive(Clone, Debug, Default)]
pub struct CaseKeys {
    /// A symmetric key.
    pub secret: Vec<u8>,
    /// A private key.
    pub private: Vec<u8>,
    /// A public key.
    pub public: Vec<u8>,
}

/// What an engine has to make of a vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Output and tag come out as given.
    Valid,
    /// The operation or its key is refused, for this reason.
    Invalid(String),
    /// Both are right; if the operation is carried out, then with this result.
    Acceptable(String),
}
