//! A client that speaks to a server without the preloaded library, and a server on a thread of its own.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use ciphermill_xfrm::message::{Header, Reply, Request, encode_request, messages, parse_reply};
use ciphermill_xfrm::{AssociationKey, Limits, Server, Table};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with,
};

/// Where packets come from that have moved.
pub(crate) const MOVED_TO: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)), 4501);

/// A server with a table, which ends with it.
pub(crate) struct Running {
    pub(crate) path: PathBuf,
    /// Associations whose packets come from [`MOVED_TO`] from then on, which the table tells as an event.
    pub(crate) moved: Sender<AssociationKey>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
    _folder: tempfile::TempDir,
}

impl Running {
    pub(crate) fn new(limits: Limits, mut table: Table) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("xfrm");
        let mut server = Server::bind(&path, limits).expect("a server");
        let (moved, moves) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Acquire) {
                moves.try_iter().for_each(|key| table.moved(&key, MOVED_TO));
                server.round(&mut table, Duration::from_millis(10))?;
            }
            Ok(())
        });
        Self { path, moved, stop, thread: Some(thread), _folder: folder }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(matches!(ended, Some(Ok(Ok(())))), "the server ends well: {ended:?}");
        }
    }
}

pub(crate) struct Client {
    pub(crate) socket: OwnedFd,
    sequence: u32,
}

impl Client {
    /// Connected, and nothing said.
    pub(crate) fn mute(path: &Path) -> Self {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a socket");
        connect(&socket, &SocketAddrUnix::new(path).expect("a path")).expect("a server");
        Self { socket, sequence: 0 }
    }

    /// Connected, as the preloaded library does it.
    pub(crate) fn new(path: &Path, groups: u32) -> Self {
        let client = Self::mute(path);
        client.send(&control(1, groups));
        client
    }

    pub(crate) fn send(&self, datagram: &[u8]) {
        assert_eq!(send(&self.socket, datagram, SendFlags::NOSIGNAL), Ok(datagram.len()));
    }

    /// The next datagram's messages; none if the server has closed the connection.
    pub(crate) fn receive(&self) -> Vec<(Header, Reply)> {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let ready = poll(&mut fds, Some(&Timespec { tv_sec: 5, tv_nsec: 0 })).expect("a wait");
        assert_eq!(ready, 1, "something comes within five seconds");
        let mut bytes = vec![0; 1 << 16];
        let len = recv(&self.socket, bytes.as_mut_slice(), RecvFlags::empty()).map_or(0, |(len, _)| len);
        let all = messages(&bytes[..len]).map(|message| {
            let (header, body) = message.expect("a message");
            (header, parse_reply(&header, body).expect("a reply"))
        });
        all.collect()
    }

    /// Asks, and waits for the first datagram.
    pub(crate) fn ask(&mut self, request: &Request) -> Vec<Reply> {
        self.sequence += 1;
        self.send(&encode_request(request, self.sequence, true));
        let replies = self.receive();
        assert!(replies.iter().all(|(header, _)| (header.sequence, header.port) == (self.sequence, 77)), "{replies:?}");
        replies.into_iter().map(|(_, reply)| reply).collect()
    }

    /// Whether the server says nothing for a while.
    pub(crate) fn hears_nothing(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let wait = Duration::from_millis(200);
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() })) == Ok(0)
    }
}

/// What the preloaded library says of a socket with the address 77.
pub(crate) fn control(version: u32, groups: u32) -> Vec<u8> {
    let mut message = 32u32.to_ne_bytes().to_vec();
    message.extend(0x0eu16.to_ne_bytes());
    message.extend([0; 10]);
    [version, 77, groups, 1].iter().for_each(|field| message.extend(field.to_ne_bytes()));
    message
}
