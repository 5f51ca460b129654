//! What happened to packets, counted.

use core::ops::AddAssign;

macro_rules! drops {
    ($($(#[doc = $doc:literal])+ $name:ident => $word:literal,)+) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Drop {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Drop {
            /// All reasons, in the order of their numbers.
            pub const ALL: &'static [Drop] = &[$(Drop::$name,)+];

            /// The reason as metrics and records name it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Drop::$name => $word,)+
                }
            }
        }
    };
}

drops! {
    /// No IP packet, or one whose lengths do not fit.
    Malformed => "malformed",
    /// Policy says that it is discarded, or says nothing (RFC 4301, 5.1 and 5.2).
    Policy => "policy",
    /// There is no association for what policy wants protected; auditable.
    NoAssociation => "no_association",
    /// ESP for an SPI that nobody has; auditable (RFC 4303, 3.4.2).
    UnknownSpi => "unknown_spi",
    /// The packet is a fragment; auditable (RFC 4303, 3.4.1).
    Fragment => "fragment",
    /// The sequence number has been there; auditable (RFC 4303, 3.4.3).
    Replayed => "replayed",
    /// The sequence number is older than the window; auditable.
    Old => "old",
    /// The ICV does not verify; auditable (RFC 4303, 3.4.4).
    Integrity => "integrity",
    /// The padding is not what the sender must write (RFC 4303, 2.4), or longer than the packet; auditable.
    Padding => "padding",
    /// The next header is none that a tunnel carries.
    NextHeader => "next_header",
    /// Addresses or ports of the inner packet are not the association's; auditable (RFC 4301, 5.2).
    Selector => "selector",
    /// The outer header says that congestion was experienced, the inner one cannot (RFC 6040, 4.2).
    Ecn => "ecn",
    /// It does not fit and must not be fragmented; the sender was told (RFC 4301, 8.2).
    TooBig => "too_big",
    /// The time to live has run out.
    TimeToLive => "time_to_live",
    /// The association's numbers are used up; auditable (RFC 4303, 3.3.3).
    SequenceOverflow => "sequence_overflow",
    /// The association's life is over.
    Expired => "expired",
    /// The association was removed while the packet was on its way.
    Gone => "gone",
    /// No engine could do the work.
    Engine => "engine",
    /// The burst had no room for it.
    NoRoom => "no_room",
}

/// Packets and bytes of one direction since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that were looked at.
    pub packets: u64,
    /// Packets that left protected, or were opened and left.
    pub done: u64,
    /// Bytes of these within the tunnel.
    pub bytes: u64,
    /// Packets that policy lets pass as they are.
    pub bypassed: u64,
    /// Dummy packets, which are made and dropped unseen (RFC 4303, 2.6).
    pub dummies: u64,
    /// Fragments that were made of packets.
    pub fragments: u64,
    /// ICMP errors that were sent.
    pub icmp_sent: u64,
    /// ICMP errors that were not sent: too many, or no address to send from.
    pub icmp_withheld: u64,
    /// ICMP errors of routers, that a packet was too long, about packets that were really sent (RFC 4301, 8.2.1).
    pub icmp_heard: u64,
    /// NAT keep-alives and IKE messages, which are none of ours (RFC 3948, 2.2 and 2.3).
    pub not_esp: u64,
    /// Events that nobody fetched in time.
    pub events_lost: u64,
    dropped: [u64; Drop::ALL.len()],
}

impl Counters {
    /// Packets that were dropped for this reason.
    pub fn dropped(&self, reason: Drop) -> u64 {
        self.dropped[reason as usize]
    }

    /// Packets that were dropped.
    pub fn dropped_all(&self) -> u64 {
        self.dropped.iter().sum()
    }

    pub(crate) fn drop(&mut self, reason: Drop) {
        self.dropped[reason as usize] += 1;
    }
}

impl AddAssign<&Counters> for Counters {
    fn add_assign(&mut self, other: &Counters) {
        let Counters {
            packets,
            done,
            bytes,
            bypassed,
            dummies,
            fragments,
            icmp_sent,
            icmp_withheld,
            icmp_heard,
            not_esp,
            events_lost,
            dropped,
        } = self;
        let pairs = [
            (packets, other.packets),
            (done, other.done),
            (bytes, other.bytes),
            (bypassed, other.bypassed),
            (dummies, other.dummies),
            (fragments, other.fragments),
            (icmp_sent, other.icmp_sent),
            (icmp_withheld, other.icmp_withheld),
            (icmp_heard, other.icmp_heard),
            (not_esp, other.not_esp),
            (events_lost, other.events_lost),
        ];
        pairs.into_iter().for_each(|(sum, more)| *sum += more);
        dropped.iter_mut().zip(other.dropped).for_each(|(sum, more)| *sum += more);
    }
}
