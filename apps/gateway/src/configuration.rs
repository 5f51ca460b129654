//! The gateway's file: TOML, of which every name and value is checked before anything is opened.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ciphermill_contract::Direction;
use ciphermill_esp::{
    BURST_PACKETS_MAX, Encapsulation, Lifetime, Lifetimes, Parameters, Prefix, REPLAY_WINDOW_MAX, Selector, Sequence,
    Transform,
};
use serde::Deserialize;

/// Threads each way.
pub const WORKERS_MAX: usize = 64;

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is no TOML, or says what nobody asks for.
    #[error("{}: {error}", path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// Where and what.
        error: Box<toml::de::Error>,
    },
    /// A value breaks a rule.
    #[error("{place}: {rule}")]
    Rule {
        /// Section and name.
        place: String,
        /// The rule.
        rule: String,
    },
}

fn rule(place: impl Into<String>, rule: impl Into<String>) -> ConfigurationError {
    ConfigurationError::Rule { place: place.into(), rule: rule.into() }
}

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Where packets in clear come from and go to.
    pub inside: Port,
    /// The same of packets that are protected.
    pub outside: Port,
    /// Threads each way.
    #[serde(default = "one")]
    pub workers: usize,
    /// Packets of a burst at most. A burst has what is there, and never waits for more.
    #[serde(default = "burst")]
    pub burst: usize,
    /// UDP ports to which encapsulated ESP comes.
    #[serde(default = "udp_ports")]
    pub udp_ports: Vec<u16>,
    /// Addresses that ICMP errors come from, one a family.
    #[serde(default)]
    pub own_addresses: Vec<IpAddr>,
    /// The tunnels.
    #[serde(default)]
    pub tunnel: Vec<Tunnel>,
    /// What passes by them.
    #[serde(default)]
    pub policy: Vec<Rule>,
    /// An IKE daemon that makes and ends associations.
    pub ike: Option<Ike>,
}

/// Where an IKE daemon finds its kernel.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Ike {
    /// The socket that the daemon is given for its NETLINK_XFRM ones: what CIPHERMILL_XFRM says to it.
    pub socket: PathBuf,
    /// This end's addresses: what is sent to them comes in.
    pub addresses: Vec<IpAddr>,
    /// Bytes that outer packets may have.
    #[serde(default = "path_mtu")]
    pub path_mtu: u16,
}

fn one() -> usize {
    1
}

fn burst() -> usize {
    256
}

fn udp_ports() -> Vec<u16> {
    vec![4500]
}

/// One side: an interface, a TUN device of our own, or files.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// An interface's name: packet sockets.
    pub interface: Option<String>,
    /// A TUN device's name, which is made.
    pub tun: Option<String>,
    /// Packets are read from this file, to its end.
    pub pcap_in: Option<PathBuf>,
    /// Packets are written to this file.
    pub pcap_out: Option<PathBuf>,
    /// Bytes of a TUN device's packets.
    #[serde(default = "tun_mtu")]
    pub mtu: u16,
    /// Whether the kernel may pass on, by its own rules, what comes in by this interface and the gateway does not take.
    #[serde(default)]
    pub kernel_forwards: bool,
}

fn tun_mtu() -> u16 {
    1400
}

/// A tunnel with one association each way.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tunnel {
    /// What errors and metrics call it.
    pub name: String,
    /// The algorithms.
    #[serde(deserialize_with = "transform")]
    pub transform: Transform,
    /// This end's address.
    pub local: IpAddr,
    /// The other end's.
    pub remote: IpAddr,
    /// Networks behind this end.
    #[serde(deserialize_with = "prefixes")]
    pub local_networks: Vec<Prefix>,
    /// Networks behind the other one.
    #[serde(deserialize_with = "prefixes")]
    pub remote_networks: Vec<Prefix>,
    /// The SPI of what leaves.
    pub spi_out: u32,
    /// The SPI of what comes.
    pub spi_in: u32,
    /// UDP ports of this end and the other one.
    pub udp: Option<[u16; 2]>,
    /// 64-bit sequence numbers.
    #[serde(default)]
    pub extended_sequence: bool,
    /// Packets that the replay window looks back.
    #[serde(default = "window")]
    pub replay_window: u32,
    /// Bytes that an outer packet may have.
    #[serde(default = "path_mtu")]
    pub path_mtu: u16,
    /// Inner packets are padded to so many bytes.
    #[serde(default)]
    pub pad_to: u16,
    /// Seconds after which packets are dropped.
    pub lifetime_s: Option<u64>,
    /// Bytes after which they are.
    pub lifetime_bytes: Option<u64>,
    /// Packets after which they are.
    pub lifetime_packets: Option<u64>,
    /// Where the keys come from.
    pub keys: KeySource,
}

