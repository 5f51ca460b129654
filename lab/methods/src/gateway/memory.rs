//! ESP in memory: packets from a template into a burst, through the mill, and counted where they would leave. What a gateway costs without
//! its network interfaces.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ciphermill::{Mill, Session};
use ciphermill_contract::Direction;
use ciphermill_esp::{
    Action, Burst, Keys, Parameters, Policy, Prefix, SaId, Selector, Transform, Tunnels, Turns, lock_soon,
};

use crate::LabError;
use crate::timing::Contestant;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The algorithms.
    pub transform: Transform,
    /// Out: packets are protected; in: they are opened.
    pub direction: Direction,
    /// Bytes of an inner packet, with its IP header.
    pub len: usize,
    /// Security associations, of which each packet has the next one.
    pub associations: usize,
    /// Packets of a burst.
    pub burst: usize,
    /// Packets that the replay window of what comes looks back; without one, the same packets come again and again.
    pub replay_window: u32,
}

/// Packets that are prepared, of which each burst takes the next ones: as many as ipsec-secgw is given, so that they lie as near.
const PACKETS: usize = 256;

/// As many where a replay window takes each once: then the associations are made anew.
const PACKETS_ONCE: usize = 8192;

impl Load {
    fn packets(&self) -> usize {
        let is_once = self.direction == Direction::Decrypt && self.replay_window > 0;
        let least = if is_once { PACKETS_ONCE } else { PACKETS };
        least.next_multiple_of(self.associations.max(1)).next_multiple_of(self.burst)
    }
}

/// A gateway without interfaces.
pub struct Memory {
    pub(super) load: Load,
    tunnels: Tunnels,
    session: Session,
    burst: Burst,
    packets: Vec<u8>,
    stride: usize,
    lens: Vec<usize>,
    next: usize,
    inbound: Vec<SaId>,
    epoch: Instant,
    /// Packets of a run.
    pub per_run: usize,
    /// Packets that have left.
    pub left: u64,
    /// Time that was taken by receiving, headers and numbers, cryptography, and committing.
    pub steps: [Duration; 4],
}

impl Memory {
    /// Makes associations, policies and packets.
    ///
    /// # Errors
    /// [`LabError::Parameters`]: what the load asks for cannot be.
    pub fn new(mill: &Mill, load: Load) -> Result<Memory, LabError> {
        let wrong = |why: String| LabError::Parameters(why);
        let mut tunnels = Tunnels::new(mill);
        for number in 0..load.associations as u32 {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                tunnels.add_policy(direction, policy(number)).map_err(|error| wrong(error.to_string()))?;
            }
            let keys = keys(load.transform, number);
            tunnels
                .add_outbound(parameters(&load, number), &keys, Duration::ZERO)
                .map_err(|error| wrong(error.to_string()))?;
        }
        let burst = Burst::new(load.burst, load.burst * (load.len + 320), 0);
        let mut memory = Memory {
            load,
            tunnels,
            session: mill.session(),
            burst,
            packets: Vec::new(),
            stride: 0,
            lens: Vec::new(),
            next: 0,
            inbound: Vec::new(),
            epoch: Instant::now(),
            // Some bursts, so that a slow engine has rounds too.
            per_run: 4 * load.burst,
            left: 0,
            steps: [Duration::ZERO; 4],
        };
        let inner: Vec<Vec<u8>> =
            (0..load.packets()).map(|at| packet(load.len, (at % load.associations) as u32)).collect();
        memory.keep(&inner);
        if load.direction == Direction::Decrypt {
            let mut sealed = Vec::new();
            while sealed.len() < load.packets() {
                memory.step(Direction::Encrypt);
                let (data, spans) = memory.burst.leaving();
                sealed.extend(spans.iter().map(|[start, end]| data[*start as usize..*end as usize].to_vec()));
                if spans.is_empty() {
                    return Err(wrong(format!("{} sealed nothing", load.transform)));
                }
            }
            sealed.truncate(load.packets());
            memory.keep(&sealed);
            memory.fresh_inbound()?;
        }
        Ok(memory)
    }

    fn keep(&mut self, packets: &[Vec<u8>]) {
        self.stride = packets.iter().map(Vec::len).max().unwrap_or(1).next_multiple_of(64);
        self.packets = vec![0; self.stride * packets.len()];
        self.lens = packets.iter().map(Vec::len).collect();
        for (to, packet) in self.packets.chunks_mut(self.stride).zip(packets) {
            to[..packet.len()].copy_from_slice(packet);
        }
        self.next = 0;
    }

    /// New associations for what comes, so that no number has been there.
    fn fresh_inbound(&mut self) -> Result<(), LabError> {
        for id in self.inbound.drain(..) {
            self.tunnels.remove_inbound(id);
        }
        for number in 0..self.load.associations as u32 {
            let keys = keys(self.load.transform, number);
            let added = self.tunnels.add_inbound(parameters(&self.load, number), &keys, Duration::ZERO);
            self.inbound.push(added.map_err(|error| LabError::Parameters(error.to_string()))?);
        }
        Ok(())
    }

    fn fill(&mut self) {
        self.burst.clear();
        let (stride, packets) = (self.stride, self.lens.len());
        while self.burst.len() < self.load.burst && self.next < packets {
            let from = self.next * stride;
            if !self.burst.push(&self.packets[from..from + self.lens[self.next]]) {
                break;
            }
            self.next += 1;
        }
        if self.next == packets {
            self.next = 0;
        }
    }

    /// One burst, and what each of its steps has taken.
    fn step(&mut self, direction: Direction) {
        let start = Instant::now();
        self.fill();
        let filled = Instant::now();
        let now = filled - self.epoch;
        match direction {
            Direction::Encrypt => self.tunnels.begin_outbound(&mut self.burst, now),
            Direction::Decrypt => self.tunnels.begin_inbound(&mut self.burst, now),
        }
        let begun = Instant::now();
        // What was not run is not counted.
        let _ = self.burst.crypt(&mut self.session);
        let run = Instant::now();
        match direction {
            Direction::Encrypt => self.tunnels.commit_outbound(&mut self.burst),
            Direction::Decrypt => self.tunnels.commit_inbound(&mut self.burst),
        }
        let steps = [filled - start, begun - filled, run - begun, run.elapsed()];
        self.steps.iter_mut().zip(steps).for_each(|(sum, step)| *sum += step);
    }

    /// Counters of both directions, in words, for what did not leave.
    pub fn lost(&self) -> u64 {
        let (sent, received) = self.tunnels.counters();
        sent.dropped_all() + received.dropped_all()
    }
}

