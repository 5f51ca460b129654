//! One thread for all sockets: who may connect, keys, channels, and what is asked about the service.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use ciphermill::{KeyPolicy, Mill};
use ciphermill_channel::{Answer, Ask, Channel, DATA_LEN_MIN, ErrorKind, Frames, KeyHandle, VERSION, write_frame};
use ciphermill_contract::{Direction, Error, KeyForm, KeyId, KeyMaterial, Refusal, Suite};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fd::OwnedFd;
use serde_json::{Value, json};

use crate::audit::Audit;
use crate::client::{Client, ClientChannel, Peer};
use crate::keys::{Keys, TableKey};
use crate::limits::{Access, Options};
use crate::socket::Listener;
use crate::status::{ClientRow, Status, json, prometheus};
use crate::vault::Vault;
use crate::worker::Shop;

/// What the listener, the way to end and the clients' ends have as their names; connections have those behind [`LAST`].
const LISTENER: u64 = 0;
const END: u64 = 1;
const ENDED: u64 = 2;
const LAST: u64 = 2;

/// How long clients have for what they have asked when the service ends, and how often it looks whether they are done.
const DRAIN_MAX: Duration = Duration::from_secs(5);
const DRAIN_LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// Connections that are taken at a time.
const ACCEPTS: usize = 64;

pub(crate) struct Control {
    shop: Arc<Shop>,
    options: Options,
    listener: Listener,
    /// Whoever closes the other side has the service end.
    end: UnixStream,
    events: OwnedFd,
    ended: Arc<OwnedFd>,
    connections: HashMap<u64, Connection>,
    /// Names of connections and of channels, none of which is used twice.
    next: u64,
    /// Held so that there is a descriptor left to turn somebody away with.
    spare: Option<OwnedFd>,
    begun: Instant,
    vault: Option<Vault>,
    audit: Audit,
    reloads: Receiver<Reload>,
    /// Since when the service takes nobody in.
    draining: Option<Instant>,
}

struct Connection {
    socket: UnixStream,
    /// Taken out while its messages are answered.
    frames: Option<Frames>,
    client: Arc<Client>,
    channels: Vec<Arc<ClientChannel>>,
    channel_bytes: usize,
    greeted: bool,
    /// What the client has not taken yet; nothing more is read from it meanwhile.
    unsent: Vec<u8>,
}

/// What can be changed while the service runs.
pub struct Reload {
    /// Who may connect from now on.
    pub access: Access,
    /// The keystore, and whose its keys are. Keys that clients have taken stay theirs.
    pub vault: Option<Vault>,
}

/// How the service's owner reaches the thread of its sockets.
#[derive(Clone)]
pub struct Remote {
    reloads: Sender<Reload>,
    bell: Arc<OwnedFd>,
}

impl Remote {
    /// Puts something else into force, and has what the mill runs looked at again. Clients that are connected stay.
    pub fn reload(&self, reload: Reload) {
        // Fails only when the thread has ended, which needs nothing any more.
        if self.reloads.send(reload).is_ok() {
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }
}

/// Whether a connection goes on.
#[derive(PartialEq)]
enum Goes {
    On,
    Ends,
}

impl Control {
    pub(crate) fn new(
        shop: Arc<Shop>,
        options: Options,
        listener: Listener,
        vault: Option<Vault>,
        end: UnixStream,
    ) -> io::Result<(Control, Remote)> {
        let audit = Audit::at(options.audit.as_deref())?;
        let (sender, reloads) = channel();
        let events = epoll::create(CreateFlags::CLOEXEC)?;
        listener.socket.set_nonblocking(true)?;
        epoll::add(&events, &listener.socket, EventData::new_u64(LISTENER), EventFlags::IN)?;
        epoll::add(&events, &end, EventData::new_u64(END), EventFlags::IN)?;
        let ended = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(&events, &ended, EventData::new_u64(ENDED), EventFlags::IN | EventFlags::ET)?;
        let remote = Remote { reloads: sender, bell: Arc::clone(&ended) };
        let control = Control {
            shop,
            options,
            listener,
            end,
            events,
            ended,
            connections: HashMap::new(),
            next: LAST,
            spare: spare(),
            begun: Instant::now(),
            vault,
            audit,
            reloads,
            draining: None,
        };
        Ok((control, remote))
    }

