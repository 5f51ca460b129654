//! Who is connected, and what they hold.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use ciphermill_channel::{Channel, DATA_AT};
use ciphermill_router::Turn;
use rustix::fd::OwnedFd;

use crate::account::{Account, Rules};
use crate::keys::Keys;
use crate::peer::Peer;
use crate::process::Process;

/// A connection, as long as anything works for it.
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) peer: Peer,
    /// What its process was when it connected.
    pub(crate) process: Process,
    pub(crate) since: Instant,
    /// What it has together with its user's other connections.
    pub(crate) account: Arc<Account>,
    keys: RwLock<Keys>,
    gone: AtomicBool,
    /// Where it stands in line, as the bits of [`ciphermill_router::Turn`]'s number: read and written under the desk's lock alone.
    turn: AtomicU64,
    /// Rung when the connection is to be ended, so that its sockets' thread hears of it.
    ended: Arc<OwnedFd>,
    pub(crate) counts: Counts,
}

/// What was done for a client.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) requests: AtomicU64,
    pub(crate) ops: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Requests that were held back by a limit of the user's.
    pub(crate) held: AtomicU64,
    /// Requests that were answered in a batch with those of other clients.
    pub(crate) shared: AtomicU64,
    /// Nanoseconds of workers, by what each request had of its batch.
    pub(crate) busy_ns: AtomicU64,
}

/// One of a client's channels.
pub(crate) struct ClientChannel {
    /// Its number, which no other channel ever has.
    pub(crate) id: u64,
    pub(crate) channel: Channel,
    pub(crate) client: Arc<Client>,
}

impl Client {
    pub(crate) fn new(id: u64, peer: Peer, keys: Keys, ended: Arc<OwnedFd>) -> Client {
        let (gone, counts) = (AtomicBool::new(false), Counts::default());
        Client {
            id,
            peer,
            process: Process::default(),
            since: Instant::now(),
            account: Arc::new(Account::new(Rules::default())),
            keys: RwLock::new(keys),
            gone,
            turn: AtomicU64::new(0),
            ended,
            counts,
        }
    }

    /// The same, with what is known of its process.
    pub(crate) fn in_process(self, process: Process) -> Client {
        Client { process, ..self }
    }

    /// The same, on an account that other connections have, too.
    pub(crate) fn on_account(self, account: Arc<Account>) -> Client {
        Client { account, ..self }
    }

    /// The client's keys, to be looked up.
    pub(crate) fn keys(&self) -> RwLockReadGuard<'_, Keys> {
        // A table that a panic has left is whole: each change is one assignment.
        self.keys.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The client's keys, to be changed.
    pub(crate) fn keys_mut(&self) -> RwLockWriteGuard<'_, Keys> {
        self.keys.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Where the client stands in line; the desk's alone.
    #[inline]
    pub(crate) fn turn(&self) -> Turn {
        Turn::from_bits(self.turn.load(Ordering::Relaxed))
    }

    /// Puts the client there.
    #[inline]
    pub(crate) fn set_turn(&self, turn: Turn) {
        self.turn.store(turn.to_bits(), Ordering::Relaxed);
    }

    /// Says that the connection has ended, or is to be ended.
    pub(crate) fn end(&self) {
        self.gone.store(true, Ordering::Release);
        // Fails only when the counter is full, which means that it was rung.
        let _ = rustix::io::write(&self.ended, &1u64.to_ne_bytes());
    }

    /// Whether it has.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
}

impl ClientChannel {
    /// Bytes for operations and data.
    pub(crate) fn data_len(&self) -> usize {
        self.channel.memory().len() - DATA_AT
    }
}
