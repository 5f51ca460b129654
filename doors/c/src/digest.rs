//! Digests in the style of libmd: init, update, final; in one call; many messages in one call.

use std::mem::take;

use ciphermill::contract::columns::{ColumnData, ColumnStatus, Extents, TagColumn};
use ciphermill::contract::{ColumnBatch, Direction, KeyId, OpStatus, Suite};
use ciphermill::{Mill, MultiPart};
use zeroize::Zeroize;

use crate::entry::entry;
use crate::failure::{Failure, ciphermill_status};
use crate::foreign::{self, Stretches};
use crate::handle::{self, Handle, opaque};
use crate::mill::ciphermill_mill;
use crate::suite::{self, ciphermill_suite};

/// A digest under way, for one thread at a time.
pub struct ciphermill_digest(Handle<MultiPart>);

opaque!(ciphermill_digest, MultiPart, "digest");

/// A suite that is a digest.
fn digest(number: ciphermill_suite) -> Result<Suite, Failure> {
    match suite::of_number(number)? {
        suite @ Suite::Digest(_) => Ok(suite),
        suite => Err(Failure::misuse(format!("{suite} is no digest"))),
    }
}

/// Digests of messages that lie one behind the other.
fn run(mill: &Mill, suite: Suite, digests: &mut [u8], input: &[u8], offsets: &[i64]) -> Result<(), Failure> {
    let mut statuses = vec![ColumnStatus::PENDING; offsets.len() - 1];
    let data = ColumnData::Input { input, inputs: Extents::LargeOffsets(offsets) };
    let tags = TagColumn::Written { bytes: digests, len: suite.default_tag_len() };
    mill.run_columns(ColumnBatch::new(suite, Direction::Encrypt, data, &mut statuses).with_tags(tags))?;
    match statuses.iter().find_map(|status| status.status().filter(|status| !status.is_done())) {
        Some(status) => Failure::of_status(status),
        None => Ok(()),
    }
}

/// The place of one digest.
///
/// # Safety
/// It is the caller's to be written.
unsafe fn place<'a>(at: *mut u8, len: usize, suite: Suite) -> Result<&'a mut [u8], Failure> {
    if len != suite.default_tag_len() {
        let text = format!("{suite} has {} bytes, there is room for {len}", suite.default_tag_len());
        return Err(Failure::misuse(text));
    }
    // SAFETY: by the caller.
    unsafe { foreign::slice_mut(at, len, "digest") }
}

/// Digests a message in one call. `digest_len` is the length of the suite's digest (32 for "sha256").
///
/// # Errors
/// CIPHERMILL_MISUSE for suites that are no digests and for another length; CIPHERMILL_REFUSED for a legacy digest that the mill does
/// not enable; CIPHERMILL_ENGINE_FAULT, CIPHERMILL_FORKED.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_digest_one(
    mill: *const ciphermill_mill,
    digest: *mut u8,
    digest_len: usize,
    suite: ciphermill_suite,
    message: *const u8,
    message_len: usize,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mill = unsafe { handle::shared(mill) }?;
        let suite = self::digest(suite)?;
        let mut apart = Stretches::<2>::new();
        apart.add(digest.cast_const(), digest_len, true, "digest")?;
        apart.add(message, message_len, false, "message")?;
        // SAFETY: the caller's to be read and written; they do not overlap, as checked.
        let (to, message) =
            unsafe { (place(digest, digest_len, suite)?, foreign::slice(message, message_len, "message")?) };
        run(mill, suite, to, message, &[0, message.len() as i64])
    })
}

/// Messages that are copied together at a time, in bytes: what fits into a core's cache beside the lanes' own.
const TOGETHER_LEN: usize = 256 * 1024;

/// Digests many messages in one call, side by side where an engine can. The digests go to `digests`, one behind the other.
///
/// `digests_len` is `count` times the length of the suite's digest. Messages that lie one behind the other already need no copy as
/// columns (ciphermill_run_columns); these are copied together in pieces that fit into a cache.
///
/// # Errors
/// As ciphermill_digest_one. Digests of earlier messages may have been written then.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers and lengths are as the head of the header says; `messages` and `message_lens` have `count` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_digest_many(
    mill: *const ciphermill_mill,
    digests: *mut u8,
    digests_len: usize,
    suite: ciphermill_suite,
    messages: *const *const u8,
    message_lens: *const usize,
    count: usize,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mill = unsafe { handle::shared(mill) }?;
        let suite = self::digest(suite)?;
        let width = suite.default_tag_len();
        if count.checked_mul(width) != Some(digests_len) {
            let text = format!("{count} digests of {width} bytes, and room for {digests_len} bytes");
            return Err(Failure::misuse(text));
        }
        // SAFETY: the caller's to be read and written.
        unsafe {
            let starts = foreign::slice(messages, count, "messages")?;
            let lens = foreign::slice(message_lens, count, "message_lens")?;
            let mut lists = Stretches::<4>::new();
            lists.add(digests.cast_const(), digests_len, true, "digests")?;
            lists.add(messages, count, false, "messages")?;
            lists.add(message_lens, count, false, "message_lens")?;
            for (start, len) in starts.iter().zip(lens) {
                // Each against the digests alone: messages may be one and the same.
                let mut apart = Stretches::<2>::new();
                apart.add(digests.cast_const(), digests_len, true, "digests")?;
                apart.add(*start, *len, false, "a message")?;
            }
            let digests = foreign::slice_mut(digests, digests_len, "digests")?;
            many(mill, suite, digests, starts, lens)
        }
    })
}

