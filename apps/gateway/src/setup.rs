//! Tunnels and rules of a file as associations and policies, and what a reload changes.

use std::collections::HashMap;
use std::time::Duration;

use ciphermill_contract::Direction;
use ciphermill_esp::{Action, AddError, Parameters, Policy, Prefix, SaId, Selector, Tunnels};
use sha2::{Digest, Sha256};

use crate::configuration::{Configuration, KeySource, Passing, Rule, TUNNEL_PRIORITY, Tunnel, Way};
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
    #[error("policy from {0} to {1}: source and destination are of two families")]
    Rule(String, String),
    /// All of them.
    #[error("policies: {0}")]
    Policies(AddError),
    /// What bursts have no room for.
    #[error("packets are padded to {0} bytes at most since the start, not to {1}: that takes another start")]
    Padding(u16, u16),
}

/// What stands in force of a file.
#[derive(Default)]
pub(crate) struct InForce {
    /// Start values by tunnel, with the files that they are for: as long as the process lives, since both directions' counters go on.
    nonces: HashMap<String, (KeySource, [u8; NONCE_LEN])>,
    /// The numbers by which policies name the tunnels: a tunnel keeps its own, wherever in a file it stands.
    numbers: HashMap<String, u32>,
    associations: HashMap<String, Installed>,
    /// The last packet's number under each key that was in force, of what left and of what came. One that comes again goes on behind it: counted
    /// nonces do not repeat (RFC 4106, 3), and replay windows know what they have seen.
    last_numbers: HashMap<(Direction, Hash), u64>,
}

/// A tunnel's associations.
struct Installed {
    out: SaId,
    into: SaId,
    keys: [Hash; 2],
    /// What tells whether the tunnel is another than before: its text and keys.
    print: Hash,
}

/// SHA-256.
type Hash = [u8; 32];

/// What a file asks for: everything that can be wrong with it was looked at.
pub(crate) struct Wanted {
    tunnels: Vec<WantedTunnel>,
    policies: Vec<(Direction, Policy)>,
    nonces: HashMap<String, (KeySource, [u8; NONCE_LEN])>,
    /// Names of tunnels that have no keys yet.
    pub(crate) waiting: Vec<String>,
}

struct WantedTunnel {
    name: String,
    parameters: [Parameters; 2],
    keys: derive::Pair,
    hashes: [Hash; 2],
    print: Hash,
}

impl InForce {
    /// Reads the keys of a file and looks at all of it, while packets go on and before anything of them is changed.
    pub(crate) fn prepare(&mut self, configuration: &Configuration, allows_static: bool) -> Result<Wanted, SetupError> {
        let mut wanted =
            Wanted { tunnels: Vec::new(), policies: Vec::new(), nonces: HashMap::new(), waiting: Vec::new() };
        for tunnel in &configuration.tunnel {
            let free = self.numbers.len() as u32;
            let number = *self.numbers.entry(tunnel.name.clone()).or_insert(free);
            add_policies(tunnel, number, &mut wanted.policies);
            let nonce = match self.nonces.get(&tunnel.name) {
                Some((keys, nonce)) if *keys == tunnel.keys => *nonce,
                _ => derive::fresh_nonce(tunnel)?,
            };
            wanted.nonces.insert(tunnel.name.clone(), (tunnel.keys.clone(), nonce));
            let Some(keys) = derive::keys(tunnel, &nonce, allows_static)? else {
                wanted.waiting.push(tunnel.name.clone());
                continue;
            };
            let named = |error| SetupError::Tunnel(tunnel.name.clone(), error);
            let parameters = tunnel.parameters(number);
            parameters[0].check(Direction::Encrypt).map_err(named)?;
            parameters[1].check(Direction::Decrypt).map_err(named)?;
            let hashes = [hash(&[&keys.out.key, &keys.out.salt]), hash(&[&keys.into.key, &keys.into.salt])];
            let print = hash(&[format!("{tunnel:?}").as_bytes(), &hashes[0], &hashes[1]]);
            wanted.tunnels.push(WantedTunnel { name: tunnel.name.clone(), parameters, keys, hashes, print });
        }
        configuration.policy.iter().try_for_each(|rule| add_rule(rule, &mut wanted.policies))?;
        Ok(wanted)
    }

    /// Puts a file into force: tunnels that stayed the same go on as they are; others are made anew, and go on with their numbers where their
    /// keys stayed the same. Policies are set again as a whole.
    ///
    /// # Errors
    /// More policies than there may be, and then nothing is changed. A tunnel whose keys the mill does not take, when all others are in force.
    pub(crate) fn apply(&mut self, wanted: Wanted, tunnels: &mut Tunnels, now: Duration) -> Result<(), SetupError> {
        tunnels.set_policies(wanted.policies).map_err(SetupError::Policies)?;
        self.nonces.extend(wanted.nonces);
        let prints: HashMap<&str, Hash> = wanted.tunnels.iter().map(|one| (one.name.as_str(), one.print)).collect();
        let gone = self.associations.extract_if(|name, one| prints.get(name.as_str()) != Some(&one.print));
        for (_, gone) in gone {
            let ends = [(Direction::Encrypt, gone.out), (Direction::Decrypt, gone.into)];
            for ((direction, id), key) in ends.into_iter().zip(gone.keys) {
                let last = tunnels.last_number(direction, id).unwrap_or(0);
                let known = self.last_numbers.entry((direction, key)).or_insert(last);
                *known = last.max(*known);
            }
            tunnels.remove_outbound(gone.out);
            tunnels.remove_inbound(gone.into);
        }
        let mut all = Ok(());
        for one in wanted.tunnels {
            if !self.associations.contains_key(&one.name) {
                all = all.and(self.install(one, tunnels, now));
            }
        }
        all
    }

