//! The socket that daemons get in place of the kernel's, and who is at its other end.
//!
//! One thread serves all of them. It never waits for a daemon: what one does not read is kept up to a limit, beyond which events
//! are lost, with a warning.

mod client;
mod requests;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, recv,
    socket_with, sockopt::socket_peercred,
};
use tracing::{info, warn};
use zeroize::{Zeroize, Zeroizing};

use crate::bytes::Writer;
use crate::kernel::Kernel;
use crate::message::write_event;
use client::Client;
use requests::Answers;

/// Datagrams of one daemon that are worked on before the others have their turn.
const TURN: usize = 32;

/// What the server has room for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Daemons and other programs at once.
    pub clients: usize,
    /// Bytes of a datagram from one of them.
    pub datagram_len: usize,
    /// Datagrams that wait for one of them to read.
    pub pending: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { clients: 64, datagram_len: 1 << 15, pending: 1024 }
    }
}

/// A datagram, which is wiped when it goes.
type Datagram = Zeroizing<Vec<u8>>;

/// The listening socket and the programs that are connected to it.
pub struct Server {
    listener: OwnedFd,
    path: PathBuf,
    limits: Limits,
    clients: Vec<Client>,
    answers: Answers,
    buffer: Zeroizing<Vec<u8>>,
}

impl Server {
    /// Listens at `path`, for this user and root alone. A socket that nobody listens on any more is replaced.
    ///
    /// # Errors
    /// What the system says: `EADDRINUSE` if somebody listens there, or the path is something else than a socket.
    pub fn bind(path: &Path, limits: Limits) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        remove_stale(path, &address)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&listener, &address)?;
        // Before `listen` nobody can connect.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        listen(&listener, 16)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            limits,
            clients: Vec::new(),
            answers: Answers::default(),
            buffer: Zeroizing::new(vec![0; limits.datagram_len]),
        })
    }

    /// How many programs are connected.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Serves until `stop` is set, which is looked at ten times a second.
    ///
    /// # Errors
    /// As [`Server::round`].
    pub fn run(&mut self, kernel: &mut dyn Kernel, stop: &AtomicBool) -> io::Result<()> {
        while !stop.load(Ordering::Acquire) {
            self.round(kernel, Duration::from_millis(100))?;
        }
        Ok(())
    }

    /// Waits until there is something to do, no longer than `wait`, and does it.
    ///
    /// # Errors
    /// What the system says where it cannot wait, which is not for a daemon to cause. What goes wrong with one daemon ends its
    /// connection, with a warning.
    pub fn round(&mut self, kernel: &mut dyn Kernel, wait: Duration) -> io::Result<()> {
        let ready = self.wait(wait)?;
        self.accept();
        for (index, ready) in ready.into_iter().enumerate() {
            if ready {
                self.serve(index, kernel);
            }
        }
        for event in kernel.take_events() {
            let mut to = Writer::new();
            let group = write_event(&mut to, &event);
            self.tell(group, to.into_bytes());
        }
        for client in &mut self.clients {
            client.flush(kernel);
        }
        self.clients.retain(|client| !client.is_over());
        Ok(())
    }

    /// Which clients have said something.
    fn wait(&self, wait: Duration) -> io::Result<Vec<bool>> {
        let listener = PollFd::new(&self.listener, PollFlags::IN);
        let clients = self.clients.iter().map(Client::poll);
        let mut fds = std::iter::once(listener).chain(clients).collect::<Vec<_>>();
        let wait = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
        match poll(&mut fds, Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let said = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        Ok(fds.iter().skip(1).map(|fd| fd.revents().intersects(said)).collect())
    }

    fn accept(&mut self) {
        loop {
            let peer = match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(peer) => peer,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(errno) => return warn!("a connection was not accepted: {errno}"),
            };
            let Ok(who) = socket_peercred(&peer) else { continue };
            let process = who.pid.as_raw_nonzero();
            if !who.uid.is_root() && who.uid != rustix::process::geteuid() {
                warn!("process {process} of user {} was turned away", who.uid.as_raw());
            } else if self.clients.len() >= self.limits.clients {
                warn!("process {process} was turned away: there are {} already", self.limits.clients);
            } else {
                info!("process {process} is connected");
                self.clients.push(Client::new(peer, process.get(), self.limits.pending));
            }
        }
    }

    /// Works on what a client has sent.
    fn serve(&mut self, index: usize, kernel: &mut dyn Kernel) {
        for _ in 0..TURN {
            let Some(client) = self.clients.get_mut(index) else { return };
            if !client.may_ask() {
                return;
            }
            let received = recv(client.socket(), self.buffer.as_mut_slice(), RecvFlags::TRUNC);
            let (len, whole) = match received {
                Ok((0, _)) => return client.end(None),
                Ok(lens) => lens,
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(errno) => return client.end(Some(&errno.to_string())),
            };
            let datagram = self.buffer.get_mut(..len).unwrap_or_default();
            if whole > len {
                client.end(Some("a datagram longer than may be"));
            } else {
                self.answers.serve(client, datagram, kernel);
            }
            datagram.zeroize();
            for (group, notice) in std::mem::take(&mut self.answers.notices) {
                self.tell(group, notice);
            }
            self.answers.finish(self.clients.get_mut(index));
        }
    }

    /// Tells everybody who hears a group.
    fn tell(&mut self, group: u32, datagram: Datagram) {
        for client in self.clients.iter_mut().filter(|client| client.hears(group)) {
            client.tell(datagram.clone());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A path that is gone already is as it should be.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes a socket that nobody listens on.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    let probe =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    if !found.file_type().is_socket() || connect(&probe, address) != Err(Errno::CONNREFUSED) {
        return Err(Errno::ADDRINUSE.into());
    }
    fs::remove_file(path)
}