/// # Safety
/// The messages are the caller's to be read, and apart from the digests.
unsafe fn many(
    mill: &Mill,
    suite: Suite,
    digests: &mut [u8],
    starts: &[*const u8],
    lens: &[usize],
) -> Result<(), Failure> {
    let width = suite.default_tag_len();
    let (mut together, mut offsets, mut first) = (Vec::new(), vec![0], 0);
    for (index, (start, len)) in starts.iter().zip(lens).enumerate() {
        // SAFETY: by the caller.
        let message = unsafe { foreign::slice(*start, *len, "a message") }?;
        if !together.is_empty() && together.len() + message.len() > TOGETHER_LEN {
            run(mill, suite, &mut digests[first * width..index * width], &together, &offsets)?;
            together.zeroize();
            (offsets, first) = (vec![0], index);
        }
        if message.len() > TOGETHER_LEN {
            // Empty ones may be waiting before it.
            run(mill, suite, &mut digests[first * width..index * width], &[], &take(&mut offsets))?;
            run(mill, suite, &mut digests[index * width..][..width], message, &[0, message.len() as i64])?;
            (offsets, first) = (vec![0], index + 1);
        } else {
            together.extend_from_slice(message);
            offsets.push(together.len() as i64);
        }
    }
    let done = run(mill, suite, &mut digests[first * width..], &together, &offsets);
    together.zeroize();
    done
}

/// Begins a digest, to be ended by ciphermill_digest_close.
///
/// # Errors
/// As ciphermill_digest_one; CIPHERMILL_REFUSED when no engine of the mill takes messages in parts, as `lanes` by itself.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_digest_init(
    mill: *const ciphermill_mill,
    digest: *mut *mut ciphermill_digest,
    suite: ciphermill_suite,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mill = unsafe { handle::shared(mill) }?;
        let place = foreign::place(digest, "digest")?;
        let mut begun = mill.multi_part(self::digest(suite)?, Direction::Encrypt, KeyId::NONE)?;
        begun.begin(&[])?;
        // SAFETY: the caller's to be written.
        unsafe { place.put(handle::open(begun)) };
        Ok(())
    })
}

/// Adds to the message of a digest.
///
/// # Errors
/// CIPHERMILL_ENGINE_FAULT, after which the message is lost; CIPHERMILL_MISUSE, CIPHERMILL_BUSY, CIPHERMILL_FORKED.
///
/// # Threads
/// One at a time for a digest.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_digest_update(
    digest: *mut ciphermill_digest,
    message: *const u8,
    message_len: usize,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mut digest = unsafe { handle::exclusive(digest) }?;
        // SAFETY: the caller's to be read.
        Ok(digest.absorb(unsafe { foreign::slice(message, message_len, "message") }?)?)
    })
}

/// Computes the digest of all that was added and begins another one of the same suite. `result_len` is the length of the
/// suite's digest.
///
/// # Errors
/// As ciphermill_digest_one, and CIPHERMILL_BUSY; for another length the message stays.
///
/// # Threads
/// One at a time for a digest.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_digest_final(
    digest: *mut ciphermill_digest,
    result: *mut u8,
    result_len: usize,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mut digest = unsafe { handle::exclusive(digest) }?;
        // SAFETY: the caller's to be written.
        let to = unsafe { place(result, result_len, digest.suite()) }?;
        let done = digest.finish(to);
        digest.begin(&[])?;
        match done? {
            OpStatus::Done => Ok(()),
            status => Failure::of_status(status),
        }
    })
}

/// Ends a digest; NULL is none.
///
/// # Errors
/// CIPHERMILL_MISUSE for what is not open (any more); CIPHERMILL_BUSY, CIPHERMILL_FORKED.
///
/// # Threads
/// No other thread may use it later.
///
/// # Safety
/// As said there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_digest_close(digest: *mut ciphermill_digest) -> ciphermill_status {
    // SAFETY: nobody uses it any more, by the caller.
    entry(|| unsafe { handle::close(digest) })
}
