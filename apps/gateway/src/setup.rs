//! Tunnels and rules of a file as associations and policies, and what a reload changes.

use std::collections::HashMap;
use std::time::Duration;

use ciphermill_contract::Direction;
use ciphermill_esp::{
    Action, AddError, Encapsulation, Lifetime, Lifetimes, Parameters, Policy, Prefix, SaId, Selector, Sequence, Tunnels,
};

use crate::configuration::{Configuration, Passing, Rule, TUNNEL_PRIORITY, Tunnel, Way};
use crate::derive::{self, KeyError, NONCE_LEN};

/// Why a file was not put into force.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// An association or a policy.
    #[error("tunnel `{0}`: {1}")]
    Tunnel(String, AddError),
    /// A rule.
    #[error("policy from {0} to {1}: {2}")]
    Rule(String, String, String),
}

/// What stands in force of a file.
#[derive(Default)]
pub(crate) struct InForce {
    /// Start values by tunnel: as long as the process lives, since both directions' counters go on.
    nonces: HashMap<String, [u8; NONCE_LEN]>,
    associations: Vec<(String, SaId, SaId, Fingerprint)>,
}

/// What tells whether a tunnel is another than before: its text and keys, hashed.
type Fingerprint = [u8; 32];

impl InForce {
    /// Puts a file into force: tunnels that stayed the same go on as they are, with their numbers; others are made anew. Policies are set
    /// again as a whole. Returns the names of tunnels that have no keys yet.
    pub(crate) fn apply(
        &mut self,
        configuration: &Configuration,
        tunnels: &mut Tunnels,
        allows_static: bool,
        now: Duration,
    ) -> Result<Vec<String>, SetupError> {
        let mut waiting = Vec::new();
        let mut wanted = Vec::new();
        // All keys are read before anything is changed.
        for tunnel in &configuration.tunnel {
            let nonce = match self.nonces.get(&tunnel.name) {
                Some(nonce) => *nonce,
                None => derive::fresh_nonce(tunnel)?,
            };
            self.nonces.insert(tunnel.name.clone(), nonce);
            match derive::keys(tunnel, &nonce, allows_static)? {
                Some(pair) => wanted.push((tunnel, fingerprint(tunnel, &pair), pair)),
                None => waiting.push(tunnel.name.clone()),
            }
        }
        let stays =
            |name: &str, print: &Fingerprint| wanted.iter().any(|(tunnel, own, _)| tunnel.name == name && own == print);
        let (kept, gone): (Vec<_>, Vec<_>) =
            self.associations.drain(..).partition(|(name, _, _, print)| stays(name, print));
        self.associations = kept;
        for (_, out, into, _) in gone {
            tunnels.remove_outbound(out);
            tunnels.remove_inbound(into);
        }
        for (number, tunnel) in configuration.tunnel.iter().enumerate() {
            let Some((_, print, pair)) = wanted.iter().find(|(own, ..)| own.name == tunnel.name) else { continue };
            if self.associations.iter().any(|(name, ..)| *name == tunnel.name) {
                continue;
            }
            let named = |error| SetupError::Tunnel(tunnel.name.clone(), error);
            let [out, into] = parameters(tunnel, number as u32);
            let out = tunnels.add_outbound(out, &pair.out, now).map_err(named)?;
            let into = match tunnels.add_inbound(into, &pair.into, now) {
                Ok(into) => into,
                Err(error) => {
                    tunnels.remove_outbound(out);
                    return Err(named(error));
                }
            };
            self.associations.push((tunnel.name.clone(), out, into, *print));
        }
        set_policies(configuration, tunnels)?;
        Ok(waiting)
    }

    /// The tunnels in force with their associations.
    pub(crate) fn tunnels(&self) -> impl Iterator<Item = (&str, SaId, SaId)> {
        self.associations.iter().map(|(name, out, into, _)| (name.as_str(), *out, *into))
    }
}

fn fingerprint(tunnel: &Tunnel, pair: &derive::Pair) -> Fingerprint {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    hash.update(format!("{tunnel:?}"));
    for keys in [&pair.out, &pair.into] {
        hash.update(&*keys.key);
        hash.update(&*keys.salt);
    }
    hash.finalize().into()
}

fn parameters(tunnel: &Tunnel, number: u32) -> [Parameters; 2] {
    let hard = Lifetime {
        bytes: tunnel.lifetime_bytes,
        packets: tunnel.lifetime_packets,
        after: tunnel.lifetime_s.map(Duration::from_secs),
    };
    let one = |spi, source, destination, ports: Option<[u16; 2]>| Parameters {
        encapsulation: ports.map(|[source_port, destination_port]| Encapsulation { source_port, destination_port }),
        // A file's position is its tunnel's number: policies are set with the file.
        tunnel: number,
        sequence: if tunnel.extended_sequence { Sequence::Extended } else { Sequence::Short },
        replay_window: tunnel.replay_window,
        lifetimes: Lifetimes { soft: Lifetime::default(), hard },
        path_mtu: tunnel.path_mtu,
        pad_to: tunnel.pad_to,
        ..Parameters::new(spi, tunnel.transform, source, destination)
    };
    let back = tunnel.udp.map(|[local, remote]| [remote, local]);
    [
        one(tunnel.spi_out, tunnel.local, tunnel.remote, tunnel.udp),
        one(tunnel.spi_in, tunnel.remote, tunnel.local, back),
    ]
}

fn set_policies(configuration: &Configuration, tunnels: &mut Tunnels) -> Result<(), SetupError> {
    tunnels.clear_policies();
    for (number, tunnel) in configuration.tunnel.iter().enumerate() {
        let named = |error| SetupError::Tunnel(tunnel.name.clone(), error);
        for (local, remote) in pairs(&tunnel.local_networks, &tunnel.remote_networks) {
            let ways = [(Direction::Encrypt, local, remote), (Direction::Decrypt, remote, local)];
            for (way, source, destination) in ways {
                // Networks of two families have no packets in common.
                let Some(selector) = Selector::between(source, destination) else { continue };
                let policy = Policy { selector, action: Action::Protect(number as u32), priority: TUNNEL_PRIORITY };
                tunnels.add_policy(way, policy).map_err(named)?;
            }
        }
    }
    configuration.policy.iter().try_for_each(|rule| add_rule(rule, tunnels))
}

fn add_rule(rule: &Rule, tunnels: &mut Tunnels) -> Result<(), SetupError> {
    let (source, destination) = (format!("{:?}", rule.source), format!("{:?}", rule.destination));
    let wrong = |why: String| SetupError::Rule(source.clone(), destination.clone(), why);
    let selector = Selector::between(rule.source, rule.destination)
        .ok_or_else(|| wrong("source and destination are of two families".to_owned()))?;
    let selector = Selector { protocol: rule.protocol, ..selector };
    let action = match rule.action {
        Passing::Bypass => Action::Bypass,
        Passing::Discard => Action::Discard,
    };
    let ways: &[Direction] = match rule.way {
        Way::Out => &[Direction::Encrypt],
        Way::In => &[Direction::Decrypt],
        Way::Both => &[Direction::Encrypt, Direction::Decrypt],
    };
    for way in ways {
        let policy = Policy { selector: selector.clone(), action, priority: rule.priority };
        tunnels.add_policy(*way, policy).map_err(|error| wrong(error.to_string()))?;
    }
    Ok(())
}

fn pairs<'p>(one: &'p [Prefix], other: &'p [Prefix]) -> impl Iterator<Item = (Prefix, Prefix)> + 'p {
    one.iter().flat_map(move |one| other.iter().map(move |other| (*one, *other)))
}
