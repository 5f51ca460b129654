//! The memory that a packet socket's receive ring consists of, and whose turn each part of it is.
//!
//! The layout is version 2 (`Documentation/networking/packet_mmap.rst`): frames of one length, each with a status of its own, so that a packet
//! can be read as soon as it is there. Version 3 hands over blocks when they are full or a timer of whole milliseconds ends, and a lone packet
//! would wait for the timer.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::system::set_option;

/// Frames of the longest ring.
pub const FRAMES_MAX: usize = 1 << 18;
/// Octets of the largest ring.
pub const RING_LEN_MAX: usize = 1 << 30;
/// Octets of a block: what the kernel allocates at once.
const BLOCK_LEN_MIN: usize = 1 << 16;
/// What the kernel puts before a packet: its header, the sender's address, and room for a link header that short ones leave empty.
const HEADROOM: usize = libc::TPACKET2_HDRLEN.next_multiple_of(libc::TPACKET_ALIGNMENT) + 16;
const _: () = assert!(RING_LEN_MAX <= i32::MAX as usize && FRAMES_MAX * 2048 <= RING_LEN_MAX);

/// Memory that is shared with the kernel, until it is dropped.
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to this value alone, on whatever thread it is; what the kernel writes is read as atomic words first.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(socket: &OwnedFd, len: usize) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, socket.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("a ring at address zero"))?;
        Ok(Mapping { base, len })
    }

    /// The address of `len` octets at `at`, None if they do not lie in the mapping.
    fn at(&self, at: usize, len: usize) -> Option<NonNull<u8>> {
        if at.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: within the mapping, as just checked.
        Some(unsafe { self.base.add(at) })
    }

    /// The word at `at`, which the kernel may write at any time.
    fn word(&self, at: usize) -> Option<&AtomicU32> {
        let place = self.at(at, 4).filter(|place| place.cast::<u32>().is_aligned())?;
        // SAFETY: within the mapping and aligned, as just checked, and both sides access it as one word.
        Some(unsafe { AtomicU32::from_ptr(place.cast::<u32>().as_ptr()) })
    }

    /// A frame's header that the kernel has written and handed over.
    fn header(&self, at: usize) -> Option<libc::tpacket2_hdr> {
        let place = self.at(at, size_of::<libc::tpacket2_hdr>())?.cast::<libc::tpacket2_hdr>();
        // SAFETY: within the mapping and aligned, as just checked, and each pattern of bits is a header; volatile, since the memory is shared.
        place.is_aligned().then(|| unsafe { place.read_volatile() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, which nobody borrows any more. It fails for other arguments only.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// What the kernel put into a frame.
pub(super) struct Frame<'a> {
    /// The packet, as much of it as there was room for.
    pub(super) octets: &'a mut [u8],
    /// The octets it had.
    pub(super) len: usize,
    /// Whether its sender left the checksum to the interface.
    pub(super) is_unfinished: bool,
    /// When the kernel put it there, in nanoseconds of `CLOCK_REALTIME`.
    pub(super) received_ns: u64,
}

/// What is next in a ring.
pub(super) enum Next<'a> {
    /// Nothing: it is the kernel's turn.
    Nothing,
    /// A packet.
    Frame(Frame<'a>),
    /// A header that leads out of its frame. The kernel writes none.
    Damaged,
}

/// A receive ring, and how far it has been read.
pub(super) struct Ring {
    mapping: Mapping,
    frame_len: usize,
    frames: usize,
    /// The frame that is next.
    at: usize,
}

/// Frames that are brought into the cache at once.
const WARM_MAX: usize = 256;
const CACHE_LINE_LEN: usize = 64;

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch(place: NonNull<u8>) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing that the program could see, and faults on no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(place.as_ptr().cast()) };
}

/// Other processors' prefetches have no stable intrinsic.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn prefetch(_place: NonNull<u8>) {}

impl Ring {
    /// Gives a socket a ring of at least `frames` frames for packets of `packet_len` octets.
    pub(super) fn new(socket: &OwnedFd, frames: usize, packet_len: usize) -> io::Result<Ring> {
        let frame_len = (packet_len + HEADROOM).next_power_of_two();
        let len = frames.checked_mul(frame_len).filter(|len| *len <= RING_LEN_MAX);
        let Some(len) = len.filter(|_| frames > 0 && frames <= FRAMES_MAX) else {
            let message =
                format!("a ring of {frames} frames for {packet_len} octets is longer than {RING_LEN_MAX} octets");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        };
        let block_len = BLOCK_LEN_MIN.max(frame_len);
        let blocks = len.div_ceil(block_len).max(2);
        let frames = blocks * (block_len / frame_len);
        let request = libc::tpacket_req {
            tp_block_size: block_len as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: frame_len as u32,
            tp_frame_nr: frames as u32,
        };
        set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)?;
        set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
        let mapping = Mapping::new(socket, blocks * block_len)?;
        Ok(Ring { mapping, frame_len, frames, at: 0 })
    }

    /// Frames in the ring.
    pub(super) fn frames(&self) -> usize {
        self.frames
    }

    /// The status of the frame that is next.
    fn status(&self) -> Option<&AtomicU32> {
        self.mapping.word(self.at * self.frame_len)
    }

    /// Whether there is something to read.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        // What stands behind the status is read only if the status says that the kernel has written it.
        self.status().is_some_and(|status| status.load(Ordering::Acquire) & libc::TP_STATUS_USER != 0)
    }

    /// What is next; it stays there until [`Ring::advance`].
    #[inline]
    pub(super) fn peek(&mut self) -> Next<'_> {
        if !self.is_ready() {
            return Next::Nothing;
        }
        let at = self.at * self.frame_len;
        let Some(header) = self.mapping.header(at) else { return Next::Damaged };
        let (start, len) = (at + usize::from(header.tp_net), header.tp_snaplen as usize);
        let place = self.mapping.at(start, len).filter(|_| start + len <= at + self.frame_len);
        let Some(place) = place else { return Next::Damaged };
        // SAFETY: within the mapping, as `at` checked; the status has said that the frame is ours until `advance`, which needs this ring
        // exclusively and so ends the borrow.
        let octets = unsafe { std::slice::from_raw_parts_mut(place.as_ptr(), len) };
        let is_unfinished = header.tp_status & libc::TP_STATUS_CSUMNOTREADY != 0;
        let received_ns = u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
        Next::Frame(Frame { octets, len: header.tp_len as usize, is_unfinished, received_ns })
    }

    /// Gives what is next back to the kernel.
    #[inline]
    pub(super) fn advance(&mut self) {
        if let Some(status) = self.status() {
            // The kernel may write again only after everything was read.
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        self.at = if self.at + 1 == self.frames { 0 } else { self.at + 1 };
    }

    /// Brings the frames into this core's cache that the kernel will write next: as many as packets came, of the length that they had.
    ///
    /// A ring is longer than a cache, and the kernel would wait for memory with each packet; asked for together, the lines come side by side.
    #[inline]
    pub(super) fn warm(&self, packets: usize, octets: usize) {
        if packets == 0 {
            return;
        }
        let len = (HEADROOM + octets / packets).min(self.frame_len);
        for ahead in 0..packets.min(WARM_MAX).min(self.frames) {
            let frame = (self.at + ahead) % self.frames;
            for line in (0..len).step_by(CACHE_LINE_LEN) {
                if let Some(place) = self.mapping.at(frame * self.frame_len + line, 1) {
                    prefetch(place);
                }
            }
        }
    }
}
