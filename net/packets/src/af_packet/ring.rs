//! The memory that a packet socket's receive ring consists of, in its two layouts, and whose turn each part of it is.
//!
//! Version 2 has frames of one length, each with a status of its own: a packet can be read as soon as it is there. Version 3 packs packets
//! into blocks, which change hands when they are full or a timer of whole milliseconds ends: less memory, and fewer wakes where the
//! reader sleeps, but a lone packet waits for the timer (`Documentation/networking/packet_mmap.rst`).

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
/// Octets of a block in version 3, where a block is what changes hands.
const PACKED_BLOCK_LEN: usize = 1 << 18;
/// What the kernel puts before a packet: its header, the sender's address, and room for a link header that short ones leave empty.
pub(super) const HEADROOM: usize = {
    let longer =
        if libc::TPACKET2_HDRLEN > libc::TPACKET3_HDRLEN { libc::TPACKET2_HDRLEN } else { libc::TPACKET3_HDRLEN };
    longer.next_multiple_of(libc::TPACKET_ALIGNMENT) + 16
};
const _: () = assert!(PACKED_BLOCK_LEN >= 2 * crate::PACKET_LEN_MAX + HEADROOM && PACKED_BLOCK_LEN.is_power_of_two());
const _: () = assert!(RING_LEN_MAX <= i32::MAX as usize && FRAMES_MAX * 2048 <= RING_LEN_MAX);