/// A thread of several that share the tunnels of a [`Memory`].
pub(super) struct Worker {
    session: Session,
    burst: Burst,
}

impl Memory {
    pub(super) fn worker(&self, mill: &Mill) -> Worker {
        let burst = Burst::new(self.load.burst, self.load.burst * (self.load.len + 320), 0);
        Worker { session: mill.session(), burst }
    }
}

impl Worker {
    /// Protects the next burst in its turn; says how many packets have left.
    pub(super) fn turn(&mut self, turns: &Turns<usize>, shared: &Mutex<Memory>) -> u64 {
        let lock = || lock_soon(shared);
        let burst = &mut self.burst;
        burst.clear();
        let begun = turns.begin(|next| {
            let mut memory = lock();
            let (stride, count) = (memory.stride, memory.lens.len());
            while burst.len() < memory.load.burst {
                let from = *next * stride;
                burst.push(&memory.packets[from..from + memory.lens[*next]]);
                *next = (*next + 1) % count;
            }
            let now = memory.epoch.elapsed();
            memory.tunnels.begin_outbound(burst, now);
            Ok::<_, Infallible>(true)
        });
        let Ok(Some(ticket)) = begun else { return 0 };
        let _ = burst.crypt(&mut self.session);
        turns.commit(ticket, || lock().tunnels.commit_outbound(burst));
        burst.leaving().1.len() as u64
    }
}

impl Contestant for Memory {
    fn reset(&mut self) {}

    fn run(&mut self) {
        let mut done = 0;
        while done < self.per_run {
            let is_used_up = self.load.direction == Direction::Decrypt && self.load.replay_window > 0 && self.next == 0;
            if is_used_up && self.fresh_inbound().is_err() {
                return;
            }
            self.step(self.load.direction);
            self.left += self.burst.leaving().1.len() as u64;
            done += self.burst.len().max(1);
        }
    }
}

fn policy(number: u32) -> Policy {
    let host = |base: u32| Prefix::host(Ipv4Addr::from(base + number).into());
    let any = Prefix::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    let selector = any.and_then(|any| Selector::between(any, host(0x0a01_0000)));
    let selector = selector.unwrap_or_else(|| Selector {
        source: host(0),
        destination: host(0x0a01_0000),
        protocol: None,
        source_ports: None,
        destination_ports: None,
    });
    Policy { selector, action: Action::Protect(number), priority: 10 }
}

fn parameters(load: &Load, number: u32) -> Parameters {
    let end = |last: u8| Ipv4Addr::new(192, 0, 2, last).into();
    Parameters {
        tunnel: number,
        path_mtu: 9000,
        replay_window: load.replay_window,
        ..Parameters::new(0x1000 + number, load.transform, end(1), end(2))
    }
}

fn keys(transform: Transform, number: u32) -> Keys {
    let bytes = |len: usize, from: u8| -> Vec<u8> {
        (0..len).map(|at| (at as u8).wrapping_mul(29) ^ from ^ number.to_le_bytes()[at % 4]).collect()
    };
    Keys { key: bytes(transform.key_len(), 0x5a).into(), salt: bytes(transform.salt_len(), 0xc3).into() }
}

/// A UDP packet to the association's host.
fn packet(len: usize, number: u32) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((len as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1]);
    packet.extend((0x0a01_0000 + number).to_be_bytes());
    let sum = packet.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend([0x10, 0, 0x20, 0]);
    packet.extend(((len - 20) as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend((packet.len()..len).map(|at| at as u8));
    packet
}