    /// Serves until the service ends.
    pub(crate) fn run(mut self) {
        let mut events = [const { core::mem::MaybeUninit::uninit() }; 64];
        loop {
            let ready: Vec<(u64, EventFlags)> =
                match epoll::wait(&self.events, &mut events, self.draining.map(|_| &DRAIN_LOOK)) {
                    Ok((events, _)) => events.iter().map(|event| (event.data.u64(), event.flags)).collect(),
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(error) => {
                        tracing::error!("sockets cannot be waited for: {error}");
                        return;
                    }
                };
            for (name, flags) in ready {
                match name {
                    LISTENER => self.accept(),
                    END => self.drain(),
                    // A client has ended, which is seen below, or something else is in force.
                    ENDED => self.reload(),
                    id => self.serve(id, flags),
                }
            }
            self.end_idle();
            self.sweep();
            if self.draining.is_some() && self.connections.is_empty() {
                return;
            }
        }
    }

    /// Puts into force what has come. Clients that are here stay.
    fn reload(&mut self) {
        while let Ok(Reload { access, vault }) = self.reloads.try_recv() {
            self.options.access = access;
            self.vault = vault;
            self.shop.renew_offers();
        }
    }

    /// Takes nobody in from now on; the service ends when its clients have what they asked for.
    fn drain(&mut self) {
        if self.draining.is_none() {
            self.draining = Some(Instant::now());
            let _ = epoll::delete(&self.events, &self.listener.socket);
            let _ = epoll::delete(&self.events, &self.end);
        }
    }

