//! The functions of PKCS#11 3.2, a file a chapter.

mod encryption;
mod general;
mod keys;
mod messages;
mod objects;
mod sessions;
mod signatures;
mod slots;
mod unsupported;

pub use encryption::*;
pub use general::*;
pub use keys::*;
pub use messages::*;
pub use objects::*;
pub use sessions::*;
pub use signatures::*;
pub use slots::*;
pub use unsupported::*;
