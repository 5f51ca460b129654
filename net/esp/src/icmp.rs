//! ICMP errors to the senders of inner packets: those that do not fit the path (RFC 4301, 8.2), and those whose time has run out.

use core::net::IpAddr;
use core::time::Duration;

use crate::ip::{self, folded, protocol, sum};
use crate::limits::{IPV4_LEN, IPV6_LEN};

/// Bytes that an error has at most (RFC 1812, 4.3.2.3; RFC 4443, 2.4).
const V4_LEN_MAX: usize = 576;
const V6_LEN_MAX: usize = 1280;

const ICMP_LEN: usize = 8;

/// What is wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// It is longer than so many bytes.
    TooBig(u16),
    /// It has taken too many hops.
    TimeExceeded,
}

/// Appends an error about `packet` to `to`. `false` where none may be sent: about an ICMP error, a fragment other than the first, or to no
/// single host (RFC 1812, 4.3.2.7; RFC 4443, 2.4).
pub(crate) fn append(to: &mut Vec<u8>, packet: &[u8], from: IpAddr, problem: Problem) -> bool {
    match from {
        IpAddr::V4(from) if packet.len() >= IPV4_LEN && packet[0] >> 4 == 4 => {
            let offset = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff;
            let icmp_type = packet.get(usize::from(packet[0] & 0xf) * 4).copied().unwrap_or(0);
            // Queries and their answers are no errors.
            let is_error = packet[9] == protocol::ICMP && !matches!(icmp_type, 0 | 8 | 13 | 14);
            if offset != 0 || is_error || !is_host(packet[12], packet[16]) {
                return false;
            }
            let quoted = &packet[..packet.len().min(V4_LEN_MAX - IPV4_LEN - ICMP_LEN)];
            let start = to.len();
            let total_len = (IPV4_LEN + ICMP_LEN + quoted.len()) as u16;
            to.extend([0x45, 0xc0]);
            to.extend(total_len.to_be_bytes());
            to.extend([0, 0, 0, 0, 64, protocol::ICMP, 0, 0]);
            to.extend(from.octets());
            to.extend(&packet[12..16]);
            let checksum = folded(sum(&to[start..]));
            to[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
            // RFC 1191, 4: the next hop's MTU.
            let (kind, code, word) = match problem {
                Problem::TooBig(mtu) => (3, 4, u32::from(mtu)),
                Problem::TimeExceeded => (11, 0, 0),
            };
            let icmp = to.len();
            to.extend([kind, code, 0, 0]);
            to.extend(word.to_be_bytes());
            to.extend(quoted);
            let checksum = folded(sum(&to[icmp..]));
            to[icmp + 2..icmp + 4].copy_from_slice(&checksum.to_be_bytes());
            true
        }
        IpAddr::V6(from) if packet.len() >= IPV6_LEN && packet[0] >> 4 == 6 => {
            let is_error = packet[6] == protocol::ICMP_V6 && packet.get(IPV6_LEN).is_none_or(|kind| *kind < 128);
            let is_unspecified = packet[8..24].iter().all(|byte| *byte == 0);
            if is_error || packet[8] == 0xff || is_unspecified {
                return false;
            }
            let quoted = &packet[..packet.len().min(V6_LEN_MAX - IPV6_LEN - ICMP_LEN)];
            let start = to.len();
            to.extend([0x60, 0, 0, 0]);
            to.extend(((ICMP_LEN + quoted.len()) as u16).to_be_bytes());
            to.extend([protocol::ICMP_V6, 64]);
            to.extend(from.octets());
            to.extend(&packet[8..24]);
            let (kind, word) = match problem {
                Problem::TooBig(mtu) => (2, u32::from(mtu)),
                Problem::TimeExceeded => (3, 0),
            };
            to.extend([kind, 0, 0, 0]);
            to.extend(word.to_be_bytes());
            to.extend(quoted);
            let len = to.len() - start - IPV6_LEN;
            let error = &mut to[start..];
            let checksum = folded(ip::pseudo_sum(error, protocol::ICMP_V6, len) + sum(&error[IPV6_LEN..]));
            error[IPV6_LEN + 2..IPV6_LEN + 4].copy_from_slice(&checksum.to_be_bytes());
            true
        }
        _ => false,
    }
}

/// Whether the first bytes of IPv4 addresses are those of a sender that is a host and a destination that is not many.
fn is_host(source: u8, destination: u8) -> bool {
    !matches!(source, 0 | 127 | 224..) && destination < 224
}

/// How many errors may be sent: a token bucket (RFC 1812, 4.3.2.8; RFC 4443, 2.4).
#[derive(Clone, Debug)]
pub(crate) struct Limiter {
    tokens: u32,
    last: Duration,
}

/// Errors a second, and at once.
const ERRORS_PER_S: u32 = 100;

impl Limiter {
    pub(crate) fn new() -> Limiter {
        Limiter { tokens: ERRORS_PER_S, last: Duration::ZERO }
    }

    /// Whether one may be sent now.
    pub(crate) fn allows(&mut self, now: Duration) -> bool {
        let gained = now.saturating_sub(self.last).as_micros() * u128::from(ERRORS_PER_S) / 1_000_000;
        if gained > 0 {
            self.tokens = self.tokens.saturating_add(gained.min(u128::from(ERRORS_PER_S)) as u32).min(ERRORS_PER_S);
            self.last = now;
        }
        self.tokens > 0
    }

    /// Counts one that was sent.
    pub(crate) fn take(&mut self) {
        self.tokens = self.tokens.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_errors_a_second_are_sent() {
        let mut limiter = Limiter::new();
        let at = |limiter: &mut Limiter, ms| {
            let allows = |_: &u32| limiter.allows(Duration::from_millis(ms)).then(|| limiter.take()).is_some();
            (0..1000).filter(allows).count()
        };
        assert_eq!([1, 2, 500, 5000].map(|ms| at(&mut limiter, ms)), [100, 0, 50, 100]);
    }

    #[test]
    fn no_error_is_sent_about_an_error() {
        let mut packet =
            vec![0x45, 0, 0, 29, 0, 0, 0x40, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0];
        let from = IpAddr::from([10, 0, 0, 254]);
        let mut to = Vec::new();
        assert!(!append(&mut to, &packet, from, Problem::TooBig(1400)));
        packet[20] = 8;
        assert!(append(&mut to, &packet, from, Problem::TooBig(1400)));
        assert_eq!((folded(sum(&to[..20])), folded(sum(&to[20..]))), (0, 0));
        assert_eq!(
            (&to[12..20], &to[20..22], &to[26..28], &to[28..]),
            (&[10, 0, 0, 254, 10, 0, 0, 1][..], &[3, 4][..], &1400u16.to_be_bytes()[..], &packet[..])
        );
        packet[16] = 224;
        assert!(!append(&mut to, &packet, from, Problem::TimeExceeded), "to a group of hosts");
    }
}
