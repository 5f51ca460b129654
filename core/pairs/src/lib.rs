//! What engines have in common that do the arithmetic of public keys themselves, in lanes or on a device: key pairs as checked
//! numbers, RSA's paddings, the groups of Diffie-Hellman, the legacy curves; and the form of key pairs that engines generate. The
//! reference has its own but for the primes of the groups, the parameters of the curves and that form, so that it stays an oracle.

pub mod curves;
pub mod der;
pub mod dh;
mod dh_primes;
pub mod padding;
pub mod rsa;