    /// When the service ends: hangs up on clients that wait for nothing, and on all after a while.
    fn end_idle(&mut self) {
        let Some(since) = self.draining else { return };
        let late = since.elapsed() >= DRAIN_MAX;
        for connection in self.connections.values() {
            if late || (connection.unsent.is_empty() && self.shop.desk.is_idle(connection.client.id)) {
                connection.client.end();
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS {
            match self.listener.socket.accept() {
                Ok((socket, _)) => {
                    if let Err(error) = self.admit(socket) {
                        tracing::warn!("a client could not be taken in: {error}");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // No descriptor is left: one is made free to take the client, and to hang up on it.
                    tracing::warn!("a client could not be taken in: {error}");
                    drop(self.spare.take());
                    let turned_away = self.listener.socket.accept();
                    drop(turned_away);
                    self.spare = spare();
                    return;
                }
            }
        }
    }

    fn admit(&mut self, socket: UnixStream) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        let credentials = rustix::net::sockopt::socket_peercred(&socket)?;
        let peer = Peer {
            pid: credentials.pid.as_raw_nonzero().get(),
            uid: credentials.uid.as_raw(),
            gid: credentials.gid.as_raw(),
        };
        let of_user = self.connections.values().filter(|connection| connection.client.peer.uid == peer.uid).count();
        let limits = self.options.limits;
        let turned_away = if !self.options.access.allows(&peer) {
            Some((ErrorKind::Refused, format!("user {} may not use this service", peer.uid)))
        } else if self.connections.len() >= limits.clients {
            Some((ErrorKind::Exhausted, format!("clients is {}", limits.clients)))
        } else if of_user >= limits.clients_of_user {
            Some((ErrorKind::Exhausted, format!("clients_of_user is {}", limits.clients_of_user)))
        } else {
            None
        };
        if let Some((kind, text)) = turned_away {
            tracing::info!(pid = peer.pid, uid = peer.uid, "turned away: {text}");
            self.audit.write(0, &peer, "turned away", &json!({ "why": text }));
            // It may not read: it is hung up on anyway.
            let _ = write_frame(&socket, &Answer::Error { kind, text }.to_bytes(), &[]);
            return Ok(());
        }
        let id = self.name();
        epoll::add(&self.events, &socket, EventData::new_u64(id), EventFlags::IN | EventFlags::RDHUP)?;
        let client = Arc::new(Client::new(id, peer, Keys::new(limits.keys), Arc::clone(&self.ended)));
        let (frames, channels, unsent) = (Some(Frames::new()), Vec::new(), Vec::new());
        let connection = Connection { socket, frames, client, channels, channel_bytes: 0, greeted: false, unsent };
        self.connections.insert(id, connection);
        tracing::debug!(client = id, pid = peer.pid, uid = peer.uid, "connected");
        self.audit.write(id, &peer, "connected", &Value::Null);
        Ok(())
    }

    fn name(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Reads what a client asks and answers it.
    fn serve(&mut self, id: u64, flags: EventFlags) {
        if flags.contains(EventFlags::OUT) {
            self.send_rest(id);
        }
        loop {
            let Some(connection) = self.connections.get_mut(&id) else { return };
            if !connection.unsent.is_empty() || connection.client.is_gone() {
                return;
            }
            let Some(frames) = &mut connection.frames else { return };
            match frames.fill(&connection.socket) {
                Ok(true) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(false) | Err(_) => {
                    connection.client.end();
                    return;
                }
            }
            if self.answer_all(id) == Goes::Ends {
                if let Some(connection) = self.connections.get(&id) {
                    connection.client.end();
                }
                return;
            }
        }
    }

    /// Answers the messages that are there.
    fn answer_all(&mut self, id: u64) -> Goes {
        // Taken out, so that answering may change everything else.
        let Some(mut frames) = self.connections.get_mut(&id).and_then(|connection| connection.frames.take()) else {
            return Goes::Ends;
        };
        let goes = loop {
            match frames.next(|message| self.answer(id, message)) {
                Ok(Some(Goes::On)) => {}
                Ok(Some(Goes::Ends)) => break Goes::Ends,
                Ok(None) => break Goes::On,
                Err(error) => {
                    self.send(id, &Answer::Error { kind: ErrorKind::Message, text: error.to_string() }, None);
                    break Goes::Ends;
                }
            }
        };
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.frames = Some(frames);
        }
        goes
    }

    fn answer(&mut self, id: u64, message: &[u8]) -> Goes {
        let answer = match Ask::from_bytes(message) {
            Ok(Ask::Forget { key }) => return self.forget(id, key),
            Ok(Ask::Close { channel }) => return self.close(id, channel),
            Ok(ask) => self.carry_out(id, ask),
            Err(error) => Err((ErrorKind::Message, error.to_string())),
        };
        match answer {
            Ok((answer, channel)) => self.send(id, &answer, channel),
            Err((kind, text)) => {
                let goes = self.send(id, &Answer::Error { kind, text }, None);
                // Who does not speak the protocol is not listened to.
                if matches!(kind, ErrorKind::Message | ErrorKind::Version) { Goes::Ends } else { goes }
            }
        }
    }

    #[expect(clippy::type_complexity, reason = "an answer and what goes with it, or why there is none")]
    fn carry_out(
        &mut self,
        id: u64,
        ask: Ask<'_>,
    ) -> Result<(Answer, Option<Arc<ClientChannel>>), (ErrorKind, String)> {
        let greeted = self.connections.get(&id).is_some_and(|connection| connection.greeted);
        let answer = match ask {
            Ask::Hello { version } if version != VERSION => {
                return Err((ErrorKind::Version, format!("this service speaks version {VERSION}, not {version}")));
            }
            Ask::Hello { .. } => self.greet(id),
            _ if !greeted => return Err((ErrorKind::Message, "the first message must be a greeting".to_owned())),
            Ask::Channel { data_len } => {
                let channel = self.open_channel(id, data_len as usize)?;
                return Ok((Answer::Channel { channel: channel.id }, Some(channel)));
            }
            Ask::Import { suite, form, bytes } => Answer::Key(self.import(id, suite, &KeyMaterial { form, bytes })?),
            Ask::Key { suite, name } => Answer::Key(self.key_by_name(id, suite, name)?),
            Ask::Status => Answer::Text(json(&self.status())),
            Ask::Clients => Answer::Text(json(&self.rows())),
            Ask::Metrics => Answer::Text(self.shop.mill.metrics().prometheus() + &prometheus(&self.rows())),
            Ask::Drain => {
                self.may_manage(id)?;
                self.note(id, "drain", &Value::Null);
                self.drain();
                Answer::Done
            }
            // Answered before.
            Ask::Forget { .. } | Ask::Close { .. } => Answer::Done,
        };
        Ok((answer, None))
    }

    fn greet(&mut self, id: u64) -> Answer {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.greeted = true;
        }
        let data_len_max = u32::try_from(self.options.limits.channel_bytes).unwrap_or(u32::MAX);
        Answer::Welcome { version: VERSION, data_len_max, offers: self.shop.offers().list() }
    }

    /// What changes the service for everybody is for root and the service's own user.
    fn may_manage(&self, id: u64) -> Result<(), (ErrorKind, String)> {
        let uid = self.connections.get(&id).map(|connection| connection.client.peer.uid);
        if uid == Some(0) || uid == Some(rustix::process::geteuid().as_raw()) {
            return Ok(());
        }
        Err((ErrorKind::Refused, "only root and the service's own user may do that".to_owned()))
    }

    fn open_channel(&mut self, id: u64, data_len: usize) -> Result<Arc<ClientChannel>, (ErrorKind, String)> {
        let channel_id = self.name();
        let limits = self.options.limits;
        let Some(connection) = self.connections.get_mut(&id) else {
            return Err((ErrorKind::Fault, "the connection has ended".to_owned()));
        };
        let beyond = |limit: &str, value: usize| Err((ErrorKind::Exhausted, format!("{limit} is {value}")));
        let data_len = data_len.max(DATA_LEN_MIN);
        if data_len > limits.channel_bytes {
            return beyond("channel_bytes", limits.channel_bytes);
        }
        if connection.channels.len() >= limits.channels {
            return beyond("channels", limits.channels);
        }
        if connection.channel_bytes + data_len > limits.client_bytes {
            return beyond("client_bytes", limits.client_bytes);
        }
        let fault =
            |error: &dyn core::fmt::Display| (ErrorKind::Exhausted, format!("no channel could be made: {error}"));
        let channel = Channel::create(data_len).map_err(|error| fault(&error))?;
        self.shop.add_bell(channel.bell(), channel_id).map_err(|error| fault(&error))?;
        let channel = Arc::new(ClientChannel { id: channel_id, channel, client: Arc::clone(&connection.client) });
        connection.channels.push(Arc::clone(&channel));
        connection.channel_bytes += data_len;
        self.shop.desk.add(Arc::clone(&channel));
        Ok(channel)
    }

    fn import(&mut self, id: u64, suite: Suite, material: &KeyMaterial<'_>) -> Result<KeyHandle, (ErrorKind, String)> {
        let Some(connection) = self.connections.get(&id) else {
            return Err((ErrorKind::Fault, "the connection has ended".to_owned()));
        };
        if connection.client.keys().is_full() {
            return Err((ErrorKind::Exhausted, format!("keys is {}", self.options.limits.keys)));
        }
        if material.form == KeyForm::Reference {
            return Err((ErrorKind::Refused, "a name is no key's bytes".to_owned()));
        }
        let mill = &self.shop.mill;
        let key = mill.keys().import(*material, KeyPolicy::only(suite)).map_err(said)?;
        let key = Arc::new(TableKey::new(key, mill.clone()));
        if let Err(error) = prepare(mill, suite, key.id()) {
            drop(key);
            return Err(said(error));
        }
        let handle = connection.client.keys_mut().insert(key);
        let detail = json!({ "suite": suite.to_string(), "form": format!("{:?}", material.form), "key": handle.slot });
        self.note(id, "key imported", &detail);
        Ok(handle)
    }

    fn key_by_name(&mut self, id: u64, suite: Suite, name: &str) -> Result<KeyHandle, (ErrorKind, String)> {
        let Some(client) = self.connections.get(&id).map(|connection| Arc::clone(&connection.client)) else {
            return Err((ErrorKind::Fault, "the connection has ended".to_owned()));
        };
        if client.keys().is_full() {
            return Err((ErrorKind::Exhausted, format!("keys is {}", self.options.limits.keys)));
        }
        let found = match &mut self.vault {
            Some(vault) => vault.key(&self.shop.mill, &client.peer, name),
            None => Err((ErrorKind::Refused, "this service has no keystore".to_owned())),
        };
        let found = found.and_then(|key| prepare(&self.shop.mill, suite, key.id()).map(|()| key).map_err(said));
        let detail = json!({ "name": name, "suite": suite.to_string() });
        self.note(id, if found.is_ok() { "key taken" } else { "key refused" }, &detail);
        Ok(client.keys_mut().insert(found?))
    }

    /// Writes a client's control operation down.
    fn note(&mut self, id: u64, what: &str, detail: &Value) {
        if let Some(connection) = self.connections.get(&id) {
            self.audit.write(id, &connection.client.peer, what, detail);
        }
    }

    fn forget(&mut self, id: u64, key: KeyHandle) -> Goes {
        if let Some(connection) = self.connections.get(&id) {
            connection.client.keys_mut().remove(key);
        }
        Goes::On
    }

    fn close(&mut self, id: u64, channel: u64) -> Goes {
        let Some(connection) = self.connections.get_mut(&id) else { return Goes::Ends };
        if let Some(place) = connection.channels.iter().position(|own| own.id == channel) {
            let channel = connection.channels.swap_remove(place);
            connection.channel_bytes -= channel.data_len();
            self.shop.desk.remove_channel(channel.id);
            self.shop.remove_bell(channel.channel.bell());
        }
        Goes::On
    }

    fn status(&self) -> Status<'static> {
        let (channels, waiting) = self.shop.desk.figures();
        Status {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            uptime_s: self.begun.elapsed().as_secs(),
            workers: self.options.workers,
            clients: self.connections.len(),
            channels,
            waiting,
            keys: self.shop.mill.keys().len(),
            draining: self.draining.is_some(),
            engines: self.shop.mill.engines().iter().map(|engine| engine.info.name).collect(),
        }
    }

