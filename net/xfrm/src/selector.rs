//! Which packets an association or a policy is for.

use std::net::{IpAddr, Ipv4Addr};

/// Addresses that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The address; what lies behind the prefix is kept as it came.
    pub address: IpAddr,
    /// Bits that have to agree.
    pub len: u8,
}

impl Prefix {
    /// Every address of IPv4, and of both families in a selector of any.
    pub const ALL: Self = Self { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), len: 0 };

    /// Whether an address, of the same family, lies within.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let same = |one: u128, other: u128, bits: u32| {
            let len = u32::from(self.len).min(bits);
            len == 0 || (one ^ other) >> (bits - len) == 0
        };
        match (self.address, address) {
            (IpAddr::V4(one), IpAddr::V4(other)) => same(one.to_bits().into(), other.to_bits().into(), 32),
            (IpAddr::V6(one), IpAddr::V6(other)) => same(one.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

/// A port and the bits of it that count; with mask 0, any port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// The port, in host order.
    pub number: u16,
    /// Bits that have to agree.
    pub mask: u16,
}

/// Which packets are meant (`struct xfrm_selector`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Packets of both families (`XFRM_STATE_AF_UNSPEC`): both prefixes are [`Prefix::ALL`] then.
    pub any_family: bool,
    /// Where packets come from.
    pub source: Prefix,
    /// Where they go to.
    pub destination: Prefix,
    /// The upper protocol; 0 for any.
    pub protocol: u8,
    /// The port that they come from, or the type of ICMP.
    pub source_port: Port,
    /// The port that they go to, or the code of ICMP.
    pub destination_port: Port,
    /// The interface; 0 for any.
    pub interface: i32,
    /// The user; 0 for any.
    pub user: u32,
}

impl Selector {
    /// Everything, of both families.
    pub const ALL: Self = Self {
        any_family: true,
        source: Prefix::ALL,
        destination: Prefix::ALL,
        protocol: 0,
        source_port: Port { number: 0, mask: 0 },
        destination_port: Port { number: 0, mask: 0 },
        interface: 0,
        user: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_contains_what_begins_alike() {
        let prefix = |text: &str, len| Prefix { address: text.parse().expect("an address"), len };
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert!(prefix("10.1.0.0", 16).contains(address("10.1.255.1")));
        assert!(!prefix("10.1.0.0", 16).contains(address("10.2.0.1")));
        assert!(prefix("0.0.0.0", 0).contains(address("255.1.2.3")));
        assert!(prefix("10.1.2.3", 32).contains(address("10.1.2.3")));
        assert!(!prefix("10.1.2.3", 32).contains(address("10.1.2.2")));
        assert!(prefix("2001:db8::", 33).contains(address("2001:db8:7fff::1")));
        assert!(!prefix("2001:db8::", 33).contains(address("2001:db8:8000::1")));
        assert!(!prefix("::", 0).contains(address("10.0.0.1")), "families differ");
    }
}
