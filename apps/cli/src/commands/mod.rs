//! One module a command.

pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod disable;
pub(crate) mod engines;
pub(crate) mod explain;
pub(crate) mod gateway;
mod input;
pub(crate) mod inspect;
mod installed;
pub(crate) mod keys;
pub(crate) mod lab;
pub(crate) mod openssl;
pub(crate) mod pkcs11;
pub(crate) mod protect;
pub(crate) mod rekey;
pub(crate) mod selftest;
pub(crate) mod service;
pub(crate) mod tokens;
pub(crate) mod top;
pub(crate) mod tune;
pub(crate) mod value;