fn window() -> u32 {
    1024
}

fn path_mtu() -> u16 {
    1500
}

/// Where a tunnel's keys come from.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, untagged)]
pub enum KeySource {
    /// Derived from a secret that both ends have, and a random start value of each: fresh after every start of either.
    Derived {
        /// At least 32 bytes in hexadecimal.
        secret_file: PathBuf,
        /// Where this end writes its start value at each start.
        nonce_file: PathBuf,
        /// Where the other end's start value is put; read at a start and at each SIGHUP.
        peer_nonce_file: PathBuf,
    },
    /// Always the same: with nonces that are counted they give everything away at the second start, so for laboratories alone.
    Static {
        /// Two lines in hexadecimal: the key of what leaves and of what comes, each with its salt behind.
        static_file: PathBuf,
    },
}

/// What is done with packets of no tunnel.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Passing {
    /// They pass as they are.
    Bypass,
    /// They are dropped, as those are that nothing is said of.
    Discard,
}

/// Which way a rule is for.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// From the inside.
    Out,
    /// From the outside.
    In,
    /// Both, with source and destination as they stand.
    #[default]
    Both,
}

/// A policy besides those of the tunnels.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What is done.
    pub action: Passing,
    /// Which way.
    #[serde(default)]
    pub way: Way,
    /// Where packets come from.
    #[serde(deserialize_with = "prefix")]
    pub source: Prefix,
    /// Where they go.
    #[serde(deserialize_with = "prefix")]
    pub destination: Prefix,
    /// The protocol's number.
    pub protocol: Option<u8>,
    /// Lower numbers decide; tunnels have 1000.
    #[serde(default = "priority")]
    pub priority: u32,
}

fn priority() -> u32 {
    100
}

/// The priority of tunnels' policies.
pub(crate) const TUNNEL_PRIORITY: u32 = 1000;

fn transform<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Transform, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

