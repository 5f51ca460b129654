//! The engine: what it claims, and its connection.

use core::fmt;
use std::sync::{Arc, OnceLock};

use ciphermill_channel::Offer;
use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{
    Capability, Cost, Engine, EngineInfo, EngineKind, EngineQueue, Error, KeyForm, KeyMaterial, PreparedKey, QueueHint,
    Result, Suite,
};

use crate::key::RemoteKey;
use crate::link::{Link, LinkError, NAME};
use crate::queue::ServiceQueue;
use crate::shared::{Opening, Shared};

/// Bytes of input that a batch may have in an operation. With additional data, a tag, and an output that is as long and a block, it fits
/// into a channel of 4 MiB.
const INPUT_MAX: usize = 1 << 20;

/// What crossing to another process costs, both ways and while it is awake: for a batch, and for the copies of an operation and of a
/// byte, in nanoseconds. Measured figures take their place (`ciphermill tune`).
const CROSSING: Cost = Cost::new(2_000.0, 20.0, 0.1);

/// A service of this machine. It can fail: a mill runs it by threads of their own.
pub struct ServiceEngine {
    shared: Arc<Shared>,
    info: EngineInfo,
    capabilities: Vec<Capability>,
}

impl ServiceEngine {
    /// Connects to a service.
    ///
    /// # Errors
    /// [`LinkError`] when there is none, or when it says no.
    pub fn open(opening: &Opening) -> core::result::Result<ServiceEngine, LinkError> {
        // Numbers of connections begin with one: zero is no connection.
        let (link, offers, channel_len_max) = Link::connect_as(&opening.socket, 1)?;
        let info = EngineInfo {
            name: NAME,
            kind: EngineKind::Service,
            version: format!("protocol {}", ciphermill_channel::VERSION),
            parallelism: std::thread::available_parallelism().map_or(1, usize::from),
            kernels: Vec::new(),
        };
        let capabilities = offers.iter().filter_map(capability).collect();
        let channel_len = opening.channel_len.min(channel_len_max);
        let shared = Shared::new(&Opening { channel_len, ..opening.clone() }, link, offers);
        Ok(ServiceEngine { shared: Arc::new(shared), info, capabilities })
    }
}

/// What a service offers as a capability, with the way to it added to its costs.
fn capability(offer: &Offer) -> Option<Capability> {
    // Capabilities name suites that live as long as the program.
    static SUITES: OnceLock<Vec<Suite>> = OnceLock::new();
    let suites = SUITES.get_or_init(|| Suite::all().collect());
    let place = suites.iter().position(|suite| *suite == offer.suite)?;
    let with_crossing = |cost: Cost| Cost {
        batch_ns: cost.batch_ns + CROSSING.batch_ns,
        op_ns: cost.op_ns + CROSSING.op_ns,
        byte_ns: cost.byte_ns + CROSSING.byte_ns,
    };
    let mut capability = Capability::new(&suites[place..=place], with_crossing(offer.many))
        .directions(offer.directions)
        .input_len_max(INPUT_MAX)
        .lanes(offer.step)
        .few(with_crossing(offer.alone));
    capability.step = offer.step;
    // What the service runs it on may change: what some engine does in variable time is said to be so.
    Some(if offer.suite.is_legacy() { capability.variable_time() } else { capability })
}

impl Engine for ServiceEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        if key.form != KeyForm::Reference {
            suite.check_key(key)?;
        }
        let key = match RemoteKey::new(key, suite, &self.shared.link()?) {
            // A connection that was lost is found out by being used: once more over a new one.
            Err(Error::EngineFault(_)) => RemoteKey::new(key, suite, &self.shared.link()?)?,
            other => other?,
        };
        Ok(PreparedKey::for_suite(suite, key))
    }

    /// A queue waits no longer than for a service that is dead or late by a thousand times.
    fn comes_back(&self) -> bool {
        true
    }

    fn queue(&self, _hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        if self.shared.channel_len() < ciphermill_channel::DATA_LEN_MIN {
            return Err(Error::fault(NAME, FaultKind::Unavailable));
        }
        Ok(Box::new(ServiceQueue::new(Arc::clone(&self.shared))))
    }
}

impl fmt::Debug for ServiceEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceEngine").field("socket", &self.shared.socket()).finish_non_exhaustive()
    }
}
