//! The memory that Ciphermill stands on: key bytes that are locked and wiped, buffers between guard pages, the arenas
//! that batches lie in, and the concurrent slab below the key table.
//!
//! - [`SecretBytes`]: key material; pooled, locked in RAM, out of core dumps, wiped on drop.
//! - [`GuardedBuf`]: bytes flush against an inaccessible page, so that an overrun dies at once.
//! - [`Arena`]: the one buffer that a batch's inputs and outputs lie in.
//! - [`Region`]: bytes in a sealed memory file, which another process, that need not be trusted, may write at any time.
//! - [`prefetch`]: what will be read soon is brought into the cache.
//! - [`Slab`]: a table that is read without locks under a [`Lease`]; removed entries die when the last lease that
//!   could see them ends, and those that were pinned when they are let go of.
//!
//! Of the core floors only this crate and `core/erased` hold unsafe code; the crates above forbid it and build on the safe
//! surface given here. It is written for 64-bit Linux.
#![allow(unsafe_code, reason = "locked, guarded and mapped memory")]

#[cfg(not(target_os = "linux"))]
compile_error!("ciphermill-memory is written for Linux: it needs mlock, madvise and memfd_create");

// The counters of open leases are as wide as a pointer. At 64 bits they cannot overflow, even if leases are leaked.
const _: () = assert!(usize::BITS >= 64);

mod arena;
mod error;
mod guarded;
mod map;
mod prefetch;
mod region;
mod secret;
mod slab;
mod sync;
mod wipe;

pub use arena::{ARENA_MAX, Arena, Wipe};
pub use error::{Full, MemoryError};
pub use guarded::{Align, GUARDED_MAX, GuardedBuf};
pub use map::prefer_huge_pages;
pub use prefetch::prefetch;
pub use region::Region;
pub use secret::{LockReport, SECRET_MAX, SecretBytes, SecretPool, protect_process};
pub use slab::{Iter, Lease, SLAB_MAX, Slab, SlotId};
pub use wipe::{reserve_wiped, take_wiped, wipe};
