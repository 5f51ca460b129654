//! Test vectors as data: one typed form for everything that is published, and one known answer for each suite.
//!
//! - [`known_answers`]: what a mill runs on every engine before it trusts it; small, always built.
//! - [`keys`]: key pairs for tests, public and worthless.
//! - [`published`] (feature `published`): Wycheproof, NIST, RFCs and papers, for conformance tests.
//!
//! The data files lie in `vectors/data`, each with its source; the programs that made them in `vectors/derive`.
pub mod case;
pub mod consistency;
mod file;
pub mod job;
pub mod keys;
pub mod known_answers;
#[cfg(feature = "published")]
pub mod published;

pub use case::{Case, CaseKeys, Outcome};
pub use job::{Answer, Job};
pub use known_answers::{KnownAnswerError, has_self_test, known_answer, run_known_answer};
#[cfg(feature = "published")]
pub use published::{OddKey, Skipped, all, cases, odd_keys, skipped};
