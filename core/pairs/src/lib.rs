//! What engines have in common that do the arithmetic of public keys themselves, in lanes or on a device: key pairs as checked
//! numbers, RSA's paddings, the groups of Diffie-Hellman. The reference has its own but for the groups' primes, so that
//! it stays an oracle; the library wants no more than these.

pub mod dh;
mod dh_primes;
pub mod padding;
pub mod rsa;