fn parse_prefix(text: &str) -> Result<Prefix, String> {
    let wrong = || format!("`{text}` is no network such as 10.1.0.0/24 or fd00::/8");
    let (address, len) = match text.split_once('/') {
        Some((address, len)) => (address, Some(len.parse::<u8>().map_err(|_| wrong())?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    len.map_or(Some(Prefix::host(address)), |len| Prefix::new(address, len)).ok_or_else(wrong)
}

fn prefix<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Prefix, D::Error> {
    parse_prefix(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

fn prefixes<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Prefix>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| parse_prefix(text)).collect::<Result<_, _>>().map_err(serde::de::Error::custom)
}

impl Configuration {
    /// Reads and checks a file. Relative paths in it count from the file's folder.
    ///
    /// # Errors
    /// [`ConfigurationError`], with the place and the rule.
    pub fn read(path: &Path) -> Result<Configuration, ConfigurationError> {
        let text =
            std::fs::read_to_string(path).map_err(|error| ConfigurationError::Read { path: path.to_owned(), error })?;
        let mut configuration = Configuration::parse(&text, path)?;
        configuration.rebase(path.parent().unwrap_or(Path::new("")));
        Ok(configuration)
    }

    /// The same of a text, whose paths stay as they are.
    ///
    /// # Errors
    /// As [`Configuration::read`].
    pub fn parse(text: &str, path: &Path) -> Result<Configuration, ConfigurationError> {
        let configuration: Configuration = toml::from_str(text)
            .map_err(|error| ConfigurationError::Toml { path: path.to_owned(), error: Box::new(error) })?;
        configuration.check()?;
        Ok(configuration)
    }

    fn rebase(&mut self, folder: &Path) {
        let to_folder = |path: &mut PathBuf| *path = folder.join(&*path);
        for port in [&mut self.inside, &mut self.outside] {
            port.pcap_in.iter_mut().chain(&mut port.pcap_out).for_each(to_folder);
        }
        self.ike.iter_mut().for_each(|ike| to_folder(&mut ike.socket));
        for tunnel in &mut self.tunnel {
            match &mut tunnel.keys {
                KeySource::Derived { secret_file, nonce_file, peer_nonce_file } => {
                    [secret_file, nonce_file, peer_nonce_file].into_iter().for_each(to_folder);
                }
                KeySource::Static { static_file } => to_folder(static_file),
            }
        }
    }

    fn check(&self) -> Result<(), ConfigurationError> {
        self.inside.check("inside")?;
        self.outside.check("outside")?;
        let same =
            |of: fn(&Port) -> &Option<String>| of(&self.inside).is_some() && of(&self.inside) == of(&self.outside);
        if same(|port| &port.interface) || same(|port| &port.tun) {
            return Err(rule("outside", "another interface than inside"));
        }
        if !(1..=WORKERS_MAX).contains(&self.workers) {
            return Err(rule("workers", format!("from 1 to {WORKERS_MAX}, not {}", self.workers)));
        }
        if !(1..=BURST_PACKETS_MAX).contains(&self.burst) {
            return Err(rule("burst", format!("from 1 to {BURST_PACKETS_MAX} packets, not {}", self.burst)));
        }
        let is_from_files = self.inside.pcap_in.is_some() || self.outside.pcap_in.is_some();
        if is_from_files && self.workers > 1 {
            return Err(rule("workers", "1 where packets come from files"));
        }
        if self.outside.interface.is_some() && self.udp_ports.len() > 1 {
            return Err(rule("udp_ports", "one at most where the outside is an interface"));
        }
        if self.ike.as_ref().is_some_and(|ike| ike.addresses.is_empty()) {
            return Err(rule("ike, addresses", "one at least"));
        }
        if self.ike.is_some() && !self.tunnel.is_empty() {
            return Err(rule("tunnel", "none beside `ike`: the daemon has all associations and policies"));
        }
        for (at, tunnel) in self.tunnel.iter().enumerate() {
            tunnel.check(&format!("tunnel `{}`", tunnel.name))?;
            if let Some([port, _]) = tunnel.udp.filter(|[port, _]| !self.udp_ports.contains(port)) {
                let place = format!("tunnel `{}`, udp", tunnel.name);
                return Err(rule(place, format!("udp_ports has no {port}, so that nothing would come in")));
            }
            let others = &self.tunnel[..at];
            if others.iter().any(|other| other.name == tunnel.name) {
                return Err(rule(format!("tunnel `{}`", tunnel.name), "there is another one of this name"));
            }
            if others.iter().any(|other| other.spi_in == tunnel.spi_in) {
                return Err(rule(format!("tunnel `{}`, spi_in", tunnel.name), "another tunnel has it"));
            }
        }
        for (at, one) in self.policy.iter().enumerate() {
            if Selector::between(one.source, one.destination).is_none() {
                return Err(rule(format!("policy {}, destination", at + 1), "of the same family as source"));
            }
        }
        Ok(())
    }
}

impl Port {
    fn check(&self, place: &str) -> Result<(), ConfigurationError> {
        let has_files = self.pcap_in.is_some() || self.pcap_out.is_some();
        let ways = [self.interface.is_some(), self.tun.is_some(), has_files];
        if ways.iter().filter(|way| **way).count() != 1 {
            return Err(rule(place, "one of `interface`, `tun`, or `pcap_in` and `pcap_out`"));
        }
        Ok(())
    }
}

impl Tunnel {
    fn check(&self, place: &str) -> Result<(), ConfigurationError> {
        let wrong = |name: &str, text: String| Err(rule(format!("{place}, {name}"), text));
        for (name, spi) in [("spi_out", self.spi_out), ("spi_in", self.spi_in)] {
            if spi < 256 {
                return wrong(name, format!("{spi} is reserved (RFC 4303, 2.1): from 256 on"));
            }
        }
        if self.local.is_ipv4() != self.remote.is_ipv4() {
            return wrong("remote", "of the same family as local".to_owned());
        }
        if self.replay_window != 0 && (self.replay_window > REPLAY_WINDOW_MAX || !self.replay_window.is_multiple_of(64))
        {
            return wrong("replay_window", format!("0, or a multiple of 64 up to {REPLAY_WINDOW_MAX}"));
        }
        if self.replay_window == 0 && self.extended_sequence {
            return wrong("replay_window", "at least 64 with extended_sequence (RFC 4303, 2.2.1)".to_owned());
        }
        if self.local_networks.is_empty() || self.remote_networks.is_empty() {
            return wrong("local_networks and remote_networks", "one network at least".to_owned());
        }
        let [out, into] = self.parameters(0);
        let checked = out.check(Direction::Encrypt).and_then(|()| into.check(Direction::Decrypt));
        checked.map_err(|error| rule(place, error.to_string()))
    }

    /// The associations of what leaves and what comes, with the number by which policies name the tunnel.
    pub(crate) fn parameters(&self, number: u32) -> [Parameters; 2] {
        let hard = Lifetime {
            bytes: self.lifetime_bytes,
            packets: self.lifetime_packets,
            after: self.lifetime_s.map(Duration::from_secs),
        };
        let one = |spi, source, destination, ports: Option<[u16; 2]>| Parameters {
            encapsulation: ports.map(|[source_port, destination_port]| Encapsulation { source_port, destination_port }),
            tunnel: number,
            sequence: if self.extended_sequence { Sequence::Extended } else { Sequence::Short },
            replay_window: self.replay_window,
            lifetimes: Lifetimes { soft: Lifetime::default(), hard },
            path_mtu: self.path_mtu,
            pad_to: self.pad_to,
            ..Parameters::new(spi, self.transform, source, destination)
        };
        let back = self.udp.map(|[local, remote]| [remote, local]);
        [one(self.spi_out, self.local, self.remote, self.udp), one(self.spi_in, self.remote, self.local, back)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        inside = { interface = "in0" }
        outside = { interface = "out0" }
        [[tunnel]]
        name = "one"
        transform = "aes-128-gcm"
        local = "192.0.2.1"
        remote = "192.0.2.2"
        local_networks = ["10.1.0.0/24", "fd00:1::/32"]
        remote_networks = ["10.2.0.0/24", "fd00:2::/32"]
        spi_out = 0x1001
        spi_in = 0x1002
        keys = { secret_file = "s", nonce_file = "n", peer_nonce_file = "p" }
        [[policy]]
        action = "bypass"
        source = "0.0.0.0/0"
        destination = "224.0.0.0/4"
    "#;

    fn refused(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from), "{from}");
        match Configuration::parse(&GOOD.replace(from, to), Path::new("gateway.toml")) {
            Ok(_) => panic!("`{to}` passed"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let good = Configuration::parse(GOOD, Path::new("gateway.toml")).expect("good");
        assert_eq!((good.workers, good.burst, good.tunnel[0].replay_window), (1, 256, 1024));
        assert_eq!(
            refused("{ interface = \"in0\" }", "{ interface = \"in0\", tun = \"t\" }"),
            "inside: one of `interface`, `tun`, or `pcap_in` and `pcap_out`"
        );
        assert_eq!(refused("0x1001", "255"), "tunnel `one`, spi_out: 255 is reserved (RFC 4303, 2.1): from 256 on");
        assert_eq!(refused("\"192.0.2.2\"", "\"::1\""), "tunnel `one`, remote: of the same family as local");
        assert!(refused("aes-128-gcm", "aes-128-gcn").contains("`aes-128-gcn` is no ESP transform"));
        assert!(refused("10.2.0.0/24", "10.2.0.0/33").contains("`10.2.0.0/33` is no network"));
        assert!(refused("spi_in = 0x1002", "spi_in = 0x1002\nspeed = 3").contains("speed"));
        assert_eq!(refused("\"out0\"", "\"in0\""), "outside: another interface than inside");
        assert_eq!(
            refused("spi_in = 0x1002", "spi_in = 0x1002\nudp = [4501, 4500]"),
            "tunnel `one`, udp: udp_ports has no 4501, so that nothing would come in"
        );
        assert_eq!(
            refused("[[tunnel]]", "udp_ports = [4500, 4501]\n[[tunnel]]"),
            "udp_ports: one at most where the outside is an interface"
        );
        assert_eq!(
            refused("spi_in = 0x1002", "spi_in = 0x1002\nreplay_window = 0\nextended_sequence = true"),
            "tunnel `one`, replay_window: at least 64 with extended_sequence (RFC 4303, 2.2.1)"
        );
        assert_eq!(refused("[[tunnel]]", "workers = 0\n[[tunnel]]"), "workers: from 1 to 64, not 0");
        assert_eq!(
            refused("spi_in = 0x1002", "spi_in = 0x1002\npath_mtu = 100"),
            "tunnel `one`: a path MTU of 100 bytes: IPv4 asks for 576 at least, IPv6 for 1280"
        );
        assert_eq!(refused("224.0.0.0/4", "ff00::/8"), "policy 1, destination: of the same family as source");
    }

    #[test]
    fn paths_count_from_the_files_folder() {
        let mut good = Configuration::parse(GOOD, Path::new("gateway.toml")).expect("good");
        good.rebase(Path::new("/etc/gateway"));
        let KeySource::Derived { secret_file, .. } = &good.tunnel[0].keys else { panic!("derived") };
        assert_eq!(secret_file, Path::new("/etc/gateway/s"));
    }
}
