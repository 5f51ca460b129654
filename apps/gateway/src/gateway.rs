//! The whole: two lines, their workers, and the file that is in force.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ciphermill::Mill;
use ciphermill_contract::Direction;
use ciphermill_esp::{Burst, Counters, Event, Tunnels};
use ciphermill_packets::filter::Filter;
use ciphermill_packets::{Received, Sent};
use ciphermill_xfrm::{Limits, Server};

use crate::configuration::{Configuration, Ike};
use crate::ike::Keys;
use crate::line::{Line, lock};
use crate::ports::{self, Hold, Opened};
use crate::setup::{InForce, SetupError};

/// How often the main thread looks at events, times and signals.
const TICK: Duration = Duration::from_millis(50);

/// Bytes that a packet of a burst takes on average, with room for headers.
const PACKET_ROOM: usize = 2048;

/// Events that wait for the IKE daemon at most; it asks ten times a second.
const HEARD_MAX: usize = 4096;

/// Why a gateway does not start, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// An interface, a device or a file.
    #[error(transparent)]
    Port(#[from] io::Error),
    /// What the file says.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

/// What a gateway has counted.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Packets that left.
    pub sent: Counters,
    /// Packets that came.
    pub received: Counters,
    /// At the inside: what came from there, and what was sent there.
    pub inside: (Received, Sent),
    /// The same at the outside.
    pub outside: (Received, Sent),
    /// Associations out and in.
    pub associations: (usize, usize),
}

/// A gateway with its interfaces open and its associations made; nothing runs yet.
pub struct Gateway {
    mill: Mill,
    tunnels: Arc<Mutex<Tunnels>>,
    lines: [Arc<Line>; 2],
    workers: usize,
    burst: usize,
    pad_to: u16,
    allows_static: bool,
    ike: Option<Ike>,
    in_force: Mutex<InForce>,
    epoch: Instant,
    /// Dropped last of all, so that the kernel takes over again when nothing is worked on any more.
    _holds: Vec<Hold>,
}

