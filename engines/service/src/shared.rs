//! What an engine and its queues share: the connection, and what was offered over it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ciphermill_channel::{Offer, REQUEST_NS_MAX};
use ciphermill_contract::limits::SUITE_ORDINALS_MAX;
use ciphermill_contract::{Cost, Result, Suite};

use crate::link::{Link, fault};

/// Bytes for operations and data of a queue's channel.
const CHANNEL_LEN: usize = 4 << 20;

/// As long as waking a core takes.
const SPIN: Duration = Duration::from_micros(60);

/// What an engine is opened with.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The service's socket.
    pub socket: PathBuf,
    /// Bytes for operations and data of each queue; the service may allow less.
    pub channel_len: usize,
    /// How long a client looks for an answer beyond half as much again as it should take, before it sleeps; with zero it sleeps at once.
    pub spin: Duration,
}

/// What operations of a suite take inside a service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    many: Cost,
    alone: Cost,
    /// Operations that are paid for together.
    pub(crate) step: u16,
}

impl Pace {
    /// Nanoseconds that so many operations over so many bytes should take.
    pub(crate) fn ns(&self, ops: usize, bytes: usize) -> f64 {
        let (ops, bytes) = (ops as u64, bytes as u64);
        self.many.in_steps(ops, self.step).predict_ns(ops, bytes).min(self.alone.predict_ns(ops, bytes))
    }

    /// Whether a service takes so many in one request.
    pub(crate) fn is_short(&self, ops: usize, bytes: usize) -> bool {
        self.ns(ops, bytes) <= REQUEST_NS_MAX
    }
}

impl Opening {
    /// With the socket alone.
    pub fn at(socket: &Path) -> Opening {
        Opening { socket: socket.to_owned(), channel_len: CHANNEL_LEN, spin: SPIN }
    }
}

/// What an engine and its queues share.
pub(crate) struct Shared {
    opening: Opening,
    link: Mutex<Arc<Link>>,
    /// Costs inside the service by suite, to know how long to look for an answer before sleeping.
    offers: Vec<Option<Offer>>,
}

impl Shared {
    pub(crate) fn new(opening: &Opening, link: Link, offers: Vec<Offer>) -> Shared {
        let mut by_suite = vec![None; SUITE_ORDINALS_MAX];
        offers.into_iter().for_each(|offer| by_suite[offer.suite.ordinal()] = Some(offer));
        Shared { opening: opening.clone(), link: Mutex::new(Arc::new(link)), offers: by_suite }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.opening.socket
    }

    /// The connection, made again if it was lost.
    pub(crate) fn link(&self) -> Result<Arc<Link>> {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if link.is_lost() {
            let made = Link::connect_as(&self.opening.socket, link.number() + 1).map_err(|error| fault(&error))?;
            *link = Arc::new(made.0);
        }
        Ok(Arc::clone(&link))
    }

    pub(crate) fn channel_len(&self) -> usize {
        self.opening.channel_len
    }

    pub(crate) fn spin(&self) -> Duration {
        self.opening.spin
    }

    /// What operations of a suite take there; `None` where nothing was offered.
    pub(crate) fn pace(&self, suite: Suite) -> Option<Pace> {
        let Offer { many, alone, step, .. } = *self.offers[suite.ordinal()].as_ref()?;
        Some(Pace { many, alone, step })
    }
}
