//! Security associations in plain words (`struct xfrm_usersa_info` and what goes with it).

use std::fmt;
use std::net::IpAddr;

use zeroize::Zeroizing;

use crate::constants::XFRM_INF;
use crate::selector::Selector;

/// Most bytes of one key.
pub const KEY_MAX: usize = 256;
/// Most words of a replay window's bitmap (`XFRMA_REPLAY_ESN_MAX`, in bits: 4096).
pub const BITMAP_WORDS_MAX: usize = 128;

/// A key's bytes: wiped when they go, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyBytes(Zeroizing<Vec<u8>>);

impl KeyBytes {
    /// A copy of these bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }

    /// The bytes, for whoever encrypts with them.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none, as for the cipher that does not encrypt.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for KeyBytes {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "<{} bytes>", self.0.len())
    }
}

/// What an association encrypts and authenticates with; names are those of the kernel's crypto API, as in `rfc4106(gcm(aes))`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Algorithms {
    /// Both at once (`XFRMA_ALG_AEAD`).
    Aead {
        /// The algorithm's name.
        name: String,
        /// The key, with the salt as its last bytes where the algorithm has one (RFC 4106, 8.1).
        key: KeyBytes,
        /// How long tags are, in bits.
        icv_bits: u32,
    },
    /// A cipher (`XFRMA_ALG_CRYPT`), and a MAC over its output unless the daemon went without.
    Separate {
        /// The cipher.
        encryption: Encryption,
        /// The MAC.
        integrity: Option<Integrity>,
    },
}

/// A cipher and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// The cipher's name, as in `cbc(aes)`.
    pub name: String,
    /// Its key; with RFC 3686 the nonce is the last four bytes.
    pub key: KeyBytes,
}

/// A MAC and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integrity {
    /// The MAC's name, as in `hmac(sha256)`.
    pub name: String,
    /// Its key.
    pub key: KeyBytes,
    /// How much of it is sent, in bits. Without `XFRMA_ALG_AUTH_TRUNC`, the kernel's own length for this name.
    pub icv_bits: u32,
}

/// What identifies an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssociationId {
    /// Where its packets go to.
    pub destination: IpAddr,
    /// The security parameters index, in host order.
    pub spi: u32,
    /// The protocol: 50 for ESP.
    pub protocol: u8,
}

/// How packets are wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// The packet's own header stays in front.
    Transport = 0,
    /// The whole packet goes inside.
    Tunnel = 1,
    /// Tunnel with fixed inner addresses, which are not sent.
    Beet = 4,
}

/// Which way packets of an association go, if the daemon says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SaDirection {
    /// From the peer.
    In = 1,
    /// To the peer.
    Out = 2,
}

/// UDP encapsulation (RFC 3948); ports in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encapsulation {
    /// The port that packets come from.
    pub source_port: u16,
    /// The port that they go to.
    pub destination_port: u16,
    /// The original address in transport mode behind a NAT, if it was told.
    pub original_address: Option<IpAddr>,
}

/// A soft and a hard limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// From here on the daemon is asked for a successor.
    pub soft: u64,
    /// Here it ends.
    pub hard: u64,
}

impl Limit {
    /// No limit on an amount (`XFRM_INF`).
    pub const NONE: Self = Self { soft: XFRM_INF, hard: XFRM_INF };
    /// No limit on a time, which is written as 0.
    pub const NO_TIME: Self = Self { soft: 0, hard: 0 };
}

/// How long something may live (`struct xfrm_lifetime_cfg`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Bytes.
    pub bytes: Limit,
    /// Packets.
    pub packets: Limit,
    /// Seconds since it was added; 0 for no limit.
    pub add_seconds: Limit,
    /// Seconds since its first packet; 0 for no limit.
    pub use_seconds: Limit,
}

impl Lifetimes {
    /// No limit at all.
    pub const NONE: Self =
        Self { bytes: Limit::NONE, packets: Limit::NONE, add_seconds: Limit::NO_TIME, use_seconds: Limit::NO_TIME };
}

/// What has been counted so far (`struct xfrm_lifetime_cur`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// When it was added: seconds since 1970.
    pub added: u64,
    /// When it was used: of an association the first time, of a policy the last; seconds since 1970, 0 for never.
    pub used: u64,
}

/// Packets that were dropped (`struct xfrm_stats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets left of the window.
    pub outside_window: u32,
    /// Packets that had come before.
    pub replayed: u32,
    /// Packets with a wrong tag.
    pub integrity_failed: u32,
}

/// The anti-replay service: its window and where it stands (RFC 4303, 3.4.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Packets that the window reaches back; 0 without the service.
    pub window: u32,
    /// The last sequence number that was sent; 64 bits with ESN.
    pub sent: u64,
    /// The highest one that came and was good.
    pub received: u64,
    /// Which came, as the kernel keeps it: 32 a word.
    pub bitmap: Vec<u32>,
}