    fn rows(&self) -> Vec<ClientRow> {
        let row = |connection: &Connection| ClientRow::of(&connection.client, connection.channels.len());
        let mut rows: Vec<_> = self.connections.values().collect();
        rows.sort_by_key(|connection| connection.client.id);
        rows.into_iter().map(row).collect()
    }

    /// Sends an answer, with the descriptors of a channel. What the client does not take at once is sent when it does.
    fn send(&mut self, id: u64, answer: &Answer, channel: Option<Arc<ClientChannel>>) -> Goes {
        let Some(connection) = self.connections.get_mut(&id) else { return Goes::Ends };
        let message = answer.to_bytes();
        if let Some(channel) = channel {
            let sent = write_frame(&connection.socket, &message, &channel.channel.descriptors());
            return if sent.is_ok() { Goes::On } else { Goes::Ends };
        }
        connection.unsent.extend_from_slice(&(message.len() as u32).to_le_bytes());
        connection.unsent.extend_from_slice(&message);
        self.send_rest(id)
    }

    fn send_rest(&mut self, id: u64) -> Goes {
        let Some(connection) = self.connections.get_mut(&id) else { return Goes::Ends };
        let waited = EventFlags::IN | EventFlags::RDHUP;
        while !connection.unsent.is_empty() {
            match connection.socket.write(&connection.unsent) {
                Ok(sent) => drop(connection.unsent.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let flags = EventFlags::OUT | EventFlags::RDHUP;
                    let modified = epoll::modify(&self.events, &connection.socket, EventData::new_u64(id), flags);
                    return if modified.is_ok() { Goes::On } else { Goes::Ends };
                }
                Err(_) => {
                    connection.client.end();
                    return Goes::Ends;
                }
            }
        }
        let modified = epoll::modify(&self.events, &connection.socket, EventData::new_u64(id), waited);
        if modified.is_ok() { Goes::On } else { Goes::Ends }
    }

