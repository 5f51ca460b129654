//! Where messages come from and digests go: a batch, or another family's own list.

use ciphermill_contract::{Direction, OpStatus};

use crate::processor::{For, prefetch};
use crate::work::{Item, Work};
#[cfg(target_arch = "x86_64")]
use crate::x86::{Avx2, ShaNi};

use super::vector::LANES_MAX;

/// Bytes of the longest digest.
pub(crate) const DIGEST_MAX: usize = 64;

/// A digest or tag: as many of the first bytes as it has.
pub(crate) type Digest = [u8; DIGEST_MAX];

/// A message. Its bytes and midstates may be read as long as its source is borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Message {
    /// Bytes that come before the data: what a chain authenticates besides.
    pub(crate) head: *const u8,
    /// How many; fewer than a block.
    pub(crate) head_len: usize,
    /// The data.
    pub(crate) data: *const u8,
    /// How many.
    pub(crate) len: usize,
    /// HMAC's midstates, the inner one first; unused by digests.
    pub(crate) midstates: *const u8,
    /// What its source knows it by.
    pub(crate) name: u32,
}

/// A source of messages, which takes their digests.
pub(super) enum Source<'s, 'w> {
    /// Operations of a batch, those with the most blocks first.
    Batch { work: &'s mut Work<'w>, items: &'s [Item], midstates: bool },
    /// Messages of a chain; digests go to the places of their names.
    List { messages: &'s [Message], digests: &'s mut [Digest] },
}

impl Source<'_, '_> {
    /// The next message. Heads of a block and more are not taken: whoever has such takes another way.
    #[inline(always)]
    pub(super) fn next(&mut self, block: usize) -> Option<Message> {
        match self {
            Source::Batch { items, midstates, .. } => {
                let (item, rest) = items.split_first()?;
                *items = rest;
                // Lines that are on their way to the second-level cache at best: as many messages ahead as lanes.
                if let Some(later) = rest.get(LANES_MAX) {
                    prefetch(later.input, For::Reading);
                    prefetch(later.input.wrapping_add(later.len.min(64) as usize), For::Reading);
                }
                Some(Message {
                    head: core::ptr::null(),
                    head_len: 0,
                    data: item.input,
                    len: item.len as usize,
                    midstates: if *midstates { item.key_place() } else { core::ptr::null() },
                    name: item.op,
                })
            }
            Source::List { messages, .. } => {
                let (message, rest) = messages.split_first()?;
                *messages = rest;
                debug_assert!(message.head_len < block);
                Some(*message)
            }
        }
    }

    /// Takes the digest of the message of that name.
    #[inline(always)]
    pub(super) fn deliver(&mut self, name: u32, digest: &Digest) {
        match self {
            // SAFETY: the batch's check: a tag of the suite's length lies in the arena, written by its operation alone.
            Source::Batch { work, .. } => unsafe { settle(work, name as usize, digest) },
            Source::List { digests, .. } => {
                if let Some(place) = digests.get_mut(name as usize) {
                    *place = *digest;
                }
            }
        }
    }
}

/// Ends an operation with its full tag: writes the bytes that it wants when encrypting, compares them in constant time
/// when decrypting.
///
/// # Safety
/// The operation's tag lies within the arena and is no longer than the longest digest.
#[inline(always)]
unsafe fn settle(work: &mut Work<'_>, index: usize, full: &Digest) {
    let (tag, len) = (work.tag(index), work.tag_len(index).min(DIGEST_MAX));
    // SAFETY: the caller's promise.
    unsafe {
        if work.direction() == Direction::Encrypt {
            match len {
                16 => tag.cast::<[u8; 16]>().write(first(full)),
                20 => tag.cast::<[u8; 20]>().write(first(full)),
                32 => tag.cast::<[u8; 32]>().write(first(full)),
                64 => tag.cast::<[u8; 64]>().write(*full),
                _ => core::ptr::copy_nonoverlapping(full.as_ptr(), tag, len),
            }
            return work.done_with(index, 0);
        }
        if is_tag(full, tag, len) {
            work.done_with(index, 0);
        } else {
            work.fail(index, OpStatus::AuthFailed);
        }
    }
}

/// Whether the first `len` bytes of a tag lie there, in a time that tells nothing of either.
///
/// # Safety
/// They may be read.
#[inline(always)]
pub(crate) unsafe fn is_tag(full: &Digest, tag: *const u8, len: usize) -> bool {
    if len > DIGEST_MAX {
        return false;
    }
    let mut difference = 0u64;
    let mut at = 0;
    // SAFETY: the caller's promise; `at` stays within `len`, and that within the digest.
    unsafe {
        while at + 8 <= len {
            let wanted = full.as_ptr().add(at).cast::<u64>().read_unaligned();
            difference |= wanted ^ tag.add(at).cast::<u64>().read_unaligned();
            at += 8;
        }
        if at + 4 <= len {
            let wanted = full.as_ptr().add(at).cast::<u32>().read_unaligned();
            difference |= u64::from(wanted ^ tag.add(at).cast::<u32>().read_unaligned());
            at += 4;
        }
        while at < len {
            difference |= u64::from(full[at] ^ tag.add(at).read());
            at += 1;
        }
    }
    // One number, so that no comparison can end early.
    core::hint::black_box(difference) == 0
}

#[inline(always)]
fn first<const N: usize>(full: &Digest) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&full[..N]);
    bytes
}

/// When lanes leave messages to another way: idle ones cost as much as busy ones.
#[derive(Clone, Copy)]
pub(super) struct Few {
    /// With fewer messages than this.
    pub(super) below: u32,
    /// By these instructions, two at a time, if the digest has any.
    #[cfg(target_arch = "x86_64")]
    pub(super) pairs: Option<ShaNi>,
    /// One after the other in plain registers, if the digest is [`Algorithm::ALONE`](super::algorithms::Algorithm::ALONE).
    #[cfg(target_arch = "x86_64")]
    pub(super) alone: Option<Avx2>,
}

impl Few {
    /// Lanes keep all messages.
    pub(super) const NEVER: Few = Few {
        below: 0,
        #[cfg(target_arch = "x86_64")]
        pairs: None,
        #[cfg(target_arch = "x86_64")]
        alone: None,
    };
}
