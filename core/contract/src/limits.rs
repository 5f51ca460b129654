//! The named limits of queues, batches and tables, and the relations between them.
//!
//! A request beyond a limit is answered with [`crate::Error::Exhausted`] or [`crate::Error::Misuse`]; nothing is
//! ever cut short silently.

/// Operations that one batch may hold: 2^20.
pub const BATCH_OPS_MAX: usize = 1 << 20;

/// Operations that one columnar batch may hold.
pub const COLUMN_OPS_MAX: usize = u32::MAX as usize;

/// Bytes that one arena may hold. Offsets are 32 bits wide, so that an operation fits a cache line.
pub const ARENA_LEN_MAX: usize = u32::MAX as usize;

/// Bytes of additional authenticated data (or FF1 tweak) of one operation.
pub const AAD_LEN_MAX: usize = u16::MAX as usize;

/// Bytes of an initialisation vector, nonce or tweak that an operation carries within itself; the others lie in front of its
/// additional data ([`crate::Op::iv`]).
pub const IV_LEN_MAX: usize = 16;

/// Bytes of the longest initialisation vector.
pub const LONG_IV_LEN_MAX: usize = 128;

/// Bytes of input of one operation; leaves room for tags and padding within an arena.
pub const INPUT_LEN_MAX: usize = 1 << 30;

/// Bytes of one tag, digest, signature or KEM ciphertext. ML-DSA-87 signatures (4,627 bytes) are the longest of one length; SHAKE and
/// KMAC give as many bytes as are asked for.
pub const TAG_LEN_MAX: usize = 8 * 1024;

/// Numerals of one FF1 value. NIST SP 800-38G allows more; longer values are not what the mode is for.
pub const FF1_NUMERALS_MAX: usize = 4096;

/// Bytes that SEAL 3.0 yields for one position index (Rogaway and Coppersmith 1998, section 2).
pub const SEAL_LEN_MAX: usize = 64 * 1024;

/// Bytes of one XTS data unit: 2^20 blocks (IEEE 1619, NIST SP 800-38E section 4).
pub const XTS_LEN_MAX: usize = (1 << 20) * 16;

/// Bytes of raw key material of one key: an ML-DSA-87 private key and every DER form in use lie below.
pub const KEY_LEN_MAX: usize = 16 * 1024;

/// Engines that one mill may hold.
pub const ENGINES_MAX: usize = 16;

/// One more than the highest [`crate::Suite::ordinal`]; sizes tables that are indexed by suite.
pub const SUITE_ORDINALS_MAX: usize = 640;

const _: () = assert!(BATCH_OPS_MAX <= u32::MAX as usize);
const _: () = assert!(INPUT_LEN_MAX < ARENA_LEN_MAX);
const _: () = assert!(TAG_LEN_MAX <= u16::MAX as usize);
const _: () = assert!(IV_LEN_MAX < LONG_IV_LEN_MAX && LONG_IV_LEN_MAX < u8::MAX as usize);
const _: () = assert!(XTS_LEN_MAX <= INPUT_LEN_MAX && SEAL_LEN_MAX <= INPUT_LEN_MAX);
const _: () = assert!(FF1_NUMERALS_MAX * 2 <= INPUT_LEN_MAX);