/// Bits of `xfrm_usersa_info.flags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// The outer header allows fragments.
    pub const NO_PMTU_DISC: Self = Self(4);
    /// Packets of both families (`XFRM_STATE_AF_UNSPEC`).
    pub const ANY_FAMILY: Self = Self(32);
    /// Sequence numbers have 64 bits (RFC 4303, 2.2.1).
    pub const ESN: Self = Self(128);

    /// Whether all of these are set.
    #[must_use]
    pub const fn has(self, these: Self) -> bool {
        self.0 & these.0 == these.0
    }
}

/// Bits of `XFRMA_SA_EXTRA_FLAGS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtraFlags(pub u32);

impl ExtraFlags {
    /// The outer header's DSCP is not the inner one's.
    pub const DONT_ENCAP_DSCP: Self = Self(1);

    /// Whether all of these are set.
    #[must_use]
    pub const fn has(self, these: Self) -> bool {
        self.0 & these.0 == these.0
    }
}

/// A value and the bits of it that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The value.
    pub value: u32,
    /// The bits.
    pub mask: u32,
}

impl Mark {
    /// Whether something with this mark finds something that was asked for with `value`.
    #[must_use]
    pub const fn admits(self, value: u32) -> bool {
        value & self.mask == self.value
    }
}

/// A security association, as a daemon installs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityAssociation {
    /// What identifies it.
    pub id: AssociationId,
    /// Where its packets come from.
    pub source: IpAddr,
    /// How packets are wrapped.
    pub mode: Mode,
    /// The number that policies name it by; 0 for none.
    pub reqid: u32,
    /// The number of the acquire that it answers; 0 for none.
    pub acquire: u32,
    /// None in a larval association, which is an SPI that was given out.
    pub algorithms: Option<Algorithms>,
    /// The anti-replay service.
    pub replay: Replay,
    /// UDP encapsulation.
    pub encapsulation: Option<Encapsulation>,
    /// How long it lives.
    pub lifetimes: Lifetimes,
    /// What it does with headers.
    pub flags: Flags,
    /// More of that.
    pub extra_flags: ExtraFlags,
    /// Which packets it is for.
    pub selector: Selector,
    /// Which marks find it.
    pub mark: Option<Mark>,
    /// What its packets are marked with.
    pub output_mark: Option<Mark>,
    /// The XFRM interface it belongs to; 0 for none.
    pub if_id: u32,
    /// Packets are padded to this many bytes (RFC 4303, 2.7); 0 for none.
    pub tfc_padding: u32,
    /// Which way its packets go, if the daemon says so.
    pub direction: Option<SaDirection>,
    /// Seconds between keepalives (RFC 3948, 2.3) that the kernel would send; 0 for none.
    pub nat_keepalive_seconds: u32,
}

impl SecurityAssociation {
    /// Whether sequence numbers have 64 bits.
    #[must_use]
    pub fn esn(&self) -> bool {
        self.flags.has(Flags::ESN)
    }
}

/// An association with what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssociationState {
    /// The association; its replay service stands where it is now.
    pub association: SecurityAssociation,
    /// What it has carried.
    pub counters: Counters,
    /// What it has dropped.
    pub statistics: Statistics,
    /// When it last carried a packet: seconds since 1970.
    pub last_used: Option<u64>,
}

/// An association that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssociationKey {
    /// What identifies it.
    pub id: AssociationId,
    /// The mark that has to find it.
    pub mark: Mark,
}

/// Associations that a listing is confined to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// The protocol; 0 for any.
    pub protocol: u8,
    /// Prefixes of source and destination.
    pub addresses: Option<(crate::Prefix, crate::Prefix)>,
}

impl ListFilter {
    /// Whether an association is to be listed.
    #[must_use]
    pub fn admits(&self, association: &SecurityAssociation) -> bool {
        (self.protocol == 0 || self.protocol == association.id.protocol)
            && self.addresses.is_none_or(|(source, destination)| {
                source.contains(association.source) && destination.contains(association.id.destination)
            })
    }
}

/// A number for packets to come, asked for (`XFRM_MSG_ALLOCSPI`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpiRequest {
    /// The larval association as it shall be; its SPI is 0, and it has no algorithms.
    pub association: SecurityAssociation,
    /// The smallest SPI.
    pub min: u32,
    /// The greatest.
    pub max: u32,
}

/// A replay service that is set (`XFRM_MSG_NEWAE`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayUpdate {
    /// Whose.
    pub key: AssociationKey,
    /// Where it stands; its window is 0 where the message has none (`XFRMA_REPLAY_VAL`).
    pub replay: Option<Replay>,
    /// What was counted.
    pub counters: Option<Counters>,
}
