//! What can go wrong with memory, by kind.

use core::fmt;

/// Why memory could not be had or mapped. Every variant names the place and the rule; none carries content.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryError {
    /// The caller asked for more than a named limit allows.
    TooLarge {
        /// What was asked for, for instance `arena`.
        what: &'static str,
        /// Name of the limit, for instance `ARENA_MAX`.
        limit_name: &'static str,
        /// The limit, in bytes.
        limit: u64,
        /// What was asked for, in bytes.
        asked: u64,
    },
    /// The allocator has no memory to give.
    OutOfMemory {
        /// What was asked for.
        what: &'static str,
        /// Bytes asked for.
        asked: u64,
    },
    /// A name for a memory file that holds a zero byte or is longer than `limit` bytes.
    BadName {
        /// The longest name the kernel takes, in bytes.
        limit: usize,
    },
    /// A system call failed.
    Os {
        /// The call, for instance `mmap`.
        call: &'static str,
        /// The error number it left.
        errno: i32,
    },
    /// A foreign memory file that its owner could still cut short or grow: the seals `F_SEAL_SHRINK` and
    /// `F_SEAL_GROW` must be set before it is mapped.
    NotSealed {
        /// The seals found, as `fcntl(F_GET_SEALS)` reports them.
        seals: i32,
    },
    /// A foreign memory file that is not what it should be.
    NotJoinable {
        /// The rule that is broken.
        rule: &'static str,
    },
}

impl MemoryError {
    /// The error of the system call that failed just now on this thread.
    pub(crate) fn last_os(call: &'static str) -> Self {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        Self::Os { call, errno }
    }
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { what, limit_name, limit, asked } => {
                write!(f, "{what}: {asked} bytes asked for, {limit_name} is {limit}")
            }
            Self::OutOfMemory { what, asked } => write!(f, "{what}: no memory for {asked} bytes"),
            Self::BadName { limit } => {
                write!(f, "memory file: a name holds no zero byte and at most {limit} bytes")
            }
            Self::Os { call, errno } => {
                write!(f, "{call}: {}", std::io::Error::from_raw_os_error(*errno))
            }
            Self::NotSealed { seals } => {
                write!(f, "memory file: F_SEAL_SHRINK and F_SEAL_GROW must both be set, seals are {seals:#x}")
            }
            Self::NotJoinable { rule } => write!(f, "memory file: {rule}"),
        }
    }
}

impl std::error::Error for MemoryError {}

/// A [`Slab`](crate::Slab) has no slot left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// The slots that the slab may have at most.
    pub limit: u32,
    /// Slots that hold a live entry.
    pub live: u32,
    /// Slots whose removed entry waits for a lease to end; they come back by themselves.
    pub retired: u32,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, live, retired } = self;
        write!(f, "slab: all of its {limit} slots are taken ({live} live, {retired} waiting for leases to end)")
    }
}

impl std::error::Error for Full {}
