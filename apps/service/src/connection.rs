//! One client's socket: what was read of it, and what it has not taken yet.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use ciphermill_channel::{Answer, Frames, write_some};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;

use crate::client::{Client, ClientChannel};
use crate::worker::Shop;

/// A client's socket, and what is under way on it.
pub(crate) struct Connection {
    pub(crate) socket: UnixStream,
    /// Taken out while its messages are answered.
    pub(crate) frames: Option<Frames>,
    pub(crate) client: Arc<Client>,
    /// Where its requests are served.
    pub(crate) shop: Arc<Shop>,
    pub(crate) channels: Vec<Arc<ClientChannel>>,
    pub(crate) channel_bytes: usize,
    pub(crate) greeted: bool,
    /// An answer that the client has not taken yet; nothing more is read from it meanwhile.
    pub(crate) unsent: Vec<u8>,
    /// The channel whose descriptors go with the first bytes of that.
    unsent_channel: Option<Arc<ClientChannel>>,
    /// What is waited for: [`EventFlags::IN`], or [`EventFlags::OUT`] while there is something to be sent.
    waits_for: EventFlags,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Goes {
    On,
    Ends,
}

impl Connection {
    /// A connection that is read from: what waits for the sockets has it as [`EventFlags::IN`], under the client's number.
    pub(crate) fn new(socket: UnixStream, client: Arc<Client>, shop: Arc<Shop>) -> Connection {
        Connection {
            socket,
            frames: Some(Frames::new()),
            client,
            shop,
            channels: Vec::new(),
            channel_bytes: 0,
            greeted: false,
            unsent: Vec::new(),
            unsent_channel: None,
            waits_for: EventFlags::IN,
        }
    }

    /// Sends an answer, with the descriptors of a channel. What the client does not take at once is sent when it does. `events` waits for
    /// the sockets.
    pub(crate) fn send(&mut self, events: &OwnedFd, answer: &Answer, channel: Option<Arc<ClientChannel>>) -> Goes {
        let message = answer.to_bytes();
        // One answer at a time: the one before was taken.
        self.unsent.extend_from_slice(&(message.len() as u32).to_le_bytes());
        self.unsent.extend_from_slice(&message);
        self.unsent_channel = channel;
        self.send_rest(events)
    }

    /// Sends what is left, as far as the client takes it.
    pub(crate) fn send_rest(&mut self, events: &OwnedFd) -> Goes {
        let mut sent = 0;
        let waits_for = loop {
            if sent == self.unsent.len() {
                break EventFlags::IN;
            }
            let channel = self.unsent_channel.as_ref().map(|channel| channel.channel.descriptors());
            let descriptors = channel.as_ref().map_or(&[][..], |descriptors| descriptors);
            match write_some(&self.socket, &self.unsent[sent..], descriptors) {
                Ok(count) => {
                    sent += count;
                    self.unsent_channel = None;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break EventFlags::OUT,
                Err(_) => return Goes::Ends,
            }
        };
        self.unsent.drain(..sent);
        if waits_for == self.waits_for {
            return Goes::On;
        }
        self.waits_for = waits_for;
        let modified = epoll::modify(events, &self.socket, EventData::new_u64(self.client.id), waits_for);
        if modified.is_ok() { Goes::On } else { Goes::Ends }
    }
}
