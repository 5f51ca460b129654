//! One module a command.

pub mod config;
pub mod demo;
pub mod engines;
pub mod keys;
pub mod lab;
pub mod manual;
pub mod protect;
pub mod selftest;
