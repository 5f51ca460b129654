//! Where what lies in a channel's memory. Each side writes lines of its own, so that they do not take them from each other.

use std::sync::atomic::AtomicU32;

use ciphermill_memory::Region;

/// Requests that a channel has at a time. A power of two, so that positions may wrap around.
pub const SLOTS: u32 = 64;

/// Bytes for operations and data that a channel has at least.
pub const DATA_LEN_MIN: usize = 64 << 10;

/// Bytes for operations and data that a channel has at most.
pub const DATA_LEN_MAX: usize = 64 << 20;

/// Where operations and data begin, in bytes: a page.
pub const DATA_AT: usize = 4096;

/// Words of a request, and of a completion.
pub(crate) const REQUEST_WORDS: usize = 8;
pub(crate) const COMPLETION_WORDS: usize = 4;

const SUBMITTED_AT: usize = 64;
const SERVICE_ASLEEP_AT: usize = 128;
const CLIENT_ASLEEP_AT: usize = 192;
const COMPLETIONS_AT: usize = 256;
const CROWDED_AT: usize = 1280;
const REQUESTS_AT: usize = 2048;

const _: () = assert!(SLOTS.is_power_of_two());
const _: () = assert!(COMPLETIONS_AT + SLOTS as usize * COMPLETION_WORDS * 4 <= CROWDED_AT);
const _: () = assert!(CROWDED_AT + 64 <= REQUESTS_AT);
const _: () = assert!(REQUESTS_AT + SLOTS as usize * REQUEST_WORDS * 4 <= DATA_AT);

/// The words of the first page.
pub(crate) struct Words<'r> {
    page: &'r [AtomicU32],
}

impl<'r> Words<'r> {
    /// The words of a region; `None` where it is smaller than any channel.
    pub(crate) fn of(region: &'r Region) -> Option<Words<'r>> {
        region.words(0, DATA_AT / 4).map(|page| Words { page })
    }

    /// Requests that the client has written since the channel was made, modulo 2^32.
    pub(crate) fn submitted(&self) -> &'r AtomicU32 {
        &self.page[SUBMITTED_AT / 4]
    }

    /// Whether the service has to be woken.
    pub(crate) fn service_asleep(&self) -> &'r AtomicU32 {
        &self.page[SERVICE_ASLEEP_AT / 4]
    }

    /// Whether the client has to be woken.
    pub(crate) fn client_asleep(&self) -> &'r AtomicU32 {
        &self.page[CLIENT_ASLEEP_AT / 4]
    }

    /// Whether as many clients ask as there are cores.
    pub(crate) fn crowded(&self) -> &'r AtomicU32 {
        &self.page[CROWDED_AT / 4]
    }

    /// What became of the request with this number.
    pub(crate) fn completion(&self, number: u32) -> &'r [AtomicU32] {
        self.slot(COMPLETIONS_AT, COMPLETION_WORDS, number)
    }

    /// The request with this number.
    pub(crate) fn request(&self, number: u32) -> &'r [AtomicU32] {
        self.slot(REQUESTS_AT, REQUEST_WORDS, number)
    }

    fn slot(&self, at: usize, words: usize, number: u32) -> &'r [AtomicU32] {
        let first = at / 4 + (number % SLOTS) as usize * words;
        &self.page[first..first + words]
    }
}
