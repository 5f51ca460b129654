//! A program that uses a service: through the service's engine, or over channels of its own. It believes nothing that comes back late or
//! wrong.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use ciphermill_channel::{Answer, Ask, DATA_AT, KeyHandle, Outcome, Port, RECORD_LEN, Spin};
use ciphermill_contract::{
    Batch, Engine, EngineQueue, Error, KeyForm, KeyId, KeyMaterial, Op, PreparedKey, QueueHint, Suite,
};
use ciphermill_service_engine::{Link, Opening, ServiceEngine};
use zeroize::Zeroizing;

use super::DIRECTION;
use super::rungs::{CHANNELS, Rung, Way};
use super::service::Service;
use super::work::Work;
use super::written::{LINE, Written};
use crate::LabError;

/// How long a service may take for an answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// How long an answer is looked for before sleeping, where there is no engine to know better.
const LOOK: Duration = Duration::from_micros(500);

/// Bytes for operations and data of each channel.
pub(crate) const CHANNEL_LEN: usize = 4 << 20;

/// A program, and the service that it alone uses.
pub(crate) struct Client {
    suite: Suite,
    keys: Vec<Zeroizing<Vec<u8>>>,
    /// The service's engine, with the keys that it has handed over.
    queue: Box<dyn EngineQueue>,
    prepared: Vec<PreparedKey>,
    /// A connection besides, with its channels and its names of the keys.
    link: Link,
    ports: Vec<Port>,
    handles: Vec<KeyHandle>,
    spin: Spin,
    ops: Vec<Op>,
    arena: Vec<u8>,
    // Behind all that uses it.
    pub(crate) service: Service,
}

/// A request on its way.
struct Flight {
    window: Range<usize>,
    channel: usize,
    written: Written,
    number: u32,
    /// The key that was handed over for it.
    key: Option<KeyHandle>,
}

impl Client {
    /// Connects to a service and hands keys over.
    ///
    /// # Errors
    /// [`LabError::Service`], as for all that follow.
    pub(crate) fn new(mut service: Service, suite: Suite, keys: &[Zeroizing<Vec<u8>>]) -> Result<Client, LabError> {
        let socket = service.socket();
        let engine = ServiceEngine::open(&Opening::at(&socket)).map_err(|error| service.failed(error))?;
        let prepare = |key: &Zeroizing<Vec<u8>>| engine.prepare(&KeyMaterial::secret(key), suite);
        let prepared = keys.iter().map(prepare).collect::<Result<_, Error>>().map_err(|error| service.failed(error))?;
        let queue = engine.queue(QueueHint::default()).map_err(|error| service.failed(error))?;
        let (link, ..) = Link::connect(&socket).map_err(|error| service.failed(error))?;
        let ports = (0..CHANNELS).map(|_| link.open_port(CHANNEL_LEN).map(|(_, port)| port));
        let ports = ports.collect::<Result<_, _>>().map_err(|error| service.failed(error))?;
        let (handles, spin, ops, arena) = (Vec::new(), Spin::new(), Vec::new(), Vec::new());
        let keys = keys.to_vec();
        let mut client = Client { suite, keys, queue, prepared, link, ports, handles, spin, ops, arena, service };
        client.handles = (0..client.keys.len()).map(|key| client.hand_over(key)).collect::<Result<_, _>>()?;
        Ok(client)
    }

    fn hand_over(&mut self, key: usize) -> Result<KeyHandle, LabError> {
        let (suite, form) = (self.suite, KeyForm::Secret);
        match self.link.ask(&Ask::Import { suite, form, bytes: &self.keys[key] }) {
            Ok(Answer::Key(handle)) => Ok(handle),
            Ok(_) => Err(self.service.failed("a key was not answered with its handle")),
            Err(error) => Err(self.service.failed(error)),
        }
    }

    /// Sends windows up a rung, each a batch, and waits for their outputs. With `verify`, all of them are compared with the reference's.
    ///
    /// # Errors
    /// [`LabError::Service`]: a service that ended, an operation that failed, a wrong output.
    pub(crate) fn climb(
        &mut self,
        rung: &Rung,
        work: &Work,
        windows: &[Range<usize>],
        verify: bool,
    ) -> Result<(), LabError> {
        match rung.way {
            Way::Ops(together) => windows.iter().try_for_each(|window| {
                let slot_len = (RECORD_LEN + work.len_max()).next_multiple_of(LINE);
                let places = |turn: usize| (0, DATA_AT + turn % together * slot_len);
                self.fly(rung, work, window.clone().map(|op| op..op + 1), (together, places), verify)
            }),
            Way::Queue => windows.iter().try_for_each(|window| self.run(rung, work, window, verify)),
            Way::Channels => {
                let places = |turn: usize| (turn % CHANNELS, DATA_AT);
                self.fly(rung, work, windows.iter().cloned(), (CHANNELS, places), verify)
            }
        }
    }

