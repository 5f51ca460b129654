//! What engines have in common that do the arithmetic of public keys themselves, in lanes or on a device: key pairs as checked
//! numbers, RSA's paddings, the groups of Diffie-Hellman, the legacy curves. The reference has its own but for the primes of
//! the groups and the parameters of the curves, so that it stays an oracle.

pub mod curves;
pub mod dh;
mod dh_primes;
pub mod padding;
pub mod rsa;