/// How a ring's memory is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// A status a frame (version 2): a lone packet is seen at once.
    #[default]
    Frames,
    /// A status a block (version 3): a lone packet waits for a millisecond and more.
    Blocks,
}

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

    /// A header that the kernel has written and handed over.
    fn header<T: Header>(&self, at: usize) -> Option<T> {
        let place = self.at(at, size_of::<T>()).filter(|place| place.cast::<T>().is_aligned())?;
        // SAFETY: within the mapping and aligned, as just checked, and each pattern of bits is a header; volatile, since the memory is shared.
        Some(unsafe { place.cast::<T>().read_volatile() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, which nobody borrows any more. It fails for other arguments only.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Headers of frames and blocks.
///
/// # Safety
/// Every pattern of bits is a value.
unsafe trait Header: Copy {}
// SAFETY: integers.
unsafe impl Header for libc::tpacket2_hdr {}
// SAFETY: integers.
unsafe impl Header for libc::tpacket3_hdr {}
// SAFETY: integers.
unsafe impl Header for libc::tpacket_hdr_v1 {}

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
    layout: Layout,
    /// Octets of a frame, or of a block in version 3.
    unit_len: usize,
    units: usize,
    /// The frame or block that is next.
    unit: usize,
    /// In version 3, where the next packet lies in the block that is ours, and how many packets are left in it.
    packet_at: usize,
    packets_left: u32,
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

/// Where a block's header lies in it, behind two words.
const BLOCK_HEADER_AT: usize = 8;

impl Ring {
    /// Gives a socket a ring of at least `frames` frames for packets of `packet_len` octets.
    pub(super) fn new(socket: &OwnedFd, layout: Layout, frames: usize, packet_len: usize) -> io::Result<Ring> {
        let frame_len = (packet_len + HEADROOM).next_power_of_two();
        let len = frames.checked_mul(frame_len).filter(|len| *len <= RING_LEN_MAX);
        let Some(len) = len.filter(|_| frames > 0 && frames <= FRAMES_MAX) else {
            let message =
                format!("a ring of {frames} frames for {packet_len} octets is longer than {RING_LEN_MAX} octets");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        };
        let block_len = match layout {
            Layout::Frames => BLOCK_LEN_MIN.max(frame_len),
            Layout::Blocks => PACKED_BLOCK_LEN,
        };
        let blocks = len.div_ceil(block_len).max(2);
        let request = libc::tpacket_req {
            tp_block_size: block_len as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: frame_len as u32,
            tp_frame_nr: (blocks * (block_len / frame_len)) as u32,
        };
        match layout {
            Layout::Frames => {
                set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)?;
                set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
            }
            Layout::Blocks => {
                set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V3 as i32)?;
                let request = libc::tpacket_req3 {
                    tp_block_size: request.tp_block_size,
                    tp_block_nr: request.tp_block_nr,
                    tp_frame_size: request.tp_frame_size,
                    tp_frame_nr: request.tp_frame_nr,
                    // The shortest that there is, in milliseconds.
                    tp_retire_blk_tov: 1,
                    tp_sizeof_priv: 0,
                    tp_feature_req_word: 0,
                };
                set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
            }
        }
        let mapping = Mapping::new(socket, blocks * block_len)?;
        let (unit_len, units) = match layout {
            Layout::Frames => (frame_len, blocks * (block_len / frame_len)),
            Layout::Blocks => (block_len, blocks),
        };
        Ok(Ring { mapping, layout, unit_len, units, unit: 0, packet_at: 0, packets_left: 0 })
    }

    /// Frames or blocks in the ring.
    pub(super) fn units(&self) -> usize {
        self.units
    }

    /// Whether the ring is read block by block.
    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// The status of the frame or block that is next.
    fn status(&self) -> Option<&AtomicU32> {
        let in_unit = match self.layout {
            Layout::Frames => 0,
            Layout::Blocks => BLOCK_HEADER_AT,
        };
        self.mapping.word(self.unit * self.unit_len + in_unit)
    }

    /// Whether there is something to read.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        // What stands behind the status is read only if the status says that the kernel has written it.
        self.packets_left > 0
            || self.status().is_some_and(|status| status.load(Ordering::Acquire) & libc::TP_STATUS_USER != 0)
    }

    /// What is next; it stays there until [`Ring::advance`].
    #[inline]
    pub(super) fn peek(&mut self) -> Next<'_> {
        match self.layout {
            Layout::Frames => self.peek_frame(),
            Layout::Blocks => self.peek_block(),
        }
    }

    #[inline]
    fn peek_frame(&mut self) -> Next<'_> {
        if !self.is_ready() {
            return Next::Nothing;
        }
        let at = self.unit * self.unit_len;
        let Some(header) = self.mapping.header::<libc::tpacket2_hdr>(at) else { return Next::Damaged };
        let bounds = (at + usize::from(header.tp_net), header.tp_snaplen as usize, at + self.unit_len);
        self.frame(bounds, header.tp_len, header.tp_status, (header.tp_sec, header.tp_nsec))
    }

    fn peek_block(&mut self) -> Next<'_> {
        let block = self.unit * self.unit_len;
        while self.packets_left == 0 {
            if !self.is_ready() {
                return Next::Nothing;
            }
            let Some(header) = self.mapping.header::<libc::tpacket_hdr_v1>(block + BLOCK_HEADER_AT) else {
                return Next::Damaged;
            };
            self.packets_left = header.num_pkts;
            self.packet_at = header.offset_to_first_pkt as usize;
            if self.packets_left == 0 {
                self.release_unit();
                return Next::Nothing;
            }
        }
        let at = block + self.packet_at;
        let header = self.mapping.header::<libc::tpacket3_hdr>(at);
        let Some(header) = header.filter(|_| self.packet_at < self.unit_len) else { return Next::Damaged };
        let bounds = (at + usize::from(header.tp_net), header.tp_snaplen as usize, block + self.unit_len);
        self.frame(bounds, header.tp_len, header.tp_status, (header.tp_sec, header.tp_nsec))
    }

    /// The packet of a frame that is ours, from where it starts, with its length, before where it has to end.
    #[inline]
    fn frame(
        &mut self,
        (start, len, end): (usize, usize, usize),
        whole_len: u32,
        status: u32,
        (seconds, nanoseconds): (u32, u32),
    ) -> Next<'_> {
        let place = self.mapping.at(start, len).filter(|_| start + len <= end);
        let Some(place) = place else { return Next::Damaged };
        // SAFETY: within the mapping, as `at` checked; the status has said that the frame is ours until `advance`, which needs this ring
        // exclusively and so ends the borrow.
        let octets = unsafe { std::slice::from_raw_parts_mut(place.as_ptr(), len) };
        let is_unfinished = status & libc::TP_STATUS_CSUMNOTREADY != 0;
        let received_ns = u64::from(seconds) * 1_000_000_000 + u64::from(nanoseconds);
        Next::Frame(Frame { octets, len: whole_len as usize, is_unfinished, received_ns })
    }

    /// Gives what is next back to the kernel.
    #[inline]
    pub(super) fn advance(&mut self) {
        if self.layout == Layout::Blocks {
            let at = self.unit * self.unit_len + self.packet_at;
            let next = self.mapping.header::<libc::tpacket3_hdr>(at).map_or(0, |header| header.tp_next_offset as usize);
            self.packets_left = self.packets_left.saturating_sub(1);
            self.packet_at += next;
            // A damaged offset ends the block.
            if self.packets_left > 0 && next != 0 {
                return;
            }
            self.packets_left = 0;
        }
        self.release_unit();
    }

    /// Brings the frames into this core's cache that the kernel will write next: as many as packets came, of the length that they had.
    ///
    /// A ring is longer than a cache, and the kernel would wait for memory with each packet; asked for together, the lines come side by side.
    #[inline]
    pub(super) fn warm(&self, packets: usize, octets: usize) {
        if self.layout == Layout::Blocks || packets == 0 {
            return;
        }
        let len = (HEADROOM + octets / packets).min(self.unit_len);
        for ahead in 0..packets.min(WARM_MAX).min(self.units) {
            let unit = (self.unit + ahead) % self.units;
            for line in (0..len).step_by(CACHE_LINE_LEN) {
                if let Some(place) = self.mapping.at(unit * self.unit_len + line, 1) {
                    prefetch(place);
                }
            }
        }
    }

    #[inline]
    fn release_unit(&mut self) {
        if let Some(status) = self.status() {
            // The kernel may write again only after everything was read.
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        self.unit = if self.unit + 1 == self.units { 0 } else { self.unit + 1 };
    }
}
