//! `lab gateway`: ESP where it is used.

pub mod memory;