    /// Runs a batch by the queue.
    fn run(&mut self, rung: &Rung, work: &Work, window: &Range<usize>, verify: bool) -> Result<(), LabError> {
        let (ops, data) = work.batch(rung, window);
        self.ops.clear();
        self.ops.extend(ops);
        self.arena.clear();
        data.iter().for_each(|data| self.arena.extend_from_slice(data));
        let keys: Vec<_> = self.ops.iter().map(|op| self.prepared.get(op.key.slot as usize)).collect();
        let mut checked = Batch::new(self.suite, DIRECTION, &mut self.ops, &mut self.arena).check();
        let keyed = checked.as_mut().map_err(|error| error.clone()).and_then(|checked| checked.attach_keys(&keys));
        match keyed {
            Ok(mut keyed) => self.queue.run(&mut keyed),
            Err(error) => return Err(LabError::Service(format!("rung {}: {error}", rung.id))),
        }
        if let Some(index) = self.ops.iter().position(|op| !op.status.is_done()) {
            let status = self.ops[index].status;
            return Err(self.service.failed(format_args!("rung {}, operation {index} of a batch: {status}", rung.id)));
        }
        work.check(rung, window, &mut self.arena, verify)
    }

    /// Sends requests over channels, some at a time: so many, each at the place that is told.
    fn fly(
        &mut self,
        rung: &Rung,
        work: &Work,
        requests: impl Iterator<Item = Range<usize>>,
        (together, place): (usize, impl Fn(usize) -> (usize, usize)),
        verify: bool,
    ) -> Result<(), LabError> {
        let mut flights = VecDeque::with_capacity(together);
        for (turn, window) in requests.enumerate() {
            if let Some(first) = flights.pop_front_if(|_| turn >= together) {
                self.land(rung, work, first, verify)?;
            }
            flights.push_back(self.send(rung, work, window, place(turn))?);
        }
        flights.into_iter().try_for_each(|flight| self.land(rung, work, flight, verify))
    }

    /// Writes a request into a channel and says that it is there.
    fn send(
        &mut self,
        rung: &Rung,
        work: &Work,
        window: Range<usize>,
        (channel, at): (usize, usize),
    ) -> Result<Flight, LabError> {
        let key = if rung.hands_keys_over { Some(self.hand_over(work.ops[window.start].key)?) } else { None };
        let (ops, data) = work.batch(rung, &window);
        self.ops.clear();
        self.ops.extend(ops.map(|op| {
            let KeyHandle { slot, generation } = key.unwrap_or(self.handles[op.key.slot as usize]);
            Op { key: KeyId { slot, generation }, ..op }
        }));
        let port = &mut self.ports[channel];
        let written = Written::put(port.memory(), at, self.suite, &self.ops, data);
        match written.and_then(|written| Some((port.submit(written.request)?, written))) {
            Some((number, written)) => Ok(Flight { window, channel, written, number, key }),
            None => Err(LabError::Service(format!("rung {}: a request does not fit into its channel", rung.id))),
        }
    }

    /// Waits for a request, and takes what came of it.
    fn land(&mut self, rung: &Rung, work: &Work, flight: Flight, verify: bool) -> Result<(), LabError> {
        let Client { ports, spin, service, .. } = self;
        let port = &ports[flight.channel];
        let mut since = None;
        let goes_on = || service.ended().is_none() && since.get_or_insert_with(Instant::now).elapsed() < DEADLINE;
        match port.wait(flight.number, (spin, LOOK), goes_on) {
            Ok(Outcome::Ran) => {}
            Ok(outcome) => return Err(service.failed(format_args!("rung {}: a request ended as {outcome:?}", rung.id))),
            Err(_) => return Err(service.failed("no answer")),
        }
        if let Err(said) = flight.written.take(port.memory(), &mut self.arena) {
            return Err(service.failed(format_args!("rung {}: {said}", rung.id)));
        }
        if let Some(key) = flight.key {
            self.link.forget(key);
        }
        work.check(rung, &flight.window, &mut self.arena, verify)
    }

    /// Operations that each engine of the service has done.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub(crate) fn done_by_engine(&mut self) -> Result<Vec<(String, f64)>, LabError> {
        match self.link.ask(&Ask::Metrics) {
            Ok(Answer::Text(text)) => Ok(text.lines().filter_map(done_of).collect()),
            Ok(_) => Err(self.service.failed("metrics are a text")),
            Err(error) => Err(self.service.failed(error)),
        }
    }
}

/// The engine of a line that counts operations that were done, and their number.
fn done_of(line: &str) -> Option<(String, f64)> {
    let (engine, rest) = line.strip_prefix("ciphermill_operations_total{engine=\"")?.split_once('"')?;
    let (_, count) = rest.split_once("outcome=\"done\"} ")?;
    Some((engine.to_owned(), count.parse().ok().filter(|count| *count > 0.0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read_from_metrics() {
        let of = |outcome: &str, count: u32| {
            format!(
                "ciphermill_operations_total{{engine=\"lanes\",suite=\"des-cbc\",direction=\"decrypt\",outcome=\"{outcome}\"}} {count}"
            )
        };
        assert_eq!(done_of(&of("done", 12)), Some(("lanes".to_owned(), 12.0)));
        let others = [of("done", 0), of("refused", 3), "# TYPE ciphermill_operations_total counter".to_owned()];
        assert!(others.iter().all(|line| done_of(line).is_none()));
    }
}
