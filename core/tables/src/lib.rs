//! The tables that Blowfish, Khufu, Khafre and SEAL 3.0 make of their keys: the same for every engine that runs them, but
//! for the reference, which has its own.
//!
//! Making them looks tables up at secret places, and so does every use of them: these ciphers are legacy, and a mill
//! refuses them unless its policy enables them. Tables wipe themselves when they are dropped, and are made where they
//! stay, so that no copies of them are left elsewhere.
pub mod blowfish;
pub mod merkle;
mod pi;
pub mod seal;
