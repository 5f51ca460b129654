//! What is fuzzed: one module for each target, with a function that takes any bytes and panics when a promise is broken.
//!
//! `make fuzz TIME=60` builds and runs all targets; see docs/testing.md.
#![deny(unsafe_code)]

pub mod batch;
#[cfg(feature = "c")]
pub mod c;
pub mod channel;
#[cfg(feature = "esp")]
pub mod esp_inbound;
pub mod keystore;
pub mod messages;
pub mod names;
mod reader;
pub mod seeds;
pub mod unwrap;

#[cfg(feature = "tables")]
pub mod columns;
#[cfg(feature = "tables")]
pub mod config;
#[cfg(feature = "tables")]
pub mod csv_table;
#[cfg(feature = "tables")]
pub mod folder;
#[cfg(feature = "engines")]
pub mod keys;
#[cfg(feature = "tables")]
pub mod manifest;
#[cfg(feature = "tables")]
mod mills;
#[cfg(feature = "tables")]
pub mod parquet_table;
#[cfg(feature = "pkcs11")]
pub mod pkcs11;
