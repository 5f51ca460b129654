//! What an engine and its queues share: the connection, and what was offered over it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ciphermill_channel::Offer;
use ciphermill_contract::limits::SUITE_ORDINALS_MAX;
use ciphermill_contract::{Result, Suite};

use crate::link::{Link, fault};

/// What an engine and its queues share.
pub(crate) struct Shared {
    socket: PathBuf,
    channel_len: usize,
    link: Mutex<Arc<Link>>,
    /// Costs inside the service by suite, to know how long to look for an answer before sleeping.
    offers: Vec<Option<Offer>>,
}

impl Shared {
    pub(crate) fn new(socket: &Path, channel_len: usize, link: Link, offers: Vec<Offer>) -> Shared {
        let mut by_suite = vec![None; SUITE_ORDINALS_MAX];
        offers.into_iter().for_each(|offer| by_suite[offer.suite.ordinal()] = Some(offer));
        Shared { socket: socket.to_owned(), channel_len, link: Mutex::new(Arc::new(link)), offers: by_suite }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The connection, made again if it was lost.
    pub(crate) fn link(&self) -> Result<Arc<Link>> {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if link.is_lost() {
            let made = Link::connect_as(&self.socket, link.number() + 1).map_err(|error| fault(&error))?;
            *link = Arc::new(made.0);
        }
        Ok(Arc::clone(&link))
    }

    pub(crate) fn channel_len(&self) -> usize {
        self.channel_len
    }

    pub(crate) fn offer(&self, suite: Suite) -> Option<&Offer> {
        self.offers[suite.ordinal()].as_ref()
    }
}
