//! What the programs `ciphermill` and `ciphermill-lab` have in common: how they begin and end, what they print.
pub mod interrupt;
pub mod manual;
pub mod output;
pub mod program;
pub mod whole;
