//! One thread for all sockets: who may connect, keys, channels, and what is asked about the service.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ciphermill::{KeyPolicy, Mill};
use ciphermill_channel::{
    Answer, Ask, Channel, DATA_LEN_MIN, ErrorKind, KeyHandle, TEXT_LEN_MAX, VERSION, write_frame,
};
use ciphermill_contract::{KeyForm, KeyMaterial, Suite};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fd::OwnedFd;
use serde_json::{Value, json};

use crate::account::Account;
use crate::audit::Audit;
use crate::client::{Client, ClientChannel};
use crate::connection::{Connection, Goes};
use crate::keys::{Keys, TableKey, prepare, said};
use crate::limits::Options;
use crate::peer::Peer;
use crate::pools::core_of_process;
use crate::process::{Process, sees_programs};
use crate::remote::{Change, Reload, Remote};
use crate::socket::{Listener, peer_of};
use crate::status::{ClientRow, Status, json, of_service, prometheus};
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

const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// How long a client's messages are answered before it is the next one's turn. Each turn answers one at least.
const TURN_MAX: Duration = Duration::from_millis(1);

/// How long nobody is taken in when no descriptor can be had at all.
const NO_DESCRIPTOR: Duration = Duration::from_millis(5);

/// Connections that are taken at a time.
const ACCEPTS: usize = 64;

pub(crate) struct Control {
    mill: Mill,
    /// One for each pool of workers.
    shops: Vec<Arc<Shop>>,
    options: Options,
    listener: Listener,
    /// Whoever closes the other side has the service end.
    end: UnixStream,
    events: OwnedFd,
    ended: Arc<OwnedFd>,
    connections: HashMap<u64, Connection>,
    /// By their users' numbers, with the peer that was the first, as long as somebody has them or they owe something.
    accounts: HashMap<u32, (Peer, Arc<Account>)>,
    /// Connections whose turn was over before their messages were.
    unfinished: Vec<u64>,
    /// Names of connections and of channels, none of which is used twice.
    next: u64,
    /// Held so that there is a descriptor left to turn somebody away with.
    spare: Option<OwnedFd>,
    begun: Instant,
    vault: Option<Vault>,
    audit: Audit,
    changes: Receiver<Change>,
    /// Since when the service takes nobody in.
    draining: Option<Instant>,
}

impl Control {
    pub(crate) fn new(
        (mill, shops): (Mill, Vec<Arc<Shop>>),
        options: Options,
        listener: Listener,
        vault: Option<Vault>,
        end: UnixStream,
    ) -> io::Result<(Control, Remote)> {
        let audit = Audit::at(options.audit.as_deref(), options.limits.audit_bytes)?;
        let (sender, changes) = channel();
        let events = epoll::create(CreateFlags::CLOEXEC)?;
        listener.socket.set_nonblocking(true)?;
        // Connections have it from the listener.
        listener.refuse_descriptors();
        epoll::add(&events, &listener.socket, EventData::new_u64(LISTENER), EventFlags::IN)?;
        epoll::add(&events, &end, EventData::new_u64(END), EventFlags::IN)?;
        let ended = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(&events, &ended, EventData::new_u64(ENDED), EventFlags::IN | EventFlags::ET)?;
        let remote = Remote { changes: sender, bell: Arc::clone(&ended) };
        let control = Control {
            mill,
            shops,
            options,
            listener,
            end,
            events,
            ended,
            connections: HashMap::new(),
            accounts: HashMap::new(),
            unfinished: Vec::new(),
            next: LAST,
            spare: spare(),
            begun: Instant::now(),
            vault,
            audit,
            changes,
            draining: None,
        };
        control.warn_of_programs();
        Ok((control, remote))
    }

