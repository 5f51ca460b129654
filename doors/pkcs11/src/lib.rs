//! A PKCS#11 module: keystores as tokens, and the mill's engines behind them.
//!
//! The source for functions, mechanisms and return values is PKCS#11 3.2 (OASIS); applications written for 2.40 and 3.x are served.
#![allow(unsafe_code, reason = "a foreign surface: applications call these functions with pointers of theirs")]

mod attributes;
mod key;
mod rv;