impl Gateway {
    /// Opens what a file names.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub fn open(mill: &Mill, configuration: &Configuration, allows_static: bool) -> Result<Gateway, GatewayError> {
        // Many tunnels have one address, and few addresses can be spared.
        let spared: BTreeSet<_> = configuration
            .own_addresses
            .iter()
            .copied()
            .chain(configuration.tunnel.iter().map(|tunnel| tunnel.local))
            .chain(configuration.ike.iter().flat_map(|ike| ike.addresses.iter().copied()))
            .collect();
        let spared: Vec<_> = spared.into_iter().collect();
        let port = configuration.udp_ports.first().copied();
        let filter = port.map_or(Filter::Esp, Filter::EspOrUdp);
        let inside = ports::open(&configuration.inside, Filter::Ip, &spared)?;
        // ESP is for us, wherever it is sent.
        let outside = ports::open(&configuration.outside, filter, &[])?;
        Gateway::with(mill, configuration, allows_static, inside, outside)
    }

    /// The same with sides that the caller has opened.
    ///
    /// # Errors
    /// `Setup`.
    pub fn with(
        mill: &Mill,
        configuration: &Configuration,
        allows_static: bool,
        inside: Opened,
        outside: Opened,
    ) -> Result<Gateway, GatewayError> {
        let mut tunnels = Tunnels::new(mill);
        tunnels.set_own_addresses(configuration.own_addresses.clone());
        tunnels.set_udp_ports(configuration.udp_ports.clone());
        let (from_inside, inside_sink, inside_hold) = inside.into_parts();
        let (from_outside, outside_sink, outside_hold) = outside.into_parts();
        let out = Line::new(Direction::Encrypt, from_inside, Arc::clone(&outside_sink), Arc::clone(&inside_sink));
        let into = Line::new(Direction::Decrypt, from_outside, inside_sink, outside_sink);
        let gateway = Gateway {
            mill: mill.clone(),
            tunnels: Arc::new(Mutex::new(tunnels)),
            lines: [Arc::new(out), Arc::new(into)],
            workers: configuration.workers,
            burst: configuration.burst,
            pad_to: pad_to(configuration),
            allows_static,
            ike: configuration.ike.clone(),
            in_force: Mutex::new(InForce::default()),
            epoch: Instant::now(),
            _holds: inside_hold.into_iter().chain(outside_hold).collect(),
        };
        gateway.reload(configuration)?;
        Ok(gateway)
    }

    /// Puts the tunnels and policies of a file into force; its interfaces and numbers of threads stay as they were at the start.
    ///
    /// # Errors
    /// `Setup`; what was in force stays then, except for a tunnel whose keys the mill does not take.
    pub fn reload(&self, configuration: &Configuration) -> Result<(), GatewayError> {
        if self.ike.is_some() {
            // The daemon has all of it.
            return Ok(());
        }
        let pad_to = pad_to(configuration);
        if pad_to > self.pad_to {
            return Err(SetupError::Padding(self.pad_to, pad_to).into());
        }
        let mut in_force = lock(&self.in_force);
        let mut wanted = in_force.prepare(configuration, self.allows_static)?;
        let waiting = core::mem::take(&mut wanted.waiting);
        in_force.apply(wanted, &mut lock(&self.tunnels), self.epoch.elapsed())?;
        for name in waiting {
            tracing::warn!(
                tunnel = name,
                "no keys yet: the other end has not written its start value; SIGHUP looks again"
            );
        }
        Ok(())
    }

    /// The associations and policies, for whoever manages keys besides the file.
    pub fn tunnels(&self) -> Arc<Mutex<Tunnels>> {
        Arc::clone(&self.tunnels)
    }

    /// The moment that the clock of bursts counts from.
    pub fn epoch(&self) -> Instant {
        self.epoch
    }

    /// What was counted until now.
    pub fn status(&self) -> Status {
        let (from_inside, to_outside) = self.lines[0].counters();
        let (from_outside, to_inside) = self.lines[1].counters();
        let tunnels = lock(&self.tunnels);
        let (sent, received) = tunnels.counters();
        Status {
            sent: sent.clone(),
            received: received.clone(),
            inside: (from_inside, to_inside),
            outside: (from_outside, to_outside),
            associations: (tunnels.outbound_all().count(), tunnels.inbound_all().count()),
        }
    }

    /// Runs until `stop` is set, or until both sides' sources have ended. `tick` is called some times a second, and hears the events.
    ///
    /// # Errors
    /// An interface that is gone, a full disk, no thread.
    pub fn run(&self, stop: &AtomicBool, mut tick: impl FnMut(&Gateway, Vec<Event>)) -> Result<(), GatewayError> {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let is_over = AtomicBool::new(false);
        let daemons = self.daemons(&heard)?;
        thread::scope(|scope| {
            let mut workers = Vec::new();
            if let Some((mut server, mut keys)) = daemons {
                let is_over = &is_over;
                let serve = move || {
                    if let Err(error) = server.run(&mut keys, is_over) {
                        tracing::error!(%error, "IKE daemons are not served any more");
                    }
                };
                thread::Builder::new().name("ike".to_owned()).spawn_scoped(scope, serve)?;
            }
            for (at, line) in self.lines.iter().enumerate() {
                for number in 0..self.workers {
                    let other = &self.lines[1 - at];
                    let name = format!("{}-{number}", if at == 0 { "out" } else { "in" });
                    let work = move || {
                        let mut session = self.mill.session();
                        let mut burst = Burst::new(self.burst, self.burst * PACKET_ROOM, self.pad_to);
                        line.work(&self.tunnels, &mut session, &mut burst, self.epoch, other)
                    };
                    match thread::Builder::new().name(name).spawn_scoped(scope, work) {
                        Ok(worker) => workers.push(worker),
                        Err(error) => {
                            is_over.store(true, Ordering::Release);
                            self.lines.iter().for_each(|line| line.stop());
                            return Err(error.into());
                        }
                    }
                }
            }
            while !stop.load(Ordering::Relaxed) && workers.iter().any(|worker| !worker.is_finished()) {
                thread::sleep(TICK);
                let events = {
                    let mut tunnels = lock(&self.tunnels);
                    tunnels.tick(self.epoch.elapsed());
                    tunnels.take_events()
                };
                if self.ike.is_some() {
                    let mut heard = lock(&heard);
                    heard.extend(events.iter().cloned());
                    heard.truncate(HEARD_MAX);
                }
                tick(self, events);
                if workers.iter().any(|worker| worker.is_finished()) && self.lines.iter().any(|line| line.has_failed())
                {
                    break;
                }
            }
            is_over.store(true, Ordering::Release);
            self.lines.iter().for_each(|line| line.stop());
            let mut all = Ok(());
            for worker in workers {
                let ended = worker.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked")));
                all = all.and(ended.map_err(GatewayError::from));
            }
            all
        })
    }

    /// The server for IKE daemons, listening, if the file asks for one.
    fn daemons(&self, heard: &Arc<Mutex<Vec<Event>>>) -> Result<Option<(Server, Keys)>, GatewayError> {
        let Some(ike) = &self.ike else { return Ok(None) };
        let server = Server::bind(&ike.socket, Limits::default())
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", ike.socket.display())))?;
        let (tunnels, heard) = (Arc::clone(&self.tunnels), Arc::clone(heard));
        Ok(Some((server, Keys::new(tunnels, self.epoch, ike.addresses.clone(), ike.path_mtu, heard))))
    }
}

/// To how many bytes inner packets are padded at most; a daemon may ask for all that its paths carry.
fn pad_to(configuration: &Configuration) -> u16 {
    let tunnels = configuration.tunnel.iter().map(|tunnel| tunnel.pad_to);
    tunnels.chain(configuration.ike.iter().map(|ike| ike.path_mtu)).max().unwrap_or(0)
}