    /// Serves until the service ends.
    pub(crate) fn run(mut self) {
        let mut events = [const { core::mem::MaybeUninit::uninit() }; 64];
        loop {
            let timeout = if self.unfinished.is_empty() { self.draining.map(|_| &DRAIN_LOOK) } else { Some(&AT_ONCE) };
            let ready: Vec<(u64, EventFlags)> = match epoll::wait(&self.events, &mut events, timeout) {
                Ok((events, _)) => events.iter().map(|event| (event.data.u64(), event.flags)).collect(),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => {
                    tracing::error!("sockets cannot be waited for: {error}");
                    return;
                }
            };
            for id in core::mem::take(&mut self.unfinished) {
                self.serve(id, EventFlags::empty());
            }
            for (name, flags) in ready {
                match name {
                    LISTENER => self.accept(),
                    END => self.drain(),
                    // A client has ended, which is seen below, or something else is in force.
                    ENDED => self.change(),
                    // It has had its turn.
                    id if self.unfinished.contains(&id) => {}
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
    fn change(&mut self) {
        while let Ok(change) = self.changes.try_recv() {
            if let Change::All(reload) = change {
                let Reload { options, vault } = *reload;
                let Options { workers, spin, window_max, .. } = self.options;
                let pools = core::mem::take(&mut self.options.pools);
                self.options = Options { workers, pools, spin, window_max, ..options };
                self.vault = vault;
                self.warn_of_programs();
                self.shops.iter().for_each(|shop| shop.renew_offers());
                self.accounts.values().for_each(|(first, account)| account.set_rules(self.options.rules.of(first)));
                for connection in self.connections.values() {
                    connection.client.keys_mut().set_max(self.options.limits.keys);
                }
                // Who is held back may be due at once.
                self.shops.iter().for_each(|shop| shop.nudge());
            }
            self.audit.reopen(self.options.audit.as_deref(), self.options.limits.audit_bytes);
        }
    }

    /// Says so if a policy lists programs that this process cannot tell.
    fn warn_of_programs(&self) {
        let vault = self.vault.as_ref().is_some_and(Vault::names_programs);
        if (vault || !self.options.access.executables.is_empty()) && !sees_programs() {
            tracing::warn!("executables of other users match nobody: telling them takes CAP_SYS_PTRACE");
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
            if late || (connection.unsent.is_empty() && connection.shop.desk.is_idle(connection.client.id)) {
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
                    if self.spare.is_none() {
                        // Somebody else was faster: the listener is ready all the time, and looking at it changes nothing.
                        std::thread::sleep(NO_DESCRIPTOR);
                    }
                    return;
                }
            }
        }
    }

    fn admit(&mut self, socket: UnixStream) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        let peer = peer_of(&socket)?;
        let process = Process::of(&socket, &peer);
        let of_user = self.connections.values().filter(|connection| connection.client.peer.uid == peer.uid).count();
        let limits = self.options.limits;
        let turned_away = if !self.options.access.allows(&peer, &process) {
            let unit = process.unit().map(|unit| format!(" in {unit}")).unwrap_or_default();
            Some((ErrorKind::Refused, format!("user {}{unit} may not use this service", peer.uid)))
        } else if self.connections.len() >= limits.clients {
            Some((ErrorKind::Exhausted, format!("clients is {}", limits.clients)))
        } else if of_user >= limits.clients_of_user {
            Some((ErrorKind::Exhausted, format!("clients_of_user is {}", limits.clients_of_user)))
        } else {
            None
        };
        if let Some((kind, text)) = turned_away {
            tracing::info!(pid = peer.pid, uid = peer.uid, "turned away: {text}");
            self.audit.write(0, (&peer, &process), "turned away", &json!({ "why": text }));
            // It may not read: it is hung up on anyway.
            let _ = write_frame(&socket, &Answer::Error { kind, text }.to_bytes(), &[]);
            return Ok(());
        }
        let id = self.name();
        epoll::add(&self.events, &socket, EventData::new_u64(id), EventFlags::IN)?;
        let client = Client::new(id, peer, Keys::new(limits.keys), Arc::clone(&self.ended)).in_process(process);
        let client = client.on_account(self.account(&peer));
        let connection = Connection::new(socket, Arc::new(client), self.shop_for(&peer));
        self.connections.insert(id, connection);
        tracing::debug!(client = id, pid = peer.pid, uid = peer.uid, "connected");
        self.note(id, "connected", &Value::Null);
        Ok(())
    }

    /// Who serves a process: the pool whose cores it runs on; the one with the fewest clients where that is not known.
    fn shop_for(&self, peer: &Peer) -> Arc<Shop> {
        let core = if self.shops.len() > 1 { core_of_process(peer.pid) } else { None };
        let near = core.and_then(|core| self.shops.iter().find(|shop| shop.cores.contains(&core)));
        let clients_of = |shop: &&Arc<Shop>| {
            self.connections.values().filter(|connection| Arc::ptr_eq(&connection.shop, shop)).count()
        };
        let shop = near.or_else(|| self.shops.iter().min_by_key(clients_of));
        Arc::clone(shop.unwrap_or_else(|| unreachable!("a service has a pool")))
    }

    /// The account of a process's user. Its rules are those of the connection that was the first.
    fn account(&mut self, peer: &Peer) -> Arc<Account> {
        let new = || (*peer, Arc::new(Account::new(self.options.rules.of(peer))));
        Arc::clone(&self.accounts.entry(peer.uid).or_insert_with(new).1)
    }

    fn name(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Gives a client its turn: sends what it has not taken, answers what was read, and reads once more.
    fn serve(&mut self, id: u64, flags: EventFlags) {
        if self.turn(id, flags) == Goes::Ends
            && let Some(connection) = self.connections.get(&id)
        {
            connection.client.end();
        }
    }

    fn turn(&mut self, id: u64, flags: EventFlags) -> Goes {
        let end = Instant::now() + TURN_MAX;
        if flags.contains(EventFlags::OUT) {
            let Some(connection) = self.connections.get_mut(&id) else { return Goes::Ends };
            if connection.send_rest(&self.events) == Goes::Ends {
                return Goes::Ends;
            }
        }
        if self.answer_all(id, end) == Goes::Ends {
            return Goes::Ends;
        }
        let Some(connection) = self.connections.get_mut(&id) else { return Goes::On };
        if !connection.unsent.is_empty() {
            // Who has closed both ways takes no answer any more.
            return if flags.contains(EventFlags::HUP) { Goes::Ends } else { Goes::On };
        }
        let Some(frames) = connection.frames.as_mut().filter(|_| !self.unfinished.contains(&id)) else {
            return Goes::On;
        };
        // Once: who sends without an end has the next turn when all others have had theirs.
        match frames.fill(&connection.socket) {
            Ok(true) => self.answer_all(id, end),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Goes::On,
            Ok(false) | Err(_) => Goes::Ends,
        }
    }

    /// Answers the messages that are there, as long as the client takes the answers and has its turn.
    fn answer_all(&mut self, id: u64, end: Instant) -> Goes {
        // Taken out, so that answering may change everything else.
        let Some(mut frames) = self.connections.get_mut(&id).and_then(|connection| connection.frames.take()) else {
            return Goes::On;
        };
        let mut goes = Goes::On;
        while goes == Goes::On && self.connections.get(&id).is_some_and(|connection| connection.unsent.is_empty()) {
            goes = match frames.next(|message| self.answer(id, message)) {
                Ok(Some(goes)) => goes,
                Ok(None) => break,
                Err(error) => {
                    self.send(id, &Answer::Error { kind: ErrorKind::Message, text: error.to_string() }, None);
                    Goes::Ends
                }
            };
            if Instant::now() >= end {
                self.unfinished.push(id);
                break;
            }
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.frames = Some(frames);
        }
        goes
    }

    fn answer(&mut self, id: u64, message: &[u8]) -> Goes {
        // What was put into force before the message was sent holds for it: a socket may be looked at before the bell.
        self.change();
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
            Ask::Clients => Answer::Text(json(&self.rows(id))),
            Ask::Metrics => {
                let of_all = if self.manages(id) {
                    self.mill.metrics().prometheus() + &of_service(&self.status())
                } else {
                    String::new()
                };
                Answer::Text(of_all + &prometheus(&self.rows(id)))
            }
            Ask::Keys => Answer::Text(self.key_rows(id)?),
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
        Answer::Welcome {
            version: VERSION,
            data_len_max,
            offers: self.shops.first().map_or_else(Vec::new, |shop| shop.offers().list()),
        }
    }

    /// What changes the service for everybody is for root and the service's own user.
    fn may_manage(&self, id: u64) -> Result<(), (ErrorKind, String)> {
        if self.manages(id) {
            return Ok(());
        }
        Err((ErrorKind::Refused, "only root and the service's own user may do that".to_owned()))
    }

    fn manages(&self, id: u64) -> bool {
        self.connections.get(&id).is_some_and(|connection| connection.client.peer.manages())
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
        connection.shop.add_bell(channel.bell(), channel_id).map_err(|error| fault(&error))?;
        let channel = Arc::new(ClientChannel { id: channel_id, channel, client: Arc::clone(&connection.client) });
        connection.channels.push(Arc::clone(&channel));
        connection.channel_bytes += data_len;
        connection.shop.desk.add(Arc::clone(&channel));
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
        let mill = &self.mill;
        let key = mill.keys().import(*material, KeyPolicy::default()).map_err(said)?;
        let key = Arc::new(TableKey::new(key, mill.clone()));
        if let Err(error) = prepare(mill, suite, key.id()) {
            drop(key);
            return Err(said(error));
        }
        let handle = connection.client.keys_mut().insert(key, suite);
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
            Some(vault) => vault.key(&self.mill, &client, name),
            None => Err((ErrorKind::Refused, "this service has no keystore".to_owned())),
        };
        let found = found.and_then(|key| prepare(&self.mill, suite, key.id()).map(|()| key).map_err(said));
        let detail = json!({ "name": name, "suite": suite.to_string() });
        self.note(id, if found.is_ok() { "key taken" } else { "key refused" }, &detail);
        Ok(client.keys_mut().insert(found?, suite))
    }

    /// Writes a client's control operation down.
    fn note(&mut self, id: u64, what: &str, detail: &Value) {
        if let Some(connection) = self.connections.get(&id) {
            let client = &connection.client;
            self.audit.write(id, (&client.peer, &client.process), what, detail);
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
            connection.shop.remove(channel.id, channel.channel.bell());
        }
        Goes::On
    }

    fn status(&self) -> Status<'static> {
        let figures = self.shops.iter().map(|shop| shop.desk.figures());
        let (channels, waiting) = figures.fold((0, 0), |all, own| (all.0 + own.0, all.1 + own.1));
        Status {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            uptime_s: self.begun.elapsed().as_secs(),
            workers: self.options.workers,
            pools: self.shops.len(),
            clients: self.connections.len(),
            channels,
            waiting,
            keys: self.mill.keys().len(),
            draining: self.draining.is_some(),
            audit_lost: self.audit.lost(),
            engines: self.mill.engines().iter().map(|engine| engine.info.name).collect(),
        }
    }

    /// The connections that a client may see: those of its own user, for root and the service's own user all.
    fn rows(&self, id: u64) -> Vec<ClientRow<'_>> {
        let Some(asks) = self.connections.get(&id).map(|connection| connection.client.peer) else { return Vec::new() };
        let seen = |connection: &&Connection| asks.may_see(&connection.client.peer);
        let mut rows: Vec<_> = self.connections.values().filter(seen).collect();
        rows.sort_by_key(|connection| connection.client.id);
        rows.into_iter().map(|connection| ClientRow::of(&connection.client, connection.channels.len())).collect()
    }

