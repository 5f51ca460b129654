//! One program at the other end of the socket: what it hears, and what waits for it to read.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use tracing::{info, warn};

use super::Datagram;
use crate::association::ListFilter;
use crate::bytes::{DATAGRAM_MAX, Writer};
use crate::constants::NLM_F_MULTI;
use crate::control::Control;
use crate::kernel::Kernel;
use crate::message::{Header, State, write_done, write_state};

/// Entries that a listing takes from the kernel at once.
const PAGE: usize = 32;
/// A listing goes on when fewer datagrams than this wait.
const LISTING_PENDING: usize = 8;

/// What is listed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Listed {
    Associations(ListFilter),
    Policies,
}

/// A listing on its way.
struct Listing {
    what: Listed,
    position: u64,
    sequence: u32,
}

pub(super) struct Client {
    socket: OwnedFd,
    process: i32,
    pending_max: usize,
    /// None until the preloaded library has spoken.
    control: Option<Control>,
    pending: VecDeque<Datagram>,
    listing: Option<Listing>,
    /// Whether events were lost since all was read.
    loses: bool,
    over: bool,
}

impl Client {
    pub(super) fn new(socket: OwnedFd, process: i32, pending_max: usize) -> Self {
        Self {
            socket,
            process,
            pending_max,
            control: None,
            pending: VecDeque::new(),
            listing: None,
            loses: false,
            over: false,
        }
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    pub(super) fn control(&self) -> Option<Control> {
        self.control
    }

    pub(super) fn set_control(&mut self, control: Control) {
        self.control = Some(control);
    }

    pub(super) fn hears(&self, group: u32) -> bool {
        !self.over && self.control.is_some_and(|control| control.hears(group))
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Ends the connection, with the reason unless the program has ended it.
    pub(super) fn end(&mut self, why: Option<&str>) {
        if !self.over {
            match why {
                Some(why) => warn!("process {} is dropped: {why}", self.process),
                None => info!("process {} has gone", self.process),
            }
        }
        self.over = true;
    }

    /// Whether its requests are looked at: not while the answers to others wait for it.
    pub(super) fn may_ask(&self) -> bool {
        !self.over && self.pending.len() < self.pending_max / 2
    }

    pub(super) fn poll(&self) -> PollFd<'_> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.may_ask());
        flags.set(PollFlags::OUT, !self.pending.is_empty() || self.listing.is_some());
        PollFd::new(&self.socket, flags)
    }

    /// An answer.
    pub(super) fn answer(&mut self, datagram: Datagram) {
        self.pending.push_back(datagram);
    }

    /// Something unasked. A program that lets too much of it wait loses the rest, as by a kernel.
    pub(super) fn tell(&mut self, datagram: Datagram) {
        // Much may have come at once that its socket has room for.
        while self.pending.len() >= self.pending_max && self.send_first() {}
        if self.pending.len() < self.pending_max {
            // Said once, until it has read all that waited.
            self.loses &= !self.pending.is_empty();
            self.pending.push_back(datagram);
        } else if !std::mem::replace(&mut self.loses, true) {
            warn!("process {} does not read what it is told, and loses events", self.process);
        }
    }

    /// Begins a listing, or says that there is one already.
    pub(super) fn begin_listing(&mut self, what: Listed, sequence: u32) -> bool {
        let free = self.listing.is_none();
        if free {
            self.listing = Some(Listing { what, position: 0, sequence });
        }
        free
    }

    /// Sends what the socket takes.
    pub(super) fn flush(&mut self, kernel: &mut dyn Kernel) {
        loop {
            if !self.over && self.pending.len() < LISTING_PENDING {
                self.list_on(kernel);
            }
            if !self.send_first() {
                return;
            }
        }
    }

    /// Sends the first datagram that waits; says whether it went.
    fn send_first(&mut self) -> bool {
        let Some(first) = self.pending.front().filter(|_| !self.over) else { return false };
        match send(&self.socket, first, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(_) => self.pending.pop_front().is_some(),
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => false,
            Err(errno) => {
                let gone = matches!(errno, Errno::PIPE | Errno::CONNRESET);
                self.end(Some(&errno.to_string()).filter(|_| !gone).map(String::as_str));
                false
            }
        }
    }

    /// One more page of a listing.
    fn list_on(&mut self, kernel: &mut dyn Kernel) {
        let Some(mut listing) = self.listing.take() else { return };
        let port = self.control.unwrap_or_default().port;
        let header = Header { kind: 0, flags: NLM_F_MULTI, sequence: listing.sequence, port };
        let mut pages = Pages { whole: &mut self.pending, current: Writer::new() };
        let last = match listing.what {
            Listed::Associations(filter) => {
                let page = kernel.list(&filter, listing.position, PAGE);
                page.iter().for_each(|(_, state)| pages.add(|to| write_state(to, header, State::Association(state))));
                page.last().map(|(position, _)| *position)
            }
            Listed::Policies => {
                let page = kernel.list_policies(listing.position, PAGE);
                page.iter().for_each(|(_, state)| pages.add(|to| write_state(to, header, State::Policy(state))));
                page.last().map(|(position, _)| *position)
            }
        };
        match last {
            Some(position) => listing.position = position,
            None => pages.add(|to| write_done(to, listing.sequence, port)),
        }
        pages.end();
        self.listing = last.map(|_| listing);
    }
}

/// Messages put together to datagrams.
struct Pages<'a> {
    whole: &'a mut VecDeque<Datagram>,
    current: Writer,
}

impl Pages<'_> {
    fn add(&mut self, write: impl FnOnce(&mut Writer)) {
        let mut message = Writer::new();
        write(&mut message);
        let message = message.into_bytes();
        if self.current.len() + message.len() > DATAGRAM_MAX {
            self.end();
        }
        self.current.bytes(&message);
    }

    fn end(&mut self) {
        let datagram = std::mem::replace(&mut self.current, Writer::new()).into_bytes();
        if !datagram.is_empty() {
            self.whole.push_back(datagram);
        }
    }
}