    /// Lets go of clients that have ended, or that a worker has found to be none of ours.
    fn sweep(&mut self) {
        let gone: Vec<u64> =
            self.connections.iter().filter(|(_, connection)| connection.client.is_gone()).map(|(id, _)| *id).collect();
        for id in gone {
            let Some(connection) = self.connections.remove(&id) else { continue };
            let _ = epoll::delete(&self.events, &connection.socket);
            self.shop.desk.remove(id);
            for channel in &connection.channels {
                self.shop.remove_bell(channel.channel.bell());
            }
            tracing::debug!(client = id, pid = connection.client.peer.pid, "gone");
        }
    }
}

/// What is said of an error of the mill.
fn said(error: Error) -> (ErrorKind, String) {
    let kind = match &error {
        Error::Exhausted(_) => ErrorKind::Exhausted,
        Error::EngineFault(_) => ErrorKind::Fault,
        _ => ErrorKind::Refused,
    };
    (kind, error.to_string())
}

/// Finds out whether a key suits a suite, as far as one of the directions goes: by having it prepared.
fn prepare(mill: &Mill, suite: Suite, key: KeyId) -> ciphermill_contract::Result<()> {
    let mut directions = [Direction::Encrypt, Direction::Decrypt].into_iter().filter(|way| suite.has_direction(*way));
    let first = directions.next().map(|direction| mill.bind(suite, direction, key).map(|_| ()));
    match (first, directions.next()) {
        // A public key signs nothing, but verifies.
        (Some(Err(Error::Refused(Refusal::KeyUnsuitable { .. }))), Some(direction)) => {
            mill.bind(suite, direction, key).map(|_| ())
        }
        (Some(first), _) => first,
        (None, _) => Ok(()),
    }
}

/// A descriptor that is good for nothing but to be closed.
fn spare() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}