    fn install(&mut self, one: WantedTunnel, tunnels: &mut Tunnels, now: Duration) -> Result<(), SetupError> {
        let WantedTunnel { name, parameters, keys, hashes, print } = one;
        let named = |error| SetupError::Tunnel(name.clone(), error);
        let last = |direction, key: Hash| self.last_numbers.get(&(direction, key)).copied().unwrap_or(0);
        let [out, into] = parameters;
        // A key that the other end sent under before must not see its numbers again either.
        let sent = last(Direction::Encrypt, hashes[0]).max(last(Direction::Decrypt, hashes[0]));
        let out = Parameters { last: sent, ..out };
        let into = Parameters { last: last(Direction::Decrypt, hashes[1]), ..into };
        let out = tunnels.add_outbound(out, &keys.out, now).map_err(named)?;
        let into = match tunnels.add_inbound(into, &keys.into, now) {
            Ok(into) => into,
            Err(error) => {
                tunnels.remove_outbound(out);
                return Err(named(error));
            }
        };
        self.associations.insert(name, Installed { out, into, keys: hashes, print });
        Ok(())
    }
}

/// Parts are of lengths that the first one, or what they are of, tells.
fn hash(parts: &[&[u8]]) -> Hash {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

fn add_policies(tunnel: &Tunnel, number: u32, policies: &mut Vec<(Direction, Policy)>) {
    for (local, remote) in pairs(&tunnel.local_networks, &tunnel.remote_networks) {
        let ways = [(Direction::Encrypt, local, remote), (Direction::Decrypt, remote, local)];
        for (way, source, destination) in ways {
            // Networks of two families have no packets in common.
            let Some(selector) = Selector::between(source, destination) else { continue };
            policies.push((way, Policy { selector, action: Action::Protect(number), priority: TUNNEL_PRIORITY }));
        }
    }
}

fn add_rule(rule: &Rule, policies: &mut Vec<(Direction, Policy)>) -> Result<(), SetupError> {
    let families = || SetupError::Rule(format!("{:?}", rule.source), format!("{:?}", rule.destination));
    let selector = Selector::between(rule.source, rule.destination).ok_or_else(families)?;
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
    let policy = Policy { selector, action, priority: rule.priority };
    policies.extend(ways.iter().map(|way| (*way, policy.clone())));
    Ok(())
}

fn pairs<'p>(one: &'p [Prefix], other: &'p [Prefix]) -> impl Iterator<Item = (Prefix, Prefix)> + 'p {
    one.iter().flat_map(move |one| other.iter().map(move |other| (*one, *other)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::sync::Arc;

    use ciphermill::{Mill, SelfTest};
    use ciphermill_contract::Engine;
    use ciphermill_reference::Reference;

    use super::*;

    #[test]
    fn a_file_that_cannot_be_had_leaves_start_values_as_they_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("secret"), "5a".repeat(32)).expect("written");
        fs::set_permissions(at("secret"), fs::Permissions::from_mode(0o600)).expect("set");
        let tunnel = |name: &str, spi: u32, keys: String| {
            format!(
                "[[tunnel]]\nname = \"{name}\"\ntransform = \"aes-128-gcm\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
                 local_networks = [\"10.1.0.0/24\"]\nremote_networks = [\"10.2.0.0/24\"]\nspi_out = {spi}\nspi_in = {spi}\nkeys = {keys}\n"
            )
        };
        let derived = |nonce: &str| {
            let path = |name: &str| at(name).display().to_string();
            let (secret, own, peer) = (path("secret"), path(nonce), path("peer"));
            format!("{{ secret_file = \"{secret}\", nonce_file = \"{own}\", peer_nonce_file = \"{peer}\" }}")
        };
        let parse = |tunnels: String| {
            let text = format!("inside = {{ interface = \"i\" }}\noutside = {{ interface = \"o\" }}\n{tunnels}");
            Configuration::parse(&text, Path::new("gateway.toml")).expect("good")
        };
        let engine = Arc::new(Reference::new()) as Arc<dyn Engine>;
        let mill = Mill::builder().engines([engine]).self_test(SelfTest::Never).open().expect("opens");
        let (mut in_force, mut tunnels) = (InForce::default(), Tunnels::new(&mill));
        let good = parse(tunnel("one", 1000, derived("first")));
        let wanted = in_force.prepare(&good, false).expect("read");
        in_force.apply(wanted, &mut tunnels, Duration::ZERO).expect("in force");
        let told = fs::read_to_string(at("first")).expect("written");
        let missing = format!("{{ static_file = \"{}\" }}", at("nowhere").display());
        let bad = parse(tunnel("one", 1000, derived("second")) + &tunnel("two", 1001, missing));
        assert!(in_force.prepare(&bad, true).is_err());
        in_force.prepare(&good, false).expect("read");
        assert_eq!(fs::read_to_string(at("first")).expect("there"), told, "the other end has this one");
    }
}
