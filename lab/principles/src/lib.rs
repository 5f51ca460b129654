//! The optimisation principles of a network processor's paper, as an experiment on today's machine.
//!
//! Source: Z. Tan, C. Lin, Y. Li, Y. Jiang, "Optimization and Benchmark of Cryptographic Algorithms on Network Processors"
//! (Intel IXP1200). Five algorithms, each in the paper's variants and in one more ([`Variant`]); what each takes is counted
//! by running the same source over words that count ([`Counts`]); the paper's own figures are in [`paper`].
//!
//! Every variant of an algorithm gives the same output. None of this is for use: the ciphers are broken or outdated, and
//! all of them look tables up at secret places. `engines/lanes` has what applications get.

mod blowfish;
mod experiment;
mod family;
mod khufu;
mod md5;
mod md5_lanes;
pub mod paper;
mod rc4;
mod ring;
mod seal;
mod word;

pub use experiment::{Algorithm, Cost, Experiment, KeyError, Unknown, Variant};
pub use family::{Message, SCALAR_WIDTH};
pub use md5_lanes::Kernel;
pub use word::Counts;