    /// The keys of the keystore that a client may use. None without a keystore.
    fn key_rows(&mut self, id: u64) -> Result<String, (ErrorKind, String)> {
        let Some(connection) = self.connections.get(&id) else {
            return Err((ErrorKind::Fault, "the connection has ended".to_owned()));
        };
        let rows = match &mut self.vault {
            Some(vault) => vault.rows(&self.mill, &connection.client)?,
            None => Vec::new(),
        };
        let text = json(&rows);
        // Cut short, it would be no JSON.
        if text.len() > TEXT_LEN_MAX {
            return Err((ErrorKind::Exhausted, format!("{} keys are more than a message holds", rows.len())));
        }
        Ok(text)
    }

    /// Sends an answer, with the descriptors of a channel. What the client does not take at once is sent when it does.
    fn send(&mut self, id: u64, answer: &Answer, channel: Option<Arc<ClientChannel>>) -> Goes {
        match self.connections.get_mut(&id) {
            Some(connection) => connection.send(&self.events, answer, channel),
            None => Goes::Ends,
        }
    }

    /// Lets go of clients that have ended, or that a worker has found to be none of ours.
    fn sweep(&mut self) {
        let gone: Vec<u64> =
            self.connections.iter().filter(|(_, connection)| connection.client.is_gone()).map(|(id, _)| *id).collect();
        if gone.is_empty() {
            return;
        }
        for id in gone {
            let Some(connection) = self.connections.remove(&id) else { continue };
            let _ = epoll::delete(&self.events, &connection.socket);
            for channel in &connection.channels {
                connection.shop.remove(channel.id, channel.channel.bell());
            }
            tracing::debug!(client = id, pid = connection.client.peer.pid, "gone");
        }
        // Who comes again owes what was owed.
        let Some(now_ns) = self.shops.first().map(|shop| shop.desk.now_ns(Instant::now())) else { return };
        self.accounts.retain(|_, (_, account)| Arc::strong_count(account) > 1 || !account.is_settled(now_ns));
    }
}

/// A descriptor that is good for nothing but to be closed.
fn spare() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}
